//! Runs within a budget of memory for photos, and within a budget of time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{ok_in, refused, small_capture};
use std::path::Path;

fn splats(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("splats.ply")).unwrap()
}

fn metrics(folder: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join("metrics.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn photos_beyond_their_memory_change_nothing_and_are_told_of() {
    let folder = small_capture();
    let path = folder.path();
    let run = |out: &str, more: &[&str]| {
        let mut args = vec!["train", "capture", "--preset", "m9", "--steps", "120"];
        args.extend(["--sh-degree", "0", "-o", out]);
        args.extend(more);
        ok_in(path, &args)
    };
    run("held", &[]);
    let streamed = run("streamed", &["--photo-memory", "24KiB"]);
    assert!(
        streamed.stderr.contains("24.0 KiB (as asked)"),
        "{}",
        streamed.stderr
    );
    assert!(
        streamed.stdout.contains("photos    read "),
        "{}",
        streamed.stdout
    );
    run("parts", &["--photo-memory", "24KiB", "--stop-at", "50"]);
    ok_in(
        path,
        &[
            "train",
            "--resume",
            "parts",
            "--photo-memory",
            "24KiB",
            "-q",
        ],
    );
    assert!(splats(&path.join("held")) == splats(&path.join("streamed")));
    assert!(splats(&path.join("held")) == splats(&path.join("parts")));
    let (held, streamed) = (metrics(&path.join("held")), metrics(&path.join("streamed")));
    assert_eq!(held["photos"], serde_json::Value::Null);
    assert_eq!(held["images"], streamed["images"]);
    let photos = &streamed["photos"];
    assert!(
        photos["peak_bytes"].as_u64().unwrap() <= 24 << 10,
        "{photos}"
    );
    assert_eq!(
        photos["ready"].as_u64().unwrap() + photos["waits"].as_u64().unwrap(),
        120
    );

    let tiny = ["train", "capture", "-o", "none", "--photo-memory", "1KiB"];
    refused(
        path,
        &tiny,
        3,
        &["less than 4 of the largest", "MiB or more"],
    );
    assert!(!path.join("none").exists());
    // A broken photo is found before the first step, though nothing was decoded.
    let photo = path.join("capture/images").read_dir().unwrap().next();
    let photo = photo.unwrap().unwrap().path();
    let bytes = std::fs::read(&photo).unwrap();
    std::fs::write(&photo, &bytes[..bytes.len() / 2]).unwrap();
    let broken = ["train", "capture", "-o", "none", "--photo-memory", "24KiB"];
    refused(path, &broken, 3, &["ends early"]);
}

#[test]
fn a_run_for_a_time_ends_and_its_configuration_repeats_it() {
    let folder = small_capture();
    let path = folder.path();
    let args = [
        "train",
        "capture",
        "--sh-degree",
        "0",
        "-o",
        "timed",
        "--time-budget",
        "2s",
    ];
    let timed = ok_in(path, &args);
    assert!(timed.stderr.contains("time budget"), "{}", timed.stderr);
    let config = path.join("timed/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    for key in [
        "steps = ",
        "step_rate = ",
        "downscale = ",
        "max_gaussians = ",
    ] {
        assert!(text.contains(key), "{key}: {text}");
    }
    ok_in(
        path,
        &[
            "train",
            "capture",
            "-q",
            "--config",
            "timed/config.toml",
            "-o",
            "again",
        ],
    );
    assert!(splats(&path.join("timed")) == splats(&path.join("again")));
    let (timed, again) = (metrics(&path.join("timed")), metrics(&path.join("again")));
    assert_eq!(timed["steps"], again["steps"]);
    assert_eq!(timed["psnr"], again["psnr"]);

    // A further part for a time: its plan and its step rates are stored, and a run of this configuration is another.
    let more = ["train", "--continue", "again", "--time-budget", "1s"];
    let said = ok_in(path, &more).stderr;
    assert!(said.contains("with its optimizer state"), "{said}");
    let longer = metrics(&path.join("again"));
    assert!(longer["steps"].as_u64() > again["steps"].as_u64());
    assert_eq!(longer["continuations"][0]["after"], again["steps"]);

    let contradictions: [&[&str]; 3] = [
        &["train", "capture", "--time-budget", "2s", "--steps", "10"],
        &["train", "--resume", "timed", "--time-budget", "2s"],
        &["train", "capture", "--time-budget", "soon"],
    ];
    for args in contradictions {
        let ran = common::run_in(path, args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
    }
    let named = [
        "train",
        "capture",
        "-o",
        "none",
        "--time-budget",
        "2s",
        "--config",
    ];
    let named: Vec<&str> = named.into_iter().chain(["timed/config.toml"]).collect();
    refused(path, &named, 3, &["names steps"]);
}
