//! Tensors of a checkpoint: splats, moments, statistics, the state of the views, and losses.

use super::packed::{packed, unpacked};
use super::tensors::{Kind, Reader, Tensor};
use crate::features::{self, Stored};
use crate::{Best, LossRow, TrainConfig};
use bytemuck::{Pod, Zeroable};
use dapple_engine::features::{Numbers, StateTensor};
use dapple_engine::{OptimizerState, PARAM_GROUPS, STATISTICS, ViewSizes, ViewState};
use dapple_scene::{Error, Result, Splats};
use std::io::{Read, Seek};

/// Prefix of the names of the tensors that belong to the best splats.
pub(super) const BEST: &str = "best.";

/// Builds the error of a checkpoint whose parts contradict each other.
pub(super) fn contradiction(what: &str) -> Error {
    Error::input(format!("the checkpoint contradicts itself: {what}"))
        .hint("another program has written it: use the checkpoint as the run left it")
}

/// Returns the tensors of splats, or of values with the same shapes.
pub(super) fn splat_tensors<'a>(of: &str, splats: &'a Splats) -> [Tensor<'a>; PARAM_GROUPS.len()] {
    PARAM_GROUPS.map(|group| {
        let name = format!("{of}.{}", group.name);
        let shape = group.shape(splats.len(), splats.sh_degree);
        Tensor::new(name, Kind::F32, &shape, group.values(splats))
    })
}

/// Returns the tensors of splats and their state without that of views: those with wider numbers, then moments in 16 bits.
pub(super) fn gaussian_tensors<'a>(
    splats: &'a Splats,
    state: &'a OptimizerState,
    packed: Option<&'a [PackedMoments; 2]>,
) -> [Vec<Tensor<'a>>; 2] {
    let mut wide: Vec<Tensor<'a>> = splat_tensors("splats", splats).into();
    let mut narrow = Vec::new();
    let moments = [
        ("first_moments", &state.first_moments),
        ("second_moments", &state.second_moments),
    ];
    match packed {
        None => wide.extend(
            moments
                .iter()
                .flat_map(|(name, of)| splat_tensors(name, of)),
        ),
        Some(packed) => {
            for ((name, _), packed) in moments.iter().zip(packed) {
                narrow.extend(packed_tensors(name, splats, packed));
            }
        }
    }
    for statistic in STATISTICS {
        let values = statistic.values(state);
        // Runs without these values omit the tensors, so that their files do not change.
        if !values.is_empty() || !statistic.of_antialiased {
            let name = statistic.name.to_owned();
            wide.push(Tensor::new(name, Kind::F32, &[values.len()], values));
        }
    }
    [wide, narrow]
}

/// Tensors by name: of a file, or of the rows of several.
pub(super) trait TensorSource {
    /// Returns the kind of the numbers of a tensor.
    ///
    /// # Errors
    /// No tensor has this name.
    fn kind(&self, name: &str) -> Result<Kind>;

    /// Returns the values of a tensor.
    ///
    /// # Errors
    /// No tensor has this name, type and shape.
    fn values<T: Pod + Zeroable>(
        &mut self,
        name: &str,
        kind: Kind,
        shape: &[usize],
    ) -> Result<Vec<T>>;
}

impl<R: Read + Seek> TensorSource for Reader<R> {
    fn kind(&self, name: &str) -> Result<Kind> {
        self.kind(name)
    }

    fn values<T: Pod + Zeroable>(
        &mut self,
        name: &str,
        kind: Kind,
        shape: &[usize],
    ) -> Result<Vec<T>> {
        self.read(name, kind, shape)
    }
}

/// Moments in 16 bits, by parameter group.
pub(super) type PackedMoments = [Vec<u16>; PARAM_GROUPS.len()];

/// Packs values with the shapes of splats into 16 bits.
pub(super) fn pack_moments(moments: &Splats) -> PackedMoments {
    PARAM_GROUPS.map(|group| packed(group.values(moments)))
}

/// Returns the tensors of packed moments of the shapes of `splats`.
fn packed_tensors<'a>(of: &str, splats: &Splats, moments: &'a PackedMoments) -> Vec<Tensor<'a>> {
    let groups = PARAM_GROUPS.into_iter().zip(moments);
    let tensor = |(group, values): (dapple_engine::ParamGroup, &'a Vec<u16>)| {
        let name = format!("{of}.{}", group.name);
        let shape = group.shape(splats.len(), splats.sh_degree);
        Tensor::new(name, Kind::BF16, &shape, values)
    };
    groups.map(tensor).collect()
}

/// Reads `n` splats, their moments and density statistics, and the 3D filters if `has_smoothing`.
pub(super) fn read_gaussians(
    source: &mut impl TensorSource,
    n: usize,
    (sh_degree, has_smoothing): (u8, bool),
) -> Result<(Splats, OptimizerState)> {
    let splats = read_splats(source, "splats", n, sh_degree)?;
    let mut state = OptimizerState {
        first_moments: read_splats(source, "first_moments", n, sh_degree)?,
        second_moments: read_splats(source, "second_moments", n, sh_degree)?,
        ..OptimizerState::default()
    };
    read_statistics(source, &mut state, n, has_smoothing)?;
    Ok((splats, state))
}

/// Reads the density statistics of `n` Gaussians, and the 3D filters if `has_smoothing`.
pub(super) fn read_statistics(
    source: &mut impl TensorSource,
    state: &mut OptimizerState,
    n: usize,
    has_smoothing: bool,
) -> Result<()> {
    for statistic in STATISTICS {
        // Values that only anti-aliased runs have exist from the first step on.
        if !statistic.of_antialiased || has_smoothing {
            let values = source.values(statistic.name, Kind::F32, &[n])?;
            statistic.set(state, values);
        }
    }
    Ok(())
}

/// Reads the splats with the best validation score. `last` are the sizes of the views' state after the last step.
pub(super) fn read_best<R: Read + Seek>(
    reader: &mut Reader<R>,
    config: &TrainConfig,
    last: &ViewSizes,
) -> Result<Best> {
    let n = reader.shape("best.means")?.first().copied().unwrap_or(0);
    let splats = read_splats(reader, "best", n, config.sh_degree)?;
    let views = read_views(reader, BEST, config, (true, 0))?;
    if features::photos(&views.sizes()) != features::photos(last) {
        return Err(contradiction("its best splats are of other photos"));
    }
    Ok(Best { splats, views })
}

/// Reads splats, or values with the same shapes, in 32 or 16 bits.
pub(super) fn read_splats(
    source: &mut impl TensorSource,
    of: &str,
    n: usize,
    sh_degree: u8,
) -> Result<Splats> {
    let mut splats = Splats::empty(sh_degree);
    for group in PARAM_GROUPS {
        let name = format!("{of}.{}", group.name);
        let shape = group.shape(n, sh_degree);
        let values: Vec<f32> = match source.kind(&name)? {
            Kind::BF16 => unpacked(&source.values(&name, Kind::BF16, &shape)?),
            _ => source.values(&name, Kind::F32, &shape)?,
        };
        group.set(&mut splats, &values);
    }
    Ok(splats)
}

/// Returns tensors of the views' state, with `before` in front of their names.
pub(crate) fn view_tensors<'a>(
    before: &'a str,
    tensors: &'a [StateTensor<'a>],
) -> impl Iterator<Item = Tensor<'a>> {
    tensors.iter().map(move |tensor| {
        let (name, shape) = (format!("{before}{}", tensor.name), &tensor.shape);
        match &tensor.numbers {
            Numbers::F32(values) => Tensor::new(name, Kind::F32, shape, values),
            Numbers::U32(values) => Tensor::new(name, Kind::U32, shape, values),
        }
    })
}

/// Reads the tensors of the views' state, with `before` in front of their names. `has_steps` is false before the first
/// step; `poses` is the number of refined poses.
pub(super) fn read_views<R: Read + Seek>(
    reader: &mut Reader<R>,
    before: &str,
    config: &TrainConfig,
    (has_steps, poses): (bool, usize),
) -> Result<ViewState> {
    let rows = |name: &str| {
        let shape = reader.shape(&format!("{before}{name}"))?;
        let rows = shape.first().copied();
        rows.ok_or_else(|| contradiction("its photos have no rows"))
    };
    // Which tensors exist follows from the configuration: files of earlier versions have no checksum of the names of
    // tensors.
    let sizes = features::sizes(&Stored {
        config,
        has_steps,
        poses,
        rows: &rows,
    })?;
    let state = ViewState::read(&sizes, |name, shape, is_count| {
        let name = format!("{before}{name}");
        Ok(match is_count {
            false => Numbers::F32(reader.read(&name, Kind::F32, shape)?.into()),
            true => Numbers::U32(reader.read(&name, Kind::U32, shape)?.into()),
        })
    })?;
    state.check()?;
    Ok(state)
}

/// Reads the losses of all steps.
pub(super) fn read_losses<R: Read + Seek>(reader: &mut Reader<R>) -> Result<Vec<LossRow>> {
    let &[count] = reader.shape("history.steps")? else {
        return Err(contradiction("its history is no list"));
    };
    let steps: Vec<u32> = reader.read("history.steps", Kind::U32, &[count])?;
    let losses: Vec<f32> = reader.read("history.losses", Kind::F32, &[count])?;
    let gaussians: Vec<u64> = reader.read("history.gaussians", Kind::U64, &[count])?;
    let rates: Vec<f64> = reader.read("history.steps_per_second", Kind::F64, &[count])?;
    let rows = steps.into_iter().zip(losses).zip(gaussians).zip(rates);
    Ok(rows
        .map(|(((step, loss), gaussians), steps_per_second)| LossRow {
            step,
            loss,
            gaussians,
            steps_per_second,
        })
        .collect())
}
