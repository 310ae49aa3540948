//! `dapple bench` on work small enough for a test: shapes and counts, never a time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{json, ok_in, refused, run_in, small_capture};
use dapple::contract::Stage;
use dapple::cpu::cost::{Work, cost};

#[test]
fn stages_are_timed_and_held_against_the_limits() {
    let here = std::env::current_dir().unwrap();
    let args = [
        "bench",
        "stages",
        "-q",
        "--gaussians",
        "500",
        "--size",
        "64x48",
        "--steps",
        "3",
        "--json",
    ];
    let found = json(&ok_in(&here, &args));
    assert_eq!(found["schema"], 1);
    assert!(found["machine"]["threads"].as_u64().unwrap() >= 1);
    for limit in ["gflops", "gb_per_s"] {
        assert!(found["limits"][limit].as_f64().unwrap() > 0.0, "{limit}");
    }
    let [run] = found["runs"].as_array().unwrap().as_slice() else {
        panic!("one run: {found}");
    };
    assert_eq!(
        (
            &run["gaussians"],
            &run["width"],
            &run["height"],
            &run["steps"]
        ),
        (&500.into(), &64.into(), &48.into(), &3.into())
    );
    let count = |name: &str| run[name].as_u64().unwrap();
    assert!(count("visible") > 0 && count("visible") <= 500);
    assert!(count("instances") >= count("visible"));
    assert!(count("row_visits") <= 16 * count("instances"));
    let stages = run["stages"].as_array().unwrap();
    let mut names: Vec<&str> = stages
        .iter()
        .map(|s| s["stage"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    let mut expected = [
        "project",
        "order",
        "emit",
        "sort",
        "ranges",
        "blend",
        "loss",
        "blend_backward",
        "update",
    ];
    expected.sort_unstable();
    assert_eq!(names, expected);
    let work = Work {
        gaussians: count("gaussians"),
        visible: count("visible"),
        instances: count("instances"),
        row_visits: count("row_visits"),
        pixels: 64 * 48,
        tiles: 4 * 3,
        sh_degree: 3,
        ssim: true,
    };
    for stage in stages {
        let name = stage["stage"].as_str().unwrap();
        let kind = Stage::ALL.into_iter().find(|s| s.name() == name).unwrap();
        let counted = cost(kind, &work);
        assert_eq!(stage["flops"], counted.flops, "{name}");
        assert_eq!(stage["bytes"], counted.bytes, "{name}");
        let number = |name: &str| stage[name].as_f64().unwrap();
        for name in [
            "min_ms",
            "median_ms",
            "p95_ms",
            "share",
            "gb_per_s",
            "of_memory",
        ] {
            assert!(number(name) > 0.0, "{name}: {stage}");
        }
        let nearer = number("of_compute").max(number("of_memory"));
        assert_eq!(number("of_limit"), nearer, "{stage}");
    }
}

#[test]
fn training_is_timed_with_a_fixed_number_of_gaussians() {
    let folder = small_capture();
    let time = |copies: &str| {
        let args = [
            "bench",
            "train",
            "capture",
            "-q",
            "--steps",
            "3",
            "--duplicate",
            copies,
            "--json",
        ];
        json(&ok_in(folder.path(), &args))
    };
    let (one, four) = (time("1"), time("4"));
    let gaussians = |found: &serde_json::Value| found["gaussians"].as_u64().unwrap();
    assert!(gaussians(&one) > 0);
    assert_eq!(gaussians(&four), 4 * gaussians(&one));
    assert_eq!(one["photos"], 7);
    assert!(one["seconds_per_step"].as_f64().unwrap() > 0.0);
    assert!(
        !folder.path().join("out").exists(),
        "a measurement leaves nothing"
    );
}

#[test]
fn a_size_that_is_none_is_a_usage_error() {
    let here = std::env::current_dir().unwrap();
    let ran = run_in(&here, &["bench", "stages", "--size", "big"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("516x344"), "{}", ran.stderr);
}

#[test]
fn operations_are_measured_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let common = [
        "--most",
        "1000",
        "--samples",
        "2",
        "--device",
        "cpu",
        "--threads",
        "2",
        "-q",
    ];
    let base = ["bench", "ops", "--only", "fused,reduce", "--dtype", "f32"];
    let found = json(&ok_in(
        folder.path(),
        &[&base[..], &common, &["--json"]].concat(),
    ));
    let rows = found["rows"].as_array().unwrap();
    assert!(rows.len() >= 8, "{rows:?}");
    for row in rows {
        assert!(row["us"]["median"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["bytes"].as_f64().unwrap() >= 4000.0, "{row}");
        assert!(row["name"].as_str().unwrap().ends_with("1 k"), "{row}");
    }
    let kernels = |rows: &[serde_json::Value]| {
        let row = rows
            .iter()
            .find(|row| row["name"] == "add + relu 1 k")
            .unwrap();
        row["kernels"].as_u64().unwrap()
    };
    assert_eq!(kernels(rows), 1);
    std::fs::write(folder.path().join("old.json"), found.to_string()).unwrap();
    let more = ["--unfused", "--compare", "old.json"];
    let compared = ok_in(folder.path(), &[&base[..], &common, &more].concat());
    assert!(
        compared.stdout.contains("peaks") && compared.stdout.contains(" x"),
        "{}",
        compared.stdout
    );
    let unfused = json(&ok_in(
        folder.path(),
        &[&base[..], &common, &["--unfused", "--json"]].concat(),
    ));
    assert_eq!(kernels(unfused["rows"].as_array().unwrap()), 2);
    let args = [
        "bench", "ops", "--only", "nonsense", "--device", "cpu", "-q",
    ];
    refused(folder.path(), &args, 3, &["nonsense", "norms"]);
}
