//! Distribution of the load of one view over its tiles: the heat map, and measures of balance.
//!
//! 1. The CPU engine takes a step on the view from the same splats and reports intermediate results: the Gaussians of
//!    each tile, nearest first. Both engines make the same lists.
//! 2. One pixel of each 4x4 walks its tile's list as `blend` does, to find where it ends early.

use dapple::Engine;
use dapple::contract::constants::{ALPHA_MAX, ALPHA_MIN, TRANSMITTANCE_MIN};
use dapple::contract::{StepSettings, Trace, TracedSplat, TrainView};
use dapple::cpu::{CpuEngine, CpuOptions};
use dapple::scene::provenance::{PngPixels, png_bytes};
use dapple::scene::{Result, Splats, View};
use dapple_profile::profile::HeatMap;

/// Distance of the tested pixels of a tile, across and down.
const EVERY: usize = 4;
/// Edge of a tile, pixels.
const TILE: usize = 16;

/// Load of a view's tiles.
pub(super) struct Tiles {
    pub heat: HeatMap,
    /// Number of tiles across and down.
    pub grid: [usize; 2],
    /// Instances of each tile, ascending.
    pub sorted: Vec<f64>,
    /// Fraction of the tested pixels that ended before their tile's last instance.
    pub early_pixels: f64,
    /// Fraction of the (pixel, instance) pairs before the pixel ended.
    pub walked: f64,
    /// Rows of 16 pixels that `blend` visits per instance.
    pub rows_per_instance: f64,
}

impl Tiles {
    /// Analyses a view, trained with the settings `step`.
    pub fn measure(view: &View, splats: &Splats, step: &StepSettings) -> Result<Self> {
        let mut engine = CpuEngine::new(CpuOptions::default())?;
        let id = engine.add_views(vec![TrainView {
            camera: view.camera,
            photo: view.photo.read()?,
        }])?[0];
        engine.upload(splats, None)?;
        let trace = engine.trace(id, step)?;
        let (width, height) = (view.camera.width as usize, view.camera.height as usize);
        let grid = [width.div_ceil(TILE), height.div_ceil(TILE)];
        let values: Vec<f64> = trace.tiles.iter().map(|list| list.len() as f64).collect();
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let cap = step.render.max_gaussians_per_tile as usize;
        let walk = walks(&trace, [width, height], grid[0], cap);
        let instances: f64 = values.iter().sum();
        let rows = engine.work().row_visits as f64;
        Ok(Self {
            heat: HeatMap {
                title: format!("Instances a tile, {}", view.name),
                columns: grid[0],
                rows: grid[1],
                values,
                picture_png: picture(&trace, view)?,
            },
            grid,
            sorted,
            early_pixels: walk.early / walk.pixels.max(1.0),
            walked: walk.walked / walk.listed.max(1.0),
            rows_per_instance: rows / instances.max(1.0),
        })
    }

    /// Returns a percentile of the instances per tile, by nearest rank.
    pub fn percentile(&self, of: f64) -> f64 {
        let rank = (of * self.sorted.len() as f64).ceil() as usize;
        let at = rank.clamp(1, self.sorted.len().max(1)) - 1;
        self.sorted.get(at).copied().unwrap_or(0.0)
    }

    pub fn mean(&self) -> f64 {
        self.sorted.iter().sum::<f64>() / self.sorted.len().max(1) as f64
    }
}

/// Returns the render of the step, clamped and rounded, as the bytes of a PNG file.
fn picture(trace: &Trace, view: &View) -> Result<Vec<u8>> {
    let colours = trace.image.iter().flat_map(|pixel| &pixel[..3]);
    // The cast saturates, and turns NaN into 0.
    let bytes: Vec<u8> = colours.map(|v| (v * 255.0 + 0.5) as u8).collect();
    let (width, height) = (view.camera.width, view.camera.height);
    png_bytes(width, height, PngPixels::Rgb8(&bytes))
}

#[derive(Default)]
struct Walk {
    pixels: f64,
    early: f64,
    listed: f64,
    walked: f64,
}

fn walks(trace: &Trace, [width, height]: [usize; 2], columns: usize, cap: usize) -> Walk {
    let most = trace
        .projected
        .iter()
        .map(|s| s.gaussian as usize + 1)
        .max();
    let mut place = vec![usize::MAX; most.unwrap_or(0)];
    for (i, splat) in trace.projected.iter().enumerate() {
        place[splat.gaussian as usize] = i;
    }
    let mut walk = Walk::default();
    for y in (EVERY / 2..height).step_by(EVERY) {
        for x in (EVERY / 2..width).step_by(EVERY) {
            let list = &trace.tiles[y / TILE * columns + x / TILE];
            let list = match cap {
                0 => &list[..],
                cap => &list[..list.len().min(cap)],
            };
            let mut left = 1.0_f32;
            let end = list.iter().position(|&gaussian| {
                let alpha = alpha(&trace.projected[place[gaussian as usize]], x, y);
                let behind = left * (1.0 - alpha);
                if behind < TRANSMITTANCE_MIN {
                    return true;
                }
                left = behind;
                false
            });
            walk.pixels += 1.0;
            walk.early += f64::from(u8::from(end.is_some()));
            walk.listed += list.len() as f64;
            walk.walked += end.map_or(list.len(), |at| at + 1) as f64;
        }
    }
    walk
}

/// Returns the alpha of a Gaussian at a pixel as `blend` computes it; 0 if it is skipped.
fn alpha(splat: &TracedSplat, x: usize, y: usize) -> f32 {
    let dx = splat.mean2d[0] - (x as f32 + 0.5);
    let dy = splat.mean2d[1] - (y as f32 + 0.5);
    let [a, b, c] = splat.form;
    let alpha = (splat.log2_opacity + a * dx * dx + b * dx * dy + c * dy * dy)
        .exp2()
        .min(ALPHA_MAX);
    if alpha < ALPHA_MIN { 0.0 } else { alpha }
}
