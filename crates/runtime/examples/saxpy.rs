//! Minimal program on the runtime: computes `y = a x + y` on the first GPU.
//!
//! `cargo run --example saxpy -p dapple-runtime`

use dapple_runtime::{Choice, CommandList, Defines, Gpu, GpuOptions, Groups, Kernel, ShaderSet};

const SAXPY: &str = "
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    struct Step { a: f32 }
    var<immediate> step: Step;
    @compute @workgroup_size(256)
    fn saxpy(@builtin(global_invocation_id) id: vec3u) {
        if id.x < arrayLength(&y) {
            y[id.x] = step.a * x[id.x] + y[id.x];
        }
    }";

const COUNT: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Opens the first device of the list, which may be a software renderer.
    let gpu = Gpu::open(&GpuOptions {
        choice: Choice::Index(0),
        ..GpuOptions::default()
    })?;
    let xs: Vec<f32> = (0..COUNT).map(|i| i as f32).collect();
    let x = gpu.upload("x", &xs)?;
    let y = gpu.upload("y", &vec![1.0f32; COUNT])?;

    let set = ShaderSet::new(&[("saxpy", SAXPY)]);
    let kernel = Kernel::new(&gpu, &set, "saxpy", "saxpy", &Defines::new())?;
    let bound = kernel.bind(&gpu, &[("x", &x), ("y", &y)])?;
    let mut recording = CommandList::new();
    recording.dispatch(bound, Groups::Direct([(COUNT / 256) as u32, 1, 1]));

    // Recorded once and run twice, each time with another factor, without a wait between the runs.
    recording.submit(&gpu, bytemuck::bytes_of(&2.0f32));
    recording.submit(&gpu, bytemuck::bytes_of(&-1.0f32));
    let found: Vec<f32> = gpu.read(&y, COUNT)?;

    // 1 + 2 x - x.
    let wrong = found.iter().zip(&xs).filter(|(y, x)| **y != 1.0 + **x);
    println!(
        "{}: {} of {COUNT} are wrong",
        gpu.device_name(),
        wrong.count()
    );
    println!("{:?}", gpu.counters());
    Ok(())
}
