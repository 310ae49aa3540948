//! Runs that start from existing splats: `dapple train --from`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use crate::common;

use common::exit::INPUT;
use common::{TRAIN, json, ok_in, refused, small_capture};
use std::path::Path;
use tempfile::TempDir;

fn trained() -> TempDir {
    let folder = small_capture();
    let longer = [&TRAIN[..7], &["--steps=60", "--sh-degree=2"]].concat();
    ok_in(folder.path(), &longer);
    folder
}

fn from(file: &str, out: &str, more: &[&str]) -> Vec<String> {
    let args = [
        "train", "capture", "--preset", "m8-smoke", "--from", file, "-o", out,
    ];
    let args = args.iter().chain(more);
    args.map(|&arg| arg.to_owned()).collect()
}

fn train(path: &Path, args: &[String]) -> common::Ran {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    ok_in(path, &args)
}

/// Returns the PSNR that a run prints before its first step.
fn first_score(said: &str) -> f64 {
    let line = said
        .lines()
        .find(|line| line.contains("before the first step"));
    let after = line.and_then(|line| line.split_once("PSNR "));
    let number = after.and_then(|(_, rest)| rest.split_once(" dB"));
    number.unwrap().0.parse().unwrap()
}

#[test]
fn the_first_score_is_that_of_eval_in_every_format_and_frame() {
    let folder = trained();
    let path = folder.path();
    for file in ["lossy.spz", "lossy.sog", "plain.splat"] {
        ok_in(path, &["convert", "-q", "out", file]);
    }
    let turn = [
        "--rotate",
        "40,50,60",
        "--scale",
        "3",
        "--translate",
        "1,2,3",
    ];
    ok_in(
        path,
        &[&["edit", "-q", "out", "moved.ply"], &turn[..]].concat(),
    );
    for file in ["out", "lossy.spz", "lossy.sog", "plain.splat", "moved.ply"] {
        let eval = ["eval", "capture", file, "--json"];
        let expected = json(&ok_in(path, &eval))["psnr"].as_f64().unwrap();
        let out = format!("from-{file}");
        let ran = train(path, &from(file, &out, &["--steps=2", "--sh-degree=3"]));
        let found = first_score(&ran.stderr);
        assert!(
            (found - expected).abs() <= 0.01,
            "{file}: {found} {expected}"
        );
    }
}

#[test]
fn a_run_from_splats_repeats_also_after_a_stop_and_names_its_start() {
    let folder = trained();
    let path = folder.path();
    train(path, &from("out", "whole", &["--steps=40"]));
    train(path, &from("out", "again", &["--steps=40"]));
    train(path, &from("out", "parts", &["--steps=40", "--stop-at=15"]));
    let unfinished = ok_in(path, &["info", "parts"]).stdout;
    ok_in(path, &["train", "-q", "--resume", "parts"]);
    let splats = |run: &str| std::fs::read(path.join(run).join("splats.ply")).unwrap();
    assert!(splats("whole") == splats("again"), "the same command");
    assert!(splats("whole") == splats("parts"), "stopped and resumed");
    for said in [unfinished, ok_in(path, &["info", "parts"]).stdout] {
        assert!(said.contains("splats.ply (CRC-32 "), "{said}");
    }
    // The loss falls from that of the splats.
    let losses = |run: &str| {
        let text = std::fs::read_to_string(path.join(run).join("metrics.json")).unwrap();
        let metrics: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rows = metrics["losses"].as_array().unwrap().clone();
        let loss = |row: Option<&serde_json::Value>| row.unwrap()["loss"].as_f64().unwrap();
        (loss(rows.first()), loss(rows.last()))
    };
    let (of_points, of_splats) = (losses("out"), losses("whole"));
    assert!(of_splats.0 < of_points.0, "{of_splats:?} {of_points:?}");
    assert!(of_splats.1 < of_splats.0, "{of_splats:?}");
}

#[test]
fn splats_that_a_run_cannot_start_from_are_refused() {
    let folder = trained();
    let path = folder.path();
    let refuse = |args: &[&str], words: &[&str]| {
        let start = ["train", "capture", "-q", "--preset", "m8-smoke"];
        refused(path, &[&start[..], args].concat(), INPUT, words);
    };
    let before = std::fs::read(path.join("out/splats.ply")).unwrap();
    refuse(
        &["--from", "out", "-o", "out", "--overwrite"],
        &["holds the splats to start from", "--out"],
    );
    refuse(
        &["--from", "out", "-o", "few", "--max-gaussians", "10"],
        &["more than max_gaussians = 10", "--max-gaussians"],
    );
    assert!(!path.join("few").exists());
    assert!(before == std::fs::read(path.join("out/splats.ply")).unwrap());
    std::fs::write(path.join("no.ply"), "ply\n").unwrap();
    refuse(&["--from", "no.ply", "-o", "none"], &["no.ply"]);
    assert!(!path.join("none").exists());
}
