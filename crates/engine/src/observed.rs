//! [`Observed`]: an engine whose calls pass through a listener. It is the only code that forwards the calls of an engine:
//! profilers and tests are listeners, so that none of them can omit a method.

use crate::extensions::{Scoring, Sharing, Showing, Streaming, Tiling};
use crate::instruments::Instrumented;
use crate::{
    BlendCounts, Contributors, DensifyPlan, DownloadParts, Engine, FeatureInput, GradientParts,
    Gradients, ImageDerivative, MemoryPlan, OptimizerState, RenderSettings, Rendered,
    RenderedBytes, Report, ScoreAsks, ScoredView, StepSettings, TrainView, ViewId,
};
use dapple_scene::{Camera, Error, Photo, Result, Splats};
use std::sync::Arc;

/// Declares the calls.
macro_rules! calls {
    ($($(#[doc = $text:literal])* $name:ident $(($($field:ty),+))?,)*) => {
        /// Call of an engine, with the arguments that listeners read.
        #[derive(Debug, Clone, Copy)]
        pub enum Call<'a> {
            $($(#[doc = $text])* $name $(($($field),+))?,)*
        }

        impl Call<'_> {
            /// Names of all calls.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Returns the name of the call.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)*
                }
            }
        }
    };
}

calls! {
    /// [`Engine::upload`].
    Upload(&'a Splats, Option<&'a OptimizerState>),
    /// [`Engine::download_parts`].
    Download(DownloadParts),
    /// [`Engine::add_views`] and [`Streaming::add_cameras`]: the cameras.
    AddViews(&'a [Camera]),
    /// [`Engine::set_input`]: the name of the feature.
    SetInput(&'static str),
    /// [`Engine::step`].
    Step(ViewId, &'a StepSettings),
    /// [`Engine::densify`].
    Densify(&'a DensifyPlan),
    /// [`Engine::finish`].
    Finish,
    /// [`Engine::poll`].
    Poll,
    /// [`Engine::render`].
    Render(&'a Camera, &'a RenderSettings),
    /// [`Engine::differentiate`].
    Differentiate(&'a Camera, &'a RenderSettings, GradientParts),
    /// [`Streaming::put_photo`].
    PutPhoto(ViewId),
    /// [`Streaming::announce`].
    Announce(ViewId),
    /// [`Scoring::score`].
    Score(&'a Camera, &'a RenderSettings),
    /// [`Showing::render_bytes`].
    RenderBytes(&'a Camera, &'a RenderSettings),
    /// [`Showing::blend_counts`].
    BlendCounts(&'a Camera, &'a RenderSettings),
    /// [`Showing::contributors`].
    Contributors(&'a Camera, &'a RenderSettings),
    /// Method of `DeviceBuffers` of the crate `dapple-device`: its name.
    OnDevice(&'static str),
}

/// Listener to the calls of an [`Observed`] engine.
pub trait CallListener: Send {
    /// Executes a call by `run`, or fails it.
    ///
    /// # Errors
    /// Those of the call, or the listener's own.
    fn on_call<E: Engine + ?Sized, R>(
        &self,
        call: &Call<'_>,
        engine: &mut E,
        run: impl FnOnce(&mut E) -> Result<R>,
    ) -> Result<R>;

    /// Reads or changes the reports of [`Engine::poll`] before the caller gets them.
    fn on_reports<E: Engine + ?Sized>(&self, _engine: &mut E, _reports: &mut Vec<Report>) {}
}

/// Engine whose calls pass through a listener. It has the extensions of the engine inside.
pub struct Observed<L, E: ?Sized = dyn Engine> {
    listener: L,
    engine: Box<E>,
}

impl<L: CallListener, E: Engine + ?Sized> Observed<L, E> {
    /// Creates an engine whose calls pass through `listener` to `engine`.
    pub fn new(listener: L, engine: Box<E>) -> Self {
        Self { listener, engine }
    }

    /// Returns the engine inside, without the listener.
    pub fn inner(&self) -> &E {
        &self.engine
    }

    /// Executes a call of the engine inside through the listener.
    ///
    /// # Errors
    /// Those of the call, or the listener's own.
    pub fn call<R>(&mut self, call: &Call<'_>, run: impl FnOnce(&mut E) -> Result<R>) -> Result<R> {
        self.listener.on_call(call, &mut *self.engine, run)
    }
}

impl<L: CallListener, E: Engine + ?Sized> Engine for Observed<L, E> {
    fn description(&self) -> String {
        self.engine.description()
    }

    fn memory_plan(&self, settings: &StepSettings) -> Option<MemoryPlan> {
        self.engine.memory_plan(settings)
    }

    fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()> {
        self.call(&Call::Upload(splats, state), |e| e.upload(splats, state))
    }

    fn download_parts(&mut self, parts: DownloadParts) -> Result<(Splats, OptimizerState)> {
        self.call(&Call::Download(parts), |e| e.download_parts(parts))
    }

    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>> {
        let cameras: Vec<Camera> = views.iter().map(|view| view.camera).collect();
        self.call(&Call::AddViews(&cameras), |e| e.add_views(views))
    }

    fn set_input(&mut self, input: FeatureInput) -> Result<()> {
        self.call(&Call::SetInput(input.feature()), |e| e.set_input(input))
    }

    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        self.call(&Call::Step(view, settings), |e| e.step(view, settings))
    }

    fn densify(&mut self, plan: &DensifyPlan) -> Result<()> {
        self.call(&Call::Densify(plan), |e| e.densify(plan))
    }

    fn finish(&mut self) -> Result<()> {
        self.call(&Call::Finish, E::finish)
    }

    fn poll(&mut self) -> Result<Vec<Report>> {
        let listener = &self.listener;
        listener.on_call(&Call::Poll, &mut *self.engine, |engine| {
            let mut reports = engine.poll()?;
            listener.on_reports(engine, &mut reports);
            Ok(reports)
        })
    }

    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered> {
        let call = Call::Render(camera, settings);
        self.call(&call, |e| e.render(camera, settings))
    }

    fn differentiate(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &ImageDerivative<'_, f32>,
        parts: GradientParts,
    ) -> Result<Gradients<f32>> {
        let call = Call::Differentiate(camera, settings, parts);
        self.call(&call, |e| {
            e.differentiate(camera, settings, derivative, parts)
        })
    }

    fn streaming(&mut self) -> Option<&mut dyn Streaming> {
        self.engine.streaming()?;
        Some(self)
    }

    /// Returns the engine inside: only checkpoints are read and written part by part.
    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        self.engine.sharing()
    }

    fn scoring(&mut self) -> Option<&mut dyn Scoring> {
        self.engine.scoring()?;
        Some(self)
    }

    fn showing(&mut self) -> Option<&mut dyn Showing> {
        self.engine.showing()?;
        Some(self)
    }

    /// Returns the engine inside: a choice of tiles computes nothing.
    fn tiling(&mut self) -> Option<&mut dyn Tiling> {
        self.engine.tiling()
    }

    /// Returns the engine inside: measurements are no calls.
    fn instruments(&mut self) -> Option<&mut dyn Instrumented> {
        self.engine.instruments()
    }
}

impl<L: CallListener, E: Engine + ?Sized> Streaming for Observed<L, E> {
    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>> {
        self.call(&Call::AddViews(cameras), |e| {
            of(e.streaming())?.add_cameras(cameras)
        })
    }

    fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()> {
        self.call(&Call::PutPhoto(view), |e| {
            of(e.streaming())?.put_photo(view, photo)
        })
    }

    fn announce(&mut self, view: ViewId, photo: Option<Arc<Photo>>) -> Result<()> {
        self.call(&Call::Announce(view), |e| {
            of(e.streaming())?.announce(view, photo)
        })
    }
}

impl<L: CallListener, E: Engine + ?Sized> Scoring for Observed<L, E> {
    fn score(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        photo: &Photo,
        asks: ScoreAsks,
    ) -> Result<Option<ScoredView>> {
        self.call(&Call::Score(camera, settings), |e| {
            of(e.scoring())?.score(camera, settings, photo, asks)
        })
    }
}

impl<L: CallListener, E: Engine + ?Sized> Showing for Observed<L, E> {
    fn render_bytes(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<RenderedBytes> {
        self.call(&Call::RenderBytes(camera, settings), |e| {
            of(e.showing())?.render_bytes(camera, settings)
        })
    }

    fn blend_counts(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<BlendCounts> {
        self.call(&Call::BlendCounts(camera, settings), |e| {
            of(e.showing())?.blend_counts(camera, settings)
        })
    }

    fn contributors(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        most: usize,
    ) -> Result<Contributors> {
        self.call(&Call::Contributors(camera, settings), |e| {
            of(e.showing())?.contributors(camera, settings, most)
        })
    }
}

/// # Errors
/// The engine no longer has an extension that it had.
fn of<T>(extension: Option<T>) -> Result<T> {
    extension.ok_or_else(|| Error::internal("an engine has lost an extension"))
}

#[cfg(test)]
mod tests;
