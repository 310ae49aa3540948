//! `dapple render`: renders splats to files.

mod shots;
mod writing;

use crate::camera_paths::{KeyPath, PathChoice};
use crate::cameras;
use crate::channels::{self, FileFormat, Output};
use crate::colormap::Colormap;
use crate::console::Console;
use crate::options::{
    CaptureOptions, DeviceOptions, NewFolders, config_beside, parse_colour, read_splats,
    refuse_existing, refuse_inputs, splats_file,
};
use crate::outputs::refuse_sources;
use crate::video;
use clap::ValueEnum;
use dapple::contract::{Channel, Engine, RenderSettings};
use dapple::glam::DVec3;
use dapple::scene::origin::{assumed, middle_of};
use dapple::scene::provenance::is_dapples_picture;
use dapple::scene::splat_file::SplatMetadata;
use dapple::scene::{Capture, Error, LoadOptions, MAX_SH_DEGREE, Result, Splats, load};
use dapple::train::config::Background;
use dapple::train::{ConfigPatch, TrainConfig};
use dapple_base::numbers::plain;
use shots::{Shot, frames, numbered, seen, shots};
use std::path::{Path, PathBuf};
use writing::{film, save};

const AFTER_HELP: &str = "\
docs/RENDERING.md explains cameras, paths, camera files, and the content of each channel.

Examples:
  dapple render out/bird --views held-out -o renders
  dapple render out/bird --path --frames 120 -o around
  dapple render out/bird --path arc --frames 90 --fov 75 --width 1280 --height 720 -o arc
  dapple render out/bird --path tour.json --width 1920 --height 1080 -o tour.mp4
  dapple render out/bird/splats.ply --camera camera.json -o picture.png
  dapple render out/bird/splats.ply --capture captures/bird --views all --channel depth \\
    --format exr -o depths";

/// Renders splats to PNG, EXR or video: colours, depth, normals or counts
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
#[command(group = clap::ArgGroup::new("from").required(true).args(["views", "path", "camera"]))]
pub struct Args {
    /// Splats: a splat file, or a run's folder
    #[arg(help_heading = "Input")]
    splats: PathBuf,

    /// Capture with the cameras [default: the run's]
    #[arg(
        long = "capture",
        alias = "scene",
        value_name = "CAPTURE",
        help_heading = "Input"
    )]
    scene: Option<PathBuf>,

    /// Cameras of the capture: held-out, train, all, or a photo's name
    #[arg(long, value_name = "V", help_heading = "Cameras")]
    views: Option<String>,

    /// Camera path: auto, orbit, arc, capture, or a file of keys [default: auto]
    #[arg(long, value_name = "KIND", num_args = 0..=1, default_missing_value = "auto", help_heading = "Cameras")]
    path: Option<PathChoice>,

    /// Up direction of a path [default: from the cameras or the file, else -y]
    #[arg(
        long,
        value_name = "AXIS",
        value_enum,
        allow_hyphen_values = true,
        requires = "path",
        help_heading = "Cameras",
        hide_short_help = true
    )]
    up: Option<Up>,

    /// Pictures along the path [default: 60, or 30 per second of a file of keys]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Cameras")]
    frames: Option<u32>,

    /// JSON file with one camera
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "scene",
        help_heading = "Cameras"
    )]
    camera: Option<PathBuf>,

    /// Horizontal field of view of a path or of --camera, degrees [default: from the photos, keys or file]
    #[arg(
        long,
        value_name = "DEGREES",
        conflicts_with = "views",
        help_heading = "Cameras"
    )]
    fov: Option<f64>,

    /// Picture width, pixels [default: the camera's]
    #[arg(long, value_name = "PIXELS", help_heading = "Cameras")]
    width: Option<u32>,

    /// Picture height, pixels [default: the camera's, or in proportion to --width]
    #[arg(long, value_name = "PIXELS", help_heading = "Cameras")]
    height: Option<u32>,

    /// Background [default: the run's, else black]
    #[arg(long, value_name = "black|white|R,G,B", value_parser = parse_colour, help_heading = "Data", hide_short_help = true)]
    background: Option<[f64; 3]>,

    /// Highest degree of spherical harmonics to use [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_SH_DEGREE)), help_heading = "Data", hide_short_help = true)]
    sh_degree: Option<u8>,

    /// Data to render
    #[arg(
        long,
        value_name = "CHANNEL",
        value_parser = channels::parser(),
        default_value = Channel::default().name(),
        help_heading = "Data"
    )]
    channel: Channel,

    /// Colour map of depths, counts or alpha in PNG files [default: turbo for depths and counts]
    #[arg(
        long,
        value_name = "NAME",
        value_enum,
        help_heading = "Data",
        hide_short_help = true
    )]
    colormap: Option<Colormap>,

    /// World units per step of a 16-bit depth PNG, at most 65535 steps; implies --colormap none [default: 0.001]
    #[arg(long, value_name = "X", help_heading = "Data", hide_short_help = true)]
    depth_unit: Option<f64>,

    /// Render with the Mip-Splatting filters, for splats of other programs trained with them [default: as in the run]
    #[arg(long, help_heading = "Data", hide_short_help = true)]
    antialias: bool,

    /// Folder; or for one picture a .png or .exr file; or a video file such as .mp4
    #[arg(short, long, value_name = "PATH", help_heading = "Output")]
    out: PathBuf,

    /// Replace files that Dapple has not written too
    #[arg(long, help_heading = "Output")]
    overwrite: bool,

    /// File format in a folder [default: png]
    #[arg(long, value_enum, help_heading = "Output")]
    format: Option<FileFormat>,

    #[command(flatten)]
    capture: CaptureOptions,

    #[command(flatten)]
    device: DeviceOptions,
}

/// Up directions in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Up {
    X,
    #[value(name = "-x")]
    MinusX,
    Y,
    #[value(name = "-y")]
    MinusY,
    Z,
    #[value(name = "-z")]
    MinusZ,
}

impl From<Up> for DVec3 {
    fn from(up: Up) -> Self {
        match up {
            Up::X => Self::X,
            Up::MinusX => Self::NEG_X,
            Up::Y => Self::Y,
            Up::MinusY => Self::NEG_Y,
            Up::Z => Self::Z,
            Up::MinusZ => Self::NEG_Z,
        }
    }
}

/// Default pictures along a path.
const FRAMES: u32 = 60;

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let flags = ConfigPatch {
        background: args.background.map(Background::Colour),
        antialias: args.antialias.then_some(true),
        ..args.capture.patch()
    };
    let output = args.output()?;
    let file = splats_file(&args.splats)?;
    let config = config_beside(&file, flags, console)?;
    let (mut splats, metadata) = read_splats(&file, console)?;
    let mut shots = placed_shots((args, &file), &config, (&mut splats, &metadata), console)?;
    for (_, camera) in &mut shots {
        *camera = cameras::resized(camera, args.width, args.height)?;
        if let Some(degrees) = args.fov {
            *camera = cameras::with_field_of_view(camera, degrees)?;
        }
    }
    args.note_size(&shots, console);
    if is_file(&args.out) && shots.len() != 1 {
        return Err(
            Error::input(format!("{} pictures do not fit into one file", shots.len()))
                .at_path(&args.out)
                .hint("name a folder"),
        );
    }
    let settings = RenderSettings {
        background: config.background.fixed(),
        sh_degree: args
            .sh_degree
            .unwrap_or(splats.sh_degree)
            .min(splats.sh_degree),
        max_gaussians_per_tile: config.max_gaussians_per_tile,
        near: config.near_plane() * metadata.moved.scale as f32,
        depth: false,
        surface: false,
        antialias: config.antialias || metadata.antialiased,
        extra_dilation: 0.0,
    };
    if video::is_video(&args.out) {
        refuse_existing(&args.out, args.overwrite)?;
        video::check(&args.out)?;
    }
    refuse_foreign(&shots, args, output)?;
    let mut engine = args.device.engine_holding(&splats, console)?;
    args.check_shared(engine.as_mut())?;
    engine.upload(&splats, None)?;
    let output = match args.colours() {
        Some(map) => {
            let cameras = shots.iter().map(|(_, camera)| camera);
            let (output, note) = output.coloured(map, engine.as_mut(), cameras, &settings)?;
            console.note(&note);
            output
        }
        None => output,
    };
    let unfit = match video::is_video(&args.out) {
        true => film(&shots, engine.as_mut(), &settings, args, output, console)?,
        false => {
            let folders = NewFolders::before(&args.out);
            let saved = save(&shots, engine.as_mut(), &settings, args, output, console);
            folders.unless_ok(saved)?
        }
    };
    for note in unfit.notes(output.channel, output.unit) {
        console.note(&note);
    }
    console.outcome(&format!(
        "{} pictures in {}",
        shots.len(),
        args.out.display()
    ))
}

/// Returns the cameras that --views, --path or --camera selects. The splats get the origin of the cameras, except with a
/// path from a file.
fn placed_shots(
    (args, file): (&Args, &Path),
    config: &TrainConfig,
    (splats, metadata): (&mut Splats, &SplatMetadata),
    console: &Console,
) -> Result<Vec<Shot>> {
    // Origin of the renders. Splats of a file without an origin count from zero.
    let mut frame = metadata.frame();
    let told = args.up.map(DVec3::from).or(metadata.up.map(DVec3::from));
    Ok(match &args.path {
        Some(PathChoice::File(path)) => {
            let keys = KeyPath::read(path)?;
            let (width, height) = (args.width.unwrap_or(1280), args.height.unwrap_or(720));
            let cameras = keys.cameras(args.frames.unwrap_or(keys.frames()), width, height);
            for camera in &cameras {
                cameras::check(camera)?;
            }
            numbered(cameras)
        }
        Some(PathChoice::Kind(path)) => {
            let up = told.filter(|_| args.up.is_some());
            let seen = seen(args, file, up, config, &mut frame, console)?;
            count_from(splats, metadata.origin, frame.origin);
            let count = args.frames.unwrap_or(FRAMES);
            frames(*path, seen, count, splats, told, console)?
        }
        None => {
            let shots = shots((args, file), config, &mut frame, console)?;
            count_from(splats, metadata.origin, frame.origin);
            shots
        }
    })
}

/// Changes the origin of splats from `said`, the file's, to that of the cameras.
fn count_from(splats: &mut Splats, said: DVec3, cameras: DVec3) {
    let counts_from = assumed(middle_of(splats), said, cameras);
    splats.count_from(cameras - counts_from);
}

/// Refuses to replace files of captures and of runs, and without --overwrite pictures that Dapple has not written.
fn refuse_foreign(shots: &[Shot], args: &Args, output: Output) -> Result<()> {
    let paths = || shots.iter().map(|(name, _)| args.path_of(name, output));
    paths()
        .find(|path| path.exists())
        .map_or(Ok(()), |path| refuse_sources(&path))?;
    let mut paths = paths();
    let foreign = |path: &PathBuf| path.symlink_metadata().is_ok() && !is_dapples_picture(path);
    match paths.find(|path| !args.overwrite && foreign(path)) {
        None => Ok(()),
        Some(path) => Err(Error::input("a picture exists that Dapple has not written")
            .at_path(path)
            .hint("choose another --out, or give --overwrite to replace it")),
    }
}

/// Returns true if the output is one file.
fn is_file(out: &Path) -> bool {
    FileFormat::from_path(out).is_some()
}

impl Args {
    /// Returns the path of a picture.
    fn path_of(&self, name: &str, output: Output) -> PathBuf {
        match is_file(&self.out) {
            true => self.out.clone(),
            false => self
                .out
                .join(name)
                .with_extension(output.format.extension()),
        }
    }

    /// Refuses to write into the capture's own folders, or over its files.
    fn refuse_inputs(&self, scene: &Path, capture: &Capture, options: &LoadOptions) -> Result<()> {
        match is_file(&self.out) {
            true => load::refuse_output_file(&self.out, capture),
            false => refuse_inputs(&self.out, scene, capture, options),
        }
    }

    /// Returns the channel and format to write.
    fn output(&self) -> Result<Output> {
        let named = FileFormat::from_path(&self.out);
        if video::is_video(&self.out) && self.format == Some(FileFormat::Exr) {
            return Err(Error::input("a video is made of PNG files, not of EXR")
                .at("--format exr")
                .hint("omit --format, or name a folder"));
        }
        if let (Some(named), Some(asked)) = (named, self.format)
            && named != asked
        {
            return Err(Error::input(format!(
                "--format {} and the file's name contradict each other",
                asked.extension()
            ))
            .at_path(&self.out)
            .hint("omit --format: the file's extension selects it"));
        }
        let unit = self.depth_unit.unwrap_or(0.001);
        if !(unit > 0.0 && unit.is_finite()) {
            return Err(
                Error::input(format!("--depth-unit {} is not a length", plain(unit)))
                    .at("the options given")
                    .hint("give world units for a step of a 16-bit PNG, such as 0.001"),
            );
        }
        let format = self.format.or(named).unwrap_or(FileFormat::Png);
        let colours = self.colormap.filter(|&map| map != Colormap::None);
        if colours.is_some()
            && (!channels::takes_colours(self.channel) || format == FileFormat::Exr)
        {
            return Err(
                Error::input("colours are given to depths, counts and alpha in PNG files")
                    .at("--colormap")
                    .hint(
                        "add --channel depth, median-depth, surface-depth, count or alpha, and no --format exr",
                    ),
            );
        }
        Ok(Output {
            channel: self.channel,
            format,
            unit,
            colours: None,
        })
    }

    /// Refuses channels that engines with shared splats do not render.
    fn check_shared(&self, engine: &mut dyn Engine) -> Result<()> {
        let alone = [
            Channel::Count,
            Channel::SurfaceDepth,
            Channel::SurfaceNormal,
        ];
        if !alone.contains(&self.channel) || engine.sharing().is_none() {
            return Ok(());
        }
        let name = self.channel.name();
        Err(
            Error::unsupported(format!("engines that share splats do not render {name}"))
                .at(format!("--channel {name}"))
                .hint("use --device cpu, which holds all splats in one engine"),
        )
    }

    /// Returns the colour map for numbers in a PNG.
    fn colours(&self) -> Option<Colormap> {
        let is_exr =
            [FileFormat::from_path(&self.out), self.format].contains(&Some(FileFormat::Exr));
        let is_dark = channels::takes_colours(self.channel) && self.channel != Channel::Alpha;
        let default = match is_dark && self.depth_unit.is_none() && !is_exr {
            true => Colormap::Turbo,
            false => Colormap::None,
        };
        let map = self.colormap.unwrap_or(default);
        (map != Colormap::None).then_some(map)
    }

    /// Prints the size of a path's pictures, if no option sets it.
    fn note_size(&self, shots: &[Shot], console: &Console) {
        let (Some(path), Some((_, camera))) = (&self.path, shots.first()) else {
            return;
        };
        if self.width.is_some() && self.height.is_some() {
            return;
        }
        let why = match path {
            _ if self.width.is_some() || self.height.is_some() => "in proportion",
            PathChoice::File(_) => "since no option sets a size",
            PathChoice::Kind(_) => "as large as the photos were loaded",
        };
        console.note(&format!(
            "size: {}x{} pixels, {why} (--width and --height set another)",
            camera.width, camera.height
        ));
    }
}
