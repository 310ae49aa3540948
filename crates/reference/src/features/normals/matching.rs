//! `matching_loss`: the photo and a neighbour's at the blended planes, see
//! [`dapple_engine::features::normals::matching`] for the formulas.

use super::oracle::{PlaneConsistency, PlaneImage, PlaneLoss, consistency};
use crate::{Gaussian, PosedLens};
use dapple_engine::RenderSettings;
use dapple_engine::features::normals::matching::{GRID, LEAST_MATCH, LEAST_VARIANCE, SIDE};
use dapple_scene::grey::GreyPhoto;
use dapple_scene::{Camera, Rays, Result};
use glam::{DVec2, DVec3};

/// A view, and its photo.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Camera of the view.
    pub camera: &'a Camera,
    /// Its photo.
    pub photo: &'a GreyPhoto,
}

impl Seen<'_> {
    /// Pixels of the photo for each pixel of the view.
    fn scale(&self) -> DVec2 {
        let [width, height] = self.photo.size.map(f64::from);
        DVec2::new(width, height) / DVec2::new(self.camera.width.into(), self.camera.height.into())
    }

    /// Returns the shade at a place of the view, and its derivative by the place; `None` if a pixel does not count.
    /// Lowers `margin` to the distance from the next pixel, where the derivative jumps.
    fn shade(&self, place: DVec2, margin: &mut f64) -> Option<(f64, DVec2)> {
        let at = place * self.scale() - 0.5;
        let [width, height] = self.photo.size;
        let most = DVec2::new(f64::from(width - 1), f64::from(height - 1));
        if at.cmplt(DVec2::ZERO).any() || at.cmpgt(most).any() {
            *margin = margin.min((at - most).abs().min(at.abs()).min_element());
            return None;
        }
        let first = at.floor().min(most - 1.0);
        let f = at - first;
        *margin = margin.min(f.min(1.0 - f).abs().min_element());
        let shade = |x: u32, y: u32| {
            let i =
                (first.y as usize + y as usize) * width as usize + first.x as usize + x as usize;
            let shade = self.photo.shades[i];
            (shade > 0).then(|| f64::from(shade) / 255.0)
        };
        let [a, b, c, d] = [shade(0, 0)?, shade(1, 0)?, shade(0, 1)?, shade(1, 1)?];
        let above = a + (b - a) * f.x;
        let below = c + (d - c) * f.x;
        let across = (b - a) * (1.0 - f.y) + (d - c) * f.y;
        let gradient = DVec2::new(across, below - above) * self.scale();
        Some((above + (below - above) * f.y, gradient))
    }
}

/// A sample of a patch: its shades in both photos, and the derivatives of the second by the plane.
struct Sample {
    own: f64,
    other: f64,
    by_normal: DVec3,
    by_distance: f64,
}

/// Returns the loss of blended channels of `own`, times `weight`. `first` is the first pixel of the grid.
pub fn matching_loss(
    own: &Seen<'_>,
    other: &Seen<'_>,
    first: [u32; 2],
    image: &PlaneImage,
    weight: f64,
) -> PlaneLoss {
    let [width, height] = [own.camera.width, own.camera.height];
    let [columns, rows] = [width / GRID, height / GRID];
    let share = weight / f64::from(columns * rows);
    let rays = Rays::new(own.camera);
    let mut out = PlaneLoss::zero((width * height) as usize);
    for place in 0..columns * rows {
        let [x, y] = [place % columns, place / columns];
        let at = [GRID * x + first[0], GRID * y + first[1]];
        let pixel = (at[1] * width + at[0]) as usize;
        let centre = DVec2::new(f64::from(at[0]), f64::from(at[1])) + 0.5;
        if image
            .point(pixel, rays.ray(centre), &mut out.margin)
            .is_none()
        {
            continue;
        }
        let plane = (image.normals[pixel], image.distances[pixel]);
        let samples = patch(own, other, centre, plane, &mut out.margin);
        if let Some((loss, by)) = samples.and_then(|samples| compare(&samples, &mut out.margin)) {
            out.value += share * loss;
            out.counted += 1;
            out.by.normals[pixel] += share * by.0;
            out.by.distances[pixel] += share * by.1;
        }
    }
    out
}

/// Steps 1 and 2: the samples around a pixel.
fn patch(
    own: &Seen<'_>,
    other: &Seen<'_>,
    centre: DVec2,
    (normal, distance): (DVec3, f64),
    margin: &mut f64,
) -> Option<Vec<Sample>> {
    let rays = Rays::new(own.camera);
    let per = own.scale().recip();
    let ray = rays.ray(centre)?;
    let along = |axis: DVec2| Some((rays.ray(centre + axis)? - rays.ray(centre - axis)?) / 2.0);
    let across = along(DVec2::X)? * per.x;
    let down = along(DVec2::Y)? * per.y;
    let (from, to) = (
        PosedLens::new(own.camera).ok()?,
        PosedLens::new(other.camera).ok()?,
    );
    let rotation = to.rotation * from.rotation.transpose();
    let translation = to.translation - rotation * from.translation;
    let reach = (SIDE / 2) as i32;
    let mut samples = Vec::new();
    for y in -reach..=reach {
        for x in -reach..=reach {
            let [x, y] = [f64::from(x), f64::from(y)];
            let ray = ray + x * across + y * down;
            let (own_shade, _) =
                own.shade(centre + per * DVec2::new(x, y), &mut { f64::INFINITY })?;
            let slope = normal.dot(ray);
            let factor = distance / slope;
            *margin = margin.min(slope.abs());
            if factor.is_nan() || factor <= 0.0 {
                return None;
            }
            let point = rotation * (factor * ray) + translation;
            if to.lens.depth(point) <= 0.0 || !to.lens.shows(point) {
                return None;
            }
            let place = to.lens.project(point);
            let (shade, gradient) = other.shade(place.centre, margin)?;
            // Through the place, the point in both cameras' coordinates, and the factor of the ray.
            let [by_u, by_v] = place.centre_gradient;
            let by_point = rotation.transpose() * (by_u * gradient.x + by_v * gradient.y);
            let by_factor = by_point.dot(ray);
            samples.push(Sample {
                own: own_shade,
                other: shade,
                by_normal: -by_factor * distance / (slope * slope) * ray,
                by_distance: by_factor / slope,
            });
        }
    }
    Some(samples)
}

/// Step 3: the loss of a patch and its derivatives by the plane; `None` if the patch does not count.
fn compare(samples: &[Sample], margin: &mut f64) -> Option<(f64, (DVec3, f64))> {
    let count = samples.len() as f64;
    let mean = |value: &dyn Fn(&Sample) -> f64| samples.iter().map(value).sum::<f64>() / count;
    let [a, b] = [mean(&|s| s.own), mean(&|s| s.other)];
    let own = mean(&|s| (s.own - a).powi(2));
    let other = mean(&|s| (s.other - b).powi(2));
    let least = f64::from(LEAST_VARIANCE);
    let mut at_least = |value: f64, least: f64| {
        *margin = margin.min((value / least - 1.0).abs());
        value >= least
    };
    if !at_least(own, least) || !at_least(other, least) {
        return None;
    }
    let both = mean(&|s| (s.own - a) * (s.other - b));
    let correlation = both / (own * other).sqrt();
    if !at_least(correlation, f64::from(LEAST_MATCH)) {
        return None;
    }
    // The derivative of the loss by the shade of each sample in the neighbour.
    let by = |s: &Sample| {
        -((s.own - a) / (own * other).sqrt() - correlation * (s.other - b) / other) / count
    };
    let by_normal: DVec3 = samples.iter().map(|s| by(s) * s.by_normal).sum();
    let by_distance: f64 = samples.iter().map(|s| by(s) * s.by_distance).sum();
    Some((1.0 - correlation, (by_normal, by_distance)))
}

/// Returns the loss of Gaussians, times `weight`, and its gradient; that of the pose is zero.
///
/// # Errors
/// See [`crate::render`].
pub fn matching_consistency(
    gaussians: &[Gaussian],
    sh_rest_stride: usize,
    (own, other, first): (&Seen<'_>, &Seen<'_>, [u32; 2]),
    settings: &RenderSettings,
    weight: f64,
) -> Result<PlaneConsistency> {
    let loss = |image: &PlaneImage| matching_loss(own, other, first, image, weight);
    let mut out = consistency(gaussians, sh_rest_stride, own.camera, settings, loss)?;
    out.gradients.pose = Default::default();
    Ok(out)
}
