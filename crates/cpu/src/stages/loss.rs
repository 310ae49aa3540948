//! `loss`: `(1 - w) L1 + w (1 - SSIM)` and its derivative, in two passes over the image.
//!
//! SSIM (Wang et al. 2004) compares Gaussian-weighted windows by their means, variances and
//! covariance. Only windows that lie inside the image count. With x the render, y the photo, both
//! minus a half (variances do not change, and differences stay exact):
//! 1. Pass 1, rows of one channel: filter x, y, x^2 + y^2 and x y along rows, then along columns.
//!    Compute SSIM and its derivatives by the filtered x, x^2 and x y, and store the derivatives.
//! 2. Pass 2: filter the three derivatives along columns, then rows (the filter is its own
//!    transpose). Compute dSSIM/dx = F[d/dmean] + 2 x F[d/dsquare] + y F[d/dproduct], and add L1's
//!    sign.
//!
//! A masked pixel counts as rendered perfectly: x is replaced by y and its gradient is zero. The
//! means are over unmasked pixels and over windows with an unmasked centre.

use crate::frame::{CameraF32, Frame, PLANES, TILE_ROWS, grow};
use crate::simd::{ROW, Row, Splat, V, each};
use dapple_engine::constants::{SSIM_C1, SSIM_C2, SSIM_SIGMA, SSIM_WINDOW};
use dapple_scene::Photo;
use pulp::Simd;
use rayon::prelude::*;

/// Window radius.
const RADIUS: usize = SSIM_WINDOW / 2;
/// Rows of one task of pass 1. More rows repeat less work of their neighbours; fewer rows balance
/// better.
const BAND: usize = 2 * ROW;
/// Number of zeros before and after a line, so that filters need no special case at its ends.
const PAD: usize = ROW;
/// Filtered quantities: x, y, x^2 + y^2, x y.
const FILTERED: usize = 4;
/// Number of derivatives: by the mean of x, of x^2 and of x y.
const MAPS: usize = 3;
/// Least value of a mask for a pixel to count.
const MASK_MIN: u8 = 128;
/// Value subtracted from x and y.
const SHIFT: f32 = 0.5;

/// Inputs of both passes.
struct Comparison<'a> {
    camera: &'a CameraF32,
    photo: &'a Photo,
    background: [f32; 3],
    kernel: [f32; SSIM_WINDOW],
    /// Weight of a pixel's absolute difference in the loss.
    l1_weight: f32,
    /// Weight of a window's `1 - SSIM` in the loss; zero if the image has no whole window.
    ssim_weight: f32,
}

/// Writes `image_gradient` from `image` and returns the loss.
pub fn run(
    camera: &CameraF32,
    photo: &Photo,
    background: [f32; 3],
    ssim_weight: f32,
    frame: &mut Frame,
) -> f32 {
    let across = camera.tiles[0] as usize;
    let height = camera.tiles[1] as usize * ROW;
    let comparison = Comparison::new(camera, photo, background, ssim_weight);
    let image = &frame.image[..camera.tile_count() * TILE_ROWS];
    grow(
        &mut frame.image_gradient,
        camera.tile_count() * TILE_ROWS,
        Row::ZERO,
    );
    let mut loss = 0.0;
    if comparison.ssim_weight > 0.0 {
        let bands = height.div_ceil(BAND);
        let maps_len = 3 * bands * BAND * MAPS * across;
        grow(&mut frame.ssim_maps, maps_len, Row::ZERO);
        let sums: Vec<f64> = frame.ssim_maps[..maps_len]
            .par_chunks_mut(BAND * MAPS * across)
            .enumerate()
            .map(|(task, maps)| {
                pulp::Arch::new().dispatch(Windows {
                    comparison: &comparison,
                    image,
                    channel: task / bands,
                    first_row: task % bands * BAND,
                    maps,
                })
            })
            .collect();
        loss += sums.iter().sum::<f64>();
    }
    let maps = &frame.ssim_maps;
    let sums: Vec<f64> = frame.image_gradient[..camera.tile_count() * TILE_ROWS]
        .par_chunks_mut(across * TILE_ROWS)
        .enumerate()
        .map(|(tile_row, gradient)| {
            pulp::Arch::new().dispatch(Gradient {
                comparison: &comparison,
                image,
                maps,
                tile_row,
                gradient,
            })
        })
        .collect();
    (loss + sums.iter().sum::<f64>()) as f32
}

/// Returns the 11 weights of the window along one axis; they sum to 1.
fn kernel() -> [f32; SSIM_WINDOW] {
    let weight = |i: usize| {
        let d = i as f64 - RADIUS as f64;
        (-0.5 * d * d / (SSIM_SIGMA * SSIM_SIGMA)).exp()
    };
    let sum: f64 = (0..SSIM_WINDOW).map(weight).sum();
    std::array::from_fn(|i| (weight(i) / sum) as f32)
}

impl<'a> Comparison<'a> {
    fn new(
        camera: &'a CameraF32,
        photo: &'a Photo,
        background: [f32; 3],
        ssim_weight: f32,
    ) -> Self {
        let [width, height] = camera.size.map(|v| v as usize);
        let inside = |n: usize| n.saturating_sub(2 * RADIUS);
        let (mut pixels, mut windows) = (width * height, inside(width) * inside(height));
        if let Some(mask) = &photo.mask {
            pixels = mask.iter().filter(|&&m| m >= MASK_MIN).count();
            windows = (RADIUS..height.saturating_sub(RADIUS))
                .map(|y| &mask[y * width..(y + 1) * width])
                .map(|row| {
                    let centres = &row
                        [RADIUS.min(width)..width.saturating_sub(RADIUS).max(RADIUS.min(width))];
                    centres.iter().filter(|&&m| m >= MASK_MIN).count()
                })
                .sum();
        }
        let ssim_weight = if windows == 0 { 0.0 } else { ssim_weight };
        let per = |weight: f32, n: usize| weight / (3 * n.max(1)) as f32;
        Self {
            camera,
            photo,
            background,
            kernel: kernel(),
            l1_weight: per(1.0 - ssim_weight, pixels),
            ssim_weight: per(ssim_weight, windows),
        }
    }

    fn stride(&self) -> usize {
        self.camera.tiles[0] as usize * ROW + 2 * PAD
    }

    /// Loads row `y` of render and photo for one channel, shifted, into padded lines.
    #[inline(always)]
    fn load_row(
        &self,
        image: &[Row],
        channel: usize,
        y: usize,
        x_line: &mut [f32],
        y_line: &mut [f32],
    ) {
        let across = self.camera.tiles[0] as usize;
        let width = self.photo.width as usize;
        for tile in 0..across {
            let row = &image[(y / ROW * across + tile) * TILE_ROWS + channel * ROW + y % ROW];
            let line = &mut x_line[PAD + tile * ROW..PAD + (tile + 1) * ROW];
            for (out, value) in line.iter_mut().zip(row.0) {
                *out = value - SHIFT;
            }
        }
        x_line[PAD + width..].fill(0.0);
        let pixels = &self.photo.rgb[y * width * 3..(y + 1) * width * 3];
        let line = &mut y_line[PAD..PAD + width];
        for (out, pixel) in line.iter_mut().zip(pixels.chunks_exact(3)) {
            *out = f32::from(pixel[channel]) * (1.0 / 255.0) - SHIFT;
        }
        if let Some(alpha) = &self.photo.alpha {
            let behind = self.background[channel] - SHIFT;
            for (out, &a) in line.iter_mut().zip(&alpha[y * width..]) {
                let a = f32::from(a) * (1.0 / 255.0);
                *out = *out * a + behind * (1.0 - a);
            }
        }
        if let Some(mask) = &self.photo.mask {
            let render = &mut x_line[PAD..PAD + width];
            for ((x, y), &m) in render.iter_mut().zip(line).zip(&mask[y * width..]) {
                if m < MASK_MIN {
                    *x = *y;
                }
            }
        }
    }
}

/// Task of pass 1: a band of rows of one channel.
struct Windows<'a> {
    comparison: &'a Comparison<'a>,
    image: &'a [Row],
    channel: usize,
    first_row: usize,
    maps: &'a mut [Row],
}

/// Computes `out[i] = sum over k of kernel[k] * line[PAD + i + k - RADIUS]` for whole vectors of a
/// line.
#[inline(always)]
fn filter_line<S: Simd>(s: S, kernel: &[f32; SSIM_WINDOW], line: &[f32], out: &mut [f32]) {
    let mut weights = [V::splat(s, 0.0); SSIM_WINDOW];
    for i in 0..SSIM_WINDOW {
        weights[i] = V::splat(s, kernel[i]);
    }
    let n = line.len() - 2 * PAD;
    let mut i = 0;
    while i < n {
        let window = &line[PAD - RADIUS + i..][..S::F32_LANES + 2 * RADIUS];
        let mut sum = V::from_slice(s, window) * weights[0];
        for k in 1..SSIM_WINDOW {
            sum = V::from_slice(s, &window[k..]).mul_add(weights[k], sum);
        }
        sum.to_slice(&mut out[PAD + i..]);
        i += S::F32_LANES;
    }
}

impl pulp::WithSimd for Windows<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> f64 {
        let Self {
            comparison: c,
            image,
            channel,
            first_row,
            maps,
        } = self;
        let height = c.camera.size[1] as usize;
        let stride = c.stride();
        let across = c.camera.tiles[0] as usize;
        // Ring buffer of the last 11 filtered rows of each quantity.
        let mut ring = vec![0.0f32; SSIM_WINDOW * FILTERED * stride];
        let mut lines = vec![0.0f32; FILTERED * stride];
        let mut loss = 0.0;
        let mut next = first_row.saturating_sub(RADIUS);
        for (row, maps) in maps.chunks_exact_mut(MAPS * across).enumerate() {
            let y = first_row + row;
            if y < RADIUS || y + RADIUS >= height {
                maps.fill(Row::ZERO);
                continue;
            }
            while next <= y + RADIUS {
                let slot = next % SSIM_WINDOW * FILTERED * stride;
                let out = &mut ring[slot..slot + FILTERED * stride];
                c.filter_row(s, image, channel, next, &mut lines, out);
                next += 1;
            }
            loss += c.window_row(s, &ring, y, maps);
        }
        loss
    }
}

impl Comparison<'_> {
    /// Loads row `y`, computes the four quantities and filters them along the row.
    #[inline(always)]
    fn filter_row<S: Simd>(
        &self,
        s: S,
        image: &[Row],
        channel: usize,
        y: usize,
        lines: &mut [f32],
        out: &mut [f32],
    ) {
        let stride = self.stride();
        let (x_line, rest) = lines.split_at_mut(stride);
        let (y_line, rest) = rest.split_at_mut(stride);
        let (squares, products) = rest.split_at_mut(stride);
        self.load_row(image, channel, y, x_line, y_line);
        for i in 0..stride {
            let (x, y) = (x_line[i], y_line[i]);
            squares[i] = x * x + y * y;
            products[i] = x * y;
        }
        for q in 0..FILTERED {
            let range = q * stride..(q + 1) * stride;
            filter_line(s, &self.kernel, &lines[range.clone()], &mut out[range]);
        }
    }

    /// Computes SSIM of the windows centred on row `y`: writes the derivatives, returns their part
    /// of the loss.
    #[inline(always)]
    fn window_row<S: Simd>(&self, s: S, ring: &[f32], y: usize, maps: &mut [Row]) -> f64 {
        let stride = self.stride();
        let across = self.camera.tiles[0] as usize;
        let width = self.camera.size[0] as usize;
        let (c1, c2) = (s.k(SSIM_C1 as f32), s.k(SSIM_C2 as f32));
        let two = s.k(2.0);
        let shift = s.k(SHIFT);
        let minus_weight = s.k(-self.ssim_weight);
        let mut loss = 0.0;
        let mut i = 0;
        while i < across * ROW {
            let valid = self.window_weights(y, i, S::F32_LANES, width);
            let mut sums = [s.k(0.0); FILTERED];
            for tap in 0..SSIM_WINDOW {
                let weight = s.k(self.kernel[tap]);
                let row = (y + tap - RADIUS) % SSIM_WINDOW * FILTERED * stride;
                for q in 0..FILTERED {
                    let at = row + q * stride + PAD + i;
                    sums[q] = V::from_slice(s, &ring[at..]).mul_add(weight, sums[q]);
                }
            }
            let [mx, my, squares, product] = sums;
            let (x, y_mean) = (mx + shift, my + shift);
            let variance = squares - mx * mx - my * my;
            let covariance = product - mx * my;
            let a1 = two * x * y_mean + c1;
            let a2 = two * covariance + c2;
            let inverse_b1 = s.k(1.0) / (x * x + y_mean * y_mean + c1);
            let inverse_b2 = s.k(1.0) / (variance + c2);
            let inverse = inverse_b1 * inverse_b2;
            let ssim = a1 * a2 * inverse;
            let d_mean = two * (y_mean * a2 - my * a1) * inverse
                - two * ssim * (x * inverse_b1 - mx * inverse_b2);
            let valid = V::from_slice(s, &valid);
            let scale = minus_weight * valid;
            let derivatives = [
                d_mean * scale,
                -(ssim * inverse_b2) * scale,
                two * a1 * inverse * scale,
            ];
            for map in 0..MAPS {
                let row = &mut maps[map * across + i / ROW];
                derivatives[map].store(row, i % ROW / S::F32_LANES);
            }
            loss += f64::from(((s.k(1.0) - ssim) * valid).sum());
            i += S::F32_LANES;
        }
        loss * f64::from(self.ssim_weight)
    }

    /// Returns 1 for each of `lanes` columns from `x` whose window on row `y` counts, else 0.
    #[inline(always)]
    fn window_weights(&self, y: usize, x: usize, lanes: usize, width: usize) -> [f32; ROW] {
        let mut weights = [0.0; ROW];
        for (i, weight) in weights.iter_mut().enumerate().take(lanes) {
            let column = x + i;
            let inside = column >= RADIUS && column + RADIUS < width;
            *weight = f32::from(inside);
        }
        if let Some(mask) = &self.photo.mask {
            for (i, weight) in weights.iter_mut().enumerate().take(lanes) {
                if x + i < width && mask[y * width + x + i] < MASK_MIN {
                    *weight = 0.0;
                }
            }
        }
        weights
    }
}

/// Task of pass 2: a row of tiles.
struct Gradient<'a> {
    comparison: &'a Comparison<'a>,
    image: &'a [Row],
    maps: &'a [Row],
    tile_row: usize,
    gradient: &'a mut [Row],
}

impl pulp::WithSimd for Gradient<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, s: S) -> f64 {
        let c = self.comparison;
        let height = c.camera.size[1] as usize;
        let stride = c.stride();
        let mut x_line = vec![0.0f32; stride];
        let mut y_line = vec![0.0f32; stride];
        let mut filtered = vec![0.0f32; MAPS * stride];
        let mut columns = vec![0.0f32; stride];
        self.gradient.fill(Row::ZERO);
        let mut loss = 0.0;
        for channel in 0..3 {
            for y in self.tile_row * ROW..((self.tile_row + 1) * ROW).min(height) {
                c.load_row(self.image, channel, y, &mut x_line, &mut y_line);
                if c.ssim_weight > 0.0 {
                    for map in 0..MAPS {
                        self.filter_columns(s, channel, map, y, &mut columns);
                        let out = &mut filtered[map * stride..(map + 1) * stride];
                        filter_line(s, &c.kernel, &columns, out);
                    }
                }
                loss += self.combine_row(s, channel, y, &x_line, &y_line, &filtered);
            }
        }
        loss
    }
}

impl Gradient<'_> {
    /// Filters one map of one channel along columns at row `y` into a padded line.
    #[inline(always)]
    fn filter_columns<S: Simd>(&self, s: S, channel: usize, map: usize, y: usize, out: &mut [f32]) {
        let c = self.comparison;
        let across = c.camera.tiles[0] as usize;
        let height = c.camera.size[1] as usize;
        let padded = (c.camera.tiles[1] as usize * ROW).div_ceil(BAND) * BAND;
        let first = y.saturating_sub(RADIUS);
        let last = (y + RADIUS).min(height - 1);
        let lanes = S::F32_LANES;
        for tile in 0..across {
            for part in 0..ROW / lanes {
                let mut sum = V::splat(s, 0.0);
                for row in first..=last {
                    let at = ((channel * padded + row) * MAPS + map) * across + tile;
                    let weight = V::splat(s, c.kernel[row + RADIUS - y]);
                    sum = V::load(s, &self.maps[at], part).mul_add(weight, sum);
                }
                sum.to_slice(&mut out[PAD + tile * ROW + part * lanes..]);
            }
        }
    }

    /// Combines L1 and SSIM for one row; returns L1's part of the loss.
    #[inline(always)]
    fn combine_row<S: Simd>(
        &mut self,
        s: S,
        channel: usize,
        y: usize,
        x_line: &[f32],
        y_line: &[f32],
        filtered: &[f32],
    ) -> f64 {
        let c = self.comparison;
        let stride = c.stride();
        let width = c.camera.size[0] as usize;
        let mask = c
            .photo
            .mask
            .as_deref()
            .map(|m| &m[y * width..(y + 1) * width]);
        let zero = s.k(0.0);
        let mut total = zero;
        let mut i = 0;
        while i < stride - 2 * PAD {
            let at = PAD + i;
            let x = V::from_slice(s, &x_line[at..]);
            let target = V::from_slice(s, &y_line[at..]);
            let difference = x - target;
            total += difference.abs();
            let l1 = s.k(c.l1_weight);
            let sign = zero.lt(difference).select(l1, zero) - difference.lt(zero).select(l1, zero);
            let ssim = if c.ssim_weight > 0.0 {
                let maps = each!(3, |m| V::from_slice(s, &filtered[m * stride + at..]));
                maps[0] + s.k(2.0) * x * maps[1] + target * maps[2]
            } else {
                zero
            };
            let mut counts = [0.0f32; ROW];
            for (lane, weight) in counts.iter_mut().enumerate().take(S::F32_LANES) {
                let column = i + lane;
                let counted = column < width && mask.is_none_or(|m| m[column] >= MASK_MIN);
                *weight = f32::from(counted);
            }
            let gradient = (sign + ssim) * V::from_slice(s, &counts);
            let row = i / ROW * TILE_ROWS + channel * ROW + y % ROW;
            gradient.store(&mut self.gradient[row], i % ROW / S::F32_LANES);
            i += S::F32_LANES;
        }
        f64::from(total.sum()) * f64::from(c.l1_weight)
    }
}

const _: () = assert!(PLANES == 4, "the fourth plane's gradient is left at zero");
