//! Products of 16-bit matrices by cooperative matrices: units that multiply 16 by 16 matrices for a whole subgroup of 32, and
//! add up in `f32`.
//!
//! 1. A workgroup has a tile of the result, 128 by 256 or 64 by 64, its subgroups parts of it, as 16 by 16 sums.
//! 2. Parts of both matrices come into the workgroup's memory as they lie, rows apart by 16 bytes more than they are long, so
//!    that neighbouring rows are in different banks; the next part is on its way while one is multiplied. A matrix that is
//!    transposed is loaded transposed by the units.
//! 3. Sums go through the workgroup's memory, 16 by 16 a subgroup, to invocations that finish fours of them.
//!
//! Where a device has such units and all tiles are full. The order in which they add up is theirs: the same each time, another
//! than that of other kernels. wgpu checks such shaders less, so a device's units are first compared with numbers that are
//! known: [`check`].

use super::matmul::{finish_index, is_wide, tile_of_group};
use super::source::Source;
use crate::context::Context;
use crate::graph::tensor::DType;
use crate::plan::{Plan, PlanOptions};
use crate::program::{Matrix, Product};
use dapple_base::Result;

/// Bytes that a workgroup shares at most.
pub(crate) const MEMORY: usize = 44 << 10;
/// Of a subgroup.
pub(crate) const LANES: u32 = 32;
/// So many large tiles keep a large device busy.
pub(crate) const MANY: usize = 100;
/// Fours between rows beyond their length.
const APART: usize = 2;

/// What a workgroup has.
#[derive(Debug, Clone, Copy)]
struct Tile {
    m: usize,
    n: usize,
    depth: usize,
    /// Subgroups down and across.
    subgroups: [usize; 2],
}

impl Tile {
    fn of(p: &Product, many: usize) -> Self {
        let large = Self {
            m: 128,
            n: 256,
            depth: 32,
            subgroups: [2, 4],
        };
        let tiles = p.batch * (p.m / large.m) * (p.n / large.n);
        if p.m.is_multiple_of(large.m) && p.n.is_multiple_of(large.n) && tiles >= many {
            return large;
        }
        Self {
            m: 64,
            n: 64,
            depth: if p.k.is_multiple_of(64) { 64 } else { 32 },
            subgroups: [2, 2],
        }
    }

    fn threads(self) -> usize {
        self.subgroups[0] * self.subgroups[1] * LANES as usize
    }

    /// 16 by 16 sums of a subgroup, down and across.
    fn sums(self) -> [usize; 2] {
        [
            self.m / self.subgroups[0] / 16,
            self.n / self.subgroups[1] / 16,
        ]
    }
}

/// A matrix in the workgroup's memory, as it lies: lines of `fours`, `pitch` apart.
#[derive(Debug, Clone, Copy)]
struct Staged {
    lines: usize,
    fours: usize,
    pitch: usize,
    /// Whether lines are its rows.
    by_rows: bool,
}

impl Staged {
    fn new(matrix: &Matrix, [rows, columns]: [usize; 2]) -> Self {
        let by_rows = matrix.column == 1;
        let (lines, along) = if by_rows {
            (rows, columns)
        } else {
            (columns, rows)
        };
        Self {
            lines,
            fours: along / 4,
            pitch: along / 4 + APART,
            by_rows,
        }
    }

    /// The pointer to a row and column of it, and what is between lines, for a load.
    fn load(self, name: &str, role: &str, row: &str, column: &str) -> String {
        let (line, along, function) = match self.by_rows {
            true => (row, column, "coopLoadT"),
            false => (column, row, "coopLoad"),
        };
        let pitch = self.pitch;
        format!(
            "{function}<coop_mat16x16<f16, {role}>>(&{name}[({line}) * {pitch}u + ({along}) / 4u], {pitch}u)"
        )
    }
}

/// Whether it is one of these.
pub(crate) fn is_cooperative(p: &Product) -> bool {
    let halves = |matrix: &Matrix| matrix.dtype == DType::F16 && matrix.unfold.is_none();
    let wide = |matrix: &Matrix, [rows, columns]: [usize; 2]| {
        is_wide(matrix, matrix.column, matrix.row, columns)
            || is_wide(matrix, matrix.row, matrix.column, rows)
    };
    p.cooperative.is_some()
        && p.more.is_none()
        && p.k > 0
        && p.m.is_multiple_of(64)
        && p.n.is_multiple_of(64)
        && p.k.is_multiple_of(32)
        && halves(&p.a)
        && halves(&p.b)
        && wide(&p.a, [p.m, p.k])
        && wide(&p.b, [p.k, p.n])
}

/// Writes it; the number of workgroups. `finish` is there.
pub(super) fn write(source: &mut Source<'_>, p: &Product, many: usize) -> usize {
    let tile = Tile::of(p, many);
    let threads = tile.threads();
    let first = Staged::new(&p.a, [tile.m, tile.depth]);
    let second = Staged::new(&p.b, [tile.depth, tile.n]);
    source.threads = threads;
    source.extensions = "enable f16;\nenable wgpu_cooperative_matrix;\n";
    source.shared = format!(
        "var<workgroup> first: array<vec4<f16>, {}>;\nvar<workgroup> second: array<vec4<f16>, {}>;\n\
         var<workgroup> sums: array<vec4f, {}>;\n",
        first.lines * first.pitch,
        second.lines * second.pitch,
        threads / LANES as usize * 80
    );
    let groups = tile_of_group(source, p, [tile.m, tile.n]);
    let [down, across] = tile.sums();
    source.line(format!(
        "let subgroup = local / {LANES}u;\n    let part_row = (subgroup / {0}u) * {1}u;\n    \
         let part_column = (subgroup % {0}u) * {2}u;",
        tile.subgroups[1],
        down * 16,
        across * 16
    ));
    let brought = [
        places(source, ("a", "first"), (&p.a, first), "first_row", threads),
        places(
            source,
            ("b", "second"),
            (&p.b, second),
            "first_column",
            threads,
        ),
    ];
    for row in 0..down {
        for column in 0..across {
            source.line(format!("var sum{row}_{column} = coop_mat16x16<f32, C>();"));
        }
    }
    let depth = tile.depth;
    source.line(format!("for (var k = 0u; k < {}u; k += {depth}u) {{", p.k));
    for brought in &brought {
        let (name, memory, pitch) = (brought.name, brought.memory, brought.pitch);
        for at in 0..brought.count {
            source.line(format!(
                "{memory}[line_{name}{at} * {pitch}u + four_{name}{at}] = next_{name}{at};"
            ));
        }
    }
    source.line("workgroupBarrier();");
    source.line(format!("if k + {depth}u < {}u {{", p.k));
    for brought in &brought {
        let (name, bound, step) = (brought.name, &brought.bound, brought.step);
        for at in 0..brought.count {
            source.line(format!(
                "next_{name}{at} = {bound}[(from_{name}{at} + (k + {depth}u) * {step}u) / 4u];"
            ));
        }
    }
    source.line("}");
    for k in (0..depth).step_by(16) {
        source.line("{");
        multiply(source, tile, [first, second], k);
        source.line("}");
    }
    source.line("workgroupBarrier();\n    }");
    results(source, p, tile);
    groups
}

/// What an invocation brings of each part of a matrix.
struct Brought {
    name: &'static str,
    /// What it goes into.
    memory: &'static str,
    pitch: usize,
    /// What it is read from.
    bound: String,
    /// Between an element and the next of its sum.
    step: usize,
    count: usize,
}

/// Lines that say which fours of a matrix an invocation brings, and bring the first.
fn places(
    source: &mut Source<'_>,
    (name, memory): (&'static str, &'static str),
    (matrix, staged): (&Matrix, Staged),
    begin: &str,
    threads: usize,
) -> Brought {
    let bound = source.bind_as(matrix.buffer, "vec4<f16>");
    // Along which of its sides the sum goes.
    let sum_is_along = staged.by_rows == (name == "a");
    let between = if staged.by_rows {
        matrix.row
    } else {
        matrix.column
    };
    let count = staged.lines * staged.fours / threads;
    for at in 0..count {
        let t = format!("(local + {}u)", at * threads);
        source.line(format!(
            "let line_{name}{at} = {t} / {0}u;\n    let four_{name}{at} = {t} % {0}u;",
            staged.fours
        ));
        let (line, along) = match sum_is_along {
            true => (format!("{begin} + line_{name}{at}"), String::new()),
            false => (format!("line_{name}{at}"), format!("{begin} + ")),
        };
        source.line(format!(
            "let from_{name}{at} = from_{name} + ({line}) * {between}u + {along}four_{name}{at} * 4u;"
        ));
        source.line(format!(
            "var next_{name}{at} = {bound}[from_{name}{at} / 4u];"
        ));
    }
    Brought {
        name,
        memory,
        pitch: staged.pitch,
        bound,
        step: if sum_is_along { 1 } else { between },
        count,
    }
}

/// Lines that multiply 16 rows of the sum, from `k` of what is staged.
fn multiply(source: &mut Source<'_>, tile: Tile, [first, second]: [Staged; 2], k: usize) {
    let [down, across] = tile.sums();
    let k = format!("{k}u");
    for row in 0..down {
        let load = first.load("first", "A", &format!("part_row + {}u", row * 16), &k);
        source.line(format!("let a{row} = {load};"));
    }
    for column in 0..across {
        let place = format!("part_column + {}u", column * 16);
        let load = second.load("second", "B", &k, &place);
        source.line(format!("let b{column} = {load};"));
        for row in 0..down {
            source.line(format!(
                "sum{row}_{column} = coopMultiplyAdd(a{row}, b{column}, sum{row}_{column});"
            ));
        }
    }
}

/// Lines that finish all sums.
fn results(source: &mut Source<'_>, p: &Product, tile: Tile) {
    let [down, across] = tile.sums();
    source.line(format!(
        "let lane = local % {LANES}u;\n    let mine = subgroup * 80u + (lane / 2u) * 5u + (lane % 2u) * 2u;"
    ));
    for row in 0..down {
        for column in 0..across {
            source.line(format!(
                "coopStoreT(sum{row}_{column}, &sums[subgroup * 80u], 5u);\n    workgroupBarrier();"
            ));
            let index = finish_index(
                p,
                &format!("(first_row + part_row + {}u + lane / 2u)", row * 16),
                &format!(
                    "first_column + part_column + {}u + (lane % 2u) * 8u",
                    column * 16
                ),
            );
            source.line(format!(
                "{{\n    let i = {index};\n    finish(i, sums[mine], zero);\n    finish(i + 4u, sums[mine + 1u], zero);\n    }}\n    workgroupBarrier();"
            ));
        }
    }
}

/// Whether this device's units multiply as they should: small whole numbers, whose products are exact, by both tiles, as they
/// lie and transposed.
///
/// # Errors
/// A device that is lost.
pub(crate) fn check(context: &Context) -> Result<bool> {
    let whole = |count: usize, salt: usize| -> Vec<f32> {
        let value = |i: usize| ((i * 7 + i / 13 + salt) % 9) as f32 - 4.0;
        (0..count).map(value).collect()
    };
    for (m, k, n, is_transposed) in [
        (64, 64, 128, false),
        (128, 32, 256, false),
        (128, 96, 256, true),
    ] {
        let (a, b) = (whole(m * k, 1), whole(k * n, 5));
        let of = |shape: &[usize], values: &[f32]| context.tensor_of(DType::F16, shape, values);
        let (x, y) = match is_transposed {
            true => (of(&[k, m], &a).t(), of(&[n, k], &b).t()),
            false => (of(&[m, k], &a), of(&[k, n], &b)),
        };
        let at = |row: usize, column: usize| -> f32 {
            let term = |j: usize| match is_transposed {
                true => a[j * m + row] * b[column * k + j],
                false => a[row * k + j] * b[j * n + column],
            };
            (0..k).map(term).sum()
        };
        let options = PlanOptions::default();
        let found = Plan::compile_cooperative(&[&x.matmul(&y)], &options)?;
        found.run()?;
        let found = found.read(0)?;
        let is_right = |(i, value): (usize, &f32)| *value == at(i / n, i % n);
        if !found.iter().enumerate().all(is_right) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use crate::context::Context;
    use crate::graph::tensor::DType;
    use crate::program::{Limits, compile};

    /// No device of the tests has such units: their kernels are translated, at least.
    #[test]
    fn kernels_are_valid_however_matrices_lie() {
        let context = Context::cpu();
        let of = |shape: &[usize]| context.zeros(DType::F16, shape);
        let bias = of(&[256]);
        let graphs = [
            of(&[128, 64]).matmul(&of(&[64, 256])),
            of(&[128, 96]).matmul(&of(&[256, 96]).t()).add(&bias).gelu(),
            of(&[64, 128]).t().matmul(&of(&[64, 256])),
            of(&[3, 64, 192])
                .t()
                .matmul(&of(&[3, 256, 64]).t())
                .add(&bias),
        ];
        for (graph, many) in graphs.iter().flat_map(|graph| [(graph, 1), (graph, 100)]) {
            let limits = Limits {
                fuse: true,
                bindings: 16,
                in_place: true,
                plain_products: false,
                workgroup_bytes: 48 << 10,
                cooperative: Some(many),
            };
            let program = compile(&[graph], &[], limits).unwrap();
            let padded = vec![true; program.buffers.len()];
            for kernel in &program.kernels {
                let written = crate::gpu::write(kernel, &program.buffers, &padded).unwrap();
                let wgsl = written.unwrap().wgsl;
                assert!(wgsl.contains("coopMultiplyAdd"), "{wgsl}");
                dapple_runtime::translate_cooperative(&wgsl).unwrap();
                // What the units do not load is staged whole.
                assert!(wgsl.contains("next_a0") && wgsl.contains("next_b0"));
            }
        }
    }

    #[test]
    fn other_shapes_and_types_have_other_kernels() {
        let context = Context::cpu();
        for (dtype, [m, k, n]) in [
            (DType::F32, [128, 64, 256]),
            (DType::F16, [100, 64, 256]),
            (DType::F16, [128, 40, 256]),
            (DType::F16, [128, 64, 250]),
        ] {
            let y = context
                .zeros(dtype, &[m, k])
                .matmul(&context.zeros(dtype, &[k, n]));
            let limits = Limits {
                fuse: true,
                bindings: 16,
                in_place: true,
                plain_products: false,
                workgroup_bytes: 48 << 10,
                cooperative: Some(1),
            };
            let program = compile(&[&y], &[], limits).unwrap();
            let padded = vec![true; program.buffers.len()];
            let written = crate::gpu::write(&program.kernels[0], &program.buffers, &padded);
            assert!(!written.unwrap().unwrap().wgsl.contains("coop"));
        }
    }
}
