//! Selections, against what is worked out by hand.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::NoProgress;
use crate::edit::{Action, NoCapture, Order, Recipe};
use glam::DQuat;
use proptest::prelude::*;

/// Gaussians of degree 1 with these centres.
fn at(means: &[[f32; 3]]) -> Splats {
    let n = means.len();
    Splats {
        means: means.to_vec(),
        scales: vec![[-3.0, -2.0, -1.0]; n],
        quats: vec![[1.0, 0.1, 0.2, 0.3]; n],
        opacities: (0..n).map(|i| i as f32 - 2.0).collect(),
        sh0: vec![[0.1, 0.2, 0.3]; n],
        sh_rest: (0..n * 9).map(|i| i as f32 * 0.01).collect(),
        sh_degree: 1,
    }
}

/// A plane of 9 x 9 at z = 2: seen by [`eye`], 10 pixels apart, (0, 0) in the middle.
fn plane() -> Splats {
    let mean = |i: usize| [(i % 9) as f32 * 0.2 - 0.8, (i / 9) as f32 * 0.2 - 0.8, 2.0];
    at(&(0..81).map(mean).collect::<Vec<_>>())
}

/// In the origin, looks along +z; focal length 100, a picture of 100 x 100.
fn eye() -> SelectionCamera {
    SelectionCamera::from(&Camera::pinhole(100, 100, 100.0, Pose::IDENTITY))
}

fn polygon(points: &[[f64; 2]]) -> Shape {
    Shape::Polygon {
        eye: eye(),
        points: points.to_vec(),
    }
}

fn rectangle([x0, y0]: [f64; 2], [x1, y1]: [f64; 2]) -> Shape {
    polygon(&[[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
}

fn stroke(points: &[[f64; 2]], radius: f64) -> Shape {
    Shape::Stroke {
        eye: eye(),
        points: points.to_vec(),
        radius,
    }
}

fn pick(how: SetOperation, by: Shape) -> SelectionStep {
    SelectionStep { how, by }
}

fn add(by: Shape) -> SelectionStep {
    pick(SetOperation::Add, by)
}

fn selected(splats: &Splats, picks: &[SelectionStep]) -> Vec<usize> {
    let found = Editor::new(splats.clone()).select(picks).unwrap();
    (0..found.len()).filter(|&i| found[i]).collect()
}

fn action(by: Vec<SelectionStep>, then: SelectionAction) -> Action {
    Action::Selected { by, then }
}

fn replayed(splats: &Splats, actions: &[Action]) -> Result<Splats> {
    let mut editor = Editor::new(splats.clone());
    for action in actions {
        editor.apply(action, &mut NoCapture, &NoProgress)?;
    }
    Ok(editor.into_splats())
}

#[test]
fn shapes_on_a_screen_hold_the_centres_that_are_seen_in_them() {
    let plane = plane();
    // Columns 3 and 4 of rows 4 to 6: pixels 40 and 50 of 50 to 70.
    let found = selected(&plane, &[add(rectangle([35.0, 45.0], [55.0, 75.0]))]);
    assert_eq!(found, [39, 40, 48, 49, 57, 58]);
    // A triangle: below the diagonal of the upper left quarter.
    let found = selected(
        &plane,
        &[add(polygon(&[[8.0, 6.0], [8.0, 35.0], [37.0, 35.0]]))],
    );
    assert_eq!(found, [0, 9, 10, 18, 19, 20]);
    // The other way round it is the same, and so is one that goes around twice.
    let back = [[37.0, 35.0], [8.0, 35.0], [8.0, 6.0]];
    assert_eq!(selected(&plane, &[add(polygon(&back))]), found);
    let twice = [back, back].concat();
    assert_eq!(selected(&plane, &[add(polygon(&twice))]), found);
    // The letter U: not what is between its arms.
    let u = [[5.0, 5.0], [15.0, 5.0], [15.0, 25.0], [25.0, 25.0]];
    let u = [u, [[25.0, 5.0], [35.0, 5.0], [35.0, 35.0], [5.0, 35.0]]].concat();
    assert_eq!(
        selected(&plane, &[add(polygon(&u))]),
        [0, 2, 9, 11, 18, 19, 20]
    );
    // A disc, and a stroke with a bend: two rows down, one column right.
    assert_eq!(
        selected(&plane, &[add(stroke(&[[50.0, 50.0]], 10.5))]),
        [31, 39, 40, 41, 49]
    );
    let bend = [[10.0, 10.0], [10.0, 30.0], [20.0, 30.0]];
    assert_eq!(selected(&plane, &[add(stroke(&bend, 3.0))]), [0, 9, 18, 19]);
    // Points behind the camera, in its plane, or non-finite are not visible.
    let odd = at(&[
        [0.0, 0.0, -2.0],
        [0.0, 0.0, 0.0],
        [f32::NAN, 0.0, 2.0],
        [0.0, 0.0, 9.0],
    ]);
    let all = rectangle([-1e6, -1e6], [1e6, 1e6]);
    assert_eq!(selected(&odd, &[add(all)]), [3]);
}

#[test]
fn turned_cameras_and_lenses_see_where_pictures_show() {
    let splats = at(&[[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]]);
    let pose = Pose::look_at(
        DVec3::new(0.0, 0.0, -3.0),
        DVec3::new(1.0, 0.0, 0.0),
        DVec3::NEG_Y,
    );
    let camera = Camera::pinhole(64, 48, 50.0, pose);
    let disc = |camera: &Camera, at: [f64; 2]| {
        add(Shape::Stroke {
            eye: camera.into(),
            points: vec![at],
            radius: 0.01,
        })
    };
    // The camera's target is in the middle.
    assert_eq!(selected(&splats, &[disc(&camera, [32.0, 24.0])]), [0]);
    // A fisheye puts a ray at the angle, not at its tangent.
    let fisheye = Camera {
        lens: Lens::Fisheye([0.0; 4]),
        camera_from_world: Pose::IDENTITY,
        ..camera
    };
    let y = 24.0 + 50.0 * 2f64.atan();
    assert_eq!(selected(&splats, &[disc(&fisheye, [32.0, y])]), [1]);
    let straight = Camera {
        lens: Lens::Pinhole,
        ..fisheye
    };
    assert_eq!(selected(&splats, &[disc(&straight, [32.0, 124.0])]), [1]);
}

#[test]
fn picks_follow_each_other() {
    let plane = plane();
    let (left, top) = (
        rectangle([5.0, 5.0], [25.0, 95.0]),
        rectangle([5.0, 5.0], [95.0, 15.0]),
    );
    let with = |how| selected(&plane, &[add(left.clone()), pick(how, top.clone())]).len();
    assert_eq!(with(SetOperation::Add), 18 + 9 - 2);
    assert_eq!(with(SetOperation::Subtract), 16);
    assert_eq!(with(SetOperation::Intersect), 2);
    assert_eq!(with(SetOperation::Toggle), 16 + 7);
    let others = [add(left), pick(SetOperation::Toggle, Shape::All)];
    assert_eq!(selected(&plane, &others).len(), 81 - 18);
    let range = ["opacity_raw>=3", "opacity_raw<7"].map(|c| c.parse().unwrap());
    let found = selected(&plane, &[add(Shape::Conditions(range.to_vec()))]);
    assert_eq!(found, [5, 6, 7, 8]);
    let ball = Shape::Region("sphere:0,0,2,0.21".parse().unwrap());
    assert_eq!(selected(&plane, &[add(ball)]), [31, 39, 40, 41, 49]);
}

#[test]
fn selections_are_dropped_kept_and_moved() {
    let plane = plane();
    let middle = vec![add(stroke(&[[50.0, 50.0]], 10.5))];
    let dropped = replayed(&plane, &[action(middle.clone(), SelectionAction::Drop)]).unwrap();
    assert_eq!(dropped.len(), 76);
    let kept = replayed(&plane, &[action(middle.clone(), SelectionAction::Keep)]).unwrap();
    assert_eq!(kept.means[2], plane.means[40]);
    assert_eq!(kept.len(), 5);
    // Moved ones are as if they had been moved alone; all others have their bits.
    let turn = Similarity {
        translation: [0.0, 0.0, 7.0],
        scale: 2.0,
        ..Similarity::rotation(DQuat::from_rotation_z(0.3))
    };
    let moved = replayed(
        &plane,
        &[action(middle.clone(), SelectionAction::Transform(turn))],
    )
    .unwrap();
    let mut alone = kept;
    turn.apply(&mut alone);
    let order = [31, 39, 40, 41, 49];
    assert_eq!(order::gather(&moved, &order), alone);
    let rest: Vec<usize> = (0..81).filter(|i| !order.contains(i)).collect();
    assert_eq!(order::gather(&moved, &rest), order::gather(&plane, &rest));
    // Where they were there is nothing any more; `moved` still knows them, also behind others that go.
    let again = |shape: Shape, then: SelectionAction| action(vec![add(shape)], then);
    let chain = [
        action(middle, SelectionAction::Transform(turn)),
        again(rectangle([5.0, 5.0], [95.0, 15.0]), SelectionAction::Drop),
        again(Shape::Moved, SelectionAction::Keep),
    ];
    assert_eq!(replayed(&plane, &chain).unwrap(), alone);
}

#[test]
fn what_is_hidden_is_let_alone_until_all_is_shown() {
    let plane = plane();
    let everything = || vec![add(Shape::All)];
    let row = vec![add(rectangle([5.0, 5.0], [95.0, 15.0]))];
    let hide = action(row.clone(), SelectionAction::Hide);
    let deed =
        |then: SelectionAction| replayed(&plane, &[hide.clone(), action(everything(), then)]);
    // Only what was hidden is left, and it is what it was.
    let left = deed(SelectionAction::Drop).unwrap();
    assert_eq!(left.means, plane.means[..9]);
    assert_eq!(deed(SelectionAction::Keep).unwrap(), plane);
    let kept = replayed(
        &plane,
        &[
            hide.clone(),
            action(
                vec![add(stroke(&[[50.0, 50.0]], 1.0))],
                SelectionAction::Keep,
            ),
        ],
    );
    assert_eq!(kept.unwrap().len(), 10);
    // The mark follows its Gaussians into another order, and goes when all is shown.
    let mut editor = Editor::new(plane.clone());
    for action in [hide, Action::Order(Order::Morton)] {
        editor.apply(&action, &mut NoCapture, &NoProgress).unwrap();
    }
    let splats = editor.splats();
    for i in 0..81 {
        assert_eq!(editor.hidden()[i], splats.means[i][1] < -0.7, "{i}");
    }
    assert_eq!(
        editor.select(&row).unwrap().iter().filter(|s| **s).count(),
        0
    );
    editor
        .apply(&Action::ShowAll, &mut NoCapture, &NoProgress)
        .unwrap();
    assert_eq!(
        editor.select(&row).unwrap().iter().filter(|s| **s).count(),
        9
    );
}

#[test]
fn broken_selections_are_refused_and_change_nothing() {
    let plane = plane();
    let bad_eye = |change: fn(&mut SelectionCamera)| {
        let mut eye = eye();
        change(&mut eye);
        Shape::Polygon {
            eye,
            points: vec![[0.0; 2], [9.0, 0.0], [9.0, 9.0]],
        }
    };
    let endless: crate::edit::Condition = "contribution>1".parse().unwrap();
    for shape in [
        polygon(&[[0.0, 0.0], [1.0, 1.0]]),
        polygon(&vec![[0.0, 1.0]; MOST_POINTS + 1]),
        polygon(&[[0.0, 0.0], [f64::NAN, 1.0], [2.0, 2.0]]),
        polygon(&[[0.0, 0.0], [1e300, 1.0], [2.0, 2.0]]),
        stroke(&[], 3.0),
        stroke(&[[1.0, 1.0]], 0.0),
        stroke(&[[1.0, 1.0]], -1.0),
        stroke(&[[1.0, 1.0]], f64::NAN),
        stroke(&[[1.0, 1.0]], f64::INFINITY),
        bad_eye(|eye| eye.rotation = [0.0; 4]),
        bad_eye(|eye| eye.rotation[2] = f64::NAN),
        bad_eye(|eye| eye.focal[0] = 0.0),
        bad_eye(|eye| eye.translation[1] = f64::INFINITY),
        bad_eye(|eye| eye.lens = Lens::Fov(f64::NAN)),
        Shape::Conditions(vec![]),
        Shape::Conditions(vec![endless]),
        Shape::Moved,
        Shape::All,
    ] {
        let error = replayed(
            &plane,
            &[action(vec![add(shape.clone())], SelectionAction::Drop)],
        );
        let error = error.unwrap_err();
        assert!(error.hint_text().is_some(), "{shape:?}: {error}");
    }
    for picks in [vec![], vec![add(Shape::All); MOST_PICKS + 1]] {
        assert!(action(picks, SelectionAction::Hide).check().is_err());
    }
    let flat = Similarity::scale(0.0);
    assert!(
        action(vec![add(Shape::All)], SelectionAction::Transform(flat))
            .check()
            .is_err()
    );
}

proptest! {
    /// Whatever is picked, the recipe's text does the same, to the last bit.
    #[test]
    fn a_recipe_replays_selections_to_the_same_bits(
        points in proptest::collection::vec([-20.0f64..120.0, -20.0f64..120.0], 3..12),
        turn in -0.5f64..0.5, radius in 0.1f64..40.0, how in 0usize..4,
    ) {
        let pose = Pose {
            rotation: DQuat::from_rotation_y(turn) * DQuat::from_rotation_x(turn / 3.0),
            translation: DVec3::new(turn, 0.1, 0.3),
        };
        let camera = Camera { lens: Lens::Radial([turn / 10.0, 0.0]), ..Camera::pinhole(100, 100, 97.3, pose) };
        let how = [SetOperation::Add, SetOperation::Subtract, SetOperation::Intersect, SetOperation::Toggle][how];
        let lasso = add(Shape::Polygon { eye: (&camera).into(), points: points.clone() });
        let brush = pick(how, Shape::Stroke { eye: (&camera).into(), points, radius });
        let similarity = Similarity { translation: [turn, 1.0 / 3.0, 0.0], ..Similarity::scale(1.0 + turn) };
        let actions = vec![
            action(vec![lasso.clone(), brush], SelectionAction::Transform(similarity)),
            action(vec![add(Shape::Moved)], SelectionAction::Transform(similarity)),
            action(vec![lasso.clone()], SelectionAction::Hide),
            Action::ShowAll,
            action(vec![lasso, pick(SetOperation::Toggle, Shape::All)], SelectionAction::Keep),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recipe.json");
        Recipe::new(actions.clone()).write(&path).unwrap();
        let read = Recipe::read(&path).unwrap().actions;
        prop_assert_eq!(&read, &actions);
        match (replayed(&plane(), &actions), replayed(&plane(), &read)) {
            (Ok(once), Ok(again)) => prop_assert_eq!(once, again),
            (once, again) => prop_assert!(once.is_err() && again.is_err()),
        }
    }
}
