//! Convolutions on the CPU.
//!
//! Features are `[height, width, channels]`, so that a window's rows are contiguous.
//! 1. If the layer pools, take the largest value of each window of the input first (max pooling).
//! 2. Gather a block of output pixels: their windows side by side as a matrix, zeros beyond the image.
//! 3. Multiply that matrix by the weights, add the bias, set negative values to zero.
//!
//! Blocks are split by counts, and each block writes its own range.

use rayon::prelude::*;

/// Values of a block's matrix: 1 MiB, which stays in a core's second-level cache.
const BLOCK_VALUES: usize = 1 << 18;

/// Output of a layer.
#[derive(Debug, Clone)]
pub(super) struct Features {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) channels: usize,
    /// `[height, width, channels]`.
    pub(super) values: Vec<f32>,
}

/// A window that moves over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Edge, pixels.
    pub size: usize,
    /// Step from place to place, pixels.
    pub stride: usize,
    /// Zeros on each side.
    pub padding: usize,
}

impl Window {
    /// Places along an edge that is not shorter than the window.
    pub(super) fn places(self, edge: usize) -> usize {
        (edge + 2 * self.padding).saturating_sub(self.size) / self.stride + 1
    }
}

/// A convolution with the layers before and after it.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    /// Max pooling before the convolution.
    pub(super) pool: Option<Window>,
    pub(super) window: Window,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// `[window row, window column, input, output]`.
    pub(super) weights: Vec<f32>,
    /// `[output]`.
    pub(super) bias: Vec<f32>,
    /// True if LPIPS compares the output of this layer.
    pub(super) is_looked_at: bool,
}

impl Layer {
    /// Steps 1 to 3.
    pub(super) fn apply(&self, input: &Features) -> Features {
        match self.pool {
            Some(window) => self.convolve(&pooled(input, window)),
            None => self.convolve(input),
        }
    }

    fn convolve(&self, input: &Features) -> Features {
        let (width, height) = (
            self.window.places(input.width),
            self.window.places(input.height),
        );
        let depth = self.window.size * self.window.size * self.inputs;
        let block = (BLOCK_VALUES / depth).clamp(16, 1024);
        let mut values = vec![0.0f32; width * height * self.outputs];
        values
            .par_chunks_mut(block * self.outputs)
            .enumerate()
            .for_each_init(Vec::new, |windows, (number, out)| {
                let first = number * block;
                let pixels = out.len() / self.outputs;
                windows.clear();
                windows.resize(pixels * depth, 0.0);
                for (i, row) in windows.chunks_exact_mut(depth).enumerate() {
                    self.gather(input, (first + i) % width, (first + i) / width, row);
                }
                for row in out.chunks_exact_mut(self.outputs) {
                    row.copy_from_slice(&self.bias);
                }
                add_product(windows, &self.weights, out, depth);
                for value in out {
                    *value = value.max(0.0);
                }
            });
        Features {
            width,
            height,
            channels: self.outputs,
            values,
        }
    }

    /// Gathers the window of output (x, y) into `row`, which holds zeros.
    fn gather(&self, input: &Features, x: usize, y: usize, row: &mut [f32]) {
        let Window {
            size,
            stride,
            padding,
        } = self.window;
        // Columns of the window that are in the image.
        let left = padding.saturating_sub(x * stride);
        let right = size.min((input.width + padding).saturating_sub(x * stride));
        if left >= right {
            return;
        }
        let line = size * self.inputs;
        for (r, out) in row.chunks_exact_mut(line).enumerate() {
            let Some(from_y) = (y * stride + r).checked_sub(padding) else {
                continue;
            };
            if from_y >= input.height {
                continue;
            }
            let from = (from_y * input.width + x * stride + left - padding) * self.inputs;
            let values = (right - left) * self.inputs;
            out[left * self.inputs..][..values].copy_from_slice(&input.values[from..][..values]);
        }
    }
}

/// `out += a b` with `a` `[n, depth]`, `b` `[depth, m]`, `out` `[n, m]`.
fn add_product(a: &[f32], b: &[f32], out: &mut [f32], depth: usize) {
    let (n, m) = (a.len() / depth, b.len() / depth);
    assert!(a.len() == n * depth && b.len() == m * depth && out.len() == n * m);
    // SAFETY: the three matrices are dense and row by row, of the lengths that were just checked, and
    // `out` is borrowed mutably, so it overlaps neither. A product in safe Rust takes many times as
    // long: these are hundreds of billions of multiplications an image.
    unsafe {
        matrixmultiply::sgemm(
            n,
            depth,
            m,
            1.0,
            a.as_ptr(),
            depth as isize,
            1,
            b.as_ptr(),
            m as isize,
            1,
            1.0,
            out.as_mut_ptr(),
            m as isize,
            1,
        );
    }
}

/// Step 1. Windows lie inside the image: pooling here has no padding.
fn pooled(input: &Features, window: Window) -> Features {
    let (width, height) = (window.places(input.width), window.places(input.height));
    let channels = input.channels;
    let mut values = vec![f32::NEG_INFINITY; width * height * channels];
    values
        .par_chunks_mut(width * channels)
        .enumerate()
        .for_each(|(y, row)| {
            for (x, out) in row.chunks_exact_mut(channels).enumerate() {
                for dy in 0..window.size {
                    for dx in 0..window.size {
                        let (px, py) = (x * window.stride + dx, y * window.stride + dy);
                        let from = (py * input.width + px) * channels;
                        for (out, value) in out.iter_mut().zip(&input.values[from..][..channels]) {
                            *out = out.max(*value);
                        }
                    }
                }
            }
        });
    Features {
        width,
        height,
        channels,
        values,
    }
}
