//! Samples of this process: functions that use CPU time are found by name, and sleeping functions are not.
//!
//! A process has one sampler at a time, so the tests run one after the other.

#![cfg(all(
    feature = "samples",
    any(target_os = "linux", target_os = "macos"),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_profile::samples::{SampleError, Sampler, Samples};
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does work that no other code here does, in a separate loop.
#[inline(always)]
fn inlined_by_hand(rounds: u64) -> u64 {
    let mut x = 1_u64;
    for i in 0..rounds {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i));
    }
    x
}

#[inline(never)]
fn burns_in_here(rounds: u64) -> u64 {
    black_box(inlined_by_hand(rounds))
}

#[inline(never)]
fn burns_less(rounds: u64) -> u64 {
    let mut x = 7_u64;
    for i in 0..rounds {
        x = black_box(x.rotate_left(7) ^ i);
    }
    x
}

/// Returns the number of samples with this word in their stacks.
fn with(samples: &Samples, word: &str) -> u64 {
    let stacks = samples.stacks().filter(|(stack, _)| stack.contains(word));
    stacks.map(|(_, count)| count).sum()
}

/// Uses CPU time until there are enough samples, on slow and busy machines too.
fn burnt() -> Samples {
    for doublings in 0..6 {
        let sampler = Sampler::start(199).unwrap();
        let rounds = 300_000_000_u64 << doublings;
        let threads = [1, 2].map(|i| {
            let named = std::thread::Builder::new().name(format!("burner-{i}"));
            named.spawn(move || burns_in_here(rounds)).unwrap()
        });
        burns_less(rounds / 8);
        for thread in threads {
            thread.join().unwrap();
        }
        let samples = sampler.finish().unwrap();
        if samples.len() >= 60 {
            return samples;
        }
    }
    panic!("no samples although the processor was busy");
}

#[test]
fn what_burns_is_named_in_its_thread() {
    let _turn = turn();
    let samples = burnt();
    let folded = samples.folded();
    let all = samples.len() as f64;
    assert!(
        with(&samples, "burns_in_here") as f64 > 0.6 * all,
        "{folded}"
    );
    // Tests are built with line tables, which list inlined functions.
    assert!(
        with(&samples, "inlined_by_hand") as f64 > 0.6 * all,
        "{folded}"
    );
    let line = folded
        .lines()
        .find(|l| l.contains("burns_in_here"))
        .unwrap();
    assert!(line.starts_with("burner-N;"), "{line}");
    assert!(!line.contains("__rust_begin_short_backtrace"), "{line}");
    assert!(!folded.contains("on_signal"), "the handler shows: {folded}");
    assert!(!folded.contains("_ZN"), "names are not readable: {folded}");
    let counted: u64 = folded
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(counted, samples.len());

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("burnt.svg");
    samples.write_flamegraph(&file, "a test").unwrap();
    let svg = std::fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("burns_in_here"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let nowhere = folder.path().join("no such folder/x.svg");
    let error = samples.write_flamegraph(&nowhere, "a test").unwrap_err();
    assert!(error.to_string().contains("no such folder"), "{error}");
}

#[test]
fn sleeping_gives_a_reason_and_no_picture() {
    let _turn = turn();
    let sampler = Sampler::start(10).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    let samples = sampler.finish().unwrap();
    assert!(samples.is_empty(), "{}", samples.folded());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.svg");
    let error = samples.write_flamegraph(&file, "a test").unwrap_err();
    assert!(matches!(error, SampleError::Nothing { .. }));
    assert!(error.to_string().contains("hardly any CPU time"), "{error}");
    assert!(!file.exists());
}

#[test]
fn there_is_one_at_a_time_and_one_after_another() {
    let _turn = turn();
    for hz in [0, 1001] {
        assert!(matches!(Sampler::start(hz), Err(SampleError::Frequency(_))));
    }
    let first = Sampler::start(99).unwrap();
    assert!(matches!(Sampler::start(99), Err(SampleError::Busy)));
    drop(first);
    Sampler::start(99).unwrap().finish().unwrap();
}

/// Imitates a driver that compiles code while the program runs. It registers code that no library holds with the
/// unwinder, and GCC's unwinder then takes a lock, and memory, in every thread that unwinds.
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod compiled_meanwhile {
    use super::*;
    use std::backtrace::Backtrace;
    use std::ffi::c_void;
    use std::sync::mpsc;
    use std::time::Instant;

    unsafe extern "C" {
        fn __register_frame(begin: *const c_void);
        fn __deregister_frame(begin: *const c_void);
    }

    /// Returns tables of one function at `at`, in the format of `.eh_frame`.
    fn tables(at: u64) -> Vec<u8> {
        let mut bytes = vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0];
        // The caller's stack begins eight bytes above the pointer, and the return address is below that.
        bytes.extend([0x0c, 7, 8, 0x90, 1, 0, 0]);
        bytes.extend([28, 0, 0, 0, 28, 0, 0, 0]);
        bytes.extend([at.to_le_bytes(), 16_u64.to_le_bytes()].concat());
        bytes.extend([0; 8]);
        bytes.extend([0; 8]);
        bytes
    }

    #[test]
    fn a_thread_that_is_caught_while_it_unwinds_stops_nothing() {
        let _turn = turn();
        let sampler = Sampler::start(1000).unwrap();
        let (done, ended) = mpsc::channel();
        let until = Instant::now() + Duration::from_secs(2);
        for thread in 0..3_u64 {
            let done = done.clone();
            std::thread::spawn(move || {
                let mut rounds = 0_u64;
                while Instant::now() < until {
                    let code = tables((thread << 40) | (rounds << 8) | 0x7000_0000_0000_0000);
                    // SAFETY: well-formed tables, which stay until they are deregistered.
                    unsafe { __register_frame(code.as_ptr().cast()) };
                    for _ in 0..20 {
                        let _ = black_box(Backtrace::force_capture());
                    }
                    // SAFETY: registered above.
                    unsafe { __deregister_frame(code.as_ptr().cast()) };
                    rounds += 1;
                }
                done.send(rounds).unwrap();
            });
        }
        for _ in 0..3 {
            if ended.recv_timeout(Duration::from_secs(120)).is_err() {
                // Without a panic, which would unwind, and wait like the others.
                eprintln!("threads that unwind have stopped for good");
                std::process::abort();
            }
        }
        let samples = sampler.finish().unwrap();
        assert!(samples.len() > 20, "{}", samples.len());
        assert!(with(&samples, "force_capture") > 0);
    }
}
