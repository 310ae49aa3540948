//! Matrix products.
//!
//! Tiled, for most: see `tiled`.
//!
//! Thin, where one side has at most 4 rows or columns: the invocations of a workgroup share the sum of some columns and
//! join their parts by a tree.
//!
//! By cooperative matrices, where operands have 16-bit elements and the device multiplies them so: see `cooperative`.
//!
//! Slim, where the second matrix has at most 16 columns and the first is tall: see `slim`.
//!
//! Tall, where long sums over rows of both matrices were cut into many parts: see `tall`.
//!
//! Which of them, and how large tiles are, follows from the sizes alone.

use super::source::{Source, THREADS};
use super::tiles::{base, element, is_wide, more, width};
use super::{cooperative, slim, tall, tiled};
use crate::program::{Product, Value};

/// Maximum elements of a result with few rows or columns.
const THIN: usize = 65_536;

/// Maximum terms that an invocation of a thin product loads before it multiplies.
const AHEAD: usize = 16;

/// Writes the kernel. Returns the number of workgroups.
pub(crate) fn write(source: &mut Source<'_>, product: &Product) -> usize {
    finish(source, product);
    if product.plain {
        return plain(source, product);
    }
    if tall::is_tall(product) {
        return tall::write(source, product);
    }
    if let Some(many) = product.cooperative
        && cooperative::is_cooperative(product)
    {
        return cooperative::write(source, product, many);
    }
    let few = product.m.min(product.n) <= 4 && product.m * product.n <= THIN;
    if slim::is_slim(product) {
        slim::write(source, product)
    } else if few {
        thin(source, product)
    } else {
        tiled::write(source, product)
    }
}

/// Computes each element by itself, or four neighbours where they are stored together.
fn plain(source: &mut Source<'_>, p: &Product) -> usize {
    let width = width(source, p);
    for (name, matrix) in [("one_a", &p.a), ("one_b", &p.b)] {
        let value = element(source, matrix, "row", "column");
        source.function(&format!(
            "fn {name}(row: u32, column: u32, base: u32) -> f32 {{\n{value}}}\n"
        ));
    }
    let base_a = base(source, "base_a", &p.a);
    let base_b = base(source, "base_b", &p.b);
    let count = p.batch * p.m * p.n;
    source.line(format!(
        "let i = (group_index * {THREADS}u + local) * {width}u;\n    if i >= {count}u {{ return; }}"
    ));
    source.line(format!(
        "let batch = i / {}u;\n    let row = (i / {}u) % {}u;\n    let column = i % {}u;",
        p.m * p.n,
        p.n,
        p.m,
        p.n
    ));
    source.line(format!(
        "let from_a = {base_a}(batch);\n    let from_b = {base_b}(batch);"
    ));
    source.line(format!("var sum = {};", Source::literal_of(0.0, width)));
    let b = match width {
        4 => {
            "vec4f(one_b(k, column, from_b), one_b(k, column + 1u, from_b), one_b(k, column + 2u, from_b), one_b(k, column + 3u, from_b))"
        }
        _ => "one_b(k, column, from_b)",
    };
    let ty = Source::type_of(width);
    source.line(format!("for (var k = 0u; k < {}u; k++) {{", p.k));
    source.line(format!(
        "sum = fma({ty}(one_a(row, k, from_a)), {b}, sum);\n    }}"
    ));
    source.line("finish(i, sum, zero);");
    count.div_ceil(THREADS * width)
}

/// Writes `finish(i, value, zero)`: the elementwise operations on the product at linear index `i`.
fn finish(source: &mut Source<'_>, product: &Product) {
    let body = &source.kernel.body;
    let width = width(source, product);
    let loads: Vec<String> = (0..body.inputs.len())
        .map(|input| source.load(input, width))
        .collect();
    let all: Vec<usize> = (0..body.instructions.len()).collect();
    let known =
        |at: usize| (body.instructions[at].value == Value::Product).then(|| "value".to_owned());
    let mut text = source.instructions(body, &all, (width, "i", ""), &loads, &known);
    for (instruction, output) in &body.stores {
        let value =
            known(*instruction).unwrap_or_else(|| Source::named(body, *instruction, width, ""));
        text.push_str(&source.store(*output, &value, width, "i"));
    }
    let ty = Source::type_of(width);
    source.function(&format!(
        "fn finish(i: u32, value: {ty}, zero: u32) {{\n{text}}}\n"
    ));
}

/// Returns the length of a sum.
fn depth(p: &Product) -> usize {
    p.k + p.more.as_ref().map_or(0, |more| more.k)
}

/// Returns lines for elements beyond the first product's sum: one element of the first matrix.
fn beyond_a(p: &Product) -> String {
    match &p.more {
        None => String::new(),
        Some(_) => format!(
            "    if k >= {0}u {{ return more_a(row, k - {0}u); }}\n",
            p.k
        ),
    }
}

/// See [`beyond_a`]: four elements of the second matrix along its columns.
fn beyond_b(p: &Product, width: usize) -> String {
    match (&p.more, width) {
        (None, _) => String::new(),
        (Some(_), 4) => format!(
            "    if k >= {0}u {{ let j = k - {0}u; return vec4f(more_b(j, column), more_b(j, column + 1u), more_b(j, column + 2u), more_b(j, column + 3u)); }}\n",
            p.k
        ),
        (Some(_), _) => format!(
            "    if k >= {0}u {{ return more_b(k - {0}u, column); }}\n",
            p.k
        ),
    }
}

/// Writes a function `name(k, column, base)` that loads four elements of the second matrix along its columns.
fn load_second(source: &mut Source<'_>, p: &Product) {
    let b = &p.b;
    let beyond = beyond_b(p, 4);
    let ty = format!("fn load_b(k: u32, column: u32, base: u32) -> vec4f {{\n{beyond}");
    if is_wide(b, b.column, b.row, p.n) {
        let name = source.bind(b.buffer, true, false);
        let four = Source::four(&name, b.dtype, "at");
        source.function(&format!(
            "{ty}    if k >= {}u || column >= {}u {{ return vec4f(0.0); }}\n    let at = base + k * {}u + column;\n    return {four};\n}}\n",
            p.k, p.n, b.row
        ));
        return;
    }
    let value = element(source, b, "k", "column");
    source.function(&format!(
        "fn one_b(k: u32, column: u32, base: u32) -> f32 {{\n    if k >= {}u || column >= {}u {{ return 0.0; }}\n{value}}}\n{ty}    \
         return vec4f(one_b(k, column, base), one_b(k, column + 1u, base), one_b(k, column + 2u, base), one_b(k, column + 3u, base));\n}}\n",
        p.k, p.n
    ));
}

/// Writes the kernel: a workgroup has some columns of one row; its invocations share their sums.
fn thin(source: &mut Source<'_>, p: &Product) -> usize {
    let width = width(source, p);
    let fours = p.n / width;
    let across = fours.next_power_of_two().clamp(1, 16);
    let parts = THREADS / across;
    let ty = Source::type_of(width);
    source.shared = format!("var<workgroup> scratch: array<{ty}, {THREADS}>;\n");
    more(source, p);
    let value = element(source, &p.a, "row", "k");
    let beyond = beyond_a(p);
    source.function(&format!(
        "fn one_a(row: u32, k: u32, base: u32) -> f32 {{\n{beyond}{value}}}\n"
    ));
    if width == 4 {
        load_second(source, p);
    } else {
        let value = element(source, &p.b, "k", "column");
        let beyond = beyond_b(p, 1);
        source.function(&format!(
            "fn load_b(k: u32, column: u32, base: u32) -> f32 {{\n{beyond}{value}}}\n"
        ));
    }
    let base_a = base(source, "base_a", &p.a);
    let base_b = base(source, "base_b", &p.b);
    let tiles = fours.div_ceil(across);
    source.line(format!("let batch = group_index / {}u;", tiles * p.m));
    source.line(format!("if batch >= {}u {{ return; }}", p.batch));
    source.line(format!("let row = (group_index / {tiles}u) % {}u;", p.m));
    source.line(format!(
        "let wanted = (group_index % {tiles}u) * {across}u + local % {across}u;"
    ));
    source.line(format!(
        "let column = min(wanted, {}u) * {width}u;",
        fours.saturating_sub(1)
    ));
    source.line(format!(
        "let from_a = {base_a}(batch);\n    let from_b = {base_b}(batch);"
    ));
    source.line(format!("var sum = {};", Source::literal_of(0.0, width)));
    // Some loads in flight at a time.
    let ahead = (depth(p) / parts).clamp(1, AHEAD);
    source.line(format!("var k = local / {across}u;"));
    source.line(format!(
        "for (; k + {}u < {}u; k += {}u) {{",
        (ahead - 1) * parts,
        depth(p),
        ahead * parts
    ));
    for at in 0..ahead {
        let k = format!("k + {}u", at * parts);
        source.line(format!("let a{at} = one_a(row, {k}, from_a);"));
        source.line(format!("let b{at} = load_b({k}, column, from_b);"));
    }
    for at in 0..ahead {
        source.line(format!("sum = fma({ty}(a{at}), b{at}, sum);"));
    }
    source.line(format!(
        "}}\n    for (; k < {}u; k += {parts}u) {{",
        depth(p)
    ));
    source.line(format!(
        "sum = fma({ty}(one_a(row, k, from_a)), load_b(k, column, from_b), sum);\n    }}"
    ));
    source.line("scratch[local] = sum;\n    workgroupBarrier();");
    let mut step = parts / 2;
    while step > 0 {
        let distance = step * across;
        source.line(format!("if local < {distance}u {{ scratch[local] += scratch[local + {distance}u]; }}\n    workgroupBarrier();"));
        step /= 2;
    }
    let index = format!("(batch * {}u + row) * {}u + column", p.m, p.n);
    source.line(format!(
        "if local < {across}u && wanted < {fours}u {{ finish({index}, scratch[local], zero); }}"
    ));
    tiles * p.m * p.batch
}
