//! Amendments: changes that a run makes to itself while it runs.

/// A change of the steps after a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amendment {
    /// Last step before the change.
    pub after: u32,
    /// Change.
    pub change: Change,
}

/// A change of the remaining steps of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// The rest of the schedule is run in the steps up to `last`.
    StepRate {
        /// New last step.
        last: u32,
    },
    /// The run continues as one that had had this length and Gaussian cap from its start.
    Extension {
        /// Steps.
        steps: u32,
        /// Gaussian cap.
        max_gaussians: u32,
    },
    /// Each step drops this part of the Gaussians.
    Dropout {
        /// Dropout rate.
        rate: f64,
    },
}
