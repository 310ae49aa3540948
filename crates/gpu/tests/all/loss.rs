//! `loss` and `report` against the `f64` reference, on images of every awkward size.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_engine::noise;
use dapple_gpu::layout::{self, State, Step, View};
use dapple_gpu::passes::Bits;
use dapple_gpu::stages::loss::{self, MAPS};
use dapple_gpu::stages::report;
use dapple_gpu::{Buffers, Context, Recorder};
use dapple_reference as reference;
use dapple_runtime::wgpu;
use dapple_scene::Photo;
use support::{context, groups, relative_l2};

const BACKGROUND: [f32; 3] = [0.2, 0.9, 0.5];
const RADIUS: usize = 5;
/// Entry of the report, in a ring buffer of four.
const ENTRY: u32 = 2;

/// A render, the photo that it is compared with, and the settings.
struct Case {
    image: Vec<[f32; 4]>,
    photo: Photo,
    ssim_weight: f32,
}

/// Returns numbers in 0..1 without a pattern.
fn uniform(seed: u32, i: usize) -> f32 {
    let bits = noise::pcg(noise::pcg(seed) ^ i as u32);
    (bits >> 8) as f32 / (1 << 24) as f32
}

fn byte(seed: u32, i: usize) -> u8 {
    (uniform(seed, i) * 256.0) as u8
}

impl Case {
    fn random(width: usize, height: usize, ssim_weight: f32) -> Self {
        let pixels = width * height;
        let rgb = (0..pixels * 3).map(|i| byte(1, i)).collect();
        let value = |i: usize| uniform(2, i) * 1.2 - 0.1;
        Self {
            image: (0..pixels)
                .map(|p| [value(3 * p), value(3 * p + 1), value(3 * p + 2), 0.3])
                .collect(),
            photo: Photo::from_rgb(width as u32, height as u32, rgb),
            ssim_weight,
        }
    }

    /// Makes the render similar to the photo, like after some training.
    fn near(mut self) -> Self {
        for (pixel, rgb) in self.image.iter_mut().zip(self.photo.rgb.chunks_exact(3)) {
            for (value, &byte) in pixel.iter_mut().zip(rgb) {
                *value = f32::from(byte) / 255.0 + (*value - 0.5) * 0.1;
            }
        }
        self
    }

    fn with_mask(mut self, counts: impl Fn(usize, usize) -> bool) -> Self {
        let width = self.photo.width as usize;
        let value = |p| {
            if counts(p % width, p / width) {
                128
            } else {
                127
            }
        };
        self.photo.mask = Some((0..self.image.len()).map(value).collect());
        self
    }

    fn with_alpha(mut self) -> Self {
        self.photo.alpha = Some((0..self.image.len()).map(|p| byte(3, p)).collect());
        self
    }

    fn size(&self) -> [usize; 2] {
        [self.photo.width as usize, self.photo.height as usize]
    }

    fn counts(&self, pixel: usize) -> bool {
        self.photo
            .mask
            .as_ref()
            .is_none_or(|mask| mask[pixel] >= 128)
    }

    fn view(&self) -> View {
        let [width, height] = self.size();
        let whole = |at: usize, size: usize| at >= RADIUS && at + RADIUS < size;
        let counted = || (0..width * height).filter(|&p| self.counts(p));
        View {
            size: [width as u32, height as u32],
            tiles: [width.div_ceil(16) as u32, height.div_ceil(16) as u32],
            counted_pixels: counted().count() as u32,
            counted_windows: counted()
                .filter(|p| whole(p % width, width) && whole(p / width, height))
                .count() as u32,
            ..View::default()
        }
    }

    /// Returns RGBA8 of every pixel, then the mask's bits.
    fn photo_words(&self) -> Vec<u32> {
        let alpha = |p: usize| self.photo.alpha.as_ref().map_or(255, |a| a[p]);
        let rgb = self.photo.rgb.chunks_exact(3).enumerate();
        let mut words: Vec<u32> = rgb
            .map(|(p, rgb)| u32::from_le_bytes([rgb[0], rgb[1], rgb[2], alpha(p)]))
            .collect();
        if self.photo.mask.is_some() {
            let pixels: Vec<usize> = (0..self.image.len()).collect();
            words.extend(pixels.chunks(32).map(|chunk| {
                let bits = chunk.iter().enumerate();
                bits.fold(0, |word, (i, &p)| word | u32::from(self.counts(p)) << i)
            }));
        }
        words
    }

    fn reference(&self) -> (f64, Vec<f64>) {
        let [width, height] = self.size();
        let rgb = self.image.iter().flat_map(|p| &p[..3]);
        reference::loss(
            &rgb.map(|&v| f64::from(v)).collect::<Vec<_>>(),
            &reference::photo_target(&self.photo, BACKGROUND),
            width,
            height,
            reference::photo_mask(&self.photo).as_deref(),
            f64::from(self.ssim_weight),
        )
    }
}

/// Runs both stages; returns report and gradient.
fn run(context: &Context, case: &Case) -> (layout::Report, Vec<[f32; 4]>) {
    let gpu = &context.gpu;
    let view = case.view();
    let pixels = case.image.len();
    let tiles = view.tiles[0] * view.tiles[1];
    let indirect =
        wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::INDIRECT | wgpu::BufferUsages::COPY_DST;
    let entries = gpu
        .buffer_with("groups", groups::count() * groups::BYTES, indirect)
        .unwrap();
    // More workgroups than tiles, in two dimensions: the last ones must find nothing to do.
    let dispatch = [tiles.div_ceil(2), 3, 1, 0];
    gpu.write(&entries, groups::offset(groups::PIXELS), &dispatch);
    // Earlier contents of a buffer must not matter.
    let dirty =
        |name: &'static str, floats: usize| gpu.upload(name, &vec![f32::NAN; floats]).unwrap();
    let mut buffers = Buffers::default();
    buffers.set("groups", entries);
    // The view is the second of two.
    buffers.set(
        "views",
        gpu.upload("views", &[View::default(), view]).unwrap(),
    );
    buffers.set(
        "state",
        gpu.upload(
            "state",
            &[State {
                visible: 7,
                ..State::default()
            }],
        )
        .unwrap(),
    );
    buffers.set("image", gpu.upload("image", &case.image).unwrap());
    buffers.set("photo", gpu.upload("photo", &case.photo_words()).unwrap());
    buffers.set("ssim_maps", dirty("ssim_maps", MAPS as usize * pixels));
    buffers.set("image_gradient", dirty("image_gradient", 4 * pixels));
    buffers.set("loss_partials", dirty("loss_partials", tiles as usize));
    buffers.set(
        "reports",
        gpu.upload("reports", &[layout::Report::default(); 4])
            .unwrap(),
    );

    let mut recorder = Recorder::new(context, &buffers, Bits::NONE);
    recorder.pass(&loss::PASS).unwrap();
    recorder.pass(&report::PASS).unwrap();
    let recording = recorder.finish();
    let step = Step {
        view: 1,
        number: 11,
        flags: if case.photo.mask.is_some() {
            layout::FLAG_MASK
        } else {
            0
        },
        background: BACKGROUND,
        ssim_weight: case.ssim_weight,
        report: ENTRY,
        ..Step::default()
    };
    recording.submit(gpu, bytemuck::bytes_of(&step));
    let reports: Vec<layout::Report> = gpu.read(buffers.get("reports").unwrap(), 4).unwrap();
    let gradient = gpu
        .read(buffers.get("image_gradient").unwrap(), pixels)
        .unwrap();
    (reports[ENTRY as usize], gradient)
}

/// Largest rounding error of SSIM where nothing varies: a filtered square of 1/4 is good to a few
/// times `2^-26`, and the remaining variance is compared with C2, `9e-4`.
const FLAT: f64 = 1e-4;

/// Checks the loss within `1e-5`, the gradient within a relative L2 of `1e-4`.
fn check(context: &Context, name: &str, case: &Case) {
    check_within(context, name, case, 0.0);
}

/// [`check`], with an error of SSIM up to `flat`, and the same error of its gradient relative to
/// L1's.
fn check_within(context: &Context, name: &str, case: &Case, flat: f64) {
    let (report, gradient) = run(context, case);
    let (loss, expected) = case.reference();
    let error = (f64::from(report.loss) - loss).abs();
    let most = 1e-5 * loss.max(1e-1) + f64::from(case.ssim_weight) * flat;
    assert!(error <= most, "{name}: loss {} for {loss}", report.loss);
    let rgb: Vec<f32> = gradient.iter().flat_map(|p| &p[..3]).copied().collect();
    let error = relative_l2(&rgb, &expected);
    assert!(error <= 1e-4 + flat, "{name}: gradient off by {error:e}");
    assert!(gradient.iter().all(|p| p[3] == 0.0), "{name}: dL/dT");
}

const SIZES: [[usize; 2]; 10] = [
    [1, 1],
    [10, 40],
    [40, 10],
    [11, 11],
    [16, 16],
    [17, 33],
    [64, 48],
    [130, 70],
    [12, 300],
    [300, 12],
];

#[test]
fn loss_and_gradient_are_the_reference_s() {
    require_gpu!();
    let context = context();
    for [width, height] in SIZES {
        for weight in [0.0, 0.2, 1.0] {
            let name = format!("{width}x{height}, SSIM {weight}");
            let case = Case::random(width, height, weight);
            check(&context, &name, &case);
            check(&context, &format!("{name}, near"), &case.near());
        }
    }
}

#[test]
fn masks_and_transparent_photos_are_the_reference_s() {
    require_gpu!();
    let context = context();
    for [width, height] in SIZES {
        let name = format!("{width}x{height}");
        let case = || Case::random(width, height, 0.2);
        let some = |x: usize, y: usize| uniform(4, y * width + x) < 0.6;
        check(&context, &format!("{name}, alpha"), &case().with_alpha());
        check(&context, &format!("{name}, mask"), &case().with_mask(some));
        check(
            &context,
            &format!("{name}, both"),
            &case().with_alpha().with_mask(some),
        );
        check(
            &context,
            &format!("{name}, all masked"),
            &case().with_mask(|_, _| false),
        );
        // Pixels that count, but no window centred at one.
        let edge = |x: usize, y: usize| x.min(y) < RADIUS;
        check(&context, &format!("{name}, edge"), &case().with_mask(edge));
    }
}

#[test]
fn equal_images_lose_nothing() {
    require_gpu!();
    let context = context();
    for weight in [0.0, 0.2, 1.0] {
        for constant in [None, Some(0), Some(128), Some(255)] {
            let mut case = Case::random(50, 40, weight);
            if let Some(byte) = constant {
                case.photo.rgb.fill(byte);
            }
            for (pixel, rgb) in case.image.iter_mut().zip(case.photo.rgb.chunks_exact(3)) {
                *pixel = [rgb[0], rgb[1], rgb[2], 0].map(|b| f32::from(b) * (1.0 / 255.0));
            }
            let (report, gradient) = run(&context, &case);
            assert!(
                f64::from(report.loss.abs()) <= f64::from(weight) * FLAT,
                "{weight} {constant:?}: {}",
                report.loss
            );
            // L1 has no sign at 0. SSIM's part is at most the rounding error of one window's weight
            // times its steepest derivative, that of the structure term in a flat window: 2 / C2.
            let most = f64::from(weight) / (3.0 * 40.0 * 30.0) * 2.0 / 9e-4 * 1e-5;
            let largest = gradient
                .iter()
                .flatten()
                .fold(0.0, |m: f32, v| m.max(v.abs()));
            assert!(
                f64::from(largest) <= most,
                "{weight} {constant:?}: {largest:e} {most:e}"
            );
        }
    }
}

#[test]
fn constant_images_are_the_reference_s() {
    require_gpu!();
    let context = context();
    for (value, byte) in [(0.0, 255), (1.0, 0), (0.3, 80), (1.0, 250)] {
        let mut case = Case::random(45, 37, 0.2);
        case.photo.rgb.fill(byte);
        case.image.fill([value, value, value, 0.0]);
        check_within(&context, &format!("{value} for {byte}"), &case, FLAT);
    }
}

#[test]
fn two_runs_give_the_same_bits() {
    require_gpu!();
    let context = context();
    let case = Case::random(130, 70, 0.2);
    let bits = || {
        let (report, gradient) = run(&context, &case);
        let gradient: Vec<u32> = gradient.iter().flatten().map(|v| v.to_bits()).collect();
        (report.loss.to_bits(), gradient)
    };
    assert_eq!(bits(), bits());
}

/// Runs one of `report`'s entries over `partials` for a view with this number of tiles.
fn reported(
    context: &Context,
    state: State,
    partials: &[f32],
    densify: bool,
) -> Vec<layout::Report> {
    let gpu = &context.gpu;
    let view = View {
        tiles: [partials.len() as u32, 1],
        ..View::default()
    };
    let mut buffers = Buffers::default();
    buffers.set("views", gpu.upload("views", &[view]).unwrap());
    buffers.set("state", gpu.upload("state", &[state]).unwrap());
    buffers.set(
        "loss_partials",
        gpu.upload("loss_partials", partials).unwrap(),
    );
    buffers.set(
        "reports",
        gpu.upload("reports", &[layout::Report::default(); 4])
            .unwrap(),
    );
    let mut recorder = Recorder::new(context, &buffers, Bits::NONE);
    let pass = match densify {
        true => &report::ROUND,
        false => &report::PASS,
    };
    recorder.pass(pass).unwrap();
    let recording = recorder.finish();
    let step = Step {
        number: 30,
        report: ENTRY,
        ..Step::default()
    };
    recording.submit(gpu, bytemuck::bytes_of(&step));
    gpu.read(buffers.get("reports").unwrap(), 4).unwrap()
}

#[test]
fn parts_of_the_loss_sum_as_in_f64() {
    require_gpu!();
    let context = context();
    for tiles in [1, 2, 255, 256, 257, 1023, 1025, 8160, 32_400, 100_001] {
        let partials: Vec<f32> = (0..tiles).map(|i| uniform(5, i) * 1e-4).collect();
        let expected: f64 = partials.iter().map(|&v| f64::from(v)).sum();
        let loss = reported(&context, State::default(), &partials, false)[ENTRY as usize].loss;
        let error = (f64::from(loss) / expected - 1.0).abs();
        assert!(error <= 4e-7, "{tiles}: off by {error:e}");
    }
}

#[test]
fn reports_say_what_the_state_says() {
    require_gpu!();
    let context = context();
    let state = State {
        gaussians: 1,
        capacity: 2,
        visible: 3,
        instances: 4,
        buckets: 5,
        visible_capacity: 17,
        instance_capacity: 6,
        bucket_capacity: 7,
        halted: 0,
        wanted: 8,
        max_per_tile: 9,
        cut_instances: 10,
        lost_transmittance: 0.25f32.to_bits(),
        cloned: 12,
        split: 13,
        pruned: 14,
        refused: 15,
        relocated: 16,
        added: 18,
        first: 0,
        block: 0,
        skipped: 0,
        others: 0,
        kept: 0,
        kept_end: 0,
        sky: 0,
    };
    let expected = layout::Report {
        kind: layout::REPORT_STEP,
        number: 30,
        view: 0,
        loss: 0.75,
        gaussians: 1,
        visible: 3,
        instances: 4,
        buckets: 5,
        tiles: 2,
        max_per_tile: 9,
        cut_instances: 10,
        lost_transmittance: 0.25,
        halted: 0,
        wanted: 8,
        cloned: 12,
        split: 13,
        pruned: 14,
        refused: 15,
        relocated: 16,
        added: 18,
        broken: 0,
        broken_tensors: 0,
        pad: [0; 2],
    };
    let none = layout::Report::default();
    let ring = |entry| vec![none, none, entry, none];
    assert_eq!(
        reported(&context, state, &[0.25, 0.5], false),
        ring(expected)
    );
    let halted = State {
        halted: layout::HALT_BUCKETS,
        ..state
    };
    let stopped = layout::Report {
        halted: layout::HALT_BUCKETS,
        loss: 0.0,
        ..expected
    };
    assert_eq!(
        reported(&context, halted, &[0.25, 0.5], false),
        ring(stopped)
    );
    let densified = layout::Report {
        kind: layout::REPORT_DENSIFY,
        loss: 0.0,
        tiles: 0,
        ..expected
    };
    assert_eq!(
        reported(&context, state, &[0.25, 0.5], true),
        ring(densified)
    );
}
