//! Surface depth and normal of each pixel: see [`dapple_engine::surface`] for the formulas.

use super::blend::{Contribution, contributions};
use super::lens::PosedLens;
use super::project::{Footprint, Gaussian, Projected};
use super::{ranges, visible};
use dapple_engine::RenderSettings;
use dapple_engine::depth::MEDIAN_TRANSMITTANCE;
use dapple_engine::surface::{LEAST_DEVIATION, MOST_SLANT, REACH};
use dapple_scene::{Camera, Result, Splats};
use glam::{DMat2, DVec2, DVec3};

/// Halvings of the interval of a surface depth.
const HALVINGS: usize = 60;

/// Error of ln T in `f32`, with a margin.
pub const ROUNDING: f64 = 1e-4;

/// Extent of a Gaussian along the rays of its pixels: step 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// Depth of the centre.
    pub depth: f64,
    /// x of the formulas by the offset from the projected centre, per pixel.
    pub slant: DVec2,
    /// Standard deviation along a ray, world units.
    pub deviation: f64,
    /// Unit normal in camera coordinates.
    pub normal: DVec3,
}

/// One Gaussian of a pixel: steps 2 and 4.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Layer {
    alpha: f64,
    peak: f64,
    deviation: f64,
    normal: DVec3,
}

/// Surface of a pixel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SurfacePoint {
    /// Surface depth, or 0.
    pub depth: f64,
    /// Surface normal, or zero.
    pub normal: DVec3,
    /// Depths between which `f32` may find the surface: ln T is off by [`ROUNDING`].
    pub depths: [f64; 2],
    /// Distance of the normals at these depths.
    pub turn: f64,
    /// Least distance of ln T from ln 1/2 at the camera and behind the last Gaussian. Near 0, rounding decides if
    /// there is a surface.
    pub margin: f64,
}

/// Surface of a view in `f64`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Surface {
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// Surfaces of the pixels, `[height, width]`.
    pub points: Vec<SurfacePoint>,
}

impl Profile {
    /// Computes the profile of a visible Gaussian.
    pub fn new(gaussian: &Gaussian, eye: &PosedLens, settings: &RenderSettings) -> Self {
        let footprint = Footprint::new(gaussian, eye, settings);
        let m = eye.rotation * footprint.rotation;
        // Rows of the map from the unit ball to pixels and depth.
        let [u, v] = footprint.lens.jacobian;
        let row = |by: DVec3| m.transpose() * by * footprint.sigma;
        let (u, v, along) = (
            row(u),
            row(v),
            row(eye.lens.depth_gradient(footprint.point)),
        );
        let covariance: DMat2 = footprint.covariance;
        let depth = eye.lens.depth(footprint.point);
        let slant = covariance.inverse() * DVec2::new(u.dot(along), v.dot(along)) / depth;
        // The determinant of the dilated covariance in pixels and depth, over that on the image: nothing cancels.
        let dilation = f64::from(settings.dilation());
        let volume = u.cross(v).dot(along);
        let sides = u.cross(along).length_squared() + v.cross(along).length_squared();
        let variance = (volume * volume + dilation * (sides + dilation * along.length_squared()))
            / covariance.determinant();
        let least = f64::from(LEAST_DEVIATION) * depth;
        let shortest = footprint.sigma.min_element();
        let weights = (DVec3::splat(shortest) / footprint.sigma).powf(2.0);
        let normal = -(m * (m.transpose() * footprint.point * weights));
        Self {
            depth,
            slant,
            deviation: variance.sqrt().clamp(least, depth),
            normal: normal.normalize_or_zero(),
        }
    }

    /// Returns the depth of the peak at this offset from the projected centre, pixels.
    pub fn peak(&self, offset: DVec2) -> f64 {
        let most = f64::from(MOST_SLANT);
        self.depth / (1.0 - self.slant.dot(offset).clamp(-most, most))
    }

    fn layer(&self, contribution: &Contribution) -> Layer {
        Layer {
            alpha: contribution.alpha,
            peak: self.peak(contribution.offset),
            deviation: self.deviation,
            normal: self.normal,
        }
    }
}

impl Layer {
    /// Returns G and the distance from the peak in standard deviations.
    fn density(&self, t: f64) -> (f64, f64) {
        let x = (t - self.peak) / self.deviation;
        (self.alpha * (-0.5 * x * x).exp(), x)
    }

    /// Returns ln T.
    fn log_transmittance(&self, t: f64) -> f64 {
        let (density, x) = self.density(t);
        let half = 0.5 * (-density).ln_1p();
        if x <= 0.0 {
            half
        } else {
            (-self.alpha).ln_1p() - half
        }
    }

    /// Returns `-d ln T / dt`.
    fn steepness(&self, t: f64) -> f64 {
        let (density, x) = self.density(t);
        0.5 * x.abs() * density / ((1.0 - density) * self.deviation)
    }
}

/// Computes the surface that splats show to a camera.
///
/// # Errors
/// See [`super::render`].
pub fn surface(splats: &Splats, camera: &Camera, settings: &RenderSettings) -> Result<Surface> {
    surface_of_gaussians(&Gaussian::all(splats), camera, settings)
}

/// Computes the result of [`surface`] for parameters in `f64`.
///
/// # Errors
/// See [`super::render`].
pub fn surface_of_gaussians(
    gaussians: &[Gaussian],
    camera: &Camera,
    settings: &RenderSettings,
) -> Result<Surface> {
    let visible = visible(gaussians, camera, settings)?;
    let lists = ranges(&visible, camera, settings.max_gaussians_per_tile);
    let eye = PosedLens::new(camera)?;
    let profile = |p: &Projected| Profile::new(&gaussians[p.index], &eye, settings);
    let profiles: Vec<Profile> = visible.iter().map(profile).collect();
    let pixels = (0..camera.height).flat_map(|y| (0..camera.width).map(move |x| (x, y)));
    let point = |(x, y): (u32, u32)| {
        let centre = DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5);
        let (found, behind) = contributions(&visible, lists.at(x, y), centre);
        let layers = found.iter().map(|c| profiles[c.position].layer(c));
        surface_point(&layers.collect::<Vec<_>>(), behind)
    };
    Ok(Surface {
        width: camera.width,
        height: camera.height,
        points: pixels.map(point).collect(),
    })
}

/// Computes steps 3 and 4 for a pixel; `behind` is the transmittance behind its last Gaussian.
fn surface_point(layers: &[Layer], behind: f64) -> SurfacePoint {
    let log_half = f64::from(MEDIAN_TRANSMITTANCE).ln();
    let log_at = |t: f64| layers.iter().map(|l| l.log_transmittance(t)).sum::<f64>();
    let ends = [log_at(0.0), behind.ln()];
    let margin = ends.map(|log| (log - log_half).abs());
    let nothing = SurfacePoint {
        margin: margin[0].min(margin[1]),
        ..SurfacePoint::default()
    };
    if ends[0] <= log_half || ends[1] > log_half {
        return nothing;
    }
    let far = |l: &Layer| l.peak + f64::from(REACH) * l.deviation;
    let far = layers.iter().map(far).fold(0.0, f64::max);
    let depth_of = |log: f64| {
        let (mut near, mut far) = (0.0, far);
        for _ in 0..HALVINGS {
            let middle = 0.5 * (near + far);
            if log_at(middle) > log {
                near = middle;
            } else {
                far = middle;
            }
        }
        0.5 * (near + far)
    };
    let normal_at = |t: f64| {
        let normal: DVec3 = layers.iter().map(|l| l.steepness(t) * l.normal).sum();
        normal.normalize_or_zero()
    };
    let depth = depth_of(log_half);
    let depths = [ROUNDING, -ROUNDING].map(|error| depth_of(log_half + error));
    SurfacePoint {
        depth,
        normal: normal_at(depth),
        depths,
        turn: normal_at(depths[0]).distance(normal_at(depths[1])),
        ..nothing
    }
}
