//! Adapts the appearance MLP to a photo that was not trained on: its embedding, and a low-rank addition to the
//! network's first layer (LoRA: Hu et al. 2021, arXiv:2106.09685). Splats, their features and the network do not
//! change.
//!
//! 1. Gains and offsets of all Gaussians are tensors, on the engine's device if that is a GPU. They are computed from
//!    encoded places and features, the network, the addition and the embedding.
//! 2. The photo sees each Gaussian from one side, so that its harmonics are evaluated once. Each round copies one
//!    colour for each Gaussian to and from the engine instead, a quarter of the numbers.
//! 3. Each round applies gains and offsets to these colours and renders them. The engine computes the derivative of the
//!    mean squared error by colours. Tensors turn it into the derivatives by the addition and the embedding, which take
//!    a step of Adam.
//!
//! An embedding scales and shifts the existing units; the addition rotates them. The addition begins at zero, and the
//! embedding at its fitted value.

use super::pixels::{counts, target};
use super::tensors::context_of;
use dapple_device::BoxedEngine;
use dapple_engine::appearance_mlp::{self, EMBEDDING, ENCODED, HIDDEN, OUTPUTS};
use dapple_engine::{
    AppearanceMlp, Engine, GradientParts, Gradients, ImageDerivative, RenderSettings,
};
use dapple_scene::edit::harmonics;
use dapple_scene::{Camera, Photo, Progress, Result, Splats, sh_coefficient_count};
use dapple_tensor::layers::{Linear, Lora, LoraOptions};
use dapple_tensor::optimizer::{Adam, AdamState};
use dapple_tensor::{Plan, PlanOptions, Tensor};
use glam::DVec3;
use rayon::prelude::*;

/// Rounds for a photo.
pub(super) const ROUNDS: u32 = 100;

/// First step size, and the last one as a fraction of it.
const RATE: f64 = 1e-2;
const DECAY: f64 = 0.1;

/// Adapts the appearance MLP of some splats to photos, one after the other.
pub(super) struct Adapter<'a> {
    splats: &'a Splats,
    /// `[HIDDEN]`: scale and shift of the units.
    code: [Tensor; 2],
    lora: Lora,
    /// Initial value of the addition.
    first_a: Vec<f32>,
    adam: AdamState,
    /// `[N, OUTPUTS]`: the derivative by gains and offsets.
    by_affine: Tensor,
    /// Computes gains and offsets.
    lights: Plan,
    /// Takes a step of Adam.
    learns: Plan,
}

impl<'a> Adapter<'a> {
    /// An adapter for these splats and their appearance MLP, with an addition of this rank, on the device of `engine`.
    ///
    /// # Errors
    /// A rank of 0 or above the layer's; not enough memory for the values of all Gaussians.
    pub(super) fn new(
        engine: &BoxedEngine,
        splats: &'a Splats,
        mlp: &AppearanceMlp,
        rank: usize,
    ) -> Result<Self> {
        let context = context_of(engine);
        let n = splats.len();
        let features = mlp.features.as_chunks().0;
        let encoded: Vec<f32> = splats
            .means
            .iter()
            .zip(features)
            .flat_map(|(&mean, &own)| appearance_mlp::encode(&mlp.frame, mean, own))
            .collect();
        let (w1, w2) = mlp.network.split_at(HIDDEN * ENCODED);
        let inputs = context.tensor(&[n, ENCODED], &encoded);
        let code = [0, 1].map(|_| context.tensor(&[HIDDEN], &[0.0; HIDDEN]));
        let first = Linear {
            weight: context.tensor(&[ENCODED, HIDDEN], &turned(w1, ENCODED)),
            bias: Some(code[1].clone()),
        };
        let second = context.tensor(&[HIDDEN, OUTPUTS], &turned(w2, HIDDEN));
        let options = LoraOptions {
            rank,
            alpha: rank as f32,
            ..LoraOptions::default()
        };
        let lora = Lora::new(&context, ENCODED, HIDDEN, &options)?;
        let first_a = lora.a.read()?;
        let units = lora.forward(&first, &inputs, None).relu();
        let affine = units.mul(&code[0]).matmul(&second);
        let by_affine = context.tensor(&[n, OUTPUTS], &vec![0.0; n * OUTPUTS]);
        let learnt = [&lora.a, &lora.b, &code[0], &code[1]];
        let adam = Adam::default();
        let state = adam.state(&context, &learnt);
        let gradients = affine.gradients_from(&by_affine, &learnt);
        let updates = adam.step(&state, &learnt, &gradients);
        let learns = Plan::compile_with(
            &[&gradients[1]],
            &PlanOptions {
                updates: &updates,
                span: "adapt",
                ..PlanOptions::default()
            },
        )?;
        let lights = Plan::compile(&[&affine])?;
        Ok(Self {
            splats,
            code,
            lora,
            first_a,
            adam: state,
            by_affine,
            lights,
            learns,
        })
    }

    /// Returns the splats with the appearance fitted to a photo, whose masked pixels are ignored. Replaces the splats
    /// of the engine.
    ///
    /// # Errors
    /// The engine or the device fails; a request to stop.
    pub(super) fn fit(
        &self,
        engine: &mut dyn Engine,
        (camera, photo): (&Camera, &Photo),
        code: &[f32; EMBEDDING],
        settings: &RenderSettings,
        progress: &dyn Progress,
    ) -> Result<Splats> {
        self.begin(code)?;
        let seen_from_here = of_one_colour(self.splats, camera, settings.sh_degree);
        let wanted = target(photo, settings.background);
        let mask = photo.mask.as_deref();
        let is_seen = |pixel: usize| mask.is_none_or(|mask| counts(mask[pixel]));
        let seen = (0..wanted.len() / 3).filter(|&p| is_seen(p)).count();
        let weight = 2.0 / (3 * seen.max(1)) as f32;
        for round in 0..ROUNDS {
            if progress.should_stop() {
                progress.finish();
                return Err(crate::contributions::stopped());
            }
            let part = f64::from(round) / f64::from(ROUNDS);
            let rate = (RATE * DECAY.powf(part)) as f32;
            self.adam.learning_rate.write(&[rate])?;
            engine.upload(&self.lit(&seen_from_here)?, None)?;
            let rendered = engine.render(camera, settings)?;
            let pixels = rendered.rgb.chunks_exact(3).zip(wanted.chunks_exact(3));
            let mut by_image = Vec::with_capacity(wanted.len());
            for (pixel, (found, wanted)) in pixels.enumerate() {
                let own = if is_seen(pixel) { weight } else { 0.0 };
                by_image.extend(found.iter().zip(wanted).map(|(f, w)| own * (f - w)));
            }
            let derivative = ImageDerivative {
                rgb: &by_image,
                alpha: None,
                depth: None,
            };
            let by_lit = engine.differentiate(camera, settings, &derivative, GradientParts::All)?;
            self.by_affine.write(&by_affine(&seen_from_here, &by_lit))?;
            self.learns.run()?;
            progress.advance(1);
        }
        self.lit(self.splats)
    }

    /// Resets the addition to zero, and the embedding to `code`.
    fn begin(&self, code: &[f32; EMBEDDING]) -> Result<()> {
        self.lora.a.write(&self.first_a)?;
        self.lora.b.write(&vec![0.0; self.lora.b.count()])?;
        self.code[0].write(&code[..HIDDEN])?;
        self.code[1].write(&code[HIDDEN..])?;
        self.adam.steps.write(&[0.0])?;
        for moment in self.adam.moments.as_flattened() {
            moment.write(&vec![0.0; moment.count()])?;
        }
        Ok(())
    }

    /// Returns these splats with the current gains and offsets.
    fn lit(&self, splats: &Splats) -> Result<Splats> {
        self.lights.run()?;
        let affine = self.lights.read(0)?;
        let rows = affine.as_chunks::<OUTPUTS>().0;
        let mut lit = splats.clone();
        appearance_mlp::light(&mut lit, |i, _| rows[i]);
        Ok(lit)
    }
}

/// Returns the splats without harmonics: each has the colour that a camera sees.
fn of_one_colour(splats: &Splats, camera: &Camera, sh_degree: u8) -> Splats {
    let eye = camera.camera_from_world.centre();
    let (stride, used) = (
        splats.sh_rest_stride(),
        3 * (sh_coefficient_count(sh_degree.min(splats.sh_degree)) - 1),
    );
    let mut seen = splats.clone().with_sh_degree(0);
    let means = splats.means.par_iter();
    let colours = seen.sh0.par_iter_mut().zip(means).enumerate();
    colours.for_each(|(i, (colour, mean))| {
        let towards = (DVec3::from(mean.map(f64::from)) - eye).normalize_or_zero();
        let basis = harmonics::basis(towards);
        let rest = &splats.sh_rest[i * stride..i * stride + used];
        for (k, &value) in rest.iter().enumerate() {
            colour[k % 3] += (f64::from(value) * basis[1 + k / 3] / basis[0]) as f32;
        }
    });
    seen
}

/// Returns the derivative by gains and offsets, `[N, OUTPUTS]`, from the derivative by the adapted splats of one
/// colour.
fn by_affine(splats: &Splats, by_lit: &Gradients<f32>) -> Vec<f32> {
    let mut out = Vec::with_capacity(splats.len() * OUTPUTS);
    for (&by_first, &first) in by_lit.sh0.iter().zip(&splats.sh0) {
        let by_gain: [f32; 3] = std::array::from_fn(|c| {
            by_first[c] * first[c] + 0.5 * appearance_mlp::by_colour(by_first[c])
        });
        out.extend(by_gain);
        out.extend(by_first.map(appearance_mlp::by_colour));
    }
    out
}

/// Transposes rows to columns.
fn turned(rows: &[f32], width: usize) -> Vec<f32> {
    let height = rows.len() / width.max(1);
    (0..width)
        .flat_map(|x| (0..height).map(move |y| rows[y * width + x]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Colours are linear in gains and offsets, so that differences of any width give the derivative.
    #[test]
    fn the_derivative_by_gains_and_offsets_is_that_of_light() {
        let sh0 = vec![[0.4, -0.7, 1.3], [-0.2, 0.9, 0.1]];
        let splats = Splats {
            means: vec![[0.0; 3]; 2],
            sh0,
            ..Splats::empty(0)
        };
        let mut by_lit = Gradients::zeros(2, 0);
        by_lit.sh0 = vec![[0.3, -1.1, 0.6], [0.8, 0.2, -0.5]];
        let loss = |affine: &[[f32; OUTPUTS]; 2]| -> f32 {
            let mut lit = splats.clone();
            appearance_mlp::light(&mut lit, |i, _| affine[i]);
            let pairs = lit.sh0.iter().flatten().zip(by_lit.sh0.iter().flatten());
            pairs.map(|(value, by)| value * by).sum()
        };
        let found = by_affine(&splats, &by_lit);
        for (k, &found) in found.iter().enumerate() {
            let at = |step: f32| {
                let mut affine = [[0.2; OUTPUTS]; 2];
                affine[k / OUTPUTS][k % OUTPUTS] += step;
                loss(&affine)
            };
            let expected = 0.5 * (at(1.0) - at(-1.0));
            assert!((found - expected).abs() < 1e-5, "{k}: {found} {expected}");
        }
    }
}
