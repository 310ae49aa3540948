//! Nerfstudio and Blender captures from disk.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::load_support;

use dapple_scene::{Dataset, Error, LoadOptions, NoProgress, load};
use load_support::write_png;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const EYE: &str = "[[1,0,0,1],[0,1,0,2],[0,0,1,3],[0,0,0,1]]";

fn load_at(path: &Path) -> Result<Dataset, Error> {
    load(path, &LoadOptions::default(), &NoProgress)
}

fn nerfstudio(json: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for name in ["a.png", "b.png"] {
        write_png(&root.path().join("images").join(name), 20, 15);
    }
    let ply = "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n\
               property float z\nproperty uchar red\nproperty uchar green\nproperty uchar blue\n\
               end_header\n1 2 3 4 5 6\n";
    fs::write(root.path().join("points.ply"), ply).unwrap();
    fs::write(root.path().join("transforms.json"), json).unwrap();
    root
}

fn two_frames(top: &str, extra: &str) -> String {
    format!(
        r#"{{{top} "ply_file_path": "points.ply", "frames": [
        {{"file_path": "images/b.png", "transform_matrix": {EYE} }},
        {{"file_path": "./images/a.png", "transform_matrix": {EYE} {extra} }}]}}"#
    )
}

const TOP: &str = r#""w": 20, "h": 15, "fl_x": 18, "fl_y": 19, "cx": 10.5, "cy": 7,"#;

#[test]
fn nerfstudio_intrinsics_poses_points_and_masks() {
    let root = nerfstudio(&two_frames(TOP, r#", "mask_path": "m/a.png", "fl_x": 30"#));
    fs::create_dir(root.path().join("m")).unwrap();
    image::GrayImage::from_fn(20, 15, |x, _| image::Luma([if x == 0 { 0 } else { 255 }]))
        .save(root.path().join("m/a.png"))
        .unwrap();
    for path in [root.path().to_owned(), root.path().join("transforms.json")] {
        let dataset = load_at(&path).unwrap();
        let names: Vec<&str> = dataset.views.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["a.png", "b.png"]);
        let [a, b] = &dataset.views[..] else { panic!() };
        assert_eq!((a.camera.fx, a.camera.fy), (30.0, 30.0));
        assert_eq!((b.camera.fx, b.camera.fy, b.camera.cx), (18.0, 19.0, 10.5));
        let centre = a.camera.camera_from_world.centre();
        assert!(centre.abs_diff_eq(glam::DVec3::new(1.0, 2.0, 3.0), 1e-12));
        assert_eq!(
            a.photo.read().unwrap().mask.as_ref().unwrap()[..2],
            [0, 255]
        );
        assert!(b.photo.read().unwrap().mask.is_none());
        assert_eq!(dataset.points[0].position, [1.0, 2.0, 3.0]);
        assert_eq!(dataset.points[0].rgb, [4, 5, 6]);
    }
}

#[test]
fn images_2_serves_nerfstudio_too() {
    let root = nerfstudio(&two_frames(TOP, ""));
    for name in ["a.png", "b.png"] {
        write_png(&root.path().join("images_2").join(name), 10, 8);
    }
    let options = LoadOptions {
        downscale: Some(2),
        ..LoadOptions::default()
    };
    let dataset = load(root.path(), &options, &NoProgress).unwrap();
    assert_eq!(dataset.views[0].photo.size(), [10, 8]);
    assert!(dataset.notes.iter().any(|n| n.contains("images_2")));
}

#[test]
fn sizes_come_from_the_photo_when_the_file_has_none() {
    let root = nerfstudio(&two_frames(r#""camera_angle_x": 1.5707963267948966,"#, ""));
    let camera = load_at(root.path()).unwrap().views[0].camera;
    assert_eq!((camera.width, camera.height, camera.cx), (20, 15, 10.0));
    assert!((camera.fx - 10.0).abs() < 1e-9 && camera.fy == camera.fx);
}

#[test]
fn bad_transforms_get_one_clear_error() {
    let good = two_frames(TOP, "");
    let cases: &[(String, &[&str])] = &[
        (
            two_frames(r#""w": 20, "h": 15,"#, ""),
            &["b.png", "focal length", "fl_x"],
        ),
        (
            good.replace("\"fl_x\": 18", "\"fl_x\": -18"),
            &["b.png", "-18"],
        ),
        (good.replace("\"w\": 20", "\"w\": 0"), &["impossible size"]),
        (
            good.replace("\"w\": 20", "\"w\": 40"),
            &["a.png", "20x15", "40x15"],
        ),
        (
            good.replace("images/b.png", "../b.png"),
            &["../b.png", "leads out"],
        ),
        (good.replace("points.ply", "/etc/passwd"), &["leads out"]),
        (good.replace("points.ply", "gone.ply"), &["gone.ply"]),
        (
            good.replace("images/b.png", "images/gone.png"),
            &["gone.png", "missing"],
        ),
        (
            good.replace("images/b.png", "images/a.png"),
            &["a.png", "appears twice"],
        ),
        (
            good.replace("[0,0,1,3]", "[0,0,0,3]"),
            &["b.png", "transform_matrix"],
        ),
        (good.replace("[0,0,1,3]", "[0,0,1,1e999]"), &["transforms"]),
        (good.replace("[0,0,1,3]", "[0,0,1,NaN]"), &["line"]),
        (
            two_frames(&format!("{TOP} \"camera_model\": \"EQUIRECTANGULAR\","), ""),
            &["EQUIRECTANGULAR"],
        ),
        (
            two_frames(TOP, r#", "mask_path": "gone.png""#),
            &["mask of \"a.png\"", "gone.png"],
        ),
        (r#"{"frames": []}"#.to_owned(), &["no frames"]),
    ];
    assert!(load_at(nerfstudio(&good).path()).is_ok());
    for (json, words) in cases {
        let text = match load_at(nerfstudio(json).path()) {
            Ok(_) => panic!("accepted {json}"),
            Err(error) => error.to_string(),
        };
        for word in words.iter().chain(&["at:", "hint:"]) {
            assert!(text.contains(word), "no \"{word}\" in\n{text}\nfor {json}");
        }
    }
}

#[test]
fn blender_photos_are_transparent_and_keep_their_own_split() {
    let root = tempfile::tempdir().unwrap();
    for (split, count) in [("train", 3), ("test", 2), ("val", 1)] {
        fs::create_dir(root.path().join(split)).unwrap();
        let mut frames = Vec::new();
        for i in 0..count {
            image::RgbaImage::from_fn(8, 8, |x, _| {
                image::Rgba([200, 100, 50, if x < 4 { 0 } else { 255 }])
            })
            .save(root.path().join(format!("{split}/r_{i}.png")))
            .unwrap();
            frames.push(format!(
                r#"{{"file_path": "./{split}/r_{i}", "rotation": 0.01, "transform_matrix": {EYE}}}"#
            ));
        }
        let json = format!(
            r#"{{"camera_angle_x": 0.69, "frames": [{}]}}"#,
            frames.join(",")
        );
        fs::write(root.path().join(format!("transforms_{split}.json")), json).unwrap();
    }
    for path in [
        root.path().to_owned(),
        root.path().join("transforms_train.json"),
    ] {
        let dataset = load_at(&path).unwrap();
        let names: Vec<&str> = dataset.views.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "test/r_0",
                "test/r_1",
                "train/r_0",
                "train/r_1",
                "train/r_2"
            ]
        );
        let view = &dataset.views[0];
        assert!((view.camera.fx - 4.0 / (0.345f64).tan()).abs() < 1e-9);
        assert_eq!(
            view.photo.read().unwrap().alpha.as_ref().unwrap()[3..5],
            [0, 255]
        );
        assert_eq!(view.photo.read().unwrap().rgb[..3], [200, 100, 50]);
        assert!(dataset.points.is_empty() && dataset.missing_points.is_none());
        let split = dataset.split(8);
        assert_eq!((split.train, split.eval), (vec![2, 3, 4], vec![0, 1]));
        assert_eq!(dataset.split(0).train.len(), 5);
    }
    // Without test photos, those of val are held out.
    fs::remove_file(root.path().join("transforms_test.json")).unwrap();
    let dataset = load_at(root.path()).unwrap();
    assert_eq!(dataset.split(8).eval, [0]);
    assert_eq!(dataset.views.len(), 4);
}

#[test]
fn blender_captures_whose_one_file_names_points_have_points() {
    let with = |ply_in_train: &str| {
        let root = nerfstudio(&two_frames(TOP, ""));
        let path = root.path().join("transforms.json");
        let whole = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let bare = whole.replace(r#""ply_file_path": "points.ply","#, "");
        let train = whole.replace(r#""ply_file_path": "points.ply","#, ply_in_train);
        fs::write(root.path().join("transforms_train.json"), train).unwrap();
        fs::write(root.path().join("transforms_test.json"), bare).unwrap();
        load_at(root.path()).unwrap()
    };
    let named = with(r#""ply_file_path": "points.ply","#);
    assert_eq!(named.points.len(), 1);
    let says_none = |dataset: &Dataset| {
        let mut notes = dataset.notes.iter();
        notes.any(|note| note.contains("no sparse points"))
    };
    assert!(!says_none(&named), "{:?}", named.notes);
    let bare = with("");
    assert!(bare.points.is_empty() && says_none(&bare));
}
