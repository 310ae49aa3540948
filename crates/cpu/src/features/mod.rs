//! Features: what a training step does beyond the stages.
//!
//! The list is [`dapple_engine::for_each_feature!`]. A feature is a file with its `mod` line. Its `Held` implements the
//! points of [`Feature`] where it acts, and [`Learnt`]; the stages run between the points. A feature with much code has
//! a folder, with its loops over pixels or Gaussians in `kernels`. The order at a point is the order of the
//! list; at [`Feature::image_back`] it is reversed.
//!
//! Inside the loops of `project` and `update`, features act through [`KernelSlots`](crate::context::KernelSlots).

pub mod antialias;
pub mod appearance;
pub mod appearance_mlp;
pub mod depth;
pub mod dropout;
pub mod noise;
pub mod normals;
pub mod perceptual;
pub mod photometric;
mod point;
pub mod poses;
pub mod regularise;

use crate::context::StepContext;
use crate::model::Model;
use crate::views::Views;
use dapple_engine::{FeatureInput, ViewState};
use dapple_scene::Result;
use point::{Feature, Learnt};

/// Declares a field for each feature.
macro_rules! features {
    ($(#[doc = $text:literal] $name:ident,)*) => {
        /// All features, with what they hold between steps.
        #[derive(Debug, Default)]
        pub struct Features {
            $(#[doc = $text] pub $name: $name::Held,)*
        }

        impl Features {
            fn all(&mut self) -> [&mut dyn Feature; [$(stringify!($name)),*].len()] {
                [$(&mut self.$name),*]
            }

            /// Replaces what training has changed of the views.
            pub fn set_state(&mut self, state: ViewState, model: &mut Model, views: &mut Views) {
                $(self.$name.set_state(state.$name, model, views);)*
            }

            /// Returns what training has changed of the views.
            pub fn state(&self, model: &Model, views: &Views) -> ViewState {
                ViewState {
                    $($name: self.$name.state(model, views),)*
                }
            }
        }
    };
}

dapple_engine::for_each_feature!(features);

impl Features {
    /// Passes an input to its feature.
    ///
    /// # Errors
    /// An input that the feature refuses.
    pub fn set_input(&mut self, views: &Views, input: FeatureInput) -> Result<()> {
        let mut input = input;
        for feature in self.all() {
            match feature.set_input(views, input)? {
                Some(other) => input = other,
                None => return Ok(()),
            }
        }
        Err(input.unused())
    }

    /// Calls [`Feature::prepare`] of all features.
    ///
    /// # Errors
    /// The first error of a feature.
    pub fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        self.all()
            .into_iter()
            .try_for_each(|feature| feature.prepare(step))
    }

    /// Calls [`Feature::before_project`] of all features.
    pub fn before_project(&mut self, step: &mut StepContext<'_>) {
        self.all()
            .into_iter()
            .for_each(|feature| feature.before_project(step));
    }

    /// Calls [`Feature::image`] of all features.
    pub fn image(&mut self, step: &mut StepContext<'_>) {
        self.all()
            .into_iter()
            .for_each(|feature| feature.image(step));
    }

    /// Calls [`Feature::image_loss`] of all features.
    ///
    /// # Errors
    /// The first error of a feature.
    pub fn image_loss(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        self.all()
            .into_iter()
            .try_for_each(|feature| feature.image_loss(step))
    }

    /// Calls [`Feature::image_back`] of all features, from the last to the first.
    pub fn image_back(&mut self, step: &mut StepContext<'_>) {
        self.all()
            .into_iter()
            .rev()
            .for_each(|feature| feature.image_back(step));
    }

    /// Calls [`Feature::gradients`] of all features.
    pub fn gradients(&mut self, step: &mut StepContext<'_>) {
        self.all()
            .into_iter()
            .for_each(|feature| feature.gradients(step));
    }

    /// Calls [`Feature::after_update`] of all features.
    pub fn after_update(&mut self, step: &mut StepContext<'_>) {
        self.all()
            .into_iter()
            .for_each(|feature| feature.after_update(step));
    }
}
