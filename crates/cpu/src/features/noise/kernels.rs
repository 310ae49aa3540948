//! Noise on centres, part of `update`. Reference:
//! `dapple_reference::perturbation`.
//!
//! [`NoiseStep::perturb`] moves centres after Adam. Random numbers are drawn one by one. A Gaussian that is
//! too opaque to move costs one comparison, and most Gaussians soon are.

use crate::blocks::component;
use crate::simd::{ROW, Row};
use dapple_engine::density::rotation;
use dapple_engine::{GaussianUpdate, Part, StepSettings, noise, relocation};

/// Logit of opacity 0.2. For larger opacities, the noise is less than 4e-9 of its value at opacity zero.
const STILL_LOGIT: f32 = -1.386_294_4;

/// Slope of the noise around opacity 0.005 (Kheradmand et al. 2024).
const STEEPNESS: f32 = 100.0;
const STILL_OPACITY: f32 = 0.005;

/// Noise of one step.
#[derive(Debug, Clone, Copy)]
pub struct NoiseStep {
    scale: f32,
    seed: u64,
    step: u32,
    part: Part,
    gaussians: usize,
}

impl NoiseStep {
    /// Prepares the noise of a step for the first `gaussians` of these Gaussians of a model; `None` if there is none.
    pub fn new(settings: &StepSettings, part: Part, gaussians: usize) -> Option<Self> {
        let scale = GaussianUpdate::of(settings).noise;
        (scale != 0.0).then_some(Self {
            scale,
            seed: settings.seed,
            step: settings.step,
            part,
            gaussians,
        })
    }

    /// Moves the centres of the engine's Gaussians from `first` on, stored in `blocks`.
    #[inline(always)]
    pub fn perturb(&self, first: usize, components: usize, blocks: &mut [Row]) {
        for (b, block) in blocks.chunks_exact_mut(components).enumerate() {
            for lane in 0..ROW {
                let index = first + b * ROW + lane;
                // False for NaN too.
                let moves = block[component::OPACITY].0[lane] < STILL_LOGIT;
                if moves && index < self.gaussians {
                    self.perturb_one(self.part.index(index) as u32, block, lane);
                }
            }
        }
    }

    fn perturb_one(&self, index: u32, block: &mut [Row], lane: usize) {
        let get = |c: usize| block[c].0[lane];
        let opacity = 1.0 / (1.0 + (-get(component::OPACITY)).exp());
        let still = 1.0 / (1.0 + (STEEPNESS * (opacity - STILL_OPACITY)).exp());
        let turn = rotation([0, 1, 2, 3].map(|k| get(component::QUAT + k)));
        let eta = [0, 1, 2].map(|k| {
            let which = relocation::NOISE_NORMAL + k;
            noise::normal(self.seed, self.step, index, which)
        });
        // Sigma eta = R S^2 R^T eta.
        let along = [0, 1, 2].map(|j| {
            let scale = get(component::SCALE + j).exp();
            let turned: f32 = (0..3).map(|k| turn[k][j] * eta[k]).sum();
            turned * scale * scale
        });
        for k in 0..3 {
            let offset: f32 = (0..3).map(|j| turn[k][j] * along[j]).sum();
            block[component::MEAN + k].0[lane] += offset * still * self.scale;
        }
    }
}
