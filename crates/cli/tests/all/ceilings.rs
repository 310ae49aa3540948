//! `dapple bench device` and its rows in `doctor`: tests the measured values, that they are stored,
//! and that a damaged file is rejected. Never how fast anything is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{Ran, dapple, files, json};
use dapple::runtime::adapters;
use serde_json::Value;
use std::path::Path;

/// Runs `dapple ARGS` with the folder for caches.
fn run(cache: &Path, args: &[&str]) -> Ran {
    let ran = dapple()
        .args(args)
        .env("DAPPLE_CACHE_DIR", cache)
        .output()
        .unwrap();
    ran.into()
}

#[track_caller]
fn ok(cache: &Path, args: &[&str]) -> Ran {
    let ran = run(cache, args);
    assert_eq!(ran.code, 0, "dapple {args:?}\n{}", ran.stderr);
    ran
}

/// Returns doctor's findings about a device's limits.
fn limits(cache: &Path, device: &str) -> Value {
    let report = json(&ok(cache, &["doctor", "--json"]));
    let name = format!("limits {device}");
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .find(|f| f["name"] == name.as_str())
        .unwrap()
        .clone()
}

fn value(device: &Value, name: &str) -> f64 {
    let rates = device["rates"].as_array().unwrap();
    let rate = rates.iter().find(|rate| rate["name"] == name);
    rate.unwrap_or_else(|| panic!("{name}: {device}"))["value"]
        .as_f64()
        .unwrap()
}

/// Checks that hold for every device: the report has text in addition to numbers, and every number
/// is possible.
fn is_sound(device: &Value) {
    for rate in device["rates"].as_array().unwrap() {
        let number = |name: &str| rate[name].as_f64().unwrap();
        assert!(number("value") > 0.0 && number("spread") >= 1.0, "{rate}");
    }
    for curve in device["curves"].as_array().unwrap() {
        let points = curve["points"].as_array().unwrap();
        let bytes: Vec<u64> = points
            .iter()
            .map(|p| p["bytes"].as_u64().unwrap())
            .collect();
        assert!(bytes.len() >= 5 && bytes.is_sorted(), "{curve}");
        assert!(
            points
                .iter()
                .all(|p| p["bytes_per_second"].as_f64().unwrap() > 0.0)
        );
    }
    let date = device["measured_at"].as_str().unwrap();
    assert!(date.len() == 20 && date.starts_with("20"), "{date}");
}

#[test]
fn the_processor_is_measured_kept_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let before = limits(&cache, "cpu");
    assert_eq!(before["verdict"], "missing");
    let advice = before["advice"].as_str().unwrap();
    assert!(
        advice.contains("dapple bench device --device cpu"),
        "{advice}"
    );

    let found = json(&ok(&cache, &["bench", "device", "-q", "--json"]));
    assert_eq!(found["schema"], 1);
    let [device] = found["devices"].as_array().unwrap().as_slice() else {
        panic!("one device: {found}");
    };
    is_sound(device);
    // No CPU reads its caches slower than a byte in a second, nor a petabyte in one.
    assert!((1.0..1e15).contains(&value(device, "read")));
    assert!(value(device, "fma_f32.one_thread") > 0.0);
    let kept = Path::new(device["kept_in"].as_str().unwrap());
    assert!(kept.starts_with(&cache) && kept.exists());
    assert_eq!(files(&cache).len(), 1, "{:?}", files(&cache));

    let after = limits(&cache, "cpu");
    assert_eq!(after["verdict"], "ok");
    let day = &device["measured_at"].as_str().unwrap()[..10];
    assert!(after["value"].as_str().unwrap().contains(day), "{after}");
    assert_eq!(after["ceilings"]["rates"], device["rates"]);

    // A damaged file is rejected, and a new measurement replaces it.
    std::fs::write(kept, "{\"schema\": 1, \"rates\": [").unwrap();
    assert_eq!(limits(&cache, "cpu")["verdict"], "missing");
    let text = ok(&cache, &["bench", "device", "-q"]).stdout;
    for part in ["GB/s", "FLOP/s", "one thread", "16.0 KiB", "####", "kept "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(limits(&cache, "cpu")["verdict"], "ok");
}

#[test]
fn a_gpu_is_measured_kept_and_shown() {
    let software = adapters()
        .into_iter()
        .find(|a| a.name.contains("llvmpipe") && a.unusable.is_none());
    let Some(adapter) = software else {
        let why = "Mesa's software Vulkan driver is not installed";
        dapple::scene::test_requirements::skipped("gpu", why);
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let name = format!("gpu:{}", adapter.index);
    let args = ["bench", "device", "-q", "--json", "--device", &name];
    let found = json(&ok(folder.path(), &args));
    let device = &found["devices"][0];
    is_sound(device);
    for rate in [
        "copy",
        "read",
        "write",
        "fma_f32",
        "exp2",
        "dispatch",
        "submission",
    ] {
        assert!(value(device, rate) > 0.0, "{rate}");
    }
    let said = limits(folder.path(), &name);
    assert_eq!(
        said["ceilings"]["device"]["driver"],
        adapter.driver.as_str()
    );
}

#[test]
fn what_cannot_be_measured_or_kept_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let none = run(
        folder.path(),
        &["bench", "device", "--device", "gpu:no-such"],
    );
    assert_eq!(none.code, 5, "{}", none.stderr);
    assert!(none.stderr.contains("hint: "), "{}", none.stderr);
    // A file has the name of the folder for caches.
    let file = folder.path().join("cache");
    std::fs::write(&file, "").unwrap();
    let ran = ok(&file, &["bench", "device", "--json"]);
    assert!(ran.stderr.contains("warning: not kept"), "{}", ran.stderr);
    assert!(json(&ran)["devices"][0]["kept_in"].is_null());
}
