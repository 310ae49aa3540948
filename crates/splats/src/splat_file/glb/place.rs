//! Applies the matrix of a node to Gaussians.
//!
//! A matrix M maps a covariance C C^T to (M C) (M C)^T. If M rotates and scales equally in all directions, it is a
//! similarity, like that of edits. Else M C is decomposed: its columns are rotated against each other until they are
//! orthogonal (one-sided Jacobi, Golub & Van Loan, section 8.6.3). Their lengths are the new sizes and their directions
//! the new axes, to f64's precision for any thickness of the Gaussian. Harmonics are rotated by the nearest rotation to
//! M.

use crate::Similarity;
use crate::Splats;
use crate::harmonics::Turn;
use glam::{DMat3, DMat4, DQuat, DVec3};
use rayon::prelude::*;

/// Tolerance on lengths and angles of a matrix's columns, within which it is a similarity.
const ROUNDING: f64 = 1e-5;

/// Sizes below this are zero.
const NOTHING: f64 = 1e-12;

/// Effect of a matrix on Gaussians.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A similarity.
    Similar,
    /// Different factors in different directions.
    Stretched,
    /// Like the others, with left and right exchanged.
    Mirrored,
    /// To a plane, a line or a point, or to non-finite numbers: nothing remains visible.
    Nothing,
}

/// Moves Gaussians, in right, down, forward, by a matrix in glTF's axes.
pub(super) fn place(splats: &mut Splats, world: &DMat4) -> Change {
    if world.abs_diff_eq(DMat4::IDENTITY, 1e-12) {
        return Change::Similar;
    }
    // A rotation by 180 degrees about z is its own inverse.
    let half = DMat3::from_diagonal(DVec3::new(-1.0, -1.0, 1.0));
    let matrix = half * DMat3::from_mat4(*world) * half;
    let translation = half * world.w_axis.truncate();
    let (columns, right) = orthogonal(matrix);
    let sizes = columns.map(DVec3::length);
    let (least, most) = (
        sizes.into_iter().fold(f64::INFINITY, f64::min),
        sizes.into_iter().fold(0.0, f64::max),
    );
    let is_some = least > NOTHING && most.is_finite() && translation.is_finite();
    if !is_some {
        return Change::Nothing;
    }
    let is_mirrored = matrix.determinant() < 0.0;
    if most - least <= ROUNDING * most && !is_mirrored {
        let scale = (sizes[0] * sizes[1] * sizes[2]).cbrt();
        let rotation = DQuat::from_mat3(&(matrix * (1.0 / scale))).normalize();
        Similarity {
            rotation: [rotation.w, rotation.x, rotation.y, rotation.z],
            scale,
            translation: translation.to_array(),
        }
        .apply(splats);
        return Change::Similar;
    }
    // Of U S V^T, U V^T is the nearest.
    let left = [0, 1, 2].map(|k| columns[k] / sizes[k]);
    let nearest = DMat3::from_cols(left[0], left[1], left[2]) * right.transpose();
    stretch(splats, matrix, translation, nearest);
    match is_mirrored {
        true => Change::Mirrored,
        false => Change::Stretched,
    }
}

fn stretch(splats: &mut Splats, matrix: DMat3, translation: DVec3, nearest: DMat3) {
    splats.means.par_iter_mut().for_each(|mean| {
        let moved = matrix * DVec3::from(mean.map(f64::from)) + translation;
        *mean = moved.to_array().map(|v| v as f32);
    });
    let gaussians = splats.scales.par_iter_mut().zip(&mut splats.quats);
    gaussians.for_each(|(scale, quat)| {
        let is_finite = |values: &[f32]| values.iter().all(|v| v.is_finite());
        if !is_finite(&scale[..]) || !is_finite(&quat[..]) {
            return;
        }
        let [w, x, y, z] = quat.map(f64::from);
        let rotation = DMat3::from_quat(DQuat::from_xyzw(x, y, z, w).normalize());
        let sizes = DVec3::from(scale.map(f64::from)).exp();
        let (columns, _) = orthogonal(matrix * rotation * DMat3::from_diagonal(sizes));
        let lengths = columns.map(DVec3::length);
        let Some(axes) = axes(columns, lengths) else {
            return;
        };
        *scale = lengths.map(|length| length.ln() as f32);
        let turned = DQuat::from_mat3(&axes).normalize();
        *quat = [turned.w, turned.x, turned.y, turned.z].map(|v| v as f32);
    });
    let stride = splats.sh_rest_stride();
    if stride > 0 {
        let turn = Turn::new(nearest);
        splats
            .sh_rest
            .par_chunks_mut(stride)
            .for_each(|row| turn.apply(row));
    }
}

/// Converts directions of columns to a rotation: the sign of an ellipsoid's axis has no effect.
fn axes(columns: [DVec3; 3], lengths: [f64; 3]) -> Option<DMat3> {
    let is_sound = lengths
        .iter()
        .all(|&l| l > f64::MIN_POSITIVE && l.is_finite());
    if !is_sound {
        return None;
    }
    let [x, y, z] = [0, 1, 2].map(|k| columns[k] / lengths[k]);
    let axes = DMat3::from_cols(x, y, z);
    Some(match axes.determinant() < 0.0 {
        true => DMat3::from_cols(x, y, -z),
        false => axes,
    })
}

/// Returns the columns of `matrix` times a rotation that makes them orthogonal, and that rotation.
fn orthogonal(matrix: DMat3) -> ([DVec3; 3], DMat3) {
    let mut columns = [matrix.x_axis, matrix.y_axis, matrix.z_axis];
    let mut right = [DVec3::X, DVec3::Y, DVec3::Z];
    for _ in 0..30 {
        let mut is_done = true;
        for (p, q) in [(0, 1), (0, 2), (1, 2)] {
            let (pp, qq) = (columns[p].length_squared(), columns[q].length_squared());
            let pq = columns[p].dot(columns[q]);
            if pq.abs() <= 1e-15 * (pp * qq).sqrt() || !pq.is_finite() {
                continue;
            }
            is_done = false;
            let theta = (qq - pp) / (2.0 * pq);
            let sign = if theta < 0.0 { -1.0 } else { 1.0 };
            let t = sign / (theta.abs() + (theta * theta + 1.0).sqrt());
            let cos = 1.0 / (t * t + 1.0).sqrt();
            for set in [&mut columns, &mut right] {
                let (a, b) = (set[p], set[q]);
                set[p] = cos * (a - t * b);
                set[q] = cos * (t * a + b);
            }
        }
        if is_done {
            break;
        }
    }
    (columns, DMat3::from_cols(right[0], right[1], right[2]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harmonics::basis;

    fn one() -> Splats {
        let mut splats = Splats::empty(2);
        splats.means.push([1.0, -2.0, 0.5]);
        splats.scales.push([-1.0, -12.0, 0.5]);
        splats.quats.push([0.8, -0.4, 0.2, 0.4]);
        splats.opacities.push(0.0);
        splats.sh0.push([0.0; 3]);
        splats.sh_rest = (0..24).map(|i| (i as f32 * 0.7).sin()).collect();
        splats
    }

    /// Computes the covariance, in glTF's axes.
    fn covariance(splats: &Splats) -> DMat3 {
        let half = DMat3::from_diagonal(DVec3::new(-1.0, -1.0, 1.0));
        let [w, x, y, z] = splats.quats[0].map(f64::from);
        let rotation = DMat3::from_quat(DQuat::from_xyzw(x, y, z, w).normalize());
        let sizes = DMat3::from_diagonal(DVec3::from(splats.scales[0].map(f64::from)).exp());
        let c = half * rotation * sizes;
        c * c.transpose()
    }

    #[test]
    fn covariances_and_means_follow_any_matrix() {
        let turn = DQuat::from_axis_angle(DVec3::new(0.3, -0.5, 0.8).normalize(), 1.1);
        for (scale, change) in [
            (DVec3::splat(2.0), Change::Similar),
            (DVec3::new(2.0, 0.5, 1.0), Change::Stretched),
            (DVec3::new(1.0, 1.0, -1.0), Change::Mirrored),
            (DVec3::new(-2.0, 0.5, 1.0), Change::Mirrored),
        ] {
            let shear =
                DMat4::from_scale_rotation_translation(scale, turn, DVec3::new(5.0, -6.0, 7.0));
            let before = one();
            let mut after = before.clone();
            assert_eq!(place(&mut after, &shear), change, "{scale}");
            let m = DMat3::from_mat4(shear);
            let wanted = m * covariance(&before) * m.transpose();
            assert!(wanted.abs_diff_eq(covariance(&after), 1e-5), "{scale}");
            let mean = |s: &Splats| {
                let [x, y, z] = s.means[0].map(f64::from);
                DVec3::new(-x, -y, z)
            };
            let moved = shear.transform_point3(mean(&before));
            assert!(moved.abs_diff_eq(mean(&after), 1e-5), "{scale}");
            // The thinnest axis keeps its precision.
            let thin = after.scales[0]
                .iter()
                .copied()
                .fold(f32::INFINITY, f32::min);
            assert!((-13.0..-10.5).contains(&thin), "{scale}: {thin}");
        }
    }

    /// The mirrored colour from direction d equals the original colour from the mirrored direction.
    #[test]
    fn harmonics_are_mirrored_with_the_mesh() {
        let before = one();
        let mut after = before.clone();
        let mirror = DMat4::from_scale(DVec3::new(-1.0, 1.0, 1.0));
        assert_eq!(place(&mut after, &mirror), Change::Mirrored);
        let colour = |s: &Splats, d: DVec3| {
            let basis = basis(d.normalize());
            (0..8)
                .map(|k| basis[k + 1] * f64::from(s.sh_rest[3 * k]))
                .sum::<f64>()
        };
        for d in [DVec3::new(0.2, 0.5, -0.7), DVec3::new(-0.9, 0.1, 0.3)] {
            let back = DVec3::new(-d.x, d.y, d.z);
            assert!((colour(&after, d) - colour(&before, back)).abs() < 1e-6);
        }
    }

    #[test]
    fn what_is_left_of_nothing_is_said() {
        for scale in [DVec3::ZERO, DVec3::new(1.0, 0.0, 1.0), DVec3::splat(1e-13)] {
            assert_eq!(
                place(&mut one(), &DMat4::from_scale(scale)),
                Change::Nothing
            );
        }
        let far = DMat4::from_translation(DVec3::new(f64::INFINITY, 0.0, 0.0));
        assert_eq!(place(&mut one(), &far), Change::Nothing);
    }
}
