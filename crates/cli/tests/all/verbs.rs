//! Every command on a small capture, in the ways of users and scripts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{TRAIN, dapple, files, json, ok_in, run_in, small_capture, synth};
use std::io::Read;
use std::process::Stdio;

#[test]
fn every_verb_explains_itself() {
    let here = std::env::current_dir().unwrap();
    let general = ok_in(&here, &["--help"]).stdout;
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "130 "] {
        assert!(general.contains(&format!("\n  {code}")), "exit code {code}");
    }
    for verb in [
        "demo", "synth", "photos", "train", "eval", "verify", "render", "view", "info", "convert",
        "edit", "bench", "doctor",
    ] {
        assert!(
            general.contains(&format!("\n  {verb}")),
            "{verb} is not listed"
        );
        let help = ok_in(&here, &[verb, "--help"]).stdout;
        assert!(help.contains("Examples:"), "{verb} has no examples");
        let too_wide = help.lines().find(|line| line.chars().count() > 100);
        assert_eq!(too_wide, None, "{verb}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &[&TRAIN[..], &["--threads", "1"]].concat());
    let first = std::fs::read(path.join("out/splats.ply")).unwrap();
    ok_in(
        path,
        &[&TRAIN[..], &["--threads", "2", "--overwrite"]].concat(),
    );
    let again = std::fs::read(path.join("out/splats.ply")).unwrap();
    assert!(first == again, "two runs of one seed differ");
    ok_in(
        path,
        &[&TRAIN[..], &["--seed", "1", "--overwrite"]].concat(),
    );
    let other = std::fs::read(path.join("out/splats.ply")).unwrap();
    assert!(first != other, "the seed changes nothing");
}

#[test]
fn a_run_leaves_what_the_help_promises_and_eval_agrees_with_it() {
    let folder = small_capture();
    let path = folder.path();
    let trained = json(&ok_in(path, &[&TRAIN[..], &["--json"]].concat()));
    assert_eq!(trained["steps"], 12);
    let left: Vec<String> = files(&path.join("out"))
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let renders: Vec<_> = left.iter().filter(|f| f.starts_with("renders/")).collect();
    assert_eq!(renders.len(), 2, "{left:?}");
    for name in [
        "cameras.json",
        "capture.json",
        "config.toml",
        "metrics.csv",
        "metrics.json",
        "splats.ply",
        "state.safetensors",
    ] {
        assert!(left.iter().any(|file| file == name), "{name}: {left:?}");
    }
    assert_eq!(left.iter().filter(|f| f.starts_with("errors/")).count(), 2);
    assert_eq!(left.len(), 11, "nothing else: {left:?}");

    let args = [
        "eval",
        "capture",
        "out/splats.ply",
        "--json",
        "-o",
        "compare",
    ];
    let scores = json(&ok_in(path, &args));
    let images = scores["images"].as_array().unwrap();
    assert_eq!(images.len(), 2);
    for key in ["psnr", "ssim"] {
        let mean = scores[key].as_f64().unwrap();
        let each: f64 = images
            .iter()
            .map(|image| image[key].as_f64().unwrap())
            .sum();
        assert!((each / 2.0 - mean).abs() < 1e-9, "{key}");
        let run = trained[key].as_f64().unwrap();
        assert!(
            (mean - run).abs() < 1e-9,
            "{key}: {mean}, the run said {run}"
        );
    }
    let written = files(&path.join("compare"));
    assert_eq!(written.len(), 6, "{written:?}");
    let kept = std::fs::read(path.join("compare/scores.json")).unwrap();
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&kept).unwrap(),
        scores
    );
    // The run's own pictures are equal.
    for kind in ["renders", "errors"] {
        let name = files(&path.join("out").join(kind))[0].clone();
        let read = |folder: &str| std::fs::read(path.join(folder).join(kind).join(&name)).unwrap();
        assert!(read("out") == read("compare"), "{kind}");
    }
    let table = ok_in(path, &["eval", "capture", "out/splats.ply", "--markdown"]).stdout;
    assert_eq!(table.lines().count(), 5, "{table}");
    assert!(
        table
            .lines()
            .all(|line| line.starts_with('|') && line.ends_with('|'))
    );
}

/// The parts of the wall time add up to the whole, of this command and of the run. Time of a run before it was resumed
/// is not in the line.
#[test]
fn a_run_ends_with_where_its_time_went() {
    let folder = small_capture();
    let path = folder.path();
    let whole = |seconds: &serde_json::Value| {
        let parts = seconds.as_object().unwrap().values();
        parts.map(|part| part.as_f64().unwrap()).sum::<f64>()
    };
    let started = std::time::Instant::now();
    let first = json(&ok_in(
        path,
        &[&TRAIN[..], &["--stop-at", "6", "--json"]].concat(),
    ));
    let most = started.elapsed().as_secs_f64();
    for part in ["device", "load", "setup", "train", "write"] {
        let took = first["wall_seconds"][part].as_f64().unwrap();
        assert!(took > 0.0, "{part}: {first}");
    }
    assert!(whole(&first["wall_seconds"]) < most, "{first}");
    assert_eq!(first["seconds"], first["wall_seconds"]);

    let line = ok_in(path, &["train", "--resume", "out"]).stdout;
    let line = line.lines().last().unwrap();
    let numbers = line
        .split_whitespace()
        .filter_map(|word| word.parse::<f64>().ok());
    let numbers: Vec<f64> = numbers.collect();
    assert!(
        line.starts_with("time ") && line.ends_with(" s in all"),
        "{line}"
    );
    for part in ["device", "loading", "training", "scoring", "writing"] {
        assert!(line.contains(part), "{line}");
    }
    // Device, loading, training, scoring, writing and their sum, rounded to a tenth each.
    assert_eq!(numbers.len(), 6, "{line}");
    let off = numbers[..5].iter().sum::<f64>() - numbers[5];
    assert!(off.abs() < 0.31, "{line}");
    let metrics = std::fs::read_to_string(path.join("out/metrics.json")).unwrap();
    let metrics: serde_json::Value = serde_json::from_str(&metrics).unwrap();
    let before = first["seconds"]["train"].as_f64().unwrap();
    assert!(metrics["seconds"]["train"].as_f64().unwrap() > before);
    assert!(
        metrics["seconds"]["eval"].as_f64().unwrap() > 0.0,
        "{metrics}"
    );
}

/// The 3D filters are stored in the file of splats, the 2D filter in the configuration next to it: `eval` and the run
/// see the same images. Without a configuration, the option sets the filter.
#[test]
fn splats_trained_against_aliasing_are_looked_at_so() {
    let folder = small_capture();
    let path = folder.path();
    let trained = json(&ok_in(
        path,
        &[&TRAIN[..], &["--antialias", "--json"]].concat(),
    ));
    let psnr = |args: &[&str]| {
        let scored = ok_in(path, &[&["eval", "capture"], args, &["--json"]].concat());
        json(&scored)["psnr"].as_f64().unwrap()
    };
    let config = std::fs::read_to_string(path.join("out/config.toml")).unwrap();
    assert!(config.contains("\nantialias = true\n"), "{config}");
    let run = trained["psnr"].as_f64().unwrap();
    // Files hold the product of the 3D filter with scales and opacities, rounded.
    assert!((psnr(&["out/splats.ply"]) - run).abs() < 1e-3);

    std::fs::create_dir(path.join("alone")).unwrap();
    std::fs::copy(path.join("out/splats.ply"), path.join("alone/splats.ply")).unwrap();
    let near = config.lines().find_map(|line| line.strip_prefix("near = "));
    std::fs::write(
        path.join("alone/config.toml"),
        format!("near = {}\n", near.unwrap()),
    )
    .unwrap();
    // The file has a mark; a file without a mark is filtered on request.
    assert!((psnr(&["alone/splats.ply"]) - run).abs() < 1e-3);
    let bytes = std::fs::read(path.join("alone/splats.ply")).unwrap();
    let said = b"comment SplatRenderMode: mip\n";
    let at = bytes.windows(said.len()).position(|part| part == said);
    let at = at.expect("the file names its filter");
    let silent = [&bytes[..at], &bytes[at + said.len()..]].concat();
    std::fs::write(path.join("alone/splats.ply"), silent).unwrap();
    assert!((psnr(&["alone/splats.ply", "--antialias"]) - run).abs() < 1e-3);
    assert!((psnr(&["alone/splats.ply"]) - run).abs() > 1e-2);
}

#[test]
fn photos_that_drift_are_trained_on_with_their_appearance() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    synth(path, &["--drift", "1"]);
    let args = [&TRAIN[..], &["--appearance", "exposure", "--json"]].concat();
    let trained = json(&ok_in(path, &args));
    let fitted = trained["cc_psnr"].as_f64().unwrap();
    assert!(fitted > trained["psnr"].as_f64().unwrap(), "{trained}");
    let learnt = std::fs::read(path.join("out/appearance.safetensors")).unwrap();
    let header = String::from_utf8_lossy(&learnt);
    assert!(header.contains("[7,1,1,1,3,4]") && header.contains("001.png"));
    // `eval` reads the appearance setting from the run's configuration.
    let eval = ["eval", "capture", "out/splats.ply"];
    let scores = json(&ok_in(path, &[&eval[..], &["--json"]].concat()));
    assert!((scores["cc_psnr"].as_f64().unwrap() - fitted).abs() < 1e-9);
    assert!(scores["images"][0]["cc_ssim"].is_number());
    assert!(ok_in(path, &eval).stdout.contains("fitted"));
    // Without the setting there are no fitted scores, unless an option requests them.
    ok_in(path, &[&TRAIN[..], &["--overwrite"]].concat());
    assert!(!path.join("out/appearance.safetensors").exists());
    assert!(!ok_in(path, &eval).stdout.contains("fitted"));
    let asked = [&eval[..], &["--colour-corrected"]].concat();
    assert!(ok_in(path, &asked).stdout.contains("fitted"));
}

#[test]
fn a_printed_configuration_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let args = [
        "train",
        "--preset",
        "m9",
        "--steps",
        "700",
        "--seed",
        "5",
        "--sh-degree",
        "2",
    ];
    let more = [
        "--background",
        "1,0.5,0",
        "--downscale",
        "2",
        "--print-config",
    ];
    let printed = ok_in(path, &[&args[..], &more].concat()).stdout;
    std::fs::write(path.join("mine.toml"), &printed).unwrap();
    let again = ok_in(path, &["train", "--config", "mine.toml", "--print-config"]).stdout;
    assert_eq!(printed, again);
    assert!(
        printed.contains("steps = 700") && printed.contains("seed = 5"),
        "{printed}"
    );
    // An option overrides the file, and the file overrides the preset.
    let over = ok_in(
        path,
        &["train", "-c", "mine.toml", "--seed", "6", "--print-config"],
    )
    .stdout;
    assert!(
        over.contains("seed = 6") && over.contains("steps = 700"),
        "{over}"
    );
    assert_eq!(files(path).len(), 1, "printing makes no folder");
}

#[test]
fn results_are_replaced_only_when_told_to() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let before = std::fs::read(path.join("out/splats.ply")).unwrap();
    common::refused(path, &TRAIN, 3, &["--overwrite"]);
    let convert = ["convert", "out/splats.ply", "out/splats.ply"];
    common::refused(path, &convert, 3, &["file of a run"]);
    common::refused(path, &["synth", "capture"], 3, &["--overwrite"]);
    let blocks = ["synth", "other", "--scene=field", "--blocks=3"];
    common::refused(path, &blocks, 3, &["--scene city"]);
    common::refused(path, &["demo", "-o", "out"], 3, &["not a demo"]);
    assert!(before == std::fs::read(path.join("out/splats.ply")).unwrap());
}

#[test]
fn render_makes_the_pictures_it_is_asked_for() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let render = |args: &[&str]| {
        ok_in(path, &[&["render", "out/splats.ply", "-q"], args].concat());
    };
    let size = |file: &str| image::image_dimensions(path.join(file)).unwrap();
    render(&["--scene", "capture", "--views", "all", "-o", "all"]);
    assert_eq!(files(&path.join("all")).len(), 9);
    render(&["--scene", "capture", "--views", "train", "-o", "train"]);
    assert_eq!(files(&path.join("train")).len(), 7);
    render(&[
        "--scene", "capture", "--path", "orbit", "--frames", "3", "-o", "ring",
    ]);
    assert_eq!(files(&path.join("ring")).len(), 3);
    assert_eq!(size("ring/00002.png"), (48, 36));
    render(&[
        "--path", "orbit", "--frames", "2", "--width", "64", "-o", "free",
    ]);
    assert_eq!(size("free/00001.png"), (64, 48));
    let camera = r#"{"width": 40, "height": 30, "eye": [0, -1, -4], "target": [0, 0, 0]}"#;
    std::fs::write(path.join("camera.json"), camera).unwrap();
    render(&["--camera", "camera.json", "-o", "one/picture.png"]);
    assert_eq!(size("one/picture.png"), (40, 30));

    // A held-out view rendered here equals the right half of the run's own comparison.
    render(&["--scene", "capture", "--views", "held-out", "-o", "held"]);
    let held = files(&path.join("held"));
    assert_eq!(held.len(), 2);
    let pixels = |file: std::path::PathBuf| image::open(path.join(file)).unwrap().into_rgb8();
    let both = pixels(std::path::Path::new("out/renders").join(&held[0]));
    let right = image::imageops::crop_imm(&both, 48, 0, 48, 36).to_image();
    assert!(right == pixels(std::path::Path::new("held").join(&held[0])));
}

#[test]
fn info_and_convert_tell_what_is_there() {
    let folder = small_capture();
    let path = folder.path();
    let capture = json(&ok_in(path, &["info", "capture", "--json", "--check"]));
    assert_eq!(
        (&capture["photos"], &capture["held_out"]),
        (&9.into(), &2.into())
    );
    assert_eq!(capture["lenses"]["PINHOLE"], 9);
    ok_in(path, &TRAIN);
    let splats = json(&ok_in(path, &["info", "out", "--json"]));
    let count = splats["gaussians"].as_u64().unwrap();
    assert!(count > 100, "{count}");
    assert_eq!(splats["sh_degree"], 3);
    for verb in ["capture", "out/splats.ply"] {
        assert!(ok_in(path, &["info", verb]).stdout.lines().count() > 5);
    }
    let small = ["convert", "out/splats.ply", "small.ply", "--sh-degree", "0"];
    let told = json(&ok_in(
        path,
        &[&small[..], &["--max-gaussians", "50", "--json"]].concat(),
    ));
    assert_eq!(
        (&told["gaussians"], &told["gaussians_read"]),
        (&50.into(), &count.into())
    );
    let again = json(&ok_in(path, &["info", "small.ply", "--json"]));
    assert_eq!(
        (&again["gaussians"], &again["sh_degree"]),
        (&50.into(), &0.into())
    );
    // A conversion without a change keeps every byte.
    ok_in(path, &["convert", "small.ply", "same.ply"]);
    let bytes = |name: &str| std::fs::read(path.join(name)).unwrap();
    assert!(bytes("small.ply") == bytes("same.ply"));
    // Another format, by its name: data that it cannot hold is reported, and all commands read it.
    let web = ok_in(path, &["convert", "out", "web.splat"]);
    assert!(
        web.stderr.contains("direction of view is lost"),
        "{}",
        web.stderr
    );
    assert_eq!(bytes("web.splat").len() as u64, 32 * count);
    let web = json(&ok_in(path, &["info", "web.splat", "--json"]));
    assert_eq!(
        (&web["gaussians"], &web["sh_degree"]),
        (&count.into(), &0.into())
    );
    ok_in(path, &["eval", "capture", "web.splat", "-q"]);
    // Every format is read as it was written, and its loss is reported. The smallest format within a loss is found.
    for name in [
        "a.spz",
        "a.sog",
        "a.compressed.ply",
        "a.glb",
        "sog/meta.json",
        "lod/lod-meta.json",
    ] {
        // The loss is measured in the capture's small photos; above it was measured in the default views. glTF loses
        // nothing.
        let mut convert = vec!["convert", "out", name, "--json", "-q"];
        if name != "a.glb" {
            convert.extend(["--capture", "capture"]);
        }
        let said = json(&ok_in(path, &convert));
        assert_eq!(said["gaussians"], count, "{name}");
        assert!(
            said["bytes"].as_u64().unwrap() > 0 && said["ratio"].as_f64().unwrap() > 0.5,
            "{name}"
        );
        let lost = &said["loss"]["lost_db"];
        assert_eq!(lost.as_f64().is_some(), name != "a.glb", "{name}: {said}");
        assert_eq!(
            json(&ok_in(path, &["info", name, "--json"]))["gaussians"],
            count,
            "{name}"
        );
    }
    // A folder of levels of detail can be named, and also the file in it.
    assert!(path.join("lod/0_0/meta.json").is_file());
    let folder = json(&ok_in(path, &["info", "lod", "--json"]));
    assert_eq!(folder["gaussians"], count);
    let one = [
        "convert",
        "lod",
        "one/lod-meta.json",
        "--lod-levels",
        "1",
        "--no-loss",
    ];
    ok_in(path, &one);
    ok_in(path, &["info", "sog"]);
    let measured = [
        "convert",
        "out",
        "b.spz",
        "--capture",
        "capture",
        "--spz-version",
        "4",
        "--json",
        "-q",
    ];
    let measured = json(&ok_in(path, &measured));
    assert_eq!(measured["loss"]["cameras"], "capture");
    let chosen = json(&ok_in(
        path,
        &[
            "convert",
            "out",
            "best",
            "--max-loss",
            "30dB",
            "--capture",
            "capture",
            "--json",
            "-q",
        ],
    ));
    assert!(
        chosen["loss"]["lost_db"].as_f64().unwrap() <= 30.0,
        "{chosen}"
    );
    assert!(path.join(chosen["output"].as_str().unwrap()).is_file());
    // In the default views, because the capture's photos are too small to show the loss of a format.
    let exact = ["convert", "out", "exact", "--max-loss", "0", "--json", "-q"];
    let exact = json(&ok_in(path, &exact));
    assert_eq!(
        (&exact["output"], &exact["loss"]["psnr"]),
        (&"exact.ply".into(), &100.0.into())
    );
    // A minimum opacity between 0 and 1 keeps fewer Gaussians, never more.
    let clear = ["convert", "small.ply", "clear.ply", "--min-opacity", "1"];
    assert!(ok_in(path, &clear).stdout.contains("0 of 50"));
}

#[test]
fn doctor_reports_and_a_demo_runs_end_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let report = json(&ok_in(path, &["doctor", "--json"]));
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert!(ok_in(path, &["doctor"]).stdout.contains("vector units"));

    let demo = ok_in(path, &["demo", "--steps", "3"]);
    for name in ["splats.ply", "metrics.json", "renders", "capture"] {
        let place = path.join("out/demo").join(name);
        assert!(
            place.exists() && demo.stdout.contains(name),
            "{name}: {}",
            demo.stdout
        );
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let folder = small_capture();
    let mut child = dapple()
        .args(["info", "capture"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn data_and_remarks_go_their_own_ways() {
    let folder = small_capture();
    let path = folder.path();
    let mut args: Vec<&str> = TRAIN.to_vec();
    args.retain(|arg| *arg != "-q");
    let loud = ok_in(path, &args);
    assert!(loud.stderr.contains("step 12/12"), "{}", loud.stderr);
    assert!(loud.stdout.contains("splats.ply") && !loud.stdout.contains("step 12/12"));
    args.extend(["--overwrite", "--quiet"]);
    assert_eq!(run_in(path, &args).stderr, "");
}

#[test]
fn strategies_keep_their_budget_and_tell_what_they_did() {
    let folder = small_capture();
    let path = folder.path();
    for (strategy, budget, expected) in [("mcmc", "210", 210), ("budgeted", "230", 230)] {
        let args = [
            "train",
            "capture",
            "-q",
            "--preset",
            "m9",
            "--steps",
            "120",
            "--overwrite",
            "--strategy",
            strategy,
            "--max-gaussians",
            budget,
            "--json",
            "-o",
            strategy,
        ];
        let summary = json(&ok_in(path, &args));
        let gaussians = summary["gaussians"].as_u64().unwrap();
        assert!(gaussians <= expected, "{strategy}: {gaussians}");
        let text = std::fs::read_to_string(path.join(strategy).join("metrics.json")).unwrap();
        let metrics: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(metrics["config"]["densify"]["strategy"], strategy);
        let round = &metrics["densify"][0];
        let (added, cloned) = (&round["added"], &round["cloned"]);
        if strategy == "mcmc" {
            // A twentieth of the 200 points.
            assert_eq!((added, cloned), (&10.into(), &0.into()), "{round}");
        } else {
            assert_eq!(added, 0, "{round}");
        }
    }
}
