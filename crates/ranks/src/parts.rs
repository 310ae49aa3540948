//! Parts of a model ([`Part`]), and all numbers of Gaussians as rows.

use crate::wire::{floats, head_of, with_head};
use dapple_engine::{OptimizerState, PARAM_GROUPS, ParamGroup, Part, STATISTICS, groups};
use dapple_scene::{Error, Result, Splats};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Order of the numbers in the row of a Gaussian: parameters, both moments, statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowLayout {
    /// SH degree.
    pub sh_degree: u8,
    /// True if there are 3D filters.
    pub filters: bool,
}

impl RowLayout {
    /// Returns the numbers of the parameters.
    pub fn params(self) -> usize {
        let widths = PARAM_GROUPS.iter().map(|group| group.width(self.sh_degree));
        widths.sum()
    }

    /// Returns the numbers of a row.
    pub fn width(self) -> usize {
        let optional = usize::from(!self.filters);
        3 * self.params() + STATISTICS.len() - optional
    }

    /// Appends the row of a Gaussian.
    pub fn push(
        self,
        splats: &Splats,
        state: &OptimizerState,
        gaussian: usize,
        rows: &mut Vec<f32>,
    ) {
        for tensors in [splats, &state.first_moments, &state.second_moments] {
            for group in PARAM_GROUPS {
                let width = group.width(self.sh_degree);
                let values = group.values(tensors);
                rows.extend_from_slice(&values[gaussian * width..][..width]);
            }
        }
        let statistics = STATISTICS
            .iter()
            .filter(|each| self.filters || !each.of_antialiased);
        rows.extend(statistics.map(|each| each.values(state)[gaussian]));
    }

    /// Converts rows back.
    ///
    /// # Errors
    /// A number of values that is no multiple of the width.
    pub fn read(self, rows: &[f32]) -> Result<(Splats, OptimizerState)> {
        let width = self.width();
        if !rows.len().is_multiple_of(width) {
            return Err(Error::internal("rows of Gaussians came in pieces"));
        }
        let n = rows.len() / width;
        let zeros = || groups::zeros(n, self.sh_degree);
        let mut splats = zeros();
        let mut state = OptimizerState {
            first_moments: zeros(),
            second_moments: zeros(),
            ..OptimizerState::default()
        };
        let mut first = 0;
        for tensors in [
            &mut splats,
            &mut state.first_moments,
            &mut state.second_moments,
        ] {
            for group in PARAM_GROUPS {
                first += copy_column(
                    group,
                    tensors,
                    self.sh_degree,
                    &rows[first.min(rows.len())..],
                    width,
                );
            }
        }
        for statistic in STATISTICS
            .iter()
            .filter(|each| self.filters || !each.of_antialiased)
        {
            let column = rows.iter().skip(first).step_by(width).copied();
            statistic.set(&mut state, column.collect());
            first += 1;
        }
        Ok((splats, state))
    }
}

/// Copies a tensor from the beginning of each row. Returns the numbers of a row.
fn copy_column(
    group: ParamGroup,
    tensors: &mut Splats,
    sh_degree: u8,
    rows: &[f32],
    width: usize,
) -> usize {
    let own = group.width(sh_degree);
    if own > 0 {
        let values = group.values_mut(tensors).chunks_exact_mut(own);
        for (to, row) in values.zip(rows.chunks(width)) {
            to.copy_from_slice(&row[..own]);
        }
    }
    own
}

/// Returns a part of splats.
pub fn cut(splats: &Splats, part: Part) -> Splats {
    let mut own = Splats::empty(splats.sh_degree);
    for group in PARAM_GROUPS {
        let width = group.width(splats.sh_degree);
        group.set(&mut own, &cut_values(group.values(splats), width, part));
    }
    own
}

/// Returns the state of a part, with the state of all views.
pub fn cut_state(state: &OptimizerState, part: Part) -> OptimizerState {
    let mut own = OptimizerState {
        first_moments: cut(&state.first_moments, part),
        second_moments: cut(&state.second_moments, part),
        views: state.views.clone(),
        ..OptimizerState::default()
    };
    for statistic in STATISTICS {
        let values = statistic.values(state);
        if !values.is_empty() {
            statistic.set(&mut own, cut_values(values, 1, part));
        }
    }
    own
}

/// Returns the values of a part; each Gaussian has `width`.
fn cut_values(values: &[f32], width: usize, part: Part) -> Vec<f32> {
    let ranges = part.ranges();
    let own = ranges.map(|range| &values[range.start * width..range.end * width]);
    own.collect::<Vec<_>>().concat()
}

/// Joins the parts of all engines, in order of their numbers, to the model without the state of views. `part` is one of
/// them.
pub fn join(parts: &[(Splats, OptimizerState)], part: Part) -> (Splats, OptimizerState) {
    let sh_degree = parts.iter().map(|(splats, _)| splats.sh_degree).max();
    let sh_degree = sh_degree.unwrap_or_default();
    let splats = |of: fn(&(Splats, OptimizerState)) -> &Splats| {
        let there: usize = parts.iter().map(|part| of(part).len()).sum();
        let mut joined = groups::zeros(there, sh_degree);
        for group in PARAM_GROUPS {
            let values: Vec<&[f32]> = parts.iter().map(|part| group.values(of(part))).collect();
            let width = group.width(sh_degree);
            join_values(&values, width, part, group.values_mut(&mut joined));
        }
        joined
    };
    let mut state = OptimizerState {
        first_moments: splats(|(_, state)| &state.first_moments),
        second_moments: splats(|(_, state)| &state.second_moments),
        ..OptimizerState::default()
    };
    for statistic in STATISTICS {
        let values = parts.iter().map(|(_, state)| statistic.values(state));
        let values: Vec<&[f32]> = values.collect();
        let mut joined = vec![0.0; values.iter().map(|values| values.len()).sum()];
        join_values(&values, 1, part, &mut joined);
        statistic.set(&mut state, joined);
    }
    (splats(|(splats, _)| splats), state)
}

/// Fills a tensor of the model, or an empty one, from those of its parts. Each Gaussian has `width` numbers.
pub fn join_values<T: Copy + Send + Sync>(
    parts: &[&[T]],
    width: usize,
    part: Part,
    joined: &mut [T],
) {
    let block = part.block * width;
    let blocks = joined.par_chunks_mut(block.max(1)).enumerate();
    blocks.for_each(|(number, to)| {
        let own = parts
            .get(number % part.engines)
            .copied()
            .unwrap_or_default();
        let first = number / part.engines * block;
        if let Some(from) = own.get(first..first + to.len()) {
            to.copy_from_slice(from);
        }
    });
}

/// Head of the bytes of a part.
#[derive(Debug, Serialize, Deserialize)]
struct PartHead {
    sh_degree: u8,
    /// Numbers of each tensor: of splats and moments by the order of [`PARAM_GROUPS`], then of [`STATISTICS`].
    lengths: Vec<usize>,
}

/// Returns a part of a model as bytes, without the state of views.
///
/// # Errors
/// Never: the head can be written.
pub fn to_bytes(splats: &Splats, state: &OptimizerState) -> Result<Vec<u8>> {
    let tensors = tensors_of(splats, state);
    let head = PartHead {
        sh_degree: splats.sh_degree,
        lengths: tensors.iter().map(|values| values.len()).collect(),
    };
    let mut bytes = with_head(&head)?;
    for values in tensors {
        bytes.extend_from_slice(bytemuck::cast_slice(values));
    }
    Ok(bytes)
}

/// Returns the tensors of a part in the order of its bytes.
fn tensors_of<'a>(splats: &'a Splats, state: &'a OptimizerState) -> Vec<&'a [f32]> {
    let sets = [splats, &state.first_moments, &state.second_moments];
    let params = sets
        .into_iter()
        .flat_map(|set| PARAM_GROUPS.map(|group| group.values(set)));
    let statistics = STATISTICS.iter().map(|each| each.values(state));
    params.chain(statistics).collect()
}

/// Reads the bytes of a part.
///
/// # Errors
/// Bytes of another message.
pub fn from_bytes(bytes: &[u8]) -> Result<(Splats, OptimizerState)> {
    let wrong = || Error::internal("a part of the model could not be read");
    let (head, rest): (PartHead, _) = head_of(bytes)?;
    let numbers = floats(rest)?;
    let mut rest = numbers.as_slice();
    let mut lengths = head.lengths.into_iter();
    let mut next = || {
        let length = lengths.next().ok_or_else(wrong)?;
        let (values, others) = rest.split_at_checked(length).ok_or_else(wrong)?;
        rest = others;
        Ok::<_, Error>(values)
    };
    let mut sets = [(); 3].map(|()| Splats::empty(head.sh_degree));
    for set in &mut sets {
        for group in PARAM_GROUPS {
            group.set(set, next()?);
        }
    }
    let [splats, first_moments, second_moments] = sets;
    let mut state = OptimizerState {
        first_moments,
        second_moments,
        ..OptimizerState::default()
    };
    for statistic in STATISTICS {
        statistic.set(&mut state, next()?.to_vec());
    }
    Ok((splats, state))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Creates Gaussians whose numbers are all different.
    fn numbered(n: usize, sh_degree: u8, filters: bool) -> (Splats, OptimizerState) {
        let layout = RowLayout { sh_degree, filters };
        let rows: Vec<f32> = (0..n * layout.width()).map(|i| i as f32).collect();
        layout.read(&rows).unwrap()
    }

    #[test]
    fn rows_and_parts_come_back() {
        for (sh_degree, filters) in [(0, false), (1, true), (3, false)] {
            let (splats, state) = numbered(7, sh_degree, filters);
            let layout = RowLayout { sh_degree, filters };
            let mut rows = Vec::new();
            (0..7).for_each(|i| layout.push(&splats, &state, i, &mut rows));
            assert_eq!(rows.len(), 7 * layout.width());
            assert!(rows.iter().enumerate().all(|(i, &v)| v == i as f32));
            let parts = (0..3).map(|number| {
                let part = Part::new(number, 3, 7);
                (cut(&splats, part), cut_state(&state, part))
            });
            let all = Part::new(0, 3, 7);
            let parts: Vec<_> = parts.collect();
            assert_eq!(join(&parts, all), (splats.clone(), state.clone()));
            let bytes = to_bytes(&splats, &state).unwrap();
            assert_eq!(from_bytes(&bytes).unwrap(), (splats, state));
            assert!(from_bytes(&bytes[..bytes.len() - 4]).is_err());
        }
    }
}
