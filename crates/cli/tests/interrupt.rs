//! Ctrl-C during a run.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg(unix)]

mod common;

use common::{dapple, files, json, ok_in, small_capture};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A run that would take hours, past its first step.
fn long_run(folder: &std::path::Path) -> Child {
    let mut child = dapple()
        .args(["train", "capture", "-o", "out", "--steps", "10000000"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let started = lines.any(|line| line.unwrap().starts_with("step 1/"));
    assert!(started, "the run ended before its first step");
    // The rest is read away, so that the pipe never fills.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

#[test]
fn the_first_one_saves_everything() {
    let folder = small_capture();
    let path = folder.path();
    let mut child = long_run(path);
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let left: Vec<String> = files(&path.join("out"))
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    for name in ["config.toml", "metrics.csv", "metrics.json", "splats.ply"] {
        assert!(left.iter().any(|file| file == name), "{name}: {left:?}");
    }
    assert!(
        !left.iter().any(|file| file.contains(".dapple-")),
        "{left:?}"
    );
    // What was saved is whole.
    let splats = json(&ok_in(path, &["info", "out/splats.ply", "--json"]));
    assert!(splats["gaussians"].as_u64().unwrap() > 0);
    let metrics = std::fs::read_to_string(path.join("out/metrics.json")).unwrap();
    let metrics: serde_json::Value = serde_json::from_str(&metrics).unwrap();
    assert_eq!(metrics["ending"]["reason"], "stopped");
    assert_eq!(metrics["ending"]["step"], metrics["steps"]);
}
