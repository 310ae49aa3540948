//! Tests of first steps with the library: operators, `println!`, classes, one function to read.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_tensor::{Context, DType, Tensor};
use support::gradients::{case, check};
use support::{bits, close, contexts, numbers, wide};

#[test]
fn operators_are_the_methods() {
    for context in contexts() {
        let a = context.tensor(&[2, 3], &numbers(1, 6));
        let b = context.tensor(&[3], &numbers(2, 3));
        let pairs: [(Tensor, Tensor); 9] = [
            (&a + &b, a.add(&b)),
            (&a - &b, a.sub(&b)),
            (&a * &b, a.mul(&b)),
            (&a / &b, a.div(&b)),
            (-&a, a.neg()),
            (2.0 - &a, context.constant(2.0).sub(&a)),
            (1.0 / (&a * 3.0), context.constant(1.0).div(a.mul(3.0))),
            (-(a.clone() + 1.0) * b.clone(), a.add(1.0).neg().mul(&b)),
            ((&a - &b) / (&a + 2.0), a.sub(&b).div(a.add(2.0))),
        ];
        for (operator, method) in pairs {
            assert_eq!(
                bits(&operator.read().unwrap()),
                bits(&method.read().unwrap())
            );
        }
        let wrong = &a + &context.tensor(&[4], &[0.0; 4]);
        assert!(wrong.read().unwrap_err().to_string().contains("add of"));
    }
}

#[test]
fn tensors_are_shown_with_their_values() {
    for context in contexts() {
        let x = context.tensor(&[2, 2], &[1.0, 2.5, -3.0, 4.0]);
        assert_eq!(x.to_string(), "f32[2, 2] [[1.0, 2.5], [-3.0, 4.0]]");
        assert_eq!((&x * 2.0).sum().to_string(), "f32[] 9.0");
        assert_eq!(
            context.zeros(DType::F16, &[0, 2]).to_string(),
            "f16[0, 2] []"
        );
        assert_eq!(
            context.indices(&[3], &[7, 0, 1]).to_string(),
            "u32[3] [7.0, 0.0, 1.0]"
        );
        let many: Vec<f32> = (0..2000).map(|i| i as f32).collect();
        let many = context.tensor(&[2, 1000], &many);
        assert_eq!(
            many.to_string(),
            "f32[2, 1000] [[0.0, 1.0, 2.0, .., 997.0, 998.0, 999.0], \
             [1000.0, 1001.0, 1002.0, .., 1997.0, 1998.0, 1999.0]]"
        );
        let wrong = x.add(context.tensor(&[3], &[0.0; 3])).to_string();
        assert!(
            wrong.contains("add of") && wrong.contains("hint:"),
            "{wrong}"
        );
    }
}

/// Both forms of PyTorch's `cross_entropy`: by class, and by shares.
#[test]
fn cross_entropy_takes_classes() {
    const CLASSES: [u32; 4] = [2, 0, 4, 2];
    for context in contexts() {
        let by_class = case(
            "cross_entropy by class",
            &[&[4, 5]],
            [-2.0, 2.0],
            |x| x[0].cross_entropy(&x[0].context().indices(&[4], &CLASSES)),
            |x| {
                let row = |r: usize| {
                    let row = &x[0][r * 5..r * 5 + 5];
                    let sum: f64 = row.iter().map(|v| v.exp()).sum();
                    sum.ln() - row[CLASSES[r] as usize]
                };
                vec![(0..4).map(row).sum::<f64>() / 4.0]
            },
        );
        check(&context, &by_class);
        let data = numbers(3, 20);
        let x = context.tensor(&[4, 5], &data);
        let mut shares = [0.0; 20];
        CLASSES
            .iter()
            .enumerate()
            .for_each(|(row, class)| shares[row * 5 + *class as usize] = 1.0);
        let by_share = x
            .cross_entropy(&context.tensor(&[4, 5], &shares))
            .item()
            .unwrap();
        let classes = context.indices(&[4], &CLASSES);
        let found = x.cross_entropy(&classes).item().unwrap();
        close("classes and shares", &[found], &wide(&[by_share]), 1e-6);
        // An impossible class has no effect on the loss of another class.
        let mut certain = data.clone();
        certain[1] = f32::NEG_INFINITY;
        let x = context.tensor(&[4, 5], &certain);
        assert!(x.cross_entropy(&classes).item().unwrap().is_finite());
        let beyond = context.indices(&[4], &[2, 0, 5, 2]);
        assert!(
            x.cross_entropy(&beyond).item().unwrap().is_nan(),
            "{context:?}"
        );
        let wrong = x.cross_entropy(&context.indices(&[5], &[0; 5]));
        let wrong = wrong.read().unwrap_err().to_string();
        assert!(
            wrong.contains("cross_entropy of") && wrong.contains("class"),
            "{wrong}"
        );
    }
}

#[test]
fn large_16_bit_tensors_travel_in_pieces() {
    // More than three pieces, not a whole number of pieces, an odd count.
    const COUNT: usize = (14 << 20) + 12_345;
    for context in contexts() {
        let at = |i: usize| (i % 4093) as f32 * 0.25 - 511.0;
        let data: Vec<f32> = (0..COUNT).map(at).collect();
        let halves = context.tensor_of(DType::F16, &[COUNT], &data);
        let found = halves.read().unwrap();
        assert_eq!(found.len(), COUNT);
        assert!((0..COUNT).all(|i| found[i] == at(i)), "{context:?}");
        let data: Vec<f32> = (0..COUNT).map(|i| at(i + 7)).collect();
        halves.write(&data).unwrap();
        let wide = context.tensor(&[COUNT], &data);
        let apart = halves.sub(&wide).abs().max().item().unwrap();
        assert_eq!(apart, 0.0, "{context:?}");
        let found = wide.read().unwrap();
        assert!((0..COUNT).all(|i| found[i] == at(i + 7)), "{context:?}");
    }
}

/// The accuracy that docs/TENSORS.md states for large angles.
#[test]
fn sines_of_large_operands() {
    for context in contexts() {
        for (size, tolerance) in [(3e3, 1e-6), (1e6, 0.1)] {
            let data: Vec<f32> = numbers(9, 4000).iter().map(|x| x * size).collect();
            let x = context.tensor(&[4000], &data);
            for (found, exact) in [
                (x.sin().read().unwrap(), f64::sin as fn(f64) -> f64),
                (x.cos().read().unwrap(), f64::cos),
            ] {
                let off = data
                    .iter()
                    .zip(&found)
                    .map(|(x, y)| (exact(f64::from(*x)) - f64::from(*y)).abs());
                let most = off.fold(0.0, f64::max);
                assert!(most <= tolerance, "{context:?}, {size}: {most:e}");
            }
        }
    }
}

#[test]
fn a_leaf_of_another_context_is_refused_by_name() {
    let (here, there) = (Context::cpu(), Context::cpu());
    let x = here.tensor(&[1, 2], &[0.0; 2]);
    let wrong = x.cross_entropy(&there.indices(&[1], &[0])).check();
    assert!(wrong.unwrap_err().to_string().contains("one context"));
}
