//! [`Sharded`]: steps and renders of one model whose Gaussians several engines hold, each a [`Part`] of them.
//!
//! For a view, every engine projects its own Gaussians ([`Sharded::begin_projections`]). One engine receives the projected
//! Gaussians of all, puts them in the order of the model, and runs the stages from `order` to `blend_backward`
//! ([`Sharded::begin_views`]). Every engine then receives the sums of its own Gaussians and runs `update`
//! ([`Sharded::begin_gradients`]). Each number is computed by the same operations in the same order as in one engine, so
//! that results have the same bits for any number of parts.
//!
//! A round of relocation draws from the weights of all Gaussians ([`Sharded::weigh`]). Copies of the drawn ones travel to
//! the engines that hold their places; all other Gaussians stay where they are.
//!
//! Between engines travel [`Shipment`]s, whose format is that of the engine: all engines of a model are of one kind.

use crate::instruments::Instrumented;
pub use crate::part::{BLOCKS, FIRST_BLOCKS, Part};
use crate::{
    DensifyPlan, LossTerm, NonFiniteReport, Relocation, RenderSettings, Rendered, ScoreAsks,
    ScoredView, StepFeatures, StepReport, StepSettings, ViewId,
};
use dapple_scene::{Camera, Error, Photo, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Step on a view.
pub type ViewStep = (ViewId, StepSettings);

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
pub trait Sharded: Instrumented {
    /// Numbers that travel to other engines of this kind.
    type Shipment: Shipment;

    /// Sets which Gaussians of the model the engine holds, after [`Engine::upload`](crate::Engine::upload).
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

    /// Works like [`Self::render_parts`], and compares the render with a photo: [`Scoring::score`](crate::Scoring::score).
    /// Called if [`Engine::scoring`](crate::Engine::scoring) returns scores.
    ///
    /// # Errors
    /// See [`Self::render_parts`].
    fn score_parts(
        &mut self,
        _camera: &Camera,
        _settings: &RenderSettings,
        (_photo, _asks): (&Photo, ScoreAsks),
        _parts: &[Self::Shipment],
    ) -> Result<Option<ScoredView>> {
        Ok(None)
    }

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

    /// Returns the weight of each Gaussian of the part in the draws of a round of relocation: [`crate::density::weights`].
    ///
    /// # Errors
    /// A plan without relocation, a lost device.
    fn weigh(&mut self, plan: &DensifyPlan) -> Result<Vec<u32>>;

    /// Enlarges the part: [`Part::grown`]. The new Gaussians are undefined until [`Self::put_copies`] puts them.
    ///
    /// # Errors
    /// No memory, a lost device.
    fn grow_part(&mut self, part: Part) -> Result<()>;

    /// Copies parameters and statistics of Gaussians of the part. Returns a shipment for each list of indices.
    ///
    /// # Errors
    /// No memory, a lost device.
    fn take_copies(&mut self, from: &[Vec<u32>]) -> Result<Vec<Self::Shipment>>;

    /// Puts copies in the places of Gaussians of the part: for each of [`Self::take_copies`] a list of indices.
    ///
    /// # Errors
    /// Copies for another number of Gaussians, no memory, a lost device.
    fn put_copies(&mut self, to: &[Vec<u32>], copies: &[Self::Shipment]) -> Result<()>;

    /// Gives Gaussians the opacity and scales of several copies at one place ([`crate::density::shared`]), and moments of zero.
    /// `shared` has their indices and the numbers of copies.
    ///
    /// # Errors
    /// A plan without relocation, a lost device.
    fn share(&mut self, plan: &DensifyPlan, shared: &[[u32; 2]]) -> Result<()>;
}

/// Returns the relocation of a plan.
///
/// # Errors
/// A plan without.
pub fn relocation_of(plan: &DensifyPlan) -> Result<&Relocation> {
    let relocation = plan.relocate.as_ref();
    relocation.ok_or_else(|| Error::internal("a round without relocation came by parts"))
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
        regularise: _,
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
        (
            losses[LossTerm::Matching] != 0.0,
            "the loss of matching photos (--surface)",
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
