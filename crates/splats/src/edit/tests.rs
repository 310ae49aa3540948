//! Chains of actions, against what is worked out by hand.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::{Camera, NoProgress, Pose, Result, Splats, splat_file};
use glam::{DQuat, DVec3};
use proptest::prelude::*;

/// Gaussians of degree 2 whose numbers differ.
fn some(n: usize) -> Splats {
    let value = |i: usize, k: f32| (i as f32 * k + 0.3).sin();
    Splats {
        means: (0..n)
            .map(|i| [value(i, 1.1), value(i, 2.3), value(i, 3.7)])
            .collect(),
        scales: (0..n)
            .map(|i| [value(i, 0.9) - 3.0, value(i, 1.9) - 3.0, -4.0])
            .collect(),
        quats: (0..n)
            .map(|i| [1.0, value(i, 0.5), value(i, 0.7), 0.2])
            .collect(),
        opacities: (0..n).map(|i| 3.0 * value(i, 4.1)).collect(),
        sh0: (0..n).map(|i| [value(i, 5.1), 0.1, -0.4]).collect(),
        sh_rest: (0..n * 24).map(|i| 0.3 * value(i, 0.37)).collect(),
        sh_degree: 2,
    }
}

fn edited(splats: &Splats, actions: &[Action]) -> Result<Splats> {
    let mut editor = Editor::new(splats.clone());
    for action in actions {
        editor.apply(action, &mut NoCapture, &NoProgress)?;
    }
    Ok(editor.into_splats())
}

/// The largest difference of any number; quaternions up to their sign.
fn difference(a: &Splats, b: &Splats) -> f32 {
    let apart = |a: &[f32], b: &[f32]| {
        a.iter()
            .zip(b)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max)
    };
    let quats = a.quats.iter().zip(&b.quats).map(|(a, b)| {
        let minus = b.map(|v| -v);
        apart(a, b).min(apart(a, &minus))
    });
    [
        apart(a.means.as_flattened(), b.means.as_flattened()),
        apart(a.scales.as_flattened(), b.scales.as_flattened()),
        apart(&a.opacities, &b.opacities),
        apart(&a.sh_rest, &b.sh_rest),
    ]
    .into_iter()
    .chain(quats)
    .fold(0.0, f32::max)
}

#[test]
fn a_quarter_turn_a_doubling_and_a_move_do_what_they_say_in_this_order() {
    let mut splats = some(1);
    splats.means[0] = [1.0, 2.0, 3.0];
    splats.quats[0] = [1.0, 0.0, 0.0, 0.0];
    let out = edited(
        &splats,
        &[
            Action::rotate([0.0, 0.0, 90.0]),
            Action::Transform(Similarity::scale(2.0)),
            Action::Transform(Similarity::translation([0.0, 0.0, 1.0])),
        ],
    )
    .unwrap();
    for (value, wanted) in out.means[0].iter().zip([-4.0, 2.0, 7.0]) {
        assert!((value - wanted).abs() < 1e-5, "{:?}", out.means);
    }
    let root = 0.5f32.sqrt();
    for (value, wanted) in out.quats[0].iter().zip([root, 0.0, 0.0, root]) {
        assert!((value - wanted).abs() < 1e-6, "{:?}", out.quats);
    }
    assert!((out.scales[0][0] - splats.scales[0][0] - 2f32.ln()).abs() < 1e-6);
    assert_eq!(
        (out.opacities[0], out.sh0[0]),
        (splats.opacities[0], splats.sh0[0])
    );
}

proptest! {
    #[test]
    fn there_and_back_is_where_it_was(x in -3.0f64..3.0, y in -3.0f64..3.0, z in -3.0f64..3.0, angle in -3.0f64..3.0, scale in 0.2f64..5.0) {
        let splats = some(20);
        let turn = DQuat::from_axis_angle(DVec3::new(x, y, z + 4.0).normalize(), angle);
        let there = Similarity { translation: [x, y, z], scale, ..Similarity::rotation(turn) };
        let inverse = Similarity { scale: 1.0 / scale, ..Similarity::rotation(turn.inverse()) };
        let back = Similarity { translation: (-inverse.point([x, y, z].into())).to_array(), ..inverse };
        let out = edited(&splats, &[Action::Transform(there), Action::Transform(back)]).unwrap();
        prop_assert!(difference(&out, &splats) < 2e-5, "{}", difference(&out, &splats));
        // And both at once are nothing.
        let both = there.then(&back);
        prop_assert!(both.point([0.3, 0.1, -2.0].into()).distance(DVec3::new(0.3, 0.1, -2.0)) < 1e-9);
        // `then` applies one transform after the other.
        let one = edited(&splats, &[Action::Transform(there), Action::Transform(there)]).unwrap();
        let two = edited(&splats, &[Action::Transform(there.then(&there))]).unwrap();
        prop_assert!(difference(&one, &two) < 1e-3);
    }

    #[test]
    fn a_moved_camera_sees_moved_points_where_it_saw_them(x in -3.0f64..3.0, angle in -3.0f64..3.0, scale in 0.2f64..5.0) {
        let turn = DQuat::from_axis_angle(DVec3::new(x, 1.0, 0.5).normalize(), angle);
        let similarity = Similarity { translation: [x, -x, 1.0], scale, ..Similarity::rotation(turn) };
        let pose = Pose::look_at(DVec3::new(1.0, 2.0, -4.0), DVec3::ZERO, DVec3::Y);
        let camera = Camera::pinhole(64, 48, 60.0, pose);
        let point = DVec3::new(0.2, -0.4, 0.3);
        let before = camera.camera_from_world.transform(point);
        let after = similarity.camera(&camera).camera_from_world.transform(similarity.point(point));
        prop_assert!((before * scale).distance(after) < 1e-9);
    }
}

#[test]
fn what_is_kept_cropped_and_removed_keeps_its_order() {
    let splats = some(50);
    let inside = |i: usize| DVec3::from(splats.means[i].map(f64::from)).length() <= 0.8;
    let ball = Region::Sphere {
        centre: [0.0; 3],
        radius: 0.8,
    };
    let cropped = edited(&splats, &[Action::Crop(ball)]).unwrap();
    let cut = edited(&splats, &[Action::Cut(ball)]).unwrap();
    let wanted: Vec<_> = (0..50)
        .filter(|&i| inside(i))
        .map(|i| splats.means[i])
        .collect();
    assert!(!wanted.is_empty() && wanted.len() < 50);
    assert_eq!(cropped.means, wanted);
    assert_eq!(cut.len() + cropped.len(), 50);
    let kept = edited(&splats, &[Action::Keep("opacity>=0.5".parse().unwrap())]).unwrap();
    let dropped = edited(&splats, &[Action::Drop("opacity<0.5".parse().unwrap())]).unwrap();
    assert_eq!(kept, dropped);
    assert!(kept.opacities.iter().all(|o| *o >= 0.0) && kept.len() < 50);
    let removed = edited(&splats, &[Action::Remove(vec![[0, 3], [10, 1], [49, 1]])]).unwrap();
    assert_eq!(
        (removed.len(), removed.means[0], removed.means[7]),
        (45, splats.means[3], splats.means[11])
    );
    let mut broken = splats.clone();
    broken.sh_rest[24 * 7] = f32::NAN;
    let mended = edited(&broken, &[Action::Keep(Condition::Finite)]).unwrap();
    assert_eq!(mended.len(), 49);
    let flat = edited(&splats, &[Action::ShDegree(1)]).unwrap();
    assert_eq!(
        (flat.sh_degree, &flat.sh_rest[..9]),
        (1, &splats.sh_rest[..9])
    );
}

#[test]
fn floaters_go_and_the_largest_clusters_stay() {
    // A hundred in a block, three far away, one alone farther.
    let mut splats = some(104);
    for i in 0..104 {
        let i32 = i as f32;
        splats.scales[i] = [-3.0; 3];
        splats.opacities[i] = 3.0;
        splats.means[i] = match i {
            0..100 => [(i % 10) as f32 * 0.1, (i / 10) as f32 * 0.1, 0.0],
            100..103 => [10.0 + i32 * 0.01, 0.0, 0.0],
            _ => [0.0, 20.0, 0.0],
        };
    }
    let left = |action: Action| edited(&splats, &[action]).unwrap().len();
    assert_eq!(
        left(Action::Floaters {
            cell: None,
            share: 0.1
        }),
        104
    );
    assert_eq!(
        left(Action::Floaters {
            cell: None,
            share: 2.0
        }),
        103
    );
    assert_eq!(
        left(Action::Floaters {
            cell: Some(0.2),
            share: 5.0
        }),
        100
    );
    assert_eq!(
        left(Action::Clusters {
            cell: None,
            keep: 1
        }),
        100
    );
    assert_eq!(
        left(Action::Clusters {
            cell: None,
            keep: 2
        }),
        103
    );
}

/// Cameras and contributions that are known.
struct Known(Vec<f32>);

impl Surroundings for Known {
    fn cameras(&mut self) -> Result<Vec<Camera>> {
        Err(no_cameras("nothing"))
    }

    fn contributions(
        &mut self,
        splats: &Splats,
        _: &Similarity,
        _: bool,
    ) -> Result<Option<Vec<f32>>> {
        Ok(Some(self.0[..splats.len()].to_vec()))
    }

    fn refit(&mut self, _: &Splats, few: Splats, _: &Similarity, _: u32) -> Result<Splats> {
        Ok(few)
    }
}

#[test]
fn pruning_takes_what_shows_least_up_to_a_share() {
    let splats = some(5);
    let mut known = Known(vec![50.0, 0.0, 1.0, 45.0, 4.0]);
    let mut left = |action: Action| {
        let mut editor = Editor::new(splats.clone());
        editor.apply(&action, &mut known, &NoProgress).unwrap();
        editor.into_splats().means
    };
    let means = &splats.means;
    assert_eq!(
        left(Action::Prune { share: 0.0 }),
        [means[0], means[2], means[3], means[4]]
    );
    assert_eq!(
        left(Action::Prune { share: 1.0 }),
        [means[0], means[3], means[4]]
    );
    assert_eq!(left(Action::Prune { share: 5.0 }), [means[0], means[3]]);
    assert_eq!(
        left(Action::Drop("contribution<4".parse().unwrap())),
        [means[0], means[3], means[4]]
    );
}

#[test]
fn what_cannot_be_is_refused_with_a_hint_and_changes_nothing() {
    let splats = some(10);
    let nan = Similarity {
        translation: [f64::NAN, 0.0, 0.0],
        ..Similarity::IDENTITY
    };
    let no_turn = Similarity {
        rotation: [0.0; 4],
        ..Similarity::IDENTITY
    };
    for action in [
        Action::Transform(nan),
        Action::Transform(no_turn),
        Action::Transform(Similarity::scale(0.0)),
        Action::Transform(Similarity::scale(-1.0)),
        Action::Transform(Similarity::scale(f64::INFINITY)),
        Action::Crop(Region::Sphere {
            centre: [100.0; 3],
            radius: 1.0,
        }),
        Action::Crop(Region::Sphere {
            centre: [0.0; 3],
            radius: f64::NAN,
        }),
        Action::Keep("size>1e9".parse().unwrap()),
        Action::Remove(vec![[0, 10]]),
        Action::Remove(vec![[5, 6]]),
        Action::Remove(vec![[5, 2], [6, 1]]),
        Action::Remove(vec![[u32::MAX, 2]]),
        Action::ShDegree(4),
        Action::Floaters {
            cell: Some(0.0),
            share: 1.0,
        },
        Action::Floaters {
            cell: None,
            share: 100.0,
        },
        Action::Clusters {
            cell: None,
            keep: 0,
        },
        Action::Prune { share: 1.0 },
        Action::Prune { share: f64::NAN },
        Action::Orient(Up::Y),
        Action::Drop("contribution<1".parse().unwrap()),
        Action::Decimate {
            to: Amount::Count(3),
            refit: 5,
        },
        Action::Merge("nowhere.ply".into()),
    ] {
        let mut editor = Editor::new(splats.clone());
        let error = editor
            .apply(&action, &mut NoCapture, &NoProgress)
            .unwrap_err();
        assert!(error.hint_text().is_some(), "{action:?}: {error}");
        assert_eq!(*editor.splats(), splats, "{action:?}");
    }
}

#[test]
fn a_recipe_comes_back_as_it_was_written_and_gives_the_same_splats() {
    let folder = tempfile::tempdir().unwrap();
    let more = folder.path().join("more.ply");
    splat_file::write(&more, &some(7), splat_file::Format::Ply).unwrap();
    let actions = vec![
        Action::rotate([10.0, 1.0 / 3.0, -77.7]),
        Action::Transform(Similarity::scale(0.1 + 0.2)),
        Action::Orient(Up::Z),
        Action::Crop("box:0,0,0,9,9,9,1,2,3".parse().unwrap()),
        Action::Cut("sphere:5,5,5,0.1".parse().unwrap()),
        Action::Keep("opacity>0.1".parse().unwrap()),
        Action::Drop(Condition::Finite),
        Action::Remove(vec![[0, 2], [4, 1]]),
        Action::ShDegree(1),
        Action::Merge(more),
        Action::Order(Order::Morton),
        Action::Floaters {
            cell: None,
            share: 0.5,
        },
        Action::Clusters {
            cell: Some(0.3),
            keep: 2,
        },
        Action::Prune { share: 1.0 },
        Action::Decimate {
            to: "33.3%".parse().unwrap(),
            refit: 0,
        },
    ];
    let path = folder.path().join("recipe.json");
    let recipe = Recipe::new(actions.clone());
    recipe.write(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("\"more.ply\""),
        "relative to the recipe: {text}"
    );
    let read = Recipe::read(&path).unwrap();
    assert_eq!(read.actions.len(), actions.len());
    let is_merge = |action: &&Action| matches!(action, Action::Merge(_));
    for (read, written) in read
        .actions
        .iter()
        .zip(&actions)
        .filter(|(a, _)| !is_merge(a))
    {
        assert_eq!(read, written);
    }
    // Actions that need only the splats.
    let plain = |actions: &[Action]| -> Vec<Action> {
        let needs = |a: &&Action| !a.needs_cameras() && **a != Action::Drop(Condition::Finite);
        actions.iter().filter(needs).cloned().collect()
    };
    let splats = some(60);
    let (once, again) = (
        edited(&splats, &plain(&actions)).unwrap(),
        edited(&splats, &plain(&read.actions)).unwrap(),
    );
    assert_eq!(once, again);
    assert!(once.len() > 3);
}

#[test]
fn files_that_are_no_recipes_are_refused_with_the_place() {
    for bad in [
        "",
        "[]",
        "{}",
        "{\"dapple_recipe\": 2, \"actions\": []}",
        "{\"dapple_recipe\": 1}",
        "{\"dapple_recipe\": 1, \"actions\": [{\"explode\": 3}]}",
        "{\"dapple_recipe\": 1, \"actions\": [{\"sh_degree\": 9}]}",
        "{\"dapple_recipe\": 1, \"actions\": [{\"keep\": \"opacity\"}]}",
        "{\"dapple_recipe\": 1, \"actions\": [{\"decimate\": {\"to\": \"0\"}}]}",
        "{\"dapple_recipe\": 1, \"actions\": [], \"more\": 1}",
    ] {
        let error = Recipe::parse(bad).unwrap_err();
        assert!(error.hint_text().is_some(), "{bad}: {error}");
    }
    assert!(Recipe::parse("{\"dapple_recipe\": 1, \"actions\": []}").is_ok());
}

/// Photos that contradict these Gaussians.
struct Contradicted(Vec<bool>);

impl Surroundings for Contradicted {
    fn cameras(&mut self) -> Result<Vec<Camera>> {
        Ok(Vec::new())
    }

    fn contributions(
        &mut self,
        splats: &Splats,
        _: &Similarity,
        _: bool,
    ) -> Result<Option<Vec<f32>>> {
        Ok(Some(vec![1.0; splats.len()]))
    }

    fn floaters(&mut self, _: &Splats, _: &Similarity) -> Result<Option<Vec<bool>>> {
        Ok(Some(self.0.clone()))
    }

    fn refit(&mut self, _: &Splats, few: Splats, _: &Similarity, _: u32) -> Result<Splats> {
        Ok(few)
    }
}

#[test]
fn floaters_are_small_in_what_is_seen_not_in_number() {
    // Many small ones next to each other, one large one far behind them, and one separate small
    // one.
    let mut means: Vec<[f32; 3]> = (0..200)
        .map(|i| [0.1 * (i % 20) as f32, 0.1 * (i / 20) as f32, 0.0])
        .collect();
    means.extend([[0.0, 0.0, 40.0], [0.0, 0.0, 4.0]]);
    let n = means.len();
    let mut splats = Splats {
        means,
        scales: vec![[-3.0; 3]; n],
        quats: vec![[1.0, 0.0, 0.0, 0.0]; n],
        opacities: vec![3.0; n],
        sh0: vec![[0.0; 3]; n],
        sh_rest: Vec::new(),
        sh_degree: 0,
    };
    splats.scales[n - 2] = [1.5, 1.5, -3.0];
    let floaters = |share| Action::Floaters { cell: None, share };
    let cleaned = edited(&splats, &[floaters(0.1)]).unwrap();
    assert_eq!(cleaned.len(), n - 1);
    assert_eq!(cleaned.means.last(), Some(&[0.0, 0.0, 40.0]));
    // Photos tell whatever is near it; weights then take what is alone.
    let mut marks = vec![false; n];
    marks[7] = true;
    let mut editor = Editor::new(splats.clone());
    let mut photos = Contradicted(marks);
    editor
        .apply(&floaters(0.0), &mut photos, &NoProgress)
        .unwrap();
    assert_eq!(editor.splats().len(), n - 1);
    assert_eq!(editor.splats().means[7], splats.means[8]);
}

#[test]
fn a_motion_is_undone_by_its_inverse_and_keeps_its_numbers() {
    let motion = Similarity::from_degrees([10.0, 20.0, 30.0])
        .then(&Similarity::scale(2.5))
        .then(&Similarity::translation([1.0, -2.0, 3.0]));
    let p = DVec3::new(0.3, -7.0, 2.0);
    assert!(motion.inverse().point(motion.point(p)).distance(p) < 1e-12);
    assert_eq!(Similarity::of_numbers(motion.numbers()), Some(motion));
    assert_eq!(Similarity::of_numbers([0.0; 8]), None);
    // Counted from elsewhere, the same points go the same way.
    let origin = DVec3::new(5.0, 6.0, 7.0);
    let there = motion.about(origin).point(p - origin) + origin;
    assert!(there.distance(motion.point(p)) < 1e-12);
}
