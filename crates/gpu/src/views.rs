//! Cameras and photos on the GPU.
//!
//! 1. Cameras are few bytes: all of them lie in one buffer, and their lenses in another, which only
//!    the kernels for lenses that distort read. Entry 0 is for renders, training views follow.
//! 2. Photos are kept as 8 bits a channel, one word a pixel, and stay on the GPU as long as they fit
//!    a budget. Beyond it the photo that was used longest ago gives way.
//!
//! A photo's words: RGBA per pixel (alpha 255 where the photo has none), then, if it has a mask, one
//! bit per pixel, 1 = counts.

use crate::layout;
use dapple_engine::constants::SSIM_WINDOW;
use dapple_engine::{PosedCamera, RefinedPose, TrainView, check_photo, reference};
use dapple_runtime::{Gpu, wgpu};
use dapple_scene::{Photo, Result};
use std::sync::Arc;

/// A view to train on.
#[derive(Debug)]
pub struct GpuView {
    /// The camera as kernels want it.
    pub camera: PosedCamera,
    /// The photo.
    pub photo: Arc<Photo>,
    /// The photo on the GPU.
    pub resident: Option<wgpu::Buffer>,
    /// When it was last used, in steps.
    last_used: u64,
}

impl GpuView {
    fn bytes(&self) -> u64 {
        let pixels = self.photo.pixel_count() as u64;
        let mask = self.photo.mask.as_ref().map_or(0, |_| pixels.div_ceil(32));
        4 * (pixels + mask)
    }

    /// Whether the photo has a mask.
    pub fn is_masked(&self) -> bool {
        self.photo.mask.is_some()
    }
}

/// All views, and which photos are on the GPU.
#[derive(Debug)]
pub struct Views {
    views: Vec<GpuView>,
    budget_bytes: u64,
    resident_bytes: u64,
    clock: u64,
    /// Where refinement had put each view when the host last knew; `None` = nothing was refined.
    pub(crate) poses: Option<Vec<RefinedPose>>,
    /// Photos that were copied to the GPU.
    pub uploads: u64,
}

impl Views {
    /// No views; photos may take `budget_bytes` on the GPU.
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            views: Vec::new(),
            budget_bytes,
            resident_bytes: 0,
            clock: 0,
            poses: None,
            uploads: 0,
        }
    }

    /// Takes a view in; returns its number.
    ///
    /// # Errors
    /// A camera that is not sound, or a photo of another size.
    pub fn add(&mut self, view: &TrainView) -> Result<usize> {
        let camera = PosedCamera::new(&view.camera)?;
        check_photo(&camera, &view.photo)?;
        if let Some(poses) = &mut self.poses {
            poses.push(RefinedPose::new(&camera));
        }
        self.views.push(GpuView {
            camera,
            photo: Arc::clone(&view.photo),
            resident: None,
            last_used: 0,
        });
        Ok(self.views.len() - 1)
    }

    /// A view by its number.
    pub fn get(&self, view: usize) -> Option<&GpuView> {
        self.views.get(view)
    }

    /// Number of views.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Entries of the buffer of cameras: `render` first, then the views.
    pub fn entries(&self, render: Option<&PosedCamera>) -> Vec<layout::View> {
        let first = render.map(|camera| entry(camera, None)).unwrap_or_default();
        let rest = self.views.iter().enumerate().map(|(i, view)| {
            let pose = self.poses.as_ref().and_then(|poses| poses.get(i));
            let camera = pose.map_or(view.camera, |pose| pose.camera(&view.camera));
            entry(&camera, Some(&view.photo))
        });
        std::iter::once(first).chain(rest).collect()
    }

    /// Entries of the buffer of lenses, in the order of [`Self::entries`].
    pub fn lenses(&self, render: Option<&PosedCamera>) -> Vec<layout::Lens> {
        let first = render.map(lens_entry).unwrap_or_default();
        let rest = self.views.iter().map(|v| lens_entry(&v.camera));
        std::iter::once(first).chain(rest).collect()
    }

    /// From now on views have moments beside their cameras.
    pub(crate) fn start_refining(&mut self) {
        let poses = self.views.iter().map(|view| RefinedPose::new(&view.camera));
        self.poses = Some(poses.collect());
    }

    /// A view's photo on the GPU. `gave_way` learns which views' photos did so for it.
    ///
    /// # Errors
    /// No memory left for it.
    pub fn make_resident(
        &mut self,
        gpu: &Gpu,
        view: usize,
        mut gave_way: impl FnMut(usize),
    ) -> Result<wgpu::Buffer> {
        self.clock += 1;
        let clock = self.clock;
        let wanted = &mut self.views[view];
        wanted.last_used = clock;
        if let Some(photo) = &wanted.resident {
            return Ok(photo.clone());
        }
        let bytes = wanted.bytes();
        while self.resident_bytes + bytes > self.budget_bytes {
            let oldest = (0..self.views.len())
                .filter(|&i| self.views[i].resident.is_some())
                .min_by_key(|&i| self.views[i].last_used);
            let Some(oldest) = oldest else {
                break;
            };
            // Work in flight keeps its buffer alive; wgpu frees it when that is done.
            self.views[oldest].resident = None;
            self.resident_bytes -= self.views[oldest].bytes();
            gave_way(oldest);
        }
        let words = photo_words(&self.views[view].photo);
        let buffer = gpu.upload("photo", &words)?;
        self.views[view].resident = Some(buffer.clone());
        self.resident_bytes += bytes;
        self.uploads += 1;
        Ok(buffer)
    }

    /// Bytes of photos on the GPU.
    pub fn resident_bytes(&self) -> u64 {
        self.resident_bytes
    }
}

/// A photo as the shaders read it.
pub fn photo_words(photo: &Photo) -> Vec<u32> {
    let alpha = |i: usize| photo.alpha.as_ref().map_or(255, |alpha| alpha[i]);
    let pixels = photo.rgb.as_chunks::<3>().0.iter().enumerate();
    let mut words: Vec<u32> = pixels
        .map(|(i, &[r, g, b])| u32::from_le_bytes([r, g, b, alpha(i)]))
        .collect();
    if let Some(mask) = reference::photo_mask(photo) {
        let bits = |chunk: &[bool]| {
            let set = chunk.iter().enumerate().filter(|(_, counts)| **counts);
            set.fold(0u32, |word, (i, _)| word | 1 << i)
        };
        words.extend(mask.chunks(32).map(bits));
    }
    words
}

/// A camera, and the counts of what its photo leaves to compare.
pub fn entry(camera: &PosedCamera, photo: Option<&Arc<Photo>>) -> layout::View {
    let row = |i: usize| {
        let [x, y, z] = camera.rotation[i];
        [x, y, z, camera.centre_rest[i]]
    };
    let [cx, cy, cz] = camera.centre;
    let (counted_pixels, counted_windows) = counted(camera, photo.map(AsRef::as_ref));
    layout::View {
        rows: [row(0), row(1), row(2)],
        centre: [cx, cy, cz, 0.0],
        focal: camera.focal,
        principal: camera.principal,
        jacobian_min: camera.jacobian_min,
        jacobian_max: camera.jacobian_max,
        size: camera.size,
        tiles: camera.tiles,
        counted_pixels,
        counted_windows,
        pad: [0; 2],
    }
}

/// A camera's lens as the shaders read it.
pub fn lens_entry(camera: &PosedCamera) -> layout::Lens {
    let Some(lens) = &camera.lens else {
        return layout::Lens::default();
    };
    let [n0, n1, n2, n3, n4, n5, n6] = lens.numerator;
    let [d1, d2, d3] = lens.denominator;
    layout::Lens {
        bend: lens.bend,
        reach: lens.reach,
        decentres_distorted: lens.decentres_distorted.into(),
        numerator: [n0, n1, n2, n3, n4, n5, n6, 0.0],
        denominator: [1.0, d1, d2, d3],
        prism: lens.prism,
        tangential: lens.tangential,
        ..layout::Lens::default()
    }
}

/// Pixels that are not masked, and whole SSIM windows whose centre is not.
fn counted(camera: &PosedCamera, photo: Option<&Photo>) -> (u32, u32) {
    let [width, height] = camera.size.map(|v| v as usize);
    let radius = SSIM_WINDOW / 2;
    let Some(mask) = photo.and_then(reference::photo_mask) else {
        let inside = |n: usize| n.saturating_sub(2 * radius);
        return (
            (width * height) as u32,
            (inside(width) * inside(height)) as u32,
        );
    };
    let pixels = mask.iter().filter(|&&counts| counts).count();
    let columns = radius..width.saturating_sub(radius).max(radius);
    let rows = radius..height.saturating_sub(radius).max(radius);
    let windows: usize = rows
        .map(|y| {
            let row = &mask[y * width..(y + 1) * width];
            columns.clone().filter(|&x| row[x]).count()
        })
        .sum();
    (pixels as u32, windows as u32)
}
