//! Photos that do not all fit on the GPU: they change no bit in any case, and a ring in steady state allocates nothing
//! for a new photo.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use crate::support;

use dapple_engine::{
    DepthSample, Engine, EngineExt, LossTerm, PoseRates, Report, StepFeatures, StepSettings,
    TrainView, ViewId,
};
use dapple_gpu::{Capacity, GpuEngine, GpuEngineOptions};
use dapple_reference::scenes;
use dapple_scene::{Camera, Photo, Pose};
use glam::DVec3;
use std::sync::Arc;
use support::{plan, settings};

/// Views in [`views`].
const VIEWS: usize = 7;

/// The most bytes of a photo on the GPU: 80 x 60 words, and a bit a pixel.
const LARGEST: u64 = 80 * 60 * 4 + 80 * 60 / 8;

fn engine(change: impl FnOnce(&mut GpuEngineOptions)) -> GpuEngine {
    let mut options = GpuEngineOptions {
        gpu: support::options(false),
        ..GpuEngineOptions::default()
    };
    change(&mut options);
    let mut engine = support::engine_on(options);
    let splats = scenes::named("crowd").splats;
    engine.upload(&splats, None).unwrap();
    engine
}

/// Returns views from a circle, of two sizes; some photos with alpha, some with a mask, one with both.
fn views() -> Vec<TrainView> {
    let of = |i: usize| {
        let angle = 0.3 * i as f64;
        let eye = DVec3::new(4.0 * angle.sin(), -0.4, -4.0 * angle.cos());
        let pose = Pose::look_at(eye, DVec3::ZERO, DVec3::NEG_Y);
        let (width, height) = [(72, 52), (80, 60)][i % 2];
        let byte = |seed: usize, p: usize| (p * (7 + 2 * seed) + seed * i) as u8;
        let n = width as usize * height as usize;
        let plane = |seed: usize| (0..n).map(|p| byte(seed, p)).collect::<Vec<u8>>();
        let mut photo = Photo::from_rgb(width, height, (0..3 * n).map(|p| byte(1, p)).collect());
        photo.alpha = i.is_multiple_of(3).then(|| plane(2));
        photo.mask = i.is_multiple_of(4).then(|| plane(3));
        TrainView {
            camera: Camera::pinhole(width, height, 66.0, pose),
            photo: Arc::new(photo),
        }
    };
    (0..VIEWS).map(of).collect()
}

/// Returns samples of depth for a view, a different number for each view.
fn samples(view: usize) -> Vec<DepthSample> {
    let sample = |k: usize| DepthSample {
        pixel: (9 * k + view) as u32,
        inverse_depth: 1.0 / (3.0 + 0.01 * k as f32),
        weight: 0.01,
    };
    (0..40 + 60 * view).map(sample).collect()
}

/// Returns the view of a step: all in turn, backwards and forwards, so that some come twice within a ring.
fn view_of(step: u32) -> usize {
    let place = step as usize % (2 * VIEWS);
    place.min(2 * VIEWS - 1 - place)
}

/// Delivery of photos to an engine.
#[derive(Clone, Copy, PartialEq)]
enum Photos {
    /// All when views are added.
    Held,
    /// One for each step.
    Streamed,
    /// Like the trainer: the photos of the next steps are announced.
    Announced,
}

/// Adds the views, and runs steps over them with density control after every eighth.
fn train(engine: &mut GpuEngine, from: Photos, steps: u32, of_step: &dyn Fn(u32) -> StepSettings) {
    let views = views();
    match from {
        Photos::Held => engine.add_views(views.clone()).unwrap(),
        _ => {
            let cameras: Vec<Camera> = views.iter().map(|view| view.camera).collect();
            engine.add_cameras(&cameras).unwrap()
        }
    };
    for step in 1..=steps {
        take_step(engine, from, &views, &of_step(step));
        if step.is_multiple_of(8) {
            engine.densify(&plan(step)).unwrap();
        }
    }
}

fn take_step(engine: &mut GpuEngine, from: Photos, views: &[TrainView], settings: &StepSettings) {
    let photo = |step: u32| Arc::clone(&views[view_of(step)].photo);
    let step = settings.step;
    if from != Photos::Held {
        let view = ViewId(view_of(step));
        engine.put_photo(view, photo(step)).unwrap();
    }
    for coming in step + 1..=step + 3 {
        if from == Photos::Announced {
            let view = ViewId(view_of(coming));
            engine.announce(view, Some(photo(coming))).unwrap();
        }
    }
    engine.step(ViewId(view_of(step)), settings).unwrap();
}

fn reports(engine: &mut GpuEngine) -> Vec<Report> {
    engine.finish().unwrap();
    engine.poll().unwrap()
}

/// Asserts that two engines hold the same bits.
#[track_caller]
fn assert_same(a: &mut GpuEngine, b: &mut GpuEngine) {
    let ((splats, state), (others, other_state)) = (a.download().unwrap(), b.download().unwrap());
    assert_eq!(splats.len(), others.len());
    assert!(splats == others, "the splats differ");
    assert!(state == other_state, "the optimizer states differ");
}

/// Sets a first capacity that is too small for everything.
fn tiny(options: &mut GpuEngineOptions) {
    options.first_capacity = Capacity {
        visible: 7,
        instances: 64,
        ..Capacity::default()
    };
}

#[test]
fn streamed_photos_give_the_same_bits_in_a_ring_of_any_size() {
    require_gpu!();
    let mut held = engine(|_| {});
    train(&mut held, Photos::Held, 24, &settings);
    assert_eq!(held.photo_uploads(), VIEWS as u64);
    let expected = reports(&mut held);
    for (slots, from) in [
        (1, Photos::Announced),
        (5, Photos::Announced),
        (4, Photos::Held),
    ] {
        let mut ring = engine(|o| o.photo_budget_bytes = slots * LARGEST);
        train(&mut ring, from, 24, &settings);
        let uploads = ring.photo_uploads();
        assert!((10..=24).contains(&uploads), "{slots} slots: {uploads}");
        assert_eq!(reports(&mut ring), expected);
        assert_same(&mut held, &mut ring);
    }
}

/// A halt is seen many steps after it happened, and every command since is submitted again. By then later photos have
/// been announced, and the host has dropped photos that are needed once more.
#[test]
fn steps_that_are_submitted_again_find_their_photos() {
    require_gpu!();
    let mut ample = engine(|_| {});
    train(&mut ample, Photos::Held, 24, &settings);
    let expected = reports(&mut ample);
    for (slots, from) in [(2, Photos::Streamed), (6, Photos::Announced)] {
        let mut ring = engine(|o| {
            tiny(o);
            o.photo_budget_bytes = slots * LARGEST;
        });
        let before = ring.capacity();
        train(&mut ring, from, 24, &settings);
        assert_eq!(reports(&mut ring), expected);
        assert_same(&mut ample, &mut ring);
        let after = ring.capacity();
        assert!(after.instances > before.instances && after.gaussians > before.gaussians);
        assert!(after.visible > before.visible);
    }
}

/// Refined cameras are in the buffer where a photo's counts are written at its first upload.
#[test]
fn refined_poses_and_known_depths_are_those_of_photos_that_are_held() {
    require_gpu!();
    let refining = |step: u32| StepSettings {
        features: StepFeatures {
            poses: PoseRates {
                rotation: 1e-3,
                translation: 1e-3,
            },
            ..StepFeatures::default()
        },
        losses: settings(step).losses.with(LossTerm::Depth, 0.1),
        ..settings(step)
    };
    let trained = |from: Photos, change: &dyn Fn(&mut GpuEngineOptions)| {
        let mut engine = engine(change);
        // The views already exist; adding them again would make other views.
        train(&mut engine, from, 0, &refining);
        for view in 0..VIEWS {
            // One view's depths are not known.
            if view != 3 {
                let samples = samples(view);
                engine.supervise_depth(ViewId(view), samples).unwrap();
            }
        }
        let views = views();
        for step in 1..=30 {
            take_step(&mut engine, from, &views, &refining(step));
            if step == 17 {
                // Fewer than before.
                engine.supervise_depth(ViewId(6), samples(1)).unwrap();
            }
        }
        engine
    };
    let mut held = trained(Photos::Held, &|_| {});
    let mut ring = trained(Photos::Announced, &|o| {
        tiny(o);
        o.photo_budget_bytes = 4 * LARGEST;
    });
    assert_same(&mut held, &mut ring);
    let (poses, start) = (held.view_state().unwrap().poses, views());
    assert_eq!(poses.len(), start.len());
    assert!(poses.iter().all(|pose| pose.weights[0] != 0.0), "all moved");
    assert_eq!(poses, ring.view_state().unwrap().poses);
}

#[test]
fn a_warm_ring_makes_nothing_for_a_photo_that_comes() {
    require_gpu!();
    let views = views();
    let mut engine = engine(|o| o.photo_budget_bytes = 5 * LARGEST);
    let of_step = |step| StepSettings {
        losses: settings(step).losses.with(LossTerm::Depth, 0.1),
        ..settings(step)
    };
    train(&mut engine, Photos::Announced, 0, &of_step);
    for view in 0..VIEWS {
        let samples = samples(view);
        engine.supervise_depth(ViewId(view), samples).unwrap();
    }
    for step in 1..=60 {
        take_step(&mut engine, Photos::Announced, &views, &of_step(step));
    }
    reports(&mut engine);
    let (before, uploads) = (engine.counters(), engine.photo_uploads());
    for step in 61..=100 {
        take_step(&mut engine, Photos::Announced, &views, &of_step(step));
    }
    let cost = engine.counters() - before;
    let uploads = engine.photo_uploads() - uploads;
    println!("40 steps, {uploads} photos: {cost:?}");
    assert!(uploads >= 20, "only {uploads} photos came");
    assert_eq!(cost.bindings_created, 0, "recordings were made");
    // Reports are sent in chunks, each with a submission, a copy, and at first buffers of the pool. Step 100 looks for
    // non-finite parameters, with one more.
    let chunks = cost.submissions - 41;
    assert_eq!(cost.buffers_created, 0, "{cost:?}");
    // Each step's parameters; then a photo and its depths; up to three more photos are still in flight.
    let brought = cost.copies - chunks - 40;
    assert!(
        brought >= 2 * uploads && brought <= 2 * uploads + 3,
        "{cost:?}"
    );
}

#[test]
fn announced_photos_that_are_never_used_take_no_slot_for_good() {
    require_gpu!();
    let views = views();
    let mut held = engine(|_| {});
    held.add_views(views.clone()).unwrap();
    let mut ring = engine(|o| o.photo_budget_bytes = 5 * LARGEST);
    let cameras: Vec<Camera> = views.iter().map(|view| view.camera).collect();
    ring.add_cameras(&cameras).unwrap();
    let announce = |engine: &mut GpuEngine, view: usize| {
        let before = engine.counters();
        let photo = Arc::clone(&views[view].photo);
        engine.announce(ViewId(view), Some(photo)).unwrap();
        engine.counters().copies - before.copies
    };
    let sent = [4, 5, 6].map(|view| announce(&mut ring, view));
    assert_eq!(sent, [1, 1, 0], "half of the ring is for others");
    for step in 1..=45 {
        if step == 30 {
            assert_eq!(announce(&mut ring, 6), 1, "4 and 5 have not come");
        }
        // Photos that were announced are used in the end, the photo with a mask among them.
        let view = match step {
            1..=36 => 1 + step as usize % 3,
            _ => 4 + step as usize % 3,
        };
        ring.put_photo(ViewId(view), Arc::clone(&views[view].photo))
            .unwrap();
        for engine in [&mut held, &mut ring] {
            engine.step(ViewId(view), &settings(step)).unwrap();
        }
    }
    assert_same(&mut held, &mut ring);
    let other = Arc::clone(&views[1].photo);
    assert!(ring.announce(ViewId(0), Some(other)).is_err(), "its size");
    assert!(ring.announce(ViewId(99), None).is_err(), "no such view");
}
