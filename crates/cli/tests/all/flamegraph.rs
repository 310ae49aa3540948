//! `dapple train --flamegraph`: the picture names the functions of the run, and is written after
//! Ctrl-C too.
#![cfg(all(
    any(target_os = "linux", target_os = "macos"),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{TRAIN, dapple, ok_in, refused, run_in, small_capture};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const FLAME: [&str; 2] = ["--flamegraph", "flame.svg"];

#[test]
fn a_run_leaves_a_picture_of_its_work() {
    let folder = small_capture();
    let args = [&TRAIN[..], &["--steps=300"], &FLAME].concat();
    let args: Vec<&str> = args.into_iter().filter(|&a| a != "--steps=12").collect();
    ok_in(folder.path(), &args);
    let svg = std::fs::read_to_string(folder.path().join("flame.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for name in ["dapple train capture", "dapple-N", "dapple_cpu::"] {
        assert!(svg.contains(name), "{name} is missing");
    }
    assert!(folder.path().join("out/splats.ply").exists());

    // An existing file is not replaced without `--overwrite`.
    refused(folder.path(), &args, 3, &["flame.svg", "--overwrite"]);
    let again = [&args[..], &["--overwrite"]].concat();
    ok_in(folder.path(), &again);
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_the_run() {
    let folder = small_capture();
    for place in ["no such folder/flame.svg", "capture"] {
        let args = [&TRAIN[..], &["--flamegraph", place, "--overwrite"]].concat();
        let ran = run_in(folder.path(), &args);
        assert!([3, 4].contains(&ran.code), "{}: {}", ran.code, ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
    assert!(!folder.path().join("out").exists(), "the run began");
}

#[test]
fn a_run_that_fails_says_its_own_reason() {
    let folder = small_capture();
    let args = [
        "train",
        "nothing here",
        "-q",
        "-o",
        "out",
        FLAME[0],
        FLAME[1],
    ];
    refused(folder.path(), &args, 4, &["nothing here"]);
}

#[test]
fn it_is_written_after_an_interruption() {
    let folder = small_capture();
    let mut child = dapple()
        .args(["train", "capture", "-v", "-o", "out", "--steps", "100000"])
        .args(FLAME)
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first density round: long enough for samples.
    assert!(said.any(|line| line.unwrap().contains(" cloned, ")));
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let rest: Vec<String> = said.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    let svg = std::fs::read_to_string(folder.path().join("flame.svg"));
    assert!(svg.is_ok_and(|svg| svg.contains("dapple-N")), "{rest:?}");
}
