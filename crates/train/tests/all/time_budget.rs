//! Plans for a time budget, and runs that keep to it.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::fake;

use dapple_device::BoxedEngine;
use dapple_engine::Engine;
use dapple_train::time_budget::{
    CostModel, Now, Plan, PlanRequest, StepRateController, Timed, calibrate, plan,
};
use dapple_train::{Amendment, Amendments, Preset, Schedule, Silent, TrainConfig, Trainer};
use fake::{FakeEngine, Log, capture, fake};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn model() -> CostModel {
    CostModel {
        fixed: 1e-3,
        per_pixel: 1e-8,
        per_gaussian: 5e-8,
    }
}

fn wish(seconds: f64) -> PlanRequest {
    PlanRequest {
        seconds,
        pixels: 1e6,
        train_pixels: 1e8,
        first_gaussians: 20_000,
        full_gaussians: 400_000,
        gaussians_are_settled: false,
        size_is_settled: false,
    }
}

#[test]
fn a_cost_model_gives_back_what_it_was_fitted_to() {
    let timed = |pixels: f64, gaussians: f64| Timed {
        pixels,
        gaussians,
        seconds: model().seconds(pixels, gaussians),
    };
    let fitted = CostModel::fit(timed(1e6, 2e4), timed(2.5e5, 2e4), timed(2.5e5, 5e3));
    let (far, expected) = (fitted.seconds(4e6, 1e6), model().seconds(4e6, 1e6));
    assert!((far / expected - 1.0).abs() < 1e-9);
    // A clock that jumps: no part is negative, and the full step keeps its measured time.
    let slow = Timed {
        seconds: 1.0,
        ..timed(2.5e5, 2e4)
    };
    let fitted = CostModel::fit(timed(1e6, 2e4), slow, timed(2.5e5, 5e3));
    assert_eq!(fitted.per_pixel, 0.0);
    assert!((fitted.seconds(1e6, 2e4) / model().seconds(1e6, 2e4) - 1.0).abs() < 1e-9);
    let shared = model().slowed(3.0);
    assert!((shared.seconds(1e6, 2e4) / model().seconds(1e6, 2e4) - 3.0).abs() < 1e-9);
    let same = timed(1e6, 2e4);
    let fitted = CostModel::fit(same, same, same);
    assert!((fitted.seconds(1e6, 2e4) / same.seconds - 1.0).abs() < 1e-9);
}

#[test]
fn more_time_buys_more_and_is_filled() {
    let plans: Vec<Plan> = [1.0, 10.0, 60.0, 600.0, 7200.0]
        .map(|seconds| plan(&model(), &wish(seconds)))
        .to_vec();
    for (plan, seconds) in plans.iter().zip([1.0, 10.0, 60.0, 600.0, 7200.0]) {
        let takes = f64::from(plan.steps) * plan.seconds_per_step;
        assert!((0.9..=1.0).contains(&(takes / seconds)), "{plan:?}");
    }
    for pair in plans.windows(2) {
        assert!(pair[0].steps < pair[1].steps, "{pair:?}");
        assert!(pair[0].downscale >= pair[1].downscale, "{pair:?}");
        assert!(pair[0].max_gaussians <= pair[1].max_gaussians, "{pair:?}");
    }
    assert!(plans[0].downscale > 1 && plans[0].max_gaussians < 400_000);
    assert_eq!((plans[4].downscale, plans[4].max_gaussians), (1, 400_000));
}

/// A short run doubles its Gaussians at most once in 100 steps of its first half.
#[test]
fn a_short_plan_promises_no_more_gaussians_than_its_rounds_can_add() {
    for seconds in [2.0, 5.0, 10.0, 20.0] {
        let wish = PlanRequest {
            first_gaussians: 2_000,
            size_is_settled: true,
            ..wish(seconds)
        };
        let plan = plan(&model(), &wish);
        assert!(plan.is_short(), "{plan:?}");
        let rounds = (plan.steps / 2 - 1) / 100;
        let most = 2_000 << rounds;
        assert!(plan.max_gaussians <= most, "{plan:?}, {rounds} rounds");
        let takes = f64::from(plan.steps) * plan.seconds_per_step;
        assert!((0.9..=1.0).contains(&(takes / seconds)), "{plan:?}");
    }
}

#[test]
fn what_is_named_stays_and_the_impossible_is_tried() {
    let settled = PlanRequest {
        gaussians_are_settled: true,
        size_is_settled: true,
        ..wish(1.0)
    };
    let got = plan(&model(), &settled);
    assert_eq!((got.downscale, got.max_gaussians), (1, 400_000));
    let slow = CostModel {
        fixed: 100.0,
        ..model()
    };
    assert_eq!(plan(&slow, &wish(1.0)).steps, 1);
    // Small photos are not reduced, and few Gaussians stay.
    let tiny = PlanRequest {
        pixels: 100.0,
        first_gaussians: 10,
        full_gaussians: 10,
        ..wish(1.0)
    };
    let got = plan(&model(), &tiny);
    assert_eq!((got.downscale, got.max_gaussians), (1, 10));
    // Not even if they determine the time of a step: half of 100 x 80.
    let by_pixel = CostModel {
        per_pixel: 1e-3,
        ..model()
    };
    let small = PlanRequest {
        pixels: 8000.0,
        ..wish(60.0)
    };
    assert_eq!(plan(&by_pixel, &small).downscale, 1);
    let by_gaussian = CostModel {
        per_gaussian: 1e-2,
        ..model()
    };
    let few = PlanRequest {
        first_gaussians: 100,
        full_gaussians: 3000,
        ..wish(60.0)
    };
    // A few steps add no Gaussian.
    assert_eq!(plan(&by_gaussian, &few).max_gaussians, 100);
    let nothing = PlanRequest {
        pixels: 0.0,
        train_pixels: 0.0,
        first_gaussians: 0,
        full_gaussians: 0,
        ..wish(1.0)
    };
    assert!(plan(&model(), &nothing).steps >= 1);
}

/// Runs a controller with a machine whose steps take `seconds_of(step)`.
#[test]
fn hasty_plans_keep_a_gaussian_for_each_sparse_point_and_pixels_to_tell_them_apart() {
    let slow = CostModel {
        per_pixel: 4e-6,
        per_gaussian: 5e-6,
        ..model()
    };
    let got = plan(&slow, &wish(60.0));
    assert_eq!((got.downscale, got.max_gaussians), (8, 20_000), "{got:?}");
    // An eighth of the size has a 64th of the pixels, and the plan needs 50 for each of the 20 000 points.
    let fewer = |train_pixels| PlanRequest {
        train_pixels,
        ..wish(60.0)
    };
    assert_eq!(plan(&slow, &fewer(6.5e7)).downscale, 8);
    assert_eq!(plan(&slow, &fewer(6.3e7)).downscale, 4);
    let longer = PlanRequest {
        seconds: 200.0,
        ..fewer(1.5e7)
    };
    assert_eq!(plan(&slow, &longer).downscale, 2);
    // If not even 100 steps fit, the plan takes fewer Gaussians.
    let got = plan(&slow, &wish(5.0));
    assert!(got.max_gaussians < 20_000, "{got:?}");
}

fn ends_after(budget: f64, planned: u32, seconds_of: impl Fn(u32) -> f64) -> f64 {
    let pacer = StepRateController::new(budget, model(), 1e6);
    end_of(pacer, (0, 0.0), planned, seconds_of)
}

/// Returns the seconds at the end of a run that has taken these steps and seconds before.
fn end_of(
    mut pacer: StepRateController,
    (mut step, mut seconds): (u32, f64),
    planned: u32,
    seconds_of: impl Fn(u32) -> f64,
) -> f64 {
    let mut last = planned;
    while step < last {
        step += 1;
        seconds += seconds_of(step);
        let now = Now {
            step,
            done: step,
            seconds,
            last,
            gaussians: 1e5,
            later_gaussians: 1e5,
        };
        last = pacer.observe(&now).unwrap_or(last);
        assert!(last > step || step >= last);
    }
    seconds
}

#[test]
fn a_run_ends_in_time_whatever_a_step_takes() {
    for (what, seconds) in [
        ("as planned", ends_after(100.0, 1000, |_| 0.1)),
        ("twice as slow", ends_after(100.0, 1000, |_| 0.2)),
        ("four times as fast", ends_after(100.0, 1000, |_| 0.025)),
        (
            "slower and slower",
            ends_after(100.0, 1000, |i| 0.05 + 2e-4 * f64::from(i)),
        ),
        (
            "slow from the middle on",
            ends_after(100.0, 1000, |i| if i < 500 { 0.1 } else { 0.3 }),
        ),
        (
            "a pause near the end",
            ends_after(100.0, 1000, |i| if i == 900 { 8.0 } else { 0.1 }),
        ),
    ] {
        assert!((90.0..=110.0).contains(&seconds), "{what}: {seconds}");
        // The run is not cut off, which would end it with rates that are still high.
        assert!(
            seconds < 100.0 || what.contains("pause"),
            "{what}: {seconds}"
        );
    }
    // Steps so long that the time is over after the first: the run ends with one more.
    assert!(ends_after(1.0, 10, |_| 2.0) <= 4.0);
}

#[test]
fn a_further_part_ends_in_its_own_time() {
    // 1000 steps of 0.1 s before it.
    for (what, seconds) in [("as before", 0.1), ("slower", 0.4), ("faster", 0.02)] {
        let pacer = StepRateController::for_part(20.0, (1000, 100.0));
        let steps = pacer.steps_of_part();
        assert_eq!(steps, 200);
        let seconds = end_of(pacer, (1000, 100.0), 1000 + steps, |_| seconds);
        assert!((118.0..=120.5).contains(&seconds), "{what}: {seconds}");
    }
    // The steps of this run took no time that was measured.
    assert!(StepRateController::for_part(1.0, (0, 0.0)).steps_of_part() >= 1);
}

/// A measurement after a tenth of the time, at steps of 0.1 s, 50 of which are in flight.
#[test]
fn the_rest_is_what_fits_behind_the_queue_with_the_gaussians_to_come() {
    let model = CostModel {
        fixed: 0.0,
        per_pixel: 0.0,
        per_gaussian: 1e-6,
    };
    let mut pacer = StepRateController::new(100.0, model, 1e6);
    let now = Now {
        step: 150,
        done: 100,
        seconds: 10.0,
        last: 2000,
        gaussians: 1e5,
        later_gaussians: 1e5,
    };
    // 99 s less 10 and 5.
    assert_eq!(pacer.clone().observe(&now), Some(150 + 840));
    let growing = Now {
        later_gaussians: 2e5,
        ..now
    };
    assert_eq!(pacer.observe(&growing), Some(150 + 420));
    // No more steps are done, and the time is over.
    let late = Now {
        seconds: 100.0,
        ..growing
    };
    assert_eq!(pacer.observe(&late), Some(151));
}

fn paced(rates: &[[u32; 2]]) -> Amendments {
    let rates = rates.iter();
    let rates = rates.map(|&[after, last]| Amendment::step_rate(after, last));
    rates.collect::<Vec<_>>().into()
}

#[test]
fn a_change_of_pace_takes_the_steps_after_the_schedule_first() {
    let place = |pace: Vec<[u32; 2]>, step| {
        let config = TrainConfig {
            schedule_steps: 400,
            amendments: paced(&pace),
            ..Preset::Standard.config_for(1000)
        };
        config.validate().unwrap();
        Schedule::new(config, 1.0).place(step)
    };
    for step in [0, 1, 399, 400, 401, 1000, 1001] {
        assert_eq!(place(vec![], step), step);
    }
    // 500 steps are removed: the schedule keeps its own, and 100 remain for the 600 after it.
    let fewer = || vec![[200, 500]];
    assert_eq!(
        [200, 300, 400, 450, 500].map(|step| place(fewer(), step)),
        [200, 300, 400, 700, 1000]
    );
    // Not even the steps of the schedule fit; the last step ends the run anyway.
    let few = || vec![[200, 301]];
    assert_eq!(
        [250, 300, 301].map(|step| place(few(), step)),
        [300, 400, 1000]
    );
    // After the schedule, and more steps than were planned.
    assert_eq!(place(vec![[700, 850]], 775), 850);
    let more = || vec![[200, 1600]];
    assert_eq!(
        [400, 1000, 1600].map(|step| place(more(), step)),
        [400, 700, 1000]
    );
}

#[test]
fn the_schedule_runs_through_whatever_the_pace() {
    let base = TrainConfig {
        sh_every: 100,
        ..Preset::Standard.config_for(1000)
    };
    for pace in [
        vec![[200, 600]],
        vec![[200, 1500]],
        vec![[100, 2000], [400, 700], [650, 651]],
    ] {
        let config = TrainConfig {
            amendments: paced(&pace),
            ..base.clone()
        };
        config.validate().unwrap();
        let (schedule, whole) = (
            Schedule::new(config.clone(), 1.0),
            Schedule::new(base.clone(), 1.0),
        );
        let last = config.last_step();
        assert_eq!(last, pace.last().unwrap()[1]);
        let first = pace[0][0];
        for step in 1..=first {
            assert_eq!(schedule.step_settings(step), whole.step_settings(step));
            assert_eq!(schedule.densify_plan(step), whole.densify_plan(step));
        }
        assert_eq!(schedule.place(last), 1000);
        // It continues from its current place.
        let (left, steps) = (1000 - first, pace[0][1] - first);
        assert!(schedule.place(first + 1) - first <= left.div_ceil(steps));
        assert!((1..last).all(|step| schedule.place(step) <= schedule.place(step + 1)));
        assert_eq!(schedule.learning_rates(last), whole.learning_rates(1000));
        assert_eq!(schedule.step_settings(last).step, last);
        // Each round happens once, and has the number of the step that it follows.
        let rounds = |s: &Schedule, last: u32| (1..=last).filter_map(|i| s.densify_plan(i)).count();
        let (own, of_whole) = (rounds(&schedule, last), rounds(&whole, 1000));
        assert!(own.abs_diff(of_whole) <= 2, "{own} of {of_whole} rounds");
        let evals = (1..=last).filter(|&i| schedule.evaluates_at(i)).count();
        assert!(evals >= 1);
    }
    for bad in [
        vec![[0, 0]],
        vec![[1000, 1200]],
        vec![[300, 300]],
        vec![[300, 800], [200, 900]],
    ] {
        let config = TrainConfig {
            amendments: paced(&bad),
            ..base.clone()
        };
        assert!(config.validate().is_err(), "{bad:?}");
    }
}

fn told(log: &Arc<Mutex<Log>>) -> (Vec<(usize, dapple_engine::StepSettings)>, usize) {
    let log = log.lock().unwrap();
    (log.steps.clone(), log.plans.len())
}

#[test]
fn the_configuration_repeats_a_run_that_kept_its_time() {
    let base = TrainConfig {
        max_gaussians: 1000,
        ..Preset::Quick.config_for(4000)
    };
    let run = |config: TrainConfig, pacer: Option<StepRateController>| {
        let log = Arc::<Mutex<Log>>::default();
        let engine = FakeEngine {
            log: log.clone(),
            step_time: Duration::from_millis(1),
            ..FakeEngine::default()
        };
        let mut trainer = Trainer::new(&capture(9), config, BoxedEngine::host(engine)).unwrap();
        if let Some(pacer) = pacer {
            trainer.set_pacer(pacer);
        }
        trainer.run(&mut Silent).unwrap();
        (trainer.plan().to_config(), trainer.steps_done(), told(&log))
    };
    let (config, steps, kept) = run(
        base.clone(),
        Some(StepRateController::new(0.4, model(), 192.0)),
    );
    assert!(
        !config.amendments.is_empty() && steps < 4000,
        "{steps} steps"
    );
    assert_eq!(config.last_step(), steps);
    let again = TrainConfig::parse(&config.to_toml().unwrap(), "test").unwrap();
    assert_eq!(again, config);
    let (_, steps_again, repeated) = run(again, None);
    assert_eq!(steps_again, steps);
    assert!(repeated == kept, "other views, numbers or rounds");
}

#[test]
fn calibration_times_steps_of_two_sizes_and_counts() {
    let log = Arc::<Mutex<Log>>::default();
    let mut engine = FakeEngine {
        log: log.clone(),
        step_time: Duration::from_millis(2),
        ..FakeEngine::default()
    };
    let config = Preset::Quick.config_for(100);
    let model = calibrate(
        &capture(9),
        &config,
        &mut engine as &mut dyn Engine,
        0.05,
        20,
    )
    .unwrap();
    // Every step of this engine takes the same time.
    let seconds = model.seconds(192.0, 20.0);
    assert!(seconds > 1e-3, "{model:?}");
    let log = log.lock().unwrap();
    assert!(log.steps.len() >= 24);
    // At the degree that the run ends with.
    let degrees = log.steps.iter().map(|(_, step)| step.render.sh_degree);
    assert!(degrees.min() == Some(config.sh_degree));
    // A quarter of the Gaussians, twice as large.
    let mut trainer = Trainer::new(&capture(9), config, fake(&Arc::default(), 0, 0)).unwrap();
    let all = trainer.splats().unwrap();
    assert_eq!((engine.splats.len(), all.len()), (5, 20));
    let wider = engine.splats.scales[1][0] - all.scales[4][0];
    assert!((wider - 2.0f32.ln()).abs() < 1e-6, "{wider}");
}

/// A run that may grow is timed with as many Gaussians as it may reach: a step's time is not extrapolated to them.
#[test]
fn calibration_times_the_gaussians_that_a_run_may_reach() {
    let log = Arc::<Mutex<Log>>::default();
    let mut engine = FakeEngine {
        log: log.clone(),
        gaussian_time: Duration::from_micros(100),
        ..FakeEngine::default()
    };
    let config = Preset::Quick.config_for(100);
    let model = calibrate(
        &capture(9),
        &config,
        &mut engine as &mut dyn Engine,
        0.05,
        400,
    )
    .unwrap();
    let [few, many] = [20.0, 400.0].map(|gaussians| model.seconds(192.0, gaussians));
    assert!(
        (0.04..0.08).contains(&many) && many > 5.0 * few,
        "{few} s, {many} s"
    );
}
