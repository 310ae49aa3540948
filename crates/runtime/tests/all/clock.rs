//! The device's clock: spans last as long as they should, at the right place on the host's clock.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_runtime::{CommandList, Detail, GpuClock, wgpu};
use std::time::{Duration, Instant};
use support::{busy, gpu, gpu_without, kernel, recording};

/// Maximum time that a test waits for an undisturbed attempt.
const PATIENCE: Duration = Duration::from_secs(40);

#[test]
fn spans_lie_where_the_host_saw_them() {
    let gpu = gpu();
    let Some(mut clock) = GpuClock::new(&gpu, 4, 2).unwrap() else {
        assert!(!gpu.report().timestamps);
        return;
    };
    let values = gpu.buffer("values", 1 << 20).unwrap();
    let mut twice = recording(&gpu, "work", &values, 4096);
    twice.append(recording(&gpu, "count", &values, 1));
    gpu.wait().unwrap();
    // Other programs stretch the short span, or the wall time around both. Conditions that hold under any load are
    // checked in each attempt. Durations need one attempt each: in one the long span takes ten times the short one, in
    // one the long span takes an eighth of its wall time.
    let (mut is_longer, mut is_most) = (false, false);
    let started = Instant::now();
    while !(is_longer && is_most) {
        assert!(
            started.elapsed() < PATIENCE,
            "longer than the short span: {is_longer}; most of the wall time: {is_most}"
        );
        let before = clock.origin().elapsed().as_nanos() as f64;
        assert!(clock.submit(&twice, &busy(&gpu), 7, Detail::Spans).unwrap());
        gpu.wait().unwrap();
        let after = clock.origin().elapsed().as_nanos() as f64;
        let timings = clock.poll().unwrap();
        let [timing] = timings.as_slice() else {
            panic!("{timings:?}")
        };
        assert_eq!((timing.tag, timing.missing), (7, 0));
        let [work, count] = timing.spans.as_slice() else {
            panic!("{timing:?}")
        };
        assert_eq!((work.name, count.name), ("work", "work"));
        assert!(
            work.start_ns + work.duration_ns as i64 <= count.start_ns,
            "{timing:?}"
        );
        let off = clock.calibration().uncertainty_ns + 1000.0;
        let end = (count.start_ns + count.duration_ns as i64) as f64;
        assert!(
            work.start_ns as f64 > before - off,
            "{timing:?} before {before}"
        );
        assert!(end < after + off, "{timing:?} after {after}");
        println!("{timing:?}; {:?}", clock.calibration());
        is_longer |= work.duration_ns > 10 * count.duration_ns;
        is_most |= work.duration_ns as f64 > (after - before) / 8.0;
    }
}

#[test]
fn timings_come_in_order_without_waiting() {
    let gpu = gpu();
    let Some(mut clock) = GpuClock::new(&gpu, 1, 2).unwrap() else {
        return;
    };
    let values = gpu.buffer("values", 1 << 20).unwrap();
    let work = recording(&gpu, "work", &values, 4096);
    let before = gpu.counters();
    let timed: Vec<bool> = (0..3)
        .map(|tag| {
            clock
                .submit(&work, &busy(&gpu), tag, Detail::Spans)
                .unwrap()
        })
        .collect();
    // The third found no query set: it ran untimed.
    assert_eq!((timed, clock.skipped()), (vec![true, true, false], 1));
    let asked = Instant::now();
    let mut arrived = clock.poll().unwrap();
    let done = gpu.counters() - before;
    assert_eq!((done.waits, done.submissions, done.dispatches), (0, 3, 3));
    println!("polled in {:?}", asked.elapsed());
    gpu.wait().unwrap();
    arrived.extend(clock.poll().unwrap());
    let tags: Vec<u64> = arrived.iter().map(|t| t.tag).collect();
    assert_eq!(tags, [0, 1]);
    // Query sets are free again, and in steady state nothing is allocated.
    let before = gpu.counters();
    for tag in 3..8 {
        assert!(
            clock
                .submit(&work, &0_u32.to_le_bytes(), tag, Detail::Spans)
                .unwrap()
        );
        gpu.wait().unwrap();
        assert_eq!(clock.poll().unwrap()[0].tag, tag);
    }
    assert_eq!((gpu.counters() - before).buffers_created, 0);
}

#[test]
fn what_cannot_be_timed_still_runs() {
    let gpu = gpu();
    let Some(mut clock) = GpuClock::new(&gpu, 1, 1).unwrap() else {
        return;
    };
    let values = gpu.upload("values", &[0_u32; 64]).unwrap();
    let one = recording(&gpu, "count", &values, 1);
    let mut two = one.clone();
    two.append(one.clone());
    assert!(
        !clock.submit(&two, &[], 0, Detail::Spans).unwrap(),
        "more spans than it was made for"
    );
    assert!(
        !clock
            .submit(&CommandList::new(), &[], 1, Detail::Spans)
            .unwrap(),
        "no spans"
    );
    assert_eq!(gpu.read::<u32>(&values, 64).unwrap(), [2; 64]);
    // Timed but never submitted: an error, not an endless wait.
    let mut encoder = gpu.encoder();
    assert!(
        clock
            .encode(&one, &mut encoder, &[], 2, Detail::Spans)
            .unwrap()
    );
    drop(encoder);
    assert!(clock.poll().is_err());
    assert!(clock.submit(&one, &[], 3, Detail::Spans).unwrap());
    gpu.wait().unwrap();
    assert_eq!(clock.poll().unwrap().len(), 1);
}

#[test]
fn a_device_without_timestamps_has_no_clock() {
    let gpu = gpu_without(wgpu::Features::TIMESTAMP_QUERY);
    assert!(GpuClock::new(&gpu, 4, 2).unwrap().is_none());
    // All other operations work.
    let values = gpu.upload("values", &[0_u32; 64]).unwrap();
    assert_eq!(kernel(&gpu, "count").label(), "work.count");
    recording(&gpu, "count", &values, 1).submit(&gpu, &[]);
    assert_eq!(gpu.read::<u32>(&values, 64).unwrap(), [1; 64]);
}

#[test]
fn dispatches_are_timed_alone_and_their_sum_is_checked_from_around() {
    let gpu = gpu();
    let Some(mut clock) = GpuClock::new(&gpu, 4, 2).unwrap() else {
        return;
    };
    let values = gpu.buffer("values", 1 << 20).unwrap();
    let one = recording(&gpu, "work", &values, 4096);
    let mut spans = one.clone();
    spans.append(one);
    let times = |clock: &mut GpuClock, detail| {
        assert!(clock.submit(&spans, &busy(&gpu), 0, detail).unwrap());
        gpu.wait().unwrap();
        clock.poll().unwrap().remove(0)
    };
    let can = wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS;
    let can = gpu.device().features().contains(can);
    for detail in [Detail::Spans, Detail::Dispatches] {
        let started = Instant::now();
        loop {
            let timing = times(&mut clock, detail);
            let kernels = timing.spans.iter().map(|span| span.kernel.as_deref());
            let named = matches!(detail, Detail::Dispatches).then_some("work.work");
            assert!(kernels.eq([named; 2]), "{timing:?}");
            let sum: u64 = timing.spans.iter().map(|span| span.duration_ns).sum();
            assert_eq!(timing.whole.is_some(), can);
            let Some((start, whole)) = timing.whole else {
                break;
            };
            assert!(
                whole >= sum && start <= timing.spans[0].start_ns,
                "{timing:?}"
            );
            // Milliseconds of work, microseconds between, if no other program runs in between.
            if whole < sum + sum / 5 {
                break;
            }
            assert!(started.elapsed() < PATIENCE, "{timing:?}");
        }
    }
}
