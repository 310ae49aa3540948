//! Runs that are trained again and compared: `dapple verify`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use crate::common;

use common::exit::{INPUT, UNSUPPORTED};
use common::{json, ok_in, refused, run_in, small_capture};
use std::path::Path;

fn train(path: &Path, out: &str, more: &[&str]) {
    let start = ["train", "capture", "-q", "--preset=m9", "--sh-degree=1"];
    ok_in(path, &[&start[..], &["-o", out], more].concat());
}

/// Changes the text of a file of a run.
fn edit(path: &Path, file: &str, change: impl Fn(&mut serde_json::Value)) {
    let file = path.join(file);
    let mut value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(&file, value.to_string()).unwrap();
}

#[test]
fn runs_are_repeated_and_every_changed_number_is_found() {
    let folder = small_capture();
    let path = folder.path();
    train(path, "a", &["--steps=200"]);
    let before = common::files(path);
    let ran = ok_in(path, &["verify", "a", "--threads=1", "--json"]);
    let found = json(&ran);
    assert_eq!(found["same"], true);
    assert_eq!(found["steps"], 200);
    assert_eq!(found["compared"]["losses"], 21);
    assert!(found["compared"]["rounds"].as_u64() > Some(0), "{found}");
    assert!(found["compared"]["scores"].as_u64() > Some(0), "{found}");
    let crc32 = &found["splats"]["crc32"];
    assert_eq!(crc32[0], crc32[1]);
    assert_eq!(common::files(path), before, "no file is written");

    // The last bits of a Gaussian.
    let splats = path.join("a/splats.ply");
    let good = std::fs::read(&splats).unwrap();
    let mut bad = good.clone();
    let last = bad.len() - 4;
    bad[last] ^= 1;
    std::fs::write(&splats, &bad).unwrap();
    refused(path, &["verify", "a"], INPUT, &["Gaussians differ: 1 of"]);
    std::fs::write(&splats, &good).unwrap();

    // A round, which comes before the splats; a score before the end; a loss before both.
    edit(path, "a/metrics.json", |metrics| {
        let rounds = metrics["densify"].as_array_mut().unwrap();
        let last = rounds.last_mut().unwrap();
        last["total"] = (last["total"].as_u64().unwrap() + 1).into();
    });
    let words = ["Gaussians after density control is", "hint:"];
    refused(path, &["verify", "a"], INPUT, &words);
    edit(path, "a/metrics.json", |metrics| {
        let psnr = &mut metrics["evals"][0]["psnr"];
        *psnr = (psnr.as_f64().unwrap() + 1e-9).into();
    });
    refused(path, &["verify", "a"], INPUT, &["differs: PSNR is"]);
    edit(path, "a/metrics.json", |metrics| {
        let loss = &mut metrics["losses"][5]["loss"];
        *loss = (loss.as_f64().unwrap() * 1.01).into();
    });
    refused(path, &["verify", "a"], INPUT, &["step 50 differs: loss is"]);
    ok_in(path, &["verify", "a", "--until=40"]);
}

#[test]
fn stopped_runs_and_runs_from_splats_are_repeated() {
    let folder = small_capture();
    let path = folder.path();
    train(path, "stopped", &["--steps=200", "--stop-at=120"]);
    let ran = ok_in(path, &["verify", "stopped", "--json"]);
    assert_eq!(json(&ran)["steps"], 120);
    train(path, "first", &["--steps=100", "--no-state"]);
    train(path, "from", &["--steps=100", "--from", "first"]);
    assert_eq!(
        json(&ok_in(path, &["verify", "from", "--json"]))["same"],
        true
    );
    // The file of the run repeats it, too.
    let again = ["--from", "first", "--config", "from/config.toml"];
    train(path, "again", &again);
    let [a, b] = ["from", "again"].map(|run| std::fs::read(path.join(run).join("splats.ply")));
    assert!(a.unwrap() == b.unwrap(), "--config changes the run");
    std::fs::remove_file(path.join("first/splats.ply")).unwrap();
    assert_ne!(run_in(path, &["verify", "from"]).code, 0);
}

#[test]
fn runs_that_cannot_be_repeated_are_refused() {
    let folder = small_capture();
    let path = folder.path();
    refused(path, &["verify", "nothing"], INPUT, &["no such folder"]);
    refused(path, &["verify", "capture"], INPUT, &["holds no run"]);
    train(path, "a", &["--steps=60"]);
    assert_eq!(run_in(path, &["verify", "a", "--until=0"]).code, 2);
    edit(path, "a/metrics.json", |metrics| {
        metrics["version"] = 99.into()
    });
    refused(path, &["verify", "a"], UNSUPPORTED, &["another Dapple"]);
    edit(path, "a/metrics.json", |metrics| {
        metrics["version"] = 1.into()
    });
    ok_in(path, &["train", "--continue", "a", "--steps=+60", "-q"]);
    let words = ["continued after step 60", "--out"];
    refused(path, &["verify", "a"], UNSUPPORTED, &words);
    std::fs::write(path.join("a/metrics.json"), "{").unwrap();
    refused(path, &["verify", "a"], UNSUPPORTED, &["cannot be read"]);
}
