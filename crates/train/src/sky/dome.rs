//! The first Gaussians of the sky.
//!
//! 1. Directions are spread evenly over the sphere (Fibonacci lattice: Gonzalez 2010, "Measurement of areas on a sphere
//!    using Fibonacci and latitude-longitude lattices"). Those that rise above the horizon are used, and those that a
//!    photo shows the sky at.
//! 2. Their colours are the means of the photos. Directions that no photo shows have the means of all others, weighted by
//!    nearness: a sky that ends at the border of the photos is black in other renders.
//! 3. They are flat discs that face the centre, and nearly opaque. They overlap by their standard deviations.

use super::Sky;
use super::mask::SkyMask;
use dapple_scene::{Error, Result, SH_C0, Splats};
use glam::DVec3;
use kiddo::{ImmutableKdTree, SquaredEuclidean};

/// Directions on the whole sphere.
const DIRECTIONS: (usize, usize) = (2048, 16384);

/// Directions on the whole sphere with a small cap.
const FEWEST: usize = 256;

/// Part of the Gaussian cap for the sky.
const PART_OF_CAP: f64 = 0.05;

/// Standard deviation of a Gaussian along the sphere, in distances between directions, and across.
const ALONG: f64 = 0.7;
const ACROSS: f64 = 0.07;

/// First logit of the opacities: 0.95.
const LOGIT: f32 = 2.94;

/// Least sine of the elevation of directions that no photo shows.
const HORIZON: f64 = -0.02;

/// Directions on the whole sphere at which photos are compared, the largest difference of their colours in any channel,
/// 0 to 255, and the least part of the pixels with such colours.
const COMPARED: usize = 4096;
const SAME: f64 = 40.0;
const PART_AGREEING: f64 = 0.5;

/// Colour of a direction.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    sums: [u64; 3],
    count: u64,
}

impl Sky {
    /// Returns the first Gaussians of the sky for a run with this Gaussian cap.
    pub(crate) fn dome(&self, cap: usize, sh_degree: u8) -> Result<Splats> {
        let wanted = (2.0 * PART_OF_CAP * cap as f64) as usize;
        let wanted = wanted
            .clamp(DIRECTIONS.0, DIRECTIONS.1)
            .min(cap / 2)
            .max(FEWEST);
        let all = lattice(wanted);
        let seen = Directions::new(&all)?.colours(self.photos.iter().flatten());
        let known: Vec<(DVec3, DVec3)> = (all.iter().zip(&seen))
            .filter(|(_, seen)| seen.count > 0)
            .map(|(direction, seen)| (*direction, mean(seen)))
            .collect();
        let spacing = (4.0 * std::f64::consts::PI / all.len() as f64).sqrt() * self.radius;
        let used = all.iter().zip(&seen);
        let used =
            used.filter(|(direction, seen)| seen.count > 0 || direction.dot(self.up) > HORIZON);
        let mut splats = Splats {
            sh_degree,
            ..Splats::default()
        };
        for (&direction, seen) in used {
            let colour = match seen.count {
                0 => extrapolated(direction, &known),
                _ => mean(seen),
            };
            let place = self.centre + self.radius * direction;
            splats.means.push(place.to_array().map(|v| v as f32));
            let along = (ALONG * spacing).ln() as f32;
            let across = (ACROSS * spacing).ln() as f32;
            splats.scales.push([along, along, across]);
            splats.quats.push(facing(direction));
            splats.opacities.push(LOGIT);
            let sh0 = (colour / 255.0 - 0.5) / f64::from(SH_C0);
            splats.sh0.push(sh0.to_array().map(|v| v as f32));
        }
        splats.sh_rest = vec![0.0; splats.len() * splats.sh_rest_stride()];
        Ok(splats)
    }
}

/// Directions, by place.
struct Directions {
    tree: ImmutableKdTree<f64, 3>,
    count: usize,
}

impl Directions {
    fn new(directions: &[DVec3]) -> Result<Self> {
        let places: Vec<[f64; 3]> = directions.iter().map(DVec3::to_array).collect();
        let tree = ImmutableKdTree::new_from_slice(&places)
            .map_err(|e| Error::internal(format!("directions cannot be indexed: {e:?}")))?;
        let count = directions.len();
        Ok(Self { tree, count })
    }

    /// Returns the nearest direction.
    fn nearest(&self, ray: DVec3) -> usize {
        let ray = ray.to_array();
        let query = self.tree.query(&ray);
        query.nearest_one::<SquaredEuclidean<f64>>().execute().item as usize
    }

    /// Returns what photos show of the sky at each direction.
    fn colours<'a>(&self, masks: impl Iterator<Item = &'a SkyMask>) -> Vec<Seen> {
        let mut seen = vec![Seen::default(); self.count];
        for mask in masks {
            for pixel in mask.pixels() {
                let of = &mut seen[self.nearest(mask.rays[pixel])];
                for (sum, colour) in of.sums.iter_mut().zip(mask.colours[pixel]) {
                    *sum += u64::from(colour);
                }
                of.count += 1;
            }
        }
        seen
    }
}

/// Removes skies that are not sure and have other colours than sure ones, or are in other directions.
pub(super) fn drop_contradicting(photos: &mut [Option<SkyMask>]) -> Result<()> {
    let directions = Directions::new(&lattice(COMPARED))?;
    let sure = photos.iter().flatten().filter(|mask| mask.is_sure);
    let seen = directions.colours(sure);
    let agrees = |mask: &SkyMask| {
        let agreeing = mask.pixels().filter(|&pixel| {
            let of = &seen[directions.nearest(mask.rays[pixel])];
            let colour = DVec3::from(mask.colours[pixel].map(f64::from));
            of.count > 0 && (colour - mean(of)).abs().max_element() <= SAME
        });
        agreeing.count() as f64 >= PART_AGREEING * mask.pixels().count() as f64
    };
    for photo in photos {
        if photo
            .as_ref()
            .is_some_and(|mask| !mask.is_sure && !agrees(mask))
        {
            *photo = None;
        }
    }
    Ok(())
}

/// Returns `n` unit vectors, spread evenly. The angles are multiples of the golden angle, by repeated products, which
/// are the same on every machine.
fn lattice(n: usize) -> Vec<DVec3> {
    // Cosine and sine of pi (3 - sqrt 5).
    const TURN: (f64, f64) = (-0.737_368_878_078_320_2, 0.675_490_294_261_523_8);
    let mut at = (1.0, 0.0);
    (0..n)
        .map(|i| {
            let z = 1.0 - (2 * i + 1) as f64 / n as f64;
            let radius = (1.0 - z * z).sqrt();
            let direction = DVec3::new(radius * at.0, radius * at.1, z);
            at = (at.0 * TURN.0 - at.1 * TURN.1, at.0 * TURN.1 + at.1 * TURN.0);
            direction
        })
        .collect()
}

fn mean(seen: &Seen) -> DVec3 {
    DVec3::from(seen.sums.map(|sum| sum as f64)) / seen.count.max(1) as f64
}

/// Returns the colour of a direction that no photo shows.
fn extrapolated(direction: DVec3, known: &[(DVec3, DVec3)]) -> DVec3 {
    let (mut sum, mut weights) = (DVec3::ZERO, 0.0);
    for (other, colour) in known {
        // The squared distance to the fourth power: the nearest directions count most.
        let weight = 1.0 / (1e-3 + direction.distance_squared(*other)).powi(4);
        sum += weight * colour;
        weights += weight;
    }
    sum / weights.max(f64::MIN_POSITIVE)
}

/// Returns the rotation that turns +z to a direction, as a quaternion w, x, y, z.
fn facing(direction: DVec3) -> [f32; 4] {
    let quat = [1.0 + direction.z, -direction.y, direction.x, 0.0];
    let length = quat.iter().map(|v| v * v).sum::<f64>().sqrt();
    match length > 1e-6 {
        true => quat.map(|v| (v / length) as f32),
        false => [0.0, 1.0, 0.0, 0.0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_spread_evenly() {
        let all = lattice(4096);
        let spacing = (4.0 * std::f64::consts::PI / 4096.0_f64).sqrt();
        for (i, direction) in all.iter().enumerate().step_by(97) {
            assert!((direction.length() - 1.0).abs() < 1e-9);
            let others = all.iter().enumerate().filter(|(j, _)| *j != i);
            let nearest = others
                .map(|(_, other)| other.distance(*direction))
                .fold(9.0, f64::min);
            assert!((0.6..1.3).contains(&(nearest / spacing)), "{i}: {nearest}");
        }
    }

    #[test]
    fn discs_face_the_centre() {
        for direction in lattice(50).into_iter().chain([DVec3::Z, DVec3::NEG_Z]) {
            let [w, x, y, z] = facing(direction).map(f64::from);
            let turned = glam::DQuat::from_xyzw(x, y, z, w) * DVec3::Z;
            assert!(turned.distance(direction) < 1e-6, "{direction}: {turned}");
        }
    }

    #[test]
    fn unknown_directions_have_colours_between_those_that_are_known() {
        let known = [
            (DVec3::X, DVec3::splat(50.0)),
            (DVec3::Y, DVec3::splat(200.0)),
        ];
        let colour = |direction: DVec3| extrapolated(direction.normalize(), &known).x;
        assert!((colour(DVec3::new(1.0, 1.0, 0.0)) - 125.0).abs() < 1e-9);
        assert!(colour(DVec3::new(1.0, 0.2, 0.0)) < 55.0);
        assert!(colour(DVec3::new(0.2, 1.0, 0.0)) > 195.0);
    }
}
