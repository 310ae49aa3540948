//! Devices: rows of `doctor` about GPUs, and commands on GPUs.
//!
//! The tests use Mesa's software renderer only, so that the results are equal on every machine. It
//! is slow: everything here is tiny.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::exit::UNSUPPORTED;
use common::{TRAIN, dapple, json, ok_in, refused, small_capture};
use dapple::ply;
use dapple::runtime::adapters;
use dapple::synth;
use std::fmt::Write as _;
use std::path::Path;

/// Returns true if there is a software renderer; otherwise prints what is not tested.
fn has_llvmpipe(what: &str) -> bool {
    let found = adapters()
        .iter()
        .any(|a| a.name.contains("llvmpipe") && a.unusable.is_none());
    if !found {
        let why = format!(
            "{what} is NOT tested: Mesa's software Vulkan driver is not installed (apt install \
             mesa-vulkan-drivers)"
        );
        dapple::scene::test_requirements::skipped("gpu", &why);
    }
    found
}

#[test]
fn doctor_lists_every_gpu_with_what_it_can_do() {
    let folder = tempfile::tempdir().unwrap();
    let report = json(&ok_in(folder.path(), &["doctor", "--json"]));
    let findings = report["findings"].as_array().unwrap();
    let text = ok_in(folder.path(), &["doctor"]).stdout;
    let listed = adapters();
    let named = |name: &str| findings.iter().find(|f| f["name"] == name);
    for adapter in &listed {
        let name = format!("gpu:{}", adapter.index);
        let finding = named(&name).unwrap_or_else(|| panic!("{name}: {report}"));
        let value = finding["value"].as_str().unwrap();
        for part in [&adapter.name, &adapter.backend, &adapter.driver] {
            assert!(value.contains(part.as_str()), "{part}: {value}");
        }
        assert!(text.contains(value), "{text}");
        assert_eq!(finding["adapter"]["name"], adapter.name.as_str());
        assert_eq!(
            finding["adapter"]["max_binding_bytes"],
            adapter.max_binding_bytes
        );
        let fine = !adapter.is_software && adapter.missing.is_empty() && adapter.unusable.is_none();
        assert_eq!(finding["verdict"] == "ok", fine, "{finding}");
        if adapter.is_software {
            let advice = finding["advice"].as_str().unwrap();
            assert!(advice.contains("slower than --device cpu"), "{advice}");
        }
        for missing in &adapter.missing {
            assert!(text.contains(missing.as_str()), "{missing}: {text}");
        }
    }
    let gpus = findings.iter().filter(|f| f.get("adapter").is_some());
    assert_eq!(gpus.count(), listed.len());
    let auto = named("device auto").unwrap()["value"].as_str().unwrap();
    let hardware = listed
        .iter()
        .any(|a| !a.is_software && a.unusable.is_none());
    assert_eq!(auto.starts_with("gpu:"), hardware, "{auto}");
    assert!(
        hardware || auto.contains("no hardware GPU answers"),
        "{auto}"
    );
}

#[test]
fn auto_says_what_it_takes_and_why() {
    let folder = small_capture();
    let mut args = TRAIN.to_vec();
    args.retain(|arg| *arg != "-q");
    args.push("--device=auto");
    let ran: common::Ran = dapple()
        .args(args)
        .current_dir(folder.path())
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let line = ran
        .stderr
        .lines()
        .find(|line| line.starts_with("device: "))
        .unwrap();
    assert!(
        line.ends_with(": no hardware GPU answers") || line.starts_with("device: gpu ("),
        "{line}"
    );
    let metrics = std::fs::read_to_string(folder.path().join("out/metrics.json")).unwrap();
    let metrics: serde_json::Value = serde_json::from_str(&metrics).unwrap();
    let device = metrics["device"].as_str().unwrap();
    assert!(line.contains(device), "{line}, {device}");
}

#[test]
fn a_gpu_trains_what_the_processor_trains() {
    if !has_llvmpipe("training on a GPU from the command line") {
        return;
    }
    let folder = small_capture();
    let path = folder.path();
    let args = [&TRAIN[..], &["--device", "gpu:LLVMpipe", "--json"]].concat();
    let trained = json(&ok_in(path, &args));
    assert_eq!(
        (&trained["steps"], &trained["ending"]["reason"]),
        (&12.into(), &"finished".into())
    );
    let metrics = std::fs::read_to_string(path.join("out/metrics.json")).unwrap();
    let metrics: serde_json::Value = serde_json::from_str(&metrics).unwrap();
    assert!(metrics["device"].as_str().unwrap().contains("llvmpipe"));
    assert_eq!(metrics["losses"].as_array().unwrap().len(), 3, "{metrics}");
    // Training takes most of the time between start and end: the program waited for the device.
    let seconds = &metrics["seconds"];
    assert!(seconds["train"].as_f64().unwrap() > 0.0, "{seconds}");
    for row in metrics["losses"].as_array().unwrap() {
        assert!(row["steps_per_second"].as_f64().unwrap() > 0.0, "{row}");
    }

    // The CPU engine scores the GPU's splats with the same result as the GPU.
    let score = ["eval", "capture", "out/splats.ply", "--json"];
    let scores = json(&ok_in(path, &score));
    let on_gpu = trained["psnr"].as_f64().unwrap();
    let on_cpu = scores["psnr"].as_f64().unwrap();
    assert!((on_gpu - on_cpu).abs() < 0.01, "{on_gpu} {on_cpu}");
    let mut args = TRAIN.to_vec();
    args[4] = "cpu";
    let other = json(&ok_in(path, &[&args[..], &["--json"]].concat()));
    let other = other["psnr"].as_f64().unwrap();
    assert!((on_gpu - other).abs() < 0.05, "{on_gpu} {other}");
}

/// Makes a folder for `bench step`: 300 points, some outside the box, and two cameras.
fn garden(folder: &Path) {
    let mut ply = "ply\nformat ascii 1.0\nelement vertex 310\nproperty float x\nproperty float y\n\
                   property float z\nproperty uchar red\nproperty uchar green\n\
                   property uchar blue\nend_header\n"
        .to_owned();
    for i in 0..310 {
        let (x, y) = (i % 20, i / 20);
        let z = if i < 300 { 0.0 } else { 9.0 };
        let (x, y) = (f64::from(x) * 0.1 - 1.0, f64::from(y) * 0.1 - 0.8);
        writeln!(ply, "{x} {y} {z} 200 {} 40", i % 256).unwrap();
    }
    std::fs::write(folder.join("points.ply"), ply).unwrap();
    let camera =
        |x: f64| serde_json::json!([[1, 0, 0, x], [0, 1, 0, 0], [0, 0, 1, 8], [0, 0, 0, 1]]);
    let cameras = serde_json::json!({
        "width": 64, "height": 48,
        "K": [[60, 0, 32], [0, 60, 24], [0, 0, 1]],
        "camera_from_world": [camera(0.0), camera(0.3)],
    });
    std::fs::write(folder.join("cameras.json"), cameras.to_string()).unwrap();
}

const STAGES: [&str; 9] = [
    "blend",
    "blend_backward",
    "emit",
    "loss",
    "order",
    "project",
    "ranges",
    "sort",
    "update",
];

/// Checks the output of `bench step`, and returns the counts of its cameras.
#[track_caller]
fn check_step(found: &serde_json::Value, steps_per_time: u32) -> Vec<[u64; 2]> {
    let [run] = found["runs"].as_array().unwrap().as_slice() else {
        panic!("one run: {found}");
    };
    assert_eq!(
        (&run["gaussians"], &run["tiles"]),
        (&1200.into(), &2.into())
    );
    assert_eq!(run["steps_per_time"], steps_per_time);
    assert!(run["step"]["median_ms"].as_f64().unwrap() > 0.0, "{run}");
    let stages = run["stages"].as_array().unwrap();
    let mut names: Vec<&str> = stages
        .iter()
        .map(|s| s["stage"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, STAGES);
    for stage in stages {
        for key in ["median_ms", "bytes", "floor_ms", "over_floor"] {
            assert!(stage[key].as_f64().unwrap() > 0.0, "{key}: {stage}");
        }
    }
    let cameras = run["cameras"].as_array().unwrap().iter();
    let counts = cameras.map(|c| ["visible", "instances"].map(|key| c[key].as_u64().unwrap()));
    counts.collect()
}

#[test]
fn the_fixed_step_is_timed_on_every_kind_of_engine() {
    let folder = tempfile::tempdir().unwrap();
    garden(folder.path());
    let args = [
        "bench",
        "step",
        ".",
        "-q",
        "--tiles=2",
        "--size=64x48",
        "--steps=3",
        "--json",
    ];
    let on = |device: &str| {
        json(&ok_in(
            folder.path(),
            &[&args[..], &["--device", device]].concat(),
        ))
    };
    let cpu = on("cpu");
    let counts = check_step(&cpu, 1);
    assert_eq!(counts.len(), 2);
    for [visible, instances] in &counts {
        assert!(*visible > 200 && instances >= visible, "{counts:?}");
    }
    assert!(cpu["runs"][0]["host_per_step"].is_null());
    if !has_llvmpipe("`dapple bench step` on a GPU") {
        return;
    }
    let gpu = on("gpu:llvmpipe");
    assert!(gpu["machine"]["gpu"]["is_software"].as_bool().unwrap());
    let on_gpu = check_step(&gpu, 3);
    for (a, b) in counts.iter().flatten().zip(on_gpu.iter().flatten()) {
        // Both devices have the same tile rule, but round differently.
        assert!(a.abs_diff(*b) <= 1 + a / 1000, "{counts:?} {on_gpu:?}");
    }
    let host = &gpu["runs"][0]["host_per_step"];
    for (key, expected) in [
        ("waits", 0.0),
        ("buffers_created", 0.0),
        ("bytes_written", 0.0),
    ] {
        assert_eq!(host[key].as_f64().unwrap(), expected, "{key}: {host}");
    }
    assert!(host["dispatches"].as_f64().unwrap() > 9.0, "{host}");
}

#[test]
fn frames_without_training_are_timed_on_every_kind_of_engine() {
    let folder = tempfile::tempdir().unwrap();
    garden(folder.path());
    let on = |device: &str| {
        let args = [
            "bench",
            "render",
            ".",
            "-q",
            "--tiles=2",
            "--size=64x48",
            "--frames=3",
        ];
        let args = [&args[..], &["--json", "--device", device]].concat();
        let found = json(&ok_in(folder.path(), &args));
        let run = found["runs"][0].clone();
        assert_eq!(
            (&run["gaussians"], &run["width"]),
            (&1200.into(), &64.into())
        );
        let median = run["frame"]["median_ms"].as_f64().unwrap();
        let per_second = run["frames_per_s"].as_f64().unwrap();
        assert!(
            median > 0.0 && (per_second * median / 1e3 - 1.0).abs() < 1e-6,
            "{run}"
        );
        let cameras = run["cameras"].as_array().unwrap();
        assert!(
            cameras.len() == 2 && cameras.iter().all(|c| c["visible"].as_u64().unwrap() > 200),
            "{run}"
        );
        run
    };
    let cpu = on("cpu");
    assert_eq!(
        (&cpu["frames_per_time"], &cpu["parts"]),
        (&1.into(), &serde_json::json!([]))
    );
    if !has_llvmpipe("`dapple bench render` on a GPU") {
        return;
    }
    let gpu = on("gpu:llvmpipe");
    assert_eq!(gpu["frames_per_time"], 3);
    assert_eq!(
        (&cpu["at_once"], &gpu["at_once"]["views"]),
        (&serde_json::Value::Null, &3.into())
    );
    assert!(
        gpu["at_once"]["frames_per_s"].as_f64().unwrap() > 0.0,
        "{gpu}"
    );
    let parts = gpu["parts"].as_array().unwrap();
    let names: Vec<&str> = parts
        .iter()
        .map(|part| part["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        (names.first(), names.last()),
        (Some(&"begin.begin"), Some(&"blend.blend"))
    );
    assert!(
        parts
            .iter()
            .any(|part| part["times"]["median_ms"].as_f64().unwrap() > 0.0),
        "{gpu}"
    );
}

#[test]
fn a_palette_found_on_a_gpu_makes_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // Enough Gaussians that the command uses a device.
    let splats = synth::splats(36_000, 1).with_sh_degree(1);
    ply::write(&path.join("in.ply"), &splats).unwrap();
    // A named device is used, and has to exist.
    let absent = [
        "convert",
        "in.ply",
        "x.sog",
        "--no-loss",
        "--device",
        "gpu:none such",
    ];
    refused(path, &absent, UNSUPPORTED, &["--device gpu:none such"]);
    if !has_llvmpipe("a palette on a GPU") {
        return;
    }
    let verbs = [
        &["convert", "in.ply", "a.sog", "--no-loss", "--device", "cpu"][..],
        &[
            "convert",
            "in.ply",
            "b.sog",
            "--no-loss",
            "--device",
            "gpu:llvmpipe",
        ],
        &[
            "edit",
            "in.ply",
            "c.sog",
            "--sh-degree",
            "1",
            "--device",
            "gpu:llvmpipe",
        ],
    ];
    let files = verbs.map(|verb| {
        ok_in(path, verb);
        std::fs::read(path.join(verb[2])).unwrap()
    });
    assert!(files[0] == files[1] && files[0] == files[2]);
}

#[test]
fn a_run_stays_within_the_memory_of_a_gpu_that_is_set() {
    if !has_llvmpipe("runs within the memory of a GPU") {
        return;
    }
    let folder = small_capture();
    let path = folder.path();
    let mut args = vec![
        "train",
        "capture",
        "--steps",
        "20",
        "--device",
        "gpu:llvmpipe",
    ];
    args.extend(["-o", "run", "--max-gaussians", "1000000", "--gpu-memory"]);
    let ran = ok_in(path, &[&args[..], &["64MiB"]].concat());
    let note = "and the 32.0 MiB that this device has for them hold about";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
    assert!(ran.stderr.contains("fits about"), "{}", ran.stderr);
    // Less than the first Gaussians need.
    let too_little = [&args[..], &["1MiB", "--overwrite"]].concat();
    let words = ["no memory left", "the limit of 1 MiB"];
    refused(path, &too_little, UNSUPPORTED, &words);
}
