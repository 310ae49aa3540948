//! What training holds of each Gaussian, as lists: parameters, and statistics beside them.
//!
//! - [`PARAM_GROUPS`]: the tensors of [`Splats`]. Moments of Adam and gradients are shaped likewise. Their
//!   order is that of the components in an engine's memory.
//! - [`STATISTICS`]: what else an [`OptimizerState`] keeps of each Gaussian.
//!
//! Who copies, checks or stores them (uploads, checkpoints, searches for numbers that are not finite) goes
//! through the lists and names no tensor: another one is a row here.

use crate::OptimizerState;
use dapple_scene::{Splats, sh_coefficient_count};

/// A tensor that is optimised: one of [`Splats`], and of what is shaped like them.
#[derive(Debug, Clone, Copy)]
pub struct ParamGroup {
    /// The name, in files and reports too.
    pub name: &'static str,
    row: fn(u8) -> Vec<usize>,
    values: fn(&Splats) -> &[f32],
    values_mut: fn(&mut Splats) -> &mut [f32],
    /// To so many numbers, a multiple of the row's.
    resize: fn(&mut Splats, usize),
}

/// All of them.
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
    /// The shape for `n` Gaussians of this SH degree: `[N, ...]`.
    pub fn shape(&self, n: usize, sh_degree: u8) -> Vec<usize> {
        let mut shape = (self.row)(sh_degree);
        shape.insert(0, n);
        shape
    }

    /// Numbers of one Gaussian of this SH degree; none of `sh_rest` at degree 0.
    pub fn width(&self, sh_degree: u8) -> usize {
        (self.row)(sh_degree).iter().product()
    }

    /// The numbers, Gaussian after Gaussian.
    pub fn values<'a>(&self, splats: &'a Splats) -> &'a [f32] {
        (self.values)(splats)
    }

    /// The same, to be written.
    pub fn values_mut<'a>(&self, splats: &'a mut Splats) -> &'a mut [f32] {
        (self.values_mut)(splats)
    }

    /// Replaces them, and with them the number of rows; numbers that fill no row are left out.
    pub fn set(&self, splats: &mut Splats, values: &[f32]) {
        (self.resize)(splats, values.len());
        let held = (self.values_mut)(splats);
        for (to, from) in held.iter_mut().zip(values) {
            *to = *from;
        }
    }

    /// Whether the tensor has a row for each of `n` Gaussians.
    pub fn fits(&self, splats: &Splats, n: usize) -> bool {
        self.values(splats).len() == n * self.width(splats.sh_degree)
    }
}

/// `n` Gaussians of this SH degree whose numbers are all zero.
pub fn zeros(n: usize, sh_degree: u8) -> Splats {
    let mut splats = Splats::empty(sh_degree);
    for group in PARAM_GROUPS {
        (group.resize)(&mut splats, n * group.width(sh_degree));
    }
    splats
}

/// A number that is kept of each Gaussian beside its parameters, `[N]`.
#[derive(Debug, Clone, Copy)]
pub struct Statistic {
    /// What it is of, and its name, as in checkpoints.
    pub name: &'static str,
    /// Only a state that has come from anti-aliased steps has it; others have none of it.
    pub of_antialiased: bool,
    values: fn(&OptimizerState) -> &Vec<f32>,
    values_mut: fn(&mut OptimizerState) -> &mut Vec<f32>,
}

/// All of them.
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
        values: |state| &state.smoothing,
        values_mut: |state| &mut state.smoothing,
    },
];

impl Statistic {
    /// The numbers, one for each Gaussian.
    pub fn values<'a>(&self, state: &'a OptimizerState) -> &'a [f32] {
        (self.values)(state)
    }

    /// Replaces them.
    pub fn set(&self, state: &mut OptimizerState, values: Vec<f32>) {
        *(self.values_mut)(state) = values;
    }

    /// Whether there is a number for each of `n` Gaussians, or none where there need not be.
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
            // Each group writes what it reads, and nothing of another.
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
