//! Random graphs of views and of operations on them: the number of values that are read equals the number of elements
//! of the shape. The values equal those of a plain model of the same graph, fused and not.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_tensor::{Context, Device, Plan, PlanOptions, Tensor};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::{contexts, numbers};

/// A step of a random graph: an operation, two tensors so far, two choices.
type Step = (u8, usize, usize, usize, usize);

/// Row-major values of a shape, computed one by one.
#[derive(Debug, Clone)]
struct Model {
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Model {
    /// Returns a tensor of this shape whose elements are those at other positions of this one.
    fn moved(&self, shape: &[usize], from: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let count: usize = shape.iter().product();
        let value = |i: usize| {
            let mut left = i;
            let mut place = vec![0; shape.len()];
            for axis in (0..shape.len()).rev() {
                place[axis] = left % shape[axis];
                left /= shape[axis];
            }
            let at = from(&place)
                .iter()
                .zip(&self.shape)
                .fold(0, |at, (p, size)| at * size + p);
            self.values[at]
        };
        Self {
            shape: shape.to_vec(),
            values: (0..count).map(value).collect(),
        }
    }

    fn each(&self, f: impl Fn(f32) -> f32) -> Self {
        Self {
            shape: self.shape.clone(),
            values: self.values.iter().map(|x| f(*x)).collect(),
        }
    }

    fn sliced(&self, axis: usize, start: usize, length: usize) -> Self {
        let mut shape = self.shape.clone();
        shape[axis] = length;
        self.moved(&shape, |place| {
            let mut from = place.to_vec();
            from[axis] += start;
            from
        })
    }

    fn permuted(&self, axes: &[usize]) -> Self {
        let shape: Vec<usize> = axes.iter().map(|axis| self.shape[*axis]).collect();
        self.moved(&shape, |place| {
            let mut from = vec![0; axes.len()];
            axes.iter()
                .zip(place)
                .for_each(|(axis, p)| from[*axis] = *p);
            from
        })
    }

    fn expanded(&self, shape: &[usize]) -> Self {
        let new = shape.len() - self.shape.len();
        self.moved(shape, |place| {
            let own = place[new..].iter().zip(&self.shape);
            own.map(|(p, size)| if *size == 1 { 0 } else { *p })
                .collect()
        })
    }

    fn cat(&self, other: &Self, axis: usize) -> Self {
        let mut shape = self.shape.clone();
        shape[axis] += other.shape[axis];
        let inner: usize = shape[axis + 1..].iter().product();
        let outer: usize = shape[..axis].iter().product();
        let rows = |model: &Self, o: usize| {
            let row = model.shape[axis] * inner;
            model.values[o * row..(o + 1) * row].to_vec()
        };
        let values = (0..outer).flat_map(|o| [rows(self, o), rows(other, o)].concat());
        Self {
            values: values.collect(),
            shape,
        }
    }
}

/// The result of a step of a graph and of its model.
fn step(step: Step, all: &[(Tensor, Model)]) -> (Tensor, Model) {
    let (op, a, b, p, q) = step;
    let (x, model) = &all[a % all.len()];
    let (y, other) = &all[b % all.len()];
    let shape = &model.shape;
    let rank = shape.len();
    let keep = || (x.add(1.0), model.each(|x| x + 1.0));
    match op % 12 {
        // Prefixes, as often as other slices.
        0 | 1 if rank > 0 => {
            let axis = p % rank;
            let start = if op % 12 == 0 {
                0
            } else {
                q % (shape[axis] + 1)
            };
            let length = (p / 7) % (shape[axis] - start + 1);
            (
                x.slice(axis, start, length),
                model.sliced(axis, start, length),
            )
        }
        2 if rank > 1 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            axes.swap(p % rank, q % rank);
            (x.permute(&axes), model.permuted(&axes))
        }
        3 => {
            let mut wide: Vec<usize> = shape
                .iter()
                .map(|s| if *s == 1 { q % 4 } else { *s })
                .collect();
            if rank < 4 {
                wide.insert(0, p % 4);
            }
            (x.expand(&wide), model.expanded(&wide))
        }
        4 => {
            let flat = [model.values.len()];
            let flattened = Model {
                shape: flat.to_vec(),
                values: model.values.clone(),
            };
            (x.reshape(&flat), flattened)
        }
        5 => (x.mul(0.5).relu(), model.each(|x| (x * 0.5).max(0.0))),
        6 => (x.detach().neg(), model.each(|x| -x)),
        7 if shape == &other.shape => {
            let pairs = model.values.iter().zip(&other.values);
            let values = pairs.map(|(a, b)| a + b).collect();
            let shape = shape.clone();
            (x.add(y), Model { shape, values })
        }
        8 if rank > 0 && rank == other.shape.len() => {
            let axis = p % rank;
            let fits = (0..rank).all(|i| i == axis || shape[i] == other.shape[i]);
            match fits && model.values.len() + other.values.len() < 4000 {
                true => (Tensor::cat(&[x, y], axis), model.cat(other, axis)),
                false => keep(),
            }
        }
        9 if rank > 0 => {
            // The maximum of an axis has no rounding, so results are equal.
            let axis = p % rank;
            let first = model.sliced(axis, 0, shape[axis].min(1));
            let most = (0..shape[axis]).fold(first.each(|_| f32::NEG_INFINITY), |most, at| {
                let next = model.sliced(axis, at, 1);
                let pairs = most.values.iter().zip(&next.values);
                Model {
                    values: pairs.map(|(a, b)| a.max(*b)).collect(),
                    ..most
                }
            });
            match shape[axis] {
                0 => keep(),
                _ => (x.max_keep(&[axis]), most),
            }
        }
        10 => (x.contiguous(), model.clone()),
        _ => keep(),
    }
}

fn leaves(context: &Context) -> Vec<(Tensor, Model)> {
    let shapes: [&[usize]; 6] = [&[6, 3], &[2, 3, 4], &[1], &[], &[1, 5], &[0, 3]];
    let leaf = |(seed, shape): (usize, &&[usize])| {
        let values = numbers(seed as u64 + 1, shape.iter().product());
        let model = Model {
            shape: shape.to_vec(),
            values: values.clone(),
        };
        (context.tensor(shape, &values), model)
    };
    shapes.iter().enumerate().map(leaf).collect()
}

#[test]
fn what_is_read_has_the_shapes_elements() {
    for context in contexts() {
        let cases = match context.device() {
            Device::Cpu => 256,
            Device::Gpu(_) => 24,
        };
        let mut runner = TestRunner::new(Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        });
        let number = || 0..64_usize;
        let steps = (any::<u8>(), number(), number(), number(), number());
        let steps = prop::collection::vec(steps, 2..14);
        let result = runner.run(&steps, |steps| {
            let mut all = leaves(&context);
            for now in steps {
                let next = step(now, &all);
                if next.1.values.len() < 4000 {
                    all.push(next);
                }
            }
            let outputs: Vec<&Tensor> = all.iter().map(|pair| &pair.0).collect();
            for fuse in [true, false] {
                let options = PlanOptions {
                    fuse,
                    ..PlanOptions::default()
                };
                let plan = Plan::compile_with(&outputs, &options).unwrap();
                plan.run().unwrap();
                for (number, (tensor, model)) in all.iter().enumerate() {
                    prop_assert_eq!(tensor.shape(), &model.shape[..]);
                    prop_assert_eq!(&plan.read(number).unwrap(), &model.values, "{:?}", tensor);
                }
            }
            // If only the last tensor is read, it may share kernels with all others.
            let last = &all[all.len() - 1];
            prop_assert_eq!(&last.0.read().unwrap(), &last.1.values);
            Ok(())
        });
        result.unwrap_or_else(|e| panic!("{context:?}: {e}"));
    }
}

#[test]
fn prefixes_and_empty_expansions_are_read_at_their_own_length() {
    for context in contexts() {
        let x = context.tensor(&[6, 3], &numbers(1, 18));
        assert_eq!(
            x.slice(0, 0, 2).read().unwrap(),
            numbers(1, 18)[..6],
            "{context:?}"
        );
        let y = context.tensor(&[2, 3], &numbers(2, 6));
        let joined = Tensor::cat(&[&y, &x], 0);
        let gradients = joined.mul(&joined).sum().gradients(&[&y, &x]);
        assert_eq!(gradients[0].read().unwrap().len(), 6);
        assert_eq!(gradients[1].read().unwrap().len(), 18);
        // Elementwise with a prefix of the same kernel's result.
        let twice = x.mul(2.0);
        let sum = twice.slice(0, 0, 2).add(&y);
        let plan = Plan::compile(&[&twice, &sum]).unwrap();
        plan.run().unwrap();
        assert_eq!(plan.read(0).unwrap().len(), 18);
        let expected: Vec<f32> = numbers(1, 6)
            .iter()
            .zip(numbers(2, 6))
            .map(|(x, y)| 2.0 * x + y)
            .collect();
        assert_eq!(plan.read(1).unwrap(), expected);
        let one = context.tensor(&[], &[5.0]);
        assert_eq!(one.expand(&[0]).read().unwrap(), [0.0f32; 0]);
        assert_eq!(
            one.exp().expand(&[3, 0]).relu().read().unwrap(),
            [0.0f32; 0]
        );
    }
}
