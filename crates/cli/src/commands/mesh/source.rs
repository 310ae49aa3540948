//! Inputs of a mesh: depths that an engine renders, and photos of the capture.

use clap::ValueEnum;
use dapple::BoxedEngine;
use dapple::contract::{RenderSettings, Rendered};
use dapple::scene::undistort::{pinhole_cameras, resample};
use dapple::scene::{Camera, Dataset, Error, Photo, Result};
use dapple_mesh::colour::Reduced;
use dapple_mesh::{DepthSource, DepthView, PhotoSource};
use std::sync::Arc;

/// Depths to fuse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum DepthKind {
    /// Depth inside the Gaussians where half of the light is gone
    #[default]
    Surface,
    /// Depth of the Gaussian where transmittance falls below one half
    Median,
}

/// Exposure of the photos that colour a mesh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Exposure {
    /// That of the splats if their run has learned the appearance of photos, else that of each photo
    #[default]
    Auto,
    /// That of the splats, for all photos
    Splats,
    /// That of each photo
    Photos,
}

/// Renders of the splats from the cameras of a capture, without lens distortion; six for a panorama.
pub struct Renders {
    engine: BoxedEngine,
    cameras: Vec<Camera>,
    settings: RenderSettings,
    kind: DepthKind,
    /// Colours of the renders so far, by camera.
    colours: Vec<Option<Reduced>>,
}

impl Renders {
    /// Renders from these cameras. The engine holds the splats.
    pub fn new(
        engine: BoxedEngine,
        cameras: &[Camera],
        settings: RenderSettings,
        kind: DepthKind,
    ) -> Self {
        let cameras: Vec<Camera> = cameras.iter().flat_map(pinhole_cameras).collect();
        Self {
            engine,
            colours: vec![None; cameras.len()],
            cameras,
            settings: RenderSettings {
                depth: kind == DepthKind::Median,
                surface: kind == DepthKind::Surface,
                ..settings
            },
            kind,
        }
    }

    /// Returns the colours of the renders by camera, and the engine.
    pub fn into_parts(self) -> (Vec<Option<Reduced>>, BoxedEngine) {
        (self.colours, self.engine)
    }
}

impl DepthSource for Renders {
    fn cameras(&self) -> &[Camera] {
        &self.cameras
    }

    fn depth(&mut self, view: usize) -> Result<DepthView> {
        let rendered = self.engine.render(&self.cameras[view], &self.settings)?;
        self.colours[view] = Some(colours_of(&rendered));
        depth_of(rendered, self.kind)
    }

    fn each_depth(&mut self, take: &mut dyn FnMut(usize, DepthView) -> Result<()>) -> Result<()> {
        let (colours, kind) = (&mut self.colours, self.kind);
        let mut each = |view: usize, rendered: Rendered| {
            colours[view] = Some(colours_of(&rendered));
            take(view, depth_of(rendered, kind)?)
        };
        self.engine
            .render_each(&self.cameras, &self.settings, &mut each)
    }
}

fn colours_of(rendered: &Rendered) -> Reduced {
    let size = [rendered.width as usize, rendered.height as usize];
    Reduced::of_render(size, &rendered.rgb, &rendered.alpha)
}

fn depth_of(rendered: Rendered, kind: DepthKind) -> Result<DepthView> {
    let missing = || Error::internal("the render has no depths");
    let depth = match kind {
        DepthKind::Surface => rendered.surface.ok_or_else(missing)?.depth,
        DepthKind::Median => rendered.depth.ok_or_else(missing)?.median,
    };
    Ok(DepthView {
        depth,
        alpha: rendered.alpha,
        normals: None,
    })
}

/// Photos of a capture, without lens distortion; six faces of a cube for a panorama.
#[derive(Clone)]
pub struct Photos<'a> {
    dataset: &'a Dataset,
    /// A view, one of its pinhole cameras by number, and this camera, for each photo.
    views: Vec<(usize, usize, Camera)>,
}

impl<'a> Photos<'a> {
    /// Uses these views.
    pub fn new(dataset: &'a Dataset, views: &[usize]) -> Self {
        let faces = |&view: &usize| {
            let cameras = pinhole_cameras(&dataset.views[view].camera);
            let cameras = cameras.into_iter().enumerate();
            cameras.map(move |(face, camera)| (view, face, camera))
        };
        Self {
            dataset,
            views: views.iter().flat_map(faces).collect(),
        }
    }

    /// Returns the number of the view of each photo, and which of the view's pinhole cameras it has.
    pub fn faces(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.views.iter().map(|&(view, face, _)| (view, face))
    }
}

impl PhotoSource for Photos<'_> {
    fn count(&self) -> usize {
        self.views.len()
    }

    fn photo(&self, index: usize) -> Result<(Camera, Arc<Photo>)> {
        let (view, _, target) = &self.views[index];
        let view = &self.dataset.views[*view];
        let photo = view.photo.read()?;
        if view.camera.lens.is_identity() {
            return Ok((view.camera, photo));
        }
        let photo = resample(&photo, &view.camera, target);
        Ok((*target, Arc::new(photo)))
    }
}
