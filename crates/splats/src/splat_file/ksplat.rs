//! `.ksplat`: the buffers of mkkellogg's GaussianSplats3D (`SplatBuffer.js`, MIT), read only, because the viewer is no
//! longer maintained.
//!
//! 1. A header of 4096 bytes: version, counts of sections, level of compression, range of the harmonics.
//! 2. A header of 1024 bytes per possible section; then the sections one after the other: lengths of buckets that are
//!    not full, the buckets' centres, the Gaussians.
//! 3. A Gaussian: centre, linear scales, rotation `w x y z`, colour and opacity in bytes, harmonics. Level 0 has `f32`.
//!    Levels 1 and 2 have centres in 16 bits relative to their bucket's, the others as halves. Level 2 has harmonics as
//!    bytes between the header's ends. Harmonics are stored band by band, channel by channel within.
//! 4. Counts are in three places: the header, the sections, and the number of stored bytes. Converters write 0 for the
//!    first two. The reader uses the number of stored bytes, and adds a note.

use super::packed::{Cursor, float_at, linear_scale, logit, unit};
use super::{NON_FINITE_HINT, ReadOptions, SplatMetadata};
use crate::order::append;
use crate::ply::{Block, blocks, empty};
use crate::{Error, MAX_SH_DEGREE, Result, SH_C0, Splats};
use rayon::prelude::*;

const HEADER: usize = 4096;
const SECTION_HEADER: usize = 1024;

/// Ends of harmonics of level 2 if the header has 0.
const USUAL_SH_END: f32 = 1.5;

/// Steps that centres extend from their bucket's centre to either side, if the bucket range in the header is 0.
const USUAL_RANGE: u32 = 32_767;

const DAMAGED: &str = "the file is damaged or cut, or it is another format under this name";

/// Header of a section.
struct Section<'a> {
    count: usize,
    /// Number of Gaussians in `count` that the header does not declare.
    filled: usize,
    degree: u8,
    level: u16,
    /// Ends of harmonics of level 2.
    ends: [f32; 2],
    /// Step of a centre, units.
    step: f32,
    range: f32,
    /// Number of Gaussians in each full bucket; full buckets come first.
    bucket_size: usize,
    full_buckets: usize,
    /// Beginning of each bucket that is not full, counted from the first of these.
    partial_starts: Vec<usize>,
    centres: &'a [u8],
    /// Bytes of the Gaussians, `stride` bytes each.
    rows: &'a [u8],
}

/// Header of the file.
struct Head {
    level: u16,
    /// Ends of harmonics of level 2.
    ends: [f32; 2],
    /// Maximum number of sections, and number of sections.
    sections: [usize; 2],
    gaussians: usize,
}

impl Head {
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut head = Cursor::new(bytes, 0, ".ksplat");
        head.take(HEADER, "header")?;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let (major, minor, level) = (
            bytes[0],
            bytes[1],
            u16::from_le_bytes([bytes[20], bytes[21]]),
        );
        if major != 0 || minor < 1 || level > 2 {
            let what = format!(
                "this is no .ksplat file that is known: version {major}.{minor}, level {level}"
            );
            return Err(Error::unsupported(what).at("byte 0").hint(DAMAGED));
        }
        let ends = [(36, -USUAL_SH_END), (40, USUAL_SH_END)].map(|(at, usual)| {
            let end = f32::from_bits(word(at));
            if end == 0.0 { usual } else { end }
        });
        if ends.iter().any(|end| !end.is_finite()) {
            return Err(not_finite("range of harmonics", 36, DAMAGED));
        }
        Ok(Self {
            level,
            ends,
            sections: [word(4) as usize, word(8) as usize],
            gaussians: word(16) as usize,
        })
    }

    /// Returns the offset of the first section.
    fn sections_at(&self, bytes: &[u8]) -> Result<usize> {
        let [most, count] = self.sections;
        let end = SECTION_HEADER
            .checked_mul(most)
            .and_then(|b| b.checked_add(HEADER));
        let end = end.filter(|&end| end <= bytes.len() && count <= most);
        end.ok_or_else(|| {
            let what = format!(
                "the .ksplat file promises {count} of {most} sections, more than it has bytes for"
            );
            Error::input(what).at("byte 4").hint(DAMAGED)
        })
    }

    /// Compares the declared numbers with the sections that were found, and their end with the file's.
    fn compare(&self, sections: &[Section<'_>], left: usize) -> Result<Vec<String>> {
        let sum = |count: fn(&Section<'_>) -> usize| sections.iter().map(count).sum::<usize>();
        let (held, filled) = (sum(|s| s.count), sum(|s| s.filled));
        let [most, count] = self.sections;
        if held == 0 && left > 0 {
            let what = format!(
                "the .ksplat file promises no Gaussian in {count} of {most} sections, and {left} bytes follow its \
                 headers"
            );
            return Err(Error::input(what).at("byte 4").hint(DAMAGED));
        }
        let mut notes = Vec::new();
        if sections.len() != count {
            notes.push(format!(
                "the header promises {count} sections, and {} follow: they are read",
                sections.len()
            ));
        }
        if filled > 0 {
            notes.push(format!(
                "headers of sections promise {} Gaussians, and {held} are there: all are read",
                held - filled
            ));
        }
        if self.gaussians != held {
            notes.push(format!(
                "the header promises {} Gaussians, and the sections hold {held}: these are read",
                self.gaussians
            ));
        }
        if left > 0 {
            notes.push(format!(
                "{left} bytes follow the last section, unread: is this the file that it should be?"
            ));
        }
        Ok(notes)
    }
}

pub(super) fn parse(bytes: &[u8], options: &ReadOptions) -> Result<(Splats, SplatMetadata)> {
    let head = Head::read(bytes)?;
    let mut at = head.sections_at(bytes)?;
    // A converter may write 0 as the count of sections, but not as their capacity.
    let [most, promised] = head.sections;
    let is_unsaid = promised == 0 && at < bytes.len();
    let mut sections = Vec::new();
    for k in 0..if is_unsaid { most } else { promised } {
        let header_at = HEADER + k * SECTION_HEADER;
        let (section, end) = Section::find(bytes, header_at, at, head.level, head.ends)?;
        if !(is_unsaid && section.count == 0) {
            sections.push(section);
        }
        at = end;
    }
    let metadata = SplatMetadata {
        notes: head.compare(&sections, bytes.len() - at)?,
        ..SplatMetadata::default()
    };
    let degree = sections.iter().map(|s| s.degree).max().unwrap_or(0);
    // All bytes of each section exist.
    let mut splats = empty(0, degree);
    for section in &sections {
        let mut part = empty(section.count, section.degree);
        let bad = blocks(&mut part)
            .into_par_iter()
            .filter_map(|block| section.fill(block, options.keeps_non_finite()))
            .min();
        if let Some(row) = bad {
            return Err(not_finite(
                &format!("Gaussian {} of the file", splats.len() + row),
                at,
                NON_FINITE_HINT,
            ));
        }
        append(&mut splats, part);
    }
    Ok((splats, metadata))
}

fn not_finite(what: &str, at: usize, hint: &'static str) -> Error {
    Error::input(format!("{what} has a number that is not finite"))
        .at(format!("before byte {at}"))
        .hint(hint)
}

/// Returns the bytes of a Gaussian: before the harmonics, and in total.
fn stride(level: u16, degree: u8) -> (usize, usize) {
    let rest = 3 * ((usize::from(degree) + 1).pow(2) - 1);
    let base = if level == 0 { 44 } else { 24 };
    (base, base + rest * [4, 2, 1][usize::from(level.min(2))])
}

impl<'a> Section<'a> {
    /// Reads the section whose header is at `header_at` and whose data begin at `at`; returns its end too.
    fn find(
        bytes: &'a [u8],
        header_at: usize,
        at: usize,
        level: u16,
        ends: [f32; 2],
    ) -> Result<(Self, usize)> {
        let mut head = Cursor::new(bytes, header_at, ".ksplat");
        let mut word = || head.u32("section's header").map(|word| word as usize);
        let (count, most, bucket_size, bucket_count) = (word()?, word()?, word()?, word()?);
        let block_size = f32::from_bits(word()? as u32);
        let centre_bytes = word()? & 0xffff;
        let range = match word()? as u32 {
            0 => USUAL_RANGE,
            range => range,
        };
        let _storage = word()?;
        let (full_buckets, partial) = (word()?, word()?);
        let degree = word()? & 0xffff;
        let refuse = |what: String| {
            Err(Error::input(what)
                .at(format!("byte {header_at}"))
                .hint(DAMAGED))
        };
        if count > most || degree > usize::from(MAX_SH_DEGREE) || !block_size.is_finite() {
            return refuse(format!(
                "a section of the .ksplat file has {count} of {most} Gaussians with harmonics of degree {degree}"
            ));
        }
        let degree = degree as u8;
        let mut data = Cursor::new(bytes, at, ".ksplat");
        let size = |count: usize, each: usize| count.saturating_mul(each);
        let lengths = data.take(size(partial, 4), "lengths of buckets")?;
        let centres = data.take(size(bucket_count, centre_bytes), "centres of buckets")?;
        let stored = data.take(size(most, stride(level, degree).1), "Gaussians")?;
        let row = stride(level, degree).1;
        // Unused capacity is zeros; no Gaussian has a scale or a rotation of zeros.
        let is_filled = |row: &&[u8]| row.iter().any(|&byte| byte != 0);
        let more = stored[count * row..].chunks_exact(row);
        let filled = more.take_while(is_filled).count();
        let count = count + filled;
        let rows = &stored[..count * row];
        let mut partial_starts = vec![0usize];
        for length in lengths.as_chunks::<4>().0 {
            let before = partial_starts.last().copied().unwrap_or(0);
            partial_starts.push(before.saturating_add(u32::from_le_bytes(*length) as usize));
        }
        let in_full = full_buckets.saturating_mul(bucket_size);
        let in_all = in_full.saturating_add(partial_starts.last().copied().unwrap_or(0));
        let known = centre_bytes == 12 && full_buckets.saturating_add(partial) <= bucket_count;
        if level > 0 && most > 0 && (in_all < count || !known) {
            return refuse(format!(
                "the buckets of the .ksplat file hold {in_all} Gaussians instead of {count}"
            ));
        }
        let section = Self {
            count,
            filled,
            degree,
            level,
            ends,
            step: block_size / 2.0 / range as f32,
            range: range as f32,
            bucket_size,
            full_buckets,
            partial_starts,
            centres,
            rows,
        };
        Ok((section, data.at()))
    }

    /// Returns the centre of a Gaussian's bucket.
    fn bucket_centre(&self, i: usize) -> [f32; 3] {
        let in_full = self.full_buckets.saturating_mul(self.bucket_size);
        let bucket = match i < in_full {
            true => i / self.bucket_size,
            // The last bucket that begins at it or before.
            false => {
                self.full_buckets + self.partial_starts.partition_point(|&s| s <= i - in_full) - 1
            }
        };
        [0, 1, 2].map(|k| float_at(self.centres, 3 * bucket + k))
    }

    /// Fills a block; returns the first row with a non-finite number.
    fn fill(&self, block: Block<'_>, keeps: bool) -> Option<usize> {
        let (base, stride) = stride(self.level, self.degree);
        let rest = block.sh_rest.len() / block.means.len().max(1);
        for i in 0..block.means.len() {
            let row = &self.rows[(block.first + i) * stride..][..stride];
            let short = |at: usize| u16::from_le_bytes([row[at], row[at + 1]]);
            let half = |at: usize| half::f16::from_bits(short(at)).to_f32();
            let (mean, scale, quat, packed) = match self.level {
                0 => {
                    let float = |k: usize| float_at(row, k);
                    let quat = [6, 7, 8, 9].map(float);
                    (
                        [0, 1, 2].map(float),
                        [3, 4, 5].map(float),
                        quat,
                        &row[40..44],
                    )
                }
                _ => {
                    let centre = self.bucket_centre(block.first + i);
                    let mean =
                        |k: usize| (f32::from(short(2 * k)) - self.range) * self.step + centre[k];
                    let quat = [12, 14, 16, 18].map(half);
                    (
                        [0, 1, 2].map(mean),
                        [6, 8, 10].map(half),
                        quat,
                        &row[20..24],
                    )
                }
            };
            let is_finite = |values: &[f32]| values.iter().all(|v| v.is_finite());
            let is_sound = is_finite(&mean) && is_finite(&scale) && is_finite(&quat);
            if !is_sound && !keeps {
                return Some(block.first + i);
            }
            block.means[i] = mean;
            block.scales[i] = scale.map(linear_scale);
            block.quats[i] = if is_finite(&quat) { unit(quat) } else { quat };
            block.sh0[i] = [0, 1, 2].map(|k| (f32::from(packed[k]) / 255.0 - 0.5) / SH_C0);
            block.opacities[i] = logit(f32::from(packed[3]) / 255.0);
            let values = &mut block.sh_rest[i * rest..][..rest];
            for (at, place) in harmonic_places(self.degree).enumerate() {
                let value = match self.level {
                    0 => float_at(&row[base..], at),
                    1 => half(base + 2 * at),
                    _ => {
                        let [low, high] = self.ends;
                        low + f32::from(row[base + at]) / 255.0 * (high - low)
                    }
                };
                if !value.is_finite() && !keeps {
                    return Some(block.first + i);
                }
                values[place] = value;
            }
        }
        None
    }
}

/// Returns the indices in `[K-1, 3]` of the file's harmonics, in its order.
fn harmonic_places(degree: u8) -> impl Iterator<Item = usize> {
    (1..=usize::from(degree)).flat_map(|band| {
        let (first, width) = (band * band - 1, 2 * band + 1);
        (0..3 * width).map(move |at| (first + at % width) * 3 + at / width)
    })
}
