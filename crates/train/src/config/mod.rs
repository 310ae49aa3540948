//! Configuration of a training run.
//!
//! 1. The base is the recipe of the 3DGS paper, written for a run of 30 000 steps.
//! 2. Layers change the base in this order: a [`Preset`], the [`Strategy`] (named, or chosen by the length of the run),
//!    the [`AppearanceModel`], the TOML file, the flags ([`TrainConfig::resolve`]). Each layer is a [`ConfigPatch`].
//!    [`TrainConfig::resolve_for`] also sets the values that depend on the capture.
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

#[macro_use]
mod tables;
mod appearance;
mod background;
mod depth;
mod preset;
mod printed;
mod ranges;
mod resolve;
mod validate;

pub use appearance::AppearanceModel;
pub use background::Background;
pub use depth::DepthSource;
pub use preset::Preset;

use crate::evaluate::Lpips;
use crate::strategy::Strategy;
use dapple_scene::MaskMode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Steps that the base schedule is written for.
pub const BASE_STEPS: u32 = 30_000;

table! {
    /// Configuration of a training run, except for the capture and the engine.
    TrainConfig, ConfigPatch {
        /// Base of the run: micro, m8-smoke, m8, m9, m10, quick or standard.
        preset: Preset = Preset::Standard,
        /// Training steps, one photo each; 1 to 100000000.
        steps: u32 = BASE_STEPS,
        /// The schedule below is scaled to this number of steps; later steps continue with its last rates, and with ever smaller ones. 0 = to all steps. A capture sets another default where the run is longer than suits it: 130 for each photo that is trained on and 3000 for each place that they show, 7000 to 30000.
        schedule_steps: u32 = 0,
        /// Changes of pace, each [after, last]: from step `after` on, the rest of the schedule is run in `last - after` steps. --time-budget writes them; empty without it.
        pace: Vec<[u32; 2]> = Vec::new(),
        /// Most extensions of the run, 0 to 8. A check withholds some photos for a part of the run. If their loss falls, the run gets half as many steps again; if it falls by 0.006, twice the steps and Gaussians (if it rises, see dropout_after). After an extension that reduced the loss by 15 %, a further one doubles the steps again if the loss still falls. Limits: 30000 steps, 2000000 Gaussians, one Gaussian for 15 pixels of the photos, and max_gaussians if it is named. 0 = never; standard: 2 if neither steps nor a time budget is set.
        extensions: u32 = 0,
        /// Extensions of the run, each [after, steps, max_gaussians]: after step `after` the run continues as one that had had `steps` steps and at most `max_gaussians` Gaussians from its start. A run that is extended writes them; empty without extensions.
        extended: Vec<[u32; 3]> = Vec::new(),
        /// Ends the run after this step although the schedule is longer; 0 = run all steps.
        stop_after: u32 = 0,
        /// Seed of everything random; the same seed gives the same splats, bit for bit; 0 to 9223372036854775807.
        seed: u64 = 0,
        /// Highest degree of spherical harmonics, 0 to 3.
        sh_degree: u8 = 3,
        /// Steps after which the active degree rises by one; 1 or more.
        sh_every: u32 = 1000,
        /// Gaussians at the start, drawn from the sparse points, up to 1000000000; 0 = one per point.
        initial_gaussians: usize = 0,
        /// Start from random points if a COLMAP model has lost its sparse points; naming initial_gaussians sets it.
        random_start: bool = false,
        /// Opacity of the Gaussians at the start, between 0 and 1; mcmc: 0.5.
        initial_opacity: f64 = 0.1,
        /// Scale of the Gaussians at the start, in distances to their neighbours, above 0 to 1000; mcmc: 0.3.
        initial_scale: f64 = 1.0,
        /// Gaussian cap, up to 1000000000; 0 = no limit, or where densify.strategy needs a cap, one computed from the detail of the photos and from how many of them show each place: at most one Gaussian for every 30 pixels of the photos, at most 1500000 (quick: 1000000), and at least as many as at the start.
        max_gaussians: usize = 0,
        /// Blend at most this many Gaussians in a tile of 16x16 pixels, nearest first; 0 = all.
        max_gaussians_per_tile: u32 = 0,
        /// Cull Gaussians nearer to a camera than this, world units, up to 1e12; 0 = 5 % of the scene's extent.
        near: f64 = 0.0,
        /// Train with the Mip-Splatting filters, for renders nearer, farther or of another size than the photos. Off by default, since viewers with other filters render such splats differently.
        antialias: bool = false,
        /// Weight of 1 - SSIM in the loss, 0 to 1; the rest is L1.
        ssim_weight: f64 = 0.2,
        /// Dropout rate: fraction of the Gaussians that each step drops at random, 0 to 0.5. Reduces overfitting.
        dropout: f64 = 0.0,
        /// Dropout begins after this step. If an extension check (extensions) finds a rising loss, and neither dropout nor max_gaussians is named, the run writes this step and a dropout of 0.1; 0 = from the first step.
        dropout_after: u32 = 0,
        /// Weight of LPIPS between a crop of the render and of the photo in the loss, 0 to 1000, by the weights of eval.lpips; 0 = no crop is compared.
        perceptual_weight: f64 = 0.0,
        /// Pixels along an edge of that crop, 16 to 4096; no larger than the smallest photo. Each step draws another position.
        perceptual_crop: u32 = 128,
        /// Colour behind the splats and behind transparent photos: red, green, blue in 0 to 1, or "random", another colour in each step, scored over black; data.mask_mode segment sets "random".
        background: Background = Background::BLACK,
        /// Steps between two rows of the logs, 1 or more (the last step is always logged).
        log_every: u32 = 10,
        /// Steps between two checkpoints; 0 = none by steps.
        checkpoint_every: u32 = 0,
        /// Minutes between two checkpoints, more if writing one takes over 1 % of that, up to 1000000; 0 = none by time.
        checkpoint_minutes: f64 = 2.0,
    } {
        /// Selection and size of the photos.
        data: DataConfig, DataPatch,
        /// When and how Gaussians are added and removed.
        densify: DensifyConfig, DensifyPatch,
        /// Appearance: differences between photos that are learned with the splats.
        appearance: AppearanceConfig, AppearancePatch,
        /// Known depths that supervise the run.
        depth: DepthConfig, DepthPatch,
        /// When held-out photos are scored.
        eval: EvalConfig, EvalPatch,
        /// Step sizes of Adam.
        learning_rates: LearningRateConfig, LearningRatePatch,
        /// Constants of Adam.
        adam: AdamConfig, AdamPatch,
        /// Refinement of poses.
        poses: PosesConfig, PosesPatch,
    }
}

table! {
    /// Selection and size of the photos.
    DataConfig, DataPatch {
        /// Hold out every n-th photo by name (0, n, 2n, ...) for scoring, 2 or more; 0 = none.
        eval_every: usize = 8,
        /// Hold out the photos that the capture's own split names (test_filenames, test.txt), where it has one; false wherever eval_every is named by an option, or is another than 8.
        own_split: bool = true,
        /// Divide width and height of the photos by this, 1 to 1024; 1 = full size.
        downscale: u32 = 1,
        /// Reduce photos whose longest edge is longer than this, pixels; 0 = no limit.
        max_resolution: u32 = 0,
        /// Folder of the photos; empty = the folder that the capture names.
        images: PathBuf = PathBuf::new(),
        /// Skip missing photos that the capture names, instead of refusing the capture.
        skip_missing: bool = false,
        /// Turn photos whose lens distorts into those of a pinhole camera first, instead of rendering through the lens.
        undistort: bool = false,
        /// Train on photos of half the size until this fraction of the schedule, 0 to 1; 0 = never; mcmc: 0.4, except with pose refinement, appearance or depths. If half of a photo is shorter than 128 pixels, no photo is reduced.
        coarse_until: f64 = 0.0,
        /// Train on at most this many photos, spread evenly, up to 1000000000; 0 = all.
        max_train_views: usize = 0,
        /// Score at most this many held-out photos, spread evenly, up to 1000000000; 0 = all.
        max_eval_views: usize = 0,
        /// Withhold every n-th (2 or more) of the other photos for validation: they are not trained on, and the splats with the best validation score are stored; 0 = none.
        watch_every: usize = 0,
        /// auto (masks hide pixels, alpha is transparency), ignore (neither is used) or segment (both are transparent; sets another default: background "random").
        mask_mode: MaskMode = MaskMode::Auto,
        /// Masks are white where photos are excluded.
        invert_masks: bool = false,
    } {}
}

table! {
    /// When and how Gaussians are added and removed.
    DensifyConfig, DensifyPatch {
        /// adc (clone, split, prune), budgeted (the same along a curve that ends at max_gaussians) or mcmc (relocate and add; sets other defaults: stop, reset_every, opacity_reg, scale_reg, initial_opacity, initial_scale, learning_rates.decay and .early, data.coarse_until). Default: mcmc from 3500 steps on.
        strategy: Strategy = Strategy::Adc,
        /// Add and remove Gaussians.
        enabled: bool = true,
        /// First step after which Gaussians may be added or removed (exclusive).
        start: u32 = 500,
        /// From this step on the number of Gaussians is fixed.
        stop: u32 = 15_000,
        /// Steps between two rounds; 1 or more.
        every: u32 = 100,
        /// Grow where the mean screen-space gradient exceeds this (gradient in pixels times half the image size), 0 to 1e9.
        grow_gradient: f64 = 2e-4,
        /// adc, budgeted: sum the gradients' absolute values over pixels, so that they do not cancel; sets another default: grow_gradient 8e-4.
        absgrad: bool = false,
        /// Growing Gaussians at most this large are cloned, larger ones split; fraction of the scene's extent, 0 to 1e9.
        split_scale: f64 = 0.01,
        /// Remove Gaussians less opaque than this, 0 to 1; mcmc relocates them.
        prune_opacity: f64 = 0.005,
        /// Remove Gaussians larger than this, from the first opacity reset on; fraction of the scene's extent, 0 to 1e9.
        prune_scale: f64 = 0.1,
        /// Steps between two resets of all opacities to twice prune_opacity; 0 = never.
        reset_every: u32 = 3000,
        /// mcmc adds this fraction of the Gaussians in a round, 0 to 1; 0 = a twentieth, or as much more as reaches max_gaussians after two thirds of the rounds.
        add: f64 = 0.0,
        /// mcmc moves centres at random: this times their step size times the covariance, lengths in units of the scene's extent; 0 to 1e9.
        noise: f64 = 5e6,
        /// Weight of the mean opacity in the loss, 0 to 1000; mcmc: 0.01.
        opacity_reg: f64 = 0.0,
        /// Weight of the mean standard deviation in the loss, in units of the scene's extent, 0 to 1000; mcmc: 0.02.
        scale_reg: f64 = 0.0,
        /// Weight of the mean smallest standard deviation in the loss, in units of the scene's extent, 0 to 1000: flat Gaussians, for surfaces.
        flat_reg: f64 = 0.0,
    } {}
}

table! {
    /// Appearance: differences between photos that are learned with the splats.
    AppearanceConfig, AppearancePatch {
        /// none, exposure (one affine map of colours per photo; sets another default: grid [1, 1, 1]) or bilateral (a grid of them).
        model: AppearanceModel = AppearanceModel::None,
        /// Cells of a photo's grid along x, y (1 to 64) and luminance (1 to 8).
        grid: [u32; 3] = [16, 16, 8],
        /// Step size of Adam at the first step, 0 to 10. Each photo has its own steps: about steps / photos of them.
        rate: f64 = 2e-2,
        /// Step size of Adam at the last step, 0 to 10; log-linear between.
        rate_final: f64 = 2e-3,
        /// Steps before the appearance is learned, in which the splats learn the average appearance.
        start: u32 = 1000,
        /// Weight of the mean squared difference of neighbouring maps, by axis, in the loss; 0 to 1e6.
        smoothness: f64 = 100.0,
        /// Weight of the mean squared distance of the maps from the identity in the loss, 0 to 1e6: keeps the splats at the average appearance.
        identity: f64 = 0.1,
    } {}
}

table! {
    /// Known depths that supervise the run, in addition to the photos.
    DepthConfig, DepthPatch {
        /// none, points (the sparse points, in the photos that found them) or images (a depth image for each photo).
        from: DepthSource = DepthSource::None,
        /// Weight of the relative error of the depths in the loss, at the first step; above 0 to 1000.
        weight: f64 = 0.1,
        /// The weight at the last step as a fraction of that at the first, above 0 to 1; log-linear between.
        decay: f64 = 0.01,
        /// Folder of the depth images; empty = the folder that the capture names, or depths/ or depth/ next to the photos.
        folder: PathBuf = PathBuf::new(),
        /// World units of one step of a 16-bit PNG, above 0 to 1e6.
        unit: f64 = 0.001,
        /// Depth images are inverse depths of unknown scale and shift, which are fitted to the sparse points.
        relative: bool = false,
    } {}
}

table! {
    /// When held-out photos are scored. They are always scored at the end.
    EvalConfig, EvalPatch {
        /// Steps between two scorings; 0 = only at the end.
        every: u32 = 3000,
        /// Further steps after which to score.
        steps: Vec<u32> = Vec::new(),
        /// Weights of LPIPS (safetensors), for the last scoring, on a GPU for every scoring, and for perceptual_weight; empty = no LPIPS.
        lpips: PathBuf = PathBuf::new(),
    } {}
}

table! {
    /// Step sizes of Adam.
    LearningRateConfig, LearningRatePatch {
        /// Centres at the first step, in units of the scene's extent. Rates are 0 (no change) to 10.
        means: f64 = 1.6e-4,
        /// Centres at the last step; log-linear between.
        means_final: f64 = 1.6e-6,
        /// Logarithms of the scales.
        scales: f64 = 5e-3,
        /// Quaternions.
        quats: f64 = 1e-3,
        /// Logits of the opacities.
        opacities: f64 = 5e-2,
        /// Colour: SH coefficient 0.
        sh0: f64 = 2.5e-3,
        /// Colour: SH coefficients 1 and up.
        sh_rest: f64 = 1.25e-4,
        /// Scales and quaternions begin at this multiple of their rates; it falls log-linearly to 1 at densify.stop, 1 to 1000; 1 = constant; mcmc: 3.
        early: f64 = 1.0,
        /// All rates except the centres' fall log-linearly to this fraction, from densify.stop to the last step, above 0; 1 = constant; mcmc: 0.1.
        decay: f64 = 1.0,
    } {}
}

table! {
    /// Constants of Adam.
    AdamConfig, AdamPatch {
        /// Decay of the first moment, 0 to below 1.
        beta1: f64 = 0.9,
        /// Decay of the second moment, 0 to below 1.
        beta2: f64 = 0.999,
        /// Added to the root of the second moment, 1e-30 to 1.
        epsilon: f64 = 1e-15,
    } {}
}

table! {
    /// Refinement of poses together with the Gaussians.
    PosesConfig, PosesPatch {
        /// Refine the poses of the photos trained on, and fit those of held-out photos before scoring (both scores are reported). For inaccurate poses.
        refine: bool = false,
        /// Step size of Adam at first: radians, and for positions the same fraction of the scene's extent, which moves the image as far; above 0 to 0.1.
        rate: f64 = 1e-3,
        /// The rate falls log-linearly to this fraction of it, above 0 to 1: early steps find the pose, late ones average their noise out.
        decay: f64 = 0.01,
        /// Poses are fixed for this fraction of the run, 0 to below 1: the first Gaussians are too coarse to show the position of a camera.
        start: f64 = 0.05,
    } {}
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

    /// Returns the last step of the run: `steps`, or the step set by `pace`, or `stop_after` if it is earlier.
    pub fn last_step(&self) -> u32 {
        let planned = self
            .extended
            .last()
            .map_or(self.steps, |&[_, steps, _]| steps);
        let last = self.pace.last().map_or(planned, |&[_, last]| last);
        match self.stop_after {
            0 => last,
            stop => stop.min(last),
        }
    }

    /// Returns the Gaussian cap at the end of the run.
    pub(crate) fn last_budget(&self) -> usize {
        let raised = self.extended.last().map(|&[_, _, most]| most as usize);
        raised.unwrap_or_else(|| self.gaussian_budget())
    }

    /// Returns the configuration of a run with these steps and this Gaussian cap from its start. Scales the schedule.
    pub(crate) fn extended_to(&self, steps: u32, max_gaussians: usize) -> Self {
        let scaled = resolve::scaled(self.clone(), (steps, steps), self.steps);
        Self {
            steps,
            max_gaussians,
            extended: Vec::new(),
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
