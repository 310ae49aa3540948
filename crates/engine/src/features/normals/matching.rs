//! Matching: photos agree where the surface says that they show the same place.
//!
//! A step compares its photo with that of a neighbouring view, around a grid of pixels, [`GRID`] apart. Around a pixel p
//! with a point (step 1 of [`super`]) the blended plane `N . X = D` maps the photo into the neighbour:
//!
//! 1. A patch has [`SIDE`]^2 samples, one pixel of the grey photo apart. A sample has the ray `r = r_p + x r_x + y r_y`,
//!    where r_x and r_y are the changes of the ray along a row and a column at p. Its point is `X = r D / (N . r)`. In
//!    the neighbour's camera coordinates it is `R X + t`, and its place is that of its slopes through the lens.
//! 2. `a` are the values of the grey photo at the samples, `b` those of the neighbour at the places, both bilinear. The
//!    loss of the patch is `1 - cov(a, b) / sqrt(var(a) var(b))` (Chen et al. 2024, "PGSR", arXiv:2406.06521, eq. 12).
//! 3. A patch does not count if one of its samples is outside of a photo, before no camera, or at a pixel that does not
//!    count; if a variance is less than [`LEAST_VARIANCE`]; or if the correlation is less than [`LEAST_MATCH`]: then the
//!    neighbour shows another surface.
//! 4. The loss is the sum over patches divided by the number of places of the grid. Its derivatives by N and D join
//!    those of the loss of normals; cameras are constants.

use crate::relocation::high_product;
use crate::{LossTerm, PosedCamera, StepSettings, ViewId};
use dapple_scene::grey::GreyPhoto;
use dapple_scene::{Error, Result};
use glam::{DMat3, DVec3};

/// Distance between pixels that are compared, pixels.
pub const GRID: u32 = 4;

/// Samples along a side of a patch.
pub const SIDE: u32 = 7;

/// Least variance of a patch, of values from 0 to 1.
pub const LEAST_VARIANCE: f32 = 1e-4;

/// Least correlation of a patch that counts.
pub const LEAST_MATCH: f32 = 0.5;

/// Largest number of bytes of all grey photos, which are halved until they fit.
pub const MOST_BYTES: u64 = 1 << 30;

/// A view whose photo is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedView {
    /// The view.
    pub view: ViewId,
    /// Its photo.
    pub photo: GreyPhoto,
    /// Views that show the same places, as indices into the list of these; may be empty.
    pub neighbours: Vec<usize>,
}

/// A comparison of two photos in a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Indices of the step's view and of its neighbour in the list of [`MatchedView`]s.
    pub views: [usize; 2],
    /// Column and row of the first pixel that is compared, each less than [`GRID`].
    pub first: [u32; 2],
    /// Rows of the rotation from camera to camera, and its translation as their last column.
    pub rows: [[f32; 4]; 3],
    /// Pixels of the grey photo for each pixel of the view.
    pub scale: [f32; 2],
    /// Pixels of the neighbour's grey photo for each unit of a place through the lens.
    pub focal: [f32; 2],
    /// Place of the neighbour's principal point, from the middle of its first grey pixel.
    pub principal: [f32; 2],
}

/// Returns the indices of the view of a step and of the neighbour that the step draws; `None` if the loss has no weight, or
/// the view no neighbours.
pub fn compared(all: &[MatchedView], view: ViewId, settings: &StepSettings) -> Option<[usize; 2]> {
    if settings.losses[LossTerm::Matching] <= 0.0 {
        return None;
    }
    let own = all.iter().position(|matched| matched.view == view)?;
    let neighbours = &all[own].neighbours;
    let draw = settings.features.normals.draw[0];
    let which = high_product(draw, neighbours.len() as u32) as usize;
    Some([own, *neighbours.get(which)?])
}

impl Pair {
    /// Returns the comparison of a step on `view`; `None` where [`compared`] returns none.
    pub fn of<'a>(
        all: &[MatchedView],
        camera: impl Fn(ViewId) -> Option<&'a PosedCamera>,
        view: ViewId,
        settings: &StepSettings,
    ) -> Option<Self> {
        let [own, other] = compared(all, view, settings)?;
        let [from, to] = [camera(all[own].view)?, camera(all[other].view)?];
        let place = high_product(settings.features.normals.draw[1], GRID * GRID);
        let scale = |i: usize, camera: &PosedCamera| {
            [0, 1].map(|k| all[i].photo.size[k] as f32 / camera.size[k] as f32)
        };
        let into = scale(other, to);
        let turn = |camera: &PosedCamera| {
            DMat3::from_cols_array_2d(&camera.rotation.map(|row| row.map(f64::from))).transpose()
        };
        let centre = |camera: &PosedCamera| {
            let [kept, rest] = [camera.centre, camera.centre_rest];
            DVec3::from(kept.map(f64::from)) + DVec3::from(rest.map(f64::from))
        };
        let rotation = turn(to) * turn(from).transpose();
        let translation = turn(to) * (centre(from) - centre(to));
        let row = |i: usize| rotation.row(i).extend(translation[i]).to_array();
        Some(Self {
            views: [own, other],
            first: [place % GRID, place / GRID],
            rows: [0, 1, 2].map(|i| row(i).map(|v| v as f32)),
            scale: scale(own, from),
            focal: [0, 1].map(|k| to.focal[k] * into[k]),
            principal: [0, 1].map(|k| to.principal[k] * into[k] - 0.5),
        })
    }
}

/// Checks the views of an engine whose photos are compared. `camera` returns that of a view.
///
/// # Errors
/// An unknown view or neighbour, a panorama or another camera model, a photo of another number of pixels.
pub fn check<'a>(
    all: &[MatchedView],
    camera: impl Fn(ViewId) -> Option<&'a PosedCamera>,
) -> Result<()> {
    let fits = |matched: &MatchedView| {
        let [width, height] = matched.photo.size.map(|n| n as usize);
        width * height == matched.photo.shades.len()
            && width.min(height) > 1
            && matched.neighbours.iter().all(|&i| i < all.len())
    };
    if !all.iter().all(fits) {
        return Err(Error::internal(
            "photos to compare do not fit their sizes, or name unknown neighbours",
        ));
    }
    for matched in all {
        let model = |of: &MatchedView| camera(of.view).map(|camera| camera.model);
        let own = model(matched);
        let is_alike = |&i: &usize| model(&all[i]) == own;
        let is_flat = own.is_some_and(|model| !model.is_ring());
        if own.is_none() || !matched.neighbours.iter().all(|i| is_flat && is_alike(i)) {
            return Err(Error::internal(format!(
                "the photo of view {} cannot be compared with its neighbours",
                matched.view.0
            )));
        }
    }
    Ok(())
}
