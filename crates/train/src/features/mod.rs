//! Features in training: their numbers in each step, contradictions in the configuration, inputs of the engine, their
//! state in checkpoints and results.
//!
//! The list is [`dapple_engine::for_each_feature!`]. A feature is a file with its `mod` line, whose `Feature` implements
//! [`TrainFeature`]. Its settings are rows of `config/rows.rs`.

mod antialias;
mod appearance;
mod appearance_mlp;
mod depth;
mod dropout;
mod noise;
mod normals;
mod perceptual;
mod photometric;
mod point;
mod poses;
mod regularise;

pub(crate) use point::{At, Finding, HandOver, Stored, Weighing};

use crate::TrainConfig;
use crate::config::AppearanceConfig;
use dapple_engine::features::StateTensor;
use dapple_engine::{LossWeights, Rendered, StepFeatures, ViewSizes, ViewState};
use dapple_scene::{Camera, Result};
use point::{Found, TrainFeature};

/// Declares functions that call all features.
macro_rules! features {
    ($(#[doc = $text:literal] $name:ident,)*) => {
        /// Returns the numbers of the features in a step.
        pub(crate) fn step(at: &At<'_>) -> StepFeatures {
            StepFeatures {
                $($name: $name::Feature::step(at),)*
            }
        }

        /// Sets the weights of the features' terms in the loss of a step.
        pub(crate) fn weigh(of: &Weighing<'_>, weights: &mut LossWeights) {
            $($name::Feature::weigh(of, weights);)*
        }

        /// Refuses contradictions in the configuration of features.
        ///
        /// # Errors
        /// The first contradiction.
        pub(crate) fn validate(config: &TrainConfig) -> Result<()> {
            $($name::Feature::validate(config)?;)*
            Ok(())
        }

        /// Finds the inputs of features in the capture.
        ///
        /// # Errors
        /// An input that the capture lacks.
        pub(crate) fn find(of: &Finding<'_>) -> Result<Vec<Found>> {
            let found = [$($name::Feature::find(of)?,)*];
            Ok(found.into_iter().flatten().collect())
        }

        /// Passes the inputs of features to the engine.
        ///
        /// # Errors
        /// An input that the capture or the engine lacks.
        pub(crate) fn hand_over(to: &mut HandOver<'_>) -> Result<()> {
            $($name::Feature::hand_over(to)?;)*
            Ok(())
        }

        /// Returns the sizes of the state in a checkpoint.
        ///
        /// # Errors
        /// A tensor that the checkpoint lacks.
        pub(crate) fn sizes(of: &Stored<'_>) -> Result<ViewSizes> {
            Ok(ViewSizes {
                $($name: $name::Feature::sizes(of)?,)*
            })
        }

        /// Returns the number of photos that each feature has a state of.
        pub(crate) fn photos(sizes: &ViewSizes) -> Vec<usize> {
            vec![$($name::Feature::photos(&sizes.$name),)*]
        }

        /// Returns the numbers that [`photos`] has for a checkpoint of this configuration.
        pub(crate) fn expected_photos(
            config: &TrainConfig,
            has_steps: bool,
            photos: usize,
        ) -> Vec<usize> {
            let learns = [$($name::Feature::learns(config, has_steps),)*];
            learns.map(|learns| if learns { photos } else { 0 }).into()
        }

        /// Returns the tensors of `appearance.safetensors`.
        pub(crate) fn result(state: &ViewState) -> Vec<StateTensor<'_>> {
            let mut tensors = Vec::new();
            $(tensors.extend($name::Feature::result(&state.$name));)*
            tensors
        }

        /// Returns the numbers of a step that changes only the appearance of its photo. `rate` multiplies the step size.
        pub(crate) fn fit(appearance: &AppearanceConfig, rate: f64) -> StepFeatures {
            StepFeatures {
                $($name: $name::Feature::fit(appearance, rate),)*
            }
        }

        /// Applies the learned corrections of a view's photo to a render of the view.
        pub(crate) fn correct(
            state: &ViewState,
            view: usize,
            camera: &Camera,
            rendered: &mut Rendered,
        ) {
            $($name::Feature::correct(&state.$name, view, camera, rendered);)*
        }
    };
}

dapple_engine::for_each_feature!(features);
