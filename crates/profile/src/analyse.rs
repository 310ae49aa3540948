//! Signatures first.
use crate::error::{Error, Result};
use crate::profile::{KernelSummary, Profile, Trace};
use crate::recording::Recording;
use crate::setup::Setup;

/// Turns a recording into a profile, and a picture of it.
///
/// # Errors
/// No step ended in the window; the device still ran when the window opened or closed.
pub fn analyse(_recording: &Recording, _setup: &Setup) -> Result<(Profile, Trace)> {
    Err(Error::input("not yet"))
}

/// The kernels of a recording that was made to time them alone.
pub fn kernels_of(_recording: &Recording) -> Vec<KernelSummary> {
    Vec::new()
}
