//! Captures in other layouts than COLMAP's, through every command that splits their photos.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{TRAIN, files, json, ok_in};
use image::{Rgba, RgbaImage};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

/// Photos of a ball of radius 1 on nothing, from a circle of radius 4 around it, without points.
struct Ball {
    folder: TempDir,
}

const SIZE: u32 = 24;
/// Half the field of view, whose tangent is 0.4: the ball fills two thirds of a photo.
const HALF_ANGLE: f64 = 0.380_506_377_112_364_9;

impl Ball {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes photos `first..first + count` of 12 and describes them in `json`; a name in it is
    /// `prefix` and the photo's number in this file, and has an extension or not.
    fn take(&self, json: &str, prefix: &str, extension: &str, first: u32, count: u32) {
        let root = self.path().join("capture");
        let frame = |i: u32| {
            let name = format!("{prefix}{i}{extension}");
            let photo = root.join(format!("{prefix}{i}.png"));
            std::fs::create_dir_all(photo.parent().unwrap()).unwrap();
            picture(first + i).save(photo).unwrap();
            json!({"file_path": name, "transform_matrix": pose(first + i)})
        };
        let frames: Vec<Value> = (0..count).map(frame).collect();
        let described = json!({"camera_angle_x": 2.0 * HALF_ANGLE, "frames": frames});
        std::fs::write(root.join(json), described.to_string()).unwrap();
    }

    /// Trains a few steps from few random points.
    fn train(&self) -> common::Ran {
        let mut args: Vec<&str> = TRAIN.to_vec();
        args.retain(|arg| *arg != "-q");
        ok_in(self.path(), &[&args[..], &["--max-gaussians=300"]].concat())
    }
}

/// Returns camera to world with OpenGL's axes: from the circle, looking at the origin, y up.
fn pose(number: u32) -> [[f64; 4]; 4] {
    let (sin, cos) = (f64::from(number) * std::f64::consts::TAU / 12.0).sin_cos();
    [
        [cos, 0.0, sin, 4.0 * sin],
        [0.0, 1.0, 0.0, 0.0],
        [-sin, 0.0, cos, 4.0 * cos],
        [0.0, 0.0, 0.0, 1.0],
    ]
}

/// Draws the ball's outline, in a different colour for each direction.
fn picture(number: u32) -> RgbaImage {
    let edge = f64::from(SIZE);
    RgbaImage::from_fn(SIZE, SIZE, |x, y| {
        let [u, v] = [x, y].map(|i| (f64::from(i) + 0.5) / edge * 2.0 - 1.0);
        let inside = u.hypot(v) * HALF_ANGLE.tan() < 1.0 / 15f64.sqrt();
        Rgba([
            40 + 15 * number as u8,
            120,
            200,
            if inside { 255 } else { 0 },
        ])
    })
}

fn names(folder: &Path) -> Vec<String> {
    let found = files(folder);
    found.iter().map(|f| f.display().to_string()).collect()
}

#[test]
fn a_blender_capture_keeps_its_own_split_everywhere() {
    let ball = Ball::new();
    // 9 photos, of which 4 are held out: every 8th by name would be 2.
    ball.take("transforms_train.json", "./train/r_", "", 0, 5);
    ball.take("transforms_test.json", "./test/r_", "", 5, 4);
    let path = ball.path();
    let held_out = [
        "test_r_0.png",
        "test_r_1.png",
        "test_r_2.png",
        "test_r_3.png",
    ];

    let ran = ball.train();
    let note = "no sparse points: training starts from 300 random ones";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("training on 5 photos, 4 held out"),
        "{}",
        ran.stderr
    );
    assert_eq!(names(&path.join("out/renders")), held_out);

    let info = json(&ok_in(path, &["info", "capture", "--json", "--check"]));
    assert_eq!(
        (
            &info["photos"],
            &info["train"],
            &info["held_out"],
            &info["points"]
        ),
        (&9.into(), &5.into(), &4.into(), &0.into())
    );

    let args = [
        "eval",
        "capture",
        "out/splats.ply",
        "--json",
        "-o",
        "compare",
    ];
    let scores = json(&ok_in(path, &args));
    let scored = scores["images"].as_array().unwrap();
    let scored: Vec<&str> = scored.iter().map(|i| i["name"].as_str().unwrap()).collect();
    assert_eq!(scored, ["test/r_0", "test/r_1", "test/r_2", "test/r_3"]);
    assert_eq!(names(&path.join("compare/renders")), held_out);

    for (views, count, first) in [
        ("held-out", 4, "test_r_0.png"),
        ("train", 5, "train_r_0.png"),
    ] {
        let args = [
            "render",
            "out/splats.ply",
            "--scene",
            "capture",
            "--views",
            views,
            "-o",
            views,
        ];
        ok_in(path, &args);
        let rendered = names(&path.join(views));
        assert_eq!((rendered.len(), rendered[0].as_str()), (count, first));
    }
}

#[test]
fn a_nerfstudio_capture_without_points_trains_from_random_ones() {
    let ball = Ball::new();
    ball.take("transforms.json", "images/", ".png", 0, 9);
    let ran = ball.train();
    let note = "no sparse points: training starts from 300 random ones";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
    assert_eq!(names(&ball.path().join("out/renders")), ["0.png", "8.png"]);
}

#[test]
fn a_list_of_test_photos_is_held_out_by_every_verb() {
    let ball = Ball::new();
    ball.take("transforms.json", "images/", ".png", 0, 9);
    let path = ball.path();
    let file = path.join("capture/transforms.json");
    let mut described: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    described["test_filenames"] = json!(["images/2.png", "images/3.png", "images/7.png"]);
    described["val_filenames"] = json!(["images/4.png"]);
    std::fs::write(&file, described.to_string()).unwrap();
    let held_out = ["2.png", "3.png", "7.png"];

    // Stopped halfway, then resumed: the photos held out stay the same.
    let mut args: Vec<&str> = TRAIN.to_vec();
    args.retain(|arg| *arg != "-q");
    let stopped = ok_in(
        path,
        &[&args[..], &["--max-gaussians=300", "--stop-at=6"]].concat(),
    );
    assert!(
        stopped.stderr.contains("training on 5 photos, 3 held out"),
        "{}",
        stopped.stderr
    );
    assert!(stopped.stderr.contains("own split"), "{}", stopped.stderr);
    ok_in(path, &["train", "--resume", "out"]);
    assert_eq!(names(&path.join("out/renders")), held_out);

    let counts = |more: &[&str]| {
        let info = json(&ok_in(
            path,
            &[&["info", "capture", "--json"], more].concat(),
        ));
        (info["train"].as_u64(), info["held_out"].as_u64())
    };
    assert_eq!(counts(&[]), (Some(5), Some(3)));
    assert_eq!(counts(&["--eval-every=4"]), (Some(6), Some(3)));
    assert_eq!(counts(&["--eval-every=8"]), (Some(7), Some(2)));
    assert_eq!(counts(&["--eval-every=0"]), (Some(9), Some(0)));

    let scored = |more: &[&str]| -> Vec<String> {
        let args = [&["eval", "capture", "out/splats.ply", "--json"], more].concat();
        let scores = json(&ok_in(path, &args));
        let images = scores["images"].as_array().unwrap().clone();
        let name = |image: &Value| image["name"].as_str().unwrap().to_owned();
        images.iter().map(name).collect()
    };
    assert_eq!(scored(&[]), held_out);
    assert_eq!(scored(&["--eval-every=8"]), ["0.png", "8.png"]);

    let render = [
        "render",
        "out/splats.ply",
        "--scene",
        "capture",
        "--views",
        "held-out",
        "-o",
        "held",
    ];
    ok_in(path, &render);
    assert_eq!(names(&path.join("held")), held_out);

    // A run that holds out photos by number does so in every command that reads its settings.
    let by_number = ["--max-gaussians=300", "--eval-every=8", "--overwrite"];
    ok_in(path, &[&TRAIN[..], &by_number].concat());
    assert_eq!(scored(&[]), ["0.png", "8.png"]);
}
