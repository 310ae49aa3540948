//! Reads photos ahead of the steps that need them, within a budget of memory.
//!
//! 1. The order of photos is known for all steps ([`PhotoOrder`]). So threads read the photos of coming steps in their
//!    order, as many as fit half of the budget: the other half holds photos for later reuse. Memory is reserved before
//!    a photo is read.
//! 2. A photo that does not fit evicts the one whose next use is last (Belady's rule, which is optimal; it applies
//!    because the order is known). Photos that are needed before the new one stay. If no others are left, reading waits
//!    for training.
//! 3. [`PhotoLoader::take`] returns the photo of the next step, and waits for it if it must. Waits are counted.
//!
//! The loader does not change the result of a step: a file gives the same pixels each time.

mod in_turn;
mod uses;

pub(crate) use in_turn::in_turn;

use crate::PhotoOrder;
use dapple_scene::{Error, Photo, PhotoSource, Result};
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use uses::Uses;

/// More threads than this do not help: disks and memory are busy then.
const MOST_THREADS: usize = 16;

/// Statistics of photo reads during training, since the run was started or resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PhotoTraffic {
    /// Most bytes of decoded photos.
    pub budget_bytes: u64,
    /// Largest number of bytes that they took.
    pub peak_bytes: u64,
    /// Photos read and decoded.
    pub reads: u64,
    /// Steps that found their photo in memory.
    pub ready: u64,
    /// Steps that had to wait for their photo.
    pub waits: u64,
    /// Total waiting time, seconds.
    pub wait_seconds: f64,
}

/// The photos of a run that do not all fit into memory.
#[derive(Debug)]
pub(crate) struct PhotoLoader {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    photos: Vec<PhotoSource>,
    state: Mutex<State>,
    /// Signals that a photo was read or taken, or that the loader ends.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    uses: Uses,
    slots: Vec<Slot>,
    /// The step that takes its photo next.
    next: u32,
    /// The photos of steps before this one are in memory or being read.
    ahead: u32,
    last: u32,
    /// The view of the step that is being enqueued.
    in_use: Option<usize>,
    held_bytes: u64,
    traffic: PhotoTraffic,
    is_over: bool,
}

#[derive(Debug)]
enum Slot {
    Absent,
    Reading,
    Ready(Arc<Photo>),
    Failed(Error),
}

impl PhotoLoader {
    /// Starts to read the photos of `steps`, from the first to the last. `order` determines the photo of a step.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(
        photos: Vec<PhotoSource>,
        order: &PhotoOrder,
        budget_bytes: u64,
        steps: (u32, u32),
    ) -> Result<Self> {
        let state = State::new(photos.len(), order, budget_bytes, steps);
        let shared = Arc::new(Shared {
            photos,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let mut loader = Self {
            shared,
            threads: Vec::new(),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for i in 0..cores.min(MOST_THREADS) {
            let shared = Arc::clone(&loader.shared);
            let thread = std::thread::Builder::new()
                .name(format!("photos-{i}"))
                .spawn(move || shared.read_ahead());
            match thread {
                Ok(thread) => loader.threads.push(thread),
                Err(_) if i > 0 => break,
                Err(e) => {
                    return Err(Error::unsupported(format!(
                        "the threads that read photos could not be started: {e}"
                    ))
                    .hint("give more --photo-memory, so that photos are read once"));
                }
            }
        }
        Ok(loader)
    }

    /// Returns the photo of step `step`. Call in the order of steps.
    ///
    /// # Errors
    /// The photo cannot be read.
    pub(crate) fn take(&self, step: u32) -> Result<Arc<Photo>> {
        let mut state = self.shared.lock();
        state.in_use = None;
        state.go_to(step);
        self.shared.changed.notify_all();
        let view = state.uses.photo_at(step);
        let mut waits_since = None;
        loop {
            match &mut state.slots[view] {
                Slot::Ready(photo) => {
                    let photo = Arc::clone(photo);
                    state.taken(view, waits_since);
                    self.shared.changed.notify_all();
                    return Ok(photo);
                }
                Slot::Failed(_) => {
                    let error = state.take_failure(view, &self.shared.photos);
                    return Err(while_training(error, step));
                }
                Slot::Absent | Slot::Reading => {
                    waits_since.get_or_insert_with(Instant::now);
                    state = wait(&self.shared.changed, state);
                }
            }
        }
    }

    /// Returns the photo of a step after the next one, if it has been read ahead. It is retained until that step, so
    /// that a caller that holds it adds nothing to the memory of photos.
    pub(crate) fn ready(&self, step: u32) -> Option<Arc<Photo>> {
        let mut state = self.shared.lock();
        if step >= state.ahead {
            return None;
        }
        let view = state.uses.photo_at(step);
        match &state.slots[view] {
            Slot::Ready(photo) => Some(Arc::clone(photo)),
            _ => None,
        }
    }

    /// Updates the last step and the order of the steps to come.
    pub(crate) fn follow(&self, order: &PhotoOrder, last: u32) {
        let mut state = self.shared.lock();
        state.last = last;
        state.uses.follow(order.clone());
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Returns the statistics so far.
    pub(crate) fn traffic(&self) -> PhotoTraffic {
        self.shared.lock().traffic
    }
}

impl Drop for PhotoLoader {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of the thread was reported.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Locks the state. A panicking thread makes no partial change: photos are read without the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loop of a reading thread.
    fn read_ahead(&self) {
        let mut state = self.lock();
        while !state.is_over {
            let Some(view) = state.next_to_read(&self.photos) else {
                state = wait(&self.changed, state);
                continue;
            };
            drop(state);
            // A decoder that panics over a broken file must not block training.
            let read = catch_unwind(AssertUnwindSafe(|| self.photos[view].read()));
            let read = read.unwrap_or_else(|_| {
                Err(
                    Error::input("the photo cannot be decoded: its decoder failed")
                        .hint("open it in an image viewer and save it again"),
                )
            });
            state = self.lock();
            state.traffic.reads += 1;
            state.slots[view] = read.map_or_else(Slot::Failed, Slot::Ready);
            self.changed.notify_all();
        }
    }
}

fn wait<'a>(changed: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    changed.wait(state).unwrap_or_else(PoisonError::into_inner)
}

fn while_training(error: Error, step: u32) -> Error {
    let told = Error::new(
        error.kind(),
        format!("{} (read again for step {step})", error.what()),
    )
    .at(error.place().unwrap_or("a photo of the capture"))
    .hint(match error.hint_text() {
        Some(hint) => format!("{hint}; then continue with --resume"),
        None => "restore the photo, then continue with --resume".to_owned(),
    });
    told.caused_by(error)
}

impl State {
    /// Initial state: no photo is read, and `next` is the next step.
    fn new(photos: usize, order: &PhotoOrder, budget_bytes: u64, (next, last): (u32, u32)) -> Self {
        Self {
            uses: Uses::new(order.clone()),
            slots: (0..photos).map(|_| Slot::Absent).collect(),
            next,
            ahead: next,
            last,
            in_use: None,
            held_bytes: 0,
            traffic: PhotoTraffic {
                budget_bytes,
                ..PhotoTraffic::default()
            },
            is_over: false,
        }
    }

    /// Notes that training needs the photo of `step` now.
    fn go_to(&mut self, step: u32) {
        let view = self.uses.photo_at(step);
        self.next = step;
        self.uses.forget_before(step);
        if self.ahead < step || matches!(self.slots[view], Slot::Absent) {
            self.ahead = step;
        }
    }

    fn taken(&mut self, view: usize, waits_since: Option<Instant>) {
        match waits_since {
            None => self.traffic.ready += 1,
            Some(since) => {
                self.traffic.waits += 1;
                self.traffic.wait_seconds += since.elapsed().as_secs_f64();
            }
        }
        self.in_use = Some(view);
        self.next += 1;
    }

    fn take_failure(&mut self, view: usize, photos: &[PhotoSource]) -> Error {
        self.held_bytes -= photos[view].bytes();
        match std::mem::replace(&mut self.slots[view], Slot::Absent) {
            Slot::Failed(error) => error,
            _ => Error::internal("a photo that was read has failed"),
        }
    }

    /// Returns the view whose photo to read next, and reserves its memory. `None` if no photo is due.
    fn next_to_read(&mut self, photos: &[PhotoSource]) -> Option<usize> {
        // Beyond one epoch every photo is needed a second time.
        let end = self.next.saturating_add(self.uses.epoch_steps());
        while self.ahead < end && self.ahead <= self.last.max(self.next) {
            let view = self.uses.photo_at(self.ahead);
            if self.ahead > self.next + 1
                && self.bytes_ahead(photos) + photos[view].bytes() > self.traffic.budget_bytes / 2
            {
                return None;
            }
            if matches!(self.slots[view], Slot::Absent) {
                let bytes = photos[view].bytes();
                if !self.make_room(bytes, photos) {
                    return None;
                }
                self.held_bytes += bytes;
                self.traffic.peak_bytes = self.traffic.peak_bytes.max(self.held_bytes);
                self.slots[view] = Slot::Reading;
                self.ahead += 1;
                return Some(view);
            }
            self.ahead += 1;
        }
        None
    }

    /// Bytes of the photos of the steps from `next` to before `ahead`.
    fn bytes_ahead(&mut self, photos: &[PhotoSource]) -> u64 {
        (self.next..self.ahead)
            .map(|step| photos[self.uses.photo_at(step)].bytes())
            .sum()
    }

    /// Evicts photos until `bytes` fit, those with the last next use first, and none that is needed before step
    /// `ahead`. Returns false if the bytes do not fit. A photo that training waits for always fits.
    fn make_room(&mut self, bytes: u64, photos: &[PhotoSource]) -> bool {
        while self.held_bytes + bytes > self.traffic.budget_bytes {
            let (next, in_use) = (self.next, self.in_use);
            let uses = &mut self.uses;
            let ready = self.slots.iter().enumerate();
            let last = ready
                .filter(|&(view, slot)| matches!(slot, Slot::Ready(_)) && in_use != Some(view))
                .map(|(view, _)| (uses.next_use(view, next), view))
                .max();
            match last {
                Some((use_at, view)) if use_at > self.ahead => {
                    self.slots[view] = Slot::Absent;
                    self.held_bytes -= photos[view].bytes();
                }
                _ => return self.ahead == self.next,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
