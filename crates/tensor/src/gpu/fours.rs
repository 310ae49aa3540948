//! Fours of a matrix along its columns, for kernels that load parts of matrices into their memory.

use super::source::Source;
use super::tiles::{element, is_wide};
use crate::program::Matrix;

/// The elements of a four, as WGSL calls them.
pub(super) const PARTS: [&str; 4] = ["x", "y", "z", "w"];

/// Writes a function `name(row, column, base)` that loads four neighbours of a row, 0 outside, of a matrix that begins
/// at `base`.
pub(super) fn load(source: &mut Source<'_>, name: &str, matrix: &Matrix, sizes: [usize; 2]) {
    load_within(source, name, matrix, sizes, [true; 2]);
}

/// [`load`], with a row or column outside only if `beyond` is true for it.
pub(super) fn load_within(
    source: &mut Source<'_>,
    name: &str,
    matrix: &Matrix,
    [rows, columns]: [usize; 2],
    beyond: [bool; 2],
) {
    if is_wide(matrix, matrix.column, matrix.row, columns) {
        let conditions = [format!("row >= {rows}u"), format!("column >= {columns}u")];
        let needed = conditions.into_iter().zip(beyond).filter(|(_, may)| *may);
        let needed: Vec<String> = needed.map(|(text, _)| text).collect();
        let outside = match needed.is_empty() {
            true => String::new(),
            false => format!("    if {} {{ return vec4f(0.0); }}\n", needed.join(" || ")),
        };
        let bound = source.bind(matrix.buffer, true, false);
        let four = Source::four(&bound, matrix.dtype, "at");
        source.function(&format!(
            "fn {name}(row: u32, column: u32, base: u32) -> vec4f {{\n{outside}    let at = base + row * {}u + column;\n    return {four};\n}}\n",
            matrix.row
        ));
        return;
    }
    let value = element(source, matrix, "row", "column");
    let one = |k: usize| format!("{name}_one(row, column + {k}u, base)");
    source.function(&format!(
        "fn {name}_one(row: u32, column: u32, base: u32) -> f32 {{\n    if row >= {rows}u || column >= {columns}u {{ return 0.0; }}\n{value}}}\n\
         fn {name}(row: u32, column: u32, base: u32) -> vec4f {{\n    return vec4f({}, {}, {}, {});\n}}\n",
        one(0),
        one(1),
        one(2),
        one(3)
    ));
}
