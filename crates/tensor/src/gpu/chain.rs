//! Chains of narrow products in one kernel: a small network, or its backward pass.
//!
//! 1. A workgroup loads some rows of the first matrix into its memory, as fours along the columns.
//! 2. Parts of each product's second matrix, 8 or 16 rows deep, are loaded into its memory. Invocations form a grid
//!    over rows and columns. Each keeps the sums of up to 8 rows by 8 columns in registers, added up in the order of
//!    the sum.
//! 3. Elementwise operations run, values with other readers are stored, and the result replaces the rows.
//!
//! Sums have the order of tiled products, so that results are equal to theirs for every number of rows per workgroup.

use super::fours::{PARTS, load};
use super::source::Source;
use crate::program::{Chain, Link, Matrix, Part, Value};

/// Writes the kernel. Returns the number of workgroups.
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
        let loads = finish(source, chain, number, is_last);
        load(
            source,
            &format!("load_matrix{number}"),
            &link.b,
            [link.k, link.n],
        );
        source.line(format!("// Product {number}.\n    {{"));
        let part = tile.part(link.n);
        sums(source, chain, (number, link), part);
        let results = Results {
            chain,
            number,
            link,
            part,
            is_last,
            loads: &loads,
        };
        results.write(source);
        source.line("}");
    }
    groups
}

/// Splits number `t` of a matrix's fours, of `rows` rows, into row and column: neighbours load neighbours.
fn neighbours(matrix: &Matrix, rows: usize, fours: usize) -> (String, String) {
    match matrix.column == 1 {
        true => (format!("t / {fours}u"), format!("t % {fours}u")),
        false => (format!("t % {rows}u"), format!("t / {rows}u")),
    }
}

/// Returns the number of elements of a link that are finished at a time.
fn width(link: &Link) -> usize {
    if link.n.is_multiple_of(4) { 4 } else { 1 }
}

/// Writes `finish0(i, value, in0, .., zero)`: the elementwise operations on a product at linear index `i`, with their
/// loads. It returns the values that the next link multiplies. Also writes the functions that load them.
fn finish(source: &mut Source<'_>, chain: &Chain, number: usize, is_last: bool) -> Vec<String> {
    let link = &chain.links[number];
    let (body, width) = (&link.body, width(link));
    let extent = chain.m * link.n;
    let loads: Vec<String> = body
        .inputs
        .iter()
        .map(|input| source.load_of(input, width, extent))
        .collect();
    let known = |at: usize| match &body.instructions[at].value {
        Value::Product => Some("value".to_owned()),
        Value::Input(input) => Some(format!("in{input}")),
        _ => None,
    };
    let named = |at: usize| known(at).unwrap_or_else(|| Source::named(body, at, width, ""));
    let computed = (0..body.instructions.len()).filter(|at| known(*at).is_none());
    let computed: Vec<usize> = computed.collect();
    let mut text = source.instructions(body, &computed, (width, "i", ""), &loads, &known);
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
    let inputs: String = (0..loads.len())
        .map(|input| format!("in{input}: {ty}, "))
        .collect();
    source.function(&format!(
        "fn finish{number}(i: u32, value: {ty}, {inputs}zero: u32){gives} {{\n{text}{end}}}\n"
    ));
    loads
}

/// Writes the lines that add up an invocation's sums of a product.
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
    let (k, four) = neighbours(&link.b, tile.depth, padded);
    let count = (tile.depth * padded).div_ceil(tile.threads);
    let is_whole = (tile.depth * padded).is_multiple_of(tile.threads);
    let is_there = |at: usize| match is_whole {
        true => String::new(),
        false => format!("if t{at} < {}u ", tile.depth * padded),
    };
    for at in 0..count {
        source.line(format!("let t{at} = local + {}u;", at * tile.threads));
        let of = |text: &str| text.replace("t ", &format!("t{at} "));
        source.line(format!(
            "let k{at} = {};\n    let four{at} = {};\n    var next{at} = vec4f(0.0);",
            of(&k),
            of(&four)
        ));
    }
    let next = |source: &mut Source<'_>, done: &str| {
        for at in 0..count {
            source.line(format!(
                "{}{{ next{at} = load_matrix{number}({done} + k{at}, four{at} * 4u, {}u); }}",
                is_there(at),
                link.b.offset
            ));
        }
    };
    next(source, "0u");
    source.line(format!(
        "for (var done = 0u; done < {fours}u; done += {deep}u) {{\n    workgroupBarrier();"
    ));
    for at in 0..count {
        source.line(format!(
            "{}{{ matrix[k{at} * {matrix_pitch}u + four{at}] = next{at}; }}",
            is_there(at)
        ));
    }
    source.line("workgroupBarrier();");
    // The next part is in flight while this one is multiplied.
    if fours > deep {
        source.line(format!("if done + {deep}u < {fours}u {{"));
        next(source, &format!("(done + {deep}u) * 4u"));
        source.line("}");
    }
    // Unrolled here, because drivers do not unroll it.
    for d in 0..deep {
        match fours.is_multiple_of(deep) || d == 0 {
            true => source.line("{"),
            false => source.line(format!("if done + {d}u < {fours}u {{")),
        }
        multiply(source, (pitch, matrix_pitch), part, d);
        source.line("}");
    }
    source.line("}");
}

/// Writes the lines that multiply number `d` of the fours of a part of the sum.
fn multiply(source: &mut Source<'_>, (pitch, matrix_pitch): (usize, usize), part: Part, d: usize) {
    for row in 0..part.rows {
        source.line(format!(
            "let a{row} = rows[(ty + {}u) * {pitch}u + done + {d}u];",
            row * part.down
        ));
    }
    for (at, name) in PARTS.iter().enumerate() {
        for column in 0..part.columns {
            source.line(format!(
                "let b{at}_{column} = matrix[{}u * {matrix_pitch}u + tx + {}u];",
                d * 4 + at,
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
}

/// Rows per invocation whose loads are in flight at a time. Drivers assume that stores may alias loads, so alternating
/// loads and stores would wait for each load.
const AHEAD: usize = 4;

/// Results of a product in a chain.
struct Results<'a> {
    chain: &'a Chain,
    number: usize,
    link: &'a Link,
    part: Part,
    is_last: bool,
    /// Functions that load the inputs of `finish`.
    loads: &'a [String],
}

/// A four of an invocation's results: its numbers among the invocation's rows, and columns.
type Four = (usize, usize);

impl Results<'_> {
    /// Writes the lines that finish an invocation's sums, and store them over the rows.
    fn write(&self, source: &mut Source<'_>) {
        if !self.is_last {
            source.line("workgroupBarrier();");
        }
        let all: Vec<Four> = (0..self.part.rows)
            .flat_map(|row| (0..self.part.columns).map(move |column| (row, column)))
            .collect();
        for some in all.chunks(AHEAD * self.part.columns) {
            for four in some {
                self.load(source, *four);
            }
            for four in some {
                self.finish(source, *four);
            }
        }
    }

    fn row(&self, (row, _): Four) -> String {
        format!("(ty + {}u)", row * self.part.down)
    }

    fn column(&self, (_, column): Four) -> String {
        format!("(tx + {}u)", column * self.part.across)
    }

    /// Returns the condition for an invocation that has this four, if its row exists.
    fn has_column(&self, four: Four) -> String {
        // For few columns, only some of the invocations have any.
        let busy = self.part.across * self.part.down;
        let is_busy = match busy < self.chain.tile.threads {
            true => format!("local < {busy}u && "),
            false => String::new(),
        };
        let fours = self.link.n.div_ceil(4);
        format!("{is_busy}{} < {fours}u", self.column(four))
    }

    /// Returns the condition for a row that exists.
    fn has_row(&self, four: Four) -> String {
        format!("first_row + {} < {}u", self.row(four), self.chain.m)
    }

    /// Writes the lines that load the inputs of a four.
    fn load(&self, source: &mut Source<'_>, four: Four) {
        let (row, column) = four;
        source.line(format!(
            "let i{row}_{column} = (first_row + {}) * {}u + {} * 4u;",
            self.row(four),
            self.link.n,
            self.column(four)
        ));
        if width(self.link) != 4 {
            return;
        }
        for (input, load) in self.loads.iter().enumerate() {
            source.line(format!(
                "var in{input}_{row}_{column} = vec4f(0.0);\n    \
                 if {} && {} {{ in{input}_{row}_{column} = {load}(i{row}_{column}); }}",
                self.has_column(four),
                self.has_row(four)
            ));
        }
    }

    /// Writes the lines that finish a four, and store it over the rows.
    fn finish(&self, source: &mut Source<'_>, four: Four) {
        source.line(format!("if {} {{", self.has_column(four)));
        source.line("var passed = vec4f(0.0);");
        source.line(format!("if {} {{", self.has_row(four)));
        match width(self.link) {
            4 => self.finish_whole(source, four),
            _ => self.finish_elements(source, four),
        }
        source.line("}");
        if !self.is_last {
            source.line(format!(
                "rows[{} * {}u + {}] = passed;",
                self.row(four),
                self.chain.tile.pitch,
                self.column(four)
            ));
        }
        source.line("}");
    }

    /// Writes the call that finishes a four at once.
    fn finish_whole(&self, source: &mut Source<'_>, (row, column): Four) {
        let into = if self.is_last { "" } else { "passed = " };
        let inputs: String = (0..self.loads.len())
            .map(|input| format!("in{input}_{row}_{column}, "))
            .collect();
        source.line(format!(
            "{into}finish{}(i{row}_{column}, sum{row}_{column}, {inputs}zero);",
            self.number
        ));
    }

    /// Writes the calls that finish the elements of a four one by one.
    fn finish_elements(&self, source: &mut Source<'_>, four: Four) {
        let (row, column) = four;
        for (k, name) in PARTS.iter().enumerate() {
            let into = match self.is_last {
                true => String::new(),
                false => format!("passed.{name} = "),
            };
            let inputs: String = self
                .loads
                .iter()
                .map(|load| format!("{load}(i{row}_{column} + {k}u), "))
                .collect();
            source.line(format!(
                "if {} * 4u + {k}u < {}u {{ {into}finish{}(i{row}_{column} + {k}u, sum{row}_{column}.{name}, {inputs}zero); }}",
                self.column(four),
                self.link.n,
                self.number
            ));
        }
    }
}
