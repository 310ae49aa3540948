//! Stage: title, cameras and abilities of the shown scene, as sent to pages.

use dapple_scene::undistort::pinhole_camera;
use dapple_scene::{Camera, PhotoSource};
use serde::Serialize;
use std::sync::Arc;

/// Camera of the capture, with its photo if there is one.
#[derive(Debug, Clone)]
pub struct CameraEntry {
    /// Name of the photo.
    pub name: String,
    /// Camera of the photo.
    pub camera: Camera,
    /// Pixels of the photo, or their file.
    pub photo: Option<PhotoSource>,
    /// True if the photo is held out of training.
    pub held_out: bool,
    /// PSNR of the photo, dB, if it was scored.
    pub psnr: Option<f64>,
}

/// Part of a run that was trained on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Steps done before the part.
    pub after: u32,
    /// Last step of the part, as planned while it runs.
    pub steps: u32,
    /// Mean PSNR of the held-out photos at its end, dB; `None` if they were not scored there.
    pub psnr: Option<f64>,
    /// Mean SSIM of the held-out photos at its end.
    pub ssim: Option<f64>,
    /// Differences from the part before, for the user: settings and photos.
    pub changes: Vec<String>,
}

/// Curves of a run before the page opened: pairs of step and value, ascending.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Curves {
    /// Loss.
    pub loss: Vec<(u32, f64)>,
    /// Mean PSNR of the held-out photos, dB.
    pub psnr: Vec<(u32, f64)>,
    /// Number of Gaussians.
    pub gaussians: Vec<(u32, f64)>,
}

/// Title, cameras and abilities of the shown scene.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The page's title: the name of the run or file.
    pub title: String,
    /// Present number of Gaussians.
    pub gaussians: u64,
    /// Engine and its device.
    pub device: String,
    /// Up direction of the world, unit length.
    pub up: [f64; 3],
    /// First point to turn around, world units.
    pub centre: [f64; 3],
    /// Distance of the first camera from `centre`, world units.
    pub distance: f64,
    /// Cameras of the photos, sorted by name.
    pub cameras: Vec<CameraEntry>,
    /// True if there is a run that can be paused.
    pub trains: bool,
    /// Settings of the run, for the user; empty for splats without a run.
    pub settings: String,
    /// Names of two compared models; empty if there is one.
    pub models: Vec<String>,
    /// Steps of the run with a snapshot, ascending.
    pub snapshots: Vec<u32>,
    /// Last step of the run; 0 for splats without a run.
    pub steps: u32,
    /// Parts of the run, if it was trained on; otherwise empty.
    pub parts: Vec<Part>,
    /// Outline of the region of interest as polylines, world units; empty without a region.
    pub outline: Vec<Vec<[f64; 3]>>,
    /// Lines on what the present part does, as the command prints them.
    pub plan: Vec<String>,
    /// Curves of the run up to here.
    pub curves: Curves,
    /// Whether pages may edit the splats ([`crate::edit`]), or why not.
    pub edits: Result<(), String>,
    /// Whether pages may draw the splats by themselves ([`crate::Viewer::answer_drawn`]), or why not.
    pub draws: Result<(), String>,
    /// Mesh to show with the splats ([`crate::mesh::encode`]), if there is one.
    pub mesh: Option<Arc<[u8]>>,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            title: String::new(),
            gaussians: 0,
            device: String::new(),
            up: [0.0, -1.0, 0.0],
            centre: [0.0; 3],
            distance: 4.0,
            cameras: Vec::new(),
            trains: false,
            settings: String::new(),
            models: Vec::new(),
            snapshots: Vec::new(),
            steps: 0,
            parts: Vec::new(),
            outline: Vec::new(),
            plan: Vec::new(),
            curves: Curves::default(),
            edits: Err("what is shown here cannot be edited".to_owned()),
            draws: Err("what is shown here is drawn by its engine alone".to_owned()),
            mesh: None,
        }
    }
}

/// Progress of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// Steps done.
    pub step: u32,
    /// Steps in all.
    pub steps: u32,
    /// Smoothed loss.
    pub loss: f64,
    /// Mean PSNR of the held-out photos, dB, when last scored.
    pub psnr: Option<f64>,
    /// Gaussians.
    pub gaussians: u64,
    /// Steps a second.
    pub steps_per_second: f64,
    /// Seconds since the program began to train, pauses included.
    pub elapsed_seconds: f64,
    /// Estimated seconds to the last step; `None` before the first step.
    pub eta_seconds: Option<f64>,
    /// Memory of this process, bytes; `None` if the system does not report it.
    pub memory_bytes: Option<u64>,
    /// True while the run is paused.
    pub paused: bool,
    /// Note for the user: how the run ended, or what failed.
    pub note: Option<String>,
    /// Suggested number of further steps while the run waits after its end for a page to train it on.
    pub train_on: Option<u32>,
}

/// Stage as sent to pages.
#[derive(Serialize)]
pub(crate) struct Told<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'a str,
    gaussians: u64,
    device: &'a str,
    up: [f64; 3],
    centre: [f64; 3],
    distance: f64,
    trains: bool,
    settings: &'a str,
    models: &'a [String],
    snapshots: &'a [u32],
    steps: u32,
    parts: &'a [Part],
    outline: &'a [Vec<[f64; 3]>],
    plan: &'a [String],
    curves: &'a Curves,
    edits: bool,
    no_edits: &'a str,
    draws: bool,
    no_draws: &'a str,
    mesh: bool,
    /// See [`dapple_engine::score::FULL_ERROR`].
    full_error: f32,
    cameras: Vec<ToldCamera<'a>>,
}

#[derive(Serialize)]
struct ToldCamera<'a> {
    name: &'a str,
    width: u32,
    height: u32,
    position: [f64; 3],
    rotation: [f64; 4],
    focal: f64,
    /// Focal lengths and principal point, pixels; none if the lens distorts, since the page projects by pinholes.
    pinhole: Option<[f64; 4]>,
    photo: bool,
    held_out: bool,
    psnr: Option<f64>,
}

impl Stage {
    pub(crate) fn told(&self) -> Told<'_> {
        let cameras = self.cameras.iter().map(|entry| {
            let camera = &entry.camera;
            let q = camera.camera_from_world.rotation;
            // The page's own camera is a pinhole: at a panorama it shows the front.
            let front = (!camera.lens.is_perspective()).then(|| pinhole_camera(camera));
            let flat = front.as_ref().unwrap_or(camera);
            ToldCamera {
                name: &entry.name,
                width: camera.width,
                height: camera.height,
                position: camera.camera_from_world.centre().into(),
                rotation: [q.w, q.x, q.y, q.z],
                focal: flat.fy / f64::from(flat.height),
                pinhole: camera
                    .lens
                    .is_identity()
                    .then_some([camera.fx, camera.fy, camera.cx, camera.cy]),
                photo: entry.photo.is_some(),
                held_out: entry.held_out,
                psnr: entry.psnr,
            }
        });
        Told {
            kind: "stage",
            title: &self.title,
            gaussians: self.gaussians,
            device: &self.device,
            up: self.up,
            centre: self.centre,
            distance: self.distance,
            trains: self.trains,
            settings: &self.settings,
            models: &self.models,
            snapshots: &self.snapshots,
            steps: self.steps,
            parts: &self.parts,
            outline: &self.outline,
            plan: &self.plan,
            curves: &self.curves,
            edits: self.edits.is_ok(),
            no_edits: self.edits.as_ref().err().map_or("", String::as_str),
            draws: self.draws.is_ok(),
            mesh: self.mesh.is_some(),
            no_draws: self.draws.as_ref().err().map_or("", String::as_str),
            full_error: dapple_engine::score::FULL_ERROR,
            cameras: cameras.collect(),
        }
    }

    /// Creates a stage with a title and default values.
    pub fn titled(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }
}
