//! [`Code`]: a kernel as a pass declares it.

use super::Bits;

/// A kernel: an entry point of a shader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code {
    /// Name of the shader.
    pub shader: &'static str,
    /// Name of the entry point.
    pub entry: &'static str,
    /// Permutation bits that it understands.
    pub bits: Bits,
    /// Name of the settings that are constants of the kernel: see [`crate::Context::set_constants`].
    pub constants: Option<&'static str>,
    /// True if it runs in parts on devices that kill long dispatches.
    pub in_parts: bool,
}

impl Code {
    /// Creates a kernel that is the same in all permutations.
    pub const fn new(shader: &'static str, entry: &'static str) -> Self {
        Self {
            shader,
            entry,
            bits: Bits::NONE,
            constants: None,
            in_parts: false,
        }
    }

    /// Makes a kernel for each combination of `bits`.
    #[must_use]
    pub const fn by(self, bits: Bits) -> Self {
        Self { bits, ..self }
    }

    /// Adds the constants of this name.
    #[must_use]
    pub const fn with_constants(self, name: &'static str) -> Self {
        Self {
            constants: Some(name),
            ..self
        }
    }

    /// Makes the kernel run in parts on devices that kill long dispatches.
    #[must_use]
    pub const fn in_parts(self) -> Self {
        Self {
            in_parts: true,
            ..self
        }
    }
}
