//! CPU kernels, one for each space.

use super::body::{BLOCK, Block, Part, join_all, joined, parts, reduced};
use super::{Inputs, dtype_of};
use crate::context::Values;
use crate::graph::tensor::DType;
use crate::program::{Body, KernelPlan, Matrix, More, Product, Source, Space, Value};
use rayon::prelude::*;

/// Elements per task: many blocks, so that registers are rarely allocated.
const TASK: usize = 32 * BLOCK;
/// Rows per task of a product: more for a large product, because each task packs the second matrix for itself.
const ROWS: [usize; 2] = [64, 256];
/// Maximum rows that are each computed as a sum of the second matrix's rows.
const THIN: usize = 4;

pub(super) fn all_of(body: &Body) -> Vec<usize> {
    (0..body.instructions.len()).collect()
}

/// Computes all elements from `start` on and stores them.
fn elements(
    block: &mut Block<'_>,
    body: &Body,
    all: &[usize],
    parts: &mut [Part<'_>],
    (start, count): (usize, usize),
) {
    let mut done = 0;
    while done < count {
        let now = BLOCK.min(count - done);
        block.compute(all, start + done, now);
        for (instruction, output) in &body.stores {
            parts[*output].store(done, block.values(*instruction, now));
        }
        done += now;
    }
}

pub(crate) fn map(kernel: &KernelPlan, inputs: &Inputs<'_>, outputs: &mut [Values], count: usize) {
    let (body, all) = (&kernel.body, all_of(&kernel.body));
    let tasks = count.div_ceil(TASK);
    let sizes = vec![TASK; outputs.len()];
    parts(outputs, &sizes, tasks)
        .into_par_iter()
        .enumerate()
        .for_each(|(task, mut parts)| {
            let start = task * TASK;
            let mut block = Block::new(body, inputs);
            elements(
                &mut block,
                body,
                &all,
                &mut parts,
                (start, TASK.min(count - start)),
            );
        });
}

/// Instructions for a row, phase by phase.
struct Steps {
    /// Instructions per row.
    by_row: Vec<usize>,
    /// Instructions per element, including those stored or reduced after the phase.
    elements: Vec<usize>,
    reductions: Vec<usize>,
    is_last: bool,
}

fn steps(body: &Body) -> Vec<Steps> {
    let phases = body.phases();
    let last = phases.iter().copied().max().unwrap_or(0);
    let count = body.instructions.len();
    let of = |phase: usize| {
        let reductions: Vec<usize> = (0..count)
            .filter(|at| {
                phases[*at] == phase + 1
                    && matches!(body.instructions[*at].value, Value::Reduce(..))
            })
            .collect();
        let mut needed = vec![false; count];
        for at in &reductions {
            if let Value::Reduce(_, operand) = body.instructions[*at].value {
                needed[operand] = true;
            }
        }
        if phase == last {
            body.stores.iter().for_each(|(at, _)| needed[*at] = true);
        }
        for at in (0..count).rev().filter(|at| !body.instructions[*at].by_row) {
            if let (true, Value::Element(_, operands)) = (needed[at], &body.instructions[at].value)
            {
                operands.iter().for_each(|operand| needed[*operand] = true);
            }
        }
        Steps {
            by_row: (0..count)
                .filter(|at| body.instructions[*at].by_row && phases[*at] == phase)
                .collect(),
            elements: (0..count)
                .filter(|at| needed[*at] && !body.instructions[*at].by_row)
                .collect(),
            reductions,
            is_last: phase == last,
        }
    };
    (0..=last).map(of).collect()
}

pub(crate) fn rows(
    kernel: &KernelPlan,
    inputs: &Inputs<'_>,
    outputs: &mut [Values],
    rows: usize,
    n: usize,
) {
    let body = &kernel.body;
    let steps = steps(body);
    let by_row = |output: usize| {
        body.stores
            .iter()
            .any(|(at, o)| *o == output && body.instructions[*at].by_row)
    };
    let each = (TASK / n.max(1)).max(1);
    let sizes: Vec<usize> = (0..outputs.len())
        .map(|o| if by_row(o) { each } else { each * n })
        .collect();
    let tasks = rows.div_ceil(each);
    parts(outputs, &sizes, tasks)
        .into_par_iter()
        .enumerate()
        .for_each(|(task, mut parts)| {
            let mut block = Block::new(body, inputs);
            for row in task * each..((task + 1) * each).min(rows) {
                one_row(
                    &mut block,
                    body,
                    &steps,
                    &mut parts,
                    (row, row - task * each, n),
                );
            }
        });
}

fn one_row(
    block: &mut Block<'_>,
    body: &Body,
    steps: &[Steps],
    parts: &mut [Part<'_>],
    (row, within, n): (usize, usize, usize),
) {
    // The values of the only block of a short row are still in the registers.
    let is_short = n <= BLOCK;
    let mut there = vec![false; body.instructions.len()];
    for step in steps {
        for at in &step.by_row {
            // One value, for all elements.
            block.compute(&[*at], row, 1);
            if !matches!(body.instructions[*at].value, Value::Reduce(..)) {
                let value = block.values(*at, 1)[0];
                block.fill(*at, value);
            }
        }
        let fresh: Vec<usize> = step
            .elements
            .iter()
            .copied()
            .filter(|at| !there[*at])
            .collect();
        let mut totals: Vec<f32> = Vec::with_capacity(step.reductions.len());
        for at in &step.reductions {
            if let Value::Reduce(op, _) = body.instructions[*at].value {
                totals.push(op.identity());
            }
        }
        let mut done = 0;
        while done < n {
            let now = BLOCK.min(n - done);
            block.compute(&fresh, row * n + done, now);
            for (at, total) in step.reductions.iter().zip(&mut totals) {
                if let Value::Reduce(op, operand) = body.instructions[*at].value {
                    *total = joined(op, *total, reduced(op, block.values(operand, now)));
                }
            }
            for (at, output) in body
                .stores
                .iter()
                .filter(|store| step.is_last && !body.instructions[store.0].by_row)
            {
                parts[*output].store(within * n + done, block.values(*at, now));
            }
            done += now;
        }
        for (at, total) in step.reductions.iter().zip(totals) {
            block.fill(*at, total);
        }
        if is_short {
            step.elements.iter().for_each(|at| there[*at] = true);
        }
    }
    for (at, output) in body
        .stores
        .iter()
        .filter(|store| body.instructions[store.0].by_row)
    {
        let value = block.values(*at, 1)[0];
        parts[*output].store(within, &[value]);
    }
}

pub(crate) fn columns(kernel: &KernelPlan, inputs: &Inputs<'_>, outputs: &mut [Values]) {
    let Space::Columns {
        outer,
        n,
        inner,
        op,
        value,
    } = kernel.space
    else {
        return;
    };
    let (body, all) = (&kernel.body, all_of(&kernel.body));
    // Columns of a task: many where there are many.
    let across = BLOCK.min(inner.max(1));
    let tasks = inner.div_ceil(across);
    let Some(Values::F32(output)) = outputs.first_mut() else {
        return;
    };
    let mut pieces: Vec<(usize, usize, &mut [f32])> = Vec::with_capacity(outer * tasks);
    for (o, line) in output.chunks_mut(inner.max(1)).enumerate() {
        pieces.extend(
            line.chunks_mut(across)
                .enumerate()
                .map(|(c, piece)| (o, c * across, piece)),
        );
    }
    let one = |block: &mut Block<'_>, (o, first, piece): (usize, usize, &mut [f32])| {
        piece.fill(op.identity());
        for r in 0..n {
            block.compute(&all, (o * n + r) * inner + first, piece.len());
            join_all(op, piece, block.values(value, piece.len()));
        }
    };
    pieces
        .into_par_iter()
        .for_each_init(|| Block::new(body, inputs), one);
}

/// Returns the values of a matrix operand as `f32`, borrowed if they are stored as `f32`.
pub(super) fn widened<'a>(inputs: &'a Inputs<'_>, matrix: &Matrix) -> std::borrow::Cow<'a, [f32]> {
    match inputs.get(matrix.buffer) {
        Values::F32(values) => values.as_slice().into(),
        other => other.widened().into(),
    }
}

/// Returns the offset of a matrix of the batch.
pub(super) fn begin(matrix: &Matrix, batch: usize) -> usize {
    let mut left = batch;
    let mut at = matrix.offset;
    for (size, stride) in matrix.dims.iter().rev() {
        at += left % size * stride;
        left /= size;
    }
    at
}

/// Returns the rows per task of a product with `m` rows.
pub(super) fn task_rows(m: usize) -> usize {
    if m >= 2 * ROWS[1] { ROWS[1] } else { ROWS[0] }
}

pub(crate) fn matmul(
    kernel: &KernelPlan,
    inputs: &Inputs<'_>,
    outputs: &mut [Values],
    p: &Product,
) {
    if let Some(unfold) = &p.b.unfold {
        super::windows::matmul(kernel, inputs, outputs, p, unfold);
        return;
    }
    let (body, all) = (&kernel.body, all_of(&kernel.body));
    let (a, b) = (widened(inputs, &p.a), widened(inputs, &p.b));
    let added = p.more.as_ref();
    let added = added.map(|more| [&more.a, &more.b].map(|matrix| widened(inputs, matrix)));
    let product = body
        .instructions
        .iter()
        .position(|i| i.value == Value::Product);
    // A task is some rows of one matrix of the batch.
    let task_rows = task_rows(p.m);
    let per = p.m.div_ceil(task_rows);
    let whole = p.m.is_multiple_of(task_rows) || p.batch == 1;
    let rows = if whole { task_rows } else { p.m };
    let per = if whole { per } else { 1 };
    let sizes = vec![rows * p.n; outputs.len()];
    let plain = body.instructions.len() == 1;
    parts(outputs, &sizes, p.batch * per)
        .into_par_iter()
        .enumerate()
        .for_each(|(task, mut parts)| {
            let (batch, first) = (task / per, task % per * rows);
            let m = rows.min(p.m - first);
            let mut own = Vec::new();
            let result: &mut [f32] = match parts.first_mut() {
                Some(Part::F32(part)) if plain => part,
                _ => {
                    own.resize(m * p.n, 0.0);
                    &mut own
                }
            };
            multiply(
                &a,
                begin(&p.a, batch) + first * p.a.row,
                &b,
                begin(&p.b, batch),
                result,
                (m, p),
            );
            if let (Some(more), Some([a, b])) = (&p.more, &added) {
                let part = (first, m, p.n);
                add_product(more, [a, b], result, part);
            }
            let Some(product) = product.filter(|_| !plain || !own.is_empty()) else {
                return;
            };
            let mut block = Block::new(body, inputs);
            let start = (batch * p.m + first) * p.n;
            for (k, chunk) in own.chunks(BLOCK).enumerate() {
                block.set(product, chunk);
                block.compute(&all, start + k * BLOCK, chunk.len());
                for (instruction, output) in &body.stores {
                    parts[*output].store(k * BLOCK, block.values(*instruction, chunk.len()));
                }
            }
        });
}

pub(super) fn multiply(
    a: &[f32],
    a_at: usize,
    b: &[f32],
    b_at: usize,
    out: &mut [f32],
    (m, p): (usize, &Product),
) {
    let reach = |at: usize, rows: usize, row: usize, columns: usize, column: usize| {
        at + rows.saturating_sub(1) * row + columns.saturating_sub(1) * column
    };
    if m == 0 || p.n == 0 || p.k == 0 {
        out.fill(0.0);
        return;
    }
    let inside = reach(a_at, m, p.a.row, p.k, p.a.column) < a.len()
        && reach(b_at, p.k, p.b.row, p.n, p.b.column) < b.len()
        && out.len() >= m * p.n;
    assert!(inside, "a product reaches outside of its matrices");
    if p.plain {
        for (i, out) in out.iter_mut().enumerate() {
            let (row, column) = (a_at + i / p.n * p.a.row, b_at + i % p.n * p.b.column);
            let terms = (0..p.k).map(|k| a[row + k * p.a.column] * b[column + k * p.b.row]);
            *out = terms.sum();
        }
        return;
    }
    if m <= THIN && p.b.column == 1 {
        for (row, out) in out.chunks_mut(p.n).enumerate().take(m) {
            let from = a_at + row * p.a.row;
            let chunks = out.par_chunks_mut(COLUMNS).enumerate();
            chunks.for_each(|(chunk, out)| {
                let line = |k: usize| b_at + k * p.b.row + chunk * COLUMNS;
                sum_of_rows(out, b, line, (0..p.k).map(|k| a[from + k * p.a.column]));
            });
        }
        return;
    }
    // SAFETY: the last elements that strides lead to were just checked to be inside of the slices; `out` has no other
    // borrow.
    unsafe {
        matrixmultiply::sgemm(
            m,
            p.k,
            p.n,
            1.0,
            a.as_ptr().add(a_at),
            p.a.row as isize,
            p.a.column as isize,
            b.as_ptr().add(b_at),
            p.b.row as isize,
            p.b.column as isize,
            0.0,
            out.as_mut_ptr(),
            p.n as isize,
            1,
        );
    }
}

/// Adds some rows of a second product, weighed.
fn add_product(
    more: &More,
    [a, b]: [&[f32]; 2],
    out: &mut [f32],
    (first, m, n): (usize, usize, usize),
) {
    for (row, out) in out.chunks_mut(n).enumerate().take(m) {
        let from = more.a.offset + (first + row) * more.a.row;
        for k in 0..more.k {
            let weight = more.scale * a[from + k * more.a.column];
            let line = more.b.offset + k * more.b.row;
            if more.b.column == 1 {
                let line = &b[line..line + n];
                out.iter_mut()
                    .zip(line)
                    .for_each(|(out, b)| *out += weight * b);
                continue;
            }
            for (column, out) in out.iter_mut().enumerate() {
                *out += weight * b[line + column * more.b.column];
            }
        }
    }
}

/// Columns of a task of a thin product.
const COLUMNS: usize = 256;

/// Adds up parts of rows of `b`, each weighed.
fn sum_of_rows(
    out: &mut [f32],
    b: &[f32],
    line: impl Fn(usize) -> usize,
    weights: impl Iterator<Item = f32>,
) {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            out.fill(0.0);
            for (k, weight) in weights.enumerate() {
                let row = &b[line(k)..][..out.len()];
                out.iter_mut()
                    .zip(row)
                    .for_each(|(out, b)| *out += weight * b);
            }
        },
    );
}

pub(crate) fn scatter(
    kernel: &KernelPlan,
    inputs: &Inputs<'_>,
    outputs: &mut [Values],
    [rows, width, numbers]: [usize; 3],
) {
    let body = &kernel.body;
    let Some(Values::F32(output)) = outputs.first_mut() else {
        return;
    };
    let Some(Source::Buffer(access)) = body.inputs.last() else {
        return;
    };
    let list: Vec<u32> = match inputs.get(access.buffer) {
        Values::U32(values) if dtype_of(inputs.get(access.buffer)) == DType::U32 => {
            let places = (0..numbers).map(|i| {
                let mut left = i;
                let mut at = access.offset;
                for (size, stride) in access.dims.iter().rev() {
                    at += left % size * stride;
                    left /= size;
                }
                values[at]
            });
            places.collect()
        }
        _ => return,
    };
    output.fill(0.0);
    let mut block = Block::new(body, inputs);
    for (number, row) in list.iter().enumerate() {
        let row = *row as usize;
        let mut done = 0;
        while done < width && row < rows {
            let now = BLOCK.min(width - done);
            block.compute(&[0], number * width + done, now);
            let into = &mut output[row * width + done..row * width + done + now];
            into.iter_mut()
                .zip(block.values(0, now))
                .for_each(|(sum, value)| *sum += *value);
            done += now;
        }
    }
}
