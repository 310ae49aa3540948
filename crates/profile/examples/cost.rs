//! Measures the cost of recording: `cargo run --release -p dapple-profile --example cost`.
//!
//! Prints medians of several rounds, so that other programs have little influence.

use dapple_profile::profile::Phase;
use dapple_profile::{Recorder, Span, Track};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 21;
const CALLS: u32 = 50_000;

/// Returns the median ns of a call over rounds, each with its own recorder.
fn cost(recorder: impl Fn() -> Recorder, call: impl Fn(&Recorder, u32)) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let recorder = recorder();
            let begin = Instant::now();
            for i in 0..CALLS {
                call(black_box(&recorder), i);
            }
            begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// Returns the ns of a span when every core of the machine records at once.
fn crowded(recorder: &Recorder) -> f64 {
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..CALLS {
                    drop(black_box(recorder).span("work", Phase::Forward));
                }
            });
        }
    });
    begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn main() {
    let span = |recorder: &Recorder, _| drop(recorder.span("work", Phase::Forward));
    let counter = |recorder: &Recorder, i: u32| recorder.counter("n", "", u64::from(i), 1.0);
    let added = |recorder: &Recorder, i: u32| {
        recorder.add_span(Track::Device, Span::new("work", i64::from(i), 1));
    };
    let clock = |_: &Recorder, _| {
        black_box(Instant::now());
    };
    println!("ns a call                on     off");
    for (name, call) in [
        ("span", &span as &dyn Fn(&Recorder, u32)),
        ("counter", &counter),
        ("span timed elsewhere", &added),
    ] {
        let (on, off) = (cost(Recorder::new, call), cost(Recorder::off, call));
        println!("{name:<20} {on:>6.1} {off:>7.2}");
    }
    println!("reading the clock    {:>6.1}", cost(Recorder::off, clock));
    println!("span, every core     {:>6.1}", crowded(&Recorder::new()));
}
