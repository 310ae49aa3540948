//! Systems on which no samples can be taken: they say so.

use super::{SampleError, Samples};

/// Not on this system: [`Self::start`] is always refused.
#[derive(Debug)]
pub struct Sampler(std::convert::Infallible);

impl Sampler {
    /// Refused.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: u32) -> Result<Self, SampleError> {
        Err(SampleError::Unsupported)
    }

    /// Never reached.
    ///
    /// # Errors
    /// None.
    pub fn finish(self) -> Result<Samples, SampleError> {
        match self.0 {}
    }
}
