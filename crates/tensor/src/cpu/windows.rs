//! Products whose second matrix is unfolded: convolutions.
//!
//! 1. A task is some columns of a result, of all its rows, so that its unfolded part serves all rows.
//! 2. The sum is cut into blocks. The second matrix's part of each block is unfolded into memory that the nearest
//!    caches hold, and multiplied.
//! 3. Elementwise operations on the result run as a row's columns are stored.

use super::Inputs;
use super::body::{BLOCK, Block, Part};
use super::kernels::{begin, widened};
use crate::context::Values;
use crate::graph::windows::Unfold;
use crate::program::{KernelPlan, Product, Value};
use rayon::prelude::*;

/// Columns of a task.
const COLUMNS: usize = 512;
/// Steps of the sum in a block: with the columns 512 KiB.
const STEPS: usize = 256;

/// Unfolds the taps of one row and column of windows from `first` on, of a channel of an image.
fn unfold_row(
    unfold: &Unfold,
    plane: &[f32],
    [row, column]: [usize; 2],
    first: usize,
    out: &mut [f32],
) {
    let (kw, w) = (unfold.kernel[1], unfold.size[1]);
    let columns = unfold.out[1];
    let mut done = 0;
    while done < out.len() {
        let (wy, wx) = ((first + done) / columns, (first + done) % columns);
        let count = (columns - wx).min(out.len() - done);
        let line = &mut out[done..done + count];
        done += count;
        let Some(y) = unfold.place(0, wy, row) else {
            line.fill(unfold.fill);
            continue;
        };
        let pixels = &plane[y * w..][..w];
        let tap = match unfold.mirrored {
            true => kw - 1 - column,
            false => column,
        };
        let at = (wx * unfold.stride[1] + tap) as isize - unfold.padding[1];
        if unfold.stride[1] == 1 && unfold.gap[1] == 1 {
            // Neighbours remain neighbours: columns outside on the left, inside, outside on the right.
            let left = (-at).clamp(0, count as isize) as usize;
            let inside = (w as isize - at).clamp(left as isize, count as isize) as usize;
            line[..left].fill(unfold.fill);
            let from = (at + left as isize).max(0) as usize;
            if inside > left {
                line[left..inside].copy_from_slice(&pixels[from..from + inside - left]);
            }
            line[inside..].fill(unfold.fill);
            continue;
        }
        for (i, out) in line.iter_mut().enumerate() {
            let x = unfold.place(1, wx + i, column);
            *out = x.map_or(unfold.fill, |x| pixels[x]);
        }
    }
}

/// Loads elements from `start` on of `[n, channels * taps, windows]`.
pub(super) fn load(unfold: &Unfold, values: &Values, offset: usize, start: usize, out: &mut [f32]) {
    let (taps, windows, pixels) = (unfold.taps(), unfold.windows(), unfold.pixels());
    let mut done = 0;
    let mut image = Vec::new();
    let mut held = usize::MAX;
    while done < out.len() {
        let at = start + done;
        let (n, k, p) = (at / (taps * windows), at / windows % taps, at % windows);
        let count = (windows - p).min(out.len() - done);
        let part = &mut out[done..done + count];
        let [channel, row, column] = unfold.tap(k);
        let size = unfold.size[0] * unfold.size[1];
        // Only the channel that the tap is of.
        let from = offset + n * pixels + channel * size;
        let plane = match values {
            Values::F32(values) => &values[from..from + size],
            other => {
                if held != from {
                    image = other.widened_part(from, size);
                    held = from;
                }
                &image
            }
        };
        unfold_row(unfold, plane, [row, column], p, part);
        done += count;
    }
}

/// Returns true if the sum goes over windows and the columns over taps, not the other way round.
fn is_turned(p: &Product, unfold: &Unfold) -> bool {
    if unfold.windows() == 1 {
        // Strides do not decide this: the next tap is the next element, too.
        return p.n > 1;
    }
    let natural = (p.n == 1 || p.b.column == 1) && (p.k == 1 || p.b.row == unfold.windows());
    !natural
}

/// Slices of an output: the columns of a task, for each row.
type Columns<'a> = Vec<Part<'a>>;

/// Returns the slices of each output for each task (matrix of the batch, columns).
fn tasks<'a>(outputs: &'a mut [Values], p: &Product) -> Vec<Vec<Columns<'a>>> {
    let across = p.n.div_ceil(COLUMNS);
    let count = outputs.len();
    let mut all: Vec<Vec<Columns<'a>>> = (0..p.batch * across)
        .map(|_| (0..count).map(|_| Vec::with_capacity(p.m)).collect())
        .collect();
    let mut deal = |output: usize, row: usize, column: usize, part: Part<'a>| {
        all[row / p.m * across + column][output].push(part);
    };
    for (o, output) in outputs.iter_mut().enumerate() {
        match output {
            Values::F32(values) => {
                for (row, line) in values.chunks_mut(p.n).enumerate() {
                    let parts = line.chunks_mut(COLUMNS).enumerate();
                    parts.for_each(|(c, part)| deal(o, row, c, Part::F32(part)));
                }
            }
            Values::F16(values) => {
                for (row, line) in values.chunks_mut(p.n).enumerate() {
                    let parts = line.chunks_mut(COLUMNS).enumerate();
                    parts.for_each(|(c, part)| deal(o, row, c, Part::F16(part)));
                }
            }
            Values::U32(_) => {}
        }
    }
    all
}

pub(super) fn matmul(
    kernel: &KernelPlan,
    inputs: &Inputs<'_>,
    outputs: &mut [Values],
    p: &Product,
    unfold: &Unfold,
) {
    if p.m * p.n * p.batch == 0 {
        return;
    }
    let body = &kernel.body;
    let (a, b) = (widened(inputs, &p.a), widened(inputs, &p.b));
    let all: Vec<usize> = (0..body.instructions.len()).collect();
    let product = body
        .instructions
        .iter()
        .position(|i| i.value == Value::Product);
    let across = p.n.div_ceil(COLUMNS);
    tasks(outputs, p)
        .into_par_iter()
        .enumerate()
        .for_each(|(task, mut slices)| {
            let (batch, first) = (task / across, task % across * COLUMNS);
            let columns = COLUMNS.min(p.n - first);
            let mut result = vec![0.0; p.m * columns];
            multiply((&a, &b), &mut result, p, unfold, (batch, first, columns));
            let Some(product) = product else { return };
            let mut block = Block::new(body, inputs);
            for (row, line) in result.chunks(columns).enumerate() {
                let start = (batch * p.m + row) * p.n + first;
                for (i, chunk) in line.chunks(BLOCK).enumerate() {
                    block.set(product, chunk);
                    block.compute(&all, start + i * BLOCK, chunk.len());
                    for (instruction, output) in &body.stores {
                        let values = block.values(*instruction, chunk.len());
                        slices[*output][row].store(i * BLOCK, values);
                    }
                }
            }
        });
}

/// Computes some columns of a result, for all its rows.
fn multiply(
    (a, b): (&[f32], &[f32]),
    out: &mut [f32],
    p: &Product,
    unfold: &Unfold,
    (batch, first, columns): (usize, usize, usize),
) {
    let (windows, taps) = (unfold.windows(), unfold.taps());
    let virtual_at = begin(&p.b, batch) - p.b.offset;
    let (n, r) = (virtual_at / (taps * windows), virtual_at % (taps * windows));
    let (k0, p0) = (r / windows, r % windows);
    let image = &b[p.b.offset + n * unfold.pixels()..][..unfold.pixels()];
    let a_at = begin(&p.a, batch);
    let turned = is_turned(p, unfold);
    let size = unfold.size[0] * unfold.size[1];
    let unfolded = |k: usize, first: usize, line: &mut [f32]| {
        let [channel, row, column] = unfold.tap(k);
        let plane = &image[channel * size..][..size];
        unfold_row(unfold, plane, [row, column], first, line);
    };
    let mut packed = vec![0.0; STEPS.min(p.k) * columns];
    let mut done = 0;
    while done < p.k {
        let steps = STEPS.min(p.k - done);
        // By taps: each is a row of windows, in both directions.
        let (row, column) = if turned {
            for (c, line) in packed[..steps * columns].chunks_mut(steps).enumerate() {
                unfolded(k0 + first + c, p0 + done, line);
            }
            (1, steps)
        } else {
            for (s, line) in packed[..steps * columns].chunks_mut(columns).enumerate() {
                unfolded(k0 + done + s, p0 + first, line);
            }
            (columns, 1)
        };
        let from = a_at + done * p.a.column;
        let reach = from + (p.m - 1) * p.a.row + (steps - 1) * p.a.column;
        assert!(reach < a.len(), "a product reaches outside of its matrices");
        let beta = if done == 0 { 0.0 } else { 1.0 };
        // SAFETY: the last element of the first matrix was just found to be inside; the second is `steps * columns`
        // elements of `packed`, by either strides; `out` has `m * columns` and is borrowed alone.
        unsafe {
            matrixmultiply::sgemm(
                p.m,
                steps,
                columns,
                1.0,
                a.as_ptr().add(from),
                p.a.row as isize,
                p.a.column as isize,
                packed.as_ptr(),
                row as isize,
                column as isize,
                beta,
                out.as_mut_ptr(),
                columns as isize,
                1,
            );
        }
        done += steps;
    }
}
