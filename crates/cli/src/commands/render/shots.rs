//! Cameras of renders: views of a capture, a camera file, or a path around the scene.

use super::Args;
use crate::camera_paths::{self, CameraOrbit, CameraPath, Seen};
use crate::cameras;
use crate::console::Console;
use crate::known_capture;
use clap::ValueEnum;
use dapple::glam::DVec3;
use dapple::scene::edit::Similarity;
use dapple::scene::origin::Frame;
use dapple::scene::undistort::pinhole_camera;
use dapple::scene::{Camera, Capture, Error, Result, Splats, load, without_far_off};
use dapple::train::{RenderNames, TrainConfig};
use std::path::Path;

/// Camera and the name of its picture.
pub(super) type Shot = (String, Camera);

/// Returns the cameras of the options, except for paths; `frame` as in [`count_from`].
pub(super) fn shots(
    (args, splats): (&Args, &Path),
    config: &TrainConfig,
    frame: &mut Frame,
    console: &Console,
) -> Result<Vec<Shot>> {
    if let Some(file) = &args.camera {
        let camera = cameras::read(file)?.about(frame.origin);
        return Ok(vec![("camera.png".to_owned(), camera)]);
    }
    let Some(wanted) = &args.views else {
        return Err(Error::internal("the parser let a missing --views pass"));
    };
    let scene = match &args.scene {
        Some(scene) => scene.clone(),
        None => known_capture::needed(splats, console)?,
    };
    let scene = &scene;
    let capture = load::open(scene, &config.load_options())?;
    args.refuse_inputs(scene, &capture, &config.load_options())?;
    let indices = chosen(&capture, wanted, config).map_err(|e| e.at_path(scene))?;
    let counted = capture.origin;
    count_from(frame, counted);
    let mut shots = views_of(capture, &indices, config, console)?;
    for (_, camera) in &mut shots {
        *camera = frame.camera(camera, counted);
    }
    Ok(shots)
}

/// Changes the origin of splats without one, and without motion, to the capture's: far from zero, renders lose
/// precision.
fn count_from(frame: &mut Frame, capture: DVec3) {
    if frame.origin == DVec3::ZERO && frame.moved == Similarity::IDENTITY {
        frame.origin = capture;
    }
}

/// Returns the poses of the photos, from --capture or from the files next to the splats; `frame` as in [`count_from`].
pub(super) fn seen(
    args: &Args,
    splats: &Path,
    up: Option<DVec3>,
    config: &TrainConfig,
    frame: &mut Frame,
    console: &Console,
) -> Result<Option<Seen>> {
    let (cameras, like, counted) = match &args.scene {
        Some(scene) => {
            let capture = load::open(scene, &config.load_options())?;
            args.refuse_inputs(scene, &capture, &config.load_options())?;
            let cameras: Vec<Camera> = capture.images.iter().map(|image| image.camera).collect();
            let counted = capture.origin;
            count_from(frame, counted);
            // As large as its photo.
            let first = views_of(capture, &[0], config, console)?;
            (cameras, first.first().map(|(_, camera)| *camera), counted)
        }
        None => {
            let found = cameras::beside(splats).unwrap_or_else(|error| {
                console.note(&format!(
                    "note: the cameras next to the splats are not used: {error}"
                ));
                None
            });
            let Some((file, cameras)) = found else {
                return Ok(None);
            };
            console.detail(&format!("cameras: those of {}", file.display()));
            let first = cameras.first().copied();
            (cameras, first, DVec3::ZERO)
        }
    };
    let poses = cameras
        .iter()
        .map(|camera| frame.camera(camera, counted).camera_from_world);
    Ok(like.map(|like| Seen {
        poses: without_far_off(poses.collect()),
        like: pinhole_camera(&like),
        up,
    }))
}

/// Returns the cameras of a path, and prints the chosen path and its assumptions.
pub(super) fn frames(
    path: CameraPath,
    seen: Option<Seen>,
    count: u32,
    splats: &Splats,
    up: Option<DVec3>,
    console: &Console,
) -> Result<Vec<Shot>> {
    let cameras = match &seen {
        Some(seen) => {
            let ring = CameraOrbit::of_poses(seen);
            let mut path = path;
            if path == CameraPath::Auto {
                let (chosen, why) = camera_paths::choose(seen, &ring);
                let name = chosen.to_possible_value().map(|v| v.get_name().to_owned());
                console.note(&format!("path: {}, since {why}", name.unwrap_or_default()));
                path = chosen;
            }
            match path {
                CameraPath::Arc => ring.arc(count),
                CameraPath::Capture => camera_paths::through(seen, count),
                CameraPath::Orbit | CameraPath::Auto => ring.orbit(count),
            }
        }
        None if matches!(path, CameraPath::Arc | CameraPath::Capture) => {
            return Err(Error::input("the poses of the photos are not known")
                .at("--path")
                .hint("name the capture with --capture; Dapple writes a cameras.json next to trained splats"));
        }
        None => {
            if path == CameraPath::Auto {
                console.note("path: orbit, since the poses of the photos are not known");
            }
            if up.is_none() {
                console.note(
                    "note: the up direction is not known, so -y is used, as in COLMAP (--up sets \
                     another)",
                );
            }
            CameraOrbit::of_splats(splats, up.unwrap_or(DVec3::NEG_Y))?.orbit(count)
        }
    };
    Ok(numbered(cameras))
}

/// Returns the pictures of a path, named by number.
pub(super) fn numbered(cameras: Vec<Camera>) -> Vec<Shot> {
    let cameras = cameras.into_iter().enumerate();
    cameras
        .map(|(i, camera)| (format!("{i:05}.png"), camera))
        .collect()
}

/// Returns the views that `wanted` names: indices into the capture's images, ascending.
fn chosen(capture: &Capture, wanted: &str, config: &TrainConfig) -> Result<Vec<usize>> {
    let images = &capture.images;
    let split = config.data.split(capture);
    let indices: Vec<usize> = match wanted {
        "all" => (0..images.len()).collect(),
        "train" => split.train,
        "held-out" => split.eval,
        name => images
            .iter()
            .position(|i| i.name == name)
            .into_iter()
            .collect(),
    };
    if indices.is_empty() {
        let first = images.first().map_or("", |image| image.name.as_str());
        return Err(
            Error::input(format!("the capture has no views \"{wanted}\"")).hint(format!(
                "choose held-out, train, all, or the name of a photo, such as \"{first}\""
            )),
        );
    }
    Ok(indices)
}

/// Returns the cameras of these views as in training: reduced, and undistorted with --undistort. Decodes the photos
/// for their size.
fn views_of(
    mut capture: Capture,
    indices: &[usize],
    config: &TrainConfig,
    console: &Console,
) -> Result<Vec<Shot>> {
    let mut index = 0..;
    capture.images.retain(|_| {
        index
            .next()
            .is_some_and(|i| indices.binary_search(&i).is_ok())
    });
    let dataset = load::decode(capture, &config.load_options(), &console.progress())?;
    let mut names = RenderNames::default();
    let views = dataset.views.iter();
    Ok(views
        .map(|view| (names.name(&view.name), view.camera))
        .collect())
}
