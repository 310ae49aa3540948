//! Tests of batched submissions: results are as if each command list had its own submission.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_runtime::{ByteSlice, CommandList, Gpu, Groups, Kernel, wgpu};
use support::{adapter, gpu, opened, options, recording};

/// Doubles `values` and adds 1, so that results depend on the order of runs and writes.
const DOUBLE: &str = "
    @group(0) @binding(0) var<storage, read_write> values: array<u32>;
    @compute @workgroup_size(64)
    fn double(@builtin(global_invocation_id) id: vec3u) {
        values[id.x] = 2u * values[id.x] + 1u;
    }";

fn doubling(gpu: &Gpu, values: &wgpu::Buffer) -> CommandList {
    let kernel = Kernel::from_wgsl(gpu, "double", DOUBLE, "double").unwrap();
    let mut recording = CommandList::new();
    let bound = kernel.bind(gpu, &[("values", values)]).unwrap();
    recording.dispatch(bound, Groups::flat(1));
    recording
}

#[test]
fn many_share_few_submissions_and_nothing_is_lost() {
    let gpu = gpu();
    let values = gpu.upload("values", &[0_u32; 64]).unwrap();
    let step = recording(&gpu, "count", &values, 1);
    let before = gpu.counters();
    for _ in 0..1000 {
        step.submit_batched(&gpu);
    }
    assert_eq!(gpu.read::<u32>(&values, 64).unwrap(), [1000; 64]);
    let done = gpu.counters() - before;
    assert_eq!(done.dispatches, 1000);
    // Batched, unless this thread paused for a millisecond between them.
    assert!(done.submissions < 500, "{}", done.submissions);
}

#[test]
fn copies_come_between_dispatches() {
    let gpu = gpu();
    let values = gpu.upload("values", &[0_u32; 64]).unwrap();
    let copy = gpu.upload("copy", &[0_u32; 64]).unwrap();
    let mut step = recording(&gpu, "count", &values, 1);
    step.copy(
        ByteSlice::from(&values).part(0, 256).unwrap(),
        ByteSlice::from(&copy).part(0, 256).unwrap(),
    )
    .unwrap();
    step.append(recording(&gpu, "count", &values, 1));
    (0..100).for_each(|_| step.submit_batched(&gpu));
    assert_eq!(gpu.read::<u32>(&copy, 64).unwrap(), [199; 64]);
    assert_eq!(gpu.read::<u32>(&values, 64).unwrap(), [200; 64]);
}

#[test]
fn one_that_comes_alone_is_submitted_at_once() {
    let gpu = gpu();
    let values = gpu.upload("values", &[0_u32; 64]).unwrap();
    let step = recording(&gpu, "count", &values, 1);
    for burst in [0, 3, 20] {
        // For any number of command lists before, and of pending ones.
        (0..burst).for_each(|_| step.submit_batched(&gpu));
        std::thread::sleep(std::time::Duration::from_millis(5));
        let before = gpu.counters();
        step.submit_batched(&gpu);
        assert_eq!((gpu.counters() - before).submissions, 1);
    }
    step.submit_batched(&gpu);
    assert_eq!(gpu.read::<u32>(&values, 1).unwrap(), [3 + 23 + 1]);
}

#[test]
fn everything_else_comes_in_the_order_of_the_calls() {
    let gpu = gpu();
    let values = gpu.upload("values", &[0_u32; 64]).unwrap();
    let other = gpu.upload("other", &[0_u32; 64]).unwrap();
    let double = doubling(&gpu, &values);
    // Bursts of different lengths end in the middle of a submission.
    let mut expected = 0_u32;
    let run = |times: u32, expected: &mut u32| {
        for _ in 0..times {
            double.submit_batched(&gpu);
            *expected = expected.wrapping_mul(2).wrapping_add(1);
        }
    };
    for round in 1..8 {
        // A write, an upload that began before, another submission, a read, a flush, each after some and before others.
        run(round, &mut expected);
        let mut copy = gpu.encoder();
        copy.copy_buffer_to_buffer(&values, 0, &other, 0, 256);
        run(round, &mut expected);
        gpu.submit(copy);
        let seen = expected;
        run(5, &mut expected);
        gpu.write(&values, 0, &[round; 64]);
        expected = round;
        run(round, &mut expected);
        assert_eq!(gpu.read::<u32>(&other, 64).unwrap(), [seen; 64], "{round}");
        let mut upload = gpu.begin_upload(&values, 0, 256).unwrap();
        upload.put(&[7_u32; 64]);
        run(3 + round, &mut expected);
        let mut copy = gpu.encoder();
        copy.copy_buffer_to_buffer(&values, 0, &other, 0, 256);
        let seen = expected;
        gpu.queue().submit([copy.finish()]);
        run(3 + round, &mut expected);
        upload.finish();
        expected = 7;
        run(round, &mut expected);
        gpu.flush();
        run(1, &mut expected);
        assert_eq!(gpu.read::<u32>(&other, 64).unwrap(), [seen; 64], "{round}");
        assert_eq!(gpu.read::<u32>(&values, 64).unwrap(), [expected; 64]);
    }
}

#[test]
fn on_a_device_of_somebody_else_each_is_submitted_at_once() {
    let adapter = adapter();
    let (features, limits) = Gpu::needs(&adapter);
    let (adapter, device, queue) = opened(features, limits);
    let gpu = Gpu::from_wgpu(&adapter, device, queue, &options()).unwrap();
    let values = gpu.upload("values", &[0_u32; 64]).unwrap();
    let step = recording(&gpu, "count", &values, 1);
    let before = gpu.counters();
    (0..10).for_each(|_| step.submit_batched(&gpu));
    assert_eq!((gpu.counters() - before).submissions, 10);
}
