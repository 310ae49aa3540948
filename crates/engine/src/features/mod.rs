//! Features: what a run can do beyond the stages of a training step.
//!
//! [`for_each_feature!`](crate::for_each_feature) is the list. Each crate expands it over its own folder `features`, with
//! a file of the same name for each feature:
//!
//! | crate | file |
//! |---|---|
//! | `dapple-engine` | `Step`: its numbers in a step. `State`: what training changes of views. Both may be `()` |
//! | `dapple-cpu` | `Held`: its points in a step of the CPU engine |
//! | `dapple-gpu` | `Held`: its passes at points of a step, numbers, and state |
//! | `dapple-reference` | `oracle`: its formulas in `f64`. `conformance`: checks of engines |
//! | `dapple-train` | `Feature`: its numbers by schedule, contradictions in the configuration, inputs of the engine |
//!
//! To add a feature: a row of the list, and a file with its `mod` line in each of these crates. A missing file is a
//! compile error. A term of the loss without numbers of its own is no feature but a row of [`crate::LossTerm`].

pub mod antialias;
pub mod appearance;
pub mod appearance_mlp;
pub mod depth;
pub mod dropout;
mod input;
pub mod noise;
pub mod normals;
pub mod perceptual;
pub mod photometric;
pub mod poses;
pub mod regularise;
mod tensors;

pub use input::FeatureInput;
pub use tensors::{Field, Numbers, StateTensor, TensorRow, ViewTensors};

use dapple_scene::Result;
use serde::{Deserialize, Serialize};

/// Passes the list of features to a macro. The order is that of their points in a step.
#[macro_export]
macro_rules! for_each_feature {
    ($with:ident) => {
        $with! {
            /// Loss of the normals of Gaussians against their surface; before the poses that it moves.
            normals,
            /// Refinement of the view's pose.
            poses,
            /// 3D filters of the Gaussians.
            antialias,
            /// Random omission of Gaussians.
            dropout,
            /// Colours by a network and an embedding of the view.
            appearance_mlp,
            /// Grids of affine colour maps.
            appearance,
            /// Photometric models of photos and cameras.
            photometric,
            /// Loss over crops.
            perceptual,
            /// Loss by known depths.
            depth,
            /// Loss terms over Gaussians.
            regularise,
            /// Noise on centres.
            noise,
        }
    };
}

/// Declares the types that have a field for each feature.
macro_rules! features {
    ($(#[doc = $text:literal] $name:ident,)*) => {
        /// Numbers of the features in one step; all are off by default.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct StepFeatures {
            $(#[doc = $text] pub $name: $name::Step,)*
        }

        /// State of the views that training changes, by [`crate::ViewId`], and what else a feature holds for them. Each
        /// is empty until a step requests it.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct ViewState {
            $(#[doc = $text] pub $name: $name::State,)*
        }

        /// Sizes of the tensors of a [`ViewState`].
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct ViewSizes {
            $(#[doc = $text] pub $name: <$name::State as ViewTensors>::Sizes,)*
        }

        impl ViewState {
            /// Returns the sizes of all tensors.
            pub fn sizes(&self) -> ViewSizes {
                ViewSizes {
                    $($name: self.$name.sizes(),)*
                }
            }

            /// Checks that the lengths of all tensors are consistent.
            ///
            /// # Errors
            /// Lengths that differ.
            pub fn check(&self) -> Result<()> {
                $(ViewTensors::check(&self.$name)?;)*
                Ok(())
            }

            /// Returns all tensors that are not empty, for files.
            pub fn tensors(&self) -> Vec<StateTensor<'_>> {
                let mut tensors = Vec::new();
                $(tensors::push(&self.$name, &mut tensors);)*
                tensors
            }

            /// Creates a state of these sizes. `read` returns the numbers of a tensor by its name, its shape, and true
            /// for counts.
            ///
            /// # Errors
            /// Those of `read`; numbers of another type.
            pub fn read(
                sizes: &ViewSizes,
                mut read: impl FnMut(&'static str, &[usize], bool) -> Result<Numbers<'static>>,
            ) -> Result<Self> {
                let mut state = Self::default();
                $(tensors::read(&mut state.$name, &sizes.$name, &mut read)?;)*
                Ok(state)
            }
        }
    };
}

for_each_feature!(features);

impl StepFeatures {
    /// Refuses two corrections of one image.
    ///
    /// # Errors
    /// Grids and the photometric model in one step.
    pub fn check(&self) -> Result<()> {
        match self.appearance.is_some() && self.photometric.is_some() {
            false => Ok(()),
            true => Err(dapple_scene::Error::input(
                "a step cannot learn the grid and the photometric model of one photo",
            )
            .hint("set one of appearance and photometric")),
        }
    }
}

#[cfg(test)]
mod tests;
