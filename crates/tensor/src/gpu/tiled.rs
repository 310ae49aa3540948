//! Products by tiles: a workgroup has a tile of the result, in the registers of its invocations, 8 by 8, 4 by 8 or 4 by
//! 4 each.
//!
//! 1. Parts of both matrices, 16 deep, are loaded into the workgroup's memory, both row by row of the sum: an
//!    invocation reads fours of either. While one part is multiplied the next is in flight to registers.
//! 2. Each invocation multiplies and adds, in the order of the sum. These lines are unrolled for a whole part: drivers
//!    do not unroll the loop, and lose a quarter of the speed to it (BENCHMARKS.md).
//! 3. A product that is added (LoRA's second product) is the last part of the sum.
//! 4. Elementwise operations run before the result is stored.
//!
//! Invocations of a subgroup are eight by four, the bits of their number alternately for columns and rows: neighbours
//! then read the same fours of one matrix, which memory serves at once.

use super::fours::{PARTS, load_within};
use super::source::Source;
use super::tiles::{finish_index, is_wide, more, tile_of_group, width};
use crate::program::{Matrix, Product};

/// Number of workgroups that keep a large device busy; half as many for workgroups of many invocations.
const ENOUGH: usize = 120;
/// Rows of the sum that come into the workgroup's memory at a time.
const DEPTH: usize = 16;

/// Tile of a workgroup and of each of its invocations.
#[derive(Debug, Clone, Copy)]
struct Tile {
    m: usize,
    n: usize,
    rows: usize,
    columns: usize,
}

impl Tile {
    fn for_product(p: &Product) -> Self {
        let enough =
            |m: usize, n: usize, many: usize| p.m.div_ceil(m) * p.n.div_ceil(n) * p.batch >= many;
        let is_high = |m: usize| p.m > m / 2;
        let [m, n, rows, columns] = match p.b.unfold {
            // Elements of what is unfolded cost more to find than to multiply: more rows share them, more invocations
            // look.
            Some(_) if is_high(128) && p.n > 64 && enough(128, 128, ENOUGH) => [128, 128, 8, 8],
            Some(_) if is_high(64) && p.n > 64 && enough(64, 128, ENOUGH) => [64, 128, 4, 8],
            Some(_) if is_high(64) && p.n > 32 && enough(64, 64, ENOUGH / 2) => [64, 64, 4, 4],
            None if is_high(64) && p.n > 64 && enough(64, 128, ENOUGH) => [64, 128, 8, 8],
            None if is_high(64) && p.n > 32 && enough(64, 64, ENOUGH) => [64, 64, 4, 8],
            _ => [32, 32, 4, 4],
        };
        Self {
            m,
            n,
            rows,
            columns,
        }
    }

    /// Returns the invocations along a row of the tile.
    fn across(self) -> usize {
        self.n / self.columns
    }

    /// Returns the invocations along a column.
    fn down(self) -> usize {
        self.m / self.rows
    }

    fn threads(self) -> usize {
        self.across() * self.down()
    }

    /// Returns the fours between rows of the sum, of the first matrix: one more than there are, so that neighbours are
    /// in different banks.
    fn pitch(self) -> usize {
        self.m / 4 + 1
    }
}

/// Direction of the fours of the first matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fours {
    /// Along the sum.
    Along,
    /// Along its rows: it is transposed.
    Across,
}

/// Loads of an invocation for each part of the sum: fours of either matrix.
struct Brought {
    fours: Fours,
    a: usize,
    b: usize,
}

/// Writes the kernel. Returns the number of workgroups. `finish` must exist.
pub(super) fn write(source: &mut Source<'_>, p: &Product) -> usize {
    let tile = Tile::for_product(p);
    let (threads, wide) = (tile.threads(), tile.n / 4);
    source.threads = threads;
    source.shared = format!(
        "var<workgroup> first: array<vec4f, {}>;\nvar<workgroup> second: array<vec4f, {}>;\n",
        DEPTH * tile.pitch(),
        DEPTH * wide
    );
    more(source, p);
    let brought = Brought {
        fours: loads(source, p, tile),
        a: tile.m * DEPTH / 4 / threads,
        b: DEPTH * wide / threads,
    };
    let groups = tile_of_group(source, p, [tile.m, tile.n]);
    places(source, p, tile, &brought);
    bring(source, &brought, "var ", "0u");
    for row in 0..tile.rows {
        for column in 0..tile.columns / 4 {
            source.line(format!("var sum{row}_{column} = vec4f(0.0);"));
        }
    }
    // The added product continues after the last part of the sum.
    let sum = p.k.next_multiple_of(DEPTH);
    let whole = sum + p.more.as_ref().map_or(0, |more| more.k);
    source.line(format!("for (var k = 0u; k < {whole}u; k += {DEPTH}u) {{"));
    stage(source, tile, &brought);
    source.line("workgroupBarrier();");
    source.line(format!("if k + {DEPTH}u < {}u {{", p.k));
    bring(source, &brought, "", &format!("k + {DEPTH}u"));
    source.line("}");
    if p.more.is_some() {
        source.line(format!("else if k + {DEPTH}u < {whole}u {{"));
        bring_added(source, &brought, sum);
        source.line("}");
    }
    for d in 0..DEPTH {
        source.line("{");
        multiply(source, tile, d);
        source.line("}");
    }
    source.line("workgroupBarrier();\n    }");
    results(source, p, tile);
    groups
}

/// Writes the lines that compute the part of a tile of an invocation, and the fours that it loads.
fn places(source: &mut Source<'_>, p: &Product, tile: Tile, brought: &Brought) {
    let (threads, wide) = (tile.threads(), tile.n / 4);
    let beside = tile.across() / 8;
    source.line(
        "let lane = local % 32u;\n    let warp = local / 32u;\n    \
         let lane_x = (lane & 1u) | ((lane >> 1u) & 6u);\n    \
         let lane_y = ((lane >> 1u) & 1u) | ((lane >> 3u) & 2u);",
    );
    source.line(format!(
        "let tx = (warp % {beside}u) * 8u + lane_x;\n    let ty = (warp / {beside}u) * 4u + lane_y;"
    ));
    for at in 0..brought.a {
        let t = format!("(local + {}u)", at * threads);
        let (row, k) = match brought.fours {
            // Two neighbours read consecutive fours of a row, the next two read other rows: whole sectors, and no bank
            // twice.
            Fours::Along => (
                format!("({t} / 2u) % {}u", tile.m),
                format!("({t} % 2u + {t} / {}u * 2u) * 4u", 2 * tile.m),
            ),
            Fours::Across => (
                format!("({t} % {}u) * 4u", tile.m / 4),
                format!("{t} / {}u", tile.m / 4),
            ),
        };
        source.line(format!("let row_a{at} = {row};\n    let k_a{at} = {k};"));
    }
    for at in 0..brought.b {
        let t = format!("(local + {}u)", at * threads);
        let (k, four) = match p.b.column == 1 {
            true => (format!("{t} / {wide}u"), format!("{t} % {wide}u")),
            // Neighbours load neighbours: those of a transposed matrix are in a column.
            false => (format!("{t} % {DEPTH}u"), format!("{t} / {DEPTH}u")),
        };
        source.line(format!("let k_b{at} = {k};\n    let four_b{at} = {four};"));
    }
}

/// Writes the lines that load the part of the sum that begins at `k`.
fn bring(source: &mut Source<'_>, brought: &Brought, declare: &str, k: &str) {
    for at in 0..brought.a {
        let (row, k) = (format!("first_row + row_a{at}"), format!("{k} + k_a{at}"));
        let place = match brought.fours {
            Fours::Along => format!("{row}, {k}"),
            Fours::Across => format!("{k}, {row}"),
        };
        source.line(format!("{declare}next_a{at} = load_a({place}, from_a);"));
    }
    for at in 0..brought.b {
        source.line(format!(
            "{declare}next_b{at} = load_b({k} + k_b{at}, first_column + four_b{at} * 4u, from_b);"
        ));
    }
}

/// Writes the lines that load the next part of the added product, where the sum ends at `sum`.
fn bring_added(source: &mut Source<'_>, brought: &Brought, sum: usize) {
    source.line(format!("let j = k + {DEPTH}u - {sum}u;"));
    let four = |one: &dyn Fn(usize) -> String| (0..4).map(one).collect::<Vec<_>>().join(", ");
    for at in 0..brought.a {
        let four = match brought.fours {
            Fours::Along => {
                four(&|part| format!("more_a(first_row + row_a{at}, j + k_a{at} + {part}u)"))
            }
            Fours::Across => {
                four(&|part| format!("more_a(first_row + row_a{at} + {part}u, j + k_a{at})"))
            }
        };
        source.line(format!("next_a{at} = vec4f({four});"));
    }
    for at in 0..brought.b {
        let four =
            four(&|part| format!("more_b(j + k_b{at}, first_column + four_b{at} * 4u + {part}u)"));
        source.line(format!("next_b{at} = vec4f({four});"));
    }
}

/// Writes the lines that store the loaded fours into the workgroup's memory.
fn stage(source: &mut Source<'_>, tile: Tile, brought: &Brought) {
    let (pitch, wide) = (tile.pitch(), tile.n / 4);
    for at in 0..brought.a {
        match brought.fours {
            Fours::Along => PARTS.iter().enumerate().for_each(|(part, name)| {
                source.line(format!(
                    "first[(k_a{at} + {part}u) * {pitch}u + row_a{at} / 4u][row_a{at} & 3u] = next_a{at}.{name};"
                ));
            }),
            Fours::Across => source.line(format!(
                "first[k_a{at} * {pitch}u + row_a{at} / 4u] = next_a{at};"
            )),
        }
    }
    for at in 0..brought.b {
        source.line(format!(
            "second[k_b{at} * {wide}u + four_b{at}] = next_b{at};"
        ));
    }
}

/// Writes the lines that multiply one row of the sum.
fn multiply(source: &mut Source<'_>, tile: Tile, d: usize) {
    let (down, across) = (tile.down(), tile.across());
    for four in 0..tile.rows / 4 {
        source.line(format!(
            "let a{four} = first[ty + {}u];",
            d * tile.pitch() + four * down
        ));
    }
    for column in 0..tile.columns / 4 {
        source.line(format!(
            "let b{column} = second[tx + {}u];",
            d * tile.n / 4 + column * across
        ));
    }
    for row in 0..tile.rows {
        for column in 0..tile.columns / 4 {
            let sum = format!("sum{row}_{column}");
            source.line(format!(
                "{sum} = fma(vec4f(a{}.{}), b{column}, {sum});",
                row / 4,
                PARTS[row % 4]
            ));
        }
    }
}

/// Writes the lines that finish an invocation's sums.
fn results(source: &mut Source<'_>, p: &Product, tile: Tile) {
    let width = width(source, p);
    for row in 0..tile.rows {
        source.line(format!(
            "let row{row} = first_row + (ty + {}u) * 4u + {}u;",
            row / 4 * tile.down(),
            row % 4
        ));
        for column in 0..tile.columns / 4 {
            let at = format!("first_column + (tx + {}u) * 4u", column * tile.across());
            let index = finish_index(p, &format!("row{row}"), &at);
            let guard = |k: usize| format!("row{row} < {}u && {at} + {k}u < {}u", p.m, p.n);
            if width == 4 {
                source.line(format!(
                    "if {} {{ finish({index}, sum{row}_{column}, zero); }}",
                    guard(0)
                ));
                continue;
            }
            for (k, part) in PARTS.iter().enumerate() {
                source.line(format!(
                    "if {} {{ finish({index} + {k}u, sum{row}_{column}.{part}, zero); }}",
                    guard(k)
                ));
            }
        }
    }
}

/// Writes `load_a` and `load_b`: fours of the matrices, 0 outside. Returns the direction of the first matrix's fours.
fn loads(source: &mut Source<'_>, p: &Product, tile: Tile) -> Fours {
    // True if a tile, or the last part of the sum, is not full, or the sum is empty.
    let beyond_m = !p.m.is_multiple_of(tile.m);
    let beyond_n = !p.n.is_multiple_of(tile.n);
    let beyond_k = p.k == 0 || !p.k.is_multiple_of(DEPTH);
    load_within(source, "load_b", &p.b, [p.k, p.n], [beyond_k, beyond_n]);
    let a = &p.a;
    if !is_wide(a, a.column, a.row, p.k) && is_wide(a, a.row, a.column, p.m) {
        let lying = Matrix {
            row: a.column,
            column: a.row,
            ..a.clone()
        };
        load_within(source, "load_a", &lying, [p.k, p.m], [beyond_k, beyond_m]);
        return Fours::Across;
    }
    load_within(source, "load_a", a, [p.m, p.k], [beyond_m, beyond_k]);
    Fours::Along
}
