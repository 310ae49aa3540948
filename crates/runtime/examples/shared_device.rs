//! Runs kernels of the runtime on a device and on buffers that the program opened through wgpu.
//!
//! `cargo run --example shared_device -p dapple-runtime`

use dapple_runtime::{CommandList, Defines, Gpu, GpuOptions, Groups, Kernel, ShaderSet, wgpu};

const DOUBLE: &str = "
    @group(0) @binding(0) var<storage, read_write> values: array<u32>;
    @compute @workgroup_size(64)
    fn double(@builtin(global_invocation_id) id: vec3u) {
        if id.x < arrayLength(&values) {
            values[id.x] *= 2u;
        }
    }";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A program with a window or its own renderer already has an adapter, a device and a queue.
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    let adapter = adapters.first().ok_or("no GPU driver answers")?;
    let (features, limits) = Gpu::needs(adapter);
    let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
        required_features: features,
        required_limits: limits,
        ..wgpu::DeviceDescriptor::default()
    }))?;
    let values = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("values"),
        size: 256,
        usage: wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    queue.write_buffer(&values, 0, &[1; 256]);

    // The runtime uses the existing device.
    let gpu = Gpu::from_wgpu(adapter, device, queue, &GpuOptions::default())?;
    let set = ShaderSet::new(&[("double", DOUBLE)]);
    let kernel = Kernel::new(&gpu, &set, "double", "double", &Defines::new())?;
    let mut recording = CommandList::new();
    let bound = kernel.bind(&gpu, &[("values", &values)])?;
    recording.dispatch(bound, Groups::Direct([1, 1, 1]));
    recording.submit(&gpu, &[]);

    let found: Vec<u32> = gpu.read(&values, 64)?;
    println!("{}: {:#x}", gpu.device_name(), found[0]);
    Ok(())
}
