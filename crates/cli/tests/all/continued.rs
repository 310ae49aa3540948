//! Runs that are trained further: `dapple train --continue`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use crate::common;

use common::exit::INPUT;
use common::{dapple, files, json, ok_in, refused, small_capture, synth};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Runs `dapple train capture` with density control.
fn train(path: &Path, more: &[&str]) -> common::Ran {
    let start = [
        "train",
        "capture",
        "--device=cpu",
        "--preset=m9",
        "--sh-degree=1",
    ];
    ok_in(path, &[&start[..], more].concat())
}

fn go_on(path: &Path, run: &str, more: &[&str]) -> common::Ran {
    ok_in(path, &[&["train", "--continue", run][..], more].concat())
}

fn splats(path: &Path, run: &str) -> Vec<u8> {
    std::fs::read(path.join(run).join("splats.ply")).unwrap()
}

fn metrics(path: &Path, run: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(path.join(run).join("metrics.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Copies a folder of a run.
fn copied(path: &Path, from: &str, to: &str) {
    for file in files(&path.join(from)) {
        let target = path.join(to).join(&file);
        if path.join(from).join(&file).is_file() {
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(path.join(from).join(&file), target).unwrap();
        }
    }
}

#[test]
fn a_run_continues_to_the_same_bytes_also_after_a_stop_and_shows_its_parts() {
    let folder = small_capture();
    let path = folder.path();
    train(path, &["-q", "--steps=200", "-o=a"]);
    let first = splats(path, "a");
    assert!(path.join("a/state.safetensors").is_file());
    for copy in ["b", "c"] {
        copied(path, "a", copy);
    }
    // In place, into another folder, and with a stop in the second part.
    let said = go_on(path, "a", &["--steps=400"]).stderr;
    for words in [
        "after step 200",
        "to step 400, with its optimizer state",
        "centres    learning rate",
        "density    adc",
        "densify.stop",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    go_on(path, "b", &["-q", "--steps=+200", "-o=other"]);
    assert!(splats(path, "b") == first, "the run stays as it is");
    go_on(path, "c", &["-q", "--steps=400", "--stop-at=310"]);
    assert!(
        !path.join("c/state.safetensors").exists(),
        "of the results before"
    );
    ok_in(path, &["train", "-q", "--resume", "c"]);
    let whole = splats(path, "a");
    assert!(whole != first);
    assert!(whole == splats(path, "other"), "into another folder");
    assert!(whole == splats(path, "c"), "stopped and resumed");
    // History, scores and parts.
    let all = metrics(path, "a");
    assert_eq!(all["steps"], 400);
    assert_eq!(all["losses"][0]["step"], 1);
    let change = &all["config"]["amendments"][0]["change"];
    let rate = change["continuation"]["means"].as_f64().unwrap();
    let line = format!("centres    learning rate {rate:.2e} to ");
    assert!(said.contains(&line), "{line}: {said}");
    let part = &all["continuations"][0];
    assert_eq!((&part["after"], &part["steps"]), (&200.into(), &400.into()));
    let info = json(&ok_in(path, &["info", "a", "--json"]))["run"].clone();
    let scored = |part: usize| info["parts"][part]["psnr"].as_f64().unwrap();
    assert_eq!(scored(1), all["psnr"].as_f64().unwrap());
    assert!(scored(0) > 10.0 && scored(0) != scored(1), "{info}");
    assert!(info["state_bytes"].as_u64().unwrap() > 0);
    let info = ok_in(path, &["info", "c"]).stdout;
    for words in [
        "1: steps 1 to 200, PSNR",
        "2: steps 201 to 400",
        "--continue c",
    ] {
        assert!(info.contains(words), "{words}: {info}");
    }
    // A third part, with the default number of steps.
    let said = go_on(path, "a", &[]).stderr;
    assert!(said.contains("steps: 600, half as many again"), "{said}");
    let parts = json(&ok_in(path, &["info", "a", "--json"]))["run"]["parts"].clone();
    assert_eq!(parts.as_array().unwrap().len(), 3);
}

#[test]
fn a_part_that_is_killed_resumes_and_keeps_earlier_results_until_then() {
    let folder = small_capture();
    let path = folder.path();
    train(path, &["-q", "--steps=200", "-o=a"]);
    for copy in ["b", "c"] {
        copied(path, "a", copy);
    }
    let first = splats(path, "a");
    let args = ["train", "-q", "--continue", "b", "--steps=100000"];
    let long = [&args[..], &["--checkpoint-every=20"]].concat();
    let checkpoint = path.join("b/checkpoint.safetensors");
    let mut child = dapple()
        .args(&long)
        .current_dir(path)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !checkpoint.exists() && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    // The folder is in use.
    refused(
        path,
        &["train", "-q", "--continue", "b"],
        INPUT,
        &["another"],
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(first == splats(path, "b"), "the results of the first part");
    let info = ok_in(path, &["info", "b"]).stdout;
    assert!(info.contains("train --resume b"), "{info}");
    // Both continue from their state to step 900: one after a kill, the other at once.
    let until = ["-q", "--steps=100000", "--stop-at=900"];
    ok_in(path, &["train", "-q", "--resume", "b", "--stop-at=900"]);
    go_on(path, "c", &until);
    assert!(splats(path, "b") == splats(path, "c"), "killed and resumed");
    // A stopped run continues with another length.
    let said = go_on(path, "c", &["--steps=1000", "-o=d"]).stderr;
    assert!(said.contains("after step 900"), "{said}");
    assert_eq!(
        metrics(path, "d")["continuations"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_run_without_state_continues_from_its_splats_at_reduced_rates() {
    let folder = small_capture();
    let path = folder.path();
    train(path, &["-q", "--steps=200", "--no-state", "-o=a"]);
    assert!(!path.join("a/state.safetensors").exists());
    let before = metrics(path, "a")["psnr"].as_f64().unwrap();
    let said = go_on(path, "a", &["--steps=+200", "-o=b"]).stderr;
    assert!(said.contains("from its splats only"), "{said}");
    go_on(path, "a", &["-q", "--steps=400"]);
    assert!(splats(path, "a") == splats(path, "b"), "the same command");
    let all = metrics(path, "a");
    assert_eq!(all["continuations"][0]["has_state"], false);
    assert!(
        all["psnr"].as_f64().unwrap() > before,
        "{before} {}",
        all["psnr"]
    );
    let config = std::fs::read_to_string(path.join("a/config.toml")).unwrap();
    assert!(config.contains("fresh_moments = true"), "{config}");
    // The state of the second part is that of the results.
    go_on(path, "a", &["-q", "--steps=+20", "--no-state"]);
    assert!(!path.join("a/state.safetensors").exists());
    // Another capture.
    std::fs::remove_dir_all(path.join("capture")).unwrap();
    synth(path, &["--seed", "9"]);
    refused(
        path,
        &["train", "-q", "--continue", "a"],
        INPUT,
        &["another capture"],
    );
}

#[test]
fn settings_change_between_parts_where_they_can() {
    let folder = small_capture();
    let path = folder.path();
    train(path, &["-q", "--steps=200", "-o=a"]);
    let further = ["-q", "--steps=+60", "--overwrite"];
    for (changes, key) in [
        (
            &["--strategy=mcmc", "--max-gaussians=900"][..],
            "densify.strategy",
        ),
        (&["--downscale=2"], "data.downscale"),
        (&["--sh-degree=3"], "sh_degree"),
        (&["--sh-degree=0"], "sh_degree"),
        (&["--appearance=exposure"], "appearance.model"),
        (&["--appearance=photometric"], "appearance.model"),
        (&["--appearance=mlp"], "appearance.model"),
        (&["--refine-poses"], "poses.refine"),
        (&["--depth-from=points", "--opacity-reg=0.01"], "depth.from"),
        (&["--background=white"], "background"),
    ] {
        go_on(path, "a", &[&further[..], changes, &["-o=b"]].concat());
        let stopped = [&further[..], changes, &["-o=c", "--stop-at=201"]].concat();
        go_on(path, "a", &stopped);
        ok_in(path, &["train", "-q", "--resume", "c"]);
        assert!(splats(path, "b") == splats(path, "c"), "{changes:?}");
        let text = metrics(path, "b")["continuations"][0]["changes"].to_string();
        assert!(text.contains(key), "{key}: {text}");
        // The next part keeps it.
        go_on(path, "b", &["-q", "--steps=+20"]);
    }
    let refuse = |more: &[&str], words: &[&str]| {
        let args = [&["train", "-q", "--continue", "a"][..], more].concat();
        refused(path, &args, INPUT, words);
    };
    refuse(&["--eval-every=3"], &["data.eval_every", "would be scored"]);
    refuse(&["--initial-gaussians=9"], &["the start of a run"]);
    refuse(&["--antialias"], &["antialias", "--from"]);
    refuse(&["--max-gaussians=10"], &["more than max_gaussians = 10"]);
}

#[test]
fn runs_that_cannot_continue_are_refused_and_stay_as_they_are() {
    let folder = small_capture();
    let path = folder.path();
    train(path, &["-q", "--steps=60", "-o=a"]);
    let first = splats(path, "a");
    let names = files(&path.join("a"));
    let refuse = |run: &str, more: &[&str], words: &[&str]| {
        let args = [&["train", "-q", "--continue", run][..], more].concat();
        refused(path, &args, INPUT, words);
    };
    refuse("a", &["--steps=+0"], &["adds no step", "--steps +2000"]);
    refuse(
        "a",
        &["--steps=60"],
        &["none to continue with", "has done 60"],
    );
    refuse("a", &["--steps=+9", "--stop-at=60"], &["is past"]);
    refuse("a", &["--overwrite"], &["no effect"]);
    refuse("a/splats.ply", &[], &["a file", "--from"]);
    refuse("nowhere", &[], &["no such folder"]);
    refuse("capture", &[], &["holds no run"]);
    refused(
        path,
        &["train", "capture", "--steps=+9", "-o=x"],
        INPUT,
        &["adds steps", "--continue RUN"],
    );
    let ran = refused(
        path,
        &["train", "-q", "--resume", "a"],
        INPUT,
        &["finished"],
    );
    assert!(ran.stderr.contains("train --continue a"), "{}", ran.stderr);
    let old = path.join("a/state.safetensors");
    let whole = std::fs::read(&old).unwrap();
    std::fs::write(&old, &whole[..whole.len() / 2]).unwrap();
    refuse("a", &[], &["cut off", "remove the file"]);
    // The bytes before the header are no text.
    let version = br#""version":"2""#;
    let at = whole.windows(version.len()).position(|w| w == version);
    let at = at.unwrap() + 11;
    let mut newer = whole.clone();
    newer[at] = b'9';
    std::fs::write(&old, &newer).unwrap();
    let args = ["train", "-q", "--continue", "a"];
    refused(path, &args, 5, &["newer Dapple", "--from"]);
    std::fs::write(&old, &whole).unwrap();
    // A photo that has changed.
    let images = path.join("capture/images");
    let photos = files(&images);
    let photo = images.join(&photos[2]);
    let bytes = std::fs::read(&photo).unwrap();
    std::fs::copy(images.join(&photos[1]), &photo).unwrap();
    refuse("a", &[], &["another capture", "has changed", "--continue"]);
    std::fs::write(&photo, bytes).unwrap();
    std::fs::rename(path.join("capture"), path.join("moved")).unwrap();
    refuse("a", &[], &["does not exist", "CAPTURE --continue a"]);
    assert!(first == splats(path, "a"));
    assert_eq!(files(&path.join("a")), names);
    ok_in(path, &["train", "moved", "-q", "--continue", "a"]);
}
