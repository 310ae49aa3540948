//! Layering, scaling and validation of configurations.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use dapple_train::config::{DensifyPatch, EvalPatch};
use dapple_train::{
    Amendment, AppearanceModel, ConfigPatch, PhotoCoverage, Preset, Strategy, TrainConfig,
};

fn resolve(preset: Option<Preset>, toml: &str, flags: ConfigPatch) -> TrainConfig {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.toml");
    std::fs::write(&path, toml).unwrap();
    TrainConfig::resolve(preset, Some(&path), flags).unwrap()
}

fn error_of(toml: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.toml");
    std::fs::write(&path, toml).unwrap();
    let result = TrainConfig::resolve(None, Some(&path), ConfigPatch::default());
    result.expect_err(toml).to_string()
}

#[test]
fn seven_thousand_steps_scale_as_the_field_does() {
    let adc = ConfigPatch {
        preset: Some(Preset::Quick),
        densify: DensifyPatch {
            strategy: Some(Strategy::Adc),
            ..DensifyPatch::default()
        },
        ..ConfigPatch::default()
    };
    let config = TrainConfig::resolve(None, None, adc).unwrap();
    let densify = &config.densify;
    assert_eq!(config.steps, 7000);
    assert_eq!(
        (
            densify.every,
            densify.start,
            densify.stop,
            densify.reset_every
        ),
        (100, 116, 3500, 3000)
    );
    assert_eq!(config.sh_every, 233);
    // Never zero, however short.
    assert_eq!(TrainConfig::for_steps(10).sh_every, 1);
}

#[test]
fn named_steps_are_not_scaled() {
    let flags = ConfigPatch {
        steps: Some(3000),
        densify: DensifyPatch {
            every: Some(77),
            ..DensifyPatch::default()
        },
        ..ConfigPatch::default()
    };
    let config = resolve(None, "[densify]\nstop = 1234\n", flags);
    assert_eq!(config.densify.every, 77);
    assert_eq!(config.densify.stop, 1234);
    assert_eq!(config.densify.start, 50);
}

#[test]
fn flags_win_over_the_file_and_the_file_over_the_preset() {
    let toml = "preset = \"m9\"\nseed = 5\nssim_weight = 0.3\n[data]\nmax_train_views = 7\n";
    let flags = ConfigPatch {
        seed: Some(9),
        ..ConfigPatch::default()
    };
    let config = resolve(Some(Preset::Micro), toml, flags);
    assert_eq!(config.preset, Preset::Micro);
    assert_eq!((config.steps, config.seed), (100, 9));
    assert_eq!(config.ssim_weight, 0.3);
    assert_eq!(config.data.max_train_views, 7);
    assert_eq!(config.data.max_eval_views, 3);
    assert_eq!(resolve(None, toml, ConfigPatch::default()).steps, 1000);
}

#[test]
fn a_short_preset_scales_from_its_own_length() {
    let config = Preset::Micro.config();
    assert_eq!(
        (config.initial_gaussians, config.max_gaussians),
        (3000, 5000)
    );
    assert_eq!(config.densify.every, 25);
    let twice = Preset::Micro.config_for(200);
    assert_eq!((twice.densify.every, twice.densify.stop), (25, 180));
    assert!(!Preset::M8.config().densify.enabled);
    for preset in Preset::ALL {
        preset.config().validate().unwrap();
        assert_eq!(preset.name().parse::<Preset>().unwrap(), preset);
    }
}

#[test]
fn naming_a_number_of_gaussians_asks_for_a_random_start_and_a_preset_does_not() {
    let flags = |initial_gaussians| ConfigPatch {
        initial_gaussians,
        ..ConfigPatch::default()
    };
    let asked = |toml, number| resolve(Some(Preset::Micro), toml, flags(number)).random_start;
    assert!(!asked("", None));
    assert!(asked("", Some(3000)));
    assert!(asked("initial_gaussians = 3000", None));
    assert!(!asked("initial_gaussians = 0", None));
    assert!(asked("random_start = true", None));
    // Read back, the preset's number still does not request a random start; a flag has priority over the file.
    let printed = Preset::Micro.config().to_toml().unwrap();
    assert!(!asked(&printed, None));
    assert!(asked(&printed, Some(10)));
}

#[test]
fn the_printed_configuration_reads_back_the_same() {
    let flags = ConfigPatch {
        steps: Some(1234),
        max_gaussians: Some(777),
        seed: Some(42),
        eval: EvalPatch {
            steps: Some(vec![20, 10, 20]),
            ..EvalPatch::default()
        },
        ..ConfigPatch::default()
    };
    let config = TrainConfig::resolve(Some(Preset::Quick), None, flags).unwrap();
    assert_eq!(config.eval.steps, [10, 20]);
    let text = config.to_toml().unwrap();
    assert!(text.contains("# Seed of everything random"), "{text}");
    assert_eq!(resolve(None, &text, ConfigPatch::default()), config);
    assert_eq!(toml::from_str::<TrainConfig>(&text).unwrap(), config);
}

#[test]
fn errors_name_the_key_the_line_and_the_remedy() {
    let unknown = error_of("seed = 1\n\n[densify]\nevry = 5\n");
    assert!(unknown.contains("`evry`"), "{unknown}");
    assert!(unknown.contains("line 4"), "{unknown}");
    assert!(unknown.contains("did you mean `every`?"), "{unknown}");
    for (toml, expected) in [
        ("steps = 0", "steps = 0"),
        ("steps = -5", "steps"),
        ("steps = \"many\"", "invalid type"),
        ("preset = \"huge\"", "huge"),
        ("sh_degree = 4", "sh_degree = 4"),
        ("stop_after = 40000", "stop_after"),
        ("ssim_weight = nan", "ssim_weight"),
        ("background = [0.0, 2.0, 0.0]", "green"),
        ("[data]\neval_every = 1", "eval_every = 1"),
        ("[densify]\nstart = 600\nstop = 500", "densify.start = 600"),
        ("[densify]\nevery = 0", "densify.every"),
        ("steps = 100\nschedule_steps = 101", "schedule_steps"),
        ("[learning_rates]\nmeans = -1.0", "learning_rates.means"),
        ("[learning_rates]\nscales = inf", "learning_rates.scales"),
        ("[learning_rates]\nmeans_final = 0.0", "means_final"),
        ("[adam]\nbeta1 = 1.0", "adam.beta1"),
        ("initial_opacity = 1.0", "initial_opacity"),
        ("initial_scale = 0.0", "initial_scale"),
        ("[densify]\nstrategy = \"mcmd\"", "mcmd"),
        ("[densify]\nopacity_reg = -1.0", "densify.opacity_reg"),
        (
            "[densify]\nstrategy = \"mcmc\"\nreset_every = 3000",
            "reset_every = 3000",
        ),
        (
            "[densify]\nstrategy = \"mcmc\"\nabsgrad = true",
            "densify.absgrad",
        ),
        ("[densify]\nstrategy = \"mcmc\"\nadd = 2.0", "densify.add"),
        (
            "[densify]\nstrategy = \"mcmc\"\nprune_opacity = 0.0",
            "densify.prune_opacity",
        ),
        (
            "[densify]\nstrategy = \"mcmc\"\nenabled = false",
            "densify.enabled = false",
        ),
        (
            "preset = \"m8\"\n[densify]\nstrategy = \"budgeted\"",
            "densifies",
        ),
        ("steps = [", "line 1"),
    ] {
        let message = error_of(toml);
        assert!(message.contains(expected), "{toml}: {message}");
        assert!(message.contains("hint:"), "{toml}: {message}");
    }
    let missing = TrainConfig::resolve(
        None,
        Some(std::path::Path::new("/nowhere/run.toml")),
        ConfigPatch::default(),
    );
    assert!(
        missing
            .unwrap_err()
            .to_string()
            .contains("/nowhere/run.toml")
    );
}

#[test]
fn regularisers_spare_unseen_gaussians_where_a_pass_takes_longer_than_a_round() {
    let of = |photos: usize, views: u32, named: Option<bool>| {
        let mut flags = ConfigPatch {
            views_per_step: Some(views),
            ..ConfigPatch::default()
        };
        flags.densify.regularise_unseen = named;
        let config = TrainConfig::resolve_for(Some(seen(photos)), None, None, flags).unwrap();
        config.densify.regularise_unseen
    };
    assert!(of(100, 1, None));
    assert!(!of(101, 1, None));
    assert!(of(400, 4, None));
    assert!(!of(401, 4, None));
    assert!(of(1000, 1, Some(true)));
    assert!(!of(10, 1, Some(false)));
}

/// Statistics of `photos` photos, each of which shows everything.
fn seen(photos: usize) -> PhotoCoverage {
    PhotoCoverage {
        photos,
        coverage: Some(photos as f64),
    }
}

#[test]
fn a_capture_decides_what_nobody_names() {
    let of = |photos, toml: &str| {
        let flags: ConfigPatch = toml::from_str(toml).unwrap();
        let config = TrainConfig::resolve_for(Some(seen(photos)), None, None, flags).unwrap();
        (
            config.steps,
            config.densify.stop,
            config.data.validate_every,
        )
    };
    let schedule_of = |photos, toml: &str| {
        let flags: ConfigPatch = toml::from_str(toml).unwrap();
        let config = TrainConfig::resolve_for(Some(seen(photos)), None, None, flags).unwrap();
        config.schedule_length()
    };
    // At most 30 000 steps, at least 7 000, 130 for a photo between.
    assert_eq!(of(1000, ""), (30_000, 25_000, 0));
    assert_eq!(of(100, ""), (13_000, 10_833, 0));
    assert_eq!(of(14, ""), (7000, 5833, 0));
    // Named steps stay; the schedule does not become longer than suits the capture.
    assert_eq!(of(100, "steps = 30000"), (30_000, 10_833, 0));
    assert_eq!(of(14, "steps = 30000"), (30_000, 5833, 0));
    assert_eq!(schedule_of(14, "steps = 30000"), 7000);
    assert_eq!(schedule_of(200, "steps = 10000"), 10_000);
    // A named schedule stays, and has validation photos if it is far too long; 0 is all of the run.
    let long = "steps = 30000\nschedule_steps = ";
    assert_eq!(of(116, &format!("{long}30000")), (30_000, 25_000, 0));
    assert_eq!(of(115, &format!("{long}30000")), (30_000, 25_000, 16));
    assert_eq!(of(115, &format!("{long}0")), (30_000, 25_000, 16));
    let unwatched = format!("{long}30000\n[data]\nvalidate_every = 0");
    assert_eq!(of(14, &unwatched).2, 0);
    assert_eq!(of(1000, "preset = \"quick\"").0, 7000);
    assert_eq!(of(75, "preset = \"quick\"").0, 5250);
    assert_eq!(of(14, "preset = \"m10\"").0, 2000);
}

/// A run may extend itself if its length is not set, and if no parameters are learned for single photos.
#[test]
fn standard_runs_are_open_ended_unless_somebody_says_otherwise() {
    let of = |toml: &str| {
        let flags: ConfigPatch = toml::from_str(toml).unwrap();
        let config = TrainConfig::resolve_for(Some(seen(50)), None, None, flags).unwrap();
        config.max_extensions
    };
    assert_eq!(of(""), 2);
    assert_eq!(of("max_gaussians = 1000"), 2);
    assert_eq!(of("[data]\nvalidate_every = 0"), 2);
    assert_eq!(of("max_extensions = 1"), 1);
    assert_eq!(of("max_extensions = 0"), 0);
    for other in [
        "steps = 9000",
        "stop_after = 3000",
        "preset = \"quick\"",
        "preset = \"m10\"",
        "[densify]\nstrategy = \"adc\"",
        "[appearance]\nmodel = \"exposure\"",
        "[poses]\nrefine = true",
        "[depth]\nfrom = \"points\"",
        "[data]\nvalidate_every = 8",
    ] {
        assert_eq!(of(other), 0, "{other}");
    }
    let of_nothing = TrainConfig::resolve(None, None, ConfigPatch::default()).unwrap();
    assert_eq!(of_nothing.max_extensions, 0);
}

#[test]
fn a_printed_run_that_is_to_have_another_length_is_not_extended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.toml");
    let resolved =
        |flags| TrainConfig::resolve_for(Some(seen(50)), None, Some(&path), flags).unwrap();
    let mut config =
        TrainConfig::resolve_for(Some(seen(50)), None, None, ConfigPatch::default()).unwrap();
    config.amendments = vec![
        Amendment::extension(5000, 14_000, 300),
        Amendment::dropout(10_000, 0.2),
    ]
    .into();
    std::fs::write(&path, config.to_toml().unwrap()).unwrap();
    assert_eq!(resolved(ConfigPatch::default()), config);
    let asked = ConfigPatch {
        steps: Some(9000),
        ..ConfigPatch::default()
    };
    let asked = resolved(asked);
    assert_eq!((asked.steps, asked.max_extensions), (9000, 0));
    assert!(asked.amendments.is_empty());
    assert_eq!(asked.dropout, 0.0);
    // A dropout rate that the user names is that of the whole run.
    let named = resolved(ConfigPatch {
        dropout: Some(0.3),
        ..ConfigPatch::default()
    });
    assert_eq!(
        (named.dropout, named.amendments.dropouts().count()),
        (0.3, 0)
    );
}

/// A resumed run has the configuration that it began with, apart from changes that the run made itself.
#[test]
fn what_a_run_left_out_by_itself_is_no_difference() {
    let began = TrainConfig::default();
    let mut run = began.clone();
    run.amendments = vec![Amendment::dropout(5000, 0.2)].into();
    let of = |text: &str| ConfigPatch::parse(text, "it").unwrap();
    let differs = |run: &TrainConfig, patch| !run.differences(patch).unwrap().is_empty();
    assert!(!differs(&run, of(&began.to_toml().unwrap())));
    assert!(differs(&run, of("dropout = 0.1")));
    assert!(differs(&run, of("dropout = 0.2\ndropout_after = 100")));
    run.dropout = 0.2;
    assert!(differs(&run, of("dropout = 0")));
}

/// Amendments are read as they were printed, and from the keys of earlier versions.
#[test]
fn amendments_are_read_as_printed_and_from_older_keys() {
    let config = |text: &str| TrainConfig::parse(text, "it").unwrap();
    let new = config(
        "steps = 7000\namendments = [{ after = 5000, change = { extension = { steps = 14000, max_gaussians = 300 } } }, \
         { after = 9000, change = { dropout = { rate = 0.2 } } }]",
    );
    let expected = vec![
        Amendment::extension(5000, 14_000, 300),
        Amendment::dropout(9000, 0.2),
    ];
    assert_eq!(new.amendments, expected.into());
    assert_eq!((new.last_step(), new.dropout), (14_000, 0.0));
    let printed = new.to_toml().unwrap();
    assert_eq!(config(&printed), new);
    let old = "extended = [[5000, 14000, 300]]\ndropout = 0.2\ndropout_after = 9000";
    assert_eq!(config(&format!("steps = 7000\n{old}")), new);
    // A whole file of an earlier version.
    let mut older = String::new();
    for line in printed.lines() {
        match line.split(" = ").next() {
            Some("amendments") => {
                older += "step_rate_log = []\nextension_log = [[5000, 14000, 300]]\ndropout_after = 9000\n";
            }
            Some("dropout") => older += "dropout = 0.2\n",
            _ => older += &format!("{line}\n"),
        }
    }
    assert_eq!(config(&older), new);
    let paced = config("steps = 1000\nstep_rate_log = [[100, 550]]");
    assert_eq!(
        paced.amendments,
        vec![Amendment::step_rate(100, 550)].into()
    );
    for (wrong, said) in [
        ("dropout_after = 10", "dropout"),
        ("amendments = [{ after = 5 }]", "change"),
        (
            "amendments = [{ after = 5, change = { pause = 1 } }]",
            "pause",
        ),
    ] {
        let told = error_of(wrong);
        assert!(told.contains(said), "{told}");
    }
}

#[test]
fn extensions_that_cannot_be_are_refused() {
    let mcmc = "steps = 7000\n";
    for wrong in [
        "extension_log = [[0, 14000, 100]]",
        "extension_log = [[7000, 14000, 100]]",
        "extension_log = [[5000, 7000, 100]]",
        "extension_log = [[5000, 14000, 0]]",
        "extension_log = [[5000, 14000, 100], [5000, 28000, 100]]",
        "extension_log = [[5000, 14000, 100], [15000, 28000, 100]]",
        "amendments = [{ after = 5000, change = { extension = { steps = 7000, max_gaussians = 1 } } }]",
        "amendments = [{ after = 5000, change = { dropout = { rate = 0.6 } } }]",
    ] {
        let told = error_of(&format!("{mcmc}{wrong}"));
        assert!(
            told.contains("cannot be") && told.contains("hint"),
            "{told}"
        );
    }
    for other in [
        "step_rate_log = [[100, 5000]]",
        "schedule_steps = 5000",
        "[densify]\nstrategy = \"adc\"",
        "[data]\nvalidate_every = 8",
        "[poses]\nrefine = true",
    ] {
        let told = error_of(&format!("{mcmc}max_extensions = 1\n{other}"));
        assert!(
            told.contains("contradict") && told.contains("hint"),
            "{told}"
        );
    }
    assert!(error_of("max_extensions = 9").contains("extensions"));
}

#[test]
fn an_appearance_model_sets_its_defaults_and_its_rate_begins_late_and_falls() {
    let config = |toml: &str| resolve(None, toml, ConfigPatch::default());
    let none = config("steps = 3000");
    assert_eq!(none.appearance.model, AppearanceModel::None);
    assert_eq!(none.appearance.settings(1, 3000), None);
    let exposure = config("steps = 3000\n[appearance]\nmodel = \"exposure\"").appearance;
    assert_eq!((exposure.grid, exposure.start), ([1, 1, 1], 100));
    let bilateral = config("steps = 3000\n[appearance]\nmodel = \"bilateral\"").appearance;
    assert_eq!(bilateral.grid, [16, 16, 8]);
    let rate = |step| bilateral.settings(step, 3000).unwrap().rate;
    assert_eq!((rate(1), rate(100)), (0.0, 0.0));
    let expected = bilateral.rate * 0.1f64.powf(100.0 / 3000.0);
    assert!((f64::from(rate(101)) / expected - 1.0).abs() < 1e-6);
    assert!((f64::from(rate(3000)) / bilateral.rate_final - 1.0).abs() < 1e-2);
    // Short presets have their own schedule.
    assert_eq!(Preset::M8.config().appearance.start, 50);
    let told = error_of("[appearance]\nmodel = \"exposure\"\ngrid = [4, 4, 1]");
    assert!(
        told.contains("contradict") && told.contains("hint"),
        "{told}"
    );
    let told = error_of("[appearance]\nmodel = \"bilateral\"\ngrid = [4, 4, 9]");
    assert!(told.contains("1 to 8 along the luminance"), "{told}");
    let told = error_of("[appearance]\nmodel = \"bilateral\"\nrate = 0.0");
    assert!(told.contains("rate_final"), "{told}");
    let told = error_of("[appearance]\nmodel = \"gamma\"");
    assert!(told.contains("gamma"), "{told}");
}

#[test]
fn a_number_of_photos_that_somebody_chose_goes_before_the_captures_own_split() {
    let own = |toml: &str, flags: ConfigPatch| resolve(None, toml, flags).data.own_split;
    let none = ConfigPatch::default;
    assert!(own("", none()));
    // Runs of versions without an own split name the default.
    assert!(own("[data]\neval_every = 8\n", none()));
    assert!(!own("[data]\neval_every = 4\n", none()));
    assert!(!own("[data]\neval_every = 0\n", none()));
    assert!(own("[data]\neval_every = 4\nown_split = true\n", none()));
    let mut flags = none();
    (flags.data.eval_every, flags.data.own_split) = (Some(8), Some(false));
    assert!(!own("[data]\neval_every = 8\nown_split = true\n", flags));
    let printed = resolve(None, "[data]\nown_split = false\n", none());
    let again = TrainConfig::parse(&printed.to_toml().unwrap(), "printed").unwrap();
    assert!(!again.data.own_split && again.load_options().ignore_split);
}
