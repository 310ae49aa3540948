//! [`Rank`]: one engine with its part of the Gaussians. All ranks make the same calls in the same order.

use crate::command::LEADER;
use crate::link::Link;
use crate::parts::{cut, cut_state, from_bytes, to_bytes};
use crate::wire::{report_bytes, report_of};
use crate::{relocation, round};
use dapple_engine::instruments::RankTimes;
use dapple_engine::{
    DensifyPlan, DensifyReport, DownloadParts, EngineExt, NonFiniteReport, OptimizerState, Part,
    RenderSettings, Rendered, ScoreAsks, ScoredView, Sharded, Shipment, StepReport, ViewId,
    ViewStep,
};
use dapple_scene::{Camera, Error, Photo, Result, Splats};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Instant;

/// Clock between the parts of a step.
struct Lap(Instant);

impl Lap {
    fn start() -> Self {
        Self(Instant::now())
    }

    /// Adds the time since the last call to a sum, and returns it.
    fn lap(&mut self, sum: &mut u64) -> u64 {
        let now = Instant::now();
        let ns = now.duration_since(self.0).as_nanos() as u64;
        *sum += ns;
        self.0 = now;
        ns
    }
}

/// Engine with a part of the Gaussians.
pub struct Rank<E: Sharded> {
    /// The engine.
    pub engine: E,
    link: Box<dyn Link<E::Shipment>>,
    /// Gaussians that the engine holds.
    part: Part,
    /// Times of the steps so far.
    times: RankTimes,
    /// Time of each exchange of these steps, nanoseconds, if waits are measured.
    exchanges: Option<Vec<u64>>,
}

/// Times of a rank, and the time of each of its exchanges, nanoseconds.
pub type TimesAndExchanges = (RankTimes, Vec<u64>);

/// Returns the times of all ranks, with their waits for each other. All ranks make the same exchanges. The rank that comes
/// last to an exchange waits for no other rank: the time of the others above its time is their wait.
pub fn with_waits(ranks: &[TimesAndExchanges]) -> Vec<RankTimes> {
    let waited = |own: &[u64]| {
        let exchanges = own.iter().enumerate();
        let waits = exchanges.map(|(exchange, own)| {
            let all = ranks.iter().filter_map(|(_, each)| each.get(exchange));
            own - all.min().unwrap_or(own)
        });
        waits.sum()
    };
    let ranks = ranks.iter();
    let times = ranks.map(|(times, own)| RankTimes {
        wait_ns: waited(own),
        ..*times
    });
    times.collect()
}

impl<E: Sharded> Rank<E> {
    /// Returns the number of this rank.
    pub fn number(&self) -> usize {
        self.link.rank()
    }

    /// Returns the number of ranks, those of other processes included.
    pub fn ranks(&self) -> usize {
        self.link.ranks()
    }

    /// Sends a command of the leader to all ranks: `message` returns that to a rank.
    ///
    /// # Errors
    /// A rank that failed.
    pub fn tell(&mut self, message: impl Fn(usize) -> Result<Vec<u8>>) -> Result<()> {
        let me = self.number();
        let messages = (0..self.ranks()).map(|rank| match rank == me {
            true => Ok(Vec::new()),
            false => message(rank),
        });
        let messages = messages.collect::<Result<Vec<_>>>()?;
        let out = self.to_each(|rank| messages.get(rank).map_or(&[], Vec::as_slice));
        self.link.exchange(&out).map(drop)
    }

    /// Exchanges shipments of a step, and counts their bytes.
    fn ship(&mut self, out: Vec<E::Shipment>) -> Result<Vec<E::Shipment>> {
        let others = out.iter().enumerate();
        let others = others.filter(|(rank, _)| *rank != self.number());
        let sent: usize = others.map(|(_, shipment)| shipment.len()).sum();
        self.times.sent_bytes += sent as u64;
        self.link.ship(out)
    }

    /// Returns what each rank receives from this one.
    fn to_each<'a>(&self, bytes: impl Fn(usize) -> &'a [u8]) -> Vec<&'a [u8]> {
        (0..self.link.ranks()).map(bytes).collect()
    }
}

impl<E: Sharded> Rank<E> {
    /// Creates a rank without Gaussians.
    pub fn new(engine: E, link: Box<dyn Link<E::Shipment>>) -> Self {
        Self {
            engine,
            part: Part::new(link.rank(), link.ranks(), 0),
            link,
            times: RankTimes::default(),
            exchanges: None,
        }
    }

    /// Returns the times since the last call, and begins to note the time of each exchange.
    pub fn take_times(&mut self) -> TimesAndExchanges {
        let exchanges = self.exchanges.replace(Vec::new());
        (
            std::mem::take(&mut self.times),
            exchanges.unwrap_or_default(),
        )
    }

    /// Stops noting the time of each exchange.
    pub fn stop_waits(&mut self) {
        self.exchanges = None;
    }

    /// Ends an exchange.
    fn end_exchange(&mut self, clock: &mut Lap) {
        let ns = clock.lap(&mut self.times.exchange_ns);
        if let Some(exchanges) = &mut self.exchanges {
            exchanges.push(ns);
        }
    }

    /// Executes `work`, and informs the other ranks if it fails.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn run<R>(&mut self, work: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(result) => result.inspect_err(|error| self.link.fail(error)),
            Err(panic) => {
                self.link.fail(&Error::internal("it panicked"));
                resume_unwind(panic)
            }
        }
    }

    /// Waits for a command of the leader.
    ///
    /// # Errors
    /// A rank that failed.
    pub fn hear(&mut self) -> Result<Vec<u8>> {
        let nothing: &[u8] = &[];
        let received = self.link.exchange(&vec![nothing; self.ranks()])?;
        let message = received.into_iter().nth(LEADER);
        message.ok_or_else(|| Error::internal("there is no first rank"))
    }

    /// Adds views whose photos come with the steps.
    ///
    /// # Errors
    /// An invalid camera.
    pub fn add_cameras(&mut self, cameras: &[Camera]) -> Result<()> {
        self.engine.add_cameras(cameras).map(drop)
    }

    /// Delivers the photo of the next step on a view.
    ///
    /// # Errors
    /// See [`dapple_engine::Streaming::put_photo`].
    pub fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()> {
        self.engine.put_photo(view, photo)
    }

    /// Takes this rank's part of the splats and the state.
    ///
    /// # Errors
    /// See [`dapple_engine::Engine::upload`].
    pub fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()> {
        let part = self.part_of(splats.len());
        let own_state = state.map(|state| cut_state(state, part));
        self.take_part(&cut(splats, part), own_state.as_ref(), splats.len())
    }

    /// Takes a part of a model with `total` Gaussians.
    ///
    /// # Errors
    /// See [`dapple_engine::Engine::upload`].
    pub fn take_part(
        &mut self,
        splats: &Splats,
        state: Option<&OptimizerState>,
        total: usize,
    ) -> Result<()> {
        self.engine.upload(splats, state)?;
        self.part = self.part_of(total);
        self.engine.set_part(self.part)
    }

    /// Sends this rank's part to the leader, which returns the parts of all, in order.
    ///
    /// # Errors
    /// A lost device, or a rank that failed.
    pub fn gather(&mut self, parts: DownloadParts) -> Result<Vec<(Splats, OptimizerState)>> {
        let (splats, state) = self.engine.download_parts(parts)?;
        let bytes = to_bytes(&splats, &state)?;
        drop((splats, state));
        self.send_to_leader(&bytes)
    }

    /// Sends the bytes of a part to the leader, or none. The leader returns the parts of all that sent one, in order.
    ///
    /// # Errors
    /// A rank that failed.
    pub fn send_to_leader(&mut self, bytes: &[u8]) -> Result<Vec<(Splats, OptimizerState)>> {
        let out = self.to_each(|rank| match rank {
            LEADER => bytes,
            _ => &[],
        });
        let received = self.link.exchange(&out)?;
        match self.number() {
            LEADER => {
                let sent = received.iter().filter(|part| !part.is_empty());
                sent.map(|part| from_bytes(part)).collect()
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Takes steps of one batch in waves, in each of which every rank renders one view. Returns their reports.
    ///
    /// Waves overlap: a device works on one while ranks exchange the shipments of another.
    ///
    /// # Errors
    /// Those of the engine, or a rank that failed.
    pub fn steps(&mut self, views: &[ViewStep]) -> Result<Vec<StepReport>> {
        let mut clock = Lap::start();
        let (me, ranks) = (self.number(), self.ranks());
        for wave in views.chunks(ranks) {
            self.engine.begin_projections(wave)?;
        }
        let mut all_shown = Vec::new();
        for wave in views.chunks(ranks) {
            let shown = self.engine.finish_projections()?;
            clock.lap(&mut self.times.project_ns);
            // Rank r renders view r of the wave, if there is one.
            let out = (0..ranks).map(|rank| match shown.get(rank) {
                Some(part) => part.shipment.clone(),
                None => E::Shipment::default(),
            });
            let parts = self.ship(out.collect())?;
            self.end_exchange(&mut clock);
            match wave.get(me) {
                Some(own) => self.engine.begin_views(&[*own], vec![parts])?,
                None => self.engine.begin_views(&[], Vec::new())?,
            }
            all_shown.push(shown);
            clock.lap(&mut self.times.compare_ns);
        }
        let mut reports = Vec::with_capacity(views.len());
        for (wave, shown) in views.chunks(ranks).zip(&all_shown) {
            let compared = self.engine.finish_views()?;
            clock.lap(&mut self.times.compare_ns);
            let (head, own) = match compared.into_iter().next() {
                Some(view) => (report_bytes(&view.report)?, view.sums),
                None => (Vec::new(), vec![E::Shipment::default(); ranks]),
            };
            let heads = self.link.exchange(&vec![head.as_slice(); ranks])?;
            let sums = self.ship(own)?;
            self.end_exchange(&mut clock);
            self.engine
                .begin_gradients(wave, shown, &sums[..wave.len()])?;
            for head in heads.iter().take(wave.len()) {
                reports.push(report_of(head)?);
            }
            clock.lap(&mut self.times.update_ns);
        }
        let mut broken = Vec::with_capacity(views.len());
        for _ in views.chunks(ranks) {
            broken.extend(self.engine.finish_gradients()?);
        }
        for (((_, settings), report), broken) in views.iter().zip(&mut reports).zip(broken) {
            if settings.checks_numbers() {
                report.not_finite = self.broken_of_all(broken)?;
            }
        }
        clock.lap(&mut self.times.update_ns);
        self.times.views += views.len() as u64;
        Ok(reports)
    }

    /// Executes a round of density control over the Gaussians of all ranks.
    ///
    /// # Errors
    /// Those of the engine, or a rank that failed.
    pub fn densify(&mut self, plan: &DensifyPlan) -> Result<DensifyReport> {
        if plan.relocate.is_some() {
            let link = self.link.as_mut();
            let (part, report) = relocation::relocate(plan, link, &mut self.engine, self.part)?;
            self.part = part;
            return Ok(report);
        }
        let (splats, state) = self.engine.download()?;
        let round::Regrouped {
            splats,
            state: mut next,
            report,
        } = round::round(plan, self.link.as_mut(), self.part, (&splats, &state))?;
        next.views = state.views;
        let total = usize::try_from(report.total);
        let total = total.map_err(|_| Error::internal("a round made too many Gaussians"))?;
        self.take_part(&splats, Some(&next), total)?;
        Ok(report)
    }

    /// Renders the Gaussians of all ranks. The leader returns the render.
    ///
    /// # Errors
    /// Those of the engine, or a rank that failed.
    pub fn render(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<Option<Rendered>> {
        let parts = self.ship_render(camera, settings)?;
        match self.link.rank() {
            LEADER => self.engine.render_parts(camera, settings, &parts).map(Some),
            _ => Ok(None),
        }
    }

    /// Works like [`Self::render`] in all ranks but the leader, which compares the render with a photo.
    ///
    /// # Errors
    /// See [`Self::render`].
    pub fn score(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        photo: (&Photo, ScoreAsks),
    ) -> Result<Option<ScoredView>> {
        let parts = self.ship_render(camera, settings)?;
        match self.link.rank() {
            LEADER => self.engine.score_parts(camera, settings, photo, &parts),
            _ => Ok(None),
        }
    }

    /// Projects the Gaussians of all ranks for a render, and returns them on the leader.
    fn ship_render(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<Vec<E::Shipment>> {
        let shown = self.engine.project_camera(camera, settings)?;
        let out = (0..self.ranks()).map(|rank| match rank {
            LEADER => shown.shipment.clone(),
            _ => E::Shipment::default(),
        });
        self.link.ship(out.collect())
    }

    /// Returns which Gaussians of the model this rank has.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Returns which Gaussians of a new model of `total` this rank has.
    fn part_of(&self, total: usize) -> Part {
        Part::new(self.number(), self.ranks(), total)
    }

    /// Adds up the non-finite Gaussians of all ranks.
    fn broken_of_all(&mut self, own: Option<NonFiniteReport>) -> Result<Option<NonFiniteReport>> {
        let own = own.map_or([0, 0], |own| [own.gaussians, own.tensors.into()]);
        let bytes: &[u8] = bytemuck::cast_slice(&own);
        let received = self.link.exchange(&vec![bytes; self.link.ranks()])?;
        let mut total = (0, 0);
        for bytes in &received {
            let [gaussians, tensors] = bytemuck::try_pod_read_unaligned::<[u64; 2]>(bytes)
                .map_err(|_| Error::internal("a count of another rank could not be read"))?;
            total = (total.0 + gaussians, total.1 | tensors as u32);
        }
        Ok(NonFiniteReport::new(total.0, total.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rank_waits_for_the_wire_only() {
        let rank = |exchanges: [u64; 3]| {
            let times = RankTimes {
                exchange_ns: exchanges.iter().sum(),
                ..RankTimes::default()
            };
            (times, exchanges.to_vec())
        };
        // Another rank is the last each time; the third exchange takes as long for all.
        let ranks = with_waits(&[rank([10, 70, 5]), rank([40, 20, 5])]);
        let waits: Vec<u64> = ranks.iter().map(|rank| rank.wait_ns).collect();
        assert_eq!(waits, [50, 30]);
        let transfers: Vec<u64> = ranks.iter().map(RankTimes::transfer_ns).collect();
        assert_eq!(transfers, [35, 35]);
    }
}
