//! The numbers of each step: a pure function of the configuration and the step.
//!
//! 1. Learning rates are constant but for the centres', which falls log-linearly over the run and
//!    is in units of the scene's extent (Kerbl et al. 2023).
//! 2. The active SH degree rises by one every `sh_every` steps.
//! 3. Every epoch visits each training view once, in a permutation keyed by (seed, epoch).
//! 4. The weight of known depths falls log-linearly.
//! 5. Density control after a step, and what it adds to steps, are the strategy's:
//!    [`crate::strategy`].

use crate::TrainConfig;
use crate::config::DepthSource;
use crate::strategy::{self, DensityStrategy};
use dapple_engine::{Adam, DensifyPlan, LearningRates, RenderSettings, StepSettings};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::sync::Arc;

/// The numbers of each step of a run. Steps count from 1.
#[derive(Debug, Clone)]
pub struct Schedule {
    config: TrainConfig,
    extent: f64,
    strategy: Arc<dyn DensityStrategy>,
}

impl Schedule {
    /// For a run in a scene of this extent (world units, [`dapple_scene::Dataset::extent`]).
    pub fn new(config: TrainConfig, extent: f64) -> Self {
        let strategy = strategy::of(&config, extent);
        Self {
            config,
            extent,
            strategy,
        }
    }

    /// The scene's extent, world units.
    pub fn extent(&self) -> f64 {
        self.extent
    }

    /// How to render at full degree: for scoring and for finished splats.
    pub fn render_settings(&self) -> RenderSettings {
        RenderSettings {
            background: self.config.background.map(|v| v as f32),
            sh_degree: self.config.sh_degree,
            max_gaussians_per_tile: self.config.max_gaussians_per_tile,
            near: self.config.near_plane(),
            depth: false,
        }
    }

    /// Degree of spherical harmonics that step `step` uses.
    pub fn sh_degree(&self, step: u32) -> u8 {
        let risen = step.saturating_sub(1) / self.config.sh_every.max(1);
        u8::try_from(risen)
            .unwrap_or(u8::MAX)
            .min(self.config.sh_degree)
    }

    /// Step sizes of step `step`.
    pub fn learning_rates(&self, step: u32) -> LearningRates {
        let rates = &self.config.learning_rates;
        let done = f64::from(step.saturating_sub(1)) / f64::from(self.config.steps.max(1));
        let means = if rates.means > 0.0 {
            rates.means * (rates.means_final / rates.means).powf(done)
        } else {
            0.0
        };
        LearningRates {
            means: (means * self.extent) as f32,
            scales: rates.scales as f32,
            quats: rates.quats as f32,
            opacities: rates.opacities as f32,
            sh0: rates.sh0 as f32,
            sh_rest: rates.sh_rest as f32,
        }
    }

    /// Weight of the depth loss in step `step`: log-linear over the run, so that depths decide where
    /// Gaussians settle and photos what becomes of them (Kerbl et al. 2024, "A Hierarchical 3D Gaussian
    /// Representation").
    pub fn depth_weight(&self, step: u32) -> f32 {
        let depth = &self.config.depth;
        if depth.from == DepthSource::None {
            return 0.0;
        }
        let done = f64::from(step.saturating_sub(1)) / f64::from(self.config.steps.max(1));
        (depth.weight * depth.decay.powf(done)) as f32
    }

    /// Everything an engine needs for step `step`.
    pub fn step_settings(&self, step: u32) -> StepSettings {
        let adam = &self.config.adam;
        let learning_rates = self.learning_rates(step);
        StepSettings {
            step,
            render: RenderSettings {
                sh_degree: self.sh_degree(step),
                ..self.render_settings()
            },
            learning_rates,
            adam: Adam {
                beta1: adam.beta1 as f32,
                beta2: adam.beta2 as f32,
                epsilon: adam.epsilon as f32,
            },
            ssim_weight: self.config.ssim_weight as f32,
            accumulate_density: self.strategy.accumulates(step),
            extras: self.strategy.extras(step, &learning_rates),
            depth_weight: self.depth_weight(step),
        }
    }

    /// The round of density control that follows step `step`, if one does.
    pub fn densify_plan(&self, step: u32) -> Option<DensifyPlan> {
        self.strategy.plan(step)
    }

    /// Whether held-out photos are scored after step `step`.
    pub fn evaluates_at(&self, step: u32) -> bool {
        let eval = &self.config.eval;
        step == self.config.last_step()
            || (eval.every > 0 && step.is_multiple_of(eval.every))
            || eval.steps.contains(&step)
    }
}

/// Which training view each step takes. Steps may be asked for in any order; neighbours are cheap.
#[derive(Debug, Clone)]
pub struct ViewOrder {
    seed: u64,
    views: usize,
    epoch: Option<u64>,
    permutation: Vec<usize>,
}

impl ViewOrder {
    /// For `views` training views.
    pub fn new(seed: u64, views: usize) -> Self {
        Self {
            seed,
            views,
            epoch: None,
            permutation: Vec::new(),
        }
    }

    /// Index of the view that step `step` (from 1) trains on; 0 when there is no view.
    pub fn view_at(&mut self, step: u32) -> usize {
        if self.views == 0 {
            return 0;
        }
        let index = step.saturating_sub(1) as usize;
        let epoch = (index / self.views) as u64;
        if self.epoch != Some(epoch) {
            let mut random = generator(self.seed, Purpose::Views, epoch);
            self.permutation = (0..self.views).collect();
            shuffle(&mut self.permutation, &mut random);
            self.epoch = Some(epoch);
        }
        self.permutation[index % self.views]
    }
}

/// What random numbers are for: each purpose has its own, so that one more draw here changes
/// nothing there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Views = 1,
    Sample = 2,
    Initial = 3,
}

/// Random numbers keyed by (seed, purpose, index): the same on every platform.
pub(crate) fn generator(seed: u64, purpose: Purpose, index: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
    key[16..24].copy_from_slice(&index.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// Uniform in `0..n` (Lemire 2019 without rejection: the bias is below `n / 2^64`).
pub(crate) fn below(n: usize, random: &mut ChaCha8Rng) -> usize {
    ((u128::from(random.next_u64()) * n as u128) >> 64) as usize
}

/// Uniform in `[0, 1)`, 24 bits.
pub(crate) fn unit(random: &mut ChaCha8Rng) -> f32 {
    (random.next_u32() >> 8) as f32 / (1u32 << 24) as f32
}

/// Fisher-Yates.
fn shuffle(values: &mut [usize], random: &mut ChaCha8Rng) {
    for i in (1..values.len()).rev() {
        values.swap(i, below(i + 1, random));
    }
}
