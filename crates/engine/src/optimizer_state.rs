//! [`OptimizerState`]: what a run needs to continue.

use crate::{STATISTICS, ViewState};
use dapple_scene::Splats;
use dapple_scene::order::{append, gather};

/// State, in addition to the splats, that a run needs to continue bit-identically.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OptimizerState {
    /// Adam's first moments, with the shape of the splats.
    pub first_moments: Splats,
    /// Adam's second moments, with the shape of the splats.
    pub second_moments: Splats,
    /// Sum of screen-space gradient norms since the last densification round, `[N]`.
    pub gradient_sums: Vec<f32>,
    /// Number of steps in which each Gaussian was visible since the last densification round, `[N]`.
    pub visible_counts: Vec<f32>,
    /// Standard deviation of each Gaussian's 3D filter, world units, `[N]`. Empty if no step or render was
    /// anti-aliased. See [`crate::filter_3d`].
    pub filter_3d: Vec<f32>,
    /// Number of Gaussians at the end of the model that are frozen: steps and rounds of density control leave their
    /// parameters and moments as they are. Renders show them. They remain the last Gaussians in their order.
    pub frozen: usize,
    /// Number of Gaussians of the sky, before the frozen ones: steps leave their centres, scales and quaternions as
    /// they are and apply no regularisers to them, and rounds of density control leave them as they are. They remain in
    /// their order. The first moments of their centres, scales and quaternions are zero.
    pub sky: usize,
    /// State of the engine's views that training changes.
    pub views: ViewState,
}

impl OptimizerState {
    /// Creates the state of splats before the first step.
    pub fn untrained(splats: &Splats, views: ViewState) -> Self {
        let n = splats.len();
        let zeros = || crate::groups::zeros(n, splats.sh_degree);
        Self {
            first_moments: zeros(),
            second_moments: zeros(),
            gradient_sums: vec![0.0; n],
            visible_counts: vec![0.0; n],
            filter_3d: Vec::new(),
            frozen: 0,
            sky: 0,
            views,
        }
    }

    /// Puts the state of Gaussians in another order: that of the old indices `order`. Tensors of another length stay.
    pub fn reorder(&mut self, order: &[usize]) {
        for moments in [&mut self.first_moments, &mut self.second_moments] {
            if moments.len() == order.len() {
                *moments = gather(moments, order);
            }
        }
        for statistic in STATISTICS {
            let values = statistic.values(self);
            if values.len() == order.len() {
                let values = order.iter().map(|&from| values[from]).collect();
                statistic.set(self, values);
            }
        }
    }

    /// Appends the state of further Gaussians.
    pub fn append(&mut self, more: Self) {
        for statistic in STATISTICS {
            let values = [statistic.values(self), statistic.values(&more)].concat();
            statistic.set(self, values);
        }
        append(&mut self.first_moments, more.first_moments);
        append(&mut self.second_moments, more.second_moments);
    }
}
