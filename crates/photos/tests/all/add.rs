//! Photos that are added to a capture, with a stub of the tool and with the real pycolmap.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use crate::real::photos_and_tool;
use crate::support::{Bench, HEIGHT, WIDTH, named, photo, sound};
use dapple_base::{ErrorKind, NoProgress, Progress};
use dapple_photos::model::{Image, Model, NO_POINT};
use dapple_photos::{Added, Base, Options, add, default_out};
use dapple_scene::{LoadOptions, Pose, load};
use glam::DVec3;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// A capture of photos `0.jpg` to `5.jpg`, and new photos `6.jpg` and `7.jpg` that the stub places.
struct AddBench {
    bench: Bench,
    old: Model,
}

impl AddBench {
    fn new() -> Option<Self> {
        let bench = Bench::new()?;
        let mut old = sound(6);
        // Numbers of other programs: a quaternion that is not quite of length one.
        old.images[2].pose.rotation *= 1.000_000_3;
        let made = Self { bench, old };
        for index in 0..8 {
            let to = match index {
                0..6 => made.base().join("images"),
                _ => made.bench.photos(),
            };
            std::fs::create_dir_all(&to).unwrap();
            let picture = photo(index, WIDTH, HEIGHT);
            picture.save(to.join(format!("{index}.jpg"))).unwrap();
        }
        made.old.write(&made.base().join("sparse/0")).unwrap();
        made.place(&sound(8));
        Some(made)
    }

    fn base(&self) -> PathBuf {
        self.bench.root.path().join("старое/capture")
    }

    /// Writes the model that the stub finds. Its old poses are moved, as the tool's rounding does.
    fn place(&self, model: &Model) {
        let mut model = model.clone();
        for image in &mut model.images {
            image.pose.translation += DVec3::splat(1e-3);
        }
        let to = self.bench.root.path().join("tool/added");
        model.write(&to).unwrap();
    }

    fn options(&self) -> Options {
        self.bench.options()
    }

    fn add(&self) -> dapple_base::Result<Added> {
        add(
            &self.options(),
            &Base::open(&self.base(), None)?,
            &NoProgress,
        )
    }

    #[track_caller]
    fn refused(&self, options: &Options, words: &[&str]) {
        let base = Base::open(&self.base(), None);
        let error = base
            .and_then(|base| add(options, &base, &NoProgress))
            .unwrap_err();
        named(&error, words);
    }
}

/// Returns the bytes of all files below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => drop(found.insert(path.clone(), std::fs::read(path).unwrap())),
            }
        }
    }
    found
}

fn by_name(model: &Model) -> HashMap<&str, &Image> {
    let images = model.images.iter();
    images.map(|image| (image.name.as_str(), image)).collect()
}

/// Fails unless photos, cameras and points of `old` are in `now` with the same bits, and every track has its
/// observations.
fn assert_kept(old: &Model, now: &Model) {
    let images = by_name(now);
    for image in &old.images {
        let kept = images[image.name.as_str()];
        assert_eq!((kept.id, kept.camera), (image.id, image.camera));
        let bits = |pose: Pose| {
            let (q, t) = (pose.rotation.to_array(), pose.translation.to_array());
            q.iter().chain(&t).map(|n| n.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(kept.pose), bits(image.pose), "{}", image.name);
        let before = image.observations.len();
        assert_eq!(kept.observations[..before], image.observations[..]);
    }
    assert_eq!(now.cameras[..old.cameras.len()], old.cameras[..]);
    assert_eq!(now.points[..old.points.len()], old.points[..]);
    let by_id: HashMap<u32, &Image> = now.images.iter().map(|image| (image.id, image)).collect();
    assert_eq!(by_id.len(), now.images.len());
    let added = &now.points[old.points.len()..];
    for point in added {
        for (image, feature) in &point.track {
            assert_eq!(by_id[image].observations[*feature as usize].1, point.id);
        }
    }
    let known: HashSet<u64> = now.points.iter().map(|point| point.id).collect();
    assert_eq!(known.len(), now.points.len());
    let observed = now.images.iter().flat_map(|image| &image.observations);
    assert!(
        observed
            .clone()
            .all(|(_, id)| *id == NO_POINT || known.contains(id))
    );
}

#[test]
fn new_photos_get_poses_in_the_model_of_the_capture_and_nothing_of_it_changes() {
    let Some(bench) = AddBench::new() else { return };
    let before = files(&bench.base());
    let added = bench.add().unwrap();
    assert_eq!((added.placed, added.photos, added.old_photos), (2, 2, 6));
    assert!(
        added.notes.is_empty() && added.findings.is_empty(),
        "{:?} {:?}",
        added.notes,
        added.findings
    );
    assert_eq!(before, files(&bench.base()), "the old capture has changed");
    let out = bench.bench.capture();
    let now = Model::read_exact(&out.join("sparse/0")).unwrap();
    assert_eq!(now.images.len(), 8);
    assert_kept(&bench.old, &now);
    assert!(
        added.new_points > 100 && now.points.len() == bench.old.points.len() + added.new_points
    );
    // The pose that the tool found, and the camera of the old photos.
    let placed = by_name(&now)["7.jpg"];
    let truth = sound(8).images[7].pose.translation + DVec3::splat(1e-3);
    assert_eq!((placed.camera, placed.pose.translation), (1, truth));
    for (name, bytes) in &before {
        if let Ok(name) = name.strip_prefix(bench.base().join("images")) {
            assert!(std::fs::read(out.join("images").join(name)).unwrap() == *bytes);
        }
    }
    let loaded = load(&out, &LoadOptions::default(), &NoProgress).unwrap();
    assert_eq!(loaded.views.len(), 8);
    let report = std::fs::read_to_string(&added.report).unwrap();
    assert!(report.contains("8 of 8 photos have a pose"));
    // A second call runs no tool.
    let calls = [
        "feature_extractor",
        "matches_importer",
        "point_triangulator",
        "mapper",
    ];
    assert_eq!(bench.bench.calls(), calls);
    let all = files(&out);
    bench.add().unwrap();
    assert_eq!(bench.bench.calls(), calls);
    assert!(all == files(&out), "the second call changed a file");
}

#[test]
fn the_tool_gets_the_known_intrinsics_and_keeps_the_poses() {
    for (version, option) in [("3.11", "images"), ("4.1", "frames")] {
        let Some(bench) = AddBench::new() else { return };
        bench.bench.set("version", version);
        // Of another camera, for which focal lengths are searched.
        let is_mixed = version == "4.1";
        if is_mixed {
            bench.bench.add_photo("8.jpg", 8, 80, 60);
        }
        bench.add().unwrap();
        let arguments = bench.bench.root.path().join("tool/arguments");
        let text = std::fs::read_to_string(arguments).unwrap();
        let call = |command: &str| text.lines().find(|line| line.starts_with(command)).unwrap();
        let camera = call("feature_extractor");
        assert!(
            camera.contains(r#"camera_params": "150,80,60""#),
            "{camera}"
        );
        assert!(camera.contains("SIMPLE_PINHOLE"), "{camera}");
        assert_eq!(text.contains("SIMPLE_RADIAL"), is_mixed);
        let mapper = call("mapper");
        assert!(
            mapper.contains(&format!(r#"fix_existing_{option}": "1""#)),
            "{mapper}"
        );
        assert_eq!(
            mapper.contains(r#"ba_refine_focal_length": "0""#),
            !is_mixed,
            "{mapper}"
        );
    }
    let Some(bench) = AddBench::new() else { return };
    bench.bench.set("mode", "moves poses");
    bench.refused(
        &bench.options(),
        &["COLMAP 3.8 cannot add photos", "fix_existing"],
    );
}

#[test]
fn photos_of_the_capture_are_skipped_equal_names_are_changed_and_reasons_are_named() {
    let Some(bench) = AddBench::new() else { return };
    let new = bench.bench.photos();
    std::fs::copy(bench.base().join("images/2.jpg"), new.join("2.jpg")).unwrap();
    bench.bench.add_photo("3.jpg", 33, WIDTH, HEIGHT);
    // Ids of the database: old photos first, then the new ones by name.
    let mut model = sound(8);
    let shifted = |id: u32| if id > 6 { id + 1 } else { id };
    for image in &mut model.images {
        image.id = shifted(image.id);
    }
    for point in &mut model.points {
        point
            .track
            .iter_mut()
            .for_each(|(image, _)| *image = shifted(*image));
    }
    bench.place(&model);
    let added = bench.add().unwrap();
    assert_eq!((added.placed, added.photos), (2, 3));
    let notes = added.notes.join("\n");
    assert!(notes.contains("another photo is skipped: 2.jpg"), "{notes}");
    assert!(notes.contains("3.jpg as 3_2.jpg"), "{notes}");
    assert_eq!(added.findings[0].photos, ["3_2.jpg"]);
    assert!(
        added.findings[0]
            .what
            .contains("1 photo without a pose (too few points")
    );
    let images = bench.bench.capture().join("images");
    assert!(images.join("3_2.jpg").is_file() && !images.join("2_2.jpg").exists());
    let old = std::fs::read(bench.base().join("images/3.jpg")).unwrap();
    assert!(std::fs::read(images.join("3.jpg")).unwrap() == old);
    let now = Model::read_exact(&bench.bench.capture().join("sparse/0")).unwrap();
    assert_kept(&bench.old, &now);
    assert_eq!(now.images.len(), 8);
}

#[test]
fn a_failed_search_leaves_no_capture_and_the_same_call_continues() {
    let Some(bench) = AddBench::new() else { return };
    let out = bench.bench.capture();
    bench.bench.set("mode", "crash mapper");
    bench.refused(
        &bench.options(),
        &["COLMAP 3.8 failed while finding poses of the new photos"],
    );
    assert!(!out.join("sparse").exists() && !out.join("images").exists());
    bench.bench.set("mode", "");
    assert_eq!(bench.add().unwrap().placed, 2);
    let calls = bench.bench.calls();
    let count = |name: &str| calls.iter().filter(|call| *call == name).count();
    assert_eq!([count("feature_extractor"), count("mapper")], [1, 2]);
    // Without a pose for any new photo.
    let Some(bench) = AddBench::new() else { return };
    bench.place(&bench.old);
    bench.refused(
        &bench.options(),
        &["none of 2 photos to add could be placed: 2 photos without a pose"],
    );
    let out = bench.bench.capture();
    assert!(!out.join("sparse").exists() && out.join("report.html").is_file());
    assert!(load::open(&out, &LoadOptions::default()).is_err());
}

/// Stops at once.
struct Stopped;

impl Progress for Stopped {
    fn start(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn finish(&self) {}
    fn should_stop(&self) -> bool {
        true
    }
}

#[test]
fn wrong_places_and_inputs_are_refused() {
    let Some(bench) = AddBench::new() else { return };
    let options = bench.options();
    let at = |out: PathBuf| Options {
        out,
        ..options.clone()
    };
    let inside = ["same folder", "not changed"];
    bench.refused(&at(bench.base()), &inside);
    bench.refused(&at(bench.base().join("new")), &inside);
    bench.refused(&at(bench.base().join("images/new")), &inside);
    bench.refused(&at(bench.base().parent().unwrap().to_owned()), &inside);
    let other = bench.bench.root.path().join("other");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("mine.txt"), "mine").unwrap();
    bench.refused(&at(other.clone()), &["holds other files"]);
    std::fs::create_dir_all(other.join("photos-work")).unwrap();
    bench.refused(&at(other), &["holds another capture"]);
    let known = Options {
        inputs: vec![bench.base().join("images")],
        ..options.clone()
    };
    bench.refused(&known, &["holds all these photos already"]);
    let base = Base::open(&bench.base(), None).unwrap();
    let error = add(&options, &base, &Stopped).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    photo(1, 40, 30)
        .save(bench.base().join("images/1.jpg"))
        .unwrap();
    bench.refused(
        &options,
        &["1.jpg", "has 40x30 pixels, and its camera has 160x120"],
    );
    std::fs::remove_file(bench.base().join("images/1.jpg")).unwrap();
    bench.refused(&options, &["\"1.jpg\" is missing"]);
    assert!(bench.bench.calls().is_empty());
}

#[test]
fn captures_of_other_formats_are_added_to_and_panoramas_are_refused() {
    let Some(bench) = AddBench::new() else { return };
    let loaded = load::open(&bench.base(), &LoadOptions::default()).unwrap();
    let json = bench.bench.root.path().join("json");
    std::fs::create_dir_all(&json).unwrap();
    std::fs::rename(bench.base().join("images"), json.join("images")).unwrap();
    let cameras = loaded
        .images
        .iter()
        .map(|image| (format!("images/{}", image.name), image.camera));
    let mut cameras: Vec<_> = cameras.collect();
    let file = json.join("transforms.json");
    dapple_scene::write_cameras(&file, &cameras).unwrap();
    let base = Base::open(&json, None).unwrap();
    assert_eq!((base.model.images.len(), base.model.cameras.len()), (6, 1));
    assert_eq!(base.model.cameras[0].model.name, "PINHOLE");
    let added = add(&bench.options(), &base, &NoProgress).unwrap();
    assert_eq!(added.placed, 2);
    let now = Model::read_exact(&bench.bench.capture().join("sparse/0")).unwrap();
    assert_kept(&base.model, &now);
    assert_eq!(by_name(&now)["6.jpg"].camera, 1);
    cameras[0].1.lens = dapple_scene::Lens::Panorama(dapple_scene::Panorama::Equirectangular);
    for camera in &mut cameras {
        camera.1 = dapple_scene::Camera::equirectangular(160, 80, camera.1.camera_from_world);
    }
    dapple_scene::write_cameras(&file, &cameras).unwrap();
    let error = Base::open(&json, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.what().contains("panoramas"), "{error}");
}

#[test]
fn the_default_folder_is_next_to_the_capture() {
    for (capture, out) in [
        ("captures/bird", "captures/bird-more"),
        ("bird/sparse/0", "bird-more"),
        ("bird/sparse", "bird-more"),
        ("/a/bird.v2/", "/a/bird.v2-more"),
    ] {
        assert_eq!(default_out(Path::new(capture)), Path::new(out));
    }
}

/// Removes photos from a model.
fn without(mut model: Model, names: &[&str]) -> Model {
    let gone = |image: &Image| names.contains(&image.name.as_str());
    let ids: HashSet<u32> = model
        .images
        .iter()
        .filter(|i| gone(i))
        .map(|i| i.id)
        .collect();
    model.images.retain(|image| !gone(image));
    for point in &mut model.points {
        point.track.retain(|(image, _)| !ids.contains(image));
    }
    model
}

#[test]
fn pycolmap_places_photos_that_a_real_capture_lost_where_they_were() {
    let Some((capture, tool)) = photos_and_tool("banana") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let held = ["DSC_0425.jpg", "DSC_0431.jpg", "DSC_0437.jpg"];
    let truth = Model::read_exact(&capture.join("sparse/0")).unwrap();
    let old = without(truth.clone(), &held);
    for image in &truth.images {
        let to = if held.contains(&image.name.as_str()) {
            "new"
        } else {
            "old/images"
        };
        std::fs::create_dir_all(at(to)).unwrap();
        std::fs::copy(
            capture.join("images").join(&image.name),
            at(to).join(&image.name),
        )
        .unwrap();
    }
    old.write(&at("old/sparse/0")).unwrap();
    let options = Options {
        features: 2500,
        photo_size: 500,
        tool: Some(tool.program().to_owned()),
        ..Options::new(vec![at("new")], at("more"))
    };
    let base = Base::open(&at("old"), None).unwrap();
    let added = add(&options, &base, &NoProgress).unwrap();
    assert_eq!(added.placed, 3, "{:?}", added.findings);
    let now = Model::read_exact(&at("more/sparse/0")).unwrap();
    assert_kept(&old, &now);
    assert_eq!(now.cameras, old.cameras);
    let centres: Vec<DVec3> = truth
        .images
        .iter()
        .map(|image| image.pose.centre())
        .collect();
    let middle = centres.iter().sum::<DVec3>() / centres.len() as f64;
    let radius = centres
        .iter()
        .map(|c| c.distance(middle))
        .fold(0.0, f64::max);
    let (truth, now) = (by_name(&truth), by_name(&now));
    for name in held {
        let apart = now[name].pose.centre().distance(truth[name].pose.centre());
        let share = apart / radius;
        println!("{name}: {:.4} % of the radius", 100.0 * share);
        assert!(share < 0.01, "{name} is {share} of the radius away");
    }
}
