//! The part of sampling that runs inside a signal handler, and all of its `unsafe`.
//!
//! 1. `ITIMER_PROF` counts the CPU time of all threads together; whenever another `1 / hz` seconds
//!    are used up, the thread that runs gets `SIGPROF`. A thread that waits is never interrupted.
//! 2. The handler takes a free slot of a ring, unwinds the interrupted thread into it, and marks it
//!    full. It takes no lock and no memory: whatever it interrupted may hold both.
//! 3. A thread of ours, which is never interrupted itself, empties the slots ([`Ring::drain`]).
//!
//! The ring and the handler stay when sampling ends: a signal may still be on its way, and its default
//! action is to end the program.
//!
//! One library underneath is not made for signals: the unwinder asks the loader for tables. glibc from
//! 2.35 on does so without a lock, and before that with one that its owner may take again.

use crate::samples::SampleError;
use libc::{c_int, c_void};
use std::cell::UnsafeCell;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Frames of a stack at most; the outermost of deeper ones are cut.
pub(super) const MOST_FRAMES: usize = 128;
/// Samples that may wait for the draining thread, which comes 50 times a second: enough for a
/// thousand samples a second on a hundred threads. 2 MiB.
const SLOTS: usize = 2048;
/// Bytes of a thread's name, as Linux has it.
const NAME_BYTES: usize = 16;
/// `libc` has it not for every system; POSIX leaves it open, and all have 2.
const ITIMER_PROF: c_int = 2;

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const FULL: u8 = 2;

/// Where one sample waits.
struct Slot {
    state: AtomicU8,
    sample: UnsafeCell<Raw>,
}

/// A sample as it was taken: addresses, innermost first.
#[derive(Clone, Copy)]
struct Raw {
    depth: usize,
    frames: [usize; MOST_FRAMES],
    thread: [u8; NAME_BYTES],
}

pub(super) struct Ring {
    slots: Box<[Slot]>,
    next: AtomicUsize,
    lost: AtomicU64,
    running: AtomicBool,
}

// SAFETY: a sample is touched by whoever moved its slot from FREE to TAKEN, and then by the one
// drainer, which finds it FULL; both moves are atomic, with acquire and release.
unsafe impl Sync for Ring {}

static RING: OnceLock<Ring> = OnceLock::new();

impl Ring {
    /// The one of this process.
    pub(super) fn shared() -> &'static Self {
        RING.get_or_init(|| Self {
            slots: (0..SLOTS)
                .map(|_| Slot {
                    state: AtomicU8::new(FREE),
                    sample: UnsafeCell::new(Raw {
                        depth: 0,
                        frames: [0; MOST_FRAMES],
                        thread: [0; NAME_BYTES],
                    }),
                })
                .collect(),
            next: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            running: AtomicBool::new(false),
        })
    }

    /// Claims the ring; `false` if it is in use.
    pub(super) fn claim(&self) -> bool {
        let claimed = !self.running.swap(true, Ordering::AcqRel);
        if claimed {
            self.drain(|_, _| {});
            self.lost.store(0, Ordering::Relaxed);
        }
        claimed
    }

    pub(super) fn release(&self) {
        self.running.store(false, Ordering::Release);
    }

    /// Samples for which there was no slot.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Empties all full slots: the thread's name and the addresses, innermost first. By one thread at
    /// a time.
    pub(super) fn drain(&self, mut take: impl FnMut(&[u8], &[usize])) {
        for slot in &self.slots {
            if slot.state.load(Ordering::Acquire) != FULL {
                continue;
            }
            // SAFETY: it is full, so nobody writes it until it is free.
            let raw = unsafe { &*slot.sample.get() };
            let name = raw.thread.split(|&b| b == 0).next().unwrap_or_default();
            take(name, &raw.frames[..raw.depth]);
            slot.state.store(FREE, Ordering::Release);
        }
    }

    /// One sample of the calling thread, interrupted at `at`.
    fn sample(&self, at: usize) {
        let slot = &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % SLOTS];
        let taken = slot
            .state
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: it was free and is ours now.
        let raw = unsafe { &mut *slot.sample.get() };
        raw.thread = thread_name();
        raw.depth = 0;
        let mut interrupted = false;
        // SAFETY: unsynchronised, since a lock might be held by what was interrupted; only the
        // resolving of names needs it.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                let address = frame.ip() as usize;
                // This handler and the system's trampoline come first.
                interrupted |= address == at;
                if interrupted {
                    raw.frames[raw.depth] = address;
                    raw.depth += 1;
                }
                raw.depth < MOST_FRAMES
            });
        }
        if raw.depth == 0 {
            // The unwinder did not find its way: what ran is known all the same.
            raw.frames[0] = at;
            raw.depth = 1;
        }
        slot.state.store(FULL, Ordering::Release);
    }
}

/// The handler of `SIGPROF`.
extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(ring) = RING.get() else { return };
    if !ring.running.load(Ordering::Acquire) || context.is_null() {
        return;
    }
    let errno = errno();
    // SAFETY: the system gives a handler with SA_SIGINFO a context and this thread's errno.
    unsafe {
        let saved = *errno;
        let at = interrupted_at(context.cast());
        ring.sample(at);
        *errno = saved;
    }
}

/// Where this thread keeps `errno`.
fn errno() -> *mut c_int {
    #[cfg(target_os = "linux")]
    // SAFETY: always allowed.
    return unsafe { libc::__errno_location() };
    #[cfg(target_os = "macos")]
    // SAFETY: always allowed.
    return unsafe { libc::__error() };
}

/// Address of the instruction that was interrupted.
///
/// # Safety
/// `context` is what the system gave to a signal handler.
unsafe fn interrupted_at(context: *mut libc::ucontext_t) -> usize {
    // SAFETY: as above.
    unsafe {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        return (&(*context).uc_mcontext.gregs)[libc::REG_RIP as usize] as usize;
        #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
        return (*context).uc_mcontext.pc as usize;
        #[cfg(all(target_os = "macos", target_arch = "x86_64"))]
        return (*(*context).uc_mcontext).__ss.__rip as usize;
        #[cfg(all(target_os = "macos", target_arch = "aarch64"))]
        return (*(*context).uc_mcontext).__ss.__pc as usize;
    }
}

/// Name of the calling thread, zeros after it. By calls that take no lock.
fn thread_name() -> [u8; NAME_BYTES] {
    let mut name = [0_u8; NAME_BYTES];
    #[cfg(target_os = "linux")]
    // SAFETY: the call writes 16 bytes at most.
    unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
    }
    #[cfg(target_os = "macos")]
    // SAFETY: the call writes no more bytes than it is told.
    unsafe {
        libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), NAME_BYTES);
    }
    name[NAME_BYTES - 1] = 0;
    name
}

/// Lets the system interrupt `hz` times in a second of CPU time.
///
/// # Errors
/// Another profiler has the signal; the system refuses.
pub(super) fn start(hz: u32) -> Result<(), SampleError> {
    // The unwinder loads what it needs on its first call, which must not be in a handler.
    backtrace::trace(|_| true);
    // SAFETY: zeros are an empty set and the default action.
    let (mut action, mut before) = unsafe {
        (
            std::mem::zeroed::<libc::sigaction>(),
            std::mem::zeroed::<libc::sigaction>(),
        )
    };
    let handler = on_signal as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    // SAFETY: only asks.
    if unsafe { libc::sigaction(libc::SIGPROF, null(), &raw mut before) } != 0 {
        return Err(SampleError::refused());
    }
    let foreign = ![libc::SIG_DFL, libc::SIG_IGN, handler].contains(&before.sa_sigaction);
    if foreign {
        return Err(SampleError::Busy);
    }
    action.sa_sigaction = handler;
    // Calls that were interrupted go on.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler takes no lock and no memory.
    if unsafe { libc::sigaction(libc::SIGPROF, &raw const action, null_mut()) } != 0 {
        return Err(SampleError::refused());
    }
    set_timer((1_000_000 / hz.max(1)).max(1))
}

/// No further signals.
pub(super) fn stop() {
    // Turning it off has no reason to fail, and nothing would follow from it.
    let _ = set_timer(0);
}

fn set_timer(microseconds: u32) -> Result<(), SampleError> {
    let time = libc::timeval {
        tv_sec: (microseconds / 1_000_000) as libc::time_t,
        tv_usec: (microseconds % 1_000_000) as libc::suseconds_t,
    };
    let timer = libc::itimerval {
        it_interval: time,
        it_value: time,
    };
    // SAFETY: the structure lives through the call.
    match unsafe { libc::setitimer(ITIMER_PROF, &raw const timer, null_mut()) } {
        0 => Ok(()),
        _ => Err(SampleError::refused()),
    }
}

/// Keeps the signal from the calling thread.
pub(super) fn spare_this_thread() {
    // SAFETY: the set is made before it is read.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGPROF);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, null_mut());
    }
}
