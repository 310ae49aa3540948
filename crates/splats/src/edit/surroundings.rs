//! Inputs of actions besides the splats: the cameras of photos, and an engine.

use super::Similarity;
use crate::{Camera, Error, Result, Splats};

/// Inputs of actions besides the splats: cameras, and an engine.
pub trait Surroundings {
    /// The cameras of the photos that were trained on, in the world that the file was in.
    ///
    /// # Errors
    /// There are none, or they cannot be read.
    fn cameras(&mut self) -> Result<Vec<Camera>>;

    /// Returns the sum of each Gaussian's blend weights over those photos, `[N]`; `moved` is the splats' transform
    /// since they were in the cameras' world. `None` if nothing is known and `is_needed` is false.
    ///
    /// # Errors
    /// Errors of the engine; if it `is_needed`, missing cameras or photos.
    fn contributions(
        &mut self,
        splats: &Splats,
        moved: &Similarity,
        is_needed: bool,
    ) -> Result<Option<Vec<f32>>>;

    /// Returns true for each Gaussian that the photos trained on contradict, `[N]`; `None` where there are no photos,
    /// which is the default.
    ///
    /// # Errors
    /// Errors of the engine, and photos that cannot be read.
    fn floaters(&mut self, splats: &Splats, moved: &Similarity) -> Result<Option<Vec<bool>>> {
        let _ = (splats, moved);
        Ok(None)
    }

    /// Returns `few`, fitted in `steps` steps to renders of `many`.
    ///
    /// # Errors
    /// The errors of [`Self::contributions`].
    fn refit(
        &mut self,
        many: &Splats,
        few: Splats,
        moved: &Similarity,
        steps: u32,
    ) -> Result<Splats>;
}

/// No capture and no engine: what needs them is refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCapture;

/// The error of an action that needs cameras where there are none.
pub fn no_cameras(what: &str) -> Error {
    Error::input(format!(
        "{what} needs the cameras of the photos, and there are none"
    ))
    .at("--capture")
    .hint("name the capture that the splats were trained on with --capture")
}

impl Surroundings for NoCapture {
    fn cameras(&mut self) -> Result<Vec<Camera>> {
        Err(no_cameras("this action"))
    }

    fn contributions(
        &mut self,
        _: &Splats,
        _: &Similarity,
        is_needed: bool,
    ) -> Result<Option<Vec<f32>>> {
        match is_needed {
            true => Err(no_cameras("what Gaussians contribute to photos")),
            false => Ok(None),
        }
    }

    fn refit(&mut self, _: &Splats, _: Splats, _: &Similarity, _: u32) -> Result<Splats> {
        Err(no_cameras("fitting to what was shown before"))
    }
}
