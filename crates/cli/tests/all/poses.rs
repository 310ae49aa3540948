//! Inaccurate poses: made, refined and scored; and options that contradict this.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{TRAIN, json, ok_in, refused, small_capture, synth};

#[test]
fn poses_that_are_off_are_refined_and_scored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    synth(path, &["--pose-noise", "0.5,0.01"]);
    let trained = json(&ok_in(
        path,
        &[&TRAIN[..], &["--refine-poses", "--json"]].concat(),
    ));
    assert!(trained["psnr"].is_f64() && trained["aligned_psnr"].is_f64());
    assert!(path.join("out/cameras.json").is_file());

    let scores = [
        "eval",
        "capture",
        "out/splats.ply",
        "--true-cameras",
        "capture/true_cameras.json",
    ];
    let report = json(&ok_in(path, &[&scores[..], &["--json"]].concat()));
    // The run's configuration records the refinement of poses.
    let aligned = report["aligned"]["psnr"].as_f64().unwrap();
    assert!(aligned > report["psnr"].as_f64().unwrap(), "{report}");
    let run = trained["aligned_psnr"].as_f64().unwrap();
    assert!(
        (aligned - run).abs() < 1e-3,
        "{aligned}, the run said {run}"
    );
    let given = report["poses"]["given"]["degrees"].as_f64().unwrap();
    // Half a degree about each of three axes is 0.8 degrees in the mean.
    assert!((0.3..1.5).contains(&given), "{given}");
    assert_eq!(report["poses"]["refined"]["poses"], 7);
    let text = ok_in(path, &scores).stdout;
    assert!(text.contains("aligned: ") && text.contains("refined poses are off by"));
}

#[test]
fn exact_poses_are_found_exact_and_read_back() {
    let folder = small_capture();
    let path = folder.path();
    let options = ["--preset", "m8-smoke", "--steps=2", "-q"];
    let train = [
        &["train", "capture", "-o", "out", "--refine-poses"],
        &options[..],
    ]
    .concat();
    ok_in(path, &train);
    // Nerfstudio's schema: with the path of the photos' folder, the file is a capture.
    std::fs::copy(
        path.join("out/cameras.json"),
        path.join("capture/images/transforms.json"),
    )
    .unwrap();
    let info = json(&ok_in(
        path,
        &["info", "capture/images/transforms.json", "--json"],
    ));
    assert!(info.to_string().contains("PINHOLE"), "{info}");
}

#[test]
fn contradictions_are_refused() {
    let folder = small_capture();
    let path = folder.path();
    let watch = [&TRAIN[..], &["--refine-poses", "--validate-every", "4"]].concat();
    refused(path, &watch, 3, &["poses.refine", "data.validate_every"]);
    let run = ["synth", "off", "--pose-noise", "0.5"];
    assert_ne!(common::run_in(path, &run).code, 0);
}
