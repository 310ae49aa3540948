//! [`Sampler`]: where a program's CPU time goes, by looking at its threads many times a second;
//! without root, without other programs.
//!
//! 1. `signal` has the system interrupt whichever thread runs, `hz` times in a second of CPU time,
//!    and keeps its registers and stack.
//! 2. A thread of its own unwinds them (`stack`) and counts equal ones (`taken`).
//! 3. [`Sampler::finish`] looks the addresses up: names, and with debug information also the functions
//!    that were inlined there. It is exact by address: two samples in one function may lie in
//!    different inlined ones, and the crates that merge stacks by function mix those up.
//! 4. What starts a thread is cut off; threads whose names differ by a number count as one.
//!
//! A sample stands for `1 / hz` seconds of CPU time. Waiting is not seen. Linux interrupts at its own
//! ticks: on many systems 250 samples a second are the most, whatever is asked for.

#[cfg(not(all(
    any(target_os = "linux", target_os = "macos"),
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod refused;
#[cfg(all(
    any(target_os = "linux", target_os = "macos"),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod signal;
#[cfg(all(
    any(target_os = "linux", target_os = "macos"),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod stack;
#[cfg(all(
    any(target_os = "linux", target_os = "macos"),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod taken;

use crate::flamegraph;
use dapple_base::atomic::write_atomically;
#[cfg(not(all(
    any(target_os = "linux", target_os = "macos"),
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
pub use refused::Sampler;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;
#[cfg(all(
    any(target_os = "linux", target_os = "macos"),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub use taken::Sampler;

/// Samples a second of CPU time that are fine enough for seconds of work and cost nothing that shows.
/// Not a multiple of what programs do in even intervals.
pub const DEFAULT_HZ: u32 = 199;

/// Why there are no samples.
#[derive(Debug)]
#[non_exhaustive]
pub enum SampleError {
    /// Not on this system.
    Unsupported,
    /// Somebody samples this process already.
    Busy,
    /// Not so often; the number asked for.
    Frequency(u32),
    /// The system refused a call.
    Refused(std::io::Error),
    /// No sample was taken.
    Nothing {
        /// How long was waited for one.
        wall: Duration,
    },
    /// The picture cannot be written.
    Write(dapple_base::Error),
}

impl SampleError {
    #[cfg(all(
        any(target_os = "linux", target_os = "macos"),
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    fn refused() -> Self {
        Self::Refused(std::io::Error::last_os_error())
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unsupported => {
                "it works on Linux and macOS, x86-64 and aarch64; leave the flamegraph out here"
            }
            Self::Busy => "end the other profiler of this process first",
            Self::Frequency(_) => "ask for 1 to 1000 samples a second",
            Self::Refused(_) => "a sandbox may forbid timers; leave the flamegraph out there",
            Self::Nothing { .. } => {
                "sample longer work: there is one sample in some 5 ms of CPU time"
            }
            Self::Write(_) => "name a file in a folder that exists and can be written to",
        }
    }
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("CPU samples cannot be taken on this system"),
            Self::Busy => f.write_str("this process is being sampled already"),
            Self::Frequency(hz) => write!(f, "{hz} samples a second cannot be taken"),
            Self::Refused(source) => write!(f, "the system refuses to sample: {source}"),
            Self::Nothing { wall } => write!(
                f,
                "there is no CPU sample: the program used hardly any CPU time in {:.2} s",
                wall.as_secs_f64()
            ),
            Self::Write(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for SampleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(source) => Some(source),
            Self::Write(error) => Some(error),
            _ => None,
        }
    }
}

/// Stacks and how often each was seen.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// By folded stack: thread and functions, outermost first, with `;` between.
    stacks: BTreeMap<String, u64>,
    hz: u32,
    wall: Duration,
    lost: u64,
}

impl Samples {
    /// Samples taken.
    pub fn len(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Samples that were due and could not be kept.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How long was sampled.
    pub fn wall(&self) -> Duration {
        self.wall
    }

    /// Samples asked for in a second of CPU time.
    pub fn hz(&self) -> u32 {
        self.hz
    }

    /// Stacks with their counts, `thread;outermost;..;innermost count` a line: what flamegraph tools
    /// read.
    pub fn folded(&self) -> String {
        let lines = self
            .stacks
            .iter()
            .map(|(stack, n)| format!("{stack} {n}\n"));
        lines.collect()
    }

    /// Folded stacks and how often each was seen.
    pub fn stacks(&self) -> impl Iterator<Item = (&str, u64)> {
        self.stacks.iter().map(|(stack, &n)| (stack.as_str(), n))
    }

    /// A flamegraph that opens in any browser.
    ///
    /// # Errors
    /// Without samples.
    pub fn to_svg(&self, title: &str) -> Result<String, SampleError> {
        if self.is_empty() {
            return Err(SampleError::Nothing { wall: self.wall });
        }
        let lost = match self.lost {
            0 => String::new(),
            lost => format!(", {lost} lost"),
        };
        let note = format!(
            "{} samples in {:.1} s, {} asked for in a second of CPU time{lost}",
            self.len(),
            self.wall.as_secs_f64(),
            self.hz
        );
        Ok(flamegraph::svg(self.stacks(), title, &note))
    }

    /// Writes [`Self::to_svg`] to a file. It is written beside and moved there, so that a full disk
    /// leaves what was there.
    ///
    /// # Errors
    /// Without samples; when the file cannot be written.
    pub fn write_flamegraph(&self, path: &Path, title: &str) -> Result<(), SampleError> {
        let svg = self.to_svg(title)?;
        write_atomically(path, |out| out.write_all(svg.as_bytes())).map_err(SampleError::Write)
    }
}
