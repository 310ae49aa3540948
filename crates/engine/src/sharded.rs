//! [`Sharded`]: steps and renders of one model whose Gaussians several engines hold, each a [`Part`] of them.
//!
//! For a view, every engine projects its own Gaussians ([`Sharded::begin_projections`]). One engine receives the projected
//! Gaussians of all, puts them in the order of the model, and runs the stages from `order` to `blend_backward`
//! ([`Sharded::begin_views`]). Every engine then receives the sums of its own Gaussians and runs `update`
//! ([`Sharded::begin_gradients`]). Each number is computed by the same operations in the same order as in one engine, so
//! that results have the same bits for any number of parts.
//!
//! Between engines travel [`Shipment`]s, whose format is that of the engine: all engines of a model are of one kind.

use crate::{
    Engine, LossTerm, NonFiniteReport, RenderSettings, Rendered, StepFeatures, StepReport,
    StepSettings, ViewId,
};
use dapple_scene::{Camera, Error, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Step on a view.
pub type ViewStep = (ViewId, StepSettings);

/// Most blocks of a model, and most engines.
pub const BLOCKS: usize = 128;

/// Gaussians of a model that one of several engines holds.
///
/// The model is cut into at most [`BLOCKS`] equal blocks of consecutive indices. Block b belongs to engine b mod
/// `engines`: neighbours in space have near indices, so that each engine has a share of what any view shows. Within an
/// engine, Gaussians keep the order of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Number of the engine, from 0.
    pub number: usize,
    /// Engines, at least 1 and at most [`BLOCKS`].
    pub engines: usize,
    /// Number of Gaussians of the model.
    pub total: usize,
}

impl Default for Part {
    fn default() -> Self {
        Self::whole(0)
    }
}

impl Part {
    /// Returns the part of an engine, of `engines` that share a model of `total` Gaussians.
    pub fn new(number: usize, engines: usize, total: usize) -> Self {
        Self {
            number,
            engines,
            total,
        }
    }

    /// Returns the part of an engine that holds a whole model.
    pub fn whole(total: usize) -> Self {
        Self::new(0, 1, total)
    }

    /// Returns the Gaussians of a block; the last block may have fewer.
    pub fn block(self) -> usize {
        self.total.div_ceil(BLOCKS).max(1)
    }

    /// Returns the index in the model of a Gaussian of this part. Random numbers depend on it.
    pub fn index(self, local: usize) -> usize {
        if self.engines == 1 {
            // Without the divisions: engines ask for each Gaussian of a step.
            return local;
        }
        let block = self.block();
        (local / block * self.engines + self.number) * block + local % block
    }

    /// Returns the engine that holds a Gaussian of the model, and its index there.
    pub fn place(self, index: usize) -> (usize, usize) {
        let block = self.block();
        let number = index / block;
        let local = number / self.engines * block + index % block;
        (number % self.engines, local)
    }

    /// Returns the ranges of the model's Gaussians that this part consists of, in order.
    pub fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        let block = self.block();
        let firsts = (self.number * block..self.total).step_by(self.engines * block);
        firsts.map(move |first| first..self.total.min(first + block))
    }

    /// Returns the number of Gaussians of this part.
    pub fn len(self) -> usize {
        self.ranges().map(|range| range.len()).sum()
    }

    /// Returns true if this part has no Gaussians.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Numbers that travel between engines. They may stay on a device until the other engine reads them.
pub trait Shipment: Clone + Default + Send + Sync + 'static {
    /// Returns the bytes of the numbers.
    fn len(&self) -> usize;

    /// Returns true if there are no numbers.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the numbers for another process.
    ///
    /// # Errors
    /// A lost device.
    fn to_bytes(&self) -> Result<Vec<u8>>;

    /// Converts from the numbers of another process.
    fn from_bytes(bytes: Vec<u8>) -> Self;
}

/// Shipment of an engine on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostShipment(pub Arc<Vec<u8>>);

impl Shipment for HostShipment {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(self.0.to_vec())
    }

    fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
    }
}

/// Gaussians of a part that a view shows, in order of index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownPart<S> {
    /// Indices in the part, if the shipment has none.
    pub indices: Vec<u32>,
    /// Projected Gaussians.
    pub shipment: S,
}

/// Step on a view of the whole model, before `update`.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedView<S> {
    /// Report of the step, without [`StepReport::not_finite`].
    pub report: StepReport,
    /// Sums of the gradients of the shown Gaussians, for each part.
    pub sums: Vec<S>,
}

/// Engine that can hold a part of a model.
pub trait Sharded: Engine {
    /// Numbers that travel to other engines of this kind.
    type Shipment: Shipment;

    /// Sets which Gaussians of the model the engine holds, after [`Engine::upload`].
    ///
    /// # Errors
    /// A lost device.
    fn set_part(&mut self, part: Part) -> Result<()>;

    /// Begins to project the Gaussians of this part for steps of one batch. [`Self::finish_projections`] returns the
    /// results; several calls may be begun.
    ///
    /// # Errors
    /// An unknown view, a lost device.
    fn begin_projections(&mut self, steps: &[ViewStep]) -> Result<()>;

    /// Waits for the steps of the oldest call of [`Self::begin_projections`], and returns their results.
    ///
    /// # Errors
    /// A lost device.
    fn finish_projections(&mut self) -> Result<Vec<ShownPart<Self::Shipment>>>;

    /// Projects the Gaussians of this part for a render.
    ///
    /// # Errors
    /// An invalid camera, a lost device.
    fn project_camera(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<ShownPart<Self::Shipment>>;

    /// Renders projected Gaussians: [`ShownPart::shipment`] of all parts, in order.
    ///
    /// # Errors
    /// An invalid camera, a shipment of another engine, a lost device.
    fn render_parts(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        parts: &[Self::Shipment],
    ) -> Result<Rendered>;

    /// For steps of one batch: begins to render the projected Gaussians of all parts, to compare the renders with the
    /// photos of the views, and to run the backward pass to the projected Gaussians. `parts` has those of all parts for each
    /// step. [`Self::finish_views`] returns the results; several calls may be begun.
    ///
    /// # Errors
    /// An unknown view, a missing photo, a shipment of another engine, a lost device.
    fn begin_views(&mut self, steps: &[ViewStep], parts: Vec<Vec<Self::Shipment>>) -> Result<()>;

    /// Waits for the steps of the oldest call of [`Self::begin_views`], and returns their results.
    ///
    /// # Errors
    /// A missing photo, a lost device.
    fn finish_views(&mut self) -> Result<Vec<ComparedView<Self::Shipment>>>;

    /// Begins steps of one batch on this part: `update` with the sums of [`Self::finish_views`] for the Gaussians of
    /// [`Self::finish_projections`]. [`Self::finish_gradients`] returns the results; several calls may be begun.
    ///
    /// # Errors
    /// An unknown view, sums of other Gaussians, a step that is not the next of its batch, a lost device.
    fn begin_gradients(
        &mut self,
        steps: &[ViewStep],
        shown: &[ShownPart<Self::Shipment>],
        sums: &[Self::Shipment],
    ) -> Result<()>;

    /// Returns the non-finite Gaussians of the part after the steps of the oldest call of [`Self::begin_gradients`]. Waits
    /// if one of them checks for them; for the others there are none.
    ///
    /// # Errors
    /// A lost device.
    fn finish_gradients(&mut self) -> Result<Vec<Option<NonFiniteReport>>>;
}

/// Returns the results of the oldest call that was begun and not finished.
///
/// # Errors
/// There is none.
pub fn oldest<T>(begun: &mut VecDeque<T>) -> Result<T> {
    let oldest = begun.pop_front();
    oldest.ok_or_else(|| Error::internal("a call was finished that was not begun"))
}

/// Refuses steps with features that act on more than the Gaussians of one part.
///
/// # Errors
/// The first such feature.
pub fn check_settings(settings: &StepSettings) -> Result<()> {
    let StepFeatures {
        normals: _,
        poses,
        antialias: _,
        dropout: _,
        appearance_mlp,
        appearance,
        photometric,
        perceptual: _,
        depth: _,
        regularise: (),
        noise: _,
    } = &settings.features;
    let losses = &settings.losses;
    let refused = [
        (!poses.are_off(), "refined poses (--refine-poses)"),
        (appearance_mlp.is_some(), "--appearance mlp"),
        (appearance.is_some(), "--appearance exposure or bilateral"),
        (photometric.is_some(), "--appearance photometric"),
        (
            losses[LossTerm::Perceptual] != 0.0,
            "the LPIPS loss (--lpips-weight)",
        ),
        (
            losses[LossTerm::Depth] != 0.0,
            "known depths (--depth-from)",
        ),
        (
            losses[LossTerm::Normals] != 0.0,
            "the loss of normals (--surface)",
        ),
    ];
    match refused.into_iter().find(|(is_on, _)| *is_on) {
        None => Ok(()),
        Some((_, what)) => Err(
            Error::unsupported(format!("ranks cannot train with {what} yet"))
                .hint("omit it, or train on one device without ranks"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gaussian_has_one_place() {
        for (engines, total) in [
            (1, 0),
            (1, 9),
            (3, 2),
            (5, 7),
            (4, 1000),
            (128, 300),
            (7, 513),
        ] {
            let mut found = vec![0; total];
            for number in 0..engines {
                let part = Part::new(number, engines, total);
                let indices: Vec<usize> = part.ranges().flatten().collect();
                assert_eq!(indices.len(), part.len());
                assert!(indices.is_sorted());
                for (local, index) in indices.into_iter().enumerate() {
                    assert_eq!(part.index(local), index);
                    assert_eq!(part.place(index), (number, local));
                    found[index] += 1;
                }
            }
            assert!(found.iter().all(|&times| times == 1));
        }
    }
}
