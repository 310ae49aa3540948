//! Tests of the dependencies between crates: the order of the table "The crates" in `ARCHITECTURE.md`, and no crate for
//! users depends on the reference, which is slow and only for tests.

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

/// Returns the crates of the table "The crates" in `ARCHITECTURE.md`, in its order, with cargo's names.
fn table_of_crates() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n## The crates\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let folders = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `crates/")?.split('`').next());
    folders
        .map(|folder| match folder {
            "dapple" => "dapple".to_owned(),
            other => format!("dapple-{other}"),
        })
        .collect()
}

/// Returns the crates of the workspace that a crate uses outside of tests, in order of name.
fn own_dependencies<'a>(all: &'a [(String, Vec<String>)], name: &str) -> Vec<&'a str> {
    let (_, uses) = all.iter().find(|(n, _)| n == name).unwrap();
    let own = uses.iter().map(String::as_str);
    let mut own: Vec<&str> = own.filter(|n| n.starts_with("dapple")).collect();
    own.sort_unstable();
    own
}

#[test]
fn each_crate_uses_only_crates_above_it_in_the_table() {
    let (all, table) = (normal_dependencies(), table_of_crates());
    let place = |name: &str| table.iter().position(|other| other == name);
    for (name, _) in all.iter().filter(|(name, _)| name != "xtask") {
        let own = place(name).unwrap_or_else(|| panic!("{name} is not in the table"));
        for used in own_dependencies(&all, name) {
            assert!(place(used).unwrap() < own, "{name} uses {used}");
        }
    }
    for name in &table {
        assert!(all.iter().any(|(other, _)| other == name), "no {name}");
    }
}

#[test]
fn the_crate_of_splat_files_has_no_photos_and_no_captures() {
    let all = normal_dependencies();
    assert_eq!(own_dependencies(&all, "dapple-splats"), ["dapple-base"]);
    let scene = own_dependencies(&all, "dapple-scene");
    assert_eq!(scene, ["dapple-base", "dapple-splats"]);
    assert_eq!(own_dependencies(&all, "dapple-synth"), ["dapple-scene"]);
    let (_, uses) = all.iter().find(|(n, _)| n == "dapple-splats").unwrap();
    for heavy in ["image", "exr", "png", "encoding_rs", "wgpu"] {
        assert!(!uses.iter().any(|name| name == heavy), "{heavy}");
    }
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
    let own = own_dependencies(&all, "dapple-tensor");
    assert_eq!(own, ["dapple-base", "dapple-runtime"]);
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

#[test]
fn the_contract_and_the_cpu_engine_know_no_gpu() {
    let all = normal_dependencies();
    for name in ["dapple-engine", "dapple-cpu"] {
        let (_, uses) = all.iter().find(|(other, _)| other == name).unwrap();
        for gpu in ["wgpu", "dapple-runtime", "dapple-device", "dapple-gpu"] {
            assert!(!uses.iter().any(|other| other == gpu), "{name} uses {gpu}");
        }
    }
}
