//! Kernels of cooperative matrices on devices without such units and without 16-bit floats. Each lane of a group of 32
//! computes half a row of a 16 by 16 product by itself, of halves in words. The comparison with the CPU's results tests
//! which elements kernels load, stage, multiply and store.

use super::{images, write};
use crate::context::{Context, Device, GpuValues, Storage};
use crate::graph::tensor::{DType, Op, Tensor};
use crate::graph::windows::Windows;
use crate::program::{Limits, Place, compile};
use dapple_runtime::{ByteSlice, CommandList, Gpu, GpuOptions, Groups, Kernel};

const HELPERS: &str = "
fn half_of(four: vec2u, at: u32) -> f32 { return unpack2x16float(four[at / 2u])[at % 2u]; }
fn first_at(line: u32, along: u32) -> f32 { return half_of(first[line + along / 4u], along % 4u); }
fn second_at(line: u32, along: u32) -> f32 { return half_of(second[line + along / 4u], along % 4u); }
fn rows_of_a(start: u32, pitch: u32, lane: u32) -> vec3u { return vec3u(start + lane / 2u * pitch, 0u, 1u); }
fn columns_of_a(start: u32, pitch: u32, lane: u32) -> vec3u { return vec3u(start, lane / 2u, pitch << 8u); }
fn rows_of_b(start: u32, pitch: u32, lane: u32) -> vec3u { return vec3u(start, lane % 2u * 8u, pitch << 8u); }
fn columns_of_b(start: u32, pitch: u32, lane: u32) -> vec3u {
    return vec3u(start + lane % 2u * 8u * pitch, 0u, 1u | (pitch << 8u));
}
fn multiplied(a: vec3u, b: vec3u, sum: array<f32, 8>) -> array<f32, 8> {
    var c = sum;
    let a_step = vec2u(a.z >> 8u, a.z & 1u);
    let turned = (b.z & 1u) == 1u;
    let pitch = b.z >> 8u;
    for (var i = 0u; i < 128u; i++) {
        let k = i / 8u;
        let j = i % 8u;
        let x = first_at(a.x + k * a_step.x, a.y + k * a_step.y);
        let line = select(k, j, turned);
        let along = select(j, k, turned);
        c[j] += x * second_at(b.x + line * pitch, b.y + along);
    }
    return c;
}
fn stored(sum: array<f32, 8>, start: u32, pitch: u32, lane: u32) {
    let at = start + lane / 2u * pitch + lane % 2u * 2u;
    sums[at] = vec4f(sum[0], sum[1], sum[2], sum[3]);
    sums[at + 1u] = vec4f(sum[4], sum[5], sum[6], sum[7]);
}
";

/// [`images::SHIFTED`] of halves in words.
const SHIFTED: &str = "fn shifted(low: vec2u, high: vec2u, shift: u32) -> vec2u {
    var words = array<u32, 4>(low.x, low.y, high.x, high.y);
    let at = shift / 2u;
    if shift % 2u == 0u { return vec2u(words[at], words[at + 1u]); }
    return vec2u((words[at] >> 16u) | (words[at + 1u] << 16u), (words[at + 1u] >> 16u) | (words[at + 2u] << 16u));
}
";

/// Calls that begin with `call` and take a pointer into an array: by another function, of the index and the lane.
fn renamed(wgsl: &str, call: &str, function: &str) -> String {
    let mut parts = wgsl.split(call);
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        // `index], pitch)`.
        let (index, rest) = part.split_once("], ").unwrap();
        let (pitch, rest) = rest.split_once(')').unwrap();
        text.push_str(&format!("{function}({index}, {pitch}, local % 32u){rest}"));
    }
    text
}

fn emulated(wgsl: &str) -> String {
    let mut text = wgsl.replace("enable wgpu_cooperative_matrix;\n", "");
    text = text.replace("enable f16;\n", "");
    // A lane reads of its sums what it stored itself. So large tiles fit devices that share less memory.
    text = text.replace("var<workgroup> sums", "var<private> sums");
    text = text.replace(images::SHIFTED, SHIFTED);
    for (load, role, memory, function) in [
        ("coopLoadT", "A", "first", "rows_of_a"),
        ("coopLoad", "A", "first", "columns_of_a"),
        ("coopLoadT", "B", "second", "rows_of_b"),
        ("coopLoad", "B", "second", "columns_of_b"),
    ] {
        let call = format!("{load}<coop_mat16x16<f16, {role}>>(&{memory}[");
        text = renamed(&text, &call, function);
    }
    text = text.replace("coop_mat16x16<f32, C>()", "array<f32, 8>()");
    text = text.replace("coopMultiplyAdd(", "multiplied(");
    text = text.replace("vec4<f16>", "vec2u");
    let mut parts = text.split("coopStoreT(");
    let mut stored = parts.next().unwrap().to_owned();
    for part in parts {
        let (sum, rest) = part.split_once(", &sums[").unwrap();
        let (index, rest) = rest.split_once("], ").unwrap();
        let (pitch, rest) = rest.split_once(')').unwrap();
        stored.push_str(&format!(
            "stored({sum}, {index}, {pitch}, local % 32u){rest}"
        ));
    }
    let at = stored.find("@compute").unwrap();
    stored.insert_str(at, HELPERS);
    assert!(!stored.contains("coop"), "{stored}");
    stored
}

/// Returns the values of a graph on a GPU, its product emulated.
fn run(gpu: &Gpu, context: &Context, y: &Tensor, many: usize) -> Vec<f32> {
    let limits = Limits {
        fuse: true,
        bindings: 16,
        in_place: true,
        plain_products: false,
        workgroup_bytes: 48 << 10,
        cooperative: Some(many),
    };
    let program = compile(&[y], &[], limits).unwrap();
    let place = |plan: &crate::program::BufferPlan| match &plan.place {
        Place::Slot(slot) => GpuValues::new(gpu, "slot", program.slots[*slot] as u64).unwrap(),
        Place::Leaf(tensor) => match &tensor.0.op {
            Op::Leaf(Storage::Gpu(values)) => values.clone(),
            _ => unreachable!("leaves are on the GPU"),
        },
    };
    let buffers: Vec<GpuValues> = program.buffers.iter().map(place).collect();
    let padded = vec![true; buffers.len()];
    let mut cooperative = 0;
    for kernel in &program.kernels {
        let written = write(kernel, &program.buffers, &padded).unwrap().unwrap();
        let wgsl = match written.wgsl.contains("coopMultiplyAdd") {
            true => emulated(&written.wgsl),
            false => written.wgsl.clone(),
        };
        cooperative += usize::from(wgsl != written.wgsl);
        let compiled = Kernel::from_wgsl(gpu, &kernel.label, &wgsl, "main").unwrap();
        let slices = written.bindings.iter().map(|(name, buffer)| {
            let slice = buffers[*buffer].slice.clone();
            (name.as_str(), slice)
        });
        let slices: Vec<(&str, ByteSlice)> = slices.collect();
        let mut recording = CommandList::new();
        recording.span("emulated");
        recording.dispatch(
            compiled.bind_slices(gpu, &slices).unwrap(),
            Groups::flat(written.groups as u32),
        );
        recording.submit(gpu, &[]);
    }
    assert_eq!(cooperative, 1, "{y:?}");
    let output = program.outputs[0];
    let storage = Storage::Gpu(buffers[output].clone());
    storage.read_f32(context, y.dtype(), y.count()).unwrap()
}

fn leaf(context: &Context, shape: &[usize], seed: usize) -> Tensor {
    let count = shape.iter().product();
    let value = |i: usize| ((i * 7919 + seed * 104_729 + i / 11) % 201) as f32 / 100.0 - 1.0;
    let data: Vec<f32> = (0..count).map(value).collect();
    context.tensor_of(DType::F16, shape, &data)
}

type Graph = fn(&Context) -> Tensor;

/// Returns graphs, and the number of tiles from which on tiles are large.
fn graphs() -> Vec<(Graph, usize)> {
    fn deep(c: &Context) -> Tensor {
        leaf(c, &[128, 128], 1)
            .matmul(&leaf(c, &[128, 256], 2))
            .relu()
    }
    fn padded(c: &Context) -> Tensor {
        let (x, weight) = (leaf(c, &[2, 64, 6, 24], 1), leaf(c, &[64, 64, 5, 5], 2));
        x.conv2d_by_taps(&weight, Windows::new(1, 2))
    }
    // Software drivers take seconds for each of these kernels: small tiles, with parts of sums one and two ahead.
    vec![(deep, usize::MAX), (padded, usize::MAX)]
}

/// Bytes that the emulated tiles share at most.
const SHARED: usize = 32 << 10;

#[test]
fn small_tiles_multiply_what_they_should() {
    let options = GpuOptions {
        choice: dapple_base::test_requirements::test_gpu().parse().unwrap(),
        validate: true,
        ..GpuOptions::default()
    };
    let gpu = match Gpu::open(&options) {
        Ok(gpu) => gpu,
        Err(error) => return dapple_base::test_requirements::skipped("gpu", &error.to_string()),
    };
    assert!(gpu.granted().workgroup_bytes as usize >= SHARED);
    let context = Context::gpu(&gpu);
    assert!(matches!(context.device(), Device::Gpu(_)));
    for (number, (graph, many)) in graphs().into_iter().enumerate() {
        let y = graph(&context);
        let found = run(&gpu, &context, &y, many);
        let expected = graph(&Context::cpu()).read().unwrap();
        assert_eq!(found.len(), expected.len());
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let off = (found - expected).abs();
            assert!(
                off <= 2e-3 * expected.abs().max(1.0),
                "graph {number} {:?}, place {i}: {found} for {expected}",
                y.shape()
            );
        }
    }
}

/// The order of a sum changes no result beyond its rounding.
#[test]
fn sums_by_taps_are_those_by_channels() {
    let context = Context::cpu();
    let data = |count: usize| {
        (0..count)
            .map(|i| ((i * 37) % 17) as f32 - 8.0)
            .collect::<Vec<f32>>()
    };
    let x = context.tensor(&[2, 3, 7, 9], &data(2 * 3 * 63));
    let weight = context.tensor(&[4, 3, 3, 2], &data(4 * 18));
    for windows in [Windows::new(1, 1), Windows::new(2, 0)] {
        let by_taps = x.conv2d_by_taps(&weight, windows);
        let plain = x.conv2d(&weight, windows);
        assert_eq!(by_taps.read().unwrap(), plain.read().unwrap());
        let of = |y: &Tensor| {
            let loss = y.mul(y).sum();
            let gradients = loss.gradients(&[&x, &weight]);
            gradients
                .iter()
                .map(|g| g.read().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&by_taps), of(&plain));
    }
}
