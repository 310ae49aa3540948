//! Synthetic captures: exact, reproducible, and never written over foreign files.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dapple_scene::{Camera, Dataset, ErrorKind, LoadOptions, NoProgress, Photo, Progress, load};
use dapple_synth::{self as synth, LensKind, LightKind, ObjectBackground, SceneKind, SynthOptions};
use glam::{DMat2, DVec2, DVec3};
use std::f64::consts::{PI, TAU};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

fn small(lens: LensKind) -> SynthOptions {
    SynthOptions {
        photos: 3,
        width: 160,
        height: 120,
        points: 250,
        lens,
        seed: 3,
        point_noise: 0.0,
        ..SynthOptions::default()
    }
}

fn reload(folder: &Path) -> Dataset {
    load(folder, &LoadOptions::default(), &NoProgress).unwrap()
}

/// Samples the colour at a position in pixels, bilinear.
fn colour(photo: &Photo, [x, y]: [f64; 2]) -> [f64; 3] {
    let (x, y) = ((x - 0.5).max(0.0), (y - 0.5).max(0.0));
    let (width, height) = (photo.width as usize, photo.height as usize);
    let at = |column: usize, row: usize, c: usize| {
        let (column, row) = (column.min(width - 1), row.min(height - 1));
        f64::from(photo.rgb[(row * width + column) * 3 + c])
    };
    let (left, top) = (x as usize, y as usize);
    let (tx, ty) = (x.fract(), y.fract());
    [0, 1, 2].map(|c| {
        let above = at(left, top, c) * (1.0 - tx) + at(left + 1, top, c) * tx;
        let below = at(left, top + 1, c) * (1.0 - tx) + at(left + 1, top + 1, c) * tx;
        above * (1.0 - ty) + below * ty
    })
}

/// Returns the largest channel difference between a colour of a photo and a point's.
fn difference(photo: &Photo, place: [f64; 2], rgb: [u8; 3]) -> f64 {
    let seen = colour(photo, place);
    (0..3)
        .map(|c| (seen[c] - f64::from(rgb[c])).abs())
        .fold(0.0, f64::max)
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() as f64 * share) as usize]
}

/// An observation in `images.bin` and `points3D.bin`.
struct Observation {
    image: usize,
    pixel: [f64; 2],
    point: DVec3,
    rgb: [u8; 3],
}

/// Reads both files with simple code and checks that they agree with each other. Returns image names too.
fn observations(model: &Path) -> (Vec<String>, Vec<Observation>) {
    struct Bytes(Vec<u8>, usize);
    impl Bytes {
        fn take<const N: usize>(&mut self) -> [u8; N] {
            self.1 += N;
            self.0[self.1 - N..self.1].try_into().unwrap()
        }
        fn u32(&mut self) -> u32 {
            u32::from_le_bytes(self.take())
        }
        fn u64(&mut self) -> u64 {
            u64::from_le_bytes(self.take())
        }
        fn f64(&mut self) -> f64 {
            f64::from_le_bytes(self.take())
        }
    }
    let open = |name: &str| Bytes(fs::read(model.join(name)).unwrap(), 0);
    let mut images = open("images.bin");
    let (mut names, mut seen) = (Vec::new(), Vec::new());
    for index in 0..images.u64() {
        assert_eq!(u64::from(images.u32()), index + 1);
        let _pose: [u8; 56] = images.take();
        assert_eq!(images.u32(), 1);
        let mut name = Vec::new();
        loop {
            match images.take() {
                [0] => break,
                [letter] => name.push(letter),
            }
        }
        names.push(String::from_utf8(name).unwrap());
        let count = images.u64();
        seen.push(
            (0..count)
                .map(|_| ([images.f64(), images.f64()], images.u64()))
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(images.1, images.0.len());
    let mut points = open("points3D.bin");
    let mut all = Vec::new();
    for _ in 0..points.u64() {
        let id = points.u64();
        let point = DVec3::new(points.f64(), points.f64(), points.f64());
        let rgb = points.take();
        assert!(points.f64() >= 0.0);
        let track = points.u64();
        assert!(track >= 2);
        for _ in 0..track {
            let (image, index) = (points.u32() as usize - 1, points.u32() as usize);
            let (pixel, seen_id) = seen[image][index];
            assert_eq!(seen_id, id, "a track leads to another point");
            all.push(Observation {
                image,
                pixel,
                point,
                rgb,
            });
        }
    }
    assert_eq!(points.1, points.0.len());
    assert_eq!(all.len(), seen.iter().map(Vec::len).sum::<usize>());
    (names, all)
}

/// Returns the shift, pixels, at which photos agree best with the points' colours: one step of least squares on the
/// photos' gradients (Lucas & Kanade 1981).
fn best_shift(photos: &[Photo], observations: &[Observation]) -> DVec2 {
    let (mut matrix, mut vector) = (DMat2::ZERO, DVec2::ZERO);
    for o in observations {
        let at = |dx: f64, dy: f64| colour(&photos[o.image], [o.pixel[0] + dx, o.pixel[1] + dy]);
        let (here, left, right) = (at(0.0, 0.0), at(-1.0, 0.0), at(1.0, 0.0));
        let (above, below) = (at(0.0, -1.0), at(0.0, 1.0));
        for c in 0..3 {
            let gradient = DVec2::new(right[c] - left[c], below[c] - above[c]) / 2.0;
            let missing = f64::from(o.rgb[c]) - here[c];
            // Elsewhere in the photo, in shade, or behind an edge, the pixel does not measure the shift.
            if missing.abs() < 60.0 {
                matrix += DMat2::from_cols(gradient * gradient.x, gradient * gradient.y);
                vector += gradient * missing;
            }
        }
    }
    matrix.inverse() * vector
}

/// Projects like COLMAP, from `cameras.bin` as loaded, in independent code.
fn project(camera: &Camera, params: &[f64], lens: LensKind, point: DVec3) -> [f64; 2] {
    let p = camera.camera_from_world.transform(point);
    let (x, y) = (p.x / p.z, p.y / p.z);
    let r2 = x * x + y * y;
    let radial = |k: &[f64]| 1.0 + k[0] * r2 + k.get(1).map_or(0.0, |k| k * r2 * r2);
    match lens {
        LensKind::Pinhole => [params[0] * x + params[2], params[1] * y + params[3]],
        LensKind::SimpleRadial | LensKind::Radial => {
            let s = params[0] * radial(&params[3..]);
            [s * x + params[1], s * y + params[2]]
        }
        LensKind::OpenCv => {
            let (s, p1, p2) = (radial(&params[4..6]), params[6], params[7]);
            let u = x * s + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x);
            let v = y * s + p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y;
            [params[0] * u + params[2], params[1] * v + params[3]]
        }
        LensKind::Equirectangular => {
            let (longitude, latitude) = (p.x.atan2(p.z), (p.y / p.length()).asin());
            [
                params[0] * (0.5 + longitude / TAU),
                params[1] * (0.5 + latitude / PI),
            ]
        }
        LensKind::OpenCvFisheye => {
            let r = r2.sqrt();
            let t = r.atan();
            let k = &params[4..];
            let d = t + k[0] * t.powi(3) + k[1] * t.powi(5) + k[2] * t.powi(7) + k[3] * t.powi(9);
            [
                params[0] * x * d / r + params[2],
                params[1] * y * d / r + params[3],
            ]
        }
        _ => panic!("COLMAP has no {lens}"),
    }
}

#[test]
fn photos_show_every_point_where_colmap_would_look_for_it() {
    for (lens, model) in LensKind::ALL
        .into_iter()
        .filter_map(|lens| Some((lens, lens.colmap()?)))
    {
        let is_panorama = lens.panorama().is_some();
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("capture");
        // Large enough that a pixel's mean is near the colour at a point.
        let options = SynthOptions {
            width: 400,
            height: if is_panorama { 200 } else { 300 },
            ..small(lens)
        };
        let summary = synth::generate(&options, &out, &NoProgress).unwrap();
        let cameras = fs::read(out.join("sparse/0/cameras.bin")).unwrap();
        assert_eq!(cameras[12..16], model.to_le_bytes());
        let params: Vec<f64> = cameras[32..]
            .chunks_exact(8)
            .map(|b| f64::from_le_bytes(b.try_into().unwrap()))
            .collect();
        // The capture after loading: poses unchanged, photos without distortion. A panorama stays one.
        let undistort = LoadOptions {
            undistort: !is_panorama,
            ..LoadOptions::default()
        };
        let flat = load(&out, &undistort, &NoProgress).unwrap();
        let (names, observations) = observations(&out.join("sparse/0"));
        assert_eq!(summary.observations, observations.len());
        assert_eq!((summary.photos, flat.views.len()), (3, 3));
        assert!(summary.points >= 200 && flat.points.len() == summary.points);
        let photos: Vec<Photo> = names
            .iter()
            .map(|name| {
                let image = image::open(out.join("images").join(name))
                    .unwrap()
                    .to_rgb8();
                Photo::from_rgb(image.width(), image.height(), image.into_raw())
            })
            .collect();

        let (mut at_place, mut beside, mut undistorted) = (Vec::new(), Vec::new(), Vec::new());
        for o in &observations {
            let view = &flat.views[o.image];
            assert_eq!(view.name, names[o.image]);
            let [x, y] = project(&view.camera, &params, lens, o.point);
            let off = (x - o.pixel[0]).hypot(y - o.pixel[1]);
            assert!(off < 1e-6, "{lens}: off by {off} pixels");
            let photo = &photos[o.image];
            at_place.push(difference(photo, o.pixel, o.rgb));
            beside.push(difference(photo, [o.pixel[0] + 4.0, o.pixel[1]], o.rgb));
            let p = view.camera.camera_from_world.transform(o.point);
            let place = view.camera.project_pinhole(p).unwrap();
            if place.x < f64::from(view.camera.width) && place.y < f64::from(view.camera.height) {
                undistorted.push(difference(
                    &view.photo.read().unwrap(),
                    place.to_array(),
                    o.rgb,
                ));
            }
        }
        let medians = [&mut at_place, &mut undistorted, &mut beside].map(|d| quantile(d, 0.5));
        eprintln!("{lens}: at its place, undistorted, beside: {medians:?}");
        assert!(medians[0] < 4.0 && medians[1] < 8.0, "{lens}: {medians:?}");
        // The shift of the photos that would explain the remaining differences is far below a pixel.
        let shift = best_shift(&photos, &observations);
        eprintln!("{lens}: shifted by {shift}");
        assert!(shift.length() < 0.25, "{lens}: {shift}");
        // Check of the measure itself: four pixels away the colour differs.
        assert!(medians[2] > 2.0 * medians[0] + 3.0, "{lens}: {medians:?}");
    }
}

#[test]
fn the_capture_in_memory_is_the_one_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("capture");
    let options = SynthOptions {
        point_noise: 0.01,
        ..small(LensKind::Pinhole)
    };
    synth::generate(&options, &out, &NoProgress).unwrap();
    let (disk, memory) = (reload(&out), synth::dataset(&options).unwrap());
    assert_eq!(disk.views.len(), memory.views.len());
    for (a, b) in disk.views.iter().zip(&memory.views) {
        assert_eq!(
            (&a.name, &a.source_model, a.photo.read().unwrap()),
            (&b.name, &b.source_model, b.photo.read().unwrap())
        );
        let (p, q) = (a.camera.camera_from_world, b.camera.camera_from_world);
        assert!(p.rotation.dot(q.rotation).abs() > 1.0 - 1e-14);
        assert!(p.translation.distance(q.translation) < 1e-12);
        assert_eq!(
            Camera {
                camera_from_world: q,
                ..a.camera
            },
            b.camera
        );
    }
    assert_eq!(disk.points, memory.points);
    // Upright: points above the table (y points down) are above it in the photos.
    for view in &memory.views {
        let pose = view.camera.camera_from_world;
        let [up, down] = [-1.0, 0.0].map(|y| pose.transform(DVec3::new(0.0, y, 0.0)));
        assert!(up.y / up.z < down.y / down.z && pose.centre().y < -0.5);
    }
}

#[test]
fn noise_moves_points_by_as_much_as_it_says() {
    let exact = SynthOptions {
        points: 2000,
        photos: 4,
        ..small(LensKind::Pinhole)
    };
    let noisy = SynthOptions {
        point_noise: 0.02,
        ..exact.clone()
    };
    let (exact, noisy) = (
        synth::dataset(&exact).unwrap(),
        synth::dataset(&noisy).unwrap(),
    );
    assert_eq!(exact.points.len(), noisy.points.len());
    let pairs = exact.points.iter().zip(&noisy.points);
    let squares: f64 = pairs
        .flat_map(|(a, b)| (0..3).map(|c| f64::from(a.position[c] - b.position[c]).powi(2)))
        .sum();
    let deviation = (squares / (3 * exact.points.len()) as f64).sqrt();
    assert!((deviation - 0.02).abs() < 0.002, "{deviation}");
}

/// Returns all files below a folder with their bytes.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                files.push((name, fs::read(path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn a_seed_gives_the_same_files_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, seed: u64, threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let options = SynthOptions {
            seed,
            point_noise: 0.01,
            ..small(LensKind::OpenCv)
        };
        let out = folder.path().join(name);
        pool.install(|| synth::generate(&options, &out, &NoProgress))
            .unwrap();
        contents(&out)
    };
    let one = make("one", 5, 1);
    assert_eq!(one.len(), 3 + 3 + 1);
    assert!(one == make("three", 5, 3));
    let other = make("other", 6, 3);
    assert!(
        one.iter()
            .zip(&other)
            .all(|(a, b)| a.0 == b.0 && (a.1 != b.1 || a.0.contains("cameras")))
    );
}

#[test]
fn only_an_untouched_synthetic_capture_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("deep/er/capture");
    let options = SynthOptions {
        photos: 2,
        width: 32,
        height: 24,
        ..small(LensKind::Pinhole)
    };
    let make = |seed: u64| {
        synth::generate(
            &SynthOptions {
                seed,
                ..options.clone()
            },
            &out,
            &NoProgress,
        )
    };
    fs::create_dir_all(&out).unwrap();
    make(1).unwrap();
    let first = contents(&out);
    make(2).unwrap();
    assert!(contents(&out) != first);
    assert_eq!(
        fs::read_dir(out.parent().unwrap()).unwrap().count(),
        1,
        "leavings"
    );

    // Results of a user in it, or a folder that only resembles a capture.
    fs::write(out.join("splats.ply"), "precious").unwrap();
    let before = contents(&out);
    let error = make(3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(
        error.to_string().contains("splats.ply") && error.hint_text().is_some(),
        "{error}"
    );
    assert!(contents(&out) == before);
    fs::remove_file(out.join("splats.ply")).unwrap();
    fs::remove_file(out.join("synth.json")).unwrap();
    let error = make(3).unwrap_err();
    assert!(error.what().contains("not a synthetic capture"), "{error}");
    assert!(out.join("images/000.png").exists());

    // A file where the folder should be.
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(synth::generate(&options, &file, &NoProgress).is_err());
    assert!(synth::generate(&options, &file.join("below"), &NoProgress).is_err());
}

#[test]
fn numbers_that_cannot_be_meant_are_refused() {
    let base = small(LensKind::Pinhole);
    let cases = [
        (
            SynthOptions {
                photos: 0,
                ..base.clone()
            },
            "0 photos",
        ),
        (
            SynthOptions {
                width: 0,
                ..base.clone()
            },
            "0 x 120",
        ),
        (
            SynthOptions {
                height: 1_000_000,
                ..base.clone()
            },
            "160 x 1000000",
        ),
        (
            SynthOptions {
                points: usize::MAX,
                ..base.clone()
            },
            "sparse points",
        ),
        (
            SynthOptions {
                point_noise: f64::NAN,
                ..base.clone()
            },
            "NaN",
        ),
        (
            SynthOptions {
                point_noise: -1.0,
                ..base.clone()
            },
            "-1",
        ),
    ];
    for (options, word) in cases {
        let error = synth::dataset(&options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(
            error.what().contains(word) && error.hint_text().is_some(),
            "{error}"
        );
    }
    assert!(
        "fish-eye"
            .parse::<LensKind>()
            .unwrap_err()
            .to_string()
            .contains("opencv-fisheye")
    );
    for lens in LensKind::ALL {
        assert_eq!(lens.name().parse::<LensKind>().unwrap(), lens);
        assert_eq!(
            serde_json::to_string(&lens).unwrap(),
            format!("{:?}", lens.name())
        );
    }
    // The smallest valid options.
    let one = SynthOptions {
        photos: 1,
        width: 1,
        height: 1,
        points: 3,
        ..base
    };
    let capture = synth::dataset(&one).unwrap();
    assert_eq!((capture.views.len(), capture.points.len()), (1, 3));
}

fn shows(scene: SceneKind) -> SynthOptions {
    SynthOptions {
        scene,
        photos: 10,
        ..small(LensKind::Pinhole)
    }
}

fn photos(capture: &Dataset) -> Vec<Photo> {
    let photos = capture.views.iter().map(|view| view.photo.read().unwrap());
    photos.map(|photo| photo.as_ref().clone()).collect()
}

/// Compares with checksums from before the other scenes existed. The last bit of C's sines and powers may differ on
/// other systems, which a checksum does not tolerate.
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
#[test]
fn the_table_is_what_it_was_before_there_were_other_scenes() {
    let options = SynthOptions {
        point_noise: 0.01,
        ..small(LensKind::Pinhole)
    };
    let capture = synth::dataset(&options).unwrap();
    let mut sum = crc32fast::Hasher::new();
    for photo in photos(&capture) {
        sum.update(&photo.rgb);
    }
    for point in &capture.points {
        for c in point.position {
            sum.update(&c.to_le_bytes());
        }
        sum.update(&point.rgb);
    }
    assert_eq!(sum.finalize(), 0x273d_1751);
}

#[test]
fn every_scene_is_written_and_its_points_are_in_its_photos() {
    let folder = tempfile::tempdir().unwrap();
    for scene in SceneKind::ALL {
        let out = folder.path().join(scene.name());
        let options = SynthOptions {
            photos: 5,
            width: 400,
            height: 300,
            ..shows(scene)
        };
        synth::generate(&options, &out, &NoProgress).unwrap();
        let capture = reload(&out);
        assert_eq!(capture.views.len(), 5);
        assert!(capture.points.len() > 240, "{}", capture.points.len());
        // A note from before the option existed has no such key.
        let note = fs::read_to_string(out.join("synth.json")).unwrap();
        let named = note.contains(&format!("\"scene\": {:?}", scene.name()));
        assert_eq!(named, scene != SceneKind::Table, "{note}");

        let photos = photos(&capture);
        let (mut at_place, mut beside) = (Vec::new(), Vec::new());
        for o in observations(&out.join("sparse/0")).1 {
            let photo = &photos[o.image];
            at_place.push(difference(photo, o.pixel, o.rgb));
            beside.push(difference(photo, [o.pixel[0] + 4.0, o.pixel[1]], o.rgb));
        }
        // Only places with contrast count: even surfaces are equal everywhere.
        let [here, there] = [&mut at_place, &mut beside].map(|d| quantile(d, 0.75));
        eprintln!("{scene}: at its place, beside: {here} {there}");
        assert!(here < 0.75 * there, "{scene}: {here} {there}");
    }
}

/// Returns the mean difference between pixels and their neighbours to the right, levels.
fn detail(photos: &[Photo]) -> f64 {
    let (mut sum, mut count) = (0u64, 0u64);
    for photo in photos {
        for line in photo.rgb.chunks_exact(photo.width as usize * 3) {
            for (a, b) in line.iter().zip(&line[3..]) {
                sum += u64::from(a.abs_diff(*b));
                count += 1;
            }
        }
    }
    sum as f64 / count as f64
}

#[test]
fn scenes_differ_in_how_much_texture_they_have() {
    let of = |scene| detail(&photos(&synth::dataset(&shows(scene)).unwrap()));
    let [table, plain, gravel] = [SceneKind::Table, SceneKind::Plain, SceneKind::Gravel].map(of);
    eprintln!("table, plain, gravel: {table} {plain} {gravel}");
    // Without texture, only the outlines of the objects remain.
    assert!(plain < 0.45 * table, "{plain} {table}");
    assert!(gravel > 1.6 * table, "{gravel} {table}");
}

#[test]
fn the_field_reaches_far_and_shows_the_sky() {
    let reach = |scene: SceneKind| {
        let capture = synth::dataset(&shows(scene)).unwrap();
        let away = |p: &dapple_scene::Point| f64::from(p.position[0].hypot(p.position[2]));
        let mut away: Vec<f64> = capture.points.iter().map(away).collect();
        ([0.25, 0.8].map(|share| quantile(&mut away, share)), capture)
    };
    // Equal near the middle and beyond 20 units.
    let ([near, far], capture) = reach(SceneKind::Field);
    eprintln!("field: a quarter within {near}, a fifth beyond {far}");
    assert!(near < 6.0 && far > 20.0, "{near} {far}");
    let ([_, far], _) = reach(SceneKind::Table);
    assert!(far < 9.0, "{far}");

    // The upper edge is bluer than any ground, the lower one green.
    let photos = photos(&capture);
    let line = |photo: &Photo, row: usize| {
        let line = photo.rgb.chunks_exact(photo.width as usize * 3).nth(row);
        let mut mean = [0.0; 3];
        for pixel in line.unwrap().chunks_exact(3) {
            for (mean, level) in mean.iter_mut().zip(pixel) {
                *mean += f64::from(*level) / f64::from(photo.width);
            }
        }
        mean
    };
    let sky = |photo: &&Photo| {
        let [r, g, b] = line(photo, 0);
        b > r - 5.0 && b > g && b > 150.0
    };
    let meadow = |photo: &&Photo| {
        let [r, g, b] = line(photo, photo.height as usize - 1);
        g > b + 20.0 && g > 0.8 * r
    };
    assert!(photos.iter().filter(sky).count() >= 8);
    assert!(photos.iter().filter(meadow).count() >= 8);
}

#[test]
fn scenes_have_names_and_old_notes_mean_the_table() {
    for scene in SceneKind::ALL {
        assert_eq!(scene.name().parse::<SceneKind>().unwrap(), scene);
        assert_eq!(scene.to_string(), scene.name());
        let json = serde_json::to_string(&shows(scene)).unwrap();
        let back: SynthOptions = serde_json::from_str(&json).unwrap();
        assert_eq!(back, shows(scene), "{json}");
    }
    let old: SynthOptions = serde_json::from_str(r#"{"photos": 10}"#).unwrap();
    assert_eq!(old.scene, SceneKind::Table);
    let error = "kitchen".parse::<SceneKind>().unwrap_err();
    assert!(
        error
            .hint_text()
            .unwrap()
            .contains("table, plain, gravel, field, city"),
        "{error}"
    );
}

#[test]
fn a_wish_to_stop_leaves_nothing() {
    struct Stop;
    impl Progress for Stop {
        fn start(&self, _: &str, _: u64) {}
        fn advance(&self, _: u64) {}
        fn finish(&self) {}
        fn should_stop(&self) -> bool {
            true
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a");
    let error = synth::generate(&small(LensKind::Pinhole), &out, &Stop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn progress_counts_the_photos() {
    #[derive(Default)]
    struct Count([AtomicU64; 3]);
    impl Progress for Count {
        fn start(&self, _: &str, total: u64) {
            self.0[0].fetch_add(total, Ordering::Relaxed);
        }
        fn advance(&self, n: u64) {
            self.0[1].fetch_add(n, Ordering::Relaxed);
        }
        fn finish(&self) {
            self.0[2].fetch_add(1, Ordering::Relaxed);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let options = SynthOptions {
        width: 16,
        height: 12,
        ..small(LensKind::Pinhole)
    };
    let count = Count::default();
    synth::generate(&options, &folder.path().join("a"), &count).unwrap();
    assert_eq!(count.0.map(AtomicU64::into_inner), [3, 3, 1]);
}

#[test]
fn a_lamp_lights_some_photos_here_more_than_there_and_a_sun_moves_shadows() {
    let all = |light| {
        let options = SynthOptions {
            photos: 12,
            light,
            ..small(LensKind::Pinhole)
        };
        photos(&synth::dataset(&options).unwrap())
    };
    // Shares of values that became darker and brighter by more than this: edges get more samples if the light differs.
    let changed = |before: &Photo, after: &Photo| {
        let pairs = || before.rgb.iter().zip(&after.rgb);
        let by = pairs().map(|(a, b)| i16::from(*b) - i16::from(*a));
        let by: Vec<i16> = by.collect();
        let share = |has: fn(i16) -> bool| {
            by.iter().filter(|by| has(**by)).count() as f64 / by.len() as f64
        };
        (share(|by| by < -12), share(|by| by > 12))
    };
    let still = all(LightKind::Still);
    let mut lit = 0;
    for (still, lamp) in still.iter().zip(&all(LightKind::Lamp)) {
        if still.rgb == lamp.rgb {
            continue;
        }
        lit += 1;
        let (darker, brighter) = changed(still, lamp);
        assert!(darker < 0.005, "a lamp makes {darker} darker");
        assert!((0.05..0.9).contains(&brighter), "{brighter}");
    }
    assert!((2..=10).contains(&lit), "{lit} of 12 are lit");
    for (still, sun) in still.iter().zip(&all(LightKind::Sun)) {
        // Some places are brighter, others darker.
        let (darker, brighter) = changed(still, sun);
        assert!(
            darker > 0.005 && brighter > 0.005,
            "{darker} darker, {brighter} brighter"
        );
    }
}

#[test]
fn no_synthetic_capture_contradicts_itself() {
    for scene in SceneKind::ALL {
        for lens in LensKind::ALL {
            let options = SynthOptions {
                photos: 6,
                width: 64,
                height: lens.panorama().map_or(48, |_| 32),
                scene,
                ..small(lens)
            };
            let folder = tempfile::tempdir().unwrap();
            synth::generate(&options, folder.path(), &NoProgress).unwrap();
            let mut capture = load::open(folder.path(), &LoadOptions::default()).unwrap();
            assert_eq!(capture.observations.is_empty(), lens.colmap().is_none());
            let told = |notes: &[String]| notes.iter().any(|note| note.contains("contradict"));
            assert!(
                !told(&capture.notes),
                "{scene:?} {lens:?}: {:?}",
                capture.notes
            );
            // Only by colours.
            capture.tracks = None;
            let dataset = load::decode(capture, &LoadOptions::default(), &NoProgress).unwrap();
            assert!(
                !told(&dataset.notes),
                "{scene:?} {lens:?}: {:?}",
                dataset.notes
            );
        }
    }
}

fn object(background: ObjectBackground) -> SynthOptions {
    SynthOptions {
        photos: 6,
        width: 72,
        height: 64,
        object: Some(background),
        ..SynthOptions::default()
    }
}

#[test]
fn an_object_is_written_in_blenders_layout_with_alpha_and_without_points() {
    let root = tempfile::tempdir().unwrap();
    let options = object(ObjectBackground::Transparent);
    let out = root.path().join("object");
    let summary = synth::generate(&options, &out, &NoProgress).unwrap();
    assert_eq!((summary.photos, summary.points), (7, 0));
    // An object may be replaced as other synthetic captures are.
    synth::generate(&options, &out, &NoProgress).unwrap();
    let (loaded, made) = (reload(&out), synth::dataset(&options).unwrap());
    assert!(loaded.points.is_empty() && made.points.is_empty());
    assert_eq!(loaded.split(8).eval, [0]);
    assert_eq!(loaded.split(8).train.len(), 6);
    for (loaded, made) in loaded.views.iter().zip(&made.views) {
        assert_eq!(loaded.name, made.name);
        let (a, b) = (loaded.photo.read().unwrap(), made.photo.read().unwrap());
        assert_eq!(a.alpha, b.alpha);
        // Colours of transparent pixels do not matter.
        let alpha = a.alpha.as_ref().unwrap();
        let pairs = a.rgb.chunks(3).zip(b.rgb.chunks(3)).zip(alpha);
        assert!(pairs.filter(|(_, a)| **a > 0).all(|((a, b), _)| a == b));
        let opaque = alpha.iter().filter(|&&a| a == 255).count();
        assert!((500..3500).contains(&opaque), "{opaque}");
        let edge: Vec<_> = alpha.iter().take(72).chain(&alpha[63 * 72..]).collect();
        assert!(edge.iter().all(|&&a| a == 0), "{}", loaded.name);
        let (a, b) = (&loaded.camera, &made.camera);
        assert!((a.fx - b.fx).abs() < 1e-9 && (a.cy - b.cy).abs() < 1e-9);
        let (p, q) = (a.camera_from_world, b.camera_from_world);
        assert!(p.centre().distance(q.centre()) < 1e-9);
        assert!(p.rotation.angle_between(q.rotation) < 1e-6);
        // Above the table, z up.
        assert!(p.centre().z > 0.1, "{}", p.centre());
    }
}

#[test]
fn an_object_over_a_colour_is_its_transparent_photo_laid_over_that() {
    let clear = synth::dataset(&object(ObjectBackground::Transparent)).unwrap();
    for (background, behind) in [
        (ObjectBackground::White, 255u8),
        (ObjectBackground::Grey, 128),
        (ObjectBackground::Black, 0),
    ] {
        let opaque = synth::dataset(&object(background)).unwrap();
        for (clear, opaque) in clear.views.iter().zip(&opaque.views) {
            let (clear, opaque) = (clear.photo.read().unwrap(), opaque.photo.read().unwrap());
            assert!(opaque.alpha.is_none());
            let alpha = clear.alpha.as_ref().unwrap();
            for (i, (a, b)) in clear.rgb.iter().zip(&opaque.rgb).enumerate() {
                let part = f32::from(alpha[i / 3]) / 255.0;
                let want = part * f32::from(*a) + (1.0 - part) * f32::from(behind);
                assert!((want - f32::from(*b)).abs() <= 0.51, "{i}: {want} {b}");
            }
        }
    }
}

#[test]
fn an_object_is_the_same_on_any_number_of_threads_and_refuses_what_it_has_not() {
    let options = object(ObjectBackground::Transparent);
    let root = tempfile::tempdir().unwrap();
    let on = |threads: usize| {
        let out = root.path().join(threads.to_string());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().unwrap();
        pool.install(|| synth::generate(&options, &out, &NoProgress))
            .unwrap();
        contents(&out)
    };
    assert_eq!(on(1), on(3));
    for bad in [
        SynthOptions {
            lens: LensKind::OpenCv,
            ..options.clone()
        },
        SynthOptions {
            scene: SceneKind::Field,
            ..options.clone()
        },
        SynthOptions {
            drift: 0.5,
            ..options.clone()
        },
        SynthOptions {
            light: LightKind::Sun,
            ..options.clone()
        },
    ] {
        let error = synth::dataset(&bad).unwrap_err();
        assert!(error.what().contains("object"), "{}", error.what());
    }
    assert!(synth::depths(&options).is_err());
}

#[test]
fn a_city_has_its_size_and_points_on_its_surfaces_seen_by_few() {
    let options = SynthOptions {
        photos: 24,
        points: 600,
        point_noise: 0.0,
        ..shows(SceneKind::City)
    };
    let folder = tempfile::tempdir().unwrap();
    let made = |threads: usize, blocks: u32| {
        let out = folder.path().join(format!("{threads}-{blocks}"));
        let options = SynthOptions {
            blocks,
            ..options.clone()
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().unwrap();
        pool.install(|| synth::generate(&options, &out, &NoProgress))
            .unwrap();
        (contents(&out), reload(&out))
    };
    let (files, capture) = made(1, 2);
    assert_eq!(files, made(3, 2).0);
    // Without a key for the usual size.
    let note = |files: &[(String, Vec<u8>)]| {
        let note = files.iter().find(|(path, _)| path.ends_with("synth.json"));
        String::from_utf8(note.unwrap().1.clone()).unwrap()
    };
    assert!(!note(&files).contains("blocks"));
    assert!(capture.points.len() > 550, "{}", capture.points.len());
    let tracks = capture.tracks.as_ref().unwrap();
    let lengths = (0..tracks.len()).map(|i| tracks.photos_of(i).len());
    assert!(lengths.clone().all(|n| (2..=8).contains(&n)) && lengths.max() == Some(8));
    // Heights above the ground, which is 1.5 below the origin: y points down.
    let heights = capture.points.iter().map(|p| -p.position[1] + 1.5);
    let near: Vec<f32> = heights.filter(|h| *h < 60.0).collect();
    assert!(near.iter().all(|h| *h > -1e-3), "below the ground");
    let level = near.iter().filter(|h| h.abs() < 1e-3).count();
    assert!(
        level > 100 && near.len() > level + 150,
        "{level} of {}",
        near.len()
    );
    let (more, larger) = made(2, 5);
    assert!(note(&more).contains("\"blocks\": 5"));
    let extent = |capture: &Dataset| {
        let centres = capture
            .views
            .iter()
            .map(|v| v.camera.camera_from_world.centre());
        let x = centres.map(|c| c.x);
        x.clone().fold(f64::MIN, f64::max) - x.fold(f64::MAX, f64::min)
    };
    let [small, large] = [&capture, &larger].map(extent);
    assert!(
        (55.0..75.0).contains(&small) && (145.0..175.0).contains(&large),
        "{small} {large}"
    );
}

#[test]
fn a_city_of_no_size_or_too_large_is_refused() {
    let options = shows(SceneKind::City);
    for (bad, words) in [
        (
            SynthOptions {
                blocks: 0,
                ..options.clone()
            },
            "0 x 0 blocks",
        ),
        (
            SynthOptions {
                blocks: 65,
                ..options.clone()
            },
            "65 x 65 blocks",
        ),
        (
            SynthOptions {
                blocks: 7,
                mesh: true,
                ..options.clone()
            },
            "too large",
        ),
        (
            SynthOptions {
                scene: SceneKind::Table,
                blocks: 3,
                ..options.clone()
            },
            "no blocks",
        ),
    ] {
        let error = synth::dataset(&bad).unwrap_err();
        assert!(error.what().contains(words), "{}", error.what());
        assert!(error.hint_text().is_some());
    }
}
