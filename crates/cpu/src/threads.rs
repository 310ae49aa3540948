//! Checks of the number of threads, and the error if the system starts none.

use dapple_scene::{Error, ErrorKind, Result};

/// Maximum number of threads per core. More threads are a typing error: they use memory and gain nothing.
pub const MOST_PER_CORE: usize = 16;

/// Address space of a thread's stack, bytes: the default of Rust's threads.
const STACK: usize = 2 << 20;

/// Memory to reserve in addition to the stacks, bytes.
const HEADROOM: usize = 64 << 20;

/// Address space that glibc reserves for the heap of a thread ("arena"), bytes.
const ARENA: usize = 64 << 20;

/// Maximum number of arenas of glibc per core.
const ARENAS_PER_CORE: usize = 8;

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the maximum number of threads of a pool on this machine.
pub fn most() -> usize {
    MOST_PER_CORE * cores()
}

/// Checks that a number of threads is plausible on this machine.
///
/// # Errors
/// Zero, or more than [`MOST_PER_CORE`] per core.
pub fn check_number(threads: usize) -> Result<()> {
    if threads == 0 {
        return Err(Error::input("an engine needs at least one thread")
            .hint("leave the number of threads out to use every core"));
    }
    let most = most();
    if threads > most {
        return Err(Error::input(format!(
            "{threads} threads are more than {MOST_PER_CORE} for each core of this machine: they would \
             only wait for each other"
        ))
        .hint(format!(
            "ask for at most {most}, or leave the number of threads out to use every core"
        )));
    }
    Ok(())
}

/// Returns whether the address space of this process is limited (`ulimit -v`). `false` where that is unknown.
fn is_address_space_limited() -> bool {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let row = limits
        .lines()
        .find_map(|row| row.strip_prefix("Max address space"));
    let soft = row.and_then(|row| row.split_whitespace().next());
    soft.is_some_and(|soft| soft != "unlimited")
}

/// Returns the memory that `threads` threads need to start, bytes. In a limited address space their arenas count:
/// those of the first threads take the space of the stacks of the last.
fn room_for(threads: usize, is_limited: bool) -> usize {
    let arenas = threads.min(ARENAS_PER_CORE * cores());
    let arenas = if is_limited { arenas * ARENA } else { 0 };
    let stacks = threads.saturating_mul(STACK);
    stacks.saturating_add(arenas).saturating_add(HEADROOM)
}

/// Checks that the memory limit suffices to start `threads` threads, or the default number of a pool. Without
/// this check, a pool fails after it has started most threads. If they have used up the memory, the start or the
/// first allocation of the next ends the process.
///
/// # Errors
/// Too little memory.
pub fn check_room(threads: Option<usize>) -> Result<()> {
    let named = std::env::var("RAYON_NUM_THREADS").ok();
    let named = named
        .and_then(|n| n.parse().ok())
        .filter(|&n: &usize| n > 0);
    let threads = threads.or(named).unwrap_or_else(cores);
    let mut room: Vec<u8> = Vec::new();
    let reserved = room.try_reserve_exact(room_for(threads, is_address_space_limited()));
    // The compiler may remove an unused allocation.
    std::hint::black_box(&room);
    reserved.map_err(|_| refused(format!("there is no memory for {threads}")))
}

/// Returns the error if the system does not start threads.
pub fn refused(why: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Io,
        format!("the operating system does not start the threads that are needed: {why}"),
    )
    .hint(
        "raise the limits on memory and processes (`ulimit -v`, `ulimit -u`, or those of the container), or \
         need fewer: --threads for the engine, RAYON_NUM_THREADS for all else",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_make_no_sense_are_refused_before_anything_starts() {
        assert!(check_number(1).is_ok());
        assert!(check_number(MOST_PER_CORE * cores()).is_ok());
        for number in [0, MOST_PER_CORE * cores() + 1, 100_000, usize::MAX] {
            let error = check_number(number).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Input, "{number}");
        }
    }

    #[test]
    fn heaps_of_threads_count_where_the_address_space_is_limited() {
        let heaps = room_for(2, true) - room_for(2, false);
        assert_eq!(heaps, 2 * ARENA);
        let most_heaps = room_for(100_000, true) - room_for(100_000, false);
        assert_eq!(most_heaps, ARENAS_PER_CORE * cores() * ARENA);
    }

    #[test]
    fn stacks_that_no_address_space_holds_are_refused() {
        assert!(check_room(None).is_ok());
        let error = check_room(Some(usize::MAX)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.hint_text().is_some());
    }
}
