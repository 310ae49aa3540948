//! Sampler for systems that do not support sampling: always returns an error.

use super::{SampleError, Samples};

/// A sampler that cannot exist: [`Self::start`] always returns an error.
#[derive(Debug)]
pub struct Sampler(std::convert::Infallible);

impl Sampler {
    /// Returns [`SampleError::Unsupported`].
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
