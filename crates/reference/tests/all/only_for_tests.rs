//! Tests that no crate for users depends on the reference, which is slow and only for tests.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::process::Command;

/// Returns the crates of the workspace with their dependencies outside of tests, from cargo.
fn normal_dependencies() -> Vec<(String, Vec<String>)> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .args(["--manifest-path", manifest])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            // A development dependency has a kind; a dependency of a build script counts.
            let normal = dependencies.filter(|d| text(&d["kind"]).as_deref() != Some("dev"));
            let names = normal.filter_map(|d| text(&d["name"])).collect();
            (text(&package["name"]).unwrap(), names)
        })
        .collect()
}

#[test]
fn nothing_that_users_run_depends_on_the_oracle() {
    let all = normal_dependencies();
    assert!(all.iter().any(|(name, _)| name == "dapple-cli"), "{all:?}");
    let own = |name: &&String| name.starts_with("dapple");
    let uses = |name: &str| all.iter().find(|(n, _)| n == name).map(|(_, uses)| uses);
    // Checks that the names are those of cargo: the reference depends on the engine crate.
    let oracle = uses("dapple-reference").unwrap();
    assert!(oracle.iter().any(|name| name == "dapple-engine"));
    for (name, uses) in &all {
        assert!(
            !uses.iter().filter(own).any(|n| n == "dapple-reference"),
            "{name}"
        );
    }
}

#[test]
fn the_runtime_knows_nothing_of_splats() {
    let all = normal_dependencies();
    let (_, uses) = all
        .iter()
        .find(|(name, _)| name == "dapple-runtime")
        .unwrap();
    let own: Vec<&str> = uses
        .iter()
        .map(String::as_str)
        .filter(|n| n.starts_with("dapple"))
        .collect();
    assert_eq!(own, ["dapple-base", "dapple-profile"]);
    for (name, uses) in all.iter().filter(|(name, _)| own.contains(&name.as_str())) {
        for heavy in [
            "image",
            "exr",
            "png",
            "wgpu",
            "dapple-scene",
            "dapple-engine",
        ] {
            assert!(
                !uses.iter().any(|name| name == heavy),
                "{name} uses {heavy}"
            );
        }
    }
}

#[test]
fn tensors_know_the_runtime_alone() {
    let all = normal_dependencies();
    let (_, uses) = all
        .iter()
        .find(|(name, _)| name == "dapple-tensor")
        .unwrap();
    let own = uses.iter().filter(|name| name.starts_with("dapple"));
    let own: Vec<&str> = own.map(String::as_str).collect();
    assert_eq!(own, ["dapple-base", "dapple-profile", "dapple-runtime"]);
}

#[test]
fn the_instruments_measure_through_the_contract() {
    let all = normal_dependencies();
    let uses = all.iter().find(|(name, _)| name == "dapple-instruments");
    let own = uses.unwrap().1.iter().map(String::as_str);
    let own: Vec<&str> = own.filter(|name| name.starts_with("dapple")).collect();
    let known = ["dapple", "dapple-base", "dapple-profile", "dapple-tensor"];
    assert_eq!(own, known);
    // The library re-exports the engines; the measurements must not use modules of the GPU engine
    // either.
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../instruments/src")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for inside in ["gpu::", "wgpu", "layout"] {
                assert!(!text.contains(inside), "{}: {inside}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} files");
}
