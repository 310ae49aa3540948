#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::{AppearanceGrids, AppearanceMlp, RefinedPose};

/// Checks that the lists contain every number of a state, and that each row writes the tensor that it reads. Features
/// with [`assert_complete`](super::tensors::assert_complete) in their files are not among them.
#[test]
fn tensors_are_all_there_is_of_a_view() {
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
        appearance_mlp: AppearanceMlp::new([0.0; 3], 1.0, 4, 5, 0),
        ..ViewState::default()
    };
    let held = &mut state.appearance;
    let mlp = &mut state.appearance_mlp;
    for values in [
        &mut held.coefficients,
        &mut held.first_moments,
        &mut held.second_moments,
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
    let mut tensors = state.tensors().into_iter();
    let copy = ViewState::read(&sizes, |name, shape, is_count| {
        let tensor = tensors.next().unwrap();
        assert_eq!((tensor.name, tensor.shape.as_slice()), (name, shape));
        let len = match &tensor.numbers {
            Numbers::F32(values) => values.len(),
            Numbers::U32(values) => values.len(),
        };
        assert_eq!(len, shape.iter().product::<usize>(), "{name}");
        let counts = matches!(tensor.numbers, Numbers::U32(_));
        assert_eq!(counts, is_count, "{name}");
        Ok(match tensor.numbers {
            Numbers::F32(values) => Numbers::F32(values.into_owned().into()),
            Numbers::U32(values) => Numbers::U32(values.into_owned().into()),
        })
    });
    assert!(copy.unwrap() == state, "a tensor is missing in a list");
    assert_eq!(tensors.next(), None);
    for wrong in ["appearance.seen", "look.network", "poses"] {
        let read = ViewState::read(&sizes, |name, _, is_count| {
            Ok(match is_count == (name == wrong) {
                true => Numbers::F32(vec![0.0; 29].into()),
                false => Numbers::U32(Vec::new().into()),
            })
        });
        assert!(read.is_err(), "{wrong}");
    }
}

#[test]
fn names_in_files_stay() {
    let state = ViewState {
        poses: vec![RefinedPose::from_words(&[0.0; 29])],
        appearance: AppearanceGrids::identity([1; 3], 1),
        appearance_mlp: AppearanceMlp::new([0.0; 3], 1.0, 1, 1, 0),
        ..ViewState::default()
    };
    let names: Vec<&str> = state.tensors().iter().map(|tensor| tensor.name).collect();
    let mut expected = [
        "poses",
        "appearance.coefficients",
        "appearance.first_moments",
        "appearance.second_moments",
        "appearance.seen",
        "look.frame",
        "look.network",
        "look.network_moments",
        "look.codes",
        "look.code_moments",
        "look.seen",
        "look.features",
        "look.feature_moments",
    ];
    expected.sort_unstable();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    assert_eq!(ViewState::default().tensors(), []);
}
