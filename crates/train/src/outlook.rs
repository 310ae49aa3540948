//! Whether a run gains by being longer: what photos that are set aside for a while say.
//!
//! 1. From `FROM` to `TO` hundredths of the schedule every `EVERY`-th photo is left out of the order of
//!    steps; other photos take its steps (`Aside`). Their loss is looked at when that begins and when it ends.
//! 2. Where photos agree with each other, what is learnt of the others meanwhile shows in these too. Where they
//!    do not, training learns its photos by heart, and what it knew of those set aside is forgotten: their
//!    loss rises.
//! 3. If their loss falls by `SEEN`, the run is extended ([`TrainConfig::extended`]): from here on it
//!    goes on as if it had had twice its steps from its start, and, where their loss falls by `MUCH`, twice its
//!    Gaussians, within the bounds of both.
//! 4. The same is asked again on the way to its new end. By then it is known what an extension gains: the one before
//!    has to have taken `PART` of their loss off, and the steps meanwhile, too.
//! 5. The photos are given back when it has been asked: no photo is lost to the run.
//!
//! All of it is a function of capture, configuration and seed; the looks change no number of a step. When the
//! photos are left out is known from the start, so that those who read photos ahead know their order.

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

/// What has to come off the loss of photos set aside meanwhile, where 0.004 is a grey level of theirs: of ten
/// captures those that longer runs lose by are below it, most by a rising loss; one has as large a part of its
/// loss to gain as those above, but of a loss so small that nobody sees it (BENCHMARKS.md).
const SEEN: f64 = 0.003;

/// From which on the run takes more Gaussians, too.
const MUCH: f64 = 0.006;

/// The part of their loss that has to come off for another extension.
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
    /// What is learnt does not show in photos that are set aside, or too little to be seen.
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
    /// First and last step of each time.
    times: Vec<[u32; 2]>,
}

impl Aside {
    /// Of a run with this configuration on so many photos.
    pub(crate) fn of(config: &TrainConfig, photos: usize) -> Self {
        if photos < LEAST_PHOTOS {
            return Self::default();
        }
        let mut times = Vec::new();
        let mut steps = config.steps;
        for _ in 0..config.extensions {
            let Some(more) = longer(steps) else {
                break;
            };
            let at = |part: u64| (u64::from(steps) * part / 100) as u32;
            times.push([at(FROM) + 1, at(TO)]);
            steps = more;
        }
        Self { times }
    }

    /// Whether `view` is not to be taken in `step`.
    pub(crate) fn leaves_out(&self, view: usize, step: u32) -> bool {
        is_aside(view)
            && self
                .times
                .iter()
                .any(|&[from, to]| (from..=to).contains(&step))
    }
}

/// Whether a photo is one of those that are set aside.
pub(crate) fn is_aside(view: usize) -> bool {
    view % EVERY == EVERY / 2
}

/// The steps of a run that is extended; `None` where it is long enough.
fn longer(steps: u32) -> Option<u32> {
    let more = steps.saturating_mul(2).min(LONGEST);
    (more >= steps.saturating_add(steps / 2)).then_some(more)
}

/// Asks the photos, and extends the run.
pub(crate) struct Asking {
    aside: Aside,
    views: Vec<View>,
    ssim_weight: f64,
    /// The loss of the photos that are set aside now, when they were.
    before: Option<f64>,
    pub(crate) said: Vec<Outlook>,
}

impl Asking {
    /// The `views` that a run with this configuration trains on.
    pub(crate) fn new(views: &[View], config: &TrainConfig) -> Self {
        let aside = Aside::of(config, views.len());
        let asked = match aside.times.is_empty() {
            true => &[],
            false => views,
        };
        let asked = asked.iter().enumerate().filter(|&(i, _)| is_aside(i));
        Self {
            views: asked.map(|(_, view)| view.clone()).collect(),
            aside,
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
        let gains = |before: &Outlook| found.losses[1] <= (1.0 - PART) * before.losses[1];
        match self.said.last() {
            None if found.fall() >= SEEN => Verdict::Extend,
            Some(before) if found.gain() >= PART => match gains(before) {
                true => Verdict::Extend,
                false => Verdict::LittleGained,
            },
            _ => Verdict::NotShared,
        }
    }

    fn extend(run: &mut Run, fall: f64) {
        let config = run.config();
        let steps = config.last_step();
        let Some(longer) = longer(steps) else {
            return;
        };
        let now = config.last_budget();
        let fit = run.engine.most_gaussians(config.sh_degree);
        // A number that somebody named is not raised.
        let budget = run.state.history.budget.filter(|_| fall >= MUCH);
        run.extend(
            longer,
            budget.map_or(now, |budget| budget.extended(now, fit)),
        );
    }
}

impl Companion for Asking {
    fn after_step(&mut self, run: &mut Run, observer: &mut dyn Observer) -> Result<()> {
        let step = run.state.step;
        let time = self
            .aside
            .times
            .iter()
            .find(|time| time[0] - 1 == step || time[1] == step);
        let Some(&[first, last]) = time.filter(|_| !self.views.is_empty()) else {
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
            if !is_known && found.verdict == Verdict::Extend {
                Self::extend(run, found.fall());
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
    fn photos_are_asked_on_the_way_to_each_end_that_a_run_may_have() {
        let times = |steps, extensions| Aside::of(&config(steps, extensions), 60).times;
        assert_eq!(times(7280, 2), [[4005, 5460], [8009, 10_920]]);
        assert_eq!(times(7280, 1), [[4005, 5460]]);
        // 14 560 become 29 120, and no more.
        assert_eq!(times(7280, 5).len(), 2);
        // 20 000 become 30 000; 21 000 are enough.
        assert_eq!(times(20_000, 2), [[11_001, 15_000]]);
        assert!(times(21_000, 2).is_empty() && times(7280, 0).is_empty());
        assert!(Aside::of(&config(7280, 2), 7).times.is_empty());
        assert!(times(u32::MAX, 2).is_empty());
    }

    #[test]
    fn every_twelfth_photo_is_left_out_meanwhile() {
        let aside = Aside::of(&config(1000, 1), 30);
        let out = |step| {
            (0..30)
                .filter(|&view| aside.leaves_out(view, step))
                .collect::<Vec<_>>()
        };
        assert_eq!(out(551), [6, 18]);
        assert_eq!(out(750), [6, 18]);
        assert!(out(550).is_empty() && out(751).is_empty());
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
        assert_eq!(verdict(&asking, [0.4, 0.396]), Verdict::Extend);
        assert_eq!(verdict(&asking, [0.4, 0.398]), Verdict::NotShared);
        assert_eq!(verdict(&asking, [0.4, 0.5]), Verdict::NotShared);
        // A third of a loss that nobody sees.
        assert_eq!(verdict(&asking, [0.006, 0.004]), Verdict::NotShared);
        asking.said.push(outlook([0.4, 0.3]));
        assert_eq!(verdict(&asking, [0.4, 0.28]), Verdict::LittleGained);
        assert_eq!(verdict(&asking, [0.4, 0.25]), Verdict::Extend);
        assert_eq!(verdict(&asking, [0.25, 0.24]), Verdict::NotShared);
    }
}
