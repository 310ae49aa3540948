//! State of a run: an engine, the numbers of each step, the photos, and the progress. Scores, checkpoints and time are
//! handled by hooks ([`mod@crate::hook`]).

use super::photos::TrainPhotos;
use crate::clock::Clock;
use crate::event::Event;
use crate::focus;
use crate::history::Smoothed;
use crate::plan::{Amendment, Change, Plan};
use crate::views::Chosen;
use crate::{Ending, History, Schedule, TrainConfig, broken};
use dapple_device::BoxedEngine;
use dapple_engine::{EngineExt, NonFiniteReport, ViewState};
use dapple_scene::{Dataset, Error, Result, Splats};
use glam::DVec3;
use std::ops::RangeInclusive;

/// A run without its hooks.
pub(crate) struct Run {
    pub(crate) engine: BoxedEngine,
    pub(crate) schedule: Schedule,
    pub(crate) photos: TrainPhotos,
    pub(crate) state: RunState,
    /// Appearance at the step whose splats the run ended with, if that is not the last step: the engine has dropped it.
    pub(crate) learnt: Option<ViewState>,
    /// Local origin of cameras and splats: [`Dataset::origin`].
    pub(crate) origin: DVec3,
    /// Events that hooks have not received yet.
    pub(crate) events: Vec<Event<'static>>,
}

/// Progress of a run.
pub(crate) struct RunState {
    /// Number of enqueued steps, and of those whose reports have arrived.
    pub(crate) step: u32,
    pub(crate) reported: u32,
    pub(crate) gaussians: u64,
    pub(crate) history: History,
    pub(crate) smoothed_loss: Smoothed,
    pub(crate) clock: Clock,
    /// Reason why the run cannot continue, although the engine could.
    pub(crate) bad_end: Option<Ending>,
    /// Tensors that were found to be non-finite.
    pub(crate) not_finite: Option<NonFiniteReport>,
    /// Error of the engine, or of the non-finite parameters. The engine is not called after it is set.
    pub(crate) failure: Option<Error>,
    /// True if a step was ever enqueued and not done, so that a device could be lost.
    pub(crate) has_queue: bool,
}

impl RunState {
    /// State after `step` steps.
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
    /// A run after `step` steps, its engine without splats.
    pub(super) fn new(
        dataset: &Dataset,
        config: TrainConfig,
        mut engine: BoxedEngine,
        chosen: &Chosen,
        step: u32,
    ) -> Result<Self> {
        let views = focus::views(dataset, &chosen.train);
        let schedule = Schedule::new(config, chosen.extent).with_views(views);
        let photos = TrainPhotos::hand_over(dataset, &schedule, engine.as_mut(), chosen, step)?;
        Ok(Self {
            engine,
            schedule,
            photos,
            state: RunState::at(step),
            learnt: None,
            origin: dataset.origin,
            events: Vec::new(),
        })
    }

    /// Returns the configuration, which does not change.
    pub(crate) fn config(&self) -> &TrainConfig {
        self.schedule.config()
    }

    /// Returns the configuration and the amendments.
    pub(crate) fn plan(&self) -> &Plan {
        self.schedule.plan()
    }

    /// Returns the last step, as currently planned.
    pub(crate) fn last_step(&self) -> u32 {
        self.plan().last_step()
    }

    /// Returns the steps of the last batch: one, unless the Gaussians move by several photos at once.
    pub(crate) fn last_batch(&self) -> RangeInclusive<u32> {
        self.schedule.batch_until(self.state.step)
    }

    /// Returns true if the steps so far have moved the Gaussians: the last of them was the last of its batch.
    pub(crate) fn is_between_batches(&self) -> bool {
        self.state.step == 0 || self.schedule.batch(self.state.step).is_last()
    }

    /// Returns true if every step is enqueued.
    pub(crate) fn is_at_last_step(&self) -> bool {
        self.state.step >= self.last_step()
    }

    /// Appends an amendment for the steps from here on to the plan.
    ///
    /// # Errors
    /// The change contradicts the plan.
    pub(crate) fn amend(&mut self, change: Change) -> Result<()> {
        let after = self.state.step;
        let amendment = Amendment { after, change };
        self.schedule.amend(amendment)?;
        self.photos.follow(&self.schedule);
        self.events.push(Event::Amended(amendment));
        Ok(())
    }

    /// Returns true if the run has not ended badly.
    pub(crate) fn has_finite_state(&self) -> bool {
        self.state.bad_end.is_none()
    }

    /// Returns the refined poses and the learned appearance of the photos.
    pub(crate) fn view_state(&mut self) -> Result<ViewState> {
        let views = self.engine.view_state()?;
        Ok(match &self.learnt {
            Some(learnt) => ViewState {
                poses: views.poses,
                ..learnt.clone()
            },
            None => views,
        })
    }

    /// Records what an engine found in its parameters after `step`.
    pub(crate) fn look_for_lost(&mut self, found: Option<NonFiniteReport>, step: u32) {
        let state = &mut self.state;
        if broken::is_lost(found, state.gaussians) {
            state.not_finite = state.not_finite.or(found);
            state.bad_end.get_or_insert(Ending::NonFinite(step));
        }
    }

    /// Returns true, and ends the run, if a copy of the splats has too many non-finite Gaussians.
    pub(crate) fn is_lost(&mut self, splats: &Splats) -> bool {
        let found = NonFiniteReport::find_in(splats);
        self.look_for_lost(found, self.state.step);
        broken::is_lost(found, splats.len() as u64)
    }
}
