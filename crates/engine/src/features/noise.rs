//! Noise on centres, for density strategies that move Gaussians at random (Kheradmand et al. 2024, "3D Gaussian Splatting
//! as Markov Chain Monte Carlo"). Formula: `dapple_reference::perturbation`.

use serde::{Deserialize, Serialize};

/// Numbers of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Scale of the random motion of centres: this value times the covariance, world units, less for more opaque
    /// Gaussians. The motion follows Adam's step and uses its result. Keyed by
    /// [`StepSettings::seed`](crate::StepSettings::seed).
    pub scale: f32,
}

/// Noise has no state.
pub type State = ();
