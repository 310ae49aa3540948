//! Faults that careful and hostile use of the binary found: none of them may return.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::exit::{INPUT, IO, USAGE};
use common::{Ran, TRAIN, dapple, ok_in, refused, run_in, small_capture};
use std::path::Path;
use std::time::{Duration, Instant};

fn trained() -> tempfile::TempDir {
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    folder
}

fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&TRAIN[..], args].concat()
}

#[test]
fn settings_that_can_only_explode_are_refused_with_their_range() {
    let folder = small_capture();
    let path = folder.path();
    let depths = with(&["--depth-from", "points", "--depth-weight", "1e38"]);
    let words = ["depth.weight = 1e38", "larger than 0 and at most 1000"];
    refused(path, &depths, INPUT, &words);
    for (table, key, value, range) in [
        (
            "learning_rates",
            "means",
            "1e38",
            "at least 0 and at most 10",
        ),
        ("learning_rates", "sh0", "nan", "at least 0 and at most 10"),
        ("adam", "epsilon", "0.0", "at least 1e-30 and at most 1"),
        (
            "densify",
            "scale_reg",
            "1e30",
            "at least 0 and at most 1000",
        ),
        ("data", "max_eval_views", "4000000000", "at most 1000000000"),
    ] {
        let toml = format!("[{table}]\n{key} = {value}\n");
        std::fs::write(path.join("my.toml"), toml).unwrap();
        let key = format!("{table}.{key} = ");
        refused(path, &with(&["--config", "my.toml"]), INPUT, &[&key, range]);
    }
    assert!(!path.join("out").exists());
}

#[test]
fn numbers_beyond_all_bounds_are_no_defect() {
    let folder = small_capture();
    for option in [
        "--max-gaussians",
        "--eval-every",
        "--initial-gaussians",
        "--validate-every",
        "--seed",
    ] {
        let args = with(&[option, "9223372036854775808"]);
        refused(folder.path(), &args, INPUT, &["is too large", "at most"]);
    }
}

#[test]
fn more_threads_than_make_sense_are_refused_before_any_starts() {
    let folder = small_capture();
    for threads in ["100000", "18446744073709551615"] {
        let begun = Instant::now();
        let words = ["16 for each core", "ask for at most"];
        refused(
            folder.path(),
            &with(&["--device", "cpu", "--threads", threads]),
            INPUT,
            &words,
        );
        assert!(begun.elapsed() < Duration::from_secs(10), "{threads}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_the_system_refuses_are_an_error_with_a_remedy() {
    let folder = small_capture();
    let limited = |args: &str, kibibytes: u32| -> Ran {
        let binary = env!("CARGO_BIN_EXE_dapple");
        std::process::Command::new("sh")
            .args([
                "-c",
                &format!("ulimit -v {kibibytes}; exec {binary} {args}"),
            ])
            // As on a machine with this number of cores.
            .env(
                "RAYON_NUM_THREADS",
                dapple::cpu::threads::most().to_string(),
            )
            .env("DAPPLE_DEVICE", "cpu")
            .current_dir(folder.path())
            .output()
            .unwrap()
            .into()
    };
    // Some of these limits suffice for the program and not for the stacks of its threads.
    let limits = (1..20).map(|n| n * 20_000);
    let ran: Vec<Ran> = limits
        .map(|limit| limited("info capture --check -q", limit))
        .collect();
    assert!(ran.iter().all(|ran| !ran.stderr.contains("panicked")));
    let is_refused = |ran: &&Ran| ran.stderr.starts_with("error: the operating system");
    let refused = ran.iter().find(is_refused).unwrap();
    assert_eq!(refused.code, IO, "{}", refused.stderr);
    let hint = "hint: raise the limits";
    assert!(refused.stderr.contains(hint), "{}", refused.stderr);
}

#[cfg(unix)]
#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    let folder = trained();
    let path = folder.path();
    let zero = "/dev/zero";
    refused(
        path,
        &with(&["--config", zero, "--overwrite"]),
        INPUT,
        &[zero, "16 MiB"],
    );
    let camera = ["render", "out/splats.ply", "--camera", zero, "-o", "r"];
    refused(path, &camera, INPUT, &[zero]);
    refused(path, &["info", zero], INPUT, &[zero, "no file of splats"]);
    refused(path, &["profile", "diff", zero, zero], INPUT, &[zero]);
    let photo = path.join("capture/images/000.png");
    std::fs::remove_file(&photo).unwrap();
    std::os::unix::fs::symlink(zero, photo).unwrap();
    refused(
        path,
        &["info", "capture", "--check"],
        INPUT,
        &["images/000.png"],
    );
    // A file of ten gigabytes is refused as a configuration without a read of all its bytes.
    let large = std::fs::File::create(path.join("large.toml")).unwrap();
    large.set_len(10 << 30).unwrap();
    refused(
        path,
        &with(&["--config", "large.toml"]),
        INPUT,
        &["more than 16 MiB"],
    );
}

#[test]
fn text_that_is_none_is_input_and_says_where() {
    let folder = trained();
    let path = folder.path();
    std::fs::write(path.join("bad"), b"steps = 5 # \xff").unwrap();
    let words = ["UTF-8", "bad, byte 12"];
    refused(
        path,
        &with(&["--config", "bad", "--overwrite"]),
        INPUT,
        &words,
    );
    let render = ["render", "out/splats.ply", "--camera", "bad", "-o", "r"];
    let ran = run_in(path, &render);
    assert_eq!(ran.code, INPUT, "{}", ran.stderr);
    assert!(ran.stderr.contains("bad, byte 12"), "{}", ran.stderr);
}

#[test]
fn words_say_what_is_meant() {
    let folder = trained();
    let path = folder.path();
    // The value for "no limit" in `train` is valid in `convert` too.
    let none = [
        "convert",
        "out/splats.ply",
        "all.ply",
        "--max-gaussians",
        "0",
    ];
    let told = ok_in(path, &none).stdout;
    let count = told.split_whitespace().nth(1).unwrap();
    assert!(
        told.contains(&format!("{count} of {count} Gaussians")),
        "{told}"
    );
    // A negative number is a value, not an option.
    let below = with(&["--depth-from", "points", "--depth-weight", "-1"]);
    refused(path, &below, INPUT, &["depth.weight = -1", "larger than 0"]);
    let long = run_in(path, &["train", "capture", "--time-budget", "99999999h"]);
    assert_eq!(long.code, USAGE);
    assert!(
        long.stderr.contains("at most 2778 hours"),
        "{}",
        long.stderr
    );
    // A count of one is printed in the singular.
    let one = [
        "convert",
        "out/splats.ply",
        "one.ply",
        "--max-gaussians",
        "1",
    ];
    let told = ok_in(path, &one);
    assert!(!told.stdout.contains("1 Gaussians"), "{}", told.stdout);
    let few = with(&["--initial-gaussians", "1", "--overwrite"]);
    let few: Vec<&str> = few.into_iter().filter(|&arg| arg != "-q").collect();
    let told = ok_in(path, &few);
    assert!(told.stderr.contains("from 1 Gaussian:"), "{}", told.stderr);
    assert!(!told.stdout.contains("1 Gaussians"), "{}", told.stdout);
}

/// Returns a JPEG whose EXIF data specify a turn by 90 degrees.
fn turned_jpeg(width: u32, height: u32) -> Vec<u8> {
    let mut jpeg = std::io::Cursor::new(Vec::new());
    let grey = image::RgbImage::from_pixel(width, height, image::Rgb([90, 90, 90]));
    grey.write_to(&mut jpeg, image::ImageFormat::Jpeg).unwrap();
    let mut exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0".to_vec();
    // Tag 0x112, one 16-bit number: 6.
    exif.extend(b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0");
    let mut bytes = vec![0xff, 0xd8, 0xff, 0xe1];
    bytes.extend((exif.len() as u16 + 2).to_be_bytes());
    bytes.extend(exif);
    bytes.extend(&jpeg.into_inner()[2..]);
    bytes
}

#[test]
fn a_photo_that_exif_turns_is_refused_by_that_name() {
    let folder = small_capture();
    let photo = folder.path().join("capture/images/003.png");
    std::fs::write(photo, turned_jpeg(36, 48)).unwrap();
    refused(
        folder.path(),
        &TRAIN,
        INPUT,
        &["36x48", "EXIF orientation", "auto-orient"],
    );
}

#[test]
fn a_printed_configuration_scales_as_its_preset_does() {
    let folder = small_capture();
    let path = folder.path();
    let printed = ok_in(path, &["train", "--preset", "m9", "--print-config"]).stdout;
    std::fs::write(path.join("m.toml"), &printed).unwrap();
    let print = |args: &[&str]| ok_in(path, &[&["train", "--print-config"], args].concat());
    let preset = print(&["--preset", "m9", "--steps", "200"]);
    let file = print(&["--config", "m.toml", "--steps", "200"]);
    assert_eq!(file.stdout, preset.stdout);
    assert_eq!(file.stderr, "", "there is nothing to remark");
    assert_ne!(file.stdout, printed);
    // Without `--steps`, the printed configuration prints unchanged.
    assert_eq!(print(&["--config", "m.toml"]).stdout, printed);
    // A value that the user has changed stays, and is reported; so does a schedule of a file's own.
    let stop = printed
        .lines()
        .find(|line| line.starts_with("stop = "))
        .unwrap();
    let own = printed.replace(stop, "stop = 777");
    for text in [own.as_str(), "steps = 1000\n[densify]\nstop = 777\n"] {
        std::fs::write(path.join("own.toml"), text).unwrap();
        let ran = print(&["--config", "own.toml", "--steps", "2000"]);
        assert!(ran.stdout.contains("stop = 777"), "{}", ran.stdout);
        assert!(
            ran.stderr.starts_with("note: densify.stop = 777"),
            "{}",
            ran.stderr
        );
        let as_it_is = print(&["--config", "own.toml"]);
        assert_eq!(as_it_is.stderr, "");
    }
}

#[test]
fn names_cannot_speak_for_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let frame = |name: &str| {
        format!(
            r#"{{"file_path": {name:?}, "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,4],[0,0,0,1]]}}"#
        )
    };
    let evil = "a\\nnote: all is lost\\u001b[31m.png";
    let frames = frame("NAME").replace("NAME", evil);
    let json = format!(r#"{{"fl_x": 40, "w": 32, "h": 24, "frames": [{frames}]}}"#);
    std::fs::write(path.join("transforms.json"), json).unwrap();
    let ran = refused(
        path,
        &["info", "."],
        INPUT,
        &["a\\nnote: all is lost\\u{1b}[31m.png"],
    );
    assert!(!ran.stderr.contains('\x1b'), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 3, "{}", ran.stderr);
}

/// Writes a capture as text: its poses and points, by number.
fn text_capture(folder: &Path, pose: fn(usize) -> String, point: fn(usize) -> String) {
    std::fs::create_dir_all(folder.join("images")).unwrap();
    std::fs::create_dir_all(folder.join("sparse/0")).unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.join("sparse/0").join(name), text);
    write("cameras.txt", "1 PINHOLE 32 24 40 40 16 12\n".to_owned()).unwrap();
    let images = (0..4).map(|i| format!("{} {} 1 {i}.png\n\n", i + 1, pose(i)));
    write("images.txt", images.collect()).unwrap();
    let points = (0..30).map(|i| format!("{i} {} 200 100 50 0.5\n", point(i)));
    write("points3D.txt", points.collect()).unwrap();
    for i in 0..4 {
        let photo = image::RgbImage::from_pixel(32, 24, image::Rgb([90, 120, 40 * i as u8]));
        photo.save(folder.join(format!("images/{i}.png"))).unwrap();
    }
}

#[test]
fn a_capture_that_cannot_be_meant_is_remarked_on() {
    let apart = |i: usize| format!("1 0 0 0 {} 0 4", i as f64 * 0.5);
    let spread = |i: usize| format!("{} {} 0", i % 6, i / 6);
    let told = |pose, point| {
        let folder = tempfile::tempdir().unwrap();
        text_capture(&folder.path().join("c"), pose, point);
        ok_in(folder.path(), &["info", "c"]).stdout
    };
    let sound = told(apart, spread);
    assert!(!sound.contains("note"), "{sound}");
    let heap = told(apart, |_| "0.5 1 2".to_owned());
    assert!(
        heap.contains("all 30 sparse points lie in one place"),
        "{heap}"
    );
    let twice = told(|i| format!("1 0 0 0 {} 0 4", (i / 2) as f64), spread);
    assert!(
        twice.contains("2 of 4 photos have the pose of another, 1.png that of 0.png"),
        "{twice}"
    );
}

#[test]
fn scores_that_mean_nothing_say_so() {
    let folder = trained();
    let path = folder.path();
    // Splats of another world, far away from all cameras.
    let far = tempfile::tempdir().unwrap();
    text_capture(
        &far.path().join("capture"),
        |i| format!("1 0 0 0 {} 0 900", i as f64 * 0.5),
        |i| format!("{} {} 0", i % 6, i / 6),
    );
    let other = path.join("out/splats.ply");
    let eval = ["eval", "capture", other.to_str().unwrap()];
    let ran = ok_in(far.path(), &eval);
    assert!(
        ran.stderr.contains("splats of another capture?") || ran.stderr.contains("another capture"),
        "{}",
        ran.stderr
    );
    // Two photos are too few for a statement, and the output reports this.
    ok_in(
        path,
        &[&TRAIN[..4], &["b", "--preset", "m8-smoke", "--steps=40"]].concat(),
    );
    let ran = ok_in(path, &["eval", "capture", "out", "--compare", "b"]);
    assert!(
        ran.stdout.contains("too few photos to tell"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains('['), "no interval: {}", ran.stdout);
    // Half of the Gaussians does not mean half of the quality.
    let half = [
        "convert",
        "out/splats.ply",
        "half.ply",
        "--max-gaussians",
        "50",
    ];
    let ran = ok_in(path, &half);
    assert!(
        ran.stderr.contains("% of the Gaussians were removed"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("dapple eval CAPTURE half.ply"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_device_is_told_in_few_words() {
    let folder = small_capture();
    let run = |more: &[&str]| -> Ran {
        let args = with(more);
        let args = args.into_iter().filter(|&arg| arg != "-q");
        let mut command = dapple();
        command.args(args).arg("--overwrite").arg("--device=auto");
        command.current_dir(folder.path()).output().unwrap().into()
    };
    let device = |ran: &Ran| {
        let lines = ran
            .stderr
            .lines()
            .filter(|line| line.starts_with("device: "));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        assert_eq!(lines.len(), 1, "once: {}", ran.stderr);
        lines[0].clone()
    };
    let (short, long) = (device(&run(&[])), device(&run(&["-v"])));
    assert!(
        short.len() < 80 && short.len() < long.len(),
        "{short}\n{long}"
    );
    assert!(long.contains("no hardware GPU answers: ") || long.contains("the best hardware GPU"));
}

#[test]
fn a_limit_of_buffers_that_is_no_size_is_refused() {
    let folder = small_capture();
    for (value, why) in [("3", "a unit is needed"), ("much", "a number with a unit")] {
        let mut command = dapple();
        let command = command.args(TRAIN).current_dir(folder.path());
        let ran: Ran = command
            .env("DAPPLE_BUFFER_BYTES", value)
            .output()
            .unwrap()
            .into();
        assert_eq!(ran.code, INPUT, "{}", ran.stderr);
        for words in [why, "DAPPLE_BUFFER_BYTES", "hint:"] {
            assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
        }
    }
}
