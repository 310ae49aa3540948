//! `dapple train --sky`, parts of a run with a sky, and `dapple edit --drop-sky`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use crate::common;

use common::exit::INPUT;
use common::{ok_in, refused};
use std::path::Path;

fn config(path: &Path, run: &str) -> String {
    std::fs::read_to_string(path.join(run).join("config.toml")).unwrap()
}

fn splats(path: &Path, file: &str) -> usize {
    let bytes = std::fs::read(path.join(file)).unwrap();
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned();
    let count = head
        .lines()
        .find_map(|line| line.strip_prefix("element vertex "));
    count.unwrap().trim().parse().unwrap()
}

#[test]
fn a_sky_goes_on_with_its_run_and_can_be_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let size = ["--photos=17", "--width=96", "--height=72"];
    let synth = |name, scene| {
        ok_in(path, &[&["synth", name, scene, "-q"][..], &size].concat());
    };
    synth("city", "--scene=city");
    synth("table", "--scene=table");
    let train = |more: &[&str]| {
        let start = ["train", "--device=cpu", "-q", "--max-gaussians=4000"];
        ok_in(path, &[&start[..], more].concat());
    };
    train(&["city", "--steps=60", "-o", "run"]);
    assert!(config(path, "run").contains("\nsky = \"on\"\n"));
    let shown = ok_in(path, &["info", "run"]).stdout;
    assert!(shown.contains("edit --drop-sky"), "{shown}");
    train(&["table", "--steps=20", "-o", "still"]);
    assert!(config(path, "still").contains("\nsky = \"off\"\n"));
    assert!(!ok_in(path, &["info", "still"]).stdout.contains("sky"));
    // The same command, and a further part with and without its state.
    train(&["city", "--steps=60", "-o", "again"]);
    let bytes = |run: &str| std::fs::read(path.join(run).join("splats.ply")).unwrap();
    assert!(bytes("run") == bytes("again"));
    let drop = |run: &str| {
        let out = format!("{run}.ply");
        ok_in(path, &["edit", run, &out, "--drop-sky", "-q"]);
        splats(path, &format!("{run}/splats.ply")) - splats(path, &out)
    };
    let of_sky = drop("run");
    assert!(of_sky > 300, "{of_sky}");
    train(&["--continue=run", "--steps=+40", "-o", "longer"]);
    assert_eq!(drop("longer"), of_sky);
    std::fs::remove_file(path.join("again/state.safetensors")).unwrap();
    train(&["--continue=again", "--steps=+40", "-o", "bare"]);
    assert_eq!(drop("bare"), of_sky);
    assert_eq!(drop("still"), 0);
    let cannot = ["train", "--continue=run", "--sky=off", "--device=cpu"];
    refused(path, &cannot, INPUT, &["sky = \"off\" cannot change"]);
    let none = ["train", "table", "--sky=on", "--device=cpu", "-o", "none"];
    refused(
        path,
        &none,
        INPUT,
        &["no training photo shows a sky", "--sky"],
    );
}
