//! Captures in the variants that tools and people write: each is read, or its error names the next step.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::too_many_lines, reason = "a test is one scenario")]

use super::*;
use crate::{Camera, Capture, NoProgress, Splats, colmap, splat_file};
use dapple_synth::{SynthOptions, generate};
use std::fs;
use tempfile::TempDir;

const PHOTOS: usize = 4;

/// Builds a capture of four photos of 16x12 pixels, with a binary model in `sparse/0`.
fn capture() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let options = SynthOptions {
        photos: PHOTOS,
        width: 16,
        height: 12,
        points: 30,
        ..SynthOptions::default()
    };
    let made = tempfile::tempdir().unwrap();
    generate(&options, &made.path().join("c"), &NoProgress).unwrap();
    for name in ["images", "sparse"] {
        fs::rename(made.path().join("c").join(name), folder.path().join(name)).unwrap();
    }
    folder
}

fn to(folder: &TempDir, from: &str, to: &str) {
    let [from, to] = [from, to].map(|name| folder.path().join(name));
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::rename(from, to).unwrap();
}

fn write(folder: &TempDir, name: &str, bytes: impl AsRef<[u8]>) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path().join("images")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn opened(folder: &TempDir) -> Result<Capture> {
    let capture = open(folder.path(), &LoadOptions::default())?;
    capture.check_files()?;
    Ok(capture)
}

fn notes(folder: &TempDir) -> String {
    let options = LoadOptions::default();
    let dataset = load(folder.path(), &options, &NoProgress).unwrap();
    dataset.notes.join("\n")
}

#[track_caller]
fn refused(path: &Path, words: &[&str]) -> String {
    let error = match open(path, &LoadOptions::default()) {
        Err(error) => error,
        Ok(capture) => capture.check_files().unwrap_err(),
    };
    let text = error.to_string();
    for word in words.iter().chain(&["at:", "hint:"]) {
        assert!(text.contains(word), "no {word:?} in\n{text}");
    }
    text
}

/// Writes a transforms file that names the capture's photos by `prefix` and their names.
fn transforms(folder: &TempDir, top: &str, prefix: &str) {
    let frame = |(i, name): (usize, String)| {
        let path = format!("{prefix}{name}").replace('\\', "\\\\");
        format!(
            r#"{{"file_path": "{path}", "transform_matrix": [[1,0,0,{i}],[0,1,0,0],[0,0,1,4],[0,0,0,1]]}}"#
        )
    };
    let frames: Vec<String> = names(folder).into_iter().enumerate().map(frame).collect();
    let text = format!(r#"{{"fl_x": 20, {top} "frames": [{}]}}"#, frames.join(","));
    write(folder, "transforms.json", text);
    if folder.path().join("sparse").is_dir() {
        fs::remove_dir_all(folder.path().join("sparse")).unwrap();
    }
}

#[test]
fn captures_are_found_where_tools_leave_them() {
    for (model, photos) in [
        ("sparse", "input"),
        ("Sparse/0", "Images"),
        ("sparse/0", "photos"),
        ("sparse/0", "."),
        (".", "images"),
        ("dense/0/sparse", "dense/0/images"),
        ("dense/sparse", "images"),
        ("undistorted/sparse", "undistorted/images"),
        ("undistorted/sparse/0", "undistorted/images"),
        ("distorted/sparse/0", "input"),
        ("colmap/sparse/0", "images"),
        ("colmap/sparse/0", "colmap/images"),
        ("scan/sparse/0", "scan/images"),
        ("a/b/sparse", "a/b/images"),
        ("work/model", "work/images"),
        ("calibration_undistorted", "images"),
        ("sfm/0", "images"),
    ] {
        let folder = capture();
        to(&folder, "sparse/0", "model");
        to(&folder, "images", "photos of it");
        fs::remove_dir_all(folder.path().join("sparse")).unwrap();
        for (from, place) in [("model", model), ("photos of it", photos)] {
            if place != "." {
                to(&folder, from, place);
                continue;
            }
            for entry in fs::read_dir(folder.path().join(from)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                to(&folder, &format!("{from}/{name}"), &name);
            }
            fs::remove_dir(folder.path().join(from)).unwrap();
        }
        let capture = opened(&folder).unwrap_or_else(|e| panic!("{model}, {photos}: {e}"));
        assert_eq!(
            (capture.images.len(), capture.points.len()),
            (PHOTOS, 30),
            "{model}, {photos}"
        );
        // `refuse_output` refuses results in all of these folders.
        let options = LoadOptions::default();
        for inner in [model, photos] {
            let out = folder.path().join(inner);
            assert!(
                refuse_output(&out, &[], folder.path(), &capture, &options).is_err(),
                "{inner}"
            );
        }
        // The model's folder as the capture.
        let of_model = open(&folder.path().join(model), &options).unwrap();
        assert_eq!(of_model.images.len(), PHOTOS);
        if !model.starts_with("work") && !model.starts_with("calib") {
            of_model
                .check_files()
                .unwrap_or_else(|e| panic!("{model}, {photos}: {e}"));
        }
    }
}

#[test]
fn of_several_captures_the_usual_one_is_taken_or_none() {
    let folder = capture();
    for place in ["garden", "bicycle"] {
        let other = capture();
        fs::create_dir(folder.path().join(place)).unwrap();
        for inner in ["sparse", "images"] {
            fs::rename(
                other.path().join(inner),
                folder.path().join(place).join(inner),
            )
            .unwrap();
        }
    }
    // A model of the folder itself has priority over those below.
    assert!(!notes(&folder).contains("the capture is in"));
    fs::remove_dir_all(folder.path().join("sparse")).unwrap();
    refused(
        folder.path(),
        &["2 captures", "bicycle, garden", "name one"],
    );
    to(&folder, "garden", "dense/0");
    let said = notes(&folder);
    assert!(said.contains("the capture is in dense/0/"), "{said}");
    assert!(
        said.contains("other captures are not used: bicycle/"),
        "{said}"
    );
    // The largest of COLMAP's reconstructions.
    to(&folder, "bicycle", "dense/1");
    let path = folder.path().join("dense/0/sparse/0");
    let mut images = fs::read(path.join("images.bin")).unwrap();
    images[0] = 1;
    let name_end = 72 + images[72..].iter().position(|&b| b == 0).unwrap() + 1;
    let observations = u64::from_le_bytes(images[name_end..name_end + 8].try_into().unwrap());
    images.truncate(name_end + 8 + 24 * observations as usize);
    fs::write(path.join("images.bin"), images).unwrap();
    fs::remove_dir_all(folder.path().join("images")).unwrap();
    assert_eq!(colmap::image_count(&path).unwrap(), 1);
    assert_eq!(opened(&folder).unwrap().images.len(), PHOTOS);
    to(&folder, "dense", "other");
    assert_eq!(opened(&folder).unwrap().images.len(), PHOTOS);
}

#[test]
fn points_are_taken_from_where_tools_put_them() {
    let ply = "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\n\
               property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n0 0 1 9 8 7\n1 0 2 6 5 4\n";
    for name in [
        "sparse/0/points3D.ply",
        "sparse/0/points3d.ply",
        "sparse/0/init.ply",
        "sparse_pc.ply",
        "PointCloud.ply",
        "sparse/points3D.ply",
    ] {
        let folder = capture();
        fs::remove_file(folder.path().join("sparse/0/points3D.bin")).unwrap();
        write(&folder, name, ply);
        let capture = opened(&folder).unwrap();
        assert_eq!(capture.points.len(), 2, "{name}");
        assert_eq!(
            (&capture.missing_points, capture.tracks.is_some()),
            (&None, false)
        );
        let said = capture.notes.join("\n");
        assert!(said.contains("the sparse points are those of"), "{said}");
        assert!(!said.contains("no sparse points"), "{said}");
    }
    // Next to a transforms file that names no points.
    let folder = capture();
    transforms(&folder, "", "images/");
    assert!(
        opened(&folder)
            .unwrap()
            .notes
            .contains(&"the capture has no sparse points".to_owned())
    );
    write(&folder, "sparse_pc.ply", ply);
    let capture = opened(&folder).unwrap();
    assert_eq!(capture.points.len(), 2);
    assert!(!capture.notes.join("\n").contains("no sparse points"));
    // Splats, damaged files and the random points of 3DGS' trainer are not used.
    let mut splats = Splats::empty(0);
    splats.means.push([1.0; 3]);
    splats.scales.push([0.0; 3]);
    splats.quats.push([1.0, 0.0, 0.0, 0.0]);
    splats.opacities.push(0.0);
    splats.sh0.push([0.0; 3]);
    let path = folder.path().join("sparse_pc.ply");
    splat_file::write(&path, &splats, splat_file::Format::Ply).unwrap();
    assert_eq!(opened(&folder).unwrap().points, []);
    write(&folder, "sparse_pc.ply", &ply[..ply.len() - 12]);
    let capture = opened(&folder).unwrap();
    assert_eq!(capture.points, []);
    assert!(
        capture
            .notes
            .join("\n")
            .contains("sparse_pc.ply is not used as sparse points")
    );
    fs::remove_file(&path).unwrap();
    let mut random = "ply\nformat binary_little_endian 1.0\nelement vertex 100000\nproperty float x\nproperty float y\n\
                      property float z\nend_header\n"
        .as_bytes()
        .to_vec();
    for i in 0..300_000u32 {
        let value = f64::from(i.wrapping_mul(2_654_435_761)) / f64::from(u32::MAX) * 2.6 - 1.3;
        random.extend((value as f32).to_le_bytes());
    }
    write(&folder, "points3d.ply", random);
    let capture = opened(&folder).unwrap();
    assert_eq!(capture.points, []);
    assert!(
        capture
            .notes
            .join("\n")
            .contains("random ones that 3DGS' trainer writes")
    );
}

#[test]
fn photos_are_found_under_the_names_of_other_machines() {
    for prefix in [
        "D:\\scans\\kitchen\\images\\",
        "/mnt/scans/kitchen/images/",
        "file:///home/me/images/",
        "./data/scan/images/",
        "../images/",
        "Images/",
        "elsewhere/",
    ] {
        let folder = capture();
        transforms(&folder, "", prefix);
        let capture = opened(&folder).unwrap_or_else(|e| panic!("{prefix}: {e}"));
        for (image, name) in capture.images.iter().zip(names(&folder)) {
            assert_eq!(
                image.path().unwrap(),
                folder.path().join("images").join(&name)
            );
            assert!(image.name.ends_with(&name));
        }
        // Files next to the photos' folder are found from there.
        to(&folder, "images", "images_2");
        fs::create_dir(folder.path().join("images")).unwrap();
        for name in names_in(&folder, "images_2") {
            fs::copy(
                folder.path().join("images_2").join(&name),
                folder.path().join("images").join(&name),
            )
            .unwrap();
        }
        let reduced = LoadOptions {
            downscale: Some(2),
            ..LoadOptions::default()
        };
        let capture = open(folder.path(), &reduced).unwrap();
        assert!(
            capture.images.iter().all(|image| image.downscaled),
            "{prefix}"
        );
    }
    // Next to the file, and in a folder that repeats COLMAP's names.
    let folder = capture();
    transforms(&folder, "", "images/");
    for name in names(&folder) {
        to(&folder, &format!("images/{name}"), &name);
    }
    opened(&folder).unwrap();
    // A file outside the capture's folders is not opened.
    let outside = tempfile::tempdir().unwrap();
    let folder = capture();
    for name in names(&folder) {
        let [from, to] = [folder.path().join("images"), outside.path().to_owned()];
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
    transforms(&folder, "", &format!("{}/", outside.path().display()));
    opened(&folder).unwrap();
    fs::remove_dir_all(folder.path().join("images")).unwrap();
    refused(folder.path(), &["leads out", "--images"]);
    let elsewhere = LoadOptions {
        images: Some(outside.path().to_owned()),
        ..LoadOptions::default()
    };
    open(folder.path(), &elsewhere)
        .unwrap()
        .check_files()
        .unwrap();
}

fn names_in(folder: &TempDir, inner: &str) -> Vec<String> {
    let entries = fs::read_dir(folder.path().join(inner)).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_missing_photo_comes_with_what_is_there_instead() {
    let folder = capture();
    let first = names(&folder)[0].clone();
    let stem = first.trim_end_matches(".png").to_owned();
    to(
        &folder,
        &format!("images/{first}"),
        &format!("images/{stem}.HEIC"),
    );
    let there = format!("images/{stem}.HEIC is there");
    refused(
        folder.path(),
        &[
            &first,
            "is missing",
            &there,
            "magick mogrify -format jpg *.heic",
        ],
    );
    to(
        &folder,
        &format!("images/{stem}.HEIC"),
        &format!("images/{stem}.CR2"),
    );
    refused(folder.path(), &["CR2 is there", "darktable"]);
    fs::remove_file(folder.path().join(format!("images/{stem}.CR2"))).unwrap();
    refused(
        folder.path(),
        &["images/ holds 3 photos, such as", "--skip-missing"],
    );
    // Converted photos give a note, and so do photos in other folders.
    let folder = capture();
    for name in names(&folder) {
        let stem = name.trim_end_matches(".png");
        to(
            &folder,
            &format!("images/{name}"),
            &format!("pictures/in/{stem}.tif"),
        );
    }
    fs::remove_dir(folder.path().join("images")).unwrap();
    for name in names_in(&folder, "pictures/in") {
        let path = folder.path().join("pictures/in").join(name);
        let png = image::load_from_memory(&fs::read(&path).unwrap()).unwrap();
        png.save_with_format(&path, image::ImageFormat::Tiff)
            .unwrap();
    }
    let said = notes(&folder);
    assert!(
        said.contains("4 of 4 photos are in another folder than the capture names"),
        "{said}"
    );
    assert!(
        said.contains("4 of 4 photos have another file ending"),
        "{said}"
    );
    // No photos at all, or only reduced ones.
    fs::remove_dir_all(folder.path().join("pictures")).unwrap();
    refused(folder.path(), &["no image folder", "--images"]);
    fs::create_dir(folder.path().join("images_8")).unwrap();
    refused(folder.path(), &["images_8/ is there", "--downscale 8"]);
}

#[test]
fn reduced_photos_that_are_not_all_there_are_not_used() {
    let folder = capture();
    let reduced = LoadOptions {
        downscale: Some(2),
        ..LoadOptions::default()
    };
    let all = names(&folder);
    fs::create_dir(folder.path().join("images_2")).unwrap();
    let copy = |name: &String, to: String| {
        fs::copy(
            folder.path().join("images").join(name),
            folder.path().join("images_2").join(to),
        )
        .unwrap()
    };
    copy(&all[0], all[0].clone());
    let dataset = load(folder.path(), &reduced, &NoProgress).unwrap();
    let said = dataset.notes.join("\n");
    assert!(
        said.contains("images_2/ holds 1 of 4 photos and is not used"),
        "{said}"
    );
    assert!(dataset.views.iter().all(|view| view.photo.size() == [8, 6]));
    // Names with other letters and extensions are accepted too.
    for name in &all {
        fs::remove_file(folder.path().join("images_2").join(&all[0])).ok();
        copy(name, name.to_uppercase());
    }
    let dataset = load(folder.path(), &reduced, &NoProgress).unwrap();
    assert!(
        dataset
            .notes
            .contains(&"photos are taken from images_2".to_owned()),
        "{:?}",
        dataset.notes
    );
    // A few full-size photos do not replace the folder of reduced ones.
    for name in &all[..2] {
        fs::remove_file(folder.path().join("images").join(name)).unwrap();
    }
    load(folder.path(), &reduced, &NoProgress).unwrap();
}

fn mask(folder: &TempDir, name: &str, value: impl Fn(u32) -> u8) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mask = image::GrayImage::from_fn(16, 12, |x, _| image::Luma([value(x)]));
    mask.save_with_format(path, image::ImageFormat::Png)
        .unwrap();
}

#[test]
fn masks_are_used_where_tools_put_them_or_told_of() {
    let half = |x: u32| if x < 8 { 0 } else { 255 };
    type Named = fn(&str) -> String;
    let used: [(Named, &str); 9] = [
        (
            |stem| format!("masks/{stem}.png"),
            "4 of 4 photos have a mask",
        ),
        (
            |stem| format!("masks/{stem}.png.png"),
            "4 of 4 photos have a mask",
        ),
        (
            |stem| format!("Masks/{stem}.PNG"),
            "4 of 4 photos have a mask",
        ),
        (
            |stem| format!("mask/{stem}.png"),
            "taken from files in mask/",
        ),
        (
            |stem| format!("images/masks/{stem}.png"),
            "4 of 4 photos have a mask",
        ),
        (
            |stem| format!("masks/{stem}.png.mask.png"),
            "4 of 4 photos have a mask",
        ),
        (
            |stem| format!("masks/{stem}_mask.png"),
            "4 of 4 photos have a mask",
        ),
        (
            |stem| format!("images/{stem}_mask.png"),
            "next to the photos",
        ),
        (
            |stem| format!("images/{stem}.png.mask.png"),
            "next to the photos",
        ),
    ];
    for (name, note) in used {
        let folder = capture();
        for photo in names(&folder) {
            mask(&folder, &name(photo.trim_end_matches(".png")), half);
        }
        let dataset = load(folder.path(), &LoadOptions::default(), &NoProgress).unwrap();
        let said = dataset.notes.join("\n");
        assert!(said.contains(note), "{}: {said}", name("0"));
        for view in &dataset.views {
            let photo = view.photo.read().unwrap();
            let left: Vec<u8> = (0..16).map(half).collect();
            assert_eq!(photo.mask.as_ref().unwrap()[..16], left, "{}", name("0"));
        }
    }
    let unused: [(Named, &str); 4] = [
        (
            |stem| format!("masks/x{stem}.png"),
            "no mask in masks/ is named as a photo",
        ),
        (
            |stem| format!("sam_masks/{stem}.png"),
            "sam_masks/ may hold masks of 4 photos",
        ),
        (
            |stem| format!("segmentation/{stem}.png.png"),
            "segmentation/ may hold masks",
        ),
        (
            |stem| format!("images/dynamic_mask_{stem}.png"),
            "4 masks of instant-ngp",
        ),
    ];
    for (name, note) in unused {
        let folder = capture();
        for photo in names(&folder) {
            mask(&folder, &name(photo.trim_end_matches(".png")), half);
        }
        let said = notes(&folder);
        assert!(
            said.contains(note) && !said.contains("photos have a mask"),
            "{}: {said}",
            name("0")
        );
    }
    // Two places: the first is used, and a note names the other. Photos of such names are photos.
    let folder = capture();
    for photo in names(&folder) {
        mask(&folder, &format!("masks/{photo}"), half);
        mask(&folder, &format!("mask/{photo}"), half);
    }
    assert!(notes(&folder).contains("mask/ holds masks of 4 photos too: they are not used"));
}

#[test]
fn what_masks_hold_is_told() {
    let with = |value: fn(u32) -> u8| {
        let folder = capture();
        for photo in names(&folder) {
            mask(&folder, &format!("masks/{photo}"), value);
        }
        folder
    };
    let said = notes(&with(|x| u8::from(x >= 8)));
    assert!(
        said.contains("4 of 4 photos have a mask of two values"),
        "{said}"
    );
    assert!(
        said.contains("4 of 4 photos have a mask\n")
            || said.contains("4 of 4 photos have a mask of"),
        "{said}"
    );
    assert!(notes(&with(|_| 255)).contains("4 of 4 photos have a mask that excludes nothing"));
    let nothing = |value: fn(u32) -> u8| {
        let folder = with(value);
        load(folder.path(), &LoadOptions::default(), &NoProgress)
            .unwrap_err()
            .to_string()
    };
    let labels = nothing(|x| (x / 5) as u8);
    assert!(
        labels.contains("3 of 255") && labels.contains("labels"),
        "{labels}"
    );
    assert!(nothing(|_| 0).contains("--invert-masks"));
}

#[test]
fn panoramas_load_by_their_names_and_need_their_shape() {
    for model in ["EQUIRECTANGULAR", "equirectangular", "SPHERICAL"] {
        let folder = capture();
        transforms(
            &folder,
            &format!(r#""camera_model": "{model}","#),
            "images/",
        );
        refused(folder.path(), &["16x12", "twice as wide as high", "pad"]);
        for name in names(&folder) {
            let path = folder.path().join("images").join(&name);
            image::RgbImage::new(24, 12).save(&path).unwrap();
        }
        let text = fs::read_to_string(folder.path().join("transforms.json")).unwrap();
        // A focal length is neither needed nor read.
        let text = text.replace(r#""fl_x": 20,"#, "").replace("16", "24");
        write(&folder, "transforms.json", text);
        let loaded = load(folder.path(), &LoadOptions::default(), &NoProgress).unwrap();
        let camera = &loaded.views[0].camera;
        let pose = camera.camera_from_world;
        assert_eq!(*camera, Camera::equirectangular(24, 12, pose), "{model}");
        assert!(loaded.notes.iter().any(|n| n.contains("panoramas")));
        let smaller = LoadOptions {
            max_resolution: Some(12),
            ..LoadOptions::default()
        };
        let loaded = load(folder.path(), &smaller, &NoProgress).unwrap();
        let pose = loaded.views[0].camera.camera_from_world;
        assert_eq!(
            loaded.views[0].camera,
            Camera::equirectangular(12, 6, pose),
            "{model}"
        );
        let flat = LoadOptions {
            undistort: true,
            ..LoadOptions::default()
        };
        let error = load(folder.path(), &flat, &NoProgress).unwrap_err();
        assert!(error.to_string().contains("panorama"), "{error}");
        assert!(error.hint_text().unwrap().contains("--undistort"));
    }
    let folder = capture();
    let mut cameras = 1u64.to_le_bytes().to_vec();
    cameras.extend([1u32.to_le_bytes(), 17u32.to_le_bytes()].concat());
    for value in [16u64, 12, 16f64.to_bits(), 12f64.to_bits()] {
        cameras.extend(value.to_le_bytes());
    }
    write(&folder, "sparse/0/cameras.bin", cameras);
    let said = refused(folder.path(), &["16x12", "twice as wide as high"]);
    assert!(!said.contains("image_undistorter"), "{said}");
}

#[test]
fn turns_that_sizes_do_not_show_and_other_sizes_are_told() {
    let folder = capture();
    for name in names(&folder) {
        let path = folder.path().join("images").join(&name);
        let photo = image::load_from_memory(&fs::read(&path).unwrap()).unwrap();
        let smaller = photo
            .resize_exact(8, 6, image::imageops::FilterType::Nearest)
            .to_rgb8();
        let mut bytes = Vec::new();
        let mut encoder = image::codecs::jpeg::JpegEncoder::new(&mut bytes);
        let mut exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x03\0".to_vec();
        exif.extend([0; 6]);
        image::ImageEncoder::set_exif_metadata(&mut encoder, exif).unwrap();
        encoder.encode_image(&smaller).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let capture = opened(&folder).unwrap();
    assert_eq!(photo_sizes(&capture), [((8, 6), 4)].into());
    assert!(
        notes(&folder).contains("4 of 4 photos are turned or mirrored by their EXIF orientation")
    );
    // `describe_all` gives the same notes as `load`.
    let described = describe_all(&capture, &LoadOptions::default(), &NoProgress).unwrap();
    assert!(described.notes.join("\n").contains("EXIF"));
}

mod next_steps;
