//! Snapshots of runs: they change nothing, a resumed run keeps them, and pages show them during the run.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;
use crate::page;

use common::{SNAPPED, dapple, ok_in, refused, small_capture};
use page::Served;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Returns the snapshots in a folder, by name.
fn snapshots(folder: &Path, out: &str) -> Vec<(String, Vec<u8>)> {
    let folder = folder.join(out).join("snapshots");
    let files = common::files(&folder);
    let name = |f: &PathBuf| f.file_name().unwrap().to_string_lossy().into_owned();
    let mut all: Vec<_> = files
        .iter()
        .map(|f| (name(f), std::fs::read(folder.join(f)).unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn snapshots_change_no_bit_and_a_run_that_goes_on_keeps_them() {
    let folder = small_capture();
    let splats = |out: &str| std::fs::read(folder.path().join(out).join("splats.ply")).unwrap();
    let plain = [
        "train", "capture", "-q", "--preset", "micro", "--steps", "40", "-o", "plain",
    ];
    ok_in(folder.path(), &plain);
    assert!(!folder.path().join("plain/snapshots").exists());
    ok_in(
        folder.path(),
        &[&SNAPPED[..], &["whole", "--steps", "40"]].concat(),
    );
    assert_eq!(splats("plain"), splats("whole"));
    let whole = snapshots(folder.path(), "whole");
    let names: Vec<&str> = whole.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["10.ply", "20.ply", "30.ply"]);
    assert!(whole[0].1 != whole[1].1 && whole[2].1 != splats("whole"));
    // Each snapshot equals the result of a run that ends there.
    let stopped = [
        "train",
        "capture",
        "-q",
        "--preset",
        "micro",
        "--steps",
        "40",
        "--stop-at",
        "20",
        "-o",
        "stopped",
    ];
    ok_in(folder.path(), &stopped);
    assert_eq!(whole[1].1, splats("stopped"));

    // Stopped and resumed, without an option for snapshots: the existing snapshots stay, the rest follow.
    ok_in(
        folder.path(),
        &[&SNAPPED[..], &["parts", "--steps", "40", "--stop-at", "25"]].concat(),
    );
    assert_eq!(snapshots(folder.path(), "parts").len(), 2);
    let first = folder.path().join("parts/snapshots/10.ply");
    let written = first.metadata().unwrap().modified().unwrap();
    ok_in(folder.path(), &["train", "-q", "--resume", "parts"]);
    assert_eq!(snapshots(folder.path(), "parts"), whole);
    assert_eq!(first.metadata().unwrap().modified().unwrap(), written);
    assert_eq!(splats("parts"), splats("whole"));
    // Another run in the same folder has its own snapshots.
    std::fs::write(folder.path().join("parts/snapshots/7.ply"), "old").unwrap();
    ok_in(
        folder.path(),
        &[
            "train",
            "capture",
            "-q",
            "--preset",
            "micro",
            "--steps",
            "8",
            "--overwrite",
            "-o",
            "parts",
        ],
    );
    assert!(!folder.path().join("parts/snapshots").exists());
    // A snapshot folder that no run is known to have written is not removed.
    let foreign = folder.path().join("foreign/snapshots");
    std::fs::create_dir_all(&foreign).unwrap();
    std::fs::write(foreign.join("10.ply"), "mine").unwrap();
    refused(
        folder.path(),
        &[&SNAPPED[..], &["foreign", "--steps", "8"]].concat(),
        3,
        &["10.ply"],
    );
}

#[test]
fn a_page_looks_back_while_a_run_goes_on() {
    let folder = small_capture();
    let run = ["train", "capture", "--preset", "m9", "--steps=400"];
    ok_in(folder.path(), &[&run[..], &["-q", "-o", "alone"]].concat());
    let served = Served::start(
        dapple()
            .args(run)
            .args([
                "-o",
                "seen",
                "--view",
                "--port=0",
                "--view-share",
                "0.8",
                "--snapshots",
                "7",
            ])
            .current_dir(folder.path()),
    );
    let mut page = served.page();
    let (mut steps, mut errors, mut back) = (Vec::new(), Vec::new(), 0);
    let ended = std::cell::Cell::new(false);
    let mut hear = |said: Value| {
        if let Some(all) = said["snapshots"].as_array() {
            steps = all.iter().filter_map(Value::as_u64).collect();
        }
        ended.set(ended.get() || !said["train_on"].is_null());
        if said["type"] == "error" {
            errors.push(said["what"].to_string());
        }
        steps.clone()
    };
    let mut known: Vec<u64> = Vec::new();
    let mut rests = false;
    for id in 1.. {
        if ended.get() {
            break;
        }
        // The run is paused while there are snapshots to show, until the page has shown them: it would be over soon.
        if rests != (known.len() > 1 && back < 5) {
            rests = !rests;
            let command = if rests { "pause" } else { "resume" };
            page.say(&json!({"type": "run", "command": command}));
        }
        // In alternation: an existing snapshot, a missing one, and the current splats.
        let snapshot = match id % 3 {
            0 => known.get(id as usize / 3 % known.len().max(1)).copied(),
            1 if id % 30 == 1 => Some(3),
            _ => None,
        };
        let asked = page.say(&json!({
            "type": "look", "id": id, "width": 64, "height": 48, "focal": 1.0, "moving": true,
            "position": [0.0, -0.5, -3.0], "rotation": [1.0, 0.0, 0.0, 0.0], "snapshot": snapshot,
        }));
        if !asked {
            break;
        }
        // A missing snapshot is answered by an error, not by a picture.
        if snapshot == Some(3) {
            continue;
        }
        if page.picture(|said| known = hear(said)).is_none() {
            break;
        }
        back += u32::from(snapshot.is_some());
    }
    drop(page);
    let (code, said) = served.end();
    assert_eq!(code, 0, "{said}");
    assert!(back >= 5, "it hardly ever looked back: {back}");
    assert_eq!(known, [50, 100, 150, 200, 250, 300, 350]);
    let splats = |out: &str| std::fs::read(folder.path().join(out).join("splats.ply")).unwrap();
    assert_eq!(splats("alone"), splats("seen"));
}
