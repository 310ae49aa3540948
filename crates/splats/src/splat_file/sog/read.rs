//! Converts textures to splats.

use super::archive::{Archive, is_named};
use super::picture::Picture;
use super::plan::{Plan, RestPlan};
use super::{DAMAGED, ENTRIES_A_ROW, LARGEST_FROM, META};
use crate::ply::{Block, blocks, empty};
use crate::splat_file::files::{Files, Folder, META_BYTES, SiblingFiles};
use crate::splat_file::packed::complete;
use crate::splat_file::watch::Watch;
use crate::splat_file::{Format, SplatMetadata, foreign, streamed};
use crate::{Error, Progress, Result, Splats};
use dapple_base::bounded;
use rayon::prelude::*;
use std::borrow::Cow;
use std::f32::consts::FRAC_1_SQRT_2;
use std::path::Path;

/// Maximum number of Gaussians per byte of the file, as in the other packed formats. A file that declares more is
/// damaged, or was made to fill memory.
const MOST_A_BYTE: usize = 1032;

impl Files for Archive<'_> {
    fn get(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        Self::get(self, name)
    }

    /// Size of the archive, because every file is in it.
    fn size(&self, _name: &str) -> usize {
        self.all_bytes()
    }
}

/// Reads a `.sog` archive.
pub(in crate::splat_file) fn parse(
    bytes: &[u8],
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    let archive = Archive::open(bytes)?;
    let all = archive.all_bytes();
    // Streamed SOG has a file of the other name in each of its folders.
    let streamed = archive.find(streamed::META);
    let (splats, mut metadata) = match (streamed, archive.find(META)) {
        (Some(meta), _) => {
            let files = Below::new(&archive, meta);
            streamed::parse_beside(&archive.get(meta)?, &files, progress)?
        }
        (None, Some(meta)) => {
            let files = Below::new(&archive, meta);
            from_files(&Plan::parse(&archive.get(meta)?)?, &files, all, progress)?
        }
        (None, None) => return Err(no_scene(&archive)),
    };
    let scenes = archive.names().filter(|name| is_named(name, META)).count();
    if scenes > 1 && streamed.is_none() {
        metadata.notes.push(format!(
            "the archive holds {scenes} files {META}: the first is read"
        ));
    }
    if archive.behind() > 0 {
        metadata.notes.push(format!(
            "{} bytes follow the end of the archive, unread: is this the file that it should be?",
            archive.behind()
        ));
    }
    Ok((splats, metadata))
}

/// Files of an archive, named relative to a folder in it.
struct Below<'a> {
    archive: &'a Archive<'a>,
    folder: &'a str,
}

impl<'a> Below<'a> {
    fn new(archive: &'a Archive<'a>, meta: &'a str) -> Self {
        let folder = meta.rfind('/').map_or("", |at| &meta[..=at]);
        Self { archive, folder }
    }
}

impl Files for Below<'_> {
    fn get(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        self.archive.get(&format!("{}{name}", self.folder))
    }

    fn size(&self, name: &str) -> usize {
        Files::size(self.archive, &format!("{}{name}", self.folder))
    }
}

/// Builds the error of an archive without a scene; it names the known content.
fn no_scene(archive: &Archive<'_>) -> Error {
    if archive.names().any(|name| is_named(name, "data.pkl")) {
        return foreign::checkpoint().at("the archive's directory");
    }
    let is_known = |name: &&str| Format::of_name(Path::new(name)).is_ok();
    let inside = archive.names().find(is_known);
    let what = format!("the archive has no {META:?} in it, so it is no .sog file");
    let error = Error::input(what).at("the archive's directory");
    match inside {
        Some(name) => error.hint(format!("unpack it, and name {name}")),
        None => error.hint("it is another ZIP archive under this name, or was not written whole"),
    }
}

/// Reads the folder of this `meta.json`.
pub(in crate::splat_file) fn read_folder(
    path: &Path,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    let bytes = bounded::read("cannot read the file", path, META_BYTES)?;
    let folder = Folder(path.parent().unwrap_or(Path::new("")));
    parse_beside(&bytes, &SiblingFiles::new(&folder, META), progress).map_err(|e| within(e, path))
}

/// Inserts the path of the main file before the place of an error.
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

/// Reads a `meta.json`, and the textures that it names.
pub(in crate::splat_file) fn parse_beside(
    meta: &[u8],
    files: &SiblingFiles<'_>,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    let plan = Plan::parse(meta)?;
    // Textures are not larger than the bytes that can be read; each is checked in its turn.
    let size: usize = plan.files.iter().map(|name| files.size(name)).sum();
    from_files(&plan, files, size, progress)
}

/// Returns the error for a `meta.json` whose folder is not known.
pub(in crate::splat_file) fn parse_meta_alone(bytes: &[u8]) -> Result<(Splats, SplatMetadata)> {
    Plan::parse(bytes)?;
    Err(
        Error::unsupported("a meta.json holds no splats: the textures next to it do")
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

/// Refuses a folder with missing files; the error names all of them.
fn check_files(plan: &Plan, files: &dyn Files) -> Result<()> {
    let rest = plan.rest.iter().flat_map(|rest| &rest.files);
    let is_missing = |name: &&String| files.is_missing(name);
    let missing: Vec<&str> = (plan.files.iter().chain(rest).filter(is_missing))
        .map(String::as_str)
        .collect();
    let (Some(first), count) = (missing.first(), missing.len()) else {
        return Ok(());
    };
    let (list, are) = match count {
        1 => ((*first).to_owned(), "is"),
        _ => (missing.join(", "), "are"),
    };
    Err(
        Error::input(format!("{list} of the SOG folder {are} missing, which {META} names"))
            .at((*first).to_owned())
            .hint("copy or export the folder again, all of it; in a clone, `git lfs pull` fetches large files"),
    )
}

fn from_files(
    plan: &Plan,
    files: &dyn Files,
    file_bytes: usize,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    let count = plan.count;
    check_files(plan, files)?;
    if count > MOST_A_BYTE.saturating_mul(file_bytes) {
        let what = format!(
            "the SOG file promises {count} Gaussians, which {file_bytes} bytes cannot hold"
        );
        return Err(Error::input(what).at(META).hint(DAMAGED));
    }
    let rest = plan.rest.as_ref();
    let palette = rest.map(|rest| palette(rest, files)).transpose()?;
    let mut named: Vec<&String> = plan.files.iter().collect();
    named.extend(rest.map(|rest| &rest.files[1]));
    let decoded: Vec<Result<Picture>> = named
        .par_iter()
        .map(|name| Picture::decode(&files.get(name)?, count, name))
        .collect();
    // The first error in the order of names, independent of the order of completion.
    let mut decoded = decoded.into_iter().collect::<Result<Vec<_>>>()?.into_iter();
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
    let degree = palette.as_ref().map_or(0, |(_, degree)| *degree);
    let palette = palette.map(|(values, _)| values);
    let mut splats = empty(count, degree);
    let watch = Watch::reading(progress, count);
    let fill = |block: Block<'_>| {
        let rows = block.means.len();
        let bad = fill(plan, &textures, palette.as_deref(), block);
        watch.advance(rows);
        bad
    };
    let bad = blocks(&mut splats).into_par_iter().filter_map(fill).min();
    if let Some((row, what)) = bad {
        return Err(Error::input(what)
            .at(format!("Gaussian {row}"))
            .hint(DAMAGED));
    }
    let metadata = SplatMetadata {
        antialiased: plan.antialiased,
        moved: plan.moved,
        notes: compare_counts(count, &textures).into_iter().collect(),
        ..SplatMetadata::default()
    };
    Ok((splats, metadata))
}

/// Returns a note if textures hold more Gaussians than declared, or fewer. Writers fill unused texels with black.
fn compare_counts(count: usize, textures: &Textures) -> Option<String> {
    let end = |picture: &Picture| {
        let is_used = |texel: &[u8; 4]| texel[..3] != [0; 3];
        picture
            .texels
            .iter()
            .rposition(is_used)
            .map_or(0, |at| at + 1)
    };
    // Some writers fill the rest of the last rows with copies. Sides are rounded up to multiples of 4 at most.
    let is_filled = |picture: &Picture| {
        let spare = picture.texels.len().saturating_sub(count);
        end(picture) == picture.texels.len() && spare < 4 * picture.width.max(picture.height)
    };
    let held = textures.means.iter().map(end).max().unwrap_or(0);
    if held > count && !textures.means.iter().any(is_filled) {
        return Some(format!(
            "{META} promises {count} Gaussians, and the textures hold {held}: the first {count} are read"
        ));
    }
    // A rotation is black only if it is missing.
    let held = held.max(end(&textures.quats));
    (held < count).then(|| {
        format!(
            "{META} promises {count} Gaussians, and the textures hold {held}: the last ones are of black texels"
        )
    })
}

/// Entries of the largest palette, and coefficients of the highest degree.
const MOST_TEXELS: usize = (1 << 16) * 15;

/// Reads the palette `[entries, K-1, 3]`, and the degree.
fn palette(rest: &RestPlan, files: &dyn Files) -> Result<(Vec<f32>, u8)> {
    let name = &rest.files[0];
    let bytes = files.get(name)?;
    let wide = |width: usize| {
        let what = format!("the texture {name} is {width} texels wide");
        Err(Error::input(what).at(name.clone()).hint(DAMAGED))
    };
    let count_of = |degree: u8| (usize::from(degree) + 1).pow(2) - 1;
    let (picture, degree, entries) = match rest.shape {
        Some((count, degree)) => {
            let row = ENTRIES_A_ROW * count_of(degree);
            let rows = count.div_ceil(ENTRIES_A_ROW);
            let picture = Picture::decode(&bytes, rows * row, name)?;
            if picture.width != row {
                return wide(picture.width);
            }
            (picture, degree, count)
        }
        None => {
            let picture = Picture::decode_within(&bytes, 1..=MOST_TEXELS, name)?;
            let is_it = |degree: &u8| picture.width == ENTRIES_A_ROW * count_of(*degree);
            let Some(degree) = (1..=3).find(is_it) else {
                return wide(picture.width);
            };
            let entries = ENTRIES_A_ROW * picture.height;
            (picture, degree, entries)
        }
    };
    // Rows of 64 entries contain the entries in sequence.
    let texels = &picture.texels[..entries * count_of(degree)];
    let values = texels.iter().flat_map(|&[r, g, b, _]| [r, g, b]);
    let values = values.map(|place| rest.table[usize::from(place)]).collect();
    Ok((values, degree))
}

/// Fills a block; returns the first invalid row, with the reason.
fn fill(
    plan: &Plan,
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
            let (least, most) = (plan.mins[k], plan.maxs[k]);
            let n = least * (1.0 - share) + most * share;
            block.means[i][k] = n.abs().exp_m1().copysign(n).clamp(f32::MIN, f32::MAX);
            let [scale, sh0] = [&textures.scales, &textures.sh0].map(|t| t.texels[at][k]);
            block.scales[i][k] = plan.scales[k][usize::from(scale)];
            block.sh0[i][k] = plan.sh0[k][usize::from(sh0)];
        }
        block.opacities[i] = plan.opacities[usize::from(textures.sh0.texels[at][3])];
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
