//! Rows with reductions along them: sums, softmax, norms and the operations around them, in one dispatch.
//!
//! 1. `lanes` invocations share a row; a workgroup has as many rows as fit.
//! 2. Each invocation processes its part of the row. Short rows are loaded once and stay in registers; for long rows
//!    every pass loads its inputs, which the caches hold.
//! 3. For each depth of reductions, an invocation joins its parts, then a tree in the workgroup's memory joins the
//!    invocations. The order depends on the row's length only.

use super::source::{Source, THREADS};
use crate::program::{Body, Value};
use std::fmt::Write;

/// Parts of a row in an invocation's registers at most.
const MOST_PARTS: usize = 8;

/// Split of a row among invocations.
struct Shape {
    width: usize,
    /// Fours (or ones) of a row.
    quads: usize,
    lanes: usize,
    /// Quads of an invocation.
    parts: usize,
    n: usize,
}

impl Shape {
    fn new(n: usize) -> Self {
        let width = if n.is_multiple_of(4) { 4 } else { 1 };
        let quads = n / width;
        let lanes = quads.next_power_of_two().clamp(1, THREADS);
        Self {
            width,
            quads,
            lanes,
            parts: quads.div_ceil(lanes),
            n,
        }
    }

    /// Returns the rows of a workgroup.
    fn per_group(&self) -> usize {
        THREADS / self.lanes
    }
}

/// Writes the kernel. Returns the number of workgroups.
pub(crate) fn write(source: &mut Source<'_>, rows: usize, n: usize) -> usize {
    let body = &source.kernel.body;
    let shape = Shape::new(n);
    let loads = load_functions(source, shape.width);
    begin(source, rows, &shape);
    let phases = body.phases();
    let last = phases.iter().copied().max().unwrap_or(0);
    // Elements that are already in registers.
    let mut held = vec![false; body.instructions.len()];
    for phase in 0..=last {
        by_row(source, body, &phases, phase, &loads);
        let pass = Pass {
            reductions: reductions(body, &phases, phase),
            stored: match phase == last {
                true => stored(body, false),
                false => Vec::new(),
            },
            loads: &loads,
        };
        over_row(source, &shape, &pass, &mut held);
    }
    store_by_row(source, body);
    rows.div_ceil(shape.per_group())
}

/// Writes the functions that load the inputs. Returns their names.
fn load_functions(source: &mut Source<'_>, width: usize) -> Vec<String> {
    let body = &source.kernel.body;
    let is_by_row = |input: usize| {
        let mut instructions = body.instructions.iter();
        instructions.any(|i| i.by_row && i.value == Value::Input(input))
    };
    (0..body.inputs.len())
        .map(|input| source.load(input, if is_by_row(input) { 1 } else { width }))
        .collect()
}

/// Writes the lines that find the row of an invocation.
fn begin(source: &mut Source<'_>, rows: usize, shape: &Shape) {
    let (lanes, per_group) = (shape.lanes, shape.per_group());
    source.line(format!("let lane = local % {lanes}u;"));
    source.line(format!(
        "let wanted_row = group_index * {per_group}u + local / {lanes}u;"
    ));
    source.line(format!(
        "let row = min(wanted_row, {}u);",
        rows.saturating_sub(1)
    ));
    source.line(format!("let live = wanted_row < {rows}u;"));
}

/// Instructions of a pass over a row.
struct Pass<'a> {
    reductions: Vec<usize>,
    /// Instructions with the outputs that they are stored in.
    stored: Vec<(usize, usize)>,
    loads: &'a [String],
}

/// Returns the reductions whose results the phase after `phase` reads.
fn reductions(body: &Body, phases: &[usize], phase: usize) -> Vec<usize> {
    let is_reduction = |at: usize| matches!(body.instructions[at].value, Value::Reduce(..));
    (0..body.instructions.len())
        .filter(|at| phases[*at] == phase + 1 && is_reduction(*at))
        .collect()
}

/// Returns the stores of values per row, or of values per element.
fn stored(body: &Body, by_row: bool) -> Vec<(usize, usize)> {
    let stores = body.stores.iter().copied();
    stores
        .filter(|(at, _)| body.instructions[*at].by_row == by_row)
        .collect()
}

/// Writes a pass over the elements of a row: it joins reductions, and stores values. Values in registers are `held`.
fn over_row(source: &mut Source<'_>, shape: &Shape, pass: &Pass<'_>, held: &mut [bool]) {
    let body = &source.kernel.body;
    let mut wanted: Vec<usize> = Vec::new();
    for at in &pass.reductions {
        if let Value::Reduce(op, operand) = body.instructions[*at].value {
            let identity = Source::literal_of(op.identity(), shape.width);
            source.line(format!("var part{at} = {identity};"));
            wanted.push(operand);
        }
    }
    wanted.extend(pass.stored.iter().map(|store| store.0));
    let needed = elements(body, &wanted);
    if !wanted.is_empty() && shape.parts <= MOST_PARTS {
        let fresh: Vec<usize> = needed.iter().copied().filter(|at| !held[*at]).collect();
        for part in 0..shape.parts {
            unrolled(source, shape, part, &fresh, pass);
        }
        needed.iter().for_each(|at| held[*at] = true);
    } else if !wanted.is_empty() {
        looped(source, shape, &needed, pass);
    }
    for at in &pass.reductions {
        join(source, body, *at, shape);
    }
}

/// Writes the lines by which one invocation stores the values of its row.
fn store_by_row(source: &mut Source<'_>, body: &Body) {
    for (at, output) in stored(body, true) {
        let value = Source::named(body, at, 1, "");
        let text = source.store(output, &value, 1, "row");
        source.line("if live && lane == 0u {");
        source.body.push_str(&text);
        source.line("}");
    }
}

/// Returns the instructions per element that `wanted` depends on, in order.
fn elements(body: &Body, wanted: &[usize]) -> Vec<usize> {
    let mut needed = vec![false; body.instructions.len()];
    wanted
        .iter()
        .for_each(|at| needed[*at] = !body.instructions[*at].by_row);
    for at in (0..needed.len())
        .rev()
        .filter(|at| !body.instructions[*at].by_row)
    {
        if let (true, Value::Element(_, operands)) = (needed[at], &body.instructions[at].value) {
            operands
                .iter()
                .for_each(|o| needed[*o] |= !body.instructions[*o].by_row);
        }
    }
    (0..needed.len()).filter(|at| needed[*at]).collect()
}

/// Computes the values per row that become computable in this phase.
fn by_row(source: &mut Source<'_>, body: &Body, phases: &[usize], phase: usize, loads: &[String]) {
    let now: Vec<usize> = (0..body.instructions.len())
        .filter(|at| body.instructions[*at].by_row && phases[*at] == phase)
        .collect();
    let text = source.instructions(body, &now, (1, "row", ""), loads, &|_| None);
    source.body.push_str(&text);
}

/// Returns the names of the row's values for use in elements.
fn known(body: &Body, width: usize) -> impl Fn(usize) -> Option<String> + '_ {
    move |at| {
        let instruction = &body.instructions[at];
        match (&instruction.value, instruction.by_row) {
            (Value::Constant(_), _) | (_, false) => None,
            (_, true) if width == 4 => Some(format!("vec4f(v{at})")),
            (_, true) => Some(format!("v{at}")),
        }
    }
}

/// Position of an invocation within its row.
struct Place<'a> {
    /// Linear index.
    index: &'a str,
    /// Suffix of the names of values.
    suffix: &'a str,
    /// Condition for a position inside of the row; `None` if it is always inside.
    guard: Option<&'a str>,
}

/// Writes the lines that compute instructions at a position, join reduced values, and store.
fn at_place(
    source: &mut Source<'_>,
    width: usize,
    instructions: &[usize],
    pass: &Pass<'_>,
    place: &Place<'_>,
) -> String {
    let body = &source.kernel.body;
    let Place {
        index,
        suffix,
        guard,
    } = *place;
    let row_values = known(body, width);
    let named = (width, index, suffix);
    let mut text = source.instructions(body, instructions, named, pass.loads, &row_values);
    for at in &pass.reductions {
        let Value::Reduce(op, operand) = body.instructions[*at].value else {
            continue;
        };
        let value = match row_values(operand) {
            Some(value) => value,
            None => Source::named(body, operand, width, suffix),
        };
        let joined = source.joined(op, &format!("part{at}"), &value, width);
        let _ = match guard {
            Some(guard) => writeln!(text, "    if {guard} {{ part{at} = {joined}; }}"),
            None => writeln!(text, "    part{at} = {joined};"),
        };
    }
    for (at, output) in &pass.stored {
        let value = Source::named(body, *at, width, suffix);
        let store = source.store(*output, &value, width, index);
        let _ = match guard {
            Some(guard) => writeln!(text, "    if live && {guard} {{\n{store}    }}"),
            None => writeln!(text, "    if live {{\n{store}    }}"),
        };
    }
    text
}

/// Writes the code for a part of a row that stays in registers.
fn unrolled(source: &mut Source<'_>, shape: &Shape, part: usize, fresh: &[usize], pass: &Pass<'_>) {
    let suffix = format!("_{part}");
    let is_inside = shape.quads.is_multiple_of(shape.lanes) || part + 1 < shape.parts;
    let (quads, lanes, n, width) = (shape.quads, shape.lanes, shape.n, shape.width);
    let index = format!("i{suffix}");
    let guard = (!is_inside).then(|| format!("(lane + {}u < {quads}u)", part * lanes));
    if !source.body.contains(&format!("let {index} =")) {
        let quad = match is_inside {
            true => format!("lane + {}u", part * lanes),
            false => format!("min(lane + {}u, {}u)", part * lanes, quads - 1),
        };
        source.line(format!("let {index} = row * {n}u + ({quad}) * {width}u;"));
    }
    let place = Place {
        index: &index,
        suffix: &suffix,
        guard: guard.as_deref(),
    };
    let text = at_place(source, width, fresh, pass, &place);
    source.body.push_str(&text);
}

/// Writes the code for a row that is loaded for each pass over it.
fn looped(source: &mut Source<'_>, shape: &Shape, needed: &[usize], pass: &Pass<'_>) {
    let (quads, lanes, n, width) = (shape.quads, shape.lanes, shape.n, shape.width);
    source.line(format!(
        "for (var quad = lane; quad < {quads}u; quad += {lanes}u) {{"
    ));
    source.line(format!("let i = row * {n}u + quad * {width}u;"));
    let place = Place {
        index: "i",
        suffix: "",
        guard: None,
    };
    let text = at_place(source, width, needed, pass, &place);
    source.body.push_str(&text);
    source.line("}");
}

/// Joins the parts of a row's invocations to `v{at}`.
fn join(source: &mut Source<'_>, body: &Body, at: usize, shape: &Shape) {
    let Value::Reduce(op, _) = body.instructions[at].value else {
        return;
    };
    let part = format!("part{at}");
    let single = if shape.width == 4 {
        let low = source.joined(op, &format!("{part}.x"), &format!("{part}.y"), 1);
        let high = source.joined(op, &format!("{part}.z"), &format!("{part}.w"), 1);
        source.joined(op, &format!("({low})"), &format!("({high})"), 1)
    } else {
        part
    };
    if shape.lanes == 1 {
        source.line(format!("let v{at} = {single};"));
        return;
    }
    if source.shared.is_empty() {
        source.shared = format!("var<workgroup> scratch: array<f32, {THREADS}>;\n");
    }
    source.line(format!("scratch[local] = {single};"));
    source.line("workgroupBarrier();");
    let mut step = shape.lanes / 2;
    while step > 0 {
        let joined = source.joined(
            op,
            "scratch[local]",
            &format!("scratch[local + {step}u]"),
            1,
        );
        source.line(format!(
            "if lane < {step}u {{ scratch[local] = {joined}; }}"
        ));
        source.line("workgroupBarrier();");
        step /= 2;
    }
    source.line(format!("let v{at} = scratch[local - lane];"));
    source.line("workgroupBarrier();");
}
