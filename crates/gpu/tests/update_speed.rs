//! How fast `update` is: bytes of parameters and moments over time. Not a test of anything: run it by name, in
//! release, on a real GPU: `cargo test --release --test update_speed -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use dapple_engine::scenes::Random;
use dapple_gpu::layout::{self, Step};
use dapple_gpu::{Buffers, Context, Precision, Storage, stages};
use dapple_runtime::{Choice, Gpu, GpuOptions, Recording};
use std::time::Instant;

const GAUSSIANS: usize = 2_800_000;
const REPEATS: usize = 20;

/// Milliseconds of one of `REPEATS` runs of `work` in one submission; median of nine submissions.
fn time(gpu: &Gpu, mut work: impl FnMut()) -> f64 {
    let mut once = || {
        let start = Instant::now();
        work();
        gpu.wait().unwrap();
        start.elapsed().as_secs_f64() * 1e3 / REPEATS as f64
    };
    // A GPU that has waited for the host needs a while to raise its clocks.
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < 0.5 {
        once();
    }
    let mut times: Vec<f64> = (0..9).map(|_| once()).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Slots of a Gaussian: `visible` of them are in sight, mostly small.
fn counts(visible: f64) -> Vec<u32> {
    let mut random = Random::new(1);
    let count = |_| {
        if random.uniform(0.0, 1.0) > visible {
            return 0;
        }
        // Small for most, a long tail: about 5 on average.
        let size = random.uniform(0.0, 1.0).powf(-0.7);
        (size * 2.0).min(6000.0) as u32
    };
    (0..GAUSSIANS).map(count).collect()
}

fn buffers(context: &Context, precision: Precision, visible: f64, sh_degree: u8) -> Buffers {
    let gpu = &context.gpu;
    let mut out = Buffers::default();
    let n = GAUSSIANS as u64;
    let rest = (u32::from(sh_degree) + 1).pow(2) * 3 - 3;
    let mut add = |name, words: u64| out.set(name, gpu.buffer(name, 4 * words).unwrap());
    add("sh_rest", n * u64::from(precision.sh.words(rest)));
    add(
        "geometry_moments",
        2 * n * u64::from(precision.moments.words(14)),
    );
    add("sh_first", n * u64::from(precision.moments.words(rest)));
    add("sh_second", n * u64::from(precision.moments.words(rest)));
    add("stats", 2 * n);
    let state = layout::State {
        gaussians: GAUSSIANS as u32,
        capacity: GAUSSIANS as u32,
        ..layout::State::default()
    };
    out.set("state", gpu.upload("state", &[state]).unwrap());
    let view = layout::View {
        rows: [
            [1.0, 0.0, 0.0, 0.0],
            [0.0, 1.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 4.0],
        ],
        centre: [0.0, 0.0, -4.0, 0.0],
        focal: [1000.0; 2],
        principal: [960.0, 540.0],
        jacobian_min: [-1.3; 2],
        jacobian_max: [1.3; 2],
        size: [1920, 1080],
        ..layout::View::default()
    };
    out.set("views", gpu.upload("views", &[view]).unwrap());
    let mut random = Random::new(2);
    let mut geometry = vec![0.0f32; 14 * GAUSSIANS];
    for (i, value) in geometry.iter_mut().enumerate() {
        let plane = i / GAUSSIANS;
        let centre = if (3..6).contains(&plane) { -4.0 } else { 0.0 };
        *value = (centre + random.uniform(-1.0, 1.0)) as f32;
    }
    out.set("geometry", gpu.upload("geometry", &geometry).unwrap());
    let counts = counts(visible);
    let instances: u64 = counts.iter().map(|&c| u64::from(c)).sum();
    let seen = counts.iter().filter(|&&c| c > 0).count();
    let large = counts.iter().filter(|&&c| c > 16).count();
    println!("  {seen} visible, {large} large, {instances} instances");
    // Slots lie in depth order: no order at all by Gaussian.
    let mut starts = vec![0u32; GAUSSIANS];
    let mut next = 0;
    for i in random.permutation(GAUSSIANS) {
        starts[i] = next;
        next += counts[i];
    }
    out.set(
        "tiles_touched",
        gpu.upload("tiles_touched", &counts).unwrap(),
    );
    out.set("slot_start", gpu.upload("slot_start", &starts).unwrap());
    let slots: Vec<f32> = (0..9 * instances as usize)
        .map(|i| (i % 13) as f32 * 1e-6)
        .collect();
    out.set("slots", gpu.upload("slots", &slots).unwrap());
    let splats2d = vec![0.5f32; 12 * GAUSSIANS];
    out.set("splats2d", gpu.upload("splats2d", &splats2d).unwrap());
    let usage =
        dapple_runtime::wgpu::BufferUsages::INDIRECT | dapple_runtime::wgpu::BufferUsages::COPY_DST;
    let groups = gpu.buffer_with("groups", 512, usage).unwrap();
    gpu.write(&groups, 0, &[(GAUSSIANS as u32).div_ceil(256), 1, 1, 0]);
    out.set("groups", groups);
    out
}

#[test]
#[ignore = "a measurement"]
fn update_bandwidth() {
    let choice = std::env::var("DAPPLE_TEST_GPU").map_or(Choice::Auto, |c| c.parse().unwrap());
    let gpu = Gpu::open(&GpuOptions {
        choice,
        ..GpuOptions::default()
    })
    .unwrap();
    let mut context = Context::new(gpu.clone());
    println!("{}", gpu.device_name());
    let with = |sh, moments| Precision { sh, moments };
    use Storage::{Bf16, F16, F32};
    for (precision, visible, sh_degree) in [
        (with(F32, F32), 0.0, 3),
        (with(F32, F32), 0.4, 3),
        (with(F32, F32), 0.9, 3),
        (with(F32, F32), 0.4, 0),
        (with(F16, F16), 0.4, 3),
        (with(Bf16, Bf16), 0.4, 3),
        (with(F32, Bf16), 0.4, 3),
    ] {
        context.defines = precision.define(layout::defines());
        let bytes = 2 * precision.bytes_per_gaussian(sh_degree) * GAUSSIANS as u64;
        let buffers = buffers(&context, precision, visible, sh_degree);
        let stage = stages::update::Update::new(&context).unwrap();
        let mut recording = Recording::new();
        for _ in 0..REPEATS {
            stage.record(&context, &buffers, &mut recording).unwrap();
        }
        let step = Step {
            number: 100,
            sh_degree: sh_degree.into(),
            rates: [1e-6; 6],
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-15,
            inverse_correction2: 10.0,
            ..Step::default()
        };
        let taken = time(&gpu, || recording.submit(&gpu, bytemuck::bytes_of(&step)));
        println!(
            "sh {} moments {} degree {sh_degree}: {taken:.3} ms, {:.2} TB/s of parameters and \
             moments",
            precision.sh,
            precision.moments,
            bytes as f64 * 1e-9 / taken
        );
    }
}
