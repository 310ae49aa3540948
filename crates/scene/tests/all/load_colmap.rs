//! COLMAP captures from disk: accepted content, refused content, and the messages.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::load_support;

use dapple_scene::{Dataset, Error, Lens, LoadOptions, MaskMode, NoProgress, load};
use load_support::{Tiny, write_png};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn load_with(root: &Path, options: &LoadOptions) -> Result<Dataset, Error> {
    load(root, options, &NoProgress)
}

fn written(tiny: &Tiny) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    tiny.write(root.path());
    root
}

fn loaded(root: &TempDir) -> Dataset {
    load_with(root.path(), &LoadOptions::default()).unwrap()
}

#[track_caller]
fn assert_noted(dataset: &Dataset, words: &str) {
    let found = dataset.notes.iter().any(|note| note.contains(words));
    assert!(found, "no note says \"{words}\": {:?}", dataset.notes);
}

#[test]
fn views_come_sorted_with_their_own_pose_and_pixels() {
    let dataset = loaded(&written(&Tiny::default()));
    let names: Vec<&str> = dataset.views.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["a.png", "c.png", "sub/b.png"]);
    // a.png is the second record: translation (1, 0.5, 2).
    let camera = &dataset.views[0].camera;
    let pose = camera.camera_from_world;
    assert_eq!(pose.translation.to_array(), [1.0, 0.5, 2.0]);
    // wxyz (0.8, 0, 0.6, 0) turns about y: x -> (0.28, 0, -0.96)
    let turned = pose.rotation * glam::DVec3::X;
    assert!(
        turned.abs_diff_eq(glam::DVec3::new(0.28, 0.0, -0.96), 1e-12),
        "{turned}"
    );
    assert_eq!(
        (camera.fx, camera.fy, camera.cx, camera.cy),
        (18.0, 19.0, 10.5, 7.0)
    );
    assert_eq!(dataset.views[0].source_model, "PINHOLE");
    let photo = dataset.views[0].photo.read().unwrap();
    assert_eq!((photo.width, photo.height), (20, 15));
    assert_eq!(&photo.rgb[3 * (20 + 1)..3 * (20 + 2)], &[12, 17, 77]);
    assert!(photo.alpha.is_none() && photo.mask.is_none());
    assert_eq!(dataset.points.len(), 2);
    assert_eq!(dataset.points[1].position, [-1.0, 0.25, 4.0]);
    assert_eq!(dataset.points[1].rgb, [10, 20, 30]);
    assert!(dataset.notes.is_empty(), "{:?}", dataset.notes);
}

#[test]
fn intrinsics_follow_the_actual_size() {
    let root = written(&Tiny::default());
    let size_and_camera = |options: &LoadOptions| {
        let dataset = load_with(root.path(), options).unwrap();
        let view = &dataset.views[0];
        assert_eq!(view.photo.size(), [view.camera.width, view.camera.height]);
        (
            view.camera.width,
            view.camera.height,
            view.camera.fx,
            view.camera.cy,
        )
    };
    let half = LoadOptions {
        downscale: Some(2),
        ..LoadOptions::default()
    };
    // 15 / 2 rounds to 8, so the vertical factor is 8/15, not 1/2.
    assert_eq!(size_and_camera(&half), (10, 8, 9.0, 7.0 * 8.0 / 15.0));
    let limited = LoadOptions {
        max_resolution: Some(16),
        ..LoadOptions::default()
    };
    assert_eq!(
        size_and_camera(&limited),
        (16, 12, 14.4, 7.0 * (12.0 / 15.0))
    );
    // Photos are never enlarged.
    let large = LoadOptions {
        max_resolution: Some(1000),
        ..LoadOptions::default()
    };
    assert_eq!(size_and_camera(&large).0, 20);
    // With images_2, its photos are used unchanged: rounded down here.
    for (name, ..) in &Tiny::default().photos {
        write_png(&root.path().join("images_2").join(name), 10, 7);
    }
    assert_eq!(size_and_camera(&half), (10, 7, 9.0, 7.0 * 7.0 / 15.0));
    assert_noted(&load_with(root.path(), &half).unwrap(), "images_2");
    let both = LoadOptions {
        max_resolution: Some(5),
        ..half
    };
    assert_eq!(size_and_camera(&both).0, 5);
}

#[test]
fn another_image_folder_may_be_named_and_is_scaled_to() {
    let root = written(&Tiny::default());
    for (name, ..) in &Tiny::default().photos {
        write_png(&root.path().join("small").join(name), 12, 9);
    }
    let options = LoadOptions {
        images: Some("small".into()),
        ..LoadOptions::default()
    };
    let dataset = load_with(root.path(), &options).unwrap();
    assert_eq!(dataset.views[0].camera.fx, 18.0 * 0.6);
    assert_noted(&dataset, "3 of 3 photos differ in size");
    let nowhere = LoadOptions {
        images: Some("nowhere".into()),
        ..LoadOptions::default()
    };
    let error = load_with(root.path(), &nowhere).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn the_largest_of_several_models_is_taken() {
    let root = written(&Tiny::default());
    let mut small = Tiny::default();
    small.images.truncate(1);
    fs::rename(root.path().join("sparse/0"), root.path().join("sparse/1")).unwrap();
    small.write_model(&root.path().join("sparse/0"));
    let dataset = loaded(&root);
    assert_eq!(dataset.views.len(), 3);
    assert_noted(&dataset, "1 with 3, 0 with 1");
}

#[test]
fn models_are_found_where_tools_put_them() {
    for place in [
        "sparse",
        "sparse/0",
        "sparse/3",
        "colmap/sparse/0",
        "dense/sparse",
    ] {
        let root = written(&Tiny::default());
        fs::rename(root.path().join("sparse"), root.path().join("old")).unwrap();
        Tiny::default().write_model(&root.path().join(place));
        fs::remove_dir_all(root.path().join("old")).unwrap();
        assert_eq!(loaded(&root).views.len(), 3, "{place}");
    }
    // A model folder as the capture.
    let root = written(&Tiny::default());
    let model = root.path().join("sparse/0");
    assert_eq!(
        load_with(&model, &LoadOptions::default())
            .unwrap()
            .views
            .len(),
        3
    );
    // Binary has priority over text.
    for file in ["cameras.txt", "images.txt", "points3D.txt"] {
        fs::write(model.join(file), "rubbish").unwrap();
    }
    assert_eq!(loaded(&root).views.len(), 3);
}

#[test]
fn views_can_be_limited_and_oddities_are_noted() {
    let mut tiny = Tiny::default();
    tiny.points.push([f64::NAN, 0.0, 0.0]);
    tiny.points.push([0.0, f64::INFINITY, 0.0]);
    let root = written(&tiny);
    let dataset = load_with(
        root.path(),
        &LoadOptions {
            max_views: Some(1),
            ..LoadOptions::default()
        },
    )
    .unwrap();
    assert_eq!(dataset.views.len(), 1);
    assert_eq!(dataset.points.len(), 2);
    assert_noted(&dataset, "1 of 3 photos are used");
    assert_noted(&dataset, "single photo");
    assert_noted(&dataset, "2 sparse points with NaN");
    assert_eq!(dataset.missing_points, None);
    let file = root.path().join("sparse/0/points3D.bin");
    fs::remove_file(&file).unwrap();
    let dataset = loaded(&root);
    assert_noted(&dataset, "no sparse points");
    assert_eq!(dataset.missing_points, Some(file));
}

#[test]
fn masks_are_found_by_name_and_follow_the_size() {
    let root = written(&Tiny::default());
    let mask = |name: &str, width: u32, height: u32| {
        let path = root.path().join("masks").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        image::GrayImage::from_fn(width, height, |x, _| {
            image::Luma([if x < width / 2 { 0 } else { 255 }])
        })
        .save(path)
        .unwrap();
    };
    mask("a.png", 20, 15);
    mask("c.png.png", 40, 30);
    mask("sub/b.png", 4, 3);
    let dataset = loaded(&root);
    for view in &dataset.views {
        let photo = view.photo.read().unwrap();
        let mask = photo.mask.as_ref().unwrap();
        let want: Vec<u8> = (0..20 * 15)
            .map(|i| if i % 20 < 10 { 0 } else { 255 })
            .collect();
        assert_eq!(mask, &want, "{}", view.name);
    }
    assert_noted(&dataset, "3 of 3 photos have a mask");
    mask("a.png", 15, 20);
    let error = load_with(root.path(), &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("aspect ratio"), "{error}");
}

#[test]
fn distorted_photos_come_out_as_pinhole() {
    let mut tiny = Tiny::default();
    let parameters = vec![18.0, 19.0, 10.5, 7.0, -0.1, 0.01, 0.001, 0.0];
    tiny.cameras[0] = (7, 4, 20, 15, parameters);
    let undistort = LoadOptions {
        undistort: true,
        ..LoadOptions::default()
    };
    let dataset = load_with(written(&tiny).path(), &undistort).unwrap();
    for view in &dataset.views {
        assert_eq!(view.camera.lens, Lens::Pinhole);
        assert_eq!(view.source_model, "OPENCV");
        assert_eq!(view.photo.size(), [view.camera.width, view.camera.height]);
        assert_eq!((view.camera.fx, view.camera.fy), (18.0, 19.0));
    }
    assert_noted(&dataset, "3 of 3 photos are undistorted (OPENCV)");
}

#[test]
fn distorted_photos_keep_their_lens_and_their_pixels() {
    let mut tiny = Tiny::default();
    let parameters = vec![18.0, 19.0, 10.5, 7.0, -0.1, 0.01, 0.001, 0.0];
    let plain = loaded(&written(&tiny));
    tiny.cameras[0] = (7, 4, 20, 15, parameters);
    let dataset = loaded(&written(&tiny));
    for (view, same) in dataset.views.iter().zip(&plain.views) {
        assert_eq!(view.camera.lens, Lens::OpenCv([-0.1, 0.01, 0.001, 0.0]));
        assert_eq!(view.photo.read().unwrap(), same.photo.read().unwrap());
        assert_eq!((view.camera.cx, view.camera.cy), (10.5, 7.0));
    }
    assert_noted(
        &dataset,
        "3 of 3 photos are of a lens that distorts (OPENCV)",
    );

    // Reduced photos: the intrinsics follow, the lens is in units of the focal length.
    let half = LoadOptions {
        downscale: Some(2),
        ..LoadOptions::default()
    };
    let dataset = load_with(written(&tiny).path(), &half).unwrap();
    let camera = dataset.views[0].camera;
    assert_eq!((camera.width, camera.height), (10, 8));
    assert_eq!((camera.fx, camera.cx), (9.0, 5.25));
    assert_eq!(camera.lens, Lens::OpenCv([-0.1, 0.01, 0.001, 0.0]));
}

/// A photo that extends beyond the fold of the polynomial: the corners have no ray.
#[test]
fn pixels_beyond_the_lens_are_masked() {
    let mut tiny = Tiny::default();
    tiny.cameras[0] = (7, 2, 20, 15, vec![12.0, 10.0, 7.5, -0.6]);
    let dataset = loaded(&written(&tiny));
    assert_noted(&dataset, "show more than their lens model reaches");
    let photo = dataset.views[0].photo.read().unwrap();
    let mask = photo.mask.as_ref().unwrap();
    assert_eq!((mask[0], mask[7 * 20 + 10]), (0, 255));
}

#[test]
fn every_camera_model_loads_or_is_refused_by_name() {
    for model in dapple_scene::colmap::MODELS {
        let mut tiny = Tiny::default();
        let one_focal = model.name.starts_with("SIMPLE")
            || model.name.contains("RADIAL") && !model.name.contains("FULL");
        let mut parameters = if one_focal {
            vec![18.0, 10.0, 7.5]
        } else {
            vec![18.0, 18.0, 10.0, 7.5]
        };
        parameters.resize(model.parameter_count, 0.01);
        tiny.cameras[0].1 = model.id as u32;
        tiny.cameras[0].4 = parameters;
        match load_with(written(&tiny).path(), &LoadOptions::default()) {
            Ok(dataset) => {
                assert_eq!(dataset.views[0].source_model, model.name);
                assert_ne!(model.name, "EQUIRECTANGULAR");
            }
            Err(error) => {
                // The photos are not twice as wide as high.
                assert_eq!(model.name, "EQUIRECTANGULAR", "{error}");
                assert!(error.to_string().contains("twice as wide"), "{error}");
            }
        }
    }
}

#[test]
fn bad_captures_get_one_clear_error() {
    type Change = fn(&mut Tiny);
    let cases: &[(&str, Change, &[&str])] = &[
        (
            "one photo missing",
            |t| drop(t.photos.remove(1)),
            &["\"a.png\" is missing", "--images"],
        ),
        (
            "several missing",
            |t| t.photos.truncate(1),
            &["2 of 3 photos", "\"a.png\""],
        ),
        (
            "another aspect",
            |t| t.photos[1].1 = 40,
            &["\"a.png\"", "40x15", "20x15"],
        ),
        (
            "rotated",
            |t| (t.photos[0].1, t.photos[0].2) = (15, 20),
            &["\"c.png\"", "rotated"],
        ),
        (
            "NaN pose",
            |t| t.images[2].2[1] = f64::NAN,
            &["\"sub/b.png\"", "NaN"],
        ),
        (
            "infinite quaternion",
            |t| t.images[0].1[0] = f64::INFINITY,
            &["\"c.png\"", "infinite"],
        ),
        (
            "zero quaternion",
            |t| t.images[0].1 = [0.0; 4],
            &["\"c.png\"", "quaternion"],
        ),
        (
            "image id twice",
            |t| t.images[1].0 = 10,
            &["image id 10 appears twice"],
        ),
        (
            "name twice",
            |t| t.images[1].4 = "c.png".into(),
            &["\"c.png\" appears twice"],
        ),
        (
            "camera id twice",
            |t| t.cameras.push(t.cameras[0].clone()),
            &["camera id 7 appears twice"],
        ),
        (
            "unknown camera",
            |t| t.images[1].3 = 9,
            &["\"a.png\"", "camera 9"],
        ),
        ("no area", |t| t.cameras[0].2 = 0, &["camera 7", "0x15"]),
        (
            "absurd size",
            |t| t.cameras[0].3 = 1 << 40,
            &["camera 7", "1099511627776"],
        ),
        (
            "no focal length",
            |t| t.cameras[0].4[1] = 0.0,
            &["camera 7", "focal length"],
        ),
        (
            "negative focal",
            |t| t.cameras[0].4[0] = -5.0,
            &["camera 7", "focal length"],
        ),
        (
            "NaN parameter",
            |t| t.cameras[0].4[2] = f64::NAN,
            &["camera 7", "NaN"],
        ),
        (
            "no lens",
            |t| {
                (t.cameras[0].1, t.cameras[0].4) = (2, vec![18.0, 10.0, 7.0, -1e9]);
            },
            &[
                "the lens of the photo \"a.png\" is impossible",
                "-1000000000",
            ],
        ),
        (
            "no such model",
            |t| t.cameras[0].1 = 99,
            &["camera 7", "99", "image_undistorter"],
        ),
        (
            "path outside",
            |t| t.images[0].4 = "../gone.png".into(),
            &["../gone.png", "leads out"],
        ),
        (
            "absolute path",
            |t| t.images[0].4 = "/etc/passwd".into(),
            &["/etc/passwd", "leads out"],
        ),
        ("no images", |t| t.images.clear(), &["no registered images"]),
        (
            "no photos at all",
            |t| t.photos.clear(),
            &["no image folder", "--images"],
        ),
    ];
    for (name, change, words) in cases {
        let mut tiny = Tiny::default();
        change(&mut tiny);
        let root = written(&tiny);
        let error = match load_with(root.path(), &LoadOptions::default()) {
            Ok(_) => panic!("{name}: accepted"),
            Err(error) => error,
        };
        let text = error.to_string();
        for word in *words {
            assert!(text.contains(word), "{name}: no \"{word}\" in\n{text}");
        }
        assert!(
            error.place().is_some() && error.hint_text().is_some(),
            "{name}:\n{text}"
        );
    }
}

#[test]
fn bad_files_and_paths_get_one_clear_error() {
    let fails = |root: &Path, words: &[&str]| {
        let text = load_with(root, &LoadOptions::default())
            .unwrap_err()
            .to_string();
        for word in words.iter().chain(&["at:", "hint:"]) {
            assert!(text.contains(word), "no \"{word}\" in\n{text}");
        }
    };
    fails(Path::new("/no/such/capture"), &["/no/such/capture"]);
    let empty = tempfile::tempdir().unwrap();
    fails(
        empty.path(),
        &["no capture found", "sparse/0", "transforms.json"],
    );
    let root = written(&Tiny::default());
    fails(&root.path().join("images/a.png"), &["not a capture"]);
    let photo = root.path().join("images/c.png");
    let whole = fs::read(&photo).unwrap();
    fs::write(&photo, &whole[..whole.len() / 2]).unwrap();
    fails(root.path(), &["c.png", "cannot be decoded"]);
    fs::write(&photo, "not a photo").unwrap();
    fails(root.path(), &["c.png", "neither a JPEG nor a PNG"]);
    // The first by name is reported, for any order of threads.
    fs::write(root.path().join("images/sub/b.png"), "").unwrap();
    fails(root.path(), &["c.png"]);
    fs::write(&photo, whole).unwrap();
    fails(root.path(), &["b.png", "empty file"]);
    for (field, options) in [
        (
            "downscale",
            LoadOptions {
                downscale: Some(0),
                ..LoadOptions::default()
            },
        ),
        (
            "max_resolution",
            LoadOptions {
                max_resolution: Some(0),
                ..LoadOptions::default()
            },
        ),
        (
            "max_views",
            LoadOptions {
                max_views: Some(0),
                ..LoadOptions::default()
            },
        ),
    ] {
        let error = load_with(root.path(), &options).unwrap_err();
        assert!(error.what().contains(field));
    }
}

/// Builds a capture with a mask for each photo, black on the left.
fn masked_capture() -> TempDir {
    let root = written(&Tiny::default());
    for name in ["a.png", "c.png.png", "sub/b.png"] {
        let path = root.path().join("masks").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        image::GrayImage::from_fn(20, 15, |x, _| image::Luma([if x < 5 { 0 } else { 255 }]))
            .save(path)
            .unwrap();
    }
    root
}

#[test]
fn masks_segment_and_are_inverted() {
    let root = masked_capture();
    let left = |value: u8| -> Vec<u8> {
        let other = 255 - value;
        (0..20 * 15)
            .map(|i| if i % 20 < 5 { value } else { other })
            .collect()
    };
    let segment = LoadOptions {
        mask_mode: MaskMode::Segment,
        ..LoadOptions::default()
    };
    let dataset = load_with(root.path(), &segment).unwrap();
    for view in &dataset.views {
        let photo = view.photo.read().unwrap();
        assert_eq!(photo.alpha, Some(left(0)), "{}", view.name);
        assert_eq!(photo.mask, None);
    }
    assert_noted(&dataset, "3 of 3 photos have transparent pixels");
    let inverted = LoadOptions {
        invert_masks: true,
        ..LoadOptions::default()
    };
    let dataset = load_with(root.path(), &inverted).unwrap();
    assert_eq!(dataset.views[0].photo.read().unwrap().mask, Some(left(255)));
    // With a lens, some pixels have no ray: those are not part of the object and do not count.
    let mut tiny = Tiny::default();
    tiny.cameras[0] = (7, 4, 20, 15, vec![6.0, 6.0, 10.0, 7.0, -0.9, 0.0, 0.0, 0.0]);
    tiny.write_model(&root.path().join("sparse/0"));
    let dataset = load_with(root.path(), &segment).unwrap();
    let photo = dataset.views[0].photo.read().unwrap();
    assert!(photo.alpha.is_some() && photo.mask.is_some());
}

#[test]
fn contradictions_about_masks_are_refused() {
    let plain = written(&Tiny::default());
    let refused = |root: &TempDir, options: LoadOptions, words: &str| {
        let error = load_with(root.path(), &options).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.hint_text().is_some() && error.place().is_some());
    };
    for mask_mode in [MaskMode::Segment, MaskMode::Ignore] {
        let options = LoadOptions {
            mask_mode,
            ..LoadOptions::default()
        };
        refused(&plain, options, "no photo has a mask");
    }
    let inverted = LoadOptions {
        invert_masks: true,
        ..LoadOptions::default()
    };
    refused(&plain, inverted.clone(), "inverted, but no photo has one");
    // A folder whose names match no photo gives a note.
    fs::create_dir_all(plain.path().join("masks")).unwrap();
    assert_noted(&loaded(&plain), "named as a photo");

    let white = masked_capture();
    for name in ["a.png", "c.png.png", "sub/b.png"] {
        image::GrayImage::from_pixel(20, 15, image::Luma([255]))
            .save(white.path().join("masks").join(name))
            .unwrap();
    }
    assert!(load_with(white.path(), &LoadOptions::default()).is_ok());
    refused(&white, inverted, "leave nothing of any photo");
}

#[test]
fn lists_beside_the_model_split_the_photos() {
    for place in ["", "sparse/", "sparse/0/"] {
        let root = written(&Tiny::default());
        let list = root.path().join(format!("{place}test.txt"));
        fs::write(list, "\u{feff}c.png\r\n\r\n").unwrap();
        let dataset = loaded(&root);
        let split = dataset.split(8);
        assert_eq!((split.train, split.eval), (vec![0, 2], vec![1]), "{place}");
        assert_noted(
            &dataset,
            "own split is used (test.txt): 2 photos to train on, 1 held out",
        );
    }
    let root = written(&Tiny::default());
    fs::write(root.path().join("train.txt"), "a\nb\n").unwrap();
    assert_eq!(loaded(&root).split(8).eval, [1]);
    // A list of other photos is not used.
    fs::write(root.path().join("train.txt"), "Buy milk\n").unwrap();
    let dataset = loaded(&root);
    assert_eq!(dataset.split(8).eval, [0]);
    assert_noted(&dataset, "1 names in train.txt are of no photo");
}

#[test]
fn files_of_a_model_are_read_by_what_they_hold() {
    let tiny = Tiny::default();
    let root = written(&tiny);
    let want = loaded(&root);
    let model = root.path().join("sparse/0");
    // Binary files named .txt.
    for name in ["cameras", "images", "points3D"] {
        let path = model.join(name);
        fs::rename(path.with_extension("bin"), path.with_extension("txt")).unwrap();
    }
    let dataset = loaded(&root);
    assert_eq!((&dataset.points, dataset.views.len()), (&want.points, 3));
    assert_noted(&dataset, "cameras.txt holds binary records");
    // Text files named .bin, one of them in UTF-16.
    let cameras = "7 PINHOLE 20 15 18 19 10.5 7\n";
    let images: String = tiny
        .images
        .iter()
        .map(|(id, q, t, camera, name)| {
            let numbers = q.iter().chain(t).map(|v| format!(" {v}"));
            format!("{id}{} {camera} {name}\n\n", numbers.collect::<String>())
        })
        .collect();
    let points = "1 1 2 3 10 20 30 0.5\n2 -1 0.25 4 10 20 30 0.5\n";
    let images: Vec<u8> = images.encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(model.join("cameras.bin"), cameras).unwrap();
    fs::write(model.join("images.bin"), images).unwrap();
    fs::write(model.join("points3D.bin"), points).unwrap();
    let dataset = loaded(&root);
    assert_eq!(dataset.points, want.points);
    assert_eq!(dataset.views[1].camera, want.views[1].camera);
    assert_noted(&dataset, "images.bin holds text");
}

#[test]
fn names_in_another_code_page_find_their_photos() {
    let mut tiny = Tiny::default();
    let name = "фото.png";
    tiny.photos[1].0 = name.to_owned();
    tiny.images[1].4 = "XXXX.png".to_owned();
    let root = written(&tiny);
    // These letters in Windows' Cyrillic code page.
    let images = tiny.images_bin();
    let at = images.windows(4).position(|part| part == b"XXXX").unwrap();
    let bytes = [&images[..at], &[0xf4, 0xee, 0xf2, 0xee], &images[at + 4..]].concat();
    fs::write(root.path().join("sparse/0/images.bin"), bytes).unwrap();
    let dataset = loaded(&root);
    assert!(dataset.views.iter().any(|view| view.name == name));
    assert_noted(&dataset, "windows-1251");
}

/// This capture at another place.
fn moved(by: glam::DVec3) -> Tiny {
    let mut tiny = Tiny::default();
    for (_, [w, x, y, z], translation, ..) in &mut tiny.images {
        let rotation = glam::DQuat::from_xyzw(*x, *y, *z, *w);
        *translation = (glam::DVec3::from(*translation) - rotation * by).to_array();
    }
    for point in &mut tiny.points {
        *point = (glam::DVec3::from(*point) + by).to_array();
    }
    tiny
}

/// Writes the model as text.
fn write_text(tiny: &Tiny, model: &Path) {
    fs::create_dir_all(model).unwrap();
    let numbers = |values: &[f64]| {
        let values: Vec<String> = values.iter().map(f64::to_string).collect();
        values.join(" ")
    };
    fs::write(model.join("cameras.txt"), "7 PINHOLE 20 15 18 19 10.5 7\n").unwrap();
    let mut images = String::new();
    for (id, q, t, camera, name) in &tiny.images {
        images += &format!("{id} {} {} {camera} {name}\n\n", numbers(q), numbers(t));
    }
    fs::write(model.join("images.txt"), images).unwrap();
    let mut points = String::new();
    for (i, point) in tiny.points.iter().enumerate() {
        points += &format!("{i} {} 10 20 30 0.5 10 0 11 1\n", numbers(point));
    }
    fs::write(model.join("points3D.txt"), points).unwrap();
}

#[test]
fn a_capture_far_from_the_origin_is_as_exact_as_one_beside_it() {
    let here = loaded(&written(&Tiny::default()));
    assert_eq!(here.origin, glam::DVec3::ZERO);
    for by in [
        glam::DVec3::new(448_213.5, 5_411_972.25, 312.75),
        glam::DVec3::splat(-1e4),
    ] {
        let tiny = moved(by);
        let (binary, text) = (written(&tiny), written(&tiny));
        fs::remove_dir_all(text.path().join("sparse")).unwrap();
        write_text(&tiny, &text.path().join("sparse/0"));
        for root in [&binary, &text] {
            let there = loaded(root);
            assert_noted(&there, "local origin");
            assert!(there.origin.distance(by) < 5.0, "{}", there.origin);
            for (a, b) in here.views.iter().zip(&there.views) {
                let [a, b] = [a, b].map(|view| view.camera.camera_from_world);
                let centre = b.centre() + (there.origin - by);
                assert!(centre.distance(a.centre()) < 1e-8, "{centre}");
                assert_eq!(a.rotation, b.rotation);
            }
            for (a, b) in here.points.iter().zip(&there.points) {
                let [a, b] = [a, b].map(|p| glam::DVec3::from(p.position.map(f64::from)));
                let place = b + (there.origin - by);
                // Rounding of f32 at a few units.
                assert!(place.distance(a) < 1e-6, "{place}");
            }
            let all = [0, 1, 2];
            assert!((there.extent(&all) / here.extent(&all) - 1.0).abs() < 1e-7);
        }
    }
}

#[test]
fn photos_that_stand_far_off_are_named() {
    let mut tiny = Tiny::default();
    let names = ["d.png", "e.png", "f.png", "g.png", "lost.png"];
    for (i, name) in names.iter().enumerate() {
        let far = if *name == "lost.png" { 900.0 } else { 0.0 };
        let at = [0.3 * i as f64 + far, 0.2, 2.0];
        let (q, id) = (tiny.images[0].1, 20 + i as u32);
        tiny.images.push((id, q, at, 7, name.to_string()));
        tiny.photos.push((name.to_string(), 20, 15));
    }
    let dataset = loaded(&written(&tiny));
    assert_noted(&dataset, "far off all others (lost.png)");
    assert!(dataset.extent(&(0..8).collect::<Vec<_>>()) < 3.0);
    tiny.images.pop();
    let dataset = loaded(&written(&tiny));
    let said = dataset.notes.iter().any(|note| note.contains("far off"));
    assert!(!said, "{:?}", dataset.notes);
}
