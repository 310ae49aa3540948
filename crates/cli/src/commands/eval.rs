//! `dapple eval`: scores splats against photos they were not trained on, and against other splats.

mod poses;

use crate::console::Console;
use crate::options::{
    CaptureOptions, DeviceOptions, config_beside, parse_colour, read_splats, refuse_inputs,
    splats_file, split,
};
use crate::photo_memory;
use crate::viewing::shown_settings;
use dapple::contract::{Engine, RenderSettings};
use dapple::glam::DVec3;
use dapple::scene::{Dataset, Error, Pose, Result, Splats, View, load, printable};
use dapple::train::config::{Background, EvalPatch};
use dapple::train::evaluate::{
    Difference, LEAST_IMAGES, Lpips, Paired, flat_psnr, paired_table, table,
};
use dapple::train::{
    ConfigPatch, EvalReport, Halves, PictureWriter, RunFolder, Scoring, TrainConfig, Writes,
    evaluate, evaluate_aligned, evaluate_halves, read_looks,
};
use poses::PoseReport;
use serde::Serialize;
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
  dapple eval captures/bird out/bird/splats.ply
  dapple eval captures/bird out/bird/splats.ply --json | jq .psnr
  dapple eval captures/bird out/bird/splats.ply --downscale 2   at half of the photos' size
  dapple eval captures/bird out/bird/splats.ply -o compare    renders, error maps, tables
  dapple eval captures/bird out/a --compare out/b             is a better than b?
  dapple eval captures/bird out/bird --lpips vgg.safetensors";

/// Fewer images are all shown anyway.
const WORST_FROM: usize = 6;

/// Scores splats against the held-out photos: PSNR, SSIM and LPIPS
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The capture: a folder (COLMAP, Nerfstudio, Blender) or its transforms.json
    scene: PathBuf,

    /// The splats: a PLY file of any program, or the folder of a run
    splats: PathBuf,

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

/// What `--json` prints.
#[derive(Serialize)]
struct Scores<'a> {
    scene: &'a Path,
    splats: &'a Path,
    #[serde(flatten)]
    report: &'a EvalReport,
    worst: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compare: Option<Compared<'a>>,
    /// With the pose of each photo fitted to the splats.
    #[serde(skip_serializing_if = "Option::is_none")]
    aligned: Option<&'a EvalReport>,
    /// Of right halves, with appearance fitted to the left ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    halves: Option<&'a EvalReport>,
    /// How far the poses of the photos trained on are off.
    #[serde(skip_serializing_if = "Option::is_none")]
    poses: Option<&'a PoseReport>,
}

/// The second splats' part of it.
#[derive(Serialize)]
struct Compared<'a> {
    splats: &'a Path,
    #[serde(flatten)]
    report: &'a EvalReport,
    difference: &'a Paired,
}

/// Splats to score, and how.
struct Subject {
    path: PathBuf,
    splats: Splats,
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
            config,
            path,
        })
    }

    /// Over the given background.
    fn settings(&self, background: [f32; 3]) -> RenderSettings {
        RenderSettings {
            background,
            ..shown_settings(&self.config, self.splats.sh_degree)
        }
    }
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let flags = ConfigPatch {
        background: args.background.map(Background::Colour),
        antialias: args.antialias.then_some(true),
        data: args.capture.patch(),
        eval: EvalPatch {
            lpips: args.lpips.clone(),
            ..EvalPatch::default()
        },
        ..ConfigPatch::default()
    };
    // Before the photos: a mistake in the name of the splats shows at once.
    if let Some(out) = args.out.as_deref().filter(|_| !args.overwrite) {
        RunFolder::open(out).refuse_foreign(Writes::Scores)?;
    }
    let a = Subject::open(&args.splats, &flags, console)?;
    let other = args.compare.as_ref();
    let b = other
        .map(|path| Subject::open(path, &flags, console))
        .transpose()?;
    if let Some(b) = &b {
        note_differences(&a.config, &b.config, console);
    }
    let lpips = a.config.read_lpips()?;
    let (dataset, trained) = load_held_out(args, &a.config, console)?;
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
    if let Some(note) = folder.as_ref().and_then(RunFolder::lock_note) {
        console.note(&format!("note: {note}"));
    }
    let mut engine = args.device.engine(console)?;
    // What two are compared by, both have.
    let learnt = |subject: &Subject| subject.config.appearance.is_on();
    let corrects = args.colour_corrected || learnt(&a) || b.as_ref().is_some_and(learnt);
    let mut scored = |subject: &Subject, folder: Option<&RunFolder>| {
        let settings = subject.settings(background);
        engine.upload(&subject.splats, None)?;
        score(
            engine.as_mut(),
            &dataset,
            &settings,
            (lpips.as_ref(), corrects),
            folder,
            console,
        )
    };
    let report = scored(&a, folder.as_ref())?;
    let second = b.as_ref().map(|b| scored(b, None)).transpose()?;
    let aligned = if args.align_poses || a.config.poses.refine {
        let centres = trained.iter().map(|(_, pose)| pose.centre());
        let extent = extent(&centres.collect::<Vec<_>>());
        let views: Vec<&View> = dataset.views.iter().collect();
        engine.upload(&a.splats, None)?;
        let settings = a.settings(background);
        Some(evaluate_aligned(
            engine.as_mut(),
            &views,
            &settings,
            extent,
        )?)
    } else {
        None
    };
    let halves = match args.halves {
        true => Some(score_halves(
            engine.as_mut(),
            &a,
            &dataset,
            (background, args.lora),
            console,
        )?),
        false => None,
    };
    let paired = second
        .as_ref()
        .map(|second| Paired::new(&report, second))
        .transpose()?;
    let compared = b.as_ref().zip(second.as_ref()).zip(paired.as_ref());
    let count = args.worst.unwrap_or(match report.images.len() {
        WORST_FROM.. => 3,
        _ => 0,
    });
    let worst = report.worst(count);
    let scores = Scores {
        scene: &args.scene,
        splats: &a.path,
        report: &report,
        worst: worst.iter().map(|image| image.name.as_str()).collect(),
        compare: compared.map(|((b, report), difference)| Compared {
            splats: &b.path,
            report,
            difference,
        }),
        aligned: aligned.as_ref(),
        halves: halves.as_ref(),
        poses: poses.as_ref(),
    };
    let text = |markdown: bool| match &paired {
        Some(paired) => paired_table(&report, paired, markdown),
        None => table(&report, markdown),
    };
    if let Some(folder) = &folder {
        folder.write_scores(&scores, &text(true))?;
    }
    if args.json {
        return console.json(&scores);
    }
    console.data(text(args.markdown).trim_end())?;
    if let Some(aligned) = &aligned {
        console.data("\naligned: the pose of each photo fitted to the splats")?;
        console.data(table(aligned, args.markdown).trim_end())?;
    }
    if let Some(halves) = &halves {
        console.data("\nright halves, what differs between photos fitted to the left ones")?;
        console.data(table(halves, args.markdown).trim_end())?;
    }
    if let Some(poses) = &poses {
        console.data(&poses.lines())?;
    }
    for image in worst {
        let below = report.psnr - image.psnr;
        console.note(&format!(
            "worst: {} with {:.2} dB, {below:.2} below the mean",
            printable(&image.name),
            image.psnr
        ));
    }
    match &paired {
        Some(paired) => console.data(&verdict(paired)),
        None => Ok(()),
    }
}

/// Scores all views, with fitted colours too where it `corrects` them; writes what there is to see into `folder`.
fn score(
    engine: &mut dyn Engine,
    dataset: &Dataset,
    settings: &RenderSettings,
    (lpips, corrects): (Option<&Lpips>, bool),
    folder: Option<&RunFolder>,
    console: &Console,
) -> Result<EvalReport> {
    let bar = console.bar(dataset.views.len() as u64, "scoring [{bar:30}] {pos}/{len}");
    let views: Vec<&View> = dataset.views.iter().collect();
    let mut pictures = folder.map(|folder| PictureWriter::new(folder, settings.background));
    let scoring = Scoring {
        lpips,
        fitted: corrects,
        pictures: pictures.is_some(),
    };
    let mut flat = Vec::new();
    let report = evaluate(engine, &views, settings, &scoring, &mut |view, shown| {
        bar.inc(1);
        flat.extend(flat_psnr(view.photo.read()?.as_ref(), settings.background));
        if let (Some(writer), Some(shown)) = (&mut pictures, shown) {
            writer.write(&view.name, view.photo.read()?, shown);
        }
        Ok(())
    });
    bar.finish_and_clear();
    let report = report?;
    pictures.map_or(Ok(()), PictureWriter::finish)?;
    for note in &report.notes {
        console.note(&format!("note: {note}"));
    }
    let flat = flat.iter().sum::<f64>() / flat.len().max(1) as f64;
    if report.psnr < flat {
        console.note(&format!(
            "remark: pictures of one colour would score better, {flat:.2} dB: are these the splats of another \
             capture, or in another world than its poses?"
        ));
    }
    Ok(report)
}

/// Scores right halves, with what the run learnt of photos fitted to the left ones.
fn score_halves(
    engine: &mut dyn Engine,
    subject: &Subject,
    dataset: &Dataset,
    (background, lora): ([f32; 3], Option<u8>),
    console: &Console,
) -> Result<EvalReport> {
    let appearance = &subject.config.appearance;
    if lora.is_some() && !appearance.has_looks() {
        return Err(
            Error::input("the run learnt no looks that a LoRA could adapt")
                .at("--lora")
                .hint("looks are what a run with --appearance mlp learns"),
        );
    }
    let looks = subject.path.with_file_name("appearance.safetensors");
    let look = match appearance.has_looks() {
        true => Some(read_looks(&looks, subject.splats.len())?.0),
        false => None,
    };
    let how = Halves {
        appearance,
        look: look.as_ref(),
        lora: lora.map(usize::from),
        ssim_weight: subject.config.ssim_weight,
        settings: subject.settings(background),
    };
    let views: Vec<&View> = dataset.views.iter().collect();
    evaluate_halves(engine, &subject.splats, &views, &how, &console.progress())
}

/// As [`Dataset::extent`] without points.
fn extent(centres: &[DVec3]) -> f64 {
    let mean = centres.iter().copied().sum::<DVec3>() / centres.len().max(1) as f64;
    let radius = centres.iter().map(|c| c.distance(mean)).fold(0.0, f64::max);
    if radius > 0.0 { 1.1 * radius } else { 1.0 }
}

/// Names and poses of the photos that the run trained on.
type Trained = Vec<(String, Pose)>;

/// The held-out photos alone: the others are not decoded. Their poses come beside.
fn load_held_out(
    args: &Args,
    config: &TrainConfig,
    console: &Console,
) -> Result<(Dataset, Trained)> {
    let (scene, options) = (&args.scene, config.load_options());
    let mut capture = load::open(scene, &options)?;
    if let Some(out) = &args.out {
        refuse_inputs(out, scene, &capture, &options)?;
    }
    let split = split(&capture.images, &config.data);
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

/// What the comparison comes to, in words.
fn verdict(paired: &Paired) -> String {
    let line = |name: &str, unit: &str, digits: usize, d: &Difference| {
        let [low, high] = d.interval;
        let photos = d.images.len();
        if photos < LEAST_IMAGES {
            return format!(
                "{name:<6}A - B = {:+.digits$}{unit}, A better on {}, worse on {} (sign test p = {:.2}): too \
                 few photos to tell a difference from noise ({photos}; {LEAST_IMAGES} do)",
                d.mean, d.better, d.worse, d.sign_test
            );
        }
        let leaves_out_zero = low > 0.0 || high < 0.0;
        let says = match (d.is_beyond_noise, d.better > d.worse) {
            (false, _) if leaves_out_zero => {
                "a few photos make the mean, and most of the others say otherwise"
            }
            (true, true) => "A is better, beyond the photos' noise",
            (true, false) => "B is better, beyond the photos' noise",
            (false, _) => "no more than the photos' noise",
        };
        format!(
            "{name:<6}A - B = {:+.digits$}{unit} [{low:+.digits$}, {high:+.digits$}], A better on {}, \
             worse on {} (sign test p = {:.2}): {says}",
            d.mean, d.better, d.worse, d.sign_test
        )
    };
    let mut lines = vec![
        line("PSNR", " dB", 3, &paired.psnr),
        line("SSIM", "", 4, &paired.ssim),
    ];
    lines.extend(paired.lpips.as_ref().map(|d| line("LPIPS", "", 4, d)));
    lines.join("\n")
}
