//! Support for the tests of this crate: a device, and kernels to keep it busy.

#![allow(clippy::unwrap_used, dead_code, reason = "tests; each uses some of it")]

use dapple_runtime::{
    CommandList, Defines, Gpu, GpuOptions, Groups, Kernel, Overrides, ShaderSet, wgpu,
};
use std::sync::OnceLock;

/// Returns the options of the device of the tests.
pub fn options() -> GpuOptions {
    GpuOptions {
        choice: dapple_base::test_requirements::test_gpu().parse().unwrap(),
        validate: true,
        without_subgroups: false,
        ..GpuOptions::default()
    }
}

pub fn gpu() -> Gpu {
    // Fails without a driver; Mesa's driver needs no hardware.
    Gpu::open(&options()).unwrap()
}

/// Opens a device as if it had none of these features.
pub fn gpu_without(features: wgpu::Features) -> Gpu {
    let options = options();
    let overrides = Overrides {
        features: !features,
        ..Overrides::new(&options)
    };
    Gpu::open_with(&options, &overrides).unwrap()
}

const WORK: &str = "
    @group(0) @binding(0) var<storage, read_write> values: array<u32>;
    struct Step { rounds: u32 }
    var<immediate> step: Step;
    @compute @workgroup_size(64)
    fn work(@builtin(global_invocation_id) id: vec3u) {
        var x = values[id.x] + id.x;
        for (var i = 0u; i < step.rounds; i++) {
            x = x * 1664525u + 1013904223u;
        }
        values[id.x] = x;
    }
    @compute @workgroup_size(64)
    fn count(@builtin(global_invocation_id) id: vec3u) {
        values[id.x] += 1u;
    }";

pub fn kernel(gpu: &Gpu, entry: &str) -> Kernel {
    let set = ShaderSet::new(&[("work", WORK)]);
    Kernel::new(gpu, &set, "work", entry, &Defines::new()).unwrap()
}

/// Records `entry` over 64 values per group.
pub fn recording(gpu: &Gpu, entry: &str, values: &wgpu::Buffer, groups: u32) -> CommandList {
    let mut recording = CommandList::new();
    recording.span("work");
    let bound = kernel(gpu, entry).bind(gpu, &[("values", values)]).unwrap();
    recording.dispatch(bound, Groups::flat(groups));
    recording
}

/// Returns the immediates of `work`: rounds that last over 2^18 values, some 100 ms on a software renderer, some 20 ms
/// on a large GPU.
pub fn busy(gpu: &Gpu) -> [u8; 4] {
    let rounds: u32 = if gpu.report().is_software {
        2_000
    } else {
        200_000
    };
    rounds.to_le_bytes()
}

/// Submits work that lasts.
pub fn keep_busy(gpu: &Gpu, values: &wgpu::Buffer) {
    let groups = (values.size() / 4 / 64) as u32;
    recording(gpu, "work", values, groups).submit(gpu, &busy(gpu));
}

/// The adapter of the tests' device, from one instance for all tests: drivers that are unloaded while another thread
/// works with them crash or hang.
pub fn adapter() -> wgpu::Adapter {
    static INSTANCE: OnceLock<wgpu::Instance> = OnceLock::new();
    let name = gpu().report().name.clone();
    let adapters = dapple_runtime::with_drivers_alone(|| {
        let descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        let instance = INSTANCE.get_or_init(|| wgpu::Instance::new(descriptor));
        pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()))
    });
    let mut adapters = adapters.into_iter();
    adapters
        .find(|adapter| adapter.get_info().name == name)
        .unwrap()
}

/// Opens a device as another part of the program would, while no other device compiles.
pub fn opened(
    features: wgpu::Features,
    limits: wgpu::Limits,
) -> (wgpu::Adapter, wgpu::Device, wgpu::Queue) {
    let adapter = adapter();
    let request = adapter.request_device(&wgpu::DeviceDescriptor {
        required_features: features,
        required_limits: limits,
        ..wgpu::DeviceDescriptor::default()
    });
    let (device, queue) =
        dapple_runtime::with_drivers_alone(|| pollster::block_on(request)).unwrap();
    (adapter, device, queue)
}
