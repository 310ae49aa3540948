//! Samples of known depth on the GPU, by view. They come with their view's photo and go with it.

use bytemuck::{Pod, Zeroable};
use dapple_engine::DepthSample;
use dapple_runtime::{Gpu, wgpu};
use dapple_scene::Result;

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

/// One view's.
#[derive(Debug, Default)]
struct OfView {
    samples: Vec<Sample>,
    resident: Option<wgpu::Buffer>,
}

/// Those of all views.
#[derive(Debug, Default)]
pub struct Depths {
    views: Vec<OfView>,
}

impl Depths {
    /// Replaces a view's samples.
    pub fn set(&mut self, view: usize, samples: &[DepthSample]) {
        if self.views.len() <= view {
            self.views.resize_with(view + 1, OfView::default);
        }
        self.views[view] = OfView {
            samples: samples.iter().map(Sample::from).collect(),
            resident: None,
        };
    }

    /// How many samples a view has.
    pub fn count(&self, view: usize) -> usize {
        self.views.get(view).map_or(0, |v| v.samples.len())
    }

    /// A view's samples on the GPU, and how many; `None` if it has none.
    ///
    /// # Errors
    /// No memory left for them.
    pub fn make_resident(
        &mut self,
        gpu: &Gpu,
        view: usize,
    ) -> Result<Option<(wgpu::Buffer, usize)>> {
        let Some(own) = self.views.get_mut(view).filter(|v| !v.samples.is_empty()) else {
            return Ok(None);
        };
        let buffer = match &own.resident {
            Some(buffer) => buffer.clone(),
            None => own
                .resident
                .insert(gpu.upload("depth_samples", &own.samples)?)
                .clone(),
        };
        Ok(Some((buffer, own.samples.len())))
    }

    /// Gives a view's memory on the GPU back.
    pub fn release(&mut self, view: usize) {
        if let Some(own) = self.views.get_mut(view) {
            own.resident = None;
        }
    }

    /// Bytes of samples on the GPU.
    pub fn resident_bytes(&self) -> u64 {
        let there = self.views.iter().filter_map(|v| v.resident.as_ref());
        there.map(wgpu::Buffer::size).sum()
    }
}
