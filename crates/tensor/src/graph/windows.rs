//! Windows of images: convolutions and maximum pooling.
//!
//! 1. [`Unfold`] maps each tap of each window to a pixel, or to the outside: `[n, channels * taps, windows]`. No kernel
//!    has to write this node: products read pixels through it.
//! 2. A convolution is a product of the weights and the unfolded image. Its gradient by the weights is a product of the
//!    output's gradient and the transposed unfolded image, cut into parts for long sums. Its gradient by the image is a
//!    product of the weights and the output's gradient, unfolded in reverse: taps mirrored, strides as gaps. With
//!    cooperative matrices, sums go tap by tap: a part of a sum then belongs to one tap.
//! 3. Maximum pooling reduces taps; its gradient goes to the largest, in equal parts if several are equal.

use super::layout::Layout;
use super::problem::Problem;
use super::tensor::{CustomOp, DType, Op, ReduceOp, Tensor};
use std::sync::Arc;

/// Map from each tap of each window to a pixel: tap `t` of window `w` along an axis is at `w stride + t - padding`,
/// divided by `gap`, if the division has no remainder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unfold {
    pub channels: usize,
    /// Rows and columns of the image, like all pairs here.
    pub size: [usize; 2],
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub gap: [usize; 2],
    pub padding: [isize; 2],
    /// True if taps count from the last.
    pub mirrored: bool,
    /// Number of windows.
    pub out: [usize; 2],
    /// Value outside of the image.
    pub fill: f32,
    /// True if the sum goes over the channels of a tap, then the next tap; else over the taps of a channel, then the
    /// next channel.
    pub by_taps: bool,
}

impl Unfold {
    /// Returns the taps of all channels.
    pub fn taps(&self) -> usize {
        self.channels * self.kernel[0] * self.kernel[1]
    }

    /// Returns channel, row and column of the kernel for index `k` of a sum.
    pub fn tap(&self, k: usize) -> [usize; 3] {
        let [kh, kw] = self.kernel;
        let (channel, tap) = match self.by_taps {
            true => (k % self.channels, k / self.channels),
            false => (k / (kh * kw), k % (kh * kw)),
        };
        [channel, tap / kw, tap % kw]
    }

    /// Returns the windows of an image.
    pub fn windows(&self) -> usize {
        self.out[0] * self.out[1]
    }

    /// Returns the elements of an image.
    pub fn pixels(&self) -> usize {
        self.channels * self.size[0] * self.size[1]
    }

    /// Returns the position of tap `tap` of window `window` along an axis.
    pub fn place(&self, axis: usize, window: usize, tap: usize) -> Option<usize> {
        let tap = match self.mirrored {
            true => self.kernel[axis] - 1 - tap,
            false => tap,
        };
        let at = (window * self.stride[axis] + tap) as isize - self.padding[axis];
        let at = usize::try_from(at).ok()?;
        let inside = at.is_multiple_of(self.gap[axis]) && at / self.gap[axis] < self.size[axis];
        inside.then(|| at / self.gap[axis])
    }
}

/// Arrangement of windows on an image: rows, columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Distance of windows.
    pub stride: [usize; 2],
    /// Padding beyond each edge.
    pub padding: [usize; 2],
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            stride: [1, 1],
            padding: [0, 0],
        }
    }
}

impl Windows {
    /// Creates equal windows along both axes.
    pub fn new(stride: usize, padding: usize) -> Self {
        Self {
            stride: [stride; 2],
            padding: [padding; 2],
        }
    }

    /// Returns the number of windows of a kernel along each axis.
    fn count(&self, size: [usize; 2], kernel: [usize; 2]) -> Option<[usize; 2]> {
        let along = |axis: usize| {
            let whole = size[axis] + 2 * self.padding[axis];
            let rest = whole.checked_sub(kernel[axis])?;
            (kernel[axis] > 0 && self.stride[axis] > 0).then(|| rest / self.stride[axis] + 1)
        };
        Some([along(0)?, along(1)?])
    }
}

struct Conv2d {
    windows: Windows,
    /// See [`Unfold::by_taps`].
    by_taps: bool,
}

/// Number of a product's tiles below which a large device is idle: long sums are cut.
const ENOUGH_TILES: usize = 512;
/// Minimum length of the parts of a sum.
const LEAST_PART: usize = 256;

fn image(x: &Tensor) -> [usize; 4] {
    [0, 1, 2, 3].map(|axis| x.shape().get(axis).copied().unwrap_or(1))
}

/// Returns true if cooperative matrices, where a device has them, multiply the windows of an image and these weights.
fn by_taps(x: &Tensor, weight: &Tensor, windows: Windows) -> bool {
    let ([_, channels, h, w], [outputs, _, kh, kw]) = (image(x), image(weight));
    let out = windows.count([h, w], [kh, kw]);
    windows.stride == [1, 1]
        && channels > 0
        && channels.is_multiple_of(32)
        && outputs.is_multiple_of(64)
        && w.is_multiple_of(4)
        && out.is_some_and(|[_, columns]| columns.is_multiple_of(4))
}

impl Conv2d {
    fn unfold(&self, x: &Tensor, weight: &Tensor) -> Option<Unfold> {
        let ([_, channels, h, w], [.., kh, kw]) = (image(x), image(weight));
        Some(Unfold {
            channels,
            size: [h, w],
            kernel: [kh, kw],
            stride: self.windows.stride,
            gap: [1, 1],
            padding: self.windows.padding.map(|p| p as isize),
            mirrored: false,
            out: self.windows.count([h, w], [kh, kw])?,
            fill: 0.0,
            by_taps: self.by_taps,
        })
    }

    fn by_weight(&self, x: &Tensor, weight: &Tensor, g: &Tensor) -> Option<Tensor> {
        let unfold = Unfold {
            by_taps: false,
            ..self.unfold(x, weight)?
        };
        let ([n, ..], [outputs, ..]) = (image(x), image(weight));
        let (taps, windows) = (unfold.taps(), unfold.windows());
        let tiles = outputs.div_ceil(64) * taps.div_ceil(64) * n;
        let wanted = ENOUGH_TILES
            .div_ceil(tiles.max(1))
            .min(windows / LEAST_PART);
        let parts = (1..=wanted).rev().find(|p| windows.is_multiple_of(*p));
        let parts = parts.unwrap_or(1);
        let cut = windows / parts;
        // [n, parts, outputs, cut] by [n, parts, cut, taps], added up over the first two.
        let g = g.reshape(&[n, outputs, parts, cut]).permute(&[0, 2, 1, 3]);
        let x = x.unfolded(unfold).reshape(&[n, taps, parts, cut]);
        let product = g.product_of_unfolded(&x.permute(&[0, 2, 3, 1]));
        Some(product.sum_axes(&[0, 1]).reshape(weight.shape()))
    }

    fn by_image(&self, x: &Tensor, weight: &Tensor, g: &Tensor) -> Tensor {
        let ([n, channels, h, w], [outputs, _, kh, kw]) = (image(x), image(weight));
        let [_, _, gh, gw] = image(g);
        let unfold = Unfold {
            channels: outputs,
            size: [gh, gw],
            kernel: [kh, kw],
            stride: [1, 1],
            gap: self.windows.stride,
            padding: [0, 1].map(|a| [kh, kw][a] as isize - 1 - self.windows.padding[a] as isize),
            mirrored: true,
            out: [h, w],
            fill: 0.0,
            by_taps: false,
        };
        let weight = weight.permute(&[1, 0, 2, 3]);
        let weight = weight.reshape(&[channels, outputs * kh * kw]);
        let weight = weight.expand(&[n, channels, outputs * kh * kw]);
        let product = weight.product_of_unfolded(&g.unfolded(unfold));
        product.reshape(&[n, channels, h, w])
    }
}

impl CustomOp for Conv2d {
    fn name(&self) -> &str {
        "conv2d"
    }

    fn forward(&self, inputs: &[Tensor]) -> Tensor {
        let (x, weight) = (&inputs[0], &inputs[1]);
        let dtype = Tensor::joint_dtype(&[x, weight]);
        let Some(unfold) = self.unfold(x, weight) else {
            return x.clone();
        };
        let ([n, ..], [outputs, ..]) = (image(x), image(weight));
        let ordered = match self.by_taps {
            true => weight.permute(&[0, 2, 3, 1]),
            false => weight.clone(),
        };
        let flat = ordered.reshape(&[outputs, unfold.taps()]);
        let flat = flat.expand(&[n, outputs, unfold.taps()]);
        let product = flat.product_of_unfolded(&x.unfolded(unfold));
        let [rows, columns] = unfold.out;
        product
            .reshape(&[n, outputs, rows, columns])
            .stored_as(dtype)
    }

    fn backward(&self, inputs: &[Tensor], _: &Tensor, g: &Tensor) -> Vec<Option<Tensor>> {
        let (x, weight) = (&inputs[0], &inputs[1]);
        let ([n, _, h, w], [outputs, _, rows, columns]) = (image(x), image(weight));
        if n * outputs * rows * columns * h * w > u32::MAX as usize {
            let what = format!(
                "the gradient of conv2d of {} and {}",
                x.describe(),
                weight.describe()
            );
            let hint = "all windows together are too many: cut the image, or the batch, into parts";
            let refused = x.refused(&[x, weight], Problem::new(what, hint));
            return vec![Some(refused.clone()), Some(refused)];
        }
        vec![
            Some(self.by_image(x, weight, g)),
            self.by_weight(x, weight, g),
        ]
    }
}

struct MaxPool {
    kernel: [usize; 2],
    windows: Windows,
}

impl MaxPool {
    /// Unfolds channels as images of their own: `[n * channels, taps, windows]`.
    fn unfold(&self, x: &Tensor) -> Option<Unfold> {
        let [_, _, h, w] = image(x);
        Some(Unfold {
            channels: 1,
            size: [h, w],
            kernel: self.kernel,
            stride: self.windows.stride,
            gap: [1, 1],
            padding: self.windows.padding.map(|p| p as isize),
            mirrored: false,
            out: self.windows.count([h, w], self.kernel)?,
            fill: f32::NEG_INFINITY,
            by_taps: false,
        })
    }

    fn taps(&self, x: &Tensor) -> Option<Tensor> {
        let [n, c, h, w] = image(x);
        Some(x.reshape(&[n * c, 1, h, w]).unfolded(self.unfold(x)?))
    }
}

impl CustomOp for MaxPool {
    fn name(&self) -> &str {
        "max_pool2d"
    }

    fn forward(&self, inputs: &[Tensor]) -> Tensor {
        let x = &inputs[0];
        let (Some(taps), Some(unfold)) = (self.taps(x), self.unfold(x)) else {
            return x.clone();
        };
        let [n, c, ..] = image(x);
        let [rows, columns] = unfold.out;
        let most = taps.reduced_over_taps(ReduceOp::Max);
        most.reshape(&[n, c, rows, columns]).stored_as(x.dtype())
    }

    fn backward(&self, inputs: &[Tensor], y: &Tensor, g: &Tensor) -> Vec<Option<Tensor>> {
        let x = &inputs[0];
        let (Some(taps), Some(forward)) = (self.taps(x), self.unfold(x)) else {
            return vec![None];
        };
        let [n, c, h, w] = image(x);
        let [rows, columns] = forward.out;
        let row = |t: &Tensor| t.to(DType::F32).reshape(&[n * c, 1, rows * columns]);
        let hits = taps.to(DType::F32).equal(row(y));
        let share = row(g).div(hits.reduced_over_taps(ReduceOp::Sum));
        let back = Unfold {
            size: forward.out,
            stride: [1, 1],
            gap: forward.stride,
            padding: [0, 1].map(|a| self.kernel[a] as isize - 1 - forward.padding[a]),
            mirrored: true,
            out: [h, w],
            fill: 0.0,
            ..forward
        };
        let each = |t: &Tensor| t.reshape(&[n * c, 1, rows, columns]).unfolded(back);
        let pixels = x.to(DType::F32).reshape(&[n * c, 1, h * w]);
        let taken = each(&y.to(DType::F32)).equal(pixels);
        let gradient = taken.mul(each(&share)).reduced_over_taps(ReduceOp::Sum);
        vec![Some(gradient.reshape(x.shape()))]
    }
}

impl Tensor {
    /// Unfolds to `[n, taps, windows]` from `[n, channels, rows, columns]`.
    fn unfolded(&self, unfold: Unfold) -> Self {
        let x = self.contiguous();
        let [n, ..] = image(&x);
        let layout = Layout::contiguous(&[n, unfold.taps(), unfold.windows()]);
        let dtype = x.dtype();
        Self::make(self.context(), Op::Unfold(unfold), vec![x], layout, dtype)
    }

    /// Multiplies `[.., m, k]` by `[.., k, n]` of equal batches, the second being unfolded.
    fn product_of_unfolded(&self, other: &Self) -> Self {
        let mut shape = self.shape().to_vec();
        let rank = shape.len();
        if rank < 2 || other.rank() != rank {
            return self.clone();
        }
        shape[rank - 1] = other.shape()[rank - 1];
        let layout = Layout::contiguous(&shape);
        let inputs = vec![self.in_memory(), other.clone()];
        Self::make(self.context(), Op::MatMul, inputs, layout, DType::F32)
    }

    fn reduced_over_taps(&self, op: ReduceOp) -> Self {
        let &[n, taps, windows] = self.shape() else {
            return self.clone();
        };
        let layout = Layout::contiguous(&[n, 1, windows]);
        let op = Op::Reduce(op, [n, taps, windows]);
        Self::make(self.context(), op, vec![self.clone()], layout, DType::F32)
    }

    /// Returns a convolution (cross-correlation, as in other neural networks): `[n, channels, rows, columns]` with
    /// weights `[outputs, channels, kernel rows, kernel columns]` is `[n, outputs, ..]`. Outside of the image there are
    /// zeros. Sums are `f32`; the result of 16-bit operands is rounded to 16 bits. Elementwise operations on the result
    /// (see [`Conv2d`](crate::layers::Conv2d) for the bias) run as the result is stored.
    #[must_use]
    pub fn conv2d(&self, weight: &Self, windows: Windows) -> Self {
        let is_cooperative = Self::joint_dtype(&[self, weight]) == DType::F16
            && self.dtype() == weight.dtype()
            && self.context().may_cooperate();
        self.convolved(
            weight,
            windows,
            is_cooperative && by_taps(self, weight, windows),
        )
    }

    /// [`Self::conv2d`], with sums over the channels of a tap, then the next tap: the order of cooperative matrices.
    pub(crate) fn conv2d_by_taps(&self, weight: &Self, windows: Windows) -> Self {
        self.convolved(weight, windows, true)
    }

    fn convolved(&self, weight: &Self, windows: Windows, by_taps: bool) -> Self {
        let operands = [self, weight];
        if let Some(problem) = Self::unfit("conv2d", &operands) {
            return self.refused(&operands, problem);
        }
        let wrong = |hint: &str| {
            let what = format!(
                "conv2d of {} and {}, stride {:?}, padding {:?}",
                self.describe(),
                weight.describe(),
                windows.stride,
                windows.padding
            );
            self.refused(&operands, Problem::new(what, hint))
        };
        if self.rank() != 4 || weight.rank() != 4 {
            return wrong(
                "an image is [n, channels, rows, columns], weights are [outputs, channels, rows, columns]: see unsqueeze",
            );
        }
        if self.shape()[1] == 0 {
            return wrong("an image has at least one channel");
        }
        if self.shape()[1] != weight.shape()[1] {
            return wrong(
                "the image and the weights must have as many channels: groups are not supported",
            );
        }
        let op = Conv2d { windows, by_taps };
        let Some(unfold) = op.unfold(self, weight) else {
            return wrong(
                "strides and kernels are 1 or more, and the kernel fits the padded image",
            );
        };
        // The backward pass has its own windows: `Conv2d::backward` refuses those.
        if self.shape()[0] * unfold.taps() * unfold.windows() > u32::MAX as usize {
            return wrong(
                "all windows together are too many: cut the image, or the batch, into parts",
            );
        }
        Self::custom(Arc::new(op), &operands)
    }

    /// Returns the maximum of each window: `[n, channels, rows, columns]` to `[n, channels, ..]`. Padding is never the
    /// maximum.
    #[must_use]
    pub fn max_pool2d(&self, kernel: [usize; 2], windows: Windows) -> Self {
        if let Some(problem) = Self::unfit("max_pool2d", &[self]) {
            return self.refused(&[self], problem);
        }
        let wrong = |hint: &str| {
            let what = format!(
                "max_pool2d of {} by {kernel:?}, stride {:?}, padding {:?}",
                self.describe(),
                windows.stride,
                windows.padding
            );
            self.refused(&[self], Problem::new(what, hint))
        };
        if self.rank() != 4 {
            return wrong("an image is [n, channels, rows, columns]: see unsqueeze");
        }
        if (0..2).any(|axis| 2 * windows.padding[axis] > kernel[axis]) {
            return wrong(
                "a window that holds padding alone has no largest: pad by half of the kernel at most",
            );
        }
        let op = MaxPool { kernel, windows };
        if op.unfold(self).is_none() {
            return wrong(
                "strides and kernels are 1 or more, and the kernel fits the padded image",
            );
        }
        Self::custom(Arc::new(op), &[self])
    }
}
