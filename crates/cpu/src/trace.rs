//! Trace of a step: its intermediate results in the form in which engines are compared.

use crate::frame::{CameraF32, Frame, tiled};
use crate::simd::{ROW, Row};
use dapple_engine::{Trace, TracedSplat};
use std::sync::atomic::Ordering::Relaxed;

/// Converts the part of a trace that a frame holds: all but the loss and the results of `update`.
pub fn of_frame(camera: &CameraF32, frame: &Frame) -> Trace {
    let gaussians = frame.counts.gaussians as usize;
    let visible = frame.counts.visible as usize;
    let instances = frame.counts.instances as usize;
    let places = &frame.instance_slot[..instances];
    let gaussian_at = |place: u32| frame.slot_gaussian[place as usize].load(Relaxed);
    let mut sorted = vec![0; instances];
    for (instance, &place) in (0..).zip(places) {
        sorted[place as usize] = instance;
    }
    let bounds = frame.tile_starts[..=camera.tile_count()].windows(2);
    Trace {
        projected: projected(frame, gaussians),
        order: frame.order[..visible]
            .iter()
            .map(|key| key.load(Relaxed) as u32)
            .collect(),
        instances: places
            .iter()
            .zip(&frame.instance_tile)
            .map(|(&place, &tile)| [gaussian_at(place), tile])
            .collect(),
        sorted,
        tiles: bounds
            .map(|b| (b[0]..b[1]).map(gaussian_at).collect())
            .collect(),
        image: by_pixel(camera, &frame.image),
        image_gradient: by_pixel(camera, &frame.image_gradient),
        slots: places
            .iter()
            .map(|&place| frame.slots[place as usize])
            .collect(),
        ..Trace::default()
    }
}

fn projected(frame: &Frame, gaussians: usize) -> Vec<TracedSplat> {
    let all = (0..gaussians).zip(&frame.splats2d).zip(&frame.spans_of);
    all.filter(|(_, spans)| spans.tiles > 0)
        .map(|((gaussian, splat), spans)| TracedSplat {
            gaussian: gaussian as u32,
            mean2d: splat.mean,
            form: [splat.a, splat.b, splat.c],
            log2_opacity: splat.log2_opacity,
            rgb: splat.rgb,
            depth: splat.depth,
            radius: splat.radius,
            tiles: spans.tiles,
        })
        .collect()
}

/// Converts a tiled image to rows of pixels.
fn by_pixel(camera: &CameraF32, rows: &[Row]) -> Vec<[f32; 4]> {
    let [width, height] = camera.size.map(|v| v as usize);
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    pixels
        .map(|(x, y)| {
            let (row, lane) = tiled(camera, x, y);
            [0, 1, 2, 3].map(|plane| rows[row + plane * ROW].0[lane])
        })
        .collect()
}
