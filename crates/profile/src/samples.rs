//! [`Sampler`]: shows the CPU time of a program by function, by sampling its threads many times a second, without root
//! and without other programs.
//!
//! 1. `signal` has the system interrupt the running thread, `hz` times in a second of CPU time, and stores its
//!    registers and stack.
//! 2. A separate thread unwinds them (`stack`) and counts equal stacks (`taken`).
//! 3. [`Sampler::finish`] resolves the addresses: names, and with debug information also the functions that were
//!    inlined there. It is exact by address: two samples in one function may be in different inlined functions, and
//!    crates that merge stacks by function mix them up.
//! 4. The functions that start a thread are removed; threads whose names differ by a number count as one.
//!
//! A sample stands for `1 / hz` seconds of CPU time. Waiting is not sampled. Linux interrupts at its own ticks: on many
//! systems at most 250 samples a second are possible, for any `hz`.

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

/// Samples a second of CPU time: fine enough for seconds of work, with no visible cost. Not a multiple of the
/// frequencies of regular work.
pub const DEFAULT_HZ: u32 = 199;

/// Reason that there are no samples.
#[derive(Debug)]
#[non_exhaustive]
pub enum SampleError {
    /// Sampling is not supported on this system.
    Unsupported,
    /// This process is already sampled.
    Busy,
    /// A frequency out of range.
    Frequency(u32),
    /// The system refused a call.
    Refused(std::io::Error),
    /// No sample was taken.
    Nothing {
        /// Duration of the sampling.
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

    /// Returns advice for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unsupported => {
                "it works on Linux and macOS, x86-64 and aarch64; omit the flamegraph here"
            }
            Self::Busy => "end the other profiler of this process first",
            Self::Frequency(_) => "ask for 1 to 1000 samples a second",
            Self::Refused(_) => "a sandbox may forbid timers; omit the flamegraph there",
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

/// Stacks, and the number of samples of each.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// By folded stack: thread and functions, outermost first, with `;` between.
    stacks: BTreeMap<String, u64>,
    hz: u32,
    wall: Duration,
    lost: u64,
}

impl Samples {
    /// Returns the number of samples.
    pub fn len(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Returns true if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Returns the number of samples that were due and could not be stored.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the duration of the sampling.
    pub fn wall(&self) -> Duration {
        self.wall
    }

    /// Returns the requested samples in a second of CPU time.
    pub fn hz(&self) -> u32 {
        self.hz
    }

    /// Returns stacks with their counts, `thread;outermost;..;innermost count` a line: the input format of flamegraph
    /// tools.
    pub fn folded(&self) -> String {
        let lines = self
            .stacks
            .iter()
            .map(|(stack, n)| format!("{stack} {n}\n"));
        lines.collect()
    }

    /// Returns folded stacks and the number of samples of each.
    pub fn stacks(&self) -> impl Iterator<Item = (&str, u64)> {
        self.stacks.iter().map(|(stack, &n)| (stack.as_str(), n))
    }

    /// Returns a flamegraph that opens in any browser.
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
            "{} samples in {:.1} s, {} requested in a second of CPU time{lost}",
            self.len(),
            self.wall.as_secs_f64(),
            self.hz
        );
        Ok(flamegraph::svg(self.stacks(), title, &note))
    }

    /// Writes [`Self::to_svg`] to a file. A temporary file is written and renamed, so that a full disk does not damage
    /// an earlier file.
    ///
    /// # Errors
    /// Without samples; when the file cannot be written.
    pub fn write_flamegraph(&self, path: &Path, title: &str) -> Result<(), SampleError> {
        let svg = self.to_svg(title)?;
        write_atomically(path, |out| out.write_all(svg.as_bytes())).map_err(SampleError::Write)
    }
}
