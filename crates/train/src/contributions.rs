//! Contribution of each Gaussian to photos: the sum of its blend weights over their pixels.
//!
//! A pixel's colour is the sum of w_i c_i, with w_i the alpha of Gaussian i at the pixel times the transmittance before
//! it. So the derivative of the sum of an image's red by c_i's red is the sum of w_i over its pixels. An engine
//! computes it with these derivatives only:
//!
//! 1. Copy the Gaussians in mid grey without view dependence, so that no colour is clamped.
//! 2. For each camera compute the gradients of the sum of red by `sh0`, which is [`SH_C0`] times the weights.
//! 3. Add them over cameras, in their order, in `f64`.

use dapple_engine::{Engine, EngineExt, RenderSettings};
use dapple_scene::{Camera, Error, ErrorKind, Progress, Result, SH_C0, Splats};

/// Returns the sum of each Gaussian's blend weights over all pixels of these cameras, `[N]`. Replaces the splats of the
/// engine.
///
/// # Errors
/// The engine fails; a request to stop.
pub fn contributions(
    engine: &mut dyn Engine,
    splats: &Splats,
    cameras: &[Camera],
    settings: &RenderSettings,
    progress: &dyn Progress,
) -> Result<Vec<f32>> {
    let mut sums = vec![0.0f64; splats.len()];
    progress.start("weighing contributions", cameras.len() as u64);
    let weighed = each(engine, splats, cameras, settings, |_, weights| {
        if progress.should_stop() {
            return Err(stopped());
        }
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum += weight;
        }
        progress.advance(1);
        Ok(())
    });
    progress.finish();
    weighed?;
    Ok(sums.into_iter().map(|sum| sum as f32).collect())
}

/// Passes on the index of each camera, and the sum of each Gaussian's blend weights over its pixels. Replaces the splats
/// of the engine.
///
/// # Errors
/// The engine fails; an error of `take`.
pub(crate) fn each(
    engine: &mut dyn Engine,
    splats: &Splats,
    cameras: &[Camera],
    settings: &RenderSettings,
    mut take: impl FnMut(usize, &mut dyn Iterator<Item = f64>) -> Result<()>,
) -> Result<()> {
    let grey = Splats {
        sh0: vec![[0.0; 3]; splats.len()],
        sh_rest: Vec::new(),
        sh_degree: 0,
        ..splats.clone()
    };
    engine.upload(&grey, None)?;
    let settings = RenderSettings {
        sh_degree: 0,
        depth: false,
        ..*settings
    };
    for (number, camera) in cameras.iter().enumerate() {
        let pixels = camera.width as usize * camera.height as usize;
        let dl_drgb = [1.0, 0.0, 0.0].repeat(pixels);
        let gradients = engine.blend_gradients(camera, &settings, &dl_drgb)?;
        let weights = gradients.sh0.iter();
        let mut weights = weights.map(|gradient| f64::from(gradient[0]) / f64::from(SH_C0));
        take(number, &mut weights)?;
    }
    Ok(())
}

/// Returns the error of work that was stopped on request.
pub(crate) fn stopped() -> Error {
    Error::new(
        ErrorKind::Interrupted,
        "the edit was stopped; nothing was written",
    )
}
