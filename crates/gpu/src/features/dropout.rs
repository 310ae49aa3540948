//! Dropout: see [`dapple_engine::Dropout`]. `project` draws and scales, by numbers of the step.

use super::point::Feature;
use dapple_runtime::Defines;

/// Dropout holds nothing.
#[derive(Debug, Default)]
pub struct Held;

impl Feature for Held {
    type State = ();

    fn define(defines: Defines) -> Defines {
        defines.u32("DROPOUT", dapple_engine::DROPOUT)
    }
}
