//! What `dapple view`, and trainings that are watched, share: where the viewer listens, and what it has to show.

use crate::camera_paths::{Ring, Seen};
use crate::console::Console;
use dapple::contract::RenderSettings;
use dapple::scene::edit::Similarity;
use dapple::scene::undistort::pinhole_camera;
use dapple::scene::{Camera, Dataset, Error, Result, Splats, without_far_off};
use dapple::train::TrainConfig;
use dapple::train::evaluate::ImageScore;
use dapple_viewer::export::PageOptions;
use dapple_viewer::{CameraEntry, Stage, Viewer, ViewerOptions};
use glam::DVec3;
use std::net::IpAddr;

/// Where the viewer listens.
#[derive(Debug, Clone, clap::Args)]
pub struct ListenOptions {
    /// Address to listen on [default: 127.0.0.1, this machine alone]. Any other lets the network in:
    /// whoever has the printed address sees, and may pause, the run
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<IpAddr>,

    /// Port to listen on [default: 7410, or where that is taken any that is free]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

/// Whether a run is shown while it goes on.
#[derive(Debug, Clone, clap::Args)]
pub struct ViewOptions {
    /// Show the run in a browser while it goes on; prints the address to open. Not a bit of the result changes
    #[arg(long)]
    pub view: bool,

    /// The most of the run's time that pictures for the browser take, 0.01 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, requires = "view")]
    pub view_share: f64,

    /// Address that --view listens on [default: 127.0.0.1, this machine alone]
    #[arg(long, value_name = "ADDRESS", requires = "view")]
    pub host: Option<IpAddr>,

    /// Port that --view listens on [default: 7410, or where that is taken any that is free]
    #[arg(long, value_name = "PORT", requires = "view")]
    pub port: Option<u16>,

    /// Keep the splats of N moments, spread over the run, as OUT/snapshots/STEP.ply: `dapple view OUT` goes
    /// through them [default: 12 with --view, else 0]. Above 4 GiB in all every second one is dropped
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=MOST_SNAPSHOTS))]
    pub snapshots: Option<u32>,
}

/// The most snapshots of a run, and how many one has that is looked at.
const MOST_SNAPSHOTS: i64 = 1000;
const SNAPSHOTS: u32 = 12;

impl ViewOptions {
    /// How many snapshots a run keeps; where nothing is said, as many as it has kept so far.
    pub fn snapshots(&self, before: Option<u32>) -> u32 {
        let default = if self.view { SNAPSHOTS } else { 0 };
        self.snapshots.or(before).unwrap_or(default)
    }

    /// Begins to serve, where it is wanted.
    ///
    /// # Errors
    /// A share that is none; a port that is taken.
    pub fn start(&self, console: &Console) -> Result<Option<Viewer>> {
        if !self.view {
            return Ok(None);
        }
        if !(0.01..=1.0).contains(&self.view_share) {
            return Err(Error::input(format!("--view-share {} is no share", self.view_share))
                .at("the options given")
                .hint("give a number between 0.01 and 1; 0.2 leaves four fifths of the time to training"));
        }
        let listen = ListenOptions {
            host: self.host,
            port: self.port,
        };
        listen.start(console).map(Some)
    }
}

impl ListenOptions {
    /// Begins to serve, and says where.
    pub fn start(&self, console: &Console) -> Result<Viewer> {
        let default = ViewerOptions::default();
        let viewer = Viewer::start(&ViewerOptions {
            host: self.host.unwrap_or(default.host),
            port: self.port,
            ..default
        })?;
        let port = viewer.address().port();
        console.always(&format!("viewer: open {}", viewer.url()));
        if viewer.address().ip().is_loopback() {
            console.note(&format!(
                "on another machine: `ssh -L {port}:127.0.0.1:{port} THIS-MACHINE` there, then the same address"
            ));
        } else {
            console
                .note("note: the address is not encrypted, and whoever has it may look and steer");
        }
        Ok(viewer)
    }
}

/// Where a first look stands, and which way is up.
#[derive(Debug, Clone, Copy)]
pub struct Stance {
    up: DVec3,
    centre: DVec3,
    distance: f64,
}

impl Stance {
    /// As the cameras of a capture suggest.
    pub fn of_cameras(cameras: &[Camera], up: Option<DVec3>) -> Option<Self> {
        let like = pinhole_camera(cameras.first()?);
        let poses = cameras
            .iter()
            .map(|camera| camera.camera_from_world)
            .collect();
        let poses = without_far_off(poses);
        Some(Self::of_ring(&Ring::of_poses(&Seen { poses, like, up })))
    }

    /// As splats of which nothing else is known suggest: 98 % of the opacity along each axis, without background
    /// far off, fill the picture.
    ///
    /// # Errors
    /// There are no splats.
    pub fn of_splats(splats: &Splats, up: Option<DVec3>) -> Result<Self> {
        let ring = Ring::of_splats(splats, up.unwrap_or(DVec3::NEG_Y))?;
        let step = splats.len().div_ceil(FRAMED).max(1);
        let solid: Vec<(DVec3, f64)> = (0..splats.len())
            .step_by(step)
            .map(|i| {
                let opacity = 1.0 / (1.0 + (-f64::from(splats.opacities[i])).exp());
                (DVec3::from(splats.means[i].map(f64::from)), opacity)
            })
            .filter(|(place, opacity)| place.is_finite() && *opacity > 0.0)
            .collect();
        let along = |k: usize| -> Option<[f64; 2]> {
            let values: Vec<(f64, f64)> = solid.iter().map(|(p, o)| (p[k], *o)).collect();
            let [low, before, middle, after, high] =
                [0.01, 0.25, 0.5, 0.75, 0.99].map(|part| quantile(values.clone(), part));
            let middle = middle?;
            // Background far off is not framed.
            let least = middle - FRAMED_HALVES * (middle - before?);
            let most = middle + FRAMED_HALVES * (after? - middle);
            Some([low?.max(least), high?.min(most)])
        };
        let [Some(x), Some(y), Some(z)] = [0, 1, 2].map(along) else {
            return Ok(Self::of_ring(&ring));
        };
        let corner = |end: usize| DVec3::new(x[end], y[end], z[end]);
        let centre = (corner(0) + corner(1)) / 2.0;
        let radius = (corner(0).distance(corner(1)) / 2.0).max(1e-6);
        Ok(Self {
            centre,
            distance: FRAMED_FROM * radius,
            ..Self::of_ring(&ring)
        })
    }

    /// What is up, what is looked at, and from how far.
    pub fn parts(&self) -> (DVec3, DVec3, f64) {
        (self.up, self.centre, self.distance)
    }

    /// Counts from another origin.
    pub fn count_from(&mut self, origin: DVec3) {
        self.centre -= origin;
    }

    /// Goes along with splats that are moved.
    pub fn go(&mut self, way: &Similarity) {
        self.centre = way.point(self.centre);
        self.up = way.quat() * self.up;
        self.distance *= way.scale;
    }

    fn of_ring(ring: &Ring) -> Self {
        let (centre, up, distance) = ring.stance();
        Self {
            up,
            centre,
            distance,
        }
    }
}

/// Gaussians that a first look is framed by, at most.
const FRAMED: usize = 50_000;

/// From the median a first look frames so many times the way to the quartiles, at most.
const FRAMED_HALVES: f64 = 5.0;

/// Distance, in radii, from which a sphere fills a picture whose focal length is its height.
const FRAMED_FROM: f64 = 2.24;

/// The value below which this part of all weight is; `None` without values.
fn quantile(mut weighted: Vec<(f64, f64)>, part: f64) -> Option<f64> {
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted = part * weighted.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut sum = 0.0;
    let found = weighted.iter().find(|(_, weight)| {
        sum += weight;
        sum >= wanted
    });
    found.or(weighted.last()).map(|(value, _)| *value)
}

/// How splats are rendered to be looked at, by the settings of their run.
pub fn shown_settings(config: &TrainConfig, sh_degree: u8) -> RenderSettings {
    RenderSettings {
        background: config.background.fixed(),
        sh_degree,
        max_gaussians_per_tile: config.max_gaussians_per_tile,
        near: config.near_plane(),
        depth: false,
        antialias: config.antialias,
    }
}

/// What a page needs to draw splats as these settings render them: all else is not set.
///
/// # Errors
/// Kernels that cannot be written for browsers.
pub fn page_options(settings: &RenderSettings) -> Result<PageOptions> {
    let kernels = dapple::gpu::browser::script(settings.sh_degree, settings.antialias)?;
    let kernels = serde_json::to_string(&kernels)
        .map_err(|e| Error::internal("the page's kernels cannot be written").caused_by(e))?;
    Ok(PageOptions {
        background: settings.background.map(f64::from),
        near: f64::from(settings.near),
        antialiased: settings.antialias,
        webgpu: Some(kernels),
        ..PageOptions::default()
    })
}

/// Why pages cannot edit a training.
const NO_EDITS: &str =
    "a training is not edited while it goes on: `dapple view` edits its splats when it has ended";

/// Why pages do not draw a training by themselves.
const NO_DRAWS: &str = "a training is drawn by its engine: its splats change with every step";

/// A stage that nothing is known of but where to stand.
pub fn stage(title: String, device: String, gaussians: u64, stance: &Stance) -> Stage {
    Stage {
        title,
        device,
        gaussians,
        up: stance.up.into(),
        centre: stance.centre.into(),
        distance: stance.distance,
        edits: Err(NO_EDITS.to_owned()),
        draws: Err(NO_DRAWS.to_owned()),
        ..Stage::default()
    }
}

/// The photos of a capture, with what is known of their scores.
pub fn entries(dataset: &Dataset, config: &TrainConfig, scores: &[ImageScore]) -> Vec<CameraEntry> {
    let data = &config.data;
    let split = dataset.split(data.eval_every);
    let split = split.limited(data.max_train_views, data.max_eval_views);
    let views = dataset.views.iter().enumerate();
    views
        .map(|(i, view)| CameraEntry {
            name: view.name.clone(),
            camera: view.camera,
            photo: Some(view.photo.clone()),
            held_out: split.eval.binary_search(&i).is_ok(),
            psnr: scores.iter().find(|s| s.name == view.name).map(|s| s.psnr),
        })
        .collect()
}
