//! `dapple view`: splats in a browser.

use crate::cameras;
use crate::console::Console;
use crate::interrupt;
use crate::options::{CaptureOptions, DeviceOptions, config_beside, read_splats, splats_file};
use crate::viewing::{ListenOptions, Stance, entries, stage};
use dapple::contract::RenderSettings;
use dapple::glam::DVec3;
use dapple::scene::{Dataset, Error, Result, Splats, bounded, load};
use dapple::train::evaluate::ImageScore;
use dapple::train::{ConfigPatch, Metrics, RunFolder, TrainConfig, init};
use dapple_viewer::{CameraEntry, Stage};
use std::path::{Path, PathBuf};
use std::time::Duration;

const AFTER_HELP: &str = "\
Prints an address to open in a browser: on this machine, or through a tunnel (`ssh -L`) on another.
Pictures are rendered here, by the engine that trains, and sent as JPEG: smaller while you move, whole
at rest. The page needs no WebGL or WebGPU, and asks no other host for anything. `?` on the page lists
its keys.

What to look at:
  a file of splats    as they are; with --scene beside the photos they were trained on
  the folder of a run its splats, its photos' scores, its settings
  a capture           its sparse points as first Gaussians, and its photos

Examples:
  dapple view out/bird --scene captures/bird
  dapple view scene.ply --port 8000
  dapple view captures/bird";

/// Shows splats, a run or a capture in a browser, rendered by the engine that is there
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// A file of splats, the folder of a run, or a capture
    path: PathBuf,

    /// The capture whose photos are shown beside the splats
    #[arg(long, value_name = "SCENE")]
    scene: Option<PathBuf>,

    #[command(flatten)]
    listen: ListenOptions,

    #[command(flatten)]
    capture: CaptureOptions,

    #[command(flatten)]
    device: DeviceOptions,
}

/// What is looked at.
struct Sight {
    splats: Splats,
    config: TrainConfig,
    stance: Stance,
    cameras: Vec<CameraEntry>,
    settings: String,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let sight = sight(args, console)?;
    let mut engine = args.device.engine(console)?;
    engine.upload(&sight.splats, None)?;
    let settings = RenderSettings {
        background: sight.config.background.fixed(),
        sh_degree: sight.splats.sh_degree,
        max_gaussians_per_tile: sight.config.max_gaussians_per_tile,
        near: sight.config.near_plane(),
        depth: false,
        antialias: sight.config.antialias,
    };
    let grace = interrupt::grace();
    let viewer = args.listen.start(console)?;
    viewer.show(Stage {
        cameras: sight.cameras,
        settings: sight.settings,
        ..stage(
            title(&args.path),
            engine.description(),
            sight.splats.len() as u64,
            &sight.stance,
        )
    });
    console.note("Ctrl-C ends it");
    while !grace.requested() {
        if let Some(request) = viewer.next(Duration::from_millis(100)) {
            let picture = request.picture(engine.as_mut(), &settings);
            if let Err(error) = &picture {
                console.detail(&format!("note: a picture could not be made: {error}"));
            }
            viewer.answer(&request, picture);
        }
    }
    Ok(())
}

/// The last part of a path, or all of it where there is none.
pub fn title(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = whole.file_name().unwrap_or(whole.as_os_str());
    dapple::scene::printable(&name.to_string_lossy()).to_string()
}

/// Finds out what is meant, and reads it.
fn sight(args: &Args, console: &Console) -> Result<Sight> {
    let flags = || ConfigPatch {
        data: args.capture.patch(),
        ..ConfigPatch::default()
    };
    let run = RunFolder::open(&args.path);
    let holds_run = run.splats_path().is_file() || run.checkpoint_path().is_file();
    if args.path.is_dir() && !holds_run {
        return capture_alone(args, flags(), console);
    }
    let file = splats_file(&args.path)?;
    let config = config_beside(&file, flags(), console)?;
    let (splats, aside) = read_splats(&file, console)?;
    let up = aside.up.map(DVec3::from);
    let scores = scores_beside(&file);
    let cameras = match &args.scene {
        Some(scene) => {
            let dataset = load_capture(scene, &config, console)?;
            entries(&dataset, &config, &scores)
        }
        None => cameras_beside(&file, console),
    };
    let seen: Vec<_> = cameras.iter().map(|entry| entry.camera).collect();
    let stance = match Stance::of_cameras(&seen, up) {
        Some(stance) => stance,
        None => Stance::of_splats(&splats, up)?,
    };
    let most = bounded::SETTINGS_BYTES;
    let settings = file.with_file_name("config.toml");
    let settings = bounded::read_text("cannot read the settings", &settings, most);
    Ok(Sight {
        splats,
        config,
        stance,
        cameras,
        settings: settings.unwrap_or_default(),
    })
}

/// A capture without splats: its points as a run would begin with them.
fn capture_alone(args: &Args, flags: ConfigPatch, console: &Console) -> Result<Sight> {
    if args.scene.is_some() {
        return Err(Error::input("this folder holds no splats to show beside the photos")
            .at_path(&args.path)
            .hint("name a PLY file or the folder of a run; or leave --scene out to look at a capture"));
    }
    let config = crate::options::merged_config(None, None, flags)?;
    let dataset = load_capture(&args.path, &config, console)?;
    if dataset.points.is_empty() {
        return Err(Error::input("the capture has no sparse points to show")
            .at_path(&args.path)
            .hint("train it first: `dapple train`, then `dapple view` on the run's folder"));
    }
    let all: Vec<usize> = (0..dataset.views.len()).collect();
    let mut splats = init::from_points(&dataset.points, dataset.extent(&all), 0, 0)?;
    // As firm as a picture needs; a run begins with fainter ones.
    splats.opacities.fill(2.0);
    let seen: Vec<_> = dataset.views.iter().map(|view| view.camera).collect();
    let stance = match Stance::of_cameras(&seen, None) {
        Some(stance) => stance,
        None => Stance::of_splats(&splats, None)?,
    };
    Ok(Sight {
        cameras: entries(&dataset, &config, &[]),
        splats,
        config,
        stance,
        settings: String::new(),
    })
}

fn load_capture(scene: &Path, config: &TrainConfig, console: &Console) -> Result<Dataset> {
    load::load(scene, &config.load_options(), &console.progress())
}

/// The cameras that lie beside splats, without photos.
fn cameras_beside(file: &Path, console: &Console) -> Vec<CameraEntry> {
    let found = cameras::named_beside(file).unwrap_or_else(|error| {
        console.note(&format!(
            "note: the cameras beside the splats are not used: {error}"
        ));
        None
    });
    let (_, named) = found.unwrap_or_default();
    let entry = |(name, camera)| CameraEntry {
        name,
        camera,
        photo: None,
        held_out: false,
        psnr: None,
    };
    named.into_iter().map(entry).collect()
}

/// The scores of the held-out photos in the `metrics.json` beside splats; none where there is none.
fn scores_beside(file: &Path) -> Vec<ImageScore> {
    let path = file.with_file_name("metrics.json");
    let text = bounded::read_text("cannot read the metrics", &path, METRICS_BYTES);
    let metrics = text
        .ok()
        .and_then(|text| serde_json::from_str::<Metrics>(&text).ok());
    metrics.map(|metrics| metrics.images).unwrap_or_default()
}

/// The largest `metrics.json` that is read: those of 30 000 steps have one megabyte.
const METRICS_BYTES: u64 = 64 << 20;
