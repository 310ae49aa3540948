//! Where along its normal photos agree about a vertex.

use super::look::Look;
use crate::colour::{Spot, TOLERANCE};
use glam::{Vec2, Vec3};

/// Samples along a side of a patch.
const SIDE: usize = 7;

/// Distance between samples, pixels of the best photo.
const SPACING: f32 = 0.7;

/// Samples of a patch.
const SAMPLES: usize = SIDE * SIDE;

/// Photos that are compared with the best one.
const OTHERS: usize = 4;

/// Most steps to each side.
const MOST_STEPS: usize = 6;

/// Places that are tried.
const PLACES: usize = 2 * MOST_STEPS + 1;

/// Least steps to each side of a match.
const LEAST_STEPS: usize = 2;

/// Largest move of a round, voxels.
const REACH: f32 = 4.0;

/// Largest move of a patch in a photo from step to step, pixels.
const STEP: f32 = 0.75;

/// Least cosine between a ray and the normal.
const LEAST_COSINE: f32 = 0.25;

/// Angle between the rays of two photos that compares best, and the least and largest angles, rad.
const ANGLES: [f32; 3] = [0.2, 0.035, 0.8];

/// Least standard deviation of a patch that counts, shades of 255.
const LEAST_DEVIATION: f32 = 2.5;

/// Least correlation of two patches of one place.
const LEAST_MATCH: f32 = 0.8;

/// Disagreement of photos that no patch is without.
const NOISE: f32 = 0.02;

/// Steps within which the largest correlation of a photo agrees with that of all.
const NEAR: usize = 1;

/// Photos that must agree, and their least share of the photos that show the patch at all steps.
const LEAST_AGREEING: (usize, f32) = (2, 0.7);

/// Where photos agree about a vertex.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Match {
    /// Move along the normal, world units.
    pub offset: f32,
    /// Move that shifts a photo by a pixel, world units.
    pub pixel: f32,
    /// How clear the match is, 0 to 1.
    pub weight: f32,
}

/// A photo that shows a vertex.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Index of the photo.
    look: usize,
    /// Cosine of the ray times resolution.
    score: f32,
    /// Unit vector from the vertex to the camera.
    to_camera: Vec3,
}

/// A sample of a patch.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    /// Ray of the sample over its cosine with the normal, world axes.
    ray: Vec3,
    /// Shade in the best photo, less the mean of the patch.
    shade: f32,
}

/// Memory of the search, used again for each vertex.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    seen: Vec<Seen>,
}

/// Patch of the best photo.
struct Reference {
    samples: [Sample; SAMPLES],
    /// Length of the vector of shades.
    length: f32,
    /// Camera centre, world units.
    centre: Vec3,
    /// Signed distance of the vertex from the camera along the normal, world units.
    height: f32,
    /// Ray to the vertex over its cosine with the normal.
    ray: Vec3,
}

impl Matcher {
    /// Returns where photos agree about a vertex; `None` if too few show it, or none agree.
    pub fn find(
        &mut self,
        spot: &Spot,
        looks: &[&Look<'_>],
        steps: usize,
        voxel: f32,
    ) -> Option<Match> {
        self.seen.clear();
        let sights = looks.iter().enumerate();
        self.seen
            .extend(sights.filter_map(|(i, look)| seen(spot, look, i, TOLERANCE * voxel)));
        let by_score = |a: &&Seen, b: &&Seen| a.score.total_cmp(&b.score).then(b.look.cmp(&a.look));
        let best = *self.seen.iter().max_by(by_score)?;
        // The best photos to compare come first.
        let benefit = |seen: &Seen| {
            let angle = best.to_camera.dot(seen.to_camera).clamp(-1.0, 1.0).acos();
            let [ideal, least, most] = ANGLES;
            match (least..=most).contains(&angle) {
                true => seen.score * (angle / ideal).min(ideal / angle),
                false => 0.0,
            }
        };
        for seen in &mut self.seen {
            seen.score = benefit(seen);
        }
        self.seen.retain(|seen| seen.score > 0.0);
        self.seen
            .sort_by(|a, b| b.score.total_cmp(&a.score).then(a.look.cmp(&b.look)));
        self.seen.truncate(OTHERS);
        let reference = Reference::new(spot, looks[best.look])?;
        agreement(
            &reference,
            self.seen.iter().map(|seen| looks[seen.look]),
            steps,
            voxel,
        )
    }
}

/// Returns how well a photo shows a vertex.
fn seen(spot: &Spot, look: &Look<'_>, index: usize, tolerance: f32) -> Option<Seen> {
    let sighting = spot.seen_by(&look.camera, LEAST_COSINE, tolerance)?;
    if look.hides(sighting.place, sighting.front) {
        return None;
    }
    Some(Seen {
        look: index,
        score: sighting.cosine * look.camera.mean_focal() / sighting.depth,
        to_camera: sighting.to_camera,
    })
}

impl Reference {
    /// Reads the patch of a photo around a vertex; `None` at its border, and if it has too little detail.
    fn new(spot: &Spot, look: &Look<'_>) -> Option<Self> {
        let camera = &look.camera;
        let to_world = camera.rotation.transpose();
        let middle = camera.project(camera.to_camera(spot.position));
        let over_cosine = |place: Vec2| {
            let ray = to_world * camera.ray(place);
            let cosine = spot.normal.dot(ray);
            (cosine < 0.0).then(|| ray / cosine)
        };
        let ray = over_cosine(middle)?;
        let mut samples = [Sample::default(); SAMPLES];
        let half = (SIDE / 2) as f32;
        let mut sum = 0.0;
        for (i, sample) in samples.iter_mut().enumerate() {
            let by = Vec2::new((i % SIDE) as f32 - half, (i / SIDE) as f32 - half);
            let place = middle + by * SPACING;
            *sample = Sample {
                ray: over_cosine(place)?,
                shade: look.shade(place)?,
            };
            sum += sample.shade;
        }
        let mean = sum / SAMPLES as f32;
        let mut squares = 0.0;
        for sample in &mut samples {
            sample.shade -= mean;
            squares += sample.shade * sample.shade;
        }
        let has_detail = squares >= LEAST_DEVIATION.powi(2) * SAMPLES as f32;
        has_detail.then(|| Self {
            samples,
            length: squares.sqrt(),
            centre: camera.centre,
            height: spot.normal.dot(spot.position - camera.centre),
            ray,
        })
    }

    /// Returns the pixels that the vertex moves in a photo for each unit along the normal.
    fn speed(&self, look: &Look<'_>) -> f32 {
        let camera = &look.camera;
        let along = camera.rotation * self.ray;
        let p = camera.to_camera(self.centre) + along * self.height;
        let slope =
            (Vec2::new(along.x, along.y) * p.z - Vec2::new(p.x, p.y) * along.z) / (p.z * p.z);
        (camera.focal * slope).length()
    }

    /// Returns the correlation with a photo, for the plane moved by `offset` along the normal. The centre of the best
    /// photo and the rays are in coordinates of the camera of `look`.
    fn correlation(
        &self,
        look: &Look<'_>,
        (centre, rays): (Vec3, &[Vec3; SAMPLES]),
        offset: f32,
    ) -> Option<f32> {
        let height = self.height + offset;
        let (mut sum, mut squares, mut products) = (0.0, 0.0, 0.0);
        for (sample, ray) in self.samples.iter().zip(rays) {
            let p = centre + *ray * height;
            if p.z <= 0.0 {
                return None;
            }
            let shade = look.shade(look.camera.project(p))?;
            sum += shade;
            squares += shade * shade;
            products += shade * sample.shade;
        }
        let variance = squares - sum * sum / SAMPLES as f32;
        let has_detail = variance >= LEAST_DEVIATION.powi(2) * SAMPLES as f32;
        has_detail.then(|| products / (variance.sqrt() * self.length))
    }
}

/// Correlations of some photos with the best one, by step.
#[derive(Default)]
struct Curves {
    /// Sum over the photos that match at some step.
    sum: [f32; PLACES],
    /// Step of the largest correlation of each of these photos.
    peaks: [usize; OTHERS],
    /// Number of these photos.
    matching: usize,
    /// Number of photos that show the patch at all steps.
    whole: usize,
}

impl Curves {
    /// Adds the correlations of a photo.
    fn add(&mut self, curve: &[f32]) {
        self.whole += 1;
        let (peak, most) = largest(curve);
        if most >= LEAST_MATCH {
            for (sum, value) in self.sum.iter_mut().zip(curve) {
                *sum += value;
            }
            self.peaks[self.matching] = peak;
            self.matching += 1;
        }
    }

    /// Returns true if enough photos have their largest correlation at a step.
    fn agree(&self, peak: usize) -> bool {
        let peaks = self.peaks[..self.matching].iter();
        let agreeing = peaks.filter(|own| own.abs_diff(peak) <= NEAR).count();
        let (least, share) = LEAST_AGREEING;
        agreeing >= least && agreeing as f32 >= share * self.whole as f32
    }
}

/// Returns the index and the value of the largest number, the first of several.
fn largest(values: &[f32]) -> (usize, f32) {
    let start = (0, f32::NEG_INFINITY);
    let values = values.iter().copied().enumerate();
    values.fold(
        start,
        |best, next| if next.1 > best.1 { next } else { best },
    )
}

/// Returns the offset at which photos agree most with the best one.
fn agreement<'a>(
    reference: &Reference,
    others: impl Iterator<Item = &'a Look<'a>> + Clone,
    steps: usize,
    voxel: f32,
) -> Option<Match> {
    let speeds = others.clone().map(|look| reference.speed(look));
    let step = STEP / speeds.reduce(f32::max)?;
    if !step.is_finite() {
        return None;
    }
    let steps = steps.min((REACH * voxel / step) as usize);
    if steps < LEAST_STEPS {
        return None;
    }
    let places = 2 * steps + 1;
    let mut curves = Curves::default();
    let mut curve = [0.0; PLACES];
    for look in others {
        let centre = look.camera.to_camera(reference.centre);
        let rays = std::array::from_fn(|i| look.camera.rotation * reference.samples[i].ray);
        let mut values = curve[..places].iter_mut().enumerate();
        let is_whole = values.all(|(i, value)| {
            let offset = (i as f32 - steps as f32) * step;
            let found = reference.correlation(look, (centre, &rays), offset);
            *value = found.unwrap_or(0.0);
            found.is_some()
        });
        if is_whole {
            curves.add(&curve[..places]);
        }
    }
    let (peak, _) = largest(&curves.sum[..places]);
    if peak == 0 || peak + 1 == places || !curves.agree(peak) {
        return None;
    }
    let mean = |i: usize| curves.sum[i] / curves.matching as f32;
    let [before, at, after] = [mean(peak - 1), mean(peak), mean(peak + 1)];
    let bend = 2.0 * at - before - after;
    if at < LEAST_MATCH || bend <= 0.0 {
        return None;
    }
    let between = (after - before) / (2.0 * bend);
    // Information about the place, per square voxel: the noise is what the photos disagree about.
    let information = bend * (voxel / step).powi(2) / (1.0 - at + NOISE);
    Some(Match {
        offset: (peak as f32 - steps as f32 + between) * step,
        pixel: step / STEP,
        weight: information / (1.0 + information),
    })
}
