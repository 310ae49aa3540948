//! Counts stacks during sampling, and resolves them at the end.

use super::signal::{self, RingBuffer};
use super::stack::{CUT, Unwinder};
use super::{SampleError, Samples};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Period of the draining thread.
const PERIOD: Duration = Duration::from_millis(20);
/// Time to wait for a handler that still runs when sampling ends.
const LAST: Duration = Duration::from_millis(5);
/// Outermost functions that belong to the start of a thread or program.
const STARTS: [&str; 9] = [
    "_start",
    "__libc_start_main",
    "__libc_start_call_main",
    "main",
    "start_thread",
    "clone",
    "clone3",
    "_pthread_start",
    "thread_start",
];
/// The last of these functions in Rust.
const RUST_START: &str = "__rust_begin_short_backtrace";

/// A thread's name and the addresses of a stack, innermost first.
type Stack = (Vec<u8>, Box<[usize]>);
type Counts = HashMap<Stack, u64>;

/// Takes samples from its start to [`Self::finish`]. A process has at most one at a time.
#[derive(Debug)]
pub struct Sampler {
    /// `None` once it was joined.
    counting: Option<JoinHandle<Counts>>,
    done: Arc<AtomicBool>,
    hz: u32,
    started: Instant,
}

impl Sampler {
    /// Samples every thread from now on, `hz` times in a second of CPU time, 1 to 1000.
    ///
    /// # Errors
    /// Another sampler is running; a frequency out of range; a system that refuses.
    pub fn start(hz: u32) -> Result<Self, SampleError> {
        if !(1..=1000).contains(&hz) {
            return Err(SampleError::Frequency(hz));
        }
        if !RingBuffer::shared().claim() {
            return Err(SampleError::Busy);
        }
        let done = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&done);
        let counting = std::thread::Builder::new()
            .name("samples".to_owned())
            .spawn(move || count(&until))
            .map_err(SampleError::Refused);
        let counting = counting.and_then(|thread| signal::start(hz).map(|()| thread));
        match counting {
            Ok(thread) => Ok(Self {
                counting: Some(thread),
                done,
                hz,
                started: Instant::now(),
            }),
            Err(error) => {
                done.store(true, Ordering::Release);
                RingBuffer::shared().release();
                Err(error)
            }
        }
    }

    /// Stops, and resolves the functions' names: takes some seconds with much debug information.
    ///
    /// # Errors
    /// The counting thread has panicked, which is not expected.
    pub fn finish(mut self) -> Result<Samples, SampleError> {
        let wall = self.started.elapsed();
        let counts = self.stop().unwrap_or_default();
        let mut names = Names::default();
        let mut stacks = BTreeMap::new();
        for ((thread, addresses), count) in counts {
            *stacks.entry(names.folded(&thread, &addresses)).or_insert(0) += count;
        }
        Ok(Samples {
            stacks,
            hz: self.hz,
            wall,
            lost: RingBuffer::shared().lost(),
        })
    }

    fn stop(&mut self) -> Option<Counts> {
        let thread = self.counting.take()?;
        signal::stop();
        std::thread::sleep(LAST);
        self.done.store(true, Ordering::Release);
        thread.thread().unpark();
        let counts = thread.join().ok();
        RingBuffer::shared().release();
        counts
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Counts stacks until it is done.
fn count(done: &AtomicBool) -> Counts {
    signal::spare_this_thread();
    let mut counts = Counts::new();
    let mut unwinder = Unwinder::new();
    loop {
        let last = done.load(Ordering::Acquire);
        unwinder.follow();
        RingBuffer::shared().drain(|thread, registers, stack| {
            let addresses = unwinder.addresses(registers, stack).into_boxed_slice();
            *counts.entry((thread.to_vec(), addresses)).or_insert(0) += 1;
        });
        if last {
            return counts;
        }
        std::thread::park_timeout(PERIOD);
    }
}

/// Functions at addresses, each resolved once.
#[derive(Default)]
struct Names {
    /// Innermost inlined function first.
    known: HashMap<usize, Vec<String>>,
}

impl Names {
    fn at(&mut self, address: usize) -> &[String] {
        self.known.entry(address).or_insert_with(|| {
            let mut names = Vec::new();
            backtrace::resolve(address as *mut std::ffi::c_void, |symbol| {
                // Without the hash at its end.
                let name = symbol.name().map(|name| format!("{name:#}"));
                names.extend(name.map(|name| placed(name, symbol.filename())));
            });
            if names.is_empty() {
                names.push("(unknown)".to_owned());
            }
            names
        })
    }

    /// Returns thread and functions, outermost first.
    fn folded(&mut self, thread: &[u8], addresses: &[usize]) -> String {
        let mut frames = Vec::new();
        let cut = addresses.last() == Some(&CUT);
        let addresses = &addresses[..addresses.len() - usize::from(cut)];
        for (i, &address) in addresses.iter().enumerate().rev() {
            // The look-up uses the address before, because a call returns behind itself. The innermost address is not a
            // return address.
            let asked = if i == 0 { address + 1 } else { address };
            frames.extend(self.at(asked).iter().rev().cloned());
        }
        let mut frames = without_start(&frames).to_vec();
        if cut {
            frames.insert(0, "(outer frames cut)".to_owned());
        }
        frames.insert(0, group(&String::from_utf8_lossy(thread)));
        frames.join(";")
    }
}

/// Returns a name that shows the place of its function. Line tables have inlined functions without their module: these
/// get the file instead. `;` separates frames, so no name may contain it.
fn placed(name: String, file: Option<&Path>) -> String {
    let bare = name.split('<').next().unwrap_or_default();
    let mut placed = match file {
        Some(file) if !name.starts_with('<') && !bare.contains("::") => {
            let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
            let last = parts[parts.len().saturating_sub(2)..].join("/");
            format!("{name} ({last})")
        }
        _ => name,
    };
    placed.retain(|c| c != '\n');
    placed.replace(';', ",")
}

/// Returns frames, outermost first, without those that start a thread.
fn without_start(frames: &[String]) -> &[String] {
    let rust = frames.iter().rposition(|name| name.contains(RUST_START));
    let start = rust.map_or(0, |last| last + 1);
    let frames = &frames[start..];
    let starts = |name: &String| {
        let bare = name.split('@').next().unwrap_or_default();
        STARTS.contains(&bare.trim_start_matches("__")) || STARTS.contains(&bare)
    };
    let first = frames.iter().position(|name| !starts(name));
    // A thread with no other frames keeps its innermost frame.
    &frames[first.unwrap_or(frames.len().saturating_sub(1))..]
}

/// Returns the name of a group of threads: `dapple-N` for `dapple-12` and `dapple-3`.
fn group(thread: &str) -> String {
    let stem = thread.trim_end_matches(|c: char| c.is_ascii_digit());
    match (stem.is_empty(), stem.len() < thread.len()) {
        (true, _) => "(unnamed thread)".to_owned(),
        (false, true) => format!("{stem}N"),
        (false, false) => stem.replace(';', ","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_grouped_and_their_starts_cut() {
        assert_eq!(group("dapple-12"), "dapple-N");
        assert_eq!(group("main"), "main");
        assert_eq!(group(""), "(unnamed thread)");
        let frames = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        let rust = frames(&[
            "clone3",
            "std::sys::__rust_begin_short_backtrace",
            "work",
            "inner",
        ]);
        assert_eq!(without_start(&rust), &rust[2..]);
        let c = frames(&["__clone3", "start_thread", "llvmpipe"]);
        assert_eq!(without_start(&c), &c[2..]);
        let inlined = placed("run".to_owned(), Some(Path::new("/a/stages/blend.rs")));
        assert_eq!(inlined, "run (stages/blend.rs)");
        let whole = placed("a::b<[u8; 2]>".to_owned(), Some(Path::new("b.rs")));
        assert_eq!(whole, "a::b<[u8, 2]>");
        let bare = frames(&["_start"]);
        assert_eq!(without_start(&bare), &bare[..]);
    }
}
