//! `dapple convert`: writes splats in another format, optionally reduced, and measures the loss.

mod choosing;
mod levels;
mod loss;

use crate::console::Console;
use crate::interrupt;
use crate::known_capture;
use crate::machine::human_bytes;
use crate::options::{
    DeviceOptions, NewFolders, SplatsSize, held_by, make_folder_of, note_frame, read_splats_with,
    refuse_existing, splats_file,
};
use crate::training_display::written_of;
use choosing::{choose, free_candidates};
use dapple::scene::edit::order::largest_first;
use dapple::scene::origin::Frame;
use dapple::scene::splat_file::{
    self, Axes, Format, ReadOptions, SplatMetadata, SpzVersion, WriteOptions,
};
use dapple::scene::{Error, MAX_SH_DEGREE, Result, Splats};
use dapple::train::{ConfigPatch, TrainConfig};
use levels::Level;
use loss::Judge;
pub use loss::Loss;
use serde::Serialize;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
The extension of OUTPUT selects the format: .ply .spz .sog meta.json lod-meta.json .compressed.ply
.splat .glb. All of these are read, and .ksplat. The loss of a lossy format is measured.

docs/FORMATS.md lists the formats with sizes, losses, and the programs that open them.

Examples:
  dapple convert out/bird small.ply --sh-degree 0        no view dependence: a quarter of the size
  dapple convert out/bird bird.spz --capture captures/bird   measure the loss against the photos
  dapple convert out/bird bird --max-loss 0.3dB          the smallest file within 0.3 dB
  dapple convert out/bird bird-sog/meta.json             SOG's textures in a folder
  dapple convert out/bird bird-lod/lod-meta.json         textures in four levels of detail
  dapple convert splats.ply clean.ply --min-opacity 0.02
  dapple convert splats.ply phone.ply --max-gaussians 500000";

/// Converts splats to another format, reduces them on request, and measures the loss
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Splats: a file of any format, a SOG folder, or a run's folder
    #[arg(help_heading = "Input")]
    input: PathBuf,

    /// Axes of an .spz file to read that does not record them; try rdf if the scene is upside down [default: rub]
    #[arg(long, value_name = "AXES", value_parser = parse_axes, help_heading = "Input", hide_short_help = true)]
    from_axes: Option<Axes>,

    /// The splats were trained with the Mip-Splatting filters: record it if the format can, and render with them
    /// [default: from the file or its run]
    #[arg(long, help_heading = "Input", hide_short_help = true)]
    antialias: bool,

    /// Measure the loss from the cameras and against the photos of this capture [default: from an orbit; for levels of
    /// detail the run's capture]
    #[arg(
        long,
        value_name = "CAPTURE",
        conflicts_with = "no_loss",
        help_heading = "Input"
    )]
    capture: Option<PathBuf>,

    /// Cut or pad the spherical harmonics to this degree, 0 to 3 [default: unchanged]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_SH_DEGREE)), help_heading = "Length and size")]
    sh_degree: Option<u8>,

    /// Remove Gaussians less opaque than this, 0 to 1 [default: keep all]
    #[arg(long, value_name = "X", help_heading = "Length and size")]
    min_opacity: Option<f32>,

    /// Keep at most N Gaussians, those with the largest opacity times cross-section [default: 0, which keeps all]
    #[arg(long, value_name = "N", help_heading = "Length and size")]
    max_gaussians: Option<usize>,

    /// Version of an .spz file, 3 or 4 [default: 3, which opens in more viewers]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=4), help_heading = "Format", hide_short_help = true)]
    spz_version: Option<u8>,

    /// Bits of an .spz file for harmonics of degree 1, and of higher degrees, 1 to 8; other programs use 5,4
    /// [default: more for larger Gaussians]
    #[arg(long, value_name = "N,N", value_parser = parse_bits, help_heading = "Format", hide_short_help = true)]
    spz_sh_bits: Option<[u8; 2]>,

    /// Entries of a SOG file's palette of harmonics, 1 to 65536; more lose less and take more bytes [default: one per
    /// ten Gaussians, at least 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Format", hide_short_help = true)]
    sog_palette: Option<u32>,

    /// Levels of detail of a lod-meta.json, 1 to 8; each merges the previous level to a quarter [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8), help_heading = "Format")]
    lod_levels: Option<u32>,

    /// Axes of an .spz file to write; rdf is right, down, forward, as in PLY files of captures [default: rub, as
    /// specified]
    #[arg(long, value_name = "AXES", value_parser = parse_axes, help_heading = "Format", hide_short_help = true)]
    axes: Option<Axes>,

    /// Write positions in the capture's own frame, as doubles, if the input has a local origin; .ply only
    #[arg(
        long,
        conflicts_with = "max_loss",
        help_heading = "Format",
        hide_short_help = true
    )]
    world: bool,

    /// Write the smallest file with at most this loss in dB: 0.3 or 0.3dB
    #[arg(long, value_name = "DB", value_parser = parse_decibels, conflicts_with_all = ["no_loss", "sh_degree"], help_heading = "Loss")]
    max_loss: Option<f64>,

    /// Do not measure the loss, which needs renders
    #[arg(long, help_heading = "Loss")]
    no_loss: bool,

    /// File to write; its extension selects the format. Missing folders are created
    #[arg(help_heading = "Output")]
    output: PathBuf,

    /// Replace OUTPUT if it exists
    #[arg(long, help_heading = "Output")]
    overwrite: bool,

    /// Print one JSON object with the results
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    json: bool,

    #[command(flatten)]
    device: DeviceOptions,
}

fn parse_axes(text: &str) -> Result<Axes, String> {
    Axes::of_name(text).map_err(|e| format!("{}: {}", e.what(), e.hint_text().unwrap_or_default()))
}

fn parse_bits(text: &str) -> Result<[u8; 2], String> {
    let bits: Vec<u8> = text
        .split(',')
        .filter_map(|part| part.trim().parse().ok())
        .collect();
    match bits[..] {
        [a, b] if (1..=8).contains(&a) && (1..=8).contains(&b) => Ok([a, b]),
        _ => Err("two numbers from 1 to 8 are needed, 6,5 for example".to_owned()),
    }
}

fn parse_decibels(text: &str) -> Result<f64, String> {
    let number = text.trim().to_lowercase();
    let number = number.strip_suffix("db").unwrap_or(&number).trim();
    match number.parse::<f64>() {
        Ok(db) if db >= 0.0 && db.is_finite() => Ok(db),
        _ => Err("a loss in dB is needed, for example 0.3dB".to_owned()),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Summary<'a> {
    output: &'a Path,
    gaussians_read: usize,
    gaussians: usize,
    sh_degree: u8,
    bytes: u64,
    bytes_read: u64,
    /// Size as a PLY file, over the size of the output.
    ratio: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<Loss>,
    /// Levels of detail, the finest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    levels: Vec<Level>,
}

impl Summary<'_> {
    /// Returns the results as text.
    fn text(&self) -> String {
        format!(
            "{}: {}, SH degree {}, {}{}{}{}",
            self.output.display(),
            written_of(self.gaussians, self.gaussians_read),
            self.sh_degree,
            human_bytes(self.bytes),
            match self.ratio {
                // A file without Gaussians is the smallest.
                _ if self.gaussians == 0 => String::new(),
                ratio if ratio >= 1.05 => format!(", a {ratio:.1}th of plain PLY"),
                ratio => format!(", {:.2} times plain PLY", 1.0 / ratio),
            },
            match &self.loss {
                Some(loss) => format!("\n{}", loss.shown()),
                None => String::new(),
            },
            levels::shown(&self.levels)
        )
    }
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    // Without a known extension, --max-loss chooses the format.
    let format = match (Format::of_name(&args.output), args.max_loss) {
        (Err(_), Some(_)) if args.output.extension().is_none() => None,
        _ => Some(Format::to_write(&args.output)?),
    };
    let formats = match format {
        Some(format) => {
            refuse_existing(&args.output, args.overwrite)?;
            vec![format]
        }
        None => free_candidates(args, console)?,
    };
    if args.min_opacity.is_some_and(|x| !(0.0..=1.0).contains(&x)) {
        return Err(Error::input("an opacity is between 0 and 1")
            .at("--min-opacity")
            .hint("training prunes below 0.005"));
    }
    let input = splats_file(&args.input)?;
    let read_options = args
        .from_axes
        .map_or(ReadOptions::default(), |axes| ReadOptions {
            undeclared_axes: axes,
            ..ReadOptions::default()
        });
    let (read, metadata) = read_splats_with(&input, &read_options, console)?;
    if args.world && format != Some(Format::Ply) {
        return Err(
            Error::unsupported("only .ply files hold positions in doubles")
                .at("--world")
                .hint("end the output's name in .ply"),
        );
    }
    let flags = ConfigPatch {
        antialias: args.antialias.then_some(true),
        ..ConfigPatch::default()
    };
    let capture = judged_capture(args, format, &input, console);
    let mut config = Judge::settings(&input, capture.as_deref(), flags, console)?;
    config.antialias |= metadata.antialiased;
    let splats = reduced(read.clone(), args, console);
    let options = write_options(args, &config, &metadata);
    let folders = NewFolders::before(&args.output);
    interrupt::remove_if_empty(&folders);
    let done = write_judged(
        (args, capture.as_deref()),
        &formats,
        (&read, &splats),
        (&config, &options),
        console,
    );
    let done = folders.unless_ok(done)?;
    let format = Format::of_name(&done.output)?;
    note_frame(format, metadata.frame(), console);
    let bytes = splat_file::size_bytes(&done.output, format);
    // A plain PLY file also has normals of three floats.
    let plain_bytes = read.size_bytes() + 12 * read.len();
    let summary = Summary {
        output: &done.output,
        gaussians_read: read.len(),
        gaussians: done.gaussians,
        sh_degree: done.sh_degree,
        bytes,
        bytes_read: Format::of_name(&input).map_or(0, |f| splat_file::size_bytes(&input, f)),
        ratio: plain_bytes as f64 / bytes.max(1) as f64,
        loss: done.loss,
        levels: done.levels,
    };
    if args.json {
        return console.json(&summary);
    }
    console.outcome(&summary.text())
}

/// Returns the options of writing, from the command line, the configuration and the metadata of the input.
fn write_options(args: &Args, config: &TrainConfig, metadata: &SplatMetadata) -> WriteOptions {
    WriteOptions {
        spz_version: match args.spz_version {
            Some(4) => SpzVersion::V4,
            _ => SpzVersion::V3,
        },
        axes: args.axes.unwrap_or(WriteOptions::default().axes),
        spz_sh_bits: args.spz_sh_bits,
        sog_palette: args.sog_palette.map(|entries| entries as usize),
        antialiased: config.antialias,
        origin: metadata.origin,
        moved: metadata.moved,
        world: args.world,
        lod_levels: args
            .lod_levels
            .unwrap_or(WriteOptions::default().lod_levels),
        nearest: args.device.nearest(),
        refuses_existing: !args.overwrite,
        ..WriteOptions::default()
    }
}

/// Returns the splats after --min-opacity, --max-gaussians and --sh-degree.
fn reduced(mut splats: Splats, args: &Args, console: &Console) -> Splats {
    let gaussians_read = splats.len();
    if let Some(min) = args.min_opacity {
        let opacities = splats.opacities.clone();
        splats.retain(|i| sigmoid(opacities[i]) >= min);
    }
    if let Some(max) = args.max_gaussians.filter(|&max| max > 0) {
        keep_largest(&mut splats, max);
    }
    let left_out = gaussians_read - splats.len();
    if left_out > gaussians_read / 10 {
        console.note(&format!(
            "warning: {:.0} % of the Gaussians were removed, and all were optimised together: renders may lose \
             many dB (measure with `dapple eval CAPTURE {}`); `dapple train --max-gaussians` trains fewer \
             Gaussians with less loss",
            100.0 * left_out as f64 / gaussians_read as f64,
            args.output.display()
        ));
    }
    match args.sh_degree {
        Some(degree) => splats.with_sh_degree(degree),
        None => splats,
    }
}

/// Returns the capture to measure the loss with: that of --capture, or for levels of detail that of the run.
fn judged_capture(
    args: &Args,
    format: Option<Format>,
    input: &Path,
    console: &Console,
) -> Option<PathBuf> {
    let has_levels = format == Some(Format::StreamedSog) && !args.no_loss;
    match &args.capture {
        None if has_levels => known_capture::find_if_there(input, console),
        named => named.clone(),
    }
}

/// Written file.
struct Done {
    output: PathBuf,
    gaussians: usize,
    sh_degree: u8,
    loss: Option<Loss>,
    levels: Vec<Level>,
}

/// Writes the output, or the best of candidates, and measures the loss.
fn write_judged(
    (args, capture): (&Args, Option<&Path>),
    formats: &[Format],
    (read, splats): (&Splats, &Splats),
    (config, options): (&TrainConfig, &WriteOptions),
    console: &Console,
) -> Result<Done> {
    let judge = || {
        let size = SplatsSize::of_all([read, splats]);
        let engine = args.device.engine_holding(size, console)?;
        let frame = Frame {
            origin: options.origin,
            moved: options.moved,
        };
        Judge::new((read, frame), config, capture, engine, console)
    };
    if let Some(most) = args.max_loss {
        let mut judge = judge()?;
        let mut done = choose(args, formats, splats, options, (&mut judge, most), console)?;
        done.levels = levels::of(&done.output, done.loss.as_ref(), Some(&mut judge), console)?;
        return Ok(done);
    }
    let format = Format::of_name(&args.output)?;
    let splats = held_by(format, splats.clone(), console);
    write(&args.output, &splats, format, options, console)?;
    let measures = !args.no_loss && (format.is_lossy() || capture.is_some()) && !splats.is_empty();
    let mut judge = measures.then(judge).transpose()?;
    let loss = match &mut judge {
        Some(judge) => Some(judge.loss(&read_back(&args.output, options)?, console)?),
        None => None,
    };
    Ok(Done {
        levels: levels::of(&args.output, loss.as_ref(), judge.as_mut(), console)?,
        output: args.output.clone(),
        gaussians: splats.len(),
        sh_degree: splats.sh_degree,
        loss,
    })
}

/// Measures the loss of a file against its source splats, by renders from an orbit.
pub fn lost_in_file(
    path: &Path,
    splats: &Splats,
    options: &WriteOptions,
    config: &TrainConfig,
    device: &DeviceOptions,
    console: &Console,
) -> Result<Loss> {
    let back = read_back(path, options)?;
    let frame = Frame {
        origin: options.origin,
        moved: options.moved,
    };
    let engine = device.engine_holding(splats, console)?;
    let splats = (splats, frame);
    Judge::new(splats, config, None, engine, console)?.loss(&back, console)
}

/// Reads a file back, with the origin of the splats written to it.
fn read_back(path: &Path, options: &WriteOptions) -> Result<Splats> {
    let holds_origin = Format::of_name(path).is_ok_and(Format::holds_origin);
    let origin = options.origin;
    let options = ReadOptions {
        undeclared_axes: options.axes,
        ..ReadOptions::default()
    };
    let (mut splats, metadata) = splat_file::read_with(path, &options)?;
    if holds_origin {
        splats.count_from(origin - metadata.origin);
    }
    Ok(splats)
}

/// Writes the file, and creates its folder.
fn write(
    path: &Path,
    splats: &Splats,
    format: Format,
    options: &WriteOptions,
    console: &Console,
) -> Result<()> {
    make_folder_of(path)?;
    splat_file::write_with_progress(path, splats, format, options, &console.progress())
}

/// Keeps the `max` Gaussians with the largest opacity times cross-section, in their order. Ties go to the earlier
/// Gaussian.
fn keep_largest(splats: &mut Splats, max: usize) {
    if splats.len() <= max {
        return;
    }
    let mut keep = vec![false; splats.len()];
    for &i in &largest_first(splats)[..max] {
        keep[i] = true;
    }
    splats.retain(|i| keep[i]);
}

fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}
