//! Output folders: access by several commands, and files that are never replaced.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{TRAIN, dapple, files, ok_in, refused, run_in, small_capture};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

const LOCK: &str = ".dapple.lock";

/// Starts a run into `out/` that does not end by itself, and reads its first lines; the last of them contains `until`.
fn long_run(folder: &Path, args: &[&str], until: &str) -> Child {
    let mut child = dapple()
        .args(args)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let found = lines.find(|line| line.as_ref().unwrap().contains(until));
    assert!(found.is_some(), "{until}");
    // Its further output is dropped, and must not end it.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

const ENDLESS: [&str; 7] = [
    "train",
    "capture",
    "-o",
    "out",
    "--steps=10000000",
    "--eval-every=8",
    "--checkpoint-every=20",
];

#[test]
fn a_folder_belongs_to_one_run_at_a_time() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &[&TRAIN[..3], &["-o", "other"], &TRAIN[5..]].concat());
    let mut run = long_run(path, &ENDLESS, "step 1/");
    while !path.join("out/checkpoint.safetensors").exists() {
        std::thread::yield_now();
    }
    let process = format!("process {} on ", run.id());
    let words = ["another process", process.as_str(), "out"];
    let train = [&TRAIN[..], &["--seed=2", "--overwrite"]].concat();
    let eval = ["eval", "capture", "other", "-q", "-o", "out"];
    let profile = [
        "profile",
        "capture",
        "-q",
        "-o",
        "out",
        "--steps=1",
        "--warmup=0",
    ];
    let views = [
        "render",
        "other/splats.ply",
        "-q",
        "--scene",
        "capture",
        "--views",
    ];
    let render = |out| [&views[..], &["held-out", "-o", out]].concat();
    let one = [&views[..], &["000.png", "-o", "out/one.png"]].concat();
    for args in [
        &train[..],
        &["train", "-q", "--resume", "out"],
        &eval,
        &profile,
        &render("out"),
        &render("out/renders"),
        &one,
    ] {
        refused(path, args, 3, &words);
    }
    // The run blocks neither readers nor other folders.
    ok_in(path, &["eval", "capture", "other", "-q", "-o", "scores"]);
    ok_in(path, &render("pictures"));
    assert!(!path.join("pictures").join(LOCK).exists());
    run.kill().unwrap();
    run.wait().unwrap();
    // The lock ended with the process, although its file exists.
    assert!(path.join("out").join(LOCK).exists());
    ok_in(path, &["train", "-q", "--resume", "out", "--stop-at=2000"]);
    assert!(!path.join("out").join(LOCK).exists());
}

/// Without a refusal, both runs would end without an error, with the configuration of one run and the splats of the
/// other.
#[test]
fn of_two_runs_that_begin_at_once_one_is_refused() {
    let folder = small_capture();
    let path = folder.path();
    let start = |seed: &str| {
        let args = [&TRAIN[..5], &["--preset=m9", "--steps=300", "--seed", seed]].concat();
        let mut command = dapple();
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.args(args).current_dir(path).spawn().unwrap()
    };
    for round in 0..5 {
        let runs = [start("1"), start("2")].map(|child| child.wait_with_output().unwrap());
        let codes: Vec<_> = runs.iter().map(|run| run.status.code().unwrap()).collect();
        let mut sorted = codes.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 3], "round {round}");
        let seed = 1 + codes.iter().position(|&code| code == 0).unwrap();
        let read = |name: &str| std::fs::read_to_string(path.join("out").join(name)).unwrap();
        assert!(read("config.toml").contains(&format!("\nseed = {seed}\n")));
        assert!(read("metrics.json").contains(&format!("\"seed\": {seed},")));
        std::fs::remove_dir_all(path.join("out")).unwrap();
    }
}

/// Checks that a command is refused and all files are unchanged.
#[track_caller]
fn refused_and_untouched(folder: &Path, args: &[&str], words: &[&str]) {
    let contents = || {
        let names = files(folder);
        let bytes = names
            .iter()
            .map(|name| std::fs::read(folder.join(name)).unwrap());
        let bytes: Vec<_> = bytes.collect();
        (names, bytes)
    };
    let before = contents();
    refused(folder, args, 3, words);
    assert!(before == contents(), "{args:?} has changed something");
}

#[test]
fn what_dapple_has_not_written_is_not_replaced() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &[&TRAIN[..3], &["-o", "run"], &TRAIN[5..]].concat());
    let printed = ok_in(path, &["train", "--print-config", "--steps=12"]).stdout;
    let picture = |at: &str| {
        std::fs::create_dir_all(path.join(at).parent().unwrap()).unwrap();
        image::RgbImage::new(4, 3).save(path.join(at)).unwrap();
    };
    let eval = |out| ["eval", "capture", "run", "-q", "-o", out];
    let train = |out| [&TRAIN[..3], &["-o", out], &TRAIN[5..]].concat();
    let words = |name| ["Dapple has not written", name, "--overwrite"];
    // A configuration of the user, also one that the run reads.
    std::fs::create_dir(path.join("o")).unwrap();
    std::fs::write(path.join("o/config.toml"), &printed).unwrap();
    refused_and_untouched(path, &train("o"), &words("config.toml"));
    let named = [&train("o")[..], &["-c", "o/config.toml"]].concat();
    refused_and_untouched(path, &named, &words("config.toml"));
    ok_in(path, &eval("o"));
    ok_in(path, &[&named[..], &["--overwrite"]].concat());
    // Pictures.
    picture("p/renders/000.png");
    picture("e/errors/mine.png");
    for (out, name) in [("p", "000.png"), ("e", "mine.png")] {
        refused_and_untouched(path, &train(out), &words(name));
        refused_and_untouched(path, &eval(out), &words(name));
    }
    ok_in(path, &[&eval("p")[..], &["--overwrite"]].concat());
    // Now the files are Dapple's.
    ok_in(path, &eval("p"));
    ok_in(path, &eval("run"));
    // Tables with the names of Dapple's.
    for name in ["scores.json", "scores.md"] {
        std::fs::create_dir(path.join("s")).unwrap();
        std::fs::write(path.join("s").join(name), "{\"mine\": 1}").unwrap();
        refused_and_untouched(path, &eval("s"), &words(name));
        std::fs::remove_dir_all(path.join("s")).unwrap();
    }
    // A pipe, which blocks its reader.
    for (out, name) in [
        ("f", "config.toml"),
        ("g", "renders/a.png"),
        ("h", "scores.json"),
    ] {
        let pipe = path.join(out).join(name);
        std::fs::create_dir_all(pipe.parent().unwrap()).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let args = match out {
            "h" => eval(out).to_vec(),
            _ => train(out),
        };
        refused(path, &args, 3, &words(name));
        std::fs::remove_file(&pipe).unwrap();
    }
    // A run's own configuration, which a kill before its first checkpoint left there.
    let run = |name: &str| path.join("run").join(name);
    for name in ["splats.ply", "metrics.json", "metrics.csv"] {
        std::fs::remove_file(run(name)).unwrap();
    }
    std::fs::remove_dir_all(run("renders")).unwrap();
    ok_in(path, &train("run"));
}

#[test]
fn pictures_of_others_are_not_replaced_by_renders() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let render = |more: &[&'static str]| {
        let args = [
            "render",
            "out/splats.ply",
            "-q",
            "--scene",
            "capture",
            "--views",
        ];
        [&args[..], more].concat()
    };
    std::fs::create_dir(path.join("p")).unwrap();
    image::RgbImage::new(4, 3)
        .save(path.join("p/000.png"))
        .unwrap();
    image::RgbImage::new(4, 3)
        .save(path.join("one.png"))
        .unwrap();
    let words = ["Dapple has not written", "--overwrite"];
    for args in [
        render(&["held-out", "-o", "p"]),
        render(&["000.png", "-o", "one.png"]),
    ] {
        refused_and_untouched(path, &args, &words);
        ok_in(path, &[&args[..], &["--overwrite"]].concat());
        ok_in(path, &args);
    }
    for format in ["--channel=depth", "--format=exr", "--channel=alpha"] {
        let args = render(&["held-out", "-o", "q", format]);
        ok_in(path, &args);
        ok_in(path, &args);
    }
    // A command never replaces a photo of the capture, even with `--overwrite`.
    let photo = render(&["000.png", "-o", "capture/images/000.png", "--overwrite"]);
    refused_and_untouched(path, &photo, &["file of the capture"]);
}

#[test]
fn results_do_not_go_among_the_captures_files() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let views = [
        "render",
        "out/splats.ply",
        "-q",
        "--scene",
        "capture",
        "--views=held-out",
    ];
    #[cfg(unix)]
    std::os::unix::fs::symlink(path.join("capture/images"), path.join("link")).unwrap();
    for out in [
        "/",
        "capture",
        "capture/images",
        "capture/sparse",
        "./capture/../capture",
        "link",
    ] {
        let words = match out {
            "/" => "root of the file system",
            _ => "the capture's own files",
        };
        let train = [&TRAIN[..3], &["-o", out, "--overwrite"], &TRAIN[5..]].concat();
        let time = ["train", "capture", "-q", "--time-budget=1s", "-o", out];
        for args in [
            &train[..],
            &time,
            &["eval", "capture", "out", "-q", "-o", out, "--overwrite"],
            &["profile", "capture", "-q", "-o", out, "--overwrite"],
            &[&views[..], &["-o", out]].concat(),
        ] {
            refused_and_untouched(path, args, &[words, "--out"]);
        }
    }
    // A folder next to the capture is accepted.
    ok_in(
        path,
        &[&TRAIN[..3], &["-o", "capture/out"], &TRAIN[5..]].concat(),
    );
    let ran = run_in(path, &[&TRAIN[..3], &["-o", "."], &TRAIN[5..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}
