//! Named cameras as one file, in Nerfstudio's schema of a `transforms.json`. Pose refinement writes this file, and so
//! does a synthetic capture with perturbed poses, for the true cameras.
//!
//! There is one frame per camera with its own `fl_x`, `fl_y`, `cx`, `cy`, `w`, `h` (pixels), its lens, `file_path` (the
//! photo's name) and `transform_matrix` (world from camera, OpenGL's axes). Numbers are written with all digits, and
//! every lens coefficient by its COLMAP name. The schema has no names for `omega` of FOV, `alpha` and `beta` of EUCM,
//! `sx1` and `sy1` of THIN_PRISM_FISHEYE, and `k0`, `p0`, `s0` to `s3` of RAD_TAN_THIN_PRISM_FISHEYE. Other programs
//! may not know those names. Dapple reads them, here and in captures.

use crate::atomic::write_atomically;
use crate::nerfstudio::{Frame as ReadFrame, parse_transforms};
use crate::{Camera, Error, Lens, Pose, Result, bounded};
use glam::{DMat3, DQuat, DVec3};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Serialize)]
struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    ply_file_path: Option<&'a str>,
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

/// Returns world from camera with OpenGL's axes (x right, y up, z backwards), row by row.
fn transform_matrix(pose: &Pose) -> [[f64; 4]; 4] {
    let world_from_camera = pose.rotation_matrix().transpose();
    let axes = world_from_camera * DMat3::from_diagonal(DVec3::new(1.0, -1.0, -1.0));
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

/// Returns the model's name and its named coefficients.
fn lens(lens: &Lens) -> (&'static str, Vec<(&'static str, f64)>) {
    let (model, names) = lens.model();
    let values = lens.coefficients().iter().copied();
    (model, names.iter().copied().zip(values).collect())
}

/// Writes named cameras; the file is replaced completely or not at all.
///
/// # Errors
/// A file that cannot be written.
pub fn write_cameras(path: &Path, cameras: &[(String, Camera)]) -> Result<()> {
    write_transforms(path, cameras, None)
}

/// Writes named cameras as the `transforms.json` of a capture whose sparse points are in the PLY file `points`; the file
/// is replaced completely or not at all.
///
/// # Errors
/// A file that cannot be written.
pub fn write_transforms(
    path: &Path,
    cameras: &[(String, Camera)],
    points: Option<&str>,
) -> Result<()> {
    let file = File {
        ply_file_path: points,
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
/// A file that cannot be read, or has another content.
pub fn read_poses(path: &Path) -> Result<Vec<(String, Pose)>> {
    let named = |frame: &ReadFrame| (name(frame), frame.camera_from_world);
    Ok(frames(path)?.iter().map(named).collect())
}

/// Reads cameras and their names from one of three files:
///
/// - a file of [`write_cameras`],
/// - a `transforms.json` with sizes and focal lengths,
/// - a `cameras.json` of the 3DGS paper's trainer.
///
/// Values are bit-identical to the written ones, except the last bits of a pose, which is stored as a matrix.
///
/// # Errors
/// The errors of [`read_poses`]; a frame without size or focal length, with an unknown lens, or with impossible
/// numbers.
pub fn read_cameras(path: &Path) -> Result<Vec<(String, Camera)>> {
    parse_cameras(&read(path)?, &path.display().to_string())
}

/// Reads the cameras of [`read_cameras`] from a file's bytes; errors name `file`.
///
/// # Errors
/// The errors of [`read_cameras`].
pub fn parse_cameras(bytes: &[u8], file: &str) -> Result<Vec<(String, Camera)>> {
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return parse_paper_cameras(bytes, file);
    }
    let named = |frame: &ReadFrame| {
        let name = name(frame);
        let place = || format!("{file}, frame \"{name}\"");
        let camera = frame.camera().map_err(|error| error.at(place()))?;
        Ok((name, camera))
    };
    let frames = parse_transforms(bytes, file)?.frames;
    frames.iter().map(named).collect()
}

/// A camera of the 3DGS paper's trainer: position, and world from camera in Dapple's axes, row by row.
#[derive(Deserialize)]
struct PaperCamera {
    img_name: String,
    width: u32,
    height: u32,
    fx: f64,
    fy: f64,
    position: [f64; 3],
    rotation: [[f64; 3]; 3],
}

fn parse_paper_cameras(bytes: &[u8], file: &str) -> Result<Vec<(String, Camera)>> {
    let cameras: Vec<PaperCamera> = serde_json::from_slice(bytes).map_err(|e| {
        Error::input(format!("the cameras cannot be read: {e}"))
            .at(file)
            .hint("use a cameras.json of the 3DGS paper's trainer or of Dapple")
    })?;
    if cameras.is_empty() {
        return Err(Error::input("the file has no cameras")
            .at(file)
            .hint("name another file"));
    }
    let named = |camera: PaperCamera| {
        let [x, y, z] = camera.rotation.map(DVec3::from);
        let camera_from_world = DMat3::from_cols(x, y, z);
        let off =
            (camera_from_world * camera_from_world.transpose() - DMat3::IDENTITY).to_cols_array();
        let is_rotation =
            off.iter().all(|v| v.abs() < 1e-2) && camera_from_world.determinant() > 0.9;
        let centre = DVec3::from(camera.position);
        let sound = is_rotation
            && centre.is_finite()
            && [camera.fx, camera.fy]
                .iter()
                .all(|f| f.is_finite() && *f > 0.0)
            && camera.width > 0
            && camera.height > 0;
        if !sound {
            return Err(Error::input("the camera is impossible")
                .at(format!("{file}, camera \"{}\"", camera.img_name))
                .hint("its rotation must be one, focal lengths positive and numbers finite"));
        }
        let rotation = DQuat::from_mat3(&camera_from_world).normalize();
        let pose = Pose {
            rotation,
            translation: -(rotation * centre),
        };
        let centred = Camera::pinhole(camera.width, camera.height, camera.fx, pose);
        Ok((
            camera.img_name,
            Camera {
                fy: camera.fy,
                ..centred
            },
        ))
    };
    cameras.into_iter().map(named).collect()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    bounded::read("cannot read the cameras", path, bounded::CAMERAS_BYTES)
}

fn frames(path: &Path) -> Result<Vec<ReadFrame>> {
    Ok(parse_transforms(&read(path)?, &path.display().to_string())?.frames)
}

fn name(frame: &ReadFrame) -> String {
    frame.file_path.to_string_lossy().replace('\\', "/")
}
