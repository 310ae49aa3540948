//! `dapple eval`: scores splats on held-out photos, and compares them with other splats.

mod found;
mod poses;
mod scorer;

use crate::console::Console;
use crate::known_capture;
use crate::options::{
    CaptureOptions, DeviceOptions, SplatsSize, config_beside, into_capture, parse_colour,
    read_splats, refuse_inputs, splats_file,
};
use crate::outputs::refuse_other_run;
use crate::photo_memory;
use crate::viewing::shown_settings;
use dapple::contract::RenderSettings;
use dapple::glam::DVec3;
use dapple::scene::edit::Region;
use dapple::scene::origin::Frame;
use dapple::scene::{Dataset, Error, Pose, Result, Splats, load};
use dapple::train::config::{Background, DataConfig, EvalPatch, FocusPatch, FocusRegion};
use dapple::train::evaluate::Paired;
use dapple::train::{ConfigPatch, RunFolder, TrainConfig, Writes};
use found::Found;
use scorer::Scorer;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
The photos are scored with the settings of the run: if a config.toml is next to SPLATS, its photo
size, held-out photos, masks, background and anti-aliasing are used, and options here change them.
Splats of other programs have no config.toml: give the settings that differ from the defaults, for
example --background white.

docs/EVALUATION.md explains the scores, --compare, --halves, LPIPS weights, and the files of --out.

Examples:
  dapple eval out/bird
  dapple eval captures/bird other/splats.ply      splats of another program
  dapple eval out/bird --json | jq .psnr
  dapple eval out/bird --downscale 2              at half of the photos' size
  dapple eval out/bird -o compare                 renders, error maps, tables
  dapple eval out/a --compare out/b               is a better than b?
  dapple eval out/bird --lpips vgg.safetensors";

/// Scores splats against the held-out photos: PSNR, SSIM and LPIPS
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Splats: a splat file or a run's folder; optionally preceded by the capture (folder or transforms.json)
    /// [default: the run's]
    #[arg(required = true, num_args = 1..=2, value_names = ["CAPTURE", "SPLATS"], help_heading = "Input")]
    paths: Vec<PathBuf>,

    /// Capture [default: CAPTURE, else the run's]
    #[arg(
        long = "capture",
        alias = "scene",
        value_name = "CAPTURE",
        help_heading = "Input"
    )]
    scene: Option<PathBuf>,

    /// Other splats to compare with on the same photos
    #[arg(long, value_name = "SPLATS", help_heading = "Input")]
    compare: Option<PathBuf>,

    /// LPIPS weights, to score by LPIPS too [default: the run's, else no LPIPS]
    #[arg(long, value_name = "FILE.safetensors", help_heading = "Scores")]
    lpips: Option<PathBuf>,

    /// Background of renders and of transparent photos [default: the run's, else black]
    #[arg(long, value_name = "black|white|R,G,B", value_parser = parse_colour, help_heading = "Scores")]
    background: Option<[f64; 3]>,

    /// Score again with the pose of each photo fitted to the splats [default: if the run used --refine-poses]
    #[arg(long, help_heading = "Scores")]
    align_poses: bool,

    /// True cameras of the capture, as written by `dapple synth --pose-noise`: print the pose errors of the capture
    /// and of refined poses
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Scores",
        hide_short_help = true
    )]
    true_cameras: Option<PathBuf>,

    /// Score again with the colours of each render fitted to its photo by an affine map [default: if the run trained
    /// appearance]
    #[arg(long, help_heading = "Scores")]
    colour_corrected: bool,

    /// Score again by halves: fit the appearance to the left halves, and score the right halves
    #[arg(long, help_heading = "Scores")]
    halves: bool,

    /// With --halves: adapt the appearance MLP to each photo by a LoRA of this rank too [default: only the photo's
    /// appearance embedding]
    #[arg(long, value_name = "RANK", requires = "halves", value_parser = clap::value_parser!(u8).range(1..=32), help_heading = "Scores", hide_short_help = true)]
    lora: Option<u8>,

    /// Score again inside a region: sphere:X,Y,Z,RADIUS or box:X,Y,Z,WIDTH,HEIGHT,DEPTH [default: the run's --focus]
    #[arg(long, value_name = "REGION", value_parser = parse_region, help_heading = "Scores", hide_short_help = true)]
    focus: Option<Region>,

    /// Render with the Mip-Splatting filters, for splats of other programs trained with them [default: as in the run]
    #[arg(long, help_heading = "Scores", hide_short_help = true)]
    antialias: bool,

    /// List the N worst images after the table [default: 3, with 6 or more images]
    #[arg(
        long,
        value_name = "N",
        help_heading = "Output",
        hide_short_help = true
    )]
    worst: Option<usize>,

    /// Print one JSON object with psnr, ssim and the list of images
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Print a Markdown table, for a report or a README
    #[arg(
        long,
        conflicts_with = "json",
        help_heading = "Output",
        hide_short_help = true
    )]
    markdown: bool,

    /// Folder for renders, error maps and tables
    #[arg(short, long, value_name = "FOLDER", help_heading = "Output")]
    out: Option<PathBuf>,

    /// Replace files in that folder that Dapple has not written
    #[arg(
        long,
        requires = "out",
        help_heading = "Output",
        hide_short_help = true
    )]
    overwrite: bool,

    #[command(flatten)]
    capture: CaptureOptions,

    #[command(flatten)]
    device: DeviceOptions,
}

/// Splats to score, and their settings.
struct EvalInput {
    path: PathBuf,
    splats: Splats,
    /// Frame of the splats relative to their capture.
    frame: Frame,
    config: TrainConfig,
}

impl EvalInput {
    fn open(path: &Path, flags: &ConfigPatch, console: &Console) -> Result<Self> {
        let path = splats_file(path)?;
        let mut config = config_beside(&path, flags.clone(), console)?;
        let (splats, metadata) = read_splats(&path, console)?;
        config.antialias |= metadata.antialiased;
        Ok(Self {
            splats,
            frame: metadata.frame(),
            config,
            path,
        })
    }

    /// Undoes motion of the splats since training, and changes their origin to that of the capture's cameras.
    fn count_from(&mut self, origin: DVec3) {
        into_capture(&mut self.splats, self.frame, origin);
    }

    /// Returns the region of interest relative to this origin of the capture's cameras.
    fn focus(&self, origin: DVec3) -> Option<Region> {
        let moved =
            |centre: [f64; 3]| (DVec3::from(centre) + self.frame.origin - origin).to_array();
        let region = self.config.focus.region.region()?;
        Some(match region {
            _ if self.frame.origin == DVec3::ZERO => region,
            Region::Sphere { centre, radius } => Region::Sphere {
                centre: moved(centre),
                radius,
            },
            Region::Box {
                centre,
                size,
                degrees,
            } => Region::Box {
                centre: moved(centre),
                size,
                degrees,
            },
        })
    }

    /// Sets the given background.
    fn settings(&self, background: [f32; 3]) -> RenderSettings {
        RenderSettings {
            background,
            ..shown_settings(&self.config, self.splats.sh_degree)
        }
    }
}

impl Args {
    /// Returns the capture, if it is given, and the splats.
    fn named(&self) -> Result<(Option<&PathBuf>, &PathBuf)> {
        match (self.paths.as_slice(), &self.scene) {
            ([splats], scene) => Ok((scene.as_ref(), splats)),
            ([scene, splats], None) => Ok((Some(scene), splats)),
            _ => Err(Error::input("the capture is named twice")
                .at("the options given")
                .hint("name it before the splats, or with --capture")),
        }
    }

    /// Returns the options as a layer over the runs' configurations.
    fn flags(&self) -> ConfigPatch {
        ConfigPatch {
            background: self.background.map(Background::Colour),
            antialias: self.antialias.then_some(true),
            eval: EvalPatch {
                lpips: self.lpips.clone(),
                ..EvalPatch::default()
            },
            focus: FocusPatch {
                region: self.focus.map(FocusRegion::Region),
                ..FocusPatch::default()
            },
            ..self.capture.patch()
        }
    }
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    // Read before the photos, so that a wrong path of the splats fails at once.
    if let Some(out) = args.out.as_deref().filter(|_| !args.overwrite) {
        RunFolder::open(out).refuse_foreign(Writes::Scores)?;
    }
    let flags = args.flags();
    let (scene, splats) = args.named()?;
    let mut a = EvalInput::open(splats, &flags, console)?;
    let other = args.compare.as_ref();
    let mut b = other
        .map(|path| EvalInput::open(path, &flags, console))
        .transpose()?;
    if let Some(b) = &b {
        note_differences(&a.config, &b.config, console);
    }
    let lpips = a.config.read_lpips()?;
    let scene = match scene {
        Some(scene) => scene.clone(),
        None => known_capture::needed(&a.path, console)?,
    };
    let (dataset, trained, extent) = load_held_out((args, &scene), &a.config, console)?;
    for subject in [Some(&mut a), b.as_mut()].into_iter().flatten() {
        subject.count_from(dataset.origin);
    }
    let poses = args.true_cameras.as_deref();
    let poses = poses
        .map(|truth| poses::report(truth, &a, &trained))
        .transpose()?;
    let background = a.config.background.fixed();
    if dataset.views.iter().any(|view| view.photo.has_alpha()) {
        let [r, g, b] = background;
        console.note(&format!(
            "note: transparent photos are scored over the background {r},{g},{b}"
        ));
    }
    let folder = args.out.as_deref().map(RunFolder::create).transpose()?;
    if let Some(out) = &args.out {
        refuse_other_run(out, &a.path)?;
    }
    if let Some(note) = folder.as_ref().and_then(RunFolder::lock_note) {
        console.note(&format!("note: {note}"));
    }
    let all = std::iter::once(&a).chain(&b).map(|subject| &subject.splats);
    let size = SplatsSize::of_all(all);
    // Scores used in a comparison are computed for both.
    let learnt = |subject: &EvalInput| subject.config.appearance.is_on();
    let mut scorer = Scorer {
        engine: args.device.engine_holding(size, console)?,
        dataset: &dataset,
        background,
        lpips: lpips.as_ref(),
        corrects: args.colour_corrected || learnt(&a) || b.as_ref().is_some_and(learnt),
        focus: a.focus(dataset.origin),
        console,
    };
    let aligns = scorer.aligns(args.align_poses, a.config.poses.refine)?;
    let report = scorer.score(&a, folder.as_ref())?;
    let second = b.as_ref().map(|b| scorer.score(b, None)).transpose()?;
    let aligned = aligns.then(|| scorer.aligned(&a, extent)).transpose()?;
    let halves = args.halves.then(|| scorer.halves(&a, args.lora));
    let paired = second.as_ref().map(|second| Paired::new(&report, second));
    let found = Found {
        paired: paired.transpose()?,
        halves: halves.transpose()?,
        report,
        second,
        aligned,
        poses,
    };
    found.tell(
        (args, &scene),
        (&a.path, b.as_ref().map(|b| b.path.as_path())),
        folder.as_ref(),
        console,
    )
}

/// Parses a region of the command line.
///
/// # Errors
/// The fault, in one line.
fn parse_region(text: &str) -> Result<Region, String> {
    let region = text.parse().map_err(|e: Error| e.what().to_owned())?;
    match region {
        FocusRegion::Region(region) => Ok(region),
        _ => Err(
            "name a sphere or a box; config.toml of a run with --focus auto has its sphere"
                .to_owned(),
        ),
    }
}

/// Names and poses of the run's training photos.
type Trained = Vec<(String, Pose)>;

/// Loads the held-out photos, without decoding others. Returns also the poses and the local extent of the training photos.
fn load_held_out(
    (args, scene): (&Args, &Path),
    config: &TrainConfig,
    console: &Console,
) -> Result<(Dataset, Trained, f64)> {
    let options = config.load_options();
    let mut capture = load::open(scene, &options)?;
    if let Some(out) = &args.out {
        refuse_inputs(out, scene, &capture, &options)?;
    }
    let split = config.data.split(&capture);
    let held_out = split.eval;
    if held_out.is_empty() {
        return Err(Error::input("no photo is held out: there is nothing to score")
            .at_path(scene)
            .hint("hold some out with --eval-every 8; a capture of a single photo cannot be scored"));
    }
    let pose = |&i: &usize| {
        let image = &capture.images[i];
        (image.name.clone(), image.camera.camera_from_world)
    };
    let trained = split.train.iter().map(pose).collect();
    let extent = capture.local_extent(&split.train);
    let mut index = 0..;
    capture.images.retain(|_| {
        index
            .next()
            .is_some_and(|i| held_out.binary_search(&i).is_ok())
    });
    let options = photo_memory::limited(options, None);
    let dataset = load::decode(capture, &options, &console.progress())?;
    Ok((dataset, trained, extent))
}

/// Both are scored on the photos held out for the first; the second may have a different split.
fn note_differences(a: &TrainConfig, b: &TrainConfig, console: &Console) {
    // Photos at half the size at the start change neither the photos nor the split.
    let data = DataConfig {
        coarse_until: a.data.coarse_until,
        ..b.data.clone()
    };
    if a.data != data {
        console.note(
            "note: the runs took other photos, sizes or masks of the capture (the table [data] of \
             config.toml); both are scored on those of the first, and the second may have been \
             trained on some of them",
        );
    }
    if a.background.fixed() != b.background.fixed() {
        console
            .note("note: the runs have other backgrounds; both are scored over that of the first");
    }
}
