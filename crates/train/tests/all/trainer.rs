//! The trainer's control flow, tested with an engine that records its calls.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use crate::fake;

use dapple_device::BoxedEngine;
use dapple_scene::{Dataset, ErrorKind, Lens, Photo, ply};
use dapple_train::{
    Amendment, AppearanceModel, ConfigPatch, Ending, Metrics, Preset, RunFolder, Silent,
    TrainConfig, Trainer, train_into,
};
use fake::{FakeEngine, Listener, Log, capture, fake};
use std::sync::{Arc, Mutex};

#[test]
fn a_run_follows_its_schedule() {
    let log = Arc::default();
    let config = Preset::Micro.config();
    let mut trainer = Trainer::new(&capture(24), config.clone(), fake(&log, 0, 0)).unwrap();
    assert_eq!(
        (trainer.train_view_count(), trainer.eval_views().len()),
        (12, 3)
    );
    let mut listener = Listener::default();
    let outcome = trainer.run(&mut listener).unwrap();
    assert_eq!((outcome.ending, outcome.steps), (Ending::Finished, 100));
    assert_eq!(outcome.eval.as_ref().unwrap().images.len(), 3);
    assert_eq!(listener.evals, [50, 100]);
    assert_eq!((listener.steps.len(), listener.densified), (100, 3));
    let last = listener.steps[99];
    assert_eq!((last.step, last.steps, last.eta_seconds), (100, 100, 0.0));

    let log = log.lock().unwrap();
    assert_eq!(log.views, 12);
    let plans: Vec<u32> = log.plans.iter().map(|plan| plan.step).collect();
    assert_eq!(plans, [25, 50, 75]);
    assert!(log.plans.iter().all(|plan| plan.max_gaussians == 5000));
    let steps: Vec<u32> = log.steps.iter().map(|(_, s)| s.step).collect();
    assert_eq!(steps, (1..=100).collect::<Vec<_>>());
    let mut first_epoch: Vec<usize> = log.steps[..12].iter().map(|(view, _)| *view).collect();
    first_epoch.sort_unstable();
    assert_eq!(first_epoch, (0..12).collect::<Vec<_>>());
    // Before each step the engine learns the three after it, and no step that never comes.
    let coming = |i: usize| log.steps[i + 1..].iter().take(3).map(|(view, _)| *view);
    let announced: Vec<usize> = (0..100).flat_map(coming).collect();
    assert_eq!(log.announced, announced);
}

#[test]
fn a_stopped_run_saves_everything_and_can_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(&folder.path().join("new/run")).unwrap();
    let log = Arc::default();
    let mut trainer = Trainer::new(&capture(48), Preset::Micro.config(), fake(&log, 0, 0)).unwrap();
    let mut listener = Listener {
        stop_after: Some(30),
        ..Listener::default()
    };
    let outcome = train_into(&folder, &mut trainer, &mut listener).unwrap();
    assert_eq!((outcome.ending, outcome.steps), (Ending::Stopped(30), 30));
    assert_eq!(
        ply::read(&folder.splats_path()).unwrap(),
        trainer.splats().unwrap()
    );

    let json = std::fs::read_to_string(folder.metrics_path()).unwrap();
    let metrics: Metrics = serde_json::from_str(&json).unwrap();
    assert_eq!((metrics.steps, metrics.ending), (30, Ending::Stopped(30)));
    // Files of earlier versions have other keys of amendments.
    let mut older: serde_json::Value = serde_json::from_str(&json).unwrap();
    let config = older["config"].as_object_mut().unwrap();
    config.remove("amendments").unwrap();
    config.insert("pace".to_owned(), serde_json::json!([[40, 90]]));
    config.insert("dropout_after".to_owned(), serde_json::json!(0));
    let older: Metrics = serde_json::from_value(older).unwrap();
    let amendments = vec![Amendment::step_rate(40, 90)].into();
    assert_eq!(older.config.amendments, amendments);
    let psnr = outcome.eval.unwrap().psnr;
    assert!((metrics.psnr.unwrap() - psnr).abs() < 1e-9);
    let logged: Vec<u32> = metrics.losses.iter().map(|row| row.step).collect();
    assert_eq!(logged, [1, 10, 20, 30]);
    let csv = std::fs::read_to_string(folder.csv_path()).unwrap();
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(
        rows[0],
        "step,loss,gaussians,steps_per_second,psnr,ssim,cloned,split,pruned,relocated,added,lpips"
    );
    assert_eq!(rows.len(), 5);
    assert!(
        rows.iter().all(|row| row.matches(',').count() == 11),
        "{csv}"
    );
    assert!(
        rows[4].starts_with("30,") && !rows[4].contains(",,"),
        "{csv}"
    );

    let mut renders: Vec<String> = std::fs::read_dir(folder.renders_path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    renders.sort();
    assert_eq!(renders, ["cam_00.png", "cam_16.png", "cam_32.png"]);
    let render = image::open(folder.renders_path().join(&renders[0])).unwrap();
    assert_eq!((render.width(), render.height()), (32, 12));
    let render = render.into_rgb8();
    assert_eq!(render.get_pixel(15, 0).0, [100; 3], "the photo on the left");
    assert_eq!(
        render.get_pixel(16, 0).0,
        [128; 3],
        "the render on the right"
    );
    let config = TrainConfig::resolve(None, Some(&folder.config_path()), ConfigPatch::default());
    assert_eq!(&config.unwrap(), trainer.config());

    listener.stop_after = None;
    assert_eq!(trainer.run(&mut listener).unwrap().ending, Ending::Finished);
    assert_eq!(trainer.steps_done(), 100);
}

/// A run that learns appearance also reports the scores of its renders after a colour fit.
#[test]
fn fitted_scores_come_with_appearances_alone() {
    let eval = |model| {
        let mut config = Preset::M8Smoke.config();
        config.appearance.model = model;
        config.appearance.grid = [1; 3];
        let mut trainer = Trainer::new(&capture(24), config, fake(&Arc::default(), 0, 0)).unwrap();
        trainer.run(&mut Silent).unwrap().eval.unwrap()
    };
    let plain = eval(AppearanceModel::None);
    assert_eq!((plain.cc_psnr, plain.images[0].cc_psnr), (None, None));
    // All photos are alike, so the mean is each one's.
    assert!((plain.psnr - plain.images[1].psnr).abs() < 1e-9);
    assert!((plain.ssim - plain.images[1].ssim).abs() < 1e-9);
    // The capture's grey is one map away from the fake's.
    let fitted = eval(AppearanceModel::Exposure);
    assert_eq!(fitted.psnr, plain.psnr);
    assert!(fitted.psnr < 30.0 && fitted.cc_psnr.unwrap() > 60.0);
    assert!(fitted.images.iter().all(|image| image.cc_ssim.is_some()));
}

#[test]
fn a_loss_that_is_not_finite_ends_the_run_after_saving() {
    let folder = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(folder.path()).unwrap();
    let log = Arc::default();
    let mut trainer =
        Trainer::new(&capture(8), Preset::M8Smoke.config(), fake(&log, 7, 0)).unwrap();
    let error = train_into(&folder, &mut trainer, &mut Listener::default()).unwrap_err();
    assert!(error.to_string().contains("step 7"), "{error}");
    assert!(error.hint_text().is_some());
    assert_eq!(log.lock().unwrap().steps.len(), 7);
    // The splats are those from before the step, all of them.
    assert!(error.what().contains("the splats after step 0"), "{error}");
    assert_eq!(ply::read(&folder.splats_path()).unwrap().len(), 20);
    let metrics = metrics(&folder);
    assert_eq!(
        (metrics.ending, metrics.steps),
        (Ending::NonFiniteLoss(7), 0)
    );
    assert!(metrics.failure.is_some());
}

#[test]
fn gaussians_that_are_not_finite_end_a_run_whose_loss_tells_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(folder.path()).unwrap();
    let log: Arc<Mutex<Log>> = Arc::default();
    let engine = FakeEngine {
        log: log.clone(),
        broken_from: 120,
        ..FakeEngine::default()
    };
    let mut config = Preset::M9.config_for(300);
    config.eval.every = 90;
    config.learning_rates.scales = 1.0;
    let mut trainer = Trainer::new(&capture(8), config, BoxedEngine::host(engine)).unwrap();
    let error = train_into(&folder, &mut trainer, &mut Listener::default()).unwrap_err();
    // Detected within a hundred steps; the error names the tensor and the suspect setting.
    assert_eq!(error.kind(), ErrorKind::Input);
    for words in [
        "the scales of 20 Gaussians",
        "by step 150",
        "the splats after step 90 are saved",
        "the 60 steps after it are lost",
        "learning_rates.scales = 1 is furthest from its default",
    ] {
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
    assert_eq!(log.lock().unwrap().steps.len(), 150);
    // The copy of the last scoring before it.
    let splats = ply::read(&folder.splats_path()).unwrap();
    assert_eq!((splats.len(), splats.opacities[0]), (20, 90.0));
    assert!(splats.scales.iter().flatten().all(|v| v.is_finite()));
    let metrics = metrics(&folder);
    assert_eq!(
        (metrics.ending, metrics.steps),
        (Ending::NonFinite(150), 90)
    );
    assert!(metrics.failure.is_some_and(|text| text.contains("scales")));
}

#[test]
fn a_run_whose_last_steps_break_it_does_not_end_well() {
    // No report shows them: the copy at the end does.
    let folder = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(folder.path()).unwrap();
    let engine = FakeEngine {
        broken_from: 65,
        ..FakeEngine::default()
    };
    let mut config = Preset::M9.config_for(70);
    config.eval.every = 0;
    let mut trainer = Trainer::new(&capture(8), config, BoxedEngine::host(engine)).unwrap();
    let error = train_into(&folder, &mut trainer, &mut Listener::default()).unwrap_err();
    assert!(error.what().contains("by step 70"), "{error}");
    assert_eq!(metrics(&folder).ending, Ending::NonFinite(70));
    let splats = ply::read(&folder.splats_path()).unwrap();
    assert!(splats.scales.iter().flatten().all(|v| v.is_finite()));
}

fn metrics(folder: &RunFolder) -> Metrics {
    let json = std::fs::read(folder.metrics_path()).unwrap();
    serde_json::from_slice(&json).unwrap()
}

#[test]
fn a_render_that_cannot_be_written_does_not_cost_the_splats() {
    let folder = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(folder.path()).unwrap();
    std::fs::write(folder.renders_path(), "in the way").unwrap();
    let mut trainer = Trainer::new(
        &capture(24),
        Preset::M8Smoke.config(),
        fake(&Arc::default(), 0, 0),
    )
    .unwrap();
    let error = train_into(&folder, &mut trainer, &mut Silent).unwrap_err();
    assert!(error.place().unwrap().contains("renders"), "{error}");
    assert_eq!(ply::read(&folder.splats_path()).unwrap().len(), 20);
    assert!(folder.metrics_path().exists());
}

#[test]
fn a_run_without_gaussians_ends_with_a_reason() {
    let log = Arc::default();
    let mut trainer =
        Trainer::new(&capture(24), Preset::Micro.config(), fake(&log, 0, 50)).unwrap();
    let outcome = trainer.run(&mut Listener::default()).unwrap();
    assert_eq!(outcome.ending, Ending::NoGaussians(50));
    assert_eq!(
        (outcome.steps, outcome.gaussians, outcome.eval),
        (50, 0, None)
    );
    let mut again = Trainer::new(&capture(24), Preset::Micro.config(), fake(&log, 3, 0)).unwrap();
    again.step().unwrap();
    again.step().unwrap();
    assert!(again.step().is_err(), "step by step, a bad end is an error");
}

#[test]
fn captures_that_cannot_be_trained_on_are_refused() {
    let refused = |dataset: &Dataset| {
        let engine = fake(&Arc::default(), 0, 0);
        match Trainer::new(dataset, Preset::Micro.config(), engine) {
            Ok(_) => panic!("accepted"),
            Err(error) => error.to_string(),
        }
    };
    assert!(refused(&capture(0)).contains("no photos"));
    assert!(refused(&capture(1)).contains("single photo"));
    let mut distorted = capture(4);
    distorted.views[1].camera.lens = Lens::Radial([-1e9, 0.0]);
    assert!(refused(&distorted).contains("cam/01.jpg"));
    let mut resized = capture(4);
    resized.views[2].camera.width = 17;
    assert!(refused(&resized).contains("16x12"));
    let mut broken = capture(4);
    broken.views[3].camera.camera_from_world.translation.x = f64::NAN;
    assert!(refused(&broken).contains("cam/03.jpg"));
}

#[test]
fn an_unwritable_folder_is_found_before_training() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = RunFolder::create(&path).unwrap_err();
        assert!(error.place().unwrap().contains("file"), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn photos_that_are_watched_are_not_trained_on_and_choose_the_splats() {
    let run = |shown: &[(u32, f32)]| {
        let log: Arc<Mutex<Log>> = Arc::default();
        let engine = FakeEngine {
            log: log.clone(),
            shown: shown.to_vec(),
            ..FakeEngine::default()
        };
        let mut config = Preset::M9.config();
        config.data.validate_every = 16;
        let mut trainer = Trainer::new(&capture(48), config, BoxedEngine::host(engine)).unwrap();
        // 42 that are not held out, 3 of them withheld.
        assert_eq!(
            (trainer.train_view_count(), trainer.eval_views().len()),
            (39, 6)
        );
        trainer.run(&mut Silent).unwrap();
        let report = trainer.watch_report().unwrap();
        assert_eq!((report.photos, report.rows.len()), (3, 20));
        // Flat images: SSIM is its luminance term.
        let (photo, shown) = (100.0 / 255.0, 0.5);
        let ssim = (2.0 * photo * shown + 1e-4) / (photo * photo + shown * shown + 1e-4);
        let expected = 0.8 * (shown - photo) + 0.2 * (1.0 - ssim);
        assert!((report.rows[0].loss - expected).abs() < 1e-6, "{report:?}");
        (report.kept_step, trainer.splats().unwrap().opacities[0])
    };
    // Validations every 50 steps; the opacity of the fake's first Gaussian is the step that made it.
    assert_eq!(run(&[]), (None, 1000.0));
    assert_eq!(run(&[(620, 0.9)]), (Some(50), 50.0));
}

/// After a change of pace, validations go by places of the schedule, as in the same run with constant pace; the last is
/// after the last step.
#[test]
fn looks_follow_the_schedule_when_the_pace_changes() {
    let mut config = Preset::M9.config_for(1010);
    config.data.validate_every = 16;
    config.amendments = vec![Amendment::step_rate(100, 300)].into();
    let mut trainer = Trainer::new(&capture(48), config, fake(&Arc::default(), 0, 0)).unwrap();
    trainer.run(&mut Silent).unwrap();
    let rows = trainer.watch_report().unwrap().rows;
    let steps: Vec<u32> = rows.iter().map(|row| row.step).collect();
    assert_eq!((steps[0], steps[1], steps.last()), (50, 100, Some(&300)));
    // At places 50, 100, ... 1000, and at the end.
    assert_eq!(steps.len(), 21, "{steps:?}");
}

#[test]
fn a_run_that_goes_on_remembers_the_best_splats() {
    let engine = || {
        BoxedEngine::host(FakeEngine {
            shown: vec![(320, 0.9)],
            ..FakeEngine::default()
        })
    };
    let mut config = Preset::M9.config();
    config.data.validate_every = 16;
    let mut trainer = Trainer::new(&capture(48), config, engine()).unwrap();
    trainer.stop_at(Some(500));
    trainer.run(&mut Silent).unwrap();
    let checkpoint = trainer.checkpoint().unwrap();
    assert_eq!(checkpoint.watched.len(), 10);
    let mut trainer = Trainer::resume(&capture(48), checkpoint, engine()).unwrap();
    trainer.run(&mut Silent).unwrap();
    let report = trainer.watch_report().unwrap();
    assert_eq!((report.kept_step, report.rows.len()), (Some(50), 20));
    assert_eq!(trainer.splats().unwrap().opacities[0], 50.0);
}

/// If the folder of a run is removed, the run's results must not be mixed with those of the next run.
#[test]
fn a_run_whose_folder_was_taken_away_makes_it_anew_or_leaves_it_to_another() {
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("run");
    let run = |folder: &RunFolder| {
        let engine = fake(&Arc::default(), 0, 0);
        let mut trainer = Trainer::new(&capture(24), Preset::M8Smoke.config(), engine).unwrap();
        train_into(folder, &mut trainer, &mut Silent)
    };
    let first = RunFolder::create(&path).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let second = RunFolder::create(&path).unwrap();
    assert!(run(&first).unwrap_err().what().contains("another process"));
    assert!(!first.config_path().exists() && !first.splats_path().exists());
    drop(second);
    std::fs::remove_dir_all(&path).unwrap();
    run(&first).unwrap();
    assert!(first.splats_path().exists() && first.config_path().exists());
    RunFolder::create(&path).unwrap_err();
}

/// The first steps take other views of the engine's: the same photos at half the size, in the same order.
#[test]
fn the_first_steps_take_photos_of_half_the_size() {
    let mut capture = capture(9);
    for view in &mut capture.views {
        view.camera = view.camera.resized(300, 260);
        view.photo = Photo::from_rgb(300, 260, vec![100; 300 * 260 * 3]).into();
    }
    let views_of = |coarse_until: f64, capture: &Dataset| {
        let log = Arc::new(Mutex::new(Log::default()));
        let mut config = Preset::M8Smoke.config_for(20);
        config.data.coarse_until = coarse_until;
        let mut trainer = Trainer::new(capture, config, fake(&log, 0, 0)).unwrap();
        trainer.run(&mut Silent).unwrap();
        let log = log.lock().unwrap();
        let steps: Vec<usize> = log.steps.iter().map(|(view, _)| *view).collect();
        (steps, log.views)
    };
    let (whole, held) = views_of(0.0, &capture);
    // One of nine is held out, and one more of eight after it.
    assert_eq!(held, 7);
    let (steps, held) = views_of(0.4, &capture);
    assert_eq!(held, 14);
    let expected: Vec<usize> = (0..20)
        .map(|i| if i < 8 { whole[i] + 7 } else { whole[i] })
        .collect();
    assert_eq!(steps, expected);
    // Half of 250 is too small.
    capture.views[3].camera = capture.views[3].camera.resized(300, 250);
    capture.views[3].photo = Photo::from_rgb(300, 250, vec![100; 300 * 250 * 3]).into();
    assert_eq!(views_of(0.4, &capture), (whole, 7));
}
