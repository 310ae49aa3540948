//! Lenses in the form of kernels: one formula for all lenses, and the place where its derivatives
//! are taken.
//!
//! With (a, b) = (x/z, y/z) and t = a^2 + b^2, every lens of [`dapple_scene::Lens`] is
//! 1. A(t) = atan(sqrt(bend t)) / sqrt(bend t): 1 for a lens in slopes (bend 0), and what turns the
//!    slope into the angle for a fisheye (bend 1; FOV has another); for EUCM, with alpha not zero,
//!    A(t) = 1 / (alpha sqrt(1 + beta t) + 1 - alpha) with N = D = 1;
//! 2. s(t) = A N(u) / D(u) with u = t A^2, the square of the angle or slope, and polynomials N, D;
//! 3. the place s (a, b) + tangential and prism terms of (w a, w b), where w is A, or s for a lens
//!    that decentres what is distorted already.
//!
//! `reference::distort` has the lenses one by one.

use crate::constants::JACOBIAN_MARGIN;
use dapple_scene::{Camera, Error, Lens, Result};
use glam::DVec2;

/// Coefficients of a lens that distorts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LensForm {
    /// Factor of t under the arctangent; 0 = none.
    pub bend: f32,
    /// alpha and beta of EUCM; alpha 0 = another lens.
    pub root: [f32; 2],
    /// The largest t that the lens shows.
    pub reach: f32,
    /// True if tangential and prism terms are those of the distorted point.
    pub decentres_distorted: bool,
    /// Coefficients of N, from u^0 on.
    pub numerator: [f32; 7],
    /// Coefficients of D, from u^1 on; that of u^0 is 1.
    pub denominator: [f32; 3],
    /// p1, p2 in OpenCV's order.
    pub tangential: [f32; 2],
    /// Coefficients of u w^2 / A^2 and of its square: two for x, two for y.
    pub prism: [f32; 4],
}

impl LensForm {
    /// Converts a lens; `None` for a lens without distortion, and for a panorama.
    ///
    /// # Errors
    /// A lens that engines do not know; a coefficient that is not finite; one that shows nothing.
    pub fn from_lens(lens: &Lens) -> Result<Option<Self>> {
        if !lens.is_finite() {
            return Err(Error::input(format!(
                "the lens {lens:?} has a coefficient that is not finite"
            ))
            .hint("calibrate the camera again"));
        }
        if lens.is_identity() || !lens.is_perspective() {
            return Ok(None);
        }
        let reach = lens.max_radius();
        if reach <= 0.0 {
            return Err(Error::input(format!("the lens {lens:?} shows nothing"))
                .hint("its distortion coefficients make no lens: calibrate the camera again"));
        }
        let (mut numerator, mut denominator) = ([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0; 3]);
        let (mut tangential, mut prism) = ([0.0; 2], [0.0; 4]);
        let (mut bend, mut root, mut decentres_distorted) = (0.0, [0.0; 2], false);
        match *lens {
            Lens::Pinhole => return Ok(None),
            Lens::Radial(k) => numerator[1..3].copy_from_slice(&k),
            Lens::OpenCv([k1, k2, p1, p2]) => {
                numerator[1..3].copy_from_slice(&[k1, k2]);
                tangential = [p1, p2];
            }
            Lens::FullOpenCv([k1, k2, p1, p2, k3, k4, k5, k6]) => {
                numerator[1..4].copy_from_slice(&[k1, k2, k3]);
                denominator = [k4, k5, k6];
                tangential = [p1, p2];
            }
            Lens::Fov(omega) => {
                let c = 2.0 * (omega / 2.0).tan();
                bend = c * c;
                numerator[0] = c / omega;
            }
            Lens::Eucm(alpha_beta) => root = alpha_beta,
            Lens::Fisheye(k) => {
                bend = 1.0;
                numerator[1..5].copy_from_slice(&k);
            }
            Lens::ThinPrismFisheye([k1, k2, p1, p2, k3, k4, sx1, sy1]) => {
                bend = 1.0;
                numerator[1..5].copy_from_slice(&[k1, k2, k3, k4]);
                tangential = [p1, p2];
                prism = [sx1, 0.0, sy1, 0.0];
            }
            Lens::RadTanThinPrismFisheye([k0, k1, k2, k3, k4, k5, p0, p1, s0, s1, s2, s3]) => {
                bend = 1.0;
                decentres_distorted = true;
                numerator[1..7].copy_from_slice(&[k0, k1, k2, k3, k4, k5]);
                tangential = [p1, p0];
                prism = [s0, s1, s2, s3];
            }
            other => {
                return Err(
                    Error::unsupported(format!("engines do not know the lens {other:?}"))
                        .hint("undistort the photos first: --undistort"),
                );
            }
        }
        Ok(Some(Self {
            bend: bend as f32,
            root: root.map(|v| v as f32),
            reach: (reach * reach) as f32,
            decentres_distorted,
            numerator: numerator.map(|v| v as f32),
            denominator: denominator.map(|v| v as f32),
            tangential: tangential.map(|v| v as f32),
            prism: prism.map(|v| v as f32),
        }))
    }
}

/// Points taken along each border when looking for the slopes that an image shows.
const BORDER_SAMPLES: u32 = 12;

/// The least and largest x/z and y/z at which a projection's Jacobian is evaluated.
///
/// Off the image, the tangent that EWA splatting uses instead of a pinhole's projection grows with
/// the square of the slope, and so would invisible Gaussians. The limits are those of the image,
/// grown by [`JACOBIAN_MARGIN`] of half its size on each side (gsplat; measured from the edges, so
/// that an off-centre principal point is no exception), as slopes. A place that no ray reaches
/// counts as the last ray in its direction.
///
/// A division model of positive `k` is a lens in slopes, as the radial ones are: its slopes end at 1 / (2 sqrt(k)).
///
/// The height of a panorama counts as a slope: rows of models whose height is a slope use its range.
///
/// A lens that bends angles has no limits but what it shows: its tangent stays within the focal
/// length over the distance, up to a small factor, and one taken at a clamped slope would grow with
/// 1/z instead.
pub fn slope_range(camera: &Camera) -> (DVec2, DVec2) {
    let size = DVec2::new(f64::from(camera.width), f64::from(camera.height));
    let focal = DVec2::new(camera.fx, camera.fy);
    let principal = DVec2::new(camera.cx, camera.cy);
    let margin = f64::from(JACOBIAN_MARGIN) * (0.5 * size / focal);
    let least = -(principal / focal + margin);
    let most = (size - principal) / focal + margin;
    if camera.lens.is_identity() || !camera.lens.is_perspective() {
        return (least, most);
    }
    let reach = camera.lens.max_radius();
    let is_in_slopes = match camera.lens {
        Lens::Radial(_) | Lens::OpenCv(_) | Lens::FullOpenCv(_) => true,
        Lens::Eucm([_, beta]) => beta < 0.0,
        _ => false,
    };
    if !is_in_slopes {
        return (DVec2::splat(-reach), DVec2::splat(reach));
    }
    // The axis is among them even where the image is a corner that was cut out: so no slope is
    // clamped away from it, to beyond the reach.
    let (mut low, mut high) = (DVec2::ZERO, DVec2::ZERO);
    for i in 0..=BORDER_SAMPLES {
        let along = least.lerp(most, f64::from(i) / f64::from(BORDER_SAMPLES));
        for place in [
            DVec2::new(along.x, least.y),
            DVec2::new(along.x, most.y),
            DVec2::new(least.x, along.y),
            DVec2::new(most.x, along.y),
        ] {
            let slope = match camera.lens.undistort_within(place.x, place.y, reach) {
                Some((x, y)) => DVec2::new(x, y),
                None => place.normalize_or_zero() * reach,
            };
            low = low.min(slope);
            high = high.max(slope);
        }
    }
    (low, high)
}
