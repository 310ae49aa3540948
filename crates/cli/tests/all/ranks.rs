//! Runs whose Gaussians several ranks share: `dapple train --ranks-in-process`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use crate::common;

use common::exit::{INPUT, IO, UNSUPPORTED, USAGE};
use common::{ok_in, refused, run_in, small_capture};
use std::path::Path;

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

/// Returns the names of the files of checkpoints and states in the folder of a run.
fn states(path: &Path, run: &str) -> Vec<String> {
    let files = std::fs::read_dir(path.join(run)).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter(|name| name.ends_with(".safetensors"))
        .collect();
    names.sort();
    names
}

/// The parts of a shared model are in files of their own, of which the last two checkpoints are kept.
#[test]
fn checkpoints_of_ranks_have_a_file_for_each_part() {
    let folder = small_capture();
    let path = folder.path();
    train(path, &["-q", "-o=plain"]);
    let two = ["-q", "--ranks-in-process=2", "--checkpoint-every=60"];
    train(path, &[&two[..], &["--stop-at=131", "-o=two"]].concat());
    let expected = [
        "checkpoint.a.0.safetensors",
        "checkpoint.a.1.safetensors",
        "checkpoint.b.0.safetensors",
        "checkpoint.b.1.safetensors",
        "checkpoint.before.safetensors",
        "checkpoint.safetensors",
    ];
    assert_eq!(states(path, "two"), expected);
    let said = ok_in(path, &["info", "two"]).stdout;
    assert!(said.contains("steps        132"), "{said}");

    // A damaged or missing part is named, and the checkpoint before it.
    let part = path.join("two/checkpoint.a.1.safetensors");
    let whole = std::fs::read(&part).unwrap();
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    std::fs::write(&part, &damaged).unwrap();
    let words = ["checkpoint.a.1", "damaged", "checkpoint.before"];
    refused(path, &["train", "--resume=two"], INPUT, &words);
    std::fs::remove_file(&part).unwrap();
    let words = ["checkpoint.a.1", "checkpoint.before"];
    refused(path, &["train", "--resume=two"], IO, &words);
    let other = path.join("two/checkpoint.b.1.safetensors");
    std::fs::copy(&other, &part).unwrap();
    let words = ["checkpoint.a.1", "another checkpoint"];
    refused(path, &["train", "--resume=two"], INPUT, &words);
    let last = path.join("two/checkpoint.safetensors");
    std::fs::rename(path.join("two/checkpoint.before.safetensors"), last).unwrap();
    ok_in(
        path,
        &["train", "-q", "--resume=two", "--ranks-in-process=1"],
    );
    assert!(splats(path, "two") == splats(path, "plain"), "resumed");
    assert_eq!(states(path, "two"), ["state.safetensors"]);
}

/// A finished run of ranks continues like one of a single engine.
#[test]
fn states_of_ranks_have_a_file_for_each_part() {
    let folder = small_capture();
    let path = folder.path();
    train(path, &["-q", "-o=plain"]);
    train(path, &["-q", "--ranks-in-process=3", "-o=three"]);
    let expected = [
        "state.a.0.safetensors",
        "state.a.1.safetensors",
        "state.a.2.safetensors",
        "state.safetensors",
    ];
    assert_eq!(states(path, "three"), expected);
    for run in ["plain", "three"] {
        ok_in(path, &["train", "-q", "--steps=+20", "--continue", run]);
    }
    assert!(splats(path, "three") == splats(path, "plain"), "continued");
    // Another run in this folder removes them.
    train(path, &["-q", "--overwrite", "--no-state", "-o=three"]);
    assert_eq!(states(path, "three"), [""; 0]);
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
