//! `project` and `order`: from a Gaussian in the world to an ellipse with a colour.
//!
//! 1. Cull: a Gaussian is *absent* if a parameter is non-finite (SH up to the active degree), its quaternion is zero,
//!    its centre is nearer than `near` or outside the range of the lens, its opacity is below `ALPHA_MIN`, or its
//!    ellipse has no positive finite area.
//! 2. Covariance in the world: `R S S^T R^T` (Kerbl et al. 2023, eq. 6).
//! 3. On the image: `J W Sigma W^T J^T` (Zwicker et al. 2001, eq. 31; Kerbl et al. 2023, eq. 5), plus the dilation,
//!    which makes it at least a pixel wide.
//! 4. Opacity is the sigmoid of its logit, times `shown` and the factor of [`crate::features::antialias`]. Colour is
//!    `max(0, 0.5 + SH(direction))`, with the direction of the ray from the camera's centre.
//! 5. Order: by depth, ties by index. On a panorama, a pixel sees the copy of the ellipse that is nearest to its tile.

use super::lens::{LensProjection, PosedLens};
use super::sh::sh_basis;
use dapple_engine::RenderSettings;
use dapple_engine::constants::{ALPHA_MAX, ALPHA_MIN, TILE_SIZE};
use dapple_scene::{Splats, sh_coefficient_count};
use glam::{DMat2, DMat3, DVec2, DVec3};

/// Parameters of one Gaussian in `f64`, as stored: see [`Splats`].
#[derive(Debug, Clone, PartialEq)]
pub struct Gaussian {
    /// Centre, world units.
    pub mean: DVec3,
    /// Logarithms of the standard deviations.
    pub scale: [f64; 3],
    /// Quaternion `[w, x, y, z]`, of any length.
    pub quat: [f64; 4],
    /// Logit of the opacity.
    pub opacity: f64,
    /// Factor of the opacity in this render: 1, or the factor of [`crate::leave_out`].
    pub shown: f64,
    /// All stored coefficients, `sh0` first.
    pub sh: Vec<DVec3>,
}

impl Gaussian {
    /// Converts all Gaussians of `splats`.
    pub fn all(splats: &Splats) -> Vec<Self> {
        let stride = splats.sh_rest_stride();
        let wide = |v: [f32; 3]| DVec3::from(v.map(f64::from));
        let gaussian = |i: usize| {
            let (rest, _) = splats.sh_rest[i * stride..(i + 1) * stride].as_chunks::<3>();
            let first = std::iter::once(wide(splats.sh0[i]));
            Self {
                mean: wide(splats.means[i]),
                scale: splats.scales[i].map(f64::from),
                quat: splats.quats[i].map(f64::from),
                opacity: f64::from(splats.opacities[i]),
                shown: 1.0,
                sh: first.chain(rest.iter().map(|&v| wide(v))).collect(),
            }
        };
        (0..splats.len()).map(gaussian).collect()
    }

    /// Returns the coefficients of this degree.
    pub(crate) fn active_sh(&self, sh_degree: u8) -> &[DVec3] {
        let count = sh_coefficient_count(sh_degree).min(self.sh.len());
        &self.sh[..count]
    }

    fn is_finite(&self, sh_degree: u8) -> bool {
        self.mean.is_finite()
            && self.scale.iter().all(|v| v.is_finite())
            && self.quat.iter().all(|v| v.is_finite())
            && self.opacity.is_finite()
            && self.active_sh(sh_degree).iter().all(|v| v.is_finite())
    }

    /// Returns true if the squared length of the quaternion underflows in `f32`, the precision of engines.
    fn has_zero_quat(&self) -> bool {
        self.quat.iter().map(|v| v * v).sum::<f64>() < f64::from(f32::MIN_POSITIVE)
    }
}

/// Returns the degree with `count` coefficients.
pub(crate) fn degree_of(count: usize) -> u8 {
    (count.max(1).isqrt() - 1) as u8
}

/// Gaussian on the image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projected {
    /// Index of the Gaussian.
    pub index: usize,
    /// Projected centre, pixels.
    pub centre: DVec2,
    /// Camera z, or a distance for a panorama, world units.
    pub depth: f64,
    /// Width of an image whose left and right edges meet, pixels; 0 for others.
    pub period: f64,
    /// Dilated covariance, pixels squared: `[xx, xy, yy]`.
    pub covariance: [f64; 3],
    /// Inverse of the covariance: `[xx, xy, yy]`.
    pub conic: [f64; 3],
    /// Opacity, 0..1, after compensation.
    pub opacity: f64,
    /// Colour, not negative, not bounded above.
    pub colour: DVec3,
}

impl Projected {
    /// Returns the centre of the copy that the pixels of a tile see; the tile contains column `x`. Tiles are those of
    /// [`super::ranges`].
    pub fn centre_from(&self, x: f64) -> DVec2 {
        let tile = f64::from(TILE_SIZE);
        let ahead = ((x / tile).floor() + 0.5) * tile - self.centre.x;
        let shift = if self.period == 0.0 {
            0.0
        } else if ahead > 0.5 * self.period {
            self.period
        } else if ahead <= -0.5 * self.period {
            -self.period
        } else {
            0.0
        };
        self.centre + DVec2::X * shift
    }
}

/// Derivatives of a loss by a [`Projected`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProjectedGradient {
    /// Derivative by the centre, per pixel.
    pub centre: DVec2,
    /// Derivative by the centre, with the absolute value of each pixel's contribution, by axis (AbsGS).
    pub centre_absolute: DVec2,
    /// Derivative by `[xx, xy, yy]` of the conic. xy is **one** number in two places of the matrix: its derivative
    /// counts both.
    pub conic: [f64; 3],
    /// Derivative by the opacity, 0..1.
    pub opacity: f64,
    /// Derivative by the colour.
    pub colour: DVec3,
    /// Derivative by the depth, as a pixel's value: the order does not change.
    pub depth: f64,
}

/// Intermediate results of a Gaussian's ellipse, also for `project_backward`.
pub(crate) struct Footprint {
    /// Centre in camera coordinates.
    pub point: DVec3,
    /// Standard deviations, world units.
    pub sigma: DVec3,
    /// Rotation of the Gaussian.
    pub rotation: DMat3,
    /// Covariance in camera coordinates.
    pub covariance_camera: DMat3,
    /// Lens projection at the centre.
    pub lens: LensProjection,
    /// Covariance on the image, dilated.
    pub covariance: DMat2,
    /// Determinant of the covariance before dilation.
    pub bare_determinant: f64,
}

impl Footprint {
    pub fn new(gaussian: &Gaussian, eye: &PosedLens, settings: &RenderSettings) -> Self {
        let point = eye.to_camera(gaussian.mean);
        let sigma = DVec3::from(gaussian.scale.map(f64::exp));
        let rotation = rotation_matrix(gaussian.quat);
        let m = eye.rotation * rotation * DMat3::from_diagonal(sigma);
        let covariance_camera = m * m.transpose();
        let lens = eye.lens.project(point);
        let [u, v] = lens.jacobian;
        let cov_u = covariance_camera * u;
        let cov_v = covariance_camera * v;
        let dilation = f64::from(settings.dilation());
        let xy = u.dot(cov_v);
        let covariance = DMat2::from_cols(
            DVec2::new(u.dot(cov_u) + dilation, xy),
            DVec2::new(xy, v.dot(cov_v) + dilation),
        );
        // Lagrange's identity: xx yy - xy^2 cancels for needles.
        let (half_u, half_v) = (m.transpose() * u, m.transpose() * v);
        let bare_determinant = half_u.cross(half_v).length_squared();
        Self {
            point,
            sigma,
            rotation,
            covariance_camera,
            lens,
            covariance,
            bare_determinant,
        }
    }
}

/// Returns the rotation of a quaternion `[w, x, y, z]` of any length but zero.
pub(crate) fn rotation_matrix(quat: [f64; 4]) -> DMat3 {
    let length = quat.iter().map(|v| v * v).sum::<f64>().sqrt();
    let [w, x, y, z] = quat.map(|v| v / length);
    DMat3::from_cols(
        DVec3::new(
            1.0 - 2.0 * (y * y + z * z),
            2.0 * (x * y + w * z),
            2.0 * (x * z - w * y),
        ),
        DVec3::new(
            2.0 * (x * y - w * z),
            1.0 - 2.0 * (x * x + z * z),
            2.0 * (y * z + w * x),
        ),
        DVec3::new(
            2.0 * (x * z + w * y),
            2.0 * (y * z - w * x),
            1.0 - 2.0 * (x * x + y * y),
        ),
    )
}

/// Returns the opacity of a logit (logistic function).
pub(crate) fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// Returns `0.5 + SH(direction)`, before the clamp at zero.
pub(crate) fn raw_colour(gaussian: &Gaussian, eye: &PosedLens, sh_degree: u8) -> DVec3 {
    let sh = gaussian.active_sh(sh_degree);
    let direction = (gaussian.mean - eye.centre).normalize();
    let basis = sh_basis(degree_of(sh.len()), direction);
    let sum: DVec3 = sh.iter().zip(basis).map(|(&c, b)| c * b).sum();
    sum + DVec3::splat(0.5)
}

/// Returns the blended opacity of a Gaussian with this `compensation` by anti-aliasing.
pub(crate) fn shown_opacity(gaussian: &Gaussian, compensation: f64) -> f64 {
    let opacity = sigmoid(gaussian.opacity) * compensation;
    match gaussian.shown {
        1.0 => opacity,
        shown => (opacity * shown).min(f64::from(ALPHA_MAX)),
    }
}

/// Projects one Gaussian; `None` if it is absent.
pub fn project(
    index: usize,
    gaussian: &Gaussian,
    eye: &PosedLens,
    settings: &RenderSettings,
) -> Option<Projected> {
    let sh_degree = settings.sh_degree;
    if !gaussian.is_finite(sh_degree) || gaussian.has_zero_quat() {
        return None;
    }
    let uncompensated = sigmoid(gaussian.opacity);
    let point = eye.to_camera(gaussian.mean);
    let depth = eye.lens.depth(point);
    if depth < f64::from(settings.near) || uncompensated < f64::from(ALPHA_MIN) {
        return None;
    }
    if !eye.lens.shows(point) {
        return None;
    }
    let footprint = Footprint::new(gaussian, eye, settings);
    let covariance = footprint.covariance;
    let determinant = covariance.determinant();
    // Engines cannot represent values beyond f32's range; such a Gaussian is 1e9 images wide.
    if !(determinant > 0.0 && determinant < f64::from(f32::MAX)) {
        return None;
    }
    let opacity = shown_opacity(gaussian, footprint.compensation(settings));
    if opacity < f64::from(ALPHA_MIN) {
        return None;
    }
    let conic = covariance.inverse();
    Some(Projected {
        index,
        centre: footprint.lens.centre,
        depth,
        period: eye.lens.period().unwrap_or(0.0),
        covariance: upper(covariance),
        conic: upper(conic),
        opacity,
        colour: raw_colour(gaussian, eye, sh_degree).max(DVec3::ZERO),
    })
}

fn upper(m: DMat2) -> [f64; 3] {
    [m.x_axis.x, m.x_axis.y, m.y_axis.y]
}

/// Sorts front to back: by depth, ties by index.
pub fn order(mut projected: Vec<Projected>) -> Vec<Projected> {
    projected.sort_by(|a, b| a.depth.total_cmp(&b.depth).then(a.index.cmp(&b.index)));
    projected
}
