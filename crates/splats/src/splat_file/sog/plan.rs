//! Decoding tables of a `meta.json` of either version: a byte's value by channel.

use super::meta::{AnyMeta, First, Limits, Meta};
use super::{DAMAGED, META};
use crate::Similarity;
use crate::splat_file::extras;
use crate::splat_file::packed::logit;
use crate::{Error, MAX_SH_DEGREE, Result};

/// Values of all bytes.
pub(super) type Table = [f32; 256];

/// Textures of a scene, and the meaning of their bytes.
pub(super) struct Plan {
    pub count: usize,
    /// Limits of sign(p) ln(1 + |p|).
    pub mins: [f32; 3],
    pub maxs: [f32; 3],
    /// Logarithms of scales, by axis.
    pub scales: Box<[Table; 3]>,
    pub sh0: Box<[Table; 3]>,
    /// Logits of opacities.
    pub opacities: Box<Table>,
    /// Names of means (low, high), scales, rotations, colours.
    pub files: [String; 5],
    pub rest: Option<RestPlan>,
    pub antialiased: bool,
    /// The motion since training.
    pub moved: Similarity,
}

/// Palette of harmonics.
pub(super) struct RestPlan {
    pub table: Box<Table>,
    /// Entries and degree; in version 1 the texture's size determines both.
    pub shape: Option<(usize, u8)>,
    /// Names of the palette's texture and of the labels'.
    pub files: [String; 2],
}

fn refuse<T>(what: String) -> Result<T> {
    Err(Error::input(what).at(META).hint(DAMAGED))
}

/// Returns the first `N` names of a list.
fn names<const N: usize>(files: &[String]) -> Result<[String; N]> {
    let found: Option<&[String; N]> = files.first_chunk();
    match found {
        Some(found) => Ok(found.clone()),
        None => refuse("the SOG file's meta.json lacks the name of a texture".to_owned()),
    }
}

/// Builds a table from a codebook. Shorter codebooks end with their last value.
fn of_codebook(codebook: &[f32]) -> Result<Box<Table>> {
    if codebook.is_empty() {
        return refuse("a codebook of the SOG file is empty".to_owned());
    }
    let last = codebook.len() - 1;
    Ok(Box::new(std::array::from_fn(|i| codebook[i.min(last)])))
}

/// Builds a linear table: `steps` is the byte of the upper limit.
fn ramp(low: f32, high: f32, steps: f32) -> Table {
    std::array::from_fn(|i| {
        let share = i as f32 / steps;
        low * (1.0 - share) + high * share
    })
}

/// Builds the table of a channel of limits.
fn of_limits(limits: &Limits, channel: usize) -> Result<Table> {
    match (limits.mins.get(channel), limits.maxs.get(channel)) {
        (Some(&low), Some(&high)) => Ok(ramp(low, high, 255.0)),
        _ => refuse(format!(
            "the SOG file's meta.json has limits for {} and {} channels, and one has the number {channel}",
            limits.mins.len(),
            limits.maxs.len()
        )),
    }
}

impl Plan {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let plan = match AnyMeta::parse(bytes)? {
            AnyMeta::First(meta) => Self::first(&meta)?,
            AnyMeta::Second(meta) => Self::second(&meta)?,
        };
        match plan.is_finite() {
            true => Ok(plan),
            false => refuse("a codebook or a range of the SOG file is not finite".to_owned()),
        }
    }

    fn is_finite(&self) -> bool {
        let tables = self.scales.iter().chain(self.sh0.iter());
        let tables = tables.chain([&*self.opacities]);
        let tables = tables.chain(self.rest.iter().map(|rest| &*rest.table));
        let mut values = tables.flatten().chain(&self.mins).chain(&self.maxs);
        values.all(|v| v.is_finite())
    }

    fn first(meta: &First) -> Result<Self> {
        let Some(&count) = meta.means.shape.first() else {
            return refuse(
                "the SOG file's meta.json does not say how many Gaussians it has".to_owned(),
            );
        };
        let rest = meta.sh_rest.as_ref().map(|rest| {
            let bits = rest.quantization.filter(|bits| (1..=8).contains(bits));
            let steps = ((1u32 << bits.unwrap_or(8)) - 1) as f32;
            Ok::<_, Error>(RestPlan {
                table: Box::new(ramp(rest.mins.get(), rest.maxs.get(), steps)),
                shape: None,
                files: names(&rest.files)?,
            })
        });
        let [low, high] = names(&meta.means.files)?;
        let [scales] = names(&meta.scales.files)?;
        let [quats] = names(&meta.quats.files)?;
        let [sh0] = names(&meta.sh0.files)?;
        let three = |limits: &Limits| {
            let tables = [
                of_limits(limits, 0)?,
                of_limits(limits, 1)?,
                of_limits(limits, 2)?,
            ];
            Ok::<_, Error>(Box::new(tables))
        };
        Ok(Self {
            count,
            mins: meta.means.mins,
            maxs: meta.means.maxs,
            scales: three(&meta.scales)?,
            sh0: three(&meta.sh0)?,
            opacities: Box::new(of_limits(&meta.sh0, 3)?),
            files: [low, high, scales, quats, sh0],
            rest: rest.transpose()?,
            antialiased: false,
            moved: Similarity::IDENTITY,
        })
    }

    fn second(meta: &Meta) -> Result<Self> {
        let rest = meta.sh_rest.as_ref().map(|rest| {
            if !(1..=MAX_SH_DEGREE).contains(&rest.bands) || rest.count > 1 << 16 {
                return refuse(format!(
                    "the SOG file has a palette of {} harmonics of degree {}",
                    rest.count, rest.bands
                ));
            }
            Ok(RestPlan {
                table: of_codebook(&rest.codebook)?,
                shape: Some((rest.count, rest.bands)),
                files: names(&rest.files)?,
            })
        });
        let [low, high] = names(&meta.means.files)?;
        let [scales] = names(&meta.scales.files)?;
        let [quats] = names(&meta.quats.files)?;
        let [sh0] = names(&meta.sh0.files)?;
        // All axes and channels share one table.
        let three = |codebook: &[f32]| {
            let table = of_codebook(codebook)?;
            Ok::<_, Error>(Box::new([*table; 3]))
        };
        Ok(Self {
            count: meta.count,
            mins: meta.means.mins,
            maxs: meta.means.maxs,
            scales: three(&meta.scales.codebook)?,
            sh0: three(&meta.sh0.codebook)?,
            opacities: Box::new(std::array::from_fn(|i| logit(i as f32 / 255.0))),
            files: [low, high, scales, quats, sh0],
            rest: rest.transpose()?,
            antialiased: meta.is_antialiased(),
            moved: extras::moved(&meta.asset.extras),
        })
    }
}
