//! A stub of COLMAP, photos, and models with known truth.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use dapple_base::{NoProgress, test_requirements};
use dapple_photos::model::{Image, Model, NO_POINT, Point};
use dapple_photos::{Done, Options, make};
use dapple_scene::Pose;
use dapple_scene::colmap::{ColmapCamera, MODELS};
use glam::{DVec2, DVec3};
use image::RgbImage;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub const WIDTH: u32 = 160;
pub const HEIGHT: u32 = 120;
const FOCAL: f64 = 150.0;

/// Folder with photos, a stub, and a place for the capture.
pub struct Bench {
    pub root: TempDir,
}

impl Bench {
    /// Creates the stub; `None`, and a note, if there is no Python for it.
    pub fn new() -> Option<Self> {
        let has_python = Command::new("python3")
            .arg("--version")
            .output()
            .is_ok_and(|ran| ran.status.success());
        if cfg!(windows) || !has_python {
            test_requirements::skipped("python", "the stub of COLMAP needs python3");
            return None;
        }
        let root = tempfile::tempdir().unwrap();
        let bench = Self { root };
        std::fs::create_dir_all(bench.stub().parent().unwrap()).unwrap();
        std::fs::create_dir_all(bench.photos()).unwrap();
        executable(&bench.stub(), include_str!("colmap.py"));
        Some(bench)
    }

    pub fn stub(&self) -> PathBuf {
        self.root.path().join("tool/colmap")
    }

    /// A path with spaces and Cyrillic letters.
    pub fn photos(&self) -> PathBuf {
        self.root.path().join("мои фото")
    }

    pub fn capture(&self) -> PathBuf {
        self.root.path().join("из фото/capture 1")
    }

    pub fn set(&self, file: &str, text: &str) {
        std::fs::write(self.root.path().join("tool").join(file), text).unwrap();
    }

    /// Returns the commands that the stub has run.
    pub fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.root.path().join("tool/calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Writes photos `0.jpg` and on.
    pub fn add_photos(&self, count: usize) {
        for index in 0..count {
            self.add_photo(&format!("{index}.jpg"), index as u32, WIDTH, HEIGHT);
        }
    }

    pub fn add_photo(&self, name: &str, seed: u32, width: u32, height: u32) {
        let path = self.photos().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        photo(seed, width, height).save(path).unwrap();
    }

    /// Writes the model that the stub finds.
    pub fn add_model(&self, index: usize, model: &Model) {
        model
            .write(&self.root.path().join(format!("tool/model{index}")))
            .unwrap();
    }

    pub fn options(&self) -> Options {
        Options {
            tool: Some(self.stub()),
            ..Options::new(vec![self.photos()], self.capture())
        }
    }

    pub fn make(&self) -> dapple_base::Result<Done> {
        make(&self.options(), &NoProgress)
    }

    /// Fails with an error that names the fault and the remedy.
    #[track_caller]
    pub fn refused(&self, words: &[&str]) -> dapple_base::Error {
        let error = self.make().unwrap_err();
        let text = named(&error, words);
        assert_eq!(
            error.what().matches(". ").count(),
            0,
            "one sentence: {text}"
        );
        error
    }
}

/// Fails if an error has no place, no hint, or not these words. Returns its text.
#[track_caller]
pub fn named(error: &dapple_base::Error, words: &[&str]) -> String {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is missing: {text}");
    }
    assert!(
        error.place().is_some() && error.hint_text().is_some(),
        "{text}"
    );
    text
}

#[cfg(unix)]
pub fn executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(not(unix))]
pub fn executable(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// Pseudo-random number from 0 to 1.
pub fn random(seed: u32) -> f64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9) ^ 0x85eb_ca6b;
    for _ in 0..3 {
        x ^= x >> 16;
        x = x.wrapping_mul(0x7feb_352d);
        x ^= x >> 15;
    }
    f64::from(x) / f64::from(u32::MAX)
}

/// A sharp photo of squares with random colours.
pub fn photo(seed: u32, width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let value =
            |salt: u32| (255.0 * random(seed * 7919 + salt + (x / 5) * 131 + (y / 5) * 71)) as u8;
        image::Rgb([value(1), value(2), value(3)])
    })
}

/// The name of a photo, and its camera's position and view direction.
pub type View = (String, DVec3, DVec3);

/// A model with exact projections. `sees` limits which view observes which point.
pub fn model(views: &[View], points: &[DVec3], sees: impl Fn(usize, usize) -> bool) -> Model {
    let camera = ColmapCamera {
        id: 1,
        model: MODELS
            .iter()
            .find(|model| model.name == "SIMPLE_PINHOLE")
            .unwrap(),
        width: WIDTH.into(),
        height: HEIGHT.into(),
        parameters: vec![FOCAL, f64::from(WIDTH) / 2.0, f64::from(HEIGHT) / 2.0],
    };
    let mut found = Model {
        cameras: vec![camera],
        ..Model::default()
    };
    for (index, (name, eye, target)) in views.iter().enumerate() {
        found.images.push(Image {
            id: index as u32 + 1,
            name: name.clone(),
            camera: 1,
            pose: Pose::look_at(*eye, *target, DVec3::NEG_Y),
            observations: Vec::new(),
        });
    }
    for (number, &position) in points.iter().enumerate() {
        let mut track = Vec::new();
        for (index, image) in found.images.iter_mut().enumerate() {
            let p = image.pose.transform(position);
            let pixel = DVec2::new(FOCAL * p.x / p.z + 80.0, FOCAL * p.y / p.z + 60.0);
            let inside =
                p.z > 0.0 && (0.0..160.0).contains(&pixel.x) && (0.0..120.0).contains(&pixel.y);
            if inside && sees(index, number) {
                track.push((image.id, image.observations.len() as u32));
                image.observations.push((pixel, number as u64 + 1));
            }
        }
        if track.len() >= 2 {
            found.points.push(Point {
                id: number as u64 + 1,
                position,
                rgb: [90, 120, 150],
                error: 0.1,
                track,
            });
        } else {
            for (id, place) in track {
                found.images[id as usize - 1].observations[place as usize].1 = NO_POINT;
            }
        }
    }
    found
}

/// Points on a wall at z = 10, between these x.
pub fn wall(count: usize, from: f64, to: f64, seed: u32) -> Vec<DVec3> {
    (0..count as u32)
        .map(|i| {
            let at = |salt: u32| random(seed + 3 * i + salt);
            DVec3::new(
                from + (to - from) * at(0),
                8.0 * at(1) - 4.0,
                10.0 + 0.5 * at(2),
            )
        })
        .collect()
}

/// Views along a wall, named `FIRST.jpg` and on.
pub fn row(first: usize, count: usize) -> Vec<View> {
    (0..count)
        .map(|i| {
            let eye = DVec3::new(i as f64 * 0.4, 0.0, 0.1 * (i % 2) as f64);
            (
                format!("{}.jpg", first + i),
                eye,
                eye + DVec3::new(0.0, 0.0, 10.0),
            )
        })
        .collect()
}

/// A sound model of a wall, seen by photos `0.jpg` and on.
pub fn sound(photos: usize) -> Model {
    model(&row(0, photos), &wall(600, -6.0, 10.0, 1), |view, point| {
        random((view * 1000 + point) as u32) < 0.6
    })
}
