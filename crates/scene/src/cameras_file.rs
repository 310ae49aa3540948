//! Named cameras as one file, in Nerfstudio's schema of a `transforms.json`: what pose refinement
//! leaves, and the truth of a synthetic capture whose poses were perturbed.
//!
//! One frame a camera with its own `fl_x`, `fl_y`, `cx`, `cy`, `w`, `h` (pixels), its lens, `file_path` (the
//! photo's name) and `transform_matrix` (world from camera, OpenGL's axes). Numbers are written with
//! all their digits, every coefficient of a lens by its name in COLMAP: the schema has no words for
//! `omega` of FOV, `sx1` and `sy1` of THIN_PRISM_FISHEYE, and `k0`, `p0`, `s0` to `s3` of
//! RAD_TAN_THIN_PRISM_FISHEYE, so other programs may not know those; Dapple reads them back, here and in
//! captures.

use crate::atomic::write_atomically;
use crate::nerfstudio::{Frame as ReadFrame, parse_transforms};
use crate::{Camera, Lens, Pose, Result, bounded};
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
    let (model, names): (_, &[&str]) = match lens {
        Lens::Pinhole => ("PINHOLE", &[]),
        Lens::Radial(_) => ("RADIAL", &["k1", "k2"]),
        Lens::OpenCv(_) => ("OPENCV", &["k1", "k2", "p1", "p2"]),
        Lens::FullOpenCv(_) => (
            "FULL_OPENCV",
            &["k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6"],
        ),
        Lens::Fov(_) => ("FOV", &["omega"]),
        Lens::Fisheye(_) => ("OPENCV_FISHEYE", &["k1", "k2", "k3", "k4"]),
        Lens::ThinPrismFisheye(_) => (
            "THIN_PRISM_FISHEYE",
            &["k1", "k2", "p1", "p2", "k3", "k4", "sx1", "sy1"],
        ),
        Lens::RadTanThinPrismFisheye(_) => (
            "RAD_TAN_THIN_PRISM_FISHEYE",
            &[
                "k0", "k1", "k2", "k3", "k4", "k5", "p0", "p1", "s0", "s1", "s2", "s3",
            ],
        ),
    };
    let values = lens.coefficients().iter().copied();
    (model, names.iter().copied().zip(values).collect())
}

/// Writes named cameras, whole or not at all.
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
    let named = |frame: &ReadFrame| (name(frame), frame.camera_from_world);
    Ok(frames(path)?.iter().map(named).collect())
}

/// Reads the cameras of [`write_cameras`], or of a `transforms.json` that says sizes and focal
/// lengths, by name. They have every bit that was written, but for a pose's last ones: it was a
/// matrix meanwhile.
///
/// # Errors
/// As [`read_poses`]; a frame without size or focal length, with a lens that is not known, or with
/// impossible numbers.
pub fn read_cameras(path: &Path) -> Result<Vec<(String, Camera)>> {
    let named = |frame: &ReadFrame| {
        let name = name(frame);
        let place = || format!("{}, frame \"{name}\"", path.display());
        let camera = frame.camera().map_err(|error| error.at(place()))?;
        Ok((name, camera))
    };
    frames(path)?.iter().map(named).collect()
}

fn frames(path: &Path) -> Result<Vec<ReadFrame>> {
    let bytes = bounded::read("cannot read the cameras", path, bounded::CAMERAS_BYTES)?;
    Ok(parse_transforms(&bytes, &path.display().to_string())?.frames)
}

fn name(frame: &ReadFrame) -> String {
    frame.file_path.to_string_lossy().replace('\\', "/")
}
