//! [`Views`]: cameras and photos to train on, and the refined poses.

use crate::frame::CameraF32;
use dapple_engine::{PosedCamera, RefinedPose, ViewId};
use dapple_scene::{Error, Photo, Result};
use std::sync::Arc;

/// View to train on.
#[derive(Debug, Clone)]
pub struct HeldView {
    /// Camera, without refinement.
    pub camera: CameraF32,
    /// Photo; `None` for a view whose photo is delivered for each step and has not been delivered yet.
    pub photo: Option<Arc<Photo>>,
    /// True if a photo serves one step.
    pub comes_each_step: bool,
}

/// Views to train on.
#[derive(Debug, Default)]
pub struct Views {
    held: Vec<HeldView>,
    /// Refined poses by view; empty until a step refines one.
    pub poses: Vec<RefinedPose>,
}

impl Views {
    /// Returns the number of views.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns the cameras of all views, without refinement.
    pub fn unrefined(&self) -> impl Iterator<Item = &PosedCamera> {
        self.held.iter().map(|view| &*view.camera)
    }

    /// Adds a view.
    pub fn add(&mut self, view: HeldView) -> ViewId {
        if !self.poses.is_empty() {
            self.poses.push(RefinedPose::new(&view.camera));
        }
        self.held.push(view);
        ViewId(self.held.len() - 1)
    }

    /// Returns a view.
    ///
    /// # Errors
    /// An unknown view.
    pub fn get(&self, view: ViewId) -> Result<&HeldView> {
        self.held.get(view.0).ok_or_else(|| no_view(view))
    }

    /// Returns a view for a change of its photo.
    ///
    /// # Errors
    /// An unknown view.
    pub fn get_mut(&mut self, view: ViewId) -> Result<&mut HeldView> {
        self.held.get_mut(view.0).ok_or_else(|| no_view(view))
    }

    /// Returns a view's photo, and takes it if it was delivered for this step only.
    ///
    /// # Errors
    /// An unknown view; a photo that was not delivered.
    pub fn photo(&mut self, view: ViewId) -> Result<Arc<Photo>> {
        let held = self.get_mut(view)?;
        let photo = match held.comes_each_step {
            true => held.photo.take(),
            false => held.photo.clone(),
        };
        photo.ok_or_else(|| {
            Error::internal(format!(
                "the photo of view {} was not delivered before the step",
                view.0
            ))
        })
    }

    /// Returns a view's camera after refinement.
    ///
    /// # Errors
    /// An unknown view.
    pub fn camera(&self, view: ViewId) -> Result<CameraF32> {
        Ok(self.refined(view.0, self.get(view)?))
    }

    /// Returns all cameras after refinement.
    pub fn cameras(&self) -> Vec<CameraF32> {
        let views = self.held.iter().enumerate();
        views.map(|(i, held)| self.refined(i, held)).collect()
    }

    fn refined(&self, index: usize, held: &HeldView) -> CameraF32 {
        let pose = self.poses.get(index);
        pose.map_or(held.camera, |pose| held.camera.refined(pose))
    }

    /// Returns a view's refined pose; views without one start from their camera.
    pub fn pose_mut(&mut self, view: ViewId) -> Option<&mut RefinedPose> {
        let missing = self.held.get(self.poses.len()..).unwrap_or_default();
        self.poses
            .extend(missing.iter().map(|held| RefinedPose::new(&held.camera)));
        self.poses.get_mut(view.0)
    }
}

fn no_view(view: ViewId) -> Error {
    Error::internal(format!("there is no view {}", view.0))
}
