//! Fold test: two similar places that the model puts at one position; cameras inside points.
//!
//! Two identical facades match each other, so that photos of both share points. The surroundings differ: points around
//! the first facade are in the view of cameras at the second, and no such camera observes them.
//!
//! 1. A point is *expected* in a photo if it projects into the image, at a similar distance and from a similar
//!    direction as in a photo that observes it.
//! 2. For each pair of photos, `ratio` is the share of expected points that are observed. Photos are divided into two
//!    groups so that ratios are high inside and low across (leading eigenvector of the ratios minus their mean).
//! 3. A point is *exclusive* if at least three photos of one group observe it, at least three of the other are expected
//!    to, and no photo of the other does. A fold has many exclusive points on both sides; a division of a sound model
//!    has few.
//! 4. Photos from near and from far often match among themselves only: a sound model then has two points for one place.
//!    So a point with a point of the other group next to it is not exclusive. At a fold, the other group sees something
//!    else there.

use super::{Evidence, Finding, Kind};
use crate::model::project;
use crate::photos::{counted, listed};
use dapple_scene::Camera;
use glam::DVec3;
use rayon::prelude::*;
use std::collections::HashMap;

/// Cosine of the largest angle between directions to an expected point: 20 degrees.
const SIMILAR_DIRECTION: f64 = 0.94;

/// Largest ratio of distances to an expected point.
const SIMILAR_DISTANCE: f64 = 1.5;

/// Most photos that are compared; of more, some are used, evenly spread.
const PHOTOS: usize = 250;

/// Most points that are compared.
const POINTS: usize = 20_000;

/// Observations of a point that count.
const LONG_TRACK: usize = 3;

/// Share of exclusive points of a fold, on each side.
const EXCLUSIVE: f64 = 0.25;

/// Distance of two points that may be one place, as a share of the distance to a photo.
const SAME_PLACE: f64 = 0.005;

/// Fewest exclusive points of a fold, on each side.
const FEWEST: usize = 25;

/// Expected and observed points of the compared photos.
struct Views {
    /// Indices of images of the model.
    images: Vec<usize>,
    /// For each point: photos that observe it, and photos that are expected to but do not.
    points: Vec<(Vec<usize>, Vec<usize>)>,
    /// For each point: its position, and the distance of the nearest photo that observes it.
    places: Vec<(DVec3, f64)>,
}

/// Finds a fold.
pub(super) fn fold(evidence: &Evidence<'_>) -> Option<Finding> {
    let views = Views::from_evidence(evidence)?;
    let groups = views.divide()?;
    let [first, second] = [true, false].map(|group| groups.iter().filter(|&&g| g == group).count());
    if first.min(second) < 3 {
        return None;
    }
    // Exclusive points of each group, and points that both observe.
    let (mut candidates, mut common) = ([Vec::new(), Vec::new()], 0usize);
    let count =
        |list: &[usize], group: bool| list.iter().filter(|&&view| groups[view] == group).count();
    for (place, (observed, missed)) in views.points.iter().enumerate() {
        let seen = [true, false].map(|group| count(observed, group));
        let absent = [true, false].map(|group| count(missed, group));
        if seen[0] > 0 && seen[1] > 0 && seen[0] + seen[1] >= LONG_TRACK {
            common += 1;
        }
        for (side, other) in [(0, 1), (1, 0)] {
            if seen[side] >= LONG_TRACK && seen[other] == 0 && absent[other] >= LONG_TRACK {
                candidates[side].push(place);
            }
        }
    }
    let exclusive = [(0, false), (1, true)].map(|(side, other)| {
        let others: Vec<DVec3> = (views.points.iter().zip(&views.places))
            .filter(|((observed, _), _)| count(observed, other) > 0)
            .map(|(_, place)| place.0)
            .collect();
        let is_alone = |&&place: &&usize| {
            let (here, distance) = views.places[place];
            others
                .iter()
                .all(|there| here.distance(*there) > SAME_PLACE * distance)
        };
        candidates[side].par_iter().filter(is_alone).count()
    });
    let is_folded = exclusive
        .iter()
        .all(|&count| count >= FEWEST && count as f64 > EXCLUSIVE * (count + common) as f64);
    let names = |group: bool| -> Vec<String> {
        let members = views
            .images
            .iter()
            .zip(&groups)
            .filter(|(_, g)| **g == group);
        members
            .map(|(&index, _)| evidence.model.images[index].name.clone())
            .collect()
    };
    let (a, b) = (names(true), names(false));
    is_folded.then(|| Finding {
        kind: Kind::Fold,
        what: format!(
            "two similar places may be one in the model: {} ({}) and {} ({}) are at the same position but {} points of \
             one group are in view of the other and unseen",
            counted(a.len()),
            listed(a.iter().map(String::as_str)),
            counted(b.len()),
            listed(b.iter().map(String::as_str)),
            exclusive[0] + exclusive[1]
        ),
        remedy: "make one capture of each place, or shoot photos on the way between both places with the surroundings in view".to_owned(),
        photos: if a.len() < b.len() { a } else { b },
    })
}

impl Views {
    fn from_evidence(evidence: &Evidence<'_>) -> Option<Self> {
        let model = evidence.model;
        let step = model.images.len().div_ceil(PHOTOS).max(1);
        let images: Vec<usize> = (0..model.images.len()).step_by(step).collect();
        let cameras: Vec<Camera> = images
            .iter()
            .map(|&index| evidence.camera(&model.images[index]))
            .collect::<Option<_>>()?;
        let view_of: HashMap<u32, usize> = images
            .iter()
            .enumerate()
            .map(|(view, &index)| (model.images[index].id, view))
            .collect();
        let long: Vec<_> = model
            .points
            .iter()
            .filter(|point| point.track.len() >= LONG_TRACK)
            .collect();
        let step = long.len().div_ceil(POINTS).max(1);
        let sample: Vec<_> = long.into_iter().step_by(step).collect();
        let one = |point: &&crate::model::Point| {
            let mut observed: Vec<usize> = point
                .track
                .iter()
                .filter_map(|(image, _)| view_of.get(image).copied())
                .collect();
            observed.sort_unstable();
            observed.dedup();
            let missed = expected(&cameras, point.position, &observed);
            let away = |&view: &usize| {
                cameras[view]
                    .camera_from_world
                    .centre()
                    .distance(point.position)
            };
            let nearest = observed.iter().map(away).fold(f64::INFINITY, f64::min);
            ((observed, missed), (point.position, nearest))
        };
        let (points, places) = sample.par_iter().map(one).unzip();
        Some(Self {
            images,
            points,
            places,
        })
    }

    /// Divides the photos into two groups; `None` if too few pairs have expected points.
    fn divide(&self) -> Option<Vec<bool>> {
        let count = self.images.len();
        // Observed and expected points of each ordered pair.
        let mut seen: HashMap<(usize, usize), (f64, f64)> = HashMap::new();
        for (observed, missed) in &self.points {
            for &a in observed {
                for &b in observed.iter().filter(|&&b| b != a) {
                    let entry = seen.entry((a.min(b), a.max(b))).or_default();
                    (entry.0, entry.1) = (entry.0 + 0.5, entry.1 + 0.5);
                }
                for &b in missed {
                    seen.entry((a.min(b), a.max(b))).or_default().1 += 1.0;
                }
            }
        }
        let mut ratios: Vec<((usize, usize), f64)> = seen
            .into_iter()
            .filter(|(_, (_, expected))| *expected >= 20.0)
            .map(|(pair, (observed, expected))| (pair, observed / expected))
            .collect();
        ratios.sort_by_key(|(pair, _)| *pair);
        if ratios.len() < count {
            return None;
        }
        let mean = ratios.iter().map(|(_, ratio)| ratio).sum::<f64>() / ratios.len() as f64;
        // The shift makes the matrix positive, so that the power iteration finds the largest eigenvalue.
        let mut shift = vec![0.0; count];
        for &((a, b), ratio) in &ratios {
            shift[a] += (ratio - mean).abs();
            shift[b] += (ratio - mean).abs();
        }
        let shift = shift.iter().copied().fold(0.0, f64::max);
        let mut vector: Vec<f64> = (0..count)
            .map(|i| (1.0 + i as f64 * 0.618_034).sin())
            .collect();
        for _ in 0..300 {
            let mut next: Vec<f64> = vector.iter().map(|value| shift * value).collect();
            for &((a, b), ratio) in &ratios {
                next[a] += (ratio - mean) * vector[b];
                next[b] += (ratio - mean) * vector[a];
            }
            let norm = next
                .iter()
                .map(|value| value * value)
                .sum::<f64>()
                .sqrt()
                .max(1e-300);
            vector = next.into_iter().map(|value| value / norm).collect();
        }
        Some(vector.into_iter().map(|value| value >= 0.0).collect())
    }
}

/// Returns the photos that are expected to observe a point, without those that do.
fn expected(cameras: &[Camera], point: DVec3, observed: &[usize]) -> Vec<usize> {
    let towards = |camera: &Camera| point - camera.camera_from_world.centre();
    let from: Vec<DVec3> = observed
        .iter()
        .map(|&view| towards(&cameras[view]))
        .collect();
    let is_expected = |view: &usize| {
        let camera = &cameras[*view];
        let here = towards(camera);
        let is_near = from.iter().any(|there| {
            let ratio = here.length() / there.length();
            let is_similar = (1.0 / SIMILAR_DISTANCE..SIMILAR_DISTANCE).contains(&ratio);
            is_similar && here.dot(*there) > SIMILAR_DIRECTION * here.length() * there.length()
        });
        is_near && is_inside(camera, point)
    };
    let others = (0..cameras.len()).filter(|view| !observed.contains(view));
    others.filter(is_expected).collect()
}

/// Returns true if a point projects into the image, without a margin of 5 %.
fn is_inside(camera: &Camera, point: DVec3) -> bool {
    let (width, height) = (f64::from(camera.width), f64::from(camera.height));
    project(camera, point).is_some_and(|pixel| {
        (0.05 * width..0.95 * width).contains(&pixel.x)
            && (0.05 * height..0.95 * height).contains(&pixel.y)
    })
}

/// Distance from a camera, as a share of the distance to its points, at which a surface is in its way.
const INSIDE: f64 = 0.04;

/// Points around a camera that make a surface.
const SURFACE: usize = 20;

/// Finds cameras inside points that they do not observe.
pub(super) fn inside(evidence: &Evidence<'_>) -> Option<Finding> {
    let one = |image: &crate::model::Image| {
        let centre = image.pose.centre();
        let mut distances: Vec<f64> = evidence
            .observed(image)
            .map(|(index, _)| evidence.model.points[index].position.distance(centre))
            .collect();
        distances.sort_by(f64::total_cmp);
        let reach = INSIDE * distances.get(distances.len() / 2)?;
        let around = evidence.model.points.iter().filter(|point| {
            point.position.distance(centre) < reach
                && point.track.len() >= LONG_TRACK
                && point.track.iter().all(|(id, _)| *id != image.id)
        });
        (around.count() >= SURFACE).then(|| image.name.clone())
    };
    let photos: Vec<String> = evidence.model.images.par_iter().filter_map(one).collect();
    (!photos.is_empty()).then(|| Finding {
        kind: Kind::CameraInside,
        what: format!(
            "{} {} inside points of other photos: {}",
            counted(photos.len()),
            if photos.len() == 1 { "is" } else { "are" },
            listed(photos.iter().map(String::as_str))
        ),
        remedy: format!(
            "open the report: if the cameras around {} are at the wrong place, remove these photos",
            photos[0]
        ),
        photos,
    })
}
