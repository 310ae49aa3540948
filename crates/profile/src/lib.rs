//! Says what limits a program that works in steps, on the processor or on a GPU, and how far it is
//! from what the hardware can do. Knows nothing of any particular program.

mod analyse;
pub mod ceilings;
mod compare;
mod diagnosis;
mod error;
pub mod flamegraph;
mod format;
pub mod html;
mod json;
#[cfg(feature = "tracing")]
pub mod layer;
mod markdown;
pub mod profile;
mod record;
mod recording;
pub mod roofline;
#[cfg(feature = "samples")]
pub mod samples;
mod setup;
mod stages;
mod stats;
mod sweep;
mod table;
mod terminal;
pub mod trace;
mod tracks;
mod words;

pub use analyse::{analyse, kernels_of};
pub use compare::{Comparison, Ratio, Row, RowKind, compare};
pub use error::{Error, ErrorKind, Result};
pub use json::{from_json, read_profile, to_json, write_profile};
pub use markdown::{comparison_markdown, profile_markdown};
pub use profile::Profile;
pub use record::{Recorder, SpanGuard};
pub use recording::{Name, Recording, Span, Synchronised, Track};
pub use setup::{Counts, Imbalance, Setup, Stage};
pub use terminal::{comparison_text, profile_text};
