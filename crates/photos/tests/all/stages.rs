//! The whole path with a stub of the tool: files of a capture, resumption, cameras, masks, versions of COLMAP.

use crate::support::{Bench, HEIGHT, WIDTH, executable, model, photo, row, sound, wall};
use dapple_base::{ErrorKind, NoProgress, Progress};
use dapple_photos::database::Database;
use dapple_photos::model::Model;
use dapple_photos::{Choice, Mapper, Options, Snapshot, make, make_watched};
use dapple_scene::colmap::MODELS;
use dapple_scene::{LoadOptions, load};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_folder_becomes_a_capture_that_loads_and_a_second_call_runs_no_tool() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(6);
    bench.add_model(0, &sound(6));
    let done = bench.make().unwrap();
    assert_eq!((done.review.registered, done.review.photos), (6, 6));
    assert!(
        done.review.findings.is_empty(),
        "{:?}",
        done.review.findings
    );
    assert!(done.review.error < 1e-6 && !done.review.refine_poses);
    assert_eq!(done.tool, "COLMAP 3.8");
    let loaded = load(&bench.capture(), &LoadOptions::default(), &NoProgress).unwrap();
    assert_eq!(loaded.views.len(), 6);
    let report = std::fs::read_to_string(&done.report).unwrap();
    assert!(report.contains("6 of 6 photos have a pose") && !report.contains("/*DATA*/"));
    assert!(bench.capture().join("photos.json").is_file());
    let calls = bench.calls();
    assert_eq!(calls, ["feature_extractor", "matches_importer", "mapper"]);
    let bytes = |name: &str| std::fs::read(bench.capture().join(name)).unwrap();
    let before = (bytes("sparse/0/images.bin"), bytes("report.html"));
    bench.make().unwrap();
    assert_eq!(bench.calls(), calls);
    assert_eq!(before, (bytes("sparse/0/images.bin"), bytes("report.html")));
    // Another setting repeats the stages that it affects.
    make(
        &Options {
            seed: 3,
            ..bench.options()
        },
        &NoProgress,
    )
    .unwrap();
    assert_eq!(bench.calls()[3..], ["matches_importer", "mapper"]);
    // A changed photo repeats all.
    photo(99, WIDTH, HEIGHT)
        .save(bench.photos().join("2.jpg"))
        .unwrap();
    bench.make().unwrap();
    assert_eq!(bench.calls().len(), 8);
}

/// Stops the work when the stub has printed progress.
struct Stop(AtomicBool);

impl Progress for Stop {
    fn start(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn finish(&self) {}
    fn should_stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_stopped_call_kills_the_tool_and_the_next_one_continues() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(6);
    bench.add_model(0, &sound(6));
    bench.set("mode", "slow mapper");
    let stop = Stop(AtomicBool::new(false));
    let start = Instant::now();
    let error = std::thread::scope(|scope| {
        let work = scope.spawn(|| make(&bench.options(), &stop));
        while !bench.calls().contains(&"mapper".to_owned())
            && start.elapsed() < Duration::from_secs(40)
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.0.store(true, Ordering::Relaxed);
        work.join().unwrap().unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(
        start.elapsed() < Duration::from_secs(50),
        "the tool was not killed"
    );
    bench.set("mode", "");
    bench.make().unwrap();
    assert_eq!(
        bench.calls(),
        ["feature_extractor", "matches_importer", "mapper", "mapper"]
    );
}

#[test]
fn every_folder_size_and_format_gets_its_camera_and_masks_are_passed_on() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(5);
    bench.add_photo("left cam/1.png", 51, WIDTH, HEIGHT);
    bench.add_photo("left cam/2.webp", 52, WIDTH, HEIGHT);
    bench.add_photo("other.bmp", 53, 200, 100);
    photo(0, 80, 60)
        .save(bench.photos().join("3_mask.png"))
        .unwrap();
    std::fs::copy(
        bench.photos().join("1.jpg"),
        bench.photos().join("again.jpg"),
    )
    .unwrap();
    std::fs::write(
        bench.photos().join("damaged.jpg"),
        b"\xff\xd8\xff\xe0 nothing",
    )
    .unwrap();
    bench.add_model(0, &sound(5));
    let done = bench.make().unwrap();
    let images = bench.capture().join("images");
    for name in ["left_cam/1.png", "left_cam/2.png", "other.png", "0.jpg"] {
        assert!(images.join(name).is_file(), "{name}");
    }
    assert!(!images.join("again.jpg").exists());
    let mask = image::open(bench.capture().join("masks/3.jpg.png")).unwrap();
    assert_eq!((mask.width(), mask.height()), (WIDTH, HEIGHT));
    let extractions = bench
        .calls()
        .iter()
        .filter(|call| *call == "feature_extractor")
        .count();
    assert_eq!(extractions, 3);
    let notes = done.notes.join("\n");
    for words in [
        "masks of 1 of",
        "another photo is skipped: again.jpg",
        "first damaged.jpg",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    let finding = &done.review.findings[0];
    assert!(
        finding.what.contains("3 photos without a pose"),
        "{}",
        finding.what
    );
}

#[test]
fn options_are_those_of_the_installed_version() {
    for version in ["3.8", "3.9.1", "3.11.1", "3.12.0", "4.0.2"] {
        let Some(bench) = Bench::new() else { return };
        bench.add_photos(4);
        bench.add_model(0, &sound(4));
        bench.set("version", version);
        // The stub refuses options of other versions.
        let done = bench.make().unwrap();
        assert_eq!(done.tool, format!("COLMAP {version}"));
    }
}

#[test]
fn the_global_mapper_is_tried_when_the_incremental_one_places_too_few() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(6);
    bench.add_model(0, &sound(4));
    bench.set("version", "4.0.2");
    let done = bench.make().unwrap();
    assert_eq!(bench.calls()[2..], ["mapper", "global_mapper"]);
    assert_eq!(done.review.registered, 4);
}

#[test]
fn the_largest_of_several_models_is_used_and_the_others_are_named() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(9);
    bench.add_model(
        0,
        &model(&row(6, 3), &wall(300, -6.0, 10.0, 2), |_, _| true),
    );
    bench.add_model(1, &sound(6));
    let done = bench.make().unwrap();
    assert_eq!(done.review.registered, 6);
    let finding = &done.review.findings[0];
    assert!(finding.what.contains("2 models"), "{}", finding.what);
    assert_eq!(finding.photos, ["6.jpg", "7.jpg", "8.jpg"]);
}

#[test]
fn a_video_gives_its_sharp_and_different_frames() {
    let Some(bench) = Bench::new() else { return };
    // ffmpeg's stub copies prepared frames.
    let frames = bench.root.path().join("frames");
    std::fs::create_dir_all(&frames).unwrap();
    for index in 0..15u32 {
        photo(index, WIDTH, HEIGHT)
            .save(frames.join(format!("{:06}.jpg", index + 1)))
            .unwrap();
    }
    let ffmpeg = bench.root.path().join("ffmpeg");
    let script = "#!/bin/sh\n[ \"$1\" = -version ] && { echo 'ffmpeg version 7.1 Copyright'; exit; }\n\
        [ \"$2\" = -i ] && { echo '  Duration: 00:00:02.50, start: 0' >&2; exit 1; }\n\
        for last; do :; done\ncp FRAMES/*.jpg \"$(dirname \"$last\")\"\necho frame=15\n";
    executable(
        &ffmpeg,
        &script.replace("FRAMES", &frames.display().to_string()),
    );
    let video = bench.root.path().join("по саду.mp4");
    std::fs::write(&video, "video").unwrap();
    let options = |video| Options {
        inputs: vec![video],
        ffmpeg: ffmpeg.clone(),
        ..bench.options()
    };
    let names: Vec<String> = {
        let error = make(&options(video.clone()), &NoProgress).unwrap_err();
        assert!(error.what().contains("no photo could be placed"), "{error}");
        let mut names: Vec<String> = std::fs::read_dir(bench.capture().join("images/по_саду"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names.len(), 5, "{names:?}");
    // All frames are equal: no motion.
    for index in 1..15u32 {
        photo(0, WIDTH, HEIGHT)
            .save(frames.join(format!("{:06}.jpg", index + 1)))
            .unwrap();
    }
    let still = bench.root.path().join("still.mp4");
    std::fs::write(&still, "still").unwrap();
    let error = make(&options(still), &NoProgress).unwrap_err();
    assert!(
        error.what().contains("no motion: 4 of 5 frames are alike"),
        "{error}"
    );
    assert!(error.hint_text().unwrap().contains("walk around"));
    let missing = Options {
        ffmpeg: bench.root.path().join("none"),
        ..options(video)
    };
    std::fs::remove_dir_all(bench.capture()).unwrap();
    let error = make(&missing, &NoProgress).unwrap_err();
    assert!(error.to_string().contains("install ffmpeg"), "{error}");
}

#[test]
fn many_photos_of_a_camera_refine_its_lens_and_a_failure_of_that_is_none() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(20);
    let mut found = sound(20);
    found.cameras[0].model = MODELS
        .iter()
        .find(|model| model.name == "SIMPLE_RADIAL")
        .unwrap();
    found.cameras[0].parameters.push(0.0);
    bench.add_model(0, &found);
    let lens = || {
        Model::read(&bench.capture().join("sparse/0"))
            .unwrap()
            .cameras[0]
            .model
            .name
    };
    bench.make().unwrap();
    assert_eq!(bench.calls()[3..], ["bundle_adjuster"]);
    assert_eq!(lens(), "OPENCV");
    bench.set("mode", "no refinement");
    make(
        &Options {
            seed: 1,
            ..bench.options()
        },
        &NoProgress,
    )
    .unwrap();
    assert_eq!(lens(), "SIMPLE_RADIAL");
}

#[test]
fn a_damaged_database_is_an_error_and_no_panic() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(4);
    bench.add_model(0, &sound(4));
    bench.make().unwrap();
    let path = bench.capture().join("photos-work/database.db");
    let whole = Database::read(&path).unwrap();
    assert_eq!((whole.features.len(), whole.pairs.len()), (4, 6));
    assert!(whole.pairs.iter().all(|pair| pair.inliers == 100));
    let bytes = std::fs::read(&path).unwrap();
    let copy = bench.root.path().join("copy.db");
    for step in 0..300 {
        let mut damaged = bytes.clone();
        match step % 3 {
            0 => damaged.truncate(bytes.len() * step / 300),
            // The headers of pages and cells are at their starts.
            1 => damaged[step % (bytes.len() / 4096) * 4096 + step % 40] ^= 1 << (step % 8),
            _ => damaged[(step * 7919) % bytes.len()] ^= 0xff,
        }
        std::fs::write(&copy, damaged).unwrap();
        let _ = Database::read(&copy);
    }
}

#[test]
fn more_than_150_photos_get_the_pairs_of_a_coarse_match() {
    let Some(bench) = Bench::new() else { return };
    for index in 0..152 {
        bench.add_photo(&format!("{index}.jpg"), index, 48, 36);
    }
    // Each photo matches its neighbours only.
    let near = |a: usize| (a + 1..152.min(a + 6)).map(move |b| (a, b));
    let pairs: Vec<String> = (0..152)
        .flat_map(near)
        .flat_map(|(a, b)| [(a, b), (b, a)])
        .map(|(a, b)| format!("[\"{a}.jpg\", \"{b}.jpg\", 60]"))
        .collect();
    bench.set("pairs.json", &format!("[{}]", pairs.join(",")));
    bench.set("version", "4.0.2");
    bench.add_model(
        0,
        &model(&row(0, 152), &wall(3000, -6.0, 70.0, 1), |_, _| true),
    );
    let done = bench.make().unwrap();
    assert_eq!((done.pairs, done.mapper), (Choice::Coarse, Mapper::Global));
    assert_eq!(done.review.registered, 152);
    let calls = bench.calls();
    let wanted = [
        "feature_extractor",
        "feature_extractor",
        "matches_importer",
        "matches_importer",
        "global_mapper",
    ];
    assert_eq!(calls[..5], wanted);
    let lines = |name: &str| {
        let path = bench.capture().join("photos-work").join(name);
        std::fs::read_to_string(path).unwrap().lines().count()
    };
    assert_eq!(lines("coarse/pairs.txt"), 152 * 151 / 2);
    assert_eq!(lines("pairs.txt"), 5 * 152 - 15);
}

#[test]
fn poses_are_passed_on_while_they_come_and_change_no_byte() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(6);
    bench.add_model(0, &sound(6));
    let bytes = || {
        let model = bench.capture().join("sparse/0");
        ["cameras.bin", "images.bin", "points3D.bin"].map(|n| std::fs::read(model.join(n)).unwrap())
    };
    bench.make().unwrap();
    let unwatched = bytes();
    std::fs::remove_dir_all(bench.capture()).unwrap();
    let seen = Mutex::new(Vec::new());
    let watch = |snapshot: Snapshot| seen.lock().unwrap().push(snapshot);
    make_watched(&bench.options(), &NoProgress, Some(&watch)).unwrap();
    let seen = seen.into_inner().unwrap();
    assert_eq!(
        seen.iter().map(|s| s.is_final).collect::<Vec<_>>(),
        [false, false, true]
    );
    for snapshot in &seen {
        assert_eq!(snapshot.cameras.len(), 6);
        assert_eq!(snapshot.points.len(), seen[0].points.len());
        assert!(!snapshot.points.is_empty());
    }
    let left = bench.capture().join("photos-work/snapshots");
    assert!(!left.exists(), "snapshots are removed");
    assert!(bytes() == unwatched);
}

#[test]
fn a_thorough_search_follows_one_that_leaves_photos_without_a_pose() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(6);
    bench.add_model(0, &sound(4));
    let whole = bench.root.path().join("tool/thorough-model0");
    sound(6).write(&whole).unwrap();
    assert_eq!(bench.make().unwrap().review.registered, 4);
    // A version with the options of a thorough search.
    bench.set("thorough", "yes");
    let calls = bench.calls().len();
    let done = bench.make().unwrap();
    assert_eq!(done.review.registered, 6);
    assert_eq!(
        bench.calls()[calls..],
        ["feature_extractor", "matches_importer", "mapper"]
    );
    // All stages are finished now.
    let calls = bench.calls().len();
    assert_eq!(bench.make().unwrap().review.registered, 6);
    assert_eq!(bench.calls().len(), calls);
    // A thorough search that finds less changes nothing.
    std::fs::remove_dir_all(bench.capture()).unwrap();
    sound(3).write(&whole).unwrap();
    assert_eq!(bench.make().unwrap().review.registered, 4);
    // Every photo has a pose: no second search.
    std::fs::remove_dir_all(bench.capture()).unwrap();
    bench.add_model(0, &sound(6));
    let calls = bench.calls().len();
    bench.make().unwrap();
    assert_eq!(bench.calls().len(), calls + 3);
}
