//! Nerfstudio (and instant-ngp) captures: one `transforms.json`.
//!
//! Format: <https://docs.nerf.studio/quickstart/data_conventions.html>.
//!
//! 1. Intrinsics stand at the top or in a frame; a frame's own value wins.
//! 2. `transform_matrix` maps camera to world with OpenGL's axes (x right, y up, z backwards). Ours
//!    look along +z with y down, so its second and third columns change sign; then it is inverted.
//! 3. Points come from the PLY file that `ply_file_path` names: they stand in the same world.

use crate::capture::{Capture, NamedPath, PosedImage, named_path};
use crate::images;
use crate::load::finder::{Finder, Places};
use crate::load::panorama_refused;
use crate::load::places::{outside, place_photos};
use crate::{Camera, Error, Lens, LoadOptions, Pose, Result, bounded, ply};
use glam::{DMat3, DQuat, DVec3};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The note of a file that names no points.
pub(crate) const NO_POINTS: &str = "the capture has no sparse points";

const FORMAT_HINT: &str = "see Nerfstudio's data conventions; `ns-process-data` writes such a file";

/// The numbers that may stand at the top or in a frame.
#[derive(Debug, Clone, Default, Deserialize)]
struct Intrinsics {
    camera_model: Option<String>,
    fl_x: Option<f64>,
    fl_y: Option<f64>,
    camera_angle_x: Option<f64>,
    camera_angle_y: Option<f64>,
    cx: Option<f64>,
    cy: Option<f64>,
    // Some writers give sizes as 1920.0.
    w: Option<f64>,
    h: Option<f64>,
    k1: Option<f64>,
    k2: Option<f64>,
    k3: Option<f64>,
    k4: Option<f64>,
    k5: Option<f64>,
    k6: Option<f64>,
    p1: Option<f64>,
    p2: Option<f64>,
    /// What Nerfstudio has no words for, by COLMAP's: see [`crate::cameras_file`].
    omega: Option<f64>,
    sx1: Option<f64>,
    sy1: Option<f64>,
    k0: Option<f64>,
    p0: Option<f64>,
    s0: Option<f64>,
    s1: Option<f64>,
    s2: Option<f64>,
    s3: Option<f64>,
    is_fisheye: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct JsonFrame {
    file_path: String,
    transform_matrix: Vec<Vec<f64>>,
    mask_path: Option<String>,
    depth_file_path: Option<String>,
    #[serde(flatten)]
    own: Intrinsics,
}

#[derive(Debug, Deserialize)]
struct JsonTransforms {
    frames: Vec<JsonFrame>,
    ply_file_path: Option<String>,
    #[serde(flatten)]
    shared: Intrinsics,
}

/// A parsed `transforms.json`, before any other file is looked at.
#[derive(Debug, Clone)]
pub struct Transforms {
    /// In file order.
    pub frames: Vec<Frame>,
    /// Path of the point cloud relative to the JSON's folder.
    pub ply_file_path: Option<String>,
}

/// One posed photo of a [`Transforms`].
#[derive(Debug, Clone)]
pub struct Frame {
    /// Path of the photo relative to the JSON's folder. Blender's files leave the extension out. Of a path
    /// that leads out of that folder (of another machine, or above it) what follows the root.
    pub file_path: PathBuf,
    leads_out: bool,
    /// Path of its mask, likewise.
    pub mask_path: Option<PathBuf>,
    /// Path of its depth image, likewise.
    pub depth_file_path: Option<PathBuf>,
    /// Its pose, converted to our axes.
    pub camera_from_world: Pose,
    intrinsics: Intrinsics,
}

/// Parses a `transforms.json`. `file` is named in errors.
pub fn parse_transforms(bytes: &[u8], file: &str) -> Result<Transforms> {
    let json: JsonTransforms = serde_json::from_slice(bytes).map_err(|e| {
        Error::input(format!("the transforms file cannot be read: {e}"))
            .at(file)
            .hint(FORMAT_HINT)
    })?;
    if json.frames.is_empty() {
        return Err(Error::input("the transforms file has no frames")
            .at(file)
            .hint(FORMAT_HINT));
    }
    let frames = json
        .frames
        .into_iter()
        .map(|frame| {
            let named = |e: Error| e.at(format!("{file}, frame \"{}\"", frame.file_path));
            let NamedPath { path, leads_out } = named_path(&frame.file_path).map_err(named)?;
            let inner = |path: &Option<String>| {
                let path = path.as_deref().map(named_path).transpose();
                path.map(|path| path.map(|named| named.path)).map_err(named)
            };
            Ok(Frame {
                file_path: path,
                leads_out,
                mask_path: inner(&frame.mask_path)?,
                depth_file_path: inner(&frame.depth_file_path)?,
                camera_from_world: pose(&frame.transform_matrix).map_err(named)?,
                intrinsics: frame.own.or(&json.shared),
            })
        })
        .collect::<Result<_>>()?;
    Ok(Transforms {
        frames,
        ply_file_path: json.ply_file_path,
    })
}

impl Frame {
    /// Its camera, if the file says all of it.
    pub(crate) fn camera(&self) -> Result<Camera> {
        let no_size = || {
            Err(Error::input("the frame has no size").hint("give w and h, at the top or per frame"))
        };
        let (camera, _) = self.intrinsics.camera(self.camera_from_world, no_size)?;
        Ok(camera)
    }
}

impl Intrinsics {
    /// This frame's own values, the shared ones where it has none.
    fn or(self, shared: &Self) -> Self {
        // A focal length must not come from one place and an angle from the other.
        let own_focal = self.fl_x.is_some() || self.camera_angle_x.is_some();
        let focal = if own_focal { &self } else { shared };
        Self {
            fl_x: focal.fl_x,
            fl_y: focal.fl_y,
            camera_angle_x: focal.camera_angle_x,
            camera_angle_y: focal.camera_angle_y,
            camera_model: self.camera_model.or_else(|| shared.camera_model.clone()),
            cx: self.cx.or(shared.cx),
            cy: self.cy.or(shared.cy),
            w: self.w.or(shared.w),
            h: self.h.or(shared.h),
            k1: self.k1.or(shared.k1),
            k2: self.k2.or(shared.k2),
            k3: self.k3.or(shared.k3),
            k4: self.k4.or(shared.k4),
            k5: self.k5.or(shared.k5),
            k6: self.k6.or(shared.k6),
            p1: self.p1.or(shared.p1),
            p2: self.p2.or(shared.p2),
            omega: self.omega.or(shared.omega),
            sx1: self.sx1.or(shared.sx1),
            sy1: self.sy1.or(shared.sy1),
            k0: self.k0.or(shared.k0),
            p0: self.p0.or(shared.p0),
            s0: self.s0.or(shared.s0),
            s1: self.s1.or(shared.s1),
            s2: self.s2.or(shared.s2),
            s3: self.s3.or(shared.s3),
            is_fisheye: self.is_fisheye.or(shared.is_fisheye),
        }
    }

    fn has_size(&self) -> bool {
        self.w.is_some() && self.h.is_some()
    }

    /// The lens and the model's name.
    fn lens(&self) -> Result<(Lens, String)> {
        let k = [self.k1, self.k2, self.k3, self.k4, self.k5, self.k6].map(|k| k.unwrap_or(0.0));
        let [k1, k2, k3, k4, k5, k6] = k;
        let (p1, p2) = (self.p1.unwrap_or(0.0), self.p2.unwrap_or(0.0));
        let default = if self.is_fisheye == Some(true) {
            "OPENCV_FISHEYE"
        } else if k.iter().chain(&[p1, p2]).any(|&c| c != 0.0) {
            "OPENCV"
        } else {
            "PINHOLE"
        };
        let name = self.camera_model.as_deref().unwrap_or(default);
        let lens = match name {
            "PINHOLE" | "SIMPLE_PINHOLE" => Lens::Pinhole,
            "OPENCV_FISHEYE" => Lens::Fisheye([k1, k2, k3, k4]),
            "FULL_OPENCV" => Lens::FullOpenCv([k1, k2, p1, p2, k3, k4, k5, k6]),
            "FOV" => Lens::Fov(self.omega.ok_or_else(|| {
                Error::input("the camera is of model FOV, but has no omega")
                    .hint("give omega in radians, beside camera_model")
            })?),
            "THIN_PRISM_FISHEYE" => {
                let [sx1, sy1] = [self.sx1, self.sy1].map(|k| k.unwrap_or(0.0));
                Lens::ThinPrismFisheye([k1, k2, p1, p2, k3, k4, sx1, sy1])
            }
            "RAD_TAN_THIN_PRISM_FISHEYE" => {
                let prism = [self.s0, self.s1, self.s2, self.s3].map(|k| k.unwrap_or(0.0));
                let [s0, s1, s2, s3] = prism;
                let [k0, p0] = [self.k0, self.p0].map(|k| k.unwrap_or(0.0));
                Lens::RadTanThinPrismFisheye([k0, k1, k2, k3, k4, k5, p0, p1, s0, s1, s2, s3])
            }
            "SIMPLE_RADIAL" | "RADIAL" if [k3, k4, k5, k6, p1, p2].iter().all(|&k| k == 0.0) => {
                Lens::Radial([k1, k2])
            }
            // Nerfstudio's k4 is the coefficient of r^8 here, which no lens of ours has.
            "OPENCV" | "PERSPECTIVE" | "SIMPLE_RADIAL" | "RADIAL"
                if [k4, k5, k6].iter().all(|&k| k == 0.0) =>
            {
                if k3 == 0.0 {
                    Lens::OpenCv([k1, k2, p1, p2])
                } else {
                    Lens::FullOpenCv([k1, k2, p1, p2, k3, 0.0, 0.0, 0.0])
                }
            }
            other => {
                return Err(Error::unsupported(format!(
                    "the camera model {other} with these coefficients is not supported"
                ))
                .hint("undistort the photos first, then use camera_model PINHOLE"));
            }
        };
        Ok((lens, name.to_owned()))
    }

    /// The camera of a photo whose header gives `actual` size, asked for only if the file does not.
    fn camera(
        &self,
        camera_from_world: Pose,
        actual: impl FnOnce() -> Result<(u32, u32)>,
    ) -> Result<(Camera, String)> {
        let (width, height) = match (self.w, self.h) {
            (Some(w), Some(h)) => match (edge(w), edge(h)) {
                (Some(w), Some(h)) => (w, h),
                _ => {
                    return Err(Error::input(format!(
                        "the camera has an impossible size: {w} x {h} pixels"
                    ))
                    .hint(FORMAT_HINT));
                }
            },
            _ => actual()?,
        };
        if let Some(refused) = self.camera_model.as_deref().and_then(panorama_refused) {
            return Err(refused);
        }
        let (w, h) = (f64::from(width), f64::from(height));
        let from_angle = |angle: f64, length: f64| 0.5 * length / (0.5 * angle).tan();
        let Some(fx) = self.fl_x.or(self.camera_angle_x.map(|a| from_angle(a, w))) else {
            return Err(Error::input("the frame has no focal length").hint(
                "give fl_x in pixels or camera_angle_x in radians, at the top or per frame",
            ));
        };
        let fy = self
            .fl_y
            .or(self.camera_angle_y.map(|a| from_angle(a, h)))
            .unwrap_or(fx);
        let (lens, name) = self.lens()?;
        let camera = Camera {
            width,
            height,
            fx,
            fy,
            cx: self.cx.unwrap_or(w / 2.0),
            cy: self.cy.unwrap_or(h / 2.0),
            lens,
            camera_from_world,
        };
        let numbers = [fx, fy, camera.cx, camera.cy];
        if !numbers.iter().all(|v| v.is_finite()) || !lens.is_finite() || fx <= 0.0 || fy <= 0.0 {
            return Err(Error::input(format!(
                "the camera is impossible: focal length {fx} x {fy}, principal point ({}, {})",
                camera.cx, camera.cy
            ))
            .hint("focal lengths must be positive and every number finite"));
        }
        Ok((camera, name))
    }
}

fn edge(length: f64) -> Option<u32> {
    (length.fract() == 0.0 && (1.0..=1_048_576.0).contains(&length)).then_some(length as u32)
}

/// Inverts a camera-to-world matrix with OpenGL's axes.
fn pose(rows: &[Vec<f64>]) -> Result<Pose> {
    let shape = (3..=4).contains(&rows.len()) && rows.iter().all(|row| row.len() == 4);
    if !shape {
        return Err(Error::input("transform_matrix is not 4x4 or 3x4").hint(FORMAT_HINT));
    }
    if !rows.iter().flatten().all(|v| v.is_finite()) {
        return Err(
            Error::input("transform_matrix has a NaN or infinite number").hint(FORMAT_HINT),
        );
    }
    let column = |c: usize| DVec3::new(rows[0][c], rows[1][c], rows[2][c]);
    let axes = [column(0), -column(1), -column(2)];
    // Writers that scaled the world leave the scale in the matrix; a shear is a defect. Numbers
    // too large to square give zero axes, and a determinant of zero.
    let lengths = axes.map(DVec3::length);
    let [a, b, c] = axes.map(DVec3::normalize_or_zero);
    let skew = a.dot(b).abs().max(b.dot(c).abs()).max(c.dot(a).abs());
    let uneven = lengths.iter().any(|l| (l / lengths[0] - 1.0).abs() > 1e-2);
    if lengths[0] < 1e-12 || uneven || skew > 1e-2 || a.cross(b).dot(c) < 0.9 {
        return Err(
            Error::input("transform_matrix is not a rotation and a translation").hint(
                "its first three columns must be perpendicular, right-handed and of one length",
            ),
        );
    }
    let rotation = DQuat::from_mat3(&DMat3::from_cols(a, b, c))
        .conjugate()
        .normalize();
    let camera_from_world = Pose {
        rotation,
        translation: -(rotation * column(3)),
    };
    if !camera_from_world.is_finite() {
        return Err(Error::input("transform_matrix has a number too large").hint(FORMAT_HINT));
    }
    Ok(camera_from_world)
}

/// How many photos the file names, and how many of those are missing.
///
/// # Errors
/// A file that is no transforms file.
pub(crate) fn missing(json: &Path) -> Result<(usize, usize)> {
    let bytes = bounded::read("cannot read it", json, bounded::CAMERAS_BYTES)?;
    let transforms = parse_transforms(&bytes, "")?;
    let root = json.parent().unwrap_or(Path::new(""));
    let mut images = posed_images(&transforms, root);
    place_photos(&mut Finder::default(), root, None, &mut images)?;
    let missing = images.iter().filter(|image| image.existing().is_none());
    Ok((images.len(), missing.count()))
}

/// The longest folder that all of the paths have in common.
fn common_folder(frames: &[Frame]) -> PathBuf {
    let parent = |frame: &Frame| frame.file_path.parent().unwrap_or(Path::new("")).to_owned();
    let mut common = frames.first().map(parent).unwrap_or_default();
    for frame in frames {
        while !frame.file_path.starts_with(&common) {
            common.pop();
        }
    }
    common
}

/// The images of a transforms file in `root`, in its order, with poses but no intrinsics yet.
fn posed_images(transforms: &Transforms, root: &Path) -> Vec<PosedImage> {
    // `images/0.png`, `images/1.png`, ...: the common first folder is the image folder, so that
    // names and `images_2` work as for COLMAP.
    let head = |frame: &Frame| {
        let mut parts = frame.file_path.components();
        let head = parts.next()?;
        parts.next().is_some().then(|| head.as_os_str().to_owned())
    };
    let folder = transforms.frames.first().and_then(head).filter(|first| {
        let mut frames = transforms.frames.iter();
        frames.all(|f| head(f).as_ref() == Some(first))
    });
    // The folders of another machine say nothing here, and are no part of a photo's name.
    let folder = match transforms.frames.iter().all(|frame| frame.leads_out) {
        true => Some(common_folder(&transforms.frames).into_os_string()),
        false => folder,
    };
    let image = |(frame, id): (&Frame, u32)| {
        let file = match &folder {
            Some(folder) => frame.file_path.strip_prefix(folder),
            None => Ok(frame.file_path.as_path()),
        };
        let file = file.unwrap_or(&frame.file_path).to_owned();
        let in_root = |path: &PathBuf| root.join(path);
        PosedImage {
            name: file.to_string_lossy().replace('\\', "/"),
            folder: folder.as_ref().map_or(root.to_owned(), |f| root.join(f)),
            file,
            downscaled: false,
            mask: frame.mask_path.as_ref().map(in_root),
            id,
            depth: frame.depth_file_path.as_ref().map(in_root),
            camera: Camera::pinhole(1, 1, 1.0, frame.camera_from_world),
            source_model: String::new(),
        }
    };
    transforms.frames.iter().zip(0..).map(image).collect()
}

/// Reads one JSON file into a capture whose photos are found, in `chosen` or in the file's folder. Frames
/// that do not say their size need their photo: where it is missing, that is an error, or with
/// `skip_missing` they are left out.
pub(crate) fn open(json: &Path, options: &LoadOptions, chosen: Option<&Path>) -> Result<Capture> {
    let skip_missing = options.skip_missing;
    let root = json.parent().unwrap_or(Path::new(""));
    let label = json.display().to_string();
    let bytes = bounded::read(
        "cannot read the transforms file",
        json,
        bounded::CAMERAS_BYTES,
    )?;
    let transforms = parse_transforms(&bytes, &label)?;
    let mut finder = Finder::default();
    let mut images = posed_images(&transforms, root);
    let notes =
        place_photos(&mut finder, root, chosen, &mut images).map_err(|e| match e.place() {
            Some(_) => e,
            None => e.at(label.clone()),
        })?;
    place_named(&mut finder, root, &mut images)?;
    let lost = images.iter().zip(&transforms.frames);
    let mut lost = lost.filter(|(image, frame)| frame.leads_out && image.existing().is_none());
    if let Some((image, _)) = lost.next().filter(|_| !skip_missing) {
        let e = outside(&image.name);
        return Err(e.at(format!("{label}, frame \"{}\"", image.name)));
    }
    let mut posed = Vec::new();
    let mut skipped = 0;
    for (mut image, frame) in images.into_iter().zip(&transforms.frames) {
        if skip_missing && !frame.intrinsics.has_size() && image.existing().is_none() {
            skipped += 1;
            continue;
        }
        let actual = || images::dimensions(&image.path()?);
        let (camera, model) = frame
            .intrinsics
            .camera(frame.camera_from_world, actual)
            .map_err(|e| match e.place() {
                Some(_) => e,
                None => e.at(format!("{label}, frame \"{}\"", image.name)),
            })?;
        (image.camera, image.source_model) = (camera, model);
        posed.push(image);
    }
    let mut capture = Capture {
        images: posed,
        skipped,
        notes,
        ..Capture::default()
    };
    match &transforms.ply_file_path {
        Some(ply) => {
            let path = points_file(&mut finder, root, ply).map_err(|e| match e.place() {
                Some(_) => e,
                None => e.at(label.clone()),
            })?;
            let (points, aside) = ply::read_all_points(&path)?;
            capture.points = points;
            let named = |note: String| format!("{}: {note}", path.display());
            capture.notes.extend(aside.notes.into_iter().map(named));
        }
        None => capture.notes.push(NO_POINTS.to_owned()),
    }
    Ok(capture)
}

/// Finds the masks and depth images that frames name.
fn place_named(finder: &mut Finder, root: &Path, images: &mut [PosedImage]) -> Result<()> {
    let places = Places {
        first: root.to_owned(),
        others: Vec::new(),
        below: None,
    };
    let fields: [fn(&mut PosedImage) -> &mut Option<PathBuf>; 2] =
        [|image| &mut image.mask, |image| &mut image.depth];
    for field in fields {
        let mut named: Vec<&mut PathBuf> = images
            .iter_mut()
            .filter_map(|i| field(i).as_mut())
            .collect();
        let relative = |path: &&mut PathBuf| path.strip_prefix(root).map(Path::to_owned);
        let files: Vec<PathBuf> = named
            .iter()
            .filter_map(|path| relative(path).ok())
            .collect();
        let found = finder.locate(&places, &files)?;
        for (path, found) in named.iter_mut().zip(found) {
            if let Some(found) = found {
                **path = found.path;
            }
        }
    }
    Ok(())
}

/// The file of points that `ply_file_path` names, or that path if there is none.
fn points_file(finder: &mut Finder, root: &Path, named: &str) -> Result<PathBuf> {
    let NamedPath { path, leads_out } = named_path(named)?;
    let places = Places {
        first: root.to_owned(),
        others: Vec::new(),
        below: Some(root.to_owned()),
    };
    let found = finder.locate(&places, std::slice::from_ref(&path))?;
    match found.into_iter().next().flatten() {
        Some(found) => Ok(found.path),
        None if leads_out => Err(outside(named)),
        None => {
            let there = finder.list(root).files.iter();
            let mut there = there.map(|file| file.to_string_lossy().into_owned());
            let other = there.find(|file| file.to_ascii_lowercase().ends_with(".ply"));
            let path = root.join(path);
            match other {
                None => Ok(path),
                Some(other) => Err(Error::input(format!(
                    "the file of points \"{named}\" is missing: {other} is there"
                ))
                .at_path(&path)
                .hint("correct ply_file_path in the transforms file, or remove it")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opengl_axes_become_ours() {
        // A camera at (1, 2, 3) with OpenGL's identity axes looks along -z with y up.
        let rows = |r: [[f64; 4]; 4]| r.map(|row| row.to_vec()).to_vec();
        let identity = rows([
            [1.0, 0.0, 0.0, 1.0],
            [0.0, 1.0, 0.0, 2.0],
            [0.0, 0.0, 1.0, 3.0],
            [0.0, 0.0, 0.0, 1.0],
        ]);
        let pose = pose(&identity).unwrap();
        assert!(pose.centre().distance(DVec3::new(1.0, 2.0, 3.0)) < 1e-12);
        // Five in front, one to the right, two up: +z, +x, -y.
        let seen = pose.transform(DVec3::new(2.0, 4.0, -2.0));
        assert!(seen.distance(DVec3::new(1.0, -2.0, 5.0)) < 1e-12, "{seen}");
        let mut mirrored = identity.clone();
        mirrored[0][0] = -1.0;
        assert!(super::pose(&mirrored).is_err());
        let mut sheared = identity.clone();
        sheared[0][1] = 0.3;
        assert!(super::pose(&sheared).is_err());
        let mut flat = identity;
        flat[2][2] = 0.0;
        assert!(super::pose(&flat).is_err());
    }

    #[test]
    fn a_frames_own_intrinsics_win() {
        let json = br#"{"w": 640, "h": 480.0, "fl_x": 500, "k1": 0.1, "frames": [
            {"file_path": "images/a.png", "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]},
            {"file_path": "./images/b.png", "camera_angle_x": 1.5707963267948966, "camera_model": "OPENCV_FISHEYE",
             "w": 100, "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,0]]}]}"#;
        let frames = parse_transforms(json, "t").unwrap().frames;
        assert_eq!(frames[1].file_path, Path::new("images/b.png"));
        let camera = |i: usize| {
            frames[i]
                .intrinsics
                .camera(Pose::IDENTITY, || panic!("sizes are given"))
                .unwrap()
        };
        let (a, model) = camera(0);
        assert_eq!((a.fx, a.fy, a.cx, a.cy), (500.0, 500.0, 320.0, 240.0));
        assert_eq!(
            (a.lens, &*model),
            (Lens::OpenCv([0.1, 0.0, 0.0, 0.0]), "OPENCV")
        );
        let (b, _) = camera(1);
        assert!((b.fx - 50.0).abs() < 1e-9 && (b.fy - 50.0).abs() < 1e-9);
        assert_eq!(b.lens, Lens::Fisheye([0.1, 0.0, 0.0, 0.0]));
    }
}
