//! Fused equals unfused: bit-identical for elementwise operations, for random graphs. Also tests which operations share
//! a kernel.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_tensor::optimizer::Adam;
use dapple_tensor::{Context, DType, Device, Plan, PlanOptions, Tensor};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::{bits, contexts, numbers};

/// A step of a random graph: an operation, and which of the tensors so far it takes.
type Step = (u8, usize, usize, usize);

fn graph(context: &Context, shape: &[usize], steps: &[Step], half: bool) -> Vec<Tensor> {
    let dtype = if half { DType::F16 } else { DType::F32 };
    let count: usize = shape.iter().product();
    let rows: Vec<usize> = shape[..shape.len() - 1]
        .iter()
        .copied()
        .chain([1])
        .collect();
    let last = shape[shape.len() - 1];
    let scalar = context.tensor(&[], &[-0.3]);
    let mut all = vec![
        context.tensor_of(dtype, shape, &numbers(1, count)),
        context.tensor_of(dtype, shape, &numbers(2, count)),
        context.tensor(&[last], &numbers(3, last)).expand(shape),
        context
            .tensor(&rows, &numbers(4, count / last))
            .expand(shape),
    ];
    for &(op, a, b, c) in steps {
        let of = |k: usize| &all[k % all.len()];
        let (a, b, c) = (of(a), of(b), of(c));
        all.push(match op % 20 {
            0 => a.add(b),
            1 => a.sub(b),
            2 => a.mul(b),
            3 => a.div(b),
            4 => a.maximum(b),
            5 => a.minimum(b),
            6 => a.relu(),
            7 => a.gelu(),
            8 => a.tanh(),
            9 => a.sigmoid(),
            10 => a.sin(),
            11 => a.mul(1.3).add(0.7),
            12 => a.greater(b).select(c, a),
            13 => a.abs().sqrt(),
            14 => a.clamp(-1.0, 1.0).exp(),
            15 => a.mul(b).add(c),
            16 => a.to(DType::F16).mul(b),
            17 => a.abs().add(1.0).log(),
            // A number from a separate kernel, for all elements.
            18 => a.sub(b.mul(scalar.exp())),
            _ => a.pow(3.0).neg(),
        });
    }
    all.split_off(all.len() - 3)
}

/// Returns the bits of all outputs, with one pattern for NaN.
fn run(outputs: &[Tensor], fuse: bool) -> (Vec<u32>, usize) {
    let options = PlanOptions {
        fuse,
        ..PlanOptions::default()
    };
    let plan = Plan::compile_with(&outputs.iter().collect::<Vec<_>>(), &options).unwrap();
    plan.run().unwrap();
    let values = (0..outputs.len()).flat_map(|i| plan.read(i).unwrap());
    let plain = |value: f32| if value.is_nan() { f32::NAN } else { value };
    (
        bits(&values.map(plain).collect::<Vec<_>>()),
        plan.work().kernels,
    )
}

#[test]
fn random_graphs_are_the_same_fused_and_not() {
    for context in contexts() {
        let cases = match context.device() {
            dapple_tensor::Device::Cpu => 64,
            dapple_tensor::Device::Gpu(_) => 24,
        };
        let mut runner = TestRunner::new(Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        });
        let steps =
            prop::collection::vec((any::<u8>(), 0..64_usize, 0..64_usize, 0..64_usize), 4..24);
        let shapes =
            prop::sample::select(vec![vec![1031], vec![8, 16], vec![3, 5, 7], vec![2, 4, 6]]);
        let result = runner.run(&(steps, shapes, any::<bool>()), |(steps, shape, half)| {
            let outputs = graph(&context, &shape, &steps, half);
            let (fused, few) = run(&outputs, true);
            let (plain, many) = run(&outputs, false);
            prop_assert!(few <= many);
            prop_assert_eq!(fused, plain);
            Ok(())
        });
        result.unwrap_or_else(|e| panic!("{context:?}: {e}"));
    }
}

/// With many 16-bit elements an invocation has eight: the bits are those of few elements.
#[test]
fn many_16_bit_elements_are_what_few_are() {
    const MANY: usize = 1 << 20;
    for context in contexts() {
        let data = numbers(3, MANY + 16);
        // From an eighth element on they can be loaded in eights, from a twelfth they cannot.
        for shift in [8, 12] {
            let of = |from: usize, count: usize| {
                let x = &data[from..from + count];
                let x = context.tensor_of(DType::F16, &[count], x);
                let more = &data[from..from + count + 16];
                let more = context.tensor_of(DType::F16, &[count + 16], more);
                let more = more.slice(0, shift, count);
                let sum = x.mul(1.5).gelu().add(&more);
                [sum.clone(), sum.relu()]
            };
            let all = of(0, MANY);
            let plan = Plan::compile(&[&all[0], &all[1]]).unwrap();
            if matches!(context.device(), Device::Gpu(_)) {
                let wgsl = plan.explain();
                assert_eq!(wgsl.contains("= vec4u("), shift == 8, "{wgsl}");
            }
            plan.run().unwrap();
            let all = all.map(|tensor| tensor.read().unwrap());
            for from in [0, 2048, MANY / 2 - 1024, MANY - 2048] {
                let few = of(from, 2048).map(|tensor| tensor.read().unwrap());
                for (all, few) in all.iter().zip(&few) {
                    let part = bits(&all[from..from + 2048]);
                    assert_eq!(part, bits(few), "{context:?} {from}");
                }
            }
        }
    }
}

fn kernels(outputs: &[&Tensor]) -> usize {
    Plan::compile(outputs).unwrap().work().kernels
}

#[test]
fn what_can_share_a_kernel_does() {
    for context in contexts() {
        let x = context.tensor(&[64, 32], &numbers(1, 2048));
        let w = context.tensor(&[32, 64], &numbers(2, 2048));
        let bias = context.tensor(&[64], &numbers(3, 64));
        assert_eq!(kernels(&[&x.add(&x).relu()]), 1);
        assert_eq!(kernels(&[&x.affine(2.0, &x).gelu().mul(x.sigmoid())]), 1);
        // Several results of one kernel.
        let sum = x.add(1.0);
        assert_eq!(kernels(&[&sum, &sum.relu(), &sum.exp()]), 1);
        // Bias, activation and residual after a product.
        let y = x.matmul(&w).add(&bias).gelu();
        assert_eq!(kernels(&[&y]), 1);
        assert_eq!(kernels(&[&y.add(&y)]), 1);
        // Operations before a reduction, and the scale of a row.
        assert_eq!(kernels(&[&x.mul(&x).sum_axes(&[0])]), 1);
        assert_eq!(kernels(&[&x.mul(&x).sum_axes(&[1])]), 1);
        assert_eq!(kernels(&[&x.softmax().mul(&x).add(1.0)]), 1);
        // A copy is a separate kernel, and has a name.
        let copied = x.t().reshape(&[2048]);
        let plan = Plan::compile(&[&copied]).unwrap();
        assert!(
            plan.explain().contains("copy over 2048 elements"),
            "{}",
            plan.explain()
        );
    }
}

#[test]
fn memory_is_used_again() {
    for context in contexts() {
        let mut x = context.tensor(&[100, 100], &numbers(1, 10_000));
        for _ in 0..20 {
            x = x.matmul(&x).mul(0.1);
        }
        let work = Plan::compile(&[&x]).unwrap().work();
        assert_eq!(work.kernels, 20);
        assert!(work.buffers <= 3, "{work:?}");
    }
}

#[test]
fn updates_go_into_leaves() {
    for context in contexts() {
        let x = context.tensor(&[5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
        let y = context.tensor(&[5], &[0.0; 5]);
        let new = x.mul(2.0);
        // `y` gets the old value of `x`.
        let updates = [(x.clone(), new), (y.clone(), x.clone())];
        let options = PlanOptions {
            updates: &updates,
            ..PlanOptions::default()
        };
        let sum = x.sum();
        let plan = Plan::compile_with(&[&sum], &options).unwrap();
        plan.run().unwrap();
        assert_eq!(plan.read(0).unwrap(), [15.0], "{context:?}");
        assert_eq!(
            x.read().unwrap(),
            [2.0, 4.0, 6.0, 8.0, 10.0],
            "{context:?}: {}",
            plan.explain()
        );
        assert_eq!(
            y.read().unwrap(),
            [1.0, 2.0, 3.0, 4.0, 5.0],
            "{context:?}: {}",
            plan.explain()
        );
    }
}

/// Moments and value of AdamW are one kernel over the elements, though the value reads numbers of another kernel.
#[test]
fn an_optimizers_step_is_one_kernel_besides_its_numbers() {
    for context in contexts() {
        let parameter = context.tensor(&[6, 50], &numbers(1, 300));
        let gradient = context.tensor(&[6, 50], &numbers(2, 300));
        let adam = Adam {
            weight_decay: 0.01,
            ..Adam::default()
        };
        let ran = |fuse: bool| {
            let state = adam.state(&context, &[&parameter]);
            let copy = context.tensor(&[6, 50], &numbers(1, 300));
            let updates = adam.step(&state, &[&copy], std::slice::from_ref(&gradient));
            let options = PlanOptions {
                fuse,
                updates: &updates,
                ..PlanOptions::default()
            };
            let plan = Plan::compile_with(&[], &options).unwrap();
            (0..3).for_each(|_| plan.run().unwrap());
            let [mean, square] = &state.moments[0];
            let values = [&copy, mean, square].map(|leaf| bits(&leaf.read().unwrap()));
            (values, plan.work(), plan.explain())
        };
        let (fused, work, explained) = ran(true);
        // The numbers: corrections and steps; the share of decay.
        assert_eq!(work.kernels, 3, "{context:?}: {explained}");
        if matches!(context.device(), Device::Gpu(_)) {
            assert_eq!(work.copies, 0, "{context:?}: {explained}");
        }
        assert_eq!(fused, ran(false).0, "{context:?}");
    }
}
