//! Known depths of the views of a run.
//!
//! From points, for each photo:
//! 1. Every sparse point that was found in the photo gives a depth at its projection (Deng et al. 2022,
//!    "Depth-supervised NeRF"). Its weight depends on the quality of its triangulation: exp(-(e / mean e)^2) with e its
//!    mean reprojection error.
//!
//! From images, for each photo:
//! 1. A metric image gives the depth of every pixel with a value above zero.
//! 2. A relative image is an inverse depth of unknown scale and shift, as monocular estimators compute it. Scale and
//!    shift are fitted to the photo's points by least squares on inverse depth, without points whose residual is above
//!    [`OUTLIER`] times the median.
//!
//! In both:
//! - Depths beyond the scene's extent, the region that the cameras move in, have a lower weight, by extent / depth: the
//!   relative error of a depth grows by the inverse of this factor.
//! - Masked pixels give no depth. If several depths fall on a pixel, the one with the largest weight is taken.
//! - A photo's weights add up to 1, so that the loss is a mean.

use crate::TrainConfig;
use crate::config::{DepthConfig, DepthSource};
use dapple_base::quantiles;
use dapple_engine::DepthSample;
use dapple_scene::{Camera, Dataset, DepthMap, Error, Rays, Result, View};
use glam::DVec3;
use std::collections::BTreeMap;

/// Fewest points for a fit of scale and shift.
const FEWEST_POINTS: usize = 8;

/// A fit excludes points whose residual is above this many median residuals.
const OUTLIER: f64 = 3.0;

/// Number of times that a fit selects its outliers again.
const REFITS: u32 = 4;

/// Value of an image, inverse depth of a point, weight.
type Pair = (f64, f64, f64);

/// A sparse point in a photo.
#[derive(Debug, Clone, Copy)]
struct Seen {
    pixel: usize,
    depth: f64,
    weight: f64,
}

/// Returns samples of known depth for each of the `views`, indices into the capture, and notes to the user.
///
/// # Errors
/// The capture lacks the depths that the configuration requires.
pub(super) fn supervision(
    dataset: &Dataset,
    views: &[usize],
    extent: f64,
    config: &TrainConfig,
) -> Result<(Vec<Vec<DepthSample>>, Vec<String>)> {
    let depth = &config.depth;
    if depth.from == DepthSource::None {
        return Ok((Vec::new(), Vec::new()));
    }
    let needs_points = depth.from == DepthSource::Points || depth.relative;
    let points = match needs_points {
        true => points_of_views(dataset, f64::from(config.near_plane()))?,
        false => vec![Vec::new(); dataset.views.len()],
    };
    let mut unfitted = 0;
    let mut out = Vec::with_capacity(views.len());
    for &view in views {
        let (view, points) = (&dataset.views[view], &points[view]);
        let known = match depth.from {
            DepthSource::Images => {
                let known = of_image(view, points, depth);
                unfitted += usize::from(known.is_none());
                known.unwrap_or_default()
            }
            _ => points.clone(),
        };
        out.push(samples(view, &known, extent)?);
    }
    let with = out.iter().filter(|samples| !samples.is_empty()).count();
    let total: usize = out.iter().map(Vec::len).sum();
    if total == 0 {
        return Err(nothing_known(depth));
    }
    let mut notes = vec![format!(
        "depths of {with} of {} photos are known from {}: {} pixels in each on average",
        views.len(),
        depth.from,
        total / with.max(1)
    )];
    if unfitted > 0 {
        notes.push(format!(
            "{unfitted} photos have no depth image, or one that fits no scale to their points"
        ));
    }
    Ok((out, notes))
}

fn nothing_known(depth: &DepthConfig) -> Error {
    match depth.from {
        DepthSource::Images => Error::input("no photo has a depth image that can be used").hint(
            "name their folder with --depths: files of the photos' names, .exr or 16-bit .png; \
             relative ones need sparse points to be fitted to",
        ),
        _ => Error::input("no sparse point was found in any of the photos")
            .hint("omit --depth-from, or reconstruct the capture again"),
    }
}

/// Returns the points of every view.
fn points_of_views(dataset: &Dataset, near: f64) -> Result<Vec<Vec<Seen>>> {
    let Some(tracks) = &dataset.tracks else {
        return Err(Error::input(
            "the capture does not say which photos its sparse points were found in",
        )
        .hint("depths from points, and relative depth images, need a COLMAP model (sparse/)"));
    };
    let sound = |e: &f32| e.is_finite() && *e > 0.0;
    let errors: Vec<f64> = tracks
        .errors()
        .iter()
        .copied()
        .filter(sound)
        .map(f64::from)
        .collect();
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let trust = |error: f32| match sound(&error) && mean > 0.0 {
        true => (-(f64::from(error) / mean).powi(2)).exp(),
        // Without a reprojection error the weight is 1.
        false => 1.0,
    };
    let seen = tracks.points_of_photos(dataset.views.len());
    let of_view = |(view, points): (&View, &Vec<u32>)| {
        let rays = Rays::new(&view.camera);
        let points = points.iter().filter_map(|&point| {
            let at = dataset.points.get(point as usize)?.position.map(f64::from);
            let seen = see(&view.camera, &rays, DVec3::from(at), near)?;
            let weight = trust(tracks.errors()[point as usize]);
            Some(Seen { weight, ..seen })
        });
        points.collect()
    };
    Ok(dataset.views.iter().zip(&seen).map(of_view).collect())
}

/// Projects a place into a camera. `None` if the place is nearer than `near`, or if the lens does not show it.
fn see(camera: &Camera, rays: &Rays, place: DVec3, near: f64) -> Option<Seen> {
    let point = camera.camera_from_world.transform(place);
    let depth = rays.depth(point);
    if depth.is_nan() || depth <= near {
        return None;
    }
    let pixel = rays.pixel(point)?;
    camera.frames(pixel).then_some(Seen {
        pixel: pixel.y as usize * camera.width as usize + pixel.x as usize,
        depth,
        weight: 1.0,
    })
}

/// Returns the depths of a view's depth image. `None` if it has no image, or if its scale cannot be found.
fn of_image(view: &View, points: &[Seen], config: &DepthConfig) -> Option<Vec<Seen>> {
    let map = view.depth.as_deref()?;
    let unit = if map.has_steps { config.unit } else { 1.0 };
    let inverse: Box<dyn Fn(f64) -> f64> = if config.relative {
        let (scale, shift) = fit(map, points)?;
        Box::new(move |value| scale * value + shift)
    } else {
        Box::new(move |value| 1.0 / (value * unit))
    };
    let values = map.values.iter().enumerate();
    let known = values.filter(|(_, v)| v.is_finite() && **v > 0.0);
    let seen = known.filter_map(|(pixel, &value)| {
        let depth = 1.0 / inverse(f64::from(value));
        (depth > 0.0 && depth.is_finite()).then_some(Seen {
            pixel,
            depth,
            weight: 1.0,
        })
    });
    Some(seen.collect())
}

/// Fits scale and shift that map a relative image's values to the inverse depths of points.
///
/// An estimator can be completely wrong in parts of an image, and such values have leverage. So the first line comes
/// from medians and median deviations (Ranftl et al. 2022, "Towards Robust Monocular Depth Estimation"). Each next line
/// comes from least squares over the points near the line before.
fn fit(map: &DepthMap, points: &[Seen]) -> Option<(f64, f64)> {
    let pair = |seen: &Seen| {
        let value = f64::from(*map.values.get(seen.pixel)?);
        let known = value.is_finite() && value > 0.0;
        known.then_some((value, 1.0 / seen.depth, seen.weight))
    };
    let pairs: Vec<Pair> = points.iter().filter_map(pair).collect();
    if pairs.len() < FEWEST_POINTS {
        return None;
    }
    let centre = |f: &dyn Fn(&Pair) -> f64| median(pairs.iter().map(f).collect());
    let (value, inverse) = (centre(&|p| p.0), centre(&|p| p.1));
    let spread = centre(&|p| (p.1 - inverse).abs()) / centre(&|p| (p.0 - value).abs());
    let mut line = (spread, inverse - spread * value);
    for _ in 0..REFITS {
        let (scale, shift) = line;
        let off = |p: &Pair| (scale * p.0 + shift - p.1).abs();
        let most = OUTLIER * centre(&off);
        let near = pairs.iter().filter(|p| off(p) <= most);
        line = least_squares(&near.copied().collect::<Vec<_>>())?;
    }
    // A larger value is nearer, or the image is not an inverse depth.
    (line.0 > 0.0).then_some(line)
}

/// Returns the median; 0 without values.
fn median(values: Vec<f64>) -> f64 {
    quantiles::median(values).unwrap_or_default()
}

/// Returns the line through weighted pairs.
fn least_squares(pairs: &[Pair]) -> Option<(f64, f64)> {
    if pairs.len() < FEWEST_POINTS {
        return None;
    }
    let sum = |f: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|&(x, y, w)| w * f(x, y)).sum::<f64>();
    let weight = sum(&|_, _| 1.0);
    let (x, y) = (sum(&|x, _| x) / weight, sum(&|_, y| y) / weight);
    let spread = sum(&|a, _| (a - x) * (a - x));
    let scale = sum(&|a, b| (a - x) * (b - y)) / spread;
    let shift = y - scale * x;
    (scale.is_finite() && shift.is_finite()).then_some((scale, shift))
}

/// Returns the known depths as samples for an engine.
///
/// # Errors
/// The photo, which holds the mask, cannot be read.
fn samples(view: &View, known: &[Seen], extent: f64) -> Result<Vec<DepthSample>> {
    if known.is_empty() {
        return Ok(Vec::new());
    }
    let photo = view.photo.read()?;
    let mask = photo.mask.as_ref();
    let mut by_pixel: BTreeMap<usize, Seen> = BTreeMap::new();
    for seen in known {
        if mask.is_some_and(|mask| mask[seen.pixel] < 128) {
            continue;
        }
        let seen = Seen {
            weight: seen.weight * (extent / seen.depth).min(1.0),
            ..*seen
        };
        let most = by_pixel.entry(seen.pixel).or_insert(seen);
        if seen.weight > most.weight {
            *most = seen;
        }
    }
    let total: f64 = by_pixel.values().map(|seen| seen.weight).sum();
    let sample = |seen: &Seen| DepthSample {
        pixel: seen.pixel as u32,
        inverse_depth: (1.0 / seen.depth) as f32,
        weight: (seen.weight / total) as f32,
    };
    let sound = |s: &DepthSample| s.inverse_depth.is_finite() && s.weight > 0.0;
    Ok(by_pixel.values().map(sample).filter(sound).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_scene::{Lens, Pose};
    use dapple_synth::{self as synth, SynthOptions};
    use std::sync::Arc;

    fn capture() -> (Dataset, Vec<Vec<f32>>) {
        let options = SynthOptions {
            photos: 6,
            width: 64,
            height: 48,
            points: 600,
            point_noise: 0.0,
            ..SynthOptions::default()
        };
        (
            synth::dataset(&options).unwrap(),
            synth::depths(&options).unwrap(),
        )
    }

    fn config(source: DepthSource, relative: bool) -> TrainConfig {
        let mut config = TrainConfig::default();
        config.depth.from = source;
        config.depth.relative = relative;
        config
    }

    /// Returns the share of the samples within this relative distance of the true depth of their pixel.
    fn right(samples: &[DepthSample], truth: &[f32], within: f32) -> f64 {
        let is_right =
            |s: &&DepthSample| (truth[s.pixel as usize] * s.inverse_depth - 1.0).abs() < within;
        samples.iter().filter(is_right).count() as f64 / samples.len() as f64
    }

    #[test]
    fn points_say_the_depth_of_the_pixels_they_land_in() {
        let (dataset, truth) = capture();
        let config = config(DepthSource::Points, false);
        let (all, notes) = supervision(&dataset, &[1, 4], 3.0, &config).unwrap();
        assert_eq!((all.len(), notes.len()), (2, 1));
        for (samples, truth) in all.iter().zip([&truth[1], &truth[4]]) {
            assert!(samples.len() > 50, "{}", samples.len());
            // A point can be off the ray through the pixel's centre.
            assert!(right(samples, truth, 0.05) > 0.8);
            let total: f32 = samples.iter().map(|s| s.weight).sum();
            assert!((total - 1.0).abs() < 1e-4);
            let ascending = samples.windows(2).all(|p| p[0].pixel < p[1].pixel);
            assert!(ascending);
        }
    }

    /// A place is visible where its ray comes through the lens, and nowhere beyond the reach of the lens.
    #[test]
    fn places_are_seen_through_the_lens() {
        let mut camera = Camera::pinhole(80, 60, 40.0, Pose::IDENTITY);
        // (0.8, 0, 1) to x = 0.8 (1 - 0.25 0.64), which is pixel 66.88; without a lens, 72.
        camera.lens = Lens::Radial([-0.25, 0.0]);
        let rays = Rays::new(&camera);
        let place = |slope: f64| DVec3::new(2.0 * slope, 0.0, 2.0);
        let seen = see(&camera, &rays, place(0.8), 0.01).unwrap();
        assert_eq!((seen.pixel, seen.depth), (30 * 80 + 66, 2.0));
        // The polynomial has folded back: 1.8 (1 - 0.81) is in the middle of the image again.
        assert!(see(&camera, &rays, place(1.8), 0.01).is_none());
        assert!(see(&camera, &rays, place(0.8), 2.5).is_none());
        assert!(see(&camera, &rays, -place(0.8), 0.01).is_none());
    }

    /// Far depths and badly triangulated points have lower weights, and of two depths in a pixel the heavier is taken.
    #[test]
    fn depths_count_by_how_much_they_say() {
        let (mut dataset, _) = capture();
        let seen = |pixel, depth, weight| Seen {
            pixel,
            depth,
            weight,
        };
        let known = [seen(9, 2.0, 0.1), seen(9, 3.0, 0.8), seen(5, 12.0, 0.8)];
        let found = samples(&dataset.views[0], &known, 3.0).unwrap();
        // At four extents the weight is a quarter of 0.8, compared with 0.8.
        let rows: Vec<_> = found
            .iter()
            .map(|s| (s.pixel, s.inverse_depth, s.weight))
            .collect();
        assert_eq!(rows, [(5, 1.0 / 12.0, 0.2), (9, 1.0 / 3.0, 0.8)]);

        // Three points in front of the first camera; their errors are 1, 2 and unknown, 1.5 in the mean.
        let pose = dataset.views[0].camera.camera_from_world;
        let before = |x: f64| {
            let place = pose.rotation.conjugate() * (DVec3::new(x, 0.0, 2.0) - pose.translation);
            dapple_scene::Point {
                position: place.as_vec3().to_array(),
                rgb: [0; 3],
            }
        };
        dataset.points = [-0.1, 0.0, 0.1].map(before).to_vec();
        let mut tracks = dapple_scene::Tracks::default();
        for error in [1.0, 2.0, -1.0] {
            tracks.push(error, [0]);
        }
        dataset.tracks = Some(tracks);
        let points = points_of_views(&dataset, 0.01).unwrap();
        let expected = [1.0 / 1.5f64, 2.0 / 1.5].map(|e| (-e * e).exp());
        let weights: Vec<f64> = points[0].iter().map(|seen| seen.weight).collect();
        assert_eq!(weights.len(), 3);
        for (weight, expected) in weights.iter().zip([expected[0], expected[1], 1.0]) {
            assert!((weight - expected).abs() < 1e-6, "{weights:?}");
        }
    }

    #[test]
    fn masked_pixels_say_nothing() {
        let (mut dataset, _) = capture();
        let mut photo = (*dataset.views[0].photo.read().unwrap()).clone();
        photo.mask = Some(
            (0..64 * 48)
                .map(|i| if i % 64 < 32 { 0 } else { 255 })
                .collect(),
        );
        dataset.views[0].photo = photo.into();
        let config = config(DepthSource::Points, false);
        let (all, _) = supervision(&dataset, &[0], 3.0, &config).unwrap();
        assert!(!all[0].is_empty() && all[0].iter().all(|s| s.pixel % 64 >= 32));
    }

    #[test]
    fn relative_images_are_fitted_to_the_points_despite_outliers() {
        let (mut dataset, truth) = capture();
        let view = |values: Vec<f32>, has_steps| Some(Arc::new(DepthMap { values, has_steps }));
        // Scale and shift of an estimator, and a part of the image where it is completely wrong.
        let wrong = |i: usize| i % 64 < 12;
        let value = |(i, z): (usize, &f32)| if wrong(i) { 900.0 } else { 40.0 / z + 7.0 };
        dataset.views[2].depth = view(truth[2].iter().enumerate().map(value).collect(), true);
        // Grows with the distance: no inverse depth.
        dataset.views[3].depth = view(truth[3].clone(), false);
        let config = config(DepthSource::Images, true);
        let (all, notes) = supervision(&dataset, &[2, 3], 3.0, &config).unwrap();
        let good: Vec<DepthSample> = all[0]
            .iter()
            .filter(|s| !wrong(s.pixel as usize))
            .copied()
            .collect();
        assert!(good.len() > 2000 && right(&good, &truth[2], 0.01) > 0.99);
        assert!(all[1].is_empty());
        assert_eq!(notes.len(), 2, "{notes:?}");
    }

    #[test]
    fn metric_images_count_in_their_unit() {
        let (mut dataset, truth) = capture();
        let steps = truth[0].iter().map(|z| (z * 500.0).round()).collect();
        dataset.views[0].depth = Some(Arc::new(DepthMap {
            values: steps,
            has_steps: true,
        }));
        let mut config = config(DepthSource::Images, false);
        config.depth.unit = 0.002;
        // Numbers with a point are depths already.
        dataset.views[1].depth = Some(Arc::new(DepthMap {
            values: truth[1].clone(),
            has_steps: false,
        }));
        let (all, _) = supervision(&dataset, &[0, 1], 3.0, &config).unwrap();
        for (samples, truth) in all.iter().zip(&truth) {
            assert!(right(samples, truth, 0.01) > 0.99 && samples.len() > 3000);
        }
    }

    #[test]
    fn captures_that_know_nothing_are_refused() {
        let (mut dataset, _) = capture();
        let images = config(DepthSource::Images, false);
        assert!(supervision(&dataset, &[0], 3.0, &images).is_err());
        dataset.tracks = None;
        let error = supervision(&dataset, &[0], 3.0, &config(DepthSource::Points, false));
        assert!(error.unwrap_err().hint_text().is_some());
    }
}
