//! Sessions of edits, against chains of actions that are applied directly.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use super::*;
use dapple_scene::edit::SetOperation;
use dapple_scene::splat_file::{self, NearestBy};

/// A row of Gaussians of degree 1, x from 0 on.
fn row(n: usize) -> Splats {
    Splats {
        means: (0..n).map(|i| [i as f32, 0.5, 0.0]).collect(),
        scales: vec![[-2.0; 3]; n],
        quats: vec![[1.0, 0.0, 0.0, 0.0]; n],
        opacities: vec![1.0; n],
        sh0: vec![[0.2, 0.4, 0.6]; n],
        sh_rest: vec![0.25; 9 * n],
        sh_degree: 1,
    }
}

fn by(shape: Shape, anew: bool, how: SetOperation) -> Edit {
    Edit::Select {
        anew,
        pick: Box::new(SelectionStep { how, by: shape }),
    }
}

/// Selects the Gaussians with x in a range.
fn range(from: f64, to: f64) -> Edit {
    let conditions = [format!("x>={from}"), format!("x<={to}")].map(|c| c.parse().unwrap());
    by(
        Shape::Conditions(conditions.to_vec()),
        true,
        SetOperation::Add,
    )
}

fn session(n: usize) -> EditSession {
    EditSession::new(row(n), Err("nowhere".to_owned()))
}

fn replayed(session: &EditSession) -> Splats {
    let mut editor = Editor::new(session.original.clone());
    for action in session.recipe().actions {
        editor.apply(&action, &mut NoCapture, &NoProgress).unwrap();
    }
    editor.into_splats()
}

/// Edits of every kind.
fn all_kinds() -> Vec<Edit> {
    let moves = |degrees, factor, by| Edit::Transform {
        degrees,
        factor,
        by,
    };
    vec![
        range(2.0, 4.0),
        Edit::Hide,
        range(0.0, 9.0),
        moves([0.0, 0.0, 30.0], 1.5, [0.0, 0.1, 0.2]),
        moves([10.0, 0.0, 0.0], 0.9, [0.0, 0.0, 0.7]),
        Edit::Deselect,
        moves([0.0, 20.0, 0.0], 2.0, [1.0, 0.0, 0.0]),
        range(-100.0, -1.0),
        Edit::Delete,
        Edit::ShowAll,
        by(Shape::All, true, SetOperation::Add),
        by(
            Shape::Conditions(vec!["x<5".parse().unwrap()]),
            false,
            SetOperation::Subtract,
        ),
        Edit::Crop,
    ]
}

#[test]
fn undo_and_redo_go_through_every_state_and_recipes_replay_each() {
    for forgets in [false, true] {
        let mut session = session(20);
        let mut seen = vec![(session.splats().clone(), session.state().hidden)];
        for edit in all_kinds() {
            let undo = session.state().undo;
            session.apply(&edit).unwrap();
            assert_eq!(*session.splats(), replayed(&session), "{edit:?}");
            if session.state().undo > undo {
                seen.push((session.splats().clone(), session.state().hidden));
            }
        }
        assert_eq!(seen.len(), 8);
        assert!(seen.windows(2).all(|two| two[0] != two[1]));
        for _ in 0..2 {
            for (splats, hidden) in seen.iter().rev().skip(1) {
                if forgets {
                    // As with no memory for states.
                    session.states.clear();
                }
                session.apply(&Edit::Undo).unwrap();
                assert_eq!(session.splats(), splats);
                assert_eq!(session.state().hidden, *hidden);
            }
            assert_eq!(session.apply(&Edit::Undo).unwrap(), Effect::Nothing);
            for (splats, hidden) in &seen[1..] {
                session.apply(&Edit::Redo).unwrap();
                assert_eq!(session.splats(), splats);
                assert_eq!(session.state().hidden, *hidden);
            }
            assert_eq!(session.apply(&Edit::Redo).unwrap(), Effect::Nothing);
        }
    }
}

#[test]
fn undo_selects_again_what_was_selected_and_a_new_action_forgets_the_rest() {
    let mut session = session(10);
    session.apply(&range(2.0, 4.0)).unwrap();
    session.apply(&Edit::Delete).unwrap();
    let state = session.state();
    assert_eq!((state.gaussians, state.selected), (7, 0));
    session.apply(&range(8.0, 9.0)).unwrap();
    session.apply(&Edit::Delete).unwrap();
    session.apply(&Edit::Undo).unwrap();
    session.apply(&Edit::Undo).unwrap();
    let state = session.state();
    assert_eq!(
        (state.gaussians, state.selected, state.undo, state.redo),
        (10, 3, 0, 2)
    );
    session.apply(&Edit::Crop).unwrap();
    let state = session.state();
    assert_eq!((state.gaussians, state.undo, state.redo), (3, 1, 0));
}

#[test]
fn turns_are_about_the_middle_of_what_is_selected_which_stays_selected() {
    let mut session = session(5);
    session.apply(&range(1.0, 3.0)).unwrap();
    session
        .apply(&Edit::Transform {
            degrees: [0.0, 0.0, 90.0],
            factor: 2.0,
            by: [0.0, 0.0, 1.0],
        })
        .unwrap();
    let means = &session.splats().means;
    for (mean, wanted) in means.iter().zip([
        [0.0, 0.5, 0.0],
        [2.0, -1.5, 1.0],
        [2.0, 0.5, 1.0],
        [2.0, 2.5, 1.0],
        [4.0, 0.5, 0.0],
    ]) {
        let off: f32 = mean.iter().zip(wanted).map(|(a, b)| (a - b).abs()).sum();
        assert!(off < 1e-5, "{means:?}");
    }
    assert_eq!(session.state().selected, 3);
    session.apply(&Edit::Delete).unwrap();
    assert_eq!(session.splats().means, [[0.0, 0.5, 0.0], [4.0, 0.5, 0.0]]);
}

#[test]
fn selected_ones_are_tinted_hidden_ones_are_not_shown_and_neither_is_saved() {
    let mut session = session(6);
    assert_eq!(session.shown(), None);
    session.apply(&range(1.0, 2.0)).unwrap();
    let shown = session.shown().unwrap();
    assert_eq!(shown.means, row(6).means);
    let tinted: Vec<bool> = shown.sh0.iter().map(|c| *c != [0.2, 0.4, 0.6]).collect();
    assert_eq!(tinted, [false, true, true, false, false, false]);
    // Redder, with less dependence on the view.
    assert!(shown.sh0[1][0] > 0.6 && shown.sh0[1][2] < -0.9);
    assert!(shown.sh_rest[9] < 0.1 && shown.sh_rest[0] == 0.25);
    session.apply(&Edit::Hide).unwrap();
    assert_eq!(session.shown().unwrap().len(), 4);
    assert_eq!(*session.splats(), row(6));
    session
        .apply(&by(Shape::All, true, SetOperation::Add))
        .unwrap();
    assert_eq!(session.state().selected, 4);
    let error = session.apply(&Edit::Hide).unwrap_err();
    assert!(error.hint_text().is_some());
    session.apply(&Edit::ShowAll).unwrap();
    assert_eq!(session.shown(), None);
}

#[test]
fn what_cannot_be_done_changes_nothing() {
    let mut session = session(4);
    for edit in [Edit::Delete, Edit::Crop, Edit::Hide, Edit::Save] {
        let error = session.apply(&edit).unwrap_err();
        assert!(error.hint_text().is_some() || edit == Edit::Save, "{error}");
    }
    session
        .apply(&by(Shape::All, true, SetOperation::Add))
        .unwrap();
    // No Gaussian would remain.
    assert!(session.apply(&Edit::Delete).is_err());
    let state = session.state();
    assert_eq!(
        (state.gaussians, state.selected, state.undo, state.redo),
        (4, 4, 0, 0)
    );
    // An empty range selects nothing.
    session.apply(&range(50.0, 60.0)).unwrap();
    assert!(session.apply(&Edit::Delete).is_err());
    assert_eq!(*session.splats(), row(4));
}

#[test]
fn gestures_and_actions_are_bounded() {
    let mut session = session(3);
    let more = by(
        Shape::Conditions(vec!["x<1".parse().unwrap()]),
        false,
        SetOperation::Add,
    );
    let most = dapple_scene::edit::selection::MOST_PICKS;
    for _ in 0..most {
        session.apply(&more).unwrap();
    }
    assert!(session.apply(&more).is_err());
    session.apply(&Edit::Deselect).unwrap();
    let turn = Edit::Transform {
        degrees: [0.0, 0.0, 1.0],
        factor: 1.0,
        by: [0.0; 3],
    };
    for _ in 0..MOST_ACTIONS {
        session.apply(&turn).unwrap();
    }
    assert!(session.apply(&turn).is_err());
    assert!(session.states.len() <= MOST_ACTIONS);
    session.apply(&Edit::Undo).unwrap();
    session.apply(&turn).unwrap();
}

#[test]
fn a_file_that_another_program_has_changed_since_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let to = SaveTo {
        file: folder.path().join("new.ply"),
        recipe: folder.path().join("new.recipe.json"),
        overwrite: true,
        antialiased: false,
        origin: glam::DVec3::ZERO,
        moved: Similarity::IDENTITY,
        nearest: NearestBy::default(),
    };
    for changed in [&to.file, &to.recipe] {
        let mut session = EditSession::new(row(9), Ok(to.clone()));
        session.apply(&range(2.0, 4.0)).unwrap();
        session.apply(&Edit::Delete).unwrap();
        assert_eq!(session.unsaved(), 1);
        session.apply(&Edit::Save).unwrap();
        assert_eq!(session.unsaved(), 0);
        session.apply(&range(7.0, 9.0)).unwrap();
        session.apply(&Edit::Delete).unwrap();
        session.apply(&range(0.0, 0.0)).unwrap();
        session.apply(&Edit::Delete).unwrap();
        assert_eq!(session.unsaved(), 2);
        std::fs::write(changed, "another program's").unwrap();
        let error = session.apply(&Edit::Save).unwrap_err();
        assert!(error.what().contains("changed by another"), "{error}");
        assert!(error.hint_text().is_some(), "{error}");
        assert_eq!(std::fs::read(changed).unwrap(), b"another program's");
        // A removed file is written again.
        std::fs::remove_file(changed).unwrap();
        session.apply(&Edit::Save).unwrap();
        assert_eq!(session.unsaved(), 0);
        session.apply(&Edit::Undo).unwrap();
        assert_eq!(session.unsaved(), 1);
    }
}

#[test]
fn saving_writes_file_and_recipe_and_replaces_nothing_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let (file, recipe) = (
        folder.path().join("deep/new.ply"),
        folder.path().join("deep/new.recipe.json"),
    );
    let to = SaveTo {
        file: file.clone(),
        recipe: recipe.clone(),
        overwrite: false,
        antialiased: true,
        origin: glam::DVec3::ZERO,
        moved: Similarity::IDENTITY,
        nearest: NearestBy::default(),
    };
    let with = |to: &SaveTo| {
        let mut session = EditSession::new(row(9), Ok(to.clone()));
        session.apply(&range(2.0, 4.0)).unwrap();
        session.apply(&Edit::Delete).unwrap();
        session
    };
    let mut mine = with(&to);
    assert_eq!(mine.apply(&Edit::Save).unwrap(), Effect::Saved);
    assert!(mine.state().said.contains("new.ply"));
    let (read, metadata) = splat_file::read(&file).unwrap();
    assert_eq!(read, *mine.splats());
    assert!(metadata.antialiased, "the mark stays");
    assert_eq!(Recipe::read(&recipe).unwrap(), mine.recipe());
    // The session may replace its own files again.
    mine.apply(&range(7.0, 9.0)).unwrap();
    mine.apply(&Edit::Delete).unwrap();
    mine.apply(&Edit::Save).unwrap();
    assert_eq!(splat_file::read(&file).unwrap().0.len(), 4);
    // Another session replaces neither file without `overwrite`.
    for there in [&file, &recipe] {
        let other = if there == &file { &recipe } else { &file };
        std::fs::remove_file(other).unwrap();
        let before = std::fs::read(there).unwrap();
        let mut session = with(&to);
        let error = session.apply(&Edit::Save).unwrap_err();
        assert!(error.hint_text().is_some(), "{error}");
        assert!(!other.exists());
        assert_eq!(std::fs::read(there).unwrap(), before);
        let mut told = with(&SaveTo {
            overwrite: true,
            ..to.clone()
        });
        told.apply(&Edit::Save).unwrap();
        assert!(other.exists());
    }
    // A format that holds less receives the data that it holds.
    let splat = folder.path().join("new.splat");
    let mut session = with(&SaveTo {
        file: splat.clone(),
        ..to
    });
    std::fs::remove_file(&recipe).unwrap();
    session.apply(&Edit::Save).unwrap();
    assert_eq!(splat_file::read(&splat).unwrap().0.len(), 6);
}
