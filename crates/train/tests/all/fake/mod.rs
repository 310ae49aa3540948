//! A fake engine that records its calls, a capture for it, and a hook.
#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_device::BoxedEngine;
use dapple_engine::constants::FINITE_EVERY;
use dapple_engine::instruments::Instrumented;
use dapple_engine::{
    DensifyPlan, DensifyReport, DepthSample, DownloadParts, Engine, FeatureInput, GradientParts,
    Gradients, ImageDerivative, MemoryPlan, NonFiniteReport, OptimizerState, RenderSettings,
    Rendered, Report, Scoring, Sharing, Showing, StepCounts, StepReport, StepSettings, Streaming,
    Tiling, TrainView, ViewId,
};
use dapple_scene::{Camera, Dataset, Error, Photo, Point, Pose, Result, Splats, View};
use dapple_train::{Event, RunHook, StepProgress};
use glam::DVec3;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Calls that a run made to its engine.
#[derive(Default)]
pub struct Log {
    pub steps: Vec<(usize, StepSettings)>,
    pub plans: Vec<DensifyPlan>,
    pub views: usize,
    pub photos: Vec<(usize, Arc<Photo>)>,
    /// Views of coming steps.
    pub announced: Vec<usize>,
    pub downloads: usize,
    pub depths: Vec<(usize, Vec<DepthSample>)>,
}

/// Does nothing, but reports as configured. The opacity of its first Gaussian is the last step's number.
#[derive(Default)]
pub struct FakeEngine {
    pub log: Arc<Mutex<Log>>,
    /// The loss of this step is NaN.
    pub nan_at: u32,
    /// From this step on no scale is finite, and the loss does not show it; 0 = never.
    pub broken_from: u32,
    /// Density control after this step removes all Gaussians.
    pub empty_at: u32,
    /// The engine refuses this step, and then every call that would need the device.
    pub fail_at: u32,
    /// Brightness of renders from each of these steps on, in order; 0.5 before the first, near the capture's photos.
    pub shown: Vec<(u32, f32)>,
    /// True if the splats can still be read after a failure.
    pub answers_after_failure: bool,
    /// Time of a step on the device. Not zero: `step` returns at once and reports come later.
    pub step_time: Duration,
    /// Additional time of a step for each Gaussian.
    pub gaussian_time: Duration,
    /// Gaussians that fit the device.
    pub fitting: Option<usize>,
    pub by_buffer: bool,
    pub splats: Splats,
    pub failed: bool,
    pub pending: VecDeque<(Instant, Report)>,
}

impl FakeEngine {
    fn device(&self) -> Result<()> {
        if self.failed && !self.answers_after_failure {
            return Err(Error::unsupported("the device is lost").hint("plug it in"));
        }
        Ok(())
    }

    fn brightness(&self) -> f32 {
        let step = self
            .splats
            .opacities
            .first()
            .map_or(0, |&opacity| opacity as u32);
        let shown = self.shown.iter().rev().find(|(from, _)| step >= *from);
        shown.map_or(0.5, |&(_, brightness)| brightness)
    }

    fn wait(&self) {
        if let Some((ready, _)) = self.pending.back() {
            std::thread::sleep(ready.saturating_duration_since(Instant::now()));
        }
    }

    fn report(&mut self, report: Report) {
        let now = Instant::now();
        let busy_until = self
            .pending
            .back()
            .map_or(now, |(ready, _)| now.max(*ready));
        let step_time = self.step_time + self.gaussian_time * self.splats.len() as u32;
        self.pending.push_back((busy_until + step_time, report));
    }
}

impl Engine for FakeEngine {
    fn description(&self) -> String {
        "fake".to_owned()
    }

    fn memory_plan(&self, _: &StepSettings) -> Option<MemoryPlan> {
        self.fitting.map(|gaussians| MemoryPlan {
            gaussians,
            bytes_each: 1 << 20,
            bytes: Some((gaussians as u64) << 20),
            by_buffer: self.by_buffer,
            engines: 2,
            held: gaussians,
            bytes_held: 1 << 20,
            smaller: Some(("f16", 2 * gaussians)),
        })
    }

    fn upload(&mut self, splats: &Splats, _: Option<&OptimizerState>) -> Result<()> {
        self.splats = splats.clone();
        Ok(())
    }

    fn download_parts(&mut self, parts: DownloadParts) -> Result<(Splats, OptimizerState)> {
        if parts == DownloadParts::Views {
            return Ok(<(Splats, OptimizerState)>::default());
        }
        self.device()?;
        self.wait();
        self.log.lock().unwrap().downloads += 1;
        Ok((self.splats.clone(), OptimizerState::default()))
    }

    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>> {
        self.log.lock().unwrap().views = views.len();
        Ok((0..views.len()).map(ViewId).collect())
    }

    fn render(&mut self, camera: &Camera, _: &RenderSettings) -> Result<Rendered> {
        self.device()?;
        self.wait();
        Ok(Rendered {
            width: camera.width,
            height: camera.height,
            rgb: vec![self.brightness(); (camera.width * camera.height * 3) as usize],
            ..Rendered::default()
        })
    }

    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        if settings.step == self.fail_at {
            self.failed = true;
            return Err(Error::unsupported("the device is lost").hint("plug it in"));
        }
        self.log.lock().unwrap().steps.push((view.0, *settings));
        if let Some(opacity) = self.splats.opacities.first_mut() {
            *opacity = settings.step as f32;
        }
        if self.broken_from > 0 && settings.step >= self.broken_from {
            self.splats.scales.fill([f32::INFINITY; 3]);
        }
        let loss = if settings.step == self.nan_at {
            self.splats.means[0] = [f32::NAN; 3];
            f32::NAN
        } else {
            1.0 / settings.step as f32
        };
        self.report(Report::Step(StepReport {
            step: settings.step,
            loss,
            counts: StepCounts {
                gaussians: self.splats.len() as u64,
                ..StepCounts::default()
            },
            stages: Vec::new(),
            not_finite: settings
                .step
                .is_multiple_of(FINITE_EVERY)
                .then(|| NonFiniteReport::find_in(&self.splats))
                .flatten(),
        }));
        Ok(())
    }

    fn densify(&mut self, plan: &DensifyPlan) -> Result<()> {
        self.log.lock().unwrap().plans.push(*plan);
        if plan.step == self.empty_at {
            self.splats = Splats::empty(self.splats.sh_degree);
        }
        self.report(Report::Densify(DensifyReport {
            step: plan.step,
            total: self.splats.len() as u64,
            ..DensifyReport::default()
        }));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.device()?;
        self.wait();
        Ok(())
    }

    fn poll(&mut self) -> Result<Vec<Report>> {
        let now = Instant::now();
        let ready = self.pending.partition_point(|(ready, _)| *ready <= now);
        Ok(self.pending.drain(..ready).map(|(_, r)| r).collect())
    }

    fn set_input(&mut self, input: FeatureInput) -> Result<()> {
        match input {
            FeatureInput::Depth(view, samples) => {
                self.log.lock().unwrap().depths.push((view.0, samples));
                Ok(())
            }
            FeatureInput::Matching(_) => Ok(()),
            FeatureInput::Perceptual(_) => Err(Error::unsupported("a fake engine has no crops")),
        }
    }

    fn differentiate(
        &mut self,
        _: &Camera,
        _: &RenderSettings,
        _: &ImageDerivative<'_, f32>,
        _: GradientParts,
    ) -> Result<Gradients<f32>> {
        Err(Error::unsupported("a fake engine has no gradients"))
    }

    fn streaming(&mut self) -> Option<&mut dyn Streaming> {
        Some(self)
    }

    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        None
    }

    fn scoring(&mut self) -> Option<&mut dyn Scoring> {
        None
    }

    fn showing(&mut self) -> Option<&mut dyn Showing> {
        None
    }

    fn tiling(&mut self) -> Option<&mut dyn Tiling> {
        None
    }

    fn instruments(&mut self) -> Option<&mut dyn Instrumented> {
        None
    }
}

impl Streaming for FakeEngine {
    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>> {
        self.log.lock().unwrap().views = cameras.len();
        Ok((0..cameras.len()).map(ViewId).collect())
    }

    fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()> {
        self.log.lock().unwrap().photos.push((view.0, photo));
        Ok(())
    }

    fn announce(&mut self, view: ViewId, photo: Option<Arc<Photo>>) -> Result<()> {
        assert!(photo.is_none(), "the engine holds all photos");
        self.log.lock().unwrap().announced.push(view.0);
        Ok(())
    }
}

pub fn fake(log: &Arc<Mutex<Log>>, nan_at: u32, empty_at: u32) -> BoxedEngine {
    BoxedEngine::host(FakeEngine {
        log: log.clone(),
        nan_at,
        empty_at,
        ..FakeEngine::default()
    })
}

pub fn capture(photos: usize) -> Dataset {
    let view = |i: usize| {
        View::new(
            format!("cam/{i:02}.jpg"),
            Camera::pinhole(
                16,
                12,
                16.0,
                Pose::look_at(DVec3::new(i as f64, 1.0, -4.0), DVec3::ZERO, DVec3::Y),
            ),
            Photo::from_rgb(16, 12, vec![100; 16 * 12 * 3]),
        )
    };
    let point = |i: usize| Point {
        position: [i as f32 * 0.1, 0.0, 0.0],
        rgb: [200; 3],
    };
    Dataset {
        views: (0..photos).map(view).collect(),
        points: (0..20).map(point).collect(),
        ..Dataset::default()
    }
}

/// Records events, and stops after a step.
#[derive(Default)]
pub struct Listener {
    pub steps: Vec<StepProgress>,
    pub evals: Vec<u32>,
    pub densified: usize,
    /// Steps of extension checks.
    pub extension_checks: Vec<u32>,
    pub stop_after: Option<u32>,
}

impl RunHook for Listener {
    fn name(&self) -> &'static str {
        "listener"
    }

    fn on(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Step(progress) => self.steps.push(*progress),
            Event::Densify(_) => self.densified += 1,
            Event::ExtensionCheck(check) => self.extension_checks.push(check.steps[1]),
            Event::Eval(step, _) => self.evals.push(*step),
            _ => {}
        }
        Ok(())
    }

    fn should_stop(&self) -> bool {
        self.stop_after
            .is_some_and(|stop| self.steps.len() as u32 >= stop)
    }
}
