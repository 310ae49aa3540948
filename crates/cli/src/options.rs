//! Options shared by several commands.

mod holding;
mod splats;

pub use holding::SplatsSize;
pub use splats::{
    held_by, into_capture, note_frame, other_trainers_splats, read_splats, read_splats_with,
    sog_meta, splats_file,
};

pub use crate::outputs::{NewFolders, make_folder, make_folder_of, refuse_existing, refuse_inputs};
pub use dapple::train::config::parse_colour;

use crate::console::Console;
use crate::settings_args::{Photos, SettingsArgs};
use clap::Args;
use dapple::contract::sharded::check_settings;
use dapple::gpu::Precision;
use dapple::scene::splat_file::NearestBy;
use dapple::scene::{Error, Result};
use dapple::train::{ConfigPatch, PhotoCoverage, RunOrigin, TrainConfig};
use dapple::{AnyEngine, BoxedEngine, Device, EngineOptions, Opened};
use dapple_base::numbers::parse_bytes;
use std::path::{Path, PathBuf};

/// Device and resources to compute with.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Device")]
pub struct DeviceOptions {
    /// auto, cpu, gpu, gpu:N or gpu:NAME [default: auto]. `dapple doctor` lists devices. auto selects the best hardware
    /// GPU, else the CPU, and prints the reason. The environment variable DAPPLE_DEVICE sets another default
    #[arg(long, value_name = "DEVICE", value_parser = parse_device,
        env = "DAPPLE_DEVICE", hide_env = true)]
    pub device: Option<Device>,

    /// True if the device is that of DAPPLE_DEVICE.
    #[arg(skip)]
    pub is_of_variable: bool,

    /// CPU threads, up to 16 per core [default: one per core]. Results do not depend on the number
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub threads: Option<usize>,

    /// Storage on a GPU of SH above degree 0 and of optimizer moments: f32, f16, bf16, or SH,MOMENTS [default: f32].
    /// Arithmetic is f32; 16 bits take 400 instead of 720 bytes per Gaussian
    #[arg(long, value_name = "STORAGE", value_parser = parse_precision, hide_short_help = true)]
    pub precision: Option<Precision>,

    /// Memory of the GPU to use, for example 8GiB [default: all]. Half of it is for Gaussians, a quarter for photos
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    pub gpu_memory: Option<u64>,

    /// See [`EngineOptions::default_cap`].
    #[arg(skip)]
    pub default_cap: Option<u32>,

    /// See [`EngineOptions::photo_memory_bytes`].
    #[arg(skip)]
    pub photo_memory: Option<u64>,

    /// Ranks of a training; `None` for an engine without ranks.
    #[arg(skip)]
    pub ranks: Option<u32>,
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

/// Sets the place of an error that has none.
fn placed_at(error: Error, place: &str) -> Error {
    match error.place() {
        Some(_) => error,
        None => error.at(place),
    }
}

/// Sets the place of an error that has none.
pub fn placed(error: Error, path: &Path) -> Error {
    match error.place() {
        Some(_) => error,
        None => error.at_path(path),
    }
}

impl DeviceOptions {
    /// Returns the options with the precision, the per-tile limit and the ranks of a run where none are given.
    pub fn like_run(&self, launch: &RunOrigin) -> Self {
        let precision = launch.precision.as_deref().and_then(|p| p.parse().ok());
        Self {
            precision: self.precision.or(precision),
            default_cap: launch.default_cap,
            ranks: self.ranks.or(launch.ranks),
            ..self.clone()
        }
    }

    /// Opens the selected engine and prints its name and the reason for the selection.
    pub fn engine(&self, console: &Console) -> Result<BoxedEngine> {
        Ok(self.open(false, console)?.into_engine())
    }

    /// Opens the selected engine for a run, with its ranks.
    ///
    /// # Errors
    /// A run that ranks cannot train; see also [`Self::engine`].
    pub fn engine_for(&self, config: &TrainConfig, console: &Console) -> Result<BoxedEngine> {
        let launch = crate::ranks::take_launch();
        let (place, ranks) = match (&launch, self.ranks) {
            (Some(_), _) => ("ranks of MPI", 1),
            (None, Some(ranks)) => ("--ranks-in-process", ranks),
            (None, None) => return self.engine(console),
        };
        for settings in dapple::train::sampled_steps(config) {
            check_settings(&settings).map_err(|error| error.at(place))?;
        }
        let (engine, why) = match launch {
            Some(launch) => {
                let (device, options) = self.of_rank()?;
                let engine = launch.lead(&device, &options);
                (engine.map_err(|error| placed_at(error, place))?, None)
            }
            None => self.ranks_engine(ranks)?,
        };
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        console.note(&format!("device: {}{why}", engine.description()));
        let photos = config.views_per_step;
        if photos < ranks {
            console.note(&format!(
                "note: a step of {photos} photo{} leaves {} of {ranks} ranks waiting: --views-per-step {ranks} has one for each",
                if photos == 1 { "" } else { "s" },
                ranks - photos
            ));
        }
        Ok(engine)
    }

    /// Opens a device to time steps of a run on: with the ranks of this process, if the run has them.
    pub fn engine_to_time(&self) -> Result<BoxedEngine> {
        let Some(ranks) = self.ranks else {
            return Ok(self.open_quietly(false)?.engine.into_engine());
        };
        Ok(self.ranks_engine(ranks)?.0)
    }

    /// Opens the ranks of this process. Returns the reason for the choice of the device too.
    fn ranks_engine(&self, ranks: u32) -> Result<(BoxedEngine, Option<String>)> {
        let (device, options) = self.of_rank()?;
        let opened = dapple::open_ranks(&device, &options, ranks as usize);
        let (ranks, why) = opened.map_err(|error| placed_at(error, "--ranks-in-process"))?;
        Ok((ranks.into_engine(), why))
    }

    /// Returns the device and the options of a rank.
    pub fn of_rank(&self) -> Result<(Device, EngineOptions)> {
        let device = self.device.clone().unwrap_or_default();
        Ok((device, self.engine_options(false)?))
    }

    /// Returns the search for nearest entries of a palette, for formats with one. The device is opened at the first
    /// search, without a note, since files have the same bytes on any device.
    pub fn nearest(&self) -> NearestBy {
        dapple::nearest(&self.device.clone().unwrap_or_default())
    }

    /// Returns the origin of a run with these options, for its checkpoints.
    pub fn launch(&self, scene: &Path) -> RunOrigin {
        // A path that is not UTF-8 cannot be stored: the user then names the capture again.
        let capture = scene.canonicalize().ok().filter(|p| p.to_str().is_some());
        RunOrigin {
            capture,
            device: Some(self.device.clone().unwrap_or_default().to_string()),
            precision: Some(self.precision.unwrap_or_default().to_string()),
            default_cap: self.default_cap,
            snapshots: None,
            start: None,
            // A launch by MPI has any number of ranks, and may continue as one.
            ranks: self.ranks.or(crate::ranks::are_joined().then_some(1)),
        }
    }

    /// Opens the engine like [`Self::engine`], with its concrete type for measurements.
    pub fn open(&self, time_stages: bool, console: &Console) -> Result<AnyEngine> {
        Ok(self.announced(self.open_quietly(time_stages)?, console))
    }

    /// Prints the name of an engine and the reason for the selection.
    pub fn announced(&self, mut opened: Opened, console: &Console) -> AnyEngine {
        let name = opened.engine.as_engine().description();
        let why = opened.why.unwrap_or_default();
        // The short reason; the list of devices and their faults is printed with --verbose.
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
        let is_cpu = matches!(opened.engine, AnyEngine::Cpu(_));
        if self.threads.is_some() && !is_cpu {
            console.note("note: --threads is not used: it is for the CPU engine");
        }
        if self.gpu_memory.is_some() && is_cpu {
            console.note("note: --gpu-memory is not used: it is for a GPU");
        }
        opened.engine
    }

    /// Returns a function that opens such engines for measurements, without a note.
    pub fn opener(&self) -> impl Fn(bool) -> Result<AnyEngine> {
        |time_stages| Ok(self.open_quietly(time_stages)?.engine)
    }

    /// Opens the engine like [`Self::open`], without a note.
    pub fn open_quietly(&self, time_stages: bool) -> Result<Opened> {
        let device = self.device.clone().unwrap_or_default();
        if let (Device::Gpu(_), Some(threads)) = (&device, self.threads) {
            return Err(
                Error::input("the number of threads is for the CPU engine, not for a GPU")
                    .at(format!("--device {device} --threads {threads}"))
                    .hint("omit --threads, or use --device cpu"),
            );
        }
        if let (Device::Cpu, Some(_)) = (&device, self.gpu_memory) {
            return Err(
                Error::input("the memory of a GPU is not for the CPU engine")
                    .at(format!("--device {device} --gpu-memory"))
                    .hint("omit --gpu-memory, or use --device gpu"),
            );
        }
        let options = self.engine_options(time_stages)?;
        dapple::open(&device, &options).map_err(|e| match (&device, e.place()) {
            (_, Some(_)) => e,
            (Device::Gpu(_), None) => e.at(format!("--device {device}")),
            _ => e.at("--threads"),
        })
    }

    fn engine_options(&self, time_stages: bool) -> Result<EngineOptions> {
        Ok(EngineOptions {
            threads: self.threads,
            precision: self.precision.unwrap_or_default(),
            default_cap: self.default_cap,
            gpu_memory_bytes: self.gpu_memory,
            photo_memory_bytes: self.photo_memory,
            time_stages,
            buffer_bytes: buffer_bytes()?,
            // Bypass for drivers with wrong timestamps; see docs/PROFILING.md.
            without_timestamps: std::env::var_os("DAPPLE_NO_TIMESTAMPS").is_some_and(|v| v == "1"),
            shares_memory: false,
        })
    }
}

/// Returns the number in DAPPLE_BUFFER_BYTES, for drivers that report too large buffers and for tests; see
/// docs/CLUSTER.md.
fn buffer_bytes() -> Result<Option<u64>> {
    const NAME: &str = "DAPPLE_BUFFER_BYTES";
    let Some(text) = std::env::var_os(NAME).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let bytes = parse_bytes(&text.to_string_lossy()).map_err(|why| {
        Error::input(why)
            .at(format!("the variable {NAME}"))
            .hint(format!("write {NAME}=1GiB, or remove the variable"))
    })?;
    Ok(Some(bytes))
}

/// Returns the name of the capture, which names the results.
pub fn scene_name(scene: &Path) -> Result<String> {
    let whole = scene
        .canonicalize()
        .map_err(|e| Error::io("cannot open the capture", scene, e))?;
    let folder = if whole.is_file() {
        whole.parent().unwrap_or(&whole)
    } else {
        &whole
    };
    let name = folder
        .file_name()
        .map_or("scene".into(), |name| name.to_string_lossy());
    Ok(name.into_owned())
}

/// Photos of a capture to use, and their size.
pub type CaptureOptions = SettingsArgs<Photos>;

/// Merges file and options; see [`TrainConfig::resolve`]. Each layer can be the source of a contradiction.
pub fn merged_config(file: Option<&Path>, flags: ConfigPatch) -> Result<TrainConfig> {
    merged_config_for(None, file, flags)
}

/// Merges like [`merged_config`], with capture statistics of the training photos.
pub fn merged_config_for(
    seen: Option<PhotoCoverage>,
    file: Option<&Path>,
    flags: ConfigPatch,
) -> Result<TrainConfig> {
    TrainConfig::resolve_for(seen, None, file, flags).map_err(|e| {
        if e.place().is_some() {
            return e;
        }
        e.at(match file {
            Some(file) => format!("{} and the options given", file.display()),
            None => "the options given".to_owned(),
        })
    })
}

/// Returns the file of this name next to the splats, or for a snapshot the file in its run's folder.
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

/// Returns the training configuration next to the splats, changed by `flags`, so that renders use the settings of the
/// run. Without such a file, the defaults.
pub fn config_beside(splats: &Path, flags: ConfigPatch, console: &Console) -> Result<TrainConfig> {
    let file = of_run(splats, "config.toml");
    if file.is_file() {
        match TrainConfig::resolve(None, Some(&file), ConfigPatch::default()) {
            Ok(_) => {
                console.note(&format!("settings: those of the run, {}", file.display()));
                return merged_config(Some(&file), flags);
            }
            Err(e) => console.note(&format!(
                "warning: {} is not a run's configuration and is not used: {}",
                file.display(),
                e.what()
            )),
        }
    }
    merged_config(None, flags)
}
