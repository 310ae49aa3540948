//! Generated shaders are accepted by all backends: SPIR-V, MSL, HLSL, with only the features of every device.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_runtime::{ShaderFeatures, translate_with};
use dapple_tensor::{Context, DType, Plan, PlanOptions, Tensor, Windows};
use support::numbers;

/// Returns graphs that together use every kind of kernel and every operation.
fn graphs(context: &Context, dtype: DType) -> Vec<Tensor> {
    let of = |shape: &[usize]| context.tensor_of(dtype, shape, &numbers(1, shape.iter().product()));
    let x = of(&[12, 20]);
    let odd = of(&[7, 9]);
    let ids = context.indices(&[3], &[0, 1, 2]);
    let every = x
        .neg()
        .abs()
        .sign()
        .exp()
        .log()
        .sqrt()
        .sin()
        .cos()
        .tan()
        .sigmoid()
        .tanh()
        .relu()
        .gelu()
        .gelu_erf();
    let table = of(&[5, 6]);
    let (image, filters) = (of(&[2, 3, 9, 8]), of(&[4, 3, 3, 3]));
    let convolved = image.conv2d(&filters, Windows::new(2, 1));
    let pooled = image.max_pool2d([3, 3], Windows::new(2, 1));
    // Chains of products: forward and backward.
    let (long, wide) = (of(&[70, 20]), of(&[20, 72]));
    let chained = long.matmul(&wide).add(of(&[72])).relu().matmul(&wide.t());
    let back = |y: &Tensor, x: &Tensor| y.to(DType::F32).sum().gradients(&[x])[0].clone();
    vec![
        every.clone(),
        every.sum().gradients(&[&x])[0].clone(),
        x.sub(1.0)
            .div(2.0)
            .mul(f32::INFINITY)
            .maximum(0.0)
            .minimum(1.0)
            .power(&x)
            .greater(0.5)
            .equal(1.0)
            .select(&x, 0.0),
        odd.t().add(1.0),
        odd.softmax(),
        x.layer_norm(1e-5),
        of(&[2, 9000]).rms_norm(1e-5),
        x.sum_axes(&[0]),
        odd.max_keep(&[0]),
        of(&[40_000]).min(),
        x.matmul(&x.t()).add(1.0).relu(),
        odd.matmul(&odd.t()),
        of(&[1, 20]).matmul(&x.t()),
        of(&[300, 70]).matmul(&of(&[70, 200])),
        of(&[300, 300]).matmul(&of(&[300, 7])),
        of(&[2000, 20]).matmul(&of(&[20, 2000])),
        x.matmul(&x.t())
            .add(x.matmul(&of(&[20, 5])).matmul(&of(&[5, 12])).mul(0.5)),
        of(&[2, 20])
            .matmul(&x.t())
            .add(of(&[2, 3]).matmul(&of(&[3, 12]))),
        chained.clone(),
        back(&chained.gelu().matmul(&of(&[20, 3])), &long),
        of(&[16_400, 12]).t().matmul(&of(&[16_400, 10])),
        Tensor::cat(&[&x, &x, &context.full(&[12, 4], 0.5)], 1),
        convolved.relu(),
        back(&convolved, &image),
        back(&convolved, &filters),
        pooled.clone(),
        back(&pooled, &image),
        x.cross_entropy(&context.indices(&[12], &[3; 12])),
        x.clamp(-1.0, 1.0).sum().gradients(&[&x])[0].clone(),
        table.embedding(&ids),
        table.embedding(&ids).sum().gradients(&[&table])[0].clone(),
    ]
}

#[test]
fn every_kernel_has_a_translation_for_every_backend() {
    let Some(gpu) = support::gpu() else { return };
    let context = Context::gpu(&gpu);
    let mut seen = 0;
    for dtype in [DType::F32, DType::F16] {
        for graph in graphs(&context, dtype) {
            for fuse in [true, false] {
                let options = PlanOptions {
                    fuse,
                    ..PlanOptions::default()
                };
                let plan = Plan::compile_with(&[&graph], &options).unwrap();
                for wgsl in plan.sources() {
                    // Packing of 16-bit floats is used if they are stored, and only then.
                    let grants = ShaderFeatures {
                        subgroups: false,
                        packs_f16: wgsl.contains("2x16float"),
                    };
                    let translated =
                        translate_with(wgsl, grants).unwrap_or_else(|e| panic!("{e}\n{wgsl}"));
                    let needs = &translated.entries[0];
                    assert!(
                        needs.storage_buffers <= gpu.granted().storage_buffers,
                        "{needs:?}"
                    );
                    assert!(
                        needs.workgroup_bytes <= 16 << 10 && needs.invocations <= 256,
                        "{needs:?}"
                    );
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 100, "{seen} kernels");
}
