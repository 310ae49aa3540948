//! Ranks on a GPU train with the bits of one engine.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_engine::{
    Batch, Engine, EngineExt, PARAM_GROUPS, Report, ScoreAsks, StepSettings, TrainView,
};
use dapple_gpu::{Capacity, GpuEngine, GpuEngineOptions, Precision};
use dapple_ranks::RanksEngine;
use dapple_reference::conformance::{
    Make, Rounds, gaussians_that_are_not_finite_are_reported, ranks_grow_alike, ranks_train_alike,
    scores_match_the_reference,
};
use dapple_reference::scenes;
use std::sync::Arc;

/// Returns an engine. Those with small buffers have another device than the others.
fn engine(has_small_buffers: bool, precision: &str) -> GpuEngine {
    let first_capacity = match has_small_buffers {
        true => Capacity {
            gaussians: 1,
            visible: 1,
            instances: 1,
            ..Capacity::default()
        },
        false => Capacity::default(),
    };
    let precision: Precision = precision.parse().unwrap();
    support::engine_on(GpuEngineOptions {
        gpu: support::options(has_small_buffers),
        precision,
        first_capacity,
        ..GpuEngineOptions::default()
    })
}

/// Returns ranks, of which the last has buffers that have to grow.
fn ranks(number: usize, precision: &str) -> Box<dyn Engine> {
    let ranks = (1..=number).map(|rank| engine(rank == number, precision));
    Box::new(RanksEngine::new(ranks.collect()).unwrap())
}

#[test]
fn steps_and_relocations_of_ranks_are_those_of_one_engine() {
    require_gpu!();
    for precision in ["f32", "f16"] {
        let makes: [Make<'_>; 3] = [
            &|| Box::new(engine(false, precision)),
            &|| ranks(1, precision),
            &|| ranks(3, precision),
        ];
        let scenes = ["off_centre", "panorama_seam"];
        ranks_train_alike(&makes, Rounds::Relocations, &scenes);
        ranks_grow_alike(&makes);
    }
}

#[test]
fn any_number_of_ranks_trains_alike() {
    require_gpu!();
    let makes: [Make<'_>; 3] = [&|| ranks(1, "f32"), &|| ranks(2, "f32"), &|| {
        ranks(5, "f32")
    }];
    ranks_train_alike(&makes, Rounds::Some, &["crowd", "lens_fisheye"]);
}

/// A device with small bindings holds fewer Gaussians in one engine than in the parts of two ranks.
#[test]
fn a_model_that_one_engine_cannot_hold_trains_on_ranks() {
    require_gpu!();
    let scene = scenes::named("crowd");
    // The other Gaussians are far behind the camera: a view of all would need larger bindings for its instances.
    let mut splats = scene.splats.clone();
    for _ in 0..3 {
        let mut hidden = scene.splats.clone();
        hidden.means.iter_mut().for_each(|mean| mean[2] -= 1e4);
        for group in PARAM_GROUPS {
            let both = [group.values(&splats), group.values(&hidden)].concat();
            group.set(&mut splats, &both);
        }
    }
    let small = || {
        support::engine_on(GpuEngineOptions {
            gpu: support::options(false),
            max_binding_bytes: 900_000,
            ..GpuEngineOptions::default()
        })
    };
    let error = small().upload(&splats, None).unwrap_err();
    assert!(error.what().contains("Gaussians"), "{error}");
    let mut ranks = RanksEngine::new(vec![small(), small()]).unwrap();
    let mut whole = engine(false, "f32");
    let renders = [&mut ranks as &mut dyn Engine, &mut whole].map(|engine| {
        engine.upload(&splats, None).unwrap();
        let photo = engine.render(&scene.camera, &scene.settings).unwrap();
        let view = TrainView {
            camera: scene.camera,
            photo: Arc::new(photo.photo()),
        };
        let view = engine.add_views(vec![view]).unwrap()[0];
        engine.step(view, &support::settings(1)).unwrap();
        engine.render(&scene.camera, &scene.settings).unwrap()
    });
    assert!(renders[0] == renders[1]);
}

/// The Gaussians of one image are in the buffers of one rank.
#[test]
fn an_image_of_too_many_gaussians_is_an_error_that_says_how_many_fit() {
    require_gpu!();
    let scene = scenes::named("crowd");
    let mut splats = scene.splats.clone().with_sh_degree(0);
    for group in PARAM_GROUPS {
        let copies = group.values(&splats).repeat(4);
        group.set(&mut splats, &copies);
    }
    // Twelve words of a projected Gaussian; 28 of the largest tensor of any other, of which each rank has 1600.
    let small = |_| {
        support::engine_on(GpuEngineOptions {
            gpu: support::options(false),
            max_binding_bytes: 48 * 6501,
            ..GpuEngineOptions::default()
        })
    };
    let mut ranks = RanksEngine::new((0..5).map(small).collect()).unwrap();
    ranks.upload(&splats, None).unwrap();
    let error = ranks.render(&scene.camera, &scene.settings).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("Gaussians in one image, and 6500 fit"),
        "{text}"
    );
    assert!(text.contains("hint:") && text.contains("photos"), "{text}");
}

#[test]
fn scores_of_ranks_are_those_of_one_engine() {
    require_gpu!();
    scores_match_the_reference(&|| ranks(2, "f32"));
    let scene = scenes::named("crowd");
    let scores = [1, 2, 3, 0].map(|number| {
        let mut engine: Box<dyn Engine> = match number {
            0 => Box::new(engine(false, "f32")),
            number => ranks(number, "f32"),
        };
        engine.upload(&scene.splats, None).unwrap();
        let photo = engine.render(&scene.camera, &scene.settings).unwrap();
        let photo = photo.photo();
        let mut camera = scene.camera;
        camera.camera_from_world.translation.z += 0.1;
        let asks = ScoreAsks { pictures: true };
        engine
            .score(&camera, &scene.settings, &photo, asks)
            .unwrap()
    });
    assert!(
        scores[0]
            .as_ref()
            .is_some_and(|view| view.squared_error > 0.0)
    );
    assert!(scores.iter().all(|score| *score == scores[0]));
}

/// The second view of a batch needs larger buffers than the first, whose gradients are added while the second runs.
#[test]
fn a_view_that_halts_loses_nothing_of_the_views_before_it() {
    require_gpu!();
    let scene = scenes::named("crowd");
    let mut far = scene.camera;
    far.camera_from_world.translation.z += 200.0;
    let mut large = engine(false, "f32");
    large.upload(&scene.splats, None).unwrap();
    let photo = large.render(&scene.camera, &scene.settings).unwrap();
    let photo = Arc::new(photo.photo());
    let run = |mut engine: Box<dyn Engine>| {
        let views = [far, scene.camera].map(|camera| TrainView {
            camera,
            photo: Arc::clone(&photo),
        });
        let views = engine.add_views(views.to_vec()).unwrap();
        engine.upload(&scene.splats, None).unwrap();
        let batch = |index, size| Batch { index, size };
        for (number, view, batch) in [
            (1, 0, batch(0, 1)),
            (2, 0, batch(0, 2)),
            (3, 1, batch(1, 2)),
        ] {
            let step = StepSettings {
                batch,
                ..support::settings(number)
            };
            engine.step(views[view], &step).unwrap();
        }
        engine.finish().unwrap();
        let losses: Vec<f32> = engine
            .poll()
            .unwrap()
            .iter()
            .map(|report| match report {
                Report::Step(report) => report.loss,
                other => panic!("{other:?}"),
            })
            .collect();
        (losses, engine.download().unwrap())
    };
    let whole = run(Box::new(engine(false, "f32")));
    assert!(whole.0.iter().all(|loss| *loss > 0.0), "{:?}", whole.0);
    for number in [1, 2] {
        assert!(whole == run(ranks(number, "f32")), "{number} ranks");
    }
}

#[test]
fn ranks_count_the_gaussians_of_all_that_are_not_finite() {
    require_gpu!();
    gaussians_that_are_not_finite_are_reported(&|| ranks(3, "f32"));
}
