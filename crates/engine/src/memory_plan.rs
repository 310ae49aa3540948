//! [`MemoryPlan`]: how many Gaussians the memory of a device holds, known before a run starts.

use crate::part::{FIRST_BLOCKS, Part};

/// Gaussians that train on a device without filling it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Most Gaussians.
    pub gaussians: usize,
    /// Bytes of a Gaussian, with the instances that a usual step makes of it.
    pub bytes_each: u64,
    /// Bytes of the device for Gaussians: half of its memory. The rest is for photos and images. `None` = unknown.
    pub bytes: Option<u64>,
    /// True if the largest buffer of the device is the limit, not its memory.
    pub by_buffer: bool,
    /// Engines that share the Gaussians.
    pub engines: usize,
    /// Most Gaussians that the buffers of one engine take, for splats that are not trained.
    pub held: usize,
    /// Bytes of such a Gaussian, without instances.
    pub bytes_held: u64,
    /// A smaller storage, by the name that `--precision` has for it, and most Gaussians with it.
    pub smaller: Option<(&'static str, usize)>,
}

impl MemoryPlan {
    /// Returns the bytes of this number of Gaussians.
    pub fn bytes_of(&self, gaussians: usize) -> u64 {
        self.bytes_each.saturating_mul(gaussians as u64)
    }

    /// Returns the plan of `engines` like devices that share the Gaussians.
    #[must_use]
    pub fn times(self, engines: usize) -> Self {
        let all = |gaussians: usize| gaussians.saturating_mul(engines);
        Self {
            gaussians: all(self.gaussians),
            bytes: self.bytes.map(|bytes| bytes.saturating_mul(engines as u64)),
            engines: self.engines.saturating_mul(engines),
            smaller: self.smaller.map(|(name, most)| (name, all(most))),
            ..self
        }
    }

    /// Returns true if the buffers of each engine take its part of this number of Gaussians, without training.
    pub fn holds(&self, gaussians: usize) -> bool {
        self.is_held_by(self.engines, gaussians)
    }

    /// Returns the least number of such engines whose buffers take their parts of this number of Gaussians; `None` if it
    /// is above [`FIRST_BLOCKS`].
    pub fn engines_holding(&self, gaussians: usize) -> Option<usize> {
        (1..=FIRST_BLOCKS).find(|&engines| self.is_held_by(engines, gaussians))
    }

    fn is_held_by(&self, engines: usize, gaussians: usize) -> bool {
        // No part is larger than the first.
        Part::new(0, engines.max(1), gaussians).len() <= self.held
    }

    /// Returns how many such engines hold this number of Gaussians in training.
    pub fn engines_for(&self, gaussians: usize) -> usize {
        let each = self.gaussians / self.engines.max(1);
        gaussians.div_ceil(each.max(1))
    }
}
