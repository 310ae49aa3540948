//! 3D filters of anti-aliased runs ([`dapple_engine::features::antialias`]).

use super::point::{At, TrainFeature};
use dapple_engine::features::antialias;

/// Steps between two updates of the 3D filters, as in Mip-Splatting (Yu et al. 2024).
const FILTER_EVERY: u32 = 100;

/// Anti-aliasing.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = antialias::Step;
    type State = antialias::State;

    fn step(at: &At<'_>) -> Self::Step {
        antialias::Step {
            refresh: at.config.antialias && refreshes(at),
        }
    }
}

/// Returns true if a step begins by computing the filters again: every [`FILTER_EVERY`] steps, since centres move, and
/// after density control.
fn refreshes(at: &At<'_>) -> bool {
    at.step.saturating_sub(1).is_multiple_of(FILTER_EVERY) || (at.follows_round)()
}
