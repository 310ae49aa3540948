//! `project_backward`: from dL/dellipse to the parameters and the camera's pose.
//!
//! Matrix derivatives are written for full matrices: `G_A` holds dL/dA_ij with every entry free, so
//! a symmetric A has a symmetric `G_A` and no factor of two hides anywhere. The one conversion is at
//! the top, where the conic's single xy is shared out to its two places.
//!
//! 1. Conic = covariance^-1: `G_V = -Q G_Q Q` (arXiv:2312.02121, section 4); and by way of the
//!    opacity, where [`crate::features::antialias`] makes it depend on the covariance.
//! 2. `V = J C J^T`: `G_C = J^T G_V J`, `G_J = 2 G_V J C`.
//! 3. `C = W Sigma W^T`: `G_Sigma = W^T G_C W`.
//! 4. `Sigma = M M^T`, `M = R S`: `G_M = 2 G_Sigma M`, then to scales and rotation.
//! 5. Rotation to quaternion, through its normalisation.
//! 6. The centre: through its projection, through the Jacobian, as a depth, through the SH direction.
//! 7. Pose: everything the camera sees moves by `p -> p + omega x p + t`.

use super::lens::PosedLens;
use super::products::{frobenius, outer};
use super::project::{
    Footprint, Gaussian, ProjectedGradient, degree_of, raw_colour, shown_opacity, sigmoid,
};
use super::sh::{sh_basis, sh_basis_gradient};
use dapple_engine::RenderSettings;
use glam::{DMat2, DMat3, DVec2, DVec3};

/// Derivatives of a loss with respect to a [`Gaussian`] and, by way of it, to the pose.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianGradient {
    /// Centre.
    pub mean: DVec3,
    /// Logarithms of the standard deviations.
    pub scale: [f64; 3],
    /// `[w, x, y, z]`, not normalised.
    pub quat: [f64; 4],
    /// Logit of the opacity.
    pub opacity: f64,
    /// Coefficients up to the active degree.
    pub sh: Vec<DVec3>,
    /// Derivative by the pose, see [`dapple_engine::Gradients::pose`].
    pub pose: [f64; 6],
}

/// The derivative of one Gaussian that is not absent.
pub fn project_backward(
    gaussian: &Gaussian,
    eye: &PosedLens,
    settings: &RenderSettings,
    dl: &ProjectedGradient,
) -> GaussianGradient {
    let footprint = Footprint::new(gaussian, eye, settings);
    let sh_degree = settings.sh_degree;
    let opacity = shown_opacity(gaussian, footprint.compensation(settings));

    // 1. Conic to covariance.
    let q = footprint.covariance.inverse();
    let [xx, xy, yy] = dl.conic;
    let g_q = DMat2::from_cols(DVec2::new(xx, 0.5 * xy), DVec2::new(0.5 * xy, yy));
    let g_v = -(q * g_q * q) + footprint.compensation_backward(settings) * (dl.opacity * opacity);

    // 2. Covariance on the image to covariance in camera coordinates and to the Jacobian.
    let jacobian = footprint.lens.jacobian;
    let c = footprint.covariance_camera;
    let mut g_c = DMat3::ZERO;
    let mut g_j = [DVec3::ZERO; 2];
    for row in 0..2 {
        for column in 0..2 {
            let g = g_v.col(column)[row];
            g_c += outer(jacobian[row], jacobian[column]) * g;
            g_j[row] += 2.0 * g * (c * jacobian[column]);
        }
    }

    // 3, 4. To the world, to scales and rotation.
    let g_sigma = eye.rotation.transpose() * g_c * eye.rotation;
    let s = DMat3::from_diagonal(footprint.sigma);
    let g_m = 2.0 * g_sigma * footprint.rotation * s;
    let g_s = footprint.rotation.transpose() * g_m;
    let scale = std::array::from_fn(|k| g_s.col(k)[k] * footprint.sigma[k]);

    // 5. To the quaternion.
    let quat = quat_gradient(gaussian.quat, g_m * s);

    // 6. The centre, in camera coordinates, then in the world.
    let lens = &footprint.lens;
    let mut g_point = lens.centre_gradient[0] * dl.centre.x + lens.centre_gradient[1] * dl.centre.y;
    for (g, gradients) in g_j.iter().zip(lens.jacobian_gradient) {
        for (column, gradient) in gradients.into_iter().enumerate() {
            g_point += g[column] * gradient;
        }
    }
    g_point += dl.depth * eye.lens.depth_gradient(footprint.point);
    let (sh, g_direction) = colour_backward(gaussian, eye, sh_degree, dl.colour);
    let mean = eye.rotation.transpose() * g_point + g_direction;

    // 7. The pose. The covariance turns with omega: dC = [omega] C + C [omega]^T, hence
    // dL = 2 tr([omega] C G_C). The camera's centre is -R^T t and moves by -R^T dt, not with omega.
    let a = c * g_c;
    let turn = 2.0
        * DVec3::new(
            a.col(2)[1] - a.col(1)[2],
            a.col(0)[2] - a.col(2)[0],
            a.col(1)[0] - a.col(0)[1],
        );
    let omega = footprint.point.cross(g_point) + turn;
    let translation = g_point + eye.rotation * g_direction;

    GaussianGradient {
        mean,
        scale,
        quat,
        opacity: dl.opacity * opacity * sigmoid(-gaussian.opacity),
        sh,
        pose: [
            omega.x,
            omega.y,
            omega.z,
            translation.x,
            translation.y,
            translation.z,
        ],
    }
}

/// From dL/dR to dL/dq for a quaternion of any length (arXiv:2312.02121, section 4).
pub(crate) fn quat_gradient(quat: [f64; 4], g_rotation: DMat3) -> [f64; 4] {
    let length = quat.iter().map(|v| v * v).sum::<f64>().sqrt();
    let unit = quat.map(|v| v / length);
    let [w, x, y, z] = unit;
    // The derivative of each entry of `rotation_matrix`; written by rows, hence transposed.
    let rows = |r: [[f64; 3]; 3]| 2.0 * DMat3::from_cols_array_2d(&r).transpose();
    let derivatives = [
        rows([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]),
        rows([[0.0, y, z], [y, -2.0 * x, -w], [z, w, -2.0 * x]]),
        rows([[-2.0 * y, x, w], [x, 0.0, z], [-w, z, -2.0 * y]]),
        rows([[-2.0 * z, -w, x], [w, -2.0 * z, y], [x, y, 0.0]]),
    ];
    let g_unit = derivatives.map(|d| frobenius(g_rotation, d));
    // Through q / |q|: only what is across q counts.
    let along: f64 = g_unit.iter().zip(unit).map(|(g, u)| g * u).sum();
    std::array::from_fn(|k| (g_unit[k] - along * unit[k]) / length)
}

/// To the coefficients, and to the centre by way of the viewing direction. A channel below zero is
/// clamped and passes nothing; one at zero passes its gradient, as in PyTorch's clamp.
fn colour_backward(
    gaussian: &Gaussian,
    eye: &PosedLens,
    sh_degree: u8,
    dl_dcolour: DVec3,
) -> (Vec<DVec3>, DVec3) {
    let raw = raw_colour(gaussian, eye, sh_degree);
    let dl: DVec3 = DVec3::from(std::array::from_fn(|k| {
        if raw[k] >= 0.0 { dl_dcolour[k] } else { 0.0 }
    }));
    let sh = gaussian.active_sh(sh_degree);
    let degree = degree_of(sh.len());
    let ray = gaussian.mean - eye.centre;
    let direction = ray.normalize();
    let g_sh = sh_basis(degree, direction)
        .into_iter()
        .map(|b| dl * b)
        .collect();
    let g_direction: DVec3 = sh_basis_gradient(degree, direction)
        .into_iter()
        .zip(sh)
        .map(|(gradient, c)| gradient * dl.dot(*c))
        .sum();
    // Through ray / |ray|.
    let across = g_direction - direction * direction.dot(g_direction);
    (g_sh, across / ray.length())
}
