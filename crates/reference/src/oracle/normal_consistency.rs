//! Depth-normal consistency: the normals of the Gaussians of a pixel follow the normal of the surface (Huang et al.
//! 2024, "2D Gaussian Splatting", arXiv:2403.17888, eq. 14).
//!
//! 1. The normal `n_i` of a Gaussian is its shortest axis, in camera coordinates, towards the camera.
//! 2. `L = 1 / P sum_p sum_i w_i (1 - n_i . N_p)`, with `w_i` the share of the pixel and P the number of pixels. A
//!    pixel whose `N_p` is zero has no part in the sum.
//! 3. N is [`surface_normals`]: the normals of the surface depth as an image. N is constant in the derivative.
//! 4. The sum over i is a blended image with the channels `n_i` and without a background. Its derivative passes through
//!    [`blend_backward`] as that of colours, and from `n_i` to the quaternion of the Gaussian.

use super::lens::PosedLens;
use super::project::{Footprint, Gaussian, Projected};
use super::project_backward::{project_backward, quat_gradient};
use super::{blend, blend_backward, ranges, surface_of_gaussians, visible};
use dapple_engine::{Gradients, ImageDerivative, RenderSettings, depth};
use dapple_scene::{Camera, Result};
use glam::{DMat3, DVec3};

/// Loss and its gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalConsistency {
    /// The loss.
    pub value: f64,
    /// Derivative by every parameter.
    pub gradients: Gradients<f64>,
}

/// Returns the normals of the surface depth as an image, `[height, width]`, camera coordinates; zero where there is no
/// surface.
///
/// # Errors
/// See [`super::render`].
pub fn surface_normals(
    gaussians: &[Gaussian],
    camera: &Camera,
    settings: &RenderSettings,
) -> Result<Vec<DVec3>> {
    let surface = surface_of_gaussians(gaussians, camera, settings)?;
    let depths: Vec<f32> = surface.points.iter().map(|p| p.depth as f32).collect();
    let normals = depth::normals(camera, &depths).into_iter();
    Ok(normals.map(|n| DVec3::from(n.map(f64::from))).collect())
}

/// Axis of step 1: its number, and its sign towards the camera.
fn axis(gaussian: &Gaussian, eye: &PosedLens, settings: &RenderSettings) -> (usize, f64, DVec3) {
    let footprint = Footprint::new(gaussian, eye, settings);
    let s = gaussian.scale;
    let first = if s[1] < s[0] { 1 } else { 0 };
    let shortest = if s[2] < s[first] { 2 } else { first };
    let normal = eye.rotation * footprint.rotation.col(shortest);
    let sign = if normal.dot(footprint.point) > 0.0 {
        -1.0
    } else {
        1.0
    };
    (shortest, sign, sign * normal)
}

/// Computes the loss and its gradient for fixed normals `targets`, `[height, width]`.
///
/// # Errors
/// See [`super::render`].
pub fn normal_consistency(
    gaussians: &[Gaussian],
    sh_rest_stride: usize,
    camera: &Camera,
    settings: &RenderSettings,
    targets: &[DVec3],
) -> Result<NormalConsistency> {
    let settings = RenderSettings {
        background: [0.0; 3],
        ..*settings
    };
    let eye = PosedLens::new(camera)?;
    let axis_of = |p: &Projected| axis(&gaussians[p.index], &eye, &settings);
    let mut visible = visible(gaussians, camera, &settings)?;
    for projected in &mut visible {
        projected.colour = axis_of(projected).2;
    }
    let lists = ranges(&visible, camera, settings.max_gaussians_per_tile);
    let image = blend(&visible, &lists, camera, &settings);
    let share = 1.0 / targets.len() as f64;
    let (mut value, mut by_alpha, mut by_normal) = (0.0, Vec::new(), Vec::new());
    for (pixel, &target) in targets.iter().enumerate() {
        let counts = if target == DVec3::ZERO { 0.0 } else { share };
        let blended = DVec3::from_slice(&image.rgb[3 * pixel..]);
        value += counts * (image.alpha[pixel] - blended.dot(target));
        by_alpha.push(counts);
        by_normal.extend((-counts * target).to_array());
    }
    let derivative = ImageDerivative {
        rgb: &by_normal,
        alpha: Some(&by_alpha),
        depth: None,
    };
    let slots = blend_backward(&visible, &lists, camera, &settings, &derivative);
    let mut out = Gradients::zeros(gaussians.len(), sh_rest_stride);
    for (projected, slot) in visible.iter().zip(&slots) {
        let (i, gaussian) = (projected.index, &gaussians[projected.index]);
        let mut through_shape = *slot;
        // The channels are normals, not colours.
        through_shape.colour = DVec3::ZERO;
        let g = project_backward(gaussian, &eye, &settings, &through_shape);
        let (shortest, sign, normal) = axis_of(projected);
        let mut by_rotation = DMat3::ZERO;
        *by_rotation.col_mut(shortest) = sign * (eye.rotation.transpose() * slot.colour);
        let turned = quat_gradient(gaussian.quat, by_rotation);
        out.means[i] = g.mean.to_array();
        out.scales[i] = g.scale;
        out.quats[i] = std::array::from_fn(|k| g.quat[k] + turned[k]);
        out.opacities[i] = g.opacity;
        out.means2d[i] = slot.centre.to_array();
        // The normal turns with the camera.
        let omega = normal.cross(slot.colour).to_array();
        let pose = g.pose.iter().enumerate();
        for (sum, (k, part)) in out.pose.iter_mut().zip(pose) {
            *sum += part + omega.get(k).copied().unwrap_or(0.0);
        }
    }
    Ok(NormalConsistency {
        value,
        gradients: out,
    })
}
