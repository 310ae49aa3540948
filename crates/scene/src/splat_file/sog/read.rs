//! From textures to splats.

use super::archive::Archive;
use super::meta::{Meta, Rest};
use super::picture::Picture;
use super::{DAMAGED, ENTRIES_A_ROW, LARGEST_FROM, META};
use crate::ply::{Block, blocks, empty};
use crate::splat_file::Aside;
use crate::splat_file::files::{Beside, Files, Folder, META_BYTES};
use crate::splat_file::packed::{complete, logit};
use crate::splat_file::watch::Watch;
use crate::{Error, MAX_SH_DEGREE, Progress, Result, Splats, bounded};
use rayon::prelude::*;
use std::borrow::Cow;
use std::f32::consts::FRAC_1_SQRT_2;
use std::path::Path;

/// The most Gaussians that a byte of the file can stand for, as in the other packed formats: a file that promises
/// more is damaged, or was made to fill memory.
const MOST_A_BYTE: usize = 1032;

impl Files for Archive<'_> {
    fn get(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        Self::get(self, name)
    }

    /// Whatever it is of, it is in the archive.
    fn size(&self, _name: &str) -> usize {
        self.all_bytes()
    }
}

/// A `.sog` archive.
pub(in crate::splat_file) fn parse(
    bytes: &[u8],
    progress: &dyn Progress,
) -> Result<(Splats, Aside)> {
    let archive = Archive::open(bytes)?;
    let meta = Meta::parse(&archive.get(META)?)?;
    from_files(&meta, &archive, archive.all_bytes(), progress)
}

/// The folder that holds this `meta.json`.
pub(in crate::splat_file) fn read_folder(
    path: &Path,
    progress: &dyn Progress,
) -> Result<(Splats, Aside)> {
    let bytes = bounded::read("cannot read the file", path, META_BYTES)?;
    let folder = Folder(path.parent().unwrap_or(Path::new("")));
    parse_beside(&bytes, &Beside::new(&folder, META), progress).map_err(|e| within(e, path))
}

/// Puts the path of a file that names others before the place of an error.
pub(in crate::splat_file) fn within(error: Error, path: &Path) -> Error {
    let folder = path.parent().unwrap_or(Path::new(""));
    match error.place() {
        Some(place) if Path::new(place).starts_with(folder) && !folder.as_os_str().is_empty() => {
            error
        }
        Some(place) => {
            let place = format!("{}, {place}", path.display());
            error.at(place)
        }
        None => error.at_path(path),
    }
}

/// A `meta.json`, and the textures that it names.
pub(in crate::splat_file) fn parse_beside(
    meta: &[u8],
    files: &Beside<'_>,
    progress: &dyn Progress,
) -> Result<(Splats, Aside)> {
    let meta = Meta::parse(meta)?;
    // Textures are not larger than what can be read; each is looked at when its turn comes.
    let names = meta.means.files.iter().chain(&meta.quats.files);
    let names = names.chain(&meta.scales.files).chain(&meta.sh0.files);
    let size: usize = names.map(|name| files.size(name)).sum();
    from_files(&meta, files, size, progress)
}

/// A `meta.json` whose folder is not known.
pub(in crate::splat_file) fn parse_meta_alone(bytes: &[u8]) -> Result<(Splats, Aside)> {
    Meta::parse(bytes)?;
    Err(
        Error::unsupported("a meta.json holds no splats: the textures beside it do")
            .at(META)
            .hint("read it by its path"),
    )
}

struct Textures {
    means: [Picture; 2],
    scales: Picture,
    quats: Picture,
    sh0: Picture,
    labels: Option<Picture>,
}

fn from_files(
    meta: &Meta,
    files: &dyn Files,
    file_bytes: usize,
    progress: &dyn Progress,
) -> Result<(Splats, Aside)> {
    let refuse = |what: String| Err(Error::input(what).at(META).hint(DAMAGED));
    let count = meta.count;
    if count > MOST_A_BYTE.saturating_mul(file_bytes) {
        return refuse(format!(
            "the SOG file promises {count} Gaussians, which {file_bytes} bytes cannot hold"
        ));
    }
    let books = [&meta.scales.codebook, &meta.sh0.codebook];
    let rest_book = meta.sh_rest.iter().map(|rest| &rest.codebook);
    let ranges = meta.means.mins.iter().chain(&meta.means.maxs);
    let finite = |values: &Vec<f32>| !values.is_empty() && values.iter().all(|v| v.is_finite());
    if !books.into_iter().chain(rest_book).all(finite) || !ranges.clone().all(|v| v.is_finite()) {
        return refuse("a codebook or a range of the SOG file is empty or not finite".to_owned());
    }
    let rest = meta.sh_rest.as_ref();
    let palette = rest.map(|rest| palette(rest, files)).transpose()?;
    let names = [
        meta.means.files.first(),
        meta.means.files.get(1),
        meta.scales.files.first(),
        meta.quats.files.first(),
        meta.sh0.files.first(),
    ];
    let mut named = Vec::new();
    for name in names {
        match name {
            Some(name) => named.push(name),
            None => {
                return refuse("the SOG file's meta.json lacks the name of a texture".to_owned());
            }
        }
    }
    named.extend(rest.and_then(|rest| rest.files.get(1)));
    let decoded: Vec<Picture> = named
        .par_iter()
        .map(|name| Picture::decode(&files.get(name)?, count, name))
        .collect::<Result<_>>()?;
    let mut decoded = decoded.into_iter();
    let (Some(low), Some(high), Some(scales), Some(quats), Some(sh0)) = (
        decoded.next(),
        decoded.next(),
        decoded.next(),
        decoded.next(),
        decoded.next(),
    ) else {
        return Err(Error::internal("a texture was lost"));
    };
    let textures = Textures {
        means: [low, high],
        scales,
        quats,
        sh0,
        labels: decoded.next(),
    };
    let mut splats = empty(count, rest.map_or(0, |rest| rest.bands));
    let watch = Watch::reading(progress, count);
    let fill = |block: Block<'_>| {
        let rows = block.means.len();
        let bad = fill(meta, &textures, palette.as_deref(), block);
        watch.advance(rows);
        bad
    };
    let bad = blocks(&mut splats).into_par_iter().filter_map(fill).min();
    if let Some((row, what)) = bad {
        return Err(Error::input(what)
            .at(format!("Gaussian {row}"))
            .hint(DAMAGED));
    }
    let aside = Aside {
        antialiased: meta.is_antialiased(),
        ..Aside::default()
    };
    Ok((splats, aside))
}

/// `[entries, K-1, 3]`.
fn palette(rest: &Rest, files: &dyn Files) -> Result<Vec<f32>> {
    if !(1..=MAX_SH_DEGREE).contains(&rest.bands) || rest.count > 1 << 16 || rest.files.len() < 2 {
        let what = format!(
            "the SOG file has a palette of {} harmonics of degree {} in {} files",
            rest.count,
            rest.bands,
            rest.files.len()
        );
        return Err(Error::input(what).at(META).hint(DAMAGED));
    }
    let coefficients = (usize::from(rest.bands) + 1).pow(2) - 1;
    let rows = rest.count.div_ceil(ENTRIES_A_ROW);
    let name = &rest.files[0];
    let picture = Picture::decode(&files.get(name)?, rows * ENTRIES_A_ROW * coefficients, name)?;
    if picture.width != ENTRIES_A_ROW * coefficients {
        let what = format!("the texture {name} is {} texels wide", picture.width);
        return Err(Error::input(what).at(name.clone()).hint(DAMAGED));
    }
    // Row after row of 64 entries is entry after entry.
    let texels = &picture.texels[..rest.count * coefficients];
    let values = texels.iter().flat_map(|&[r, g, b, _]| [r, g, b]);
    Ok(values.map(|place| entry(&rest.codebook, place)).collect())
}

/// A codebook's value; shorter ones end with their last.
fn entry(codebook: &[f32], place: u8) -> f32 {
    codebook[usize::from(place).min(codebook.len() - 1)]
}

/// Fills a block; the first row that makes no sense, and why.
fn fill(
    meta: &Meta,
    textures: &Textures,
    palette: Option<&[f32]>,
    block: Block<'_>,
) -> Option<(usize, &'static str)> {
    let rest = block.sh_rest.len() / block.means.len().max(1);
    for i in 0..block.means.len() {
        let at = block.first + i;
        let [low, high] = [0, 1].map(|k: usize| textures.means[k].texels[at]);
        for k in 0..3 {
            let share = f32::from(u16::from_le_bytes([low[k], high[k]])) / 65_535.0;
            let (least, most) = (meta.means.mins[k], meta.means.maxs[k]);
            let n = least * (1.0 - share) + most * share;
            block.means[i][k] = n.abs().exp_m1().copysign(n).clamp(f32::MIN, f32::MAX);
            block.scales[i][k] = entry(&meta.scales.codebook, textures.scales.texels[at][k]);
            block.sh0[i][k] = entry(&meta.sh0.codebook, textures.sh0.texels[at][k]);
        }
        block.opacities[i] = logit(f32::from(textures.sh0.texels[at][3]) / 255.0);
        let [a, b, c, largest] = textures.quats.texels[at];
        let Some(largest) = largest.checked_sub(LARGEST_FROM) else {
            return Some((at, "a rotation's alpha says no component"));
        };
        let mut smaller = [a, b, c]
            .map(|q| (f32::from(q) / 255.0 * 2.0 - 1.0) * FRAC_1_SQRT_2)
            .into_iter();
        let quat = &mut block.quats[i];
        for k in (0..4).filter(|&k| k != usize::from(largest)) {
            quat[k] = smaller.next().unwrap_or(0.0);
        }
        complete(quat, largest.into());
        if let (Some(palette), Some(labels)) = (palette, &textures.labels) {
            let [low, high, ..] = labels.texels[at];
            let label = usize::from(u16::from_le_bytes([low, high]));
            let Some(entry) = palette.get(label * rest..(label + 1) * rest) else {
                return Some((at, "a label is beyond the palette of harmonics"));
            };
            block.sh_rest[i * rest..][..rest].copy_from_slice(entry);
        }
    }
    None
}
