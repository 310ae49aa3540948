//! The local origin: captures whose coordinates are far from zero, such as surveys in UTM metres.
//!
//! Engines and most files hold positions as `f32`, whose steps grow with the distance from the origin: 1 mm at 10 km,
//! 0.5 m at 5 000 km.
//!
//! 1. Loaders read camera poses in doubles, and keep what sparse points lack as `f32` ([`Capture::remainders`]).
//! 2. If the middle of the cameras is farther from the origin than `FAR` times the capture's extent, a place
//!    next to it becomes the origin: [`Capture::origin`]. It is a multiple of a power of ten below the extent. Else it
//!    is zero, and no bit changes.
//! 3. Cameras and points count from it, and so does all that is trained. `.ply` files record it as a comment
//!    ([`crate::splat_file::SplatMetadata::origin`]); camera files are in the capture's own frame.

use crate::edit::Similarity;
use crate::extent::{Region, median, position};
use crate::{Camera, Capture, Splats};
use glam::DVec3;

/// Coordinates beyond this many times the extent lose precision as `f32`: their steps, 6e-8 of them, reach the
/// smallest steps of training, 1.6e-6 of the extent.
const FAR: f64 = 25.0;

/// Gaussians that a middle is found by, at most.
const SAMPLE: usize = 4096;

/// Returns the rounding remainder of a number as `f32`, itself an `f32`: both together have 48 bits.
pub(crate) fn remainder(exact: [f64; 3], rounded: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|k| (exact[k] - f64::from(rounded[k])) as f32)
}

/// The local origin of what has this middle and this extent; zero where coordinates are small enough.
pub(crate) fn local_origin(middle: DVec3, extent: f64) -> DVec3 {
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

impl Capture {
    /// Chooses the local origin, and counts cameras and points from it.
    pub(crate) fn choose_origin(&mut self) {
        let mut remainders = std::mem::take(&mut self.remainders);
        if remainders.len() != self.points.len() {
            remainders.clear();
        }
        let cameras = self.images.iter().map(|image| (&image.camera, image.id));
        let region = Region {
            points: &self.points,
            remainders: &remainders,
            tracks: self.tracks.as_ref(),
            ..Region::of_cameras(cameras.collect())
        };
        let Some(middle) = region.middle() else {
            return;
        };
        let extent = region.extent();
        let origin = local_origin(middle, extent);
        if origin == DVec3::ZERO {
            return;
        }
        for image in &mut self.images {
            image.camera = image.camera.about(origin);
        }
        for (i, point) in self.points.iter_mut().enumerate() {
            let exact = position(point, remainders.get(i)) - origin;
            point.position = exact.to_array().map(|value| value as f32);
        }
        self.origin = origin;
        self.notes.push(format!(
            "the coordinates are far from the origin: about {} a 32-bit float has steps of {}, and the cameras are within {}. \
             Training counts from the local origin {}, and so do splat files. A .ply file says so in its header; \
             `dapple convert --world` writes one in the capture's own frame, in doubles. cameras.json is in that frame",
            shown(middle.round()),
            rounded(step_at(middle.abs().max_element())),
            rounded(extent),
            shown(origin),
        ));
    }
}

/// Two digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{Point, Pose, PosedImage};

    /// Cameras around a place, with the points of a small cloud, all given in doubles.
    fn around(middle: DVec3, radius: f64) -> (Capture, Vec<DVec3>) {
        let images = (0..12).map(|i| {
            let angle = f64::from(i) * 0.5;
            let eye = middle + radius * DVec3::new(angle.cos(), 0.2, angle.sin());
            PosedImage {
                name: format!("{i}"),
                folder: "".into(),
                file: "".into(),
                downscaled: false,
                mask: None,
                id: i as u32,
                depth: None,
                camera: Camera::pinhole(64, 48, 60.0, Pose::look_at(eye, middle, DVec3::Y)),
                source_model: String::new(),
            }
        });
        let exact: Vec<DVec3> = (0..50)
            .map(|i| {
                middle
                    + radius
                        * 0.3
                        * DVec3::new((f64::from(i) * 0.7).sin(), (f64::from(i) * 0.3).cos(), 0.01)
            })
            .collect();
        let mut capture = Capture {
            images: images.collect(),
            ..Capture::default()
        };
        for point in &exact {
            let rounded = point.to_array().map(|v| v as f32);
            capture
                .remainders
                .push(remainder(point.to_array(), rounded));
            capture.points.push(Point {
                position: rounded,
                rgb: [9; 3],
            });
        }
        (capture, exact)
    }

    #[test]
    fn captures_near_the_origin_keep_every_bit() {
        for middle in [
            DVec3::ZERO,
            DVec3::new(3.0, -20.0, 8.0),
            DVec3::splat(-49.0),
        ] {
            let (mut capture, _) = around(middle, 2.0);
            let before = capture.clone();
            capture.choose_origin();
            assert_eq!(capture.origin, DVec3::ZERO, "{middle}");
            assert_eq!(capture.points, before.points);
            for (now, then) in capture.images.iter().zip(&before.images) {
                assert_eq!(now.camera, then.camera);
            }
            assert!(capture.notes.is_empty() && capture.remainders.is_empty());
        }
    }

    #[test]
    fn captures_far_away_count_from_a_place_among_them() {
        for (middle, radius) in [
            (DVec3::new(448_213.5, 5_411_972.25, 312.75), 4.0),
            (DVec3::new(1e4, -1e4, 1e4), 4.0),
            (DVec3::new(5e6, 0.0, 0.0), 300.0),
            (DVec3::new(9.123_456_7, 48.765_432_1, 0.0), 1e-4),
        ] {
            let (mut capture, exact) = around(middle, radius);
            let given: Vec<DVec3> = (capture.images.iter())
                .map(|image| image.camera.camera_from_world.centre())
                .collect();
            capture.choose_origin();
            let origin = capture.origin;
            assert!(origin.distance(middle) < 1.5 * radius, "{origin}");
            // Rounding of doubles at this distance, in quaternions and sums.
            let close = 1e-14 * middle.length();
            for (point, exact) in capture.points.iter().zip(&exact) {
                let here = DVec3::from(point.position.map(f64::from));
                let off = (here + origin).distance(*exact);
                assert!(off < 1e-7 * radius + close, "{off:e} of {radius}");
            }
            for (image, given) in capture.images.iter().zip(&given) {
                let off = (image.camera.camera_from_world.centre() + origin).distance(*given);
                assert!(off < 10.0 * close, "{off:e}");
            }
            assert_eq!(capture.notes.len(), 1);
            assert!(
                capture.notes[0].contains(&shown(origin)),
                "{}",
                capture.notes[0]
            );
            // And back: bits of doubles at that distance.
            let image = &capture.images[3];
            let again = image.camera.about(-origin).camera_from_world.centre();
            assert!(again.distance(given[3]) < 10.0 * close);
        }
    }

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
