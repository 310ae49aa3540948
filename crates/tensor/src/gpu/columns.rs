//! Reduced columns: `[outer, n, inner]` over the middle. Neighbouring invocations have neighbouring columns, so that
//! loads are contiguous. Several invocations share a column, with interleaved rows, and a tree in the workgroup's
//! memory joins them.

use super::source::{Source, THREADS};
use crate::program::Space;

/// Columns, or fours of them, of a workgroup at most.
const MOST_ACROSS: usize = 64;
/// Rows that are not shared.
const FEW_ROWS: usize = 16;

/// Writes the kernel. Returns the number of workgroups.
pub(crate) fn write(source: &mut Source<'_>) -> usize {
    let Space::Columns {
        outer,
        n,
        inner,
        op,
        value,
    } = source.kernel.space
    else {
        return 0;
    };
    let body = &source.kernel.body;
    let width = if inner.is_multiple_of(4) { 4 } else { 1 };
    let quads = inner / width;
    // A single invocation reduces few rows, like the taps of a window.
    let most = if n <= FEW_ROWS { THREADS } else { MOST_ACROSS };
    let across = quads.next_power_of_two().clamp(1, most);
    let down = THREADS / across;
    let tiles = quads.div_ceil(across);
    let ty = Source::type_of(width);
    let loads: Vec<String> = (0..body.inputs.len())
        .map(|input| source.load(input, width))
        .collect();
    source.shared = format!("var<workgroup> scratch: array<{ty}, {THREADS}>;\n");
    source.line(format!(
        "let x = local % {across}u;\n    let y = local / {across}u;"
    ));
    source.line(format!("let outer = group_index / {tiles}u;"));
    source.line(format!("if outer >= {outer}u {{ return; }}"));
    source.line(format!(
        "let wanted = (group_index % {tiles}u) * {across}u + x;"
    ));
    source.line(format!(
        "let quad = min(wanted, {}u);",
        quads.saturating_sub(1)
    ));
    let identity = Source::literal_of(op.identity(), width);
    source.line(format!("var part = {identity};"));
    source.line(format!("for (var r = y; r < {n}u; r += {down}u) {{"));
    source.line(format!(
        "let i = (outer * {n}u + r) * {inner}u + quad * {width}u;"
    ));
    let all: Vec<usize> = (0..body.instructions.len()).collect();
    let text = source.instructions(body, &all, (width, "i", ""), &loads, &|_| None);
    source.body.push_str(&text);
    let reduced = Source::named(body, value, width, "");
    let joined = source.joined(op, "part", &reduced, width);
    source.line(format!("part = {joined};\n    }}"));
    source.line("scratch[local] = part;\n    workgroupBarrier();");
    let mut step = down / 2;
    while step > 0 {
        let other = format!("scratch[local + {}u]", step * across);
        let joined = source.joined(op, "scratch[local]", &other, width);
        source.line(format!(
            "if y < {step}u {{ scratch[local] = {joined}; }}\n    workgroupBarrier();"
        ));
        step /= 2;
    }
    source.line(format!(
        "let at = outer * {inner}u + quad * {width}u;\n    let total = scratch[x];"
    ));
    let store = source.store(0, "total", width, "at");
    source.line(format!("if y == 0u && wanted < {quads}u {{\n{store}    }}"));
    outer * tiles
}
