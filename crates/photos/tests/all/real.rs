//! The real pycolmap, where it is installed.

use dapple_base::{NoProgress, test_requirements};
use dapple_photos::{Options, Snapshot, Tool, make, make_watched};
use dapple_scene::{LoadOptions, load};
use std::path::PathBuf;
use std::sync::Mutex;

/// Returns a folder of real photos and the tool, or `None` where one of them is missing.
pub fn photos_and_tool(photos: &str) -> Option<(PathBuf, Tool)> {
    let photos = test_requirements::capture(env!("CARGO_MANIFEST_DIR"), photos)?;
    let named = std::env::var_os("DAPPLE_PYTHON").unwrap_or_else(|| "python3".into());
    let Ok(Some(tool)) = Tool::open(&PathBuf::from(named)) else {
        test_requirements::skipped(
            "pycolmap",
            "pycolmap is not installed: `python3 -m pip install pycolmap`, or DAPPLE_PYTHON names a Python",
        );
        return None;
    };
    Some((photos, tool))
}

#[test]
fn pycolmap_places_every_photo_of_a_real_capture_and_shows_the_poses_as_they_come() {
    let Some((photos, tool)) = photos_and_tool("banana/images") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        features: 2500,
        photo_size: 500,
        tool: Some(tool.program().to_owned()),
        ..Options::new(vec![photos], folder.path().join("banana"))
    };
    let shown = Mutex::new(Vec::new());
    let watch = |snapshot: Snapshot| shown.lock().unwrap().push(snapshot);
    let done = make_watched(&options, &NoProgress, Some(&watch)).unwrap();
    assert_eq!(done.review.registered, 16, "{:?}", done.review.findings);
    assert!(done.review.error < 1.0, "{}", done.review.error);
    let shown = shown.into_inner().unwrap();
    let last = shown.last().unwrap();
    assert!(last.is_final && last.cameras.len() == 16);
    let early = shown.iter().filter(|snapshot| !snapshot.is_final);
    assert!(
        early.clone().count() > 0,
        "no snapshot was shown before the end"
    );
    for snapshot in early {
        assert!(snapshot.cameras.len() >= 2 && !snapshot.points.is_empty());
    }
}

#[test]
fn pycolmap_makes_a_capture_of_real_photos_twice_with_the_same_bytes() {
    let Some((photos, tool)) = photos_and_tool("lund-door/images") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let inputs: Vec<PathBuf> = (4..8)
        .map(|number| photos.join(format!("DSC_000{number}.JPG")))
        .collect();
    let mut bytes = Vec::new();
    for name in ["one", "two"] {
        let options = Options {
            features: 800,
            photo_size: 600,
            tool: Some(tool.program().to_owned()),
            ..Options::new(inputs.clone(), folder.path().join(name))
        };
        let done = make(&options, &NoProgress).unwrap();
        assert_eq!(done.review.registered, 4, "{:?}", done.review.findings);
        assert!(done.review.error < 1.5, "{}", done.review.error);
        let read = |file: &str| std::fs::read(options.out.join("sparse/0").join(file)).unwrap();
        bytes.push(["cameras.bin", "images.bin", "points3D.bin"].map(read));
    }
    assert!(bytes[0] == bytes[1], "two calls gave different models");
    let loaded = load(
        &folder.path().join("one"),
        &LoadOptions::default(),
        &NoProgress,
    )
    .unwrap();
    assert_eq!(loaded.views.len(), 4);
}
