//! The numbers of each step.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use dapple_train::config::DensifyPatch;
use dapple_train::{
    Amendment, Amendments, Change, ConfigPatch, Preset, Schedule, Strategy, TrainConfig, ViewOrder,
};

fn standard() -> Schedule {
    Schedule::new(TrainConfig::default(), 2.0)
}

#[test]
fn the_centres_rate_falls_log_linearly() {
    let schedule = standard();
    let rate = |step| f64::from(schedule.learning_rates(step).means);
    assert!((rate(1) / 3.2e-4 - 1.0).abs() < 1e-6);
    assert!(
        (rate(15_001) / 3.2e-5 - 1.0).abs() < 1e-6,
        "geometric middle"
    );
    assert!((rate(30_001) / 3.2e-6 - 1.0).abs() < 1e-6);
    assert_eq!(schedule.learning_rates(20_000).opacities, 0.05);
}

/// Scales and quaternions begin at a multiple of their rates, which falls to 1 where growth ends.
#[test]
fn shapes_learn_faster_at_first() {
    let mut config = TrainConfig::default();
    (config.densify.stop, config.learning_rates.early) = (20_000, 4.0);
    let schedule = Schedule::new(config, 1.0);
    let scales = |step| f64::from(schedule.learning_rates(step).scales) / 5e-3;
    let quats = |step| f64::from(schedule.learning_rates(step).quats) / 1e-3;
    for (step, times) in [(1, 4.0), (10_001, 2.0), (20_001, 1.0), (30_000, 1.0)] {
        assert!((scales(step) - times).abs() < 1e-6, "step {step}");
        assert!((quats(step) - times).abs() < 1e-6, "step {step}");
    }
    assert_eq!(schedule.learning_rates(1).opacities, 0.05);
}

/// The last step with a half-size photo has the same place of the schedule at any pace.
#[test]
fn coarse_steps_are_a_part_of_the_schedule() {
    let mut config = TrainConfig {
        steps: 1000,
        ..TrainConfig::default()
    };
    let last = |config: &TrainConfig| Schedule::new(config.clone(), 1.0).last_coarse_step();
    assert_eq!(last(&config), 0);
    config.data.coarse_until = 0.4;
    assert_eq!(last(&config), 400);
    // The steps after step 100 run in half of their number.
    config.amendments = vec![Amendment::step_rate(100, 550)].into();
    let schedule = Schedule::new(config.clone(), 1.0);
    let end = schedule.last_coarse_step();
    assert_eq!((end, schedule.place(end)), (250, 400));
    // Steps after the schedule do not belong to it.
    config.amendments = Amendments::default();
    config.schedule_steps = 500;
    assert_eq!(last(&config), 200);
    config.data.coarse_until = 1.0;
    config.schedule_steps = 0;
    assert_eq!(last(&config), 1000);
}

#[test]
fn the_degree_rises_every_thousand_steps() {
    let schedule = standard();
    let degrees = [1, 1000, 1001, 2001, 3001, 30_000].map(|step| schedule.sh_degree(step));
    assert_eq!(degrees, [0, 0, 1, 2, 3, 3]);
}

#[test]
fn anti_aliased_runs_set_3d_filters_every_hundred_steps_and_after_density_control() {
    let plain = TrainConfig::default();
    let mut config = TrainConfig {
        antialias: true,
        ..plain.clone()
    };
    config.densify.every = 70;
    let set = |config: &TrainConfig| -> Vec<u32> {
        let schedule = Schedule::new(config.clone(), 1.0);
        let is_set = |&step: &u32| schedule.step_settings(step).features.antialias.refresh;
        (1..=702).filter(is_set).collect()
    };
    // Rounds after 560, 630 and 700.
    let every = [1, 101, 201, 301, 401, 501, 561, 601, 631, 701];
    assert_eq!(set(&config), every);
    assert!(set(&plain).is_empty());
}

/// Poses are fixed until their start; then their rate falls log-linearly, and translations count in extents.
#[test]
fn poses_are_refined_late_and_ever_less() {
    let mut config = TrainConfig::default();
    config.poses.start = 0.25;
    (config.poses.rate, config.poses.decay) = (4e-3, 0.01);
    let off = Schedule::new(config.clone(), 2.0);
    assert!(off.pose_rates(20_000).are_off(), "nobody asked for it");
    config.poses.refine = true;
    let schedule = Schedule::new(config, 2.0);
    assert!(schedule.pose_rates(7500).are_off());
    for (step, expected) in [(7501, 4e-3), (18_751, 4e-4), (30_001, 4e-5)] {
        let rates = schedule.pose_rates(step);
        let (turn, shift) = (f64::from(rates.rotation), f64::from(rates.translation));
        assert!((turn / expected - 1.0).abs() < 1e-6, "{step}: {turn}");
        assert!((shift / expected - 2.0).abs() < 1e-6, "{step}: {shift}");
    }
}

#[test]
fn density_control_follows_its_plan() {
    let schedule = standard();
    let plan = |step| schedule.densify_plan(step);
    for step in [1, 100, 500, 550, 601, 15_000, 15_100, 18_000] {
        assert!(plan(step).is_none(), "step {step}");
    }
    let early = plan(600).unwrap();
    assert_eq!(early.grow_gradient, Some(2e-4));
    assert_eq!(early.split_scale, 0.02);
    assert_eq!(early.prune_opacity, Some(0.005));
    assert_eq!((early.prune_scale, early.reset_opacity), (None, None));
    let reset = plan(3000).unwrap();
    assert_eq!((reset.prune_scale, reset.reset_opacity), (None, Some(0.01)));
    assert_eq!(plan(3100).unwrap().prune_scale, Some(0.2));
    assert!(plan(14_900).is_some());
    assert!(schedule.step_settings(14_999).accumulate_density);
    assert!(!schedule.step_settings(15_000).accumulate_density);

    // If resets and rounds fall on different steps, a reset neither grows nor prunes.
    let mut config = TrainConfig::default();
    config.densify.start = 116;
    config.densify.reset_every = 750;
    let uneven = Schedule::new(config, 1.0);
    let lone = uneven.densify_plan(750).unwrap();
    assert_eq!((lone.grow_gradient, lone.prune_opacity), (None, None));
    assert_eq!(lone.reset_opacity, Some(0.01));
    assert_eq!(uneven.densify_plan(200).unwrap().reset_opacity, None);
}

#[test]
fn every_epoch_is_another_permutation() {
    let epoch = |order: &mut ViewOrder, n: u32| -> Vec<usize> {
        (1..=13).map(|i| order.view_at(n * 13 + i)).collect()
    };
    let mut order = ViewOrder::new(7, 13);
    let (first, second) = (epoch(&mut order, 0), epoch(&mut order, 1));
    for views in [&first, &second] {
        let mut sorted = views.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..13).collect::<Vec<_>>());
    }
    assert_ne!(first, second);
    // Stateless: a resumed run sees the same views.
    assert_eq!(epoch(&mut ViewOrder::new(7, 13), 1), second);
    assert_ne!(epoch(&mut ViewOrder::new(8, 13), 0), first);
}

/// After an extension every number is that of a run that had this length from its start.
#[test]
fn an_extended_run_goes_on_as_a_longer_one() {
    let planned = |steps, most| {
        let patch = ConfigPatch {
            steps: Some(steps),
            max_gaussians: Some(most),
            densify: DensifyPatch {
                strategy: Some(Strategy::Mcmc),
                add: Some(0.05),
                ..DensifyPatch::default()
            },
            ..ConfigPatch::default()
        };
        TrainConfig::resolve(None, None, patch).unwrap()
    };
    let mut config = planned(6000, 1000);
    let short = Schedule::new(config.clone(), 2.0);
    let longer = Schedule::new(planned(12_000, 2000), 2.0);
    let longest = Schedule::new(planned(24_000, 3000), 2.0);
    config.amendments = vec![
        Amendment::extension(4500, 12_000, 2000),
        Amendment::extension(9000, 24_000, 3000),
    ]
    .into();
    let extended = Schedule::new(config.clone(), 2.0);
    assert_eq!(config.last_step(), 24_000);
    let mut rounds = 0;
    for step in 1..=24_000 {
        let expected = match step {
            ..=4500 => &short,
            4501..=9000 => &longer,
            _ => &longest,
        };
        assert_eq!(
            extended.step_settings(step),
            expected.step_settings(step),
            "step {step}"
        );
        let plan = extended.densify_plan(step);
        assert_eq!(plan, expected.densify_plan(step), "step {step}");
        rounds += u32::from(plan.is_some());
        assert_eq!(extended.learning_rates(step), expected.learning_rates(step));
        assert_eq!(extended.sh_degree(step), expected.sh_degree(step));
        assert_eq!(extended.losses(step), expected.losses(step));
        assert_eq!(extended.place(step), expected.place(step));
    }
    assert!(rounds > 100, "{rounds}");
    // The steps with half-size photos are over by then.
    assert_eq!(extended.last_coarse_step(), short.last_coarse_step());
}

/// Configuration of a run of 2 000 steps.
fn first_part() -> TrainConfig {
    Preset::Standard.config_for(2000)
}

fn next_part(before: &TrainConfig, steps: u32) -> TrainConfig {
    let given = ConfigPatch {
        steps: Some(steps),
        ..ConfigPatch::default()
    };
    before.continued(before.steps, given, None).unwrap()
}

#[test]
fn a_further_part_has_the_schedule_of_the_longer_run_and_raised_rates() {
    let (before, longer) = (first_part(), Preset::Standard.config_for(4000));
    let config = next_part(&before, 4000);
    // 4 000 steps have another default strategy.
    assert_ne!(longer.densify.strategy, before.densify.strategy);
    assert_eq!(config.densify.strategy, before.densify.strategy);
    assert_eq!((config.steps, config.eval.every), (4000, longer.eval.every));
    assert_eq!(config.sh_every, before.sh_every);
    // The part catches up the rounds of 1 000 steps.
    assert_eq!((before.densify.stop, config.densify.stop), (1000, 3000));
    let means = |config: &TrainConfig, step| {
        let schedule = Schedule::new(config.clone(), 1.0);
        f64::from(schedule.learning_rates(step).means)
    };
    // 1.6e-5 in the longer run, which the first part has passed by a factor of ten: 1.6e-5 * sqrt(10).
    let first = means(&config, 2001);
    assert!((first / 5.06e-5 - 1.0).abs() < 0.01, "{first}");
    let last = means(&config, 4000);
    assert!((last / 1.6e-6 - 1.0).abs() < 0.01, "{last}");
    assert!(means(&config, 3000) < first && means(&config, 3000) > last);
    // A part of few steps raises the rate little; no part raises it above the first rate of a run.
    let short = means(&next_part(&before, 2100), 2001);
    assert!(short > 1.6e-6 && short < 3e-6, "{short}");
    let long = means(&next_part(&before, 40_000), 2001);
    assert!((long / 1.6e-4 - 1.0).abs() < 0.01, "{long}");
    // A third part follows the second.
    let third = next_part(&config, 6000);
    assert_eq!(third.amendments.iter().count(), 1);
    assert_eq!(third.densify.strategy, before.densify.strategy);
}

#[test]
fn a_stopped_run_with_its_own_length_keeps_its_rates() {
    let before = first_part();
    let config = before.continued(700, ConfigPatch::default(), None).unwrap();
    assert_eq!(config.steps, 2000);
    assert_eq!(config.densify, before.densify);
    let schedules = [&before, &config].map(|config| Schedule::new(config.clone(), 1.0));
    for step in [701, 1500, 2000] {
        let [old, new] = [0, 1].map(|i: usize| schedules[i].learning_rates(step).means);
        assert!((old / new - 1.0).abs() < 0.01, "{step}: {old} {new}");
    }
    let refused = |given: ConfigPatch| before.continued(2000, given, None).unwrap_err();
    let given = |steps| ConfigPatch {
        steps: Some(steps),
        ..ConfigPatch::default()
    };
    assert!(refused(given(2000)).what().contains("none to continue"));
    let mut other = given(3000);
    other.antialias = Some(true);
    assert!(refused(other).what().contains("antialias"));
}

#[test]
fn fresh_moments_reduce_the_first_rates_and_delay_density_control() {
    let mut config = next_part(&first_part(), 4000);
    let warm = Schedule::new(config.clone(), 1.0);
    let change = Change::Continuation {
        means: 1e-5,
        fresh_moments: true,
    };
    config.amendments = vec![Amendment {
        after: 2050,
        change,
    }]
    .into();
    let fresh = Schedule::new(config, 1.0);
    let factor = |step| {
        let [fresh, warm] = [&fresh, &warm].map(|schedule| schedule.learning_rates(step).sh0);
        f64::from(fresh / warm)
    };
    // Adam's correction of step 1 is sqrt(1 - 0.999) / (1 - 0.9); that of step 2 051 is 0.93.
    let first = 0.1_f64.sqrt() / 0.93;
    assert!(
        (factor(2051) / first - 1.0).abs() < 0.02,
        "{}",
        factor(2051)
    );
    assert!(factor(2060) < factor(2051) && factor(2400) > factor(2200));
    assert!((factor(4000) - 1.0).abs() < 0.1, "{}", factor(4000));
    let rounds = |schedule: &Schedule, until| {
        let steps = 2051..until;
        steps
            .filter(|&step| schedule.densify_plan(step).is_some())
            .count()
    };
    assert_eq!((rounds(&warm, 2101), rounds(&fresh, 2101)), (1, 0));
    assert_eq!((rounds(&warm, 2201), rounds(&fresh, 2201)), (2, 1));
}
