//! One Gaussian of the merging: its moments, what shows of it, and what merging two of them costs.
//!
//! Gaussians are compared as they show: projected along the world's three axes, where the integral of the product
//! of two of them has a closed form, `2 pi sqrt(|A| |B| / |A + B|) exp(-d^T (A + B)^-1 d / 2)` for covariances A and
//! B and centres d apart. The mean over the three stands for all directions.
//!
//! Merging i and j into m changes a picture in two ways:
//! - *colour*: where i showed c_i it shows c_m, the weighted mean of both. Squared and integrated this is
//!   `|c_i - c_j|^2 (o_i^2 q^2 I_ii + o_j^2 p^2 I_jj - 2 o_i o_j p q I_ij)`, with p and q their shares of the weight,
//!   and by Parseval's theorem the difference of colours squared, over all directions of view, is that of their
//!   coefficients by 4 pi;
//! - *cover*: what is behind shows more or less, by the squared integral of `o_i G_i + o_j G_j - o_m G_m`. How
//!   much what is behind differs from what is before is not known: [`CONTRAST`].

use glam::{DMat3, DVec3};
use std::f64::consts::PI;

/// Squared difference of colour between a Gaussian and what is behind it. Between 0.03 and 1 the scores of `bird` at
/// a tenth differ by 0.3 dB, with 0.1 to 1 the best.
const CONTRAST: f64 = 0.1;

/// Contrast where a Gaussian is removed: the background was not optimised to be visible.
const CONTRAST_ALONE: f64 = 1.0;

/// Opacities that a file can hold as a logit without loss.
const OPACITIES: (f64, f64) = (1e-4, 0.999);

/// Symmetric, `[xx, yy, zz, xy, xz, yz]`.
pub(super) type Covariance = [f64; 6];

/// The projections along z, y and x: places of a covariance's two variances and of what they share, and the axes.
const PLANES: [([usize; 3], [usize; 2]); 3] = [
    ([0, 1, 3], [0, 1]),
    ([0, 2, 4], [0, 2]),
    ([1, 2, 5], [1, 2]),
];

/// A Gaussian, or what several have become.
#[derive(Debug, Clone)]
pub(super) struct Gaussian {
    pub(super) mean: DVec3,
    pub(super) covariance: Covariance,
    pub(super) opacity: f64,
    /// Its opacity times its mean projected area, world units squared.
    mass: f64,
    /// Weight of its moments and colours in a mean.
    pub(super) weight: f64,
    /// How much of a unit of its mass shows.
    seen: f64,
    /// The same as far as photos tell; 1 where there are none.
    front: f64,
    /// The determinants of its projections.
    determinants: [f64; 3],
}

/// Determinants of the projections; of a needle seen from its tip it may round below 0.
fn determinants(c: &Covariance) -> [f64; 3] {
    PLANES.map(|([x, y, xy], _)| (c[x] * c[y] - c[xy] * c[xy]).max(1e-200))
}

/// The mean area of projections, `2 pi sqrt(|A|)` each.
fn area(determinants: &[f64; 3]) -> f64 {
    2.0 * PI / 3.0 * determinants.map(f64::sqrt).iter().sum::<f64>()
}

impl Gaussian {
    /// Converts a Gaussian of a file. `contribution` is the sum of its blend weights over photos. Without it, the
    /// weight is the opacity, for any size: training runs make Gaussians as large as the surface needs.
    pub(super) fn new(
        mean: DVec3,
        rotation: DMat3,
        deviations: DVec3,
        opacity: f64,
        contribution: Option<f64>,
    ) -> Self {
        let axes = rotation * DMat3::from_diagonal(deviations);
        let c = axes * axes.transpose();
        let covariance = [
            c.x_axis.x, c.y_axis.y, c.z_axis.z, c.x_axis.y, c.x_axis.z, c.y_axis.z,
        ];
        let determinants = determinants(&covariance);
        let opacity = opacity.clamp(OPACITIES.0, OPACITIES.1);
        let mass = (opacity * area(&determinants)).max(1e-200);
        // A Gaussian that no photo shows is removed first, but needs a positive weight.
        let contribution = contribution.map(|c| c.max(1e-9));
        Self {
            mean,
            covariance,
            opacity,
            mass,
            weight: contribution.unwrap_or(mass),
            seen: contribution.unwrap_or(opacity) / mass,
            front: contribution.map_or(1.0, |c| c / mass),
            determinants,
        }
    }

    /// Merges two Gaussians by matching moments. The opacity preserves the visible amount of both, at the position of
    /// the more visible one: of a Gaussian behind the other, only the visible part counts.
    pub(super) fn merged(&self, other: &Self) -> Self {
        let weight = self.weight + other.weight;
        let (p, q) = (self.weight / weight, other.weight / weight);
        let d = self.mean - other.mean;
        let apart = [
            d.x * d.x,
            d.y * d.y,
            d.z * d.z,
            d.x * d.y,
            d.x * d.z,
            d.y * d.z,
        ];
        let covariance = std::array::from_fn(|k| {
            p * self.covariance[k] + q * other.covariance[k] + p * q * apart[k]
        });
        let determinants = determinants(&covariance);
        let area = area(&determinants).max(1e-200);
        let front = self.front.max(other.front);
        let shows = self.front * self.mass + other.front * other.mass;
        let opacity = (shows / (area * front)).clamp(OPACITIES.0, OPACITIES.1);
        Self {
            mean: self.mean * p + other.mean * q,
            covariance,
            opacity,
            mass: opacity * area,
            weight,
            seen: self.seen.max(other.seen),
            front,
            determinants,
        }
    }

    /// The mean over projections of the integral of the product of both, at height 1.
    fn overlap(&self, other: &Self) -> f64 {
        let (a, b) = (&self.covariance, &other.covariance);
        let d = self.mean - other.mean;
        let mut total = 0.0;
        for (k, ([x, y, xy], [i, j])) in PLANES.into_iter().enumerate() {
            let (p, q, r) = (a[x] + b[x], a[y] + b[y], a[xy] + b[xy]);
            let determinant = (p * q - r * r).max(1e-200);
            let (u, v) = (d[i], d[j]);
            let far = (q * u * u - 2.0 * r * u * v + p * v * v) / determinant;
            let height = (self.determinants[k] * other.determinants[k] / determinant).sqrt();
            total += 2.0 * PI * height * (-0.5 * far).exp();
        }
        total / 3.0
    }

    /// Returns the squared loss of an image if both are merged. `colours` is the squared difference of their
    /// coefficients.
    pub(super) fn cost(&self, other: &Self, colours: f64) -> f64 {
        let (a, b, m) = (self, other, self.merged(other));
        let (p, q) = (a.weight / m.weight, b.weight / m.weight);
        let (u, v, w) = (a.opacity, b.opacity, m.opacity);
        let (aa, bb, ab) = (a.overlap(a), b.overlap(b), a.overlap(b));
        let (am, bm, mm) = (a.overlap(&m), b.overlap(&m), m.overlap(&m));
        let colour = u * u * q * q * aa + v * v * p * p * bb - 2.0 * u * v * p * q * ab;
        let cover =
            u * u * aa + v * v * bb + w * w * mm + 2.0 * (u * v * ab - u * w * am - v * w * bm);
        let seen = (a.seen * a.mass + b.seen * b.mass) / (a.mass + b.mass);
        (colour.max(0.0) * colours / (4.0 * PI) + CONTRAST * cover.max(0.0)) * seen
    }

    /// Returns the squared loss of an image if this Gaussian is removed.
    pub(super) fn cost_alone(&self) -> f64 {
        CONTRAST_ALONE * self.opacity * self.opacity * self.overlap(self) * self.seen
    }
}

/// Eigenvalues of a symmetric matrix and a rotation whose columns are its eigenvectors: Jacobi's method, cyclic
/// (Golub & Van Loan, algorithm 8.5.3). A sweep squares what is left off the diagonal; twelve are plenty.
pub(super) fn eigen(c: &Covariance) -> ([f64; 3], DMat3) {
    let mut a = [[c[0], c[3], c[4]], [c[3], c[1], c[5]], [c[4], c[5], c[2]]];
    let mut v = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    for _ in 0..12 {
        for (p, q) in [(0, 1), (0, 2), (1, 2)] {
            let off: f64 = a[p][q];
            if off.abs() <= 1e-300 {
                continue;
            }
            let theta: f64 = (a[q][q] - a[p][p]) / (2.0 * off);
            let sign = if theta < 0.0 { -1.0 } else { 1.0 };
            let t = sign / (theta.abs() + (theta * theta + 1.0).sqrt());
            let cos = 1.0 / (t * t + 1.0).sqrt();
            let turn = |x: &mut f64, y: &mut f64| {
                (*x, *y) = (cos * *x - t * cos * *y, t * cos * *x + cos * *y);
            };
            for row in a.iter_mut().chain(&mut v) {
                let (mut x, mut y) = (row[p], row[q]);
                turn(&mut x, &mut y);
                (row[p], row[q]) = (x, y);
            }
            let (mut above, mut below) = (a[p], a[q]);
            for (x, y) in above.iter_mut().zip(&mut below) {
                turn(x, y);
            }
            (a[p], a[q]) = (above, below);
        }
    }
    let mut vectors = DMat3::from_cols_array_2d(&v).transpose();
    if vectors.determinant() < 0.0 {
        vectors.z_axis = -vectors.z_axis;
    }
    ([a[0][0], a[1][1], a[2][2]], vectors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use glam::DQuat;

    fn ball(x: f64, opacity: f64) -> Gaussian {
        Gaussian::new(
            DVec3::new(x, 0.0, 0.0),
            DMat3::IDENTITY,
            DVec3::ONE,
            opacity,
            None,
        )
    }

    #[test]
    fn moments_of_two_balls_are_those_of_their_mixture() {
        let merged = ball(-1.0, 0.5).merged(&ball(1.0, 0.5));
        assert!(merged.mean.length() < 1e-12);
        // Along x the variance grows by the squared distance from the mean, elsewhere it stays.
        let wanted = [2.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        for (value, wanted) in merged.covariance.iter().zip(wanted) {
            assert!((value - wanted).abs() < 1e-12, "{merged:?}");
        }
        // Mean projected area: (sqrt 2 + sqrt 2 + 1) / 3 of a ball's. Both showed 2 x 0.5 of one.
        let grown = (2.0 * 2f64.sqrt() + 1.0) / 3.0;
        assert!(
            (merged.opacity - (1.0 / grown).min(0.999)).abs() < 1e-9,
            "{}",
            merged.opacity
        );
    }

    #[test]
    fn one_that_is_hidden_changes_nothing_of_what_it_joins() {
        let of = |x, contribution| {
            Gaussian::new(
                DVec3::new(x, 0.0, 0.0),
                DMat3::IDENTITY,
                DVec3::ONE,
                0.8,
                Some(contribution),
            )
        };
        let merged = of(0.0, 1e6).merged(&of(2.0, 0.0));
        assert!(merged.mean.length() < 1e-9 && (merged.opacity - 0.8).abs() < 1e-9);
        assert!(of(2.0, 0.0).cost_alone() < 1e-6 * of(0.0, 1e6).cost_alone());
    }

    #[test]
    fn the_overlap_is_the_integral_that_sums_find() {
        let turn = DMat3::from_quat(DQuat::from_rotation_z(0.6));
        let a = Gaussian::new(DVec3::ZERO, turn, DVec3::new(1.0, 0.4, 0.7), 1.0, None);
        let b = Gaussian::new(
            DVec3::new(0.5, -0.3, 0.2),
            DMat3::IDENTITY,
            DVec3::new(0.5, 0.8, 0.6),
            1.0,
            None,
        );
        let mut total = 0.0;
        let step = 0.05;
        for ([x, y, xy], [i, j]) in PLANES {
            let height = |g: &Gaussian, u: f64, v: f64| {
                let (p, q, r) = (g.covariance[x], g.covariance[y], g.covariance[xy]);
                let (u, v) = (u - g.mean[i], v - g.mean[j]);
                (-0.5 * (q * u * u - 2.0 * r * u * v + p * v * v) / (p * q - r * r)).exp()
            };
            for m in -100..100 {
                for n in -100..100 {
                    let (u, v) = (f64::from(m) * step, f64::from(n) * step);
                    total += height(&a, u, v) * height(&b, u, v) * step * step / 3.0;
                }
            }
        }
        assert!(
            (a.overlap(&b) - total).abs() < 1e-6,
            "{} {total}",
            a.overlap(&b)
        );
    }

    #[test]
    fn merging_equals_costs_nothing_and_colours_cost_where_both_are() {
        let (a, b) = (ball(0.0, 0.3), ball(0.0, 0.3));
        assert!(a.cost(&b, 0.0) < 1e-9);
        assert!(ball(0.0, 0.3).cost(&ball(3.0, 0.3), 0.0) > 1e-3);
        assert!(a.cost(&ball(1.0, 0.3), 1.0) > a.cost(&ball(1.0, 0.3), 0.0));
    }

    #[test]
    fn eigenvectors_give_the_matrix_back() {
        let turn = DMat3::from_quat(DQuat::from_xyzw(0.3, -0.2, 0.5, 0.8).normalize());
        for deviations in [
            DVec3::new(1.0, 2.0, 3.0),
            DVec3::ONE,
            DVec3::new(1e-4, 1.0, 1e-4),
        ] {
            let g = Gaussian::new(DVec3::ZERO, turn, deviations, 0.5, None);
            let (values, vectors) = eigen(&g.covariance);
            let back = vectors * DMat3::from_diagonal(values.into()) * vectors.transpose();
            let c = g.covariance;
            let wanted = DMat3::from_cols(
                DVec3::new(c[0], c[3], c[4]),
                DVec3::new(c[3], c[1], c[5]),
                DVec3::new(c[4], c[5], c[2]),
            );
            assert!(back.abs_diff_eq(wanted, 1e-12), "{back} {wanted}");
            assert!((vectors.determinant() - 1.0).abs() < 1e-12);
        }
    }
}
