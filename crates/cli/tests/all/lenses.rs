//! Captures with lens distortion, through every command that reads photos: natively, and
//! undistorted.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::exit::UNSUPPORTED;
use common::{TRAIN, files, json, ok_in, refused, run_in, synth};
use std::path::Path;

/// Trains `capture/` into `out`, with further options; returns the stderr.
fn train(folder: &Path, out: &str, more: &[&str]) -> String {
    let mut args: Vec<&str> = TRAIN.to_vec();
    args.retain(|arg| *arg != "-q");
    let at = args.iter().position(|arg| *arg == "out").unwrap();
    args[at] = out;
    args.extend(more);
    ok_in(folder, &args).stderr
}

/// Returns the sizes of all pictures below a folder.
fn sizes(folder: &Path) -> Vec<(u32, u32)> {
    let pictures = files(folder).into_iter();
    let pictures = pictures.filter(|path| path.extension().is_some_and(|e| e == "png"));
    let sizes: Vec<_> = pictures
        .map(|path| image::image_dimensions(folder.join(path)).unwrap())
        .collect();
    assert!(!sizes.is_empty(), "no pictures in {}", folder.display());
    sizes
}

#[test]
fn a_fisheye_trains_natively_and_undistorted() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    synth(at, &["--lens", "opencv-fisheye"]);

    let native = train(at, "native", &[]);
    assert!(
        native.contains("of a lens that distorts (OPENCV_FISHEYE)"),
        "{native}"
    );
    let flat = train(at, "flat", &["--undistort"]);
    assert!(flat.contains("are undistorted (OPENCV_FISHEYE)"), "{flat}");
    assert!(!flat.contains("that distorts"), "{flat}");

    // Scored and rendered as in training: with or without distortion.
    for (out, is_native) in [("native", true), ("flat", false)] {
        let splats = format!("{out}/splats.ply");
        let scores = json(&ok_in(at, &["eval", "capture", &splats, "-q", "--json"]));
        assert!(scores["psnr"].as_f64().unwrap() > 5.0, "{scores}");
        let config = std::fs::read_to_string(at.join(out).join("config.toml")).unwrap();
        assert!(
            config.contains(&format!("undistort = {}", !is_native)),
            "{config}"
        );
        let pictures = format!("{out}-views");
        let views = [
            "render", &splats, "--scene", "capture", "--views", "held-out", "-q", "-o", &pictures,
        ];
        ok_in(at, &views);
        for size in sizes(&at.join(&pictures)) {
            assert_eq!(size == (48, 36), is_native, "{out}: {size:?}");
        }
    }

    // Splats of one run can be rendered the other way.
    let args = [
        "render",
        "native/splats.ply",
        "--scene",
        "capture",
        "--views",
        "held-out",
        "-q",
    ];
    ok_in(at, &[&args[..], &["--undistort", "-o", "other"]].concat());
    assert_eq!(sizes(&at.join("other")), sizes(&at.join("flat-views")));
    // An orbit has a pinhole camera for every lens of the capture.
    let args = [
        "render",
        "native/splats.ply",
        "--scene",
        "capture",
        "--path",
        "orbit",
        "-q",
    ];
    ok_in(at, &[&args[..], &["--frames", "2", "-o", "ring"]].concat());
    assert_eq!(
        sizes(&at.join("ring")),
        [sizes(&at.join("flat-views"))[0]; 2]
    );
}

/// A panorama is trained on, scored, rendered and meshed; `--undistort` is refused.
#[test]
fn a_panorama_trains_and_renders_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let lens = [
        "synth", "capture", "-q", "--photos", "9", "--lens", "equirect",
    ];
    let size = |height| ["--width", "64", "--height", height, "--points", "200"];
    let error = run_in(at, &[&lens[..], &size("48")].concat()).stderr;
    assert!(
        error.contains("64 x 48") && error.contains("twice"),
        "{error}"
    );
    ok_in(at, &[&lens[..], &size("32")].concat());

    let said = train(at, "run", &["--refine-poses", "--antialias"]);
    assert!(said.contains("are panoramas (EQUIRECTANGULAR)"), "{said}");
    let flat = [&TRAIN[..], &["--undistort", "--overwrite"]].concat();
    refused(at, &flat, UNSUPPORTED, &["panorama", "omit --undistort"]);

    let splats = "run/splats.ply";
    let scores = json(&ok_in(at, &["eval", "capture", splats, "-q", "--json"]));
    assert!(scores["psnr"].as_f64().unwrap() > 5.0, "{scores}");
    let render = ["render", splats, "--scene", "capture", "-q"];
    for (channel, out) in [
        ("rgb", "views"),
        ("surface-depth", "depths"),
        ("normals", "normals"),
    ] {
        let views = ["--views", "held-out", "--channel", channel, "-o", out];
        ok_in(at, &[&render[..], &views].concat());
        assert!(sizes(&at.join(out)).iter().all(|&size| size == (64, 32)));
    }
    // An orbit has a pinhole camera.
    let orbit = ["--path", "orbit", "--frames", "2", "-o", "ring"];
    ok_in(at, &[&render[..], &orbit].concat());
    assert_eq!(sizes(&at.join("ring")), [(20, 15); 2]);
    ok_in(
        at,
        &[
            "mesh", "run", "-o", "mesh.glb", "--device", "cpu", "--score",
        ],
    );
}

/// A cylindrical panorama of any height is trained on, scored and rendered; COLMAP has no such model.
#[test]
fn a_cylinder_trains_and_renders_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok_in(
        at,
        &[
            "synth", "capture", "-q", "--photos", "9", "--lens", "cylinder", "--width", "64",
            "--height", "24", "--points", "200",
        ],
    );
    let said = train(at, "run", &["--refine-poses", "--antialias"]);
    assert!(said.contains("are panoramas (CYLINDRICAL)"), "{said}");
    let splats = "run/splats.ply";
    let scores = json(&ok_in(at, &["eval", "capture", splats, "-q", "--json"]));
    assert!(scores["psnr"].as_f64().unwrap() > 5.0, "{scores}");
    for channel in ["rgb", "surface-depth", "normals"] {
        let render = [
            "render", splats, "--scene", "capture", "-q", "--views", "held-out",
        ];
        ok_in(
            at,
            &[&render[..], &["--channel", channel, "-o", channel]].concat(),
        );
        assert!(
            sizes(&at.join(channel))
                .iter()
                .all(|&size| size == (64, 24))
        );
    }
    let transforms = at.join("capture/transforms.json");
    let text = std::fs::read_to_string(&transforms).unwrap();
    std::fs::write(&transforms, text.replace("\"fl_x\": ", "\"fl_x\": 9")).unwrap();
    let part = ["eval", "capture", splats, "-q"];
    refused(at, &part, UNSUPPORTED, &["360 degrees", "pad"]);
}
