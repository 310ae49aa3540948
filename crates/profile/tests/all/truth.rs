//! The profiler is correct: injected delays show up in the right place. Asserts are lower bounds
//! that sleeping guarantees, and sums; none depends on the speed of a machine.
#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_profile::profile::{Phase, Profile};
use dapple_profile::{Recorder, Setup, Span, Synchronised, Track, analyse};
use std::thread::sleep;
use std::time::Duration;

const PLANTED: Duration = Duration::from_millis(5);
const STEPS: u64 = 4;

fn planted_ns() -> f64 {
    PLANTED.as_nanos() as f64
}

fn profile_of(step: impl Fn(&Recorder, u64)) -> Profile {
    let recorder = Recorder::new();
    recorder.begin_window(Synchronised::host_only());
    for i in 0..STEPS {
        step(&recorder, i);
        recorder.end_step(i);
    }
    recorder.end_window(Synchronised::host_only());
    let (profile, _) = analyse(&recorder.finish().unwrap(), &Setup::default()).unwrap();
    let sum: f64 = profile.budget.rows.iter().map(|row| row.total_ns).sum();
    assert_eq!(sum, profile.budget.wall_ns, "the budget closes");
    profile
}

fn row(profile: &Profile, phase: Phase) -> f64 {
    let mut rows = profile.budget.rows.iter();
    rows.find(|row| row.phase == phase).unwrap().total_ns
}

#[test]
fn a_planted_sleep_belongs_to_its_span_and_the_rest_to_nobody() {
    let profile = profile_of(|recorder, _| {
        let _outer = recorder.span("blend", Phase::Forward);
        {
            let _inner = recorder.span("prepare", Phase::Host);
            sleep(PLANTED);
        }
        sleep(PLANTED / 5);
    });
    let planted = STEPS as f64 * planted_ns();
    assert!(row(&profile, Phase::Host) >= planted);
    assert!(row(&profile, Phase::Forward) >= planted / 5.0);
    let prepare = profile.stages.iter().find(|s| s.name == "prepare").unwrap();
    assert_eq!((prepare.phase, prepare.time.count), (Phase::Host, STEPS));
    assert!(prepare.time.min >= planted_ns());
}

#[test]
fn time_without_a_span_is_unexplained() {
    let profile = profile_of(|_, _| sleep(PLANTED));
    assert!(row(&profile, Phase::Unexplained) >= STEPS as f64 * planted_ns());
    assert_eq!(row(&profile, Phase::Host), 0.0);
    let fired = |f: &&dapple_profile::profile::Finding| f.rule == "unexplained_time";
    assert!(profile.findings.iter().find(fired).unwrap().fired);
}

#[test]
fn a_planted_copy_is_a_transfer() {
    let from = vec![1_u8; 4 << 20];
    let profile = profile_of(|recorder, _| {
        let _span = recorder.span("copy", Phase::Transfer);
        std::hint::black_box(from.clone());
    });
    let copies = profile.stages.iter().find(|s| s.name == "copy").unwrap();
    assert_eq!(row(&profile, Phase::Transfer), copies.time.sum);
    assert!(copies.time.min > 0.0);
}

#[test]
fn another_threads_spans_do_not_explain_the_driving_threads_time() {
    let profile = profile_of(|recorder, _| {
        let recorder = recorder.clone();
        std::thread::spawn(move || {
            let _span = recorder.span("load", Phase::Transfer);
            sleep(PLANTED);
        })
        .join()
        .unwrap();
    });
    assert_eq!(row(&profile, Phase::Transfer), 0.0);
    assert!(row(&profile, Phase::Unexplained) >= STEPS as f64 * planted_ns());
}

#[test]
fn times_that_were_not_synchronised_cannot_be_had() {
    let recorder = Recorder::new();
    let refused = |recorder: &Recorder, says: &str| {
        let error = recorder.finish().unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("hint:"), "{error}");
    };
    refused(&recorder, "never opened");
    recorder.begin_window(Synchronised::host_only());
    recorder.end_step(1);
    refused(&recorder, "never closed");
    let early = Synchronised::host_only();
    recorder.begin_window(Synchronised::host_only());
    recorder.end_window(early);
    refused(&recorder, "ends before it begins");
    refused(&Recorder::off(), "is off");
    let failed: Result<Synchronised, &str> = Synchronised::after(|| Err("lost device"));
    assert_eq!(failed.unwrap_err(), "lost device");
}

#[test]
fn a_device_that_still_runs_when_the_window_closes_is_found_out() {
    let recorder = Recorder::new();
    recorder.begin_window(Synchronised::host_only());
    let from = recorder.now_ns();
    recorder.end_step(0);
    recorder.end_window(Synchronised::host_only());
    recorder.add_span(Track::Device, Span::new("blend", from, 1_000_000_000_000));
    let recording = recorder.finish().unwrap();
    let error = analyse(&recording, &Setup::default()).unwrap_err();
    assert!(error.to_string().contains("not synchronised"), "{error}");
}

#[test]
fn an_empty_run_is_an_error() {
    let recorder = Recorder::new();
    recorder.begin_window(Synchronised::host_only());
    recorder.end_window(Synchronised::host_only());
    let error = analyse(&recorder.finish().unwrap(), &Setup::default()).unwrap_err();
    assert!(error.to_string().contains("no step ended"), "{error}");
}

#[test]
fn threads_share_a_recorder_and_one_that_is_off_does_nothing() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let off = Recorder::off();
    shared(&off);
    drop(off.span("nothing", Phase::Host).step(1));
    off.begin_window(Synchronised::host_only());
    off.counter("n", "", 0, 1.0);
    off.end_step(0);
    assert!(!off.is_on() && off.now_ns() == 0);
}

#[test]
fn another_clocks_times_are_placed() {
    let earlier = std::time::Instant::now();
    sleep(Duration::from_millis(1));
    let recorder = Recorder::new();
    assert!(recorder.offset_of(earlier) <= -1_000_000);
    assert_eq!(recorder.offset_of(recorder.origin()), 0);
}

#[cfg(feature = "tracing")]
#[test]
fn spans_of_tracing_are_taken() {
    use tracing_subscriber::layer::SubscriberExt as _;
    let recorder = Recorder::new();
    let layer = dapple_profile::layer::Layer::new(recorder.clone());
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        recorder.begin_window(Synchronised::host_only());
        let step = tracing::info_span!("step", step = 7_u64);
        step.in_scope(|| {
            tracing::info_span!("solve", phase = "backward").in_scope(|| sleep(PLANTED));
        });
        recorder.end_step(7);
        recorder.end_window(Synchronised::host_only());
    });
    let recording = recorder.finish().unwrap();
    let (profile, trace) = analyse(&recording, &Setup::default()).unwrap();
    assert!(row(&profile, Phase::Backward) >= planted_ns());
    let outer = trace.spans.iter().find(|s| s.name == "step").unwrap();
    assert_eq!((outer.phase, outer.step), (Some(Phase::Host), Some(7)));
    let inner = trace.spans.iter().find(|s| s.name == "solve").unwrap();
    assert!(inner.start_ns >= outer.start_ns && inner.duration_ns <= outer.duration_ns);
}
