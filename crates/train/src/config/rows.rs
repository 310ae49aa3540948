//! Settings of a training run, one row each: comment, name, type, default, range, option, help.
//!
//! The order of the rows is the order of the printed file. To add a setting: `CONTRIBUTING.md`.

use super::{
    AppearanceModel, BASE_STEPS, Background, DepthSource, FocusRegion, JoinedPhotos, Preset,
    SkyMode,
};
use crate::plan::Amendments;
use crate::strategy::Strategy;
use dapple_base::settings;
use dapple_base::settings::{Range, Scales};
use dapple_scene::{MAX_SH_DEGREE, MaskMode};
use std::path::PathBuf;

/// Longer runs than this are a typing error.
pub(super) const MOST_STEPS: u32 = 100_000_000;

/// Larger batches have no use on captures of usual size.
const MOST_VIEWS_PER_STEP: u32 = 1024;

/// Upper limit of Gaussians in any engine: they have 236 GB of parameters.
const GAUSSIANS: Range = Range::Counts(0, 1_000_000_000);

/// No capture has more photos.
const PHOTOS: Range = Range::Counts(0, 1_000_000_000);

/// A step beyond the end of a run means never.
const STEPS: Range = Range::Counts(0, u32::MAX as u64);

/// Interval in steps.
const OFTEN: Range = Range::Counts(1, u32::MAX as u64);

/// Step size.
const RATE: Range = Range::closed(0.0, 10.0);

/// Fraction that a value falls to.
const SHARE: Range = Range::above(0.0, 1.0);

settings! {
    /// Configuration of a training run, except for the capture and the engine.
    pub TrainConfig, ConfigPatch in "Length and size" {
        /// Base of the run: quick, standard, 7k (standard with 7000 steps) or 30k (30000). Small runs: m8-smoke, micro, m8, m9, m10.
        preset: Preset = Preset::Standard,
            main_flag("-p, --preset <PRESET>",
                "Base of the settings: quick, standard, 7k or 30k [default: standard]. Small runs, to test an installation or a setting: m8-smoke, micro, m8, m9, m10");
        /// Training steps, one photo each; 1 to 100000000. 30000 is the value of the base recipe; standard and quick compute it from the capture.
        steps: u32 = BASE_STEPS, counts(1, MOST_STEPS as u64),
            main_flag("--steps <N>",
                "Training steps, one photo each [default: from the capture]. The default is 7 000 to 30 000: 130 per photo, or 3 000 per place if that is more; quick has 70 per photo, 3 500 to 7 000");
        /// Steps of the schedule: learning rates and densification are scaled to this number. In later steps all rates fall from their last values by the factor learning_rates.decay (mcmc: to a tenth; adc: constant). 0 = all steps. Default: 0; if steps is larger than the computed steps of the capture, these: the larger of 130 x photos and 3000 x photos / coverage, 7000 to 30000.
        schedule_steps: u32 = 0, range(Range::Any("at most steps")),
            flag("--schedule-steps <N>",
                "Steps of the schedule [default: --steps, at most the default for the capture]. Learning rates and densification are scaled to them; later steps have falling learning rates");
        /// Largest number of run extensions, 0 to 8; 0 = none. Default: 2 for standard if neither steps nor a time budget is set, else 0. A check withholds some photos for a part of the run. If their loss falls by less than 0.006, the run gets half as many steps again. If it falls by 0.006 or more, the run gets twice the steps and Gaussians, and a second check before its new end. This check doubles the steps again if the loss still falls and is 15 % below that at the end of the first check. If a loss rises, the rest of the run has a dropout of 0.1, unless dropout or max_gaussians is named. Limits: 30000 steps, 2000000 Gaussians, one Gaussian for 15 pixels of the photos, and max_gaussians if it is named.
        max_extensions was "extensions": u32 = 0, counts(0, 8);
        /// Changes of later steps, in order, each { after = STEP, change = CHANGE }. CHANGE is { step_rate = { last } }, { extension = { steps, max_gaussians } }, { dropout = { rate } } or { continuation = { means, fresh_moments } }. After an extension the run has the schedule of a run with these steps and this cap. A step rate runs the rest of the schedule in the steps up to `last`. After a continuation (--continue), the learning rate of the centres falls from `means`; with fresh_moments the optimizer starts without moments. A run writes its own amendments (max_extensions, --time-budget), and repeats those that it is given.
        amendments: Amendments = Amendments::default();
        /// Photos whose mean gradient moves the Gaussians at once, 1 to 1024, at most the training photos. A step still takes one photo; the Gaussians move after the last step of each batch. Learning rates grow by the root of the number, and moments decay as much as in that many steps.
        views_per_step: u32 = 1, counts(1, MOST_VIEWS_PER_STEP as u64),
            flag("--views-per-step <N>",
                "Photos whose mean gradient moves the Gaussians at once [default: 1]. --steps still counts photos: the Gaussians move N times less often, and further");
        /// Ends the run after this step although the schedule is longer; 0 = run all steps.
        stop_after: u32 = 0, range(Range::Any("at most steps"));
        /// Seed of everything random; the same seed gives the same splats, bit for bit; 0 to 9223372036854775807.
        seed: u64 = 0, counts(0, i64::MAX as u64),
            flag("--seed <N>",
                "Random seed [default: 0]");
        /// Highest degree of spherical harmonics, 0 to 3.
        sh_degree: u8 = 3, counts(0, MAX_SH_DEGREE as u64),
            flag("--sh-degree <N>",
                "Highest degree of spherical harmonics, 0 to 3 [default: 3]. Degree 0 has no view dependence and a quarter of the size"), checked_early();
        /// Steps after which the active degree rises by one; 0 = all degrees are active from the first step.
        sh_every: u32 = 1000, range(STEPS), scales(Scales::Schedule);
        /// Gaussians at the start, drawn from the sparse points, up to 1000000000; 0 = one per point.
        initial_gaussians: usize = 0, range(GAUSSIANS),
            flag("--initial-gaussians <N>",
                "Gaussians at the start, sampled from the sparse points [default: one per point]. Without sparse points in a COLMAP capture, the number of random Gaussians");
        /// Start from random points if a COLMAP model has lost its sparse points; naming initial_gaussians sets it.
        random_start: bool = false;
        /// The run starts from splats, and this file has the schedule of such a run; --from sets it.
        from_splats: bool = false;
        /// Opacity of the Gaussians at the start, between 0 and 1; mcmc: 0.5.
        initial_opacity: f64 = 0.1, range(Range::between(0.0, 1.0));
        /// Scale of the Gaussians at the start, in distances to their neighbours, above 0 to 1000; mcmc: 0.3.
        initial_scale: f64 = 1.0, range(Range::above(0.0, 1e3));
        /// Gaussian cap, up to 1000000000. 0 = no cap for adc; budgeted and mcmc compute it: 6 x detail / coverage^0.75, at most one Gaussian for every 30 pixels of the photos and at most 1500000 (quick: 1000000), but at least as many as at the start, and on a GPU at most as many as fit its memory. With surface.enabled 9 instead of 6, and one for every 20 pixels.
        max_gaussians: usize = 0, range(GAUSSIANS),
            main_flag("--max-gaussians <N>",
                "Gaussian cap [default: 0, from the detail of the photos]. With 0 it is at most one Gaussian per 30 pixels and 1.5 million, and is printed at the end of the run; adc has no cap");
        /// Blend at most this many Gaussians in a tile of 16x16 pixels, nearest first; 0 = all.
        max_gaussians_per_tile: u32 = 0, range(Range::Any("")),
            flag("--max-gaussians-per-tile <N>",
                "Blend at most N Gaussians per tile of 16x16 pixels, nearest first; 0 = all [default: 0; 2048 on GPUs whose drivers kill long work, see `dapple doctor`]");
        /// Cull Gaussians nearer to a camera than this, world units, up to 1e12; 0 = 5 % of the scene's extent.
        near: f64 = 0.0, range(Range::closed(0.0, 1e12));
        /// Train with the Mip-Splatting filters, for renders nearer, farther or of another size than the photos. Off by default, since viewers with other filters render such splats differently.
        antialias: bool = false, heading("Appearance"),
            flag("--antialias",
                "Train with the Mip-Splatting filters [default: off]. Improves renders at other sizes than the photos; other viewers show such splats too thick and too bright");
        /// Weight of 1 - SSIM in the loss, 0 to 1; the rest is L1.
        ssim_weight: f64 = 0.2, range(Range::closed(0.0, 1.0)), heading("Losses");
        /// Dropout rate: fraction of the Gaussians that each step drops at random, 0 to 0.5. Reduces overfitting.
        dropout: f64 = 0.0, range(Range::closed(0.0, 0.5)), heading("Losses"),
            flag("--dropout <X>",
                "Dropout rate of Gaussians per step, 0 to 0.5 [default: 0, or 0.1 after a failed extension check]");
        /// Weight of LPIPS between a crop of the render and of the photo in the loss, 0 to 1000, by the weights of eval.lpips; 0 = no crop is compared.
        lpips_weight was "perceptual_weight": f64 = 0.0, range(Range::closed(0.0, 1e3)), heading("Losses"),
            flag("--lpips-weight <X>",
                "Weight of LPIPS in the loss [default: 0]. LPIPS compares a crop of each render and photo, with the weights of --lpips"), old_flag("--perceptual");
        /// Pixels along an edge of that crop, 16 to 4096; no larger than the smallest photo. Each step draws another position.
        lpips_crop was "perceptual_crop": u32 = 128, counts(16, 4096), heading("Losses");
        /// Colour behind the splats and behind transparent photos: red, green, blue in 0 to 1, or "random", another colour in each step, scored over black; data.mask_mode segment sets "random".
        background: Background = Background::BLACK, range(Range::closed(0.0, 1.0)), heading("Appearance"),
            flag("--background <random|black|white|R,G,B>",
                "Background of renders and of transparent photos [default: black; random with --mask-mode segment]. Numbers are 0 to 1; random is a new colour each step. Scores use this colour, and black for random");
        /// on, off or auto: learn the sky apart, as Gaussians on a sphere beyond the scene. auto is on if the capture is outdoors and at least 15 % of the training photos show a sky; a run stores on or off.
        sky: SkyMode = SkyMode::Auto, choice(), heading("Appearance"),
            flag("--sky <MODE>",
                "Learn the sky apart, as Gaussians on a sphere beyond the scene: auto, on or off [default: auto]. auto is on if the capture is outdoors and enough photos show a sky");
        /// Steps between two rows of the logs, 1 or more (the last step is always logged).
        log_every: u32 = 10, range(OFTEN), heading("Output");
        /// Steps between two checkpoints; 0 = none by steps.
        checkpoint_every: u32 = 0, range(STEPS), heading("Output"), beside_results(),
            flag("--checkpoint-every <N>",
                "Write a checkpoint every N steps, 0 for only on Ctrl-C [default: every 2 minutes]. Checkpoints take at most 1 % of the time of a long run");
        /// Minutes between two checkpoints, more if writing one takes over 1 % of that, up to 1000000; 0 = none by time.
        checkpoint_minutes: f64 = 2.0, range(Range::closed(0.0, 1e6)), heading("Output"), beside_results();
        /// Write no state.safetensors at the end, the optimizer state from which the run can be continued.
        no_state: bool = false, heading("Output"), beside_results(),
            flag("--no-state",
                "Write no state.safetensors at the end of the run. The file has twice the size of splats.ply; --continue then starts without optimizer moments");
    } {
        /// Selection and size of the photos.
        data: DataConfig, DataPatch;
        /// When and how Gaussians are added and removed.
        densify: DensifyConfig, DensifyPatch;
        /// Appearance: differences between photos that are learned with the splats.
        appearance: AppearanceConfig, AppearancePatch;
        /// Known depths that supervise the run.
        depth: DepthConfig, DepthPatch;
        /// Training for surfaces.
        surface: SurfaceConfig, SurfacePatch;
        /// When held-out photos are scored.
        eval: EvalConfig, EvalPatch;
        /// Step sizes of Adam.
        learning_rates: LearningRateConfig, LearningRatePatch;
        /// Constants of Adam.
        adam: AdamConfig, AdamPatch;
        /// Refinement of poses.
        poses: PosesConfig, PosesPatch;
        /// Region of interest.
        focus: FocusConfig, FocusPatch, omitted_if("FocusConfig::is_default");
    }
}

settings! {
    /// Selection and size of the photos.
    pub DataConfig, DataPatch in "Photos" {
        /// Hold out every n-th photo by name (0, n, 2n, ...) for scoring, 2 or more; 0 = none.
        eval_every: usize = 8, range(PHOTOS),
            flag("--eval-every <N>",
                "Hold out every N-th photo, 0 for none [default: the capture's split, else 8]");
        /// Hold out the photos that the capture's own split names (test_filenames, test.txt), where it has one; false wherever eval_every is named by an option, or is another than 8.
        own_split: bool = true;
        /// Divide width and height of the photos by this, 1 to 1024; 1 = full size.
        downscale: u32 = 1, counts(1, 1024),
            main_flag("--downscale <N>",
                "Divide photo width and height by N [default: 1]. An existing folder images_N is used");
        /// Reduce photos whose longest edge is longer than this, pixels; 0 = no limit.
        max_resolution: u32 = 0, range(Range::Any("")),
            flag("--max-resolution <PIXELS>",
                "Reduce photos whose longer side exceeds this many pixels [default: no limit]");
        /// Folder of the photos; empty = the folder that the capture names.
        images: PathBuf = PathBuf::new(),
            flag("--images <FOLDER>",
                "Photo folder [default: from the capture]");
        /// Skip missing photos that the capture names, instead of refusing the capture.
        skip_missing: bool = false,
            flag("--skip-missing",
                "Skip missing photos of the capture and print their number");
        /// Turn photos whose lens distorts into those of a pinhole camera first, instead of rendering through the lens.
        undistort: bool = false,
            flag("--undistort",
                "Undistort photos while loading, which crops their borders [default: render through the lens distortion]");
        /// Train on photos of half the size until this fraction of the schedule, 0 to 1; 0 = never; mcmc: 0.4, except with pose refinement, appearance or depths. If half of a photo is shorter than 128 pixels, no photo is reduced.
        coarse_until: f64 = 0.0, range(Range::closed(0.0, 1.0));
        /// Train on at most this many photos, spread evenly, up to 1000000000; 0 = all.
        max_train_views: usize = 0, range(PHOTOS);
        /// Score at most this many held-out photos, spread evenly, up to 1000000000; 0 = all.
        max_eval_views: usize = 0, range(PHOTOS);
        /// Withhold every n-th (2 or more) of the other photos for validation: they are not trained on, and the splats with the best validation score are stored; 0 = none.
        validate_every was "watch_every": usize = 0, range(PHOTOS),
            flag("--validate-every <N>",
                "Withhold every N-th training photo for validation, 0 for none. The result is the splats with the best validation score [default: 16 if the schedule is more than twice the default for the capture, else 0]"), old_flag("--watch-every");
        /// Photos that joined the capture between parts of the run, each { after = STEP, new = [NAMES], changed = [NAMES], removed = [NAMES], beside = [NAMES] }; --continue sets it. They are not held out. Steps after `after` take `new` and `changed` in half of the steps, and `beside` in the others.
        joined: JoinedPhotos = JoinedPhotos::default();
        /// auto (masks hide pixels, alpha is transparency), ignore (both hide pixels) or segment (both are transparent; sets another default: background "random").
        mask_mode: MaskMode = MaskMode::Auto, choice(),
            main_flag("--mask-mode <MODE>",
                "Use of masks and alpha: auto, ignore or segment [default: auto]. Masks are in masks/ next to the photo folder, with the photos' names; white is used");
        /// Masks are white where photos are excluded.
        invert_masks: bool = false,
            flag("--invert-masks",
                "Exclude the white parts of masks instead of the black parts");
    } {}
}

settings! {
    /// When and how Gaussians are added and removed.
    pub DensifyConfig, DensifyPatch in "Densification" {
        /// adc (clone, split, prune), budgeted (the same along a curve that ends at max_gaussians) or mcmc (relocate and add; sets other defaults: stop, reset_every, opacity_reg, scale_reg, initial_opacity, initial_scale, learning_rates.decay and .early, data.coarse_until). Default: mcmc if the schedule has 3500 steps or more, as in standard and quick; else adc.
        strategy: Strategy = Strategy::Adc, choice(),
            flag("--strategy <STRATEGY>",
                "Method that adds and removes Gaussians [default: mcmc from 3 500 steps on, else adc]. Without --max-gaussians, budgeted and mcmc compute the cap from the detail in the photos");
        /// Add and remove Gaussians.
        enabled: bool = true;
        /// First step after which Gaussians may be added or removed (exclusive).
        start: u32 = 500, range(STEPS), scales(Scales::Schedule);
        /// From this step on the number of Gaussians is fixed.
        stop: u32 = 15_000, range(STEPS), scales(Scales::Schedule);
        /// Steps between two rounds; 1 or more.
        every: u32 = 100, range(OFTEN);
        /// Grow where the mean screen-space gradient exceeds this (gradient in pixels times half the image size), 0 to 1e9.
        grow_gradient: f64 = 2e-4, range(Range::closed(0.0, 1e9));
        /// adc, budgeted: sum the gradients' absolute values over pixels, so that they do not cancel; sets another default: grow_gradient 8e-4.
        absgrad: bool = false, choice(),
            flag("--absgrad",
                "Sum absolute gradients for densification (AbsGS) [default: off]. The threshold is then 0.0008 instead of 0.0002; for adc and budgeted");
        /// Growing Gaussians at most this large are cloned, larger ones split; fraction of the scene's extent, 0 to 1e9.
        split_scale: f64 = 0.01, range(Range::closed(0.0, 1e9));
        /// Remove Gaussians less opaque than this, 0 to 1; mcmc relocates them.
        prune_opacity: f64 = 0.005, range(Range::closed(0.0, 1.0));
        /// Remove Gaussians larger than this, from the first opacity reset on; fraction of the scene's extent, 0 to 1e9.
        prune_scale: f64 = 0.1, range(Range::closed(0.0, 1e9));
        /// Steps between two resets of all opacities to twice prune_opacity; 0 = never.
        reset_every: u32 = 3000, range(STEPS);
        /// mcmc adds this fraction of the Gaussians in a round, 0 to 1; 0 = a twentieth, or as much more as reaches max_gaussians after two thirds of the rounds.
        add: f64 = 0.0, range(Range::closed(0.0, 1.0)), remark(": a round can double the Gaussians");
        /// mcmc shifts each centre at random in each step: this number times the step size of the centres, times the covariance, times a standard normal sample; less for opaque Gaussians. Lengths are in units of the scene's extent; 0 to 1e9.
        noise: f64 = 5e6, range(Range::closed(0.0, 1e9));
        /// Weight of the mean opacity in the loss, 0 to 1000; mcmc: 0.01.
        opacity_reg: f64 = 0.0, range(Range::closed(0.0, 1e3)), heading("Losses"),
            flag("--opacity-reg <X>",
                "Weight of the mean opacity in the loss [default: 0; mcmc 0.01]");
        /// Weight of the mean standard deviation in the loss, in units of the scene's extent, 0 to 1000; mcmc: 0.02.
        scale_reg: f64 = 0.0, range(Range::closed(0.0, 1e3)), heading("Losses"),
            flag("--scale-reg <X>",
                "Weight of the mean size of Gaussians in the loss, as a fraction of the scene extent [default: 0; mcmc 0.02]");
        /// Weight of the mean smallest standard deviation in the loss, in units of the scene's extent, 0 to 1000: flat Gaussians, for surfaces.
        flat_reg: f64 = 0.0, range(Range::closed(0.0, 1e3)), heading("Losses"),
            flag("--flat-reg <X>",
                "Weight of the mean smallest size of Gaussians in the loss, as a fraction of the scene extent [default: 0]. A weight of 1 to 10 flattens Gaussians for meshes and normals, and costs some PSNR");
        /// opacity_reg, scale_reg and flat_reg act on Gaussians that no photo has shown since they were added; default: false if the training photos are more than views_per_step times every, so that a photo may come only after several rounds.
        regularise_unseen: bool = true, heading("Losses");
    } {}
}

settings! {
    /// Appearance: differences between photos that are learned with the splats.
    pub AppearanceConfig, AppearancePatch in "Appearance" {
        /// none, exposure (one affine map of colours per photo; sets another default: grid [1, 1, 1]), bilateral (a grid of them), photometric (a gain per channel of a photo, vignetting and response curves of its camera) or mlp (an embedding per photo and a network; sets other defaults: grid, rate, rate_final, identity).
        model: AppearanceModel = AppearanceModel::None, choice(),
            main_flag("--appearance <MODEL>",
                "none, exposure, bilateral, photometric or mlp [default: none]. Model of differences in exposure and colour between photos. The model is stored in OUT/appearance.safetensors");
        /// Cells of a photo's grid along x, y (1 to 64) and luminance (1 to 8).
        grid: [u32; 3] = [16, 16, 8];
        /// Step size of Adam at the first step, 0 to 10. Each photo has its own steps: about steps / photos of them.
        rate: f64 = 2e-2, range(RATE);
        /// Step size of Adam at the last step, 0 to 10; log-linear between.
        rate_final: f64 = 2e-3, range(RATE);
        /// Steps before the appearance is learned, in which the splats learn the average appearance.
        start: u32 = 1000, range(STEPS), scales(Scales::Schedule);
        /// Weight of the mean squared difference of neighbouring maps, by axis, in the loss; 0 to 1e6.
        smoothness: f64 = 100.0, range(Range::closed(0.0, 1e6));
        /// Weight of the mean squared distance of the maps from the identity in the loss, 0 to 1e6: keeps the splats at the average appearance. For photometric: of the mean squares of its numbers.
        identity: f64 = 0.1, range(Range::closed(0.0, 1e6));
    } {}
}

settings! {
    /// Known depths that supervise the run, in addition to the photos.
    pub DepthConfig, DepthPatch in "Losses" {
        /// none, points (the sparse points, in the photos that found them) or images (a depth image for each photo).
        from: DepthSource = DepthSource::None, choice(),
            flag("--depth-from <SOURCE>",
                "Known depths: none, points or images [default: none]. Depth supervision helps with few photos");
        /// Weight of the relative error of the depths in the loss, at the first step; above 0 to 1000.
        weight: f64 = 0.1, range(Range::above(0.0, 1e3)), remark(": depth.from = none turns depths off"),
            flag("--depth-weight <X>",
                "Weight of the relative depth error in the loss, falling to a hundredth over the run [default: 0.1]");
        /// The weight at the last step as a fraction of that at the first, above 0 to 1; log-linear between.
        decay: f64 = 0.01, range(SHARE), remark(": 1 keeps it as it is");
        /// Folder of the depth images; empty = the folder that the capture names, or depths/ or depth/ next to the photos.
        folder: PathBuf = PathBuf::new(),
            flag("--depths <FOLDER>",
                "Folder of depth images [default: from transforms.json, else depths/ or depth/ next to the photos]. Images have the photos' names: .exr (world units along the camera's axis) or 16-bit .png");
        /// World units of one step of a 16-bit PNG, above 0 to 1e6.
        unit: f64 = 0.001, range(Range::above(0.0, 1e6)),
            flag("--depth-unit <X>",
                "World units per step of a depth PNG [default: 0.001]");
        /// Depth images are inverse depths of unknown scale and shift, which are fitted to the sparse points.
        relative: bool = false,
            flag("--depth-relative",
                "Treat depth images as inverse depths of unknown scale and shift, as of monocular estimators. Scale and shift are fitted to the sparse points per photo");
    } {}
}

settings! {
    /// Training for surfaces: Gaussians become discs that lie in the surface that they form.
    pub SurfaceConfig, SurfacePatch in "Losses" {
        /// Train for surfaces; sets another default: densify.flat_reg. A computed max_gaussians is 1.25 times as high.
        enabled: bool = false, choice(),
            flag("--surface",
                "Train for surfaces, for `dapple mesh` and for normals [default: off]. Gaussians become flat and lie in the surface that they form, and there are up to 1.25 times as many. This costs time and may cost some PSNR");
        /// Weight of the disagreement of normals and depths in the loss, 0 to 1000.
        normals: f64 = 0.05, range(Range::closed(0.0, 1e3)),
            flag("--surface-normals <X>",
                "Weight of the disagreement of normals and depths in the loss, with --surface [default: 0.05]");
        /// Weight of the disagreement of a photo and a neighbour's at the surface in the loss, 0 to 1000.
        matching: f64 = 0.05, range(Range::closed(0.0, 1e3)),
            flag("--surface-matching <X>",
                "Weight of the disagreement of photos at the surface in the loss, with --surface [default: 0.05]. 0 does not compare photos");
        /// The first fraction of the schedule without these losses, 0 to 1: the first Gaussians form no surface.
        start: f64 = 0.3, range(Range::closed(0.0, 1.0));
        /// Every n-th step has these losses, with n times their weights, 1 to 1000: they need a second render.
        every: u32 = 5, counts(1, 1000);
    } {}
}

settings! {
    /// When held-out photos are scored. They are always scored at the end.
    pub EvalConfig, EvalPatch in "Output" {
        /// Steps between two scorings; 0 = only at the end.
        every: u32 = 3000, range(STEPS), scales(Scales::Steps);
        /// Further steps after which to score.
        steps: Vec<u32> = Vec::new(), range(OFTEN);
        /// Weights of LPIPS (safetensors), for the last scoring, on a GPU for every scoring, and for lpips_weight; empty = no LPIPS.
        lpips: PathBuf = PathBuf::new(), heading("Losses"),
            flag("--lpips <FILE.safetensors>",
                "Weights for LPIPS scores of held-out photos [default: no LPIPS]. They are scored at the end of the run, and on a GPU at every scoring; docs/EVALUATION.md shows how to make the file");
    } {}
}

settings! {
    /// Step sizes of Adam.
    pub LearningRateConfig, LearningRatePatch in "Optimizer" {
        /// Centres at the first step, in units of the scene's extent. Rates are 0 (no change) to 10.
        means: f64 = 1.6e-4, range(RATE);
        /// Centres at the last step; log-linear between.
        means_final: f64 = 1.6e-6, range(RATE);
        /// Logarithms of the scales.
        scales: f64 = 5e-3, range(RATE);
        /// Quaternions.
        quats: f64 = 1e-3, range(RATE);
        /// Logits of the opacities.
        opacities: f64 = 5e-2, range(RATE);
        /// Colour: SH coefficient 0.
        sh0: f64 = 2.5e-3, range(RATE);
        /// Colour: SH coefficients 1 and up.
        sh_rest: f64 = 1.25e-4, range(RATE);
        /// Scales and quaternions begin at this multiple of their rates; it falls log-linearly to 1 at densify.stop, 1 to 1000; 1 = constant; mcmc: 3.
        early: f64 = 1.0, range(Range::closed(1.0, 1e3)), remark(": 1 keeps the rates as they are");
        /// All rates except the centres' fall log-linearly to this fraction, from densify.stop to the last step, above 0; 1 = constant; mcmc: 0.1.
        decay: f64 = 1.0, range(SHARE), remark(": 1 keeps the rates as they are");
    } {}
}

settings! {
    /// Constants of Adam.
    pub AdamConfig, AdamPatch in "Optimizer" {
        /// Decay of the first moment, 0 to below 1.
        beta1: f64 = 0.9, range(Range::below(0.0, 1.0));
        /// Decay of the second moment, 0 to below 1.
        beta2: f64 = 0.999, range(Range::below(0.0, 1.0));
        /// Added to the root of the second moment, 1e-30 to 1.
        epsilon: f64 = 1e-15, range(Range::closed(1e-30, 1.0));
    } {}
}

settings! {
    /// Refinement of poses together with the Gaussians.
    pub PosesConfig, PosesPatch in "Photos" {
        /// Refine the poses of the photos trained on, and fit those of held-out photos before scoring (both scores are reported). For inaccurate poses.
        refine: bool = false, choice(),
            main_flag("--refine-poses",
                "Refine the camera poses during training [default: off]. The poses are written to cameras.json. Held-out photos are then scored with the given poses and with aligned poses");
        /// Step size of Adam at first: radians, and for positions the same fraction of the scene's extent, which moves the image as far; above 0 to 0.1.
        rate: f64 = 1e-3, range(Range::above(0.0, 0.1)), remark(": beyond, a step turns a camera by degrees");
        /// The rate falls log-linearly to this fraction of it, above 0 to 1: early steps find the pose, late ones average their noise out.
        decay: f64 = 0.01, range(SHARE), remark(": 1 keeps the rate as it is");
        /// Poses are fixed for this fraction of the run, 0 to below 1: the first Gaussians are too coarse to show the position of a camera.
        start: f64 = 0.05, range(Range::below(0.0, 1.0));
    } {}
}

settings! {
    /// Region of interest: the run spends its Gaussians and its loss on a part of the scene.
    pub FocusConfig, FocusPatch in "Losses" {
        /// none (the whole scene), auto (what the cameras look at; the run replaces it by a sphere), sphere:X,Y,Z,RADIUS or box:X,Y,Z,WIDTH,HEIGHT,DEPTH and degrees about x, y, z, in the coordinates of the capture.
        region: FocusRegion = FocusRegion::None,
            flag("--focus <REGION>",
                "Region of interest: auto, sphere:X,Y,Z,RADIUS or box:X,Y,Z,WIDTH,HEIGHT,DEPTH [default: none]. Gaussians are spent inside; held-out photos are scored inside too");
        /// Weight of the loss outside the region, 0 to 1: the share of the blocks of 16x16 pixels outside that each training photo uses.
        outside: f64 = 0.5, range(Range::closed(0.0, 1.0)),
            flag("--focus-outside <X>",
                "Weight of the loss outside the region of --focus, 0 to 1 [default: 0.5]");
        /// How much a Gaussian counts that no photo shows together with the region, 0 to 1: in growth, relocation, and the choice of sparse points if a run starts from a part of them. Others count up to 1, by the share of their photos that show them before, in or behind the region.
        gaussians: f64 = 0.2, range(Range::closed(0.0, 1.0));
    } {}
}
