//! Moved splats and the cameras of their capture; runs that find their capture by themselves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::exit::INPUT;
use common::{TRAIN, json, ok_in, refused, run_in, small_capture};
use std::path::Path;
use tempfile::TempDir;

fn trained() -> TempDir {
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    folder
}

/// Returns the largest difference of two pictures' values.
fn apart(a: &Path, b: &Path) -> u8 {
    let [a, b] = [a, b].map(|path| image::open(path).unwrap().into_rgb8().into_raw());
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().zip(&b);
    pairs.map(|(a, b)| a.abs_diff(*b)).max().unwrap()
}

#[test]
fn cameras_follow_splats_that_were_moved_by_several_edits() {
    let folder = trained();
    let path = folder.path();
    let turn = ["--rotate", "40,50,60", "--scale", "3"];
    ok_in(
        path,
        &[&["edit", "out", "out/moved.ply"], &turn[..]].concat(),
    );
    let further = [
        "edit",
        "out/moved.ply",
        "out/again.ply",
        "--translate",
        "1,2,3",
        "--orient",
        "y",
    ];
    ok_in(path, &further);
    let info = json(&ok_in(path, &["info", "out/again.ply", "--json"]));
    assert_eq!(info["moved"]["scale"], 3.0, "{info}");
    let left = |file: &str| {
        let prune = [
            "edit",
            file,
            "o.ply",
            "--overwrite",
            "--json",
            "--prune",
            "5",
        ];
        let done = json(&ok_in(path, &prune));
        let scored = done["actions"][0]["loss"]["photos_psnr"][0].as_f64();
        (done["gaussians"].as_f64().unwrap(), scored.unwrap())
    };
    let ((a, plain), (b, moved)) = (left("out"), left("out/again.ply"));
    assert!((a - b).abs() <= 0.01 * a, "{a} {b}");
    assert!((plain - moved).abs() < 0.02, "{plain} {moved}");
    let score = |file: &str| {
        let eval = ["eval", file, "--json"];
        json(&ok_in(path, &eval))["psnr"].as_f64().unwrap()
    };
    let (plain, moved) = (score("out"), score("out/again.ply"));
    assert!((plain - moved).abs() < 0.02, "{plain} {moved}");
    for (from, picture) in [
        (&["--views", "held-out"][..], "000.png"),
        (&["--path", "orbit", "--frames", "2"], "00001.png"),
        (&["--path", "capture", "--frames", "2"], "00000.png"),
    ] {
        for (file, to) in [("out", "plain"), ("out/again.ply", "moved")] {
            ok_in(path, &[&["render", file, "-q", "-o", to], from].concat());
        }
        let off = apart(
            &path.join("plain").join(picture),
            &path.join("moved").join(picture),
        );
        assert!(off <= 6, "{from:?}: {off}");
    }
    // Data that the format cannot hold is reported.
    let packed = run_in(path, &["edit", "out/again.ply", "x.spz", "--scale", "2"]);
    assert!(
        packed.stderr.contains("no place for the motion"),
        "{}",
        packed.stderr
    );
    let read = run_in(path, &["convert", "out/again.ply", "x.glb"]);
    assert!(
        read.stderr.contains("moved since training"),
        "{}",
        read.stderr
    );
    let info = json(&ok_in(path, &["info", "x.glb", "--json"]));
    assert!(
        (info["moved"]["scale"].as_f64().unwrap() - 3.0).abs() < 1e-9,
        "{info}"
    );
}

#[test]
fn a_run_finds_its_capture_where_it_was_and_where_it_moved_with_it() {
    let folder = trained();
    let path = folder.path();
    let eval = |args: &[&str]| json(&ok_in(path, &[&["eval", "--json"], args].concat()));
    let named = eval(&["capture", "out"]);
    assert_eq!(eval(&["out"])["psnr"], named["psnr"]);
    assert_eq!(eval(&["out", "--scene", "capture"])["psnr"], named["psnr"]);
    ok_in(
        path,
        &["render", "out", "--views", "held-out", "-q", "-o", "views"],
    );
    refused(
        path,
        &["eval", "capture", "out", "--scene", "capture"],
        INPUT,
        &["twice"],
    );
    refused(path, &["eval", "capture"], INPUT, &["no splats"]);
    // Both moved, with unchanged relative paths.
    std::fs::create_dir(path.join("away")).unwrap();
    for name in ["capture", "out"] {
        std::fs::rename(path.join(name), path.join("away").join(name)).unwrap();
    }
    assert_eq!(eval(&["away/out"])["psnr"], named["psnr"]);
    // Only the run moved.
    std::fs::rename(path.join("away/out"), path.join("out")).unwrap();
    for verb in [
        &["eval", "out"][..],
        &["render", "out", "--views", "all", "-o", "x"],
    ] {
        refused(path, verb, INPUT, &["no longer where it was", "--capture"]);
    }
    std::fs::rename(path.join("away/capture"), path.join("capture")).unwrap();
    assert_eq!(eval(&["out"])["psnr"], named["psnr"]);
    // Another photo under the same name.
    let photo = path.join("capture/images/004.png");
    let mut bytes = std::fs::read(&photo).unwrap();
    bytes.extend([0; 7]);
    std::fs::write(&photo, bytes).unwrap();
    refused(
        path,
        &["eval", "out"],
        INPUT,
        &["has changed since", "--capture"],
    );
    ok_in(path, &["eval", "out", "--scene", "capture"]);
    // Commands that can do without the capture continue, and print the reason.
    let edited = ok_in(path, &["edit", "out", "o.ply", "--prune", "1"]);
    assert!(
        edited.stderr.contains("has changed since"),
        "{}",
        edited.stderr
    );
    // Splats without a run.
    std::fs::copy(path.join("out/splats.ply"), path.join("alone.ply")).unwrap();
    refused(path, &["eval", "alone.ply"], INPUT, &["--capture"]);
}

#[test]
fn a_page_opens_at_a_photo_and_stays_where_photos_were() {
    let folder = trained();
    let path = folder.path();
    let page = |args: &[&str]| -> serde_json::Value {
        let export = ["export", "out", "p.html", "--no-poster", "--overwrite"];
        let ran = ok_in(path, &[&export, args].concat());
        let html = std::fs::read_to_string(path.join("p.html")).unwrap();
        let text = html.split("id=\"scene\">").nth(1).unwrap();
        let mut scene: serde_json::Value =
            serde_json::from_str(text.split("</script>").next().unwrap()).unwrap();
        scene["said"] = ran.stderr.into();
        scene
    };
    let first = page(&[]);
    let said = first["said"].as_str().unwrap();
    let name = said.split("first view: that of the photo ").nth(1).unwrap();
    let name = name.lines().next().unwrap();
    // The named photo gives the same view; another photo gives another view.
    assert_eq!(page(&["--view", name])["view"], first["view"]);
    let other = if name == "001.png" { "002" } else { "001" };
    let second = page(&["--view", other]);
    assert_ne!(second["view"], first["view"]);
    assert!(first["bounds"]["places"].as_array().unwrap().len() > 3);
    // The page turns about the point that the view looks at.
    let three = |v: &serde_json::Value| [0, 1, 2].map(|k| v[k].as_f64().unwrap());
    let (eye, centre) = (three(&first["view"]["position"]), three(&first["centre"]));
    let apart: f64 = (0..3).map(|k| (eye[k] - centre[k]).powi(2)).sum();
    assert!((apart.sqrt() - first["distance"].as_f64().unwrap()).abs() < 1e-9);
    std::fs::write(
        path.join("camera.json"),
        r#"{"width": 64, "height": 36, "eye": [0, -1, -4], "target": [0, 0, 0]}"#,
    )
    .unwrap();
    let placed = page(&["--view", "camera.json"]);
    let eye = three(&placed["view"]["position"]);
    let off = (0..3).map(|k| (eye[k] - [0.0, -1.0, -4.0][k]).abs());
    assert!(off.fold(0.0, f64::max) < 1e-9, "{eye:?}");
    refused(
        path,
        &[
            "export",
            "out",
            "q.html",
            "--no-poster",
            "--view",
            "nowhere.jpg",
        ],
        INPUT,
        &["--view", "such as"],
    );
}
