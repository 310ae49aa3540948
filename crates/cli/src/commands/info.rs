//! `dapple info`: describes a capture, a splat file or a run.

mod parts;
mod run;

use crate::console::Console;
use crate::machine::human_bytes;
use crate::options::{CaptureOptions, merged_config, other_trainers_splats, sog_meta};
use crate::training_display::grouped;
use dapple::glam::DVec3;
use dapple::scene::edit::Similarity;
use dapple::scene::splat_file::{self, Format};
use dapple::scene::{Capture, Error, LoadOptions, Result, Splats, load, origin};
use run::RunInfo;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
For a capture, the descriptions are read and the photos located; --check decodes every photo too,
and fails on a damaged photo. Splats are read completely. For a folder written by `dapple train`,
the run (steps, scores, time, device) and its splats are shown.

Examples:
  dapple info captures/bird
  dapple info captures/bird --check
  dapple info out/bird
  dapple info out/bird --json | jq .run.psnr
  dapple info out/bird/splats.ply --json | jq .gaussians";

/// Describes a capture, a splat file or a run
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Capture (folder or transforms.json), splat file, or a run's folder
    #[arg(help_heading = "Input")]
    path: PathBuf,

    /// Decode every photo of a capture, to find damaged photos
    #[arg(long, help_heading = "Input")]
    check: bool,

    #[command(flatten)]
    capture: CaptureOptions,

    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let path = &args.path;
    if !path.exists() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(Error::io("cannot open it", path, missing));
    }
    // A SOG folder or its meta.json; a capture can have a file with that name.
    let meta = match path.is_dir() {
        true => sog_meta(path),
        false => Some(path.clone()).filter(|path| splat_file::describes_splats(path)),
    };
    if let Some(meta) = meta {
        return show(&SplatsInfo::read(&meta)?, args.json, console);
    }
    if path.is_dir()
        && let Some(error) = splat_file::foreign(path)
    {
        return Err(error);
    }
    let is_json = path.extension().is_some_and(|e| e == "json");
    let inner = path.join("splats.ply");
    if path.is_dir() && !path.join("sparse").is_dir() {
        let run = RunInfo::read(path)?;
        if inner.is_file() {
            let splats = SplatsInfo::read(&inner)?;
            return show(&SplatsInfo { run, ..splats }, args.json, console);
        }
        if let Some(run) = run {
            return show(&run, args.json, console);
        }
        let is_capture = [
            "transforms.json",
            "transforms_train.json",
            "cameras.bin",
            "cameras.txt",
        ];
        let is_capture = is_capture.iter().any(|name| path.join(name).is_file());
        if let Some(splats) = other_trainers_splats(path).filter(|_| !is_capture) {
            return show(&SplatsInfo::read(&splats)?, args.json, console);
        }
    }
    if path.is_dir() || is_json {
        return show(&CaptureInfo::read(args, console)?, args.json, console);
    }
    show(&SplatsInfo::read(path)?, args.json, console)
}

/// Result that is printed as text or JSON.
trait Shown: Serialize {
    fn lines(&self) -> Vec<(&'static str, String)>;
}

fn show(info: &impl Shown, json: bool, console: &Console) -> Result<()> {
    if json {
        return console.json(info);
    }
    let mut text = String::new();
    for (name, value) in info.lines() {
        let _ = writeln!(text, "{name:<12} {value}");
    }
    console.data(text.trim_end())
}

/// Bounding box of points.
#[derive(Debug, Clone, Copy, Serialize)]
struct Bounds {
    min: [f32; 3],
    max: [f32; 3],
}

impl Bounds {
    fn around(points: impl IntoIterator<Item = [f32; 3]>) -> Option<Self> {
        points.into_iter().fold(None, |bounds, p| {
            let Self { min, max } = bounds.unwrap_or(Self { min: p, max: p });
            Some(Self {
                min: [0, 1, 2].map(|k| min[k].min(p[k])),
                max: [0, 1, 2].map(|k| max[k].max(p[k])),
            })
        })
    }

    fn shown(bounds: Option<&Self>) -> String {
        bounds.map_or("none".to_owned(), |b| {
            let corner = |c: [f32; 3]| format!("({:.3}, {:.3}, {:.3})", c[0], c[1], c[2]);
            format!("{} to {}", corner(b.min), corner(b.max))
        })
    }
}

/// What `--json` prints of a capture.
#[derive(Debug, Serialize)]
struct CaptureInfo {
    kind: &'static str,
    path: PathBuf,
    photos: usize,
    train: usize,
    held_out: usize,
    /// Missing photos, skipped with --skip-missing.
    skipped: usize,
    /// Number of photos of each size, "WxH", by their cameras.
    sizes: BTreeMap<String, usize>,
    /// Sizes of the photo files.
    photo_sizes: BTreeMap<String, usize>,
    /// Number of photos of each lens model.
    lenses: BTreeMap<String, usize>,
    points: usize,
    point_bounds: Option<Bounds>,
    camera_bounds: Option<Bounds>,
    /// Local origin of training, if not zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<[f64; 3]>,
    /// True if every photo has been decoded.
    checked: bool,
    notes: Vec<String>,
}

impl CaptureInfo {
    fn read(args: &Args, console: &Console) -> Result<Self> {
        let config = merged_config(None, args.capture.patch())?;
        let options = config.load_options();
        let capture = load::open(&args.path, &options)?;
        let split = config.data.split(&capture);
        let mut info = Self::new(&args.path, &capture);
        (info.train, info.held_out) = (split.train.len(), split.eval.len());
        if args.check {
            info.notes = check(capture, &options, console)?;
            info.checked = true;
        } else {
            capture.check_files()?;
        }
        Ok(info)
    }

    fn new(path: &Path, capture: &Capture) -> Self {
        let mut sizes = BTreeMap::new();
        let mut lenses = BTreeMap::new();
        for image in &capture.images {
            let size = format!("{}x{}", image.camera.width, image.camera.height);
            *sizes.entry(size).or_default() += 1;
            *lenses.entry(image.source_model.clone()).or_default() += 1;
        }
        let of_photos = load::photo_sizes(capture).into_iter();
        let of_photos = of_photos.map(|((w, h), count)| (format!("{w}x{h}"), count));
        let of_photos = of_photos.collect();
        let centres = capture.images.iter().map(|image| {
            let centre = image.camera.camera_from_world.centre() + capture.origin;
            centre.to_array().map(|v| v as f32)
        });
        // In the capture's own frame.
        let placed = |position: [f32; 3]| {
            let place = DVec3::from(position.map(f64::from)) + capture.origin;
            place.to_array().map(|v| v as f32)
        };
        Self {
            kind: "capture",
            path: path.to_owned(),
            photos: capture.images.len(),
            train: 0,
            held_out: 0,
            skipped: capture.skipped,
            sizes,
            photo_sizes: of_photos,
            lenses,
            points: capture.points.len(),
            point_bounds: Bounds::around(capture.points.iter().map(|p| placed(p.position))),
            camera_bounds: Bounds::around(centres),
            origin: (capture.origin != DVec3::ZERO).then(|| capture.origin.to_array()),
            checked: false,
            notes: capture.notes.clone(),
        }
    }
}

/// Decodes every photo and returns notes. Damaged photos are an error.
fn check(capture: Capture, options: &LoadOptions, console: &Console) -> Result<Vec<String>> {
    Ok(load::check(capture, options, &console.progress())?.notes)
}

impl Shown for CaptureInfo {
    fn lines(&self) -> Vec<(&'static str, String)> {
        let counted = |map: &BTreeMap<String, usize>| {
            let shown: Vec<String> = map
                .iter()
                .take(4)
                .map(|(k, n)| format!("{n} x {k}"))
                .collect();
            let more = map.len().saturating_sub(4);
            let more = if more > 0 {
                format!(", and {more} more")
            } else {
                String::new()
            };
            shown.join(", ") + &more
        };
        let checked = if self.checked {
            ", all of them decoded"
        } else {
            ""
        };
        let missing = match self.skipped {
            0 => String::new(),
            skipped => format!(", {skipped} missing and skipped"),
        };
        let differ = self.photo_sizes != self.sizes && !self.photo_sizes.is_empty();
        let sizes = match differ {
            true => format!(
                "{} of the photos, {} of their cameras",
                counted(&self.photo_sizes),
                counted(&self.sizes)
            ),
            false => counted(&self.sizes),
        };
        let mut lines = vec![
            ("capture", self.path.display().to_string()),
            (
                "photos",
                format!(
                    "{} ({} to train on, {} held out){missing}{checked}",
                    self.photos, self.train, self.held_out
                ),
            ),
            ("sizes", sizes),
            ("lenses", counted(&self.lenses)),
            ("points", grouped(self.points as u64)),
            ("", Bounds::shown(self.point_bounds.as_ref())),
            ("cameras", Bounds::shown(self.camera_bounds.as_ref())),
        ];
        if let Some(at) = self.origin {
            lines.push(("origin", origin::shown(at.into())));
        }
        lines.extend(self.notes.iter().map(|note| ("note", note.clone())));
        lines
    }
}

/// Distribution of values.
#[derive(Debug, Clone, Copy, Serialize)]
struct Spread {
    min: f32,
    /// 1st percentile.
    p01: f32,
    median: f32,
    mean: f32,
    /// 99th percentile.
    p99: f32,
    max: f32,
}

impl Spread {
    fn from_values(mut values: Vec<f32>) -> Option<Self> {
        values.sort_by(f32::total_cmp);
        let at = |share: f64| {
            let last = values.len().saturating_sub(1);
            values[((last as f64 * share).round() as usize).min(last)]
        };
        if values.is_empty() {
            return None;
        }
        let sum: f64 = values.iter().map(|v| f64::from(*v)).sum();
        Some(Self {
            min: at(0.0),
            p01: at(0.01),
            median: at(0.5),
            mean: (sum / values.len() as f64) as f32,
            p99: at(0.99),
            max: at(1.0),
        })
    }

    fn shown(spread: Option<&Self>) -> String {
        spread.map_or("none".to_owned(), |s| {
            format!(
                "median {:.4}, mean {:.4}, 1 % below {:.4}, 1 % above {:.4}",
                s.median, s.mean, s.p01, s.p99
            )
        })
    }
}

/// What `--json` prints of splats.
#[derive(Debug, Serialize)]
struct SplatsInfo {
    kind: &'static str,
    path: PathBuf,
    /// Run that wrote the folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunInfo>,
    gaussians: usize,
    sh_degree: u8,
    /// Local origin of the positions, if the file has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<[f64; 3]>,
    /// Motion since training, if the file has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<Similarity>,
    bounds: Option<Bounds>,
    /// Bounding box without the outermost 1 % along each axis and side.
    inner_bounds: Option<Bounds>,
    /// 0 to 1.
    opacity: Option<Spread>,
    /// Standard deviation along the longest axis, world units.
    longest_axis: Option<Spread>,
    /// Ratio of the longest axis to the shortest.
    elongation: Option<Spread>,
    file_bytes: u64,
    memory_bytes: usize,
    /// Notes about the file.
    notes: Vec<String>,
}

impl SplatsInfo {
    fn read(path: &Path) -> Result<Self> {
        let (splats, metadata) = splat_file::read(path)?;
        let file_bytes = match Format::of_name(path) {
            Ok(format) => splat_file::size_bytes(path, format),
            Err(_) => std::fs::metadata(path).map_or(0, |file| file.len()),
        };
        Ok(Self {
            notes: metadata.notes,
            origin: (metadata.origin != DVec3::ZERO).then(|| metadata.origin.to_array()),
            moved: (metadata.moved != Similarity::IDENTITY).then_some(metadata.moved),
            ..Self::new(path, &splats, file_bytes)
        })
    }

    fn new(path: &Path, splats: &Splats, file_bytes: u64) -> Self {
        let axis = |k: usize| Spread::from_values(splats.means.iter().map(|m| m[k]).collect());
        let inner = [axis(0), axis(1), axis(2)];
        let inner_bounds = match inner {
            [Some(x), Some(y), Some(z)] => Some(Bounds {
                min: [x.p01, y.p01, z.p01],
                max: [x.p99, y.p99, z.p99],
            }),
            _ => None,
        };
        let scales = |measure: fn(f32, f32) -> f32| {
            let each = splats.scales.iter().map(|s| {
                let longest = s.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let shortest = s.iter().copied().fold(f32::INFINITY, f32::min);
                measure(longest, shortest)
            });
            Spread::from_values(each.collect())
        };
        let opacity = splats.opacities.iter().map(|o| 1.0 / (1.0 + (-o).exp()));
        Self {
            kind: "splats",
            path: path.to_owned(),
            run: None,
            gaussians: splats.len(),
            sh_degree: splats.sh_degree,
            origin: None,
            moved: None,
            bounds: Bounds::around(splats.means.iter().copied()),
            inner_bounds,
            opacity: Spread::from_values(opacity.collect()),
            longest_axis: scales(|longest, _| longest.exp()),
            elongation: scales(|longest, shortest| (longest - shortest).exp()),
            file_bytes,
            memory_bytes: splats.size_bytes(),
            notes: Vec::new(),
        }
    }
}

impl Shown for SplatsInfo {
    fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = self.run.as_ref().map_or(Vec::new(), RunInfo::lines);
        lines.extend([
            ("splats", self.path.display().to_string()),
            ("gaussians", grouped(self.gaussians as u64)),
            ("SH degree", self.sh_degree.to_string()),
            ("bounds", Bounds::shown(self.bounds.as_ref())),
            ("98 % within", Bounds::shown(self.inner_bounds.as_ref())),
            ("opacity", Spread::shown(self.opacity.as_ref())),
            ("longest axis", Spread::shown(self.longest_axis.as_ref())),
            ("elongation", Spread::shown(self.elongation.as_ref())),
            (
                "size",
                format!(
                    "{} on disk, {} in memory",
                    human_bytes(self.file_bytes),
                    human_bytes(self.memory_bytes as u64)
                ),
            ),
        ]);
        if let Some(at) = self.origin {
            lines.push(("origin", origin::shown(at.into())));
        }
        if let Some(moved) = self.moved {
            let (axis, angle) = moved.quat().to_axis_angle();
            let [x, y, z] = moved.translation;
            lines.push((
                "moved",
                format!(
                    "since training: turned by {:.4} degrees about {:.4} {:.4} {:.4}, scaled by {}, then moved by {x} {y} {z}",
                    angle.to_degrees(), axis.x, axis.y, axis.z, moved.scale
                ),
            ));
        }
        lines.extend(self.notes.iter().map(|note| ("note", note.clone())));
        lines
    }
}
