//! The part of sampling that runs inside a signal handler.
//!
//! 1. `ITIMER_PROF` counts the CPU time of all threads together; whenever another `1 / hz` seconds are used up, the
//!    thread that runs gets `SIGPROF`. A thread that waits is never interrupted.
//! 2. The handler takes a free slot of a ring buffer, stores the data that [`super::stack`] needs of the interrupted
//!    thread, and marks the slot full. It takes no lock and no memory: the interrupted code may hold both.
//! 3. A thread of this module, which is never interrupted itself, empties the slots ([`RingBuffer::drain`]).
//!
//! The ring buffer and the handler stay when sampling ends: a signal may still be pending, and its default action is to
//! end the program.

use super::stack::{self, BYTES, Registers};
use crate::samples::SampleError;
use libc::{c_int, c_void};
use std::cell::UnsafeCell;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Samples that may wait for the draining thread, which runs 50 times a second: enough for a thousand samples a second
/// on 25 threads. Stacks of 64 KiB each fill 32 MiB of memory, shallower stacks less.
const SLOTS: usize = 512;
/// Bytes of a thread's name in Linux.
const NAME_BYTES: usize = 16;
/// `libc` does not define it for every system; POSIX does not define the value, and all systems have 2.
const ITIMER_PROF: c_int = 2;

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const FULL: u8 = 2;

/// A slot for one sample.
struct Slot {
    state: AtomicU8,
    sample: UnsafeCell<Raw>,
}

/// A sample before unwinding.
#[derive(Clone, Copy, Default)]
struct Raw {
    registers: Registers,
    /// Bytes of the slot's memory in use.
    bytes: usize,
    thread: [u8; NAME_BYTES],
}

pub(super) struct RingBuffer {
    slots: Box<[Slot]>,
    /// Memory of the slots, one each. Never freed: the ring buffer stays.
    memory: *mut [u8; BYTES],
    next: AtomicUsize,
    lost: AtomicU64,
    running: AtomicBool,
}

// SAFETY: a sample and its memory are used by the thread that moved its slot from FREE to TAKEN, and then by the one
// draining thread, which finds it FULL; both moves are atomic, with acquire and release.
unsafe impl Sync for RingBuffer {}
// SAFETY: the memory belongs to no thread.
unsafe impl Send for RingBuffer {}

static RING: OnceLock<RingBuffer> = OnceLock::new();

impl RingBuffer {
    /// Returns the ring buffer of this process.
    pub(super) fn shared() -> &'static Self {
        RING.get_or_init(|| Self {
            slots: (0..SLOTS)
                .map(|_| Slot {
                    state: AtomicU8::new(FREE),
                    sample: UnsafeCell::default(),
                })
                .collect(),
            // Zeros, which take no memory until they are written.
            memory: Box::leak(vec![[0; BYTES]; SLOTS].into_boxed_slice()).as_mut_ptr(),
            next: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            running: AtomicBool::new(false),
        })
    }

    /// Claims the ring buffer; `false` if it is in use.
    pub(super) fn claim(&self) -> bool {
        let claimed = !self.running.swap(true, Ordering::AcqRel);
        if claimed {
            self.drain(|_, _, _| {});
            self.lost.store(0, Ordering::Relaxed);
        }
        claimed
    }

    pub(super) fn release(&self) {
        self.running.store(false, Ordering::Release);
    }

    /// Returns the number of samples for which there was no slot.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Empties all full slots: the thread's name, its registers and its stack. Must be called by one thread at a time.
    pub(super) fn drain(&self, mut take: impl FnMut(&[u8], Registers, &[u8])) {
        for (i, slot) in self.slots.iter().enumerate() {
            if slot.state.load(Ordering::Acquire) != FULL {
                continue;
            }
            // SAFETY: the slot is full, so no thread writes it, or its memory, until it is free.
            let (raw, memory) = unsafe { (&*slot.sample.get(), &*self.memory.add(i)) };
            let name = raw.thread.split(|&b| b == 0).next().unwrap_or_default();
            take(name, raw.registers, &memory[..raw.bytes]);
            slot.state.store(FREE, Ordering::Release);
        }
    }

    /// Takes one sample of the calling thread.
    ///
    /// # Safety
    /// `context` is the context that the system passed to a signal handler.
    unsafe fn sample(&self, context: *mut c_void) {
        let i = self.next.fetch_add(1, Ordering::Relaxed) % SLOTS;
        let slot = &self.slots[i];
        let taken = slot
            .state
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: the slot was free and this call owns it now, with its memory; the context is guaranteed by the
        // caller.
        unsafe {
            let (registers, bytes) = stack::take(context, &mut *self.memory.add(i));
            *slot.sample.get() = Raw {
                registers,
                bytes,
                thread: thread_name(),
            };
        }
        slot.state.store(FULL, Ordering::Release);
    }
}

/// Handles `SIGPROF`.
extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(ring) = RING.get() else { return };
    if !ring.running.load(Ordering::Acquire) || context.is_null() {
        return;
    }
    let errno = errno();
    // SAFETY: the system gives a handler with SA_SIGINFO a context and this thread's errno.
    unsafe {
        let saved = *errno;
        ring.sample(context);
        *errno = saved;
    }
}

/// Returns the address of this thread's `errno`.
fn errno() -> *mut c_int {
    #[cfg(target_os = "linux")]
    // SAFETY: always allowed.
    return unsafe { libc::__errno_location() };
    #[cfg(target_os = "macos")]
    // SAFETY: always allowed.
    return unsafe { libc::__error() };
}

/// Returns the name of the calling thread, zeros after it. Uses calls that take no lock.
fn thread_name() -> [u8; NAME_BYTES] {
    let mut name = [0_u8; NAME_BYTES];
    #[cfg(target_os = "linux")]
    // SAFETY: the call writes 16 bytes at most.
    unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
    }
    #[cfg(target_os = "macos")]
    // SAFETY: the call writes at most the number of bytes that it is given.
    unsafe {
        libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), NAME_BYTES);
    }
    name[NAME_BYTES - 1] = 0;
    name
}

/// Makes the system interrupt `hz` times in a second of CPU time.
///
/// # Errors
/// Another profiler has the signal; the system refuses.
pub(super) fn start(hz: u32) -> Result<(), SampleError> {
    stack::check()?;
    // SAFETY: zeros are an empty set and the default action.
    let (mut action, mut before) = unsafe {
        (
            std::mem::zeroed::<libc::sigaction>(),
            std::mem::zeroed::<libc::sigaction>(),
        )
    };
    let handler = on_signal as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    // SAFETY: only reads the present action.
    if unsafe { libc::sigaction(libc::SIGPROF, null(), &raw mut before) } != 0 {
        return Err(SampleError::refused());
    }
    let foreign = ![libc::SIG_DFL, libc::SIG_IGN, handler].contains(&before.sa_sigaction);
    if foreign {
        return Err(SampleError::Busy);
    }
    action.sa_sigaction = handler;
    // Interrupted calls continue.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler takes no lock and no memory.
    if unsafe { libc::sigaction(libc::SIGPROF, &raw const action, null_mut()) } != 0 {
        return Err(SampleError::refused());
    }
    set_timer((1_000_000 / hz.max(1)).max(1))
}

/// Stops further signals.
pub(super) fn stop() {
    // Turning it off has no reason to fail, and a failure would have no effect.
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

/// Blocks the signal in the calling thread.
pub(super) fn spare_this_thread() {
    // SAFETY: the set is made before it is read.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGPROF);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, null_mut());
    }
}
