//! The run alone: an engine, the numbers of each step, the photos, and how far it is. It knows nothing of
//! scores, checkpoints or clocks on the wall: those accompany it ([`super::companion`]).

use super::photos::TrainPhotos;
use crate::clock::Clock;
use crate::history::Smoothed;
use crate::views::Chosen;
use crate::{Ending, History, Schedule, TrainConfig, broken, depth};
use dapple_engine::{Appearance, Engine, Look, NotFinite, ViewState};
use dapple_scene::{Dataset, Error, Result, Splats};
use glam::DVec3;

/// A run, whoever watches it.
pub(crate) struct Run {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) schedule: Schedule,
    pub(crate) photos: TrainPhotos,
    pub(crate) state: RunState,
    /// What was learnt of the photos' appearance by the step whose splats the run has ended with, if that
    /// is not the last: the engine has forgotten it.
    pub(crate) learnt: Option<(Appearance, Look)>,
    /// What cameras and splats count from: [`Dataset::origin`].
    pub(crate) origin: DVec3,
}

/// How far a run is.
pub(crate) struct RunState {
    /// Steps enqueued, and those whose reports are in.
    pub(crate) step: u32,
    pub(crate) reported: u32,
    pub(crate) gaussians: u64,
    pub(crate) history: History,
    pub(crate) smoothed_loss: Smoothed,
    pub(crate) clock: Clock,
    /// Why the run cannot go on, though the engine could.
    pub(crate) bad_end: Option<Ending>,
    /// What was found not to be finite.
    pub(crate) not_finite: Option<NotFinite>,
    /// What made the engine fail, or what was lost: nothing more is asked of the engine.
    pub(crate) failure: Option<Error>,
    /// Whether a step was ever enqueued and not done: then there is a device that may be lost.
    pub(crate) has_queue: bool,
}

impl RunState {
    /// After `step` steps.
    fn at(step: u32) -> Self {
        Self {
            step,
            reported: step,
            gaussians: 0,
            history: History::default(),
            smoothed_loss: Smoothed::over(50.0),
            clock: Clock::at(0.0),
            bad_end: None,
            not_finite: None,
            failure: None,
            has_queue: false,
        }
    }
}

impl Run {
    /// After `step` steps, its engine without splats; with remarks for the user.
    pub(super) fn new(
        dataset: &Dataset,
        config: TrainConfig,
        mut engine: Box<dyn Engine>,
        chosen: &Chosen,
        step: u32,
    ) -> Result<(Self, Vec<String>)> {
        let known = depth::supervision(dataset, &chosen.train, chosen.extent, &config)?;
        let schedule = Schedule::new(config, chosen.extent);
        let photos = TrainPhotos::hand_over(dataset, &schedule, engine.as_mut(), chosen, step)?;
        let (samples, notes) = known;
        for (&view, samples) in photos.ids.iter().zip(samples) {
            engine.supervise_depth(view, samples)?;
        }
        let run = Self {
            engine,
            schedule,
            photos,
            state: RunState::at(step),
            learnt: None,
            origin: dataset.origin,
        };
        Ok((run, notes))
    }

    pub(crate) fn config(&self) -> &TrainConfig {
        self.schedule.config()
    }

    /// Whether every step is enqueued.
    pub(crate) fn is_at_last_step(&self) -> bool {
        self.state.step >= self.config().last_step()
    }

    /// Gives the rest of the run more or fewer steps: `last` is to be the last. It is noted in the
    /// configuration, so that a run that is given it back takes the same steps.
    pub(crate) fn change_pace(&mut self, last: u32) {
        self.schedule.change_pace(self.state.step, last);
        self.photos.follow(&self.schedule);
    }

    /// Lets the run go on as if it had had so many steps, and so many Gaussians at most, from its start. It is
    /// noted in the configuration.
    pub(crate) fn extend(&mut self, steps: u32, most: usize) {
        self.schedule.extend(self.state.step, steps, most);
        self.photos.follow(&self.schedule);
    }

    /// Leaves this part of the Gaussians out of each step from here on. It is noted in the configuration.
    pub(crate) fn leave_out(&mut self, part: f64) {
        self.schedule.leave_out(self.state.step, part);
    }

    /// Whether the run has ended well so far.
    pub(crate) fn is_sound(&self) -> bool {
        self.state.bad_end.is_none()
    }

    /// What the run has changed of the photos' poses and learnt of their appearance.
    pub(crate) fn view_state(&mut self) -> Result<ViewState> {
        let mut views = self.engine.view_state()?;
        if let Some(learnt) = &self.learnt {
            (views.appearance, views.look) = learnt.clone();
        }
        Ok(views)
    }

    /// Notes what an engine found of its parameters after `step`.
    pub(crate) fn look_for_lost(&mut self, found: Option<NotFinite>, step: u32) {
        let state = &mut self.state;
        if broken::is_lost(found, state.gaussians) {
            state.not_finite = state.not_finite.or(found);
            state.bad_end.get_or_insert(Ending::NonFinite(step));
        }
    }

    /// Whether a copy of the splats shows that the run is lost; then it ends.
    pub(crate) fn is_lost(&mut self, splats: &Splats) -> bool {
        let found = NotFinite::of(splats);
        self.look_for_lost(found, self.state.step);
        broken::is_lost(found, splats.len() as u64)
    }
}
