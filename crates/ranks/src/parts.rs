//! Parts of a model: ranges of Gaussians, and all numbers of Gaussians as rows.

use crate::wire::{floats, head_of, with_head};
use dapple_engine::{OptimizerState, PARAM_GROUPS, ParamGroup, STATISTICS, groups};
use dapple_scene::order::append;
use dapple_scene::{Error, Result, Splats};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Returns the Gaussians of a rank, when `ranks` ranks share `total` Gaussians evenly.
pub fn range(rank: usize, ranks: usize, total: usize) -> Range<usize> {
    let first = |rank: usize| (rank as u128 * total as u128 / ranks.max(1) as u128) as usize;
    first(rank)..first(rank + 1)
}

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

/// Returns a range of splats.
pub fn cut(splats: &Splats, range: Range<usize>) -> Splats {
    let mut part = Splats::empty(splats.sh_degree);
    for group in PARAM_GROUPS {
        let width = group.width(splats.sh_degree);
        group.set(
            &mut part,
            &group.values(splats)[range.start * width..range.end * width],
        );
    }
    part
}

/// Returns the state of a range of Gaussians, with the state of all views.
pub fn cut_state(state: &OptimizerState, range: Range<usize>) -> OptimizerState {
    let mut part = OptimizerState {
        first_moments: cut(&state.first_moments, range.clone()),
        second_moments: cut(&state.second_moments, range.clone()),
        views: state.views.clone(),
        ..OptimizerState::default()
    };
    for statistic in STATISTICS {
        let values = statistic.values(state);
        if !values.is_empty() {
            statistic.set(&mut part, values[range.clone()].to_vec());
        }
    }
    part
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

/// Appends the state of Gaussians to that of others.
pub fn append_state(to: &mut OptimizerState, part: OptimizerState) {
    for statistic in STATISTICS {
        let values = [statistic.values(to), statistic.values(&part)].concat();
        statistic.set(to, values);
    }
    append(&mut to.first_moments, part.first_moments);
    append(&mut to.second_moments, part.second_moments);
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
            let (mut all, mut all_state) = <(Splats, OptimizerState)>::default();
            for rank in 0..3 {
                let own = range(rank, 3, 7);
                append(&mut all, cut(&splats, own.clone()));
                append_state(&mut all_state, cut_state(&state, own));
            }
            assert_eq!((all, all_state), (splats.clone(), state.clone()));
            let bytes = to_bytes(&splats, &state).unwrap();
            assert_eq!(from_bytes(&bytes).unwrap(), (splats, state));
            assert!(from_bytes(&bytes[..bytes.len() - 4]).is_err());
        }
    }

    #[test]
    fn ranges_cover_all_gaussians_once() {
        for (ranks, total) in [(1, 0), (1, 9), (3, 2), (5, 7), (4, 4_000_000_000)] {
            let ends = (0..ranks).map(|rank| range(rank, ranks, total));
            let mut next = 0;
            for own in ends {
                assert_eq!(own.start, next);
                assert!(own.len() <= total.div_ceil(ranks));
                next = own.end;
            }
            assert_eq!(next, total);
        }
    }
}
