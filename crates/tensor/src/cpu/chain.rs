//! Chains of products: a task has some rows, and computes all links for them before the next rows, so that intermediate
//! values stay in the nearer caches. Each link is computed as it would be by itself.

use super::Inputs;
use super::body::{BLOCK, Block, Part, parts};
use super::kernels::{all_of, multiply, task_rows, widened};
use crate::context::Values;
use crate::program::{Chain, KernelPlan, Link, Matrix, Product, Value};
use rayon::prelude::*;

pub(crate) fn chain(
    kernel: &KernelPlan,
    inputs: &Inputs<'_>,
    outputs: &mut [Values],
    chain: &Chain,
) {
    let rows = task_rows(chain.m);
    let a = widened(inputs, &chain.a);
    let matrices: Vec<_> = chain
        .links
        .iter()
        .map(|link| widened(inputs, &link.b))
        .collect();
    let mut sizes = vec![0; kernel.outputs.len()];
    for link in &chain.links {
        for (_, output) in &link.body.stores {
            sizes[*output] = rows * link.n;
        }
    }
    parts(outputs, &sizes, chain.m.div_ceil(rows))
        .into_par_iter()
        .enumerate()
        .for_each(|(task, mut parts)| {
            let first = task * rows;
            let m = rows.min(chain.m - first);
            let mut passed: Vec<f32> = Vec::new();
            for (number, (link, b)) in chain.links.iter().zip(&matrices).enumerate() {
                let (from, at, matrix) = match number {
                    0 => (&*a, chain.a.offset + first * chain.a.row, chain.a.clone()),
                    _ => (passed.as_slice(), 0, between(&chain.a, link.k)),
                };
                let product = product(link, matrix, m);
                let mut result = vec![0.0; m * link.n];
                multiply(from, at, b, link.b.offset, &mut result, (m, &product));
                let is_last = number + 1 == chain.links.len();
                finish(inputs, link, &mut parts, (first, &mut result), is_last);
                passed = result;
            }
        });
}

/// Returns the values between two links, as a matrix of `k` columns.
fn between(a: &Matrix, k: usize) -> Matrix {
    Matrix {
        offset: 0,
        row: k,
        column: 1,
        ..a.clone()
    }
}

fn product(link: &Link, a: Matrix, m: usize) -> Product {
    Product {
        batch: 1,
        m,
        k: link.k,
        n: link.n,
        a,
        b: link.b.clone(),
        plain: false,
        cooperative: None,
        more: None,
    }
}

/// Computes the elementwise part of a link for its rows from `first` on; the results become the first matrix of the
/// next link.
fn finish(
    inputs: &Inputs<'_>,
    link: &Link,
    parts: &mut [Part<'_>],
    (first, result): (usize, &mut [f32]),
    is_last: bool,
) {
    let body = &link.body;
    let product = body
        .instructions
        .iter()
        .position(|i| i.value == Value::Product);
    let Some(product) = product else {
        return;
    };
    let all = all_of(body);
    let mut block = Block::new(body, inputs);
    let start = first * link.n;
    for (k, chunk) in result.chunks_mut(BLOCK).enumerate() {
        block.set(product, chunk);
        block.compute(&all, start + k * BLOCK, chunk.len());
        for (instruction, output) in &body.stores {
            parts[*output].store(k * BLOCK, block.values(*instruction, chunk.len()));
        }
        if !is_last {
            chunk.copy_from_slice(block.values(link.passed, chunk.len()));
        }
    }
}
