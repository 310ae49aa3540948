//! Files of a folder of photos.

use dapple_base::atomic::write_atomically;
use dapple_base::{Error, Result, bounded};
use dapple_scene::Photo;
use image::ImageFormat;
use image::imageops::FilterType;
use std::collections::HashSet;
use std::io::Cursor;
use std::path::Path;

/// Writes a file and the folders above it.
///
/// # Errors
/// Errors of the operating system.
pub fn write_into(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::io("cannot create the folder", folder, e))?;
    }
    write_atomically(path, |out| out.write_all(bytes))
}

/// Removes files of an earlier attempt with other photos.
pub fn remove_others(images: &Path, keep: &HashSet<&str>) {
    let mut open = vec![images.to_owned()];
    while let Some(folder) = open.pop() {
        for path in std::fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
        {
            let below = path.strip_prefix(images).unwrap_or(&path);
            let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
            if path.is_dir() {
                open.push(path);
            } else if !keep.contains(parts.join("/").as_str()) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Copies a mask at the size of its photo, as COLMAP needs it.
///
/// # Errors
/// A mask that cannot be decoded; errors of the operating system.
pub fn copy_mask(from: &Path, to: &Path, photo: &Photo) -> Result<()> {
    let undecodable = |e: image::ImageError| {
        Error::input(format!(
            "the mask cannot be decoded: {}",
            dapple_base::decoder_fault(&e)
        ))
        .at_path(from)
        .hint("save it as PNG")
    };
    let bytes = bounded::read("cannot read the mask", from, bounded::IMAGE_BYTES)?;
    let mask = image::load_from_memory(&bytes).map_err(undecodable)?;
    if (mask.width(), mask.height()) == (photo.width, photo.height)
        && image::guess_format(&bytes).ok() == Some(ImageFormat::Png)
    {
        return write_into(to, &bytes);
    }
    let sized = mask.resize_exact(photo.width, photo.height, FilterType::Nearest);
    let mut out = Vec::new();
    sized
        .write_to(&mut Cursor::new(&mut out), ImageFormat::Png)
        .map_err(undecodable)?;
    write_into(to, &out)
}

/// Puts the content of `from` at `to`: as a second link of `copy` if that file has the same bytes, else as a copy.
///
/// # Errors
/// Errors of the operating system.
pub fn place(from: &Path, copy: &Path, to: &Path) -> Result<()> {
    let bytes = bounded::read("cannot read the photo", from, bounded::IMAGE_BYTES)?;
    let is_same = |path: &Path| std::fs::read(path).is_ok_and(|found| found == bytes);
    if is_same(to) {
        return Ok(());
    }
    if let Some(folder) = to.parent().filter(|_| is_same(copy)) {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::io("cannot create the folder", folder, e))?;
        crate::work::remove(to)?;
        // Some file systems have no links.
        if std::fs::hard_link(copy, to).is_ok() {
            return Ok(());
        }
    }
    write_into(to, &bytes)
}
