//! Parts of rounds of relocation: [`Sharded::take_copies`](dapple_engine::Sharded::take_copies) and what follows it.
//!
//! A copy travels as the components of its Gaussian, both density statistics and, if there are 3D filters, its filter.

use super::CpuEngine;
use crate::model::Model;
use crate::simd::ROW;
use crate::stages::densify::{Census, share};
use dapple_engine::sharded::relocation_of;
use dapple_engine::{DensifyPlan, HostShipment, Part, Shipment, density};
use dapple_scene::{Error, Result};

/// Numbers of a copy after the components, without its filter.
const STATISTICS: usize = 2;

impl CpuEngine {
    /// Implements [`dapple_engine::Sharded::weigh`].
    pub(super) fn weights(&self, plan: &DensifyPlan) -> Result<Vec<u32>> {
        let relocation = relocation_of(plan)?;
        let total = self.model.part().total;
        let census = Census(&self.model);
        Ok(self
            .pool
            .install(|| density::weights(plan, relocation, &census, total)))
    }

    /// Implements [`dapple_engine::Sharded::grow_part`].
    pub(super) fn enlarge(&mut self, part: Part) -> Result<()> {
        let added = part.len().checked_sub(self.model.params.len);
        let added = added.ok_or_else(|| Error::internal("a part was to grow and would shrink"))?;
        self.model.insert(added);
        self.model.part = Some(part);
        Ok(())
    }

    /// Implements [`dapple_engine::Sharded::take_copies`].
    pub(super) fn copies_of(&self, from: &[Vec<u32>]) -> Vec<HostShipment> {
        let model = &self.model;
        let lists = from.iter().map(|list| {
            let mut numbers = Vec::with_capacity(list.len() * width(model));
            for i in list.iter().map(|&i| i as usize) {
                numbers.extend((0..model.params.components).map(|c| model.params.get(i, c)));
                numbers.extend([model.stats.gradient_sums[i], model.stats.visible_counts[i]]);
                numbers.extend(model.filter_3d.get(i / ROW).map(|row| row.0[i % ROW]));
            }
            HostShipment::from_bytes(bytemuck::cast_slice(&numbers).to_vec())
        });
        lists.collect()
    }

    /// Implements [`dapple_engine::Sharded::put_copies`].
    pub(super) fn take_places(&mut self, to: &[Vec<u32>], copies: &[HostShipment]) -> Result<()> {
        let model = &mut self.model;
        let components = model.params.components;
        for (places, copies) in to
            .iter()
            .zip(copies)
            .filter(|(places, _)| !places.is_empty())
        {
            let numbers: Vec<f32> = bytemuck::pod_collect_to_vec(&copies.0);
            // A part without Gaussians has no filters yet.
            model.fit_filters(numbers.len() == places.len() * (components + STATISTICS + 1));
            let width = width(model);
            if numbers.len() != places.len() * width {
                return Err(Error::internal(
                    "copies came for another number of Gaussians",
                ));
            }
            for (&place, copy) in places.iter().zip(numbers.chunks_exact(width)) {
                let i = place as usize;
                for (c, value) in copy[..components].iter().enumerate() {
                    model.params.set(i, c, *value);
                }
                model.stats.gradient_sums[i] = copy[components];
                model.stats.visible_counts[i] = copy[components + 1];
                if let Some(row) = model.filter_3d.get_mut(i / ROW) {
                    row.0[i % ROW] = copy[components + STATISTICS];
                }
            }
        }
        Ok(())
    }

    /// Implements [`dapple_engine::Sharded::share`].
    pub(super) fn share_places(&mut self, plan: &DensifyPlan, shared: &[[u32; 2]]) -> Result<()> {
        let relocation = relocation_of(plan)?;
        for &[place, copies] in shared {
            share(relocation, &mut self.model, place as usize, copies);
        }
        Ok(())
    }
}

/// Returns the numbers of a copy.
fn width(model: &Model) -> usize {
    model.params.components + STATISTICS + usize::from(!model.filter_3d.is_empty())
}
