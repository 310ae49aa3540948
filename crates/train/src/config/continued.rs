//! Configuration of the next part of a run (`dapple train --continue`).
//!
//! 1. The next part has the schedule of a run of the new length, from the last step of the part before on: unedited steps
//!    of the schedule follow the new length, as those of a printed file do (`printed.rs`). The learning rate of the
//!    centres begins above the value that a run of this length has at this step, and falls again: the part before has
//!    let it fall faster ([`TrainConfig::first_rate`]).
//! 2. Choices (strategy, appearance and the like) stay, unless the next part names others.
//! 3. Gains of the splats so far stay: the degree of the harmonics does not fall, photos do not return to half
//!    of their size, and learned appearance does not pause.
//! 4. Density control catches up: if the part before has ended it, it acts for as many further steps as a run of the new
//!    length has more of it (`docs/experiments/2026-11-27-continue.md`).
//! 5. Amendments of the part before are not repeated: its last dropout rate and Gaussian cap are named instead.
//! 6. Settings that set the start of a run or its photos cannot change ([`FIXED`]).

use super::resolve::flat;
use super::{ConfigPatch, DataPatch, TrainConfig};
use crate::plan::{Amendment, Plan};
use crate::{PhotoCoverage, Schedule};
use dapple_base::settings::Table;
use dapple_scene::{Error, Result};

/// Settings that the next part cannot change, and the reason.
const FIXED: [(&[&str], &str); 6] = [
    (
        &["preset"],
        "a preset sets a whole run: name --steps and single settings instead",
    ),
    (
        &[
            "initial_gaussians",
            "random_start",
            "from_splats",
            "initial_opacity",
            "initial_scale",
            "sky",
        ],
        "it sets the start of a run, which has passed",
    ),
    (
        &[
            "data.eval_every",
            "data.own_split",
            "data.max_train_views",
            "data.max_eval_views",
            "data.validate_every",
        ],
        "photos that the run has trained on would be scored",
    ),
    (
        &["data.images", "data.skip_missing", "data.undistort"],
        "appearance and scores belong to the photos of the run",
    ),
    (
        &["data.joined"],
        "the photos of the capture say which have joined: name another capture",
    ),
    (
        &["antialias"],
        "the Gaussians were trained with the filters of the run",
    ),
];

impl TrainConfig {
    /// Returns the configuration of the next part of a run with this configuration that has done `done` steps. `given`
    /// names the changes; its `steps` are those of all parts together, by default the planned steps of an unfinished
    /// run, and half as many steps again for a finished run. `seen` are the statistics of the training photos, as for
    /// [`Self::resolve_for`].
    ///
    /// ```
    /// use dapple_train::{ConfigPatch, Preset};
    ///
    /// let first = Preset::Standard.config_for(2000);
    /// let given = ConfigPatch { steps: Some(4000), ..ConfigPatch::default() };
    /// let next = first.continued(2000, given, None)?;
    /// assert_eq!((next.steps, next.densify.strategy), (4000, first.densify.strategy));
    /// # Ok::<(), dapple_scene::Error>(())
    /// ```
    ///
    /// # Errors
    /// No step more than `done`; a setting that the next part cannot change; a contradiction between settings.
    pub fn continued(
        &self,
        done: u32,
        given: ConfigPatch,
        seen: Option<PhotoCoverage>,
    ) -> Result<Self> {
        let steps = given.steps.unwrap_or_else(|| self.steps_after(done));
        if steps <= done {
            return Err(Error::input(format!(
                "{steps} steps in all leave none to continue with: the run has done {done}"
            ))
            .hint("name more steps, for example --steps +2000"));
        }
        self.refuse_fixed(&given)?;
        let plan = Plan::from(self.clone());
        let mut own = plan.config().picked(&|_| true);
        own.dropout = plan
            .amendments()
            .dropouts()
            .next_back()
            .map_or(own.dropout, |(_, rate)| Some(rate));
        if plan.amendments().extensions().next().is_some() {
            own.max_gaussians = Some(plan.last_budget());
        }
        own.stop_after = Some(0);
        let follows = own.without_what_follows(seen).unwrap_or_default();
        let stays = ConfigPatch {
            random_start: Some(self.random_start),
            data: DataPatch {
                eval_every: Some(self.data.eval_every),
                own_split: Some(self.data.own_split),
                validate_every: Some(self.data.validate_every),
                ..DataPatch::default()
            },
            ..self.picked(&|row| row.is_choice)
        };
        let mut named = follows.merged(stays).merged(given.clone());
        (named.preset, named.steps) = (Some(self.preset), Some(steps));
        if let Some(seen) = seen {
            named.suit(&seen);
        }
        let mut config = named.resolve_named();
        let first = given.learning_rates.means;
        if first.is_some() {
            // It is the rate of the first step of the part.
            config.learning_rates.means = self.learning_rates.means;
        }
        let before = plan.extended().unwrap_or_else(|| self.clone());
        config.keep_gained(&before, done, &given);
        let first = first.unwrap_or_else(|| config.first_rate(self, done));
        config.data.joined = self.data.joined.clone();
        config.amendments = vec![Amendment::continuation(done, first)].into();
        config.validate()?;
        Ok(config)
    }

    /// Returns the default length of all parts.
    fn steps_after(&self, done: u32) -> u32 {
        let planned = self.last_step();
        match planned > done {
            true => planned,
            false => done.saturating_add((done / 2).max(1)),
        }
    }

    fn refuse_fixed(&self, given: &ConfigPatch) -> Result<()> {
        let refused = |key: &str, value: &str, why: &str| {
            Error::input(format!("{key} = {value} cannot change within a run: {why}")).hint(
                "omit it, or start another run from these splats: `dapple train CAPTURE --from RUN`",
            )
        };
        for (key, _, value) in self.differences(given.clone())? {
            let of_key = FIXED.iter().find(|(keys, _)| keys.contains(&key.as_str()));
            if let Some((_, why)) = of_key {
                return Err(refused(&key, &value, why));
            }
        }
        if self.poses.refine && given.poses.refine == Some(false) {
            let why = "the splats follow the refined poses";
            return Err(refused("poses.refine", "false", why));
        }
        if given.max_extensions.is_some_and(|n| n > 0) || given.amendments.is_some() {
            let why = "--steps sets the length of the next part";
            return Err(refused("max_extensions", "", why));
        }
        Ok(())
    }

    /// Returns the learning rate of the centres in the first step of a part with this configuration, after `done` steps of
    /// `before`: that of a run of this length, times the root of its ratio to the last rate before, at most that of the
    /// first step of a run.
    fn first_rate(&self, before: &Self, done: u32) -> f64 {
        let rate = |config: &Self, step| {
            let schedule = Schedule::new(config.clone(), 1.0);
            f64::from(schedule.learning_rates(step).means)
        };
        let (was, longer) = (rate(before, done), rate(self, done + 1));
        let most = self.learning_rates.means.max(longer);
        let first = match was > 0.0 && longer > was {
            true => (longer * (longer / was).sqrt()).min(most),
            false => longer,
        };
        // Three digits, to be read in config.toml.
        format!("{first:.2e}").parse().unwrap_or(first)
    }

    /// Changes what would undo a part of what the run before has gained in `done` steps, unless `given` names it.
    fn keep_gained(&mut self, before: &Self, done: u32, given: &ConfigPatch) {
        let was = Schedule::new(before.clone(), 1.0);
        if given.densify.stop.is_none() {
            // Rounds that a run of the new length has had by now, and this one has not.
            let missed = done.saturating_sub(before.densify.stop);
            let longer = self.densify.stop.saturating_sub(before.densify.stop);
            if missed > 0 {
                self.densify.stop = self.densify.stop.max(done.saturating_add(longer));
            }
        }
        if given.sh_every.is_none() {
            self.sh_every = self.sh_every.min(before.sh_every);
        }
        if given.data.coarse_until.is_none() && was.last_coarse_step() < done {
            self.data.coarse_until = 0.0;
        }
        if given.appearance.start.is_none() && before.appearance.model == self.appearance.model {
            self.appearance.start = self.appearance.start.min(before.appearance.start);
        }
    }

    /// Returns the settings with another value in `other`, by key: `(key, value here, value there)`. Settings that do
    /// not change results are excluded.
    pub(crate) fn changes(&self, other: &Self) -> Result<Vec<(String, String, String)>> {
        let pairs = flat(self)?.into_iter().zip(flat(other)?);
        let changed = pairs.filter(|((key, a), (_, b))| {
            let is_beside =
                |row: &dapple_base::settings::Row| row.is_beside_results && row.name == key;
            a != b
                && key != "amendments"
                && key != "data.joined"
                && !Self::ROWS.iter().any(is_beside)
        });
        Ok(changed.map(|((key, a), (_, b))| (key, a, b)).collect())
    }
}
