//! [`CompileLock`]: compile lock. The threads of one device compile at a time, and threads of other devices wait.
//!
//! NVIDIA's compiler (driver 580.159) sometimes never returns if a process uses it for two devices at once: one thread
//! computes for ever, the others wait for the driver's lock. The same hang occurs if a device is opened or closed while
//! kernels of another device are compiled. Many threads of one device are safe. So kernels are compiled for one device
//! at a time, and devices are listed, opened and closed exclusively. A program with one device never waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// State of the lock, and a signal for its release.
#[derive(Debug, Default)]
pub(crate) struct CompileLock {
    /// The device whose threads hold the lock, and their number.
    working: Mutex<Option<(usize, usize)>>,
    free: Condvar,
}

/// Work of one thread; dropping it ends the turn.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    of: &'a CompileLock,
}

/// Compile lock of the whole process.
pub(crate) static COMPILING: CompileLock = CompileLock::new();

/// Runs `work` while this process compiles for no device, and opens or closes none. For programs that open devices
/// through wgpu itself next to [`Gpu`](crate::Gpu). `work` must not open a [`Gpu`](crate::Gpu), drop the last handle of
/// one or compile a kernel: it would wait for itself.
pub fn with_drivers_alone<T>(work: impl FnOnce() -> T) -> T {
    let _turn = COMPILING.take_alone();
    work()
}

impl CompileLock {
    const fn new() -> Self {
        Self {
            working: Mutex::new(None),
            free: Condvar::new(),
        }
    }

    /// Waits until no thread holds the lock, and takes it exclusively.
    pub(crate) fn take_alone(&self) -> Turn<'_> {
        // Numbers of devices are addresses, which are even.
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        self.take(NEXT.fetch_add(2, Ordering::Relaxed))
    }

    /// Waits until no thread of another device holds the lock.
    pub(crate) fn take(&self, device: usize) -> Turn<'_> {
        let lock = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        let others = |working: &mut Option<(usize, usize)>| {
            working.is_some_and(|(other, _)| other != device)
        };
        let waited = self.free.wait_while(lock, others);
        let mut working = waited.unwrap_or_else(PoisonError::into_inner);
        let threads = working.map_or(0, |(_, threads)| threads);
        *working = Some((device, threads + 1));
        Turn { of: self }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let lock = self.of.working.lock();
        let mut working = lock.unwrap_or_else(PoisonError::into_inner);
        *working = match *working {
            Some((device, threads)) if threads > 1 => Some((device, threads - 1)),
            _ => None,
        };
        if working.is_none() {
            self.of.free.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_works_alone_waits_for_all_and_all_for_it() {
        let turns = CompileLock::new();
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for i in 0..6 {
                let (turns, inside) = (&turns, &inside);
                scope.spawn(move || {
                    for _ in 0..20 {
                        let _turn = if i < 3 {
                            turns.take_alone()
                        } else {
                            turns.take(8)
                        };
                        // Threads of device 8 count one, and an exclusive thread counts a hundred.
                        let own = if i < 3 { 100 } else { 1 };
                        let now = inside.fetch_add(own, Ordering::SeqCst) + own;
                        assert!(now <= 100, "{now}");
                        std::thread::sleep(Duration::from_micros(50));
                        inside.fetch_sub(own, Ordering::SeqCst);
                    }
                });
            }
        });
    }

    #[test]
    fn devices_take_turns_and_threads_of_one_do_not() {
        let turns = CompileLock::new();
        let (together, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // Two threads of one device hold their turns at once.
        let (first, second) = (turns.take(1), turns.take(1));
        std::thread::scope(|scope| {
            for device in [2, 3, 2, 3, 4] {
                let (turns, together, most) = (&turns, &together, &most);
                scope.spawn(move || {
                    for _ in 0..20 {
                        let _turn = turns.take(device);
                        // The low digits count the threads of device 2, the next those of 3, then 4.
                        let digit = 100_usize.pow(u32::try_from(device - 2).unwrap_or(0));
                        let now = together.fetch_add(digit, Ordering::SeqCst) + digit;
                        let devices = [now % 100, now / 100 % 100, now / 10_000];
                        let devices = devices.iter().filter(|&&threads| threads > 0).count();
                        most.fetch_max(devices, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_micros(100));
                        together.fetch_sub(digit, Ordering::SeqCst);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(5));
            assert_eq!(most.load(Ordering::SeqCst), 0, "device 1 still works");
            drop(first);
            std::thread::sleep(Duration::from_millis(5));
            assert_eq!(most.load(Ordering::SeqCst), 0, "one of its threads does");
            drop(second);
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }
}
