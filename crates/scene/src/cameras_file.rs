//! Named cameras as one file, in Nerfstudio's schema of a `transforms.json`: what pose refinement
//! leaves, and the truth of a synthetic capture whose poses were perturbed.
//!
//! One frame a camera with its own `fl_x`, `fl_y`, `cx`, `cy`, `w`, `h` (pixels), its lens, `file_path` (the
//! photo's name) and `transform_matrix` (world from camera, OpenGL's axes). Numbers are written with
//! all their digits.

use crate::atomic::write_atomically;
use crate::nerfstudio::parse_transforms;
use crate::{Camera, Error, Lens, Pose, Result};
use glam::DMat3;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Serialize)]
struct File<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    file_path: &'a str,
    fl_x: f64,
    fl_y: f64,
    cx: f64,
    cy: f64,
    w: u32,
    h: u32,
    camera_model: &'static str,
    #[serde(flatten)]
    coefficients: BTreeMap<&'static str, f64>,
    transform_matrix: [[f64; 4]; 4],
}

/// World from camera with OpenGL's axes (x right, y up, z backwards), row by row.
fn transform_matrix(pose: &Pose) -> [[f64; 4]; 4] {
    let world_from_camera = pose.rotation_matrix().transpose();
    let axes = world_from_camera * DMat3::from_diagonal(glam::DVec3::new(1.0, -1.0, -1.0));
    let centre = pose.centre();
    let row = |i: usize| {
        let [x, y, z] = axes.row(i).to_array();
        [x, y, z, centre[i]]
    };
    [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]]
}

fn frame((name, camera): &(String, Camera)) -> Frame<'_> {
    let (camera_model, named) = lens(&camera.lens);
    Frame {
        file_path: name,
        fl_x: camera.fx,
        fl_y: camera.fy,
        cx: camera.cx,
        cy: camera.cy,
        w: camera.width,
        h: camera.height,
        camera_model,
        coefficients: named.into_iter().collect(),
        transform_matrix: transform_matrix(&camera.camera_from_world),
    }
}

/// The model's name and its coefficients, by theirs.
fn lens(lens: &Lens) -> (&'static str, Vec<(&'static str, f64)>) {
    let named = |names: &'static [&'static str], values: &[f64]| {
        let pairs = names.iter().copied().zip(values.iter().copied());
        pairs.collect::<Vec<_>>()
    };
    match lens {
        Lens::Pinhole => ("PINHOLE", Vec::new()),
        Lens::Radial(k) => ("OPENCV", named(&["k1", "k2"], k)),
        Lens::OpenCv(k) => ("OPENCV", named(&["k1", "k2", "p1", "p2"], k)),
        Lens::FullOpenCv(k) => {
            let names = &["k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6"];
            ("FULL_OPENCV", named(names, k))
        }
        Lens::Fisheye(k) => ("OPENCV_FISHEYE", named(&["k1", "k2", "k3", "k4"], k)),
        // The schema has no words for their coefficients: those of the capture hold.
        Lens::Fov(_) => ("FOV", Vec::new()),
        Lens::ThinPrismFisheye(_) => ("THIN_PRISM_FISHEYE", Vec::new()),
        Lens::RadTanThinPrismFisheye(_) => ("RAD_TAN_THIN_PRISM_FISHEYE", Vec::new()),
    }
}

/// Writes named cameras, whole or not at all. Models that Nerfstudio's schema does not know are named
/// without their coefficients.
///
/// # Errors
/// What cannot be written.
pub fn write_cameras(path: &Path, cameras: &[(String, Camera)]) -> Result<()> {
    let file = File {
        frames: cameras.iter().map(frame).collect(),
    };
    write_atomically(path, |out| {
        serde_json::to_writer_pretty(&mut *out, &file)?;
        out.write_all(b"\n")
    })
}

/// Reads the poses of [`write_cameras`], or of any `transforms.json`, by name.
///
/// # Errors
/// A file that cannot be read, or is not one of these.
pub fn read_poses(path: &Path) -> Result<Vec<(String, Pose)>> {
    let bytes = std::fs::read(path).map_err(|e| Error::io("cannot read the cameras", path, e))?;
    let transforms = parse_transforms(&bytes, &path.display().to_string())?;
    let named = |frame: crate::nerfstudio::Frame| {
        let name = frame.file_path.to_string_lossy().replace('\\', "/");
        (name, frame.camera_from_world)
    };
    Ok(transforms.frames.into_iter().map(named).collect())
}
