//! The local origin: splats whose coordinates are far from zero, such as surveys in UTM metres.
//!
//! Engines and most files hold positions as `f32`, whose steps grow with the distance from the origin: 1 mm at 10 km,
//! 0.5 m at 5 000 km.
//!
//! 1. Positions that a file stores in doubles are read as `f32` and a [`remainder`].
//! 2. If the middle is farther from the origin than `FAR` times the extent, a place next to it becomes the origin
//!    ([`local_origin`]). It is a multiple of a power of ten below the extent. Else it is zero, and no bit changes.
//! 3. Positions count from it. `.ply` files record it as a comment ([`crate::splat_file::SplatMetadata::origin`]).

use crate::similarity::Similarity;
use crate::{Camera, Point, Splats};
use dapple_base::quantiles::median;
use glam::DVec3;

/// Coordinates beyond this many times the extent lose precision as `f32`: their steps, 6e-8 of them, reach the
/// smallest steps of training, 1.6e-6 of the extent.
const FAR: f64 = 25.0;

/// Gaussians that a middle is found by, at most.
const SAMPLE: usize = 4096;

/// Returns the rounding remainder of a number as `f32`, itself an `f32`: both together have 48 bits.
pub fn remainder(exact: [f64; 3], rounded: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|k| (exact[k] - f64::from(rounded[k])) as f32)
}

/// Returns a point's position in doubles, with its rounding [`remainder`] if that is known.
pub fn position(point: &Point, remainder: Option<&[f32; 3]>) -> DVec3 {
    let rounded = DVec3::from(point.position.map(f64::from));
    match remainder {
        Some(rest) => rounded + DVec3::from(rest.map(f64::from)),
        None => rounded,
    }
}

/// The local origin of what has this middle and this extent; zero where coordinates are small enough.
pub fn local_origin(middle: DVec3, extent: f64) -> DVec3 {
    let distance = middle.abs().max_element();
    let is_far = middle.is_finite() && extent > 0.0 && distance > FAR * extent;
    if !is_far {
        return DVec3::ZERO;
    }
    let digits = extent.log10().floor() as i32;
    let rounded = |value: f64| match digits {
        // A power of ten is exact, its inverse is not.
        0.. => (value / 10f64.powi(digits)).round() * 10f64.powi(digits),
        _ => (value * 10f64.powi(-digits)).round() / 10f64.powi(-digits),
    };
    // Zero has one sign.
    let origin = middle.to_array().map(|value| rounded(value) + 0.0);
    match origin.iter().all(|value| value.is_finite()) {
        true => DVec3::from(origin),
        false => DVec3::ZERO,
    }
}

/// The distance between neighbouring `f32` numbers at this distance from zero.
pub fn step_at(distance: f64) -> f64 {
    let distance = (distance.abs() as f32).clamp(f32::MIN_POSITIVE, f32::MAX / 2.0);
    f64::from(distance.next_up()) - f64::from(distance)
}

/// Coordinates for messages: as few digits as they have.
pub fn shown(origin: DVec3) -> String {
    format!("{} {} {}", origin.x, origin.y, origin.z)
}

/// Describes the remedy for a file that cannot record the local origin of its splats.
pub fn not_held(extension: &str, origin: DVec3) -> String {
    format!(
        "positions are relative to the local origin {}, which .{extension} has no place for. Add it to place them in \
         the capture's own frame",
        shown(origin)
    )
}

/// The median of the centres along each axis; zero without Gaussians.
pub fn middle_of(splats: &Splats) -> DVec3 {
    let step = splats.len().div_ceil(SAMPLE).max(1);
    let axis = |k: usize| {
        let sample = splats
            .means
            .iter()
            .step_by(step)
            .map(|mean| f64::from(mean[k]));
        median(sample.filter(|v| v.is_finite()).collect()).unwrap_or(0.0)
    };
    DVec3::new(axis(0), axis(1), axis(2))
}

/// The origin that splats with this middle count from, next to a capture that counts from `capture`: the one that their
/// file says, else whichever of zero and the capture's is nearer to them. Most formats have no place for it.
pub fn assumed(middle: DVec3, said: DVec3, capture: DVec3) -> DVec3 {
    let is_local = middle.length() < middle.distance(capture);
    match said == DVec3::ZERO && is_local {
        true => capture,
        false => said,
    }
}

/// Where splats are beside the capture that they were trained on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Frame {
    /// The local origin that they counted from when they were trained.
    pub origin: DVec3,
    /// Their motion since, of coordinates that count from `origin`.
    pub moved: Similarity,
}

impl Frame {
    /// The frame of splats with this middle, beside a capture that counts from `capture`: see [`assumed`].
    #[must_use]
    pub fn beside(&self, middle: DVec3, capture: DVec3) -> Self {
        let before = self.moved.inverse().point(middle);
        Self {
            origin: assumed(before, self.origin, capture),
            ..*self
        }
    }

    /// The camera of a capture, which counts from `capture`, in the frame of the splats.
    pub fn camera(&self, camera: &Camera, capture: DVec3) -> Camera {
        self.moved.camera(&camera.about(self.origin - capture))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_floats_are_those_of_floats() {
        assert_eq!(step_at(5e6), 0.5);
        assert_eq!(step_at(1e4), 0.000_976_562_5);
        assert!(step_at(0.0) > 0.0 && step_at(f64::INFINITY).is_finite());
    }

    #[test]
    fn splats_that_do_not_say_count_from_what_is_near() {
        let (utm, other) = (DVec3::new(4e5, 5e6, 300.0), DVec3::new(4e5, 5e6, 0.0));
        let (near, far) = (DVec3::splat(2.0), utm + DVec3::splat(2.0));
        assert_eq!(assumed(near, DVec3::ZERO, utm), utm);
        assert_eq!(assumed(far, DVec3::ZERO, utm), DVec3::ZERO);
        assert_eq!(assumed(near, other, utm), other);
        assert_eq!(assumed(near, DVec3::ZERO, DVec3::ZERO), DVec3::ZERO);
        let mut splats = Splats::empty(0);
        assert_eq!(middle_of(&splats), DVec3::ZERO);
        splats.means = vec![[1.0, 2.0, f32::NAN], [1.0, 2.0, 3.0], [1e9, -1e9, 3.0]];
        assert_eq!(middle_of(&splats), DVec3::new(1.0, 2.0, 3.0));
        splats.count_from(DVec3::new(0.5, 2.0, 0.0));
        assert_eq!(splats.means[1], [0.5, 0.0, 3.0]);
    }

    #[test]
    fn origins_have_few_digits() {
        assert_eq!(
            local_origin(DVec3::new(448_213.5, 5_411_972.25, 3.75), 42.0),
            DVec3::new(448_210.0, 5_411_970.0, 0.0)
        );
        assert_eq!(
            shown(local_origin(DVec3::splat(12.345_678), 0.02)),
            "12.35 12.35 12.35"
        );
        for (middle, extent) in [
            (f64::NAN, 1.0),
            (1e300, 1e-300),
            (9.0, 0.0),
            (9.0, f64::NAN),
            (f64::INFINITY, 1.0),
        ] {
            let origin = local_origin(DVec3::splat(middle), extent);
            assert!(origin.is_finite(), "{middle} {extent}");
        }
    }
}
