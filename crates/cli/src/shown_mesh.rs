//! The mesh of `--mesh`, for pages.

use crate::console::Console;
use crate::sparse_points::{renders, sparse_points};
use dapple::glam::DVec3;
use dapple::scene::origin::{Frame, assumed};
use dapple::scene::{Dataset, Result};
use dapple_mesh::Mesh;
use dapple_mesh::files::Drawable;
use dapple_mesh::judge::{sparse_distances, vertex_errors};
use std::path::Path;

/// Reads a mesh into the frame of the splats and packs it. `dataset`: capture with the sparse points that the mesh is
/// compared with.
///
/// # Errors
/// A file that cannot be read or drawn.
pub fn read(
    path: &Path,
    frame: Frame,
    dataset: Option<&Dataset>,
    console: &Console,
) -> Result<Vec<u8>> {
    let mut mesh = Drawable::open(path)?;
    for note in &mesh.notes {
        console.note(&format!("note: mesh: {note}"));
    }
    let origin = assumed(middle(&mesh.mesh), mesh.origin, frame.origin);
    let errors = match dataset {
        Some(dataset) => {
            count_from(&mut mesh.mesh, dataset.origin - origin);
            let found = errors(&mesh.mesh, dataset, console);
            count_from(&mut mesh.mesh, frame.origin - dataset.origin);
            found
        }
        None => {
            count_from(&mut mesh.mesh, frame.origin - origin);
            Vec::new()
        }
    };
    for place in &mut mesh.mesh.positions {
        *place = frame.moved.point(place.as_dvec3()).as_vec3();
    }
    dapple_viewer::mesh::encode(&mesh, &errors).map_err(|e| e.at_path(path))
}

/// Returns the mean position.
fn middle(mesh: &Mesh) -> DVec3 {
    let sum: DVec3 = mesh.positions.iter().map(|p| p.as_dvec3()).sum();
    sum / mesh.positions.len().max(1) as f64
}

fn count_from(mesh: &mut Mesh, by: DVec3) {
    if by != DVec3::ZERO {
        for place in &mut mesh.positions {
            *place = (place.as_dvec3() - by).as_vec3();
        }
    }
}

/// Returns the distance to the sparse points at each vertex, and prints the median. Without a sparse point in the box
/// of the mesh, it returns none and prints a note.
fn errors(mesh: &Mesh, dataset: &Dataset, console: &Console) -> Vec<f32> {
    let cameras = renders(dataset);
    let found = sparse_distances(mesh, &sparse_points(dataset, &cameras), &cameras);
    let pixels = found.iter().map(|found| f64::from(found.pixels)).collect();
    let Some(pixels) = dapple_base::quantiles::median(pixels) else {
        console.note(
            "note: the capture has no sparse point in the box of the mesh, so that the page does not show distances to them",
        );
        return Vec::new();
    };
    console.note(&format!(
        "mesh: {} triangles, median distance of {} sparse points {pixels:.2} pixels",
        mesh.triangles.len(),
        found.len()
    ));
    vertex_errors(mesh, &found)
}
