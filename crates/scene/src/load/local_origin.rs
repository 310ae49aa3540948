//! The local origin of captures whose coordinates are far from zero: see [`crate::origin`].
//!
//! 1. Loaders read camera poses in doubles, and keep what sparse points lack as `f32` ([`Capture::remainders`]).
//! 2. If the middle of the cameras is far from the origin compared with the capture's extent, a place next to it
//!    becomes the origin: [`Capture::origin`]. Else it is zero, and no bit changes.
//! 3. Cameras and points count from it, and so does all that is trained. Camera files are in the capture's own frame.

use crate::Capture;
use crate::extent::Region;
use crate::origin::{local_origin, position, shown, step_at};
use glam::DVec3;

impl Capture {
    /// Chooses the local origin, and counts cameras and points from it.
    pub(crate) fn choose_origin(&mut self) {
        let mut remainders = std::mem::take(&mut self.remainders);
        if remainders.len() != self.points.len() {
            remainders.clear();
        }
        let region = Region {
            remainders: &remainders,
            ..Region::of_capture(self, &self.images)
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
    use super::*;
    use crate::origin::remainder;
    use crate::{Camera, Point, Pose, PosedImage};

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
}
