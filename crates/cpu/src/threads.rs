//! How many threads make sense, and what is said when the system starts none.

use dapple_scene::{Error, ErrorKind, Result};

/// More threads than this for each core are a typing error: they cost memory, and gain nothing.
pub const MOST_PER_CORE: usize = 16;

/// What a thread's stack takes of the address space: the default of Rust's threads, bytes.
const STACK: usize = 2 << 20;

/// What has to be left beside the stacks, bytes.
const HEADROOM: usize = 64 << 20;

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Refuses a number of threads that makes no sense on this machine.
///
/// # Errors
/// None, or more than [`MOST_PER_CORE`] for each core.
pub fn check_number(threads: usize) -> Result<()> {
    if threads == 0 {
        return Err(Error::input("an engine needs at least one thread")
            .hint("leave the number of threads out to use every core"));
    }
    let most = MOST_PER_CORE * cores();
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

/// Refuses to start `threads` threads, or as many as a pool starts by default, where the limit on memory has
/// no room for their stacks. A pool that finds out itself has started most of them, and where the rest of the
/// memory is gone with them, their first allocation ends the process.
///
/// # Errors
/// There is no room.
pub fn check_room(threads: Option<usize>) -> Result<()> {
    let named = std::env::var("RAYON_NUM_THREADS").ok();
    let named = named
        .and_then(|n| n.parse().ok())
        .filter(|&n: &usize| n > 0);
    let threads = threads.or(named).unwrap_or_else(cores);
    let mut room: Vec<u8> = Vec::new();
    let bytes = threads.saturating_mul(STACK).saturating_add(HEADROOM);
    let reserved = room.try_reserve_exact(bytes);
    // An allocation that nobody looks at may be left out.
    std::hint::black_box(&room);
    reserved.map_err(|_| refused(format!("there is no memory for the stacks of {threads}")))
}

/// The error of a system that does not start threads.
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
    fn stacks_that_no_address_space_holds_are_refused() {
        assert!(check_room(None).is_ok());
        let error = check_room(Some(usize::MAX)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.hint_text().is_some());
    }
}
