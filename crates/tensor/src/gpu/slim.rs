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

/// Writes the kernel. Returns the number of workgroups. `finish` must exist.
pub(super) fn write(source: &mut Source<'_>, p: &Product) -> usize {
    let fours = p.n.div_ceil(4);
    let down = THREADS / PARTS_OF_SUM;
    let each = (MEMORY / (THREADS * fours)).clamp(1, 2);
    let rows = down * each;
    source.shared = format!(
        "var<workgroup> scratch: array<vec4f, {}>;\n",
        THREADS * each * fours
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
    for row in 0..each {
        for four in 0..fours {
            source.line(format!("var sum{row}_{four} = vec4f(0.0);"));
        }
    }
    source.line(format!(
        "for (var k = part; k < {}u; k += {}u) {{",
        p.k,
        PARTS_OF_SUM * AHEAD
    ));
    for at in 0..AHEAD {
        let k = format!("k + {}u", at * PARTS_OF_SUM);
        for row in 0..each {
            source.line(format!(
                "let a{at}_{row} = one_a(first_row + {row}u, {k}, from_a);"
            ));
        }
        for four in 0..fours {
            source.line(format!(
                "let b{at}_{four} = load_b({k}, {}u, from_b);",
                four * 4
            ));
        }
    }
    for at in 0..AHEAD {
        for row in 0..each {
            for four in 0..fours {
                let sum = format!("sum{row}_{four}");
                source.line(format!(
                    "{sum} = fma(vec4f(a{at}_{row}), b{at}_{four}, {sum});"
                ));
            }
        }
    }
    source.line("}");
    for row in 0..each {
        for four in 0..fours {
            source.line(format!(
                "scratch[local + {}u] = sum{row}_{four};",
                (row * fours + four) * THREADS
            ));
        }
    }
    source.line("workgroupBarrier();");
    let mut step = PARTS_OF_SUM / 2;
    while step > 0 {
        source.line(format!("if part < {step}u {{"));
        for at in (0..each * fours).map(|at| at * THREADS) {
            source.line(format!(
                "scratch[local + {at}u] += scratch[local + {}u];",
                at + step
            ));
        }
        source.line("}\n    workgroupBarrier();");
        step /= 2;
    }
    source.line("if part == 0u {");
    for row in 0..each {
        for four in 0..fours {
            results(source, p, row, four, (row * fours + four) * THREADS);
        }
    }
    source.line("}");
    tiles * p.batch
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
