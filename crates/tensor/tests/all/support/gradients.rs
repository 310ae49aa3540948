//! Compares gradients with central differences of `f64` formulas, for fused and unfused plans.

use super::{close, numbers, wide};
use dapple_tensor::{Context, Tensor};

pub type Formula = Box<dyn Fn(&[Vec<f64>]) -> Vec<f64>>;
pub type Graph = Box<dyn Fn(&[Tensor]) -> Tensor>;

/// An operation: inputs' shapes, range of their values, the graph, the formula.
pub struct Case {
    pub name: &'static str,
    pub shapes: Vec<Vec<usize>>,
    pub range: [f32; 2],
    pub graph: Graph,
    pub formula: Formula,
}

pub fn case(
    name: &'static str,
    shapes: &[&[usize]],
    range: [f32; 2],
    graph: impl Fn(&[Tensor]) -> Tensor + 'static,
    formula: impl Fn(&[Vec<f64>]) -> Vec<f64> + 'static,
) -> Case {
    Case {
        name,
        shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
        range,
        graph: Box::new(graph),
        formula: Box::new(formula),
    }
}

/// Returns a weight per output, so that gradients differ between outputs.
pub fn weight(i: usize) -> f64 {
    ((i * 7 + 3) % 11) as f64 / 11.0 - 0.4
}

/// Returns the gradient of the weighted sum of a formula with respect to each input, by central differences.
pub fn differences(formula: &Formula, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    const STEP: f64 = 1e-5;
    let loss = |inputs: &[Vec<f64>]| {
        formula(inputs)
            .iter()
            .enumerate()
            .map(|(i, y)| y * weight(i))
            .sum::<f64>()
    };
    let mut now = inputs.to_vec();
    let mut all = Vec::new();
    for input in 0..inputs.len() {
        let mut gradient = Vec::new();
        for i in 0..inputs[input].len() {
            let x = inputs[input][i];
            now[input][i] = x + STEP;
            let above = loss(&now);
            now[input][i] = x - STEP;
            let below = loss(&now);
            now[input][i] = x;
            gradient.push((above - below) / (2.0 * STEP));
        }
        all.push(gradient);
    }
    all
}

pub fn check(context: &Context, case: &Case) {
    let data: Vec<Vec<f32>> = case
        .shapes
        .iter()
        .enumerate()
        .map(|(seed, shape)| {
            let [least, most] = case.range;
            let values = numbers(seed as u64 + 21, shape.iter().product());
            values
                .iter()
                .map(|x| least + (x + 1.0) * 0.5 * (most - least))
                .collect()
        })
        .collect();
    let leaves: Vec<Tensor> = case
        .shapes
        .iter()
        .zip(&data)
        .map(|(shape, data)| context.tensor(shape, data))
        .collect();
    let y = (case.graph)(&leaves);
    let weights: Vec<f32> = (0..y.count()).map(|i| weight(i) as f32).collect();
    let loss = y.mul(context.tensor(y.shape(), &weights)).sum();
    let gradients = loss.gradients(&leaves.iter().collect::<Vec<_>>());
    let inputs: Vec<Vec<f64>> = data.iter().map(|data| wide(data)).collect();
    let name = format!("{} on {context:?}", case.name);
    close(&name, &y.read().unwrap(), &(case.formula)(&inputs), 1e-5);
    let expected = differences(&case.formula, &inputs);
    for ((gradient, expected), leaf) in gradients.iter().zip(&expected).zip(&leaves) {
        assert_eq!(gradient.shape(), leaf.shape(), "{name}");
        for found in super::both(gradient) {
            close(&format!("gradient of {name}"), &found, expected, 1e-4);
        }
    }
}
