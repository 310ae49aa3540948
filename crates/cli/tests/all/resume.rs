//! Runs that are stopped, killed and resumed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{dapple, files, json, ok_in, refused, run_in, small_capture, synth};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Arguments of a run of `steps` steps on `capture/` with density control.
fn train(out: &str, steps: u32) -> Vec<String> {
    let args = [
        "train",
        "capture",
        "-q",
        "--preset",
        "m9",
        "--sh-degree",
        "1",
        "-o",
    ];
    let mut args: Vec<String> = args.map(str::to_owned).to_vec();
    args.extend([out.to_owned(), format!("--steps={steps}")]);
    args
}

fn as_strs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

fn metrics(folder: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join("metrics.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns losses, rounds and scores without times.
fn measured(folder: &Path) -> [serde_json::Value; 3] {
    let mut metrics = metrics(folder);
    for (list, time) in [("losses", "steps_per_second"), ("evals", "train_seconds")] {
        for row in metrics[list].as_array_mut().unwrap() {
            row.as_object_mut().unwrap().remove(time);
        }
    }
    ["losses", "densify", "evals"].map(|list| metrics[list].take())
}

#[track_caller]
fn same_results(a: &Path, b: &Path) {
    let ply = |folder: &Path| std::fs::read(folder.join("splats.ply")).unwrap();
    assert!(ply(a) == ply(b), "other splats");
    assert_eq!(measured(a), measured(b));
}

#[test]
fn a_run_stopped_and_resumed_ends_as_one_that_was_not() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &as_strs(&train("whole", 300)));
    let stopped = [
        &train("parts", 300)[..],
        &["--stop-at=150".into(), "--json".into()],
    ]
    .concat();
    let ran = ok_in(path, &as_strs(&stopped));
    let summary = json(&ran);
    assert_eq!(summary["ending"]["reason"], "stopped");
    assert_eq!(summary["steps"], 150);
    assert!(path.join("parts/checkpoint.safetensors").exists());
    // A run resumes with its recorded capture from any working folder.
    let elsewhere = path.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let ran = ok_in(&elsewhere, &["train", "--resume", "../parts", "--json"]);
    assert_eq!(json(&ran)["steps"], 300);
    assert!(ran.stderr.contains("after step 150"), "{}", ran.stderr);
    same_results(&path.join("parts"), &path.join("whole"));
    assert_eq!(files(&path.join("parts")), files(&path.join("whole")));
    let word = ["this run is finished", "300 steps"];
    refused(path, &["train", "-q", "--resume", "parts"], 3, &word);
}

#[test]
fn what_does_not_belong_to_the_run_is_refused() {
    let folder = small_capture();
    let path = folder.path();
    let stopped = [&train("out", 60)[..], &["--stop-at=20".into()]].concat();
    let said = run_in(
        path,
        &as_strs(&stopped[..])
            .iter()
            .filter(|a| **a != "-q")
            .copied()
            .collect::<Vec<_>>(),
    );
    assert!(
        said.stderr.contains("dapple train --resume out"),
        "{}",
        said.stderr
    );
    let resume = |more: &[&str], code: i32, words: &[&str]| {
        let args = [&["train", "-q", "--resume", "out"][..], more].concat();
        refused(path, &args, code, words);
    };
    resume(&["--seed=4"], 3, &["seed = 4, and the run has 0"]);
    resume(&["--preset=quick"], 3, &["preset", "omit them"]);
    resume(&["--downscale=2"], 3, &["data.downscale"]);
    resume(&["--stop-at=20"], 3, &["has done 20 steps"]);
    resume(&["--stop-at=61"], 3, &["after the last step"]);
    resume(&["--device=gpu:nonesuch"], 5, &["nonesuch"]);
    // Without `--resume`, a run does not replace an unfinished run.
    refused(
        path,
        &as_strs(&train("out", 60)),
        3,
        &["not finished", "--resume out"],
    );
    refused(
        path,
        &["train", "-q", "--resume", "nowhere"],
        3,
        &["no such folder"],
    );
    refused(
        path,
        &["train", "-q", "--resume", "capture"],
        3,
        &["no checkpoint"],
    );
    // Another capture in its place, and no capture.
    std::fs::rename(path.join("capture"), path.join("moved")).unwrap();
    resume(
        &[],
        3,
        &["does not exist any more", "train CAPTURE --resume out"],
    );
    synth(path, &["--seed", "9"]);
    resume(&[], 3, &["another capture", "capture"]);
    let file = path.join("out/checkpoint.safetensors");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    resume(&[], 3, &["cut off", "checkpoint.safetensors"]);
    std::fs::write(&file, &whole).unwrap();
    // The same options, and the present path of the capture.
    let args = [
        "train",
        "moved",
        "-q",
        "--resume",
        "out",
        "--preset=m9",
        "--steps=60",
    ];
    ok_in(path, &args);
}

#[test]
fn options_that_exclude_each_other_are_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    for more in [&["-o", "b"][..], &["--overwrite"], &["--print-config"]] {
        let args = [&["train", "--resume", "a"][..], more].concat();
        assert_eq!(run_in(folder.path(), &args).code, 2, "{more:?}");
    }
}

/// Checks that every existing file of a run can be read.
fn check_readable(folder: &Path, out: &Path) {
    for name in ["splats.ply", "config.toml", "metrics.json", "metrics.csv"] {
        let path = out.join(name);
        if !path.exists() {
            continue;
        }
        match name {
            "splats.ply" => drop(ok_in(folder, &["info", path.to_str().unwrap(), "--json"])),
            "metrics.json" => drop(metrics(out)),
            "config.toml" => {
                let args = ["train", "--print-config", "-c", path.to_str().unwrap()];
                ok_in(folder, &args);
            }
            _ => {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(
                    text.lines().all(|row| row.matches(',').count() == 5),
                    "{text}"
                );
                assert!(text.ends_with('\n'));
            }
        }
    }
    for entry in std::fs::read_dir(out.join("renders")).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "png") {
            image::open(&path).unwrap();
        }
    }
}

/// Kills a run twenty times, at moments that differ from one test run to the next. Nothing may be lost. The first kills
/// come while a run starts, the others between two of its lines or while it writes a file.
#[test]
fn a_killed_run_leaves_whole_files_and_goes_on_from_them() {
    const STEPS: u32 = 500;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // Enough Gaussians that a run spends most of its time on writing.
    let args = [
        "synth",
        "capture",
        "-q",
        "--photos=9",
        "--width=48",
        "--height=36",
    ];
    ok_in(path, &[&args[..], &["--points=4000"]].concat());
    ok_in(path, &as_strs(&train("whole", STEPS)));
    let out = path.join("out");
    let checkpoint = out.join("checkpoint.safetensors");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64 ^ u64::from(std::process::id());
    let mut next = |n: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    let mut resumed = 0;
    for kill in 0..20 {
        let mut args = match checkpoint.exists() {
            true => vec![
                "train".to_owned(),
                "-v".into(),
                "--resume".into(),
                "out".into(),
            ],
            false => train("out", STEPS),
        };
        args.retain(|arg| arg != "-q");
        resumed += u32::from(checkpoint.exists());
        if !checkpoint.exists() {
            args.extend(["-v".to_owned(), "--overwrite".into()]);
        }
        args.push("--checkpoint-every=1".to_owned());
        let mut child = dapple()
            .args(&args)
            .current_dir(path)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The kill follows after this number of lines and some microseconds.
        let words = if kill < 2 { next(3) } else { 4 + next(12) } as usize;
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said: Vec<String> = lines.take(words).map_while(Result::ok).collect();
        assert_eq!(said.len(), words, "run {kill} has ended: {said:?}");
        std::thread::sleep(Duration::from_micros(next(6000)));
        child.kill().unwrap();
        child.wait().unwrap();
        if out.exists() {
            check_readable(path, &out);
        }
    }
    assert!(resumed >= 15, "{resumed} went on from a checkpoint");
    let before = files(&out);
    assert!(
        before.iter().any(|f| f.ends_with("checkpoint.safetensors")),
        "{before:?}"
    );
    ok_in(path, &["train", "-q", "--resume", "out"]);
    same_results(&out, &path.join("whole"));
    assert_eq!(
        files(&out),
        files(&path.join("whole")),
        "nothing half-written is left"
    );
}

/// Another photo of the same name and size, a mask or a depth image: names, sizes and cameras are unchanged, and the
/// run must not resume.
#[test]
fn a_capture_whose_files_have_changed_is_refused_by_name() {
    let folder = small_capture();
    let path = folder.path();
    let at = |name: &str| path.join("capture").join(name);
    let photos = files(&at("images"));
    let masked = image::GrayImage::from_fn(48, 36, |x, _| image::Luma([255 * u8::from(x > 9)]));
    std::fs::create_dir(at("masks")).unwrap();
    masked.save(at("masks").join(&photos[3])).unwrap();
    std::fs::create_dir(at("depths")).unwrap();
    for photo in &photos {
        let depth = image::ImageBuffer::from_pixel(48, 36, image::Luma([3000_u16]));
        depth.save(at("depths").join(photo)).unwrap();
    }
    let name = |i: usize| format!("{:?}", photos[i].to_str().unwrap());
    let memory = ["--photo-memory=0.03MiB"];
    for more in [&[][..], &memory] {
        let depth = ["--depth-from=images", "--stop-at=20", "--overwrite"];
        let begin = train("out", 60);
        let run = [&as_strs(&begin)[..], &depth, more].concat();
        ok_in(path, &run);
        let resume = [&["train", "-q", "--resume", "out"], more].concat();
        let changed = |file: &Path, how: &dyn Fn(&Path), words: &[&str]| {
            let whole = std::fs::read(file).unwrap();
            how(file);
            refused(path, &resume, 3, &[&["another capture"], words].concat());
            std::fs::write(file, whole).unwrap();
        };
        let images = at("images");
        let other = std::fs::read(images.join(&photos[1])).unwrap();
        let replace = |file: &Path| std::fs::write(file, &other).unwrap();
        let words = ["photo", &name(2), "has changed"];
        changed(&images.join(&photos[2]), &replace, &words);
        // A held-out photo: it would change the scores.
        let words = ["photo", &name(0), "has changed"];
        changed(&images.join(&photos[0]), &replace, &words);
        let words = ["mask of", &name(3), "has changed"];
        let white = |file: &Path| image::GrayImage::new(48, 36).save(file).unwrap();
        changed(&at("masks").join(&photos[3]), &white, &words);
        let words = ["mask of", &name(3), "is missing"];
        let remove = |file: &Path| std::fs::remove_file(file).unwrap();
        changed(&at("masks").join(&photos[3]), &remove, &words);
        let words = ["depth image of", &name(5), "has changed"];
        let deeper = |file: &Path| {
            let depth = image::ImageBuffer::from_pixel(48, 36, image::Luma([3001_u16]));
            depth.save(file).unwrap();
        };
        changed(&at("depths").join(&photos[5]), &deeper, &words);
        // The original file.
        ok_in(path, &resume);
    }
}

/// Checkpoints of earlier versions hold no checksums of contents: their runs resume, with a note.
#[test]
fn a_checkpoint_without_sums_goes_on_with_a_note() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &as_strs(&train("whole", 40)));
    ok_in(
        path,
        &[&as_strs(&train("out", 40))[..], &["--stop-at=20"]].concat(),
    );
    let file = path.join("out/checkpoint.safetensors");
    let mut checkpoint = ::dapple::train::Checkpoint::read(&file).unwrap();
    assert_eq!(checkpoint.capture.views.len(), 9);
    (checkpoint.capture.views, checkpoint.capture.points) = (Vec::new(), None);
    checkpoint.write(&file).unwrap();
    let ran = ok_in(path, &["train", "--resume", "out"]);
    assert!(
        ran.stderr.contains("of an earlier Dapple"),
        "{}",
        ran.stderr
    );
    same_results(&path.join("out"), &path.join("whole"));
}

/// A limit on file sizes simulates a full disk, which fails every checkpoint alike. The run reports this once, and the
/// number of failures at the end.
#[cfg(unix)]
#[test]
fn checkpoints_that_fail_are_told_once_and_counted() {
    let folder = small_capture();
    let script = format!(
        "trap '' XFSZ; ulimit -f 32; exec {} train capture -o out --preset m9 --steps 60 --checkpoint-every 1",
        env!("CARGO_BIN_EXE_dapple")
    );
    let limited = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("DAPPLE_DEVICE", "cpu")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let ran = common::Ran::from(limited);
    let said = &ran.stderr;
    assert_eq!(ran.code, 4, "the splats do not fit either: {said}");
    assert_eq!(said.matches("no checkpoint after").count(), 1, "{said}");
    assert!(
        said.contains("warning: 59 checkpoints could not be saved"),
        "{said}"
    );
}

/// The variable sets the default of new runs. A run that began on a device continues there.
#[test]
fn the_variable_for_devices_does_not_move_a_run() {
    let folder = small_capture();
    let mut first = train("out", 40);
    first.push("--stop-at=20".to_owned());
    ok_in(folder.path(), &as_strs(&first));
    let resumed = |variable: &str, more: &[&str]| {
        let mut command = dapple();
        command.current_dir(folder.path());
        command
            .env("DAPPLE_DEVICE", variable)
            .args(["train", "--resume", "out"]);
        common::Ran::from(command.args(more).output().unwrap())
    };
    let continued = resumed("gpu:no such card", &["--stop-at=30"]);
    assert_eq!(continued.code, 0, "{}", continued.stderr);
    assert!(
        continued.stderr.contains("device: cpu"),
        "{}",
        continued.stderr
    );
    let named = resumed("cpu", &["--device", "gpu:no such card"]);
    assert_ne!(named.code, 0);
    assert!(named.stderr.contains("no such card"), "{}", named.stderr);
}
