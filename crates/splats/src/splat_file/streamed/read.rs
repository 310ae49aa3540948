//! Reads the finest level from its files.
//!
//! 1. Runs of the finest level are gathered from the tree's leaves, and compared. Each run is within its file, and no
//!    Gaussian is in two of them, so that the number of splats never exceeds that of the files.
//! 2. Files are read one after the other, and their runs copied, in the order of files.
//! 3. The environment follows.
//!
//! [`read_detail_level`] reads another level, without the environment.

use super::META;
use super::meta::{Meta, Node, Run, damaged};
use crate::order::{append, gather};
use crate::splat_file::files::{Files, Folder, SiblingFiles, is_inside};
use crate::splat_file::{SplatMetadata, sog};
use crate::{Error, Progress, Result, Splats};
use dapple_base::bounded;
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum size of a `lod-meta.json`, bytes: about 150 per leaf, and leaves have thousands of Gaussians.
const META_BYTES: u64 = 64 << 20;

/// Reads the folder of this `lod-meta.json`.
pub(in crate::splat_file) fn read_folder(
    path: &Path,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    let bytes = bounded::read("cannot read the file", path, META_BYTES)?;
    let folder = Folder(path.parent().unwrap_or(Path::new("")));
    parse_beside(&bytes, &folder, progress).map_err(|e| sog::within(e, path))
}

/// Returns the error for a `lod-meta.json` whose folder is not known.
pub(in crate::splat_file) fn parse_meta_alone(bytes: &[u8]) -> Result<(Splats, SplatMetadata)> {
    Meta::parse(bytes)?;
    Err(
        Error::unsupported("a lod-meta.json holds no splats: the folders next to it do")
            .at(META)
            .hint("read it by its path"),
    )
}

/// Reads a `lod-meta.json`, and the files that it names.
pub(in crate::splat_file) fn parse_beside(
    bytes: &[u8],
    files: &dyn Files,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    let meta = Meta::parse(bytes)?;
    let finest = levels_of(&meta.tree).first().copied();
    let finest = finest.ok_or_else(|| damaged("no level has a Gaussian".to_owned()))?;
    let (mut splats, mut metadata) = parse_level(&meta, finest, files, progress)?;
    if let Some(name) = &meta.environment {
        let (part, beside) = sog_file(name, files, progress)?;
        let named = |note| format!("{name}: {note}");
        metadata.notes.extend(beside.notes.into_iter().map(named));
        metadata.notes.push(format!(
            "the last {} Gaussians are the scene's environment, which other levels of detail share",
            part.len()
        ));
        append(&mut splats, part);
    }
    if finest > 0 {
        let note = format!("level {finest} is the finest that has Gaussians");
        metadata.notes.push(note);
    }
    Ok((splats, metadata))
}

/// Reads one level from its files, without the environment.
fn parse_level(
    meta: &Meta,
    level: u32,
    files: &dyn Files,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    let runs = disjoint_runs(&meta.tree, level)?;
    check_names(&meta.filenames)?;
    let (mut splats, mut metadata) = (Splats::empty(0), SplatMetadata::default());
    metadata.notes.extend(compare_counts(meta, level, &runs));
    let mut unused = 0;
    for runs in runs.chunk_by(|a, b| a.file == b.file) {
        let file = runs[0].file;
        let Some(name) = meta.filenames.get(file) else {
            return Err(damaged(format!(
                "a leaf is in file {file}, and {} are named",
                meta.filenames.len()
            )));
        };
        let (part, beside) = sog_file(name, files, progress)?;
        metadata.antialiased |= beside.antialiased;
        metadata.moved = beside.moved;
        let named = |note| format!("{name}: {note}");
        metadata.notes.extend(beside.notes.into_iter().map(named));
        let order = indices_of_runs(runs, name, part.len())?;
        let is_whole = order.iter().copied().eq(0..part.len());
        unused += part.len() - order.len();
        append(
            &mut splats,
            if is_whole {
                part
            } else {
                gather(&part, &order)
            },
        );
    }
    if unused > 0 {
        metadata.notes.push(format!(
            "{unused} Gaussians of its files are in no leaf of the tree, unread"
        ));
    }
    Ok((splats, metadata))
}

/// Level of detail in the folder of a `lod-meta.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DetailLevel {
    /// Number of the level; 0 is the finest.
    pub level: u32,
    /// Number of Gaussians.
    pub gaussians: u64,
    /// Bytes of the files that have these Gaussians.
    pub bytes: u64,
}

/// Reads the `lod-meta.json` at `path`, without its files.
fn meta_at(path: &Path) -> Result<Meta> {
    let bytes = bounded::read("cannot read the file", path, META_BYTES)?;
    Meta::parse(&bytes).map_err(|e| sog::within(e, path))
}

/// Lists the levels of detail of the `lod-meta.json` at `path`, the finest first. Levels without Gaussians are omitted.
///
/// # Errors
/// A file that cannot be read or is no `lod-meta.json`.
pub fn detail_levels(path: &Path) -> Result<Vec<DetailLevel>> {
    let meta = meta_at(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut levels = Vec::new();
    for level in levels_of(&meta.tree) {
        let runs = disjoint_runs(&meta.tree, level)?;
        let names = runs.chunk_by(|a, b| a.file == b.file);
        let names = names.filter_map(|runs| meta.filenames.get(runs[0].file));
        levels.push(DetailLevel {
            level,
            gaussians: count_of(&runs),
            bytes: names.map(|name| bytes_of(folder, name)).sum(),
        });
    }
    Ok(levels)
}

/// Reads a level of detail from the folder of the `lod-meta.json` at `path`.
///
/// # Errors
/// A level without Gaussians, and faults of the files.
pub fn read_detail_level(
    path: &Path,
    level: u32,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    let meta = meta_at(path)?;
    if !levels_of(&meta.tree).contains(&level) {
        return Err(Error::input(format!("level {level} has no Gaussians")).at_path(path));
    }
    let folder = Folder(path.parent().unwrap_or(Path::new("")));
    parse_level(&meta, level, &folder, progress).map_err(|e| sog::within(e, path))
}

/// Returns the runs of a level in the order of files and offsets, and refuses runs that overlap.
fn disjoint_runs(tree: &Node, level: u32) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    gather_runs(tree, level, &mut runs);
    runs.sort_unstable();
    for (before, run) in runs.iter().zip(runs.iter().skip(1)) {
        if run.file == before.file && run.offset < before.offset.saturating_add(before.count) {
            return Err(damaged(format!(
                "Gaussian {} of file {} is in two leaves",
                run.offset, run.file
            )));
        }
    }
    Ok(runs)
}

/// Refuses files that are named twice.
fn check_names(filenames: &[String]) -> Result<()> {
    // One file under two numbers would count twice with the bytes of one.
    let mut names: Vec<&str> = filenames.iter().map(|name| plain(name)).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(damaged(format!("{:?} is named twice", pair[0]))),
        None => Ok(()),
    }
}

/// Returns the indices of the Gaussians in these runs of the file `name`, which has `count` Gaussians.
fn indices_of_runs(runs: &[Run], name: &str, count: usize) -> Result<Vec<usize>> {
    let mut order = Vec::with_capacity(count);
    for run in runs {
        let end = run.offset.saturating_add(run.count);
        if end > count {
            return Err(damaged(format!(
                "a leaf has {} Gaussians of {name} from {} on, and there are {count}",
                run.count, run.offset
            )));
        }
        order.extend(run.offset..end);
    }
    Ok(order)
}

/// Returns a note if the counts of `lod-meta.json` differ from those of its tree.
fn compare_counts(meta: &Meta, level: u32, runs: &[Run]) -> Option<String> {
    let held = count_of(runs);
    let promised = *meta.counts.get(level as usize)?;
    (promised != held).then(|| {
        format!(
            "{META} promises {promised} Gaussians of level {level}, and its tree has {held}: these are read"
        )
    })
}

/// Removes the folder prefix from a name.
fn plain(name: &str) -> &str {
    name.strip_prefix("./").unwrap_or(name)
}

/// Reads a SOG folder by its `meta.json`, or a bundle.
fn sog_file(
    name: &str,
    files: &dyn Files,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    let name = plain(name);
    if !is_inside(name) {
        return Err(damaged(format!(
            "{META} names {name:?}, which is no {} in a folder and no .sog bundle next to it",
            sog::META
        )));
    }
    let is_bundle = name.to_lowercase().ends_with(".sog");
    if !is_bundle && !name.ends_with(".json") {
        let what = format!(
            "{META} names {name:?}, which is neither a {} in a folder nor a .sog bundle",
            sog::META
        );
        return Err(Error::unsupported(what)
            .at(META)
            .hint("Dapple reads streamed SOG: convert each of its files by itself"));
    }
    let bytes = files.get(name)?;
    let read = match is_bundle {
        true => sog::parse(&bytes, progress),
        false => sog::parse_beside(&bytes, &SiblingFiles::new(files, name), progress),
    };
    read.map_err(|e| match e.place() {
        Some(place) if place.contains(name) => e,
        Some(place) => {
            let place = format!("{name}, {place}");
            e.at(place)
        }
        None => e.at(name.to_owned()),
    })
}

/// Returns the levels with Gaussians in any leaf.
fn levels_of(node: &Node) -> BTreeSet<u32> {
    let own = node.lods.iter().flatten();
    let own = own
        .filter(|(_, run)| run.count > 0)
        .map(|(&level, _)| level);
    let below = node.children.iter().flatten().flat_map(levels_of);
    own.chain(below).collect()
}

/// Returns the number of Gaussians of runs.
fn count_of(runs: &[Run]) -> u64 {
    runs.iter()
        .fold(0, |sum, run| sum.saturating_add(run.count as u64))
}

fn gather_runs(node: &Node, level: u32, into: &mut Vec<Run>) {
    let own = node.lods.iter().filter_map(|lods| lods.get(&level));
    into.extend(own.filter(|run| run.count > 0));
    for child in node.children.iter().flatten() {
        gather_runs(child, level, into);
    }
}

/// Returns the bytes of a `lod-meta.json` and of all files that it names.
pub(in crate::splat_file) fn size_bytes(path: &Path) -> u64 {
    let folder = path.parent().unwrap_or(Path::new(""));
    let meta = bounded::read("cannot read the file", path, META_BYTES)
        .ok()
        .and_then(|bytes| Meta::parse(&bytes).ok());
    let names = meta
        .iter()
        .flat_map(|m| m.filenames.iter().chain(&m.environment));
    size(path) + names.map(|name| bytes_of(folder, name)).sum::<u64>()
}

/// Returns the size of a file on the disk; 0 if there is none.
fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// Returns the bytes of a SOG folder by its `meta.json`, or of a bundle; 0 if it is outside the folder.
fn bytes_of(folder: &Path, name: &str) -> u64 {
    let name = plain(name);
    match name.to_lowercase().ends_with(".sog") {
        _ if !is_inside(name) => 0,
        true => size(&folder.join(name)),
        false => sog::size_bytes(&folder.join(name)),
    }
}
