//! What makes one photo of a thing differ in colour from another: exposure, white balance, tone.
//!
//! Each photo has a grid of affine maps of colours, over x, y and the luminance of what is rendered.
//! A step compares not the render with the photo but the render sent through the photo's grid; the
//! formulas are `dapple_reference::appearance`'s. A grid of one cell is an exposure.

use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};

/// Numbers of an affine map of colours, rows of `[3, 4]`: the last column is added.
pub const AFFINE: usize = 12;

/// The map that changes nothing.
pub const IDENTITY: [f32; AFFINE] = [1., 0., 0., 0., 0., 1., 0., 0., 0., 0., 1., 0.];

/// Most cells of a grid along x and along y.
pub const MOST_CELLS: u32 = 64;

/// Most cells of a grid along the luminance: the sums of a column of them, one for each of 64
/// invocations, have to fit the 32 KiB that a workgroup of any GPU shares.
pub const MOST_LUMINANCES: u32 = 8;

/// How a step learns a photo's appearance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AppearanceSettings {
    /// Cells of the grid along x, y and luminance. The same in all steps of a run.
    pub cells: [u32; 3],
    /// Step size of Adam.
    pub rate: f32,
    /// Weight of the grid's total variation in the loss.
    pub smoothness: f32,
    /// Weight of the mean squared distance of its maps from the identity in the loss.
    pub identity: f32,
}

/// The appearance of every view: what a run needs to continue, and what it has learnt. Empty until a
/// step asks for it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Appearance {
    /// Cells along x, y and luminance.
    pub cells: [u32; 3],
    /// `[views, y, x, luminance, 3, 4]`.
    pub coefficients: Vec<f32>,
    /// Adam's first moments, shaped likewise.
    pub first_moments: Vec<f32>,
    /// Adam's second moments, shaped likewise.
    pub second_moments: Vec<f32>,
    /// Steps taken on each view, `[views]`.
    pub seen: Vec<u32>,
}

/// Numbers of one view's grid.
pub fn grid_floats(cells: [u32; 3]) -> usize {
    cells.iter().map(|&n| n as usize).product::<usize>() * AFFINE
}

impl Appearance {
    /// Grids that change nothing, of views that were not seen.
    pub fn identity(cells: [u32; 3], views: usize) -> Self {
        let mut out = Self {
            cells,
            ..Self::default()
        };
        out.extend_to(views);
        out
    }

    /// Adds views that were not seen.
    pub fn extend_to(&mut self, views: usize) {
        let floats = views.max(self.seen.len()) * grid_floats(self.cells);
        let missing = (floats - self.coefficients.len()) / AFFINE;
        let identities = std::iter::repeat_n(IDENTITY, missing).flatten();
        self.coefficients.extend(identities);
        self.first_moments.resize(floats, 0.0);
        self.second_moments.resize(floats, 0.0);
        self.seen.resize(floats / grid_floats(self.cells).max(1), 0);
    }

    /// How many views there are grids for.
    pub fn views(&self) -> usize {
        self.seen.len()
    }

    /// Whether no step has asked for it.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// A view's grid, `[y, x, luminance, 3, 4]`; empty if there is no such view.
    pub fn grid(&self, view: usize) -> &[f32] {
        let floats = grid_floats(self.cells);
        let grid = self.coefficients.get(view * floats..(view + 1) * floats);
        grid.unwrap_or_default()
    }

    /// Checks that all arrays belong together.
    ///
    /// # Errors
    /// They do not.
    pub fn check(&self) -> Result<()> {
        if self.is_empty() && self.coefficients.is_empty() {
            return Ok(());
        }
        check_cells(self.cells)?;
        let floats = self.seen.len() * grid_floats(self.cells);
        let lengths = [
            &self.coefficients,
            &self.first_moments,
            &self.second_moments,
        ]
        .map(Vec::len);
        if lengths == [floats; 3] {
            Ok(())
        } else {
            Err(
                Error::input("the arrays of the appearance have different lengths")
                    .hint("every array needs a grid for each view"),
            )
        }
    }
}

/// Checks the size of a grid.
///
/// # Errors
/// A number of cells that engines do not take.
pub fn check_cells(cells: [u32; 3]) -> Result<()> {
    let most = [MOST_CELLS, MOST_CELLS, MOST_LUMINANCES];
    if cells
        .iter()
        .zip(most)
        .all(|(n, most)| (1..=most).contains(n))
    {
        return Ok(());
    }
    let [x, y, luminance] = cells;
    Err(Error::input(format!(
        "a grid of {x} x {y} x {luminance} affine maps cannot be used"
    ))
    .hint(format!(
        "choose 1 to {MOST_CELLS} cells along x and y, 1 to {MOST_LUMINANCES} along the luminance"
    )))
}

/// The error of a step that asks for grids of another size than the views have.
pub fn other_cells(held: [u32; 3], asked: [u32; 3]) -> Error {
    let name = |[x, y, luminance]: [u32; 3]| format!("{x} x {y} x {luminance}");
    Error::input(format!(
        "the step asks for appearance grids of {}, and the views have {}",
        name(asked),
        name(held)
    ))
    .hint("upload splats without a state to begin with other grids")
}
/// Between which two cells of an axis a coordinate lies, and how far on the way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// The cell before it.
    pub first: usize,
    /// The cell after it; the same where there is one alone.
    pub next: usize,
    /// 0 at the first, 1 at the next.
    pub part: f32,
}

impl Place {
    /// Of a coordinate in cells, `0..=cells - 1`.
    pub fn at(at: f32, cells: usize) -> Self {
        // The cast saturates.
        let first = (at as usize).min(cells.max(2) - 2);
        Self {
            first,
            next: (first + 1).min(cells - 1),
            part: at - first as f32,
        }
    }

    /// Of a pixel's centre, of so many along the axis.
    pub fn of_pixel(pixel: usize, pixels: usize, cells: usize) -> Self {
        let at = (pixel as f32 + 0.5) / pixels as f32;
        Self::at(at * (cells - 1) as f32, cells)
    }
}
