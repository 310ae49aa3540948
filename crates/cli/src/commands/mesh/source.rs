//! Depths of views, rendered by an engine.

use dapple::contract::{Engine, RenderSettings};
use dapple::scene::undistort::pinhole_camera;
use dapple::scene::{Camera, Error, Result};
use dapple_mesh::{DepthSource, DepthView};

/// Renders of the splats from the cameras of a capture, without lens distortion.
pub struct Renders {
    engine: Box<dyn Engine>,
    cameras: Vec<Camera>,
    settings: RenderSettings,
}

impl Renders {
    /// Renders from these cameras. The engine holds the splats.
    pub fn new(engine: Box<dyn Engine>, cameras: Vec<Camera>, settings: RenderSettings) -> Self {
        Self {
            engine,
            cameras: cameras.iter().map(pinhole_camera).collect(),
            settings,
        }
    }
}

impl DepthSource for Renders {
    fn cameras(&self) -> &[Camera] {
        &self.cameras
    }

    fn depth(&mut self, view: usize) -> Result<DepthView> {
        let rendered = self.engine.render(&self.cameras[view], &self.settings)?;
        let depth = rendered
            .depth
            .ok_or_else(|| Error::internal("the render has no depths"))?;
        Ok(DepthView {
            depth: depth.median,
            alpha: rendered.alpha,
            normals: None,
        })
    }
}
