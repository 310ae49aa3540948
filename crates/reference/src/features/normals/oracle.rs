//! `normal_consistency`: the normals of Gaussians against those of the surface, see
//! [`dapple_engine::features::normals`] for the formulas.
//!
//! 1. [`normal_loss`]: from the four blended channels to the loss, and back to them.
//! 2. [`normal_consistency`]: the channels of the Gaussians, their blend, the loss, and the gradients: as those of
//!    colours and depth through the blend, then to the quaternion and the centre of each Gaussian.

use crate::features::regularise::oracle::thinnest;
use crate::oracle::project::{Footprint, Projected};
use crate::oracle::project_backward::{project_backward, quat_gradient};
use crate::oracle::{Gaussian, PosedLens, blend, blend_backward, ranges, visible};
use dapple_engine::features::normals::{LEAST_ALPHA, LEAST_COSINE, MOST_STEP};
use dapple_engine::{Gradients, ImageDerivative, RenderSettings};
use dapple_scene::{Camera, Rays, Result};
use glam::{DMat3, DVec2, DVec3};

/// Blended channels of a view, `[height, width]`.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaneImage {
    /// Blended normals, camera coordinates.
    pub normals: Vec<DVec3>,
    /// Blended distances of the planes from the camera.
    pub distances: Vec<f64>,
    /// Alpha.
    pub alpha: Vec<f64>,
}

/// Loss of blended channels, and its derivatives.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaneLoss {
    /// The loss, times its weight.
    pub value: f64,
    /// Pixels that count.
    pub counted: usize,
    /// Least relative distance of a decision from its threshold: an engine in `f32` may decide otherwise near 0.
    pub margin: f64,
    /// Derivatives by the channels.
    pub by: PlaneImage,
}

/// Loss and its gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaneConsistency {
    /// The loss, times its weight.
    pub value: f64,
    /// Pixels that count.
    pub counted: usize,
    /// See [`PlaneLoss::margin`].
    pub margin: f64,
    /// Derivative by every parameter; zero for centres on the image, which density control counts.
    pub gradients: Gradients<f64>,
}

impl PlaneLoss {
    /// No loss, without a decision.
    pub(super) fn zero(pixels: usize) -> Self {
        Self {
            value: 0.0,
            counted: 0,
            margin: f64::INFINITY,
            by: PlaneImage::zeros(pixels),
        }
    }
}

/// A pixel's ray and its factor `D / (N . r)`.
#[derive(Clone, Copy)]
pub(super) struct PlanePoint {
    ray: DVec3,
    factor: f64,
}

impl PlanePoint {
    fn place(&self) -> DVec3 {
        self.ray * self.factor
    }
}

/// Compares, and lowers `margin` to the relative distance from `least`.
fn at_least(value: f64, least: f64, margin: &mut f64) -> bool {
    *margin = margin.min((value / least - 1.0).abs());
    value >= least
}

impl PlaneImage {
    fn zeros(pixels: usize) -> Self {
        Self {
            normals: vec![DVec3::ZERO; pixels],
            distances: vec![0.0; pixels],
            alpha: vec![0.0; pixels],
        }
    }

    /// Step 1 of the formulas.
    pub(super) fn point(
        &self,
        pixel: usize,
        ray: Option<DVec3>,
        margin: &mut f64,
    ) -> Option<PlanePoint> {
        let ray = ray?;
        let alpha = self.alpha[pixel];
        let slope = self.normals[pixel].dot(ray);
        let least = f64::from(LEAST_COSINE) * alpha * ray.length();
        let factor = self.distances[pixel] / slope;
        let is_seen = at_least(alpha, f64::from(LEAST_ALPHA), margin)
            && at_least(-slope, least, margin)
            && factor > 0.0;
        is_seen.then_some(PlanePoint { ray, factor })
    }
}

/// Returns the loss of blended channels, times `weight`.
pub fn normal_loss(camera: &Camera, image: &PlaneImage, weight: f64) -> PlaneLoss {
    let (width, height) = (camera.width as usize, camera.height as usize);
    let rays = Rays::new(camera);
    let centre = |i: usize| DVec2::new((i % width) as f64 + 0.5, (i / width) as f64 + 0.5);
    let mut out = PlaneLoss::zero(width * height);
    let points: Vec<Option<PlanePoint>> = (0..width * height)
        .map(|i| image.point(i, rays.ray(centre(i)), &mut out.margin))
        .collect();
    let share = weight / (width * height) as f64;
    let mut by_place = vec![DVec3::ZERO; width * height];
    for y in 1..height.saturating_sub(1) {
        for x in 1..width.saturating_sub(1) {
            let at = y * width + x;
            // Left, right, above, below.
            let around = [at - 1, at + 1, at - width, at + width];
            let Some(here) = points[at] else { continue };
            let mut near = |i: usize| {
                let step = |p: &PlanePoint| (p.factor - here.factor).abs() / here.factor;
                points[i].filter(|p| !at_least(step(p), f64::from(MOST_STEP), &mut out.margin))
            };
            let [Some(left), Some(right), Some(above), Some(below)] = around.map(&mut near) else {
                continue;
            };
            let across = right.place() - left.place();
            let down = below.place() - above.place();
            let area = down.cross(across);
            let normal = area.normalize();
            let blended = image.normals[at];
            out.value += share * (image.alpha[at] - blended.dot(normal));
            out.counted += 1;
            out.by.alpha[at] += share;
            out.by.normals[at] -= share * normal;
            // Through the unit vector, then through the cross product.
            let by_normal = -share * blended;
            let by_area = (by_normal - normal * normal.dot(by_normal)) / area.length();
            let (by_down, by_across) = (across.cross(by_area), by_area.cross(down));
            by_place[around[0]] -= by_across;
            by_place[around[1]] += by_across;
            by_place[around[2]] -= by_down;
            by_place[around[3]] += by_down;
        }
    }
    for (i, point) in points.iter().enumerate() {
        let Some(point) = point else { continue };
        let slope = image.normals[i].dot(point.ray);
        let by_factor = by_place[i].dot(point.ray);
        out.by.distances[i] += by_factor / slope;
        out.by.normals[i] -= by_factor * point.factor / slope * point.ray;
    }
    out
}

/// Plane of a Gaussian, in camera coordinates.
struct Plane {
    /// Number of the shortest axis.
    axis: usize,
    /// 1, or -1 if the axis points away from the camera.
    sign: f64,
    normal: DVec3,
    /// Centre of the Gaussian.
    point: DVec3,
}

impl Plane {
    fn new(gaussian: &Gaussian, eye: &PosedLens, settings: &RenderSettings) -> Self {
        let footprint = Footprint::new(gaussian, eye, settings);
        let axis = thinnest(gaussian);
        let along = eye.rotation * footprint.rotation.col(axis);
        let sign = if along.dot(footprint.point) > 0.0 {
            -1.0
        } else {
            1.0
        };
        Self {
            axis,
            sign,
            normal: sign * along,
            point: footprint.point,
        }
    }

    fn distance(&self) -> f64 {
        self.normal.dot(self.point)
    }
}

/// Returns the loss of Gaussians, times `weight`, and its gradient.
///
/// # Errors
/// See [`crate::render`].
pub fn normal_consistency(
    gaussians: &[Gaussian],
    sh_rest_stride: usize,
    camera: &Camera,
    settings: &RenderSettings,
    weight: f64,
) -> Result<PlaneConsistency> {
    let loss = |image: &PlaneImage| normal_loss(camera, image, weight);
    consistency(gaussians, sh_rest_stride, camera, settings, loss)
}

/// Returns a loss of the planes of Gaussians, and its gradient.
pub(super) fn consistency(
    gaussians: &[Gaussian],
    sh_rest_stride: usize,
    camera: &Camera,
    settings: &RenderSettings,
    loss: impl Fn(&PlaneImage) -> PlaneLoss,
) -> Result<PlaneConsistency> {
    let settings = RenderSettings {
        background: [0.0; 3],
        ..*settings
    };
    let eye = PosedLens::new(camera)?;
    let plane_of = |p: &Projected| Plane::new(&gaussians[p.index], &eye, &settings);
    let mut visible = visible(gaussians, camera, &settings)?;
    for projected in &mut visible {
        let plane = plane_of(projected);
        (projected.colour, projected.depth) = (plane.normal, plane.distance());
    }
    let lists = ranges(&visible, camera, settings.max_gaussians_per_tile);
    let image = blend(&visible, &lists, camera, &settings);
    let planes = PlaneImage {
        normals: image.rgb.chunks_exact(3).map(DVec3::from_slice).collect(),
        distances: image.depth,
        alpha: image.alpha,
    };
    let loss = loss(&planes);
    let by_normal: Vec<f64> = loss.by.normals.iter().flat_map(|n| n.to_array()).collect();
    let derivative = ImageDerivative {
        rgb: &by_normal,
        alpha: Some(&loss.by.alpha),
        depth: Some(&loss.by.distances),
    };
    let slots = blend_backward(&visible, &lists, camera, &settings, &derivative);
    let mut out = Gradients::zeros(gaussians.len(), sh_rest_stride);
    for (projected, slot) in visible.iter().zip(&slots) {
        let (i, gaussian) = (projected.index, &gaussians[projected.index]);
        let mut through_shape = *slot;
        // The channels are planes, not colours and depths.
        (through_shape.colour, through_shape.depth) = (DVec3::ZERO, 0.0);
        let g = project_backward(gaussian, &eye, &settings, &through_shape);
        let plane = plane_of(projected);
        let by_normal = slot.colour + slot.depth * plane.point;
        let by_point = slot.depth * plane.normal;
        let mut by_rotation = DMat3::ZERO;
        *by_rotation.col_mut(plane.axis) = plane.sign * (eye.rotation.transpose() * by_normal);
        let turned = quat_gradient(gaussian.quat, by_rotation);
        out.means[i] = (g.mean + eye.rotation.transpose() * by_point).to_array();
        out.scales[i] = g.scale;
        out.quats[i] = std::array::from_fn(|k| g.quat[k] + turned[k]);
        out.opacities[i] = g.opacity;
        // Normal and centre turn with the camera, and the centre moves with it.
        let omega = plane.normal.cross(by_normal) + plane.point.cross(by_point);
        let motion = omega.to_array().into_iter().chain(by_point.to_array());
        for ((sum, part), more) in out.pose.iter_mut().zip(g.pose).zip(motion) {
            *sum += part + more;
        }
    }
    Ok(PlaneConsistency {
        value: loss.value,
        counted: loss.counted,
        margin: loss.margin,
        gradients: out,
    })
}
