//! Notes on implausible content of a capture that can be read without errors.

use crate::capture::PosedImage;
use crate::extent::Region;
use crate::{Capture, Error, Result, printable};
use dapple_base::numbers::plain;
use std::collections::HashMap;

/// Points that fill less than this fraction of the distances between cameras count as one position.
const ONE_PLACE: f64 = 1e-6;

/// Returns notes on implausible poses and sparse points.
pub(super) fn notes(capture: &Capture) -> Vec<String> {
    points_in_one_place(capture)
        .into_iter()
        .chain(identical_poses(capture))
        .chain(far_off(capture))
        .collect()
}

/// Accepted focal lengths, in units of the photo's longer side. A space telescope has about 1000.
const FOCAL: std::ops::RangeInclusive<f64> = 1e-4..=1e6;

/// Refuses cameras that cannot be trained with: each Gaussian would be infinitely large in them, or smaller than a
/// pixel.
///
/// # Errors
/// An impossible focal length; the error names the photo.
pub(super) fn refuse_impossible(capture: &Capture) -> Result<()> {
    let is_impossible = |image: &&PosedImage| {
        let camera = &image.camera;
        let longest = f64::from(camera.width.max(camera.height).max(1));
        [camera.fx, camera.fy]
            .iter()
            .any(|focal| !FOCAL.contains(&(focal / longest)))
    };
    let Some(image) = capture.images.iter().find(is_impossible) else {
        return Ok(());
    };
    let camera = &image.camera;
    Err(Error::input(format!(
        "the focal length is {:e} x {:e} pixels, and the photo has {}x{}: no lens has such a focal length",
        camera.fx, camera.fy, camera.width, camera.height
    ))
    .at(image.name.clone())
    .hint("correct the focal length, or remove the photo from the capture"))
}

/// Accepted ratio of the ideal distance from the axis to that in the photo, near the principal point. The lenses of
/// real cameras have about 1.
const BENDING: std::ops::RangeInclusive<f64> = 0.01..=100.0;

/// Distance from the principal point at which a lens is checked, in units of the photo's longer side.
const NEAR_AXIS: f64 = 0.1;

/// Refuses lenses that show nothing around the principal point, or that bend rays there by more than [`BENDING`].
///
/// # Errors
/// Impossible coefficients; the error names the photo.
pub(super) fn refuse_impossible_lenses(capture: &Capture) -> Result<()> {
    let is_impossible = |image: &&PosedImage| {
        let camera = &image.camera;
        if camera.lens.is_identity() {
            return false;
        }
        let distance = NEAR_AXIS * f64::from(camera.width.max(camera.height).max(1));
        let max_radius = camera.lens.max_radius();
        let bent = |dx: f64, dy: f64| {
            let (x, y) = (dx * distance / camera.fx, dy * distance / camera.fy);
            let ideal = camera.lens.undistort_within(x, y, max_radius);
            !ideal.is_some_and(|(u, v)| BENDING.contains(&(u.hypot(v) / x.hypot(y))))
        };
        bent(1.0, 0.0) && bent(-1.0, 0.0) && bent(0.0, 1.0) && bent(0.0, -1.0)
    };
    let Some(image) = capture.images.iter().find(is_impossible) else {
        return Ok(());
    };
    let coefficients = image.camera.lens.coefficients().iter();
    let coefficients: Vec<String> = coefficients.map(|&k| plain(k)).collect();
    Err(Error::input(format!(
        "the lens of the photo \"{}\" is impossible: {} with {}",
        image.name,
        image.source_model,
        coefficients.join(", ")
    ))
    .at(image.name.clone())
    .hint("correct the distortion coefficients, or remove the photo from the capture"))
}

/// Maximum number of photos that a note names.
const MOST_NAMES: usize = 5;

fn far_off(capture: &Capture) -> Option<String> {
    let region = Region::of_capture(capture, &capture.images);
    let far = region.far_off();
    let (middle, nearest) = (region.middle()?, far.iter().map(|&i| region.centres[i]));
    let nearest = nearest
        .map(|centre| centre.distance(middle))
        .reduce(f64::min)?;
    let name = |&i: &usize| printable(&capture.images[i].name).to_string();
    let mut names: Vec<String> = far.iter().take(MOST_NAMES).map(name).collect();
    if far.len() > MOST_NAMES {
        names.push(format!("and {} more", far.len() - MOST_NAMES));
    }
    let (count, total) = (far.len(), capture.images.len());
    let times = nearest / region.extent();
    let times = match times < 1e6 {
        true => format!("{times:.0}"),
        false => format!("{times:.0e}"),
    };
    Some(format!(
        "{count} of {total} photos {} far off all others ({}), {times} times the extent of the rest or more: their poses \
         are probably wrong. The extent leaves them out, and training uses them; remove them from the capture, or make \
         their poses again",
        if count == 1 { "is" } else { "are" },
        names.join(", "),
    ))
}

fn points_in_one_place(capture: &Capture) -> Option<String> {
    let count = capture.points.len();
    if count < 2 {
        return None;
    }
    let points = || capture.points.iter().map(|p| p.position.map(f64::from));
    let centres = || {
        let images = capture.images.iter();
        images.map(|i| i.camera.camera_from_world.centre().to_array())
    };
    let extent = |positions: &mut dyn Iterator<Item = [f64; 3]>| {
        let mut bounds = [[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]];
        for position in positions {
            for k in 0..3 {
                bounds[0][k] = bounds[0][k].min(position[k]);
                bounds[1][k] = bounds[1][k].max(position[k]);
            }
        }
        (0..3)
            .map(|k| bounds[1][k] - bounds[0][k])
            .fold(0.0, f64::max)
    };
    let (of_points, of_cameras) = (extent(&mut points()), extent(&mut centres()));
    (of_points <= ONE_PLACE * of_cameras).then(|| {
        format!(
            "all {count} sparse points lie in one place: training starts from a heap of Gaussians there; \
             was the reconstruction exported whole?"
        )
    })
}

fn identical_poses(capture: &Capture) -> Option<String> {
    // Comparison by bits: two measurements from a fixed camera differ in the last bits, so equal poses are copies.
    let mut first: HashMap<[u64; 7], &str> = HashMap::new();
    let (mut count, mut example) = (0, None);
    for image in &capture.images {
        let pose = image.camera.camera_from_world;
        let (q, t) = (pose.rotation.to_array(), pose.translation.to_array());
        let mut key = [0; 7];
        for (bits, value) in key.iter_mut().zip(q.iter().chain(&t)) {
            // Zero has two signs.
            *bits = (value + 0.0).to_bits();
        }
        match first.get(&key) {
            None => {
                first.insert(key, &image.name);
            }
            Some(other) => {
                count += 1;
                example.get_or_insert((*other, image.name.as_str()));
            }
        }
    }
    let (a, b) = example?;
    Some(format!(
        "{count} of {} photos have the pose of another, {b} that of {a}: photos from one place tell nothing \
         of depth, and where they show different things their poses are wrong",
        capture.images.len()
    ))
}
