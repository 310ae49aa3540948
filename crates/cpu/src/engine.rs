//! [`CpuEngine`]: executes the stages in order and implements the [`Engine`] trait.

mod contract;
mod copies;
mod pictures;
mod sharded;

use crate::ceilings;
use crate::context::{Clock, KernelSlots, StepContext};
use crate::cost::Work;
use crate::features::Features;
use crate::features::depth::kernels as depth;
use crate::frame::{CameraF32, Frame, TILE_ROWS, grow, tiled};
use crate::limits;
use crate::model::Model;
use crate::simd::{ROW, Row};
use crate::stages::blend::BlendExtra;
use crate::stages::blend_backward::Mode;
use crate::step::{self, Forward};
use crate::threads;
use crate::views::Views;
use dapple_engine::{
    Engine, EngineExt, ImageDerivative, OpenBatch, RenderSettings, Report, StepSettings, TileMask,
    Trace, ViewId, check_image_gradient,
};
use dapple_profile::ceilings::{Limits, Measured};
use dapple_scene::{Camera, Progress, Result};
use std::sync::Arc;

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
    model: Model,
    views: Views,
    features: Features,
    frame: Frame,
    work: Work,
    batch: OpenBatch,
    /// Tiles of renders and derivatives; `None` = all.
    tiles: Option<TileMask>,
    /// Results of [`dapple_engine::Sharded`] that were not returned yet.
    begun: sharded::Begun,
    reports: Vec<Report>,
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
            model: Model::empty(),
            views: Views::default(),
            features: Features::default(),
            frame: Frame::default(),
            work: Work::default(),
            batch: OpenBatch::default(),
            tiles: None,
            begun: sharded::Begun::default(),
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
        let camera = self.views.get(view)?.camera;
        let mut trace = crate::trace::of_frame(&camera, &self.frame);
        if let Some(Report::Step(report)) = self.reports.pop() {
            trace.loss = report.loss;
        }
        (trace.splats, trace.state) = self.download()?;
        Ok(trace)
    }

    /// Prepares the camera of a render, and checks the choice of tiles.
    fn camera(&self, camera: &Camera, settings: &RenderSettings) -> Result<CameraF32> {
        let camera = CameraF32::new(camera)?.with(settings);
        if let Some(tiles) = &self.tiles {
            tiles.check(&camera)?;
        }
        Ok(camera)
    }

    /// Executes the stages `project` to `blend` for a render.
    fn forward(&mut self, camera: &CameraF32, settings: &RenderSettings, extra: BlendExtra) {
        self.model.fit_filters(settings.antialias);
        let forward = Forward {
            params: &self.model.params,
            filter_3d: self.model.filters(settings.antialias),
            camera,
            settings,
            sh_degree: settings.sh_degree.min(self.model.sh_degree),
            slots: &KernelSlots {
                tiles: self.tiles.clone(),
                ..KernelSlots::default()
            },
            extra,
        };
        forward.run(&mut self.frame, &mut Clock::start());
    }

    fn train_step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        let photo = self.views.photo(view)?;
        let camera = self.views.camera(view)?.with(&settings.render);
        self.batch.step(settings.batch)?;
        let step = StepContext {
            view,
            settings,
            photo,
            camera,
            sh_degree: settings.render.sh_degree.min(self.model.sh_degree),
            model: &mut self.model,
            views: &mut self.views,
            frame: &mut self.frame,
            mode: Mode::of_step(settings),
            slots: KernelSlots::default(),
            clock: Clock::start(),
        };
        let (report, work) = step::run(step, &mut self.features)?;
        self.work = work;
        self.reports.push(Report::Step(report));
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

/// Executes `work` on the engine's own threads.
fn on_pool<R: Send>(engine: &mut CpuEngine, work: impl FnOnce(&mut CpuEngine) -> R + Send) -> R {
    let pool = Arc::clone(&engine.pool);
    pool.install(|| work(engine))
}
