//! Gradients, from graph to graph: gradients are ordinary nodes, fused and planned like all others.
//!
//! 1. Nodes that the loss is computed from are visited from the last created to the first. By then each node has the
//!    sum of the gradients from its consumers, in a fixed order.
//! 2. Each node passes gradients to its inputs by its derivative; [`CustomOp`]s by their own backward function.
//! 3. A gradient has its tensor's shape. If the tensor is stored in 16 bits, the gradient is rounded to 16 bits at the
//!    end.
//!
//! Second derivatives are not guaranteed: those of GELU and of custom operations (softmax and the norms among them) are
//! refused or incomplete.

use super::element::ElementOp as E;
use super::problem::Problem;
use super::tensor::{CustomOp, DType, Op, ReduceOp, Tensor, View};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

impl Tensor {
    /// Creates an operation with its own backward pass, on tensors of one context (at least one).
    #[must_use]
    pub fn custom(op: Arc<dyn CustomOp>, inputs: &[&Self]) -> Self {
        let owned: Vec<Self> = inputs.iter().map(|input| (*input).clone()).collect();
        let output = op.forward(&owned);
        let root = output.0.root.clone().unwrap_or_else(|| output.clone());
        let mut all = vec![output.clone()];
        all.extend(owned);
        let problem = all.iter().find_map(|input| input.0.problem.clone());
        let made = (output.0.layout.clone(), output.dtype());
        Self::node(
            output.context(),
            Op::Custom(op),
            all,
            made,
            (Some(root), problem),
        )
    }

    /// Returns the gradients of this tensor (one element) with respect to `wanted`, each of the shape and type of its
    /// tensor. Gradients are zeros if this tensor does not depend on the wanted one.
    pub fn gradients(&self, wanted: &[&Self]) -> Vec<Self> {
        if self.count() != 1 && self.0.problem.is_none() {
            let what = format!("gradients of {}", self.describe());
            let problem = Problem::new(
                what,
                "only one number has gradients: take its sum() or mean()",
            );
            return wanted
                .iter()
                .map(|_| self.refused(&[self], problem.clone()))
                .collect();
        }
        let one = self.context().full(self.shape(), 1.0);
        self.gradients_from(&one, wanted)
    }

    /// Returns [`Self::gradients`] of the sum of the products of this tensor and `seed`, of the same shape.
    pub fn gradients_from(&self, seed: &Self, wanted: &[&Self]) -> Vec<Self> {
        let all = ancestors(self, wanted);
        let mut passed: HashMap<u64, Self> = HashMap::from([(self.0.id, seed.clone())]);
        let mut found: HashMap<u64, Self> = HashMap::new();
        let is_wanted: HashSet<u64> = wanted.iter().map(|tensor| tensor.0.id).collect();
        for (id, tensor) in all.iter().rev() {
            let Some(gradient) = passed.remove(id) else {
                continue;
            };
            if is_wanted.contains(id) {
                found.insert(*id, gradient.clone());
            }
            let (inputs, gradients) = tensor.backward(&gradient);
            for (input, gradient) in inputs.iter().zip(gradients) {
                let Some(gradient) = gradient.filter(|_| all.contains_key(&input.0.id)) else {
                    continue;
                };
                let sum = match passed.remove(&input.0.id) {
                    Some(before) => before.add(&gradient),
                    None => gradient,
                };
                passed.insert(input.0.id, sum);
            }
        }
        let finished = wanted.iter().map(|tensor| match found.get(&tensor.0.id) {
            Some(gradient) => gradient.to(tensor.dtype()),
            None if self.0.problem.is_some() => self.clone(),
            None => self.context().full(tensor.shape(), 0.0).to(tensor.dtype()),
        });
        finished.collect()
    }

    /// Returns the inputs that take part in a derivative, and the gradient that each receives.
    fn backward(&self, g: &Self) -> (Vec<Self>, Vec<Option<Self>>) {
        let node = &self.0;
        let inputs = node.inputs.clone();
        let gradients = match &node.op {
            Op::Leaf(_) | Op::Constant(_) | Op::Refused => Vec::new(),
            Op::Custom(op) => {
                let rest = inputs[1..].to_vec();
                let gradients = op.backward(&rest, self, g);
                return (rest, gradients);
            }
            Op::View(view) => vec![self.backward_view(view, g)],
            Op::Element(op) => self.backward_element(*op, g),
            Op::Cat(axis) => {
                let mut start = 0;
                let piece = |input: &Self| {
                    let length = input.shape()[*axis];
                    let part = g.slice(*axis, start, length);
                    start += length;
                    Some(part)
                };
                inputs.iter().map(piece).collect()
            }
            Op::Gather => vec![Some(g.scatter_add(&inputs[1], inputs[0].shape()[0])), None],
            Op::ScatterAdd => {
                let shape = inputs[0].shape();
                vec![
                    Some(g.contiguous().embedding(&inputs[1]).reshape(shape)),
                    None,
                ]
            }
            Op::Reduce(ReduceOp::Sum, _) => vec![Some(g.expand(inputs[0].shape()))],
            Op::Reduce(..) => {
                // Elements equal to the result share the gradient.
                let x = &inputs[0];
                let hit = x.to(DType::F32).equal(self);
                let share = g.div(hit.sum_keep(&[1]));
                vec![Some(hit.mul(share))]
            }
            Op::Unfold(_) => {
                let hint = "second derivatives of convolutions and pooling are not supported";
                let problem = Problem::new("the derivative of unfolded images", hint);
                vec![Some(self.refused(&[self], problem))]
            }
            Op::MatMul => {
                let (a, b) = (&inputs[0], &inputs[1]);
                vec![Some(g.matmul_f32(&b.t())), Some(a.t().matmul_f32(g))]
            }
        };
        (inputs, gradients)
    }

    /// Returns a product that is not rounded.
    fn matmul_f32(&self, other: &Self) -> Self {
        let product = self.matmul(other);
        match (&product.0.op, product.0.inputs.first()) {
            (Op::Element(E::Round16), Some(exact)) => exact.clone(),
            _ => product,
        }
    }

    fn backward_view(&self, view: &View, g: &Self) -> Option<Self> {
        let input = &self.0.inputs[0];
        Some(match view {
            View::Detach => return None,
            View::Reshape => g.reshape(input.shape()),
            View::Permute(axes) => {
                let mut back = vec![0; axes.len()];
                axes.iter()
                    .enumerate()
                    .for_each(|(to, from)| back[*from] = to);
                g.permute(&back)
            }
            View::Expand => {
                let new = self.rank() - input.rank();
                let stretched = |axis: &usize| match axis.checked_sub(new) {
                    Some(old) => input.shape()[old] == 1 && self.shape()[*axis] != 1,
                    None => true,
                };
                let axes: Vec<usize> = (0..self.rank()).filter(stretched).collect();
                g.sum_keep(&axes).reshape(input.shape())
            }
            View::Slice { axis, start } => {
                let zeros = |length: usize| {
                    let mut shape = g.shape().to_vec();
                    shape[*axis] = length;
                    self.context().full(&shape, 0.0)
                };
                let after = input.shape()[*axis] - start - self.shape()[*axis];
                let parts = [zeros(*start), g.clone(), zeros(after)];
                let parts: Vec<&Self> = parts
                    .iter()
                    .filter(|part| part.shape()[*axis] > 0)
                    .collect();
                match parts.is_empty() {
                    true => self.context().full(input.shape(), 0.0),
                    false => Self::cat(&parts, *axis),
                }
            }
        })
    }

    fn backward_element(&self, op: E, g: &Self) -> Vec<Option<Self>> {
        let inputs = &self.0.inputs;
        let x = &inputs[0];
        let y = inputs.get(1).unwrap_or(x);
        let one = |gradient: Self| vec![Some(gradient)];
        match op {
            E::Copy | E::Round16 => one(g.clone()),
            E::Neg => one(g.neg()),
            E::Abs => one(g.mul(x.sign())),
            E::Sign | E::Greater | E::Equal => vec![None; inputs.len()],
            E::Exp => one(g.mul(self)),
            E::Log => one(g.div(x)),
            E::Sqrt => one(g.mul(0.5).div(self)),
            E::Sin => one(g.mul(x.cos())),
            E::Cos => one(g.mul(x.sin()).neg()),
            E::Tan => one(g.mul(self.mul(self).add(1.0))),
            E::Sigmoid => one(g.mul(self.sub(self.mul(self)))),
            E::Tanh => one(g.mul(self.context().constant(1.0).sub(self.mul(self)))),
            // From the result, which is stored anyway, unless the operand takes less memory. One operation: with two,
            // the first would be computed and stored in the kernel of the result.
            E::Relu if x.dtype() == DType::F32 => one(Self::element(E::Gate, &[self, g])),
            E::Relu => one(Self::element(E::Gate, &[x, g])),
            E::Gate => vec![None, Some(Self::element(E::Gate, &[x, g]))],
            E::Gelu => one(g.mul(Self::element(E::GeluSlope, &[x]))),
            E::GeluErf => one(g.mul(Self::element(E::GeluErfSlope, &[x]))),
            E::GeluSlope | E::GeluErfSlope => {
                let hint = "second derivatives of gelu are not supported: use tanh or sigmoid";
                let problem = Problem::new("the second derivative of gelu", hint);
                one(self.refused(&[self], problem))
            }
            E::Add => vec![Some(g.clone()), Some(g.clone())],
            E::Sub => vec![Some(g.clone()), Some(g.neg())],
            E::Mul => vec![Some(g.mul(y)), Some(g.mul(x))],
            E::Div => vec![Some(g.div(y)), Some(g.mul(self).div(y).neg())],
            // If both are equal, each receives half.
            E::Max | E::Min => {
                let first = if op == E::Max {
                    x.greater(y)
                } else {
                    y.greater(x)
                };
                let share = x.equal(y).select(0.5, first);
                let rest = self.context().constant(1.0).sub(&share);
                vec![Some(g.mul(share)), Some(g.mul(rest))]
            }
            E::Pow => {
                let lower = Self::element(E::Pow, &[x, &y.sub(1.0)]);
                let slope = y.mul(lower);
                if y.is_constant() {
                    let is_flat = y.constant_value() == Some(0.0);
                    return vec![(!is_flat).then(|| g.mul(slope)), None];
                }
                // If the power is 1 or 0 for any other operand, infinity times 0 would be NaN.
                let by_base = y.equal(0.0).select(0.0, g.mul(slope));
                let is_zero = x.equal(0.0).mul(y.greater(0.0).maximum(y.equal(0.0)));
                let by_exponent = is_zero.select(0.0, g.mul(self).mul(x.log()));
                vec![Some(by_base), Some(by_exponent)]
            }
            E::Select => vec![None, Some(x.select(g, 0.0)), Some(x.select(0.0, g))],
        }
    }
}

/// Returns the tensors that `from` is computed from, and `from` itself, by number; only those that depend on `wanted`.
fn ancestors(from: &Tensor, wanted: &[&Tensor]) -> BTreeMap<u64, Tensor> {
    let mut all = BTreeMap::new();
    let mut pending = vec![from.clone()];
    while let Some(tensor) = pending.pop() {
        if all.contains_key(&tensor.0.id) {
            continue;
        }
        let inputs = match &tensor.0.op {
            // The inner graph of a custom operation is not visited.
            Op::Custom(_) => &tensor.0.inputs[1..],
            Op::View(View::Detach) => &[],
            _ => &tensor.0.inputs[..],
        };
        pending.extend(inputs.iter().cloned());
        all.insert(tensor.0.id, tensor);
    }
    let mut leads: HashSet<u64> = wanted.iter().map(|tensor| tensor.0.id).collect();
    for (id, tensor) in &all {
        if tensor
            .0
            .inputs
            .iter()
            .any(|input| leads.contains(&input.0.id))
        {
            leads.insert(*id);
        }
    }
    all.retain(|id, _| leads.contains(id));
    all
}
