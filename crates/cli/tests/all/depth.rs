//! Depths in user workflows: rendered to files, and used in training.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{TRAIN, files, ok_in, refused, small_capture};
use dapple::scene::exr_file::FloatImage;

const RENDER: [&str; 8] = [
    "render",
    "out/splats.ply",
    "-q",
    "--scene",
    "capture",
    "--views",
    "all",
    "--channel",
];

/// Depths of all views are written to files, which train another run. Points train one too. Each is another run than
/// that with photos only.
#[test]
fn depths_are_rendered_and_trained_with() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &[&TRAIN[..], &["--depth-from", "points"]].concat());
    let splats = || std::fs::read(path.join("out/splats.ply")).unwrap();
    let by_points = splats();
    ok_in(path, &[&TRAIN[..], &["--overwrite"]].concat());
    let by_photos = splats();
    assert!(by_points != by_photos, "points change nothing");

    for (channel, format) in [
        ("depth", "exr"),
        ("depth", "png"),
        ("median-depth", "exr"),
        ("surface-depth", "exr"),
        ("surface-normal", "exr"),
        ("normals", "png"),
        ("normals", "exr"),
        ("alpha", "png"),
        ("count", "exr"),
        ("count", "png"),
    ] {
        let out = format!("{channel}-{format}");
        // Values of 16 bits, not colours.
        let numbers: &[&str] = match (channel, format) {
            ("count", "png") => &["--colormap", "none"],
            ("depth", "png") => &["--depth-unit", "0.001"],
            _ => &[],
        };
        let to = [channel, "--format", format, "-o", &out];
        let args = [&RENDER[..], &to, numbers].concat();
        ok_in(path, &args);
        let written = files(&path.join(&out));
        assert_eq!(written.len(), 9, "{out}");
        assert!(
            written
                .iter()
                .all(|file| file.extension().unwrap() == format)
        );
    }
    let bytes = std::fs::read(path.join("depth-exr/003.exr")).unwrap();
    let exr = FloatImage::from_exr(&bytes).unwrap();
    assert_eq!(
        (exr.width, exr.height, exr.channels[0].0.as_str()),
        (48, 36, "Z")
    );
    let png = image::open(path.join("depth-png/003.png"))
        .unwrap()
        .into_luma16();
    let steps = png.into_raw();
    let seen = exr.channels[0]
        .1
        .iter()
        .zip(&steps)
        .filter(|(z, _)| **z > 0.0);
    assert!(seen.clone().count() > 100, "hardly anything is there");
    for (z, step) in seen {
        assert!((z / 0.001 - f32::from(*step)).abs() <= 0.51 || *step == u16::MAX);
    }

    // Counts are integers, equal in both formats.
    let bytes = std::fs::read(path.join("count-exr/003.exr")).unwrap();
    let exr = FloatImage::from_exr(&bytes).unwrap();
    let png = image::open(path.join("count-png/003.png")).unwrap();
    let (name, counts) = &exr.channels[0];
    assert_eq!(name, "N");
    let same = |(a, b): (&f32, &u16)| *a == f32::from(*b);
    assert!(counts.iter().zip(&png.into_luma16().into_raw()).all(same));
    let most = counts.iter().copied().fold(0.0, f32::max);
    assert!((2.0..1000.0).contains(&most), "{most}");

    for kind in ["exr", "png"] {
        let depths = format!("depth-{kind}");
        let more = ["--overwrite", "--depth-from", "images", "--depths", &depths];
        ok_in(path, &[&TRAIN[..], &more].concat());
        assert!(splats() != by_photos && splats() != by_points, "{kind}");

        // Photos that are read on demand, 9 of 5 KB each, change nothing when the depths are held in memory.
        let held = splats();
        let limited = [&TRAIN[..], &more, &["--photo-memory", "40KiB"]].concat();
        ok_in(path, &limited);
        let metrics = std::fs::read(path.join("out/metrics.json")).unwrap();
        let metrics: serde_json::Value = serde_json::from_slice(&metrics).unwrap();
        // Seven photos are trained on.
        assert!(metrics["photos"]["reads"].as_u64().unwrap() >= 7, "{kind}");
        assert!(
            splats() == held,
            "{kind}: other splats with streamed photos"
        );
    }
}

#[test]
fn options_that_nothing_looks_at_are_refused() {
    let folder = small_capture();
    let path = folder.path();
    let train = |more: &[&'static str]| [&TRAIN[..], more].concat();
    refused(
        path,
        &train(&["--depth-weight", "0.5"]),
        3,
        &["--depth-weight"],
    );
    refused(path, &train(&["--depths", "x"]), 3, &["depth.folder"]);
    let images = train(&["--depth-from", "images"]);
    refused(path, &images, 3, &["no photo has a depth image"]);
    let missing = train(&["--depth-from", "images", "--depths", "nowhere"]);
    refused(path, &missing, 3, &["folder of the depth images"]);
    assert!(!path.join("out").exists(), "nothing is left");
}
