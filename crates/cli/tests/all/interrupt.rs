//! Ctrl-C during long work.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg(unix)]

use crate::common;

use common::{dapple, files, json, ok_in, small_capture, synth};
use dapple::Splats;
use dapple::scene::splat_file;
use std::io::{BufRead, BufReader, ErrorKind, Lines, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

/// A started command and its stderr.
struct Running {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
}

impl Running {
    /// Starts `dapple ARGS` and waits for the line that begins with `at_work`.
    fn start(folder: &Path, args: &[&str], at_work: &str, stdout: Stdio) -> Self {
        let mut child = dapple()
            .args(args)
            .current_dir(folder)
            .env("TMPDIR", folder)
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut running = Self { child, said };
        running.wait_for(at_work);
        running
    }

    /// Waits for a line that begins with `start`.
    fn wait_for(&mut self, start: &str) {
        let found = self.said.any(|line| line.unwrap().starts_with(start));
        assert!(found, "it ended without saying {start:?}");
    }

    fn interrupt(&self) {
        self.send("-INT");
    }

    fn send(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Returns its exit code and the rest of its stderr.
    fn end(mut self) -> (Option<i32>, String) {
        let rest: Vec<String> = self.said.map(Result::unwrap).collect();
        (self.child.wait().unwrap().code(), rest.join("\n"))
    }
}

/// Starts a training run that would take hours, and waits for its first step.
fn long_run(folder: &Path, stdout: Stdio) -> Running {
    let args = ["train", "capture", "-o", "out", "--steps", "10000000"];
    Running::start(folder, &args, "step 1/", stdout)
}

#[test]
fn the_first_one_saves_everything() {
    let folder = small_capture();
    let path = folder.path();
    let run = long_run(path, Stdio::null());
    run.interrupt();
    let (code, said) = run.end();
    assert_eq!(code, Some(130));
    assert!(said.contains("interrupted: stopped after"), "{said}");
    assert!(said.contains("dapple train --resume out"), "{said}");
    let left: Vec<String> = files(&path.join("out"))
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let text = ["config.toml", "metrics.csv", "metrics.json"];
    for name in text.iter().chain(&["splats.ply", "checkpoint.safetensors"]) {
        assert!(left.iter().any(|file| file == name), "{name}: {left:?}");
    }
    assert!(
        !left.iter().any(|file| file.contains(".dapple-")),
        "{left:?}"
    );
    // The saved file is whole.
    let splats = json(&ok_in(path, &["info", "out/splats.ply", "--json"]));
    assert!(splats["gaussians"].as_u64().unwrap() > 0);
    let metrics = std::fs::read_to_string(path.join("out/metrics.json")).unwrap();
    let metrics: serde_json::Value = serde_json::from_str(&metrics).unwrap();
    assert_eq!(metrics["ending"]["reason"], "stopped");
    assert_eq!(metrics["ending"]["step"], metrics["steps"]);
}

/// A terminal that closes sends two hangups, one from the shell and one from the kernel.
#[test]
fn two_hangups_are_one_request_to_stop() {
    let folder = small_capture();
    let path = folder.path();
    let run = long_run(path, Stdio::null());
    run.send("-HUP");
    run.send("-HUP");
    run.send("-TERM");
    let (code, said) = run.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("interrupted: stopped after"), "{said}");
    for name in ["splats.ply", "checkpoint.safetensors", "metrics.json"] {
        assert!(path.join("out").join(name).exists(), "{name}: {said}");
    }
}

/// `nohup` starts a program with the hangup ignored.
#[test]
fn a_signal_that_the_parent_ignores_stays_ignored() {
    let folder = small_capture();
    let path = folder.path();
    let mut child = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_dapple"))
        .args(["train", "capture", "-o", "out", "--steps", "400"])
        .env("DAPPLE_DEVICE", "cpu")
        .current_dir(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut run = Running { child, said };
    run.wait_for("step 1/");
    run.send("-HUP");
    let (code, said) = run.end();
    assert_eq!(code, Some(0), "{said}");
}

/// A stdout that accepts nothing for a minute: an interrupted run cannot end by itself until then,
/// however fast it saves.
fn blocked() -> Stdio {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    let full = loop {
        if let Err(e) = writer.write(&[b'.'; 4096]) {
            break e;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    writer.set_nonblocking(false).unwrap();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(60));
        drop(reader);
    });
    OwnedFd::from(writer).into()
}

#[test]
fn the_second_one_ends_at_once() {
    let folder = small_capture();
    let mut run = long_run(folder.path(), blocked());
    run.interrupt();
    run.wait_for("stopping");
    run.interrupt();
    let (code, said) = run.end();
    assert_eq!(code, Some(130));
    assert!(!said.contains("interrupted"), "it came to its end: {said}");
}

#[test]
fn a_capture_in_the_making_disappears() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let args = ["synth", "new/capture", "--photos", "500"];
    let left = |inner: &str| std::fs::read_dir(path.join(inner)).unwrap().count();

    let run = Running::start(path, &args, "rendering photos", Stdio::null());
    assert_eq!(left("new"), 1, "the folder it works in");
    run.interrupt();
    let (code, said) = run.end();
    assert_eq!(code, Some(130));
    assert!(said.contains("interrupted: stopped before"), "{said}");
    assert_eq!(left(""), 0);

    // The capture that it was to replace is unchanged.
    synth(path, &[]);
    let before = files(path);
    let args = [&args[..1], &["capture", "--overwrite"], &args[2..]].concat();
    let run = Running::start(path, &args, "rendering photos", Stdio::null());
    assert_eq!(left(""), 2);
    run.interrupt();
    assert_eq!(run.end().0, Some(130));
    assert_eq!((left(""), files(path)), (1, before));
}

#[test]
fn an_interrupted_demo_leaves_no_hidden_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // On a fast machine the capture may be complete before Ctrl-C arrives; then training ends.
    let run = Running::start(path, &["demo"], "rendering photos", Stdio::null());
    run.interrupt();
    assert_eq!(run.end().0, Some(130));
    let left = files(path);
    let hidden = |file: &PathBuf| file.to_string_lossy().contains(".dapple-");
    assert!(!left.iter().any(hidden), "{left:?}");
}

/// Writes a file of `count` Gaussians with harmonics of degree 3, each its own.
fn write_splats(path: &Path, count: usize) {
    let mut state = 1u32;
    let mut noise = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut splats = Splats::empty(3);
    for _ in 0..count {
        splats.means.push([noise(), noise(), noise()]);
        splats.scales.push([-4.0 + noise(); 3]);
        splats.quats.push([1.0, noise(), noise(), noise()]);
        splats.opacities.push(4.0 * noise());
        splats.sh0.push([noise(), noise(), noise()]);
        splats.sh_rest.extend((0..45).map(|_| noise()));
    }
    let options = splat_file::WriteOptions::default();
    splat_file::write_with(path, &splats, splat_file::Format::Ply, &options).unwrap();
}

#[test]
fn trials_of_a_choice_disappear() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(&path.join("large.ply"), 60_000);
    let left = || std::fs::read_dir(path).unwrap().count();
    let args = "convert large.ply best --max-loss 0.000001 --device cpu";
    let args: Vec<&str> = args.split(' ').collect();
    let run = Running::start(path, &args, "tried .sog", Stdio::null());
    assert_eq!(left(), 2, "the folder of trials is there");
    run.interrupt();
    let (code, said) = run.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("nothing was written"), "{said}");
    assert_eq!(left(), 1);
}

#[test]
fn a_folder_made_for_a_file_disappears() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(&path.join("large.ply"), 60_000);
    let args = "convert large.ply new/deep/small.sog --no-loss --device cpu";
    let args: Vec<&str> = args.split(' ').collect();
    let palette = "finding a palette of harmonics";
    let run = Running::start(path, &args, palette, Stdio::null());
    assert!(path.join("new/deep").is_dir());
    run.interrupt();
    assert_eq!(run.end().0, Some(130));
    assert!(!path.join("new").exists());
}
