//! Runs the real binary, and makes small captures for it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Exit codes of errors.
pub mod exit {
    pub const USAGE: i32 = 2;
    pub const INPUT: i32 = 3;
    pub const IO: i32 = 4;
    pub const UNSUPPORTED: i32 = 5;
}

/// Arguments of a short run that takes snapshots; the run folder follows.
pub const SNAPPED: [&str; 8] = [
    "train",
    "capture",
    "-q",
    "--preset",
    "micro",
    "--snapshots",
    "3",
    "-o",
];

/// Returns a command for `dapple`, with an empty stdin, on the CPU unless told otherwise: results
/// are equal on machines with a GPU.
pub fn dapple() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dapple"));
    command.stdin(Stdio::null()).env("DAPPLE_DEVICE", "cpu");
    command
}

/// Exit code and output of a run of `dapple`.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs `dapple ARGS` in `folder`.
pub fn run_in(folder: &Path, args: &[&str]) -> Ran {
    dapple()
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap()
        .into()
}

/// Runs `dapple ARGS`, which must succeed.
#[track_caller]
pub fn ok_in(folder: &Path, args: &[&str]) -> Ran {
    let ran = run_in(folder, args);
    assert_eq!(ran.code, 0, "dapple {args:?}\n{}", ran.stderr);
    ran
}

/// Runs `dapple ARGS`, which must fail with `code` and one error that states what failed, where and
/// what to do. The error must contain `words`, and no panic.
#[track_caller]
pub fn refused(folder: &Path, args: &[&str], code: i32, words: &[&str]) -> Ran {
    let ran = run_in(folder, args);
    let told = format!("dapple {args:?}: code {}\n{}", ran.code, ran.stderr);
    assert_eq!(ran.code, code, "{told}");
    assert_eq!(
        ran.stderr.matches("error: ").count(),
        1,
        "one error: {told}"
    );
    assert!(ran.stderr.contains("\n  at: "), "where: {told}");
    assert!(ran.stderr.contains("\n  hint: "), "what to do: {told}");
    assert!(!ran.stderr.contains("panicked"), "{told}");
    for word in words {
        assert!(ran.stderr.contains(word), "{word:?} is missing: {told}");
    }
    assert_eq!(ran.stdout, "", "an error leaves no data: {told}");
    ran
}

/// Makes a folder with a small capture in `capture/`: 9 photos of 48x36, so that 2 are held out.
pub fn small_capture() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), &[]);
    folder
}

/// Adds a small capture, with further options.
pub fn synth(folder: &Path, more: &[&str]) {
    let mut args = vec!["synth", "capture", "-q", "--photos", "9", "--width", "48"];
    args.extend(["--height", "36", "--points", "200"]);
    args.extend(more);
    ok_in(folder, &args);
}

/// Arguments of a training run of a few steps on `capture/` into `out/`.
pub const TRAIN: [&str; 8] = [
    "train",
    "capture",
    "-q",
    "-o",
    "out",
    "--preset",
    "m8-smoke",
    "--steps=12",
];

/// Returns every file below a folder, relative, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(inner) = open.pop() {
        for entry in std::fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Parses the JSON on stdout.
#[track_caller]
pub fn json(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}", ran.stdout))
}
