//! Parts that kernels of matrix products have in common: tiles, elements, offsets.

use super::source::Source;
use crate::program::{Matrix, Product};
use std::fmt::Write;

/// Returns the number of elements that are finished at a time. 16-bit elements are stored in fours.
pub(super) fn width(source: &Source<'_>, product: &Product) -> usize {
    let in_fours = !product.plain || source.stores_halves();
    if in_fours && product.n.is_multiple_of(4) {
        4
    } else {
        1
    }
}

/// Returns the linear index of an element of the result.
pub(super) fn finish_index(p: &Product, row: &str, column: &str) -> String {
    format!("(batch * {}u + {row}) * {}u + {column}", p.m, p.n)
}

/// Tiles that workgroups go down before they go right, so that those that run together read the same parts.
const DOWN: usize = 8;

/// Writes the lines that compute the tile of `m` by `n` of a workgroup, and the offsets of its matrices. Returns the
/// number of workgroups.
pub(super) fn tile_of_group(source: &mut Source<'_>, p: &Product, [m, n]: [usize; 2]) -> usize {
    let base_a = base(source, "base_a", &p.a);
    let base_b = base(source, "base_b", &p.b);
    let (tiles_m, tiles_n) = (p.m.div_ceil(m), p.n.div_ceil(n));
    let tiles = tiles_m * tiles_n;
    let band = DOWN.min(tiles_m);
    source.line(format!("let batch = group_index / {tiles}u;"));
    source.line(format!("if batch >= {}u {{ return; }}", p.batch));
    source.line(format!(
        "let within = group_index % {tiles}u;\n    let band = within / {0}u;\n    \
         let tall = min({band}u, {tiles_m}u - band * {band}u);",
        band * tiles_n
    ));
    source.line(format!(
        "let first_row = (band * {band}u + (within % {0}u) % tall) * {m}u;\n    \
         let first_column = ((within % {0}u) / tall) * {n}u;",
        band * tiles_n,
    ));
    source.line(format!(
        "let from_a = {base_a}(batch);\n    let from_b = {base_b}(batch);"
    ));
    tiles * p.batch
}

/// Returns lines that return an element of a matrix that begins at `base`.
pub(super) fn element(source: &mut Source<'_>, matrix: &Matrix, row: &str, column: &str) -> String {
    let at = format!(
        "    let at = base + {row} * {}u + {column} * {}u;\n",
        matrix.row, matrix.column
    );
    let value = match &matrix.unfold {
        Some(unfold) => {
            let tap = source.tap(matrix.buffer, matrix.dtype, matrix.offset, unfold);
            format!("{tap}(at)")
        }
        None => {
            let name = source.bind(matrix.buffer, false, false);
            Source::one(&name, matrix.dtype, "at")
        }
    };
    format!("{at}    return {value};\n")
}

/// Writes a function that returns the offset of a matrix of the batch. Returns its name.
pub(super) fn base(source: &mut Source<'_>, name: &str, matrix: &Matrix) -> String {
    let mut text = format!(
        "fn {name}(batch: u32) -> u32 {{\n    var r = batch;\n    var a = {}u;\n",
        if matrix.unfold.is_some() {
            0
        } else {
            matrix.offset
        }
    );
    for (size, stride) in matrix.dims.iter().rev() {
        let _ = writeln!(
            text,
            "    a += (r % {size}u) * {stride}u;\n    r = r / {size}u;"
        );
    }
    text.push_str("    return a;\n}\n");
    source.function(&text);
    name.to_owned()
}

/// Returns true if fours along `along` begin at fours of the buffer.
pub(super) fn is_wide(matrix: &Matrix, along: usize, across: usize, size: usize) -> bool {
    let batches = matrix.dims.iter().all(|dim| dim.1.is_multiple_of(4));
    matrix.unfold.is_none()
        && along == 1
        && across.is_multiple_of(4)
        && size.is_multiple_of(4)
        && matrix.offset.is_multiple_of(4)
        && batches
}

/// Writes functions of elements of the added product, 0 outside: `more_a(row, k)`, weighted, and `more_b(k, column)`.
pub(super) fn more(source: &mut Source<'_>, p: &Product) {
    let Some(more) = &p.more else {
        return;
    };
    let a = element(source, &more.a, "row", "k");
    let scale = Source::literal_of(more.scale, 1);
    source.function(&format!(
        "fn plain_more_a(row: u32, k: u32, base: u32) -> f32 {{\n{a}}}\n\
         fn more_a(row: u32, k: u32) -> f32 {{\n    if row >= {}u || k >= {}u {{ return 0.0; }}\n    \
         return {scale} * plain_more_a(row, k, {}u);\n}}\n",
        p.m, more.k, more.a.offset
    ));
    let b = element(source, &more.b, "k", "column");
    source.function(&format!(
        "fn plain_more_b(k: u32, column: u32, base: u32) -> f32 {{\n{b}}}\n\
         fn more_b(k: u32, column: u32) -> f32 {{\n    if k >= {}u || column >= {}u {{ return 0.0; }}\n    \
         return plain_more_b(k, column, {}u);\n}}\n",
        more.k, p.n, more.b.offset
    ));
}
