//! `dapple view`: shows splats in a browser.

mod editing;
mod train_on;

use crate::cameras;
use crate::console::Console;
use crate::interrupt;
use crate::known_capture;
use crate::options::{CaptureOptions, DeviceOptions, config_beside, read_splats, splats_file};
use crate::training_display::gaussians;
use crate::viewing::{
    InitialView, ListenOptions, curves, entries, page_options, parts, playback, shown_settings,
    stage, stance_of_splats, title,
};
use dapple::BoxedEngine;
use dapple::contract::{RenderSettings, filter_3d};
use dapple::glam::DVec3;
use dapple::live::{Curves, Part, Viewer};
use dapple::scene::origin::{Frame, middle_of};
use dapple::scene::splat_file::SplatMetadata;
use dapple::scene::{Dataset, Error, Result, Splats, bounded, load};
use dapple::train::{Checkpoint, ConfigPatch, Metrics, RunFolder, TrainConfig, init};
use dapple_viewer::{CameraEntry, Encoded, Models, Request, Stage, Status, export};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const AFTER_HELP: &str = "\
PATH is one of:
  a splat file        its splats; with --capture next to the photos of their capture
  a run's folder      its splats, photos, scores and settings; its snapshots, with a
                      time slider
  a capture           its sparse points as first Gaussians, and its photos
  two of splats, runs with one camera: by a slider, side by side, or as a difference

docs/VIEWER.md explains the page, edits and their files, and tunnels (`ssh -L`).

Examples:
  dapple view out/bird
  dapple view out/bird --mesh bird.glb
  dapple view scene.ply --save clean.ply
  dapple view out/bird out/bird-mcmc
  dapple view scene.ply --port 8000
  dapple view captures/bird";

/// Shows splats, a run or a capture in a browser, rendered by the selected engine
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Splat file, run folder or capture; two of splats or runs are compared
    #[arg(required = true, value_name = "PATH", help_heading = "Input")]
    paths: Vec<PathBuf>,

    /// Capture with the photos to show [default: the run's]
    #[arg(
        long = "capture",
        alias = "scene",
        value_name = "CAPTURE",
        help_heading = "Input"
    )]
    scene: Option<PathBuf>,

    #[command(flatten)]
    capture: CaptureOptions,

    /// Mesh to show over the splats or beside them (.glb, .obj or .ply): colours, shape, edges, distance to the sparse
    /// points
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    mesh: Option<PathBuf>,

    /// File to save edits to, in the format of its extension, with its recipe next to it [default: NAME-edited.ply
    /// next to the splats]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    save: Option<PathBuf>,

    /// Replace that file and its recipe if they exist
    #[arg(long, help_heading = "Output")]
    overwrite: bool,

    #[command(flatten)]
    listen: ListenOptions,

    #[command(flatten)]
    device: DeviceOptions,
}

/// Data to show.
struct Sight {
    splats: Splats,
    /// File of the splats; none for a capture or a checkpoint.
    file: Option<PathBuf>,
    config: TrainConfig,
    stance: InitialView,
    cameras: Vec<CameraEntry>,
    settings: String,
    /// Parts and curves of the run.
    history: (Vec<Part>, Curves),
    /// Progress of a finished run.
    status: Option<Status>,
    /// Capture with the photos to show.
    scene: Option<PathBuf>,
    /// Frame of splats and cameras relative to the capture.
    frame: Frame,
    /// Mesh in that frame, for pages.
    mesh: Option<Vec<u8>>,
}

/// Model, and the engine that holds it.
struct Model {
    engine: BoxedEngine,
    settings: RenderSettings,
}

impl Model {
    /// Uploads the splats to the device.
    fn open(sight: &Sight, engine: BoxedEngine) -> Result<Self> {
        let mut engine = engine;
        engine.upload(&sight.splats, None)?;
        let settings = shown_settings(&sight.config, sight.splats.sh_degree);
        Ok(Self { engine, settings })
    }
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let mut viewer = None;
    let mut note = None;
    while let Some(steps) = serve(args, &mut viewer, note.take(), console)? {
        note = train_on::part(args, steps, &mut viewer, console)?;
    }
    Ok(())
}

/// Shows the paths until the end of the program, or until a page requests further steps of the run. `note`: text for the page
/// on the last request.
fn serve(
    args: &Args,
    kept: &mut Option<Viewer>,
    note: Option<String>,
    console: &Console,
) -> Result<Option<u32>> {
    let (first, second) = chosen(&args.paths)?;
    if second.is_some() && args.mesh.is_some() {
        return Err(Error::input("a mesh is shown with one model, not with two")
            .at("--mesh")
            .hint("name one run or splat file"));
    }
    let mut sight = sight(first, second.is_some(), args, console)?;
    let other = second.map(|path| self::sight(path, true, args, console));
    let mut other = other.transpose()?;
    if let Some(other) = &mut other {
        other.go_to(sight.frame);
        sight.stands_with(other);
    }
    let plan = editing::plan(&sight, other.is_some(), args)?;
    let engine = args.device.engine_holding(&sight.splats, console)?;
    let device = engine.description();
    let mut model = Model::open(&sight, engine)?;
    let open = |other: &Sight| args.device.engine_holding_quietly(&other.splats);
    let beside = |other: &Sight| Model::open(other, open(other)?);
    let mut compared = other.as_ref().map(beside).transpose()?;
    let grace = interrupt::grace();
    let viewer = match kept.take() {
        Some(viewer) => viewer,
        None => args.listen.start(console)?,
    };
    let mut travel = playback(RunFolder::open(first), &args.device);
    let mut shown = shown_stage((first, second), &mut sight, other.as_ref(), device);
    if second.is_none() && first.is_dir() {
        shown.snapshots = travel.steps();
    }
    let mut offer = train_on::Offer::of(&sight, args, &mut shown, note);
    let mut editing = plan.begin(&mut sight, shown, console);
    offer.show(&viewer);
    editing.show(&viewer);
    console.note("Ctrl-C ends it");
    while !grace.requested() {
        if let Some(steps) = offer.taken(&viewer, &editing) {
            *kept = Some(viewer);
            return Ok(Some(steps));
        }
        for edit in viewer.edits() {
            editing.answer(&edit, &mut model, &viewer, console);
        }
        if viewer.wants_drawn() {
            viewer.answer_drawn(editing.with_shown(&sight.splats, |splats| {
                export::drawn(splats, &page_options(&model.settings)?)
            }));
        }
        let Some(request) = viewer.next(Duration::from_millis(100)) else {
            continue;
        };
        if !viewer.shows_snapshot() {
            travel.close();
        }
        let picture = match request.look.snapshot {
            Some(step) => travel.picture(step, &request, &model.settings),
            None => picture(&request, &mut model, compared.as_mut()),
        };
        if let Err(error) = &picture {
            console.detail(&format!("note: a frame could not be rendered: {error}"));
        }
        viewer.answer(&request, picture);
    }
    editing.end(console).map(|()| None)
}

/// Returns the stage for pages, with the cameras, settings, history and mesh of the first model. Snapshots are not set.
fn shown_stage(
    (first, second): (&Path, Option<&Path>),
    sight: &mut Sight,
    other: Option<&Sight>,
    device: String,
) -> Stage {
    let mut shown = stage(
        title(first),
        device,
        sight.splats.len() as u64,
        &sight.stance,
    );
    if let (Some(path), Some(other)) = (second, other) {
        shown.models = names([first, path], [&sight.splats, &other.splats]);
        shown.title = format!("{} and {}", title(first), title(path));
    }
    if second.is_none() && first.is_dir() {
        shown.steps = sight.config.last_step();
        shown.outline = sight.config.focus.outline();
        (shown.parts, shown.curves) = std::mem::take(&mut sight.history);
    }
    shown.cameras = std::mem::take(&mut sight.cameras);
    shown.settings = std::mem::take(&mut sight.settings);
    shown.mesh = sight.mesh.take().map(Arc::from);
    shown.draws = match other {
        Some(_) => {
            Err("two models are compared by the engine; a browser renders only one".to_owned())
        }
        None => Ok(()),
    };
    shown
}

/// Renders a view request of a page from one or two models.
fn picture(request: &Request, first: &mut Model, second: Option<&mut Model>) -> Result<Encoded> {
    let Some(second) = second else {
        return request.picture(first.engine.as_mut(), &first.settings);
    };
    match request.look.models {
        Models::First => request.picture(first.engine.as_mut(), &first.settings),
        Models::Second => request.picture(second.engine.as_mut(), &second.settings),
        Models::Both => request.pictures(&mut [
            (first.engine.as_mut(), &first.settings),
            (second.engine.as_mut(), &second.settings),
        ]),
    }
}

/// Returns one path, or two.
fn chosen(paths: &[PathBuf]) -> Result<(&Path, Option<&Path>)> {
    match paths {
        [one] => Ok((one, None)),
        [one, two] => Ok((one, Some(two))),
        more => Err(Error::input(format!(
            "{} models are named, and a page compares two",
            more.len()
        ))
        .at("the options given")
        .hint("name two of them: `dapple view A B`")),
    }
}

/// Returns names of two models, with the parts of their paths that differ.
fn names(paths: [&Path; 2], splats: [&Splats; 2]) -> Vec<String> {
    let mut names = paths.map(title);
    if names[0] == names[1] {
        names = paths.map(|path| {
            let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let above = whole.parent().map(title).unwrap_or_default();
            format!("{above}/{}", title(path))
        });
    }
    let named = names.into_iter().zip(splats);
    named
        .map(|(name, splats)| format!("{name}: {}", gaussians(splats.len() as u64)))
        .collect()
}

impl Sight {
    /// Moves splats and cameras to the frame of another model of the capture.
    fn go_to(&mut self, frame: Frame) {
        let by = frame.origin - self.frame.origin;
        self.splats.count_from(by);
        for entry in &mut self.cameras {
            entry.camera = entry.camera.about(by);
        }
        self.stance.count_from(by);
        let moved = self.frame.moved.about(by);
        if moved != frame.moved {
            let way = moved.inverse().then(&frame.moved);
            way.apply(&mut self.splats);
            for entry in &mut self.cameras {
                entry.camera = way.camera(&entry.camera);
            }
            self.stance.go(&way);
            self.config.near = f64::from(self.config.near_plane()) * way.scale;
        }
        self.frame = frame;
    }

    /// Copies cameras and initial view from the model to compare with, if this model has none.
    fn stands_with(&mut self, other: &Self) {
        if self.cameras.is_empty() && !other.cameras.is_empty() {
            self.cameras.clone_from(&other.cameras);
            self.stance = other.stance;
        }
    }
}

/// Detects the kind of a path, and reads it; `compared`: next to another.
fn sight(path: &Path, compared: bool, args: &Args, console: &Console) -> Result<Sight> {
    let flags = || ConfigPatch {
        ..args.capture.patch()
    };
    let run = RunFolder::open(path);
    let has_checkpoint = run.checkpoint_path().is_file();
    // The splats of a run, or of a SOG folder.
    let holds_run = has_checkpoint || splats_file(path).is_ok();
    if path.is_dir() && !holds_run {
        if compared {
            return Err(Error::input("this folder holds no splats to compare")
                .at_path(path)
                .hint("name two files of splats, or the folders of two runs; photos come with --capture"));
        }
        return capture_alone(path, args, flags(), console);
    }
    // An unfinished run may have only its checkpoint.
    let from_checkpoint = has_checkpoint && !run.splats_path().is_file();
    let file = match from_checkpoint {
        true => run.splats_path(),
        false => splats_file(path)?,
    };
    let mut config = config_beside(&file, flags(), console)?;
    let (splats, metadata) = match from_checkpoint {
        true => of_checkpoint(&run, console)?,
        false => read_splats(&file, console)?,
    };
    config.antialias |= metadata.antialiased;
    let up = metadata.up.map(DVec3::from);
    let metrics = metrics_beside(&file);
    let scores = metrics.as_ref().map(|metrics| metrics.images.clone());
    let scores = scores.unwrap_or_default();
    let mut frame = metadata.frame();
    if frame.moved.scale != 1.0 {
        config.near = f64::from(config.near_plane()) * frame.moved.scale;
    }
    let scene = args
        .scene
        .clone()
        .or_else(|| known_capture::find_if_there(&file, console));
    let dataset = scene.as_deref();
    let dataset = dataset.map(|scene| load_capture(scene, &config, console));
    let dataset = dataset.transpose()?;
    let cameras = match &dataset {
        Some(dataset) => {
            frame = frame.beside(middle_of(&splats), dataset.origin);
            let mut entries = entries(dataset, &config, &scores);
            for entry in &mut entries {
                entry.camera = frame.camera(&entry.camera, dataset.origin);
            }
            entries
        }
        None => cameras_beside(&file, frame, console),
    };
    let seen: Vec<_> = cameras.iter().map(|entry| entry.camera).collect();
    let stance = match InitialView::of_cameras(&seen, up) {
        Some(stance) => stance,
        None => stance_of_splats(&splats, up)?,
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
        mesh: shown_mesh(args, frame, dataset.as_ref(), console)?,
        status: metrics.as_ref().map(train_on::status),
        history: metrics.map(history).unwrap_or_default(),
        scene,
        frame,
        file: (!from_checkpoint).then_some(file),
    })
}

/// Returns the splats of a run's checkpoint as in files, with their metadata.
fn of_checkpoint(run: &RunFolder, console: &Console) -> Result<(Splats, SplatMetadata)> {
    let Checkpoint {
        mut splats,
        state,
        step,
        capture,
        ..
    } = run.read_checkpoint()?;
    filter_3d::bake(&mut splats, &state.filter_3d);
    console.note(&format!(
        "the run is not finished: this is its checkpoint, after step {step}"
    ));
    let metadata = SplatMetadata {
        origin: capture.origin(),
        ..SplatMetadata::default()
    };
    Ok((splats, metadata))
}

/// Returns the points of a capture as first Gaussians of a run.
fn capture_alone(path: &Path, args: &Args, flags: ConfigPatch, console: &Console) -> Result<Sight> {
    if args.scene.is_some() {
        return Err(
            Error::input("this folder has no splats to show with the photos")
                .at_path(path)
                .hint(
                    "name a PLY file or the folder of a run; or omit --capture to view a capture",
                ),
        );
    }
    let config = crate::options::merged_config(None, flags)?;
    let dataset = load_capture(path, &config, console)?;
    if dataset.points.is_empty() {
        return Err(Error::input("the capture has no sparse points to show")
            .at_path(path)
            .hint("train it first: `dapple train`, then `dapple view` on the run's folder"));
    }
    let all: Vec<usize> = (0..dataset.views.len()).collect();
    let mut splats = init::from_points(&dataset.points, dataset.extent(&all), 0, 0)?;
    // Opaque enough for a render; a run starts with less opaque Gaussians.
    splats.opacities.fill(2.0);
    let seen: Vec<_> = dataset.views.iter().map(|view| view.camera).collect();
    let stance = match InitialView::of_cameras(&seen, None) {
        Some(stance) => stance,
        None => stance_of_splats(&splats, None)?,
    };
    let frame = Frame {
        origin: dataset.origin,
        ..Frame::default()
    };
    Ok(Sight {
        mesh: shown_mesh(args, frame, Some(&dataset), console)?,
        cameras: entries(&dataset, &config, &[]),
        splats,
        file: None,
        config,
        stance,
        settings: String::new(),
        history: Default::default(),
        status: None,
        scene: None,
        frame,
    })
}

/// Reads the mesh of `--mesh` into this frame.
fn shown_mesh(
    args: &Args,
    frame: Frame,
    dataset: Option<&Dataset>,
    console: &Console,
) -> Result<Option<Vec<u8>>> {
    let read = |path: &PathBuf| crate::shown_mesh::read(path, frame, dataset, console);
    args.mesh.as_ref().map(read).transpose()
}

fn load_capture(scene: &Path, config: &TrainConfig, console: &Console) -> Result<Dataset> {
    load::load(scene, &config.load_options(), &console.progress())
}

/// Returns the cameras next to splats, without photos, in the frame of the splats.
pub fn cameras_beside(file: &Path, frame: Frame, console: &Console) -> Vec<CameraEntry> {
    let found = cameras::named_beside(file).unwrap_or_else(|error| {
        console.note(&format!(
            "note: the cameras next to the splats are not used: {error}"
        ));
        None
    });
    let (_, named) = found.unwrap_or_default();
    let entry = |(name, camera): cameras::Named| CameraEntry {
        name,
        camera: frame.camera(&camera, DVec3::ZERO),
        photo: None,
        held_out: false,
        psnr: None,
    };
    named.into_iter().map(entry).collect()
}

/// Returns the parts and the curves of a run.
fn history(metrics: Metrics) -> (Vec<Part>, Curves) {
    let Metrics {
        continuations,
        evals,
        losses,
        steps,
        ..
    } = metrics;
    (
        parts(&continuations, &evals, steps),
        curves(&losses, &evals),
    )
}

/// Reads the `metrics.json` next to the splats, if there is one.
fn metrics_beside(file: &Path) -> Option<Metrics> {
    let path = file.with_file_name("metrics.json");
    let text = bounded::read_text("cannot read the metrics", &path, METRICS_BYTES);
    text.ok().and_then(|text| serde_json::from_str(&text).ok())
}

/// Largest `metrics.json` to read; that of 30 000 steps has one megabyte.
const METRICS_BYTES: u64 = 64 << 20;
