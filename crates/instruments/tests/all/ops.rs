//! The profiler over tensor operations: injected faults make their rules fire, and correct operations do not. Only
//! ratios of times decide: the ceilings are taken from runs of the same operations.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use dapple::NoProgress;
use dapple::runtime::{Gpu, GpuOptions};
use dapple::scene::test_requirements;
use dapple_instruments::ops::workload::InjectedFault;
use dapple_instruments::ops::{OpsOptions, profile};
use dapple_instruments::profile::Told;
use dapple_profile::profile::{Bound, Ceilings, Finding, Profile, Program};
use dapple_tensor::{Context, Device};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

fn gpu() -> Option<Gpu> {
    let options = GpuOptions {
        choice: test_requirements::test_gpu().parse().unwrap(),
        ..GpuOptions::default()
    };
    match Gpu::open(&options) {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            test_requirements::skipped("gpu", &error.to_string());
            None
        }
    }
}

/// More than any current device reaches: no stage is at a limit, and no launch counts.
const BEYOND: Ceilings = Ceilings {
    bytes_per_second: 1e15,
    flops_per_second: 1e18,
    dispatch_ns: Some(0.01),
    source: String::new(),
};

/// Prevents parallel tests, whose work would change the times.
static ALONE: Mutex<()> = Mutex::new(());

/// Number of attempts to measure shares of time while other programs run.
const LOOKS: usize = 5;

fn look(
    context: &Context,
    only: &str,
    plant: Option<InjectedFault>,
    ceilings: &Ceilings,
) -> Profile {
    let options = OpsOptions {
        only: only.split(',').map(str::to_owned).collect(),
        most: usize::MAX,
        iterations: 20,
        time_limit: Duration::from_secs(2),
        plant,
        // Other tests compile at the same time.
        samples: false,
    };
    let told = Told {
        program: Program::default(),
        settings: Vec::new(),
        ceilings: ceilings.clone(),
    };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let profiled = profile(context, Vec::new(), &options, told, &NoProgress).unwrap();
    profiled.profile
}

#[track_caller]
fn finding<'a>(profile: &'a Profile, rule: &str) -> &'a Finding {
    let mut found = profile.findings.iter().filter(|f| f.rule == rule);
    // Fired findings are first if a rule checks several stages.
    let all: Vec<&Finding> = found.by_ref().collect();
    all.iter().find(|f| f.fired).unwrap_or(&all[0])
}

const ROWS: &str = "layer_norm_1024,softmax_1024";
/// Rows for a GPU that finishes the smaller ones before the host has submitted them.
const LARGE_ROWS: &str = "layer_norm_4096,softmax_4096";

#[test]
fn a_fused_replay_leaves_the_rules_silent() {
    let Some(gpu) = gpu() else { return };
    let context = Context::gpu(&gpu);
    let rows = if gpu.report().is_software {
        ROWS
    } else {
        LARGE_ROWS
    };
    let profile = look(&context, rows, None, &BEYOND);
    for rule in [
        "launch_bound",
        "too_small",
        "sync_bound",
        "transfer_bound",
        "allocation_in_steady_state",
    ] {
        let found = finding(&profile, rule);
        assert!(!found.fired, "{found:?}");
    }
    let timeline = profile.timeline.as_ref().unwrap();
    assert_eq!(timeline.submissions_per_step, 1.0);
    assert_eq!(timeline.syncs_per_step, 0.0);
    assert_eq!(timeline.allocations_per_step, 0.0);
    assert_eq!(timeline.bytes_written_per_step, 0.0);
    assert_eq!(timeline.kernels_per_step, 2.0, "one each");
    let measures = &profile.tables[0];
    assert_eq!(measures.title, "Measures");
    for name in [
        "device busy",
        "launch efficiency",
        "operations a second",
        "mean gap",
    ] {
        let found = measures
            .facts
            .iter()
            .any(|fact| fact.name.starts_with(name));
        assert!(found, "{name}: {measures:?}");
    }
}

/// Returns the first of some attempts in which one of these rules fires, and its finding.
#[track_caller]
fn fires(rules: &[&str], mut look: impl FnMut() -> Profile) -> (Profile, Finding) {
    let mut last = None;
    for _ in 0..LOOKS {
        let profile = look();
        let found = rules.iter().map(|rule| finding(&profile, rule));
        let found: Vec<Finding> = found.cloned().collect();
        if let Some(found) = found.iter().find(|found| found.fired) {
            return (profile, found.clone());
        }
        last = Some(found);
    }
    panic!("never found: {last:?}");
}

#[test]
fn unfused_kernels_are_bound_by_launching() {
    let Some(gpu) = gpu() else { return };
    let context = Context::gpu(&gpu);
    let unfused =
        |ceilings: &Ceilings| look(&context, ROWS, Some(InjectedFault::Unfused), ceilings);
    let (profile, _) = fires(&["launch_bound", "too_small"], || {
        let first = unfused(&BEYOND);
        // A dispatch takes four tenths of a kernel, as for small kernels on fast devices.
        let kernels = first.timeline.as_ref().unwrap().kernels_per_step;
        unfused(&Ceilings {
            dispatch_ns: Some(0.4 * first.step.mean / kernels),
            ..BEYOND
        })
    });
    let found = finding(&profile, "launch_bound");
    assert!(found.remedy.contains("fuse kernels"), "{found:?}");
    let timeline = profile.timeline.unwrap();
    assert!(timeline.kernels_per_step >= 8.0, "{timeline:?}");
}

#[test]
fn results_that_are_read_each_time_are_waited_for() {
    let Some(gpu) = gpu() else { return };
    let context = Context::gpu(&gpu);
    let (profile, _) = fires(&["sync_bound"], || {
        look(&context, "lora_512", Some(InjectedFault::Readback), &BEYOND)
    });
    let timeline = profile.timeline.unwrap();
    assert_eq!(timeline.syncs_per_step, 1.0);
    // 512 values of 4 bytes, and those of the clock.
    assert!(timeline.bytes_read_per_step >= 2048.0, "{timeline:?}");
}

#[test]
fn values_from_the_host_are_transfers() {
    let Some(gpu) = gpu() else { return };
    let context = Context::gpu(&gpu);
    // Little is computed on a large upload: a third of the time on a software GPU.
    let (profile, found) = fires(&["transfer_bound"], || {
        look(
            &context,
            "rms_norm_4096",
            Some(InjectedFault::Upload),
            &BEYOND,
        )
    });
    assert!(found.evidence.contains("to the device"), "{found:?}");
    let timeline = profile.timeline.unwrap();
    let bytes = 4.0 * 4096.0 * 4096.0;
    assert!(timeline.bytes_written_per_step >= bytes, "{timeline:?}");
}

#[test]
fn buffers_of_each_run_are_allocations() {
    let Some(gpu) = gpu() else { return };
    let profile = look(
        &Context::gpu(&gpu),
        "lora_512",
        Some(InjectedFault::NoPool),
        &BEYOND,
    );
    let found = finding(&profile, "allocation_in_steady_state");
    assert!(found.fired, "{found:?}");
    assert!(profile.timeline.unwrap().allocations_per_step >= 1.0);
}

#[test]
fn a_naive_product_is_far_from_the_limits() {
    let of = |context: &Context, plant, ceilings: &Ceilings| {
        look(context, "matmul_256", plant, ceilings)
    };
    let rate = |profile: &Profile| profile.stages[0].roofline.unwrap().flops_per_second;
    let naive_plant = Some(InjectedFault::NaiveMatmul);
    let gpu = gpu().map(|gpu| Context::gpu(&gpu));
    // The naive product reaches a quarter of the ceiling: another must be about twice as fast to reach six tenths of
    // it.
    for context in std::iter::once(Context::cpu()).chain(gpu) {
        let ceilings = || Ceilings {
            flops_per_second: 4.0 * rate(&of(&context, naive_plant, &BEYOND)),
            ..BEYOND
        };
        let is_found = |_| {
            let naive = of(&context, naive_plant, &ceilings());
            let found = finding(&naive, "latency_bound");
            let names = found.subject == "matmul_256" && found.evidence.contains("of the ceiling");
            assert_eq!(found.fired, names, "{context:?}: {found:?}");
            found.fired
        };
        assert!((0..LOOKS).any(is_found), "{context:?}: never found");
        // A software GPU gains nothing by tiles in memory that it shares.
        let is_silent = |_| {
            let tiled = of(&context, None, &ceilings());
            let fired = finding(&tiled, "latency_bound").fired;
            tiled.stages[0].roofline.unwrap().bound != Bound::Latency && !fired
        };
        if matches!(context.device(), Device::Cpu) {
            assert!((0..LOOKS).any(is_silent), "tiles are never faster");
        }
    }
}

#[test]
fn time_is_limited_and_names_are_checked() {
    let options = |only: &str, time_limit| OpsOptions {
        only: vec![only.to_owned()],
        most: usize::MAX,
        iterations: 1_000_000,
        time_limit,
        plant: None,
        samples: false,
    };
    let told = || Told {
        program: Program::default(),
        settings: Vec::new(),
        ceilings: BEYOND,
    };
    let context = Context::cpu();
    let short = options("lora_512", Duration::from_millis(200));
    let profiled = profile(&context, Vec::new(), &short, told(), &NoProgress).unwrap();
    let notes = &profiled.profile.method.notes;
    assert!(
        notes.iter().any(|note| note.contains("time limit")),
        "{notes:?}"
    );
    let wrong = options("nonsense", Duration::from_secs(1));
    let refused = profile(&context, Vec::new(), &wrong, told(), &NoProgress).unwrap_err();
    assert!(refused.to_string().contains("nonsense"), "{refused}");
    assert!(refused.hint_text().unwrap().contains("lora_512"));
}
