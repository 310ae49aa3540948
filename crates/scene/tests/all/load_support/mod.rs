//! Small captures made by hand, and access to the real ones.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// Writer of COLMAP's binary records.
#[derive(Default, Clone)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn count(n: u64) -> Self {
        Self(n.to_le_bytes().to_vec())
    }

    pub fn u32(mut self, v: u32) -> Self {
        self.0.extend(v.to_le_bytes());
        self
    }

    pub fn u64(mut self, v: u64) -> Self {
        self.0.extend(v.to_le_bytes());
        self
    }

    pub fn f64s(mut self, values: &[f64]) -> Self {
        for v in values {
            self.0.extend(v.to_le_bytes());
        }
        self
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }
}

/// id, quaternion, translation, camera, name
pub type ImageRecord = (u32, [f64; 4], [f64; 3], u32, String);

/// A COLMAP capture in memory; change it, then write it.
#[derive(Clone)]
pub struct Tiny {
    /// id, model number, width, height, parameters
    pub cameras: Vec<(u32, u32, u64, u64, Vec<f64>)>,
    pub images: Vec<ImageRecord>,
    pub points: Vec<[f64; 3]>,
    /// Photos written to `images/`: name, width, height.
    pub photos: Vec<(String, u32, u32)>,
}

impl Default for Tiny {
    /// Builds three photos of 20x15 with one PINHOLE camera, records out of order, one in a subfolder.
    fn default() -> Self {
        let names = ["c.png", "a.png", "sub/b.png"];
        let q = [0.8f64, 0.0, 0.6, 0.0];
        Self {
            cameras: vec![(7, 1, 20, 15, vec![18.0, 19.0, 10.5, 7.0])],
            images: names
                .iter()
                .enumerate()
                .map(|(i, name)| (10 + i as u32, q, [i as f64, 0.5, 2.0], 7, name.to_string()))
                .collect(),
            points: vec![[1.0, 2.0, 3.0], [-1.0, 0.25, 4.0]],
            photos: names.iter().map(|n| (n.to_string(), 20, 15)).collect(),
        }
    }
}

impl Tiny {
    pub fn cameras_bin(&self) -> Vec<u8> {
        let mut out = Bytes::count(self.cameras.len() as u64);
        for (id, model, w, h, params) in &self.cameras {
            out = out.u32(*id).u32(*model).u64(*w).u64(*h).f64s(params);
        }
        out.0
    }

    pub fn images_bin(&self) -> Vec<u8> {
        let mut out = Bytes::count(self.images.len() as u64);
        for (id, q, t, camera, name) in &self.images {
            out = out.u32(*id).f64s(q).f64s(t).u32(*camera);
            out = out.raw(name.as_bytes()).raw(&[0]).u64(2);
            out = out.f64s(&[1.5, 2.5]).u64(1).f64s(&[3.0, 4.0]).u64(u64::MAX);
        }
        out.0
    }

    pub fn points_bin(&self) -> Vec<u8> {
        let mut out = Bytes::count(self.points.len() as u64);
        for (i, position) in self.points.iter().enumerate() {
            out = out.u64(i as u64 + 1).f64s(position).raw(&[10, 20, 30]);
            out = out.f64s(&[0.5]).u64(2).u32(10).u32(0).u32(11).u32(1);
        }
        out.0
    }

    pub fn write_model(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("cameras.bin"), self.cameras_bin()).unwrap();
        fs::write(folder.join("images.bin"), self.images_bin()).unwrap();
        fs::write(folder.join("points3D.bin"), self.points_bin()).unwrap();
    }

    /// Writes `sparse/0` and `images`.
    pub fn write(&self, root: &Path) {
        self.write_model(&root.join("sparse/0"));
        for (name, width, height) in &self.photos {
            write_png(&root.join("images").join(name), *width, *height);
        }
    }
}

/// Writes a gradient: red along x, green along y, blue 77.
pub fn write_png(path: &Path, width: u32, height: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    image::RgbImage::from_fn(width, height, |x, y| {
        image::Rgb([(x * 255 / width) as u8, (y * 255 / height) as u8, 77])
    })
    .save(path)
    .unwrap();
}

/// Returns the folder of a real capture, or prints that the test is skipped.
pub fn data(capture: &str) -> Option<PathBuf> {
    dapple_scene::test_requirements::capture(env!("CARGO_MANIFEST_DIR"), capture)
}
