//! `dapple eval` beyond the table: comparisons, masks, LPIPS, splats of other programs.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{TRAIN, json, ok_in, refused, small_capture, synth};
use std::path::Path;

const INPUT: i32 = 3;
const IO: i32 = 4;

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
    // Folders of runs stand for their splats.
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
    // Five photos cannot tell, however clear they are.
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
    // Against itself there is no difference.
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
    // What a run was not held out from is said.
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

/// Weights of AlexNet's shape.
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
    // A run that trains by it ends with other splats, and its configuration says so.
    let by_it = ["--perceptual", "2", "-o", "by-it"];
    let args = [&TRAIN[..3], &TRAIN[5..], &lpips, &by_it].concat();
    ok_in(path, &args);
    let of = |folder: &str| std::fs::read(path.join(folder).join("splats.ply")).unwrap();
    assert!(of("by-it") != of("out"));
    let config = std::fs::read_to_string(path.join("by-it/config.toml")).unwrap();
    assert!(config.contains("perceptual_weight = 2"), "{config}");
    let without = [&TRAIN[..3], &TRAIN[5..], &by_it].concat();
    refused(path, &without, INPUT, &["names no weights", "--lpips"]);
    // The run's weights are taken again, and those of the option.
    for more in [&[][..], &lpips] {
        let args = [&["eval", "capture", "out", "--json"], more].concat();
        assert_eq!(json(&ok_in(path, &args))["lpips"].as_f64(), Some(run));
    }
    // A GPU computes it by tensors, of renders that differ from the CPU engine's in the last digits.
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
        dapple::scene::lacking::skipped("gpu", "LPIPS on a GPU is NOT tested: no llvmpipe");
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

/// What a run has learnt of photos' light is fitted to halves of held-out photos, and a photo's light goes into splats.
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
    // Of splats that learnt none, or others than those, no look is known.
    let photo = std::fs::read_dir(path.join("capture/images")).unwrap();
    let mut names: Vec<String> = photo
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    // The first is held out.
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
        &["no look of a photo"],
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
        &["the looks are of", "hint:"],
    );
}
