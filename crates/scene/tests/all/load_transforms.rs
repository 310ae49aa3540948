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
            good.replace("images/b.png", "../gone.png"),
            &["gone.png", "leads out"],
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
            &["panorama", "20x15", "twice as wide as high"],
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
    // A number in the options takes precedence over the folders.
    let options = LoadOptions {
        ignore_split: true,
        ..LoadOptions::default()
    };
    let dataset = load(root.path(), &options, &NoProgress).unwrap();
    assert_eq!(dataset.split(2).eval, [0, 2, 4]);
    // Without test photos, those of val are held out.
    fs::remove_file(root.path().join("transforms_test.json")).unwrap();
    let dataset = load_at(root.path()).unwrap();
    assert_eq!(dataset.split(8).eval, [0]);
    assert_eq!(dataset.views.len(), 4);
}

fn noted(dataset: &Dataset, words: &str) -> bool {
    dataset.notes.iter().any(|note| note.contains(words))
}

#[test]
fn numbers_in_strings_matrices_and_other_names_are_read() {
    let good = load_at(nerfstudio(&two_frames(TOP, "")).path()).unwrap();
    let tops = [
        r#""w": "20", "h": "15.0", "fl_x": " 18", "fl_y": "1.9e1", "cx": "10.5", "cy": "7","#,
        r#""width": 20, "height": 15, "fx": 18, "fy": 19, "cx": 10.5, "cy": 7,"#,
        r#""K": [[18, 0, 10.5], [0, "19", 7], [0, 0, 1]],"#,
        r#""w": 20, "h": 15, "intrinsics": [18, 0, 10.5, 0, 19, 7, 0, 0, 1],"#,
        r#""intrinsic_matrix": [[18, 0, 0], [0, 19, 0], [10.5, 7, 1]],"#,
        r#""K": [[18, 0, 10.5, 0], [0, 19, 7, 0], [0, 0, 1, 0], [0, 0, 0, 1]],"#,
        r#""camera_matrix": {"rows": 3, "cols": 3, "data": [18, 0, 10.5, 0, 19, 7, 0, 0, 1]},"#,
        r#""intrinsics": [18, 19, 10.5, 7],"#,
        r#""intrinsics": {"fx": 18, "fy": 19, "cx": 10.5, "cy": 7},"#,
        r#""K": [[0.9, 0, 0.525], [0, 1.2666666666666666, 0.4666666666666667], [0, 0, 1]],"#,
    ];
    for top in tops {
        let dataset = load_at(nerfstudio(&two_frames(top, "")).path()).unwrap();
        let (got, want) = (dataset.views[0].camera, good.views[0].camera);
        let numbers = |c: dapple_scene::Camera| glam::DVec4::new(c.fx, c.fy, c.cx, c.cy);
        assert!(
            numbers(got).abs_diff_eq(numbers(want), 1e-9),
            "{top}: {got:?}"
        );
        assert_eq!((got.width, got.height), (20, 15), "{top}");
    }
    // A frame's own matrix has priority over the focal length at the top level.
    let own = two_frames(TOP, r#", "K": [[30, 0, 9], [0, 31, 8], [0, 0, 1]]"#);
    let dataset = load_at(nerfstudio(&own).path()).unwrap();
    let a = dataset.views[0].camera;
    assert_eq!((a.fx, a.fy, a.cx, a.cy), (30.0, 31.0, 9.0, 8.0));
    // A malformed matrix is named if nothing else gives a focal length.
    let none = two_frames(r#""w": 20, "h": 15, "K": [[18, 0], [0, 19]],"#, "");
    let error = load_at(nerfstudio(&none).path()).unwrap_err().to_string();
    assert!(error.contains("its K is no matrix"), "{error}");
}

#[test]
fn poses_in_strings_flat_and_transposed_are_read() {
    let centre = glam::DVec3::new(1.0, 2.0, 3.0);
    for eye in [
        r#"[["1",0,0,"1"],[0,1,0,"2.0"],[0,0,1,3],[0,0,0,1]]"#,
        "[1,0,0,1, 0,1,0,2, 0,0,1,3, 0,0,0,1]",
        "[1,0,0,1, 0,1,0,2, 0,0,1,3]",
        "[[1,0,0,0],[0,1,0,0],[0,0,1,0],[1,2,3,1]]",
    ] {
        let json = two_frames(TOP, "").replace(EYE, eye);
        let dataset = load_at(nerfstudio(&json).path()).unwrap();
        let pose = dataset.views[0].camera.camera_from_world;
        assert!(pose.centre().abs_diff_eq(centre, 1e-12), "{eye}");
    }
    let word = two_frames(TOP, "").replace("[0,0,1,3]", r#"[0,0,1,"three"]"#);
    let error = load_at(nerfstudio(&word).path()).unwrap_err().to_string();
    assert!(error.contains("three") && error.contains("line"), "{error}");
}

#[test]
fn an_angle_above_pi_is_in_degrees() {
    let in_radians = format!(r#""camera_angle_x": {},"#, 40f64.to_radians());
    let want = load_at(nerfstudio(&two_frames(&in_radians, "")).path()).unwrap();
    assert!(!noted(&want, "degrees"));
    let degrees = two_frames(r#""camera_angle_x": 40.0,"#, "");
    let got = load_at(nerfstudio(&degrees).path()).unwrap();
    assert!((got.views[0].camera.fx - want.views[0].camera.fx).abs() < 1e-9);
    assert!(noted(&got, "read as degrees"), "{:?}", got.notes);
    for angle in ["200", "-0.5", "0"] {
        let json = two_frames(&format!(r#""camera_angle_x": {angle},"#), "");
        let error = load_at(nerfstudio(&json).path()).unwrap_err().to_string();
        assert!(
            error.contains("camera_angle_x") && error.contains("radians"),
            "{error}"
        );
    }
}

#[test]
fn coefficients_of_a_pinhole_are_used_and_told() {
    let top = format!(r#"{TOP} "camera_model": "PINHOLE", "k1": -0.1, "k2": 0.01,"#);
    let dataset = load_at(nerfstudio(&two_frames(&top, "")).path()).unwrap();
    assert_eq!(
        dataset.views[0].camera.lens,
        dapple_scene::Lens::OpenCv([-0.1, 0.01, 0.0, 0.0])
    );
    assert!(noted(&dataset, "PINHOLE"), "{:?}", dataset.notes);
    let zero = top.replace("-0.1", "0.0").replace("0.01", "0");
    let dataset = load_at(nerfstudio(&two_frames(&zero, "")).path()).unwrap();
    assert!(!noted(&dataset, "PINHOLE"), "{:?}", dataset.notes);
}

#[test]
fn transforms_are_text_of_any_program() {
    let json = two_frames(TOP, "");
    let marked = [b"\xef\xbb\xbf", json.as_bytes()].concat();
    let units = json.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for bytes in [marked, units] {
        let root = nerfstudio("");
        fs::write(root.path().join("transforms.json"), bytes).unwrap();
        assert_eq!(load_at(root.path()).unwrap().views.len(), 2);
    }
    // A name in Windows' Western code page.
    let root = nerfstudio("");
    fs::rename(
        root.path().join("images/a.png"),
        root.path().join("images/ä.png"),
    )
    .unwrap();
    let json = json.replace("a.png", "ä.png");
    let bytes: Vec<u8> = json.chars().map(|c| c as u8).collect();
    fs::write(root.path().join("transforms.json"), bytes).unwrap();
    let dataset = load_at(root.path()).unwrap();
    assert_eq!(dataset.views[1].name, "ä.png");
    assert!(noted(&dataset, "windows-1252"), "{:?}", dataset.notes);
}

#[test]
fn points_without_a_position_are_left_out_and_told() {
    let root = nerfstudio(&two_frames(TOP, ""));
    let ply = root.path().join("points.ply");
    let text = fs::read_to_string(&ply).unwrap();
    let text = text.replace("vertex 1", "vertex 2") + "nan nan nan 1 2 3\n";
    fs::write(&ply, format!("\u{feff}{text}")).unwrap();
    let dataset = load_at(root.path()).unwrap();
    assert_eq!(dataset.points.len(), 1);
    assert!(
        noted(&dataset, "1 of 2 points with NaN"),
        "{:?}",
        dataset.notes
    );
}

#[test]
fn the_files_own_split_is_used_unless_it_is_ignored() {
    let lists = |lists: &str| nerfstudio(&two_frames(&format!("{TOP}{lists}"), ""));
    let root = lists(r#""train_filenames": ["images/a.png"], "test_filenames": ["images/b.png"],"#);
    let dataset = load_at(root.path()).unwrap();
    assert_eq!(
        (dataset.split(8).train, dataset.split(8).eval),
        (vec![0], vec![1])
    );
    assert_eq!(dataset.split(0).train, [0, 1]);
    assert!(
        noted(
            &dataset,
            "own split is used (train_filenames and test_filenames): 1 photos to train on, 1 held out"
        ),
        "{:?}",
        dataset.notes
    );
    let options = LoadOptions {
        ignore_split: true,
        ..LoadOptions::default()
    };
    let dataset = load(root.path(), &options, &NoProgress).unwrap();
    assert_eq!(dataset.split(8).eval, [0]);
    assert!(!noted(&dataset, "own split"), "{:?}", dataset.notes);
    // A list of test photos that leaves no training photos.
    let root = lists(r#""test_filenames": ["images/a.png", "images/b.png"],"#);
    let dataset = load_at(root.path()).unwrap();
    assert_eq!(dataset.split(8).eval, [0]);
    assert!(noted(&dataset, "held out by number"), "{:?}", dataset.notes);
}

const UTM: [f64; 3] = [448_213.5, 5_411_972.25, 312.75];

/// A frame at this place of the survey.
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
    assert!(!says_none(&bare), "points.ply next to the file is used");
    let bare = {
        let root = nerfstudio(&two_frames(TOP, ""));
        let path = root.path().join("transforms.json");
        let whole = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::remove_file(root.path().join("points.ply")).unwrap();
        let bare = whole.replace(r#""ply_file_path": "points.ply","#, "");
        fs::write(root.path().join("transforms_train.json"), &bare).unwrap();
        fs::write(root.path().join("transforms_test.json"), bare).unwrap();
        load_at(root.path()).unwrap()
    };
    assert!(bare.points.is_empty() && says_none(&bare));
}
