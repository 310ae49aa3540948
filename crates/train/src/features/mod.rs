//! Features in training: their numbers in each step, contradictions in the configuration, inputs of the engine.
//!
//! The list is [`dapple_engine::for_each_feature!`]. A feature is a file with its `mod` line, whose `Feature` implements
//! [`TrainFeature`]. Its settings are rows of `config/rows.rs`.

mod antialias;
mod appearance;
mod appearance_mlp;
pub(crate) mod depth;
mod dropout;
mod noise;
mod perceptual;
mod photometric;
mod point;
mod poses;
mod regularise;

pub(crate) use point::{At, Finding, HandOver};

use crate::TrainConfig;
use dapple_engine::StepFeatures;
use dapple_scene::Result;
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
    };
}

dapple_engine::for_each_feature!(features);
