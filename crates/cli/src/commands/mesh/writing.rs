//! Mesh files: .glb, .obj with its material and picture, .ply.

use crate::options::refuse_existing;
use dapple::scene::atomic::write_atomically;
use dapple::scene::{Error, Photo, Result};
use dapple_mesh::Mesh;
use dapple_mesh::files::{About, glb, jpeg, obj, ply};
use std::path::{Path, PathBuf};

/// Mesh formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Glb,
    Obj,
    Ply,
}

impl Format {
    /// Returns the format of a file name.
    ///
    /// # Errors
    /// A name of another format.
    pub fn from_path(path: &Path) -> Result<Self> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("glb") => Ok(Self::Glb),
            Some("obj") => Ok(Self::Obj),
            Some("ply") => Ok(Self::Ply),
            _ => Err(Error::unsupported("no mesh format has a name that ends so")
                .at_path(path)
                .hint("choose .glb, .obj or .ply")),
        }
    }

    /// Returns true if the format holds a texture.
    pub fn holds_texture(self) -> bool {
        self != Self::Ply
    }
}

/// Returns the files of a mesh.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    Ok(match Format::from_path(path)? {
        Format::Obj => vec![
            path.to_owned(),
            path.with_extension("mtl"),
            path.with_extension("png"),
        ],
        _ => vec![path.to_owned()],
    })
}

/// Refuses to replace files without --overwrite.
pub fn refuse(path: &Path, overwrite: bool) -> Result<()> {
    for file in files(path)? {
        refuse_existing(&file, overwrite)?;
    }
    Ok(())
}

/// Writes a mesh.
pub fn write(mesh: &Mesh, about: &About, path: &Path) -> Result<()> {
    let put = |path: &Path, bytes: &[u8]| write_atomically(path, |file| file.write_all(bytes));
    match Format::from_path(path)? {
        Format::Ply => put(path, &ply(mesh, about)),
        Format::Glb => {
            let picture = mesh.texture.as_ref().map(jpeg).transpose()?;
            let picture = picture.as_deref().map(|bytes| (bytes, "image/jpeg"));
            put(path, &glb(mesh, about, picture)?)
        }
        Format::Obj => {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let (text, material) = obj(mesh, about, &name);
            if let (Some(material), Some(texture)) = (material, &mesh.texture) {
                let [width, height] = texture.size;
                let picture = Photo::from_rgb(width, height, texture.rgb.clone());
                picture.write_png(&path.with_extension("png"))?;
                put(&path.with_extension("mtl"), material.as_bytes())?;
            }
            put(path, text.as_bytes())
        }
    }
}
