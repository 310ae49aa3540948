//! [`Recorder`]: takes spans, counters and steps while a program runs, at a low cost.
//!
//! 1. A recorder that is off holds nothing: every call is a branch.
//! 2. A guard reads the clock when it is made and when it is dropped, and appends one record to the
//!    list of its thread. Threads share a list, and its lock, only if there are more than
//!    [`LISTS`].
//! 3. Spans that are timed elsewhere (a GPU's clock) are added whenever they become known, on the
//!    same time axis: nanoseconds after [`Recorder::origin`].
//! 4. [`Recorder::begin_window`] and [`Recorder::end_window`] take [`Synchronised`];
//!    [`Recorder::finish`] returns a [`Recording`] only if both were called.

use crate::profile::Phase;
use crate::recording::{Count, HostSpan, Name, Recording, Span, Synchronised, Track};
use crate::{Error, Result};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Lists of host spans: more than the cores that a program fills on most machines.
const LISTS: usize = 64;

/// Spans of [`Recorder::measure_cost`]: some milliseconds.
const COST_SAMPLES: u32 = 20_000;

/// Takes spans, counters and steps. Clones record into the same place; threads may share one.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    shared: Option<Arc<Shared>>,
}

#[derive(Debug)]
struct Shared {
    origin: Instant,
    host: [List; LISTS],
    log: Mutex<Log>,
}

/// A list of host spans in its own cache line, so that neighbours' locks do not disturb it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct List(Mutex<Vec<HostSpan>>);

#[derive(Debug, Default)]
struct Log {
    begin: Option<(Instant, u32)>,
    end: Option<Instant>,
    device: Vec<Span>,
    kernels: Vec<Span>,
    other: Vec<(Name, Span)>,
    steps: Vec<(u64, i64)>,
    counters: Vec<(String, String)>,
    counts: Vec<Count>,
    losses: Vec<(u64, f64)>,
}

impl Recorder {
    /// Creates a recorder that records; its origin is now.
    pub fn new() -> Self {
        let shared = Shared {
            origin: Instant::now(),
            host: std::array::from_fn(|_| List::default()),
            log: Mutex::default(),
        };
        Self {
            shared: Some(Arc::new(shared)),
        }
    }

    /// Creates a recorder that records nothing, at the cost of a branch a call.
    pub const fn off() -> Self {
        Self { shared: None }
    }

    /// Returns true if it records: for callers that would compute something only to record it.
    pub fn is_on(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns time zero of everything recorded. For a recorder that is off: now.
    pub fn origin(&self) -> Instant {
        self.shared
            .as_ref()
            .map_or_else(Instant::now, |shared| shared.origin)
    }

    /// Returns the offset from `origin`, another clock's time zero, to [`Self::origin`]. Added to
    /// nanoseconds after `origin`, it gives nanoseconds after [`Self::origin`].
    pub fn offset_of(&self, origin: Instant) -> i64 {
        self.shared
            .as_ref()
            .map_or(0, |shared| shared.place(origin))
    }

    /// Returns the present time, ns after [`Self::origin`]; 0 if it is off.
    pub fn now_ns(&self) -> i64 {
        self.offset_of(Instant::now())
    }

    /// Times the calling thread until the guard is dropped. Guards nest: time inside an inner guard
    /// counts only for the inner one.
    #[must_use = "the span ends when the guard is dropped"]
    #[inline]
    pub fn span(&self, name: impl Into<Name>, phase: Phase) -> SpanGuard {
        SpanGuard {
            open: self
                .shared
                .as_ref()
                .map(|shared| shared.open(name.into(), phase)),
            not_send: PhantomData,
        }
    }

    /// Adds a span that was timed elsewhere; its times are ns after [`Self::origin`].
    pub fn add_span(&self, track: Track, span: Span) {
        let Some(shared) = &self.shared else { return };
        match track {
            Track::Device => shared.log().device.push(span),
            Track::Kernels => shared.log().kernels.push(span),
            Track::Other(name) => shared.log().other.push((name, span)),
            Track::Host => {
                let thread = thread_index();
                shared.push(HostSpan {
                    name: span.name,
                    phase: span.phase.unwrap_or(Phase::Host),
                    thread,
                    depth: DEPTH.get() + 1,
                    start_ns: span.start_ns,
                    duration_ns: span.duration_ns,
                    step: span.step,
                });
            }
        }
    }

    /// Sets the value of a counter in a step. A later value replaces an earlier one.
    pub fn counter(&self, name: &str, unit: &str, step: u64, value: f64) {
        let Some(shared) = &self.shared else { return };
        let mut log = shared.log();
        let known = log.counters.iter().position(|(known, _)| known == name);
        let counter = known.unwrap_or_else(|| {
            log.counters.push((name.to_owned(), unit.to_owned()));
            log.counters.len() - 1
        });
        log.counts.push(Count {
            counter,
            step,
            value,
        });
    }

    /// Sets a step's loss.
    pub fn loss(&self, step: u64, loss: f64) {
        if let Some(shared) = &self.shared {
            shared.log().losses.push((step, loss));
        }
    }

    /// Ends a step now.
    pub fn end_step(&self, step: u64) {
        if self.is_on() {
            self.end_step_at(step, self.now_ns());
        }
    }

    /// Ends a step at `end_ns` after [`Self::origin`]: for steps that end on a device. The last end
    /// of a repeated step counts.
    pub fn end_step_at(&self, step: u64, end_ns: i64) {
        if let Some(shared) = &self.shared {
            shared.log().steps.push((step, end_ns));
        }
    }

    /// Begins the measured window at `idle`, driven by the calling thread: the budget covers the
    /// time of that thread and the device. Discards earlier records.
    pub fn begin_window(&self, idle: Synchronised) {
        let Some(shared) = &self.shared else { return };
        for list in &shared.host {
            lock(&list.0).clear();
        }
        *shared.log() = Log {
            begin: Some((idle.at, thread_index())),
            ..Log::default()
        };
    }

    /// Ends the measured window at `idle`. Times of its steps that arrive later are still taken,
    /// until [`Self::finish`].
    pub fn end_window(&self, idle: Synchronised) {
        if let Some(shared) = &self.shared {
            shared.log().end = Some(idle.at);
        }
    }

    /// Returns the records of the window, and removes them from the recorder.
    ///
    /// # Errors
    /// The recorder is off, or its window was not opened, not closed, or closed before it opened:
    /// times that were not synchronised are not returned.
    pub fn finish(&self) -> Result<Recording> {
        let Some(shared) = &self.shared else {
            return Err(Error::input("nothing was recorded: the recorder is off")
                .hint("make it with Recorder::new()"));
        };
        let log = std::mem::take(&mut *shared.log());
        let (Some((begin, driver)), Some(end)) = (log.begin, log.end) else {
            let missing = if log.begin.is_none() {
                "opened"
            } else {
                "closed"
            };
            return Err(Error::input(format!(
                "the measured window was never {missing}: its times are not synchronised"
            ))
            .hint("call begin_window and end_window when the device has nothing to do"));
        };
        if end <= begin {
            return Err(
                Error::input("the measured window ends before it begins").hint(
                    "make the moment for end_window after the last step, not next to that of begin_window",
                ),
            );
        }
        let mut host = Vec::new();
        for list in &shared.host {
            host.append(&mut lock(&list.0));
        }
        let (begin_ns, end_ns) = (shared.place(begin), shared.place(end));
        Ok(Recording {
            begin_ns,
            end_ns,
            driver,
            device: log.device,
            kernels: log.kernels,
            host,
            other: log.other,
            steps: in_window(log.steps, begin_ns, end_ns),
            counters: log.counters,
            counts: log.counts,
            losses: log.losses,
            threads: lock(&THREADS).clone(),
        })
    }

    /// Measures the cost of a span on this machine now, ns: guards that are made and dropped in a
    /// loop.
    pub fn measure_cost() -> f64 {
        let recorder = Self::new();
        let begin = Instant::now();
        for _ in 0..COST_SAMPLES {
            drop(recorder.span("cost", Phase::Host));
        }
        begin.elapsed().as_nanos() as f64 / f64::from(COST_SAMPLES)
    }
}

/// Returns the last end of each step, of those that ended inside the window, in order of ends.
fn in_window(mut ends: Vec<(u64, i64)>, begin_ns: i64, end_ns: i64) -> Vec<(u64, i64)> {
    ends.retain(|&(_, end)| end > begin_ns && end <= end_ns);
    ends.sort_unstable_by_key(|&(step, end)| (step, std::cmp::Reverse(end)));
    ends.dedup_by_key(|&mut (step, _)| step);
    ends.sort_unstable_by_key(|&(step, end)| (end, step));
    ends
}

/// A span that lasts until this guard is dropped. It stays on its thread.
#[derive(Debug)]
pub struct SpanGuard {
    open: Option<Open>,
    not_send: PhantomData<*const ()>,
}

#[derive(Debug)]
struct Open {
    shared: Arc<Shared>,
    name: Name,
    phase: Phase,
    depth: u32,
    step: Option<u64>,
    start: Instant,
}

impl SpanGuard {
    /// Sets the step of the span. The default is the step in which the span occurs.
    #[must_use = "the span ends when the guard is dropped"]
    pub fn step(mut self, step: u64) -> Self {
        if let Some(open) = &mut self.open {
            open.step = Some(step);
        }
        self
    }

    /// Ends the span now.
    pub fn end(self) {}
}

impl Drop for SpanGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.close();
        }
    }
}

impl Open {
    fn close(self) {
        let taken = self.start.elapsed();
        DEPTH.set(DEPTH.get().saturating_sub(1));
        let span = HostSpan {
            name: self.name,
            phase: self.phase,
            thread: thread_index(),
            depth: self.depth,
            start_ns: self.shared.place(self.start),
            duration_ns: taken.as_nanos() as u64,
            step: self.step,
        };
        self.shared.push(span);
    }
}

impl Shared {
    fn open(self: &Arc<Self>, name: Name, phase: Phase) -> Open {
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        Open {
            shared: Arc::clone(self),
            name,
            phase,
            depth,
            step: None,
            start: Instant::now(),
        }
    }

    fn push(&self, span: HostSpan) {
        lock(&self.host[span.thread as usize % LISTS].0).push(span);
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }

    /// Returns ns after the origin; negative before it.
    fn place(&self, at: Instant) -> i64 {
        match at.checked_duration_since(self.origin) {
            Some(after) => after.as_nanos() as i64,
            None => -(self.origin.duration_since(at).as_nanos() as i64),
        }
    }
}

/// Names of the threads that have recorded, by [`thread_index`].
static THREADS: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(u32::MAX) };
    /// Guards open on this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Returns the calling thread's number.
fn thread_index() -> u32 {
    let index = THREAD.get();
    if index != u32::MAX {
        return index;
    }
    let mut threads = lock(&THREADS);
    let index = threads.len() as u32;
    let name = std::thread::current().name().map(str::to_owned);
    threads.push(name.unwrap_or_else(|| format!("thread {index}")));
    THREAD.set(index);
    index
}

/// Locks a list. A panic of another holder cannot make the list invalid: the only operation is
/// appending.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
