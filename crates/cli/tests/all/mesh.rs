//! `dapple mesh`: files, repetition, comparison, refused input.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::exit::INPUT;
use common::{TRAIN, json, ok_in, refused, small_capture};
use std::path::Path;
use tempfile::TempDir;

/// Makes a small capture and a run on it.
fn trained() -> TempDir {
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    folder
}

fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

#[test]
fn a_run_becomes_meshes_of_all_formats_with_the_same_bytes_on_any_number_of_threads() {
    let folder = trained();
    let path = folder.path();
    for (threads, name) in [("1", "a.ply"), ("2", "b.ply"), ("8", "c.ply")] {
        ok_in(
            path,
            &[
                "mesh",
                "out",
                "-o",
                name,
                "--device",
                "cpu",
                "--threads",
                threads,
            ],
        );
    }
    assert!(
        bytes(path, "a.ply") == bytes(path, "b.ply")
            && bytes(path, "a.ply") == bytes(path, "c.ply")
    );
    let scored = ok_in(
        path,
        &[
            "mesh",
            "out",
            "-o",
            "a.glb",
            "--score",
            "--collision",
            "box.glb",
        ],
    );
    assert!(
        scored.stdout.contains("PSNR") && scored.stdout.contains("pixels"),
        "{}",
        scored.stdout
    );
    assert!(
        scored.stderr.contains("% of the vertices match"),
        "{}",
        scored.stderr
    );
    assert!(
        bytes(path, "a.glb").starts_with(b"glTF") && bytes(path, "box.glb").starts_with(b"glTF")
    );
    let plain = ok_in(
        path,
        &[
            "mesh",
            "out",
            "-o",
            "a.obj",
            "--triangles",
            "500",
            "--texture-size",
            "256",
            "--refine",
            "false",
        ],
    );
    assert!(!plain.stderr.contains("vertices match"), "{}", plain.stderr);
    for name in ["a.obj", "a.mtl", "a.png"] {
        assert!(!bytes(path, name).is_empty(), "{name}");
    }
    for name in ["a.ply", "a.obj"] {
        let found = json(&ok_in(path, &["mesh", name, "--compare", name, "--json"]));
        assert!(found["chamfer"].as_f64().unwrap() < 1e-6, "{found}");
        assert!(
            found["shares"][0]["f_score"].as_f64().unwrap() > 0.999,
            "{found}"
        );
    }
    let text = ok_in(
        path,
        &[
            "mesh",
            "a.ply",
            "--compare",
            "b.ply",
            "--distances",
            "0.5%,0.1",
        ],
    );
    assert!(text.stdout.contains("F-score"), "{}", text.stdout);
}

#[test]
fn photos_of_a_run_with_appearance_get_the_exposure_of_its_splats() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path();
    let synth = ["synth", "c", "--drift", "1", "--photos", "9"];
    let small = ["--width", "96", "--height", "72", "--points", "400"];
    ok_in(path, &[&synth[..], &small].concat());
    let train = [
        "train", "c", "-o", "run", "--device", "cpu", "--steps", "60",
    ];
    ok_in(path, &[&train[..], &["--appearance", "exposure"]].concat());
    let mesh = |name: &str, more: &[&str]| {
        let make = ["mesh", "run", "--device", "cpu", "-o", name];
        ok_in(path, &[&make[..], more].concat()).stderr
    };
    assert!(mesh("auto.ply", &[]).contains("exposure: that of the splats"));
    let plain = mesh("photos.ply", &["--exposure", "photos"]);
    assert!(!plain.contains("exposure: that"), "{plain}");
    mesh("splats.ply", &["--exposure", "splats"]);
    assert!(bytes(path, "auto.ply") == bytes(path, "splats.ply"));
    assert!(bytes(path, "auto.ply") != bytes(path, "photos.ply"));
}

#[test]
fn input_without_a_surface_is_refused() {
    let folder = trained();
    let path = folder.path();
    let mesh = |more: &[&str], words: &[&str]| {
        let mut args = vec!["mesh", "out", "-o", "m.ply"];
        args.extend(more);
        refused(path, &args, INPUT, words);
        assert!(!path.join("m.ply").exists());
    };
    mesh(
        &["--box", "900,900,900,901,901,901"],
        &["no surface is inside the box", "the cameras see"],
    );
    mesh(&["--box", "1,1,1,0,0,0"], &["the box is empty"]);
    mesh(&["--voxel", "0"], &["--voxel"]);
    mesh(&["--voxel", "-1"], &["--voxel"]);
    mesh(&["--detail", "nan"], &["--detail"]);
    refused(
        path,
        &["mesh", "out", "-o", "m.stl"],
        5,
        &[".glb, .obj or .ply"],
    );
    std::fs::write(path.join("there.ply"), "mine").unwrap();
    refused(
        path,
        &["mesh", "out", "-o", "there.ply"],
        INPUT,
        &["--overwrite"],
    );
    refused(
        path,
        &["mesh", "there.ply", "--compare", "there.ply"],
        INPUT,
        &["no PLY file"],
    );
    // Splats without a capture.
    std::fs::copy(path.join("out/splats.ply"), path.join("alone.ply")).unwrap();
    refused(
        path,
        &["mesh", "alone.ply", "-o", "m.ply"],
        INPUT,
        &["--capture"],
    );
}
