//! Which permutation of the kernels that project Gaussians a command takes.

use crate::layout;
use dapple_runtime::Defines;

/// How Gaussians come onto the image. The default is a pinhole without filters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Optics {
    /// Through a lens that distorts.
    pub lens: bool,
    /// Through the filters against aliasing.
    pub antialias: bool,
}

impl Optics {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// Its number, below [`Self::COUNT`]; 0 is the default.
    pub fn index(self) -> usize {
        usize::from(self.lens) + 2 * usize::from(self.antialias)
    }

    /// What its shaders are compiled with.
    pub fn define(self, defines: Defines) -> Defines {
        layout::antialias(defines.flag("LENS", self.lens), self.antialias)
    }
}
