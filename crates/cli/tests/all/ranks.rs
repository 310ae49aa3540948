//! Runs whose Gaussians several ranks share: `dapple train --ranks-in-process`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use crate::common;

use common::{ok_in, refused, run_in, small_capture};
use std::path::Path;

const UNSUPPORTED: i32 = 5;
const USAGE: i32 = 2;

/// Runs `dapple train capture` with rounds of density control between steps of two views.
fn train(path: &Path, more: &[&str]) -> common::Ran {
    let start = [
        "train",
        "capture",
        "--device=cpu",
        "--steps=240",
        "--sh-degree=1",
        "--views-per-step=2",
        "--max-gaussians=2500",
    ];
    ok_in(path, &[&start[..], more].concat())
}

fn splats(path: &Path, run: &str) -> Vec<u8> {
    std::fs::read(path.join(run).join("splats.ply")).unwrap()
}

#[test]
fn ranks_train_to_the_bytes_of_one_engine_also_after_a_resume_on_another_number() {
    let folder = small_capture();
    let path = folder.path();
    train(path, &["-q", "-o=plain"]);
    let said = train(path, &["--ranks-in-process=3", "-o=three"]).stderr;
    assert!(said.contains("device: 3 ranks: cpu ("), "{said}");
    let waits = "a step of 2 photos leaves 1 of 3 ranks waiting: --views-per-step 3";
    assert!(said.contains(waits), "{said}");
    assert!(splats(path, "three") == splats(path, "plain"), "3 ranks");
    // Relocation by ADC has rounds of the other kind.
    for (run, more) in [("adc", "-q"), ("adc2", "--ranks-in-process=2")] {
        train(path, &[more, "--preset=m9", "-o", run]);
    }
    assert!(splats(path, "adc") == splats(path, "adc2"), "ADC");
    train(
        path,
        &["-q", "--ranks-in-process=2", "--stop-at=131", "-o=stopped"],
    );
    let resume = ["train", "-q", "--resume", "stopped", "--ranks-in-process=5"];
    ok_in(path, &resume);
    assert!(splats(path, "stopped") == splats(path, "plain"), "resumed");
    // Commands that train a run again use as many ranks.
    let said = ok_in(path, &["verify", "--device=cpu", "three"]).stderr;
    assert!(said.contains("device: 3 ranks: cpu ("), "{said}");
    train(
        path,
        &["-q", "--ranks-in-process=2", "--stop-at=31", "-o=again"],
    );
    let said = ok_in(path, &["train", "--resume=again"]).stderr;
    assert!(said.contains("device: 2 ranks: cpu ("), "{said}");
}

/// Steps are timed on the ranks: one engine may be too small for the model.
#[test]
fn ranks_keep_to_a_time_budget() {
    let folder = small_capture();
    let args = [
        "train",
        "capture",
        "--device=cpu",
        "--ranks-in-process=2",
        "--views-per-step=3",
        "--time-budget=1s",
    ];
    let said = ok_in(folder.path(), &args).stderr;
    assert!(said.contains("time budget"), "{said}");
}

#[test]
fn what_ranks_cannot_train_is_refused_before_the_run() {
    let folder = small_capture();
    let path = folder.path();
    for more in ["--refine-poses", "--appearance=exposure", "--surface"] {
        let args = [
            "train",
            "capture",
            "--device=cpu",
            "--ranks-in-process=2",
            more,
        ];
        refused(path, &args, UNSUPPORTED, &["ranks cannot train with"]);
        assert!(!path.join("out").exists(), "{more}");
    }
    for number in ["0", "65", "x"] {
        let option = format!("--ranks-in-process={number}");
        let ran = run_in(path, &["train", "capture", &option]);
        assert_eq!(ran.code, USAGE, "{number}");
    }
}
