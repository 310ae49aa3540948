//! Tests of general features: parameters of a replay, commands in addition to dispatches, typed buffers with shared
//! ownership, awaited readbacks, requested features, and devices restricted to the limits of browsers.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_runtime::primitives::{Count, RadixSort, Scan, ScanOn, SortOn, radix_block};
use dapple_runtime::{
    BLOCKS, ByteSlice, CommandList, DeviceClass, DeviceRequirements, FeatureRequest, Gpu,
    GpuOptions, Groups, Kernel, PARAMETER_BYTES, Values,
};
use support::{gpu, keep_busy, options};

/// Opens a device with the limits of every browser.
fn browser() -> Gpu {
    let options = GpuOptions {
        class: DeviceClass::WebGpuDefault,
        ..options()
    };
    Gpu::open(&options).unwrap()
}

/// `y += a x`, with `a` from the values of a replay.
const SAXPY: &str = "
    struct Factor { a: f32 }
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    FROM factor: Factor;
    @compute @workgroup_size(64)
    fn saxpy(@builtin(global_invocation_id) id: vec3u) {
        if id.x < arrayLength(&y) { y[id.x] += factor.a * x[id.x]; }
    }";
const IMMEDIATE: &str = "var<immediate>";
const PARAMETER: &str = "@group(1) @binding(0) var<uniform>";

fn saxpy(gpu: &Gpu, from: &str) -> Kernel {
    Kernel::from_wgsl(gpu, "saxpy", &SAXPY.replace("FROM", from), "saxpy").unwrap()
}

fn values<'a>(immediates: &'a f32, parameters: &'a f32) -> Values<'a> {
    let (immediates, parameters) = (
        bytemuck::bytes_of(immediates),
        bytemuck::bytes_of(parameters),
    );
    Values::new(immediates, parameters).unwrap()
}

#[test]
fn saxpy_takes_its_factor_from_either_on_every_class_of_device() {
    for gpu in [gpu(), browser()] {
        let x = gpu.buffer_of("x", &[1.0f32, 2.0, 3.0]).unwrap();
        for (from, factors) in [(IMMEDIATE, [2.0f32, 0.5]), (PARAMETER, [3.0, 0.25])] {
            let y = gpu.buffer_of("y", &[10.0f32, 20.0, 30.0]).unwrap();
            let mut recording = CommandList::new();
            let slices = [("x", (&x).into()), ("y", (&y).into())];
            let bound = saxpy(&gpu, from).bind_slices(&gpu, &slices).unwrap();
            recording.dispatch(bound, Groups::flat(1));
            for factor in factors {
                recording.submit_with(&gpu, values(&factor, &factor));
            }
            let sum: f32 = factors.iter().sum();
            let expected = [1.0, 2.0, 3.0].map(|x| 10.0 * x + sum * x);
            assert_eq!(gpu.read_slice(&y.all()).unwrap(), expected, "{from}");
        }
    }
}

#[test]
fn replays_that_are_submitted_together_have_each_their_own_parameters() {
    let gpu = gpu();
    let x = gpu.buffer_of("x", &[1.0f32]).unwrap();
    let y = gpu.zeros::<f32>("y", 1).unwrap();
    let mut recording = CommandList::new();
    let slices = [("x", (&x).into()), ("y", (&y).into())];
    let bound = saxpy(&gpu, PARAMETER).bind_slices(&gpu, &slices).unwrap();
    recording.dispatch(bound, Groups::flat(1));
    // A whole ring buffer before the first submission, then as many blocks again.
    let mut expected = 0.0;
    for round in 0..2 {
        let mut encoder = gpu.encoder();
        for replay in 0..BLOCKS {
            let factor = (round * BLOCKS + replay) as f32;
            recording.encode_with(&mut encoder, values(&0.0, &factor));
            expected += factor;
        }
        gpu.submit(encoder);
    }
    assert_eq!(gpu.read_slice(&y.all()).unwrap(), [expected]);
    let too_much = [0u8; PARAMETER_BYTES + 1];
    assert!(Values::new(&[], &too_much).is_err());
    assert!(Values::new(&too_much, &[]).is_err());
}

#[test]
fn who_takes_no_parameters_writes_none() {
    let gpu = gpu();
    let x = gpu.buffer_of("x", &[1.0f32]).unwrap();
    let y = gpu.zeros::<f32>("y", 1).unwrap();
    for (from, copies) in [(IMMEDIATE, 0), (PARAMETER, 3)] {
        let mut recording = CommandList::new();
        let slices = [("x", (&x).into()), ("y", (&y).into())];
        let bound = saxpy(&gpu, from).bind_slices(&gpu, &slices).unwrap();
        recording.dispatch(bound, Groups::flat(1));
        let before = gpu.counters();
        for _ in 0..3 {
            recording.submit_with(&gpu, values(&1.0, &1.0));
        }
        let done = gpu.counters() - before;
        assert_eq!(
            (done.copies, done.buffers_created, done.waits),
            (copies, 0, 0),
            "{from}"
        );
    }
}

#[test]
fn a_browsers_device_sorts_and_scans() {
    let gpu = browser();
    let granted = gpu.granted();
    assert_eq!(
        (granted.storage_buffers, granted.workgroup_bytes),
        (8, 16 << 10)
    );
    assert_eq!((granted.immediate_bytes, granted.subgroup_size), (0, None));
    assert!(!granted.f16 && !granted.timestamps && !granted.cooperative_matrices);
    let count = 5000u32;
    let random = |i: u32| i.wrapping_mul(2_654_435_761).rotate_left(7) % 1000;
    let items: Vec<u32> = (0..count).map(random).collect();
    let counts = gpu.upload("count", &[count]).unwrap();
    let on_gpu = Count {
        buffer: &counts,
        word: 0,
    };
    let input = gpu.upload("input", &items).unwrap();
    let words = |words: u64| gpu.buffer("words", 4 * words).unwrap();
    let output = words(u64::from(count) + 1);
    let mut recording = CommandList::new();
    let scan = Scan::new(&gpu).unwrap();
    let on = ScanOn {
        input: &input,
        index: None,
        output: &output,
        count: on_gpu,
        scratch: &words(Scan::scratch_words(count.into())),
        groups: Groups::flat(count.div_ceil(1024)),
    };
    scan.record(&gpu, &mut recording, on).unwrap();
    recording.submit(&gpu, &[]);
    let sums: Vec<u32> = gpu.read(&output, count as usize + 1).unwrap();
    let mut sum = 0;
    for (i, &item) in items.iter().enumerate() {
        assert_eq!(sums[i], sum, "{i}");
        sum += item;
    }
    assert_eq!(sums[count as usize], sum);

    let mut recording = CommandList::new();
    let values = words(count.into());
    let on = SortOn {
        keys: &input,
        values: &values,
        keys_alt: &words(count.into()),
        values_alt: &words(count.into()),
        count: on_gpu,
        scratch: &words(RadixSort::scratch_words(&gpu, count.into())),
        groups: Groups::flat(count.div_ceil(radix_block(&gpu))),
    };
    let sort = RadixSort::new(&gpu, 10, true).unwrap();
    sort.record(&gpu, &mut recording, on).unwrap();
    recording.submit(&gpu, &[]);
    let order: Vec<u32> = gpu.read(&values, count as usize).unwrap();
    let mut expected: Vec<u32> = (0..count).collect();
    expected.sort_by_key(|&i| items[i as usize]);
    assert_eq!(order, expected);
}

#[test]
fn copies_clears_uploads_and_downloads_run_in_order() {
    let gpu = gpu();
    let a = gpu.zeros::<u32>("a", 256).unwrap();
    let b = gpu.zeros::<u32>("b", 256).unwrap();
    let data: Vec<u32> = (0..256).collect();
    let mut recording = CommandList::new();
    recording.span("all");
    recording.upload(&gpu, &data, &a.all()).unwrap();
    recording.copy(&a, &b).unwrap();
    let first = recording.download(&b.slice(..2).unwrap()).unwrap();
    let count = support::kernel(&gpu, "count");
    let bound = count.bind_slices(&gpu, &[("values", (&b).into())]).unwrap();
    recording.dispatch(bound, Groups::flat(4));
    recording.clear(b.slice(4..8).unwrap()).unwrap();
    let second = recording.download(&b.slice(2..10).unwrap()).unwrap();
    for _ in 0..2 {
        let mut replay = recording.replay(&gpu, Values::default()).unwrap();
        assert_eq!(replay.take(first).unwrap().wait().unwrap(), [0, 1]);
        let values = replay.take(second).unwrap().wait().unwrap();
        assert_eq!(values, [3, 4, 0, 0, 0, 0, 9, 10]);
        assert!(replay.take(first).is_err(), "it was taken");
    }
    // Without downloads, the same commands.
    gpu.write(b.raw(), 0, &[7u32; 256]);
    recording.submit(&gpu, &[]);
    assert_eq!(gpu.read_slice(&b.slice(3..5).unwrap()).unwrap(), [4, 0]);
    // Impossible commands are refused when they are recorded.
    let short = b.slice(..4).unwrap();
    assert!(recording.copy(&a, &short).is_err(), "lengths differ");
    assert!(
        recording.copy(&b, b.slice(..).unwrap()).is_err(),
        "one buffer"
    );
    assert!(b.slice(200..300).is_err() && b.slice(..257).is_err());
    let bytes = gpu.zeros::<u8>("bytes", 8).unwrap();
    assert!(recording.clear(bytes.slice(1..5).unwrap()).is_err());
    let odd: ByteSlice = b.slice(1..).unwrap().into();
    let kernel = support::kernel(&gpu, "count");
    assert!(kernel.bind_slices(&gpu, &[("values", odd)]).is_err());
    gpu.wait().unwrap();
}

#[test]
fn recordings_keep_the_buffers_that_they_are_bound_to() {
    let gpu = gpu();
    let live = || gpu.pool().stats().live;
    let before = live();
    let values = gpu.buffer_of("values", &[0u32; 256]).unwrap();
    let mut recording = CommandList::new();
    let kernel = support::kernel(&gpu, "count");
    // Only the second half.
    let half = values.slice(64..128).unwrap();
    let slices = [("values", half.clone().into())];
    recording.dispatch(kernel.bind_slices(&gpu, &slices).unwrap(), Groups::flat(1));
    drop(slices);
    drop(values);
    assert_eq!(live(), before + 1);
    recording.submit(&gpu, &[]);
    assert_eq!(gpu.read_slice(&half).unwrap(), [1u32; 64]);
    drop(half);
    assert_eq!(live(), before + 1, "the recording has it");
    drop(recording);
    assert_eq!(live(), before);
    let stats = gpu.pool().stats();
    assert!(stats.peak_live > before && stats.allocations > 0);
    let evicted = stats.evicted;
    gpu.wait().unwrap();
    assert!(gpu.pool().trim() > 0);
    assert!(gpu.pool().stats().evicted > evicted);
}

#[test]
fn a_readback_is_awaited_and_does_not_wait_for_what_comes_later() {
    let gpu = gpu();
    let small = gpu.buffer_of("small", &[1u32, 2, 3]).unwrap();
    let large = gpu.buffer("large", 4 << 18).unwrap();
    let arriving = gpu.download(&small.all()).unwrap();
    assert_eq!(pollster::block_on(arriving).unwrap(), [1, 2, 3]);
    // Submitted before work that lasts.
    let mut arriving = gpu.download(&small.slice(1..).unwrap()).unwrap();
    for _ in 0..4 {
        keep_busy(&gpu, &large);
    }
    assert_eq!(arriving.wait().unwrap(), [2, 3]);
    let last = gpu.download(&small.all()).unwrap();
    assert_eq!(pollster::block_on(last).unwrap(), [1, 2, 3]);
}

#[test]
fn features_are_asked_for_and_granted() {
    let without = GpuOptions {
        needs: DeviceRequirements {
            f16: FeatureRequest::No,
            subgroups: FeatureRequest::No,
            timestamps: FeatureRequest::No,
            ..DeviceRequirements::default()
        },
        ..options()
    };
    let granted = Gpu::open(&without).unwrap().granted();
    assert_eq!(
        (granted.f16, granted.subgroup_size, granted.timestamps),
        (false, None, false)
    );
    assert!(granted.immediate_bytes >= 128 && granted.storage_buffers >= 16);
    let full = gpu();
    let has = |feature| full.device().features().contains(feature);
    let granted = full.granted();
    assert_eq!(granted.f16, has(dapple_runtime::wgpu::Features::SHADER_F16));
    assert_eq!(granted.subgroup_size, full.subgroup_size());
    // A device with the limits of browsers cannot provide features that browsers lack.
    let too_much = GpuOptions {
        class: DeviceClass::WebGpuDefault,
        needs: DeviceRequirements {
            timestamps: FeatureRequest::Must,
            ..DeviceRequirements::default()
        },
        ..options()
    };
    let error = Gpu::open(&too_much).unwrap_err().to_string();
    assert!(error.contains("has no timestamps"), "{error}");
}

#[test]
fn many_values_travel_in_pieces_through_few_buffers() {
    let gpu = gpu();
    // Five pieces and a remainder, from the middle of a buffer.
    const COUNT: usize = (11 << 20) + 77;
    let data: Vec<u32> = (0..COUNT as u32)
        .map(|i| i.wrapping_mul(2_654_435_761))
        .collect();
    let buffer = gpu.buffer("many", 4 * COUNT as u64 + 64).unwrap();
    let made = gpu.counters().buffers_created;
    gpu.write(&buffer, 16, &data);
    // Later writes take effect later.
    gpu.write(&buffer, 16, &[1_u32, 2]);
    let found: Vec<u32> = gpu.read_at(&buffer, 16, COUNT).unwrap();
    assert!(found[..2] == [1, 2] && found[2..] == data[2..]);
    let around: Vec<u32> = gpu.read_at(&buffer, 0, 4).unwrap();
    assert_eq!(around, [0; 4]);
    let staging = gpu.counters().buffers_created - made;
    assert!(staging <= 11, "{staging} buffers");
    let before = gpu.counters().buffers_created;
    gpu.write(&buffer, 16, &data);
    let again: Vec<u32> = gpu.read_at(&buffer, 16, COUNT).unwrap();
    assert!(again == data);
    assert_eq!(gpu.counters().buffers_created, before);
}
