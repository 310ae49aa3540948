//! Loads: functions of a linear index that load one element or four, by the strides of an access.

use super::source::Source;
use crate::graph::tensor::DType;
use crate::program::{Access, Piece, Source as From};
use std::fmt::Write;

impl Source<'_> {
    /// Returns true if a buffer's elements from 0 on can be stored and loaded in fours.
    pub fn in_fours(&self, buffer: usize) -> bool {
        self.padded[buffer] || self.buffers[buffer].count.is_multiple_of(4)
    }

    /// Writes a function that returns the index of element `i` of an access. Returns its name.
    pub fn place(&mut self, access: &Access) -> String {
        let name = format!("at{}", self.loads);
        self.loads += 1;
        let mut text = format!("fn {name}(i: u32) -> u32 {{\n");
        match access.dims.as_slice() {
            [] => {
                let _ = writeln!(text, "    return {}u;", access.offset);
            }
            [(_, stride)] => {
                let _ = writeln!(text, "    return i * {stride}u + {}u;", access.offset);
            }
            dims => {
                let _ = writeln!(text, "    var r = i;\n    var a = {}u;", access.offset);
                for (size, stride) in dims[1..].iter().rev() {
                    // WGSL refuses a constant 0 as divisor, even where no element is read.
                    let size = size.max(&1);
                    if *stride > 0 {
                        let _ = writeln!(text, "    a += (r % {size}u) * {stride}u;");
                    }
                    let _ = writeln!(text, "    r = r / {size}u;");
                }
                let _ = writeln!(text, "    return a + r * {}u;", dims[0].1);
            }
        }
        text.push_str("}\n");
        self.functions.push_str(&text);
        name
    }

    /// Returns the expression of one element of a binding.
    pub fn one(name: &str, dtype: DType, at: &str) -> String {
        match dtype {
            DType::F32 => format!("{name}[{at}]"),
            DType::U32 => format!("f32({name}[{at}])"),
            DType::F16 => {
                format!("unpack2x16float({name}[({at}) >> 1u] >> ((({at}) & 1u) * 16u)).x")
            }
        }
    }

    /// Returns the expression of the four elements from `at`, a multiple of 4, on.
    pub fn four(name: &str, dtype: DType, at: &str) -> String {
        match dtype {
            DType::F16 => format!("halves({name}[({at}) >> 2u])"),
            _ => format!("{name}[({at}) >> 2u]"),
        }
    }

    /// Returns true if four neighbours of an access are four neighbours of the buffer, aligned to fours.
    fn is_wide(&self, access: &Access) -> bool {
        let Some((last, before)) = access.dims.split_last() else {
            // The only element of a leaf that this kernel also writes: both are of the same binding.
            let is_written = self.kernel.outputs.contains(&access.buffer);
            return is_written && access.count == 1 && self.in_fours(access.buffer);
        };
        let whole = last.0.is_multiple_of(4) || (before.is_empty() && self.in_fours(access.buffer));
        let aligned =
            access.offset.is_multiple_of(4) && before.iter().all(|dim| dim.1.is_multiple_of(4));
        access.dtype != DType::U32 && last.1 == 1 && whole && aligned
    }

    fn load_one(&mut self, access: &Access) -> String {
        let place = self.place(access);
        let name = self.bind(access.buffer, false, false);
        let load = format!("load{}", self.loads);
        self.loads += 1;
        let one = Self::one(&name, access.dtype, "a");
        let text = format!(
            "fn {load}(i: u32) -> f32 {{\n    let a = {place}(i);\n    return {one};\n}}\n"
        );
        self.functions.push_str(&text);
        load
    }

    fn load_access(&mut self, access: &Access, width: usize) -> String {
        if width == 1 {
            return self.load_one(access);
        }
        let text = if self.is_wide(access) {
            let place = self.place(access);
            let name = self.bind(access.buffer, true, false);
            let four = Self::four(&name, access.dtype, "a");
            format!("    let a = {place}(i);\n    return {four};\n")
        } else {
            let one = self.load_one(access);
            let alike = access.dims.last().is_none_or(|dim| {
                dim.1 == 0 && (dim.0.is_multiple_of(4) || access.dims.len() == 1)
            });
            match alike {
                true => format!("    return vec4f({one}(i));\n"),
                false => four_of(&one, access.count),
            }
        };
        self.define_load(&text, width)
    }

    fn define_load(&mut self, text: &str, width: usize) -> String {
        let load = format!("load{}", self.loads);
        self.loads += 1;
        let ty = Self::type_of(width);
        self.functions
            .push_str(&format!("fn {load}(i: u32) -> {ty} {{\n{text}}}\n"));
        load
    }

    /// Writes a function of a linear index that loads an input. Returns its name.
    pub fn load(&mut self, input: usize, width: usize) -> String {
        let kernel = self.kernel;
        self.load_of(&kernel.body.inputs[input], width, self.extent())
    }

    /// [`Self::load`] of any source, of which `count` elements are needed.
    pub fn load_of(&mut self, input: &From, width: usize, count: usize) -> String {
        match input {
            From::Buffer(access) => self.load_access(access, width),
            From::Gather(table, numbers, rows, table_width) => {
                let number = self.place(numbers);
                let numbers = self.bind(numbers.buffer, false, false);
                let row = self.load_one(table);
                let nan = "bitcast<f32>(0x7fc00000u | (i & 1u))";
                let text = format!(
                    "    let row = {numbers}[{number}(i / {table_width}u)];\n    if row >= {rows}u {{ return {nan}; }}\n    \
                     return {row}(row * {table_width}u + i % {table_width}u);\n"
                );
                let one = self.define_load(&text, 1);
                if width == 1 {
                    one
                } else {
                    self.define_load(&four_of(&one, count), 4)
                }
            }
            From::Unfold(access, unfold) => {
                let one = self.tap(access.buffer, access.dtype, access.offset, unfold);
                match width {
                    1 => one,
                    _ => self.define_load(&four_of(&one, count), 4),
                }
            }
            From::Cat(inner, pieces) => {
                let total: usize = pieces.iter().map(|piece| piece.0).sum::<usize>() * inner;
                let mut text = format!("    let o = i / {total}u;\n    let r = i % {total}u;\n");
                let mut start = 0;
                for (length, piece) in pieces {
                    let size = length * inner;
                    let value = match piece {
                        Piece::Constant(value) => format!("{:e}f", value),
                        Piece::Buffer(access) => {
                            format!("{}(o * {size}u + r - {start}u)", self.load_one(access))
                        }
                    };
                    start += size;
                    if size > 0 {
                        let _ = writeln!(text, "    if r < {start}u {{ return {value}; }}");
                    }
                }
                text.push_str("    return 0.0;\n");
                let one = self.define_load(&text, 1);
                if width == 1 {
                    one
                } else {
                    self.define_load(&four_of(&one, count), 4)
                }
            }
        }
    }
}

/// Returns four neighbours, loaded one by one; those beyond the end are the last one again.
fn four_of(one: &str, count: usize) -> String {
    let last = count.saturating_sub(1);
    let each = |k: u32| format!("{one}(min(i + {k}u, {last}u))");
    format!(
        "    return vec4f({}, {}, {}, {});\n",
        each(0),
        each(1),
        each(2),
        each(3)
    )
}
