//! Cameras on the GPU: few bytes, so all of them are in one buffer, and their lenses in another, which only the kernels
//! for lenses that distort read. Entry 0 is for renders, training views follow.

use crate::layout;
use dapple_engine::constants::SSIM_WINDOW;
use dapple_engine::{PosedCamera, RefinedPose};
use dapple_scene::{Error, Photo};

/// A view to train on.
#[derive(Debug)]
pub struct GpuView {
    /// The camera in the form that kernels read.
    pub camera: PosedCamera,
    /// Pixels and windows that count in the loss; known once the photo was seen.
    pub counted: Option<(u32, u32)>,
}

/// All views.
#[derive(Debug, Default)]
pub struct Views {
    views: Vec<GpuView>,
    /// Where refinement had put each view when the host last knew; `None` = nothing was refined.
    pub(crate) poses: Option<Vec<RefinedPose>>,
}

impl Views {
    /// Takes a view in; returns its number.
    pub fn add(&mut self, view: GpuView) -> usize {
        if let Some(poses) = &mut self.poses {
            poses.push(RefinedPose::new(&view.camera));
        }
        self.views.push(view);
        self.views.len() - 1
    }

    /// Sets the pixels and windows of a view's photo that count.
    pub fn set_counted(&mut self, view: usize, counted: (u32, u32)) {
        if let Some(view) = self.views.get_mut(view) {
            view.counted = Some(counted);
        }
    }

    /// A view by its number.
    pub fn get(&self, view: usize) -> Option<&GpuView> {
        self.views.get(view)
    }

    /// Cameras of all views, without refinement.
    pub fn cameras(&self) -> impl Iterator<Item = &PosedCamera> {
        self.views.iter().map(|view| &view.camera)
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
        Some(entry(&camera, held.counted))
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

    /// From now on views have moments in addition to their cameras.
    pub(crate) fn start_refining(&mut self) {
        let poses = self.views.iter().map(|view| RefinedPose::new(&view.camera));
        self.poses = Some(poses.collect());
    }
}

pub(crate) fn no_view(view: usize) -> Error {
    Error::internal(format!("there is no view {view}"))
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
        is_ring: camera.model.is_ring().into(),
        depth_height: camera.model.depth_height(),
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
        numerator: [[n0, n1, n2, n3], [n4, n5, n6, 0.0]],
        denominator: [1.0, d1, d2, d3],
        prism: lens.prism,
        tangential: lens.tangential,
        root: lens.root,
        ..layout::Lens::default()
    }
}

/// Pixels that are not masked, and whole SSIM windows whose centre is not.
pub fn counted(camera: &PosedCamera, photo: Option<&Photo>) -> (u32, u32) {
    let [width, height] = camera.size.map(|v| v as usize);
    let radius = SSIM_WINDOW / 2;
    let Some(mask) = photo.and_then(|photo| photo.mask.as_deref()) else {
        let inside = |n: usize| n.saturating_sub(2 * radius);
        return (
            (width * height) as u32,
            (inside(width) * inside(height)) as u32,
        );
    };
    // As `reference::photo_mask` reads it.
    let counts = |value: &&u8| **value >= 128;
    let pixels = mask.iter().filter(counts).count();
    let columns = radius..width.saturating_sub(radius).max(radius);
    let rows = radius..height.saturating_sub(radius).max(radius);
    let windows: usize = rows
        .map(|y| {
            let row = &mask[y * width..(y + 1) * width];
            let inside = row.get(columns.clone()).unwrap_or_default();
            inside.iter().filter(counts).count()
        })
        .sum();
    (pixels as u32, windows as u32)
}
