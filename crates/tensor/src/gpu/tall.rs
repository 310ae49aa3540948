//! Products of tall matrices, `[k, m]` transposed by `[k, n]`: gradients of weights, whose long sums over the rows are
//! cut into a batch of parts.
//!
//! 1. A workgroup has a part of the sum, and all of the result. Rows of both matrices are copied to its memory in their
//!    original order, some at a time.
//! 2. An invocation has up to 8 by 8 sums in registers, 16 by 8 for large results. If the result has fewer such tiles
//!    than there are invocations, invocations form groups with interleaved rows.
//! 3. The groups' sums are added up in the workgroup's memory, one group after another.

use super::fours::{PARTS, load};
use super::source::{Source, THREADS};
use super::tiles::{base, width};
use crate::program::{Matrix, Product};

/// Rows and columns of a result at most.
const WIDEST: usize = 128;
/// With fewer parts other kernels, of smaller tiles, have more workgroups.
const FEWEST_PARTS: usize = 16;
/// Fours in the workgroup's memory: 16 KiB.
const MEMORY: usize = 1024;
/// Fours of rows and columns from which a result is large.
const LARGE: usize = 16;

/// Rows in the workgroup's memory at most, and groups that share them.
const DEEPEST: usize = 64;
const MOST_GROUPS: usize = 30;

/// Split of a result among the invocations of a workgroup.
struct Grid {
    /// Fours of rows, and of columns, of an invocation.
    each: [usize; 2],
    /// Invocations along the rows and the columns.
    tiles: [usize; 2],
    groups: usize,
    /// Rows that are in the workgroup's memory at a time.
    depth: usize,
}

impl Grid {
    fn new(p: &Product) -> Self {
        let fours = [p.m, p.n].map(|size| size.div_ceil(4));
        let is_large = fours.iter().all(|&fours| fours >= LARGE);
        let most = if is_large { [4, 2] } else { [2, 2] };
        let each = [0, 1].map(|side| fours[side].min(most[side]));
        let tiles = [0, 1].map(|side| fours[side].div_ceil(each[side]));
        let padded = [0, 1].map(|side| tiles[side] * each[side]);
        let joins = padded[0] * 4 * padded[1] <= MEMORY;
        let most = THREADS / (tiles[0] * tiles[1]);
        let groups = if joins { most.clamp(1, MOST_GROUPS) } else { 1 };
        // The maximum depth that the memory permits, because invocations wait for each other between two parts.
        let fits = (MEMORY / (padded[0] + padded[1])).min(DEEPEST);
        let depth = (fits / groups * groups).max(groups);
        Self {
            each,
            tiles,
            groups,
            depth,
        }
    }

    /// Returns the fours of rows and columns of all tiles: some may be beyond the last.
    fn padded(&self) -> [usize; 2] {
        [0, 1].map(|side| self.tiles[side] * self.each[side])
    }
}

/// Returns true if a product is tall.
pub(super) fn is_tall(p: &Product) -> bool {
    p.batch >= FEWEST_PARTS
        && p.m <= WIDEST
        && p.n <= WIDEST
        && (p.a.row, p.b.column) == (1, 1)
        && p.a.column >= p.m
        && p.k > p.m.max(p.n)
        && p.a.unfold.is_none()
        && p.b.unfold.is_none()
        && p.more.is_none()
}

/// Writes the kernel. Returns the number of workgroups. `finish` must exist.
pub(super) fn write(source: &mut Source<'_>, p: &Product) -> usize {
    let grid = Grid::new(p);
    let [padded_m, padded_n] = grid.padded();
    let tiles = grid.tiles[0] * grid.tiles[1];
    source.shared = format!("var<workgroup> staged: array<vec4f, {MEMORY}>;\n");
    // In the original order: row by row of the sum.
    let a = Matrix {
        row: p.a.column,
        column: p.a.row,
        ..p.a.clone()
    };
    load(source, "load_a", &a, [p.k, p.m]);
    load(source, "load_b", &p.b, [p.k, p.n]);
    let base_a = base(source, "base_a", &p.a);
    let base_b = base(source, "base_b", &p.b);
    source.line("let batch = group_index;");
    source.line(format!("if batch >= {}u {{ return; }}", p.batch));
    source.line(format!(
        "let from_a = {base_a}(batch);\n    let from_b = {base_b}(batch);"
    ));
    source.line(format!(
        "let tile = local % {tiles}u;\n    let part = local / {tiles}u;"
    ));
    source.line(format!(
        "let tx = tile % {0}u;\n    let ty = tile / {0}u;",
        grid.tiles[1]
    ));
    every(&grid, |row, part, column| {
        source.line(format!("var sum{row}_{part}_{column} = vec4f(0.0);"));
    });
    let depth = grid.depth;
    let (fours_a, fours_b) = (depth * padded_m, depth * padded_n);
    // Loads of an invocation for each part: of the first matrix, then of the second.
    let brings = (fours_a + fours_b).div_ceil(THREADS);
    for at in 0..brings {
        source.line(format!("let place{at} = local + {}u;", at * THREADS));
        source.line(format!("var next{at} = vec4f(0.0);"));
    }
    let next = |source: &mut Source<'_>, k: &str| {
        for at in 0..brings {
            source.line(format!(
                "if place{at} < {fours_a}u {{ next{at} = load_a({k} + place{at} / {padded_m}u, (place{at} % {padded_m}u) * 4u, from_a); }} \
                 else if place{at} < {0}u {{ let t = place{at} - {fours_a}u; next{at} = load_b({k} + t / {padded_n}u, (t % {padded_n}u) * 4u, from_b); }}",
                fours_a + fours_b
            ));
        }
    };
    next(source, "0u");
    source.line(format!("for (var k = 0u; k < {}u; k += {depth}u) {{", p.k));
    source.line("workgroupBarrier();");
    for at in 0..brings {
        source.line(format!(
            "if place{at} < {}u {{ staged[place{at}] = next{at}; }}",
            fours_a + fours_b
        ));
    }
    source.line("workgroupBarrier();");
    // The next part is in flight while this one is multiplied.
    source.line(format!("if k + {depth}u < {}u {{", p.k));
    next(source, &format!("k + {depth}u"));
    source.line("}");
    source.line(format!("if part < {}u {{", grid.groups));
    // Unrolled here, because drivers do not unroll it.
    for turn in 0..depth.div_ceil(grid.groups) {
        let last = (turn + 1) * grid.groups;
        source.line(match last <= depth {
            true => "{".to_owned(),
            false => format!("if part + {}u < {depth}u {{", turn * grid.groups),
        });
        source.line(format!("let d = part + {}u;", turn * grid.groups));
        multiply(source, &grid);
        source.line("}");
    }
    source.line("}\n    }");
    join(source, p, &grid);
    p.batch
}

/// Writes the lines that multiply row `d` of the staged part.
fn multiply(source: &mut Source<'_>, grid: &Grid) {
    let [padded_m, padded_n] = grid.padded();
    for row in 0..grid.each[0] {
        source.line(format!(
            "let a{row} = staged[d * {padded_m}u + ty + {}u];",
            row * grid.tiles[0]
        ));
    }
    for column in 0..grid.each[1] {
        source.line(format!(
            "let b_{column} = staged[{}u + d * {padded_n}u + tx + {}u];",
            grid.depth * padded_m,
            column * grid.tiles[1]
        ));
    }
    every(grid, |row, part, column| {
        let sum = format!("sum{row}_{part}_{column}");
        source.line(format!(
            "{sum} = fma(vec4f(a{row}.{}), b_{column}, {sum});",
            PARTS[part]
        ));
    });
}

/// Calls `then` for each four of an invocation: the four of rows, the row within it, the four of columns.
fn every(grid: &Grid, mut then: impl FnMut(usize, usize, usize)) {
    for row in 0..grid.each[0] {
        for part in 0..4 {
            (0..grid.each[1]).for_each(|column| then(row, part, column));
        }
    }
}

/// Writes the lines that add up the groups' sums, and finish them.
fn join(source: &mut Source<'_>, p: &Product, grid: &Grid) {
    let [_, padded_n] = grid.padded();
    let place = |row: usize, part: usize, column: usize| {
        let row = format!("(ty + {}u) * 4u + {part}u", row * grid.tiles[0]);
        (row, format!("tx + {}u", column * grid.tiles[1]))
    };
    if grid.groups == 1 {
        every(grid, |row, part, column| {
            let (at, four) = place(row, part, column);
            let sum = format!("sum{row}_{part}_{column}");
            source.line("{");
            source.line(format!("let row = {at};\n    let four = {four};"));
            finish(source, p, &sum, "part == 0u && ");
            source.line("}");
        });
        return;
    }
    source.line(format!(
        "for (var turn = 0u; turn < {}u; turn++) {{\n    workgroupBarrier();\n    if part == turn {{",
        grid.groups
    ));
    every(grid, |row, part, column| {
        let (at, four) = place(row, part, column);
        let at = format!("({at}) * {padded_n}u + {four}");
        let sum = format!("sum{row}_{part}_{column}");
        source.line(format!(
            "if turn == 0u {{ staged[{at}] = {sum}; }} else {{ staged[{at}] += {sum}; }}"
        ));
    });
    source.line("}\n    }\n    workgroupBarrier();");
    let fours = p.n.div_ceil(4);
    source.line(format!(
        "for (var t = local; t < {}u; t += {THREADS}u) {{\n    let row = t / {fours}u;\n    let four = t % {fours}u;",
        p.m * fours
    ));
    source.line(format!("let sum = staged[row * {padded_n}u + four];"));
    finish(source, p, "sum", "");
    source.line("}");
}

/// Writes the lines that finish four neighbours at `row` and `four`, if they are of the result.
fn finish(source: &mut Source<'_>, p: &Product, sum: &str, only: &str) {
    let width = width(source, p);
    let (m, n) = (p.m, p.n);
    let index = format!("(batch * {m}u + row) * {n}u + four * 4u");
    if width == 4 {
        source.line(format!(
            "if {only}row < {m}u && four * 4u < {n}u {{ finish({index}, {sum}, zero); }}"
        ));
        return;
    }
    for (k, name) in PARTS.iter().enumerate() {
        source.line(format!(
            "if {only}row < {m}u && four * 4u + {k}u < {n}u {{ finish({index} + {k}u, {sum}.{name}, zero); }}"
        ));
    }
}
