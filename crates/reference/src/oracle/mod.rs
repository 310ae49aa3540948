//! Textbook renderer in `f64`, slow and readable. Engines are compared with it, and it is compared with
//! central finite differences of itself (`tests/all/reference_*.rs`).
//!
//! 1. [`project`](fn@project): each Gaussian becomes an ellipse with a colour, or is absent.
//! 2. [`order`]: by depth (camera z, or a distance for a panorama), ties by index.
//! 3. [`ranges`]: the Gaussians that a tile may blend; only with a per-tile limit.
//! 4. [`blend`](fn@blend): every pixel visits all of them, front to back.
//! 5. [`loss`](fn@loss): L1 and SSIM against a photo; if a run learns bilateral grids, with
//!    [`appearance`](fn@crate::appearance) before it and [`appearance_backward`](crate::appearance_backward) after it.
//! 6. [`blend_backward`]: from dL/dpixel to dL/dellipse; [`depth_loss`](fn@crate::depth_loss) gives dL/ddepth.
//! 7. [`project_backward`]: from dL/dellipse to the parameters and the camera's pose.
//! 8. [`adam`](fn@adam): one step of the optimizer.
//! 9. [`with_filter_3d`](crate::with_filter_3d): a Gaussian with its 3D filter, in anti-aliased renders.
//! 10. [`refine_pose`](crate::refine_pose): one step of the optimizer for the camera of a view.
//! 11. [`regularisers`](fn@crate::regularisers): terms of the loss over Gaussians.
//! 12. [`relocate`], [`perturbation`](crate::perturbation): additions of the MCMC strategy.
//! 13. [`AppearanceMlpReference`](crate::AppearanceMlpReference): the appearance MLP, with its backward pass.
//! 14. [`fn@surface`]: depth and normal of the surface that a pixel shows.
//! 15. [`fn@crate::normal_consistency`]: the normals of Gaussians against those of the planes that they form; and
//!     [`fn@crate::features::normals::matching::matching_consistency`]: two photos at these planes.
//!
//! [`render`] is steps 1 to 4, [`gradients`] adds 6 and 7; [`render_tiles`] and [`differentiate_tiles`] do the same for
//! chosen tiles. A camera model is one implementation of
//! [`LensModel`].
//!
//! Sources: Zwicker et al. 2001, "EWA Volume Splatting"; Kerbl et al. 2023, "3D Gaussian Splatting
//! for Real-Time Radiance Field Rendering"; Ye & Kanazawa 2023, "Mathematical Supplement for the
//! gsplat Library", arXiv:2312.02121; Wang et al. 2004, "Image Quality Assessment"; Kingma & Ba
//! 2015, "Adam".

mod blend;
mod distortion;
pub(crate) mod lens;
mod loss;
mod panoramas;
mod products;
pub(crate) mod project;
pub(crate) mod project_backward;
mod ranges;
mod relocation;
mod sh;
mod surface;
mod tiles;

pub use blend::{
    Contribution, blend, blend_backward, contributions, decision_margin, decision_margins,
};
pub use dapple_engine::adam;
pub use dapple_engine::constants::ssim_window;
pub use distortion::{Jet, distort};
pub use lens::{Distorting, LensModel, LensProjection, Pinhole, PosedLens};
pub use loss::{loss, photo_mask, photo_target, psnr, ssim};
pub use project::{Gaussian, Projected, ProjectedGradient, order, project};
pub use project_backward::{GaussianGradient, project_backward};
pub use ranges::{PixelRect, TileLists, ellipse_touches_rect, least_power_in_rect, ranges};
pub use relocation::{RelocatedSplats, relocate, relocated};
pub use sh::{sh_basis, sh_basis_gradient};
pub use surface::{Profile, ROUNDING, Surface, SurfacePoint, surface, surface_of_gaussians};
pub use tiles::{differentiate_tiles, render_tiles};

use dapple_engine::{Gradients, ImageDerivative, RenderSettings};
use dapple_scene::{Camera, Error, Result, Splats};

/// Rendered view in `f64`, with the shapes of [`dapple_engine::Rendered`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Image {
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// Colours over the background, not clamped, `[height, width, 3]`.
    pub rgb: Vec<f64>,
    /// Alpha: one minus the remaining transmittance, `[height, width]`.
    pub alpha: Vec<f64>,
    /// Blended depth, see [`dapple_engine::depth`], `[height, width]`.
    pub depth: Vec<f64>,
    /// Median depth, `[height, width]`.
    pub median_depth: Vec<f64>,
}

/// Renders splats.
///
/// # Errors
/// A camera that is non-finite or has no area, or whose lens the reference does not support.
pub fn render(splats: &Splats, camera: &Camera, settings: &RenderSettings) -> Result<Image> {
    render_gaussians(&Gaussian::all(splats), camera, settings)
}

/// Renders Gaussians with parameters in `f64`, for finite differences.
///
/// # Errors
/// See [`render`].
pub fn render_gaussians(
    gaussians: &[Gaussian],
    camera: &Camera,
    settings: &RenderSettings,
) -> Result<Image> {
    let visible = visible(gaussians, camera, settings)?;
    let lists = ranges(&visible, camera, settings.max_gaussians_per_tile);
    Ok(blend(&visible, &lists, camera, settings))
}

/// Returns the Gaussians that are not absent, projected, in depth order: stages `project` and `order`.
///
/// # Errors
/// See [`render`].
pub fn visible(
    gaussians: &[Gaussian],
    camera: &Camera,
    settings: &RenderSettings,
) -> Result<Vec<Projected>> {
    let eye = PosedLens::new(camera)?;
    let projected = gaussians
        .iter()
        .enumerate()
        .filter_map(|(index, gaussian)| project(index, gaussian, &eye, settings));
    Ok(order(projected.collect()))
}

/// Returns the indices of the Gaussians that `project` culls. Engines must skip them in the image, and
/// their gradients must be exactly zero.
///
/// # Errors
/// See [`render`].
pub fn absent(splats: &Splats, camera: &Camera, settings: &RenderSettings) -> Result<Vec<usize>> {
    let mut is_visible = vec![false; splats.len()];
    for projected in visible(&Gaussian::all(splats), camera, settings)? {
        is_visible[projected.index] = true;
    }
    Ok((0..splats.len()).filter(|&i| !is_visible[i]).collect())
}

/// Returns the gradients of a scalar. Its derivative by the rendered image is `dl_drgb`
/// (`[height, width, 3]`), by the image's alpha `dl_dalpha` (`[height, width]`, zero if `None`).
///
/// # Errors
/// See [`render`]; also derivatives whose size differs from the camera's image.
pub fn gradients(
    splats: &Splats,
    camera: &Camera,
    settings: &RenderSettings,
    dl_drgb: &[f64],
    dl_dalpha: Option<&[f64]>,
) -> Result<Gradients<f64>> {
    let derivative = ImageDerivative {
        rgb: dl_drgb,
        alpha: dl_dalpha,
        depth: None,
    };
    differentiate(splats, camera, settings, &derivative)
}

/// Returns the gradients of a scalar whose derivative by the rendered view is `derivative`.
///
/// # Errors
/// See [`gradients`].
pub fn differentiate(
    splats: &Splats,
    camera: &Camera,
    settings: &RenderSettings,
    derivative: &ImageDerivative<'_, f64>,
) -> Result<Gradients<f64>> {
    let all = Gaussian::all(splats);
    differentiate_gaussians(&all, splats.sh_rest_stride(), camera, settings, derivative)
}

/// Returns the absolute density statistics of each Gaussian: over the pixels, the sum of the absolute
/// value of the derivative by its centre, by axis (AbsGS, Ye et al. 2024, arXiv:2404.10484). `[N, 2]`,
/// per pixel.
///
/// # Errors
/// See [`gradients`].
pub fn absolute_gradients(
    splats: &Splats,
    camera: &Camera,
    settings: &RenderSettings,
    dl_drgb: &[f64],
) -> Result<Vec<[f64; 2]>> {
    let all = Gaussian::all(splats);
    let derivative = ImageDerivative {
        rgb: dl_drgb,
        alpha: None,
        depth: None,
    };
    let (visible, slots) = slots(&all, camera, settings, &derivative)?;
    let mut out = vec![[0.0; 2]; all.len()];
    for (projected, slot) in visible.iter().zip(&slots) {
        out[projected.index] = slot.centre_absolute.to_array();
    }
    Ok(out)
}

/// Returns the visible Gaussians with the derivatives by each.
fn slots(
    gaussians: &[Gaussian],
    camera: &Camera,
    settings: &RenderSettings,
    derivative: &ImageDerivative<'_, f64>,
) -> Result<(Vec<Projected>, Vec<ProjectedGradient>)> {
    let visible = visible(gaussians, camera, settings)?;
    let lists = ranges(&visible, camera, settings.max_gaussians_per_tile);
    let slots = blend_backward(&visible, &lists, camera, settings, derivative);
    Ok((visible, slots))
}

/// Returns [`gradients`] for parameters in `f64`; `sh_rest_stride` is [`Splats::sh_rest_stride`].
///
/// # Errors
/// See [`gradients`].
pub fn gradients_of_gaussians(
    gaussians: &[Gaussian],
    sh_rest_stride: usize,
    camera: &Camera,
    settings: &RenderSettings,
    dl_drgb: &[f64],
    dl_dalpha: Option<&[f64]>,
) -> Result<Gradients<f64>> {
    let derivative = ImageDerivative {
        rgb: dl_drgb,
        alpha: dl_dalpha,
        depth: None,
    };
    differentiate_gaussians(gaussians, sh_rest_stride, camera, settings, &derivative)
}

/// Returns the result of [`differentiate`] for parameters in `f64`; `sh_rest_stride` is
/// [`Splats::sh_rest_stride`].
///
/// # Errors
/// See [`gradients`].
pub fn differentiate_gaussians(
    gaussians: &[Gaussian],
    sh_rest_stride: usize,
    camera: &Camera,
    settings: &RenderSettings,
    derivative: &ImageDerivative<'_, f64>,
) -> Result<Gradients<f64>> {
    check_derivative(camera, derivative)?;
    let (visible, slots) = slots(gaussians, camera, settings, derivative)?;
    gradients_of_slots(
        gaussians,
        sh_rest_stride,
        camera,
        settings,
        (&visible, &slots),
    )
}

/// Checks that a derivative has the size of the image.
fn check_derivative(camera: &Camera, derivative: &ImageDerivative<'_, f64>) -> Result<()> {
    let pixels = camera.width as usize * camera.height as usize;
    let fits = |plane: Option<&[f64]>| plane.is_none_or(|values| values.len() == pixels);
    if derivative.rgb.len() == 3 * pixels && fits(derivative.alpha) && fits(derivative.depth) {
        return Ok(());
    }
    Err(Error::input(format!(
        "the derivative of the image has not the size of the image, {} x {}",
        camera.width, camera.height
    ))
    .hint("give width * height * 3 values for the colours, width * height for alpha and depth"))
}

/// Returns the gradients from the derivatives by each visible Gaussian.
fn gradients_of_slots(
    gaussians: &[Gaussian],
    sh_rest_stride: usize,
    camera: &Camera,
    settings: &RenderSettings,
    (visible, slots): (&[Projected], &[ProjectedGradient]),
) -> Result<Gradients<f64>> {
    let eye = PosedLens::new(camera)?;
    let mut out = Gradients::zeros(gaussians.len(), sh_rest_stride);
    for (projected, slot) in visible.iter().zip(slots) {
        let i = projected.index;
        let g = project_backward(&gaussians[i], &eye, settings, slot);
        out.means[i] = g.mean.to_array();
        out.scales[i] = g.scale;
        out.quats[i] = g.quat;
        out.opacities[i] = g.opacity;
        out.means2d[i] = slot.centre.to_array();
        for (k, coefficient) in g.sh.iter().enumerate() {
            if k == 0 {
                out.sh0[i] = coefficient.to_array();
            } else {
                let at = i * sh_rest_stride + (k - 1) * 3;
                out.sh_rest[at..at + 3].copy_from_slice(&coefficient.to_array());
            }
        }
        for (sum, part) in out.pose.iter_mut().zip(g.pose) {
            *sum += part;
        }
    }
    Ok(out)
}
