//! Images as second matrices of products by cooperative matrices: convolutions. A part of the sum is 32 or 64 channels
//! of one tap ([`Unfold::by_taps`]). For each part an invocation loads fours of neighbouring windows.
//!
//! 1. Windows are one pixel apart, so four windows read four neighbouring pixels of a channel. These begin `shift`
//!    elements after a four of the buffer, and `shift` is the same for all windows: it depends on the tap.
//! 2. So an invocation loads one four, or two neighbours, and joins their parts when it stages them. Loads stay in
//!    flight while the units multiply.
//! 3. Rows of images are whole fours. A four is inside of its row or outside of it; a four outside becomes 0.

use super::source::Source;
use crate::graph::windows::Unfold;
use crate::program::{Matrix, Product};

/// Lines of `shifted`: four elements from `shift` on of two fours.
pub(super) const SHIFTED: &str =
    "fn shifted(low: vec4<f16>, high: vec4<f16>, shift: u32) -> vec4<f16> {
    if shift == 0u { return low; }
    if shift == 1u { return vec4<f16>(low.y, low.z, low.w, high.x); }
    if shift == 2u { return vec4<f16>(low.z, low.w, high.x, high.y); }
    return vec4<f16>(low.w, high.x, high.y, high.z);
}
";

/// Returns true if a matrix is an image that these kernels read.
pub(super) fn is_image(matrix: &Matrix) -> bool {
    let suits = |unfold: &Unfold| {
        unfold.by_taps
            && unfold.channels.is_multiple_of(32)
            && unfold.fill == 0.0
            && !unfold.mirrored
            && unfold.stride == [1, 1]
            && unfold.gap == [1, 1]
            && unfold.size[1].is_multiple_of(4)
            && unfold.out[1].is_multiple_of(4)
            && (matrix.column, matrix.row) == (1, unfold.windows())
            && matrix.offset == 0
    };
    matrix.unfold.as_ref().is_some_and(suits)
}

/// Fours of an image that an invocation loads.
#[derive(Debug, Clone)]
pub(super) struct Image {
    unfold: Unfold,
    bound: String,
    /// Lines of the part of the sum between the fours of an invocation.
    per: usize,
    count: usize,
}

impl Image {
    /// Writes the lines that compute the windows of an invocation. `line_b` and `four_b` must exist.
    pub fn new(
        source: &mut Source<'_>,
        p: &Product,
        unfold: &Unfold,
        per: usize,
        count: usize,
    ) -> Self {
        let bound = source.bind_as(p.b.buffer, "vec4<f16>");
        source.function(SHIFTED);
        let [py, px] = unfold.padding;
        let across = unfold.out[1];
        source.line("let window = first_column + four_b * 4u;");
        source.line(format!(
            "let window_y = i32(window / {across}u) - ({py});\n    let window_x = i32(window % {across}u) - ({px});"
        ));
        source.line(format!(
            "let is_window = window < {}u;\n    let first_plane = from_b / {}u * {}u + line_b;",
            p.n,
            (unfold.taps() * unfold.windows()).max(1),
            unfold.channels
        ));
        source.line("var shift_b = 0u;");
        for at in 0..count {
            source.line(format!(
                "var low_b{at} = vec4<f16>();\n    var high_b{at} = vec4<f16>();"
            ));
        }
        Self {
            unfold: *unfold,
            bound,
            per,
            count,
        }
    }

    /// Writes the lines that begin the loads of the part of the sum from `k` on.
    pub fn bring(&self, source: &mut Source<'_>, k: &str) {
        let Unfold {
            channels,
            size: [h, w],
            kernel: [_, kw],
            padding: [_, px],
            ..
        } = self.unfold;
        let (plane, width) = (h * w / 4, w / 4);
        source.line("{");
        source.line(format!("let tap = ({k}) / {channels}u;"));
        source.line(format!("let tap_x = i32(tap % {kw}u);"));
        source.line(format!("let y = window_y + i32(tap / {kw}u);"));
        source.line("let four_x = (window_x + tap_x) >> 2u;");
        source.line(format!("shift_b = u32((tap_x - ({px})) & 3);"));
        source.line(format!("let is_row = is_window && y >= 0 && y < {h};"));
        source.line(format!(
            "let at = (first_plane + ({k}) % {channels}u) * {plane}u + u32(y) * {width}u + u32(four_x);"
        ));
        let mut load = |name: &str, condition: String, beside: usize| {
            for at in 0..self.count {
                source.line(format!("{name}_b{at} = vec4<f16>();"));
            }
            source.line(format!("if {condition} {{"));
            for at in 0..self.count {
                let offset = at * self.per * plane + beside;
                source.line(format!("{name}_b{at} = {}[at + {offset}u];", self.bound));
            }
            source.line("}");
        };
        load(
            "low",
            format!("is_row && four_x >= 0 && four_x < {width}"),
            0,
        );
        let next = width as isize - 1;
        let condition = format!("is_row && shift_b != 0u && four_x >= -1 && four_x < {next}");
        load("high", condition, 1);
        source.line("}");
    }

    /// Writes the lines that store loaded fours to the workgroup's memory, lines `pitch` apart; `place_b` must exist.
    pub fn stage(&self, source: &mut Source<'_>, memory: &str, pitch: usize) {
        for at in 0..self.count {
            source.line(format!(
                "{memory}[place_b + {}u] = shifted(low_b{at}, high_b{at}, shift_b);",
                at * self.per * pitch
            ));
        }
    }
}
