//! Photos that join, change or leave between the parts of a run: `dapple train CAPTURE --continue RUN`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use crate::common;

use common::exit::{INPUT, UNSUPPORTED};
use common::{files, ok_in, refused};
use std::collections::HashSet;
use std::path::Path;

/// Bytes of a Gaussian of degree 1 in `splats.ply`: normals and the other numbers.
const ROW: usize = 4 * (3 + 3 + 3 + 9 + 1 + 3 + 4);

/// Makes a capture of an open scene, and copies of it without these photos.
fn captures(without: &[(&str, &[&str])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let size = ["--photos=16", "--width=96", "--height=72"];
    ok_in(
        path,
        &[&["synth", "all", "--scene=field", "-q"][..], &size].concat(),
    );
    for (name, missing) in without {
        copied(path, "all", name);
        for photo in *missing {
            std::fs::remove_file(path.join(name).join("images").join(photo)).unwrap();
        }
    }
    folder
}

fn copied(path: &Path, from: &str, to: &str) {
    for file in files(&path.join(from)) {
        let (from, to) = (path.join(from).join(&file), path.join(to).join(&file));
        if from.is_file() {
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(from, to).unwrap();
        }
    }
}

fn train(path: &Path, capture: &str, more: &[&str]) {
    let start = ["train", capture, "--device=cpu", "-q", "--skip-missing"];
    let size = [
        "--sh-degree=1",
        "--steps=120",
        "--strategy=mcmc",
        "--max-gaussians=3000",
    ];
    ok_in(path, &[&start[..], &size, more].concat());
}

fn splats(path: &Path, run: &str) -> Vec<u8> {
    std::fs::read(path.join(run).join("splats.ply")).unwrap()
}

/// Returns the Gaussians of `splats.ply`, as bytes.
fn rows(path: &Path, run: &str) -> Vec<Vec<u8>> {
    let bytes = splats(path, run);
    let end = b"end_header\n";
    let head = bytes
        .windows(end.len())
        .position(|part| part == end)
        .unwrap();
    let rows = bytes[head + end.len()..].chunks_exact(ROW);
    assert!(rows.remainder().is_empty());
    rows.map(<[u8]>::to_vec).collect()
}

fn metrics(path: &Path, run: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(path.join(run).join("metrics.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the names of the scored photos of a run.
fn scored(path: &Path, run: &str) -> Vec<String> {
    let renders = files(&path.join(run).join("renders"));
    renders
        .iter()
        .map(|file| file.display().to_string())
        .collect()
}

#[test]
fn photos_that_join_change_what_they_see_and_nothing_else() {
    let folder = captures(&[("few", &["003.png", "004.png"])]);
    let path = folder.path();
    train(path, "few", &["-o=run"]);
    copied(path, "run", "again");
    let ran = ok_in(path, &["train", "all", "--continue", "run", "-o=more"]);
    let part = metrics(path, "more")["continuations"][0].clone();
    let count = |key: &str| part[key].as_u64().unwrap_or(0) as usize;
    assert_eq!(count("new_photos"), 2, "{part}");
    let frozen = count("frozen");
    assert!(frozen > 0 && frozen < count("gaussians"), "{part}");
    for words in [
        "photos     2 new",
        "out of their view keep their bytes",
        "more, for 2 new photos",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    let info = ok_in(path, &["info", "more"]).stdout;
    assert!(info.contains("photos: 2 new; "), "{info}");
    // Blocks that no new photo sees keep their bytes, and the others do not.
    let before: HashSet<Vec<u8>> = rows(path, "run").into_iter().collect();
    let same = rows(path, "more")
        .iter()
        .filter(|row| before.contains(*row))
        .count();
    assert_eq!(same, frozen);
    // The new photos are trained on, and the same photos are scored.
    assert_eq!(scored(path, "more"), scored(path, "run"));
    // A run that was stopped writes the same bytes.
    let stopped = ["--stop-at=122", "-q"];
    ok_in(
        path,
        &[&["train", "all", "--continue", "again"], &stopped[..]].concat(),
    );
    ok_in(path, &["train", "-q", "--resume", "again"]);
    assert!(splats(path, "again") == splats(path, "more"));
    // A further part trains all Gaussians again, and still scores the same photos.
    ok_in(path, &["train", "-q", "--continue", "more", "--steps=+5"]);
    let parts = metrics(path, "more")["continuations"].clone();
    assert_eq!(parts.as_array().unwrap().len(), 2);
    assert!(parts[1]["frozen"].is_null(), "{parts}");
    assert_eq!(scored(path, "more"), scored(path, "run"));
}

#[test]
fn a_mesh_is_scored_at_the_photos_that_training_held_out() {
    let folder = captures(&[("few", &["003.png", "004.png"])]);
    let path = folder.path();
    train(path, "few", &["-o=run", "--eval-every=5"]);
    ok_in(path, &["train", "all", "--continue", "run", "-q"]);
    let mesh = ["mesh", "run", "--device=cpu", "-o=m.ply", "--score"];
    let said = ok_in(path, &mesh).stdout;
    // Every fifth of the 14 photos; every fifth of all 16 would be four.
    assert_eq!(metrics(path, "run")["images"].as_array().unwrap().len(), 3);
    assert!(said.contains("held-out photos   3 of them"), "{said}");
}

#[test]
fn photos_that_change_or_leave_are_told_and_others_are_scored_as_before() {
    let folder = captures(&[("fewer", &["002.png", "009.png"]), ("other", &[])]);
    let path = folder.path();
    train(path, "all", &["-o=run"]);
    let said = ok_in(
        path,
        &[
            "train",
            "fewer",
            "--continue",
            "run",
            "-o=less",
            "--steps=+5",
        ],
    )
    .stderr;
    assert!(said.contains("photos     2 removed"), "{said}");
    assert_eq!(scored(path, "less"), scored(path, "run"));
    // One photo with the pixels of another.
    let images = path.join("other/images");
    std::fs::copy(images.join("006.png"), images.join("005.png")).unwrap();
    let said = ok_in(
        path,
        &[
            "train",
            "other",
            "--continue",
            "run",
            "-o=new",
            "--steps=+5",
        ],
    )
    .stderr;
    assert!(said.contains("photos     1 changed"), "{said}");
    // Most photos have changed: another capture.
    for photo in 0..12 {
        std::fs::copy(
            images.join("015.png"),
            images.join(format!("{photo:03}.png")),
        )
        .unwrap();
    }
    let again = ["train", "other", "--continue", "run", "-o=no", "--steps=+5"];
    refused(
        path,
        &again,
        INPUT,
        &["another capture", "most of its photos"],
    );
    assert!(!path.join("no").exists());
}

#[test]
fn photos_do_not_join_state_that_they_have_no_part_of() {
    let folder = captures(&[("few", &["003.png"])]);
    let path = folder.path();
    train(path, "few", &["-o=run", "--refine-poses"]);
    let again = ["train", "all", "--continue", "run"];
    refused(path, &again, UNSUPPORTED, &["refined poses", "--from"]);
    // Learned appearance has a row for each photo, also for those that join.
    train(path, "few", &["-o=grids", "--appearance=bilateral"]);
    ok_in(
        path,
        &[
            "train",
            "all",
            "-q",
            "--continue",
            "grids",
            "--steps=+4",
            "-o=more",
        ],
    );
    let info = ok_in(path, &["info", "more"]).stdout;
    assert!(info.contains("2: steps 121 to 124"), "{info}");
}
