//! Cameras and photos on the GPU.
//!
//! 1. Cameras are few bytes: all of them lie in one buffer, and their lenses in another, which only
//!    the kernels for lenses that distort read. Entry 0 is for renders, training views follow.
//! 2. Photos are kept as 8 bits a channel, one word a pixel, and stay on the GPU as long as they fit
//!    a budget. Beyond it the photo that was used longest ago gives way, unless a command that needs it
//!    has not reported: so a command that has to be submitted again finds its photo, though the host
//!    may not hold it any more.
//!
//! A photo's words: RGBA per pixel (alpha 255 where the photo has none), then, if it has a mask, one
//! bit per pixel, 1 = counts.

use crate::layout;
use dapple_engine::constants::SSIM_WINDOW;
use dapple_engine::{PosedCamera, RefinedPose, check_photo, reference};
use dapple_runtime::{Gpu, wgpu};
use dapple_scene::{Camera, Error, Photo, Result};
use std::sync::Arc;

/// A view to train on.
#[derive(Debug)]
pub struct GpuView {
    /// The camera as kernels want it.
    pub camera: PosedCamera,
    /// The photo, where it is held; one that comes for each step goes when it is on the GPU.
    photo: Option<Arc<Photo>>,
    comes_each_step: bool,
    /// Known once the photo was seen.
    seen: Option<Seen>,
    /// The photo on the GPU, and its bytes.
    resident: Option<(wgpu::Buffer, u64)>,
    /// The last command that used it.
    last_used: u64,
}

/// What is remembered of a photo.
#[derive(Debug, Clone, Copy)]
struct Seen {
    is_masked: bool,
    counted: (u32, u32),
}

impl Seen {
    fn of(camera: &PosedCamera, photo: &Photo) -> Self {
        Self {
            is_masked: photo.mask.is_some(),
            counted: counted(camera, Some(photo)),
        }
    }
}

impl GpuView {
    /// Whether the photo has a mask.
    pub fn is_masked(&self) -> bool {
        self.seen.is_some_and(|seen| seen.is_masked)
    }

    /// Whether the photo is on the GPU.
    pub fn is_resident(&self) -> bool {
        self.resident.is_some()
    }

    /// The most bytes that the photo can take on the GPU.
    fn most_bytes(&self) -> u64 {
        let pixels = self.camera.pixel_count() as u64;
        4 * (pixels + pixels.div_ceil(32))
    }
}

/// All views, and which photos are on the GPU.
#[derive(Debug)]
pub struct Views {
    views: Vec<GpuView>,
    budget_bytes: u64,
    resident_bytes: u64,
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
            poses: None,
            uploads: 0,
        }
    }

    /// Takes a view in; returns its number. Without a photo, one comes for each step.
    ///
    /// # Errors
    /// A camera that is not sound, or a photo of another size.
    pub fn add(&mut self, camera: &Camera, photo: Option<Arc<Photo>>) -> Result<usize> {
        let camera = PosedCamera::new(camera)?;
        if let Some(photo) = &photo {
            check_photo(&camera, photo)?;
        }
        if let Some(poses) = &mut self.poses {
            poses.push(RefinedPose::new(&camera));
        }
        self.views.push(GpuView {
            camera,
            comes_each_step: photo.is_none(),
            seen: photo.as_ref().map(|photo| Seen::of(&camera, photo)),
            photo,
            resident: None,
            last_used: 0,
        });
        Ok(self.views.len() - 1)
    }

    /// Takes in the photo of a view's next step. True if it is the view's first one: then its entry has
    /// changed.
    ///
    /// # Errors
    /// There is no such view; a photo of another size.
    pub fn put(&mut self, view: usize, photo: Arc<Photo>) -> Result<bool> {
        let Some(held) = self.views.get_mut(view) else {
            return Err(no_view(view));
        };
        check_photo(&held.camera, &photo)?;
        let is_first = held.seen.is_none();
        if is_first {
            held.seen = Some(Seen::of(&held.camera, &photo));
        }
        if held.resident.is_none() {
            held.photo = Some(photo);
        }
        Ok(is_first)
    }

    /// A view by its number.
    pub fn get(&self, view: usize) -> Option<&GpuView> {
        self.views.get(view)
    }

    /// Number of views.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// A view's entry in the buffer of cameras, where refinement had put it when the host last knew.
    pub fn entry(&self, view: usize) -> Option<layout::View> {
        let held = self.views.get(view)?;
        let pose = self.poses.as_ref().and_then(|poses| poses.get(view));
        let camera = pose.map_or(held.camera, |pose| pose.camera(&held.camera));
        Some(entry(&camera, held.seen.map(|seen| seen.counted)))
    }

    /// Entries of the buffer of cameras: `render` first, then the views.
    pub fn entries(&self, render: Option<&PosedCamera>) -> Vec<layout::View> {
        let first = render.map(|camera| entry(camera, None)).unwrap_or_default();
        let rest = (0..self.views.len()).filter_map(|view| self.entry(view));
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

    /// Photos that fit the budget at any time; `None` if all do.
    pub fn photos_that_fit(&self) -> Option<u64> {
        let bytes = self.views.iter().map(GpuView::most_bytes);
        let is_tight = bytes.clone().sum::<u64>() > self.budget_bytes;
        is_tight.then(|| self.budget_bytes / bytes.max().unwrap_or(1).max(1))
    }

    /// Lets photos that were used longest ago give way until that of `view` fits; `gave_way` learns which.
    /// Commands from `pending` on are not done: what they use stays. False if it does not fit so.
    pub fn make_room(
        &mut self,
        view: usize,
        pending: u64,
        mut gave_way: impl FnMut(usize),
    ) -> bool {
        let bytes = self.views[view].most_bytes();
        while self.resident_bytes + bytes > self.budget_bytes {
            let resident = self.views.iter().enumerate();
            let oldest = resident
                .filter(|(_, v)| v.is_resident())
                .min_by_key(|(_, v)| v.last_used)
                .map(|(i, v)| (i, v.last_used));
            match oldest {
                // A photo larger than the budget is alone.
                None => return true,
                Some((_, last_used)) if last_used >= pending => return false,
                Some((oldest, _)) => {
                    if let Some((_, bytes)) = self.views[oldest].resident.take() {
                        self.resident_bytes -= bytes;
                    }
                    gave_way(oldest);
                }
            }
        }
        true
    }

    /// A view's photo on the GPU, for the command of this number.
    ///
    /// # Errors
    /// No memory left for it; it has not come.
    pub fn use_photo(&mut self, gpu: &Gpu, view: usize, command: u64) -> Result<wgpu::Buffer> {
        let wanted = &mut self.views[view];
        wanted.last_used = command;
        if let Some((buffer, _)) = &wanted.resident {
            return Ok(buffer.clone());
        }
        let photo = match wanted.comes_each_step {
            true => wanted.photo.take(),
            false => wanted.photo.clone(),
        };
        let Some(photo) = photo else {
            return Err(Error::internal(format!(
                "the photo of view {view} has not come"
            )));
        };
        let words = photo_words(&photo);
        let bytes = size_of_val(words.as_slice()) as u64;
        let buffer = gpu.upload("photo", &words)?;
        wanted.resident = Some((buffer.clone(), bytes));
        self.resident_bytes += bytes;
        self.uploads += 1;
        Ok(buffer)
    }

    /// Bytes of photos on the GPU.
    pub fn resident_bytes(&self) -> u64 {
        self.resident_bytes
    }
}

pub(crate) fn no_view(view: usize) -> Error {
    Error::internal(format!("there is no view {view}"))
}

/// A photo as the shaders read it.
pub fn photo_words(photo: &Photo) -> Vec<u32> {
    let pixels = photo.rgb.as_chunks::<3>().0.iter();
    let word = |(&[r, g, b], &a): (&[u8; 3], &u8)| u32::from_le_bytes([r, g, b, a]);
    let mut words: Vec<u32> = match &photo.alpha {
        Some(alpha) => pixels.zip(alpha).map(word).collect(),
        None => pixels.map(|pixel| word((pixel, &255))).collect(),
    };
    if let Some(mask) = reference::photo_mask(photo) {
        let bits = |chunk: &[bool]| {
            let set = chunk.iter().enumerate().filter(|(_, counts)| **counts);
            set.fold(0u32, |word, (i, _)| word | 1 << i)
        };
        words.extend(mask.chunks(32).map(bits));
    }
    words
}

/// A camera, and the counts of what its photo leaves to compare: everything, if they are not known.
pub fn entry(camera: &PosedCamera, counts: Option<(u32, u32)>) -> layout::View {
    let row = |i: usize| {
        let [x, y, z] = camera.rotation[i];
        [x, y, z, camera.centre_rest[i]]
    };
    let [cx, cy, cz] = camera.centre;
    let (counted_pixels, counted_windows) = counts.unwrap_or_else(|| counted(camera, None));
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
