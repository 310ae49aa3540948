//! PLY: binary, with normals and colours per vertex.

use super::About;
use crate::mesh::Mesh;

/// Returns the bytes of a PLY file.
pub fn ply(mesh: &Mesh, about: &About) -> Vec<u8> {
    let mut header = String::from("ply\nformat binary_little_endian 1.0\n");
    for comment in about.comments() {
        header += &format!("comment {comment}\n");
    }
    header += &format!("element vertex {}\n", mesh.positions.len());
    header += "property float x\nproperty float y\nproperty float z\n";
    let has_normals = mesh.normals.len() == mesh.positions.len();
    if has_normals {
        header += "property float nx\nproperty float ny\nproperty float nz\n";
    }
    let has_colours = mesh.colours.len() == mesh.positions.len();
    if has_colours {
        header += "property uchar red\nproperty uchar green\nproperty uchar blue\n";
    }
    header += &format!("element face {}\n", mesh.triangles.len());
    header += "property list uchar int vertex_indices\nend_header\n";
    let mut bytes = header.into_bytes();
    for (i, position) in mesh.positions.iter().enumerate() {
        let normal = has_normals.then(|| mesh.normals[i].to_array());
        for value in position
            .to_array()
            .into_iter()
            .chain(normal.into_iter().flatten())
        {
            bytes.extend(value.to_le_bytes());
        }
        if has_colours {
            bytes.extend(mesh.colours[i]);
        }
    }
    for triangle in &mesh.triangles {
        bytes.push(3);
        for i in triangle {
            bytes.extend(i.to_le_bytes());
        }
    }
    bytes
}
