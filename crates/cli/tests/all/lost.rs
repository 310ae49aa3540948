//! Files that no command loses: files of captures and runs, older results, splats at the end of a
//! run.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{TRAIN, dapple, files, json, ok_in, refused, run_in, small_capture};
use dapple::scene::splat_file::{self, Format};
use dapple::{Splats, scene};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Returns names and contents of all files below a folder.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: &std::path::PathBuf| {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        (name.display().to_string(), bytes)
    };
    files(folder).iter().map(read).collect()
}

/// Writes a few hundred Gaussians to a file.
fn write_splats(path: &Path, count: usize, degree: u8) {
    let mut splats = Splats::empty(degree);
    for i in 0..count {
        let place = [i % 7, i % 11, i % 13].map(|k| 0.1 * k as f32);
        splats.means.push(place);
        splats.scales.push([-3.0, -2.5, -3.5]);
        splats.quats.push([1.0, 0.1 * (i % 5) as f32, 0.0, 0.0]);
        splats.opacities.push(1.0);
        splats.sh0.push(place);
    }
    splats.sh_rest = vec![0.1; count * splats.sh_rest_stride()];
    splat_file::write(path, &splats, Format::Ply).unwrap();
}

#[test]
fn a_smaller_result_leaves_no_file_of_the_larger_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(&path.join("in.ply"), 600, 1);
    for (out, less) in [
        ("sog/meta.json", &["--sh-degree=0"][..]),
        ("lod/lod-meta.json", &["--lod-levels=1"]),
    ] {
        let convert = |out: &str, more: &[&str]| {
            let args = ["convert", "in.ply", out, "--no-loss", "-q", "--json"];
            json(&ok_in(path, &[&args[..], more].concat()))
        };
        convert(out, &[]);
        let at = path.join(out);
        std::fs::write(at.with_file_name("notes.txt"), "mine").unwrap();
        let replaced = convert(out, &[less, &["--overwrite"]].concat());
        let fresh = convert(&format!("new/{out}"), less);
        assert_eq!(replaced["bytes"], fresh["bytes"]);
        let mut left = contents(at.parent().unwrap());
        assert_eq!(left.remove("notes.txt").unwrap(), b"mine");
        let new = path.join("new").join(out);
        assert!(left == contents(new.parent().unwrap()), "{out}");
    }
}

#[cfg(unix)]
#[test]
fn a_kill_while_a_folder_is_replaced_leaves_the_old_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let results = [("a.ply", 500, 0), ("b.ply", 400, 1)].map(|(name, count, degree)| {
        write_splats(&path.join(name), count, degree);
        let fresh = format!("{name}.sog/meta.json");
        ok_in(path, &["convert", name, &fresh, "--no-loss", "-q"]);
        contents(path.join(fresh).parent().unwrap())
    });
    ok_in(
        path,
        &["convert", "a.ply", "s/meta.json", "--no-loss", "-q"],
    );
    let convert = |name: &str| {
        let args = ["convert", name, "s/meta.json", "--no-loss", "--overwrite"];
        let mut command = dapple();
        command.args(args).arg("-q").current_dir(path);
        command.stderr(Stdio::null()).spawn().unwrap()
    };
    let started = Instant::now();
    convert("a.ply").wait().unwrap();
    let took = started.elapsed();
    for round in 0..24 {
        let mut child = convert(["b.ply", "a.ply"][round % 2]);
        // Kills are spread from the start of the command to a little after its end.
        std::thread::sleep(took * (round as u32 + 1) / 20);
        let _ = child.kill();
        child.wait().unwrap();
        let mut left = contents(&path.join("s"));
        left.retain(|name, _| !name.starts_with(".dapple"));
        assert!(results.contains(&left), "round {round}: {:?}", left.keys());
    }
    // The next command removes the remains of the kills.
    convert("a.ply").wait().unwrap();
    let is_left = |name: &std::path::PathBuf| name.display().to_string().contains(".dapple-");
    assert!(!files(path).iter().any(is_left), "{:?}", files(path));
}

#[cfg(unix)]
#[test]
fn a_limit_on_file_sizes_leaves_the_old_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(&path.join("a.ply"), 500, 0);
    write_splats(&path.join("b.ply"), 60_000, 1);
    ok_in(
        path,
        &["convert", "a.ply", "s/meta.json", "--no-loss", "-q"],
    );
    let before = contents(&path.join("s"));
    let limited = "ulimit -f 16; exec \"$0\" convert b.ply s/meta.json --no-loss --overwrite -q";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_dapple")]);
    let ran = command.current_dir(path).output().unwrap();
    assert!(!ran.status.success());
    assert!(contents(&path.join("s")) == before);
}

#[test]
fn a_leftover_of_a_killed_command_goes_with_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(&path.join("in.ply"), 50, 0);
    std::fs::write(path.join(".dapple-Ab3Cd4.part"), "half").unwrap();
    ok_in(path, &["convert", "in.ply", "out.ply", "-q"]);
    assert!(!path.join(".dapple-Ab3Cd4.part").exists());
}

#[test]
fn numbers_that_are_not_finite_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(&path.join("in.ply"), 50, 1);
    let far = ["--translate=3e38,0,0", "--translate=3e38,0,0"];
    let edit = ["edit", "in.ply"];
    for name in ["o.ply", "o.spz", "o.sog", "o.compressed.ply", "o/meta.json"] {
        ok_in(path, &["convert", "in.ply", name, "--no-loss", "-q"]);
        let before = contents(path);
        let args = [&edit[..], &[name, "--overwrite"], &far].concat();
        refused(path, &args, 3, &["x of Gaussian 0 is inf", "--keep finite"]);
        assert!(contents(path) == before, "{name}");
    }
    let recipe = [
        &edit[..],
        &["t.ply", "--translate=3e38,0,0", "--save-recipe=r.json"],
    ]
    .concat();
    ok_in(path, &recipe);
    let replayed = ["edit", "t.ply", "o.ply", "--recipe=r.json", "--overwrite"];
    refused(path, &replayed, 3, &["x of Gaussian 0 is inf"]);
    // Sizes that only a logarithm can represent.
    let (mut splats, _) = splat_file::read(&path.join("in.ply")).unwrap();
    splats.scales[7][0] = 100.0;
    splat_file::write(&path.join("large.ply"), &splats, Format::Ply).unwrap();
    let words = ["scale_0 of Gaussian 7", "e^100"];
    refused(path, &["convert", "large.ply", "o.glb"], 3, &words);
    assert!(!path.join("o.glb").exists());
}

#[test]
fn an_edit_says_what_a_lossy_format_loses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(&path.join("in.ply"), 200, 0);
    let edit = |out: &str, more: &[&str]| {
        let args = ["edit", "in.ply", out, "--scale=1e5", "--overwrite"];
        ok_in(path, &[&args[..], more].concat())
    };
    let saturated = json(&edit("o.spz", &["--json"]))["loss"]["lost_db"].clone();
    assert!(saturated.as_f64().unwrap() > 3.0, "{saturated}");
    assert!(edit("o.spz", &[]).stdout.contains("\nloses "));
    assert!(!edit("o.spz", &["--no-loss"]).stdout.contains("loses"));
    assert!(!edit("o.ply", &[]).stdout.contains("loses"));
}

#[test]
fn files_of_captures_and_runs_are_not_replaced_by_any_verb() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let other = [&TRAIN[..3], &["-o", "other"], &TRAIN[5..]].concat();
    ok_in(path, &other);
    let render = "--camera=camera.json";
    let camera = r#"{"width": 8, "height": 8, "fx": 8, "eye": [0, 0, -4], "target": [0, 0, 0]}"#;
    std::fs::write(path.join("camera.json"), camera).unwrap();
    let train = [&TRAIN[..3], &["-o", "third"], &TRAIN[5..]].concat();
    let flame = |file| [&train[..], &["--flamegraph", file, "--overwrite"]].concat();
    let before = contents(path);
    for args in [
        flame("capture/sparse/0/points3D.bin"),
        flame("capture/images/000.png"),
        flame("other/metrics.json"),
        vec!["eval", "capture", "out", "-o", "other", "--overwrite"],
        vec!["export", "out", "capture/images", "--overwrite"],
        vec!["export", "out", "capture", "--overwrite"],
        vec![
            "edit",
            "out",
            "capture/sparse/0/points3D.ply",
            "--scale=2",
            "--overwrite",
        ],
        vec![
            "edit",
            "out",
            "other/splats.ply",
            "--scale=2",
            "--overwrite",
        ],
        vec![
            "edit",
            "out",
            "e.ply",
            "--scale=2",
            "--save-recipe",
            "other/cameras.json",
            "--overwrite",
        ],
        vec!["convert", "out", "other/splats.ply", "--overwrite"],
        vec![
            "render",
            "out",
            render,
            "-o",
            "other/renders/000.png",
            "--overwrite",
        ],
        vec![
            "render",
            "out",
            render,
            "-o",
            "capture/images/000.png",
            "--overwrite",
        ],
        vec!["view", "out", "--save", "other/splats.ply", "--overwrite"],
    ] {
        if args.contains(&"capture/sparse/0/points3D.ply") {
            std::fs::write(path.join("capture/sparse/0/points3D.ply"), "points").unwrap();
        }
        refused(path, &args, 3, &[]);
        let _ = std::fs::remove_file(path.join("capture/sparse/0/points3D.ply"));
        assert!(contents(path) == before, "{args:?}");
    }
    // The run's own scores go into its folder.
    ok_in(path, &["eval", "capture", "out", "-q", "-o", "out"]);
    // A file that did not exist at the start of a run is not replaced at its end.
    let own = [
        &TRAIN[..3],
        &["-o", "own", "--flamegraph", "own/splats.ply"],
        &TRAIN[5..],
    ]
    .concat();
    refused(path, &own, 3, &["own/splats.ply"]);
    assert!(!path.join("own").exists());
}

#[test]
fn what_a_run_cannot_write_is_told_before_it_begins() {
    let folder = small_capture();
    let path = folder.path();
    std::fs::create_dir_all(path.join("out/splats.ply")).unwrap();
    let started = Instant::now();
    let endless = [
        "train",
        "capture",
        "-q",
        "-o",
        "out",
        "--steps=10000000",
        "--overwrite",
    ];
    refused(path, &endless, 3, &["a folder has the name", "splats.ply"]);
    std::fs::remove_dir(path.join("out/splats.ply")).unwrap();
    ok_in(path, &TRAIN);
    let view = ["view", "out", "--save", "x.ksplat"];
    refused(path, &view, 5, &["read, not written", "x.ksplat"]);
    let edit = ["edit", "out", "x.ksplat", "--scale=2"];
    refused(path, &edit, 5, &["read, not written"]);
    assert!(started.elapsed() < Duration::from_secs(60));
    let long = "7".repeat(60_000);
    for args in [
        ["train", "capture", "--steps", &long],
        ["convert", &long, "x.ply", "-q"],
    ] {
        let ran = run_in(path, &args);
        assert!(
            ran.code != 0 && ran.stderr.len() < 4000,
            "{}",
            ran.stderr.len()
        );
        assert!(ran.stderr.contains("7 ... "), "{}", ran.stderr);
    }
}

#[test]
fn focal_lengths_that_no_lens_has_end_a_command_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    image::RgbImage::new(32, 24)
        .save(path.join("a.png"))
        .unwrap();
    for focal in ["9.2e18", "1e300", "1e-9"] {
        let json = format!(
            r#"{{"fl_x": 40, "fl_y": {focal}, "w": 32, "h": 24, "frames": [{{"file_path": "a.png",
            "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,4],[0,0,0,1]]}}]}}"#
        );
        std::fs::write(path.join("transforms.json"), json).unwrap();
        let started = Instant::now();
        refused(path, &["train", "."], 3, &["focal length", "a.png"]);
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

/// A vanished folder whose place a file has taken, which no folder can replace.
#[cfg(unix)]
#[test]
fn splats_that_their_folder_does_not_take_go_to_another_place() {
    let folder = small_capture();
    let path = folder.path();
    let elsewhere = path.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut command = dapple();
    command.args(["train", "capture", "-o", "runs/out", "--steps=10000000"]);
    command.args(["--checkpoint-every=0", "--eval-every=8"]);
    command.current_dir(path).env("TMPDIR", &elsewhere);
    let stderr = path.join("stderr");
    command.stderr(std::fs::File::create(&stderr).unwrap());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let said = || std::fs::read_to_string(&stderr).unwrap();
    while !said().contains("step 1/") {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::remove_dir_all(path.join("runs")).unwrap();
    std::fs::write(path.join("runs"), "a file").unwrap();
    let id = child.id().to_string();
    let mut interrupt = std::process::Command::new("kill");
    let sent = interrupt.args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(4), "{}", said());
    let said = said();
    assert!(said.contains("saved in another place"), "{said}");
    let saved = elsewhere.join("dapple-out-splats.ply");
    assert!(said.contains(saved.to_str().unwrap()), "{said}");
    assert!(!scene::ply::read(&saved).unwrap().is_empty());
}

/// Until the new splats are written, the older ones keep the configuration that they were trained with.
#[test]
fn a_killed_overwrite_leaves_splats_and_their_configuration() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let [splats, config] = ["splats.ply", "config.toml"]
        .map(|name| std::fs::read(path.join("out").join(name)).unwrap());
    let mut child = dapple()
        .args(["train", "capture", "-o", "out", "--overwrite"])
        .args(["--background", "white", "--steps", "10000000"])
        .current_dir(path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stderr.take().unwrap());
    let is_training =
        std::io::BufRead::lines(lines).any(|line| line.unwrap().starts_with("step 1/"));
    assert!(is_training);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(std::fs::read(path.join("out/splats.ply")).unwrap(), splats);
    assert_eq!(std::fs::read(path.join("out/config.toml")).unwrap(), config);
    // A run that ends replaces both.
    ok_in(path, &[&TRAIN[..], &["--overwrite", "--seed=5"]].concat());
    assert_ne!(std::fs::read(path.join("out/splats.ply")).unwrap(), splats);
    assert_ne!(std::fs::read(path.join("out/config.toml")).unwrap(), config);
}

/// As root, a file would replace even a device.
#[cfg(unix)]
#[test]
fn a_result_does_not_replace_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(&path.join("in.ply"), 100, 0);
    let made = std::process::Command::new("mkfifo")
        .arg(path.join("pipe.ply"))
        .status();
    assert!(made.unwrap().success());
    let args = ["convert", "in.ply", "pipe.ply", "--no-loss", "--overwrite"];
    refused(path, &args, 3, &["pipe"]);
    assert!(!std::fs::metadata(path.join("pipe.ply")).unwrap().is_file());
}
