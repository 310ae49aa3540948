//! Faults of inputs and of the tool: one sentence each, with the remedy.

use crate::support::{Bench, HEIGHT, WIDTH, model, photo, row, sound, wall};
use dapple_base::{ErrorKind, NoProgress};
use dapple_photos::model::{Model, NO_POINT};
use dapple_photos::quality::Kind;
use dapple_photos::{Options, make};

#[test]
fn too_few_photos_are_refused() {
    let Some(bench) = Bench::new() else { return };
    bench.refused(&[
        "there are no photos here",
        "мои фото",
        "give a folder with photos",
    ]);
    bench.add_photos(1);
    bench.refused(&["there is only 1 photo", "at least three", "two thirds"]);
    // Three photos are tried; without any match none has a pose.
    bench.add_photos(3);
    bench.set("pairs.json", "[[\"x\", \"y\", 9]]");
    bench.refused(&[
        "no photo could be placed",
        "shows nothing that another photo shows",
        "shoot photos between",
    ]);
    let report = std::fs::read_to_string(bench.capture().join("report.html")).unwrap();
    assert!(
        report.contains("0 of 3 photos have a pose"),
        "the report has the photos at fault"
    );
}

#[test]
fn a_missing_old_or_foreign_tool_is_refused_with_the_command_that_installs_one() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(4);
    bench.set("version", "3.5");
    bench.refused(&["COLMAP 3.5 cannot be used", "install COLMAP 3.8 or newer"]);
    bench.set("version", "3.8");
    bench.set("mode", "matches_importer");
    bench.refused(&["it has no command matches_importer", "install COLMAP"]);
    let foreign = Options {
        tool: Some("/bin/true".into()),
        ..bench.options()
    };
    let error = make(&foreign, &NoProgress).unwrap_err();
    assert!(
        error.what().contains("neither COLMAP nor a Python"),
        "{error}"
    );
    assert!(!bench.capture().join("sparse").exists());
}

#[test]
fn a_tool_that_crashes_is_quoted_and_the_next_call_continues() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(4);
    bench.add_model(0, &sound(4));
    for command in ["feature_extractor", "matches_importer", "mapper"] {
        bench.set("mode", &format!("crash {command}"));
        let error = bench.refused(&[
            "COLMAP 3.8 failed while",
            "signal 6",
            "Check failed: bitmap.Read(path)",
            "it continues",
        ]);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            std::path::Path::new(error.place().unwrap()).is_file(),
            "the log is named"
        );
    }
    bench.set("mode", "");
    bench.make().unwrap();
    assert_eq!(bench.calls().len(), 6, "{:?}", bench.calls());
}

#[test]
fn a_full_disk_is_named_as_such() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(4);
    bench.set("mode", "full matches_importer");
    let error = bench.refused(&["the disk is full", "free disk space"]);
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn blurred_photos_are_counted_and_are_the_reason_of_a_missing_pose() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(9);
    for index in [2, 5, 8] {
        let blurred = image::imageops::blur(&photo(index, WIDTH, HEIGHT), 2.5);
        blurred
            .save(bench.photos().join(format!("{index}.jpg")))
            .unwrap();
    }
    let mut found = sound(9);
    found
        .images
        .retain(|image| !["2.jpg", "5.jpg", "8.jpg"].contains(&image.name.as_str()));
    bench.add_model(0, &found);
    let done = bench.make().unwrap();
    let notes = done.notes.join("\n");
    assert!(
        notes.contains("3 of 9 photos are blurred: 2.jpg, 5.jpg, 8.jpg"),
        "{notes}"
    );
    let finding = done
        .review
        .findings
        .iter()
        .find(|f| f.kind == Kind::Unregistered)
        .unwrap();
    assert_eq!(finding.photos, ["2.jpg", "5.jpg", "8.jpg"]);
    assert!(
        finding.remedy.contains("shorter exposure"),
        "{}",
        finding.remedy
    );
}

#[test]
fn two_places_in_one_folder_are_named() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(10);
    let place = |index: usize| usize::from(index >= 6);
    let pairs: Vec<String> = (0..10)
        .flat_map(|a| (a + 1..10).map(move |b| (a, b)))
        .filter(|&(a, b)| place(a) == place(b))
        .map(|(a, b)| format!("[\"{a}.jpg\", \"{b}.jpg\", 80]"))
        .collect();
    bench.set("pairs.json", &format!("[{}]", pairs.join(",")));
    bench.add_model(0, &sound(6));
    let done = bench.make().unwrap();
    let finding = &done.review.findings[0];
    assert_eq!(finding.kind, Kind::SeparateParts);
    assert!(
        finding.what.contains("2 places without a connection"),
        "{}",
        finding.what
    );
    assert!(
        finding.remedy.contains("one capture of each"),
        "{}",
        finding.remedy
    );
    assert_eq!(finding.photos.len(), 4);
}

#[test]
fn a_photo_of_another_camera_is_named() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(12);
    bench.add_photo("phone.jpg", 77, 90, 120);
    bench.add_model(0, &sound(12));
    let done = bench.make().unwrap();
    let notes = done.notes.join("\n");
    assert!(
        notes.contains("1 photo of another camera, size or focal length: phone.jpg"),
        "{notes}"
    );
}

#[test]
fn fewer_than_half_of_the_photos_are_refused_unless_accepted() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(9);
    bench.add_model(0, &sound(4));
    bench.refused(&[
        "4 of 9 photos have a pose, fewer than half",
        "report.html",
        "--accept",
    ]);
    assert!(!bench.capture().join("sparse").exists());
    let done = make(
        &Options {
            accept: true,
            ..bench.options()
        },
        &NoProgress,
    )
    .unwrap();
    assert_eq!(done.review.registered, 4);
}

#[test]
fn a_weak_link_and_doubtful_photos_are_named() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(8);
    // Two halves of the wall; 12 points in between connect them.
    let mut points = wall(300, -6.0, 10.0, 5);
    points.extend(wall(300, -6.0, 10.0, 6000));
    points.extend(wall(12, 0.0, 2.0, 12_000));
    let mut found = model(&row(0, 8), &points, |view, point| match point {
        0..300 => view < 4,
        300..600 => view >= 4,
        _ => true,
    });
    for observation in &mut found.images[7].observations {
        observation.0.x += 3.0;
    }
    bench.add_model(0, &found);
    let done = bench.make().unwrap();
    let kinds: Vec<Kind> = done
        .review
        .findings
        .iter()
        .map(|finding| finding.kind)
        .collect();
    assert!(
        kinds.contains(&Kind::WeakLink) && kinds.contains(&Kind::BadPhotos),
        "{:?}",
        done.review.findings
    );
    let bad = done
        .review
        .findings
        .iter()
        .find(|f| f.kind == Kind::BadPhotos)
        .unwrap();
    assert_eq!(bad.photos, ["7.jpg"]);
}

#[test]
fn the_output_is_never_the_input_and_other_files_stay() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(4);
    let inside = Options {
        out: bench.photos().join("capture"),
        ..bench.options()
    };
    std::fs::create_dir_all(&inside.out).unwrap();
    let error = make(&inside, &NoProgress).unwrap_err();
    assert!(error.what().contains("the same folder"), "{error}");
    std::fs::remove_dir_all(&inside.out).unwrap();
    std::fs::create_dir_all(bench.capture()).unwrap();
    std::fs::write(bench.capture().join("thesis.txt"), "mine").unwrap();
    bench.refused(&["holds other files", "--overwrite"]);
    assert!(bench.capture().join("thesis.txt").is_file());
}

#[test]
fn a_pose_without_points_is_none() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(5);
    let mut model = sound(5);
    // As the global mapper leaves photos that fit nowhere: a pose far away, and no points.
    let lost = model.images[4].clone();
    model.images[4].pose.translation *= 50.0;
    for (_, id) in &mut model.images[4].observations {
        *id = NO_POINT;
    }
    for point in &mut model.points {
        point.track.retain(|(image, _)| *image != lost.id);
    }
    bench.add_model(0, &model);
    let done = bench.make().unwrap();
    assert_eq!(done.review.registered, 4);
    let finding = &done.review.findings[0];
    assert_eq!(finding.kind, Kind::Unregistered);
    assert_eq!(finding.photos, std::slice::from_ref(&lost.name));
    let written = Model::read(&bench.capture().join("sparse/0")).unwrap();
    assert!(written.images.iter().all(|image| image.name != lost.name));
}
