//! Hook that runs the extension checks, and extends the run.

use super::{ExtensionCheck, ExtensionDecision, WithheldPhotos, by_half, is_withheld};
use crate::capture_statistics::LONGEST;
use crate::evaluate::mean_loss;
use crate::event::Event;
use crate::hook::{Next, RunHook};
use crate::plan::{Change, Plan};
use crate::trainer::{Run, fitting_gaussians};
use crate::{Checkpoint, PausedRun};
use dapple_scene::{Result, View};
use std::time::Instant;

/// Dropout rate after a check that found overfitting. Twice the rate gains a little more on large photos, and loses 1
/// dB on small ones (`docs/experiments/2026-11-25-dropout.md`).
const DROPOUT: f64 = 0.1;

/// Fall of the loss of withheld photos that doubles steps and Gaussians; 0.004 is one grey level. Captures whose loss
/// falls by less can lose by doubling both (`docs/experiments/2026-11-25-half-or-double.md`).
const MUCH: f64 = 0.006;

/// Part of the loss of withheld photos that an extension must have removed before a further extension.
const PART: f64 = 0.15;

/// Runs the extension checks, and extends the run.
pub(crate) struct ExtensionHook {
    /// Views that are withheld; empty if the run has no checks.
    views: Vec<View>,
    ssim_weight: f64,
    /// Loss of the currently withheld photos at the start of the check.
    before: Option<f64>,
    pub(crate) said: Vec<ExtensionCheck>,
}

impl ExtensionHook {
    /// Checks for a run with this plan that trains on `views`.
    pub(crate) fn new(views: &[View], plan: &Plan) -> Self {
        let asked = match WithheldPhotos::new(plan, views.len()).times.is_empty() {
            true => &[],
            false => views,
        };
        let asked = asked.iter().enumerate().filter(|&(i, _)| is_withheld(i));
        Self {
            views: asked.map(|(_, view)| view.clone()).collect(),
            ssim_weight: plan.config().ssim_weight,
            before: None,
            said: Vec::new(),
        }
    }

    fn loss(&self, run: &mut Run) -> Result<Option<f64>> {
        let settings = run.schedule.render_settings();
        let engine = run.engine.as_mut();
        let mean = mean_loss(engine, &self.views, &settings, self.ssim_weight)?;
        Ok(mean.map(|mean| mean.loss))
    }

    /// Returns the decision for these losses and the earlier checks.
    fn decision(&self, found: &ExtensionCheck) -> ExtensionDecision {
        let falls = found.fall() > 0.0;
        let gained = |before: &ExtensionCheck| found.losses[1] <= (1.0 - PART) * before.losses[1];
        match self.said.last() {
            _ if !falls => ExtensionDecision::NotShared,
            Some(before) if !gained(before) => ExtensionDecision::LittleGained,
            _ => ExtensionDecision::Extend,
        }
    }

    /// Returns the extension of a run whose loss falls, by much or by less.
    fn extension(&self, run: &Run, gains_much: bool) -> Change {
        let plan = run.plan();
        let (steps, now) = (plan.last_step(), plan.last_budget());
        // A cap that the user set is not raised.
        let budget = run.state.history.budget.filter(|_| gains_much);
        let fit = fitting_gaussians(plan.config(), run.engine.as_ref());
        let most = budget.map_or(now, |budget| budget.extended(now, fit));
        Change::Extension {
            steps: match gains_much || !self.said.is_empty() {
                true => doubled(steps),
                false => by_half(steps),
            },
            max_gaussians: u32::try_from(most).unwrap_or(u32::MAX),
        }
    }

    /// Returns the change that follows a check, if there is one.
    fn change(&self, run: &Run, found: &ExtensionCheck) -> Option<Change> {
        let (step, amendments) = (run.state.step, run.plan().amendments());
        // A run that repeats a plan repeats its decisions.
        if let Some(repeated) = amendments.after(step) {
            return Some(repeated.change);
        }
        let is_repeated = amendments.extensions().any(|(after, ..)| after > step);
        match found.decision {
            ExtensionDecision::Extend if !is_repeated => {
                Some(self.extension(run, found.fall() >= MUCH))
            }
            ExtensionDecision::NotShared if can_drop(run) => {
                Some(Change::Dropout { rate: DROPOUT })
            }
            _ => None,
        }
    }

    /// Stores the checks so far in a checkpoint.
    pub(crate) fn add_to(&self, checkpoint: &mut Checkpoint) {
        checkpoint.extension_checks.clone_from(&self.said);
        checkpoint.loss_before_check = self.before;
    }

    /// Restores the checks from a checkpoint.
    pub(crate) fn take_from(&mut self, checkpoint: &mut Checkpoint) {
        self.said = std::mem::take(&mut checkpoint.extension_checks);
        self.before = checkpoint.loss_before_check;
    }
}

impl RunHook for ExtensionHook {
    fn name(&self) -> &'static str {
        "extension checks"
    }

    fn after_step(&mut self, run: &mut PausedRun<'_>) -> Result<Next> {
        let run = run.run();
        let step = run.state.step;
        let withheld = run.photos.withheld();
        let time = run.last_batch().find_map(|step| withheld.at(step));
        let Some([first, last]) = time.filter(|_| !self.views.is_empty()) else {
            return Ok(Next::Continue);
        };
        run.drain()?;
        if !run.has_finite_state() {
            return Ok(Next::Continue);
        }
        let started = Instant::now();
        let found = self.loss(run)?;
        run.state.history.seconds.eval += started.elapsed().as_secs_f64();
        if step < last {
            self.before = found;
            return Ok(Next::Continue);
        }
        let (Some(before), Some(after)) = (self.before.take(), found) else {
            return Ok(Next::Continue);
        };
        let mut found = ExtensionCheck {
            steps: [first - 1, step],
            losses: [before, after],
            decision: ExtensionDecision::Extend,
        };
        found.decision = self.decision(&found);
        let change = self.change(run, &found);
        self.said.push(found);
        run.events.push(Event::ExtensionCheck(found));
        Ok(change.map_or(Next::Continue, Next::Amend))
    }
}

/// Returns the steps of a run whose loss falls by `MUCH`: twice as many.
fn doubled(steps: u32) -> u32 {
    steps.saturating_mul(2).min(LONGEST)
}

/// Returns true if the run may use dropout: the user sets neither a dropout rate nor a Gaussian cap. With a smaller
/// cap, no two Gaussians represent the same detail.
fn can_drop(run: &Run) -> bool {
    let dropouts = run.plan().amendments().dropouts().next();
    let is_named = run.config().dropout != 0.0 || dropouts.is_some();
    !is_named && run.state.history.budget.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainConfig;

    fn check(losses: [f64; 2]) -> ExtensionCheck {
        ExtensionCheck {
            steps: [550, 750],
            losses,
            decision: ExtensionDecision::Extend,
        }
    }

    #[test]
    fn a_run_is_extended_where_photos_set_aside_gain_and_have_gained() {
        let config = TrainConfig {
            steps: 1000,
            max_extensions: 1,
            ..TrainConfig::default()
        };
        let plan = Plan::from(config);
        let mut extension_hook = ExtensionHook::new(&[], &plan);
        let decision =
            |extension_hook: &ExtensionHook, losses| extension_hook.decision(&check(losses));
        assert!((check([0.4, 0.3]).gain() - 0.25).abs() < 1e-9);
        assert_eq!(
            decision(&extension_hook, [0.4, 0.399]),
            ExtensionDecision::Extend
        );
        assert_eq!(
            decision(&extension_hook, [0.4, 0.4]),
            ExtensionDecision::NotShared
        );
        assert_eq!(
            decision(&extension_hook, [0.4, 0.5]),
            ExtensionDecision::NotShared
        );
        extension_hook.said.push(check([0.4, 0.3]));
        assert_eq!(
            decision(&extension_hook, [0.4, 0.28]),
            ExtensionDecision::LittleGained
        );
        assert_eq!(
            decision(&extension_hook, [0.4, 0.25]),
            ExtensionDecision::Extend
        );
        assert_eq!(
            decision(&extension_hook, [0.24, 0.23]),
            ExtensionDecision::Extend
        );
        assert_eq!(
            decision(&extension_hook, [0.24, 0.25]),
            ExtensionDecision::NotShared
        );
    }
}
