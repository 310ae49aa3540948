//! `dapple eval`: scores splats against photos they were not trained on, and against other splats.

mod found;
mod poses;
mod scorer;

use crate::console::Console;
use crate::known_capture;
use crate::options::{
    CaptureOptions, DeviceOptions, config_beside, parse_colour, read_splats, refuse_inputs,
    splats_file, split,
};
use crate::outputs::refuse_other_run;
use crate::photo_memory;
use crate::viewing::shown_settings;
use dapple::contract::RenderSettings;
use dapple::glam::DVec3;
use dapple::scene::edit::Similarity;
use dapple::scene::origin::{Frame, middle_of};
use dapple::scene::{Dataset, Error, Pose, Result, Splats, load};
use dapple::train::config::{Background, EvalPatch};
use dapple::train::evaluate::Paired;
use dapple::train::{ConfigPatch, RunFolder, TrainConfig, Writes};
use found::Found;
use scorer::Scorer;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
The photos are scored as the run saw them: if a config.toml is beside SPLATS, its photo size,
hold-out split, masks, background and anti-aliasing are taken, and options here change them. Splats of
other programs have none: name what differs from the defaults, --background white for example.

PSNR is the mean over the images of 10 log10(1 / mean squared error); SSIM uses an 11x11 window
(sigma 1.5) that is inside the image. Both as in the 3DGS paper's evaluation. Pixels that masks hide
count in neither, nor do windows centred at one. Transparent photos are laid over the background.

LPIPS (lower is better) needs a file of weights, AlexNet's or VGG-16's; docs/EVALUATION.md shows how
three lines of Python make one. It runs on the GPU that renders, and on the processor with --device cpu or
where photos are too large for the GPU (a note says so): there VGG-16 takes seconds a megapixel and core.

-o writes renders/ (photo beside render), errors/ (blue as the photo, red off by a quarter of the range;
grey is masked), scores.json and scores.md. What Dapple wrote there before is replaced, files of others
with --overwrite alone, and a folder that a run writes to is refused.

--compare scores a second file of splats on the same photos: differences photo by photo, their mean
with what holds it with 95 %, on how many photos the first is better, and whether that is more than
noise among photos. Another seed is another run: to compare methods, train several of each.

With --align-poses, or where the run refined poses, photos are scored a second time: before it, the
pose of each is fitted to the splats, which stay as they are (60 steps of Adam on the squared error).
Such scores, called aligned, do not suffer from errors of the given poses, and compare with each other
only.

With --halves, photos are scored once more by halves: what the run learnt of a photo (--appearance) is fitted to
the left half of each, 150 steps that leave the splats as they are, and the right half is scored. Where
light differs from photo to photo, nothing else can tell what a held-out photo should look like. Of runs
without --appearance the right half is scored as it is. Looks (--appearance mlp) are read from the
appearance.safetensors beside SPLATS.

Examples:
  dapple eval out/bird
  dapple eval captures/bird other/splats.ply      splats that no run of Dapple trained
  dapple eval out/bird --json | jq .psnr
  dapple eval out/bird --downscale 2              at half of the photos' size
  dapple eval out/bird -o compare                 renders, error maps, tables
  dapple eval out/a --compare out/b               is a better than b?
  dapple eval out/bird --lpips vgg.safetensors";

/// Scores splats against the held-out photos: PSNR, SSIM and LPIPS
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The splats: a file of any program, or the folder of a run; before them the capture, a folder (COLMAP,
    /// Nerfstudio, Blender) or its transforms.json, where it is not that of the run
    #[arg(required = true, num_args = 1..=2, value_names = ["SCENE", "SPLATS"])]
    paths: Vec<PathBuf>,

    /// The capture [default: SCENE, else that of the run]
    #[arg(long, value_name = "SCENE")]
    scene: Option<PathBuf>,

    /// Other splats to compare with, scored on the same photos
    #[arg(long, value_name = "SPLATS")]
    compare: Option<PathBuf>,

    /// Weights of LPIPS, to score by it too [default: the run's, else no LPIPS]
    #[arg(long, value_name = "FILE.safetensors")]
    lpips: Option<PathBuf>,

    /// Colour behind everything and behind transparent photos [default: that of the run, else black]
    #[arg(long, value_name = "black|white|R,G,B", value_parser = parse_colour)]
    background: Option<[f64; 3]>,

    /// List this many of the worst images after the table [default: 3, where there are 6 or more]
    #[arg(long, value_name = "N")]
    worst: Option<usize>,

    /// Print one JSON object with psnr, ssim and the list of images
    #[arg(long)]
    json: bool,

    /// Print a Markdown table, for a report or a README
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// Score a second time with the pose of each photo fitted to the splats [default: as the run was
    /// trained with --refine-poses or not]
    #[arg(long)]
    align_poses: bool,

    /// The true cameras of the capture, as `dapple synth --pose-noise` writes them: tells how far the
    /// capture's poses are off, and, where the run refined them, those in the cameras.json beside SPLATS
    #[arg(long, value_name = "FILE")]
    true_cameras: Option<PathBuf>,

    /// Score a second time, with each render's colours fitted to its photo's by an affine map: what is
    /// left once exposure and white balance are forgiven [default: where the run learnt them]
    #[arg(long)]
    colour_corrected: bool,

    /// Score a third time: what the run learnt of photos is fitted to their left halves, and the right halves
    /// are scored
    #[arg(long)]
    halves: bool,

    /// With --halves: adapt looks to each photo by a LoRA of this rank on their network as well, for light that the run
    /// did not see; splats and network stay as they are [default: the photo's code alone]
    #[arg(long, value_name = "RANK", requires = "halves", value_parser = clap::value_parser!(u8).range(1..=32))]
    lora: Option<u8>,

    /// Write renders, maps of errors and tables into this folder
    #[arg(short, long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Replace files of these names in that folder that Dapple has not written
    #[arg(long, requires = "out")]
    overwrite: bool,

    /// Filter against aliasing (Mip-Splatting), for splats of other programs that were trained so
    /// [default: as the run was]
    #[arg(long)]
    antialias: bool,

    #[command(flatten)]
    capture: CaptureOptions,

    #[command(flatten)]
    device: DeviceOptions,
}

/// Splats to score, and how.
struct Subject {
    path: PathBuf,
    splats: Splats,
    /// Where they are beside their capture.
    frame: Frame,
    config: TrainConfig,
}

impl Subject {
    fn open(path: &Path, flags: &ConfigPatch, console: &Console) -> Result<Self> {
        let path = splats_file(path)?;
        let mut config = config_beside(&path, flags.clone(), console)?;
        let (splats, aside) = read_splats(&path, console)?;
        config.antialias |= aside.antialiased;
        Ok(Self {
            splats,
            frame: aside.frame(),
            config,
            path,
        })
    }

    /// Puts the splats back to where they were trained, and counts them from where the capture's cameras do.
    fn count_from(&mut self, origin: DVec3) {
        let frame = self.frame.beside(middle_of(&self.splats), origin);
        if frame.moved != Similarity::IDENTITY {
            frame.moved.inverse().apply(&mut self.splats);
        }
        self.splats.count_from(origin - frame.origin);
    }

    /// Over the given background.
    fn settings(&self, background: [f32; 3]) -> RenderSettings {
        RenderSettings {
            background,
            ..shown_settings(&self.config, self.splats.sh_degree)
        }
    }
}

impl Args {
    /// The capture, where one is named, and the splats.
    fn named(&self) -> Result<(Option<&PathBuf>, &PathBuf)> {
        match (self.paths.as_slice(), &self.scene) {
            ([splats], scene) => Ok((scene.as_ref(), splats)),
            ([scene, splats], None) => Ok((Some(scene), splats)),
            _ => Err(Error::input("the capture is named twice")
                .at("the options given")
                .hint("name it before the splats, or with --scene")),
        }
    }

    /// The options as a layer over the runs' configurations.
    fn flags(&self) -> ConfigPatch {
        ConfigPatch {
            background: self.background.map(Background::Colour),
            antialias: self.antialias.then_some(true),
            data: self.capture.patch(),
            eval: EvalPatch {
                lpips: self.lpips.clone(),
                ..EvalPatch::default()
            },
            ..ConfigPatch::default()
        }
    }
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    // Before the photos: a mistake in the name of the splats shows at once.
    if let Some(out) = args.out.as_deref().filter(|_| !args.overwrite) {
        RunFolder::open(out).refuse_foreign(Writes::Scores)?;
    }
    let flags = args.flags();
    let (scene, splats) = args.named()?;
    let mut a = Subject::open(splats, &flags, console)?;
    let other = args.compare.as_ref();
    let mut b = other
        .map(|path| Subject::open(path, &flags, console))
        .transpose()?;
    if let Some(b) = &b {
        note_differences(&a.config, &b.config, console);
    }
    let lpips = a.config.read_lpips()?;
    let scene = match scene {
        Some(scene) => scene.clone(),
        None => known_capture::needed(&a.path, console)?,
    };
    let (dataset, trained) = load_held_out((args, &scene), &a.config, console)?;
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
    // What two are compared by, both have.
    let learnt = |subject: &Subject| subject.config.appearance.is_on();
    let mut scorer = Scorer {
        engine: args.device.engine(console)?,
        dataset: &dataset,
        background,
        lpips: lpips.as_ref(),
        corrects: args.colour_corrected || learnt(&a) || b.as_ref().is_some_and(learnt),
        console,
    };
    let report = scorer.score(&a, folder.as_ref())?;
    let second = b.as_ref().map(|b| scorer.score(b, None)).transpose()?;
    let aligns = args.align_poses || a.config.poses.refine;
    let aligned = aligns.then(|| scorer.aligned(&a, &trained)).transpose()?;
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

/// Names and poses of the photos that the run trained on.
type Trained = Vec<(String, Pose)>;

/// The held-out photos alone: the others are not decoded. Their poses come beside.
fn load_held_out(
    (args, scene): (&Args, &Path),
    config: &TrainConfig,
    console: &Console,
) -> Result<(Dataset, Trained)> {
    let options = config.load_options();
    let mut capture = load::open(scene, &options)?;
    if let Some(out) = &args.out {
        refuse_inputs(out, scene, &capture, &options)?;
    }
    let split = split(&capture, &config.data);
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
    let mut index = 0..;
    capture.images.retain(|_| {
        index
            .next()
            .is_some_and(|i| held_out.binary_search(&i).is_ok())
    });
    let options = photo_memory::limited(options, None);
    let dataset = load::decode(capture, &options, &console.progress())?;
    Ok((dataset, trained))
}

/// Both are scored on the photos of the first: what the second saw may have been others.
fn note_differences(a: &TrainConfig, b: &TrainConfig, console: &Console) {
    if a.data != b.data {
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
