//! Regions of interest: `dapple train --focus`, `eval --focus`, and the outline in the viewer.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use crate::common;
use crate::page;

use common::exit::{INPUT, USAGE};
use common::{dapple, json, ok_in, refused, run_in, small_capture};
use page::{Browser, Served, chromium};
use std::path::Path;

fn train(path: &Path, out: &str, more: &[&str]) -> common::Ran {
    let start = ["train", "capture", "--preset=m9", "--sh-degree=1"];
    ok_in(path, &[&start[..], &["-o", out], more].concat())
}

fn splats(path: &Path, run: &str) -> Vec<u8> {
    std::fs::read(path.join(run).join("splats.ply")).unwrap()
}

fn config(path: &Path, run: &str) -> String {
    std::fs::read_to_string(path.join(run).join("config.toml")).unwrap()
}

/// A run with a region repeats itself by its file, after a stop and by `verify`, and scores the photos inside and whole.
#[test]
fn runs_with_a_region_score_inside_and_repeat_themselves() {
    let folder = small_capture();
    let path = folder.path();
    let focus = ["--steps=200", "--focus=auto"];
    train(path, "plain", &["--steps=200", "-q"]);
    let ran = train(path, "a", &focus);
    assert!(!config(path, "plain").contains("focus"));
    let text = config(path, "a");
    let region = text.lines().find(|line| line.starts_with("region = "));
    let region = region.and_then(|line| line.split('"').nth(1)).unwrap();
    assert!(region.starts_with("sphere:"), "{region}");
    for words in ["scores    PSNR", "focus     PSNR", region] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    let note = format!("the region of interest {region} has ");
    assert!(ran.stderr.contains(&note), "{note}: {}", ran.stderr);
    assert!(
        splats(path, "a") != splats(path, "plain"),
        "nothing changed"
    );

    train(path, "file", &["-q", "--config", "a/config.toml"]);
    train(
        path,
        "stopped",
        &[&focus[..], &["-q", "--stop-at=100"]].concat(),
    );
    let unfinished = ok_in(path, &["info", "stopped"]).stdout;
    assert!(unfinished.contains(region), "{unfinished}");
    ok_in(path, &["train", "--resume", "stopped", "-q"]);
    for run in ["file", "stopped"] {
        assert!(splats(path, run) == splats(path, "a"), "{run} differs");
    }
    let found = json(&ok_in(path, &["verify", "a", "--json"]));
    assert_eq!(found["same"], true, "{found}");

    // `metrics.json`, `info` and `eval` have equal numbers, by the region of the run.
    let metrics = std::fs::read_to_string(path.join("a/metrics.json")).unwrap();
    let metrics: serde_json::Value = serde_json::from_str(&metrics).unwrap();
    let inside = &metrics["focus"];
    assert_eq!(inside["region"], region);
    assert!(inside["psnr"] != metrics["psnr"], "{inside}");
    assert!((0.01..0.99).contains(&inside["pixels"].as_f64().unwrap()));
    let info = json(&ok_in(path, &["info", "a", "--json"]))["run"]["focus"].clone();
    assert_eq!(
        (&info["region"], &info["psnr"]),
        (&region.into(), &inside["psnr"])
    );
    let shown = ok_in(path, &["info", "a"]).stdout;
    assert!(shown.contains(&format!("{region}, inside PSNR")), "{shown}");
    let scored = json(&ok_in(path, &["eval", "capture", "a", "--json"]));
    let near = |a: &serde_json::Value, b: &serde_json::Value| {
        let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
        assert!((a - b).abs() < 1e-3, "{a} {b}");
    };
    near(&scored["focus"]["psnr"], &inside["psnr"]);
    near(&scored["psnr"], &metrics["psnr"]);
    // Another run is scored inside too.
    let given = ["eval", "capture", "plain", "--focus", region];
    let scored = ok_in(path, &given).stdout;
    assert!(scored.contains("inside: PSNR"), "{scored}");
    let scored = ok_in(path, &["eval", "capture", "plain"]).stdout;
    assert!(!scored.contains("inside"), "{scored}");

    // A further part keeps the region, or has another.
    let more = ["train", "--continue", "a", "--steps=+50", "-q"];
    ok_in(path, &more);
    assert!(config(path, "a").contains(region));
    ok_in(path, &[&more[..], &["--focus=none"]].concat());
    assert!(
        !config(path, "a").contains("region"),
        "{}",
        config(path, "a")
    );
}

#[test]
fn regions_that_hold_nothing_are_refused() {
    let folder = small_capture();
    let path = folder.path();
    let start = ["train", "capture", "-q", "-o", "out", "--steps=20"];
    let given = |more: &[&'static str]| [&start[..], more].concat();
    for (region, words) in [
        ("--focus=sphere:0,0,1000,1", "no training photo shows"),
        ("--focus=sphere:0,0,0,0.1", "none of the 200 sparse points"),
    ] {
        refused(path, &given(&[region]), INPUT, &[words, "dapple info"]);
    }
    // Texts that are no region are faults of the command line.
    for region in [
        "sphere:0,0,0,-1",
        "cube:0,0,0,1",
        "box:0,0,0,1",
        "everywhere",
    ] {
        let ran = run_in(path, &[&start[..], &["--focus", region]].concat());
        assert_eq!(ran.code, USAGE, "{}", ran.stderr);
        for words in ["--focus <REGION>", "sphere:X,Y,Z,RADIUS", "\n  hint: "] {
            assert!(ran.stderr.contains(words), "{region}: {}", ran.stderr);
        }
    }
    let share = given(&["--focus=auto", "--focus-outside=2"]);
    refused(path, &share, INPUT, &["focus.outside = 2"]);
    assert!(!path.join("out").exists());

    let notes = train(path, "run", &["--steps=20", "--focus-outside=0.25"]).stderr;
    assert!(notes.contains("no effect without --focus"), "{notes}");
    let from = given(&["--from=run/splats.ply", "--focus=sphere:0,0,0,0.1"]);
    refused(path, &from, INPUT, &["Gaussians that the run starts from"]);
    let eval = ["eval", "capture", "run", "-q", "--focus=sphere:0,0,1000,1"];
    refused(path, &eval, INPUT, &["no held-out photo shows the region"]);
}

/// The page draws the outline of the region over the frame, and a box switches it off.
#[test]
fn the_viewer_draws_the_region() {
    let folder = small_capture();
    let path = folder.path();
    let Some(program) = chromium() else {
        return;
    };
    train(path, "a", &["--steps=20", "-q", "--focus=box:0,0,0,1,1,1"]);
    train(path, "plain", &["--steps=20", "-q"]);
    let parts = "document.getElementById('outline')?.dataset.parts";
    let marked = "(() => { const c = document.getElementById('outline'); \
        const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
        return p.some((v, i) => i % 4 === 3 && v > 0); })()";
    for (run, is_on) in [("a", true), ("plain", false)] {
        let view = ["view", run, "--capture", "capture", "--port=0"];
        let served = Served::start(dapple().args(view).current_dir(path));
        let mut browser = Browser::open(&program, &path.join(format!("profile-{run}")));
        browser.call("Page.navigate", &serde_json::json!({"url": served.url}));
        browser.wait_for("Number(document.getElementById('picture')?.dataset.look) > 0");
        let hidden = "document.getElementById('outline').hidden";
        browser.wait_for(&format!("{hidden} === {}", !is_on));
        let row = "document.getElementById('outline-row').hidden";
        assert_eq!(browser.value(row), !is_on);
        if is_on {
            // The edges of a box: four of each face, and four between them.
            browser.wait_for(&format!("{parts} === '12'"));
            assert_eq!(browser.value(marked), true);
            browser.value("document.getElementById('outline-on').click()");
            assert_eq!(browser.value(hidden), true);
        }
        assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
    }
    // During a run, further frames of one view keep the outline.
    let live = [
        "train",
        "capture",
        "--preset=m9",
        "--steps=100000",
        "--view",
    ];
    let more = ["--port=0", "-o", "live", "--focus=box:0,0,0,1,1,1"];
    let served = Served::start(dapple().args(live).args(more).current_dir(path));
    let mut browser = Browser::open(&program, &path.join("profile-live"));
    browser.call("Page.navigate", &serde_json::json!({"url": served.url}));
    browser.wait_for(&format!("{parts} === '12'"));
    let step = "Number(document.getElementById('progress').textContent.split(' ')[1])";
    let begun = browser.value(step).as_f64().unwrap_or(0.0);
    browser.wait_for(&format!("{step} > {}", begun + 300.0));
    assert_eq!(browser.value(parts), "12");
}
