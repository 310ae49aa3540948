//! Compares cameras and sparse points by colour, to find contradictions. Used if tracks do not name the photos that
//! observed a point, and enough points project into photos by chance.
//!
//! 1. Sampled points are projected into some photos. The nearest of several close points counts, because it hides the
//!    others.
//! 2. The brightness of points and of the pixels at their projections correlates in correct captures.
//! 3. If there is no correlation, other readings of the file are tried. A note needs a reading that correlates well, so
//!    photos and points whose colours differ for other reasons give no note.

use super::geometry::{CONTRADICTION, spread};
use super::readings::{Probe, Reading, readings};
use crate::{Camera, Dataset, Photo};
use glam::DVec3;
use std::collections::HashMap;
use std::sync::Arc;

/// Number of sampled photos and points.
const PHOTOS: usize = 6;
const POINTS: usize = 4096;

/// Cells along a photo's longer side in which the nearest point hides the others.
const CELLS: f64 = 64.0;

/// A photo with fewer visible points is not used.
const LEAST_POINTS: usize = 32;

/// Standard deviation of brightness, of 255, below which colours are not compared.
const LEAST_CONTRAST: f64 = 4.0;

/// Correlation below which the file is suspect, and above which another reading is accepted.
const DOUBTED: f64 = 0.2;
const BELIEVED: f64 = 0.5;

/// Returns the note on points whose colours differ from those of the photos.
pub(super) fn note(dataset: &Dataset) -> Option<String> {
    let is_known = dataset
        .notes
        .iter()
        .any(|note| note.starts_with(CONTRADICTION));
    if is_known || dataset.points.len() < LEAST_POINTS || has_tracks(dataset) {
        return None;
    }
    let points: Vec<(DVec3, f64)> = spread(dataset.points.len(), POINTS)
        .map(|i| &dataset.points[i])
        .map(|point| {
            (
                DVec3::from(point.position.map(f64::from)),
                brightness(point.rgb),
            )
        })
        .collect();
    if deviation(points.iter().map(|(_, light)| *light)) < LEAST_CONTRAST {
        return None;
    }
    let views = spread(dataset.views.len(), PHOTOS).map(|i| &dataset.views[i]);
    let photos: Vec<(Camera, Arc<Photo>)> = views
        .filter_map(|view| Some((view.camera, view.photo.read().ok()?)))
        .collect();
    let given = correlation(&photos, &points, &Reading::given());
    if given.is_some_and(|given| given >= DOUBTED) {
        return None;
    }
    let is_colmap = dataset.tracks.is_some();
    let mut best: Option<(f64, Reading)> = None;
    for reading in readings(is_colmap) {
        let Some(found) = correlation(&photos, &points, &reading) else {
            continue;
        };
        // Simple causes have priority: another must fit clearly better.
        let is_better = best.is_none_or(|(most, _)| found > most + 0.05);
        if found >= BELIEVED && is_better {
            best = Some((found, reading));
        }
    }
    let (found, reading) = best?;
    let given = given.unwrap_or(0.0);
    Some(format!(
        "{CONTRADICTION}: the colours of points are not those of the photos where they fall (correlation \
         {given:.2}), with {} they are ({found:.2}): {}",
        reading.what(),
        reading.cause()
    ))
}

fn has_tracks(dataset: &Dataset) -> bool {
    let Some(tracks) = &dataset.tracks else {
        return false;
    };
    let mut sampled = spread(tracks.len(), 256);
    sampled.any(|point| !tracks.photos_of(point).is_empty())
}

fn brightness([r, g, b]: [u8; 3]) -> f64 {
    0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b)
}

fn deviation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    (values.map(|v| (v - mean).powi(2)).sum::<f64>() / count).sqrt()
}

/// Returns the mean correlation over the photos; `None` if most photos show too few points.
fn correlation(
    photos: &[(Camera, Arc<Photo>)],
    points: &[(DVec3, f64)],
    reading: &Reading,
) -> Option<f64> {
    let each = photos
        .iter()
        .filter_map(|(camera, photo)| in_photo(&Probe::new(camera, reading), photo, points));
    let (count, sum) = each.fold((0usize, 0.0), |(count, sum), r| (count + 1, sum + r));
    (count > 0 && 3 * count >= 2 * photos.len()).then(|| sum / count as f64)
}

fn in_photo(probe: &Probe, photo: &Photo, points: &[(DVec3, f64)]) -> Option<f64> {
    let cell = f64::from(photo.width.max(photo.height)) / CELLS;
    let mut nearest: HashMap<(u32, u32), (f64, f64, f64)> = HashMap::new();
    for &(point, light) in points {
        let projected = probe.project(point);
        let Some(pixel) = projected.inside else {
            continue;
        };
        let (x, y) = (pixel.x as usize, pixel.y as usize);
        let at = y * photo.width as usize + x;
        let is_hidden = |plane: &Option<Vec<u8>>| {
            plane
                .as_ref()
                .and_then(|p| p.get(at))
                .is_some_and(|&v| v < 128)
        };
        let Some(&[r, g, b]) = photo.rgb.as_chunks::<3>().0.get(at) else {
            continue;
        };
        if is_hidden(&photo.mask) || is_hidden(&photo.alpha) {
            continue;
        }
        let key = ((pixel.x / cell) as u32, (pixel.y / cell) as u32);
        let seen = (projected.depth, light, brightness([r, g, b]));
        let held = nearest.entry(key).or_insert(seen);
        if seen.0 < held.0 {
            *held = seen;
        }
    }
    if nearest.len() < LEAST_POINTS {
        return None;
    }
    let mut keys: Vec<_> = nearest.into_iter().collect();
    // Sums are computed in a fixed order.
    keys.sort_by_key(|(key, _)| *key);
    let pairs = keys.iter().map(|(_, (_, a, b))| (*a, *b));
    pearson(pairs)
}

fn pearson(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
    let count = pairs.clone().count() as f64;
    let mean_a = pairs.clone().map(|(a, _)| a).sum::<f64>() / count;
    let mean_b = pairs.clone().map(|(_, b)| b).sum::<f64>() / count;
    let product = |f: fn(f64, f64) -> f64| {
        let terms = pairs.clone().map(|(a, b)| f(a - mean_a, b - mean_b));
        terms.sum::<f64>() / count
    };
    let (ab, aa, bb) = (
        product(|a, b| a * b),
        product(|a, _| a * a),
        product(|_, b| b * b),
    );
    // A plain photo and points of one colour have no contrast to compare.
    let least = LEAST_CONTRAST * LEAST_CONTRAST;
    (aa >= least && bb >= least).then(|| ab / (aa * bb).sqrt())
}

#[cfg(test)]
mod tests;
