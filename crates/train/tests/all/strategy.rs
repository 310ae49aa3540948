//! Density strategies: their defaults, their plans, and the number of first Gaussians that they need.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use crate::fake;

use dapple_engine::LossTerm;
use dapple_scene::Photo;
use dapple_train::config::DensifyPatch;
use dapple_train::strategy::growth;
use dapple_train::{
    CaptureStatistics, ConfigPatch, LimitReason, Preset, Schedule, Strategy, TrainConfig, Trainer,
};
use std::sync::Arc;

fn config(preset: Preset, strategy: Strategy, steps: Option<u32>) -> TrainConfig {
    let flags = ConfigPatch {
        steps,
        densify: DensifyPatch {
            strategy: Some(strategy),
            ..DensifyPatch::default()
        },
        ..ConfigPatch::default()
    };
    TrainConfig::resolve(Some(preset), None, flags).unwrap()
}

#[test]
fn mcmc_comes_with_the_papers_values_scaled_to_the_run() {
    let standard = config(Preset::Standard, Strategy::Mcmc, None);
    let densify = &standard.densify;
    assert_eq!(
        (densify.start, densify.stop, densify.every),
        (500, 25_000, 100)
    );
    assert_eq!((densify.opacity_reg, densify.scale_reg), (0.01, 0.02));
    assert_eq!(standard.learning_rates.decay, 0.1);
    assert_eq!(
        (standard.initial_opacity, standard.initial_scale),
        (0.5, 0.3)
    );
    assert_eq!(standard.learning_rates.early, 3.0);
    assert_eq!(standard.data.coarse_until, 0.4);
    let short = config(Preset::Standard, Strategy::Mcmc, Some(3000)).densify;
    assert_eq!((short.start, short.stop, short.every), (50, 2500, 100));
    // Presets with a schedule of their own keep its start.
    let m9 = config(Preset::M9, Strategy::Mcmc, None).densify;
    assert_eq!((m9.start, m9.stop, m9.every), (100, 833, 50));

    // Named values have priority, and the printed file reads back.
    let text = standard.to_toml().unwrap();
    let mut named: ConfigPatch = toml::from_str(&text).unwrap();
    named.densify.scale_reg = Some(0.5);
    let again = TrainConfig::resolve(None, None, named).unwrap();
    assert_eq!(again.densify.scale_reg, 0.5);
    assert_eq!(again.densify.opacity_reg, 0.01);
    assert_eq!(
        config(Preset::Standard, Strategy::Adc, None),
        TrainConfig::default()
    );
}

#[test]
fn mcmc_relocates_and_nothing_else() {
    let mut config = config(Preset::Standard, Strategy::Mcmc, None);
    config.max_gaussians = 5000;
    config.seed = 7;
    let schedule = Schedule::new(config, 2.0);
    for step in [1, 500, 550, 25_000, 25_100] {
        assert!(schedule.densify_plan(step).is_none(), "step {step}");
    }
    let plan = schedule.densify_plan(600).unwrap();
    let relocation = plan.relocate.unwrap();
    assert_eq!(
        (relocation.dead_opacity, relocation.add_permille),
        (0.005, 50)
    );
    assert_eq!((plan.max_gaussians, plan.seed), (5000, 7));
    assert_eq!((plan.grow_gradient, plan.reset_opacity), (None, None));

    // Noise goes with the step size of the centres, to the end of the run.
    for step in [1, 10_000, 30_000] {
        let settings = schedule.step_settings(step);
        let ratio = settings.features.noise.scale / settings.learning_rates.means;
        assert!((ratio / (5e6 / 4.0) - 1.0).abs() < 1e-6, "{ratio}");
        assert_eq!(settings.seed, 7);
        assert_eq!(settings.losses[LossTerm::Scale], 0.01);
        assert!(!settings.accumulate_density);
    }
}

#[test]
fn the_strategy_goes_with_the_length_of_the_run_and_with_what_is_named() {
    let of = |steps, toml: &str| {
        let flags = ConfigPatch {
            steps: Some(steps),
            ..toml::from_str(toml).unwrap()
        };
        TrainConfig::resolve(None, None, flags)
            .unwrap()
            .densify
            .strategy
    };
    assert_eq!(
        (of(3499, ""), of(3500, "")),
        (Strategy::Adc, Strategy::Mcmc)
    );
    for adcs in ["absgrad = true", "enabled = false", "reset_every = 3000"] {
        assert_eq!(of(30_000, &format!("[densify]\n{adcs}")), Strategy::Adc);
    }
    assert_eq!(Preset::Quick.config().densify.strategy, Strategy::Mcmc);
    assert_eq!(Preset::M9.config_for(9000).densify.strategy, Strategy::Adc);
}

#[test]
fn rates_fall_once_the_number_of_gaussians_is_fixed() {
    let schedule = Schedule::new(config(Preset::Standard, Strategy::Mcmc, None), 2.0);
    let scales = |step| f64::from(schedule.learning_rates(step).scales) / 0.005;
    for (step, expected) in [
        (1, 3.0),
        (25_001, 1.0),
        (27_501, 0.1f64.sqrt()),
        (30_001, 0.1),
    ] {
        assert!((scales(step) - expected).abs() < 1e-6, "step {step}");
    }
    let constant = Schedule::new(TrainConfig::default(), 2.0);
    assert_eq!(constant.learning_rates(30_000).opacities, 0.05);
}

#[test]
fn steps_after_the_schedule_go_on_with_its_last_rates_and_ever_smaller_ones() {
    let mut long = config(Preset::Standard, Strategy::Mcmc, Some(12_000));
    let short = Schedule::new(long.clone(), 2.0);
    (long.steps, long.schedule_steps) = (32_000, 12_000);
    let long = Schedule::new(long, 2.0);
    for step in [1, 5000, 10_500, 12_000, 12_001] {
        assert_eq!(long.learning_rates(step), short.learning_rates(step));
        assert_eq!(long.sh_degree(step), short.sh_degree(step));
        assert_eq!(long.densify_plan(step), short.densify_plan(step));
    }
    // To a tenth again at the end, centres too.
    let of = |schedule: &Schedule, step| {
        let rates = schedule.learning_rates(step);
        [rates.means, rates.scales].map(f64::from)
    };
    for (step, expected) in [(22_001, 0.1f64.sqrt()), (32_001, 0.1)] {
        let last = of(&short, 12_001);
        let ratios = [0, 1].map(|i| of(&long, step)[i] / last[i]);
        assert!(
            ratios.iter().all(|r| (r - expected).abs() < 1e-5),
            "{ratios:?}"
        );
    }
}

#[test]
fn growth_reaches_the_budget_after_two_thirds_of_the_rounds() {
    let grown = |steps, most, first: usize| {
        let mut config = config(Preset::Standard, Strategy::Mcmc, Some(steps));
        config.max_gaussians = most;
        let add = growth(&config, first as u64);
        config.densify.add = add;
        let schedule = Schedule::new(config.clone(), 1.0);
        let mut count = first;
        let mut reached = None;
        for step in 1..=steps {
            if let Some(plan) = schedule.densify_plan(step) {
                count += plan.relocate.unwrap().added(count, plan.max_gaussians);
            }
            if count == most {
                reached.get_or_insert(step);
            }
        }
        (add, reached)
    };
    // Few points and a large budget: as fast as it takes. Stop is step 5833.
    let (add, reached) = grown(7000, 200_000, 4696);
    assert!((0.10..0.11).contains(&add), "{add}");
    assert!(
        reached.is_some_and(|step| (3700..=4100).contains(&step)),
        "{reached:?}"
    );
    // The published growth if it suffices; never so fast that Gaussians cannot settle; 0 without a cap or if it is
    // reached.
    assert_eq!(grown(30_000, 100_000, 50_000).0, 0.05);
    assert_eq!(grown(7000, 1_000_000, 1).0, 0.3);
    assert_eq!(grown(7000, 1000, 1000).0, 0.05);
}

#[test]
fn the_unit_of_the_world_does_not_matter() {
    let settings = |extent: f64| {
        let config = config(Preset::Standard, Strategy::Mcmc, None);
        Schedule::new(config, extent).step_settings(600)
    };
    let (small, large) = (settings(1.0), settings(10.0));
    // Covariances are 100 times, noise and scales shall be 10 times as large.
    let ratio = large.features.noise.scale / small.features.noise.scale;
    assert!((10.0 * ratio - 1.0).abs() < 1e-6);
    let ratio = |term| large.losses[term] / small.losses[term];
    assert!((10.0 * ratio(LossTerm::Scale) - 1.0).abs() < 1e-6);
    assert_eq!(ratio(LossTerm::Opacity), 1.0);
    // All cameras in one place.
    let nowhere = settings(0.0);
    let weights = (
        nowhere.features.noise.scale,
        nowhere.losses[LossTerm::Scale],
    );
    assert_eq!(weights, (0.0, 0.0));
}

#[test]
fn the_default_strategy_adds_nothing_to_steps() {
    let schedule = Schedule::new(TrainConfig::default(), 2.0);
    assert!(!schedule.step_settings(1).adds_to_update());
    let mut config = TrainConfig::default();
    config.densify.opacity_reg = 0.5;
    let settings = Schedule::new(config, 2.0).step_settings(1);
    assert!(settings.adds_to_update());
    let added = (
        settings.losses[LossTerm::Opacity],
        settings.features.noise.scale,
    );
    assert_eq!(added, (0.5, 0.0));
}

#[test]
fn absolute_gradients_have_a_threshold_of_their_own() {
    let of = |absgrad, grow_gradient| {
        let flags = ConfigPatch {
            densify: DensifyPatch {
                strategy: Some(Strategy::Adc),
                absgrad,
                grow_gradient,
                ..DensifyPatch::default()
            },
            ..ConfigPatch::default()
        };
        let config = TrainConfig::resolve(None, None, flags).unwrap();
        let schedule = Schedule::new(config, 2.0);
        let absolute = schedule.step_settings(600).absolute_density;
        let plan = schedule.densify_plan(600).unwrap();
        (plan.grow_gradient.unwrap(), absolute)
    };
    assert_eq!(of(None, None), (2e-4, false));
    assert_eq!(of(Some(true), None), (8e-4, true));
    assert_eq!(of(Some(true), Some(5e-4)), (5e-4, true));
}

#[test]
fn a_budget_is_spent_along_a_parabola() {
    let mut config = config(Preset::Standard, Strategy::Budgeted, None);
    config.max_gaussians = 100_000;
    let densify = config.densify.clone();
    let schedule = Schedule::new(config, 1.0);
    // As if everything always wanted to grow, and nothing was pruned.
    let (first, mut count) = (20_000usize, 20_000usize);
    let steps: Vec<u32> = (1..30_000)
        .filter(|&step| {
            schedule
                .densify_plan(step)
                .is_some_and(|plan| plan.grow_gradient.is_some())
        })
        .collect();
    let rounds = steps.len() as f64;
    assert_eq!(rounds, 144.0);
    for (round, &step) in (1..).zip(&steps) {
        let plan = schedule.densify_plan(step).unwrap();
        count += plan.free_capacity(count);
        let left = 1.0 - f64::from(round) / rounds;
        let expected = 100_000.0 - (100_000 - first) as f64 * left * left;
        assert!(
            (count as f64 - expected).abs() < 200.0,
            "{step}: {count}, {expected}"
        );
        assert!(count <= 100_000);
    }
    assert!(count >= 99_990, "{count}");
    let alone = schedule.densify_plan(steps[5]).unwrap();
    assert_eq!(alone.grow_gradient, Some(densify.grow_gradient as f32));
}

#[test]
fn a_strategy_that_needs_a_budget_gets_one() {
    // Photos of 16 x 12 pixels without any detail, and 20 points: as many as at the start.
    for (strategy, photos, named, expected) in [
        (Strategy::Mcmc, 48, 0, 20),
        (Strategy::Budgeted, 48, 0, 20),
        (Strategy::Mcmc, 48, 15, 15),
        (Strategy::Adc, 48, 0, 0),
    ] {
        let capture = fake::capture(photos);
        let mut config = config(Preset::M9, strategy, None);
        config.max_gaussians = named;
        let engine = fake::fake(&Arc::default(), 0, 0);
        let mut trainer = Trainer::new(&capture, config, engine).unwrap();
        let budget = trainer.config().max_gaussians;
        assert_eq!(budget, expected, "{strategy}, {photos} photos");
        let splats = trainer.splats().unwrap();
        assert!(budget == 0 || splats.len() <= budget);
        let opacity = 1.0 / (1.0 + (-splats.opacities[0]).exp());
        let wanted = if strategy == Strategy::Mcmc { 0.5 } else { 0.1 };
        assert!((opacity - wanted).abs() < 1e-6, "{opacity}");
    }
}

#[test]
fn photos_with_more_detail_get_more_gaussians() {
    let mut capture = fake::capture(48);
    // Squares of two pixels: a detail for each 16 pixels.
    let square = |i: u32| {
        if (i % 16 / 2 + i / 32).is_multiple_of(2) {
            50
        } else {
            200
        }
    };
    let rgb: Vec<u8> = (0..16 * 12).flat_map(|i| [square(i); 3]).collect();
    for view in &mut capture.views {
        view.photo = Photo::from_rgb(16, 12, rgb.clone()).into();
    }
    let train = capture.split(8).train;
    let evidence = CaptureStatistics::measure(&capture, &train).unwrap();
    assert_eq!(evidence.detail, 12 * train.len() as u64);
    let config = config(Preset::M9, Strategy::Mcmc, None);
    let engine = fake::fake(&Arc::default(), 0, 0);
    let trainer = Trainer::new(&capture, config, engine).unwrap();
    let budget = trainer.history().budget.unwrap();
    assert_eq!(budget, evidence.budget(Preset::M9, 20, None));
    assert_eq!(trainer.config().max_gaussians, budget.gaussians);
    assert!(
        budget.gaussians > 40 && budget.bound != LimitReason::First,
        "{budget}"
    );
    assert!(trainer.config().densify.add >= 0.05);
}

#[test]
fn first_scales_are_as_small_as_the_configuration_says() {
    let capture = fake::capture(48);
    let scale = |initial_scale: f64| {
        let config = TrainConfig {
            initial_scale,
            ..Preset::M9.config()
        };
        let engine = fake::fake(&Arc::default(), 0, 0);
        let mut trainer = Trainer::new(&capture, config, engine).unwrap();
        trainer.splats().unwrap().scales[3][1]
    };
    assert!((scale(1.0) - scale(0.1) - 10.0f32.ln()).abs() < 1e-5);
}
