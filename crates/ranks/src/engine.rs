//! [`RanksEngine`]: the ranks of this process as one engine.

use crate::command::{Command, Greeting, PhotoHead, greet};
use crate::link::{Link, is_of_another, threads};
use crate::parts::{cut, cut_state, join, to_bytes};
use crate::rank::{Rank, with_waits};
use crate::wire::with_head;
use dapple_engine::instruments::{Instrumented, RankTimes};
use dapple_engine::sharded::{FIRST_BLOCKS, check_settings};
use dapple_engine::{
    DensifyPlan, DownloadParts, Engine, EngineExt, FeatureInput, GradientParts, Gradients,
    ImageDerivative, MemoryPlan, OpenBatch, OptimizerState, Part, PosedCamera, RenderSettings,
    Rendered, Report, ScoreAsks, ScoredView, Scoring, Sharded, Sharing, Showing, StepSettings,
    Streaming, Tiling, TrainView, ViewId, ViewState, ViewStep, check_upload,
};
use dapple_scene::{Camera, Error, Photo, Result, Splats};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

/// Views of a rank that are in work together: a device does not wait for the host between them.
const WAVES: usize = 4;

/// Most views of all ranks that are in work together, if each rank has at most one.
const MOST_VIEWS: usize = 64;

/// Photo for a rank of another process.
#[derive(Debug, Clone)]
struct HeldPhoto {
    photo: Arc<Photo>,
    /// True if the photo serves one step.
    comes_each_step: bool,
}

/// Several engines of one kind as one. Each holds a part of the Gaussians.
///
/// Steps wait until each rank has several views, or until the batch ends: see [`Engine::step`].
pub struct RanksEngine<E: Sharded> {
    /// Ranks of this process, from number 0 on.
    ranks: Vec<Rank<E>>,
    /// Greetings of all ranks, if there are other processes.
    greetings: Vec<Greeting>,
    /// Steps of the open batch that have not been executed.
    queue: Vec<ViewStep>,
    batch: OpenBatch,
    reports: Vec<Report>,
    /// Photos by view, if there are other processes.
    photos: Vec<Option<HeldPhoto>>,
    /// Fault of a rank after which the ranks are no longer in step.
    failed: Option<String>,
}

impl<E: Sharded> RanksEngine<E> {
    /// Joins engines without splats, one for each rank.
    ///
    /// # Errors
    /// No engine, or more than [`FIRST_BLOCKS`].
    pub fn new(engines: Vec<E>) -> Result<Self> {
        let links = threads(engines.len());
        Self::with_links(engines, links)
    }

    /// Works like [`Self::new`] with links of the caller.
    ///
    /// # Errors
    /// No engine, or more than [`FIRST_BLOCKS`].
    pub fn with_links(engines: Vec<E>, links: Vec<Box<dyn Link<E::Shipment>>>) -> Result<Self> {
        check_number(engines.len())?;
        let ranks = engines.into_iter().zip(links);
        let ranks = ranks.map(|(engine, link)| Rank::new(engine, link));
        Ok(Self::of(ranks.collect(), Vec::new()))
    }

    /// Creates the engine of the first of several processes, each with one rank. The other processes run
    /// [`serve`](crate::serve).
    ///
    /// # Errors
    /// A rank with another version of Dapple or another kind of engine; more than [`FIRST_BLOCKS`] ranks.
    pub fn lead(engine: E, mut link: Box<dyn Link<E::Shipment>>) -> Result<Self> {
        check_number(link.ranks())?;
        let greeted = greet(link.as_mut(), engine.description());
        let greetings = greeted.inspect_err(|error| link.fail(error))?;
        Ok(Self::of(vec![Rank::new(engine, link)], greetings))
    }

    fn of(ranks: Vec<Rank<E>>, greetings: Vec<Greeting>) -> Self {
        Self {
            ranks,
            greetings,
            queue: Vec::new(),
            batch: OpenBatch::default(),
            reports: Vec::new(),
            photos: Vec::new(),
            failed: None,
        }
    }

    /// Returns the times of the ranks of this process since the last call. The first call begins to measure their waits for
    /// each other.
    pub fn take_times(&mut self) -> Vec<RankTimes> {
        let ranks = self.ranks.iter_mut();
        let times: Vec<_> = ranks.map(Rank::take_times).collect();
        with_waits(&times)
    }

    /// Stops measuring the waits of ranks for each other.
    pub(crate) fn stop_waits(&mut self) {
        self.ranks.iter_mut().for_each(Rank::stop_waits);
    }

    /// Returns the engines of the ranks of this process.
    pub(crate) fn engines(&self) -> impl Iterator<Item = &E> {
        self.ranks.iter().map(|rank| &rank.engine)
    }

    /// Returns the part of the first rank.
    pub(crate) fn first_part(&self) -> Part {
        self.ranks.first().map_or(Part::whole(0), Rank::part)
    }

    /// Drops the steps that wait, and the open batch.
    pub(crate) fn clear(&mut self) {
        self.batch.clear();
        self.queue.clear();
    }

    /// Returns the number of ranks, those of other processes included.
    pub(crate) fn count(&self) -> usize {
        self.ranks.first().map_or(0, Rank::ranks)
    }

    /// Returns the number of steps that are executed together.
    fn most_views(&self) -> usize {
        let ranks = self.count();
        (WAVES * ranks).min(MOST_VIEWS.max(ranks))
    }

    /// Returns true if other processes have ranks.
    pub(crate) fn leads(&self) -> bool {
        self.ranks.len() < self.count()
    }

    /// Sends a command to the ranks of other processes: `message` returns that to a rank.
    pub(crate) fn tell(&mut self, message: impl Fn(usize) -> Result<Vec<u8>> + Sync) -> Result<()> {
        match self.leads() {
            true => self.on_all(|rank| rank.tell(&message)).map(drop),
            false => Ok(()),
        }
    }

    /// Sends the same command to the ranks of other processes.
    pub(crate) fn tell_all(&mut self, command: &Command) -> Result<()> {
        self.tell(|_| with_head(command))
    }

    /// Executes `work` on all ranks of this process at once, each on a thread of its own. Returns the results by rank.
    pub(crate) fn on_all<R: Send>(
        &mut self,
        work: impl Fn(&mut Rank<E>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        if let Some(what) = &self.failed {
            return Err(Error::internal(format!(
                "the ranks stopped at a fault before: {what}"
            )));
        }
        let work = &work;
        let results: Vec<Result<R>> = match self.ranks.as_mut_slice() {
            [one] => vec![one.run(work)],
            ranks => thread::scope(|scope| {
                let running = ranks.iter_mut().map(|rank| scope.spawn(|| rank.run(work)));
                let running: Vec<_> = running.collect();
                let joined = running.into_iter().map(|running| running.join());
                joined
                    .map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)))
                    .collect()
            }),
        };
        if results.iter().all(Result::is_ok) {
            return results.into_iter().collect();
        }
        // Ranks that only heard of the fault have errors too; the fault itself is the error.
        let faults = results.into_iter().filter_map(Result::err);
        let (heard, own): (Vec<Error>, Vec<Error>) = faults.partition(is_of_another);
        let mut faults = own.into_iter().chain(heard);
        let error = faults
            .next()
            .unwrap_or_else(|| Error::internal("a rank failed"));
        self.failed = Some(error.what().to_owned());
        Err(error)
    }

    /// Executes the steps that wait.
    fn flush(&mut self) -> Result<()> {
        if self.queue.is_empty() {
            return Ok(());
        }
        let views = std::mem::take(&mut self.queue);
        if self.leads() {
            self.tell_steps(&views)?;
        }
        let reports = self.on_all(|rank| rank.steps(&views))?;
        let reports = reports.into_iter().next().unwrap_or_default();
        self.reports.extend(reports.into_iter().map(Report::Step));
        Ok(())
    }

    /// Sends steps to the ranks of other processes, each with the photo of its view.
    fn tell_steps(&mut self, views: &[ViewStep]) -> Result<()> {
        let photos = views.iter().map(|(view, _)| {
            let held = self.photos.get_mut(view.0)?;
            match held {
                Some(photo) if photo.comes_each_step => held.take(),
                held => held.clone(),
            }
        });
        let photos: Vec<Option<HeldPhoto>> = photos.collect();
        let ranks = self.count();
        self.tell(|rank| {
            let own = || photos.iter().skip(rank).step_by(ranks).flatten();
            let heads = own().map(|held| PhotoHead::of(&held.photo)).collect();
            let mut message = with_head(&Command::Steps(views.to_vec(), heads))?;
            own().for_each(|held| PhotoHead::push(&held.photo, &mut message));
            Ok(message)
        })
    }

    /// Notes the photo of a view for ranks of other processes.
    fn hold(&mut self, view: ViewId, photo: HeldPhoto) {
        if self.photos.len() <= view.0 {
            self.photos.resize(view.0 + 1, None);
        }
        if let Some(held) = self.photos.get_mut(view.0) {
            *held = Some(photo);
        }
    }

    /// Returns the rank of this process that renders the next step's view; `None` if another process does.
    fn next_rank(&mut self) -> Option<&mut Rank<E>> {
        let next = self.queue.len() % self.count().max(1);
        self.ranks.get_mut(next)
    }
}

fn check_number(ranks: usize) -> Result<()> {
    match ranks {
        0 => Err(Error::input("a model needs at least one rank")),
        1..=FIRST_BLOCKS => Ok(()),
        more => Err(Error::input(format!(
            "{more} ranks are more than the {FIRST_BLOCKS} blocks of a model"
        ))
        .hint(format!("use at most {FIRST_BLOCKS} ranks"))),
    }
}

impl<E: Sharded> Drop for RanksEngine<E> {
    fn drop(&mut self) {
        if self.failed.is_none() {
            // A fault at the end has no effect.
            let _ = self.tell_all(&Command::Stop);
        }
    }
}

impl<E: Sharded> Engine for RanksEngine<E> {
    fn description(&self) -> String {
        let names: Vec<String> = match self.leads() {
            true => self
                .greetings
                .iter()
                .map(|rank| rank.description.clone())
                .collect(),
            false => self
                .ranks
                .iter()
                .map(|rank| rank.engine.description())
                .collect(),
        };
        match names.as_slice() {
            [one] => format!("1 rank: {one}"),
            [first, rest @ ..] if rest.iter().all(|name| name == first) => {
                format!("{} ranks: {first} each", names.len())
            }
            all => format!("{} ranks: {}", all.len(), all.join(", ")),
        }
    }

    fn memory_plan(&self, settings: &StepSettings) -> Option<MemoryPlan> {
        let ranks = self.ranks.iter();
        let least = ranks
            .filter_map(|rank| rank.engine.memory_plan(settings))
            .min_by_key(|plan| plan.gaussians);
        least.map(|least| least.times(self.count()))
    }

    fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()> {
        check_upload(splats, state)?;
        if state.is_some_and(|state| state.frozen > 0 || state.sky > 0) {
            return Err(Error::unsupported(
                "ranks cannot leave Gaussians as they are, or where they are, yet",
            )
            .hint("train on one device without ranks, or start a run with --sky off"));
        }
        self.clear();
        let ranks = self.count();
        self.tell(|rank| {
            let part = Part::new(rank, ranks, splats.len());
            let own = cut(splats, part);
            let own_state = match state {
                Some(state) => cut_state(state, part),
                None => OptimizerState::untrained(&own, ViewState::default()),
            };
            let mut message = with_head(&Command::Upload(splats.len()))?;
            message.extend(to_bytes(&own, &own_state)?);
            Ok(message)
        })?;
        self.on_all(|rank| rank.upload(splats, state))?;
        Ok(())
    }

    fn download_parts(&mut self, parts: DownloadParts) -> Result<(Splats, OptimizerState)> {
        let gathered = match self.leads() {
            true => {
                self.tell_all(&Command::Gather(parts))?;
                let gathered = self.on_all(|rank| rank.gather(parts))?;
                gathered.into_iter().flatten().collect()
            }
            false => self.on_all(|rank| rank.engine.download_parts(parts))?,
        };
        let part = self.first_part();
        Ok(join(&gathered, part))
    }

    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>> {
        let cameras = views.iter().map(|view| view.camera).collect();
        self.tell_all(&Command::AddCameras(cameras))?;
        let ids = self.on_all(|rank| rank.engine.add_views(views.clone()))?;
        let ids = ids.into_iter().next().unwrap_or_default();
        if self.leads() {
            for (id, view) in ids.iter().zip(views) {
                let photo = HeldPhoto {
                    photo: view.photo,
                    comes_each_step: false,
                };
                self.hold(*id, photo);
            }
        }
        Ok(ids)
    }

    fn set_input(&mut self, input: FeatureInput) -> Result<()> {
        Err(
            Error::unsupported(format!("ranks cannot train with {} yet", input.feature()))
                .hint("train on one device without ranks"),
        )
    }

    /// Executes the steps that wait if ranks have enough views, or if this is the last step of its batch.
    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        check_settings(settings)?;
        self.batch.step(settings.batch)?;
        self.queue.push((view, *settings));
        match settings.batch.is_last() || self.queue.len() == self.most_views() {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn densify(&mut self, plan: &DensifyPlan) -> Result<()> {
        self.batch.refuse("a densification round")?;
        self.tell_all(&Command::Densify(Box::new(*plan)))?;
        let reports = self.on_all(|rank| rank.densify(plan))?;
        let report = reports.into_iter().next();
        self.reports.extend(report.map(Report::Densify));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.flush()
    }

    fn poll(&mut self) -> Result<Vec<Report>> {
        Ok(std::mem::take(&mut self.reports))
    }

    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered> {
        // A fault that has nothing to do with the ranks must not stop them.
        PosedCamera::new(camera)?;
        if settings.surface {
            return Err(Error::unsupported("ranks cannot render surfaces yet")
                .hint("render the splats of the run on one device"));
        }
        self.tell_all(&Command::Render(*camera, *settings))?;
        let renders = self.on_all(|rank| rank.render(camera, settings))?;
        let mut renders = renders.into_iter().flatten();
        renders
            .next()
            .ok_or_else(|| Error::internal("no rank returned the render"))
    }

    fn differentiate(
        &mut self,
        _camera: &Camera,
        _settings: &RenderSettings,
        _derivative: &ImageDerivative<'_, f32>,
        _parts: GradientParts,
    ) -> Result<Gradients<f32>> {
        Err(Error::unsupported("ranks return no gradients yet").hint("use an engine without ranks"))
    }

    fn streaming(&mut self) -> Option<&mut dyn Streaming> {
        let streams = self
            .ranks
            .iter_mut()
            .all(|rank| rank.engine.streaming().is_some());
        match streams {
            true => Some(self),
            false => None,
        }
    }

    /// Returns `None` for one rank: it holds all Gaussians.
    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        match self.count() {
            0 | 1 => None,
            _ => Some(self),
        }
    }

    fn scoring(&mut self) -> Option<&mut dyn Scoring> {
        let mut ranks = self.ranks.iter_mut();
        match ranks.all(|rank| rank.engine.scoring().is_some()) {
            true => Some(self),
            false => None,
        }
    }

    fn showing(&mut self) -> Option<&mut dyn Showing> {
        None
    }

    fn tiling(&mut self) -> Option<&mut dyn Tiling> {
        None
    }

    fn instruments(&mut self) -> Option<&mut dyn Instrumented> {
        Some(self)
    }
}

impl<E: Sharded> Scoring for RanksEngine<E> {
    fn score(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        photo: &Photo,
        asks: ScoreAsks,
    ) -> Result<Option<ScoredView>> {
        // A fault that has nothing to do with the ranks must not stop them.
        PosedCamera::new(camera)?;
        self.tell_all(&Command::Render(*camera, *settings))?;
        let scored = self.on_all(|rank| rank.score(camera, settings, (photo, asks)))?;
        Ok(scored.into_iter().flatten().next())
    }
}

impl<E: Sharded> Streaming for RanksEngine<E> {
    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>> {
        self.tell_all(&Command::AddCameras(cameras.to_vec()))?;
        let ids = self.on_all(|rank| rank.engine.add_cameras(cameras))?;
        Ok(ids.into_iter().next().unwrap_or_default())
    }

    /// Delivers the photo to the rank of the next step.
    fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()> {
        // A view holds one photo: a further step on it waits for the steps before.
        if self.queue.iter().any(|(queued, _)| *queued == view) {
            self.flush()?;
        }
        match self.next_rank() {
            Some(rank) => rank.put_photo(view, photo),
            None => {
                let photo = HeldPhoto {
                    photo,
                    comes_each_step: true,
                };
                self.hold(view, photo);
                Ok(())
            }
        }
    }

    /// Does nothing: the rank of a later step is not known.
    fn announce(&mut self, _view: ViewId, _photo: Option<Arc<Photo>>) -> Result<()> {
        Ok(())
    }
}
