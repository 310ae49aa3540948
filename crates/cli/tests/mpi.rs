//! Runs on several processes that `mpirun` starts. `cargo xtask test` runs these tests where there is an MPI: they need
//! the feature `mpi`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

#[path = "all/common/mod.rs"]
mod common;

use common::exit::UNSUPPORTED;
use common::{ok_in, run_in, small_capture};
use dapple::scene::test_requirements::{skipped, test_gpu};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TRAIN: [&str; 8] = [
    "train",
    "capture",
    "-q",
    "--device=cpu",
    "--threads=1",
    "--sh-degree=1",
    "--views-per-step=2",
    "--max-gaussians=2500",
];

/// Returns a command that runs `dapple ARGS` on several processes.
fn mpirun(path: &Path, processes: u32, args: &[&str]) -> Command {
    let mut command = Command::new("mpirun");
    // CI is root in a container, and has fewer cores than processes.
    command
        .args(["--allow-run-as-root", "--oversubscribe", "-n"])
        .arg(processes.to_string())
        .arg(env!("CARGO_BIN_EXE_dapple"))
        .args(args)
        .current_dir(path)
        .stdin(Stdio::null());
    command
}

#[track_caller]
fn ok(mut command: Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

fn splats(path: &Path, run: &str) -> Vec<u8> {
    std::fs::read(path.join(run).join("splats.ply")).unwrap()
}

#[test]
fn processes_train_to_the_bytes_of_one_engine() {
    let folder = small_capture();
    let path = folder.path();
    let steps = ["--steps=200", "-o"];
    ok_in(path, &[&TRAIN[..], &steps, &["plain"]].concat());
    for (processes, run) in [(1, "one"), (2, "two"), (4, "four")] {
        ok(mpirun(
            path,
            processes,
            &[&TRAIN[..], &steps, &[run]].concat(),
        ));
        assert!(splats(path, run) == splats(path, "plain"), "{processes}");
    }
    // Another number of processes continues a run.
    let stop = ["--stop-at=121"];
    ok(mpirun(
        path,
        3,
        &[&TRAIN[..], &steps, &["stopped"], &stop].concat(),
    ));
    ok(mpirun(
        path,
        2,
        &["train", "-q", "--resume", "stopped", "--threads=1"],
    ));
    assert!(splats(path, "stopped") == splats(path, "plain"), "resumed");
}

#[test]
fn processes_on_a_gpu_train_to_the_bytes_of_threads() {
    let device = format!("--device={}", test_gpu());
    let folder = small_capture();
    let path = folder.path();
    let train = [
        "train",
        "capture",
        "-q",
        &device,
        "--sh-degree=1",
        "--views-per-step=2",
        "--max-gaussians=1500",
        "--steps=40",
        "-o",
    ];
    let ran = run_in(
        path,
        &[&train[..], &["threads", "--ranks-in-process=2"]].concat(),
    );
    if ran.code == UNSUPPORTED {
        return skipped("gpu", &ran.stderr);
    }
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ok(mpirun(path, 2, &[&train[..], &["processes"]].concat()));
    assert!(splats(path, "processes") == splats(path, "threads"));
}

/// Ends one of the processes of a run, which then ends with its last checkpoint.
#[test]
fn a_run_whose_process_is_killed_resumes_from_its_checkpoint() {
    let folder = small_capture();
    let path = folder.path();
    let steps = ["--steps=600", "--checkpoint-every=50", "-o"];
    ok_in(path, &[&TRAIN[..], &steps, &["plain"]].concat());
    let mut command = mpirun(path, 2, &[&TRAIN[..], &steps, &["killed"]].concat());
    let running = command.stderr(Stdio::piped()).spawn().unwrap();
    let checkpoint = path.join("killed/checkpoint.safetensors");
    let started = Instant::now();
    while !checkpoint.exists() && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_rank(1, path);
    let output = running.wait_with_output().unwrap();
    assert!(!output.status.success(), "the run ended as if whole");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("rank 1"),
        "the message names the rank: {said}"
    );
    ok(mpirun(
        path,
        2,
        &["train", "-q", "--resume", "killed", "--threads=1"],
    ));
    assert!(splats(path, "killed") == splats(path, "plain"));
}

/// Kills the process of a rank that works in `path`.
fn kill_rank(rank: u32, path: &Path) {
    let variable = format!("OMPI_COMM_WORLD_RANK={rank}");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let wanted = processes.map(|entry| entry.path()).find(|process| {
        let variables = std::fs::read(process.join("environ")).unwrap_or_default();
        let here = std::fs::read_link(process.join("cwd")).unwrap_or_default();
        let is_rank = variables
            .split(|&byte| byte == 0)
            .any(|own| own == variable.as_bytes());
        is_rank && here == path.canonicalize().unwrap()
    });
    let process = wanted.unwrap();
    let number = process.file_name().unwrap();
    let kill = Command::new("kill").arg("-9").arg(number).status();
    assert!(kill.unwrap().success());
}
