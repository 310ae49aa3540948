//! `dapple photos` with a stub of COLMAP.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{json, ok_in, refused, synth};
use dapple_base::test_requirements;
use std::path::Path;
use std::process::Command;

const STUB: &str = include_str!("../../../photos/tests/all/support/colmap.py");

/// Creates photos in `photos/`, and a stub that finds their poses.
fn bench() -> Option<tempfile::TempDir> {
    let has_python = Command::new("python3")
        .arg("--version")
        .output()
        .is_ok_and(|ran| ran.status.success());
    if cfg!(windows) || !has_python {
        test_requirements::skipped("python", "the stub of COLMAP needs python3");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), &[]);
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("tool")).unwrap();
    std::fs::rename(at("capture/sparse/0"), at("tool/model0")).unwrap();
    std::fs::rename(at("capture/images"), at("photos")).unwrap();
    std::fs::remove_dir_all(at("capture")).unwrap();
    executable(&at("tool/colmap"));
    Some(folder)
}

#[cfg(unix)]
fn executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, STUB).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(not(unix))]
fn executable(_: &Path) {}

#[test]
fn photos_become_a_capture() {
    let Some(folder) = bench() else { return };
    let args = [
        "photos",
        "photos",
        "-o",
        "made",
        "--tool",
        "tool/colmap",
        "--json",
    ];
    let done = json(&ok_in(folder.path(), &args));
    assert_eq!(done["review"]["registered"], 9, "{done}");
    assert_eq!(done["tool"], "COLMAP 3.8");
    assert!(folder.path().join("made/report.html").is_file());
    let ran = ok_in(folder.path(), &["info", "made"]);
    assert!(ran.stdout.contains('9'), "{}", ran.stdout);
    let distance = [
        "photos",
        "photos",
        "-o",
        "made",
        "--tool",
        "tool/colmap",
        "--distance",
        "x:1",
        "y:2,3",
        "3m",
    ];
    refused(folder.path(), &distance, 3, &["PHOTO:x,y"]);
}

#[test]
fn photos_are_shown_while_their_poses_come() {
    let Some(folder) = bench() else { return };
    let at = |name: &str| folder.path().join(name);
    let args = |out: &'static str| ["photos", "photos", "-o", out, "--tool", "tool/colmap"];
    ok_in(folder.path(), &args("made"));
    let shown = [
        &args("shown")[..],
        &["--view", "--port", "0", "--device", "cpu", "-v"],
    ]
    .concat();
    let ran = ok_in(folder.path(), &shown);
    assert!(ran.stderr.contains("viewer: open http"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("could not be"), "{}", ran.stderr);
    for file in ["cameras.bin", "images.bin", "points3D.bin"] {
        let read = |out: &str| std::fs::read(at(out).join("sparse/0").join(file)).unwrap();
        assert!(read("made") == read("shown"), "{file}");
    }
}

#[test]
fn faults_have_their_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    refused(
        folder.path(),
        &["photos", "empty", "-o", "made"],
        3,
        &["there are no photos here"],
    );
    refused(
        folder.path(),
        &["photos", "none", "-o", "made"],
        4,
        &["cannot open the photos"],
    );
}
