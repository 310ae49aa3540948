//! `appearance`: the image through the photo's bilateral grid before `loss`, and the backward pass and the grid's own
//! step after it. See `shaders/appearance*.wgsl`.
//!
//! The size of the grid and the regulariser's weights are constants of the kernels, which are compiled when a step
//! first needs them.

use super::project::PIXELS;
use super::shaders;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use crate::{Buffers, Context};
use dapple_engine::appearance::grid_floats;
use dapple_engine::constants::LUMINANCE;
use dapple_engine::{AppearanceGrids as Learnt, AppearanceSettings};
use dapple_runtime::Defines;
use dapple_scene::Result;

/// Approximate workgroups of `appearance_gather`: columns of a small grid divide their pixels into shares.
const GATHERING: u32 = 1024;

/// Most shares of a column: they are added up one after the other.
const MOST_SLICES: u32 = 64;

/// Invocations of a workgroup of `appearance_step`.
const STEP_THREADS: u32 = 64;

/// Returns the number of shares of the pixels around a column of cells.
pub fn slices(cells: [u32; 3]) -> u32 {
    GATHERING
        .div_ceil(cells[0] * cells[1])
        .clamp(1, MOST_SLICES)
}

/// Adds the constants of the kernels.
pub fn define(defines: Defines, settings: &AppearanceSettings) -> Defines {
    let [x, y, l] = settings.cells;
    // Twice the weight over the number of differences along an axis.
    let pull = |cells: u32| {
        let differences = grid_floats(settings.cells) / cells as usize * (cells as usize - 1);
        2.0 * settings.smoothness / differences.max(1) as f32
    };
    let identity = 2.0 * settings.identity / (x * y * l) as f32;
    defines
        .u32("GRID_X", x)
        .u32("GRID_Y", y)
        .u32("GRID_L", l)
        .u32("GRID_SLICES", slices(settings.cells))
        .f32("GRID_PULL_X", pull(x))
        .f32("GRID_PULL_Y", pull(y))
        .f32("GRID_PULL_L", pull(l))
        .f32("GRID_PULL_IDENTITY", identity)
        .f32("LUMA_R", LUMINANCE[0])
        .f32("LUMA_G", LUMINANCE[1])
        .f32("LUMA_B", LUMINANCE[2])
}

/// Name of the settings that are constants of the kernels.
pub const CONSTANTS: &str = "appearance settings";

const APPLY: Code = Code::new("appearance", "apply").with_constants(CONSTANTS);
const GATHER: Code = Code::new("appearance_gather", "gather").with_constants(CONSTANTS);
const CHAIN: Code = Code::new("appearance", "chain").with_constants(CONSTANTS);
const GRADIENT: Code = Code::new("appearance_step", "gradient").with_constants(CONSTANTS);
const ADVANCE: Code = Code::new("appearance_step", "advance").with_constants(CONSTANTS);

/// From `image` to `corrected`.
pub static FORTH: Pass = Pass {
    shaders: shaders!["appearance"],
    kernels: &[APPLY],
    needs: Bits::APPEARANCE,
    tensors: &[
        Tensor::new(Axis::Pixel, "corrected", 4).when(Bits::APPEARANCE.with(Bits::PHOTOMETRIC)),
        Tensor::new(Axis::View, "appearance", 0),
        Tensor::new(Axis::View, "appearance_first", 0),
        Tensor::new(Axis::View, "appearance_second", 0),
        Tensor::new(Axis::View, "appearance_seen", 0),
        Tensor::new(Axis::View, "appearance_gradient", 0),
        Tensor::new(Axis::View, "appearance_partials", 0),
    ],
    ..Pass::new("appearance", |r| r.run(&APPLY, PIXELS))
};

/// `image_gradient` from dL/d`corrected` to dL/d`image`, and the step of the view's grid.
pub static BACK: Pass = Pass {
    shaders: shaders!["appearance_gather", "appearance_step"],
    kernels: &[GATHER, CHAIN, GRADIENT, ADVANCE],
    needs: Bits::APPEARANCE,
    ..Pass::new("appearance", record_back)
};

fn record_back(r: &mut Recorder<'_>) -> Result<()> {
    let [x, y, l] = r.sizes.grid;
    // In a halted step this adds up the data of an earlier step, and the result is not read.
    let columns = [x * y, slices([x, y, l]), 1];
    r.run(&GATHER, Size::Workgroups(columns))?;
    r.run(&CHAIN, PIXELS)?;
    let rows = Size::flat((3 * x * y * l).div_ceil(STEP_THREADS));
    r.run(&GRADIENT, rows)?;
    r.run(&ADVANCE, rows)
}

/// Sizes of the views' grids.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grids {
    /// Cells of each grid.
    pub cells: [u32; 3],
    /// Number of grids.
    pub views: usize,
}

/// Uploads grids into buffers of their own.
///
/// # Errors
/// No memory, or more than a binding can hold.
pub fn upload(context: &Context, buffers: &mut Buffers, grids: &Learnt) -> Result<Grids> {
    let gpu = &context.gpu;
    for (name, values) in [
        ("appearance", &grids.coefficients),
        ("appearance_first", &grids.first_moments),
        ("appearance_second", &grids.second_moments),
    ] {
        buffers.set(name, gpu.upload(name, values)?);
    }
    buffers.set(
        "appearance_seen",
        gpu.upload("appearance_seen", &grids.seen)?,
    );
    let floats = grid_floats(grids.cells) as u64;
    let partials = 4 * floats * u64::from(slices(grids.cells));
    for (name, bytes) in [
        ("appearance_gradient", 4 * floats),
        ("appearance_partials", partials),
    ] {
        buffers.set(name, gpu.buffer(name, bytes)?);
    }
    Ok(Grids {
        cells: grids.cells,
        views: grids.seen.len(),
    })
}

/// Waits, and downloads the grids.
///
/// # Errors
/// A lost device, no memory for the copies.
pub fn download(context: &Context, buffers: &Buffers, grids: &Grids) -> Result<Learnt> {
    let gpu = &context.gpu;
    let floats = grids.views * grid_floats(grids.cells);
    Ok(Learnt {
        cells: grids.cells,
        coefficients: gpu.read(buffers.get("appearance")?, floats)?,
        first_moments: gpu.read(buffers.get("appearance_first")?, floats)?,
        second_moments: gpu.read(buffers.get("appearance_second")?, floats)?,
        seen: gpu.read(buffers.get("appearance_seen")?, grids.views)?,
    })
}
