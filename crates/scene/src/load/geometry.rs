//! Compares cameras and sparse points, to find contradictions.
//!
//! 1. Intrinsics need no points. A principal point far from the photo's centre in both directions belongs to photos of
//!    another size, and some angles of view are impossible.
//! 2. Sampled points are projected into sampled cameras: into those that observed them if tracks are known, else into
//!    all. Photos of a correct capture show nearly all points that they observed, and at least some of all points.
//! 3. If they do not, other readings of the file are tried ([`Reading`]): other axes, inverted poses, rotated points,
//!    another photo size. A reading that fits is named as the likely cause.
//! 4. If the file has observations, the median distance between them and the projections is checked, after a common
//!    scale. Files with observations of the original photos are common and harmless.
//!
//! Samples are evenly spread and limited, so the check takes milliseconds for any size of capture.

use super::readings::{Kind, Probe, Reading, readings};
use crate::{Camera, Capture, Lens, Rays};
use dapple_base::quantiles;
use glam::{DVec2, DVec3};
use std::collections::HashMap;

/// Beginning of every note of this module, and of the check by colours.
pub(super) const CONTRADICTION: &str = "cameras and sparse points contradict each other";

/// Samples for the file as given.
const CAMERAS: usize = 48;
const POINTS: usize = 4096;
/// Samples for other readings.
const FEW_CAMERAS: usize = 24;
const FEW_POINTS: usize = 1024;

/// Minimum number of points for a contradiction.
const LEAST_POINTS: usize = 24;

/// Photos of a track that are used, at most.
const PHOTOS_OF_TRACK: usize = 4;

/// Ratio of principal points from which they belong to photos of another size.
const LARGER: f64 = 1.5;

/// Impossible angles of view, degrees; lenses with distortion may exceed the larger.
const NARROWEST: f64 = 0.5;
const WIDEST: f64 = 160.0;

/// Residuals above this part of the photo's diagonal contradict: those of correct captures are below 0.002.
const RESIDUAL: f64 = 0.03;

/// Returns the note on a capture whose poses, intrinsics and points do not match.
pub(super) fn note(capture: &Capture) -> Option<String> {
    of_intrinsics(capture)
        .or_else(|| of_points(capture))
        .or_else(|| of_observations(capture))
        .or_else(|| all_behind(capture))
}

/// Checks points that are too few for [`of_points`]: returns a note if none is in front of a camera.
fn all_behind(capture: &Capture) -> Option<String> {
    let points = spread(capture.points.len(), POINTS).map(|i| position(capture, i));
    let mut cameras = spread(capture.images.len(), CAMERAS).map(|i| &capture.images[i].camera);
    let sees = |camera: &Camera| {
        let rays = Rays::new(camera);
        let mut points = points.clone();
        points.any(|point| rays.depth(camera.camera_from_world.transform(point)) > 0.0)
    };
    let is_behind = !capture.points.is_empty() && !capture.images.is_empty();
    (is_behind && !cameras.any(sees)).then(|| {
        format!(
            "{CONTRADICTION}: no sparse point is in front of a camera; the poses may be inverted, or have other axes than \
             the file's format"
        )
    })
}

/// Formats a share: "1 of 16 photos".
fn share(count: usize, of: usize) -> String {
    if count == of {
        "all photos".to_owned()
    } else {
        format!("{count} of {of} photos")
    }
}

fn of_intrinsics(capture: &Capture) -> Option<String> {
    let total = capture.images.len();
    let cameras = || capture.images.iter().map(|image| &image.camera);
    let scaled: Vec<(f64, &Camera)> = cameras()
        .filter_map(|camera| Some((size_ratio(camera)?, camera)))
        .collect();
    if let Some((ratio, camera)) = scaled.first().filter(|_| 2 * scaled.len() >= total) {
        let (more, by) = match *ratio > 1.0 {
            true => ("larger", *ratio),
            false => ("smaller", 1.0 / ratio),
        };
        return Some(format!(
            "the principal point ({:.0}, {:.0}) of {} is far from the centre of a photo of {}x{} pixels: focal \
             length and centre (fl_x, cx, cy) seem to be of photos {by:.1} times {more}; give the size (w, h) \
             that they belong to, or scale them",
            camera.cx,
            camera.cy,
            share(scaled.len(), total),
            camera.width,
            camera.height
        ));
    }
    let is_outside = |camera: &&Camera| {
        let (w, h) = (f64::from(camera.width), f64::from(camera.height));
        !(0.0..=w).contains(&camera.cx) || !(0.0..=h).contains(&camera.cy)
    };
    let outside = cameras().filter(is_outside).count();
    if 2 * outside > total {
        return Some(format!(
            "the principal point (cx, cy) of {} lies outside of the photo: were the photos resized or cropped \
             after the cameras were found?",
            share(outside, total)
        ));
    }
    let across = |size: u32, focal: f64| 2.0 * (0.5 * f64::from(size) / focal).atan().to_degrees();
    // The direction whose angle is further from the usual.
    let angle = |camera: &Camera| {
        let x = across(camera.width, camera.fx);
        let y = across(camera.height, camera.fy);
        if x.min(y) < NARROWEST {
            x.min(y)
        } else {
            x.max(y)
        }
    };
    let is_bent = |camera: &Camera| {
        let lens = camera.lens;
        !matches!(
            lens,
            Lens::Pinhole | Lens::Radial(_) | Lens::OpenCv(_) | Lens::FullOpenCv(_)
        )
    };
    let absurd = |camera: &&Camera| {
        let angle = angle(camera);
        angle < NARROWEST || angle > WIDEST && !is_bent(camera)
    };
    let count = cameras().filter(absurd).count();
    let first = cameras().find(absurd)?;
    Some(format!(
        "the angle of view of {} is {} degrees (focal length {} x {} pixels, photo {}x{}): is the focal length of another \
         photo size, or in millimetres?",
        share(count, total),
        short(angle(first)),
        short(first.fx),
        short(first.fy),
        first.width,
        first.height
    ))
}

/// Formats a number for display, without long runs of zeros.
fn short(value: f64) -> String {
    match (0.01..1e6).contains(&value) {
        true => format!("{value:.1}"),
        false => format!("{value:.1e}"),
    }
}

/// Returns the ratio between the photo whose centre is the principal point and this photo, if they differ.
fn size_ratio(camera: &Camera) -> Option<f64> {
    let x = 2.0 * camera.cx / f64::from(camera.width);
    let y = 2.0 * camera.cy / f64::from(camera.height);
    let agree = x > 0.0 && y > 0.0 && (x / y - 1.0).abs() < 0.15;
    let ratio = 0.5 * (x + y);
    (agree && !(1.0 / LARGER..=LARGER).contains(&ratio)).then_some(ratio)
}

/// Returns the indices of at most `most` of `count` things, evenly spread.
pub(super) fn spread(count: usize, most: usize) -> impl Iterator<Item = usize> + Clone {
    let taken = count.min(most);
    (0..taken).map(move |i| i * count / taken.max(1))
}

/// Cameras with the points to project into each.
struct Sample<'a> {
    cameras: Vec<(&'a Camera, Vec<DVec3>)>,
    /// True if the points are those that the camera's photo observed.
    is_tracked: bool,
}

impl<'a> Sample<'a> {
    fn draw(capture: &'a Capture, cameras: usize, points: usize) -> Self {
        Self::tracked(capture, points).unwrap_or_else(|| Self::all(capture, cameras, points))
    }

    fn all(capture: &'a Capture, cameras: usize, points: usize) -> Self {
        let chosen = spread(capture.points.len(), points).map(|i| position(capture, i));
        let chosen: Vec<DVec3> = chosen.collect();
        let cameras = spread(capture.images.len(), cameras);
        Self {
            cameras: cameras
                .map(|i| (&capture.images[i].camera, chosen.clone()))
                .collect(),
            is_tracked: false,
        }
    }

    /// Returns `None` if tracks are absent, or name so few photos that they are placeholders.
    fn tracked(capture: &'a Capture, points: usize) -> Option<Self> {
        let tracks = capture.tracks.as_ref()?;
        let index: HashMap<u32, usize> = capture
            .images
            .iter()
            .map(|image| image.id)
            .zip(0..)
            .collect();
        let mut of_image: HashMap<usize, Vec<DVec3>> = HashMap::new();
        for point in spread(tracks.len().min(capture.points.len()), points) {
            let photos = tracks.photos_of(point);
            for place in spread(photos.len(), PHOTOS_OF_TRACK) {
                // A different place for each point, so that all photos are named.
                let place = (place + point) % photos.len();
                if let Some(&image) = index.get(&photos[place]) {
                    of_image
                        .entry(image)
                        .or_default()
                        .push(position(capture, point));
                }
            }
        }
        let pairs: usize = of_image.values().map(Vec::len).sum();
        let enough =
            2 * of_image.len() >= capture.images.len().min(points) && pairs >= LEAST_POINTS;
        let mut cameras: Vec<_> = of_image.into_iter().collect();
        cameras.sort_by_key(|(image, _)| *image);
        enough.then(|| Self {
            cameras: cameras
                .into_iter()
                .map(|(image, points)| (&capture.images[image].camera, points))
                .collect(),
            is_tracked: true,
        })
    }

    fn fit(&self, reading: &Reading) -> Fit {
        let mut fit = Fit::default();
        for (camera, points) in &self.cameras {
            let probe = Probe::new(camera, reading);
            let mut inside = 0;
            for point in points {
                let projected = probe.project(*point);
                fit.front += usize::from(projected.is_in_front);
                inside += usize::from(projected.inside.is_some());
            }
            fit.pairs += points.len();
            fit.inside += inside;
            fit.cameras += 1;
            fit.seeing += usize::from(inside > 0);
        }
        fit
    }
}

fn position(capture: &Capture, point: usize) -> DVec3 {
    DVec3::from(capture.points[point].position.map(f64::from))
}

/// Statistics of points projected into photos.
#[derive(Debug, Clone, Copy, Default)]
struct Fit {
    pairs: usize,
    front: usize,
    inside: usize,
    cameras: usize,
    /// Number of cameras that see at least one point.
    seeing: usize,
}

impl Fit {
    fn share(count: usize, of: usize) -> f64 {
        count as f64 / of.max(1) as f64
    }

    fn inside(&self) -> f64 {
        Self::share(self.inside, self.pairs)
    }

    fn seeing(&self) -> f64 {
        Self::share(self.seeing, self.cameras)
    }

    /// Returns true if a correct capture cannot have these statistics.
    fn contradicts(&self, is_tracked: bool) -> bool {
        match is_tracked {
            true => self.inside() < 0.6,
            false => self.seeing() < 0.6,
        }
    }

    /// Returns true if all visible points may be visible by chance.
    fn is_poor(&self) -> bool {
        self.inside() < 0.12
    }

    /// Returns true if another reading explains the contradictions of this one.
    fn explains(&self, given: &Self, is_tracked: bool, contradicts: bool) -> bool {
        let (inside, seeing) = (self.inside(), self.seeing());
        match (is_tracked, contradicts) {
            (true, _) => inside > 0.8 && inside > given.inside() + 0.3,
            (false, true) => seeing > 0.9 && inside > 3.0 * given.inside() + 0.02,
            (false, false) => seeing > 0.95 && inside > 0.5 && inside > 5.0 * given.inside(),
        }
    }
}

fn of_points(capture: &Capture) -> Option<String> {
    if capture.points.len() < LEAST_POINTS || capture.images.len() < 2 {
        return None;
    }
    let sample = Sample::draw(capture, CAMERAS, POINTS);
    let given = sample.fit(&Reading::given());
    let contradicts = given.contradicts(sample.is_tracked);
    if !contradicts && (sample.is_tracked || !given.is_poor()) {
        return None;
    }
    let few = Sample::draw(capture, FEW_CAMERAS, FEW_POINTS);
    let before = few.fit(&Reading::given());
    let mut best: Option<(f64, Fit, Reading)> = None;
    for reading in readings(capture.tracks.is_some()) {
        // Without tracks a wider lens always sees more.
        let is_open = contradicts || matches!(reading.kind, Kind::Axes | Kind::Inverse);
        if !is_open || !few.is_tracked && matches!(reading.kind, Kind::Focal(_) | Kind::Unit(_)) {
            continue;
        }
        let fit = few.fit(&reading);
        if !fit.explains(&before, few.is_tracked, contradicts) {
            continue;
        }
        // Simple causes have priority: another must fit clearly better. If there are observations, a reading whose
        // projections agree with them has priority too.
        let exact = residual(capture, &reading).is_some_and(|(residual, _)| residual < RESIDUAL);
        let score = fit.inside() + fit.seeing() + f64::from(u8::from(exact));
        if best.as_ref().is_none_or(|(most, ..)| score > most + 0.1) {
            best = Some((score, fit, reading));
        }
    }
    if best.is_none() && !contradicts {
        return None;
    }
    let seen = match sample.is_tracked {
        true => format!(
            "of the points that photos observed {:.0} % are in front of them and {:.0} % inside the frame",
            100.0 * Fit::share(given.front, given.pairs),
            100.0 * given.inside()
        ),
        false => format!(
            "{} of {} cameras see a point, {:.0} % of the points are in front of them and {:.1} % inside the frame",
            given.seeing,
            given.cameras,
            100.0 * Fit::share(given.front, given.pairs),
            100.0 * given.inside()
        ),
    };
    let cause = match best {
        Some((_, fit, reading)) => format!(
            "with {} {:.0} % are inside: {}",
            reading.what(),
            100.0 * fit.inside(),
            reading.cause()
        ),
        None => "no other axes and no inverted poses fit: are the points of another reconstruction, or in \
                 another coordinate system or unit, than the poses?"
            .to_owned(),
    };
    Some(format!("{CONTRADICTION}: {seen}; {cause}"))
}

fn of_observations(capture: &Capture) -> Option<String> {
    let (residual, diagonal) = residual(capture, &Reading::given())?;
    (residual > RESIDUAL).then(|| {
        format!(
            "{CONTRADICTION}: the median distance between points and where photos observed them is {:.1} pixels, \
             {:.0} % of the photo's diagonal; focal length, lens or poses are not those that the points were \
             found with",
            residual * diagonal,
            100.0 * residual
        )
    })
}

/// Computes the median distance between projected points and their observations, as a part of the photo's diagonal, and
/// the diagonal in pixels; `None` if too few observations are plausible.
fn residual(capture: &Capture, reading: &Reading) -> Option<(f64, f64)> {
    let images = capture.images.iter();
    let camera_of: HashMap<u32, &Camera> = images.map(|image| (image.id, &image.camera)).collect();
    let mut probes: HashMap<u32, Probe> = HashMap::new();
    let mut pairs: Vec<(DVec2, DVec2, f64)> = Vec::new();
    let mut lost = 0;
    for observation in &capture.observations {
        let Some(camera) = camera_of.get(&observation.image) else {
            continue;
        };
        let Some(point) = capture.points.get(observation.point) else {
            continue;
        };
        let probe = probes
            .entry(observation.image)
            .or_insert_with(|| Probe::new(camera, reading));
        let projected = probe.project(DVec3::from(point.position.map(f64::from)));
        let diagonal = f64::from(camera.width).hypot(f64::from(camera.height));
        match projected.pixel {
            Some(pixel) => pairs.push((pixel, DVec2::from(observation.pixel), diagonal)),
            None => lost += 1,
        }
    }
    let is_stand_in = |(_, observed, _): &(DVec2, DVec2, f64)| observed.min_element() <= 0.0;
    let stand_ins = pairs.iter().filter(|pair| is_stand_in(pair)).count();
    if pairs.len() < LEAST_POINTS || 4 * (stand_ins + lost) > pairs.len() {
        return None;
    }
    // A common scale of both axes: observations may be those of photos of another size.
    let scale = |axis: usize| {
        let sound = pairs.iter().filter(|pair| !is_stand_in(pair));
        median(sound.map(|(p, o, _)| p[axis] / o[axis]))
    };
    let scale = DVec2::new(scale(0)?, scale(1)?);
    let distance = |scale: DVec2| {
        let pairs = pairs.iter();
        median(pairs.map(|(p, o, diagonal)| p.distance(*o * scale) / diagonal))
    };
    let residual = distance(scale)?.min(distance(DVec2::ONE)?);
    Some((
        residual,
        median(pairs.iter().map(|(.., diagonal)| *diagonal))?,
    ))
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    quantiles::median(values.filter(|value| value.is_finite()).collect())
}

#[cfg(test)]
mod tests;
