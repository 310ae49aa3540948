//! [`CpuEngine`]: executes the stages in order and implements the [`Engine`] trait.

mod contract;
mod mlp;
mod pictures;

use crate::antialias;
use crate::blocks::{Blocks, DensityStats};
use crate::ceilings;
use crate::cost::Work;
use crate::frame::{CameraF32, Frame, PLANES, TILE_ROWS, grow};
use crate::limits;
use crate::simd::{ROW, Row};
use crate::stages::blend::BlendExtra;
use crate::stages::blend_backward::Mode;
use crate::stages::extras::ExtrasStep;
use crate::stages::regularisers::Regularisers;
use crate::stages::update::AdamStep;
use crate::stages::{
    appearance, appearance_mlp, blend, blend_backward, crops, depth, emit, finite, loss, order,
    poses, project, ranges, sort, update,
};
use crate::threads;
use dapple_engine::appearance::{check_cells, other_cells};
use dapple_engine::constants::FINITE_EVERY;
use dapple_engine::crops::{no_crop_loss, origin};
use dapple_engine::{
    AppearanceGrids, AppearanceMlp, CropLoss, DepthSample, Dropout, Engine, ImageDerivative,
    LossTerm, RefinedPose, RenderSettings, Report, Stage, StageTime, StepReport, StepSettings,
    Trace, ViewId, check_image_gradient,
};
use dapple_profile::ceilings::{Limits, Measured};
use dapple_scene::{Error, Photo, Progress, Result};
use std::sync::Arc;
use std::time::Instant;

/// Options of the CPU engine.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuOptions {
    /// Number of threads, at most [`threads::MOST_PER_CORE`] per core; `None` = one per core. Results do not
    /// depend on the number.
    pub threads: Option<usize>,
}

/// CPU engine.
#[derive(Debug)]
pub struct CpuEngine {
    pool: Arc<rayon::ThreadPool>,
    params: Blocks,
    first: Blocks,
    second: Blocks,
    stats: DensityStats,
    /// 3D filters by block; empty until the first anti-aliased step or render.
    filter_3d: Vec<Row>,
    sh_degree: u8,
    views: Vec<HeldView>,
    /// Refined poses by view; empty until a step refines one.
    poses: Vec<RefinedPose>,
    appearance: AppearanceGrids,
    appearance_mlp: AppearanceMlp,
    /// Gaussians with the appearance of a photo, if a step requests it.
    looked: appearance_mlp::MlpColours,
    /// Loss over crops, if one is set.
    crop_loss: Option<Box<dyn CropLoss>>,
    crop: crops::Crop,
    /// Samples of known depth, by view.
    depths: Vec<Arc<[DepthSample]>>,
    frame: Frame,
    work: Work,
    reports: Vec<Report>,
}

/// View to train on.
#[derive(Debug, Clone)]
struct HeldView {
    camera: CameraF32,
    /// Photo; `None` for a view whose photo is delivered for each step and has not been delivered yet.
    photo: Option<Arc<Photo>>,
    comes_each_step: bool,
}

/// Clock for the stages of one pass, measured between them.
struct Clock {
    last: Instant,
    stages: Vec<StageTime>,
}

impl Clock {
    fn start() -> Self {
        Self {
            last: Instant::now(),
            stages: Vec::with_capacity(Stage::ALL.len()),
        }
    }

    fn lap(&mut self, stage: Stage) {
        let now = Instant::now();
        let duration_ns = now.duration_since(self.last).as_nanos() as u64;
        // `appearance` runs twice: forward and backward.
        match self.stages.iter_mut().find(|time| time.stage == stage) {
            Some(time) => time.duration_ns += duration_ns,
            None => self.stages.push(StageTime { stage, duration_ns }),
        }
        self.last = now;
    }
}

impl CpuEngine {
    /// Creates an engine without splats.
    pub fn new(options: CpuOptions) -> Result<Self> {
        let mut builder = rayon::ThreadPoolBuilder::new().thread_name(|i| format!("dapple-{i}"));
        if let Some(threads) = options.threads {
            threads::check_number(threads)?;
            builder = builder.num_threads(threads);
        }
        threads::check_room(options.threads)?;
        let pool = builder.build().map_err(threads::refused)?;
        Ok(Self {
            pool: Arc::new(pool),
            params: Blocks::zeros(0, 0),
            first: Blocks::zeros(0, 0),
            second: Blocks::zeros(0, 0),
            stats: DensityStats::default(),
            filter_3d: Vec::new(),
            sh_degree: 0,
            appearance: AppearanceGrids::default(),
            appearance_mlp: AppearanceMlp::default(),
            looked: appearance_mlp::MlpColours::default(),
            views: Vec::new(),
            crop_loss: None,
            crop: crops::Crop::default(),
            depths: Vec::new(),
            poses: Vec::new(),
            frame: Frame::default(),
            work: Work::default(),
            reports: Vec::new(),
        })
    }

    /// Returns the counts of the last training step, the input of [`crate::cost`].
    pub fn work(&self) -> Work {
        self.work
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Measures the limits of these threads on this machine, which takes about a second.
    pub fn measure_limits(&self) -> Limits {
        limits::measure(&self.pool)
    }

    /// Measures all limits of these threads, and of one thread, which takes several seconds. `processor` is
    /// the name of the CPU in the cache.
    ///
    /// # Errors
    /// A thread that cannot be started, or a stop by `progress`.
    pub fn measure_ceilings(&self, processor: &str, progress: &dyn Progress) -> Result<Measured> {
        ceilings::measure(&self.pool, processor, progress)
    }

    /// Executes a training step and returns the results of each stage; the step is not reported.
    ///
    /// # Errors
    /// An unknown view.
    #[doc(hidden)]
    pub fn trace(&mut self, view: ViewId, settings: &StepSettings) -> Result<Trace> {
        self.step(view, settings)?;
        let camera = self.views[view.0].camera;
        let mut trace = crate::trace::of_frame(&camera, &self.frame);
        if let Some(Report::Step(report)) = self.reports.pop() {
            trace.loss = report.loss;
        }
        (trace.splats, trace.state) = self.download()?;
        Ok(trace)
    }

    /// Executes the stages `project` to `blend` of a view. If `looked` is true, they read the Gaussians that
    /// [`appearance_mlp::run`] has prepared.
    fn forward(
        &mut self,
        looked: bool,
        camera: &CameraF32,
        settings: &RenderSettings,
        dropout: Option<Dropout>,
        beside: BlendExtra,
        clock: &mut Clock,
    ) {
        let degree = settings.sh_degree.min(self.sh_degree);
        self.fit_filter_3d(settings.antialias);
        let filter_3d = settings.antialias.then_some(self.filter_3d.as_slice());
        let frame = &mut self.frame;
        let params = if looked {
            &self.looked.params
        } else {
            &self.params
        };
        project::run(params, filter_3d, camera, degree, dropout, frame);
        clock.lap(Stage::Project);
        order::run(self.params.len, frame);
        clock.lap(Stage::Order);
        emit::run(camera, frame);
        clock.lap(Stage::Emit);
        ranges::run(camera, settings.max_gaussians_per_tile, frame);
        clock.lap(Stage::Ranges);
        sort::run(camera, frame);
        clock.lap(Stage::Sort);
        blend::run(
            camera,
            settings.background,
            settings.max_gaussians_per_tile,
            beside,
            frame,
        );
        clock.lap(Stage::Blend);
    }

    /// Creates zero 3D filters if they are needed and were never set.
    fn fit_filter_3d(&mut self, antialias: bool) {
        if antialias && self.filter_3d.is_empty() {
            self.filter_3d = vec![Row::ZERO; self.params.count()];
        }
    }

    fn train_step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        let (camera, photo) = self.view(view)?;
        let camera = self.posed(view, camera).with_near(settings.render.near);
        self.fit_appearance(settings)?;
        let mut clock = Clock::start();
        let antialias = settings.render.antialias;
        if antialias && settings.refresh_smoothing {
            let views = self.views.iter().enumerate();
            let cameras: Vec<CameraF32> = views
                .map(|(i, held)| self.posed(ViewId(i), held.camera))
                .collect();
            self.filter_3d = antialias::deviations(&self.params, &cameras, settings.render.near);
        }
        let losses = &settings.losses;
        let samples = Arc::clone(&self.depths[view.0]);
        let mode = Mode {
            absolute: settings.accumulate_density && settings.extras.absolute_density,
            depths: losses[LossTerm::Depth] > 0.0 && !samples.is_empty(),
        };
        let beside = BlendExtra::depths(mode.depths);
        let prepared = self.prepare_look(view, settings)?;
        if let Some(prepared) = &prepared {
            appearance_mlp::run(prepared, &self.params, &mut self.looked);
            clock.lap(Stage::Appearance);
        }
        let through = prepared.is_some();
        let dropout = Dropout::from_settings(settings);
        self.forward(
            through,
            &camera,
            &settings.render,
            dropout,
            beside,
            &mut clock,
        );
        if let Some(learnt) = &settings.appearance {
            let grid = self.appearance.grid(view.0);
            appearance::run(&camera, learnt.cells, grid, &mut self.frame);
            clock.lap(Stage::Appearance);
            // `loss` reads `image`.
            std::mem::swap(&mut self.frame.image, &mut self.frame.corrected);
        }
        let loss = loss::run(
            &camera,
            &photo,
            settings.render.background,
            losses[LossTerm::Ssim],
            &mut self.frame,
        );
        self.compare_crop(&camera, &photo, settings)?;
        if mode.depths {
            depth::run(&camera, &samples, losses[LossTerm::Depth], &mut self.frame);
        }
        clock.lap(Stage::Loss);
        if let Some(learnt) = &settings.appearance {
            std::mem::swap(&mut self.frame.image, &mut self.frame.corrected);
            let grid = self.appearance.grid(view.0);
            let gradient = appearance::backward(&camera, learnt.cells, grid, &mut self.frame);
            appearance::step(
                &mut self.appearance,
                view.0,
                gradient,
                learnt,
                &settings.adam,
            );
            clock.lap(Stage::Appearance);
        }
        let cap = settings.render.max_gaussians_per_tile;
        blend_backward::run(&camera, cap, mode, &mut self.frame);
        clock.lap(Stage::BlendBackward);
        let adam = AdamStep::new(&settings.adam, &settings.learning_rates, settings.step);
        let regularisers = Regularisers::new(losses, self.params.len);
        let extras = ExtrasStep::new(&settings.extras, settings.step, self.params.len);
        let degree = settings.render.sh_degree.min(self.sh_degree);
        let pose_gradient = (!settings.pose_rates.are_off()).then(|| {
            let filter_3d = antialias.then_some(self.filter_3d.as_slice());
            let params = if through {
                &self.looked.params
            } else {
                &self.params
            };
            let frame = &self.frame;
            update::pose_gradient_of_all(params, filter_3d, &camera, degree, mode.depths, frame)
        });
        update::run(
            &mut self.params,
            &mut self.first,
            &mut self.second,
            antialias.then_some(self.filter_3d.as_slice()),
            &camera,
            degree,
            &adam,
            settings.accumulate_density.then_some(&mut self.stats),
            mode,
            regularisers.as_ref(),
            extras.as_ref(),
            through.then_some(&mut self.looked),
            &self.frame,
        );
        if let Some(gradient) = pose_gradient {
            self.refine(view, &gradient, settings);
        }
        clock.lap(Stage::Update);
        if let (Some(prepared), Some(learnt)) = (&prepared, &settings.appearance_mlp) {
            appearance_mlp::step(
                prepared,
                &self.looked,
                appearance_mlp::Featured {
                    params: &mut self.params,
                    first: &mut self.first,
                    second: &mut self.second,
                },
                (&mut self.appearance_mlp, view.0),
                learnt,
                &settings.adam,
            );
            clock.lap(Stage::Appearance);
        }
        let checks = settings.step.is_multiple_of(FINITE_EVERY);
        let not_finite = checks.then(|| finite::run(&self.params)).flatten();
        let counts = self.frame.counts;
        self.work = Work {
            gaussians: counts.gaussians,
            visible: counts.visible,
            instances: counts.instances,
            row_visits: self.frame.row_visits,
            pixels: camera.size.map(u64::from).iter().product(),
            tiles: counts.tiles,
            sh_degree: degree,
            ssim: losses[LossTerm::Ssim] > 0.0,
        };
        self.reports.push(Report::Step(StepReport {
            step: settings.step,
            loss,
            counts: self.frame.counts,
            stages: clock.stages,
            not_finite,
        }));
        Ok(())
    }

    /// Computes the loss of a crop, if the step has a weight for it.
    fn compare_crop(
        &mut self,
        camera: &CameraF32,
        photo: &Photo,
        settings: &StepSettings,
    ) -> Result<()> {
        let weight = settings.losses[LossTerm::Perceptual];
        if weight == 0.0 {
            return Ok(());
        }
        let loss = self.crop_loss.as_deref_mut().ok_or_else(no_crop_loss)?;
        let cut = crops::Cut {
            origin: origin(settings.crop, camera.size, loss.side())?,
            background: settings.render.background,
            weight,
        };
        crops::run(camera, photo, cut, loss, &mut self.crop, &mut self.frame)
    }

    /// Adds a view.
    fn hold(&mut self, view: HeldView) {
        if !self.poses.is_empty() {
            self.poses.push(RefinedPose::new(&view.camera));
        }
        self.views.push(view);
    }

    /// Returns a view's camera after refinement.
    fn posed(&self, view: ViewId, camera: CameraF32) -> CameraF32 {
        self.poses
            .get(view.0)
            .map_or(camera, |pose| camera.refined(pose))
    }

    fn refine(&mut self, view: ViewId, gradient: &[f64; 6], settings: &StepSettings) {
        let missing = self.views.get(self.poses.len()..).unwrap_or_default();
        self.poses
            .extend(missing.iter().map(|held| RefinedPose::new(&held.camera)));
        if let Some(pose) = self.poses.get_mut(view.0) {
            poses::step(pose, gradient, &settings.pose_rates, &settings.adam);
        }
    }

    /// Returns a view for a step, and takes its photo if the photo was delivered for this step only.
    fn view(&mut self, view: ViewId) -> Result<(CameraF32, Arc<Photo>)> {
        let Some(held) = self.views.get_mut(view.0) else {
            return Err(no_view(view));
        };
        let photo = match held.comes_each_step {
            true => held.photo.take(),
            false => held.photo.clone(),
        };
        let photo = photo.ok_or_else(|| {
            Error::internal(format!(
                "the photo of view {} was not delivered before the step",
                view.0
            ))
        })?;
        Ok((held.camera, photo))
    }

    /// Makes sure that every view has a grid, if a step requests grids.
    fn fit_appearance(&mut self, settings: &StepSettings) -> Result<()> {
        let Some(learnt) = &settings.appearance else {
            return Ok(());
        };
        if self.appearance.is_empty() {
            check_cells(learnt.cells)?;
            self.appearance.cells = learnt.cells;
        } else if self.appearance.cells != learnt.cells {
            return Err(other_cells(self.appearance.cells, learnt.cells));
        }
        self.appearance.extend_to(self.views.len());
        Ok(())
    }

    /// Writes dL/dimage, row by row, into tiles.
    fn set_image_gradient(
        &mut self,
        camera: &CameraF32,
        derivative: &ImageDerivative<'_, f32>,
    ) -> Result<()> {
        check_image_gradient(camera, derivative)?;
        let [width, height] = camera.size.map(|v| v as usize);
        let rows = camera.tile_count() * TILE_ROWS;
        grow(&mut self.frame.image_gradient, rows, Row::ZERO);
        self.frame.image_gradient[..rows].fill(Row::ZERO);
        for y in 0..height {
            for x in 0..width {
                let (row, lane) = tiled(camera, x, y);
                let pixel = y * width + x;
                for c in 0..3 {
                    self.frame.image_gradient[row + c * ROW].0[lane] =
                        derivative.rgb[pixel * 3 + c];
                }
                // The fourth plane is transmittance, one minus alpha.
                if let Some(alpha) = derivative.alpha {
                    self.frame.image_gradient[row + 3 * ROW].0[lane] = -alpha[pixel];
                }
            }
        }
        if let Some(by_depth) = derivative.depth {
            depth::set_gradient(camera, by_depth, &mut self.frame);
        }
        Ok(())
    }
}

fn no_view(view: ViewId) -> Error {
    Error::internal(format!("there is no view {}", view.0))
}

/// Returns the first-plane row and the lane of a pixel in a tiled image.
pub(crate) fn tiled(camera: &CameraF32, x: usize, y: usize) -> (usize, usize) {
    let tile = y / ROW * camera.tiles[0] as usize + x / ROW;
    (tile * PLANES * ROW + y % ROW, x % ROW)
}

/// Executes `work` on the engine's own threads.
fn on_pool<R: Send>(engine: &mut CpuEngine, work: impl FnOnce(&mut CpuEngine) -> R + Send) -> R {
    let pool = Arc::clone(&engine.pool);
    pool.install(|| work(engine))
}
