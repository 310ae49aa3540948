//! Finds what limits a program that works in steps, on the CPU or on a GPU, and the distance from
//! the limits of the hardware. Independent of any particular program.
//!
//! 1. A [`Recorder`] takes spans, counters and steps while the program runs. A recorder that is off
//!    costs a branch a call, so the calls can stay in.
//! 2. The measured window opens and closes at [`Synchronised`] moments, when the device has nothing
//!    to do. Only such a window becomes a [`Recording`].
//! 3. [`analyse`] gives each nanosecond of the window to one row of a budget, makes statistics of
//!    stages, a timeline and rooflines, and evaluates rules with thresholds: a [`Profile`].
//! 4. The profile is written as JSON ([`write_profile`]), Markdown ([`profile_markdown`]) and for a
//!    terminal ([`profile_text`]); [`compare()`] compares two.
//!
//! # Any Rust program
//!
//! ```
//! use dapple_profile::profile::Phase;
//! use dapple_profile::{Recorder, Setup, Synchronised, analyse, profile_text};
//!
//! let recorder = Recorder::new();
//! recorder.begin_window(Synchronised::host_only());
//! for step in 0..20 {
//!     {
//!         let _span = recorder.span("solve", Phase::Forward);
//!         let values: Vec<f64> = (0..1000).map(|i| f64::from(i).sqrt()).collect();
//!         recorder.counter("values", "", step, values.len() as f64);
//!     }
//!     recorder.end_step(step);
//! }
//! recorder.end_window(Synchronised::host_only());
//!
//! let (profile, _trace) = analyse(&recorder.finish()?, &Setup::default())?;
//! assert_eq!(profile.step.count, 20);
//! assert_eq!(profile.stages[0].name, "solve");
//! println!("{}", profile_text(&profile));
//! # Ok::<(), dapple_profile::Error>(())
//! ```
//!
//! # A program with a GPU
//!
//! The device's own clock times the stages; once read back they are added to the same time axis.
//! The program waits itself: [`Synchronised::after`] takes the function that waits.
//!
//! ```
//! use dapple_profile::profile::Phase;
//! use dapple_profile::{Recorder, Setup, Span, Stage, Synchronised, Track, analyse};
//!
//! # fn wait_for_the_device() -> Result<(), dapple_profile::Error> { Ok(()) }
//! # fn timestamps() -> Vec<(&'static str, i64, u64)> { Vec::new() }
//! let recorder = Recorder::new();
//! let device_clock_zero = std::time::Instant::now();
//!
//! recorder.begin_window(Synchronised::after(wait_for_the_device)?);
//! {
//!     let _span = recorder.span("enqueue", Phase::Host);
//!     // ... record and submit step 0 ...
//! }
//! recorder.end_step(0); // or end_step_at, when its last timestamp is known
//! recorder.end_window(Synchronised::after(wait_for_the_device)?);
//!
//! let offset = recorder.offset_of(device_clock_zero);
//! for (name, start_ns, duration_ns) in timestamps() {
//!     let span = Span::new(name, start_ns + offset, duration_ns).step(0);
//!     recorder.add_span(Track::Device, span);
//! }
//! let setup = Setup {
//!     stages: vec![Stage::new("blur", Phase::Forward).cost(8e6, 4e6)],
//!     ..Setup::default()
//! };
//! let (profile, _trace) = analyse(&recorder.finish()?, &setup)?;
//! assert!(!profile.method.device_timestamps, "no span came, and the report says so");
//! # Ok::<(), dapple_profile::Error>(())
//! ```
//!
//! # Spans of `tracing`
//!
//! With the feature `tracing`, `layer::Layer` records the spans of a program that has them already.

// The guide's example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/PROFILE_FORMAT.md")]
struct Guide;

mod analyse;
pub mod ceilings;
mod compare;
mod control;
mod counters;
mod diagnosis;
pub mod flamegraph;
mod format;
pub mod html;
mod json;
#[cfg(feature = "tracing")]
pub mod layer;
mod markdown;
#[cfg(test)]
mod planted;
#[cfg(test)]
mod planted_ranks;
pub mod profile;
mod rank_rules;
mod record;
mod recording;
pub mod roofline;
#[cfg(feature = "samples")]
pub mod samples;
mod setup;
mod stage_rules;
mod stages;
mod stats;
mod sweep;
mod table;
mod terminal;
pub mod trace;
mod tracks;
#[cfg(test)]
mod wording;
mod words;

pub use analyse::{analyse, kernels_of};
pub use compare::{Comparison, LEAST_CHANGE, Ratio, Row, RowKind, compare};
pub use control::ControlTimer;
pub use counters::Counters;
pub use dapple_base::{Error, ErrorKind, Result};
pub use json::{from_json, read_profile, to_json, write_profile};
pub use markdown::{comparison_markdown, profile_markdown};
pub use profile::Profile;
pub use record::{Recorder, SpanGuard};
pub use recording::{Name, Recording, Span, Synchronised, Track};
pub use setup::{Counts, Imbalance, RankLoad, Setup, Stage};
pub use terminal::{comparison_text, profile_text};
