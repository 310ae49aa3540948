//! Reads and writes splat files. The content determines the format, or the name if the content has no signature.
//!
//! A format is one file of this folder and a row of [`Format`] in `format`: detection of its content, reader, writer,
//! and limits. `reading` and `writing` use that list; `metadata`, `options`, `watch`, `packed` and `files` are below the
//! formats.

mod antimatter;
mod axes;
mod checked;
mod described;
mod extras;
mod files;
mod foreign;
mod format;
pub mod glb;
mod ksplat;
mod metadata;
pub mod nearest;
mod options;
mod packed;
mod reading;
mod sizes;
mod sog;
mod spz;
mod streamed;
pub(crate) mod watch;
mod writing;

pub use axes::Axes;
pub use described::describes_splats;
pub use foreign::foreign;
pub use format::Format;
pub use metadata::SplatMetadata;
pub use nearest::NearestBy;
pub(crate) use options::NON_FINITE_HINT;
pub use options::{NonFinite, ReadOptions, SpzVersion, WriteOptions};
pub(crate) use packed::{alpha, cut_harmonics, largest, linear_scale, logit, unit};
pub use reading::{
    parse, parse_files, parse_with, read, read_with, read_with_progress, size_bytes,
};
pub use streamed::{DetailLevel, detail_levels, read_detail_level};
pub use writing::{encode, encode_files, write, write_with, write_with_progress};

#[cfg(test)]
mod tests;
