//! Products by tiles: a workgroup has a tile of the result, in the registers of its invocations, 8 by 8, 4 by 8 or 4 by 4 each.
//!
//! 1. Parts of both matrices, 16 deep, come into the workgroup's memory, both row by row of the sum: of either an invocation
//!    reads fours. While one part is multiplied the next is on its way to registers.
//! 2. Each invocation multiplies and adds, in the order of the sum. These lines are written out for all of a part: drivers do not
//!    unroll the loop, and lose a quarter of the speed to it (BENCHMARKS.md).
//! 3. What is added to the product (LoRA's second product) is the last part of the sum.
//! 4. What follows element by element is done before the result is stored.
//!
//! Invocations of a subgroup are eight by four, the bits of their number in turns for columns and rows: neighbours then read the
//! same fours of one matrix, which memory serves at once. Workgroups go down eight tiles before they go to the next column,
//! so that those that run together read the same parts.

use super::fours::PARTS;
use super::matmul::{base, element, finish_index, is_wide, more, width};
use super::source::Source;
use crate::program::{Matrix, Product};

/// So many workgroups keep a large device busy; of many invocations each, half as many.
const ENOUGH: usize = 120;
/// Rows of the sum that come into the workgroup's memory at a time.
const DEPTH: usize = 16;
/// Tiles that workgroups go down before they go right.
const DOWN: usize = 8;

/// What a workgroup has, and what each of its invocations.
#[derive(Debug, Clone, Copy)]
struct Tile {
    m: usize,
    n: usize,
    rows: usize,
    columns: usize,
}

impl Tile {
    fn of(p: &Product) -> Self {
        let enough =
            |m: usize, n: usize, many: usize| p.m.div_ceil(m) * p.n.div_ceil(n) * p.batch >= many;
        let is_high = |m: usize| p.m > m / 2;
        let [m, n, rows, columns] = match p.b.unfold {
            // Elements of what is unfolded cost more to find than to multiply: more rows share them, more invocations look.
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

    /// Invocations along a row of the tile.
    fn across(self) -> usize {
        self.n / self.columns
    }

    /// Invocations along a column.
    fn down(self) -> usize {
        self.m / self.rows
    }

    fn threads(self) -> usize {
        self.across() * self.down()
    }

    /// Fours between rows of the sum, of the first matrix: one more than there are, so that neighbours are in different banks.
    fn pitch(self) -> usize {
        self.m / 4 + 1
    }
}

/// How the first matrix comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fours {
    /// Along the sum.
    Along,
    /// Along its rows: it is transposed.
    Across,
}

/// Writes it; the number of workgroups. `finish` is there.
pub(super) fn write(source: &mut Source<'_>, p: &Product) -> usize {
    let tile = Tile::of(p);
    let (threads, pitch, wide) = (tile.threads(), tile.pitch(), tile.n / 4);
    source.threads = threads;
    source.shared = format!(
        "var<workgroup> first: array<vec4f, {}>;\nvar<workgroup> second: array<vec4f, {}>;\n",
        DEPTH * pitch,
        DEPTH * wide
    );
    more(source, p);
    let fours = load_first(source, p, tile);
    load_second(source, p, tile);
    let groups = places(source, p, tile);
    let places_a = tile.m * DEPTH / 4 / threads;
    let places_b = DEPTH * wide / threads;
    for at in 0..places_a {
        let t = format!("(local + {}u)", at * threads);
        let (row, k) = match fours {
            // Two neighbours read on in a row, those beside them in others: whole sectors, and no bank twice.
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
    for at in 0..places_b {
        let t = format!("(local + {}u)", at * threads);
        let (k, four) = match p.b.column == 1 {
            true => (format!("{t} / {wide}u"), format!("{t} % {wide}u")),
            // Neighbours load neighbours: those of a transposed matrix are in a column.
            false => (format!("{t} % {DEPTH}u"), format!("{t} / {DEPTH}u")),
        };
        source.line(format!("let k_b{at} = {k};\n    let four_b{at} = {four};"));
    }
    let next = |source: &mut Source<'_>, declare: &str, k: &str| {
        for at in 0..places_a {
            source.line(format!(
                "{declare}next_a{at} = load_a(first_row + row_a{at}, {k} + k_a{at}, from_a);"
            ));
        }
        for at in 0..places_b {
            source.line(format!(
                "{declare}next_b{at} = load_b({k} + k_b{at}, first_column + four_b{at} * 4u, from_b);"
            ));
        }
    };
    // What is added goes on where the last part of the sum ends.
    let sum = p.k.next_multiple_of(DEPTH);
    let whole = sum + p.more.as_ref().map_or(0, |more| more.k);
    let next_added = |source: &mut Source<'_>| {
        source.line(format!("let j = k + {DEPTH}u - {sum}u;"));
        for at in 0..places_a {
            let four: Vec<String> = (0..4)
                .map(|part| match fours {
                    Fours::Along => {
                        format!("more_a(first_row + row_a{at}, j + k_a{at} + {part}u)")
                    }
                    Fours::Across => {
                        format!("more_a(first_row + row_a{at} + {part}u, j + k_a{at})")
                    }
                })
                .collect();
            source.line(format!("next_a{at} = vec4f({});", four.join(", ")));
        }
        for at in 0..places_b {
            let column = format!("first_column + four_b{at} * 4u");
            let four: Vec<String> = (0..4)
                .map(|part| format!("more_b(j + k_b{at}, {column} + {part}u)"))
                .collect();
            source.line(format!("next_b{at} = vec4f({});", four.join(", ")));
        }
    };
    next(source, "var ", "0u");
    for row in 0..tile.rows {
        for column in 0..tile.columns / 4 {
            source.line(format!("var sum{row}_{column} = vec4f(0.0);"));
        }
    }
    source.line(format!("for (var k = 0u; k < {whole}u; k += {DEPTH}u) {{"));
    for at in 0..places_a {
        match fours {
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
    for at in 0..places_b {
        source.line(format!(
            "second[k_b{at} * {wide}u + four_b{at}] = next_b{at};"
        ));
    }
    source.line("workgroupBarrier();");
    source.line(format!("if k + {DEPTH}u < {}u {{", p.k));
    next(source, "", &format!("k + {DEPTH}u"));
    source.line("}");
    if p.more.is_some() {
        source.line(format!("else if k + {DEPTH}u < {whole}u {{"));
        next_added(source);
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

/// Lines that say which tile a workgroup has; the number of workgroups.
fn places(source: &mut Source<'_>, p: &Product, tile: Tile) -> usize {
    let base_a = base(source, "base_a", &p.a);
    let base_b = base(source, "base_b", &p.b);
    let (tiles_m, tiles_n) = (p.m.div_ceil(tile.m), p.n.div_ceil(tile.n));
    let tiles = tiles_m * tiles_n;
    source.line(format!("let batch = group_index / {tiles}u;"));
    source.line(format!("if batch >= {}u {{ return; }}", p.batch));
    let band = DOWN.min(tiles_m);
    source.line(format!(
        "let within = group_index % {tiles}u;\n    let band = within / {0}u;\n    \
         let tall = min({band}u, {tiles_m}u - band * {band}u);",
        band * tiles_n
    ));
    source.line(format!(
        "let first_row = (band * {band}u + (within % {0}u) % tall) * {1}u;\n    \
         let first_column = ((within % {0}u) / tall) * {2}u;",
        band * tiles_n,
        tile.m,
        tile.n
    ));
    let beside = tile.across() / 8;
    source.line(
        "let lane = local % 32u;\n    let warp = local / 32u;\n    \
         let lane_x = (lane & 1u) | ((lane >> 1u) & 6u);\n    \
         let lane_y = ((lane >> 1u) & 1u) | ((lane >> 3u) & 2u);",
    );
    source.line(format!(
        "let tx = (warp % {beside}u) * 8u + lane_x;\n    let ty = (warp / {beside}u) * 4u + lane_y;"
    ));
    source.line(format!(
        "let from_a = {base_a}(batch);\n    let from_b = {base_b}(batch);"
    ));
    tiles * p.batch
}

/// Lines that multiply one row of the sum.
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

/// Lines that finish an invocation's sums.
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

/// Whether the last part of the sum is not full, or there is none.
fn is_part(p: &Product) -> bool {
    p.k == 0 || !p.k.is_multiple_of(DEPTH)
}

/// A condition under which something is outside, as a line that returns nothing; none where all tiles are full.
fn outside(conditions: &[(bool, String)]) -> String {
    let needed: Vec<&str> = conditions
        .iter()
        .filter(|(needed, _)| *needed)
        .map(|(_, text)| text.as_str())
        .collect();
    match needed.is_empty() {
        true => String::new(),
        false => format!("    if {} {{ return vec4f(0.0); }}\n", needed.join(" || ")),
    }
}

/// `load_a(row, k, base)`: four of the first matrix, 0 outside; which four.
fn load_first(source: &mut Source<'_>, p: &Product, tile: Tile) -> Fours {
    let a = &p.a;
    let (part_rows, part_sum) = (!p.m.is_multiple_of(tile.m), is_part(p));
    let none = outside(&[
        (part_rows, format!("row >= {}u", p.m)),
        (part_sum, format!("k >= {}u", p.k)),
    ]);
    let head = "fn load_a(row: u32, k: u32, base: u32) -> vec4f {\n";
    let along = is_wide(a, a.column, a.row, p.k);
    if along || is_wide(a, a.row, a.column, p.m) {
        let at = match along {
            true => format!("base + row * {}u + k", a.row),
            false => format!("base + row + k * {}u", a.column),
        };
        let four = wide(source, a);
        source.function(&format!(
            "{head}{none}    let at = {at};\n    return {four};\n}}\n"
        ));
        return if along { Fours::Along } else { Fours::Across };
    }
    let value = element(source, a, "row", "k");
    source.function(&format!(
        "fn one_a(row: u32, k: u32, base: u32) -> f32 {{\n    if row >= {}u || k >= {}u {{ return 0.0; }}\n{value}}}\n{head}    \
         return vec4f(one_a(row, k, base), one_a(row, k + 1u, base), one_a(row, k + 2u, base), one_a(row, k + 3u, base));\n}}\n",
        p.m, p.k
    ));
    Fours::Along
}

/// `load_b(k, column, base)`: four of the second matrix along its columns, 0 outside.
fn load_second(source: &mut Source<'_>, p: &Product, tile: Tile) {
    let b = &p.b;
    let (part_columns, part_sum) = (!p.n.is_multiple_of(tile.n), is_part(p));
    let none = outside(&[
        (part_sum, format!("k >= {}u", p.k)),
        (part_columns, format!("column >= {}u", p.n)),
    ]);
    let head = "fn load_b(k: u32, column: u32, base: u32) -> vec4f {\n";
    if is_wide(b, b.column, b.row, p.n) {
        let four = wide(source, b);
        source.function(&format!(
            "{head}{none}    let at = base + k * {}u + column;\n    return {four};\n}}\n",
            b.row
        ));
        return;
    }
    let value = element(source, b, "k", "column");
    source.function(&format!(
        "fn one_b(k: u32, column: u32, base: u32) -> f32 {{\n    if k >= {}u || column >= {}u {{ return 0.0; }}\n{value}}}\n{head}    \
         return vec4f(one_b(k, column, base), one_b(k, column + 1u, base), one_b(k, column + 2u, base), one_b(k, column + 3u, base));\n}}\n",
        p.k, p.n
    ));
}

/// The expression of the four that begin at `at`.
fn wide(source: &mut Source<'_>, matrix: &Matrix) -> String {
    let name = source.bind(matrix.buffer, true, false);
    Source::four(&name, matrix.dtype, "at")
}
