//! Runs with several photos per update: `dapple train --views-per-step`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use crate::common;

use common::exit::INPUT;
use common::{json, ok_in, refused, small_capture};
use std::path::Path;

fn train(path: &Path, out: &str, more: &[&str]) {
    let start = ["train", "capture", "-q", "--preset=m9", "--sh-degree=1"];
    ok_in(path, &[&start[..], &["-o", out], more].concat());
}

fn splats(path: &Path, run: &str) -> Vec<u8> {
    std::fs::read(path.join(run).join("splats.ply")).unwrap()
}

/// A run with batches is repeated by its seed on any number of threads, by its file, after a stop, and by `verify`.
#[test]
fn runs_with_batches_repeat_themselves() {
    let folder = small_capture();
    let path = folder.path();
    let batches = ["--steps=200", "--views-per-step=3"];
    train(path, "a", &batches);
    train(path, "plain", &["--steps=200"]);
    assert!(
        splats(path, "a") != splats(path, "plain"),
        "nothing changed"
    );
    let text = std::fs::read_to_string(path.join("a/config.toml")).unwrap();
    assert!(text.contains("views_per_step = 3"), "{text}");

    train(path, "one", &[&batches[..], &["--threads=1"]].concat());
    train(path, "file", &["--config", "a/config.toml"]);
    train(
        path,
        "stopped",
        &[&batches[..], &["--stop-at=100"]].concat(),
    );
    ok_in(path, &["train", "--resume", "stopped", "-q"]);
    for run in ["one", "file", "stopped"] {
        assert!(splats(path, run) == splats(path, "a"), "{run} differs");
    }
    let found = json(&ok_in(path, &["verify", "a", "--json"]));
    assert_eq!(
        (&found["same"], &found["steps"]),
        (&true.into(), &200.into())
    );

    // A further part may have batches of another size.
    let more = ["--continue", "a", "--steps=+50", "--views-per-step=2", "-q"];
    ok_in(path, &[&["train"], &more[..]].concat());
    let none = ["train", "capture", "-o", "b", "--views-per-step=0"];
    refused(path, &none, INPUT, &["views_per_step = 0"]);
    let words = ["views_per_step = 900", "hint: lower --views-per-step"];
    let all = ["train", "capture", "-o", "b", "--views-per-step=900", "-q"];
    refused(path, &all, INPUT, &words);
}
