//! `dapple profile ops`, and `dapple bench ops` without its rows: files, options, refusals. Never how fast anything is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{files, json, ok_in, refused, run_in};
use dapple_profile::read_profile;

#[test]
fn operations_are_profiled_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let base = [
        "profile",
        "ops",
        "-q",
        "--only",
        "lora_512,softmax_1024",
        "--iterations",
        "20",
        "--time-limit",
        "5",
        "--device",
        "cpu",
        "--threads",
        "2",
    ];
    let ran = ok_in(folder.path(), &base);
    for words in ["Budget", "softmax_1024", "report.html", "Measures"] {
        let text = std::fs::read_to_string(folder.path().join("profile/ops/PROFILE.md")).unwrap();
        let found = ran.stdout.contains(words) || text.contains(words);
        assert!(found, "{words}: {}", ran.stdout);
    }
    let out = folder.path().join("profile/ops");
    for name in ["PROFILE.md", "profile.json", "report.html", "trace.json"] {
        assert!(
            files(&out).iter().any(|file| file.ends_with(name)),
            "{name}"
        );
    }
    let profile = read_profile(&out.join("profile.json")).unwrap();
    let stages: Vec<&str> = profile.stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(stages[..2], ["lora_512", "softmax_1024"]);
    let wall: f64 = profile.budget.rows.iter().map(|row| row.total_ns).sum();
    assert!((wall / profile.budget.wall_ns - 1.0).abs() < 1e-6);
    // An existing output is not replaced.
    assert_ne!(run_in(folder.path(), &base).code, 0);
    let more = [
        "-o",
        "after",
        "--compare",
        "profile/ops/profile.json",
        "--json",
    ];
    let after = json(&ok_in(folder.path(), &[&base[..], &more].concat()));
    assert_eq!(after["stages"].as_array().unwrap().len(), stages.len());
    let report = std::fs::read_to_string(folder.path().join("after/PROFILE.md")).unwrap();
    assert!(report.contains("lora_512"));
}

#[test]
fn what_is_not_there_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "profile", "ops", "--only", "nonsense", "--device", "cpu", "-q",
    ];
    refused(folder.path(), &args, 3, &["nonsense", "--only", "softmax"]);
    assert!(files(folder.path()).is_empty());
    let usage = run_in(folder.path(), &["profile", "ops", "--plant", "luck"]);
    assert_eq!(usage.code, 2, "{}", usage.stderr);
    assert!(usage.stderr.contains("naive-matmul"), "{}", usage.stderr);
    let usage = run_in(
        folder.path(),
        &["bench", "ops", "--suite", "performance", "--unfused"],
    );
    assert_eq!(usage.code, 2, "{}", usage.stderr);
}

#[test]
fn rows_stand_beside_pytorchs() {
    let folder = tempfile::tempdir().unwrap();
    let torch = r#"{"gpu": "a device", "torch": "2.9", "seconds": 1.0, "skipped": [], "rows": [
        {"group": "fused", "op": "add_relu", "shape": [1000], "dtype": "f32", "mode": "eager", "us": 1e9}]}"#;
    std::fs::write(folder.path().join("torch.json"), torch).unwrap();
    let args = [
        "bench",
        "ops",
        "--only",
        "fused",
        "--dtype",
        "f32",
        "--most",
        "1000",
        "--samples",
        "2",
        "--device",
        "cpu",
        "--compare",
        "torch.json",
    ];
    let ran = ok_in(folder.path(), &args);
    assert!(
        ran.stderr.contains("PyTorch 2.9 on a device"),
        "{}",
        ran.stderr
    );
    let row = ran
        .stdout
        .lines()
        .find(|line| line.starts_with("add + relu 1 k"));
    assert!(row.unwrap().contains("faster"), "{}", ran.stdout);
}

/// Runs `dapple bench ops` on the CPU with the folder for caches; returns its JSON and notes.
fn measured(cache: &std::path::Path, more: &[&str]) -> (serde_json::Value, String) {
    let args = [
        "bench", "ops", "--only", "linear", "--dtype", "f32", "--most", "200000",
    ];
    let ran = common::dapple()
        .args(args)
        .args([
            "--samples",
            "3",
            "--device",
            "cpu",
            "--threads",
            "1",
            "--json",
        ])
        .args(more)
        .env("DAPPLE_CACHE_DIR", cache)
        .output()
        .unwrap();
    let ran: common::Ran = ran.into();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    (json(&ran), ran.stderr)
}

#[test]
fn ceilings_that_rows_exceed_are_measured_again() {
    use dapple_profile::ceilings::{Measured, Rated, Unit, store};
    let folder = tempfile::tempdir().unwrap();
    let stored = |per_second: f64, spread: f64| {
        let mut measured = Measured::new(dapple_instruments::ceilings::processor_key(1));
        let rated = Rated { per_second, spread };
        measured.rate("copy", Unit::BytesPerSecond, rated);
        measured.rate("fma_f32", Unit::OperationsPerSecond, rated);
        store(folder.path(), &measured).unwrap();
    };
    // A thousand operations a second: every machine is faster.
    stored(1000.0, 1.0);
    let (found, notes) = measured(folder.path(), &[]);
    assert!(notes.contains("measured again"), "{notes}");
    let flops = found["ceilings"]["flops"].as_f64().unwrap();
    assert!(flops > 1e6, "{found}");
    for row in found["rows"].as_array().unwrap() {
        let rate = 1e9 * row["gflop_per_s"].as_f64().unwrap();
        let percent = row["percent_of_flops"].as_f64().unwrap();
        assert!(
            (percent - 100.0 * rate / flops).abs() < 1e-6 * percent.max(1.0),
            "{row}"
        );
        let [low, high] = [0, 1].map(|end| row["us"]["interval"][end].as_f64().unwrap());
        let median = row["us"]["median"].as_f64().unwrap();
        assert!(low <= median && median <= high, "{row}");
    }
    // Ceilings of a busy machine are not used.
    stored(1e30, 2.0);
    let (found, notes) = measured(folder.path(), &[]);
    assert!(
        found["ceilings"]["flops"].as_f64().unwrap() < 1e20,
        "{found}"
    );
    assert!(!notes.contains("bench device, 20"), "{notes}");
    stored(1e30, 1.0);
    let (found, _) = measured(folder.path(), &[]);
    assert_eq!(found["ceilings"]["flops"], 1e30);
}

#[test]
fn the_pool_of_a_gpu_is_reported() {
    let adapters = dapple::runtime::adapters().into_iter();
    let mut software = adapters.filter(|a| a.is_software && a.unusable.is_none());
    let Some(adapter) = software.next() else {
        dapple::scene::test_requirements::skipped(
            "gpu",
            "a software Vulkan driver is not installed",
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let device = format!("gpu:{}", adapter.index);
    let args = [
        "bench",
        "ops",
        "-q",
        "--only",
        "pool",
        "--samples",
        "2",
        "--json",
        "--device",
        &device,
    ];
    let pool = json(&ok_in(folder.path(), &args))["pool"].clone();
    let number = |name: &str| {
        pool[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {pool}"))
    };
    let rate = number("reuses") / (number("reuses") + number("allocations"));
    assert!(
        (number("reuse_rate") - rate).abs() < 1e-9 && rate > 0.0 && rate < 1.0,
        "{pool}"
    );
    assert_eq!(
        number("total_bytes"),
        number("live_bytes") + number("pooled_bytes")
    );
    assert!(number("size_classes") >= 1.0 && pool["max_buffers_per_size"].is_null());
}
