//! Extension checks: measure during a run whether more steps reduce the loss on photos withheld from training.
//!
//! 1. From `FROM` to `TO` hundredths of the schedule the order of steps excludes every `EVERY`-th photo, and other
//!    photos take its steps (`WithheldPhotos`). The mean loss of the withheld photos is measured at both ends.
//! 2. If photos agree with each other, training on the others also improves the withheld photos. If they do not,
//!    training overfits: what the splats had learned of the withheld photos is lost, and their loss rises.
//! 3. If the loss falls, the run is extended ([`crate::Change::Extension`]): from here on it continues as if it had had
//!    half as many steps again from its start. If the loss falls by `MUCH`, the run has twice the steps and twice the
//!    Gaussians, within the bounds of both.
//! 4. A run with twice its steps has another check before its new end. The previous extension must have reduced the
//!    loss of the withheld photos by 15 %, and the loss must still fall. Then the run has twice the steps again.
//! 5. If the loss rises, the remaining steps use dropout ([`crate::Change::Dropout`]): what is overfitted to a
//!    photo depends on all Gaussians that it was learned with.
//! 6. After the check the photos return to the order of steps. If the end has not moved, they are taken more often
//!    until the end, to replace their missed steps (`CATCH_UP`), so that the run uses all photos.
//!
//! All decisions are functions of capture, configuration and seed; the measurements change no number of a step. The
//! steps that withhold photos follow from the configuration and the extensions that it records, so that threads that
//! read photos ahead know their order.

mod hook;

pub(crate) use hook::ExtensionHook;

use crate::capture_statistics::LONGEST;
use crate::plan::Plan;
use serde::{Deserialize, Serialize};

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
    /// The withheld photos of a run with this plan on `photos` photos.
    pub(crate) fn new(plan: &Plan, photos: usize) -> Self {
        if photos < LEAST_PHOTOS {
            return Self::default();
        }
        let config = plan.config();
        let extended = plan.amendments().extensions().map(|(_, steps, _)| steps);
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
            let is_extended = plan.amendments().extensions().count() > i;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::TrainConfig;
    use crate::plan::Amendment;

    fn plan(steps: u32, extensions: u32, extended: &[[u32; 3]]) -> Plan {
        let amendment = |&[after, steps, most]: &[u32; 3]| Amendment::extension(after, steps, most);
        let amendments: Vec<Amendment> = extended.iter().map(amendment).collect();
        let config = TrainConfig {
            steps,
            max_extensions: extensions,
            amendments: amendments.into(),
            ..TrainConfig::default()
        };
        config.into()
    }

    #[test]
    fn photos_are_asked_on_the_way_to_each_end_that_a_run_has() {
        let times = |steps, extensions, extended: &[[u32; 3]]| {
            WithheldPhotos::new(&plan(steps, extensions, extended), 60).times
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
        // Half as many steps again, because the loss falls by less than by much.
        assert_eq!(times(7280, 2, &[[5460, 10_920, 100]]), [moved]);
        // 20 000 become 30 000; 21 000 are enough.
        assert_eq!(times(20_000, 2, &[]), [[11_001, 15_000, 20_000]]);
        assert!(times(21_000, 2, &[]).is_empty() && times(7280, 0, &[]).is_empty());
        assert!(WithheldPhotos::new(&plan(7280, 2, &[]), 7).times.is_empty());
        assert!(times(u32::MAX, 2, &[]).is_empty());
    }

    #[test]
    fn every_twelfth_photo_is_left_out_meanwhile_and_makes_up_for_it() {
        let withheld = |view: &usize| is_withheld(*view);
        assert_eq!((0..30).filter(withheld).collect::<Vec<_>>(), [6, 18]);
        let allows = |step| WithheldPhotos::new(&plan(1000, 1, &[]), 30).allows(step);
        assert!((551..=750).all(|step| allows(step) == Allowed::Others));
        let makes_up: Vec<u32> = (751..=1100)
            .filter(|&step| allows(step) == Allowed::Withheld)
            .collect();
        assert_eq!((makes_up[0], makes_up[15], makes_up.len()), (765, 990, 16));
        assert!([1, 550, 751, 1005].map(allows) == [Allowed::All; 4]);
    }
}
