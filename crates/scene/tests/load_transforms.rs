//! Nerfstudio and Blender captures from disk.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod load_support;

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

const UTM: [f64; 3] = [448_213.5, 5_411_972.25, 312.75];

/// A frame that stands at this place of the survey.
fn frame(name: &str, x: f64, y: f64) -> String {
    let [east, north, up] = UTM;
    format!(
        r#"{{"file_path": "{name}", "transform_matrix":
        [[1,0,0,{}],[0,1,0,{}],[0,0,1,{up}],[0,0,0,1]]}}"#,
        east + x,
        north + y
    )
}

#[test]
fn points_in_doubles_keep_their_digits_far_from_the_origin() {
    let frames: Vec<String> = ["a", "b"]
        .iter()
        .zip([0.0, 3.0])
        .map(|(name, x)| frame(&format!("images/{name}.png"), x, 0.5))
        .collect();
    let json = format!(
        r#"{{{TOP} "ply_file_path": "points.ply", "frames": [{}]}}"#,
        frames.join(",")
    );
    let root = nerfstudio(&json);
    let [x, y, z] = UTM;
    let exact = [[x + 0.125, y + 0.25, z - 2.0], [x - 1.0625, y, z]];
    let header = |kind: &str| {
        format!(
            "ply\nformat {kind} 1.0\nelement vertex 2\nproperty double x\nproperty double y\nproperty double z\nend_header\n"
        )
    };
    let mut binary = header("binary_little_endian").into_bytes();
    let mut ascii = header("ascii");
    for point in exact {
        for value in point {
            binary.extend(value.to_le_bytes());
        }
        ascii += &format!("{} {} {}\n", point[0], point[1], point[2]);
    }
    for content in [binary, ascii.into_bytes()] {
        fs::write(root.path().join("points.ply"), content).unwrap();
        let dataset = load_at(root.path()).unwrap();
        assert!(dataset.origin.distance(glam::DVec3::from(UTM)) < 5.0);
        for (point, exact) in dataset.points.iter().zip(exact) {
            let place = glam::DVec3::from(point.position.map(f64::from)) + dataset.origin;
            assert_eq!(place, glam::DVec3::from(exact));
        }
        let centre = dataset.views[1].camera.camera_from_world.centre() + dataset.origin;
        assert!(centre.distance(glam::DVec3::new(x + 3.0, y + 0.5, z)) < 1e-8);
    }
}

#[test]
fn both_files_of_a_blender_capture_count_from_one_origin() {
    let root = tempfile::tempdir().unwrap();
    for (split, x) in [("train", 0.0), ("test", 40.0)] {
        let mut frames = Vec::new();
        for i in 0..6 {
            let name = format!("{split}/r_{i}");
            write_png(&root.path().join(format!("{name}.png")), 16, 16);
            frames.push(frame(&name, x + f64::from(i), 2.0 * f64::from(i % 2)));
        }
        let json = format!(
            r#"{{"camera_angle_x": 0.7, "frames": [{}]}}"#,
            frames.join(",")
        );
        let file = format!("transforms_{split}.json");
        fs::write(root.path().join(file), json).unwrap();
    }
    let dataset = load_at(root.path()).unwrap();
    assert_ne!(dataset.origin, glam::DVec3::ZERO);
    for (i, view) in dataset.views.iter().enumerate() {
        let centre = view.camera.camera_from_world.centre() + dataset.origin;
        // test/ comes before train/.
        let x = UTM[0] + if i < 6 { 40.0 } else { 0.0 } + (i % 6) as f64;
        assert!((centre.x - x).abs() < 1e-8, "{} {centre}", view.name);
    }
}
