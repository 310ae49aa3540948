//! Checkpoints of models whose Gaussians several devices share: a file for each part, which has the format of
//! `checkpoint.safetensors` with the tensors of Gaussians only. The checkpoint itself has all other tensors, and as its
//! metadata `shards` the names and checksums of these files ([`Shards`]).
//!
//! 1. A run writes the files of the parts first and the checkpoint last, so that an existing checkpoint is whole.
//! 2. Names alternate between `checkpoint.a.0.safetensors` and `checkpoint.b.0.safetensors`: the files of the last checkpoint
//!    remain until the next is written. `checkpoint.before.safetensors` is the checkpoint before the last.
//! 3. Parts pass through memory one at a time. Splats and statistics of all Gaussians are held, moments are not.
//! 4. A run resumes on any number of devices: [`Shards::read_part`] reads the rows of any part.

use super::state::{
    TensorSource, gaussian_tensors, pack_moments, read_gaussians, read_splats, read_statistics,
};
use super::tensors::{CHECKSUM, Kind, Metadata, Reader, write as write_tensors};
use bytemuck::{Pod, Zeroable};
use dapple_engine::{OptimizerState, PARAM_GROUPS, Part, STATISTICS, Sharing, groups};
use dapple_scene::atomic::{remove_old, write_atomically};
use dapple_scene::{Error, Result, Splats, bounded};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Names of two sets of files, which checkpoints use in turn.
const SETS: [&str; 2] = ["a", "b"];

/// End of the name of every file.
const END: &str = ".safetensors";

/// Metadata of a checkpoint with the names of the files.
pub(super) const SHARDS: &str = "shards";

/// Files of a checkpoint with the Gaussians of each part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shards {
    /// Number of Gaussians of the model.
    total: usize,
    /// [`Part::block`] of the parts.
    block: usize,
    /// Files in the order of the parts.
    files: Vec<ShardFile>,
    /// Folder of the files.
    #[serde(skip)]
    folder: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ShardFile {
    name: String,
    crc32: String,
}

/// Place of the files of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPlace {
    /// Checkpoint that these files will belong to, or that they replace.
    pub checkpoint: PathBuf,
    /// Beginning of the names of the files.
    pub stem: &'static str,
    /// True for moments in 16 bits: [`super::Checkpoint::write_packed`].
    pub packs: bool,
}

/// Model whose moments are in files.
pub(crate) struct Written {
    pub(crate) shards: Shards,
    pub(crate) splats: Splats,
    /// Statistics only.
    pub(crate) state: OptimizerState,
}

impl ShardPlace {
    fn folder(&self) -> &Path {
        self.checkpoint.parent().unwrap_or(Path::new(""))
    }

    /// Returns the set of names that the existing checkpoint does not use.
    fn free_set(&self) -> &'static str {
        let used = named_by(&self.checkpoint).unwrap_or_default();
        let is_free = |set: &&&str| {
            let start = format!("{}.{set}.", self.stem);
            !used.iter().any(|name| name.starts_with(&start))
        };
        SETS.iter().find(is_free).copied().unwrap_or(SETS[0])
    }
}

/// Returns the path of the checkpoint before this one.
pub(crate) fn before(checkpoint: &Path) -> PathBuf {
    checkpoint.with_extension("before.safetensors")
}

/// Returns the names of the files of a checkpoint; `None` if it cannot be read.
fn named_by(checkpoint: &Path) -> Option<Vec<String>> {
    let file = bounded::open("cannot open the checkpoint", checkpoint).ok()?;
    let reader = Reader::open(file).ok()?;
    let shards = parsed(&reader).ok()??;
    Some(shards.files.into_iter().map(|file| file.name).collect())
}

/// Returns the metadata `shards` of a checkpoint; `None` if it holds its Gaussians itself.
fn parsed<R: std::io::Read + std::io::Seek>(reader: &Reader<R>) -> Result<Option<Shards>> {
    let Some(text) = reader.metadata(SHARDS) else {
        return Ok(None);
    };
    let shards: Shards = serde_json::from_str(text).map_err(|e| {
        super::contradiction("the names of its files of Gaussians cannot be read").caused_by(e)
    })?;
    let is_plain = |file: &ShardFile| is_shard_name(&file.name);
    match shards.block > 0 && !shards.files.is_empty() && shards.files.iter().all(is_plain) {
        true => Ok(Some(shards)),
        false => Err(super::contradiction(
            "the names of its files of Gaussians are not those of a run",
        )),
    }
}

/// Returns true for the name of a file with the Gaussians of a part.
pub(crate) fn is_shard_name(name: &str) -> bool {
    // Without folders: names come from a file.
    if name.contains(['/', '\\']) {
        return false;
    }
    let parts: Vec<&str> = name.split('.').collect();
    let [_, set, number, "safetensors"] = parts.as_slice() else {
        return false;
    };
    SETS.contains(set) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the files with the Gaussians of parts in a folder whose names begin with `stem`, in order.
pub(crate) fn files_in(folder: &Path, stem: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let start = format!("{stem}.");
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with(&start) && is_shard_name(name))
        .collect();
    names.sort();
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// Removes the files of parts that no checkpoint of `keep` names.
///
/// # Errors
/// A file cannot be removed.
pub(crate) fn remove_others(folder: &Path, stem: &str, keep: &[PathBuf]) -> Result<()> {
    let kept: Vec<String> = keep
        .iter()
        .flat_map(|path| named_by(path).unwrap_or_default())
        .collect();
    for path in files_in(folder, stem) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !kept.iter().any(|kept| *kept == name) {
            remove(&path)?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    remove_old("cannot remove an old file of Gaussians", path)
}

/// Stores an existing checkpoint with files of parts as the one before the next.
pub(super) fn keep_before(checkpoint: &Path) -> Result<()> {
    if named_by(checkpoint).is_none() {
        return Ok(());
    }
    let bytes = std::fs::read(checkpoint)
        .map_err(|e| Error::io("cannot read the checkpoint", checkpoint, e))?;
    write_atomically(&before(checkpoint), |out| out.write_all(&bytes))
}

impl Shards {
    /// Writes the parts of a model, one after the other. The inner error is that of a file.
    ///
    /// # Errors
    /// A lost device.
    pub(crate) fn write(place: &ShardPlace, engine: &mut dyn Sharing) -> Result<Result<Written>> {
        let parts = engine.parts();
        let (total, block) = parts
            .first()
            .map_or((0, 1), |part| (part.total, part.block));
        let set = place.free_set();
        let start = format!("{}.{set}", place.stem);
        let cleared = remove(&before(&place.checkpoint)).and_then(|()| {
            let old = files_in(place.folder(), &start);
            old.iter().try_for_each(|path| remove(path))
        });
        if let Err(error) = cleared {
            return Ok(Err(error));
        }
        let mut files = Vec::new();
        let mut model: Option<(Splats, OptimizerState)> = None;
        for part in parts {
            let (splats, state) = engine.download_part(part.number)?;
            let name = format!("{start}.{}{END}", part.number);
            let written = write_part(&place.folder().join(&name), (&splats, &state), place.packs);
            match written {
                Ok(crc32) => files.push(ShardFile { name, crc32 }),
                Err(error) => {
                    // A full disk needs the space for the results of the run.
                    for path in files_in(place.folder(), &start) {
                        let _ = remove(&path);
                    }
                    return Ok(Err(error));
                }
            }
            let degree = splats.sh_degree;
            let model = model
                .get_or_insert_with(|| (groups::zeros(total, degree), OptimizerState::default()));
            put(part, (&splats, &state), model);
        }
        let (splats, state) = model.unwrap_or_default();
        Ok(Ok(Written {
            shards: Self {
                total,
                block,
                files,
                folder: place.folder().to_owned(),
            },
            splats,
            state,
        }))
    }

    /// Returns the shards that a checkpoint in `folder` names; `None` if it holds its Gaussians itself.
    pub(super) fn named<R: std::io::Read + std::io::Seek>(
        reader: &Reader<R>,
        folder: Option<&Path>,
    ) -> Result<Option<Self>> {
        let Some(shards) = parsed(reader)? else {
            return Ok(None);
        };
        let folder = folder.ok_or_else(|| {
            Error::input("the Gaussians of this checkpoint are in files beside it")
                .hint("read it by its path")
        })?;
        Ok(Some(Self {
            folder: folder.to_owned(),
            ..shards
        }))
    }

    /// Returns the metadata of the checkpoint.
    pub(super) fn to_metadata(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| {
            Error::internal(format!("the checkpoint cannot be written: {e}")).caused_by(e)
        })
    }

    /// Returns the number of Gaussians.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the part whose Gaussians the file of this number has.
    fn part(&self, number: usize) -> Part {
        Part {
            number,
            engines: self.files.len(),
            total: self.total,
            block: self.block,
        }
    }

    /// Opens the files. `verifies` compares the checksums of their content too, which reads all of it.
    ///
    /// # Errors
    /// A file is missing, damaged, or of another checkpoint.
    pub(crate) fn open(&self, verifies: bool) -> Result<OpenShards> {
        let readers = self.files.iter().map(|file| {
            let path = self.folder.join(&file.name);
            let opened = bounded::open("cannot open a file of the checkpoint", &path);
            let opened = opened.and_then(Reader::open).and_then(|mut reader| {
                if reader.metadata(CHECKSUM) != Some(&file.crc32) {
                    return Err(Error::input("this file belongs to another checkpoint"));
                }
                if verifies {
                    reader.verify()?;
                }
                Ok(reader)
            });
            opened.map_err(|e| self.damaged(&e, &path))
        });
        let readers: Vec<Reader<File>> = readers.collect::<Result<_>>()?;
        let rows =
            |reader: &Reader<File>| Ok(reader.shape("splats.means")?.first().copied().unwrap_or(0));
        let rows: Vec<usize> = readers.iter().map(rows).collect::<Result<_>>()?;
        // Parts are counted only if the files have as many Gaussians as the model.
        let parts = || (0..self.files.len()).map(|number| self.part(number));
        let fits = self.total > 0
            && rows.iter().try_fold(0_usize, |sum, &n| sum.checked_add(n)) == Some(self.total)
            && parts().zip(&rows).all(|(part, &n)| part.len() == n);
        if !fits {
            return Err(super::contradiction(
                "its files of Gaussians have other numbers of them",
            ));
        }
        Ok(OpenShards {
            parts: parts().collect(),
            readers,
        })
    }

    fn damaged(&self, error: &Error, path: &Path) -> Error {
        let last = self.folder.join("checkpoint.safetensors");
        let before = before(&last);
        let hint = match before.is_file() {
            true => format!(
                "copy the file again, or resume from the checkpoint before: move {} to {}",
                before.display(),
                last.display()
            ),
            false => "copy the file again, or start the run again without --resume".to_owned(),
        };
        Error::new(error.kind(), error.what().to_owned())
            .at_path(path)
            .hint(hint)
    }
}

/// Writes the Gaussians of a part. Returns the checksum.
fn write_part(
    path: &Path,
    (splats, state): (&Splats, &OptimizerState),
    packs: bool,
) -> Result<String> {
    let moments = [&state.first_moments, &state.second_moments];
    let packed = packs.then(|| moments.map(pack_moments));
    let [mut all, narrow] = gaussian_tensors(splats, state, packed.as_ref());
    all.extend(narrow);
    let mut checksum = String::new();
    write_atomically(path, |out| {
        checksum = write_tensors(out, Metadata::new(), &all)?;
        Ok(())
    })?;
    Ok(checksum)
}

/// Puts splats and statistics of a part into those of a model.
fn put(
    part: Part,
    (splats, state): (&Splats, &OptimizerState),
    (model, all): &mut (Splats, OptimizerState),
) {
    for group in PARAM_GROUPS {
        let width = group.width(splats.sh_degree);
        part.put(group.values(splats), width, group.values_mut(model));
    }
    for statistic in STATISTICS {
        let own = statistic.values(state);
        if own.is_empty() {
            continue;
        }
        let values = statistic.values_mut(all);
        values.resize(part.total, 0.0);
        part.put(own, 1, values);
    }
}

/// Open files of parts.
pub(crate) struct OpenShards {
    readers: Vec<Reader<File>>,
    parts: Vec<Part>,
}

impl OpenShards {
    /// Reads splats and statistics of the model; moments stay empty.
    pub(super) fn model(
        &mut self,
        (sh_degree, has_smoothing): (u8, bool),
    ) -> Result<(Splats, OptimizerState)> {
        let total = self.parts.first().map_or(0, |part| part.total);
        let mut rows = self.rows(Part::whole(total));
        let splats = read_splats(&mut rows, "splats", total, sh_degree)?;
        let mut state = OptimizerState::default();
        read_statistics(&mut rows, &mut state, total, has_smoothing)?;
        Ok((splats, state))
    }

    /// Reads splats and state of any part of the model.
    ///
    /// # Errors
    /// A file cannot be read, or has other tensors.
    pub(crate) fn read_part(
        &mut self,
        part: Part,
        layout: (u8, bool),
    ) -> Result<(Splats, OptimizerState)> {
        read_gaussians(&mut self.rows(part), part.len(), layout)
    }

    /// Returns where the Gaussians of a part are in the files.
    fn rows(&mut self, part: Part) -> Rows<'_> {
        let mut places = Vec::new();
        let of = self.parts.first().copied().unwrap_or_default();
        for range in part.ranges() {
            let mut first = range.start;
            while first < range.end {
                let (number, local) = of.place(first);
                let end = (first / of.block + 1) * of.block;
                let count = end.min(range.end) - first;
                places.push((number, local..local + count));
                first += count;
            }
        }
        Rows {
            readers: &mut self.readers,
            places,
        }
    }
}

/// Rows of tensors in several files, as tensors.
struct Rows<'a> {
    readers: &'a mut [Reader<File>],
    /// File and rows in it, in the order of the rows.
    places: Vec<(usize, Range<usize>)>,
}

impl TensorSource for Rows<'_> {
    fn kind(&self, name: &str) -> Result<Kind> {
        let first = self.readers.first();
        first.map_or(Ok(Kind::F32), |reader| reader.kind(name))
    }

    fn values<T: Pod + Zeroable>(
        &mut self,
        name: &str,
        kind: Kind,
        shape: &[usize],
    ) -> Result<Vec<T>> {
        let (&n, row) = shape.split_first().unwrap_or((&0, &[]));
        let mut values = Vec::with_capacity(n * row.iter().product::<usize>());
        for (number, range) in &self.places {
            let reader = self.readers.get_mut(*number);
            let reader = reader.ok_or_else(|| super::contradiction("it lacks a part"))?;
            reader.read_rows(name, (kind, row), range.clone(), &mut values)?;
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests;
