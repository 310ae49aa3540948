//! [`Block`]: instructions on a block of elements at a time.

use super::Inputs;
use crate::context::Values;
use crate::graph::tensor::ReduceOp;
use crate::program::{Access, Body, Instruction, Piece, Source, Value};
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Elements of a block: all registers of a kernel together stay in the nearest caches.
pub(crate) const BLOCK: usize = 1024;

/// Registers of the instructions of a body for one block.
pub(crate) struct Block<'a> {
    body: &'a Body,
    inputs: &'a Inputs<'a>,
    registers: Vec<Vec<f32>>,
    /// Constants that are filled in already.
    filled: Vec<bool>,
    /// Inputs that are read in their buffer: the buffer's values, and the offset of the access.
    direct: Vec<Option<&'a [f32]>>,
    /// Linear index of the block's first element.
    start: usize,
}

/// Returns the values of an input that needs no loading: `f32`, element by element.
fn direct<'a>(body: &Body, instruction: &Instruction, inputs: &'a Inputs<'a>) -> Option<&'a [f32]> {
    // A value per row is the same for all elements of the row: it is in a register.
    let Value::Input(input) = instruction.value else {
        return None;
    };
    if instruction.by_row {
        return None;
    }
    let Source::Buffer(access) = &body.inputs[input] else {
        return None;
    };
    match (inputs.get(access.buffer), access.dims.as_slice()) {
        (Values::F32(values), [(_, 1)]) => values.get(access.offset..),
        _ => None,
    }
}

impl<'a> Block<'a> {
    pub fn new(body: &'a Body, inputs: &'a Inputs<'a>) -> Self {
        Self {
            body,
            inputs,
            registers: body.instructions.iter().map(|_| vec![0.0; BLOCK]).collect(),
            filled: vec![false; body.instructions.len()],
            direct: body
                .instructions
                .iter()
                .map(|i| direct(body, i, inputs))
                .collect(),
            start: 0,
        }
    }

    /// Returns the values of an instruction for the block that was computed last.
    pub fn values(&self, instruction: usize, count: usize) -> &[f32] {
        match self.direct[instruction] {
            Some(values) => &values[self.start..self.start + count],
            None => &self.registers[instruction][..count],
        }
    }

    /// Sets the values of an instruction from outside.
    pub fn set(&mut self, instruction: usize, values: &[f32]) {
        self.registers[instruction][..values.len()].copy_from_slice(values);
    }

    /// Sets the values of an instruction to one number.
    pub fn fill(&mut self, instruction: usize, value: f32) {
        self.registers[instruction].fill(value);
    }

    /// Computes instructions for `count` elements from linear index `start` on.
    pub fn compute(&mut self, instructions: &[usize], start: usize, count: usize) {
        self.start = start;
        for &at in instructions {
            if self.direct[at].is_some() {
                continue;
            }
            // Operands come before, so they can be borrowed together with the result.
            let (before, rest) = self.registers.split_at_mut(at);
            let out = &mut rest[0][..count];
            match &self.body.instructions[at].value {
                Value::Input(input) => load(&self.body.inputs[*input], self.inputs, start, out),
                Value::Constant(value) => {
                    if !self.filled[at] {
                        rest[0].fill(*value);
                        self.filled[at] = true;
                    }
                }
                Value::Element(op, operands) => {
                    let of = |k: usize| match operands.get(k) {
                        None => &[][..],
                        Some(operand) => match self.direct[*operand] {
                            Some(values) => &values[start..start + count],
                            None => &before[*operand][..count],
                        },
                    };
                    op.apply(out, [of(0), of(1), of(2)]);
                }
                Value::Reduce(..) | Value::Product => {}
            }
        }
    }
}

fn load(source: &Source, inputs: &Inputs<'_>, start: usize, out: &mut [f32]) {
    match source {
        Source::Buffer(access) => load_access(access, inputs, start, out),
        Source::Unfold(access, unfold) => {
            let values = inputs.get(access.buffer);
            super::windows::load(unfold, values, access.offset, start, out);
        }
        Source::Gather(table, numbers, rows, width) => {
            let mut at = start;
            let mut done = 0;
            while done < out.len() {
                let within = at % width;
                let count = (width - within).min(out.len() - done);
                let number = match inputs.get(numbers.buffer) {
                    Values::U32(values) => values[place(numbers, at / width)] as usize,
                    _ => usize::MAX,
                };
                let part = &mut out[done..done + count];
                match number < *rows {
                    true => load_access(table, inputs, number * width + within, part),
                    false => part.fill(f32::NAN),
                }
                at += count;
                done += count;
            }
        }
        Source::Cat(inner, pieces) => {
            let total: usize = pieces.iter().map(|piece| piece.0).sum::<usize>() * inner;
            let mut done = 0;
            while done < out.len() {
                let (outer, mut within) = ((start + done) / total, (start + done) % total);
                for (length, piece) in pieces {
                    let size = length * inner;
                    if within >= size {
                        within -= size;
                        continue;
                    }
                    let count = (size - within).min(out.len() - done);
                    let part = &mut out[done..done + count];
                    match piece {
                        Piece::Constant(value) => part.fill(*value),
                        Piece::Buffer(access) => {
                            load_access(access, inputs, outer * size + within, part)
                        }
                    }
                    done += count;
                    break;
                }
            }
        }
    }
}

/// Returns the index of element `i` of an access.
fn place(access: &Access, i: usize) -> usize {
    let mut left = i;
    let mut at = access.offset;
    for (size, stride) in access.dims.iter().rev() {
        at += left % size * stride;
        left /= size;
    }
    at
}

fn load_access(access: &Access, inputs: &Inputs<'_>, start: usize, out: &mut [f32]) {
    if access.dims.iter().any(|(size, _)| *size == 0) {
        out.fill(0.0);
        return;
    }
    let values = inputs.get(access.buffer);
    let (inner, stride) = access.dims.last().copied().unwrap_or((usize::MAX, 0));
    let mut done = 0;
    while done < out.len() {
        let at = start + done;
        // Up to the end of the innermost axis.
        let count = (inner - at % inner).min(out.len() - done);
        run(
            values,
            place(access, at),
            stride,
            &mut out[done..done + count],
        );
        done += count;
    }
}

fn run(values: &Values, first: usize, stride: usize, out: &mut [f32]) {
    let count = out.len();
    match (values, stride) {
        (Values::F32(values), 1) => out.copy_from_slice(&values[first..first + count]),
        (Values::F32(values), 0) => out.fill(values[first]),
        (Values::F16(values), 1) => values[first..first + count].convert_to_f32_slice(out),
        (Values::F16(values), 0) => out.fill(values[first].to_f32()),
        (Values::F32(values), stride) => {
            let from = values[first..].iter().step_by(stride);
            out.iter_mut()
                .zip(from)
                .for_each(|(out, value)| *out = *value);
        }
        (Values::F16(values), stride) => {
            let from = values[first..].iter().step_by(stride);
            out.iter_mut()
                .zip(from)
                .for_each(|(out, value)| *out = value.to_f32());
        }
        (Values::U32(values), stride) => {
            for (i, out) in out.iter_mut().enumerate() {
                *out = values[first + i * stride] as f32;
            }
        }
    }
}

/// A part of an output, to be written.
pub(crate) enum Part<'a> {
    F32(&'a mut [f32]),
    F16(&'a mut [f16]),
}

impl Part<'_> {
    pub fn store(&mut self, at: usize, values: &[f32]) {
        match self {
            Self::F32(part) => part[at..at + values.len()].copy_from_slice(values),
            Self::F16(part) => part[at..at + values.len()].convert_from_f32_slice(values),
        }
    }
}

/// Splits each output into parts of `size` elements; the last part holds the remainder.
pub(crate) fn parts<'a>(
    outputs: &'a mut [Values],
    sizes: &[usize],
    count: usize,
) -> Vec<Vec<Part<'a>>> {
    let mut all: Vec<Vec<Part<'a>>> = (0..count)
        .map(|_| Vec::with_capacity(sizes.len()))
        .collect();
    for (output, size) in outputs.iter_mut().zip(sizes) {
        match output {
            Values::F32(values) => {
                let parts = values.chunks_mut((*size).max(1)).map(Part::F32);
                // Outputs without elements have parts without elements: each task indexes its list by output.
                let parts = parts.chain(std::iter::repeat_with(|| Part::F32(&mut [])));
                all.iter_mut()
                    .zip(parts)
                    .for_each(|(list, part)| list.push(part));
            }
            Values::F16(values) => {
                let parts = values.chunks_mut((*size).max(1)).map(Part::F16);
                // Outputs without elements have parts without elements: each task indexes its list by output.
                let parts = parts.chain(std::iter::repeat_with(|| Part::F16(&mut [])));
                all.iter_mut()
                    .zip(parts)
                    .for_each(|(list, part)| list.push(part));
            }
            Values::U32(_) => {}
        }
    }
    all
}

/// Number of parallel sums: the lanes of vectors. The number does not depend on the CPU, so that results are the same.
const LANES: usize = 16;

/// Reduces values, in an order that depends on their number only.
pub(crate) fn reduced(op: ReduceOp, values: &[f32]) -> f32 {
    let mut lanes = [op.identity(); LANES];
    let mut chunks = values.chunks_exact(LANES);
    for chunk in &mut chunks {
        join_all(op, &mut lanes, chunk);
    }
    let mut total = op.identity();
    for value in lanes.iter().chain(chunks.remainder()) {
        total = joined(op, total, *value);
    }
    total
}

pub(crate) fn joined(op: ReduceOp, a: f32, b: f32) -> f32 {
    match op {
        ReduceOp::Sum => a + b,
        ReduceOp::Max if a > b || a.is_nan() => a,
        ReduceOp::Min if a < b || a.is_nan() => a,
        _ => b,
    }
}

/// Joins `more` into `into`, one by one.
pub(crate) fn join_all(op: ReduceOp, into: &mut [f32], more: &[f32]) {
    let pairs = into.iter_mut().zip(more);
    match op {
        ReduceOp::Sum => pairs.for_each(|(a, b)| *a += *b),
        _ => pairs.for_each(|(a, b)| *a = joined(op, *a, *b)),
    }
}
