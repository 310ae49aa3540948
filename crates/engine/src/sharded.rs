//! [`Sharded`]: steps and renders of one model whose Gaussians several engines hold, each a range of them.
//!
//! For a view, every engine projects its own Gaussians ([`Sharded::project_views`]). One engine receives the projected
//! Gaussians of all, in the order of the ranges, and runs the stages from `order` to `blend_backward`
//! ([`Sharded::compare_views`]). Every engine then receives the sums of its own Gaussians and runs `update`
//! ([`Sharded::add_gradients`]). Each number is computed by the same operations in the same order as in one engine, so
//! that results have the same bits for any number of ranges.
//!
//! Between engines travel [`Shipment`]s, whose format is that of the engine: all engines of a model are of one kind.

use crate::{
    Engine, LossTerm, NonFiniteReport, RenderSettings, Rendered, StepFeatures, StepReport,
    StepSettings, ViewId,
};
use dapple_scene::{Camera, Error, Result};
use std::sync::Arc;

/// Step on a view.
pub type ViewStep = (ViewId, StepSettings);

/// Range of a model's Gaussians that an engine holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// Index of the first Gaussian in the model: random numbers depend on the index in the model.
    pub first: usize,
    /// Number of Gaussians in the range.
    pub len: usize,
    /// Number of Gaussians of the model.
    pub total: usize,
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

    /// Sets the range of the Gaussians that the engine holds, after [`Engine::upload`].
    ///
    /// # Errors
    /// A lost device.
    fn set_part(&mut self, part: Part) -> Result<()>;

    /// Projects the Gaussians of this part for steps of one batch.
    ///
    /// # Errors
    /// An unknown view, a lost device.
    fn project_views(&mut self, steps: &[ViewStep]) -> Result<Vec<ShownPart<Self::Shipment>>>;

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

    /// For steps of one batch: renders the projected Gaussians of all parts, compares the render with the photo of the
    /// view, and runs the backward pass to the projected Gaussians. `parts` has those of all parts for each step.
    ///
    /// # Errors
    /// An unknown view, a missing photo, a shipment of another engine, a lost device.
    fn compare_views(
        &mut self,
        steps: &[ViewStep],
        parts: &[Vec<Self::Shipment>],
    ) -> Result<Vec<ComparedView<Self::Shipment>>>;

    /// Takes steps of one batch on this part: `update` with the sums of [`Self::compare_views`] for the Gaussians of
    /// [`Self::project_views`].
    ///
    /// Returns the non-finite Gaussians of the part for each step that checks for them.
    ///
    /// # Errors
    /// An unknown view, sums of other Gaussians, a step that is not the next of its batch, a lost device.
    fn add_gradients(
        &mut self,
        steps: &[ViewStep],
        shown: &[ShownPart<Self::Shipment>],
        sums: &[Self::Shipment],
    ) -> Result<Vec<Option<NonFiniteReport>>>;
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
