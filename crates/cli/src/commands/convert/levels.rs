//! Levels of detail of a written `lod-meta.json`: their sizes and losses, read back from the files.

use super::loss::{Judge, Loss};
use crate::console::Console;
use crate::machine::human_bytes;
use crate::training_display::gaussians;
use dapple::scene::Result;
use dapple::scene::splat_file::{DetailLevel, Format, detail_levels, read_detail_level};
use serde::Serialize;
use std::path::Path;

/// Level of detail of a written file.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Level {
    /// Number of the level; 0 is the finest.
    level: u32,
    gaussians: u64,
    /// Bytes of its files.
    bytes: u64,
    /// Loss against the source splats; `None` if no loss was measured.
    #[serde(flatten)]
    loss: Option<Loss>,
}

/// Lists the levels of detail of a file, and renders each level; none for other formats. `loss`: that of the file, whose
/// splats are those of the finest level.
pub(super) fn of(
    path: &Path,
    loss: Option<&Loss>,
    mut judge: Option<&mut Judge>,
    console: &Console,
) -> Result<Vec<Level>> {
    if Format::of_name(path)? != Format::StreamedSog {
        return Ok(Vec::new());
    }
    let mut measured = |found: &DetailLevel| match (&mut judge, found.level) {
        (_, 0) => Ok(loss.cloned()),
        (Some(judge), level) => {
            let (splats, _) = read_detail_level(path, level, &console.progress())?;
            judge.loss(&splats, console).map(Some)
        }
        (None, _) => Ok(None),
    };
    let found = detail_levels(path)?;
    let levels = found.iter().map(|found| {
        Ok(Level {
            level: found.level,
            gaussians: found.gaussians,
            bytes: found.bytes,
            loss: measured(found)?,
        })
    });
    levels.collect()
}

/// Returns the levels as lines of text, each after a line break.
pub(super) fn shown(levels: &[Level]) -> String {
    let lines = levels.iter().map(|level| {
        let size = human_bytes(level.bytes);
        let loss = level.loss.as_ref().map(Loss::of_level);
        format!(
            "\nlevel {}: {}, {size}{}",
            level.level,
            gaussians(level.gaussians),
            loss.unwrap_or_default()
        )
    });
    lines.collect()
}
