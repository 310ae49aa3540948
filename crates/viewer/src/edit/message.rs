//! Messages of pages about edits, and their conversion to edit commands.

use crate::protocol::ViewRequest;
use crate::request::PageId;
use dapple_scene::edit::{
    Comparison, Condition, Property, SelectionCamera, SelectionStep, SetOperation, Shape,
};
use dapple_scene::{Camera, Error, Result};
use serde::Deserialize;

/// Edit message of a page.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum EditCommand {
    /// Select by a gesture.
    Select {
        how: Mode,
        by: Gesture,
    },
    /// Select nothing.
    Deselect,
    Histogram {
        property: String,
    },
    Delete,
    Crop,
    Hide,
    ShowAll,
    Transform {
        degrees: [f64; 3],
        factor: f64,
        by: [f64; 3],
    },
    Undo,
    Redo,
    Save,
}

/// Set operation of a gesture: how it combines with the previous selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    New,
    Add,
    Subtract,
    Intersect,
    Toggle,
}

/// Gesture or condition that selects Gaussians.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Gesture {
    /// Corners in pixels of the view request.
    Polygon {
        look: ViewRequest,
        points: Vec<[f64; 2]>,
    },
    /// A brush along points, its radius in pixels of the view request.
    Stroke {
        look: ViewRequest,
        points: Vec<[f64; 2]>,
        radius: f64,
    },
    /// Range of a property, bounds included. An omitted bound is unbounded.
    Range {
        property: String,
        #[serde(default)]
        from: Option<f64>,
        #[serde(default)]
        to: Option<f64>,
    },
    All,
}

/// Edit command of a page with all its arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Selects.
    Select {
        /// True if the previous selection is discarded first.
        anew: bool,
        /// The gesture.
        pick: Box<SelectionStep>,
    },
    /// Selects nothing.
    Deselect,
    /// Computes a histogram of the property; changes nothing.
    Histogram(Property),
    /// Removes the selected Gaussians.
    Delete,
    /// Removes the Gaussians that are not selected.
    Crop,
    /// Hides the selected Gaussians.
    Hide,
    /// Shows the hidden Gaussians.
    ShowAll,
    /// Turns and scales the selection about its middle, and then moves it; all Gaussians if nothing is selected.
    Transform {
        /// About the world's x, then y, then z axis.
        degrees: [f64; 3],
        /// Above 0.
        factor: f64,
        /// World units.
        by: [f64; 3],
    },
    /// Undoes the last action.
    Undo,
    /// Redoes the last undone action.
    Redo,
    /// Writes the splats and the recipe.
    Save,
}

/// Edit command and the page that sent it.
#[derive(Debug, Clone, PartialEq)]
pub struct EditRequest {
    pub(crate) page: PageId,
    /// The edit command.
    pub edit: Edit,
}

/// Returns the property with this name.
fn property(name: &str) -> Result<Property> {
    let found = Property::of_name(name).filter(|found| *found != Property::Contribution);
    found.ok_or_else(|| {
        Error::input("there is no such property to select by")
            .hint(format!("Gaussians have {}", Property::names()))
    })
}

impl EditCommand {
    /// Converts the message to an edit command. `camera` returns the camera of a view request.
    ///
    /// # Errors
    /// Cameras and numbers out of bounds, unknown properties, and a view request that shows something other than the
    /// edited splats.
    pub(crate) fn meant(self, camera: impl Fn(&ViewRequest) -> Camera) -> Result<Edit> {
        Ok(match self {
            Self::Select { how, by } => {
                let pick = SelectionStep {
                    how: how.meant(),
                    by: by.meant(camera)?,
                };
                pick.check()?;
                let (anew, pick) = (how == Mode::New, Box::new(pick));
                Edit::Select { anew, pick }
            }
            Self::Histogram { property: name } => Edit::Histogram(property(&name)?),
            Self::Transform {
                degrees,
                factor,
                by,
            } => {
                let all = degrees.iter().chain(&by).copied();
                // A scene of float numbers has no larger coordinates.
                if !all.clone().all(|v| v.abs() <= 1e9) || !(1e-6..=1e6).contains(&factor) {
                    return Err(Error::input("a scene cannot be moved like this")
                        .hint("degrees and world units up to a thousand million, factors from 0.000001 to a million"));
                }
                Edit::Transform {
                    degrees,
                    factor,
                    by,
                }
            }
            Self::Deselect => Edit::Deselect,
            Self::Delete => Edit::Delete,
            Self::Crop => Edit::Crop,
            Self::Hide => Edit::Hide,
            Self::ShowAll => Edit::ShowAll,
            Self::Undo => Edit::Undo,
            Self::Redo => Edit::Redo,
            Self::Save => Edit::Save,
        })
    }
}

impl Mode {
    fn meant(self) -> SetOperation {
        match self {
            Self::New | Self::Add => SetOperation::Add,
            Self::Subtract => SetOperation::Subtract,
            Self::Intersect => SetOperation::Intersect,
            Self::Toggle => SetOperation::Toggle,
        }
    }
}

impl Gesture {
    fn meant(self, camera: impl Fn(&ViewRequest) -> Camera) -> Result<Shape> {
        let eye = |look: &ViewRequest| -> Result<SelectionCamera> {
            look.check()?;
            if look.snapshot.is_some() {
                return Err(Error::input(
                    "a snapshot is shown, and the splats as they are now are edited",
                )
                .hint("go to the end of the slider of time"));
            }
            Ok(SelectionCamera::from(&camera(look)))
        };
        Ok(match self {
            Self::Polygon { look, points } => Shape::Polygon {
                eye: eye(&look)?,
                points,
            },
            Self::Stroke {
                look,
                points,
                radius,
            } => Shape::Stroke {
                eye: eye(&look)?,
                points,
                radius,
            },
            Self::Range {
                property: name,
                from,
                to,
            } => {
                let property = property(&name)?;
                let ends = [(Comparison::AtLeast, from), (Comparison::AtMost, to)];
                let compares = |(comparison, end): (Comparison, Option<f64>)| {
                    end.map(|value| Condition::Compares {
                        property,
                        comparison,
                        value,
                    })
                };
                Shape::Conditions(ends.into_iter().filter_map(compares).collect())
            }
            Self::All => Shape::All,
        })
    }
}
