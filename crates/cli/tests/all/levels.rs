//! Levels of detail that `dapple convert` writes: their sizes and losses.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use crate::common;

use common::{TRAIN, json, ok_in};
use std::path::Path;

fn capture_and_run() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let synth = "synth capture -q --photos 9 --width 48 --height 36 --points 1200";
    ok_in(folder.path(), &synth.split(' ').collect::<Vec<_>>());
    ok_in(folder.path(), &TRAIN);
    folder
}

fn psnr(path: &Path, splats: &str) -> f64 {
    let scores = json(&ok_in(path, &["eval", "capture", splats, "--json", "-q"]));
    scores["psnr"].as_f64().unwrap()
}

/// Levels are rendered as they were written, from the photos of the run.
#[test]
fn each_level_has_its_size_and_its_loss() {
    let folder = capture_and_run();
    let path = folder.path();
    let convert = ["convert", "out", "lod/lod-meta.json", "--lod-levels=3"];
    let said = json(&ok_in(path, &[&convert[..], &["--json"]].concat()));
    let meta = std::fs::read(path.join("lod/lod-meta.json")).unwrap();
    let counts = serde_json::from_slice::<serde_json::Value>(&meta).unwrap()["counts"].clone();
    let levels = said["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 3, "{said}");
    let mut bytes = meta.len() as u64;
    let whole = psnr(path, "out");
    for (number, level) in levels.iter().enumerate() {
        assert_eq!(level["level"], number);
        assert_eq!(level["gaussians"], counts[number]);
        bytes += level["bytes"].as_u64().unwrap();
        assert_eq!(level["cameras"], "capture");
        // The folder of a level opens by itself.
        let (from, to) = (format!("lod/{number}_0/meta.json"), format!("{number}.ply"));
        ok_in(path, &["convert", &from, &to, "--no-loss", "-q"]);
        let lost = level["lost_db"].as_f64().unwrap();
        let difference = whole - psnr(path, &to);
        assert!(
            (lost - difference).abs() < 1e-3,
            "level {number}: {lost} and {difference}"
        );
    }
    assert_eq!(said["bytes"], bytes);
    let of = |number: usize| levels[number]["psnr"].as_f64().unwrap();
    assert!(of(0) > of(1) && of(1) > of(2), "{said}");
    assert_eq!(said["loss"]["psnr"], levels[0]["psnr"]);
}

#[test]
fn levels_are_printed_with_decibels_or_without_a_measurement() {
    let folder = capture_and_run();
    let path = folder.path();
    let convert = ["convert", "out", "lod/lod-meta.json", "--lod-levels=2"];
    let said = ok_in(path, &convert).stdout;
    let line = |said: &str, start: &str| {
        let line = said.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {said}")).to_owned()
    };
    for level in ["level 0: ", "level 1: "] {
        let line = line(&said, level);
        assert!(line.contains(" Gaussians, ") && line.contains("KiB, PSNR "));
        assert!(line.contains(", SSIM ") && line.contains(", loses "));
    }
    let unmeasured = [&convert[..], &["--overwrite", "--no-loss"]].concat();
    let said = ok_in(path, &unmeasured).stdout;
    assert!(line(&said, "level 1: ").ends_with("KiB"), "{said}");
    // Without the capture of a run: from an orbit.
    std::fs::copy(path.join("out/splats.ply"), path.join("lone.ply")).unwrap();
    let lone = ["convert", "lone.ply", "lone/lod-meta.json", "--json"];
    let said = json(&ok_in(path, &lone));
    assert_eq!(said["levels"][1]["cameras"], "ring", "{said}");
    let other = json(&ok_in(path, &["convert", "out", "a.sog", "--json"]));
    assert!(other["levels"].is_null(), "{other}");
}
