//! State of a view in addition to its camera and photo, as a list of tensors. [`VIEW_GROUPS`] is the list for
//! views, [`crate::PARAM_GROUPS`] the list for Gaussians.
//!
//! Code that stores or reads the tensors (checkpoints) iterates over the list and names no tensor. A new tensor is
//! a field of [`ViewState`] and a row here.

use crate::appearance::AppearanceGrids;
use crate::appearance_mlp::{EMBEDDING, FEATURES, NETWORK};
use crate::photometric::ROW;
use crate::{AppearanceMlp, POSE_WORDS, Photometric, RefinedPose};
use dapple_scene::{Error, Result};
use std::borrow::Cow;

/// State of the views that training changes, by [`crate::ViewId`]. Empty until a step requests it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ViewState {
    /// Poses; empty if no step has refined any.
    pub poses: Vec<RefinedPose>,
    /// Bilateral grids; empty if no step has learnt any.
    pub appearance: AppearanceGrids,
    /// Photometric models of photos and cameras; empty if no step has learnt any.
    pub photometric: Photometric,
    /// Appearance MLP with its embeddings; empty if the run learns none.
    pub appearance_mlp: AppearanceMlp,
}

/// Sizes of the tensors of a [`ViewState`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ViewSizes {
    /// Number of views with refined poses.
    pub poses: usize,
    /// Number of views with bilateral grids.
    pub grids: usize,
    /// Cells of a grid along x, y and luminance.
    pub cells: [u32; 3],
    /// Number of views with photometric models.
    pub photometric: usize,
    /// Number of views with appearance embeddings.
    pub mlp_views: usize,
    /// Number of Gaussians with features for the appearance MLP.
    pub featured: usize,
}

/// Numbers of a tensor, row by row.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewNumbers<'a> {
    /// Floats; most tensors.
    F32(Cow<'a, [f32]>),
    /// Counts.
    U32(Cow<'a, [u32]>),
}

/// Tensor with a row for each view.
#[derive(Debug, Clone, Copy)]
pub struct ViewGroup {
    /// Name, also in files; the part before the first dot is the group's name.
    pub name: &'static str,
    /// True if the numbers are counts.
    pub is_count: bool,
    shape: fn(&ViewSizes) -> Vec<usize>,
    values: fn(&ViewState) -> ViewNumbers<'_>,
    set: fn(&mut ViewState, &ViewSizes, ViewNumbers<'_>) -> bool,
}

/// All tensors of the views.
pub const VIEW_GROUPS: [ViewGroup; 18] = [
    ViewGroup {
        name: "poses",
        is_count: false,
        shape: |sizes| vec![sizes.poses, POSE_WORDS],
        values: |state| {
            let words = state.poses.iter().flat_map(RefinedPose::to_words);
            ViewNumbers::F32(words.collect())
        },
        set: |state, _, values| {
            let ViewNumbers::F32(words) = values else {
                return false;
            };
            let rows = words.as_chunks::<POSE_WORDS>().0;
            state.poses = rows.iter().map(RefinedPose::from_words).collect();
            true
        },
    },
    grids(
        "appearance.coefficients",
        |state| ViewNumbers::F32((&state.appearance.coefficients).into()),
        |state, sizes, values| set_grids(state, sizes, values, |held| &mut held.coefficients),
    ),
    grids(
        "appearance.first_moments",
        |state| ViewNumbers::F32((&state.appearance.first_moments).into()),
        |state, sizes, values| set_grids(state, sizes, values, |held| &mut held.first_moments),
    ),
    grids(
        "appearance.second_moments",
        |state| ViewNumbers::F32((&state.appearance.second_moments).into()),
        |state, sizes, values| set_grids(state, sizes, values, |held| &mut held.second_moments),
    ),
    ViewGroup {
        name: "appearance.seen",
        is_count: true,
        shape: |sizes| vec![sizes.grids],
        values: |state| ViewNumbers::U32((&state.appearance.seen).into()),
        set: |state, _, values| set_counts(&mut state.appearance.seen, values),
    },
    ViewGroup {
        name: "photometric.cameras",
        is_count: true,
        shape: |sizes| vec![sizes.photometric],
        values: |state| ViewNumbers::U32((&state.photometric.cameras).into()),
        set: |state, _, values| set_counts(&mut state.photometric.cameras, values),
    },
    floats(
        "photometric.numbers",
        |sizes| vec![sizes.photometric, ROW],
        |state| ViewNumbers::F32((&state.photometric.numbers).into()),
        |state, _, values| set_floats(&mut state.photometric.numbers, values),
    ),
    floats(
        "photometric.first_moments",
        |sizes| vec![sizes.photometric, ROW],
        |state| ViewNumbers::F32((&state.photometric.first_moments).into()),
        |state, _, values| set_floats(&mut state.photometric.first_moments, values),
    ),
    floats(
        "photometric.second_moments",
        |sizes| vec![sizes.photometric, ROW],
        |state| ViewNumbers::F32((&state.photometric.second_moments).into()),
        |state, _, values| set_floats(&mut state.photometric.second_moments, values),
    ),
    ViewGroup {
        name: "photometric.seen",
        is_count: true,
        shape: |sizes| vec![sizes.photometric, 2],
        values: |state| ViewNumbers::U32((&state.photometric.seen).into()),
        set: |state, _, values| set_counts(&mut state.photometric.seen, values),
    },
    floats(
        "look.frame",
        |sizes| vec![sizes.mlp_views.min(1), 4],
        |state| ViewNumbers::F32((&state.appearance_mlp.frame).into()),
        |state, _, values| set_floats(&mut state.appearance_mlp.frame, values),
    ),
    floats(
        "look.network",
        |sizes| vec![sizes.mlp_views.min(1), NETWORK],
        |state| ViewNumbers::F32((&state.appearance_mlp.network).into()),
        |state, _, values| set_floats(&mut state.appearance_mlp.network, values),
    ),
    floats(
        "look.network_moments",
        |sizes| vec![sizes.mlp_views.min(1), 2, NETWORK],
        |state| ViewNumbers::F32((&state.appearance_mlp.network_moments).into()),
        |state, _, values| set_floats(&mut state.appearance_mlp.network_moments, values),
    ),
    floats(
        "look.codes",
        |sizes| vec![sizes.mlp_views, EMBEDDING],
        |state| ViewNumbers::F32((&state.appearance_mlp.embeddings).into()),
        |state, _, values| set_floats(&mut state.appearance_mlp.embeddings, values),
    ),
    floats(
        "look.code_moments",
        |sizes| vec![sizes.mlp_views, 2, EMBEDDING],
        |state| ViewNumbers::F32((&state.appearance_mlp.embedding_moments).into()),
        |state, _, values| set_floats(&mut state.appearance_mlp.embedding_moments, values),
    ),
    ViewGroup {
        name: "look.seen",
        is_count: true,
        shape: |sizes| vec![sizes.mlp_views],
        values: |state| ViewNumbers::U32((&state.appearance_mlp.seen).into()),
        set: |state, _, values| set_counts(&mut state.appearance_mlp.seen, values),
    },
    floats(
        "look.features",
        |sizes| vec![sizes.featured, FEATURES],
        |state| ViewNumbers::F32((&state.appearance_mlp.features).into()),
        |state, _, values| set_floats(&mut state.appearance_mlp.features, values),
    ),
    floats(
        "look.feature_moments",
        |sizes| vec![sizes.featured, 2, FEATURES],
        |state| ViewNumbers::F32((&state.appearance_mlp.feature_moments).into()),
        |state, _, values| set_floats(&mut state.appearance_mlp.feature_moments, values),
    ),
];

/// Creates a tensor of floats. The network of the appearance MLP has one row for all views, and its features have
/// one row for each Gaussian.
const fn floats(
    name: &'static str,
    shape: fn(&ViewSizes) -> Vec<usize>,
    values: fn(&ViewState) -> ViewNumbers<'_>,
    set: fn(&mut ViewState, &ViewSizes, ViewNumbers<'_>) -> bool,
) -> ViewGroup {
    ViewGroup {
        name,
        is_count: false,
        shape,
        values,
        set,
    }
}

fn set_floats(into: &mut Vec<f32>, values: ViewNumbers<'_>) -> bool {
    let ViewNumbers::F32(values) = values else {
        return false;
    };
    *into = values.into_owned();
    true
}

fn set_counts(into: &mut Vec<u32>, values: ViewNumbers<'_>) -> bool {
    let ViewNumbers::U32(counts) = values else {
        return false;
    };
    *into = counts.into_owned();
    true
}

/// Creates a tensor with the shape of the bilateral grids.
const fn grids(
    name: &'static str,
    values: fn(&ViewState) -> ViewNumbers<'_>,
    set: fn(&mut ViewState, &ViewSizes, ViewNumbers<'_>) -> bool,
) -> ViewGroup {
    let shape = |sizes: &ViewSizes| {
        let [x, y, luminance] = sizes.cells.map(|n| n as usize);
        vec![sizes.grids, y, x, luminance, 3, 4]
    };
    floats(name, shape, values, set)
}

fn set_grids(
    state: &mut ViewState,
    sizes: &ViewSizes,
    values: ViewNumbers<'_>,
    of: fn(&mut AppearanceGrids) -> &mut Vec<f32>,
) -> bool {
    let is_set = set_floats(of(&mut state.appearance), values);
    if is_set {
        state.appearance.cells = sizes.cells;
    }
    is_set
}

impl ViewState {
    /// Returns the sizes of all tensors.
    pub fn sizes(&self) -> ViewSizes {
        ViewSizes {
            poses: self.poses.len(),
            grids: self.appearance.views(),
            cells: self.appearance.cells,
            photometric: self.photometric.views(),
            mlp_views: self.appearance_mlp.views(),
            featured: self.appearance_mlp.gaussians(),
        }
    }
}

impl ViewGroup {
    /// Returns the shape. The first dimension is the number of views; without views, there is no tensor.
    pub fn shape(&self, sizes: &ViewSizes) -> Vec<usize> {
        (self.shape)(sizes)
    }

    /// Returns the numbers, view after view.
    pub fn values<'a>(&self, state: &'a ViewState) -> ViewNumbers<'a> {
        (self.values)(state)
    }

    /// Replaces the numbers.
    ///
    /// # Errors
    /// Floats for a tensor of counts, or counts for a tensor of floats.
    pub fn set(
        &self,
        state: &mut ViewState,
        sizes: &ViewSizes,
        values: ViewNumbers<'_>,
    ) -> Result<()> {
        if (self.set)(state, sizes, values) {
            return Ok(());
        }
        let name = self.name;
        Err(Error::internal(format!(
            "the numbers of {name} have another type"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the list contains every number of a state, and that each row writes the tensor that it reads.
    #[test]
    fn groups_are_all_there_is_of_a_view() {
        let mut next = 0.0f32;
        let mut number = || {
            next += 1.0;
            next
        };
        let mut state = ViewState {
            poses: (0..3)
                .map(|_| RefinedPose::from_words(&std::array::from_fn(|_| number())))
                .collect(),
            appearance: AppearanceGrids::identity([2, 3, 1], 2),
            photometric: Photometric {
                cameras: vec![0, 0],
                numbers: vec![0.0; 2 * ROW],
                first_moments: vec![0.0; 2 * ROW],
                second_moments: vec![0.0; 2 * ROW],
                seen: vec![3, 4, 5, 6],
            },
            appearance_mlp: AppearanceMlp::new([0.0; 3], 1.0, 4, 5, 0),
        };
        let held = &mut state.appearance;
        let mlp = &mut state.appearance_mlp;
        let photometric = &mut state.photometric;
        for values in [
            &mut held.coefficients,
            &mut held.first_moments,
            &mut held.second_moments,
            &mut photometric.numbers,
            &mut photometric.first_moments,
            &mut photometric.second_moments,
            &mut mlp.frame,
            &mut mlp.network,
            &mut mlp.network_moments,
            &mut mlp.embeddings,
            &mut mlp.embedding_moments,
            &mut mlp.features,
            &mut mlp.feature_moments,
        ] {
            values.iter_mut().for_each(|value| *value = number());
        }
        held.seen = vec![7, 9];
        mlp.seen = vec![1, 2, 3, 4];
        let sizes = state.sizes();
        let mut copy = ViewState::default();
        for group in VIEW_GROUPS {
            let values = group.values(&state);
            let len = match &values {
                ViewNumbers::F32(values) => values.len(),
                ViewNumbers::U32(values) => values.len(),
            };
            let name = group.name;
            assert_eq!(len, group.shape(&sizes).iter().product::<usize>(), "{name}");
            assert_eq!(
                group.is_count,
                matches!(values, ViewNumbers::U32(_)),
                "{name}"
            );
            group.set(&mut copy, &sizes, values).unwrap();
        }
        assert_eq!(copy, state);
        for group in VIEW_GROUPS {
            let wrong = match group.is_count {
                true => ViewNumbers::F32(Vec::new().into()),
                false => ViewNumbers::U32(Vec::new().into()),
            };
            assert!(group.set(&mut copy, &sizes, wrong).is_err());
        }
    }
}
