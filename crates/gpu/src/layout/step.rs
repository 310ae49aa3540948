//! Numbers of a step: those of stages, and those of [`crate::features`].

use crate::features;
use crate::shared_struct::shared_struct;
use dapple_engine::LossTerm;

shared_struct! {
    /// Numbers of each step, sent as immediates. A step without features needs every number of the stages.
    pub struct Step {
        /// Number of the view.
        view: u32,
        /// Step, counted from 1.
        number: u32,
        /// `FLAG_*`.
        flags: u32,
        /// Active SH degree.
        sh_degree: u32,
        /// Colour behind everything.
        background: [f32; 3],
        /// Near plane, world units.
        near: f32,
        /// Step sizes over Adam's first bias correction.
        rates as [rate_means, rate_scales, rate_quats, rate_opacities, rate_sh0, rate_sh_rest]: [f32; 6],
        /// Decay of the first moment.
        beta1: f32,
        /// Decay of the second moment.
        beta2: f32,
        /// Adam's epsilon.
        epsilon: f32,
        /// `1 / (1 - beta2^step)`.
        inverse_correction2: f32,
        /// Seed of the run, low and high.
        seed: [u32; 2],
        /// Weight of `1 - SSIM`. All other weights of the loss are in [`Parameters::losses`].
        ssim_weight: f32,
        /// `max_gaussians_per_tile`; 0 = all.
        cap: u32,
        /// Entry of the ring of reports.
        report: u32,
        /// Number of visible Gaussians of all parts, where they come from other engines.
        shown: u32,
        /// Numbers of the features.
        features: features::Immediates,
        /// Dilation beyond the usual one, pixels squared.
        extra_dilation: f32,
        /// Views of a render of several, from [`Self::view`] on; 0 = a single one.
        frames: u32,
        /// Not used: where there are no immediates the block is a uniform, whose size is a multiple of 16.
        spare: u32,
    }
}

shared_struct! {
    /// Further numbers of each step, sent through the runtime's ring buffer. A new feature's numbers go here:
    /// immediates are for what every step needs.
    pub struct Parameters {
        /// Weights of the loss by [`LossTerm`]'s number, for shaders by `loss_weight`; more than there are, so that a
        /// term needs no place of its own. Shaders read the weight of SSIM from [`Step`]: every step needs it, and a
        /// step that reads this block costs an upload.
        losses: [[f32; 4]; 2],
        /// Numbers of the last step of a batch of several ([`dapple_engine::GaussianUpdate`]): factor of the sums of
        /// gradients.
        batch_share: f32,
        /// Decay of the first moment.
        batch_beta1: f32,
        /// Decay of the second moment.
        batch_beta2: f32,
        /// Adam's epsilon.
        batch_epsilon: f32,
        /// Numbers of the features.
        features: features::Parameters,
    }
}

/// Largest size of immediates on every device, bytes.
const MOST_IMMEDIATES: usize = 128;

const _: () = assert!(LossTerm::ALL.len() <= 8);

const _: () = assert!(size_of::<Step>() <= MOST_IMMEDIATES && size_of::<Step>().is_multiple_of(16));

const _: () = assert!(size_of::<Parameters>() <= dapple_runtime::PARAMETER_BYTES);
