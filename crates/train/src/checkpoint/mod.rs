//! Format of `checkpoint.safetensors`, which stores a run that was stopped between two steps.
//!
//! | part | what |
//! |---|---|
//! | metadata `format`, `version` | "dapple-checkpoint" and [`CHECKPOINT_VERSION`] |
//! | metadata `config` | the configuration as TOML, the seed within it |
//! | metadata `run` | JSON: step, device, capture (checksums of its files and cameras), scores, rounds of density control, seconds |
//! | `splats.*`, `first_moments.*`, `second_moments.*` | `means` `[N, 3]`, `scales` `[N, 3]`, `quats` `[N, 4]`, `opacities` `[N]`, `sh0` `[N, 3]`, `sh_rest` `[N, K - 1, 3]` |
//! | `density.*` | `gradient_sums` `[N]`, `visible_counts` `[N]` |
//! | `poses` | if a step has refined poses: those of each training photo, `[V, 29]`, see `dapple_engine::RefinedPose` |
//! | `best.*` | if photos are withheld for validation: the splats with the best validation score, with the tensors of `splats.*` and their own number of Gaussians; `best.appearance.*`, `best.photometric.*` or `best.look.*` with the tensors of the appearance, from the same step |
//! | `antialias.smoothing` `[N]` | the 3D filters of anti-aliased runs |
//! | `appearance.*` | if grids are learned: `coefficients`, `first_moments`, `second_moments` `[V, y, x, luminance, 3, 4]`, `seen` `[V]` |
//! | `photometric.*` | with the photometric model: `cameras` `[V]`, `numbers`, `first_moments`, `second_moments` `[V, 20]`, `seen` `[V, 2]`, see `dapple_engine::features::photometric` |
//! | `look.*` | with the appearance MLP: `frame` `[1, 4]`, `network` `[1, 1344]`, `network_moments` `[1, 2, 1344]`, `codes` `[V, 64]`, `code_moments` `[V, 2, 64]`, `seen` `[V]`; for each Gaussian `features` `[N, 8]`, `feature_moments` `[N, 2, 8]` |
//! | `history.*` | of each step `steps`, `losses`, `gaussians`, `steps_per_second` `[S]` |
//!
//! `state.safetensors` of a finished run has the same format. Its moments are in 16 bits (`BF16`,
//! [`Checkpoint::write_packed`]), since a run that continues is another run from there on.
//!
//! No random state is stored, because random numbers have none: views, splits and rounding are keyed by seed, step and
//! index ([`crate::ViewOrder`]). The order of the Gaussians is state; it is the order of the tensors.

mod capture;
mod packed;
pub(crate) mod shards;
mod state;
mod tensors;

pub use capture::{CaptureIdentity, ViewIdentity};
pub use shards::{ShardPlace, Shards};

use crate::{
    Best, Budget, CapLosses, Continuation, EvalRow, ExtensionCheck, History, Seconds, TrainConfig,
    ValidationRow,
};
use dapple_engine::{DensifyReport, OptimizerState, Part};
use dapple_scene::atomic::write_atomically;
use dapple_scene::{Error, Result, Splats, bounded};
use serde::{Deserialize, Serialize};
pub(crate) use state::view_tensors;
use state::{
    BEST, contradiction, gaussian_tensors, pack_moments, read_best, read_gaussians, read_losses,
    read_views, splat_tensors,
};
use std::io::{Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tensors::Metadata;
pub(crate) use tensors::{Kind, Reader, Tensor, write as write_tensors};

/// Version of the file. It rises if a reader of the old version would resume differently.
pub const CHECKPOINT_VERSION: u32 = 2;

const FORMAT: &str = "dapple-checkpoint";

/// State from which a run resumes as if it had never stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Steps done, each including its density control.
    pub step: u32,
    /// Configuration with the resolved near plane.
    pub config: TrainConfig,
    /// Identity of the training capture.
    pub capture: CaptureIdentity,
    /// How the run was started.
    pub launch: RunOrigin,
    /// The engine and its device.
    pub device: String,
    /// Name of the density strategy if it was given to [`crate::Trainer::with_strategy`] and is not one of the
    /// configuration's.
    pub strategy: Option<String>,
    /// Scores and other events up to this step.
    pub history: History,
    /// Gaussians in the order of the engine.
    pub splats: Splats,
    /// Adam's moments and density statistics.
    pub state: OptimizerState,
    /// Results of the whole-run validation photos so far.
    pub watched: Vec<ValidationRow>,
    /// Splats with the best validation score.
    pub best: Option<Arc<Best>>,
    /// Extension checks so far.
    pub extension_checks: Vec<ExtensionCheck>,
    /// Loss of the currently withheld validation photos at the step that withheld them.
    pub loss_before_check: Option<f64>,
    /// Files with the Gaussians of a model that several devices shared. The moments in `state` are then empty, until
    /// [`Self::with_moments`] reads them.
    pub shards: Option<Shards>,
}

/// File of the splats that a run started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartSplats {
    /// Path of the file.
    pub path: PathBuf,
    /// CRC-32 of its content; of a SOG folder, of its meta.json.
    pub crc32: u32,
    /// Number of Gaussians.
    pub gaussians: u64,
}

impl StartSplats {
    /// Computes the CRC-32 of a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn crc32_of(path: &Path) -> Result<u32> {
        let mut file = bounded::open("cannot open the splats", path)?;
        let mut hasher = crc32fast::Hasher::new();
        let mut block = vec![0; 1 << 16];
        loop {
            let read = file
                .read(&mut block)
                .map_err(|e| Error::io("cannot read the splats", path, e))?;
            if read == 0 {
                return Ok(hasher.finalize());
            }
            hasher.update(&block[..read]);
        }
    }
}

/// How a run was started, for the program that resumes it. Training ignores it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOrigin {
    /// Path of the capture.
    pub capture: Option<PathBuf>,
    /// Requested device.
    pub device: Option<String>,
    /// Precision of SH and moments in the engine.
    pub precision: Option<String>,
    /// Per-tile limit of the engine, used if the configuration has 0. `None` if the caller set none.
    pub default_cap: Option<u32>,
    /// Requested number of snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<u32>,
    /// Splats that the run started from; `None` if it started from the capture's points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartSplats>,
    /// Ranks that trained the run; `None` = an engine without ranks. Any number gives the same results, and on a GPU others
    /// than none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
}

/// The metadata `run`.
#[derive(Serialize, Deserialize)]
struct Run {
    /// Version of Dapple that wrote it.
    dapple: String,
    step: u32,
    device: String,
    launch: RunOrigin,
    capture: CaptureIdentity,
    seconds: Seconds,
    cap: CapLosses,
    evals: Vec<EvalRow>,
    densify: Vec<DensifyReport>,
    #[serde(default)]
    watched: Vec<ValidationRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "outlooks")]
    extension_checks: Vec<ExtensionCheck>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        alias = "outlook_before"
    )]
    loss_before_check: Option<f64>,
    /// Refined poses; 0 until a step refines one.
    #[serde(default, skip_serializing_if = "is_zero")]
    poses: usize,
    /// Frozen Gaussians.
    #[serde(default, skip_serializing_if = "is_zero")]
    frozen: usize,
    /// Gaussians of the sky.
    #[serde(default, skip_serializing_if = "is_zero")]
    sky: usize,
    /// Source of the Gaussian cap.
    #[serde(default)]
    budget: Option<Budget>,
    /// Name of a density strategy that the program supplies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strategy: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    continuations: Vec<Continuation>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Checkpoint {
    /// Writes the file atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        self.write_with(path, false)
    }

    /// Writes the file atomically with moments in 16 bits: two thirds of the size of [`Self::write`].
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_packed(&self, path: &Path) -> Result<()> {
        self.write_with(path, true)
    }

    fn write_with(&self, path: &Path, packs: bool) -> Result<()> {
        let metadata = self.metadata()?;
        let rows = &self.history.losses;
        let steps: Vec<u32> = rows.iter().map(|row| row.step).collect();
        let losses: Vec<f32> = rows.iter().map(|row| row.loss).collect();
        let gaussians: Vec<u64> = rows.iter().map(|row| row.gaussians).collect();
        let rates: Vec<f64> = rows.iter().map(|row| row.steps_per_second).collect();
        let of = |name: &str| format!("history.{name}");
        let count = [rows.len()];
        let mut all = vec![
            Tensor::new(of("gaussians"), Kind::U64, &count, &gaussians),
            Tensor::new(of("steps_per_second"), Kind::F64, &count, &rates),
            Tensor::new(of("steps"), Kind::U32, &count, &steps),
            Tensor::new(of("losses"), Kind::F32, &count, &losses),
        ];
        let state = &self.state;
        let moments = [&state.first_moments, &state.second_moments];
        let packed = (packs && self.shards.is_none()).then(|| moments.map(pack_moments));
        let [wide, narrow] = match &self.shards {
            None => gaussian_tensors(&self.splats, state, packed.as_ref()),
            Some(_) => [Vec::new(), Vec::new()],
        };
        all.extend(wide);
        if let Some(best) = &self.best {
            all.extend(splat_tensors("best", &best.splats));
        }
        let views = state.views.tensors();
        all.extend(view_tensors("", &views));
        let best = self.best.as_ref().map(|best| best.views.tensors());
        all.extend(view_tensors(BEST, best.as_deref().unwrap_or_default()));
        // Narrow numbers come last.
        all.extend(narrow);
        if self.shards.is_some() && !packs {
            shards::keep_before(path)?;
        }
        write_atomically(path, |out| tensors::write(out, metadata, &all).map(drop))
    }

    fn metadata(&self) -> Result<Metadata> {
        let run = Run {
            dapple: env!("CARGO_PKG_VERSION").to_owned(),
            step: self.step,
            device: self.device.clone(),
            launch: self.launch.clone(),
            capture: self.capture.clone(),
            seconds: self.history.seconds,
            cap: self.history.cap,
            evals: self.history.evals.clone(),
            densify: self.history.densify.clone(),
            watched: self.watched.clone(),
            extension_checks: self.extension_checks.clone(),
            loss_before_check: self.loss_before_check,
            budget: self.history.budget,
            poses: self.state.views.poses.len(),
            frozen: self.state.frozen,
            sky: self.state.sky,
            strategy: self.strategy.clone(),
            continuations: self.history.continuations.clone(),
        };
        let run = serde_json::to_string(&run).map_err(|e| {
            Error::internal(format!("the checkpoint cannot be written: {e}")).caused_by(e)
        })?;
        let entries = [
            ("format", FORMAT.to_owned()),
            ("version", CHECKPOINT_VERSION.to_string()),
            ("config", self.config.to_toml()?),
            ("run", run),
        ];
        let shards = self.shards.as_ref().map(Shards::to_metadata).transpose()?;
        let shards = shards.map(|names| (shards::SHARDS, names));
        Ok(entries
            .into_iter()
            .chain(shards)
            .map(|(name, value)| (name.to_owned(), value))
            .collect())
    }

    /// Returns what the tensors of Gaussians depend on: the SH degree, and true if they have 3D filters.
    pub(crate) fn layout(&self) -> (u8, bool) {
        layout(&self.config, self.step)
    }

    /// Reads the moments of a model that several devices shared into memory: 472 bytes of each Gaussian of SH degree 3.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn with_moments(mut self) -> Result<Self> {
        let Some(shards) = self.shards.take() else {
            return Ok(self);
        };
        let mut open = shards.open(false)?;
        let (_, state) = open.read_part(Part::whole(shards.total()), self.layout())?;
        self.state.first_moments = state.first_moments;
        self.state.second_moments = state.second_moments;
        Ok(self)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be opened; see [`Self::parse`] for the others.
    pub fn read(path: &Path) -> Result<Self> {
        let file = bounded::open("cannot open the checkpoint", path)?;
        Self::load(file, path.parent()).map_err(|e| {
            let place = path.display();
            let place = match e.place() {
                Some(inner) if !inner.is_empty() => format!("{place}, {inner}"),
                _ => place.to_string(),
            };
            e.at(place)
        })
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// The bytes are not a checkpoint, have another version, are damaged, or contradict themselves.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Self::load(Cursor::new(bytes), None)
    }

    fn load(input: impl Read + Seek, folder: Option<&Path>) -> Result<Self> {
        let mut reader = Reader::open(input)?;
        check_version(reader.metadata("format"), reader.metadata("version"))?;
        // Verify the checksum before values are used or memory is allocated.
        reader.verify()?;
        let (config, run) = read_metadata(&reader)?;
        let shards = Shards::named(&reader, folder)?;
        let (splats, mut state) = match &shards {
            Some(shards) => shards.open(true)?.model(layout(&config, run.step))?,
            None => read_own(&mut reader, layout(&config, run.step))?,
        };
        let n = splats.len();
        if run.frozen.saturating_add(run.sky) > n {
            return Err(contradiction(
                "it has more frozen Gaussians and Gaussians of the sky than Gaussians",
            ));
        }
        (state.frozen, state.sky) = (run.frozen, run.sky);
        let has_steps = run.step > 0;
        state.views = read_views(&mut reader, "", &config, (has_steps, run.poses))?;
        let best = if run.watched.is_empty() {
            None
        } else {
            let last = state.views.sizes();
            Some(Arc::new(read_best(&mut reader, &config, &last)?))
        };
        let losses = read_losses(&mut reader)?;
        let ascend = losses.windows(2).all(|rows| rows[0].step < rows[1].step);
        if !ascend || losses.last().is_some_and(|row| row.step > run.step) {
            return Err(contradiction("its steps are out of order"));
        }
        if run.step > config.last_step().max(config.steps) {
            return Err(contradiction("its step lies beyond the run's last"));
        }
        Ok(Self {
            step: run.step,
            config,
            capture: run.capture,
            launch: run.launch,
            device: run.device,
            strategy: run.strategy,
            history: History {
                losses,
                densify: run.densify,
                evals: run.evals,
                seconds: run.seconds,
                cap: run.cap,
                budget: run.budget,
                continuations: run.continuations,
            },
            splats,
            state,
            watched: run.watched,
            extension_checks: run.extension_checks,
            loss_before_check: run.loss_before_check,
            best,
            shards,
        })
    }
}

/// Returns what the tensors of Gaussians depend on: see [`Checkpoint::layout`].
fn layout(config: &TrainConfig, step: u32) -> (u8, bool) {
    (config.sh_degree, config.antialias && step > 0)
}

/// Reads the splats and their state of a checkpoint that holds them itself.
fn read_own<R: Read + Seek>(
    reader: &mut Reader<R>,
    layout: (u8, bool),
) -> Result<(Splats, OptimizerState)> {
    match reader.shape("splats.means")? {
        [0, 3] => Err(contradiction("it holds no Gaussian")),
        &[n, 3] => read_gaussians(reader, n, layout),
        _ => Err(contradiction("its centres have no three coordinates")),
    }
}

fn check_version(format: Option<&str>, version: Option<&str>) -> Result<()> {
    if format != Some(FORMAT) {
        return Err(
            Error::input("this safetensors file is not a checkpoint of Dapple")
                .hint("name the folder of a run, which holds a checkpoint.safetensors"),
        );
    }
    let Some(found) = version.and_then(|version| version.parse::<u32>().ok()) else {
        return Err(contradiction("it has no version"));
    };
    let (age, hint) = match found.cmp(&CHECKPOINT_VERSION) {
        std::cmp::Ordering::Equal => return Ok(()),
        std::cmp::Ordering::Less => (
            "an older",
            "resume with the version of Dapple that began the run, or start it again without --resume",
        ),
        std::cmp::Ordering::Greater => ("a newer", "update Dapple"),
    };
    Err(Error::unsupported(format!(
        "{age} Dapple has written this checkpoint: version {found} of the format, this one reads \
         {CHECKPOINT_VERSION}"
    ))
    .hint(hint))
}

/// Reads the configuration and the metadata `run`.
fn read_metadata<R: Read + Seek>(reader: &Reader<R>) -> Result<(TrainConfig, Run)> {
    let Some(config) = reader.metadata("config") else {
        return Err(contradiction("it has no configuration"));
    };
    let config = TrainConfig::parse(config, "the configuration in it")?;
    let run = reader.metadata("run").unwrap_or_default();
    let run: Run = serde_json::from_str(run).map_err(|e| {
        Error::input(format!("the checkpoint's description is not valid: {e}"))
            .hint("another program has written it: use the checkpoint as the run left it")
            .caused_by(e)
    })?;
    Ok((config, run))
}
