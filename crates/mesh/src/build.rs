//! From depths to a mesh.

use crate::mesh::{Mesh, split_fans};
use crate::surface::extract;
use crate::view::{DepthSource, Pinhole, reduced};
use crate::volume::{
    DepthMap, Grid, Levels, Plan, PlanOptions, drop_inconsistent, fuse, is_in_box, map_bytes, plan,
    plan_level,
};
use dapple_base::{Error, ErrorKind, Progress, Result};
use dapple_scene::Camera;
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

/// Largest difference of depth between neighbouring pixels on one surface, pixel footprints.
const JUMP: f32 = 12.0;

/// Distance within which depths of two maps agree, pixel footprints.
const AGREEMENT: f32 = 6.0;

/// Weight that a voxel needs to be observed. A pixel that faces the surface at the usual distance weighs 1.
const LEAST_WEIGHT: f32 = 0.3;

/// Voxel, in median depths, above which a missing surface is the fault of the voxel.
const LARGE_VOXEL: f32 = 0.1;

/// Most levels around the box.
const MOST_LEVELS: usize = 12;

/// Share of the depths outside all levels below which there is no further level.
const LEAST_OUTSIDE: f32 = 2e-3;

/// Views whose maps are prepared at once.
const AHEAD: usize = 4;

/// Fused surface, and the depth maps that it was made of.
#[derive(Debug)]
pub struct Fused {
    /// Surface, without colours.
    pub mesh: Mesh,
    /// Depth maps, one per view.
    pub maps: Vec<DepthMap>,
    /// Plan of the fusion.
    pub plan: Plan,
    /// Levels of the mesh: the box of the plan, and coarser levels around it.
    pub levels: Levels,
    /// Share of the pixels with a depth that are outside all levels.
    pub outside: f32,
    /// Factor by which depth maps were reduced to fit the memory.
    pub reduced: usize,
    /// Share of the pixels with a depth that other maps do not confirm and that were dropped.
    pub inconsistent: f32,
    /// Vertices that were split so that the mesh is a manifold.
    pub split: usize,
}

/// Fuses the depths of all views and extracts the surface.
///
/// # Errors
/// No views; depths that do not fit their camera; see [`plan`]; a request to stop.
pub fn fuse_views(
    source: &mut dyn DepthSource,
    options: &PlanOptions,
    progress: &dyn Progress,
) -> Result<Fused> {
    let (mut maps, factor) = read_maps(source, options, progress)?;
    let inconsistent = drop_inconsistent(&mut maps, AGREEMENT);
    let left = PlanOptions {
        max_memory: options.max_memory.saturating_sub(bytes_of(&maps)),
        ..*options
    };
    let plan = plan(&maps, &left)?;
    let mut mesh = surface_of(&maps, &plan, progress)?;
    let mut levels = Levels::new([plan.grid.low, plan.grid.high]);
    let outside = match options.far {
        true => {
            mesh = trimmed(&mesh, &plan.grid);
            add_levels(&maps, &left, &plan, (&mut mesh, &mut levels), progress)?
        }
        false => plan.outside,
    };
    if mesh.triangles.is_empty() {
        return Err(no_surface(&plan));
    }
    let split = split_fans(&mut mesh);
    Ok(Fused {
        mesh,
        maps,
        plan,
        levels,
        outside,
        reduced: factor,
        inconsistent,
        split,
    })
}

/// Returns the error of a plan that gave no triangle.
fn no_surface(plan: &Plan) -> Error {
    let (voxel, scale) = (plan.grid.voxel, plan.scale);
    if voxel > LARGE_VOXEL * scale {
        return Error::input(format!(
            "voxels of {voxel} world units show no surface: the median depth is {scale}"
        ))
        .hint("choose a smaller --voxel, a larger --detail or a smaller --box");
    }
    Error::input("the depths of the views agree on no surface")
        .hint("check that the splats belong to this capture, or choose a larger --voxel")
}

/// Returns the surface of a plan.
fn surface_of(maps: &[DepthMap], plan: &Plan, progress: &dyn Progress) -> Result<Mesh> {
    let volume = fuse(maps, &plan.blocks, &plan.grid, plan.scale, progress)?;
    Ok(extract(&volume, &plan.blocks, &plan.grid, LEAST_WEIGHT))
}

/// Removes the part of a level that other levels have: outside its box, and in its hole, both except for a voxel. There
/// the levels overlap, so that no gap is between them.
fn trimmed(mesh: &Mesh, grid: &Grid) -> Mesh {
    let own = [grid.low - grid.voxel, grid.high + grid.voxel];
    mesh.filtered(|t| {
        let corners = mesh.corners(t);
        corners.iter().any(|&p| is_in_box(p, own))
            && !corners.iter().all(|p| grid.is_in_hole(*p, grid.voxel))
    })
}

/// Adds the surfaces outside the box, in levels of twice the size each. Returns the share of the depths outside all
/// levels.
fn add_levels(
    maps: &[DepthMap],
    options: &PlanOptions,
    finest: &Plan,
    (mesh, levels): (&mut Mesh, &mut Levels),
    progress: &dyn Progress,
) -> Result<f32> {
    let mut outside = finest.outside;
    let mut finer: Option<Plan> = None;
    let mut factor = 2.0;
    for _ in 0..MOST_LEVELS {
        if outside < LEAST_OUTSIDE {
            break;
        }
        let bounds = levels.next();
        let coarse = plan_level(
            maps,
            options,
            bounds,
            finer.as_ref().unwrap_or(finest),
            factor,
        )?;
        levels.push(bounds);
        let Some(coarse) = coarse else {
            // The next level has its hole around the last level with a surface.
            factor *= 2.0;
            continue;
        };
        let surface = surface_of(maps, &coarse, progress)?;
        mesh.append(&trimmed(&surface, &coarse.grid));
        outside = coarse.outside;
        finer = Some(coarse);
        factor = 2.0;
    }
    Ok(outside)
}

fn bytes_of(maps: &[DepthMap]) -> u64 {
    let cameras: Vec<Pinhole> = maps.iter().map(|map| map.camera).collect();
    map_bytes(&cameras, 1)
}

/// Renders the depths of all views, reduced until they take at most half of the memory.
fn read_maps(
    source: &mut dyn DepthSource,
    options: &PlanOptions,
    progress: &dyn Progress,
) -> Result<(Vec<DepthMap>, usize)> {
    let cameras = source.cameras().to_vec();
    if cameras.is_empty() {
        return Err(
            Error::input("the capture has no cameras to render depths from")
                .hint("name a capture with posed photos: --scene CAPTURE"),
        );
    }
    let pinholes: Vec<Pinhole> = cameras.iter().map(Pinhole::new).collect();
    let mut factor = 1;
    while map_bytes(&pinholes, factor) > options.max_memory / 2 && factor < 64 {
        factor *= 2;
    }
    progress.start("rendering depths", cameras.len() as u64);
    let maps = maps_of(source, &cameras, factor, progress)?;
    progress.finish();
    Ok((maps, factor))
}

/// Renders the depths of all views. Other threads prepare the maps while the next views are rendered.
fn maps_of(
    source: &mut dyn DepthSource,
    cameras: &[Camera],
    factor: usize,
    progress: &dyn Progress,
) -> Result<Vec<DepthMap>> {
    let mut maps = Vec::with_capacity(cameras.len());
    thread::scope(|threads| {
        let mut prepared = VecDeque::new();
        source.each_depth(&mut |view, depths| {
            progress.advance(1);
            if progress.should_stop() {
                let what = format!(
                    "{} of {} depths were rendered; no mesh is written",
                    view + 1,
                    cameras.len()
                );
                return Err(Error::new(ErrorKind::Interrupted, what));
            }
            if prepared.len() == AHEAD
                && let Some(map) = prepared.pop_front()
            {
                maps.push(joined(map)?);
            }
            prepared.push_back(threads.spawn(move || {
                map_of(&cameras[view], &depths, factor).map_err(|e| e.at(format!("view {view}")))
            }));
            Ok(())
        })?;
        for map in prepared {
            maps.push(joined(map)?);
        }
        Ok(maps)
    })
}

/// Waits for a thread, and panics if it did.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

fn map_of(camera: &Camera, depths: &crate::DepthView, factor: usize) -> Result<DepthMap> {
    let size = [camera.width as usize, camera.height as usize];
    let pixels = size[0] * size[1];
    let fits = depths.depth.len() == pixels
        && depths.alpha.len() == pixels
        && depths.normals.as_ref().is_none_or(|n| n.len() == pixels);
    if !fits {
        return Err(Error::internal(
            "the depths are not of the size of their camera",
        ));
    }
    if factor == 1 {
        return Ok(DepthMap::new(Pinhole::new(camera), depths, JUMP));
    }
    let to = size.map(|side| side.div_ceil(factor));
    let small = camera.resized(to[0] as u32, to[1] as u32);
    Ok(DepthMap::new(
        Pinhole::new(&small),
        &reduced(depths, size, to),
        JUMP,
    ))
}
