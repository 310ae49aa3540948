//! Divides splats into levels, leaves and files.

use super::META;
use super::meta::{Asset, Bound, Meta, Node, Run};
use super::tree::Part;
use crate::edit::decimate::decimate;
use crate::order::{append, gather, morton_order};
use crate::splat_file::files::NamedFiles;
use crate::splat_file::{WriteOptions, sog};
use crate::{Error, Progress, Result, Splats};
use std::collections::BTreeMap;

/// Ratio of Gaussians between a level and the next coarser one.
const SHARE: usize = 4;

/// A level with fewer Gaussians than this is omitted.
const LEAST: usize = 64;

/// A file is closed once it has more Gaussians than this.
const FILE: usize = 512 * 1024;

/// Encodes all files with their names, `lod-meta.json` last.
pub(in crate::splat_file) fn encode_files(
    splats: &Splats,
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<NamedFiles> {
    let levels = levels(splats, options.lod_levels, progress)?;
    // All levels one after the other, and the beginning of each.
    let mut all = Splats::empty(splats.sh_degree);
    let mut starts = vec![0];
    for level in levels {
        append(&mut all, level);
        starts.push(all.len());
    }
    let mut files = Files {
        all: &all,
        starts: &starts,
        contents: Vec::new(),
        open: vec![None; starts.len() - 1],
    };
    let tree = files.node(Part::from_means(&all.means));
    let counts: Vec<u64> = starts
        .windows(2)
        .map(|ends| (ends[1] - ends[0]) as u64)
        .collect();
    let name = |content: &Content| format!("{}_{}/{}", content.level, content.number, sog::META);
    let meta = Meta {
        version: Some(1),
        asset: Asset {
            generator: format!("Dapple {}", env!("CARGO_PKG_VERSION")),
        },
        count: counts.iter().sum(),
        lod_levels: counts.len() as u32,
        counts,
        environment: None,
        filenames: files.contents.iter().map(name).collect(),
        tree,
    };
    let mut out = Vec::new();
    for content in &files.contents {
        let part = gather(&all, &content.order);
        let order: Vec<usize> = (0..part.len()).collect();
        let folder = format!("{}_{}", content.level, content.number);
        let textures = sog::encode_ordered(&part, &order, options, progress)?;
        let named = textures.into_iter();
        out.extend(named.map(|(name, bytes)| (format!("{folder}/{name}"), bytes)));
    }
    let meta = serde_json::to_vec(&meta)
        .map_err(|e| Error::internal("lod-meta.json cannot be written").caused_by(e))?;
    out.push((META.to_owned(), meta));
    Ok(out)
}

/// Computes the levels: all Gaussians, then fewer with each level.
fn levels(splats: &Splats, most: u32, progress: &dyn Progress) -> Result<Vec<Splats>> {
    let mut levels = vec![splats.clone()];
    for _ in 1..most {
        let Some(last) = levels.last().filter(|last| last.len() / SHARE >= LEAST) else {
            break;
        };
        let fewer = decimate(last, last.len() / SHARE, None, progress)?;
        // Decimation removes non-finite Gaussians first, and there may be no others.
        if fewer.is_empty() {
            break;
        }
        levels.push(fewer);
    }
    Ok(levels)
}

/// Content of a file that will be written.
struct Content {
    level: usize,
    /// Number among the files of its level.
    number: usize,
    /// Indices into all levels' Gaussians.
    order: Vec<usize>,
}

struct Files<'a> {
    all: &'a Splats,
    /// Beginning of each level in `all`, and the end.
    starts: &'a [usize],
    contents: Vec<Content>,
    /// File of each level that is being filled.
    open: Vec<Option<usize>>,
}

impl Files<'_> {
    /// Builds the node of a part of space, and writes its leaves into files.
    fn node(&mut self, part: Part) -> Node {
        match part {
            Part::Halves(halves) => {
                let children = halves.map(|half| self.node(half));
                let [before, after] = [0, 1].map(|k| children[k].bound);
                Node {
                    bound: before.and(after),
                    children: Some(children.into()),
                    lods: None,
                }
            }
            Part::Leaf(mut indices) => {
                indices.sort_unstable();
                let bounds = indices
                    .iter()
                    .map(|&i| Bound::from_splat(self.all, i as usize));
                let bound = bounds.fold(Bound::NOTHING, Bound::and).or_origin();
                let mut lods = BTreeMap::new();
                for level in 0..self.starts.len() - 1 {
                    let first = indices.partition_point(|&i| (i as usize) < self.starts[level]);
                    let end = indices.partition_point(|&i| (i as usize) < self.starts[level + 1]);
                    if first < end {
                        lods.insert(level as u32, self.run(level, &indices[first..end]));
                    }
                }
                Node {
                    bound,
                    children: None,
                    lods: Some(lods),
                }
            }
        }
    }

    /// Appends a leaf's Gaussians of a level to a file of that level.
    fn run(&mut self, level: usize, indices: &[u32]) -> Run {
        let means: Vec<[f32; 3]> = indices
            .iter()
            .map(|&i| self.all.means[i as usize])
            .collect();
        let order = morton_order(&means);
        let file = match self.open[level] {
            Some(file) => file,
            None => {
                let number = self.contents.iter().filter(|c| c.level == level).count();
                self.contents.push(Content {
                    level,
                    number,
                    order: Vec::new(),
                });
                self.contents.len() - 1
            }
        };
        let content = &mut self.contents[file].order;
        let offset = content.len();
        content.extend(order.into_iter().map(|k| indices[k] as usize));
        self.open[level] = (content.len() <= FILE).then_some(file);
        Run {
            file,
            offset,
            count: indices.len(),
        }
    }
}
