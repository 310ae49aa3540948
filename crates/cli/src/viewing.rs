//! Code shared by `dapple view` and the live viewer: address, initial view and page options.

use crate::camera_paths::CameraOrbit;
use crate::console::Console;
use crate::options::DeviceOptions;
use crate::training_display::joined_photos;
use dapple::contract::RenderSettings;
use dapple::live::{Curves, Part, Playback, Viewer, ViewerOptions};
pub use dapple::live::{InitialView, entries, stage};
use dapple::scene::{Error, Result, Splats};
use dapple::train::{Continuation, EvalRow, LossRow, RunFolder, TrainConfig};
use dapple_viewer::export::PageOptions;
use glam::DVec3;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Address and port of the viewer.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Viewer")]
pub struct ListenOptions {
    /// Address to listen on [default: 127.0.0.1, this machine only]. With another address, any user with the printed
    /// address can watch and pause the run
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<IpAddr>,

    /// Port to listen on [default: 7410, or a free port if 7410 is taken]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

/// Options of the live viewer.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Viewer")]
pub struct ViewOptions {
    /// Show the progress in a browser and print the address. The results are bit-identical
    #[arg(long)]
    pub view: bool,

    /// Largest share of the run's time for renders in the browser, 0.01 to 1
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.2,
        requires = "view",
        hide_short_help = true
    )]
    pub view_share: f64,

    /// Address that --view listens on [default: 127.0.0.1, this machine only]
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "view",
        hide_short_help = true
    )]
    pub host: Option<IpAddr>,

    /// Port that --view listens on [default: 7410, or a free port if 7410 is taken]
    #[arg(long, value_name = "PORT", requires = "view", hide_short_help = true)]
    pub port: Option<u16>,

    /// Store N snapshots of the splats as OUT/snapshots/STEP.ply, for `dapple view OUT` [default: 12 with --view,
    /// else 0]. Above 4 GiB in total, every second snapshot is deleted
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=MOST_SNAPSHOTS),
        hide_short_help = true)]
    pub snapshots: Option<u32>,

    /// Viewer of an earlier part of the work, with its open pages.
    #[arg(skip)]
    pub kept: Arc<Mutex<Option<Viewer>>>,
}

/// Most snapshots of a run, and the default with --view.
const MOST_SNAPSHOTS: i64 = 1000;
const SNAPSHOTS: u32 = 12;

impl ViewOptions {
    /// Returns the number of snapshots of a run; without the option, the number of the run before it resumed.
    pub fn snapshots(&self, before: Option<u32>) -> u32 {
        let default = if self.view { SNAPSHOTS } else { 0 };
        self.snapshots.or(before).unwrap_or(default)
    }

    /// Keeps a viewer for the next [`Self::start`] of these options or their copies.
    pub fn keep(&self, viewer: Viewer) {
        if let Ok(mut kept) = self.kept.lock() {
            *kept = Some(viewer);
        }
    }

    /// Starts the viewer if --view is set, or returns the kept one.
    ///
    /// # Errors
    /// A share outside 0.01 to 1, or a port that is taken.
    pub fn start(&self, console: &Console) -> Result<Option<Viewer>> {
        if !self.view {
            return Ok(None);
        }
        if !(0.01..=1.0).contains(&self.view_share) {
            return Err(Error::input(format!("--view-share {} is not a share", self.view_share))
                .at("the options given")
                .hint("give a number between 0.01 and 1; with 0.2, training has four fifths of the time"));
        }
        let kept = self.kept.lock().ok().and_then(|mut kept| kept.take());
        if kept.is_some() {
            return Ok(kept);
        }
        let listen = ListenOptions {
            host: self.host,
            port: self.port,
        };
        listen.start(console).map(Some)
    }
}

impl ListenOptions {
    /// Starts the viewer and prints its address.
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
                .note("note: the address is not encrypted, and any user who has it can watch and control the viewer");
        }
        Ok(viewer)
    }
}

/// Returns the initial view from splats only: 98 % of the opacity along each axis, without distant background,
/// fills the picture.
///
/// # Errors
/// There are no splats.
pub fn stance_of_splats(splats: &Splats, up: Option<DVec3>) -> Result<InitialView> {
    let ring = CameraOrbit::of_splats(splats, up.unwrap_or(DVec3::NEG_Y))?;
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
        // Distant background is not framed.
        let least = middle - FRAMED_HALVES * (middle - before?);
        let most = middle + FRAMED_HALVES * (after? - middle);
        Some([low?.max(least), high?.min(most)])
    };
    let [Some(x), Some(y), Some(z)] = [0, 1, 2].map(along) else {
        return Ok(stance_of_ring(&ring));
    };
    let corner = |end: usize| DVec3::new(x[end], y[end], z[end]);
    let centre = (corner(0) + corner(1)) / 2.0;
    let radius = (corner(0).distance(corner(1)) / 2.0).max(1e-6);
    Ok(InitialView {
        centre,
        distance: FRAMED_FROM * radius,
        ..stance_of_ring(&ring)
    })
}

fn stance_of_ring(ring: &CameraOrbit) -> InitialView {
    let (centre, up, distance) = ring.stance();
    InitialView {
        up,
        centre,
        distance,
    }
}

/// Most Gaussians to frame the initial view by.
const FRAMED: usize = 50_000;

/// The initial view frames at most this multiple of the distances from the median to the quartiles.
const FRAMED_HALVES: f64 = 5.0;

/// Distance, in radii, at which a sphere fills a picture whose focal length is its height.
const FRAMED_FROM: f64 = 2.24;

/// Returns the weighted quantile of the values; `None` without values.
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

/// Returns the settings to show splats with, from the settings of their run.
pub fn shown_settings(config: &TrainConfig, sh_degree: u8) -> RenderSettings {
    RenderSettings {
        background: config.background.fixed(),
        sh_degree,
        max_gaussians_per_tile: config.max_gaussians_per_tile,
        near: config.near_plane(),
        depth: false,
        surface: false,
        antialias: config.antialias,
        extra_dilation: 0.0,
    }
}

/// Returns the page options to draw splats with these settings; other options are not set.
///
/// # Errors
/// Kernels that cannot be translated for browsers.
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

/// Returns the last part of a path, or the path if it has one part.
pub fn title(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = whole.file_name().unwrap_or(whole.as_os_str());
    dapple::scene::printable(&name.to_string_lossy()).to_string()
}

/// Returns the snapshots of a run folder, to be rendered on this device.
pub fn playback(folder: RunFolder, device: &DeviceOptions) -> Playback {
    let open = device.clone();
    Playback::new(folder, move || Ok(open.opener()(false)?.into_engine()))
}

/// Most points of a curve that a page receives.
const CURVE_POINTS: usize = 300;

/// Returns the parts of a run with `steps` steps, for pages; empty for a run with one part.
pub fn parts(continuations: &[Continuation], evals: &[EvalRow], steps: u32) -> Vec<Part> {
    if continuations.is_empty() {
        return Vec::new();
    }
    let starts = continuations.iter().map(|part| part.after);
    let begun = std::iter::once(None).chain(continuations.iter().map(Some));
    let part = |(begun, steps): (Option<&Continuation>, u32)| {
        let scored = evals.iter().rfind(|row| row.step == steps);
        Part {
            after: begun.map_or(0, |part| part.after),
            steps,
            psnr: scored.map(|row| row.psnr),
            ssim: scored.map(|row| row.ssim),
            changes: begun.map(changes).unwrap_or_default(),
        }
    };
    begun.zip(starts.chain([steps])).map(part).collect()
}

/// Describes what a part changes.
fn changes(part: &Continuation) -> Vec<String> {
    let changed = part.changes.iter().filter(|change| change.key != "steps");
    let changed = changed.map(|c| format!("{} = {}, was {}", c.key, c.now, c.before));
    let photos = joined_photos(part).map(|photos| format!("photos: {photos}"));
    let splats = (!part.has_state).then(|| "from the splats of the part before".to_owned());
    splats.into_iter().chain(photos).chain(changed).collect()
}

/// Returns the curves of a run so far, for pages.
pub fn curves(losses: &[LossRow], evals: &[EvalRow]) -> Curves {
    let every = losses.len().div_ceil(CURVE_POINTS).max(1);
    let rows: Vec<&LossRow> = losses.iter().step_by(every).collect();
    Curves {
        loss: rows.iter().map(|r| (r.step, f64::from(r.loss))).collect(),
        psnr: evals.iter().map(|r| (r.step, r.psnr)).collect(),
        gaussians: rows.iter().map(|r| (r.step, r.gaussians as f64)).collect(),
    }
}
