//! `appearance`: the image through the photo's bilateral grid before `loss`, and the backward pass and the grid's own
//! step after it. See `shaders/appearance*.wgsl`.
//!
//! The size of the grid and the regulariser's weights are constants of the kernels, which are compiled when a step
//! first needs them.

use super::point::{Feature, FeatureContext, Point};
use crate::buffers::too_large;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use crate::shared_struct::shared_struct;
use crate::stages::project::PIXELS;
use crate::stages::shaders;
use crate::views::Views;
use crate::{Buffers, Context};
use dapple_engine::appearance::{check_cells, grid_floats, other_cells};
use dapple_engine::constants::LUMINANCE;
use dapple_engine::{AppearanceGrids as Learnt, AppearanceSettings, StepSettings, ViewId};
use dapple_runtime::Defines;
use dapple_scene::{Error, Result};

/// Approximate workgroups of `appearance_gather`: columns of a small grid divide their pixels into shares.
const GATHERING: u32 = 1024;

/// Most shares of a column: they are added up one after the other.
const MOST_SLICES: u32 = 64;

/// Invocations of a workgroup of `appearance_step`.
const STEP_THREADS: u32 = 64;

/// Returns the number of shares of the pixels around a column of cells.
fn slices(cells: [u32; 3]) -> u32 {
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
const CONSTANTS: &str = "appearance settings";

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
        Tensor::new(Axis::Pixel, "corrected", 4).when(Bits::CORRECTED),
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
    let cells = r.context.sizes.get(CONSTANTS).copied();
    let [x, y, l] = cells.ok_or_else(|| Error::internal("the grids have no size"))?;
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
struct Grids {
    /// Cells of each grid.
    cells: [u32; 3],
    /// Number of grids.
    views: usize,
}

/// Grids of a run.
#[derive(Debug, Default)]
pub struct Held {
    /// Sizes of the grids, after a step has requested them.
    grids: Option<Grids>,
    /// Settings that kernels were compiled with.
    compiled: Option<AppearanceSettings>,
}

impl Held {
    /// Makes sure that every view has a grid.
    fn fit(&mut self, at: &mut FeatureContext<'_>, cells: [u32; 3]) -> Result<()> {
        let views = at.views.len();
        match self.grids {
            Some(grids) if grids.cells != cells => Err(other_cells(grids.cells, cells)),
            Some(grids) if grids.views == views => Ok(()),
            _ => {
                let mut all = self.download(at)?;
                check_cells(cells)?;
                check_views(at, cells, views)?;
                all.cells = cells;
                all.extend_to(views);
                self.grids = Some(upload(at.context, at.buffers, &all)?);
                Ok(())
            }
        }
    }

    /// Makes the settings constants of the kernels, except for the rate: it is sent with the step.
    fn compile(&mut self, at: &mut FeatureContext<'_>, settings: &AppearanceSettings) {
        let compiled = Some(AppearanceSettings {
            rate: 0.0,
            ..*settings
        });
        if self.compiled != compiled {
            let constants = define(Defines::new(), settings);
            at.context.set_constants(CONSTANTS, constants);
            at.context.sizes.insert(CONSTANTS, settings.cells);
            at.buffers.touch(CONSTANTS);
            self.compiled = compiled;
        }
    }
}

shared_struct! {
    /// Numbers of a step.
    pub struct Immediates {
        /// Step size of the view's grid.
        appearance_rate: f32,
    }
}

impl Feature for Held {
    type State = Learnt;
    type Immediates = Immediates;
    type Parameters = ();
    const PASSES: &'static [(Point, &'static Pass)] =
        &[(Point::Image, &FORTH), (Point::ImageBack, &BACK)];

    fn immediates(settings: &StepSettings) -> Immediates {
        let learnt = settings.features.appearance;
        Immediates {
            appearance_rate: learnt.map_or(0.0, |learnt| learnt.rate),
        }
    }

    fn bits(&self, _view: ViewId, settings: &StepSettings) -> Bits {
        Bits::when(settings.features.appearance.is_some(), Bits::APPEARANCE)
    }

    fn reads_back(&self, views: &Views, settings: &StepSettings) -> bool {
        settings.features.appearance.is_some()
            && self.grids.is_some_and(|grids| grids.views != views.len())
    }

    fn prepare(
        &mut self,
        at: &mut FeatureContext<'_>,
        _view: ViewId,
        settings: &StepSettings,
    ) -> Result<()> {
        if let Some(learnt) = &settings.features.appearance {
            self.fit(at, learnt.cells)?;
            self.compile(at, learnt);
        }
        Ok(())
    }

    fn upload(&mut self, at: &mut FeatureContext<'_>, grids: &Learnt) -> Result<()> {
        self.grids = None;
        if !grids.is_empty() {
            check_views(at, grids.cells, grids.views())?;
            self.grids = Some(upload(at.context, at.buffers, grids)?);
        }
        Ok(())
    }

    fn download(&mut self, at: &mut FeatureContext<'_>) -> Result<Learnt> {
        match &self.grids {
            Some(grids) => download(at.context, at.buffers, grids),
            None => Ok(Learnt::default()),
        }
    }
}

/// Checks that the grids of this number of views fit one buffer.
fn check_views(at: &FeatureContext<'_>, cells: [u32; 3], views: usize) -> Result<()> {
    let bytes = 4 * grid_floats(cells) as u64;
    let most = at.most_bytes / bytes.max(1);
    if views as u64 <= most {
        return Ok(());
    }
    let counts = [views as u64, most].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let what = "photos whose appearance is learnt";
    Err(too_large(&at.context.gpu, at.most_bytes, what, counts)
        .hint("make appearance.grid smaller, or use --appearance exposure, or --device cpu"))
}

/// Uploads grids into buffers of their own.
///
/// # Errors
/// No memory, or more than a binding can hold.
fn upload(context: &Context, buffers: &mut Buffers, grids: &Learnt) -> Result<Grids> {
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
fn download(context: &Context, buffers: &Buffers, grids: &Grids) -> Result<Learnt> {
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
