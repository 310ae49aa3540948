//! Pixels by tap and window: [`Unfold`] as a function of an index in `[n, channels * taps, windows]`.

use super::source::Source;
use crate::graph::tensor::DType;
use crate::graph::windows::Unfold;

impl Source<'_> {
    /// Writes a function that returns the pixel at an index, or the value outside. Returns its name. The image begins
    /// at `offset` of the buffer.
    pub fn tap(&mut self, buffer: usize, dtype: DType, offset: usize, unfold: &Unfold) -> String {
        let bound = self.bind(buffer, false, false);
        let one = Self::one(&bound, dtype, "at");
        let name = format!("tap{}", self.loads);
        self.loads += 1;
        let (windows, per_image) = (unfold.windows(), unfold.taps() * unfold.windows());
        let [kh, kw] = unfold.kernel;
        let tap = |axis: &str, size: usize| match unfold.mirrored {
            true => format!("({}u - {axis})", size - 1),
            false => axis.to_owned(),
        };
        let [sy, sx] = unfold.stride;
        let [gy, gx] = unfold.gap;
        let [py, px] = unfold.padding;
        let [h, w] = unfold.size;
        let fill = match unfold.fill {
            fill if fill.is_finite() => format!("{fill:e}f"),
            // A non-finite value may not be a constant.
            fill => format!("bitcast<f32>({:#x}u | (v & 0u))", fill.to_bits()),
        };
        let rest = match (gy, gx) {
            (1, 1) => String::new(),
            _ => format!(" || u32(y) % {gy}u != 0u || u32(x) % {gx}u != 0u"),
        };
        let columns = unfold.out[1];
        let (channels, taps) = (unfold.channels, kh * kw);
        let (channel, number) = match unfold.by_taps {
            true => (format!("k % {channels}u"), format!("k / {channels}u")),
            false => (format!("k / {taps}u"), format!("k % {taps}u")),
        };
        self.function(&format!(
            "fn {name}(v: u32) -> f32 {{
    let image = v / {per_image}u;
    let r = v % {per_image}u;
    let k = r / {windows}u;
    let p = r % {windows}u;
    let channel = {channel};
    let tap = {tap};
    let row = tap / {kw}u;
    let column = tap % {kw}u;
    let y = i32((p / {columns}u) * {sy}u + {ty}) - ({py});
    let x = i32((p % {columns}u) * {sx}u + {tx}) - ({px});
    if y < 0 || x < 0 || y >= {most_y} || x >= {most_x}{rest} {{ return {fill}; }}
    let at = {offset}u + ((image * {channels}u + channel) * {h}u + u32(y) / {gy}u) * {w}u + u32(x) / {gx}u;
    return {one};
}}\n",
            channel = channel,
            tap = number,
            ty = tap("row", kh),
            tx = tap("column", kw),
            most_y = h * gy,
            most_x = w * gx,
        ));
        name
    }
}
