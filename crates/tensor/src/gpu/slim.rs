//! Products of a tall matrix by one of few columns, like LoRA's first product: reading the tall matrix takes most of
//! the time.
//!
//! 1. A workgroup has some rows. For each row, 32 invocations have every 32nd element of the sum, so that neighbours
//!    read neighbours of both matrices; some loads are in flight at a time.
//! 2. The invocations join their sums by a tree in the workgroup's memory.

use super::fours::{PARTS, load};
use super::source::{Source, THREADS};
use super::tiles::{base, element, finish_index, width};
use crate::program::Product;

/// Maximum columns.
const WIDEST: usize = 16;
/// Minimum length of sums, and minimum rows: below, the time of launches dominates.
const LEAST: usize = 256;
/// Invocations that share a row's sum.
const PARTS_OF_SUM: usize = 32;
/// Terms that an invocation loads before it multiplies.
const AHEAD: usize = 4;
/// Fours in the workgroup's memory: 16 KiB.
const MEMORY: usize = 1024;

/// Returns true if a product is slim.
pub(super) fn is_slim(p: &Product) -> bool {
    p.n <= WIDEST
        && p.m >= LEAST
        && p.k >= LEAST
        && p.more.is_none()
        && p.b.unfold.is_none()
        && p.a.unfold.is_none()
        && p.a.column == 1
}

/// Sums of an invocation.
struct Shape {
    /// Rows.
    each: usize,
    /// Fours of columns.
    fours: usize,
}

impl Shape {
    fn new(p: &Product) -> Self {
        let fours = p.n.div_ceil(4);
        Self {
            each: (MEMORY / (THREADS * fours)).clamp(1, 2),
            fours,
        }
    }

    /// Returns the row and the four of all sums, in the order of the workgroup's memory.
    fn sums(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.each).flat_map(|row| (0..self.fours).map(move |four| (row, four)))
    }

    /// Returns where the workgroup's memory has a sum of its first invocation.
    fn place(&self, (row, four): (usize, usize)) -> usize {
        (row * self.fours + four) * THREADS
    }
}

/// Writes the kernel. Returns the number of workgroups. `finish` must exist.
pub(super) fn write(source: &mut Source<'_>, p: &Product) -> usize {
    let shape = Shape::new(p);
    let each = shape.each;
    let rows = THREADS / PARTS_OF_SUM * each;
    source.shared = format!(
        "var<workgroup> scratch: array<vec4f, {}>;\n",
        THREADS * each * shape.fours
    );
    let value = element(source, &p.a, "row", "k");
    source.function(&format!(
        "fn one_a(row: u32, k: u32, base: u32) -> f32 {{\n    if row >= {}u || k >= {}u {{ return 0.0; }}\n{value}}}\n",
        p.m, p.k
    ));
    load(source, "load_b", &p.b, [p.k, p.n]);
    let base_a = base(source, "base_a", &p.a);
    let base_b = base(source, "base_b", &p.b);
    let tiles = p.m.div_ceil(rows);
    source.line(format!("let batch = group_index / {tiles}u;"));
    source.line(format!("if batch >= {}u {{ return; }}", p.batch));
    source.line(format!(
        "let part = local % {PARTS_OF_SUM}u;\n    \
         let first_row = (group_index % {tiles}u) * {rows}u + (local / {PARTS_OF_SUM}u) * {each}u;\n    \
         let from_a = {base_a}(batch);\n    let from_b = {base_b}(batch);"
    ));
    add_up(source, p, &shape);
    join(source, &shape);
    source.line("if part == 0u {");
    for (row, four) in shape.sums() {
        results(source, p, row, four, shape.place((row, four)));
    }
    source.line("}");
    tiles * p.batch
}

/// Writes the lines that add up an invocation's part of its sums.
fn add_up(source: &mut Source<'_>, p: &Product, shape: &Shape) {
    for (row, four) in shape.sums() {
        source.line(format!("var sum{row}_{four} = vec4f(0.0);"));
    }
    source.line(format!(
        "for (var k = part; k < {}u; k += {}u) {{",
        p.k,
        PARTS_OF_SUM * AHEAD
    ));
    for at in 0..AHEAD {
        let k = format!("k + {}u", at * PARTS_OF_SUM);
        for row in 0..shape.each {
            source.line(format!(
                "let a{at}_{row} = one_a(first_row + {row}u, {k}, from_a);"
            ));
        }
        for four in 0..shape.fours {
            source.line(format!(
                "let b{at}_{four} = load_b({k}, {}u, from_b);",
                four * 4
            ));
        }
    }
    for at in 0..AHEAD {
        for (row, four) in shape.sums() {
            let sum = format!("sum{row}_{four}");
            source.line(format!(
                "{sum} = fma(vec4f(a{at}_{row}), b{at}_{four}, {sum});"
            ));
        }
    }
    source.line("}");
}

/// Writes the lines that join the sums of invocations by a tree: the first invocation of each row has the result.
fn join(source: &mut Source<'_>, shape: &Shape) {
    for (row, four) in shape.sums() {
        source.line(format!(
            "scratch[local + {}u] = sum{row}_{four};",
            shape.place((row, four))
        ));
    }
    source.line("workgroupBarrier();");
    let mut step = PARTS_OF_SUM / 2;
    while step > 0 {
        source.line(format!("if part < {step}u {{"));
        for at in shape.sums().map(|sum| shape.place(sum)) {
            source.line(format!(
                "scratch[local + {at}u] += scratch[local + {}u];",
                at + step
            ));
        }
        source.line("}\n    workgroupBarrier();");
        step /= 2;
    }
}

/// Writes the lines that finish four sums of a row.
fn results(source: &mut Source<'_>, p: &Product, row: usize, four: usize, at: usize) {
    let index = finish_index(
        p,
        &format!("(first_row + {row}u)"),
        &format!("{}u", four * 4),
    );
    let is_there = format!("first_row + {row}u < {}u", p.m);
    if width(source, p) == 4 {
        source.line(format!(
            "if {is_there} {{ finish({index}, scratch[local + {at}u], zero); }}"
        ));
        return;
    }
    for (k, name) in PARTS.iter().enumerate().take(p.n - four * 4) {
        source.line(format!(
            "if {is_there} {{ finish({index} + {k}u, scratch[local + {at}u].{name}, zero); }}"
        ));
    }
}
