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
    engine.upload(&coloured(splats, vec![[0.0; 3]; splats.len()]), None)?;
    let settings = plain(settings);
    progress.start("weighing contributions", cameras.len() as u64);
    let mut add = |camera: &Camera| {
        if progress.should_stop() {
            return Err(stopped());
        }
        let pixels = camera.width as usize * camera.height as usize;
        let dl_drgb = [1.0, 0.0, 0.0].repeat(pixels);
        let gradients = engine.blend_gradients(camera, &settings, &dl_drgb)?;
        for (sum, gradient) in sums.iter_mut().zip(&gradients.sh0) {
            *sum += f64::from(gradient[0]) / f64::from(SH_C0);
        }
        progress.advance(1);
        Ok(())
    };
    let added = cameras.iter().try_for_each(&mut add);
    progress.finish();
    added?;
    Ok(sums.into_iter().map(|sum| sum as f32).collect())
}

/// Returns the share of each camera's image that the Gaussians in `part` make up, 0 to 1: its mean with these in white and
/// all others in black. Replaces the splats of the engine.
///
/// # Errors
/// The engine fails.
pub(crate) fn shares(
    engine: &mut dyn Engine,
    splats: &Splats,
    part: &[bool],
    cameras: &[Camera],
    settings: &RenderSettings,
) -> Result<Vec<f64>> {
    let white = 0.5 / SH_C0;
    let sh0 = part
        .iter()
        .map(|&is_in| [if is_in { white } else { -white }; 3]);
    engine.upload(&coloured(splats, sh0.collect()), None)?;
    let settings = RenderSettings {
        background: [0.0; 3],
        ..plain(settings)
    };
    let share = |camera: &Camera| {
        let rgb = engine.render(camera, &settings)?.rgb;
        let sum: f64 = rgb.iter().map(|&value| f64::from(value)).sum();
        Ok(sum / rgb.len().max(1) as f64)
    };
    cameras.iter().map(share).collect()
}

/// Returns the Gaussians with these colours, without view dependence.
fn coloured(splats: &Splats, sh0: Vec<[f32; 3]>) -> Splats {
    Splats {
        sh0,
        sh_rest: Vec::new(),
        sh_degree: 0,
        ..splats.clone()
    }
}

/// Returns settings for Gaussians without view dependence.
fn plain(settings: &RenderSettings) -> RenderSettings {
    RenderSettings {
        sh_degree: 0,
        depth: false,
        ..*settings
    }
}

/// Returns the error of work that was stopped on request.
pub(crate) fn stopped() -> Error {
    Error::new(
        ErrorKind::Interrupted,
        "the edit was stopped; nothing was written",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::init;
    use dapple_cpu::{CpuEngine, CpuOptions};
    use dapple_scene::NoProgress;
    use dapple_synth::{self as synth, SynthOptions};

    #[test]
    fn shares_are_the_blend_weights_of_a_part_in_each_image() {
        let dataset = synth::dataset(&SynthOptions {
            photos: 3,
            width: 48,
            height: 36,
            points: 300,
            ..SynthOptions::default()
        });
        let dataset = dataset.unwrap();
        let mut splats = init::from_points(&dataset.points, 1.0, 1, 0).unwrap();
        splats.opacities.fill(1.0);
        let part: Vec<bool> = (0..splats.len()).map(|i| i % 3 == 0).collect();
        let mut engine = CpuEngine::new(CpuOptions::default()).unwrap();
        // A background would add to the red of all pixels.
        let settings = RenderSettings {
            background: [0.7; 3],
            ..RenderSettings::default()
        };
        let cameras: Vec<Camera> = dataset.views.iter().map(|view| view.camera).collect();
        let found = shares(&mut engine, &splats, &part, &cameras, &settings).unwrap();
        for (camera, share) in cameras.iter().zip(found) {
            let one = std::slice::from_ref(camera);
            let all = contributions(&mut engine, &splats, one, &settings, &NoProgress).unwrap();
            let own = all.iter().zip(&part).filter(|(_, is_in)| **is_in);
            let own: f64 = own.map(|(weight, _)| f64::from(*weight)).sum();
            let pixels = f64::from(camera.width) * f64::from(camera.height);
            assert!(
                share > 0.02 && (share - own / pixels).abs() < 1e-5,
                "{share}"
            );
        }
    }
}
