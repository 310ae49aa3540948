//! `dapple profile` on work small enough for a test: its output files, its sums, and its errors for
//! bad input. Never how fast anything is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use crate::chromium;

use common::exit::{INPUT, IO, USAGE};
use common::{files, json, ok_in, refused, run_in, small_capture};
use dapple::runtime::adapters;
use dapple_profile::profile::{Phase, Profile};
use dapple_profile::samples::Sampler;
use dapple_profile::{compare, read_profile};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::OnceLock;

/// A profile of synthetic splats, of a few steps.
const SYNTHETIC: [&str; 10] = [
    "profile",
    "-q",
    "--synthetic",
    "2000",
    "--size",
    "96x64",
    "--steps",
    "4",
    "--warmup",
    "1",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SYNTHETIC[..], more].concat()
}

/// Stages of a step on the CPU, in the order they run there.
const ON_PROCESSOR: [&str; 9] = [
    "project",
    "order",
    "emit",
    "ranges",
    "sort",
    "blend",
    "loss",
    "blend_backward",
    "update",
];

/// Stages of a step on a GPU.
const ON_GPU: [&str; 10] = [
    "project",
    "order",
    "emit",
    "sort",
    "ranges",
    "blend",
    "loss",
    "blend_backward",
    "update",
    "report",
];

const SECTIONS: [&str; 12] = [
    "Summary",
    "Budget",
    "Top five",
    "Stages",
    "Kernels",
    "Timeline",
    "Roofline",
    "Diagnosis",
    "Scene and counts",
    "Memory",
    "Configuration",
    "Methodology",
];

/// Returns true if CPU time can be sampled here. A process has one sampler at a time, so tests share the answer.
fn samples() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        Sampler::start(1000)
            .map(|sampler| drop(sampler.finish()))
            .is_ok()
    })
}

fn row(profile: &Profile, phase: Phase) -> f64 {
    let mut rows = profile.budget.rows.iter();
    rows.find(|row| row.phase == phase).unwrap().share
}

/// Reads all files of a profile and returns the profile.
#[track_caller]
fn whole(folder: &Path) -> Profile {
    let mut expected = vec!["PROFILE.md", "profile.json", "report.html", "trace.json"];
    if samples() {
        expected.insert(1, "flamegraph.svg");
        let svg = std::fs::read_to_string(folder.join("flamegraph.svg")).unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }
    let found = files(folder);
    let found: Vec<&str> = found.iter().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(found, expected);

    let markdown = std::fs::read_to_string(folder.join("PROFILE.md")).unwrap();
    let titles: Vec<&str> = markdown
        .lines()
        .filter_map(|l| l.strip_prefix("## "))
        .collect();
    assert_eq!(titles, SECTIONS);
    assert!(!markdown.contains("NaN"), "{markdown}");

    let profile = read_profile(&folder.join("profile.json")).unwrap();
    let text = std::fs::read_to_string(folder.join("trace.json")).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let spans = |name: &str| {
        let of = |e: &&Value| e["ph"] == "X" && e["name"] == name;
        events.iter().filter(of).count() as u64
    };
    for stage in &profile.stages {
        assert!(
            spans(&stage.name) >= stage.time.count,
            "{} in the trace",
            stage.name
        );
    }
    profile
}

/// Checks that hold for every profile of a few steps.
#[track_caller]
fn sound(profile: &Profile, stages: &[&str], steps: usize) {
    let named: Vec<&str> = profile.stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(named[..stages.len()], *stages);
    for stage in &profile.stages[..stages.len()] {
        assert_eq!(stage.time.count, steps as u64, "{}", stage.name);
        assert!(stage.time.min > 0.0, "{}", stage.name);
        // `report` is numbers for the host; its work is not counted.
        let counted = stage.cost.is_some() && stage.roofline.is_some();
        assert_eq!(counted, stage.name != "report", "{}", stage.name);
    }
    assert_eq!(profile.steps.len(), steps);
    assert_eq!(profile.step.count, steps as u64);
    for step in &profile.steps {
        assert!(step.loss.unwrap() > 0.0);
        assert_eq!(step.stages_ns.len(), profile.stages.len());
    }

    let budget = &profile.budget;
    let sum: f64 = budget.rows.iter().map(|row| row.total_ns).sum();
    assert!(
        (sum / budget.wall_ns - 1.0).abs() < 0.01,
        "{sum} of {} ns",
        budget.wall_ns
    );
    for row in &budget.rows {
        assert!(row.total_ns >= 0.0, "{row:?}");
    }
    assert!(row(profile, Phase::Unexplained) < 0.05, "{budget:?}");
    for phase in [
        Phase::Forward,
        Phase::Loss,
        Phase::Backward,
        Phase::Update,
        Phase::Host,
    ] {
        assert!(row(profile, phase) > 0.0, "{phase:?}: {budget:?}");
    }
    assert!(profile.ceilings.is_some() && !profile.findings.is_empty());
    let count = |name: &str| {
        let mut counters = profile.counters.iter();
        counters.find(|c| c.name == name).unwrap().stats
    };
    assert!(count("instances").min >= count("visible Gaussians").min);
    assert!(count("visible Gaussians").min > 0.0);
    assert_eq!(profile.method.measured_steps, steps as u64);
}

/// Opens the page; returns the sections without data, or `None` without Chromium.
fn opened(folder: &Path) -> Option<Vec<String>> {
    let Some(browser) = chromium::find().unwrap() else {
        eprintln!(
            "SKIPPED: report.html is NOT opened: no Chromium here. Install it, or name it in {}",
            chromium::VARIABLE
        );
        return None;
    };
    let scratch = tempfile::tempdir().unwrap();
    Some(chromium::check(&browser, &folder.join("report.html"), scratch.path()).unwrap())
}

#[test]
fn a_profile_on_the_processor_is_whole_and_compares() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let ran = ok_in(here, &with(&["-o", "a"]));
    let old = whole(&here.join("a"));
    sound(&old, &ON_PROCESSOR, 4);
    assert!(!old.method.device_timestamps && old.timeline.is_none() && old.host.is_empty());
    let gaussians = old.counters.iter().find(|c| c.name == "Gaussians").unwrap();
    assert_eq!((gaussians.stats.min, gaussians.stats.max), (2000.0, 2000.0));
    for word in ["Budget", "Stages", "Diagnosis", "report.html", "beware: "] {
        assert!(
            ran.stdout.contains(word),
            "{word} is missing: {}",
            ran.stdout
        );
    }
    assert!(
        !ran.stdout.contains("by formula"),
        "method, in a summary: {}",
        ran.stdout
    );

    // An existing profile is not replaced, and an earlier profile can be compared with.
    refused(here, &with(&["-o", "a"]), INPUT, &["--overwrite"]);
    let compared = ["-o", "a", "--overwrite", "--compare", "a/profile.json"];
    let ran = ok_in(here, &with(&compared));
    assert!(ran.stdout.contains("old: ") && ran.stdout.contains("new / old"));
    std::fs::create_dir(here.join("b")).unwrap();
    for name in ["PROFILE.md", "report.html", "profile.json"] {
        std::fs::rename(here.join("a").join(name), here.join("b").join(name)).unwrap();
    }
    let markdown = std::fs::read_to_string(here.join("b/PROFILE.md")).unwrap();
    assert!(markdown.contains("\n# Comparison\n"), "{markdown}");
    let new = read_profile(&here.join("b/profile.json")).unwrap();
    if let Some(absent) = opened(&here.join("b")) {
        assert_eq!(
            absent
                .iter()
                .filter(|name| *name != "flamegraph")
                .collect::<Vec<_>>(),
            ["kernels", "host", "device"]
        );
    }

    // The comparison of two files shows the same.
    dapple_profile::write_profile(&here.join("old.json"), &old).unwrap();
    let diff = |more: &[&str]| {
        let args = ["profile", "diff", "old.json", "b/profile.json"];
        ok_in(here, &[&args[..], more].concat())
    };
    // Four steps are too few for any mark, and the output begins with this warning.
    let text = diff(&[]).stdout;
    assert!(
        text.starts_with("warning: nothing is marked: ") && text.contains("\nold: "),
        "{text}"
    );
    assert!(!text.contains("* slower") && !text.contains("* faster"));
    let markdown = diff(&["--markdown"]).stdout;
    assert!(markdown.starts_with("# Comparison\n") && markdown.contains("| blend_backward |"));
    let found = json(&diff(&["--json"]));
    assert_eq!(
        found,
        serde_json::to_value(compare(&old, &new)).unwrap(),
        "not the library's comparison"
    );
    let rows = found["rows"].as_array().unwrap();
    for stage in ON_PROCESSOR {
        let row = rows.iter().find(|row| row["name"] == stage).unwrap();
        assert!(row["ratio"]["value"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn a_capture_is_profiled_as_it_is_trained() {
    let folder = small_capture();
    let here = folder.path();
    let args = ["profile", "capture", "-q", "--preset", "micro", "--json"];
    let few = ["--steps", "3", "--warmup", "0"];
    // Enough steps for the sampler.
    let enough = ["--steps", "80", "--warmup", "0"];
    let ran = ok_in(here, &[&args[..], &enough].concat());
    // Without `-o`, the output is a folder of the capture's name.
    let profile = whole(&here.join("profile/capture"));
    sound(&profile, &ON_PROCESSOR, 80);
    let written = std::fs::read_to_string(here.join("profile/capture/profile.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(json(&ran), written);
    let setting = |name: &str| {
        let mut settings = profile.settings.iter();
        settings.find(|f| f.name == name).unwrap().value.clone()
    };
    assert_eq!(setting("capture"), "capture");
    assert_eq!(setting("preset"), "micro");
    assert_eq!(setting("photos trained on"), "7");
    let scene = profile.tables.iter().find(|t| t.title == "Scene").unwrap();
    let tiles = scene.facts.iter().find(|f| f.name == "tiles").unwrap();
    assert_eq!(tiles.value, "9 (3 x 3 of 16x16 pixels)");

    // Splats of a run as the initial splats, and a file without splats.
    let train = ["train", "capture", "-q", "-o", "out", "--preset", "micro"];
    ok_in(here, &[&train[..], &["--steps=2"]].concat());
    let mature = ["profile", "capture", "-q", "-o", "mature", "--splats"];
    ok_in(here, &[&mature[..], &["out/splats.ply"], &few].concat());
    let text = std::fs::read_to_string(here.join("mature/PROFILE.md")).unwrap();
    assert!(text.contains("| started from | out/splats.ply |"), "{text}");
    let wrong = ["profile", "capture", "-q", "-o", "wrong", "--splats"];
    refused(
        here,
        &[&wrong[..], &["out/metrics.csv"]].concat(),
        INPUT,
        &["metrics.csv"],
    );
    refused(
        here,
        &[&wrong[..], &["none.ply"]].concat(),
        IO,
        &["none.ply"],
    );
    assert!(!here.join("wrong").exists(), "an error leaves a folder");
}

#[test]
fn ranks_are_profiled_with_their_exchanges_and_their_photos() {
    let folder = small_capture();
    let here = folder.path();
    let args = [
        "profile",
        "capture",
        "-q",
        "--preset=m8",
        "--device=cpu",
        "--ranks-in-process=2",
        "--views-per-step=4",
        "--photo-memory=24KiB",
        "--steps=5",
        "--warmup=1",
        "-o=ranks",
    ];
    ok_in(here, &args);
    let profile = whole(&here.join("ranks"));
    // A step has four photos, and the number of the last.
    let steps: Vec<u64> = profile.steps.iter().map(|step| step.step).collect();
    let first = steps[0];
    assert_eq!(first % 4, 0);
    assert!((0..5).map(|i| first + 4 * i).eq(steps));
    for stage in ON_PROCESSOR.iter().chain(&["wait for ranks", "transfer"]) {
        let found = profile.stages.iter().find(|s| s.name == *stage).unwrap();
        // The last rank of an exchange waits for no other: in a short step there may be no wait.
        assert!(found.time.count >= 1 && found.time.min >= 0.0, "{stage}");
    }
    let sum: f64 = profile.budget.rows.iter().map(|row| row.share).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{:?}", profile.budget);
    for phase in [
        Phase::Forward,
        Phase::Loss,
        Phase::Backward,
        Phase::Update,
        Phase::Transfer,
        Phase::Exchange,
        Phase::Input,
    ] {
        assert!(row(&profile, phase) > 0.0, "{phase:?}");
    }
    assert!(row(&profile, Phase::Unexplained) < 0.05);
    let names: Vec<&str> = profile.counters.iter().map(|c| c.name.as_str()).collect();
    for name in [
        "bytes between ranks, a photo",
        "wait for slower ranks, mean",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let ranks = profile.tables.iter().find(|t| t.title == "Ranks").unwrap();
    assert_eq!(ranks.facts.len(), 3, "two ranks and their balance");
    for rule in ["wire_bound", "unbalanced", "decode_bound"] {
        let found = profile.findings.iter().filter(|f| f.rule == rule).count();
        assert_eq!(found, 1, "{rule}");
    }
    if let Some(absent) = opened(&here.join("ranks")) {
        assert!(!absent.iter().any(|name| name == "timeline"), "{absent:?}");
    }

    // More photos than the run has.
    let long = args.map(|arg| match arg {
        "--steps=5" => "--steps=50",
        "-o=ranks" => "-o=long",
        other => other,
    });
    refused(here, &long, INPUT, &["the run has 500 photos", "--steps"]);

    // Without ranks: the same steps, and no findings about ranks.
    let plain = args.map(|arg| match arg {
        "--ranks-in-process=2" => "--seed=0",
        "-o=ranks" => "-o=plain",
        other => other,
    });
    ok_in(here, &plain);
    let plain = whole(&here.join("plain"));
    let losses = |profile: &Profile| -> Vec<f64> {
        profile
            .steps
            .iter()
            .map(|step| step.loss.unwrap())
            .collect()
    };
    assert_eq!(losses(&plain), losses(&profile), "ranks change no bit");
    assert_eq!(row(&plain, Phase::Exchange), 0.0);
    assert!(!plain.findings.iter().any(|f| f.rule == "wire_bound"));
    let cost = |name: &str| {
        let stage = plain.stages.iter().find(|stage| stage.name == name);
        stage.unwrap().cost
    };
    assert!(cost("blend").is_some() && cost("update").is_none());
}

#[test]
fn one_step_is_a_profile_that_says_how_little_it_is() {
    let here = tempfile::tempdir().unwrap();
    let args: Vec<&str> = SYNTHETIC[..6].to_vec();
    let one = ["--steps", "1", "--warmup", "0", "-o", "one"];
    let ran = ok_in(here.path(), &[&args[..], &one].concat());
    let profile = whole(&here.path().join("one"));
    sound(&profile, &ON_PROCESSOR, 1);
    assert!(profile.method.overhead.is_none(), "of one step: all noise");
    assert_eq!(profile.step.std, 0.0);
    let noisy = |f: &&dapple_profile::profile::Finding| f.rule == "noisy_measurement";
    assert!(profile.findings.iter().find(noisy).unwrap().fired);
    assert!(
        ran.stdout.contains("beware: One step was measured"),
        "{}",
        ran.stdout
    );
}

#[test]
fn what_is_no_profile_is_named_for_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let args: Vec<&str> = SYNTHETIC[..6].to_vec();
    let few = ["--steps", "1", "--warmup", "0", "-o", "good"];
    ok_in(here, &[&args[..], &few].concat());
    let text = std::fs::read_to_string(here.join("good/profile.json")).unwrap();
    let good: Value = serde_json::from_str(&text).unwrap();
    let write = |name: &str, text: &str| std::fs::write(here.join(name), text).unwrap();
    let changed = |field: &str, value: Value| {
        let mut other = good.clone();
        other[field] = value;
        other.to_string()
    };
    write("foreign.json", r#"{"traceEvents": []}"#);
    write("other.json", &changed("schema", json!("speedscope")));
    write("older.json", &changed("version", json!(0)));
    write("cut.json", &text[..text.len() / 2]);
    write("empty.json", "");
    write("wrong.json", &changed("steps", json!("many")));
    write("binary.json", "\u{feff}{}");
    for (name, code, words) in [
        ("foreign.json", INPUT, ["not a profile", "no \"schema\""]),
        ("other.json", INPUT, ["speedscope", "dapple-profile"]),
        ("older.json", INPUT, ["a profile of version 0", "version 1"]),
        ("cut.json", INPUT, ["ends in the middle", "cut short"]),
        ("empty.json", INPUT, ["ends in the middle", "cut short"]),
        ("wrong.json", INPUT, ["byte ", "hint: "]),
        ("binary.json", INPUT, ["byte 0", "hint: "]),
        ("none.json", IO, ["cannot read the profile: ", "hint: "]),
        ("good", IO, ["cannot read the profile: ", "hint: "]),
    ] {
        let told = [&words[..], &[name]].concat();
        refused(
            here,
            &["profile", "diff", name, "good/profile.json"],
            code,
            &told,
        );
        refused(
            here,
            &["profile", "diff", "good/profile.json", name],
            code,
            &told,
        );
        // Refused before a measurement.
        refused(here, &with(&["-o", "new", "--compare", name]), code, &told);
        assert!(
            !here.join("new").exists(),
            "{name}: an error leaves a folder"
        );
    }
}

#[test]
fn what_cannot_work_is_said_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    refused(here, &["profile", "nothing here"], IO, &["nothing here"]);
    std::fs::write(here.join("file"), "").unwrap();
    for out in ["file", "file/inside"] {
        refused(
            here,
            &with(&["-o", out]),
            IO,
            &[out, "folder for the profile"],
        );
    }
    std::fs::create_dir(here.join("empty")).unwrap();
    refused(here, &["profile", "empty", "-o", "x"], INPUT, &["empty"]);
    let synthetic = ["profile", "--synthetic", "1000"];
    for more in [
        &["--size", "big"][..],
        &["--steps", "0"],
        &["--splats", "a.ply"],
        &["capture"],
    ] {
        let ran = run_in(here, &[&synthetic[..], more].concat());
        assert_eq!(ran.code, USAGE, "{more:?}: {}", ran.stderr);
    }
    for args in [&["profile"][..], &["profile", "diff", "one.json"]] {
        assert_eq!(run_in(here, args).code, USAGE, "{args:?}");
    }
    let left = files(here);
    assert_eq!(left, [Path::new("file")], "errors leave nothing");
}

#[test]
fn a_profile_on_a_gpu_is_whole_and_its_page_is_full() {
    let software =
        |a: &&dapple::runtime::AdapterReport| a.name.contains("llvmpipe") && a.unusable.is_none();
    let adapters = adapters();
    let Some(adapter) = adapters.iter().find(software) else {
        dapple::scene::test_requirements::skipped(
            "gpu",
            "`dapple profile` on a GPU is NOT tested: Mesa's software Vulkan driver is not installed (apt \
             install mesa-vulkan-drivers)",
        );
        return;
    };
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    // Compared with a profile of the CPU: every section of the page has something to show.
    ok_in(here, &with(&["-o", "cpu"]));
    let more = ["--device", "gpu:llvmpipe", "-o", "gpu", "--compare"];
    ok_in(here, &with(&[&more[..], &["cpu/profile.json"]].concat()));
    let profile = whole(&here.join("gpu"));
    sound(&profile, &ON_GPU, 4);
    assert_eq!(profile.method.device_timestamps, adapter.timestamps);
    if !adapter.timestamps {
        return;
    }
    let timeline = profile.timeline.as_ref().unwrap();
    assert!(timeline.busy > 0.0 && timeline.busy <= 1.0);
    assert!(timeline.kernels_per_step >= ON_GPU.len() as f64);
    assert!(timeline.submissions_per_step >= 1.0);
    for name in ["enqueue", "trainer"] {
        assert!(profile.host.iter().any(|span| span.name == name), "{name}");
    }
    // All dispatches of a stage were timed separately.
    for stage in &profile.stages[..ON_GPU.len()] {
        let of_stage = profile.kernels.iter().filter(|k| k.stage == stage.name);
        let alone: f64 = of_stage.map(|kernel| kernel.per_step).sum();
        assert_eq!(Some(alone), stage.dispatches, "{}", stage.name);
    }
    clocks_agree(here, &profile);
    if let Some(absent) = opened(&here.join("gpu")) {
        let none: &[&str] = if samples() { &[] } else { &["flamegraph"] };
        assert_eq!(absent, none);
    }
}

/// Compares stages and their gaps with two timestamps around the step: they are inside these, and
/// within 3 % of them. On a busy machine, threads of a software renderer wake up late between a
/// timestamp and the adjacent pass, which only worsens the result: one good run of several is
/// enough.
fn clocks_agree(here: &Path, first: &Profile) {
    let mut seen = Vec::new();
    let mut agree = |profile: &Profile| {
        let check = profile.timeline.as_ref().unwrap().clock_check.unwrap();
        assert!(check.stages_ns <= check.whole_ns, "{check:?}");
        seen.push(check.stages_ns / check.whole_ns);
        check.stages_ns > 0.97 * check.whole_ns
    };
    let again = ["--device", "gpu:llvmpipe", "-o", "again", "--overwrite"];
    let agreed = agree(first)
        || (0..4).any(|_| {
            ok_in(here, &with(&again));
            agree(&read_profile(&here.join("again/profile.json")).unwrap())
        });
    assert!(agreed, "{seen:?}");
}

#[test]
fn without_timestamps_the_host_times_steps_and_says_so() {
    if !adapters()
        .iter()
        .any(|a| a.name.contains("llvmpipe") && a.unusable.is_none())
    {
        dapple::scene::test_requirements::skipped(
            "gpu",
            "a GPU without timestamps is NOT tested: there is no software Vulkan driver",
        );
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let ran: common::Ran = common::dapple()
        .args(with(&["--device", "gpu:llvmpipe", "-o", "a"]))
        .env("DAPPLE_NO_TIMESTAMPS", "1")
        .current_dir(here.path())
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let profile = whole(&here.path().join("a"));
    let method = &profile.method;
    assert!(!method.device_timestamps && method.calibration_error_ns.is_none());
    assert!(method.clock.contains("no timestamps"), "{}", method.clock);
    assert!(
        method.synchronisation.contains("after every step"),
        "{method:?}"
    );
    assert!(profile.timeline.is_none() && profile.kernels.is_empty());
    // No stage of the device has a time, because none was measured.
    assert!(profile.stages.iter().all(|stage| stage.name != "blend"));
    assert_eq!(profile.steps.len(), 4);
    assert!(profile.step.min > 0.0);
    let sum: f64 = profile.budget.rows.iter().map(|row| row.total_ns).sum();
    assert!((sum / profile.budget.wall_ns - 1.0).abs() < 0.01);
    assert!(ran.stdout.contains("no device was timed"), "{}", ran.stdout);
    opened(&here.path().join("a"));
}
