//! `dapple eval` beyond the table: comparisons, masks, LPIPS, splats of other programs.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::exit::{INPUT, IO, UNSUPPORTED};
use common::{TRAIN, json, ok_in, refused, small_capture, synth};
use std::path::Path;

#[test]
fn two_runs_are_compared_photo_by_photo() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    synth(path, &["--seed", "3"]);
    let train = |out: &str, steps: &str| {
        let args = [
            "train",
            "capture",
            "-q",
            "--preset",
            "m8-smoke",
            "--eval-every",
            "2",
        ];
        ok_in(path, &[&args[..], &["-o", out, "--steps", steps]].concat());
    };
    train("long", "120");
    train("short", "5");
    // A run folder is accepted for its splats.
    let eval = ["eval", "capture", "long", "--compare", "short"];
    let ran = json(&ok_in(
        path,
        &[&eval[..], &["--json", "-o", "both"]].concat(),
    ));
    let difference = &ran["compare"]["difference"]["psnr"];
    let each = difference["images"].as_array().unwrap();
    assert_eq!(each.len(), 5);
    let expected = ran["psnr"].as_f64().unwrap() - ran["compare"]["psnr"].as_f64().unwrap();
    assert!(expected > 1.0, "longer training is no better");
    assert!((difference["mean"].as_f64().unwrap() - expected).abs() < 1e-9);
    assert_eq!(difference["better"], 5);
    // Five photos are too few for a statement, however clear they are.
    assert_eq!(difference["is_beyond_noise"], false);
    let text = ok_in(path, &eval).stdout;
    assert!(
        text.contains("A better on 5, worse on 0 (sign test p = 0.06): too few photos"),
        "{text}"
    );
    let table = std::fs::read_to_string(path.join("both/scores.md")).unwrap();
    assert!(
        table.lines().count() == 8 && table.contains("A - B"),
        "{table}"
    );
    // Compared with itself a run has no difference.
    let same = [
        "eval",
        "capture",
        "long",
        "--compare",
        "long/splats.ply",
        "--json",
    ];
    let ran = json(&ok_in(path, &same));
    assert_eq!(
        ran["compare"]["difference"]["ssim"]["interval"],
        serde_json::json!([0.0, 0.0])
    );
    // The comparison warns of a run with other held-out photos, sizes or masks.
    ok_in(path, &[&TRAIN[..], &["--downscale", "2"]].concat());
    let told = ok_in(path, &["eval", "capture", "long", "--compare", "out"]).stderr;
    assert!(told.contains("other photos, sizes or masks"), "{told}");
    let worst = ok_in(path, &["eval", "capture", "long", "--worst", "2"]).stderr;
    assert_eq!(worst.matches("worst: ").count(), 2, "{worst}");
}

#[test]
fn masked_and_transparent_captures_are_scored_as_they_were_trained() {
    let folder = small_capture();
    let path = folder.path();
    let names: Vec<_> = std::fs::read_dir(path.join("capture/images"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    std::fs::create_dir(path.join("capture/masks")).unwrap();
    for name in &names {
        image::GrayImage::from_fn(48, 36, |x, _| image::Luma([if x < 24 { 255 } else { 0 }]))
            .save(path.join("capture/masks").join(name))
            .unwrap();
    }
    let segment = [&TRAIN[..], &["--mask-mode", "segment"]].concat();
    let trained = json(&ok_in(path, &[&segment[..], &["--json"]].concat()));
    let config = std::fs::read_to_string(path.join("out/config.toml")).unwrap();
    assert!(config.contains("background = \"random\""), "{config}");
    let ran = ok_in(path, &["eval", "capture", "out", "--json"]);
    assert!(
        ran.stderr.contains("scored over the background 0,0,0"),
        "{}",
        ran.stderr
    );
    let scores = json(&ran);
    assert_eq!(scores["psnr"], trained["psnr"]);
    assert_eq!(scores["background"], serde_json::json!([0.0, 0.0, 0.0]));
    let white = json(&ok_in(
        path,
        &["eval", "capture", "out", "--json", "--background", "white"],
    ));
    assert_ne!(white["psnr"], scores["psnr"]);
    let ignore = ["eval", "capture", "out", "--json", "--mask-mode", "ignore"];
    assert_ne!(json(&ok_in(path, &ignore))["psnr"], scores["psnr"]);
}

/// Writes weights of AlexNet's shape.
fn weights(path: &Path) {
    let mut shapes = Vec::new();
    let rows = [
        (0, 64, 3, 11),
        (3, 192, 64, 5),
        (6, 384, 192, 3),
        (8, 256, 384, 3),
        (10, 256, 256, 3),
    ];
    for (layer, (number, outputs, inputs, size)) in rows.into_iter().enumerate() {
        shapes.push((
            format!("features.{number}.weight"),
            vec![outputs, inputs, size, size],
        ));
        shapes.push((format!("features.{number}.bias"), vec![outputs]));
        shapes.push((format!("lin{layer}.model.1.weight"), vec![1, outputs, 1, 1]));
    }
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in shapes {
        let start = data.len();
        for i in 0..shape.iter().product::<usize>() {
            let value = (i as f32 * 0.7).sin() * 0.1;
            data.extend(
                (if name.starts_with("lin") {
                    value.abs()
                } else {
                    value
                })
                .to_le_bytes(),
            );
        }
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name, entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let length = (header.len() as u64).to_le_bytes();
    std::fs::write(path, [&length[..], &header, &data].concat()).unwrap();
}

#[test]
fn lpips_is_scored_where_weights_are_given() {
    let folder = small_capture();
    let path = folder.path();
    weights(&path.join("alex.safetensors"));
    let lpips = ["--lpips", "alex.safetensors"];
    let trained = json(&ok_in(path, &[&TRAIN[..], &lpips, &["--json"]].concat()));
    let run = trained["lpips"].as_f64().unwrap();
    assert!(run > 0.0);
    // A run with the LPIPS loss ends with other splats, and its configuration records the weight.
    let by_it = ["--lpips-weight", "2", "-o", "by-it"];
    let args = [&TRAIN[..3], &TRAIN[5..], &lpips, &by_it].concat();
    ok_in(path, &args);
    let of = |folder: &str| std::fs::read(path.join(folder).join("splats.ply")).unwrap();
    assert!(of("by-it") != of("out"));
    let config = std::fs::read_to_string(path.join("by-it/config.toml")).unwrap();
    assert!(config.contains("lpips_weight = 2"), "{config}");
    let without = [&TRAIN[..3], &TRAIN[5..], &by_it].concat();
    refused(path, &without, INPUT, &["names no weights", "--lpips"]);
    // Without the option, `eval` uses the run's weights.
    for more in [&[][..], &lpips] {
        let args = [&["eval", "capture", "out", "--json"], more].concat();
        assert_eq!(json(&ok_in(path, &args))["lpips"].as_f64(), Some(run));
    }
    // A GPU computes LPIPS with tensors, from renders that differ from the CPU engine's in the last digits.
    let software = dapple::runtime::adapters();
    if software
        .iter()
        .any(|a| a.name.contains("llvmpipe") && a.unusable.is_none())
    {
        let args = [
            "eval",
            "capture",
            "out",
            "--json",
            "--device",
            "gpu:llvmpipe",
        ];
        let scores = json(&ok_in(path, &args));
        let distance = scores["lpips"].as_f64().unwrap();
        assert!((distance - run).abs() < 2e-4, "{distance} {run}");
        assert!(scores.get("notes").is_none(), "{scores}");
    } else {
        dapple::scene::test_requirements::skipped(
            "gpu",
            "LPIPS on a GPU is NOT tested: no llvmpipe",
        );
    }
    let table = ok_in(path, &["eval", "capture", "out"]).stdout;
    assert!(table.contains("LPIPS"), "{table}");
    let gone = ["eval", "capture", "out", "--lpips", "gone.safetensors"];
    refused(path, &gone, IO, &["gone.safetensors"]);
    std::fs::write(path.join("bad.safetensors"), "no weights").unwrap();
    let bad = [&TRAIN[..7], &["--overwrite", "--lpips", "bad.safetensors"]].concat();
    refused(
        path,
        &bad,
        INPUT,
        &["no safetensors file", "docs/EVALUATION.md"],
    );
    let tiny = ["eval", "capture", "out", "--downscale", "2"];
    refused(path, &tiny, INPUT, &["needs images of 31 x 31"]);
}

/// The run's appearance MLP is fitted to halves of held-out photos, and a photo's appearance is baked into splats.
#[test]
fn looks_are_fitted_to_halves_and_put_into_splats() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let made = [
        "synth", "capture", "-q", "--scene", "plain", "--light", "lamp",
    ];
    let size = ["--photos", "32", "--width", "64", "--height", "48"];
    ok_in(
        path,
        &[&made[..], &size, &["--points", "600", "--seed", "3"]].concat(),
    );
    let train = |out: &str, more: &[&str]| {
        let args = ["train", "capture", "-q", "--preset", "quick", "-o", out];
        let few = ["--strategy", "adc", "--max-gaussians", "3000"];
        let every = ["--eval-every", "4", "--steps", "1500"];
        ok_in(path, &[&args[..], &few, &every, more].concat());
    };
    train("looks", &["--appearance", "mlp"]);
    train("plain", &[]);
    let halves = |out: &str| {
        let ran = json(&ok_in(
            path,
            &["eval", "capture", out, "--halves", "--json"],
        ));
        ran["halves"]["psnr"].as_f64().unwrap()
    };
    let (with, without) = (halves("looks"), halves("plain"));
    println!("right halves: {with:.2} dB with looks, {without:.2} without");
    assert!(with > without + 0.4, "{with} {without}");
    // Splats trained without an appearance MLP, and other splats than the run's, have no appearance.
    let photo = std::fs::read_dir(path.join("capture/images")).unwrap();
    let mut names: Vec<String> = photo
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    // The first photo is held out.
    let edit = ["edit", "looks/splats.ply", "lit.ply", "--look", &names[1]];
    ok_in(path, &edit);
    let bytes = |name: &str| std::fs::read(path.join(name)).unwrap();
    let (lit, neutral) = (bytes("lit.ply"), bytes("looks/splats.ply"));
    assert_eq!(lit.len(), neutral.len());
    assert!(lit != neutral);
    refused(
        path,
        &["edit", "looks/splats.ply", "x.ply", "--look", &names[0]],
        INPUT,
        &["no appearance of a photo"],
    );
    refused(
        path,
        &["edit", "plain/splats.ply", "x.ply", "--look", &names[1]],
        IO,
        &["appearance.safetensors"],
    );
    let halved = ["edit", "looks/splats.ply", "looks/half.ply"];
    ok_in(path, &[&halved[..], &["--decimate", "50%"]].concat());
    refused(
        path,
        &["edit", "looks/half.ply", "x.ply", "--look", &names[1]],
        INPUT,
        &["the appearance MLP has", "hint:"],
    );
}

/// Position of a survey: metres in UTM.
const UTM: [f64; 3] = [448_213.5, 5_411_972.25, 312.75];

/// Copies the capture to `far`, moved to [`UTM`].
fn survey(folder: &Path) {
    let (from, to) = (folder.join("capture"), folder.join("far"));
    std::fs::create_dir_all(to.join("images")).unwrap();
    std::fs::create_dir_all(to.join("sparse/0")).unwrap();
    for photo in std::fs::read_dir(from.join("images")).unwrap() {
        let photo = photo.unwrap();
        std::fs::copy(photo.path(), to.join("images").join(photo.file_name())).unwrap();
    }
    let read = |name: &str| std::fs::read(from.join("sparse/0").join(name)).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(to.join("sparse/0").join(name), bytes).unwrap();
    };
    write("cameras.bin", &read("cameras.bin"));
    let number =
        |bytes: &[u8], at: usize| f64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let count = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let put = |bytes: &mut [u8], at: usize, value: f64| {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    };
    let mut images = read("images.bin");
    let mut at = 8;
    for _ in 0..count(&images, 0) {
        let [w, x, y, z] = [4, 12, 20, 28].map(|k| number(&images, at + k));
        let by = glam::DQuat::from_xyzw(x, y, z, w) * glam::DVec3::from(UTM);
        for (k, shift) in by.to_array().iter().enumerate() {
            let place = at + 36 + 8 * k;
            let value = number(&images, place) - shift;
            put(&mut images, place, value);
        }
        at += 64;
        at += images[at..].iter().position(|&b| b == 0).unwrap() + 1;
        at += 8 + 24 * count(&images, at) as usize;
    }
    write("images.bin", &images);
    let mut points = read("points3D.bin");
    let mut at = 8;
    for _ in 0..count(&points, 0) {
        for (k, offset) in UTM.iter().enumerate() {
            let place = at + 8 + 8 * k;
            let value = number(&points, place) + offset;
            put(&mut points, place, value);
        }
        at += 43;
        at += 8 + 8 * count(&points, at) as usize;
    }
    write("points3D.bin", &points);
}

/// Returns the mean difference of two pictures, of 255.
fn difference(a: &Path, b: &Path) -> f64 {
    let [a, b] = [a, b].map(|path| image::open(path).unwrap().into_rgb8().into_raw());
    let sum: u64 = a
        .iter()
        .zip(&b)
        .map(|(a, b)| u64::from(a.abs_diff(*b)))
        .sum();
    sum as f64 / a.len() as f64
}

#[test]
fn a_survey_far_from_the_origin_loses_nothing_in_any_verb() {
    let folder = small_capture();
    let path = folder.path();
    survey(path);
    let train = |capture: &str, out: &str| {
        let args = [
            "train",
            capture,
            "-o",
            out,
            "--preset",
            "m8-smoke",
            "--steps=12",
            "--json",
        ];
        let ran = ok_in(path, &args);
        (json(&ran)["psnr"].as_f64().unwrap(), ran.stderr)
    };
    let (here, said) = train("capture", "out");
    assert!(!said.contains("local origin"), "{said}");
    let (there, said) = train("far", "far_out");
    assert!(said.contains("local origin"), "{said}");
    assert!((here - there).abs() < 0.05, "{here} {there}");
    let eval = |splats: &str| {
        let ran = ok_in(
            path,
            &["eval", "far", splats, "--json", "--eval-every", "8"],
        );
        json(&ran)["psnr"].as_f64().unwrap()
    };
    assert!((eval("far_out") - there).abs() < 0.01);
    // In the survey's own frame (next to the settings of the run), and in a format that cannot hold the origin.
    let ran = ok_in(
        path,
        &[
            "convert",
            "far_out",
            "far_out/world.ply",
            "--world",
            "--no-loss",
        ],
    );
    assert!(!ran.stderr.contains("no place"), "{}", ran.stderr);
    assert!((eval("far_out/world.ply") - there).abs() < 0.01);
    let info = json(&ok_in(path, &["info", "far_out/world.ply", "--json"]));
    assert!(
        (info["origin"][1].as_f64().unwrap() - UTM[1]).abs() < 100.0,
        "{info}"
    );
    let ran = ok_in(path, &["convert", "far_out", "a.spz", "--capture", "far"]);
    assert!(ran.stderr.contains("no place"), "{}", ran.stderr);
    assert!((eval("a.spz") - there).abs() < 0.5);
    refused(
        path,
        &["convert", "far_out", "b.spz", "--world"],
        UNSUPPORTED,
        &["--world"],
    );
    // The cameras are in the survey's coordinates.
    let text = std::fs::read_to_string(path.join("far_out/cameras.json")).unwrap();
    let cameras: serde_json::Value = serde_json::from_str(&text).unwrap();
    let east = cameras["frames"][0]["transform_matrix"][0][3]
        .as_f64()
        .unwrap();
    assert!((east - UTM[0]).abs() < 100.0, "{east}");
    let metrics = std::fs::read_to_string(path.join("far_out/metrics.json")).unwrap();
    let metrics: serde_json::Value = serde_json::from_str(&metrics).unwrap();
    assert!((metrics["origin"][0].as_f64().unwrap() - UTM[0]).abs() < 100.0);
    // Renders from the cameras next to the splats, and from those of the survey.
    for (splats, scene, out) in [
        ("out", "capture", "a"),
        ("far_out", "far", "b"),
        ("far_out/world.ply", "far", "c"),
    ] {
        let args = [
            "render", splats, "--scene", scene, "--views", "all", "-o", out,
        ];
        ok_in(path, &args);
    }
    for out in ["out", "far_out"] {
        let to = format!("{out}_around");
        ok_in(
            path,
            &["render", out, "--path", "orbit", "--frames", "2", "-o", &to],
        );
    }
    let pictures: Vec<_> = std::fs::read_dir(path.join("a")).unwrap().collect();
    for picture in pictures {
        let name = picture.unwrap().file_name();
        for other in ["b", "c"] {
            let off = difference(&path.join("a").join(&name), &path.join(other).join(&name));
            assert!(off < 2.0, "{name:?} {other} {off}");
        }
    }
    let around = |out: &str| path.join(format!("{out}_around/00001.png"));
    assert!(difference(&around("out"), &around("far_out")) < 2.0);
    // Merged splats move along, and edits keep the origin.
    let merge = [
        "edit",
        "far_out",
        "two.ply",
        "--translate",
        "0,0,0",
        "--merge",
        "far_out/world.ply",
    ];
    ok_in(path, &merge);
    assert!(
        (eval("two.ply") - there).abs() < 6.0,
        "the copy stands elsewhere"
    );
    let info = json(&ok_in(path, &["info", "two.ply", "--json"]));
    assert_eq!(info["origin"], metrics["origin"]);
}
