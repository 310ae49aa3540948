//! The sky of splats: the Gaussians on one sphere around all others.
//!
//! Training with a sky puts its Gaussians there, and files of every format keep their places. So the sky is found by
//! geometry, also in files of other programs and after edits:
//!
//! 1. The Gaussians near the largest distances from the median centre are fitted by a sphere (least squares), twice more
//!    without those that are off it.
//! 2. They are a sky if nearly all Gaussians this far out are on the sphere, and if most others are far within it.
//!    Training leaves faint Gaussians anywhere, so only those count that are more opaque than `SOLID`.

use crate::Splats;
use dapple_base::quantiles;
use glam::{DMat4, DVec3, DVec4};

/// Least logit of the opacity of a Gaussian that counts: 0.1.
const SOLID: f32 = -2.2;

/// Fewest Gaussians of a sky.
const FEWEST: usize = 64;

/// Distance at which Gaussians are tested first, as parts of the largest, and the part of all Gaussians beyond it.
const TESTED: (f64, f64) = (0.7, 1.4);
const BEYOND: f64 = 0.005;

/// Largest distance from the sphere, as a part of its radius: formats round places.
const ON_SPHERE: f64 = 0.005;

/// Least part of the distant Gaussians that are on the sphere.
const NEARLY_ALL: f64 = 0.9;

/// Nine tenths of the other Gaussians are within this part of the radius.
const WITHIN: f64 = 0.6;

/// Returns which Gaussians are the sky; `None` if the splats have none.
pub fn of_splats(splats: &Splats) -> Option<Vec<bool>> {
    let places: Vec<DVec3> = splats
        .means
        .iter()
        .map(|mean| DVec3::from(mean.map(f64::from)))
        .collect();
    let is_solid = |i: &usize| splats.opacities[*i] > SOLID && places[*i].is_finite();
    let solid: Vec<usize> = (0..places.len()).filter(is_solid).collect();
    let finite: Vec<DVec3> = solid.iter().map(|&i| places[i]).collect();
    if finite.len() < 2 * FEWEST {
        return None;
    }
    let middle = DVec3::from([0, 1, 2].map(|axis| quantile(finite.iter().map(|p| p[axis]), 0.5)));
    let size = quantile(finite.iter().map(|p| p.distance(middle)), 1.0 - BEYOND);
    let (mut centre, mut radius, mut within) = (middle, size, TESTED);
    for _ in 0..3 {
        let tested = finite.iter().map(|p| (*p - middle) / size);
        let on_it = tested.filter(|p| {
            let distance = (middle + size * *p).distance(centre) / radius;
            within.0 <= distance && distance <= within.1
        });
        let (found, length) = sphere(on_it)?;
        (centre, radius) = (middle + size * found, size * length);
        within = (1.0 - 4.0 * ON_SPHERE, 1.0 + 4.0 * ON_SPHERE);
    }
    let distance = |place: &DVec3| place.distance(centre) / radius;
    let is_sky: Vec<bool> = places
        .iter()
        .map(|place| (distance(place) - 1.0).abs() <= ON_SPHERE)
        .collect();
    let (of_sky, others): (Vec<usize>, Vec<usize>) = solid.iter().partition(|&&i| is_sky[i]);
    let count = of_sky.len();
    let others = others.iter().map(|&i| distance(&places[i]));
    let distant = count + others.clone().filter(|d| *d >= TESTED.0).count();
    let is_shell = count >= FEWEST
        && count < finite.len()
        && count as f64 >= NEARLY_ALL * distant as f64
        && quantile(others, 0.9) <= WITHIN;
    is_shell.then_some(is_sky)
}

/// Returns an order of the Gaussians that puts the sky last, both parts in their order, and the number of the sky; `None`
/// without one.
pub fn last(splats: &Splats) -> Option<(Vec<usize>, usize)> {
    let is_sky = of_splats(splats)?;
    let (of_sky, mut order): (Vec<usize>, Vec<usize>) = (0..is_sky.len()).partition(|&i| is_sky[i]);
    order.extend(&of_sky);
    Some((order, of_sky.len()))
}

/// Returns the value below which this part of the values is; 0 without values.
fn quantile(values: impl Iterator<Item = f64>, part: f64) -> f64 {
    quantiles::quantile(values.collect(), part).unwrap_or_default()
}

/// Returns centre and radius of the sphere through points, by least squares on |p|^2 = 2 p c + r^2 - |c|^2; `None` if they
/// do not determine one.
fn sphere(points: impl Iterator<Item = DVec3>) -> Option<(DVec3, f64)> {
    let (mut matrix, mut right, mut count) = (DMat4::ZERO, DVec4::ZERO, 0);
    for point in points {
        let row = (2.0 * point).extend(1.0);
        matrix += DMat4::from_cols(row.x * row, row.y * row, row.z * row, row.w * row);
        right += point.length_squared() * row;
        count += 1;
    }
    let scale = f64::from(count.max(1));
    if count < 4 || matrix.determinant().abs() < 1e-12 * scale.powi(4) {
        return None;
    }
    let found = matrix.inverse() * right;
    let centre = found.truncate();
    let squared = found.w + centre.length_squared();
    (squared > 0.0 && centre.is_finite()).then(|| (centre, squared.sqrt()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Gaussians in a cube of side 2, and `sky` of them on half a sphere of radius 40 around (1, 0, 0).
    fn splats(others: usize, sky: usize) -> Splats {
        let cube = |i: usize| [7, 11, 13].map(|k| (i * k % 101) as f32 / 50.5 - 1.0);
        let dome = |i: usize| {
            let (y, turn) = (i as f64 / sky as f64, i as f64 * 2.4);
            let across = (1.0 - y * y).sqrt();
            let place = 40.0 * DVec3::new(across * turn.cos(), y, across * turn.sin()) + DVec3::X;
            place.to_array().map(|v| v as f32)
        };
        let means: Vec<[f32; 3]> = (0..others).map(cube).chain((0..sky).map(dome)).collect();
        let n = means.len();
        Splats {
            means,
            scales: vec![[-3.0; 3]; n],
            quats: vec![[1.0, 0.0, 0.0, 0.0]; n],
            opacities: vec![0.0; n],
            sh0: vec![[0.0; 3]; n],
            ..Splats::default()
        }
    }

    #[test]
    fn a_sky_is_found_where_there_is_one() {
        for (others, sky) in [(5000, 300), (500, 400), (20_000, 200)] {
            let found = of_splats(&splats(others, sky)).unwrap();
            let expected: Vec<bool> = (0..others + sky).map(|i| i >= others).collect();
            assert!(found == expected, "{others} and {sky}");
        }
    }

    #[test]
    fn rounding_and_some_distant_gaussians_leave_it_a_sky() {
        let mut splats = splats(5000, 300);
        for mean in &mut splats.means {
            *mean = mean.map(|v| (v * 8.0).round() / 8.0);
        }
        splats.means[17] = [0.0, 200.0, 0.0];
        splats.means[18] = [0.0, 33.0, 3.0];
        // Faint ones, as many as the sky.
        for i in 100..400 {
            splats.means[i] = splats.means[i].map(|v| 60.0 * v);
            splats.opacities[i] = -5.0;
        }
        let found = of_splats(&splats).unwrap();
        let is_right =
            |(i, is_sky): (usize, &bool)| *is_sky == (i >= 5000) || (100..400).contains(&i);
        assert!(found.iter().enumerate().all(is_right));
    }

    #[test]
    fn objects_and_clouds_have_no_sky() {
        assert!(of_splats(&splats(5000, 0)).is_none());
        assert!(of_splats(&splats(5000, 40)).is_none());
        // A ball, and a ball among far things.
        assert!(of_splats(&splats(0, 5000)).is_none());
        let mut spread = splats(4000, 1000);
        for (i, mean) in spread.means[..4000].iter_mut().enumerate() {
            *mean = mean.map(|v| v * (5.0 + (i % 37) as f32));
        }
        assert!(of_splats(&spread).is_none());
        assert!(of_splats(&Splats::default()).is_none());
    }
}
