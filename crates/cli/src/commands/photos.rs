//! `dapple photos`: makes a capture from photos or videos.

mod add;
mod shown;

use super::train;
use crate::console::Console;
use crate::interrupt;
use crate::options::DeviceOptions;
use crate::viewing::ViewOptions;
use clap::{Parser, ValueEnum};
use dapple::scene::{Error, Result};
use dapple_photos::{Distance, Done, Mapper, Options, make};
use std::path::PathBuf;

const AFTER_HELP: &str = "\
The poses come from an installed COLMAP (3.8 or newer) or pycolmap; Dapple selects photos and pairs,
runs the tool, checks the result and names the photos at fault. --install installs pycolmap into a
virtual environment next to the capture. `dapple doctor` prints the installed tool. DAPPLE_COLMAP
names a tool elsewhere.

CAPTURE holds images/, sparse/0/ (COLMAP's layout), report.html (photos, cameras and points in 3D,
findings), photos.json, and photos-work/ (database, logs of the tool, finished stages). After Ctrl-C
or an error the same command continues with the unfinished stage. photos-work/ can be removed.

Pairs: all up to 80 photos; then neighbouring frames and loops of a video, neighbours by GPS, or
the best of a coarse match of all pairs.

Frame: metres by GPS (x east, y down, z north) if it agrees with the photos; else y down by the
cameras, and metres with --distance. Pixels of --distance are those of CAPTURE/images.

--add: old photos, poses, intrinsics and points are copied unchanged; new photos and the points that they
observe are appended. Photos of a camera of the capture share its intrinsics.

The same photos, tool and options give the same bytes with one mapper thread and pycolmap.

Examples:
  dapple photos DCIM/bird -o captures/bird
  dapple photos walk.mp4 -o captures/walk --train --view  poses and training in a browser
  dapple photos left/ right/ -o captures/street         two folders, one camera each
  dapple photos DCIM/bird -o captures/bird --install    without an installed COLMAP
  dapple photos DCIM/desk -o captures/desk --distance IMG_3.jpg:412,880 IMG_3.jpg:1630,902 1.6m
  dapple photos DCIM/more --add out/bird                captures/bird-more, for dapple train --continue";

/// Makes a capture from photos or videos, with an installed COLMAP or pycolmap
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Folders of photos, photos, or videos
    #[arg(required = true, value_name = "PHOTOS")]
    inputs: Vec<PathBuf>,

    /// Capture to create [default with --add: the capture's folder with -more]
    #[arg(short, long, value_name = "CAPTURE", required_unless_present = "add")]
    out: Option<PathBuf>,

    /// Add the photos to the capture of a run, or to this capture, as a new capture
    #[arg(long, value_name = "RUN_OR_CAPTURE", help_heading = "Input")]
    add: Option<PathBuf>,

    /// Frames per second of a video [default: 2, fewer of a video longer than 150 s]
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    fps: Option<f64>,

    /// Most features of a photo
    #[arg(long, value_name = "N", default_value_t = 6000, value_parser = clap::value_parser!(u32).range(100..100_000))]
    features: u32,

    /// Edge that photos are reduced to for the search of features, pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 1600, value_parser = clap::value_parser!(u32).range(200..20_000))]
    photo_size: u32,

    /// COLMAP's camera model [default: simple-radial, and opencv in a last adjustment of 20 or more photos]
    #[arg(long, value_name = "MODEL", hide_short_help = true)]
    camera_model: Option<String>,

    /// Mapper of the tool
    #[arg(long, value_enum, default_value = "auto", hide_short_help = true)]
    mapper: MapperChoice,

    /// Threads of the mapper; with more than one, results differ between runs in the last digits
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true)]
    mapper_threads: usize,

    /// Known distance, three or five values: PHOTO:x,y PHOTO:x,y LENGTH with the depth of the sparse points, or
    /// A:x,y B:x,y A:x,y B:x,y LENGTH with each end in two photos
    #[arg(long, value_name = "PLACE", num_args = 3..=5, help_heading = "Scale")]
    distance: Option<Vec<String>>,

    /// Ignore GPS positions
    #[arg(long, hide_short_help = true)]
    no_gps: bool,

    /// Allow the tool to use a GPU; results may then differ between runs
    #[arg(long)]
    gpu: bool,

    /// Random seed of the tool
    #[arg(long, value_name = "N", default_value_t = 0, hide_short_help = true)]
    seed: u32,

    /// Program of the tool: COLMAP, or a Python with pycolmap [default: searched]
    #[arg(long, value_name = "PROGRAM", hide_short_help = true)]
    tool: Option<PathBuf>,

    /// Install pycolmap into a virtual environment next to the capture
    #[arg(long, conflicts_with = "tool")]
    install: bool,

    /// Write the capture even if fewer than half of the photos have a pose
    #[arg(long)]
    accept: bool,

    /// Train the capture into out/<name> afterwards; refines poses if their error is large
    #[arg(long)]
    train: bool,

    #[command(flatten)]
    view: ViewOptions,

    #[command(flatten)]
    device: DeviceOptions,

    /// Replace images/ and sparse/ in a folder with other files
    #[arg(long)]
    overwrite: bool,

    /// Print one JSON object with the results
    #[arg(long)]
    json: bool,
}

/// Values of --mapper; see [`Mapper`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MapperChoice {
    /// Incremental up to 150 photos; of more, global first if the tool has it. The other below 90 % of the photos
    Auto,
    /// One photo after the other
    Incremental,
    /// All photos at once
    Global,
}

impl From<MapperChoice> for Mapper {
    fn from(choice: MapperChoice) -> Self {
        match choice {
            MapperChoice::Auto => Self::Auto,
            MapperChoice::Incremental => Self::Incremental,
            MapperChoice::Global => Self::Global,
        }
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text
        .parse()
        .ok()
        .filter(|rate| (0.01..=60.0).contains(rate));
    rate.ok_or_else(|| "a number from 0.01 to 60".to_owned())
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    if let Some(to) = &args.add {
        return add::run(args, to, console);
    }
    let options = options(args, args.out.clone().unwrap_or_default())?;
    let done = {
        let _grace = interrupt::grace();
        match args.view.start(console)? {
            Some(viewer) => {
                let done = shown::make_shown(&options, &viewer, &args.device, console)?;
                args.view.keep(viewer);
                done
            }
            None => make(&options, &console.progress())?,
        }
    };
    for note in &done.notes {
        console.note(&format!("note: {note}"));
    }
    for finding in &done.review.findings {
        console.note(&format!(
            "note: {}. Remedy: {}",
            finding.what, finding.remedy
        ));
    }
    match args.json {
        true => console.json(&done)?,
        false => console.outcome(&summary(&done))?,
    }
    if args.train {
        return train_capture(args, &done, console);
    }
    console.note(&format!(
        "next: open {}, then {}",
        done.report.display(),
        train_words(&done).join(" ")
    ));
    Ok(())
}

/// Returns the options of the tool, for a capture at `out`.
fn options(args: &Args, out: PathBuf) -> Result<Options> {
    Ok(Options {
        fps: args.fps,
        features: args.features,
        photo_size: args.photo_size,
        camera_model: args.camera_model.clone(),
        mapper: args.mapper.into(),
        mapper_threads: args.mapper_threads.max(1),
        gpu: args.gpu,
        seed: args.seed,
        tool: args.tool.clone(),
        install: args.install,
        accept: args.accept,
        distance: args.distance.as_deref().map(Distance::parse).transpose()?,
        gps: !args.no_gps,
        overwrite: args.overwrite,
        ..Options::new(args.inputs.clone(), out)
    })
}

/// Returns the lines of the result.
fn summary(done: &Done) -> String {
    let review = &done.review;
    let scale = match (done.frame.scale_from, done.frame.gps_residual) {
        (Some("gps"), Some(residual)) => format!("metres by GPS (residual {residual:.2} m)"),
        (Some(_), _) => "metres by --distance".to_owned(),
        (None, _) => "unknown scale".to_owned(),
    };
    format!(
        "{}: {} of {} photos have a pose, {} points, error {:.2} px, {:.1} photos for each point ({})\nframe: {}, {scale}",
        done.capture.display(),
        review.registered,
        review.photos,
        review.points,
        review.error,
        review.track_length,
        done.tool,
        done.frame.axes
    )
}

/// Returns the command that trains the capture.
fn train_words(done: &Done) -> Vec<String> {
    let mut words = vec![
        "dapple".to_owned(),
        "train".to_owned(),
        done.capture.display().to_string(),
    ];
    words.extend(
        done.review
            .refine_poses
            .then(|| "--refine-poses".to_owned()),
    );
    words
}

/// Trains the capture with the defaults of `dapple train`.
fn train_capture(args: &Args, done: &Done, console: &Console) -> Result<()> {
    /// The command line of `dapple train` only.
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        train: train::Args,
    }
    let mut words = train_words(done);
    words.remove(0);
    words.extend(args.json.then(|| "--json".to_owned()));
    console.note(&format!("dapple {}", words.join(" ")));
    let mut line = Line::try_parse_from(words)
        .map_err(|e| Error::internal(format!("the command line of training: {e}")))?;
    line.train.show_as(args.view.clone(), args.device.clone());
    train::run(&line.train, console)
}
