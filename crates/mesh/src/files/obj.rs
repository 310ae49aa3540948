//! OBJ with its material file.

use super::About;
use super::flat::Flat;
use crate::mesh::Mesh;
use std::fmt::Write;

/// Returns the text of an OBJ file, and of its material file if the mesh has a texture. `name` is the name of the files
/// without extension.
pub fn obj(mesh: &Mesh, about: &About, name: &str) -> (String, Option<String>) {
    let flat = Flat::from_mesh(mesh);
    let mut text = String::new();
    for comment in about.comments() {
        let _ = writeln!(text, "# {comment}");
    }
    let has_texture = mesh.texture.is_some();
    if has_texture {
        let _ = writeln!(text, "mtllib {name}.mtl\nusemtl surface");
    }
    let has_colours = !has_texture && mesh.colours.len() == mesh.positions.len();
    let has_normals = mesh.normals.len() == mesh.positions.len();
    for (i, p) in mesh.positions.iter().enumerate() {
        let _ = write!(text, "v {} {} {}", p.x, p.y, p.z);
        if has_colours {
            let [r, g, b] = mesh.colours[i].map(|v| f32::from(v) / 255.0);
            let _ = write!(text, " {r:.4} {g:.4} {b:.4}");
        }
        text.push('\n');
    }
    for place in &flat.places {
        // The origin of OBJ is the lower left corner.
        let _ = writeln!(text, "vt {:.6} {:.6}", place.x, 1.0 - place.y);
    }
    if has_normals {
        for n in &mesh.normals {
            let _ = writeln!(text, "vn {:.4} {:.4} {:.4}", n.x, n.y, n.z);
        }
    }
    for triangle in &flat.triangles {
        text.push('f');
        for &i in triangle {
            let v = flat.vertices[i as usize] + 1;
            let place = if has_texture {
                (i + 1).to_string()
            } else {
                String::new()
            };
            let _ = match has_normals {
                true => write!(text, " {v}/{place}/{v}"),
                false if has_texture => write!(text, " {v}/{place}"),
                false => write!(text, " {v}"),
            };
        }
        text.push('\n');
    }
    let material = has_texture.then(|| {
        format!("newmtl surface\nKa 1 1 1\nKd 1 1 1\nKs 0 0 0\nillum 0\nmap_Kd {name}.png\n")
    });
    (text, material)
}
