//! Colours per vertex.

use super::paint::{Spot, paint, to_bytes};
use super::unseen::Unseen;
use crate::mesh::Mesh;
use crate::view::PhotoSource;
use crate::volume::ByLevel;
use dapple_base::{Progress, Result};

/// Colours the vertices from photos; vertices that no photo shows get the colour of the splats around them. Returns the
/// share of vertices that a photo shows. The mesh needs normals.
///
/// # Errors
/// See [`paint`].
pub fn colour_vertices(
    mesh: &mut Mesh,
    photos: &dyn PhotoSource,
    unseen: &Unseen,
    tolerance: &ByLevel,
    progress: &dyn Progress,
) -> Result<f32> {
    let spots = Spot::of_vertices(&mesh.positions, &mesh.normals);
    let (colours, seen) = paint(&spots, mesh, photos, tolerance, progress)?;
    mesh.colours = (0..spots.len())
        .map(|i| {
            if seen[i] {
                to_bytes(colours[i])
            } else {
                unseen.at(spots[i].position)
            }
        })
        .collect();
    let count = seen.iter().filter(|&&seen| seen).count();
    Ok(count as f32 / spots.len().max(1) as f32)
}
