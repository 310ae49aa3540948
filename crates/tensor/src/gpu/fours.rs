//! Fours of a matrix along its columns, for kernels that bring parts of matrices into their memory.

use super::matmul::{element, is_wide};
use super::source::Source;
use crate::program::Matrix;

/// The elements of a four, as WGSL calls them.
pub(super) const PARTS: [&str; 4] = ["x", "y", "z", "w"];

/// A function `name(row, column, base)` that loads four neighbours of a row, 0 outside, of a matrix that begins at `base`.
pub(super) fn load(
    source: &mut Source<'_>,
    name: &str,
    matrix: &Matrix,
    [rows, columns]: [usize; 2],
) {
    let outside = |value: &str| {
        format!("    if row >= {rows}u || column >= {columns}u {{ return {value}; }}\n")
    };
    if is_wide(matrix, matrix.column, matrix.row, columns) {
        let bound = source.bind(matrix.buffer, true, false);
        let four = Source::four(&bound, matrix.dtype, "at");
        source.function(&format!(
            "fn {name}(row: u32, column: u32, base: u32) -> vec4f {{\n{}    let at = base + row * {}u + column;\n    return {four};\n}}\n",
            outside("vec4f(0.0)"),
            matrix.row
        ));
        return;
    }
    let value = element(source, matrix, "row", "column");
    let one = |k: usize| format!("{name}_one(row, column + {k}u, base)");
    source.function(&format!(
        "fn {name}_one(row: u32, column: u32, base: u32) -> f32 {{\n{}{value}}}\n\
         fn {name}(row: u32, column: u32, base: u32) -> vec4f {{\n    return vec4f({}, {}, {}, {});\n}}\n",
        outside("0.0"),
        one(0),
        one(1),
        one(2),
        one(3)
    ));
}
