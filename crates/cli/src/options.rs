//! Options that several verbs share.

pub use crate::outputs::{refuse_existing, refuse_inputs};

use crate::console::Console;
use clap::Args;
use dapple::contract::Engine;
use dapple::glam::DVec3;
use dapple::gpu::Precision;
use dapple::scene::edit::Similarity;
use dapple::scene::origin::Frame;
use dapple::scene::splat_file::{self, Aside, Format, NearestBy, ReadOptions};
use dapple::scene::{Capture, Error, MaskMode, Result, Splats, Split, origin};
use dapple::train::config::{Background, DataConfig, DataPatch};
use dapple::train::{ConfigPatch, Launch, Preset, RunFolder, Seen, TrainConfig};
use dapple::{AnyEngine, Device, EngineOptions, Opened};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where the work is done, and on how much of it.
#[derive(Debug, Clone, Default, Args)]
pub struct DeviceOptions {
    /// Where to compute: auto, cpu, gpu, gpu:N or gpu:NAME, as `dapple doctor` lists them. auto takes
    /// the best hardware GPU, else the processor, and says why [default: auto]
    #[arg(long, value_name = "DEVICE", value_parser = parse_device,
        env = "DAPPLE_DEVICE", hide_env_values = true)]
    pub device: Option<Device>,

    /// Threads of the processor to use, up to 16 for each core [default: one per core]. Results do not
    /// depend on it
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,

    /// How a GPU stores SH beyond degree 0 and the optimizer's moments: f32, f16, bf16, or two of
    /// them as SH,MOMENTS. Arithmetic is f32. 16 bits take 400 bytes a Gaussian instead of 720
    /// [default: f32]
    #[arg(long, value_name = "STORAGE", value_parser = parse_precision)]
    pub precision: Option<Precision>,

    /// See [`EngineOptions::default_cap`].
    #[arg(skip)]
    pub default_cap: Option<u32>,

    /// See [`EngineOptions::photo_memory_bytes`].
    #[arg(skip)]
    pub photo_memory: Option<u64>,
}

fn parse_precision(text: &str) -> Result<Precision, String> {
    text.parse().map_err(|e: Error| e.what().to_owned())
}

fn parse_device(text: &str) -> Result<Device, String> {
    text.parse().map_err(|e: Error| match e.hint_text() {
        Some(hint) => format!("{}: {hint}", e.what()),
        None => e.what().to_owned(),
    })
}

impl DeviceOptions {
    /// The engine to work with; says which and why.
    pub fn engine(&self, console: &Console) -> Result<Box<dyn Engine>> {
        Ok(self.open(false, console)?.into_engine())
    }

    /// Who finds the nearest entries of a palette, for files that have one. Opened when it is needed, without a word:
    /// files have the same bytes on any device.
    pub fn nearest(&self) -> NearestBy {
        dapple::nearest(&self.device.clone().unwrap_or_default())
    }

    /// How a run is started with these, for its checkpoints.
    pub fn launch(&self, scene: &Path) -> Launch {
        // A name that is no text cannot be kept: then the capture is to be named again.
        let capture = scene.canonicalize().ok().filter(|p| p.to_str().is_some());
        Launch {
            capture,
            device: Some(self.device.clone().unwrap_or_default().to_string()),
            precision: Some(self.precision.unwrap_or_default().to_string()),
            default_cap: self.default_cap,
            snapshots: None,
        }
    }

    /// As [`Self::engine`], for measurements that know the engine they measure.
    pub fn open(&self, time_stages: bool, console: &Console) -> Result<AnyEngine> {
        let mut opened = self.open_quietly(time_stages)?;
        let name = opened.engine.as_engine().description();
        let why = opened.why.unwrap_or_default();
        // What it comes down to; which devices there are and what is wrong with each is a detail.
        let short = match (&opened.engine, why.split_once(':')) {
            (AnyEngine::Gpu(_), _) => "",
            (_, Some((short, _))) => short,
            (_, None) => &why,
        };
        let said = if console.is_verbose() { &why } else { short };
        match said {
            "" => console.note(&format!("device: {name}")),
            said => console.note(&format!("device: {name}: {said}")),
        }
        if self.threads.is_some() && !matches!(opened.engine, AnyEngine::Cpu(_)) {
            console.note("note: --threads is not used: it is for the CPU engine");
        }
        Ok(opened.engine)
    }

    /// Opens such engines for measurements, without a word.
    pub fn opener(&self) -> impl Fn(bool) -> Result<AnyEngine> {
        |time_stages| Ok(self.open_quietly(time_stages)?.engine)
    }

    /// As [`Self::open`] without a word.
    pub fn open_quietly(&self, time_stages: bool) -> Result<Opened> {
        let device = self.device.clone().unwrap_or_default();
        if let (Device::Gpu(_), Some(threads)) = (&device, self.threads) {
            return Err(
                Error::input("the number of threads is for the CPU engine, not for a GPU")
                    .at(format!("--device {device} --threads {threads}"))
                    .hint("leave --threads out, or use --device cpu"),
            );
        }
        let options = EngineOptions {
            threads: self.threads,
            precision: self.precision.unwrap_or_default(),
            default_cap: self.default_cap,
            photo_memory_bytes: self.photo_memory,
            time_stages,
            // A way out where a driver's clock is wrong; docs/PROFILING.md.
            without_timestamps: std::env::var_os("DAPPLE_NO_TIMESTAMPS").is_some_and(|v| v == "1"),
        };
        dapple::open(&device, &options).map_err(|e| match (&device, e.place()) {
            (_, Some(_)) => e,
            (Device::Gpu(_), None) => e.at(format!("--device {device}")),
            _ => e.at("--threads"),
        })
    }
}

/// A colour or `random`, for training.
pub fn parse_background(text: &str) -> Result<Background, String> {
    match text {
        "random" => Ok(Background::Random),
        _ => parse_colour(text).map(Background::Colour),
    }
}

/// Three numbers in 0..1, `R,G,B`, or the name of two such colours.
pub fn parse_colour(text: &str) -> Result<[f64; 3], String> {
    match text {
        "black" => return Ok([0.0; 3]),
        "white" => return Ok([1.0; 3]),
        _ => {}
    }
    let parts: Vec<f64> = text
        .split(',')
        .map(|part| {
            part.trim()
                .parse::<f64>()
                .map_err(|e| format!("{part:?}: {e}"))
        })
        .collect::<Result<_, _>>()?;
    match parts.as_slice() {
        &[r, g, b] if parts.iter().all(|v| (0.0..=1.0).contains(v)) => Ok([r, g, b]),
        _ => {
            Err("three numbers between 0 and 1 are needed, for example 1,1,1 for white".to_owned())
        }
    }
}

/// A folder that did not exist before: made for output, taken away again if nothing came of it.
#[derive(Debug, Clone)]
pub struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    /// Remembers which of `path` and its ancestors are not there yet.
    pub fn before(path: &Path) -> Self {
        let missing = path
            .ancestors()
            .filter(|ancestor| !ancestor.as_os_str().is_empty())
            .take_while(|ancestor| !ancestor.exists());
        Self(missing.map(Path::to_owned).collect())
    }

    /// Removes those that are empty, innermost first.
    pub fn remove_empty(&self) {
        for folder in &self.0 {
            match std::fs::remove_dir(folder) {
                Err(e) if e.kind() != ErrorKind::NotFound => return,
                // One that was never made may have a parent that was.
                _ => {}
            }
        }
    }

    /// [`Self::remove_empty`] when the result is an error.
    pub fn unless_ok<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.remove_empty();
        }
        result
    }
}

/// The file of splats that is meant: the one named, or that of a run's folder.
///
/// # Errors
/// A folder without splats.
pub fn splats_file(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let folder = RunFolder::open(path);
    let splats = folder.splats_path();
    if splats.is_file() {
        return Ok(splats);
    }
    if let Some(meta) = sog_meta(path).or_else(|| other_trainers_splats(path)) {
        return Ok(meta);
    }
    if let Some(error) = splat_file::foreign(path) {
        return Err(error);
    }
    let hint = match folder.checkpoint_path().is_file() {
        true => format!(
            "the run in it is not finished: `dapple train --resume {}` goes on with it",
            path.display()
        ),
        false => match splat_files(path).as_slice() {
            [] => "name a PLY file, or the folder of a run, which holds splats.ply".to_owned(),
            [one] => format!("name the file: {}", one.display()),
            [one, .., last] => format!(
                "name one of its files: {} to {}",
                one.display(),
                last.display()
            ),
        },
    };
    Err(Error::input("this folder holds no splats")
        .at_path(path)
        .hint(hint))
}

/// The `meta.json` of a folder of SOG's textures, or the `lod-meta.json` of streamed ones; other programs' captures can
/// have a file of the first name.
pub fn sog_meta(folder: &Path) -> Option<PathBuf> {
    let names = ["meta.json", "lod-meta.json"];
    let mut files = names.into_iter().map(|name| folder.join(name));
    files.find(|file| splat_file::describes_splats(file))
}

/// The last splats in the output folder of another trainer: 3DGS' `point_cloud/iteration_30000/point_cloud.ply`,
/// gsplat's `ply/point_cloud_29999.ply`, Brush's `export_30000.ply`, Nerfstudio's `splat.ply`.
pub fn other_trainers_splats(folder: &Path) -> Option<PathBuf> {
    let inner = "point_cloud.ply";
    let numbered = [
        ("point_cloud", "iteration_", inner),
        ("", "iteration_", inner),
    ];
    let of_folders = numbered.into_iter().find_map(|(below, prefix, inner)| {
        let found = numbered_names(&folder.join(below), prefix, "");
        let files = found.into_iter().map(|(_, path)| path.join(inner));
        files.rev().find(|path| path.is_file())
    });
    let of_files = || {
        let kinds = [
            ("ply", "point_cloud_", ".ply"),
            ("", "point_cloud_", ".ply"),
            ("", "export_", ".ply"),
        ];
        kinds.into_iter().find_map(|(below, prefix, suffix)| {
            let found = numbered_names(&folder.join(below), prefix, suffix);
            found
                .into_iter()
                .map(|(_, path)| path)
                .rfind(|path| path.is_file())
        })
    };
    let named = || {
        let names = ["point_cloud.ply", "splat.ply", "exports/splat/splat.ply"];
        names
            .into_iter()
            .map(|name| folder.join(name))
            .find(|path| path.is_file())
    };
    of_folders.or_else(of_files).or_else(named)
}

/// What in a folder is named by prefix, number and suffix, by number.
fn numbered_names(folder: &Path, prefix: &str, suffix: &str) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix(prefix)?.strip_suffix(suffix)?;
            Some((number.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found
}

/// Files of splats in a folder, by name.
fn splat_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file() && Format::of_name(path).is_ok())
        .collect();
    files.sort();
    files
}

/// Reads splats, and says what is odd about their file.
pub fn read_splats(path: &Path, console: &Console) -> Result<(Splats, Aside)> {
    read_splats_with(path, &ReadOptions::default(), console)
}

/// The same, with what the file may leave open.
pub fn read_splats_with(
    path: &Path,
    options: &ReadOptions,
    console: &Console,
) -> Result<(Splats, Aside)> {
    let (splats, aside) = splat_file::read_with_progress(path, options, &console.progress())?;
    for note in &aside.notes {
        console.note(&format!("note: {}: {note}", path.display()));
    }
    if aside.origin != DVec3::ZERO {
        console.note(&format!(
            "note: {}: positions are relative to the local origin {}",
            path.display(),
            origin::shown(aside.origin)
        ));
    }
    if aside.moved != Similarity::IDENTITY {
        console.note(&format!(
            "note: {}: the splats were moved since training; cameras of the capture are moved with them",
            path.display()
        ));
    }
    Ok((splats, aside))
}

/// Says what a format has no place for: the origin that splats count from, and their motion since training.
pub fn note_frame(format: Format, frame: Frame, console: &Console) {
    let origin = frame.origin;
    if frame.moved != Similarity::IDENTITY && !format.holds_motion() {
        console.note(&format!(
            "note: .{} has no place for the motion of the splats since training: cameras of the capture will not fit \
             them. .ply, .sog and .glb record it",
            format.extension()
        ));
    }
    if origin != DVec3::ZERO && !format.holds_origin() {
        let note = origin::not_held(format.extension(), origin);
        console.note(&format!("note: {note}"));
    }
}

/// The splats as far as a format holds them; says what is lost.
pub fn held_by(format: Format, splats: Splats, console: &Console) -> Splats {
    let holds = format.max_sh_degree();
    if splats.sh_degree <= holds {
        return splats;
    }
    console.note(&format!(
        "remark: .{} holds spherical harmonics up to degree {holds}, these have degree {}: what changes with \
         the direction of view is lost",
        format.extension(),
        splats.sh_degree
    ));
    splats.with_sh_degree(holds)
}

/// Makes the folder of a file.
pub fn make_folder_of(path: &Path) -> Result<()> {
    match path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        None => Ok(()),
        Some(folder) => make_folder(folder),
    }
}

/// Makes a folder that something is written to.
pub fn make_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::io("cannot make the output folder", folder, e))
}

/// Which photos of a capture, and how large.
#[derive(Debug, Args)]
pub struct CaptureOptions {
    /// Hold out every N-th photo by name, 0 for none [default: the capture's own split, else 8]
    #[arg(long, value_name = "N")]
    pub eval_every: Option<usize>,

    /// Divide width and height of the photos by N [default: 1]. A folder images_N is used as it is
    #[arg(long, value_name = "N")]
    pub downscale: Option<u32>,

    /// Reduce photos whose longer side exceeds this many pixels [default: no limit]
    #[arg(long, value_name = "PIXELS")]
    pub max_resolution: Option<u32>,

    /// Folder of the photos [default: the one the capture names]
    #[arg(long, value_name = "FOLDER")]
    pub images: Option<PathBuf>,

    /// Leave out photos that the capture names and that are not there, and say how many
    #[arg(long)]
    pub skip_missing: bool,

    /// Undistort photos whose lens distorts while loading, which loses their borders, instead of
    /// rendering through the lens [default: through the lens]
    #[arg(long)]
    pub undistort: bool,

    /// What masks (masks/ beside the photos' folder, named as they are; white is used) and alpha
    /// channels do [default: auto, as such files are mostly meant]
    #[arg(long, value_name = "MODE", value_parser = mask_mode_parser())]
    pub mask_mode: Option<String>,

    /// Masks are white where photos are to be left out
    #[arg(long)]
    pub invert_masks: bool,
}

fn mask_mode_parser() -> clap::builder::PossibleValuesParser {
    MaskMode::ALL
        .map(|mode| clap::builder::PossibleValue::new(mode.name()).help(mode.about()))
        .into()
}

impl CaptureOptions {
    /// As a layer of the configuration.
    pub fn patch(&self) -> DataPatch {
        DataPatch {
            eval_every: self.eval_every,
            // Whoever names a number wants it.
            own_split: self.eval_every.map(|_| false),
            downscale: self.downscale,
            max_resolution: self.max_resolution,
            images: self.images.clone(),
            skip_missing: self.skip_missing.then_some(true),
            undistort: self.undistort.then_some(true),
            // The parser lets no other names pass.
            mask_mode: self.mask_mode.as_deref().and_then(|mode| mode.parse().ok()),
            invert_masks: self.invert_masks.then_some(true),
            ..DataPatch::default()
        }
    }
}

/// Preset, file and options merged; see [`TrainConfig::resolve`]. What contradicts itself may come
/// from any of them.
pub fn merged_config(
    preset: Option<Preset>,
    file: Option<&Path>,
    flags: ConfigPatch,
) -> Result<TrainConfig> {
    merged_config_for(None, preset, file, flags)
}

/// [`merged_config`] for a capture of whose photos to train on so much is known.
pub fn merged_config_for(
    seen: Option<Seen>,
    preset: Option<Preset>,
    file: Option<&Path>,
    flags: ConfigPatch,
) -> Result<TrainConfig> {
    TrainConfig::resolve_for(seen, preset, file, flags).map_err(|e| {
        if e.place().is_some() {
            return e;
        }
        e.at(match file {
            Some(file) => format!("{} and the options given", file.display()),
            None => "the options given".to_owned(),
        })
    })
}

/// The file of this name beside splats: for a snapshot that of its run, whose folder is one above.
pub fn of_run(splats: &Path, name: &str) -> PathBuf {
    let beside = splats.with_file_name(name);
    let folder = splats
        .parent()
        .filter(|folder| folder.ends_with("snapshots"));
    let above = folder.map(|folder| folder.with_file_name(name));
    match above {
        Some(above) if !beside.is_file() && above.is_file() => above,
        _ => beside,
    }
}

/// The configuration that splats were trained with, if it is beside them, changed by `flags`:
/// so that they are looked at as they were trained. Without one, the defaults.
pub fn config_beside(splats: &Path, flags: ConfigPatch, console: &Console) -> Result<TrainConfig> {
    let file = of_run(splats, "config.toml");
    if file.is_file() {
        match TrainConfig::resolve(None, Some(&file), ConfigPatch::default()) {
            Ok(_) => {
                console.note(&format!("settings: those of the run, {}", file.display()));
                return merged_config(None, Some(&file), flags);
            }
            Err(e) => console.note(&format!(
                "remark: {} is not a run's configuration and is not used: {}",
                file.display(),
                e.what()
            )),
        }
    }
    merged_config(None, None, flags)
}

/// Photos of a capture to hold out, and photos to train on: as the trainer splits them.
pub fn split(capture: &Capture, data: &DataConfig) -> Split {
    let split = capture.split(data.eval_every);
    split.limited(data.max_train_views, data.max_eval_views)
}
