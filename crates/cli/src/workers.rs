//! Thread pool shared by all commands, separate from an engine's threads: reads photos, scores, and writes files.

use dapple::cpu::threads;
use dapple::scene::{Result, printable};

/// Environment variables with the number of threads of a pool, in the order in which rayon reads them.
const VARIABLES: [&str; 2] = ["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"];

/// Starts the threads. Without this call the first use would start them, and panic if the system refuses.
///
/// # Errors
/// The system grants no threads, or no memory for their stacks.
pub fn start() -> Result<()> {
    let place = "the threads that read and score photos";
    threads::check_room(None).map_err(|e| e.at(place))?;
    let workers = rayon::ThreadPoolBuilder::new();
    workers
        .build_global()
        .map_err(|e| threads::refused(&e).at(place).caused_by(e))
}

/// Removes numbers of threads from the environment that no pool can use, and returns a note for each. Pools then start
/// one thread per core.
pub fn drop_bad_numbers() -> Vec<String> {
    let mut notes = Vec::new();
    for name in VARIABLES {
        let Some(value) = std::env::var_os(name) else {
            continue;
        };
        let value = value.to_string_lossy();
        if is_usable(&value) {
            continue;
        }
        // SAFETY: called at the start of the program; no other thread runs yet.
        unsafe { std::env::remove_var(name) };
        notes.push(format!(
            "note: {name}={} is not used: it takes 1 to {} threads on this machine; one per core is started",
            printable(&value),
            threads::most()
        ));
    }
    notes
}

fn is_usable(value: &str) -> bool {
    let number = value.trim().parse::<usize>();
    number.is_ok_and(|number| threads::check_number(number).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_threads_are_bounded() {
        let most = threads::most().to_string();
        for usable in ["1", "2", &most] {
            assert!(is_usable(usable), "{usable}");
        }
        let beyond = (threads::most() + 1).to_string();
        for bad in ["", "0", "-1", "abc", "1.5", "99999999999999999999", &beyond] {
            assert!(!is_usable(bad), "{bad}");
        }
    }
}
