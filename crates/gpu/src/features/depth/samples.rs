//! Samples of known depth on the GPU. A buffer for each photo slot holds the samples of the view whose photo is in the
//! slot.

use crate::shared_struct::shared_struct;
use dapple_engine::DepthSample;
use dapple_runtime::{Gpu, Pooled};
use dapple_scene::Result;
use std::sync::Arc;

shared_struct! {
    /// Sample of known depth.
    pub struct Sample {
        /// `y * width + x`.
        pixel: u32,
        /// One over the depth.
        inverse_depth: f32,
        /// Weight of the sample.
        weight: f32,
    }
}

impl From<&DepthSample> for Sample {
    fn from(sample: &DepthSample) -> Self {
        Self {
            pixel: sample.pixel,
            inverse_depth: sample.inverse_depth,
            weight: sample.weight,
        }
    }
}

/// Samples on the GPU, for a photo slot.
#[derive(Debug)]
struct InSlot {
    buffer: Arc<Pooled>,
    /// View of the samples.
    view: usize,
}

/// Samples of all views.
#[derive(Debug, Default)]
pub struct Depths {
    views: Vec<Vec<Sample>>,
    /// By photo slot.
    slots: Vec<Option<InSlot>>,
}

impl Depths {
    /// Replaces a view's samples. Must be called with no command in flight. The samples of all other views leave the
    /// GPU too, because their buffers may need a larger size now.
    pub fn set(&mut self, view: usize, samples: &[DepthSample]) {
        if self.views.len() <= view {
            self.views.resize(view + 1, Vec::new());
        }
        self.views[view] = samples.iter().map(Sample::from).collect();
        self.release();
    }

    /// Returns the number of samples of a view.
    pub fn count(&self, view: usize) -> usize {
        self.views.get(view).map_or(0, Vec::len)
    }

    /// Returns the buffer of a photo slot, with the samples of the view whose photo is there now. If slots change their
    /// photos (`is_ring`), the buffer has the capacity for the samples of any view.
    ///
    /// # Errors
    /// No memory left for the samples.
    pub fn bring(
        &mut self,
        gpu: &Gpu,
        view: usize,
        (slot, is_ring): (usize, bool),
    ) -> Result<Option<Arc<Pooled>>> {
        let Some(samples) = self.views.get(view).filter(|own| !own.is_empty()) else {
            return Ok(None);
        };
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        let (buffer, is_there) = match &self.slots[slot] {
            Some(there) => (there.buffer.clone(), there.view == view),
            None => {
                let all = self.views.iter().map(Vec::len).max();
                let capacity = all.filter(|_| is_ring).unwrap_or(samples.len());
                let bytes = (capacity * size_of::<Sample>()) as u64;
                (gpu.buffer("depth_samples", bytes)?, false)
            }
        };
        if !is_there {
            gpu.write(&buffer, 0, samples);
            let buffer = buffer.clone();
            self.slots[slot] = Some(InSlot { buffer, view });
        }
        Ok(Some(buffer))
    }

    /// Releases the memory on the GPU.
    pub fn release(&mut self) {
        self.slots.clear();
    }

    /// Returns the bytes of samples on the GPU.
    pub fn resident_bytes(&self) -> u64 {
        let there = self.slots.iter().flatten();
        there.map(|slot| slot.buffer.size()).sum()
    }
}
