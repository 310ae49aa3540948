//! Products of 16-bit matrices by cooperative matrices: units that multiply 16 by 16 matrices for a whole subgroup of
//! 32, and add up in `f32`.
//!
//! 1. A workgroup has a tile of the result, 128 by 128 or 64 by 64, of images 128 or 64 by 256; its subgroups have parts
//!    of it, as 16 by 16 sums.
//! 2. Parts of both matrices are copied to the workgroup's memory without a transpose. The distance of rows is 16 bytes
//!    more than their length, so that neighbouring rows are in different banks. The next part is in flight while one is
//!    multiplied. The units load a transposed matrix transposed.
//! 3. Sums go through the workgroup's memory, 16 by 16 per subgroup, to invocations that finish fours of them.
//!
//! Used if a device has such units and all tiles are full; tiles of images may extend beyond the last window. The units
//! add in their own order, which is the same each time and differs from that of other kernels. wgpu checks such shaders
//! less, so a device's units are first compared with known numbers:
//! [`Context::cooperates`](crate::Context::cooperates).

use super::images::{Image, is_image};
use super::source::Source;
use super::tiles::{finish_index, is_wide, tile_of_group};
use crate::graph::tensor::DType;
use crate::program::{Matrix, Product};

/// Maximum bytes that a workgroup shares.
pub(crate) const MEMORY: usize = 44 << 10;
/// Lanes of a subgroup.
pub(crate) const LANES: u32 = 32;
/// Number of large tiles that keep a large device busy.
pub(crate) const MANY: usize = 100;
/// Fours between rows in addition to their length.
const APART: usize = 2;

/// Tile of a workgroup.
#[derive(Debug, Clone, Copy)]
struct Tile {
    m: usize,
    n: usize,
    depth: usize,
    /// Subgroups down and across.
    subgroups: [usize; 2],
}

impl Tile {
    fn for_product(p: &Product, many: usize) -> Self {
        let large = Self {
            m: 128,
            n: 128,
            depth: 32,
            subgroups: [2, 2],
        };
        if p.b.unfold.is_some() {
            let wide = Self {
                n: 256,
                subgroups: [2, 4],
                ..large
            };
            let high = [128, 64].into_iter().find(|m| {
                let tiles = p.batch * (p.m / m) * p.n.div_ceil(wide.n);
                p.m.is_multiple_of(*m) && tiles >= many
            });
            if let Some(m) = high {
                return Self { m, ..wide };
            }
        }
        let tiles = p.batch * (p.m / large.m) * (p.n / large.n);
        if p.b.unfold.is_none()
            && p.m.is_multiple_of(large.m)
            && p.n.is_multiple_of(large.n)
            && tiles >= many
        {
            return large;
        }
        Self {
            m: 64,
            n: 64,
            depth: match &p.b.unfold {
                _ if !p.k.is_multiple_of(64) => 32,
                // A part of the sum belongs to one tap.
                Some(unfold) if !unfold.channels.is_multiple_of(64) => 32,
                _ => 64,
            },
            subgroups: [2, 2],
        }
    }

    fn threads(self) -> usize {
        self.subgroups[0] * self.subgroups[1] * LANES as usize
    }

    /// Returns the number of 16 by 16 sums of a subgroup, down and across.
    fn sums(self) -> [usize; 2] {
        [
            self.m / self.subgroups[0] / 16,
            self.n / self.subgroups[1] / 16,
        ]
    }
}

/// A matrix in the workgroup's memory in its original order: lines of `fours`, `pitch` apart.
#[derive(Debug, Clone, Copy)]
struct Staged {
    lines: usize,
    fours: usize,
    pitch: usize,
    /// True if lines are its rows.
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

    /// Returns the pointer to a row and column, and the distance between lines, for a load.
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

/// Returns true if a product can be computed by cooperative matrices.
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
        && p.k.is_multiple_of(32)
        && halves(&p.a)
        && wide(&p.a, [p.m, p.k])
        && match p.b.unfold {
            Some(_) => p.b.dtype == DType::F16 && is_image(&p.b),
            None => p.n.is_multiple_of(64) && halves(&p.b) && wide(&p.b, [p.k, p.n]),
        }
}

/// Writes the kernel. Returns the number of workgroups. `finish` must exist.
pub(super) fn write(source: &mut Source<'_>, p: &Product, many: usize) -> usize {
    let tile = Tile::for_product(p, many);
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
        Brought::new(source, p, ("a", "first", first), "first_row", threads),
        Brought::new(source, p, ("b", "second", second), "first_column", threads),
    ];
    for row in 0..down {
        for column in 0..across {
            source.line(format!("var sum{row}_{column} = coop_mat16x16<f32, C>();"));
        }
    }
    let depth = tile.depth;
    brought.iter().for_each(|b| b.declare(source));
    brought.iter().for_each(|b| b.bring(source, "0u"));
    source.line(format!("for (var k = 0u; k < {}u; k += {depth}u) {{", p.k));
    brought.iter().for_each(|b| b.stage(source));
    source.line("workgroupBarrier();");
    // The next part is in registers while this one is multiplied.
    let next = format!("k + {depth}u");
    source.line(format!("if {next} < {}u {{", p.k));
    brought.iter().for_each(|b| b.bring(source, &next));
    source.line("}");
    for k in (0..depth).step_by(16) {
        source.line("{");
        multiply(source, tile, [first, second], k);
        source.line("}");
    }
    source.line("workgroupBarrier();");
    source.line("}");
    results(source, p, tile);
    groups
}

/// Fours of a matrix that an invocation loads for each part of the sum: some of its lines.
struct Brought {
    name: &'static str,
    /// Destination array, and its distance of lines.
    memory: &'static str,
    pitch: usize,
    /// Lines from one four to the next.
    per: usize,
    count: usize,
    from: From,
}

/// The source of fours.
enum From {
    /// A buffer: the distance of lines, and of neighbouring elements of the sum.
    Buffer {
        bound: String,
        between: usize,
        step: usize,
    },
    Image(Image),
}

impl Brought {
    /// Writes the lines that compute which fours of a matrix an invocation loads.
    fn new(
        source: &mut Source<'_>,
        p: &Product,
        (name, memory, staged): (&'static str, &'static str, Staged),
        begin: &str,
        threads: usize,
    ) -> Self {
        let matrix = if name == "a" { &p.a } else { &p.b };
        let (fours, pitch) = (staged.fours, staged.pitch);
        let (per, count) = (threads / fours, staged.lines * fours / threads);
        source.line(format!(
            "let line_{name} = local / {fours}u;\n    let four_{name} = local % {fours}u;\n    \
             let place_{name} = line_{name} * {pitch}u + four_{name};"
        ));
        let from = match &matrix.unfold {
            Some(unfold) => From::Image(Image::new(source, p, unfold, per, count)),
            None => {
                let bound = source.bind_as(matrix.buffer, "vec4<f16>");
                // True if the sum goes along the lines.
                let sum_is_along = staged.by_rows == (name == "a");
                let between = if staged.by_rows {
                    matrix.row
                } else {
                    matrix.column
                };
                let (line, along) = match sum_is_along {
                    true => (format!("{begin} + line_{name}"), String::new()),
                    false => (format!("line_{name}"), format!("{begin} / 4u + ")),
                };
                source.line(format!(
                    "let start_{name} = from_{name} / 4u + ({line}) * {}u + {along}four_{name};",
                    between / 4
                ));
                From::Buffer {
                    bound,
                    between,
                    step: if sum_is_along { 1 } else { between },
                }
            }
        };
        Self {
            name,
            memory,
            pitch,
            per,
            count,
            from,
        }
    }

    fn declare(&self, source: &mut Source<'_>) {
        if let From::Buffer { .. } = self.from {
            for at in 0..self.count {
                let name = self.name;
                source.line(format!("var next_{name}{at} = vec4<f16>();"));
            }
        }
    }

    /// Writes the lines that begin the loads of the part of the sum from `k` on, a multiple of 4.
    fn bring(&self, source: &mut Source<'_>, k: &str) {
        let name = self.name;
        match &self.from {
            From::Image(image) => image.bring(source, k),
            From::Buffer {
                bound,
                between,
                step,
            } => {
                source.line(format!(
                    "{{\n    let begun = start_{name} + ({k}) / 4u * {step}u;"
                ));
                for at in 0..self.count {
                    let offset = at * self.per * between / 4;
                    source.line(format!("next_{name}{at} = {bound}[begun + {offset}u];"));
                }
                source.line("}");
            }
        }
    }

    /// Writes the lines that store the loaded fours into the workgroup's memory.
    fn stage(&self, source: &mut Source<'_>) {
        let (name, memory) = (self.name, self.memory);
        match &self.from {
            From::Image(image) => image.stage(source, memory, self.pitch),
            From::Buffer { .. } => {
                for at in 0..self.count {
                    let offset = at * self.per * self.pitch;
                    source.line(format!(
                        "{memory}[place_{name} + {offset}u] = next_{name}{at};"
                    ));
                }
            }
        }
    }
}

/// Writes the lines that multiply 16 rows of the sum, from row `k` of the staged part.
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

/// Writes the lines that finish all sums.
fn results(source: &mut Source<'_>, p: &Product, tile: Tile) {
    let [down, across] = tile.sums();
    let is_partial = !p.n.is_multiple_of(tile.n);
    source.line(format!(
        "let lane = local % {LANES}u;\n    let mine = subgroup * 80u + (lane / 2u) * 5u + (lane % 2u) * 2u;"
    ));
    for row in 0..down {
        for column in 0..across {
            source.line(format!(
                "coopStoreT(sum{row}_{column}, &sums[subgroup * 80u], 5u);\n    workgroupBarrier();"
            ));
            let at = format!(
                "first_column + part_column + {}u + (lane % 2u) * 8u",
                column * 16
            );
            let line = format!("(first_row + part_row + {}u + lane / 2u)", row * 16);
            let index = finish_index(p, &line, &at);
            let finish = |four: usize| {
                let call = format!("finish(i + {}u, sums[mine + {four}u], zero);", 4 * four);
                match is_partial {
                    true => format!("if {at} + {}u < {}u {{ {call} }}", 4 * four, p.n),
                    false => call,
                }
            };
            source.line(format!(
                "{{\n    let i = {index};\n    {}\n    {}\n    }}\n    workgroupBarrier();",
                finish(0),
                finish(1)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::context::Context;
    use crate::graph::tensor::DType;
    use crate::graph::windows::Windows;
    use crate::program::{Limits, compile};

    /// No device of the tests has such units: their kernels are translated, at least.
    #[test]
    fn kernels_are_valid_however_matrices_lie() {
        let context = Context::cpu();
        let of = |shape: &[usize]| context.zeros(DType::F16, shape);
        let bias = of(&[256]);
        let image = |channels: usize, weight: [usize; 4]| {
            let x = of(&[2, channels, 9, 20]);
            x.conv2d_by_taps(&of(&weight), Windows::new(1, 1))
        };
        let graphs = [
            image(64, [64, 64, 3, 3]).relu(),
            image(32, [128, 32, 3, 3]),
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
            for kernel in program
                .kernels
                .iter()
                .filter(|k| crate::gpu::is_cooperative(k))
            {
                let written = crate::gpu::write(kernel, &program.buffers, &padded).unwrap();
                let wgsl = written.unwrap().wgsl;
                assert!(wgsl.contains("coopMultiplyAdd"), "{wgsl}");
                dapple_runtime::translate_cooperative(&wgsl).unwrap();
                // Parts that the units do not load are staged completely.
                assert!(wgsl.contains("next_a0"));
            }
            let count = program
                .kernels
                .iter()
                .filter(|k| crate::gpu::is_cooperative(k))
                .count();
            assert_eq!(count, 1, "{graph:?}");
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
