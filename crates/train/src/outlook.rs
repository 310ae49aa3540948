//! Whether a run gains by being longer, or learns its photos by heart: what photos that are set aside for a while say.
//!
//! 1. From `FROM` to `TO` hundredths of the schedule every `EVERY`-th photo is left out of the order of
//!    steps; other photos take its steps (`Aside`). Their loss is looked at when that begins and when it ends.
//! 2. Where photos agree with each other, what is learnt of the others meanwhile shows in these too. Where they
//!    do not, training learns its photos by heart, and what it knew of those set aside is forgotten: their
//!    loss rises.
//! 3. If their loss falls, the run is extended ([`TrainConfig::extended`]): from here on it
//!    goes on as if it had had half as many steps again from its start. Where their loss falls by `MUCH` it has twice the
//!    steps and twice the Gaussians, within the bounds of both.
//! 4. A run that was given twice its steps is asked again on the way to its new end. By then it is known what an extension
//!    gains: the one before has to have taken `PART` of their loss off, and it has to fall still. Then it has twice the
//!    steps again.
//! 5. If their loss rises, the rest of the run leaves a part of the Gaussians out of each step
//!    ([`TrainConfig::dropout_after`]): what is learnt of a photo by heart hangs on all Gaussians that it was learnt with.
//! 6. The photos are given back when it has been asked, and make up for what they missed until the end, if it has not
//!    moved (`CATCH_UP`): no photo is lost to the run.
//!
//! All of it is a function of capture, configuration and seed; the looks change no number of a step. When
//! photos are left out follows from the configuration with the extensions that it notes, so that those who read photos
//! ahead know their order.

use crate::evaluate::mean_loss;
use crate::evidence::LONGEST;
use crate::trainer::{Companion, Run};
use crate::{Checkpoint, Observer, TrainConfig};
use dapple_scene::{Result, View};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Of how many photos one is set aside.
const EVERY: usize = 12;

/// Fewer photos than this say nothing by one or two of them.
const LEAST_PHOTOS: usize = 8;

/// When photos are set aside, and when they are given back, as hundredths of the schedule.
const FROM: u64 = 55;
const TO: u64 = 75;

/// Of how many steps afterwards one is theirs besides, until the end: so they are taken as often as all others.
const CATCH_UP: u64 = EVERY as u64 * (100 - TO) / (TO - FROM);

/// The part of the Gaussians that steps leave out of what is learnt by heart. Twice as many gain a little more on large
/// photos, and lose a decibel on small ones (BENCHMARKS.md).
const LEFT_OUT: f64 = 0.1;

/// What has to come off the loss of photos set aside meanwhile for twice the steps and Gaussians, where 0.004 is a
/// grey level of theirs. Of captures whose photos gain less, twice of both lose on some (BENCHMARKS.md).
const MUCH: f64 = 0.006;

/// The part of their loss that an extension has to have taken off for another one.
const PART: f64 = 0.15;

/// What photos said while some of them were set aside.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Outlook {
    /// The steps done when they were set aside, and when they were given back.
    pub steps: [u32; 2],
    /// The mean loss of these photos at both.
    pub losses: [f64; 2],
    /// What follows.
    pub verdict: Verdict,
}

/// What follows from what photos said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The run is extended.
    Extend,
    /// What is learnt does not show in photos that are set aside: from here on steps leave Gaussians out, where nobody
    /// named a part, or the most Gaussians.
    NotShared,
    /// The extension before has taken little off their loss.
    LittleGained,
}

impl Outlook {
    /// The part of their loss that the photos have gained: below 0 where it has risen.
    pub fn gain(&self) -> f64 {
        let [before, after] = self.losses;
        1.0 - after / before.max(f64::MIN_POSITIVE)
    }

    /// What has come off their loss.
    fn fall(&self) -> f64 {
        self.losses[0] - self.losses[1]
    }
}

/// Which photos are left out of steps, and when.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Aside {
    /// First and last step of each time, and the last one in which they make up for it.
    times: Vec<[u32; 3]>,
}

/// Which photos a step may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Any.
    All,
    /// Those that are not set aside.
    Others,
    /// Those that were.
    Aside,
}

impl Aside {
    /// Of a run with this configuration on so many photos.
    pub(crate) fn of(config: &TrainConfig, photos: usize) -> Self {
        if photos < LEAST_PHOTOS {
            return Self::default();
        }
        let extended = config.extended.iter().map(|&[_, steps, _]| steps);
        let ends = std::iter::once(config.steps).chain(extended);
        let mut times = Vec::new();
        let mut before = None;
        for (i, steps) in ends.take(config.extensions as usize).enumerate() {
            let is_asked = before.is_none_or(|before| steps > by_half(before));
            if !is_asked || by_half(steps) > LONGEST {
                break;
            }
            let at = |part: u64| (u64::from(steps) * part / 100) as u32;
            // What an extended run misses of some photos is little beside the rest of it.
            let is_extended = config.extended.len() > i;
            times.push([
                at(FROM) + 1,
                at(TO),
                if is_extended { at(TO) } else { steps },
            ]);
            before = Some(steps);
        }
        Self { times }
    }

    /// The first and last step of the time that begins after `step`, or ends with it.
    pub(crate) fn at(&self, step: u32) -> Option<[u32; 2]> {
        let found = self
            .times
            .iter()
            .find(|[first, last, _]| first - 1 == step || *last == step);
        found.map(|&[first, last, _]| [first, last])
    }

    /// Which photos `step` may take.
    pub(crate) fn allows(&self, step: u32) -> Allowed {
        for &[first, last, end] in &self.times {
            if (first..=last).contains(&step) {
                return Allowed::Others;
            }
            if (last + 1..=end).contains(&step) && u64::from(step - last).is_multiple_of(CATCH_UP) {
                return Allowed::Aside;
            }
        }
        Allowed::All
    }
}

/// Whether a photo is one of those that are set aside.
pub(crate) fn is_aside(view: usize) -> bool {
    view % EVERY == EVERY / 2
}

/// The steps of a run that gains: half as many again.
fn by_half(steps: u32) -> u32 {
    steps.saturating_add(steps / 2)
}

/// The steps of a run that gains much.
fn doubled(steps: u32) -> u32 {
    steps.saturating_mul(2).min(LONGEST)
}

/// Whether the run may leave Gaussians out: nobody says how many, and it has as many as its photos ask for. Of fewer,
/// which somebody named, none is there twice.
fn can_leave_out(run: &Run) -> bool {
    run.config().dropout == 0.0 && run.state.history.budget.is_some()
}

/// Asks the photos, and extends the run.
pub(crate) struct Asking {
    /// Those that are set aside; none where nothing is asked.
    views: Vec<View>,
    ssim_weight: f64,
    /// The loss of the photos that are set aside now, when they were.
    before: Option<f64>,
    pub(crate) said: Vec<Outlook>,
}

impl Asking {
    /// The `views` that a run with this configuration trains on.
    pub(crate) fn new(views: &[View], config: &TrainConfig) -> Self {
        let asked = match Aside::of(config, views.len()).times.is_empty() {
            true => &[],
            false => views,
        };
        let asked = asked.iter().enumerate().filter(|&(i, _)| is_aside(i));
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

    /// What follows from these losses, and from what was said before.
    fn verdict(&self, found: &Outlook) -> Verdict {
        let falls = found.fall() > 0.0;
        let gained = |before: &Outlook| found.losses[1] <= (1.0 - PART) * before.losses[1];
        match self.said.last() {
            _ if !falls => Verdict::NotShared,
            Some(before) if !gained(before) => Verdict::LittleGained,
            _ => Verdict::Extend,
        }
    }

    fn extend(&self, run: &mut Run, gains_much: bool) {
        let config = run.config();
        let (steps, now) = (config.last_step(), config.last_budget());
        // A number that somebody named is not raised.
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

impl Companion for Asking {
    fn after_step(&mut self, run: &mut Run, observer: &mut dyn Observer) -> Result<()> {
        let step = run.state.step;
        let time = run.photos.aside().at(step);
        let Some([first, last]) = time.filter(|_| !self.views.is_empty()) else {
            return Ok(());
        };
        run.drain(observer)?;
        if !run.is_sound() {
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
            let mut found = Outlook {
                steps: [first - 1, step],
                losses: [before, after],
                verdict: Verdict::Extend,
            };
            found.verdict = self.verdict(&found);
            // A run that its configuration repeats has its extensions.
            let is_known = run
                .config()
                .extended
                .iter()
                .any(|&[after, ..]| after >= step);
            match found.verdict {
                Verdict::Extend if !is_known => self.extend(run, found.fall() >= MUCH),
                Verdict::NotShared if can_leave_out(run) => run.leave_out(LEFT_OUT),
                _ => {}
            }
            self.said.push(found);
            observer.on_outlook(&found, run.config());
        }
        Ok(())
    }

    fn add_to(&self, checkpoint: &mut Checkpoint) {
        checkpoint.outlooks.clone_from(&self.said);
        checkpoint.outlook_before = self.before;
    }

    fn take_from(&mut self, checkpoint: &mut Checkpoint) {
        self.said = std::mem::take(&mut checkpoint.outlooks);
        self.before = checkpoint.outlook_before;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn config(steps: u32, extensions: u32) -> TrainConfig {
        TrainConfig {
            steps,
            extensions,
            ..TrainConfig::default()
        }
    }

    #[test]
    fn photos_are_asked_on_the_way_to_each_end_that_a_run_has() {
        let times = |steps, extensions, extended: &[[u32; 3]]| {
            let config = TrainConfig {
                extended: extended.to_vec(),
                ..config(steps, extensions)
            };
            Aside::of(&config, 60).times
        };
        let first = [4005, 5460, 7280];
        // Nothing is made up for where the end has moved.
        let moved = [4005, 5460, 5460];
        assert_eq!(times(7280, 2, &[]), [first]);
        let doubled = [[5460, 14_560, 100]];
        assert_eq!(times(7280, 2, &doubled), [moved, [8009, 10_920, 14_560]]);
        assert_eq!(times(7280, 1, &doubled), [moved]);
        // 29 120 are enough.
        let twice = [doubled[0], [10_920, 29_120, 100]];
        assert_eq!(times(7280, 5, &twice), [moved, [8009, 10_920, 10_920]]);
        // Half as many again: it gains no more than that.
        assert_eq!(times(7280, 2, &[[5460, 10_920, 100]]), [moved]);
        // 20 000 become 30 000; 21 000 are enough.
        assert_eq!(times(20_000, 2, &[]), [[11_001, 15_000, 20_000]]);
        assert!(times(21_000, 2, &[]).is_empty() && times(7280, 0, &[]).is_empty());
        assert!(Aside::of(&config(7280, 2), 7).times.is_empty());
        assert!(times(u32::MAX, 2, &[]).is_empty());
    }

    #[test]
    fn every_twelfth_photo_is_left_out_meanwhile_and_makes_up_for_it() {
        let aside = |view: &usize| is_aside(*view);
        assert_eq!((0..30).filter(aside).collect::<Vec<_>>(), [6, 18]);
        let allows = |step| Aside::of(&config(1000, 1), 30).allows(step);
        assert!((551..=750).all(|step| allows(step) == Allowed::Others));
        let makes_up: Vec<u32> = (751..=1100)
            .filter(|&step| allows(step) == Allowed::Aside)
            .collect();
        assert_eq!((makes_up[0], makes_up[15], makes_up.len()), (765, 990, 16));
        assert!([1, 550, 751, 1005].map(allows) == [Allowed::All; 4]);
    }

    fn outlook(losses: [f64; 2]) -> Outlook {
        Outlook {
            steps: [550, 750],
            losses,
            verdict: Verdict::Extend,
        }
    }

    #[test]
    fn a_run_is_extended_where_photos_set_aside_gain_and_have_gained() {
        let mut asking = Asking::new(&[], &config(1000, 1));
        let verdict = |asking: &Asking, losses| asking.verdict(&outlook(losses));
        assert!((outlook([0.4, 0.3]).gain() - 0.25).abs() < 1e-9);
        assert_eq!(verdict(&asking, [0.4, 0.399]), Verdict::Extend);
        assert_eq!(verdict(&asking, [0.4, 0.4]), Verdict::NotShared);
        assert_eq!(verdict(&asking, [0.4, 0.5]), Verdict::NotShared);
        asking.said.push(outlook([0.4, 0.3]));
        assert_eq!(verdict(&asking, [0.4, 0.28]), Verdict::LittleGained);
        assert_eq!(verdict(&asking, [0.4, 0.25]), Verdict::Extend);
        assert_eq!(verdict(&asking, [0.24, 0.23]), Verdict::Extend);
        assert_eq!(verdict(&asking, [0.24, 0.25]), Verdict::NotShared);
    }
}
