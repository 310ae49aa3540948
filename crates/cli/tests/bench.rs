//! `dapple bench` on work small enough for a test: shapes and counts, never a time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{json, ok_in, run_in, small_capture};
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
