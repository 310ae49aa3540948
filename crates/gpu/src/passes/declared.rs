//! [`Declared`]: the declarations of all passes that buffers and recorder look up by name. [`crate::catalogue`] makes
//! it from the lists of passes.

use super::{Entries, Tensor};

/// Tensors and entries of all passes.
#[derive(Debug, Clone, Default)]
pub struct Declared {
    /// Every tensor.
    pub tensors: Vec<&'static Tensor>,
    /// Every entry, with its number.
    pub entries: Entries,
}

impl Declared {
    /// Returns the tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&'static Tensor> {
        let mut tensors = self.tensors.iter().copied();
        tensors.find(|tensor| tensor.name == name)
    }

    /// Returns the tensors that are state of Gaussians.
    pub fn state(&self) -> impl Iterator<Item = &'static Tensor> {
        let tensors = self.tensors.iter().copied();
        tensors.filter(|tensor| tensor.is_state())
    }
}
