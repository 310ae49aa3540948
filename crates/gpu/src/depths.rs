//! Samples of known depth on the GPU. They lie beside their view's photo, one buffer for each of the
//! photos' slots, and go with it.

use bytemuck::{Pod, Zeroable};
use dapple_engine::DepthSample;
use dapple_runtime::{Gpu, Pooled};
use dapple_scene::Result;
use std::sync::Arc;

/// Twin of WGSL's `DepthSample`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
pub struct Sample {
    /// `y * width + x`.
    pub pixel: u32,
    /// One over the depth.
    pub inverse_depth: f32,
    /// How much it counts.
    pub weight: f32,
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

/// Samples on the GPU, beside a photo.
#[derive(Debug)]
struct InSlot {
    buffer: Arc<Pooled>,
    /// The view that they are of.
    view: usize,
}

/// Those of all views.
#[derive(Debug, Default)]
pub struct Depths {
    views: Vec<Vec<Sample>>,
    /// By slot of the photos.
    slots: Vec<Option<InSlot>>,
}

impl Depths {
    /// Replaces a view's samples, with no command on its way. All others leave the GPU too: what they
    /// are given there may be larger now.
    pub fn set(&mut self, view: usize, samples: &[DepthSample]) {
        if self.views.len() <= view {
            self.views.resize(view + 1, Vec::new());
        }
        self.views[view] = samples.iter().map(Sample::from).collect();
        self.release();
    }

    /// How many samples a view has.
    pub fn count(&self, view: usize) -> usize {
        self.views.get(view).map_or(0, Vec::len)
    }

    /// The buffer beside a slot of the photos, with the samples of the view whose photo is there now.
    /// Where slots change their photos (`is_ring`), it has room for those of any view.
    ///
    /// # Errors
    /// No memory left for them.
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
                let room = all.filter(|_| is_ring).unwrap_or(samples.len());
                let bytes = (room * size_of::<Sample>()) as u64;
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

    /// Gives the memory on the GPU back.
    pub fn release(&mut self) {
        self.slots.clear();
    }

    /// Bytes of samples on the GPU.
    pub fn resident_bytes(&self) -> u64 {
        let there = self.slots.iter().flatten();
        there.map(|slot| slot.buffer.size()).sum()
    }
}
