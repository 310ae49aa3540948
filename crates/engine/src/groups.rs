//! Lists of the tensors of a Gaussian: parameters and statistics.
//!
//! - [`PARAM_GROUPS`]: the tensors of [`Splats`], in the order of the components in an engine's memory.
//!   Adam's moments and gradients have the same shapes.
//! - [`STATISTICS`]: the other tensors of an [`OptimizerState`].
//!
//! Code that copies, checks or stores the tensors (uploads, checkpoints, checks for non-finite numbers)
//! iterates over the lists and names no tensor. A new tensor is a new row here.

use crate::OptimizerState;
use dapple_scene::{Splats, sh_coefficient_count};

/// Optimised tensor: of [`Splats`], and of other values with the same shapes.
#[derive(Debug, Clone, Copy)]
pub struct ParamGroup {
    /// Name of the tensor, also in files and reports.
    pub name: &'static str,
    row: fn(u8) -> Vec<usize>,
    values: fn(&Splats) -> &[f32],
    values_mut: fn(&mut Splats) -> &mut [f32],
    /// Resizes the tensor to a count of numbers that is a multiple of the row's.
    resize: fn(&mut Splats, usize),
}

/// All optimised tensors.
pub const PARAM_GROUPS: [ParamGroup; 6] = [
    ParamGroup {
        name: "means",
        row: |_| vec![3],
        values: |splats| splats.means.as_flattened(),
        values_mut: |splats| splats.means.as_flattened_mut(),
        resize: |splats, len| splats.means.resize(len / 3, [0.0; 3]),
    },
    ParamGroup {
        name: "scales",
        row: |_| vec![3],
        values: |splats| splats.scales.as_flattened(),
        values_mut: |splats| splats.scales.as_flattened_mut(),
        resize: |splats, len| splats.scales.resize(len / 3, [0.0; 3]),
    },
    ParamGroup {
        name: "quats",
        row: |_| vec![4],
        values: |splats| splats.quats.as_flattened(),
        values_mut: |splats| splats.quats.as_flattened_mut(),
        resize: |splats, len| splats.quats.resize(len / 4, [0.0; 4]),
    },
    ParamGroup {
        name: "opacities",
        row: |_| Vec::new(),
        values: |splats| &splats.opacities,
        values_mut: |splats| &mut splats.opacities,
        resize: |splats, len| splats.opacities.resize(len, 0.0),
    },
    ParamGroup {
        name: "sh0",
        row: |_| vec![3],
        values: |splats| splats.sh0.as_flattened(),
        values_mut: |splats| splats.sh0.as_flattened_mut(),
        resize: |splats, len| splats.sh0.resize(len / 3, [0.0; 3]),
    },
    ParamGroup {
        name: "sh_rest",
        row: |sh_degree| vec![sh_coefficient_count(sh_degree) - 1, 3],
        values: |splats| &splats.sh_rest,
        values_mut: |splats| &mut splats.sh_rest,
        resize: |splats, len| splats.sh_rest.resize(len, 0.0),
    },
];

impl ParamGroup {
    /// Returns the shape for `n` Gaussians of this SH degree: `[N, ...]`.
    pub fn shape(&self, n: usize, sh_degree: u8) -> Vec<usize> {
        let mut shape = (self.row)(sh_degree);
        shape.insert(0, n);
        shape
    }

    /// Returns the count of numbers per Gaussian of this SH degree; 0 for `sh_rest` at degree 0.
    pub fn width(&self, sh_degree: u8) -> usize {
        (self.row)(sh_degree).iter().product()
    }

    /// Returns the numbers, Gaussian after Gaussian.
    pub fn values<'a>(&self, splats: &'a Splats) -> &'a [f32] {
        (self.values)(splats)
    }

    /// Returns the numbers for writing, Gaussian after Gaussian.
    pub fn values_mut<'a>(&self, splats: &'a mut Splats) -> &'a mut [f32] {
        (self.values_mut)(splats)
    }

    /// Replaces the numbers and the number of rows. Numbers after the last complete row are dropped.
    pub fn set(&self, splats: &mut Splats, values: &[f32]) {
        (self.resize)(splats, values.len());
        let held = (self.values_mut)(splats);
        for (to, from) in held.iter_mut().zip(values) {
            *to = *from;
        }
    }

    /// Returns true if the tensor has a row for each of `n` Gaussians.
    pub fn fits(&self, splats: &Splats, n: usize) -> bool {
        self.values(splats).len() == n * self.width(splats.sh_degree)
    }
}

/// Creates `n` Gaussians of this SH degree with zeros in all tensors.
pub fn zeros(n: usize, sh_degree: u8) -> Splats {
    let mut splats = Splats::empty(sh_degree);
    for group in PARAM_GROUPS {
        (group.resize)(&mut splats, n * group.width(sh_degree));
    }
    splats
}

/// Statistic of each Gaussian in addition to its parameters, `[N]`.
#[derive(Debug, Clone, Copy)]
pub struct Statistic {
    /// Group and name of the statistic, also in checkpoints.
    pub name: &'static str,
    /// True if only anti-aliased steps set the statistic; it is empty in other states.
    pub of_antialiased: bool,
    values: fn(&OptimizerState) -> &Vec<f32>,
    values_mut: fn(&mut OptimizerState) -> &mut Vec<f32>,
}

/// All statistics.
pub const STATISTICS: [Statistic; 3] = [
    Statistic {
        name: "density.gradient_sums",
        of_antialiased: false,
        values: |state| &state.gradient_sums,
        values_mut: |state| &mut state.gradient_sums,
    },
    Statistic {
        name: "density.visible_counts",
        of_antialiased: false,
        values: |state| &state.visible_counts,
        values_mut: |state| &mut state.visible_counts,
    },
    Statistic {
        name: "antialias.smoothing",
        of_antialiased: true,
        values: |state| &state.filter_3d,
        values_mut: |state| &mut state.filter_3d,
    },
];

impl Statistic {
    /// Returns the numbers, one for each Gaussian.
    pub fn values<'a>(&self, state: &'a OptimizerState) -> &'a [f32] {
        (self.values)(state)
    }

    /// Returns the numbers to change.
    pub fn values_mut<'a>(&self, state: &'a mut OptimizerState) -> &'a mut Vec<f32> {
        (self.values_mut)(state)
    }

    /// Replaces the numbers.
    pub fn set(&self, state: &mut OptimizerState, values: Vec<f32>) {
        *(self.values_mut)(state) = values;
    }

    /// Returns true if there is a number for each of `n` Gaussians, or none for an optional statistic.
    pub fn fits(&self, state: &OptimizerState, n: usize) -> bool {
        let len = self.values(state).len();
        len == n || self.of_antialiased && len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_all_there_is_of_a_gaussian() {
        for degree in 0..=dapple_scene::MAX_SH_DEGREE {
            let mut splats = zeros(5, degree);
            assert!(splats.check_lengths().is_ok());
            let widths: usize = PARAM_GROUPS.iter().map(|g| g.width(degree)).sum();
            assert_eq!(widths, 11 + 3 * sh_coefficient_count(degree));
            // Each group writes the tensor that it reads, and no other tensor.
            for (i, group) in PARAM_GROUPS.iter().enumerate() {
                group.values_mut(&mut splats).fill(1.0 + i as f32);
            }
            for (i, group) in PARAM_GROUPS.iter().enumerate() {
                let values = group.values(&splats);
                assert!(
                    values.iter().all(|&v| v == 1.0 + i as f32),
                    "{}",
                    group.name
                );
                let len: usize = group.shape(5, degree).iter().product();
                assert_eq!(values.len(), len, "{}", group.name);
                assert!(group.fits(&splats, 5) && (len == 0 || !group.fits(&splats, 6)));
            }
        }
    }

    #[test]
    fn statistics_write_what_they_read() {
        let mut state = OptimizerState::default();
        for (i, statistic) in STATISTICS.iter().enumerate() {
            assert_eq!(statistic.fits(&state, 2), statistic.of_antialiased);
            statistic.set(&mut state, vec![i as f32; 2]);
        }
        for (i, statistic) in STATISTICS.iter().enumerate() {
            assert_eq!(statistic.values(&state), [i as f32; 2]);
            assert!(statistic.fits(&state, 2) && !statistic.fits(&state, 3));
        }
    }
}
