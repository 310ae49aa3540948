//! Bilateral grids: a colour correction per photo, for differences in exposure, white balance and
//! tone.
//!
//! Each photo has a grid of affine colour maps over x, y and the luminance of the render. The loss
//! compares the photo with the render after the photo's grid. The formulas are in
//! `dapple_reference::appearance`. A grid of one cell is an exposure.

use super::tensors::{TensorRow, ViewTensors, tensor_row};
use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};

/// Numbers of an affine colour map, rows of `[3, 4]`: the last column is added.
pub const AFFINE: usize = 12;

/// The identity map.
pub const IDENTITY: [f32; AFFINE] = [1., 0., 0., 0., 0., 1., 0., 0., 0., 0., 1., 0.];

/// Maximum number of grid cells along x and along y.
pub const MOST_CELLS: u32 = 64;

/// Maximum number of grid cells along the luminance. The sums of one column of cells, one column for
/// each of 64 invocations, must fit the 32 KiB of workgroup memory that every GPU has.
pub const MOST_LUMINANCES: u32 = 8;

/// Settings of the bilateral grid of a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AppearanceSettings {
    /// Cells of the grid along x, y and luminance; equal in all steps of a run.
    pub cells: [u32; 3],
    /// Step size of Adam.
    pub rate: f32,
    /// Weight of the grid's total variation in the loss.
    pub smoothness: f32,
    /// Weight, in the loss, of the mean squared distance of the grid's maps from the identity.
    pub identity: f32,
}

/// Bilateral grids of all views, with Adam's moments: part of the state that a run needs to
/// continue. Empty until the first step with [`AppearanceSettings`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AppearanceGrids {
    /// Cells along x, y and luminance.
    pub cells: [u32; 3],
    /// Affine maps, `[views, y, x, luminance, 3, 4]`.
    pub coefficients: Vec<f32>,
    /// Adam's first moments, with the shape of `coefficients`.
    pub first_moments: Vec<f32>,
    /// Adam's second moments, with the shape of `coefficients`.
    pub second_moments: Vec<f32>,
    /// Steps taken on each view, `[views]`.
    pub seen: Vec<u32>,
}

/// Settings of the view's bilateral grid, if the run learns it. If `None`, the loss compares the photo with the render
/// itself. The reported loss is that of the image only.
pub type Step = Option<AppearanceSettings>;

/// Grids of the views.
pub type State = AppearanceGrids;

/// Sizes of the grids of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GridSizes {
    /// Number of views with grids.
    pub views: usize,
    /// Cells of a grid along x, y and luminance.
    pub cells: [u32; 3],
}

impl GridSizes {
    /// Returns the shape of all grids.
    fn shape(&self) -> Vec<usize> {
        let [x, y, luminance] = self.cells.map(|n| n as usize);
        vec![self.views, y, x, luminance, 3, 4]
    }
}

impl ViewTensors for State {
    type Sizes = GridSizes;
    const TENSORS: &'static [TensorRow<Self>] = &[
        tensor_row!("appearance.coefficients", F32 coefficients, GridSizes::shape),
        tensor_row!("appearance.first_moments", F32 first_moments, GridSizes::shape),
        tensor_row!("appearance.second_moments", F32 second_moments, GridSizes::shape),
        tensor_row!("appearance.seen", U32 seen, |sizes| vec![sizes.views]),
    ];

    fn sizes(&self) -> GridSizes {
        GridSizes {
            views: self.views(),
            cells: self.cells,
        }
    }

    fn with_sizes(sizes: &GridSizes) -> Self {
        Self {
            cells: if sizes.views > 0 { sizes.cells } else { [0; 3] },
            ..Self::default()
        }
    }

    fn check(&self) -> Result<()> {
        AppearanceGrids::check(self)
    }
}

/// Returns the count of numbers in one view's grid.
pub fn grid_floats(cells: [u32; 3]) -> usize {
    cells.iter().map(|&n| n as usize).product::<usize>() * AFFINE
}

impl AppearanceGrids {
    /// Creates identity grids for `views` views with no steps taken.
    pub fn identity(cells: [u32; 3], views: usize) -> Self {
        let mut out = Self {
            cells,
            ..Self::default()
        };
        out.extend_to(views);
        out
    }

    /// Adds identity grids with no steps taken until there are `views` grids.
    pub fn extend_to(&mut self, views: usize) {
        let floats = views.max(self.seen.len()) * grid_floats(self.cells);
        let missing = (floats - self.coefficients.len()) / AFFINE;
        let identities = std::iter::repeat_n(IDENTITY, missing).flatten();
        self.coefficients.extend(identities);
        self.first_moments.resize(floats, 0.0);
        self.second_moments.resize(floats, 0.0);
        self.seen.resize(floats / grid_floats(self.cells).max(1), 0);
    }

    /// Returns the number of views with a grid.
    pub fn views(&self) -> usize {
        self.seen.len()
    }

    /// Returns true if no step has requested a grid.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Returns a view's grid, `[y, x, luminance, 3, 4]`; empty if there is no such view.
    pub fn grid(&self, view: usize) -> &[f32] {
        let floats = grid_floats(self.cells);
        let grid = self.coefficients.get(view * floats..(view + 1) * floats);
        grid.unwrap_or_default()
    }

    /// Checks that the lengths of all arrays are consistent.
    ///
    /// # Errors
    /// Lengths that differ.
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
/// A number of cells outside the supported range.
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

/// Returns the error of a step whose grid size differs from that of the views.
pub fn other_cells(held: [u32; 3], asked: [u32; 3]) -> Error {
    let name = |[x, y, luminance]: [u32; 3]| format!("{x} x {y} x {luminance}");
    Error::input(format!(
        "the step requests appearance grids of {}, and the views have {}",
        name(asked),
        name(held)
    ))
    .hint("upload splats without a state to begin with other grids")
}
/// Interpolation position on one axis of a grid: the two neighbouring cells and the weight of the
/// second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Index of the cell before the coordinate.
    pub first: usize,
    /// Index of the cell after the coordinate; equal to `first` if the axis has one cell.
    pub next: usize,
    /// Weight of `next`: 0 at `first`, 1 at `next`.
    pub part: f32,
}

impl Place {
    /// Returns the position of a coordinate in cells, `0..=cells - 1`.
    pub fn at(at: f32, cells: usize) -> Self {
        // The cast saturates.
        let first = (at as usize).min(cells.max(2) - 2);
        Self {
            first,
            next: (first + 1).min(cells - 1),
            part: at - first as f32,
        }
    }

    /// Returns the position of the centre of pixel `pixel`, on an axis of `pixels` pixels and
    /// `cells` cells.
    pub fn of_pixel(pixel: usize, pixels: usize, cells: usize) -> Self {
        let at = (pixel as f32 + 0.5) / pixels as f32;
        Self::at(at * (cells - 1) as f32, cells)
    }
}
