//! Configuration of a training run.
//!
//! 1. The base is the recipe of the 3DGS paper, written for a run of 30 000 steps.
//! 2. Layers change the base in this order: a [`Preset`], the [`Strategy`](crate::Strategy) (named, or chosen by the
//!    length of the run), the [`AppearanceModel`], the TOML file, the flags ([`TrainConfig::resolve`]). Each layer is a
//!    [`ConfigPatch`]. [`TrainConfig::resolve_for`] also sets the values that depend on the capture.
//! 3. Step-valued entries of the schedule (`sh_every`, `densify.start`, `.stop`, `appearance.start`, `eval.every`)
//!    that neither the file nor the flags name are scaled by `steps / written_for`, rounded down and at least 1.
//!    Entries that are named are not scaled, and neither are `densify.every` and `.reset_every`. A printed file names
//!    all entries: if the flags set another number of steps, its unedited entries follow them (`printed.rs`).
//! 4. `background` is random if masks segment and no layer names a background.
//! 5. `random_start` is set if the file or the flags name `initial_gaussians`. The number in a preset does not
//!    replace sparse points.
//! 6. The result holds the numbers that the run uses: a printed configuration read back gives the same run.
//!
//! In all tables, 0 means "no limit" or "never" if the comment states it.

mod appearance;
mod background;
mod continued;
mod depth;
mod focus;
mod joined;
mod old_keys;
mod page;
mod preset;
mod printed;
mod resolve;
mod rows;
mod sky;
mod validate;

pub use appearance::AppearanceModel;
pub use background::{Background, parse_colour};
pub use depth::DepthSource;
pub use focus::FocusRegion;
pub use joined::{Joined, JoinedPhotos};
pub use preset::Preset;
pub use rows::{
    AdamConfig, AdamPatch, AppearanceConfig, AppearancePatch, ConfigPatch, DataConfig, DataPatch,
    DensifyConfig, DensifyPatch, DepthConfig, DepthPatch, EvalConfig, EvalPatch, FocusConfig,
    FocusPatch, LearningRateConfig, LearningRatePatch, PosesConfig, PosesPatch, SurfaceConfig,
    SurfacePatch, TrainConfig,
};
pub use sky::SkyMode;

pub use dapple_base::settings::{Choice, Flag, Key, Kind, Patch, Range, Row, Table, keys};

pub(crate) use old_keys::deserialize_whole;

use crate::evaluate::Lpips;
use crate::plan::Amendments;
use dapple_scene::{Capture, Split};

/// Headings of options in help, in their order.
pub const HEADINGS: [&str; 9] = [
    "Input",
    "Length and size",
    "Densification",
    "Appearance",
    "Losses",
    "Photos",
    "Output",
    "Viewer",
    "Device",
];

/// Steps that the base schedule is written for.
pub const BASE_STEPS: u32 = 30_000;

impl DataConfig {
    /// Splits the photos of a capture into held-out and training photos, as the trainer does.
    pub fn split(&self, capture: &Capture) -> Split {
        let names: Vec<&str> = capture
            .images
            .iter()
            .map(|image| image.name.as_str())
            .collect();
        let limits = (self.max_train_views, self.max_eval_views);
        self.split_names(&names, capture.own_split.as_ref(), limits)
    }
}

impl TrainConfig {
    /// The base recipe, scaled to `steps`.
    pub fn for_steps(steps: u32) -> Self {
        Preset::Standard.config_for(steps)
    }

    /// Returns the steps of the schedule: `schedule_steps`, or all steps.
    pub fn schedule_length(&self) -> u32 {
        match self.schedule_steps {
            0 => self.steps,
            steps => steps,
        }
    }

    /// Returns the last step of the run with its amendments, or `stop_after` if it is earlier.
    pub fn last_step(&self) -> u32 {
        self.last_step_with(&self.amendments)
    }

    /// Returns the last step of the run with other amendments.
    pub(crate) fn last_step_with(&self, amendments: &Amendments) -> u32 {
        let last = amendments.last_step(self.steps);
        match self.stop_after {
            0 => last,
            stop => stop.min(last),
        }
    }

    /// Returns the configuration of a run with these steps and this Gaussian cap from its start. Scales the schedule.
    pub(crate) fn extended_to(&self, steps: u32, max_gaussians: usize) -> Self {
        let scaled = resolve::scaled(self.clone(), (steps, steps), self.steps);
        Self {
            steps,
            max_gaussians,
            amendments: Amendments::default(),
            ..scaled
        }
    }

    /// Returns the options for [`dapple_scene::load()`].
    pub fn load_options(&self) -> dapple_scene::LoadOptions {
        let images = &self.data.images;
        dapple_scene::LoadOptions {
            downscale: (self.data.downscale > 1).then_some(self.data.downscale),
            max_resolution: (self.data.max_resolution > 0).then_some(self.data.max_resolution),
            images: (!images.as_os_str().is_empty()).then(|| images.clone()),
            skip_missing: self.data.skip_missing,
            ignore_split: !self.data.own_split,
            undistort: self.data.undistort,
            mask_mode: self.data.mask_mode,
            invert_masks: self.data.invert_masks,
            ..dapple_scene::LoadOptions::default()
        }
    }

    /// Returns [`Self::load_options`] with the depth images that training requires.
    pub fn training_load_options(&self) -> dapple_scene::LoadOptions {
        let folder = &self.depth.folder;
        dapple_scene::LoadOptions {
            depths: self.depth.from == DepthSource::Images,
            depth_folder: (!folder.as_os_str().is_empty()).then(|| folder.clone()),
            ..self.load_options()
        }
    }

    /// Reads the weights of LPIPS from the configured file, if a file is named.
    ///
    /// # Errors
    /// See [`Lpips::read`].
    pub fn read_lpips(&self) -> dapple_scene::Result<Option<Lpips>> {
        let path = &self.eval.lpips;
        let named = !path.as_os_str().is_empty();
        named.then(|| Lpips::read(path)).transpose()
    }

    /// Returns the near plane for engines, world units.
    pub fn near_plane(&self) -> f32 {
        if self.near > 0.0 {
            self.near as f32
        } else {
            dapple_engine::constants::NEAR
        }
    }

    /// Returns the Gaussian cap; `usize::MAX` without a limit.
    pub fn gaussian_budget(&self) -> usize {
        match self.max_gaussians {
            0 => usize::MAX,
            n => n,
        }
    }
}
