//! The profiler against a real device: a dispatch, copy, wait or buffer injected into steps of known work is found in
//! its row and nowhere else. Asserts are counts, sums and bounds that sleeping guarantees.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::chromium;

use dapple::runtime::{
    Choice, CommandList, Counters, Defines, Detail, Gpu, GpuClock, GpuOptions, Groups, Kernel,
    Overrides, ShaderSet, adapters, wgpu,
};
use dapple_profile::html::{Page, report_html};
use dapple_profile::profile::{Finding, Phase, Profile, StageSummary};
use dapple_profile::{
    Counts, Recorder, Setup, Span, Stage, Synchronised, Track, analyse, profile_text,
};
use std::thread::sleep;
use std::time::Duration;

const STEPS: u64 = 5;
/// Words that the injected copy moves in a step: 1 MiB.
const WORDS: usize = 1 << 18;
const PAUSE: Duration = Duration::from_millis(20);

const SHADER: &str = "
    @group(0) @binding(0) var<storage, read_write> values: array<u32>;
    @compute @workgroup_size(64)
    fn work(@builtin(global_invocation_id) id: vec3u) {
        var x = values[id.x] + id.x;
        for (var i = 0u; i < 100u; i++) {
            x = x * 1664525u + 1013904223u;
        }
        values[id.x] = x;
    }";

/// Addition to each step, after the stages `work` and `last`.
#[derive(Clone, Copy, PartialEq)]
enum Planted {
    Nothing,
    /// A dispatch of `work` under the name `extra`.
    Dispatch,
    /// A copy to the device while it is idle.
    Write,
    /// A copy from the device.
    Read,
    /// A wait for the device, then a pause of the host.
    Sync,
    /// A buffer that the driver makes.
    Buffer,
}

/// Opens a software renderer, or the device that `DAPPLE_TEST_GPU` names.
fn device(lacking: wgpu::Features) -> Option<Gpu> {
    let choice = match std::env::var("DAPPLE_TEST_GPU") {
        Ok(name) => name.parse().unwrap(),
        Err(_) => {
            let all = adapters();
            let software = all.iter().find(|a| a.is_software && a.unusable.is_none());
            let Some(adapter) = software else {
                dapple::scene::test_requirements::skipped(
                    "gpu",
                    "the profiler is NOT held to a device: Mesa's software Vulkan driver is not \
                     installed (apt install mesa-vulkan-drivers)",
                );
                return None;
            };
            Choice::Index(adapter.index)
        }
    };
    let options = GpuOptions {
        choice,
        validate: true,
        without_subgroups: false,
        ..GpuOptions::default()
    };
    let overrides = Overrides {
        features: !lacking,
        ..Overrides::new(&options)
    };
    Some(Gpu::open_with(&options, &overrides).unwrap())
}

/// Creates a stage of one dispatch that takes a while.
fn stage(gpu: &Gpu, name: &'static str, values: &wgpu::Buffer) -> CommandList {
    let set = ShaderSet::new(&[("planted", SHADER)]);
    let kernel = Kernel::new(gpu, &set, "planted", "work", &Defines::new()).unwrap();
    let mut recording = CommandList::new();
    recording.span(name);
    let groups = (values.size() / 4 / 64) as u32;
    let bound = kernel.bind(gpu, &[("values", values)]).unwrap();
    recording.dispatch(bound, Groups::flat(groups));
    recording
}

/// Work of the host in a step before it submits.
fn host_work(gpu: &Gpu, recorder: &Recorder, planted: Planted, values: &wgpu::Buffer) {
    match planted {
        Planted::Nothing | Planted::Dispatch => {}
        Planted::Write => {
            gpu.wait().unwrap();
            let _span = recorder.span("copy", Phase::Transfer);
            gpu.write(values, 0, &vec![7_u32; WORDS]);
        }
        Planted::Read => {
            let _span = recorder.span("copy", Phase::Transfer);
            gpu.read::<u32>(values, WORDS).unwrap();
        }
        Planted::Sync => {
            gpu.wait().unwrap();
            let _span = recorder.span("think", Phase::Host);
            sleep(PAUSE);
        }
        Planted::Buffer => drop(gpu.buffer("planted", 1 << 16).unwrap()),
    }
}

/// Runs steps with an injected addition and returns their profile.
fn profile(gpu: &Gpu, planted: Planted) -> Profile {
    let values = gpu.buffer("values", WORDS as u64 * 4).unwrap();
    let mut work = stage(gpu, "work", &values);
    if planted == Planted::Dispatch {
        work.append(stage(gpu, "extra", &values));
    }
    work.append(stage(gpu, "last", &values));
    let mut clock = GpuClock::new(gpu, 8, STEPS as usize).unwrap();
    let recorder = Recorder::new();
    // The same steps outside of the window first: allocations made once, for timestamps too, are not in the window.
    for step in 0..STEPS {
        host_work(gpu, &Recorder::off(), planted, &values);
        match &mut clock {
            Some(clock) => drop(clock.submit(&work, &[], step, Detail::Spans).unwrap()),
            None => work.submit(gpu, &[]),
        }
    }
    gpu.wait().unwrap();
    if let Some(clock) = &mut clock {
        assert_eq!(clock.poll().unwrap().len(), STEPS as usize);
    }
    recorder.begin_window(Synchronised::after(|| gpu.wait()).unwrap());
    let before = gpu.counters();
    for step in 0..STEPS {
        host_work(gpu, &recorder, planted, &values);
        let _span = recorder.span("enqueue", Phase::Host).step(step);
        match &mut clock {
            Some(clock) => {
                assert!(clock.submit(&work, &[], step, Detail::Spans).unwrap());
            }
            None => {
                work.submit(gpu, &[]);
                gpu.wait().unwrap();
                recorder.end_step(step);
            }
        }
    }
    let asked = gpu.counters() - before;
    recorder.end_window(Synchronised::after(|| gpu.wait()).unwrap());
    if let Some(clock) = &mut clock {
        let offset = recorder.offset_of(clock.origin());
        for timing in clock.poll().unwrap() {
            assert_eq!(timing.missing, 0);
            for span in &timing.spans {
                let placed = Span::new(span.name, span.start_ns + offset, span.duration_ns);
                let placed = placed.step(timing.tag).submission(timing.tag);
                recorder.add_span(Track::Device, placed);
            }
            let last = timing.spans.last().unwrap();
            let end = last.start_ns + last.duration_ns as i64 + offset;
            recorder.end_step_at(timing.tag, end);
        }
    }
    let setup = setup(&work, asked);
    let (profile, _) = analyse(&recorder.finish().unwrap(), &setup).unwrap();
    let sum: f64 = profile.budget.rows.iter().map(|row| row.total_ns).sum();
    assert_eq!(sum, profile.budget.wall_ns, "the budget closes");
    profile
}

fn setup(work: &CommandList, asked: Counters) -> Setup {
    let phase = |name: &str| match name {
        "extra" => Phase::Backward,
        _ => Phase::Forward,
    };
    let stages = work
        .span_sizes()
        .map(|(name, dispatches)| Stage::new(name, phase(name)).dispatches(dispatches as f64));
    let each = |count: u64| count as f64 / STEPS as f64;
    Setup {
        stages: stages.collect(),
        counts: Some(Counts {
            submissions: each(asked.submissions),
            syncs: each(asked.waits),
            bytes_written: each(asked.bytes_written),
            bytes_read: each(asked.bytes_read),
            allocations: each(asked.buffers_created),
        }),
        ..Setup::default()
    }
}

fn row(profile: &Profile, phase: Phase) -> f64 {
    let mut rows = profile.budget.rows.iter();
    rows.find(|row| row.phase == phase).unwrap().total_ns
}

fn of_name<'a>(stages: &'a [StageSummary], name: &str) -> &'a StageSummary {
    stages.iter().find(|stage| stage.name == name).unwrap()
}

fn finding<'a>(profile: &'a Profile, rule: &str) -> &'a Finding {
    profile.findings.iter().find(|f| f.rule == rule).unwrap()
}

/// Work of the device in a step: submissions, waits, bytes there and back without the clock's own (two for each stage,
/// two around them), buffers.
fn asked(gpu: &Gpu, profile: &Profile) -> [f64; 5] {
    let t = profile.timeline.as_ref().unwrap();
    let around = gpu
        .device()
        .features()
        .contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);
    let timestamps = 2 * profile.stages.len() + if around { 2 } else { 0 };
    [
        t.submissions_per_step,
        t.syncs_per_step,
        t.bytes_written_per_step,
        t.bytes_read_per_step - timestamps as f64 * 8.0,
        t.allocations_per_step,
    ]
}

#[test]
fn what_is_planted_is_found_in_its_row() {
    let Some(gpu) = device(wgpu::Features::empty()) else {
        return;
    };
    if !gpu.report().timestamps {
        eprintln!("SKIPPED: this device has no timestamps");
        return;
    }
    let bytes = (WORDS * 4) as f64;

    let plain = profile(&gpu, Planted::Nothing);
    assert_eq!(asked(&gpu, &plain), [1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(plain.timeline.as_ref().unwrap().kernels_per_step, 2.0);
    let names: Vec<&str> = plain.stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["work", "last"]);
    for phase in [Phase::Backward, Phase::Transfer] {
        assert_eq!(row(&plain, phase), 0.0, "{phase:?}");
    }

    // With one more dispatch, its time is in its row, and the other rows keep theirs.
    let more = profile(&gpu, Planted::Dispatch);
    assert_eq!(asked(&gpu, &more), asked(&gpu, &plain));
    assert_eq!(more.timeline.as_ref().unwrap().kernels_per_step, 3.0);
    let extra = of_name(&more.stages, "extra");
    assert_eq!((extra.phase, extra.time.count), (Phase::Backward, STEPS));
    let [backward, forward] = [Phase::Backward, Phase::Forward].map(|phase| row(&more, phase));
    assert!(backward > 0.0 && (backward - extra.time.sum).abs() <= STEPS as f64);
    let others = of_name(&more.stages, "work").time.sum + of_name(&more.stages, "last").time.sum;
    assert!((forward - others).abs() <= 2.0 * STEPS as f64);

    // A copy to the device that nothing hides: bytes, and its span in the row of transfers.
    let write = profile(&gpu, Planted::Write);
    assert_eq!(asked(&gpu, &write), [1.0, 1.0, bytes, 0.0, 0.0]);
    let copy = of_name(&write.host, "copy");
    assert_eq!(copy.phase, Phase::Transfer);
    let transfer = row(&write, Phase::Transfer);
    assert!(
        transfer > 0.0 && transfer <= copy.time.sum,
        "{transfer} of {copy:?}"
    );
    assert_eq!(row(&write, Phase::Backward), 0.0);

    // A copy from the device also waits.
    let read = profile(&gpu, Planted::Read);
    let [_, waits, written, back, _] = asked(&gpu, &read);
    assert_eq!((waits, written, back), (1.0, 0.0, bytes));

    // After a wait the device is idle while the host sleeps.
    let sync = profile(&gpu, Planted::Sync);
    assert_eq!(asked(&gpu, &sync), [1.0, 1.0, 0.0, 0.0, 0.0]);
    let slept = STEPS as f64 * PAUSE.as_nanos() as f64;
    assert!(of_name(&sync.host, "think").time.sum >= slept);
    // The positions of spans on the host's clock have a small error.
    assert!(
        row(&sync, Phase::Host) > 0.9 * slept,
        "{:?}",
        sync.budget.rows
    );
    let (bound, idle) = (finding(&sync, "sync_bound"), row(&sync, Phase::Host));
    assert_eq!(bound.fired, idle / sync.budget.wall_ns > 0.05, "{bound:?}");
    assert!(!finding(&plain, "sync_bound").fired);

    // One more buffer.
    let buffer = profile(&gpu, Planted::Buffer);
    assert_eq!(asked(&gpu, &buffer), [1.0, 0.0, 0.0, 0.0, 1.0]);
    let rule = "allocation_in_steady_state";
    assert!(finding(&buffer, rule).fired && !finding(&plain, rule).fired);
}

#[test]
fn a_device_without_timestamps_is_told_of_by_the_host_alone() {
    let Some(gpu) = device(wgpu::Features::TIMESTAMP_QUERY) else {
        return;
    };
    let profile = profile(&gpu, Planted::Write);
    assert!(profile.timeline.is_none() && !profile.method.device_timestamps);
    assert!(profile.method.cautions[0].contains("no timestamps"));
    // Counts are reported all the same, and no stage has a time of the device.
    assert_eq!(profile.tables[0].title, "Host and device, a step");
    let names: Vec<&str> = profile.stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["copy", "enqueue"]);
    assert!(
        finding(&profile, "launch_bound")
            .evidence
            .contains("unknown: ")
    );
    assert!(profile_text(&profile).contains("beware: The device gave no timestamps"));

    let Some(browser) = chromium::find().unwrap() else {
        eprintln!("SKIPPED: the page is NOT opened: no Chromium here");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let html = report_html(&Page {
        profile: &profile,
        trace: &Default::default(),
        heat: None,
        flamegraph_svg: None,
        comparison: None,
    });
    std::fs::write(&page, html).unwrap();
    let absent = chromium::check(&browser, &page, folder.path()).unwrap();
    for section in ["kernels", "host", "device", "timeline", "roofline"] {
        assert!(absent.iter().any(|name| name == section), "{absent:?}");
    }
}
