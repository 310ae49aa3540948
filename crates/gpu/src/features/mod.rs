//! Features: what a training step does beyond the stages.
//!
//! The list is [`dapple_engine::for_each_feature!`]. A feature is a file with its `mod` line. Its `Held` implements
//! [`Feature`]: passes with their [`Point`]s in the plans, bits of a step, and what the feature holds between steps.
//! The order at a point is the order of the list; at [`Point::ImageBack`] it is reversed.
//!
//! Inside kernels of stages, features are permutations ([`crate::passes::Bits`]) or numbers of a step.

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

pub use point::{Feature, FeatureContext, Point};

use crate::passes::{Bits, Pass};
use crate::shared_struct::shared_struct;
use crate::views::Views;
use crate::{Buffers, Context};
use dapple_engine::{FeatureInput, OptimizerState, StepSettings, ViewId, ViewState};
use dapple_runtime::Defines;
use dapple_scene::Result;

/// Declares a field for each feature, and calls the hooks of all.
macro_rules! features {
    ($(#[doc = $text:literal] $name:ident,)*) => {
        /// All features, with what they hold between steps.
        #[derive(Debug, Default)]
        pub struct Features {
            $(#[doc = $text] pub $name: $name::Held,)*
        }

        shared_struct! {
            /// Numbers of the features that are sent as immediates.
            pub struct Immediates {
                $(#[doc = $text] $name: <$name::Held as Feature>::Immediates,)*
            }
        }

        shared_struct! {
            /// Numbers of the features that are sent as parameters.
            pub struct Parameters {
                $(#[doc = $text] $name: <$name::Held as Feature>::Parameters,)*
            }
        }

        /// Returns the immediates of a step.
        pub fn immediates(settings: &StepSettings) -> Immediates {
            Immediates {
                $($name: <$name::Held as Feature>::immediates(settings),)*
            }
        }

        /// Returns the passes at a point, in order.
        pub fn passes(point: Point) -> Vec<&'static Pass> {
            let all = [$(<$name::Held as Feature>::PASSES),*];
            let here = all.into_iter().flatten().filter(|(at, _)| *at == point);
            let mut here: Vec<&'static Pass> = here.map(|(_, pass)| *pass).collect();
            if point == Point::ImageBack {
                here.reverse();
            }
            here
        }

        /// Adds the constants of all features.
        pub fn define(mut defines: Defines) -> Defines {
            $(defines = <$name::Held as Feature>::define(defines);)*
            defines
        }

        /// Returns the bits whose buffers a state fills.
        pub fn bits_of_state(state: &OptimizerState) -> Bits {
            Bits::NONE $(| <$name::Held as Feature>::bits_of_state(state))*
        }

        /// Returns true if a step needs the passes at [`Point::BeforeStep`].
        pub fn runs_before(settings: &StepSettings) -> bool {
            false $(|| <$name::Held as Feature>::runs_before(settings))*
        }

        impl Features {
            /// Returns the bits of a step on a view.
            pub fn bits(&self, view: ViewId, settings: &StepSettings) -> Bits {
                Bits::NONE $(| self.$name.bits(view, settings))*
            }

            /// Calls [`Feature::parameters`].
            ///
            /// # Errors
            /// The first error of a feature.
            pub fn parameters(
                &self,
                views: &Views,
                view: ViewId,
                settings: &StepSettings,
            ) -> Result<Parameters> {
                Ok(Parameters {
                    $($name: self.$name.parameters(views, view, settings)?,)*
                })
            }

            /// Calls [`Feature::reads_back`].
            pub fn reads_back(&self, views: &Views, settings: &StepSettings) -> bool {
                false $(|| self.$name.reads_back(views, settings))*
            }

            /// Calls [`Feature::prepare`].
            ///
            /// # Errors
            /// The first error of a feature.
            pub fn prepare(
                &mut self,
                at: &mut FeatureContext<'_>,
                view: ViewId,
                settings: &StepSettings,
            ) -> Result<()> {
                $(self.$name.prepare(at, view, settings)?;)*
                Ok(())
            }

            /// Passes an input to its feature; no command is in flight.
            ///
            /// # Errors
            /// An input that the feature refuses.
            pub fn set_input(
                &mut self,
                at: &mut FeatureContext<'_>,
                input: FeatureInput,
            ) -> Result<()> {
                $(
                    let Some(input) = self.$name.set_input(at, input)? else {
                        return Ok(());
                    };
                )*
                Err(input.unused())
            }

            /// Calls [`Feature::fill_slot`].
            ///
            /// # Errors
            /// The first error of a feature.
            pub fn fill_slot(
                &mut self,
                context: &Context,
                buffers: &mut Buffers,
                view: ViewId,
                settings: &StepSettings,
                slot: (usize, bool),
            ) -> Result<()> {
                $(self.$name.fill_slot(context, buffers, view, settings, slot)?;)*
                Ok(())
            }

            /// Calls [`Feature::release_slots`].
            pub fn release_slots(&mut self) {
                $(self.$name.release_slots();)*
            }

            /// Returns the bytes on the GPU that are not in [`Buffers`].
            pub fn resident_bytes(&self) -> u64 {
                [$(self.$name.resident_bytes()),*].iter().sum()
            }

            /// Calls [`Feature::fetch`].
            ///
            /// # Errors
            /// The first error of a feature.
            pub fn fetch(&mut self, at: &mut FeatureContext<'_>) -> Result<()> {
                $(self.$name.fetch(at)?;)*
                Ok(())
            }

            /// Calls [`Feature::cameras_written`].
            ///
            /// # Errors
            /// The first error of a feature.
            pub fn cameras_written(&mut self, at: &mut FeatureContext<'_>) -> Result<()> {
                $(self.$name.cameras_written(at)?;)*
                Ok(())
            }

            /// Calls [`Feature::upload`].
            ///
            /// # Errors
            /// The first error of a feature.
            pub fn upload(&mut self, at: &mut FeatureContext<'_>, state: &ViewState) -> Result<()> {
                $(self.$name.upload(at, &state.$name)?;)*
                Ok(())
            }

            /// Calls [`Feature::download`].
            ///
            /// # Errors
            /// The first error of a feature.
            pub fn download(&mut self, at: &mut FeatureContext<'_>) -> Result<ViewState> {
                Ok(ViewState {
                    $($name: self.$name.download(at)?,)*
                })
            }
        }
    };
}

dapple_engine::for_each_feature!(features);
