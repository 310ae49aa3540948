//! 8-bit renders, beyond the conformance tests: buffers that are too small, a training run around the renders, and
//! colours at the edge of two bytes.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support::{self, groups};

use dapple_engine::score::to_byte;
use dapple_engine::{Engine, EngineExt, RenderedBytes};
use dapple_gpu::layout::{Step, View};
use dapple_gpu::passes::Bits;
use dapple_gpu::passes::Capacity;
use dapple_gpu::stages::bytes::{BYTES, PASS};
use dapple_gpu::{Buffers, GpuEngine, GpuEngineOptions, Recorder};
use dapple_reference::scenes;
use dapple_runtime::wgpu;

fn engine(first_capacity: Capacity) -> GpuEngine {
    support::engine_on(GpuEngineOptions {
        gpu: support::options(false),
        first_capacity,
        ..GpuEngineOptions::default()
    })
}

#[test]
fn buffers_that_are_too_small_show_no_half_picture() {
    require_gpu!();
    let scene = scenes::named("crowd");
    let (camera, settings) = (&scene.camera, &scene.settings);
    let tiny = Capacity {
        visible: 7,
        instances: 64,
        ..Capacity::default()
    };
    let mut ample = engine(Capacity::default());
    ample.upload(&scene.splats, None).unwrap();
    let expected = RenderedBytes::from(&ample.render(camera, settings).unwrap());
    let counts = ample.blend_counts(camera, settings).unwrap();
    assert!(counts.most() > 10, "{}", counts.most());
    let mut small = engine(tiny);
    small.upload(&scene.splats, None).unwrap();
    assert_eq!(small.render_bytes(camera, settings).unwrap(), expected);
    let mut small = engine(tiny);
    small.upload(&scene.splats, None).unwrap();
    assert_eq!(small.blend_counts(camera, settings).unwrap(), counts);
}

#[test]
fn colours_at_the_edge_of_two_bytes_are_rounded_as_the_host_does() {
    require_gpu!();
    let context = support::context();
    let gpu = &context.gpu;
    // The floats around each edge, non-finite values, and both sides of 0 and 1.
    let edges = (0..=256).flat_map(|byte: u32| {
        let edge = ((byte as f32 - 0.5) / 255.0).to_bits() as i64;
        (-40..=40).map(move |step| f32::from_bits((edge + step) as u32))
    });
    let odd = [
        f32::NAN,
        f32::INFINITY,
        -f32::INFINITY,
        -1e-30,
        1.0,
        1.0 + 1e-6,
        -7.0,
    ];
    let mut values: Vec<f32> = edges.chain(odd).collect();
    while !values.len().is_multiple_of(3) {
        values.push(0.0);
    }
    let image: Vec<[f32; 4]> = values
        .chunks_exact(3)
        .map(|c| [c[0], c[1], c[2], 1.0 - c[0]])
        .collect();
    let pixels = image.len();
    let tiles = pixels.div_ceil(256) as u32;
    let mut buffers = Buffers::default();
    let usage =
        wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::INDIRECT | wgpu::BufferUsages::COPY_DST;
    let bytes = groups::count() * groups::BYTES;
    let entries = gpu.buffer_with("groups", bytes, usage).unwrap();
    gpu.write(&entries, groups::offset(groups::PIXELS), &[tiles, 1, 1, 0]);
    buffers.set("groups", entries);
    let view = View {
        size: [pixels as u32, 1],
        tiles: [tiles, 1],
        ..View::default()
    };
    buffers.set("views", gpu.upload("views", &[view]).unwrap());
    buffers.set("image", gpu.upload("image", &image).unwrap());
    let capacity = vec![0u32; pixels + 1];
    buffers.set(BYTES, gpu.upload(BYTES, &capacity).unwrap());
    let mut recorder = Recorder::new(&context, &buffers, Bits::BYTES);
    recorder.pass(&PASS).unwrap();
    let step = Step::default();
    recorder.finish().submit(gpu, bytemuck::bytes_of(&step));
    let found: Vec<u8> = gpu
        .read(buffers.get(BYTES).unwrap(), 4 * pixels + 4)
        .unwrap();
    let expected = image
        .iter()
        .flat_map(|&[r, g, b, rest]| [r, g, b, 1.0 - rest].map(to_byte));
    let expected: Vec<u8> = expected.chain([0; 4]).collect();
    let others: Vec<_> = (0..found.len())
        .filter(|&i| found[i] != expected[i])
        .collect();
    assert!(others.is_empty(), "{} bytes: {others:?}", others.len());
}
