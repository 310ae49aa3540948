//! Extension checks: measure during a run whether more steps reduce the loss on photos withheld from training.
//!
//! 1. From `FROM` to `TO` hundredths of the schedule the order of steps excludes every `EVERY`-th photo, and other
//!    photos take its steps (`WithheldPhotos`). The mean loss of the withheld photos is measured at both ends.
//! 2. If photos agree with each other, training on the others also improves the withheld photos. If they do not,
//!    training overfits: what the splats had learned of the withheld photos is lost, and their loss rises.
//! 3. If the loss falls, the run is extended ([`TrainConfig::extension_log`]): from here on it continues as if it had
//!    had half as many steps again from its start. If the loss falls by `MUCH`, the run has twice the steps and twice
//!    the Gaussians, within the bounds of both.
//! 4. A run with twice its steps has another check before its new end. The previous extension must have reduced the
//!    loss of the withheld photos by `PART`, and the loss must still fall. Then the run has twice the steps again.
//! 5. If the loss rises, the remaining steps use dropout ([`TrainConfig::dropout_after`]): what is overfitted to a
//!    photo depends on all Gaussians that it was learned with.
//! 6. After the check the photos return to the order of steps. If the end has not moved, they are taken more often
//!    until the end, to replace their missed steps (`CATCH_UP`), so that the run uses all photos.
//!
//! All decisions are functions of capture, configuration and seed; the measurements change no number of a step. The
//! steps that withhold photos follow from the configuration and the extensions that it records, so that threads that
//! read photos ahead know their order.

use crate::capture_statistics::LONGEST;
use crate::evaluate::mean_loss;
use crate::trainer::{Companion, Run};
use crate::{Checkpoint, Observer, TrainConfig};
use dapple_scene::{Result, View};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// One of this many photos is withheld.
const EVERY: usize = 12;

/// Fewest photos for a check: with fewer, one or two withheld photos are not representative.
const LEAST_PHOTOS: usize = 8;

/// Steps that withhold photos and return them, as hundredths of the schedule.
const FROM: u64 = 55;
const TO: u64 = 75;

/// After the check, one of this many steps takes a withheld photo in addition, so that they are taken as often as all
/// others by the end.
const CATCH_UP: u64 = EVERY as u64 * (100 - TO) / (TO - FROM);

/// Dropout rate after a check that found overfitting. Twice the rate gains a little more on large photos, and loses 1
/// dB on small ones (`docs/experiments/2026-11-25-dropout.md`).
const DROPOUT_RATE: f64 = 0.1;

/// Fall of the loss of withheld photos that doubles steps and Gaussians; 0.004 is one grey level. Captures whose loss
/// falls by less can lose by doubling both (`docs/experiments/2026-11-25-half-or-double.md`).
const MUCH: f64 = 0.006;

/// Part of the loss of withheld photos that an extension must have removed before a further extension.
const PART: f64 = 0.15;

/// Result of one extension check.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ExtensionCheck {
    /// Steps done at the start and at the end of the check.
    pub steps: [u32; 2],
    /// Mean loss of the withheld photos at both steps.
    pub losses: [f64; 2],
    /// Decision taken at the second step.
    #[serde(alias = "verdict")]
    pub decision: ExtensionDecision,
}

/// Decision after an extension check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExtensionDecision {
    /// The run is extended.
    Extend,
    /// The loss of withheld photos rises. The remaining steps use dropout, unless the user sets a dropout rate or the
    /// Gaussian cap.
    NotShared,
    /// The previous extension has reduced the loss too little.
    LittleGained,
}

impl ExtensionCheck {
    /// Returns the relative fall of the loss of the withheld photos: below 0 if it has risen.
    pub fn gain(&self) -> f64 {
        let [before, after] = self.losses;
        1.0 - after / before.max(f64::MIN_POSITIVE)
    }

    /// Returns the absolute fall of the loss.
    fn fall(&self) -> f64 {
        self.losses[0] - self.losses[1]
    }
}

/// Photos that are excluded from steps, and the steps that exclude them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct WithheldPhotos {
    /// First and last step of each check, and the last step that replaces missed steps.
    times: Vec<[u32; 3]>,
}

/// Photos that a step may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// All photos.
    All,
    /// Photos that are not withheld.
    Others,
    /// Photos that were withheld.
    Withheld,
}

impl WithheldPhotos {
    /// The withheld photos of a run with this configuration on `photos` photos.
    pub(crate) fn new(config: &TrainConfig, photos: usize) -> Self {
        if photos < LEAST_PHOTOS {
            return Self::default();
        }
        let extended = config.extension_log.iter().map(|&[_, steps, _]| steps);
        let ends = std::iter::once(config.steps).chain(extended);
        let mut times = Vec::new();
        let mut before = None;
        for (i, steps) in ends.take(config.max_extensions as usize).enumerate() {
            let is_asked = before.is_none_or(|before| steps > by_half(before));
            if !is_asked || by_half(steps) > LONGEST {
                break;
            }
            let at = |part: u64| (u64::from(steps) * part / 100) as u32;
            // The missed steps of some photos are few compared with the rest of an extended run.
            let is_extended = config.extension_log.len() > i;
            times.push([
                at(FROM) + 1,
                at(TO),
                if is_extended { at(TO) } else { steps },
            ]);
            before = Some(steps);
        }
        Self { times }
    }

    /// Returns the first and last step of the check that begins after `step`, or ends with it.
    pub(crate) fn at(&self, step: u32) -> Option<[u32; 2]> {
        let found = self
            .times
            .iter()
            .find(|[first, last, _]| first - 1 == step || *last == step);
        found.map(|&[first, last, _]| [first, last])
    }

    /// Returns the photos that `step` may take.
    pub(crate) fn allows(&self, step: u32) -> Allowed {
        for &[first, last, end] in &self.times {
            if (first..=last).contains(&step) {
                return Allowed::Others;
            }
            if (last + 1..=end).contains(&step) && u64::from(step - last).is_multiple_of(CATCH_UP) {
                return Allowed::Withheld;
            }
        }
        Allowed::All
    }
}

/// Returns true if a photo is one of those that checks withhold.
pub(crate) fn is_withheld(view: usize) -> bool {
    view % EVERY == EVERY / 2
}

/// Returns the steps of a run whose loss falls: half as many again.
fn by_half(steps: u32) -> u32 {
    steps.saturating_add(steps / 2)
}

/// Returns the steps of a run whose loss falls by `MUCH`: twice as many.
fn doubled(steps: u32) -> u32 {
    steps.saturating_mul(2).min(LONGEST)
}

/// Returns true if the run may use dropout: the user sets neither a dropout rate nor a Gaussian cap. With a smaller
/// cap, no two Gaussians represent the same detail.
fn can_drop(run: &Run) -> bool {
    run.config().dropout == 0.0 && run.state.history.budget.is_some()
}

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
    /// Checks for a run with this configuration that trains on `views`.
    pub(crate) fn new(views: &[View], config: &TrainConfig) -> Self {
        let asked = match WithheldPhotos::new(config, views.len()).times.is_empty() {
            true => &[],
            false => views,
        };
        let asked = asked.iter().enumerate().filter(|&(i, _)| is_withheld(i));
        Self {
            views: asked.map(|(_, view)| view.clone()).collect(),
            ssim_weight: config.ssim_weight,
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

    fn extend(&self, run: &mut Run, gains_much: bool) {
        let config = run.config();
        let (steps, now) = (config.last_step(), config.last_budget());
        // A cap that the user set is not raised.
        let budget = run.state.history.budget.filter(|_| gains_much);
        let fit = run.engine.most_gaussians(config.sh_degree);
        let longer = match gains_much || !self.said.is_empty() {
            true => doubled(steps),
            false => by_half(steps),
        };
        let most = budget.map_or(now, |budget| budget.extended(now, fit));
        run.extend(longer, most);
    }
}

impl Companion for ExtensionHook {
    fn after_step(&mut self, run: &mut Run, observer: &mut dyn Observer) -> Result<()> {
        let step = run.state.step;
        let time = run.photos.withheld().at(step);
        let Some([first, last]) = time.filter(|_| !self.views.is_empty()) else {
            return Ok(());
        };
        run.drain(observer)?;
        if !run.has_finite_state() {
            return Ok(());
        }
        let started = Instant::now();
        let found = self.loss(run)?;
        run.state.history.seconds.eval += started.elapsed().as_secs_f64();
        if step < last {
            self.before = found;
            return Ok(());
        }
        if let (Some(before), Some(after)) = (self.before.take(), found) {
            let mut found = ExtensionCheck {
                steps: [first - 1, step],
                losses: [before, after],
                decision: ExtensionDecision::Extend,
            };
            found.decision = self.decision(&found);
            // A run that repeats a configuration with extensions has them already.
            let is_known = run
                .config()
                .extension_log
                .iter()
                .any(|&[after, ..]| after >= step);
            match found.decision {
                ExtensionDecision::Extend if !is_known => self.extend(run, found.fall() >= MUCH),
                ExtensionDecision::NotShared if can_drop(run) => run.set_dropout(DROPOUT_RATE),
                _ => {}
            }
            self.said.push(found);
            observer.on_extension_check(&found, run.config());
        }
        Ok(())
    }

    fn add_to(&self, checkpoint: &mut Checkpoint) {
        checkpoint.extension_checks.clone_from(&self.said);
        checkpoint.loss_before_check = self.before;
    }

    fn take_from(&mut self, checkpoint: &mut Checkpoint) {
        self.said = std::mem::take(&mut checkpoint.extension_checks);
        self.before = checkpoint.loss_before_check;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn config(steps: u32, extensions: u32) -> TrainConfig {
        TrainConfig {
            steps,
            max_extensions: extensions,
            ..TrainConfig::default()
        }
    }

    #[test]
    fn photos_are_asked_on_the_way_to_each_end_that_a_run_has() {
        let times = |steps, extensions, extended: &[[u32; 3]]| {
            let config = TrainConfig {
                extension_log: extended.to_vec(),
                ..config(steps, extensions)
            };
            WithheldPhotos::new(&config, 60).times
        };
        let first = [4005, 5460, 7280];
        // No missed steps are replaced if the end has moved.
        let moved = [4005, 5460, 5460];
        assert_eq!(times(7280, 2, &[]), [first]);
        let doubled = [[5460, 14_560, 100]];
        assert_eq!(times(7280, 2, &doubled), [moved, [8009, 10_920, 14_560]]);
        assert_eq!(times(7280, 1, &doubled), [moved]);
        // 29 120 steps are enough.
        let twice = [doubled[0], [10_920, 29_120, 100]];
        assert_eq!(times(7280, 5, &twice), [moved, [8009, 10_920, 10_920]]);
        // Half as many steps again, because the loss falls by less than `MUCH`.
        assert_eq!(times(7280, 2, &[[5460, 10_920, 100]]), [moved]);
        // 20 000 become 30 000; 21 000 are enough.
        assert_eq!(times(20_000, 2, &[]), [[11_001, 15_000, 20_000]]);
        assert!(times(21_000, 2, &[]).is_empty() && times(7280, 0, &[]).is_empty());
        assert!(WithheldPhotos::new(&config(7280, 2), 7).times.is_empty());
        assert!(times(u32::MAX, 2, &[]).is_empty());
    }

    #[test]
    fn every_twelfth_photo_is_left_out_meanwhile_and_makes_up_for_it() {
        let withheld = |view: &usize| is_withheld(*view);
        assert_eq!((0..30).filter(withheld).collect::<Vec<_>>(), [6, 18]);
        let allows = |step| WithheldPhotos::new(&config(1000, 1), 30).allows(step);
        assert!((551..=750).all(|step| allows(step) == Allowed::Others));
        let makes_up: Vec<u32> = (751..=1100)
            .filter(|&step| allows(step) == Allowed::Withheld)
            .collect();
        assert_eq!((makes_up[0], makes_up[15], makes_up.len()), (765, 990, 16));
        assert!([1, 550, 751, 1005].map(allows) == [Allowed::All; 4]);
    }

    fn check(losses: [f64; 2]) -> ExtensionCheck {
        ExtensionCheck {
            steps: [550, 750],
            losses,
            decision: ExtensionDecision::Extend,
        }
    }

    #[test]
    fn a_run_is_extended_where_photos_set_aside_gain_and_have_gained() {
        let mut extension_hook = ExtensionHook::new(&[], &config(1000, 1));
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
