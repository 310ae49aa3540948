//! Adds views with their photos, and sets the loss of crops.

use super::GpuEngine;
use crate::layout;
use crate::views::GpuView;
use dapple_device::CropRoutine;
use dapple_engine::{PosedCamera, ViewId};
use dapple_scene::{Camera, Photo, Result};
use std::sync::Arc;

impl GpuEngine {
    /// Sets the loss that compares crops in steps from now on.
    pub(super) fn set_crops(&mut self, loss: Option<CropRoutine>) -> Result<()> {
        // Commands that are submitted again need the loss with which they were enqueued.
        self.settle()?;
        let (context, buffers) = (&mut self.context, &mut self.buffers);
        self.features.perceptual.set(context, buffers, loss)?;
        self.drop_stale();
        Ok(())
    }

    /// Adds a view, with its photo unless the photo is uploaded for each step.
    pub(super) fn add_view(
        &mut self,
        camera: &Camera,
        photo: Option<Arc<Photo>>,
    ) -> Result<ViewId> {
        let camera = PosedCamera::new(camera)?;
        let counted = self.photos.add(&camera, photo)?;
        Ok(ViewId(self.views.add(GpuView { camera, counted })))
    }

    /// Fits the buffers after views were added: all of them or those before a view that is refused.
    pub(super) fn fit_views(&mut self, ids: Result<Vec<ViewId>>) -> Result<Vec<ViewId>> {
        self.views_changed = true;
        if let Some(slots) = self.photos.fit() {
            self.ring.hold_back(slots);
        }
        self.features.release_slots();
        self.buffers.clear_slots();
        let ids = ids?;
        // Fits the largest image at once: growing later would record the command lists again.
        for id in &ids {
            if let Some(camera) = self.views.get(id.0).map(|v| v.camera) {
                self.fit_image(&camera)?;
            }
        }
        Ok(ids)
    }

    pub(crate) fn write_views(&mut self, render: Option<&PosedCamera>) -> Result<()> {
        let gpu = &self.context.gpu;
        if self.views_changed {
            let (entries, lenses) = (self.views.entries(render), self.views.lenses(render));
            self.buffers.set("views", gpu.upload("views", &entries)?);
            self.buffers.set("lenses", gpu.upload("lenses", &lenses)?);
            let (features, mut at) = self.features();
            features.cameras_written(&mut at)?;
            self.views_changed = false;
        } else if let Some(camera) = render {
            let entry = crate::views::entry(camera, None);
            gpu.write(self.buffers.get("views")?, 0, &[entry]);
            let lens = crate::views::lens_entry(camera);
            gpu.write(self.buffers.get("lenses")?, 0, &[lens]);
        }
        Ok(())
    }

    /// Assigns a photo slot on the GPU to a view. Waits if commands that have not reported use all slots: chunks of
    /// reports are then so small that other commands are in flight.
    pub(crate) fn place_photo(&mut self, view: ViewId) -> Result<()> {
        loop {
            let pending = self.pending_from();
            if self.photos.begin(&self.context.gpu, view.0, pending)? {
                return Ok(());
            }
            let reports = self.buffers.get("reports")?;
            self.ring.send(&self.context.gpu, reports)?;
            self.receive(true)?;
        }
    }

    /// Writes the number of pixels of a photo that count to the GPU. No command in flight uses this entry, and no step
    /// has refined the view since the host last knew its pose: it is the view's first step.
    pub(super) fn write_counted(&mut self, view: ViewId, counted: (u32, u32)) -> Result<()> {
        self.views.set_counted(view.0, counted);
        if let Some(entry) = self.views.entry(view.0) {
            let offset = (1 + view.0) * size_of::<layout::View>();
            let buffer = self.buffers.get("views")?;
            self.context.gpu.write(buffer, offset as u64, &[entry]);
        }
        Ok(())
    }
}
