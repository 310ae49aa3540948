//! [`DeviceBuffers`] of an engine whose calls pass through a listener.

use crate::{BackwardAsks, CropRoutine, DeviceBuffers, GradientBuffers, RowsOf};
use dapple_engine::{Call, CallListener, Gradients, Observed, RenderSettings};
use dapple_runtime::{Gpu, wgpu};
use dapple_scene::{Camera, Result};

impl<L: CallListener, E: DeviceBuffers + ?Sized> DeviceBuffers for Observed<L, E> {
    fn gpu(&self) -> &Gpu {
        self.inner().gpu()
    }

    fn set_crop_routine(&mut self, routine: Option<CropRoutine>) -> Result<()> {
        self.call(&Call::OnDevice("set_crop_routine"), |e| {
            e.set_crop_routine(routine)
        })
    }

    fn render_to(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        target: &wgpu::Buffer,
    ) -> Result<()> {
        self.call(&Call::OnDevice("render_to"), |e| {
            e.render_to(camera, settings, target)
        })
    }

    fn forward_to(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        target: &wgpu::Buffer,
        keeps: bool,
    ) -> Result<()> {
        self.call(&Call::OnDevice("forward_to"), |e| {
            e.forward_to(camera, settings, target, keeps)
        })
    }

    fn forward_each_to(
        &mut self,
        cameras: &[Camera],
        settings: &RenderSettings,
        targets: &[wgpu::Buffer],
    ) -> Result<()> {
        self.call(&Call::OnDevice("forward_each_to"), |e| {
            e.forward_each_to(cameras, settings, targets)
        })
    }

    fn rendered_whole(&mut self) -> Result<bool> {
        self.call(&Call::OnDevice("rendered_whole"), E::rendered_whole)
    }

    fn backward_from(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &wgpu::Buffer,
    ) -> Result<Gradients<f32>> {
        self.call(&Call::OnDevice("backward_from"), |e| {
            e.backward_from(camera, settings, derivative)
        })
    }

    fn backward_to(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &wgpu::Buffer,
        asks: BackwardAsks,
    ) -> Result<()> {
        self.call(&Call::OnDevice("backward_to"), |e| {
            e.backward_to(camera, settings, derivative, asks)
        })
    }

    fn gradient_buffers(&self) -> Result<GradientBuffers<'_>> {
        self.inner().gradient_buffers()
    }

    fn load_rows(&mut self, rows: &wgpu::Buffer, n: usize) -> Result<()> {
        self.call(&Call::OnDevice("load_rows"), |e| e.load_rows(rows, n))
    }

    fn gradient_rows(
        &mut self,
        rows: &wgpu::Buffer,
        n: usize,
        target: &wgpu::Buffer,
        of: RowsOf,
    ) -> Result<()> {
        self.call(&Call::OnDevice("gradient_rows"), |e| {
            e.gradient_rows(rows, n, target, of)
        })
    }
}
