//! Vertices moved along their normals to where photos agree.
//!
//! Splats place a surface to a few pixels. Photos tell more: patches of them around a vertex agree only if the vertex is on
//! the surface. This is the refinement of multi-view stereo (Furukawa and Ponce 2010 for patches, Vu et al. 2012 for
//! meshes), here along one line for each vertex:
//!
//! 1. The plane of the vertex moves along the normal in steps. At each step it maps a patch of the photo that shows the
//!    vertex best into up to four others. The step with the largest correlation is the match of the vertex, if most of
//!    the photos have their own largest correlation there (`matching.rs`).
//! 2. Smooth surfaces have no match, and some matches are wrong. The moves of all vertices are a field that is near the
//!    matches, smooth on the mesh, and zero far from matches (`field.rs`).
//! 3. The first round compares photos of half the size, so that it reaches far; the second round those of full size.
//!
//! Each vertex is matched on its own, and sums are in the order of the photos and of the triangles. So the result has the
//! same bytes on any number of threads.

mod field;
mod look;
mod matching;

use crate::colour::{Patch, Spot};
use crate::corners::Corners;
use crate::mesh::Mesh;
use crate::raster::MeshDepths;
use crate::view::PhotoSource;
use crate::volume::{ByLevel, median};
use dapple_base::{Error, ErrorKind, Progress, Result};
use dapple_scene::grey::halvings;
use glam::Vec3;
use look::{Look, Shot};
use matching::{Match, Matcher};
use rayon::prelude::*;

/// Halvings of the photos and steps to each side of a vertex, by round.
const ROUNDS: [(u32, usize); 2] = [(1, 6), (0, 4)];

/// Vertices of one task.
const CHUNK: usize = 1 << 9;

/// Bytes of a pixel of a photo with that of the photo of half the size.
const PIXEL_BYTES: u64 = 2;

/// How vertices are moved.
#[derive(Debug, Clone)]
pub struct RefineOptions {
    /// Most memory of photos, bytes; photos are halved until they fit.
    pub max_memory: u64,
    /// Distance between voxels, about that between vertices, world units.
    pub voxel: ByLevel,
}

/// Result of moving vertices.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Refined {
    /// Share of the vertices with a match in the last round.
    pub matched: f32,
    /// Median move of a vertex, world units.
    pub moved: f32,
    /// Times that photos were halved to fit the memory.
    pub halvings: u32,
}

/// Moves the vertices of a mesh along their normals to where photos agree. Removes the normals, which no longer hold.
/// `depths` are those of the mesh from the camera of each photo ([`seen_from`](crate::raster::seen_from)), of any size.
///
/// # Errors
/// A photo that cannot be read; a request to stop.
pub fn refine(
    mesh: &mut Mesh,
    (photos, depths): (&dyn PhotoSource, &[&MeshDepths]),
    options: &RefineOptions,
    progress: &dyn Progress,
) -> Result<Refined> {
    let mut done = Refined::default();
    let before = mesh.positions.clone();
    progress.start("rounds of matching photos", ROUNDS.len() as u64);
    let shot = |index| {
        stop_if_wanted(progress)?;
        let (camera, photo) = photos.photo(index)?;
        Ok(Shot::new(&camera, &photo))
    };
    let shots: Vec<Result<Shot>> = (0..photos.count()).into_par_iter().map(shot).collect();
    // The first of several errors.
    let mut shots: Vec<Shot> = shots.into_iter().collect::<Result<_>>()?;
    let sizes = shots.iter().map(|shot| shot.grey.size);
    done.halvings = halvings(sizes, options.max_memory / PIXEL_BYTES);
    for _ in 0..done.halvings {
        shots.par_iter_mut().for_each(|shot| *shot = shot.halved());
    }
    for (halved, steps) in ROUNDS {
        stop_if_wanted(progress)?;
        let corners = Corners::from_mesh(mesh);
        let normals = mesh.normals_at(&corners);
        let looks: Vec<Look<'_>> = shots
            .par_iter()
            .zip(depths)
            .map(|(shot, depths)| Look::new(shot, halved, depths))
            .collect();
        let spots = Spot::of_vertices(&mesh.positions, &normals);
        let matches = matches_of(&spots, &looks, steps, &options.voxel);
        let count = matches.iter().flatten().count();
        done.matched = count as f32 / matches.len().max(1) as f32;
        let moves = field::smoothed(&corners, &matches);
        let vertices = mesh.positions.par_iter_mut().zip(&normals).zip(moves);
        vertices.for_each(|((position, normal), by)| *position += *normal * by);
        progress.advance(1);
    }
    mesh.normals.clear();
    progress.finish();
    let pairs = before.iter().zip(&mesh.positions);
    let moves: Vec<f32> = pairs
        .map(|(from, to): (&Vec3, _)| from.distance(*to))
        .collect();
    done.moved = median(moves);
    Ok(done)
}

fn stop_if_wanted(progress: &dyn Progress) -> Result<()> {
    match progress.should_stop() {
        true => {
            let what = "matching was interrupted; no mesh is written";
            Err(Error::new(ErrorKind::Interrupted, what))
        }
        false => Ok(()),
    }
}

/// Returns the match of each vertex.
fn matches_of(
    spots: &[Spot],
    looks: &[Look<'_>],
    steps: usize,
    voxel: &ByLevel,
) -> Vec<Option<Match>> {
    let chunks = spots
        .par_chunks(CHUNK)
        .map_init(Matcher::default, |matcher, spots| {
            let patch = Patch::around(spots);
            let looks = looks.iter().filter(|look| patch.may_be_seen(&look.camera));
            let looks: Vec<&Look<'_>> = looks.collect();
            let of_spot = |spot: &Spot| matcher.find(spot, &looks, steps, voxel.at(spot.position));
            spots.iter().map(of_spot).collect::<Vec<_>>()
        });
    chunks.flatten_iter().collect()
}
