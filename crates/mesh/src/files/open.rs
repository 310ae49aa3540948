//! Opens mesh files of every format.

use super::drawable::Drawable;
use super::gltf::read_glb;
use super::read::{Counted, origin_of, read_counted_ply, read_ply};
use super::wavefront::{Obj, read_obj};
use crate::mesh::Mesh;
use dapple_base::{Error, Result, bounded};
use std::path::Path;

impl Drawable {
    /// Reads a mesh file: GLB, OBJ with the material file and the picture next to it, or PLY.
    ///
    /// # Errors
    /// A file of another format, or a damaged one; a GLB file without a triangle.
    pub fn open(path: &Path) -> Result<Self> {
        let (bytes, format) = open(path)?;
        match format {
            Format::Obj => {
                let obj = Obj::parse(&bytes).map_err(|e| in_file(e, path))?;
                obj.drawable(path.parent().unwrap_or(Path::new("")))
            }
            _ => Self::read(&bytes).map_err(|e| in_file(e, path)),
        }
    }

    /// Reads a mesh: GLB or PLY, by its first bytes.
    ///
    /// # Errors
    /// A file that is neither or is cut off; a GLB file without a triangle.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        if bytes.starts_with(b"glTF") {
            return read_glb(bytes);
        }
        Ok(Self {
            mesh: read_ply(bytes)?,
            origin: origin_of(bytes),
            ..Self::default()
        })
    }
}

impl Counted {
    /// Reads the positions and triangles of a mesh file: GLB, OBJ or PLY. OBJ and PLY files without faces are sets of
    /// points.
    ///
    /// # Errors
    /// A file of another format, or a damaged one; a GLB file without a triangle.
    pub fn open(path: &Path) -> Result<Self> {
        let (bytes, format) = open(path)?;
        let of = |mesh: Mesh| Self {
            mesh,
            ..Self::default()
        };
        let read = match format {
            Format::Glb => read_glb(&bytes).map(|drawable| of(drawable.mesh)),
            Format::Obj => read_obj(&bytes).map(of),
            Format::Ply => read_counted_ply(&bytes),
        };
        read.map_err(|e| in_file(e, path))
    }
}

/// Format of a mesh file that is read.
enum Format {
    Glb,
    Obj,
    Ply,
}

/// Reads a file, and detects its format: by its first bytes, or by the name of an OBJ file, which has no signature.
fn open(path: &Path) -> Result<(Vec<u8>, Format)> {
    let bytes = bounded::read("cannot read the mesh", path, bounded::MODEL_BYTES)?;
    let end = path.extension().unwrap_or_default();
    let format = match () {
        () if bytes.starts_with(b"glTF") => Format::Glb,
        () if bytes.starts_with(b"ply") => Format::Ply,
        () if end.eq_ignore_ascii_case("obj") => Format::Obj,
        () => Format::Ply,
    };
    Ok((bytes, format))
}

/// Adds the file to the place of an error.
fn in_file(error: Error, path: &Path) -> Error {
    match error.place().map(str::to_owned) {
        Some(place) => error.at(format!("{}, {place}", path.display())),
        None => error.at_path(path),
    }
}
