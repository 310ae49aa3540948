//! Chains of narrow products in one kernel: a small network, or its backward pass.
//!
//! 1. A workgroup brings some rows of the first matrix into its memory, as fours along the columns.
//! 2. Of each product, parts of the second matrix, 8 or 16 rows deep, come into its memory; invocations are a grid over rows
//!    and columns, and each has the sums of up to 8 rows by 8 columns in registers, added up in the order of the sum.
//! 3. What follows element by element is done, what others read is stored, and the result takes the place of the rows.
//!
//! Sums have the order of tiled products, so that results are the same as theirs, however many rows a workgroup has.

use super::fours::{PARTS, load};
use super::source::Source;
use crate::program::{Chain, Link, Matrix, Part, Value};

/// Writes it; the number of workgroups.
pub(crate) fn write(source: &mut Source<'_>, chain: &Chain) -> usize {
    let tile = &chain.tile;
    let (rows, pitch) = (tile.rows, tile.pitch);
    source.threads = tile.threads;
    source.shared = format!(
        "var<workgroup> rows: array<vec4f, {}>;\nvar<workgroup> matrix: array<vec4f, {}>;\n",
        rows * pitch,
        tile.depth * tile.matrix_pitch
    );
    let groups = chain.m.div_ceil(rows);
    source.line(format!("let first_row = group_index * {rows}u;"));
    source.line(format!("if group_index >= {groups}u {{ return; }}"));
    let k = chain.links.first().map_or(0, |link| link.k);
    load(source, "load_rows", &chain.a, [chain.m, k]);
    let fours = k.div_ceil(4);
    let (row, four) = neighbours(&chain.a, rows, fours);
    source.line(format!(
        "for (var t = local; t < {}u; t += {}u) {{\n        let row = {row};\n        let four = {four};\n        \
         rows[row * {pitch}u + four] = load_rows(first_row + row, four * 4u, {}u);\n    }}",
        rows * fours,
        tile.threads,
        chain.a.offset
    ));
    for (number, link) in chain.links.iter().enumerate() {
        let is_last = number + 1 == chain.links.len();
        finish(source, chain, number, is_last);
        load(
            source,
            &format!("load_matrix{number}"),
            &link.b,
            [link.k, link.n],
        );
        source.line(format!("// Product {number}.\n    {{"));
        let part = tile.part(link.n);
        sums(source, chain, (number, link), part);
        results(source, chain, (number, link), (part, is_last));
        source.line("}");
    }
    groups
}

/// How number `t` of a matrix's fours, of so many rows, is split: neighbours load neighbours.
fn neighbours(matrix: &Matrix, rows: usize, fours: usize) -> (String, String) {
    match matrix.column == 1 {
        true => (format!("t / {fours}u"), format!("t % {fours}u")),
        false => (format!("t % {rows}u"), format!("t / {rows}u")),
    }
}

/// How many elements of a link are finished at a time.
fn width(link: &Link) -> usize {
    if link.n.is_multiple_of(4) { 4 } else { 1 }
}

/// `finish0(i, value, zero)`: what is done with elements of a product at linear index `i`; gives what the next multiplies.
fn finish(source: &mut Source<'_>, chain: &Chain, number: usize, is_last: bool) {
    let link = &chain.links[number];
    let (body, width) = (&link.body, width(link));
    let extent = chain.m * link.n;
    let loads: Vec<String> = body
        .inputs
        .iter()
        .map(|input| source.load_of(input, width, extent))
        .collect();
    let all: Vec<usize> = (0..body.instructions.len()).collect();
    let known =
        |at: usize| (body.instructions[at].value == Value::Product).then(|| "value".to_owned());
    let named = |at: usize| known(at).unwrap_or_else(|| Source::named(body, at, width, ""));
    let mut text = source.instructions(body, &all, (width, "i", ""), &loads, &known);
    for (instruction, output) in &body.stores {
        text.push_str(&source.store(*output, &named(*instruction), width, "i"));
    }
    let ty = Source::type_of(width);
    let (gives, end) = match is_last {
        true => (String::new(), String::new()),
        false => (
            format!(" -> {ty}"),
            format!("    return {};\n", named(link.passed)),
        ),
    };
    source.function(&format!(
        "fn finish{number}(i: u32, value: {ty}, zero: u32){gives} {{\n{text}{end}}}\n"
    ));
}

/// Lines that add up an invocation's sums of a product.
fn sums(source: &mut Source<'_>, chain: &Chain, (number, link): (usize, &Link), part: Part) {
    let tile = &chain.tile;
    let (pitch, matrix_pitch) = (tile.pitch, tile.matrix_pitch);
    let (padded, fours, deep) = (part.padded(), link.k.div_ceil(4), tile.depth / 4);
    source.line(format!(
        "let tx = local % {}u;\n    let ty = min(local / {}u, {}u);",
        part.across,
        part.across,
        part.down - 1
    ));
    for row in 0..part.rows {
        for column in 0..part.columns {
            source.line(format!("var sum{row}_{column} = vec4f(0.0);"));
        }
    }
    source.line(format!(
        "for (var done = 0u; done < {fours}u; done += {deep}u) {{\n    workgroupBarrier();"
    ));
    let (k, four) = neighbours(&link.b, tile.depth, padded);
    source.line(format!(
        "for (var t = local; t < {}u; t += {}u) {{\n        let k = {k};\n        let four = {four};\n        \
         matrix[k * {matrix_pitch}u + four] = load_matrix{number}(done * 4u + k, four * 4u, {}u);\n    }}",
        tile.depth * padded,
        tile.threads,
        link.b.offset
    ));
    let end = match fours.is_multiple_of(deep) {
        true => format!("{deep}u"),
        false => format!("min({deep}u, {fours}u - done)"),
    };
    source.line(format!(
        "workgroupBarrier();\n    for (var d = 0u; d < {end}; d++) {{"
    ));
    for row in 0..part.rows {
        source.line(format!(
            "let a{row} = rows[(ty + {}u) * {pitch}u + done + d];",
            row * part.down
        ));
    }
    for (at, name) in PARTS.iter().enumerate() {
        for column in 0..part.columns {
            source.line(format!(
                "let b{at}_{column} = matrix[(d * 4u + {at}u) * {matrix_pitch}u + tx + {}u];",
                column * part.across
            ));
            for row in 0..part.rows {
                let sum = format!("sum{row}_{column}");
                source.line(format!(
                    "{sum} = fma(vec4f(a{row}.{name}), b{at}_{column}, {sum});"
                ));
            }
        }
    }
    source.line("}\n    }");
}

/// Lines that finish an invocation's sums, and put them where the rows were.
fn results(
    source: &mut Source<'_>,
    chain: &Chain,
    (number, link): (usize, &Link),
    (part, is_last): (Part, bool),
) {
    let (m, n, pitch) = (chain.m, link.n, chain.tile.pitch);
    if !is_last {
        source.line("workgroupBarrier();");
    }
    // Of few columns, fewer invocations may have some.
    let busy = part.across * part.down;
    let is_busy = match busy < chain.tile.threads {
        true => format!("local < {busy}u && "),
        false => String::new(),
    };
    for row in 0..part.rows {
        source.line(format!("let row{row} = ty + {}u;", row * part.down));
        for column in 0..part.columns {
            let four = format!("(tx + {}u)", column * part.across);
            let sum = format!("sum{row}_{column}");
            source.line(format!("if {is_busy}{four} < {}u {{", n.div_ceil(4)));
            source.line("var passed = vec4f(0.0);");
            source.line(format!("if first_row + row{row} < {m}u {{"));
            source.line(format!(
                "let i = (first_row + row{row}) * {n}u + {four} * 4u;"
            ));
            let (before, after) = match is_last {
                true => ("", ""),
                false => ("passed", " = "),
            };
            if width(link) == 4 {
                source.line(format!("{before}{after}finish{number}(i, {sum}, zero);"));
            } else {
                for (k, name) in PARTS.iter().enumerate() {
                    let into = match is_last {
                        true => String::new(),
                        false => format!("{before}.{name}{after}"),
                    };
                    source.line(format!(
                        "if {four} * 4u + {k}u < {n}u {{ {into}finish{number}(i + {k}u, {sum}.{name}, zero); }}"
                    ));
                }
            }
            source.line("}");
            if !is_last {
                source.line(format!("rows[row{row} * {pitch}u + {four}] = passed;"));
            }
            source.line("}");
        }
    }
}
