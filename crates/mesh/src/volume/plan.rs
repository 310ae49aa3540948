//! Plan of the fusion: box, voxel and memory, before any voxel is allocated.

use super::blocks::{BYTES_PER_BLOCK, Blocks, Grid};
use super::levels::is_in_box;
use super::maps::DepthMap;
use crate::view::Pinhole;
use dapple_base::quantiles;
use dapple_base::{Error, Result};
use glam::Vec3;
use rayon::prelude::*;

/// Voxels in a pixel footprint with a detail of 1, as its inverse: pixels of a photo per voxel.
const PIXELS_PER_VOXEL: f32 = 3.0;

/// Voxels of the truncation.
const TRUNCATION: f32 = 4.0;

/// Pixels between samples of the plan.
const STRIDE: usize = 4;

/// Least share of the depths for which there is a coarser level.
const LEAST_LEVEL: f32 = 1e-3;

/// Options of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanOptions {
    /// Distance between voxels, world units; `None` for three pixels of the photos at the surface.
    pub voxel: Option<f32>,
    /// Factor on the automatic resolution.
    pub detail: f32,
    /// Least and largest corner of the box, world units; `None` for the part that the cameras surround or face.
    pub bounds: Option<[Vec3; 2]>,
    /// Most bytes of voxels and depth maps.
    pub max_memory: u64,
    /// True to mesh what is outside the box too, in coarser levels.
    pub far: bool,
}

/// Plan of a fusion.
#[derive(Debug)]
pub struct Plan {
    /// Grid of voxels.
    pub grid: Grid,
    /// Blocks near surfaces.
    pub blocks: Blocks,
    /// Median depth of the surfaces in the box, world units.
    pub scale: f32,
    /// Share of the pixels with a depth that are outside the box.
    pub outside: f32,
    /// Bytes of the voxels.
    pub bytes: u64,
    /// Voxel that was requested, if it does not fit the memory.
    pub wanted: Option<f32>,
}

/// Sample of a depth map.
struct Sample {
    point: Vec3,
    depth: f32,
    footprint: f32,
}

/// Plans the fusion of these maps.
///
/// # Errors
/// Options out of range; maps without a surface in the box; a memory limit that holds no voxels.
pub fn plan(maps: &[DepthMap], options: &PlanOptions) -> Result<Plan> {
    check(options)?;
    let samples = all_samples(maps);
    if samples.is_empty() {
        return Err(
            Error::input("the splats show no surface from these cameras")
                .hint("check that the splats belong to this capture: `dapple render --views all`"),
        );
    }
    let [low, high] = match options.bounds {
        Some(bounds) => bounds,
        None => automatic_box(maps, &samples),
    };
    let is_inside = |s: &&Sample| is_in_box(s.point, [low, high]);
    let inside: Vec<&Sample> = samples.iter().filter(is_inside).collect();
    if inside.is_empty() {
        return Err(Error::input("no surface is inside the box")
            .at(format!("--box {}", shown(low, high)))
            .hint(match seen_box(&samples) {
                Some([low, high]) => format!("the cameras see {}", shown(low, high)),
                None => "choose another box".to_owned(),
            }));
    }
    let outside = 1.0 - inside.len() as f32 / samples.len() as f32;
    planned(
        maps,
        options,
        ([low, high], None),
        &inside,
        outside,
        options.voxel,
    )
}

/// Plans the voxels of a box. `chosen` are the samples that the voxels are for; `voxel` is `None` for an automatic size.
fn planned(
    maps: &[DepthMap],
    options: &PlanOptions,
    place: ([Vec3; 2], Option<[Vec3; 2]>),
    chosen: &[&Sample],
    outside: f32,
    voxel: Option<f32>,
) -> Result<Plan> {
    let scale = median(chosen.iter().map(|s| s.depth).collect());
    let footprint = median(chosen.iter().map(|s| s.footprint).collect());
    let automatic = footprint * PIXELS_PER_VOXEL / options.detail;
    let wanted = voxel.unwrap_or(automatic);
    let (grid, blocks) = fitted(maps, options, place, wanted, footprint)?;
    Ok(Plan {
        bytes: blocks.len() as u64 * BYTES_PER_BLOCK,
        outside,
        wanted: (grid.voxel > wanted * 1.001).then_some(wanted),
        scale,
        grid,
        blocks,
    })
}

/// Plans a coarser level around `finer`: its voxels, times `factor`. `None` if the level adds less than a thousandth of
/// the depths.
///
/// # Errors
/// A memory limit that holds no voxels.
pub fn plan_level(
    maps: &[DepthMap],
    options: &PlanOptions,
    bounds: [Vec3; 2],
    finer: &Plan,
    factor: f32,
) -> Result<Option<Plan>> {
    let samples = all_samples(maps);
    let is_in = |s: &Sample, bounds| is_in_box(s.point, bounds);
    let hole = [finer.grid.low, finer.grid.high];
    let added: Vec<&Sample> = samples
        .iter()
        .filter(|s| is_in(s, bounds) && !is_in(s, hole))
        .collect();
    if (added.len() as f32) < LEAST_LEVEL * samples.len() as f32 {
        return Ok(None);
    }
    let inside = samples.iter().filter(|s| is_in(s, bounds)).count();
    let outside = 1.0 - inside as f32 / samples.len() as f32;
    let voxel = finer.grid.voxel * factor;
    let place = (bounds, Some(hole));
    planned(maps, options, place, &added, outside, Some(voxel)).map(Some)
}

fn check(options: &PlanOptions) -> Result<()> {
    let positive = |v: f32| v > 0.0 && v.is_finite();
    if let Some(voxel) = options.voxel.filter(|&v| !positive(v)) {
        return Err(Error::input(format!("{voxel} is not a size of voxels"))
            .at("--voxel")
            .hint("give world units above zero"));
    }
    if !positive(options.detail) {
        return Err(
            Error::input(format!("{} is not a level of detail", options.detail))
                .at("--detail")
                .hint("give a factor above zero; 1 is three pixels per voxel"),
        );
    }
    match options.bounds {
        Some([low, high]) if !(low.is_finite() && high.is_finite() && low.cmplt(high).all()) => {
            Err(Error::input("the box is empty")
                .at(format!("--box {}", shown(low, high)))
                .hint("give the least x, y, z, then the largest"))
        }
        _ => Ok(()),
    }
}

/// Finds the blocks for the smallest voxel from `wanted` on that fits the memory.
fn fitted(
    maps: &[DepthMap],
    options: &PlanOptions,
    ([low, high], hole): ([Vec3; 2], Option<[Vec3; 2]>),
    wanted: f32,
    footprint: f32,
) -> Result<(Grid, Blocks)> {
    let grid = |voxel: f32| Grid {
        origin: low,
        voxel,
        truncation: TRUNCATION * voxel,
        low,
        high,
        hole,
    };
    let stride = |voxel: f32| ((1.5 * voxel / footprint) as usize).clamp(1, 16);
    let most = options.max_memory / BYTES_PER_BLOCK;
    let mut voxel = wanted;
    // The number of blocks of a surface grows with the square of the resolution.
    let coarse = ((high - low).length() / 256.0).max(wanted);
    if coarse > wanted {
        let count = Blocks::near(maps, &grid(coarse), stride(coarse)).len() as f64;
        let expected = count * (f64::from(coarse) / f64::from(wanted)).powi(2);
        if expected > 4.0 * most as f64 {
            voxel = coarse * (count / (2.0 * most as f64)).sqrt() as f32;
            voxel = voxel.max(wanted);
        }
    }
    for _ in 0..64 {
        let grid = grid(voxel);
        let blocks = Blocks::near(maps, &grid, stride(voxel));
        if blocks.is_empty() {
            break;
        }
        if blocks.len() as u64 <= most {
            return Ok((grid, blocks));
        }
        let excess = blocks.len() as f32 / most.max(1) as f32;
        voxel *= excess.sqrt().clamp(1.05, 4.0);
        if voxel > (high - low).length() {
            break;
        }
    }
    Err(Error::input("the memory limit is too small for this scene")
        .at(format!("--max-memory {} MiB", options.max_memory >> 20))
        .hint("allow more memory, or choose a smaller --box"))
}

fn all_samples(maps: &[DepthMap]) -> Vec<Sample> {
    maps.par_iter().flat_map_iter(samples_of).collect()
}

fn samples_of(map: &DepthMap) -> impl Iterator<Item = Sample> + '_ {
    let [width, height] = map.camera.size;
    let focal = map.camera.mean_focal();
    let pixels = (0..height)
        .step_by(STRIDE)
        .flat_map(move |y| (0..width).step_by(STRIDE).map(move |x| y * width + x));
    let kept = pixels.filter(|&pixel| map.weight(pixel) > 0.0);
    kept.map(move |pixel| Sample {
        point: map.point(pixel),
        depth: map.depth[pixel],
        footprint: map.depth[pixel] / focal,
    })
}

/// Returns the box around the surfaces that the cameras surround or face: up to a depth of 2.5 times the spread of the
/// cameras, or twice the depth of the nearest quarter of the pixels, whichever is larger.
fn automatic_box(maps: &[DepthMap], samples: &[Sample]) -> [Vec3; 2] {
    let centres = maps.iter().map(|map| map.camera.centre);
    let middle = centres.clone().sum::<Vec3>() / maps.len().max(1) as f32;
    let spread = median(centres.map(|c| c.distance(middle)).collect());
    let depths: Vec<f32> = samples.iter().map(|s| s.depth).collect();
    let place = depths.len() / 4;
    let quarter = quantiles::at(depths, place).unwrap_or_default();
    let far = (2.5 * spread).max(2.0 * quarter);
    let near: Vec<Vec3> = samples
        .iter()
        .filter(|s| s.depth <= far)
        .map(|s| s.point)
        .collect();
    box_of(&near, 0.002)
}

fn seen_box(samples: &[Sample]) -> Option<[Vec3; 2]> {
    let points: Vec<Vec3> = samples.iter().map(|s| s.point).collect();
    (!points.is_empty()).then(|| box_of(&points, 0.01))
}

/// Returns the box between two quantiles of the points on each axis, enlarged by a twentieth.
fn box_of(points: &[Vec3], quantile: f32) -> [Vec3; 2] {
    let last = points.len().saturating_sub(1);
    let cut = (last as f32 * quantile) as usize;
    let corner = |cut: usize| {
        let along = |k: usize| quantiles::at(points.iter().map(|p| p[k]).collect(), cut);
        Vec3::from([0, 1, 2].map(|k| along(k).unwrap_or_default()))
    };
    let (low, high) = rayon::join(|| corner(cut), || corner(last - cut));
    let margin = (high - low).max_element() * 0.05;
    [low - margin, high + margin]
}

/// Returns the numbers of a box as the option takes them.
fn shown(low: Vec3, high: Vec3) -> String {
    let numbers = low.to_array().into_iter().chain(high.to_array());
    let number = |v: f32| match v {
        v if v != 0.0 && v.abs() < 1e-3 => format!("{v:e}"),
        v => format!("{v:.4}"),
    };
    let numbers: Vec<String> = numbers.map(number).collect();
    numbers.join(",")
}

/// Returns the median; 0 without values.
pub(crate) fn median(values: Vec<f32>) -> f32 {
    quantiles::median(values).unwrap_or_default()
}

/// Returns the bytes of the depth maps of these cameras, at `1 / factor` of their size.
pub fn map_bytes(cameras: &[Pinhole], factor: usize) -> u64 {
    let pixels = cameras.iter().map(|c| {
        let [w, h] = c.size.map(|side| side.div_ceil(factor));
        (w * h) as u64
    });
    pixels.sum::<u64>() * super::maps::BYTES_PER_PIXEL
}
