//! Recognises files that are not splats in a format of Dapple, and names a conversion for each.
//!
//! A file is recognised by its first bytes or by its name; a folder by the names in it.

use crate::Error;
use std::path::Path;

/// Description of a file's kind, and the next step.
type Known = (&'static str, &'static str);

const LFS: Known = (
    "this is a pointer of Git LFS, not the file itself",
    "fetch the large files: `git lfs pull` in the clone",
);
const PAGE: Known = (
    "this is a web page, not a file of splats",
    "a download may have saved the page of a login or of an error: download the file itself",
);
const LCC: Known = (
    "this is LCC, the format of XGRIDS' scanners, which Dapple does not read",
    "`splat-transform meta.lcc out.ply` converts it, and XGRIDS' LCC Studio exports PLY",
);
const RAD: Known = (
    "this is RAD, the format of Spark, which Dapple does not read",
    "take the .ply, .spz or .sog file that it was made from",
);
const USD: Known = (
    "this is a USD file, which Dapple does not read",
    "export the splats as .ply, .glb or .spz from the program that wrote it",
);
const TILES: Known = (
    "this is of 3D Tiles, which Dapple does not read as a whole",
    "the .glb and .gltf files of its tiles are read, each by itself",
);
const CHECKPOINT: Known = (
    "this is a checkpoint of PyTorch, which Dapple does not read",
    "export a .ply file with the program that trained it: `ns-export gaussian-splat` for Nerfstudio",
);
const POINTS: Known = (
    "this is a point cloud without Gaussians",
    "`dapple train` makes splats of photos; a cloud can be its start, as a .ply file that the capture names",
);

/// First bytes.
const BY_CONTENT: [(&[u8], Known); 8] = [
    (b"version https://", LFS),
    (b"RAD0", RAD),
    (b"RADC", RAD),
    (b"PXR-USDC", USD),
    (b"#usda", USD),
    (b"b3dm", TILES),
    (b"LASF", POINTS),
    (b"# .PCD", POINTS),
];

/// Endings of file names.
const BY_NAME: [(&str, Known); 13] = [
    ("lcc", LCC),
    ("lcc2", LCC),
    ("rad", RAD),
    ("usd", USD),
    ("usda", USD),
    ("usdc", USD),
    ("usdz", USD),
    ("ckpt", CHECKPOINT),
    ("pt", CHECKPOINT),
    ("pth", CHECKPOINT),
    ("las", POINTS),
    ("laz", POINTS),
    ("e57", POINTS),
];

fn error((what, hint): Known) -> Error {
    Error::unsupported(what).hint(hint)
}

/// Builds the error for a checkpoint of PyTorch.
pub(super) fn checkpoint() -> Error {
    error(CHECKPOINT)
}

/// Returns the error for bytes that are known not to be splats, for any name.
pub(super) fn by_content(bytes: &[u8]) -> Option<Error> {
    let known = BY_CONTENT.iter().find(|(mark, _)| bytes.starts_with(mark));
    let head = bytes.get(..bytes.len().min(16)).unwrap_or_default();
    let text = String::from_utf8_lossy(head).trim_start().to_lowercase();
    let is_page = text.starts_with("<!doctype html") || text.starts_with("<html");
    match (known, is_page) {
        (Some((_, known)), _) => Some(error(*known)),
        (None, true) => Some(error(PAGE)),
        (None, false) => None,
    }
}

/// Returns the error for a file without a signature, by the ending of its name.
pub(super) fn by_name(path: &Path) -> Option<Error> {
    if path.file_name().is_some_and(|name| name == "tileset.json") {
        return Some(error(TILES));
    }
    let ending = path.extension()?.to_string_lossy().to_lowercase();
    let known = BY_NAME.iter().find(|(name, _)| *name == ending);
    known.map(|(_, known)| error(*known))
}

/// Returns the error for a folder, or a file, of splats in a format that Dapple does not read: LCC, RAD, USD, 3D Tiles.
/// Returns `None` for any other.
pub fn foreign(path: &Path) -> Option<Error> {
    if !path.is_dir() {
        return by_name(path).map(|e| e.at_path(path));
    }
    let entries = std::fs::read_dir(path).ok()?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    // A capture may hold a point cloud or a checkpoint.
    let is_scene = |path: &&std::path::PathBuf| {
        let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        matches!(ending.as_deref(), Some("lcc" | "lcc2" | "rad"))
            || path.file_name().is_some_and(|name| name == "tileset.json")
    };
    let found = files.iter().find(is_scene)?;
    by_name(found).map(|e| e.at_path(found))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::splat_file::read;

    #[test]
    fn other_formats_are_named_with_their_next_step() {
        let folder = tempfile::tempdir().unwrap();
        let page = b"  <!DOCTYPE html><html><body>Sign in</body></html>";
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
        for (name, bytes, word) in [
            ("meta.lcc", &b"{\"version\":\"5.0\"}"[..], "LCC"),
            ("scene.LCC", b"{}", "XGRIDS"),
            ("a.rad", b"RAD0....", "Spark"),
            ("a.usdz", b"....", "USD"),
            ("a.usda", b"#usda 1.0", "USD"),
            ("tileset.json", b"{\"asset\":{}}", "3D Tiles"),
            ("step.ckpt", b"\x80\x02", "PyTorch"),
            ("cloud.las", b"LASF", "point cloud"),
            ("a.ply", pointer, "Git LFS"),
            ("a.sog", pointer, "Git LFS"),
            ("a.splat", pointer, "Git LFS"),
            ("b.ply", page, "web page"),
            ("b.spz", page, "web page"),
            ("c.ply", b"", "empty"),
            ("c.spz", b"", "empty"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let error = read(&path).unwrap_err();
            assert!(error.what().contains(word), "{name}: {error}");
            assert!(error.place().unwrap().contains(name), "{name}: {error}");
            assert!(error.hint_text().is_some(), "{name}");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn folders_are_known_by_what_is_in_them() {
        let folder = tempfile::tempdir().unwrap();
        assert!(foreign(folder.path()).is_none());
        std::fs::write(folder.path().join("points.las"), "LASF").unwrap();
        assert!(foreign(folder.path()).is_none());
        std::fs::write(folder.path().join("meta.lcc"), "{}").unwrap();
        let error = foreign(folder.path()).unwrap();
        assert!(error.what().contains("XGRIDS") && error.place().unwrap().ends_with("meta.lcc"));
    }
}
