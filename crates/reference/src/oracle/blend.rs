//! `blend` and `blend_backward`: alpha compositing of ellipses, front to back, pixel by pixel.
//!
//! 1. `power = 0.5 d^T conic d`, d from the ellipse's centre to the pixel's.
//! 2. `alpha = min(ALPHA_MAX, opacity exp(-power))`; a Gaussian below `ALPHA_MIN` is skipped.
//! 3. Stop before the Gaussian that would bring the transmittance below `TRANSMITTANCE_MIN`.
//! 4. `colour = sum_i T_i alpha_i c_i + T_end background`, `T_i = prod_{j<i} (1 - alpha_j)` (Kerbl et
//!    al. 2023, eq. 3); `alpha = 1 - T_end`. Depths blend as colours do, without a background. The
//!    median depth is that of the first Gaussian with `T <= 1/2` behind it. See
//!    [`dapple_engine::depth`].
//! 5. Backward (arXiv:2312.02121, section 3), with S_i the blended colour behind i, background
//!    included:
//!    `dL/dalpha_i = T_i c_i . g - (S_i . g) / (1 - alpha_i) + g_alpha T_end / (1 - alpha_i)`. A
//!    clamped alpha has no derivative. Thresholds are constant. In c_i and g, depth is one more
//!    channel.

use super::Image;
use super::project::{Projected, ProjectedGradient};
use super::ranges::TileLists;
use dapple_engine::constants::{ALPHA_MAX, ALPHA_MIN, TRANSMITTANCE_MIN};
use dapple_engine::depth::MEDIAN_TRANSMITTANCE;
use dapple_engine::{ImageDerivative, RenderSettings};
use dapple_scene::Camera;
use glam::{DVec2, DVec3, DVec4};

/// Contribution of one Gaussian to one pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contribution {
    /// Position in depth order.
    pub position: usize,
    /// Offset from the ellipse's centre to the pixel's, pixels.
    pub offset: DVec2,
    /// `exp(-power)`.
    pub falloff: f64,
    /// Opacity at the pixel, clamped.
    pub alpha: f64,
    /// True if alpha was clamped.
    pub clamped: bool,
    /// Transmittance in front of the Gaussian.
    pub transmittance: f64,
}

/// Returns a pixel's contributions, front to back, and the transmittance behind the last.
pub fn contributions(
    visible: &[Projected],
    list: &[usize],
    pixel: DVec2,
) -> (Vec<Contribution>, f64) {
    let mut out = Vec::new();
    let mut transmittance = 1.0;
    for &position in list {
        let projected = &visible[position];
        let offset = pixel - projected.centre_from(pixel.x);
        let falloff = (-power(projected, offset)).exp();
        let unclamped = projected.opacity * falloff;
        let clamped = unclamped > f64::from(ALPHA_MAX);
        let alpha = unclamped.min(f64::from(ALPHA_MAX));
        if alpha < f64::from(ALPHA_MIN) {
            continue;
        }
        if transmittance * (1.0 - alpha) < f64::from(TRANSMITTANCE_MIN) {
            break;
        }
        out.push(Contribution {
            position,
            offset,
            falloff,
            alpha,
            clamped,
            transmittance,
        });
        transmittance *= 1.0 - alpha;
    }
    (out, transmittance)
}

fn power(projected: &Projected, offset: DVec2) -> f64 {
    let [a, b, c] = projected.conic;
    let DVec2 { x, y } = offset;
    0.5 * (a * x * x + c * y * y) + b * x * y
}

fn background(settings: &RenderSettings) -> DVec3 {
    DVec3::from(settings.background.map(f64::from))
}

/// Returns the pixels, row by row: x, y and centre.
fn pixels(camera: &Camera) -> impl Iterator<Item = (u32, u32, DVec2)> + use<> {
    let (width, height) = (camera.width, camera.height);
    (0..height).flat_map(move |y| {
        (0..width).map(move |x| (x, y, DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5)))
    })
}

/// Blends Gaussians that are in depth order.
pub fn blend(
    visible: &[Projected],
    lists: &TileLists,
    camera: &Camera,
    settings: &RenderSettings,
) -> Image {
    let background = background(settings);
    let mut image = Image {
        width: camera.width,
        height: camera.height,
        ..Image::default()
    };
    for (x, y, centre) in pixels(camera) {
        let (contributions, transmittance) = contributions(visible, lists.at(x, y), centre);
        let mut colour = transmittance * background;
        let mut depth = 0.0;
        for c in &contributions {
            let weight = c.transmittance * c.alpha;
            colour += weight * visible[c.position].colour;
            depth += weight * visible[c.position].depth;
        }
        let is_median = |c: &&Contribution| {
            c.transmittance * (1.0 - c.alpha) <= f64::from(MEDIAN_TRANSMITTANCE)
        };
        let median = contributions.iter().find(is_median);
        image.rgb.extend(colour.to_array());
        image.alpha.push(1.0 - transmittance);
        image.depth.push(depth);
        let median = median.map_or(0.0, |c| visible[c.position].depth);
        image.median_depth.push(median);
    }
    image
}

/// Returns the derivatives by each visible Gaussian from those by the image.
pub fn blend_backward(
    visible: &[Projected],
    lists: &TileLists,
    camera: &Camera,
    settings: &RenderSettings,
    derivative: &ImageDerivative<'_, f64>,
) -> Vec<ProjectedGradient> {
    let background = background(settings).extend(0.0);
    let channels = |projected: &Projected| -> DVec4 { projected.colour.extend(projected.depth) };
    let mut out = vec![ProjectedGradient::default(); visible.len()];
    for (i, (x, y, centre)) in pixels(camera).enumerate() {
        let g_depth = derivative.depth.map_or(0.0, |values| values[i]);
        let g = DVec3::from_slice(&derivative.rgb[3 * i..]).extend(g_depth);
        let g_alpha = derivative.alpha.map_or(0.0, |values| values[i]);
        let (contributions, transmittance) = contributions(visible, lists.at(x, y), centre);
        let mut behind = transmittance * background;
        for c in contributions.iter().rev() {
            let projected = &visible[c.position];
            let weight = c.transmittance * c.alpha;
            let dl_dcontribution = c.transmittance * channels(projected).dot(g)
                + (g_alpha * transmittance - behind.dot(g)) / (1.0 - c.alpha);
            behind += weight * channels(projected);

            let slot = &mut out[c.position];
            slot.colour += weight * g.truncate();
            slot.depth += weight * g_depth;
            if c.clamped {
                continue;
            }
            slot.opacity += dl_dcontribution * c.falloff;
            let dl_dpower = -dl_dcontribution * c.alpha;
            let [xx, xy, yy] = projected.conic;
            let DVec2 { x, y } = c.offset;
            let by_centre = -dl_dpower * DVec2::new(xx * x + xy * y, xy * x + yy * y);
            slot.centre += by_centre;
            slot.centre_absolute += by_centre.abs();
            slot.conic[0] += dl_dpower * 0.5 * x * x;
            slot.conic[1] += dl_dpower * x * y;
            slot.conic[2] += dl_dpower * 0.5 * y * y;
        }
    }
    out
}

/// Returns the distance of the closest decision of `blend` from its threshold: the least of
/// [`decision_margins`].
///
/// An image is not differentiable at a threshold, and engines with another precision may decide
/// otherwise. Tests choose scenes with a margin.
pub fn decision_margin(visible: &[Projected], lists: &TileLists, camera: &Camera) -> f64 {
    let margins = decision_margins(visible, lists, camera);
    margins.into_iter().fold(f64::INFINITY, f64::min)
}

/// Returns for each pixel, row by row, the least `|ln(value / threshold)|` over all Gaussians, for
/// skipping, clamping and stopping; infinite without Gaussians. `[height * width]`
pub fn decision_margins(visible: &[Projected], lists: &TileLists, camera: &Camera) -> Vec<f64> {
    let margins =
        pixels(camera).map(|(x, y, centre)| pixel_margin(visible, lists.at(x, y), centre));
    margins.collect()
}

fn pixel_margin(visible: &[Projected], list: &[usize], centre: DVec2) -> f64 {
    let mut margin = f64::INFINITY;
    let mut consider = |value: f64, threshold: f32| {
        margin = margin.min((value / f64::from(threshold)).ln().abs());
    };
    let mut transmittance = 1.0;
    for &position in list {
        let projected = &visible[position];
        let unclamped =
            projected.opacity * (-power(projected, centre - projected.centre_from(centre.x))).exp();
        consider(unclamped, ALPHA_MIN);
        consider(unclamped, ALPHA_MAX);
        if unclamped < f64::from(ALPHA_MIN) {
            continue;
        }
        let next = transmittance * (1.0 - unclamped.min(f64::from(ALPHA_MAX)));
        consider(next, TRANSMITTANCE_MIN);
        if next < f64::from(TRANSMITTANCE_MIN) {
            break;
        }
        transmittance = next;
    }
    margin
}
