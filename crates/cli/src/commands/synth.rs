//! `dapple synth`: generates a synthetic capture with known ground truth.

use crate::console::Console;
use crate::interrupt;
use crate::options::NewFolders;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use dapple::scene::{Error, Result};
use dapple::synth::{
    LensKind, LightKind, ObjectBackground, PoseNoise, SceneKind, SynthOptions, SynthSummary,
    generate,
};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
The capture has COLMAP's layout (images/ and sparse/0/), exact poses, and sparse points with noise;
with --object it has Blender's layout (transforms_train.json, transforms_test.json) and no points.
The same options and seed give the same files, bit for bit.

Examples:
  dapple synth captures/table
  dapple synth captures/field --scene field --width 960 --height 720 --points 12000
  dapple synth captures/plain --scene plain --mesh    and its exact surface, to compare meshes
  dapple synth captures/city --scene city --blocks 4 --photos 128 --points 100000
  dapple synth captures/off --pose-noise 0.5,0.01     poses half a degree off
  dapple synth captures/drift --drift 1                 photos to try `train --appearance` with
  dapple synth captures/lamp --light lamp               light that no exposure explains
  dapple synth captures/object --object --photos 100 --width 800 --height 800
                                                        an object with alpha, no points, Blender's layout
  dapple synth captures/fisheye --lens opencv-fisheye --photos 24 --width 640 --height 480";

/// Makes a synthetic capture with known poses and ground truth
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Scene
    #[arg(long, value_enum, default_value = "table", help_heading = "Scene")]
    scene: Scene,

    /// Blocks along each side of a city, 32 metres each [default: 2]
    #[arg(long, value_name = "N", help_heading = "Scene")]
    blocks: Option<u32>,

    /// Make a capture of the scene's table only, in Blender's layout, without sparse points: photos with alpha, or
    /// opaque over BACKGROUND; one held-out photo per four of --photos [default: the whole scene]
    #[arg(long, value_enum, value_name = "BACKGROUND", num_args = 0..=1, require_equals = true,
          default_missing_value = "transparent", conflicts_with_all = ["points", "point_noise"], help_heading = "Scene")]
    object: Option<Object>,

    /// Lens; all but pinhole distort, or make panoramas (of equirect, twice as wide as high)
    #[arg(long, value_parser = lenses(), default_value = "pinhole", help_heading = "Scene")]
    lens: LensKind,

    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Scene")]
    seed: u64,

    /// Number of photos; with 40, every eighth can be held out
    #[arg(long, value_name = "N", default_value_t = SynthOptions::default().photos, help_heading = "Length and size")]
    photos: usize,

    /// Width of a photo, pixels
    #[arg(long, value_name = "PIXELS", default_value_t = SynthOptions::default().width, help_heading = "Length and size")]
    width: u32,

    /// Height of a photo, pixels
    #[arg(long, value_name = "PIXELS", default_value_t = SynthOptions::default().height, help_heading = "Length and size")]
    height: u32,

    /// Number of sparse points
    #[arg(long, value_name = "N", default_value_t = SynthOptions::default().points, help_heading = "Length and size")]
    points: usize,

    /// Noise of the sparse points, standard deviation along each axis; the table is 4.6 units across
    #[arg(long, value_name = "X", default_value_t = SynthOptions::default().point_noise, help_heading = "Noise and light")]
    point_noise: f64,

    /// Write noisy poses: rotated by DEG degrees about each axis and moved by FRACTION of the cameras' spread along
    /// each axis, standard deviations. true_cameras.json has the true poses
    #[arg(long, value_name = "DEG,FRACTION", value_parser = parse_pose_noise, help_heading = "Noise and light")]
    pose_noise: Option<PoseNoise>,

    /// Exposure drift between photos, at most this many stops either way, and a third as much of white balance. Every
    /// eighth photo has the mean [default: 0, none]
    #[arg(long, value_name = "STOPS", default_value_t = SynthOptions::default().drift, hide_default_value = true, help_heading = "Noise and light")]
    drift: f64,

    /// Change of light between photos, including held-out photos. Sparse points have the colours of constant light
    #[arg(
        long,
        value_enum,
        default_value = "still",
        help_heading = "Noise and light"
    )]
    light: Light,

    /// Also write the exact surface as triangles, OUT/mesh.ply, with the number of photos that see each vertex and face
    /// (`seen`)
    #[arg(long, conflicts_with = "object", help_heading = "Output")]
    mesh: bool,

    /// Folder to create
    #[arg(help_heading = "Output")]
    out: PathBuf,

    /// Replace the capture in OUT, if `dapple synth` made it
    #[arg(long, help_heading = "Output")]
    overwrite: bool,

    /// Print one JSON object with the results
    #[arg(long, help_heading = "Output")]
    json: bool,
}

fn parse_pose_noise(text: &str) -> Result<PoseNoise, String> {
    let numbers: Option<Vec<f64>> = text.split(',').map(|n| n.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[degrees, fraction]) => Ok(PoseNoise { degrees, fraction }),
        _ => Err("two numbers, degrees and a fraction: 0.5,0.01".to_owned()),
    }
}

/// Values of --scene; see [`SceneKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scene {
    /// Toys on a laid table with hills around, for general tests
    Table,
    /// The same toys in plain colours in a bare room: little texture
    Plain,
    /// The same toys, speckled, on pebbles and sand: fine texture
    Gravel,
    /// Houses and trees on a meadow, up to 40 units away, and the sky: distant objects
    Field,
    /// Streets of a city from the pavement and from above, up to two kilometres: as large as --blocks says
    City,
}

impl From<Scene> for SceneKind {
    fn from(scene: Scene) -> Self {
        match scene {
            Scene::Table => Self::Table,
            Scene::Plain => Self::Plain,
            Scene::Gravel => Self::Gravel,
            Scene::Field => Self::Field,
            Scene::City => Self::City,
        }
    }
}

/// Values of --object; see [`ObjectBackground`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Object {
    /// Photos with alpha
    Transparent,
    /// Opaque photos, white around the object
    White,
    /// Opaque photos, grey around the object
    Grey,
    /// Opaque photos, black around the object
    Black,
}

impl From<Object> for ObjectBackground {
    fn from(object: Object) -> Self {
        match object {
            Object::Transparent => Self::Transparent,
            Object::White => Self::White,
            Object::Grey => Self::Grey,
            Object::Black => Self::Black,
        }
    }
}

/// Values of --light; see [`LightKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Light {
    /// No change: the same sun and shadows in all photos
    Still,
    /// A lamp is lit in about half of the photos, each time with a different power
    Lamp,
    /// The sun has another direction in each photo: shadows move
    Sun,
    /// Lamp and sun
    Both,
}

impl From<Light> for LightKind {
    fn from(light: Light) -> Self {
        match light {
            Light::Still => Self::Still,
            Light::Lamp => Self::Lamp,
            Light::Sun => Self::Sun,
            Light::Both => Self::Both,
        }
    }
}

/// Returns the parser of --lens.
fn lenses() -> impl TypedValueParser<Value = LensKind> {
    PossibleValuesParser::new(LensKind::ALL.map(LensKind::name)).try_map(|name| name.parse())
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    if !args.overwrite && holds_something(&args.out) {
        return Err(Error::input("the output folder is not empty")
            .at_path(&args.out)
            .hint(
                "choose another name, or give --overwrite to replace a capture that dapple made",
            ));
    }
    let options = SynthOptions {
        photos: args.photos,
        width: args.width,
        height: args.height,
        points: args.points,
        scene: args.scene.into(),
        blocks: args.blocks.unwrap_or(SynthOptions::default().blocks),
        lens: args.lens,
        seed: args.seed,
        point_noise: args.point_noise,
        pose_noise: args.pose_noise.unwrap_or_default(),
        drift: args.drift,
        light: args.light.into(),
        object: args.object.map(Into::into),
        mesh: args.mesh,
    };
    let summary = make(&options, &args.out, console)?;
    if args.json {
        return console.json(&summary);
    }
    console.outcome(&format!(
        "{}: {} photos, {} points, {} observations",
        summary.folder.display(),
        summary.photos,
        summary.points,
        summary.observations
    ))?;
    console.note(&format!("next: dapple train {}", summary.folder.display()));
    Ok(())
}

/// Makes the capture. After an error or Ctrl-C nothing of it remains.
pub fn make(options: &SynthOptions, out: &Path, console: &Console) -> Result<SynthSummary> {
    let folders = NewFolders::before(out);
    let _grace = interrupt::grace();
    folders.unless_ok(generate(options, out, &console.progress()))
}

/// Returns true if the path exists and is not an empty folder.
fn holds_something(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => path.exists(),
    }
}
