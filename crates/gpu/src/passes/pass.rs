//! [`Pass`]: a stage, or a part of a stage, as its file declares it.

use super::{Bits, Code, Entry, Tensor};
use crate::precision::Precision;
use crate::recorder::Recorder;
use dapple_scene::Result;

/// Inputs of the formulas for the bytes of a stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of Gaussians.
    pub gaussians: u64,
    /// Number of visible Gaussians.
    pub visible: u64,
    /// Number of instances, pairs of a Gaussian and a tile.
    pub instances: u64,
    /// Number of pixels.
    pub pixels: u64,
    /// Number of tiles.
    pub tiles: u64,
    /// Degree of the harmonics in use.
    pub sh_degree: u8,
    /// True if the loss has an SSIM term.
    pub ssim: bool,
}

/// A stage, or a part of a stage at one position of a plan.
pub struct Pass {
    /// The stage: the name of its span, under which it is timed.
    pub name: &'static str,
    /// Its shaders, by name.
    pub shaders: &'static [(&'static str, &'static str)],
    /// Its kernels.
    pub kernels: &'static [Code],
    /// The pass runs if a command has one of these bits; none = always.
    pub needs: Bits,
    /// The pass does not run if a command has one of these bits.
    pub unless: Bits,
    /// Its tensors: the pass is the first that fills them, or owns them as state.
    pub tensors: &'static [Tensor],
    /// Bindings whose name differs from that of their tensor: the binding's name, and the tensor.
    pub borrows: &'static [(&'static str, &'static str)],
    /// The entries that it counts.
    pub entries: &'static [Entry],
    /// The sorts that it needs: bits of the keys, and true if values are places.
    pub sorts: &'static [(u32, bool)],
    /// Permutations in which its kernels and sorts are compiled when an engine opens. All other permutations are
    /// compiled when they are first recorded.
    pub first: &'static [Bits],
    /// The least bytes that it moves: see [`crate::catalogue::bytes`].
    pub bytes: fn(&Load, Precision) -> u64,
    /// Appends its dispatches.
    pub record: fn(&mut Recorder<'_>) -> Result<()>,
}

impl Pass {
    /// Creates a pass that declares only its name and its dispatches.
    pub const fn new(name: &'static str, record: fn(&mut Recorder<'_>) -> Result<()>) -> Self {
        Self {
            name,
            shaders: &[],
            kernels: &[],
            needs: Bits::NONE,
            unless: Bits::NONE,
            tensors: &[],
            borrows: &[],
            entries: &[],
            sorts: &[],
            first: &[],
            bytes: |_, _| 0,
            record,
        }
    }

    /// Returns true if the pass runs for a command with these bits.
    pub fn is_part_of(&self, bits: Bits) -> bool {
        (self.needs == Bits::NONE || bits.meets(self.needs)) && !bits.meets(self.unless)
    }

    /// Returns the bits that make a difference to the pass.
    pub fn understands(&self) -> Bits {
        let kernels = self.kernels.iter().map(|code| code.bits);
        kernels.fold(self.needs | self.unless, |all, bits| all | bits)
    }
}

impl Recorder<'_> {
    /// Appends a pass, if the bits of the command enable it, in a span of its name.
    ///
    /// # Errors
    /// A tensor or an entry is missing; the driver refuses a kernel; no memory for scratch.
    pub fn pass(&mut self, pass: &Pass) -> Result<()> {
        if !pass.is_part_of(self.bits) {
            return Ok(());
        }
        self.begin(pass.name, pass.borrows);
        (pass.record)(self)
    }
}
