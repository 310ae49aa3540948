//! The numbers of each step: a pure function of the plan and the step.
//!
//! 1. The centres' learning rate falls log-linearly over the run and is in units of the scene's extent (Kerbl et al.
//!    2023). The others are constant, and may fall once the number of Gaussians is fixed: the remaining error is noise
//!    of the steps, which smaller steps average out.
//! 2. The active SH degree rises by one every `sh_every` steps.
//! 3. `order.rs` determines the photo of a step.
//! 4. A random background is another colour in each step, keyed by (seed, step).
//! 5. Terms of the loss have weights; that of known depths falls log-linearly.
//! 6. The rate of the photos' appearance is zero at first and then falls log-linearly.
//! 7. The strategy determines density control after a step, and the terms that it adds to steps: [`crate::strategy`].
//! 8. Rates of scales and quaternions are larger at first ([`crate::config::LearningRateConfig::early`]), and the first
//!    photos half as large ([`crate::config::DataConfig::coarse_until`]).
//! 9. Anti-aliased runs compute the Gaussians' 3D filters again every hundred steps and after density control.
//! 10. In a further part of a run ([`Change::Continuation`]) the centres' rate falls from a value of the part. If its
//!     moments start at zero, rates are corrected as at the start of a run, and the first round of density control waits
//!     until statistics cover one interval.
//! 11. With several views per step, steps form batches that move the Gaussians together ([`dapple_engine::Batch`]).
//!     Density control, scores and everything else that follows a step follows the batch of that step.
//! 12. Dropout omits a part of the Gaussians, drawn again for each step ([`dapple_engine::Dropout`]).
//!
//! A schedule is a list of segments, one more for each amendment of the plan ([`mod@crate::plan`]). A segment has the
//! configuration, the strategy and the pace of its steps; it begins after the step of its amendment.

mod segment;

use crate::config::TrainConfig;
use crate::focus::density_focus;
use crate::plan::{Amendment, Change, Plan};
use crate::strategy::DensityStrategy;
use dapple_engine::focus::{FocusView, VIEWS};
use dapple_engine::{
    Batch, DensifyPlan, LearningRates, LossWeights, PoseRates, RenderSettings, StepSettings,
};
use dapple_scene::Result;
use segment::Segment;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The numbers of each step of a run. Steps count from 1.
#[derive(Debug, Clone)]
pub struct Schedule {
    plan: Plan,
    extent: f64,
    /// Strategy of the caller, which the configuration cannot name.
    own_strategy: Option<Arc<dyn DensityStrategy>>,
    /// Cameras of the run, for rounds with a region of interest.
    views: [FocusView; VIEWS],
    /// Segments by their first step. The first begins with the run.
    segments: Vec<Segment>,
}

impl Schedule {
    /// A schedule for a run in a scene of this extent (world units, [`dapple_scene::Dataset::extent`]).
    pub fn new(plan: impl Into<Plan>, extent: f64) -> Self {
        let mut schedule = Self {
            plan: plan.into(),
            extent,
            own_strategy: None,
            views: [FocusView::NONE; VIEWS],
            segments: Vec::new(),
        };
        schedule.rebuild();
        schedule
    }

    /// Replaces the density strategy of the configuration by one of the caller's own.
    #[must_use]
    pub fn with_strategy(mut self, strategy: Arc<dyn DensityStrategy>) -> Self {
        self.set_strategy(strategy);
        self
    }

    pub(crate) fn set_strategy(&mut self, strategy: Arc<dyn DensityStrategy>) {
        self.own_strategy = Some(strategy);
        self.rebuild();
    }

    /// Sets the cameras of the run: rounds with a region of interest count Gaussians by them.
    #[must_use]
    pub(crate) fn with_views(mut self, views: [FocusView; VIEWS]) -> Self {
        self.views = views;
        self
    }

    /// Appends an amendment to the plan.
    ///
    /// # Errors
    /// The amendment contradicts the plan.
    pub(crate) fn amend(&mut self, amendment: Amendment) -> Result<()> {
        self.plan.amend(amendment)?;
        self.rebuild();
        Ok(())
    }

    /// Makes the segments of the plan.
    fn rebuild(&mut self) {
        let config = self.plan.config();
        let segment = |config: TrainConfig| {
            let (extent, strategy) = (self.extent, self.own_strategy.clone());
            Segment::new(config, extent, strategy)
        };
        let mut last = segment(config.clone());
        let mut segments = Vec::with_capacity(1 + self.plan.amendments().iter().len());
        for amendment in self.plan.amendments().iter() {
            let after = amendment.after;
            let next = match amendment.change {
                Change::StepRate { last: end } => last.paced(after, end),
                Change::Extension {
                    steps,
                    max_gaussians,
                } => segment(config.extended_to(steps, max_gaussians as usize))
                    .with_dropout(last.dropout)
                    .with_parts_of(&last),
                Change::Dropout { rate } => last.clone().with_dropout(rate),
                Change::Continuation {
                    means,
                    fresh_moments,
                } => last.clone().continued(after, means, fresh_moments),
            };
            segments.push(std::mem::replace(&mut last, next.from(after)));
        }
        segments.push(last);
        self.segments = segments;
    }

    /// Returns the number of the segment of a step.
    fn number_of(&self, step: u32) -> usize {
        let begun = self.segments.partition_point(|s| s.after < step);
        begun.saturating_sub(1)
    }

    /// Returns the segment of a step.
    fn of(&self, step: u32) -> &Segment {
        &self.segments[self.number_of(step)]
    }

    /// Returns the place of a step in its batch. Batches begin with a segment; the last one before a segment or before the
    /// end of the run may be smaller.
    pub fn batch(&self, step: u32) -> Batch {
        let number = self.number_of(step);
        let next = self.segments.get(number + 1).map(|next| next.after);
        let end = next.unwrap_or_else(|| self.plan.last_step());
        self.segments[number].batch(step, end)
    }

    /// Returns the steps of a batch up to `step`: all of them for its last step.
    pub(crate) fn batch_until(&self, step: u32) -> RangeInclusive<u32> {
        step - self.batch(step).index.min(step)..=step
    }

    /// Returns the name of the density strategy.
    pub fn strategy_name(&self) -> &str {
        self.of(0).strategy.name()
    }

    /// Returns the name of the density strategy if it is the caller's own.
    pub(crate) fn own_strategy(&self) -> Option<&str> {
        self.own_strategy.as_deref().map(DensityStrategy::name)
    }

    /// Returns the plan of this schedule.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the configuration of this schedule, without amendments.
    pub fn config(&self) -> &TrainConfig {
        self.plan.config()
    }

    /// Returns the place in the configured schedule of step `step` of the run.
    pub fn place(&self, step: u32) -> u32 {
        self.of(step).place(step)
    }

    /// Returns the scene's extent, world units.
    pub fn extent(&self) -> f64 {
        self.extent
    }

    /// Returns render settings at full degree, over a fixed background: for scoring and for finished splats.
    pub fn render_settings(&self) -> RenderSettings {
        self.of(0).render_settings()
    }

    /// Returns the background colour of step `step`, keyed by (seed, step) if it is random.
    pub fn background(&self, step: u32) -> [f32; 3] {
        self.of(step).background(step)
    }

    /// Returns the degree of spherical harmonics in step `step`.
    pub fn sh_degree(&self, step: u32) -> u8 {
        self.of(step).sh_degree(step)
    }

    /// Returns the step sizes of step `step`.
    pub fn learning_rates(&self, step: u32) -> LearningRates {
        self.of(step).learning_rates(step)
    }

    /// Returns the weights of the loss terms in step `step`. Scales count in units of the extent, so that the unit of
    /// the world does not matter.
    pub fn losses(&self, step: u32) -> LossWeights {
        self.of(step).losses(step)
    }

    /// Returns the step sizes of the pose of step `step`'s view.
    pub fn pose_rates(&self, step: u32) -> PoseRates {
        self.step_settings(step).features.poses
    }

    /// Returns the last step, at the current pace, that takes its photo at half the size.
    pub fn last_coarse_step(&self) -> u32 {
        let config = self.config();
        let share = config.data.coarse_until;
        let end = (share * f64::from(config.schedule_length())) as u32;
        // An extension begins after these steps.
        let extended = self.plan.amendments().extensions().next();
        let last = extended.map_or(self.plan.last_step(), |(after, ..)| after);
        let (mut coarse, mut fine) = (0, last + 1);
        // Places rise with steps.
        while coarse + 1 < fine {
            let middle = coarse + (fine - coarse) / 2;
            match self.place(middle) <= end {
                true => coarse = middle,
                false => fine = middle,
            }
        }
        coarse
    }

    /// Returns all settings of step `step` for an engine.
    pub fn step_settings(&self, step: u32) -> StepSettings {
        let follows_round = || self.densify_plan(step.saturating_sub(1)).is_some();
        let batch = self.batch(step);
        self.of(step).step_settings((step, batch), &follows_round)
    }

    /// Returns the round of density control that follows step `step`, if there is one: those of its batch together.
    pub fn densify_plan(&self, step: u32) -> Option<DensifyPlan> {
        let segment = self.of(step);
        if !segment.has_statistics(step) {
            return None;
        }
        let mut plans = self
            .places(step)
            .filter_map(|place| segment.strategy.plan(place));
        plans.next_back().map(|plan| DensifyPlan {
            step,
            focus: plan
                .focus
                .or_else(|| density_focus(self.config(), &self.views)),
            ..plan
        })
    }

    /// Returns the places of the schedule that the batch of `step` has passed since the batch before: one place, unless
    /// the pace was changed or batches have several steps. None before the last step of a batch.
    pub(crate) fn places(&self, step: u32) -> RangeInclusive<u32> {
        let segment = self.of(step);
        let before = match self.batch(step) {
            batch if batch.is_last() => step.saturating_sub(batch.index + 1),
            _ => step,
        };
        segment.place(before) + 1..=segment.place(step)
    }

    /// Returns true if held-out photos are scored after step `step`.
    pub fn evaluates_at(&self, step: u32) -> bool {
        let eval = &self.config().eval;
        let is_due = |place: u32| {
            (eval.every > 0 && place.is_multiple_of(eval.every)) || eval.steps.contains(&place)
        };
        step == self.plan.last_step() || self.places(step).any(is_due)
    }
}
