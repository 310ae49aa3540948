//! `dapple photos` with a stub of COLMAP.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{json, ok_in, refused, run_in, synth};
use dapple_base::test_requirements;
use dapple_photos::model::Model;
use std::collections::HashMap;
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

/// Splits photos and model of [`bench`]: a capture `old` without the last two photos, and these photos in `new`.
fn split(folder: &Path) {
    let at = |name: &str| folder.join(name);
    let mut model = Model::read_exact(&at("tool/model0")).unwrap();
    // The stub's database numbers the photos by name.
    let ids: HashMap<u32, u32> = (1..).zip(&model.images).map(|(n, i)| (i.id, n)).collect();
    for image in &mut model.images {
        image.id = ids[&image.id];
    }
    for point in &mut model.points {
        point
            .track
            .iter_mut()
            .for_each(|(image, _)| *image = ids[image]);
    }
    model.write(&at("tool/added")).unwrap();
    let last = model.images.len() as u32 - 2;
    for image in &model.images {
        let to = if image.id > last { "new" } else { "old/images" };
        std::fs::create_dir_all(at(to)).unwrap();
        std::fs::rename(at("photos").join(&image.name), at(to).join(&image.name)).unwrap();
    }
    model.images.retain(|image| image.id <= last);
    for point in &mut model.points {
        point.track.retain(|(image, _)| *image <= last);
    }
    model.write(&at("old/sparse/0")).unwrap();
}

#[test]
fn photos_are_added_to_a_capture_and_to_that_of_a_run() {
    let Some(folder) = bench() else { return };
    split(folder.path());
    let add = |to: &'static str, more: &[&'static str]| {
        [
            &["photos", "new", "--add", to, "--tool", "tool/colmap"][..],
            more,
        ]
        .concat()
    };
    let ran = ok_in(folder.path(), &add("old", &["--json"]));
    let done = json(&ran);
    assert_eq!(
        (&done["placed"], &done["photos"], &done["old_photos"]),
        (&2.into(), &2.into(), &7.into())
    );
    assert!(
        ran.stderr.contains("then dapple train old-more\n"),
        "{}",
        ran.stderr
    );
    let ran = ok_in(folder.path(), &["info", "old-more"]);
    assert!(ran.stdout.contains('9'), "{}", ran.stdout);
    let train = [
        "train", "old", "--steps", "2", "--device", "cpu", "-o", "out/old",
    ];
    ok_in(folder.path(), &train);
    let ran = ok_in(folder.path(), &add("out/old", &["-o", "again"]));
    assert!(
        ran.stdout.contains("again: 2 of 2 new photos have a pose"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stderr
            .contains("then dapple train --continue out/old\n"),
        "{}",
        ran.stderr
    );
    // The run has the path of the capture that it continues with.
    let ran = ok_in(
        folder.path(),
        &["train", "--continue", "out/old", "--steps", "+2"],
    );
    assert!(ran.stderr.contains("photos     2 new"), "{}", ran.stderr);
    for file in ["cameras.bin", "images.bin", "points3D.bin"] {
        let read =
            |out: &str| std::fs::read(folder.path().join(out).join("sparse/0").join(file)).unwrap();
        assert!(read("old-more") == read("again"), "{file}");
    }
    for (option, words) in [("--train", "last line"), ("--view", "report")] {
        refused(
            folder.path(),
            &add("old", &[option]),
            3,
            &["cannot be combined with --add", words],
        );
    }
    refused(
        folder.path(),
        &add("none", &[]),
        4,
        &["cannot open the capture"],
    );
    let ran = run_in(folder.path(), &["photos", "new"]);
    assert!(
        ran.code == 2 && ran.stderr.contains("--out"),
        "{}",
        ran.stderr
    );
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
