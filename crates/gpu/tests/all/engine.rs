//! Behaviour of the GPU engine that the conformance suite does not check: growing, streaming, the cost of a steady
//! step, nothing to draw, resuming, precisions, and missing memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use crate::support;

use dapple_engine::{
    AppearanceSettings, DensifyPlan, Engine, EngineExt, MemoryPlan, OptimizerState, Report,
    StepReport, ViewId,
};
use dapple_gpu::{Capacity, GpuEngine, GpuEngineOptions, Precision, Storage};
use dapple_reference::scenes::{self, TestScene};
use dapple_runtime::{Detail, Gpu};
use dapple_scene::{Camera, Pose, Splats};
use glam::DVec3;
use support::{plan, settings, view, views};

fn engine(change: impl FnOnce(&mut GpuEngineOptions)) -> GpuEngine {
    let mut options = GpuEngineOptions {
        gpu: support::options(false),
        ..GpuEngineOptions::default()
    };
    change(&mut options);
    support::engine_on(options)
}

fn scene(name: &str) -> TestScene {
    scenes::named(name)
}

/// Returns a plan that prunes every Gaussian.
fn pruning() -> DensifyPlan {
    DensifyPlan {
        grow_gradient: None,
        prune_opacity: Some(0.999_999),
        ..plan(1)
    }
}

/// Runs steps over the engine's first three views in turn, with density control after those in `rounds`.
fn train(engine: &mut GpuEngine, steps: std::ops::RangeInclusive<u32>, rounds: &[u32]) {
    train_with(engine, steps, rounds, None);
}

fn train_with(
    engine: &mut GpuEngine,
    steps: std::ops::RangeInclusive<u32>,
    rounds: &[u32],
    appearance: Option<AppearanceSettings>,
) {
    for step in steps {
        let mut settings = settings(step);
        settings.features.appearance = appearance;
        engine.step(ViewId(step as usize % 3), &settings).unwrap();
        if rounds.contains(&step) {
            engine.densify(&plan(step)).unwrap();
        }
    }
}

fn start(engine: &mut GpuEngine, splats: &Splats) {
    engine.upload(splats, None).unwrap();
    engine.add_views(views()).unwrap();
}

fn reports(engine: &mut GpuEngine) -> Vec<Report> {
    engine.finish().unwrap();
    engine.poll().unwrap()
}

fn steps(reports: &[Report]) -> Vec<&StepReport> {
    let steps = reports.iter().filter_map(|report| match report {
        Report::Step(step) => Some(step),
        _ => None,
    });
    steps.collect()
}

/// Asserts that two engines hold the same bits.
fn assert_same(a: &mut GpuEngine, b: &mut GpuEngine) {
    let ((splats, state), (others, other_state)) = (a.download().unwrap(), b.download().unwrap());
    assert_eq!(splats.len(), others.len());
    assert!(splats == others, "the splats differ");
    assert!(state == other_state, "the optimizer states differ");
}

#[test]
fn growing_buffers_changes_no_bit() {
    require_gpu!();
    let splats = scene("crowd").splats;
    let mut ample = engine(|o| {
        o.first_capacity = Capacity {
            gaussians: 50_000,
            visible: 50_000,
            instances: 300_000,
            ..Capacity::default()
        }
    });
    let mut tiny = engine(|o| {
        o.first_capacity = Capacity {
            visible: 7,
            instances: 64,
            ..Capacity::default()
        }
    });
    let mut all = Vec::new();
    for engine in [&mut ample, &mut tiny] {
        start(engine, &splats);
        let before = engine.capacity();
        // A halted step must not change other state than splats either.
        let appearance = AppearanceSettings {
            cells: [4, 3, 2],
            rate: 1e-2,
            smoothness: 1.0,
            identity: 0.1,
        };
        train_with(engine, 1..=20, &[4, 5, 13], Some(appearance));
        assert_eq!(engine.view_state().unwrap().appearance.seen, [6, 7, 7]);
        all.push((before, reports(engine), engine.capacity()));
    }
    let (before, expected, after) = &all[0];
    assert_eq!(
        before, after,
        "the first engine was to have room from the start"
    );
    let (before, actual, after) = &all[1];
    assert!(after.instances > before.instances && after.gaussians > before.gaussians);
    assert!(before.visible == 64 && after.visible > 64, "{after:?}");
    for capacity in [before, after] {
        // Density control borrows its scratch from the instances.
        assert!(capacity.instances > capacity.gaussians, "{capacity:?}");
    }
    assert_eq!(expected, actual, "reports");
    let numbers: Vec<u32> = steps(actual).iter().map(|s| s.step).collect();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    assert_eq!(actual.len(), 23, "a report for each round too");
    assert_same(&mut ample, &mut tiny);
    let grown = ample.download().unwrap().0.len();
    assert!(grown > 2 * splats.len(), "only {grown} Gaussians");
}

#[test]
fn streamed_photos_give_the_same_bits() {
    require_gpu!();
    let splats = scene("random_sh3").splats;
    let mut resident = engine(|_| {});
    // One photo is 72 x 52 words.
    let mut streaming = engine(|o| o.photo_budget_bytes = 16_000);
    for engine in [&mut resident, &mut streaming] {
        start(engine, &splats);
        train(engine, 1..=9, &[]);
    }
    assert_eq!(resident.photo_uploads(), 3);
    assert_eq!(streaming.photo_uploads(), 9);
    assert_same(&mut resident, &mut streaming);
    let photo = 72 * 52 * 4;
    assert_eq!(
        resident.memory_bytes() - streaming.memory_bytes(),
        2 * photo
    );
    // The second step finds the photo uploaded.
    streaming.step(ViewId(0), &settings(10)).unwrap();
    streaming.step(ViewId(0), &settings(11)).unwrap();
    streaming.finish().unwrap();
    assert_eq!(streaming.photo_uploads(), 9, "view 0 was the last one");
}

#[test]
fn photos_beyond_the_budget_leave_the_device() {
    require_gpu!();
    let photo = 1 << 20;
    let camera = Camera::pinhole(
        512,
        512,
        900.0,
        scene("background").camera.camera_from_world,
    );
    let mut engine = engine(|o| o.photo_budget_bytes = photo);
    engine.upload(&scene("background").splats, None).unwrap();
    let ids = engine.add_views(vec![view(camera); 8]).unwrap();
    let mut allocated_after = |ids: &[ViewId]| {
        for &id in ids {
            engine.step(id, &settings(1)).unwrap();
            engine.finish().unwrap();
        }
        engine.gpu().wait().unwrap();
        let report = engine.gpu().device().generate_allocator_report();
        report.map(|report| report.total_allocated_bytes)
    };
    // Two at once: the next photo is uploaded before the last is dropped.
    let (Some(two), Some(eight)) = (allocated_after(&ids[..2]), allocated_after(&ids[2..])) else {
        eprintln!("SKIPPED: this backend does not tell what it has allocated");
        return;
    };
    println!(
        "{} MiB after two photos, {} MiB after eight",
        two >> 20,
        eight >> 20
    );
    assert!(eight <= two + photo, "photos that gave way are still there");
}

#[test]
fn a_steady_step_costs_the_host_nothing_but_its_commands() {
    require_gpu!();
    let mut engine = engine(|_| {});
    start(&mut engine, &scene("random_sh3").splats);
    // Between two searches for non-finite parameters, each of which is a submission.
    train(&mut engine, 1..=50, &[]);
    reports(&mut engine);

    let before = engine.counters();
    train(&mut engine, 51..=80, &[]);
    let cost = engine.counters() - before;
    println!("30 steps: {cost:?}");
    assert_eq!(cost.waits, 0);
    assert_eq!(cost.bytes_written, 0);
    // Reports are sent in chunks, each with its own submission and copy.
    let chunks = cost.submissions - 30;
    assert_eq!(cost.copies, chunks);
    // Three full chunks, and the chunks that are sent because time has passed: at most four are in flight.
    assert!(chunks <= 8, "{chunks} copies of the ring in 30 steps");
    assert!(cost.buffers_created <= chunks, "{cost:?}");
    assert_eq!(cost.dispatches % 30, 0);
    assert_eq!(reports(&mut engine).len(), 30);
}

/// Counted by the pool, which holds all the engine's memory on the device.
#[test]
fn a_steady_step_makes_no_buffer() {
    require_gpu!();
    let mut engine = engine(|options| {
        options.first_capacity = Capacity {
            visible: 7,
            instances: 64,
            ..Capacity::default()
        };
    });
    start(&mut engine, &scene("random_sh3").splats);
    // Everything grows. The reports are waited for, so that each chunk's copy is free again when the next is sent.
    let waited = |engine: &mut GpuEngine, steps: std::ops::RangeInclusive<u32>| {
        for step in steps {
            train(engine, step..=step, &[]);
            engine.finish().unwrap();
        }
    };
    waited(&mut engine, 1..=60);
    let before = engine.gpu().pool().stats();
    assert!(
        before.evicted > 0,
        "what grew has let buffers go: {before:?}"
    );
    let own = engine.memory_bytes();
    let most = own + own / 4 + (1 << 20);
    assert!(
        (own..=most).contains(&before.live_bytes),
        "{own} bytes are the engine's: {before:?}"
    );
    waited(&mut engine, 61..=90);
    let after = engine.gpu().pool().stats();
    assert_eq!(after.allocations, before.allocations);
    assert!(after.reuses > before.reuses, "copies of reports are reused");
    assert_eq!((after.live, after.evicted), (before.live, before.evicted));
    assert_eq!(after.live_bytes, before.live_bytes);
    let counted = engine.counters().buffers_created;
    assert_eq!(counted, after.allocations, "what a profile shows");
}

/// However fast the host is, it receives the report of non-finite numbers before it has enqueued a hundred more steps.
#[test]
fn lost_numbers_are_told_within_a_hundred_steps() {
    require_gpu!();
    let mut engine = engine(|_| {});
    let mut splats = scene("random_sh3").splats;
    for scales in &mut splats.scales {
        *scales = [f32::NAN; 3];
    }
    start(&mut engine, &splats);
    let told = (1..=1000).find(|&step| {
        train(&mut engine, step..=step, &[]);
        let reports = engine.poll().unwrap();
        steps(&reports)
            .iter()
            .any(|report| report.not_finite.is_some())
    });
    assert!(
        told.is_some_and(|step| step <= 100),
        "told after step {told:?}"
    );
}

#[test]
fn without_gaussians_everything_still_works() {
    require_gpu!();
    let scene = scene("background");
    let mut engine = engine(|_| {});
    start(&mut engine, &scene.splats);
    train(&mut engine, 1..=2, &[]);
    engine.densify(&pruning()).unwrap();
    train(&mut engine, 3..=5, &[4]);
    let reports = reports(&mut engine);
    let last = steps(&reports)[4];
    assert_eq!((last.counts.gaussians, last.counts.instances), (0, 0));
    assert!(last.loss.is_finite() && last.loss > 0.0);

    let picture = engine.render(&scene.camera, &scene.settings).unwrap();
    assert!(picture.alpha.iter().all(|&alpha| alpha == 0.0));
    assert!(
        picture
            .rgb
            .as_chunks()
            .0
            .iter()
            .all(|p| *p == scene.settings.background)
    );
    let gradient = vec![1.0; picture.rgb.len()];
    let gradients = engine
        .gradients(&scene.camera, &scene.settings, &gradient, None)
        .unwrap();
    assert!(gradients.means.is_empty() && gradients.pose == [0.0; 6]);
    let (splats, state) = engine.download().unwrap();
    assert!(splats.is_empty() && state.gradient_sums.is_empty());
    // The engine works with other splats afterwards.
    engine.upload(&scene.splats, None).unwrap();
    let picture = engine.render(&scene.camera, &scene.settings).unwrap();
    assert!(picture.counts.visible > 0);
}

#[test]
fn a_camera_that_sees_nothing_moves_nothing() {
    require_gpu!();
    let scene = scene("random_sh3");
    let mut engine = engine(|_| {});
    engine.upload(&scene.splats, None).unwrap();
    let eye = DVec3::new(0.0, 0.0, -50.0);
    let pose = Pose::look_at(eye, 2.0 * eye, DVec3::NEG_Y);
    let away = Camera::pinhole(72, 52, 66.0, pose);
    let id = engine.add_views(vec![view(away)]).unwrap()[0];
    engine.step(id, &settings(1)).unwrap();
    let reports = reports(&mut engine);
    let step = steps(&reports)[0];
    assert_eq!((step.counts.visible, step.counts.instances), (0, 0));
    assert!(step.loss > 0.0);
    let (splats, state) = engine.download().unwrap();
    assert!(splats == scene.splats, "something moved");
    assert!(state.visible_counts.iter().all(|&count| count == 0.0));
    let picture = engine.render(&away, &scene.settings).unwrap();
    assert!(picture.alpha.iter().all(|&alpha| alpha == 0.0));
    let gradient = vec![1.0; picture.rgb.len()];
    let gradients = engine
        .gradients(&away, &scene.settings, &gradient, None)
        .unwrap();
    assert!(
        gradients
            .tensors()
            .iter()
            .all(|(_, g)| g.iter().all(|&v| v == 0.0))
    );
}

/// Precisions that this device supports.
fn precisions() -> Vec<Precision> {
    let device = Gpu::open(&support::options(false)).unwrap();
    [Storage::F32, Storage::Bf16, Storage::F16]
        .map(|storage| Precision {
            sh: storage,
            moments: storage,
        })
        .into_iter()
        .filter(|precision| precision.check(device.report()).is_ok())
        .collect()
}

#[test]
fn a_resumed_run_is_the_uninterrupted_one() {
    require_gpu!();
    let splats = scene("random_sh3").splats;
    for precision in precisions() {
        let mut whole = engine(|o| o.precision = precision);
        start(&mut whole, &splats);
        train(&mut whole, 1..=6, &[3]);
        let (middle, state) = whole.download().unwrap();

        let mut resumed = engine(|o| o.precision = precision);
        start(&mut resumed, &splats);
        resumed.upload(&middle, Some(&state)).unwrap();
        let (back, back_state): (Splats, OptimizerState) = resumed.download().unwrap();
        assert!(
            back == middle && back_state == state,
            "{precision:?}: up and down"
        );

        train(&mut whole, 7..=12, &[9]);
        train(&mut resumed, 7..=12, &[9]);
        assert_same(&mut whole, &mut resumed);
    }
}

#[test]
fn every_precision_trains_and_repeats_itself() {
    require_gpu!();
    let scene = scene("random_sh3");
    for precision in precisions() {
        let run = || {
            let mut engine = engine(|o| o.precision = precision);
            engine.upload(&scene.splats, None).unwrap();
            let id = engine.add_views(vec![view(scene.camera)]).unwrap()[0];
            for step in 1..=40 {
                engine.step(id, &settings(step)).unwrap();
            }
            let reports = reports(&mut engine);
            let losses: Vec<f32> = steps(&reports).iter().map(|s| s.loss).collect();
            (losses, engine)
        };
        let ((losses, mut first), (again, mut second)) = (run(), run());
        println!("{precision:?}: {} -> {}", losses[0], losses[39]);
        assert!(losses.iter().all(|loss| loss.is_finite()));
        assert!(losses[39] < 0.7 * losses[0], "{precision:?}: {losses:?}");
        assert_eq!(losses, again);
        assert_same(&mut first, &mut second);
        let (splats, state) = first.download().unwrap();
        for splats in [&splats, &state.first_moments, &state.second_moments] {
            assert!(splats.means.as_flattened().iter().all(|v| v.is_finite()));
            assert!(splats.sh_rest.iter().all(|v| v.is_finite()));
        }
    }
}

#[test]
fn f16_is_refused_where_it_cannot_be_packed() {
    require_gpu!();
    let gpu = Gpu::open(&support::options(false)).unwrap();
    let mut device = gpu.report().clone();
    device.packs_f16 = false;
    let halves = [(Storage::F16, Storage::F32), (Storage::F32, Storage::F16)];
    for (sh, moments) in halves {
        let error = Precision { sh, moments }.check(&device).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("f16") && text.contains("bf16"), "{text}");
        device.packs_f16 = true;
        Precision { sh, moments }.check(&device).unwrap();
        device.packs_f16 = false;
    }
    let sixteen = Precision {
        sh: Storage::Bf16,
        moments: Storage::Bf16,
    };
    sixteen.check(&device).unwrap();
}

#[test]
fn too_many_gaussians_are_an_error_that_says_how_many_fit() {
    require_gpu!();
    let scene = scene("crowd");
    // 45 words of SH rest a Gaussian.
    let mut engine = engine(|o| o.max_binding_bytes = 2000 * 180 - 1);
    let few = self::scene("background").splats;
    engine.upload(&few, None).unwrap();
    let text = engine.upload(&scene.splats, None).unwrap_err().to_string();
    assert!(text.contains("2000 Gaussians, and 1999 fit"), "{text}");
    assert!(text.contains("hint:") && text.contains("bytes"), "{text}");
    assert!(engine.download().unwrap().0 == few, "it holds what it held");
    // Fewer coefficients: more Gaussians.
    let fewer = scene.splats.with_sh_degree(1);
    engine.upload(&fewer, None).unwrap();
    assert!(engine.download().unwrap().0 == fewer);
}

#[test]
fn the_memory_plan_names_the_smaller_of_memory_and_largest_buffer() {
    require_gpu!();
    let plan = |options: fn(&mut GpuEngineOptions)| {
        let mut engine = engine(options);
        engine.upload(&scene("crowd").splats, None).unwrap();
        engine.memory_plan(&settings(1)).unwrap()
    };
    let by_buffer = plan(|o| o.max_binding_bytes = 900_000);
    assert!(by_buffer.by_buffer, "{by_buffer:?}");
    let by_memory = plan(|o| o.gpu.memory_limit = Some(64 << 20));
    assert!(!by_memory.by_buffer, "{by_memory:?}");
    let bytes = by_memory.bytes.unwrap();
    assert_eq!(bytes, 32 << 20);
    assert_eq!(by_memory.gaussians as u64, bytes / by_memory.bytes_each);
    assert!(
        by_buffer.gaussians < by_memory.gaussians,
        "{by_buffer:?} {by_memory:?}"
    );
    let more = |plan: &MemoryPlan| plan.smaller.unwrap();
    assert!(more(&by_memory).1 > by_memory.gaussians && more(&by_memory).0 == "f16");
    // Here the gradient slots are the limit, which 16 bits do not change.
    assert_eq!(more(&by_buffer).1, by_buffer.gaussians);
}

#[test]
fn what_does_not_fit_while_training_is_an_error_and_loses_nothing() {
    require_gpu!();
    let mut scene = scene("crowd");
    for scale in scene.splats.scales.as_flattened_mut() {
        *scale += 1.0;
    }
    let mut engine = engine(|o| o.max_binding_bytes = 600_000);
    start(&mut engine, &scene.splats);
    train(&mut engine, 1..=3, &[]);
    let text = engine.finish().unwrap_err().to_string();
    assert!(text.contains("pairs of a Gaussian and a tile"), "{text}");
    assert!(text.contains("fit"), "{text}");
    // No step could be run, and the splats before it can be saved.
    let (splats, _) = engine.download().unwrap();
    assert!(splats == scene.splats);
    assert!(engine.poll().unwrap().is_empty());
}

#[test]
fn an_unknown_view_is_an_error_and_disturbs_no_other() {
    require_gpu!();
    let mut engine = engine(|_| {});
    start(&mut engine, &scene("background").splats);
    assert!(engine.step(ViewId(7), &settings(1)).is_err());
    train(&mut engine, 1..=2, &[]);
    assert_eq!(steps(&reports(&mut engine)).len(), 2);
}

/// A run gives the same bits timed by stage, by dispatch and not at all, and each command's times have its own step
/// number.
#[test]
fn timing_changes_no_bit_and_names_every_command() {
    require_gpu!();
    let splats = &scene("crowd").splats;
    let mut plain = engine(|_| {});
    start(&mut plain, splats);
    train(&mut plain, 1..=6, &[4]);
    let mut timed = engine(|_| {});
    start(&mut timed, splats);
    assert!(timed.clock().is_none());
    let mut seen = Vec::new();
    for (detail, steps) in [
        (Some(Detail::Spans), 1..=2),
        (None, 3..=3),
        (Some(Detail::Dispatches), 4..=6),
    ] {
        if !timed.set_timing(detail).unwrap() {
            assert!(!timed.gpu().report().timestamps);
            return;
        }
        train(&mut timed, steps, &[4]);
        timed.finish().unwrap();
        seen.extend(timed.take_timings());
    }
    let commands: Vec<_> = seen.iter().map(|t| (t.step, t.is_densify)).collect();
    let step = |number| (number, false);
    assert_eq!(
        commands,
        [step(1), step(2), step(4), (4, true), step(5), step(6)]
    );
    let of_step = &seen[0].timing.spans;
    let names: Vec<_> = of_step.iter().map(|span| span.name).collect();
    assert_eq!(names.first(), Some(&"project"));
    assert!(names.contains(&"update") && seen[0].timing.missing == 0);
    // The number of dispatches in the command list, each under its stage.
    let dispatches = timed.dispatches(ViewId(0));
    assert_eq!(
        dispatches.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        names
    );
    let all: usize = dispatches.iter().map(|(_, count)| count).sum();
    assert_eq!(seen[4].timing.spans.len(), all);
    assert!(
        seen[4]
            .timing
            .spans
            .iter()
            .all(|span| span.kernel.is_some())
    );
    assert_same(&mut plain, &mut timed);
}
