//! Further parts of a run that has ended: [`Trainer::continue_run`].

use super::Trainer;
use super::begin::{fitting_gaussians, settle_budget};
use super::first_views::first_views;
use super::joined::{self, Touched};
use crate::config::{Joined, SkyMode};
use crate::focus;
use crate::sky;
use crate::views::Chosen;
use crate::{
    Best, CaptureIdentity, Checkpoint, Continuation, SettingChange, Strategy, TrainConfig, strategy,
};
use dapple_device::BoxedEngine;
use dapple_engine::{OptimizerState, ViewState};
use dapple_scene::{Dataset, Error, Result, Splats};
use std::sync::Arc;

impl Trainer {
    /// Continues a run that has ended with a configuration of [`TrainConfig::continued`]. The state is that of
    /// [`crate::RunFolder::read_to_continue`], or a [`Checkpoint`] of a stopped run. Without moments in the state, the
    /// moments start at zero, and learning rates are corrected for that. The same state, configuration and device give
    /// the same bytes. [`crate::train_into`] may write to the folder of the run: it replaces its results only by whole
    /// ones.
    ///
    /// ```no_run
    /// # use dapple_train::{ConfigPatch, RunFolder, Silent, Trainer, train_into};
    /// # fn example(dataset: &dapple_scene::Dataset, engine: dapple_device::BoxedEngine) -> dapple_scene::Result<()> {
    /// let folder = RunFolder::create("out/bird".as_ref())?;
    /// let ended = folder.read_to_continue()?;
    /// let given = ConfigPatch { steps: Some(ended.step + 2000), ..ConfigPatch::default() };
    /// let config = ended.config.continued(ended.step, given, None)?;
    /// let mut trainer = Trainer::continue_run(dataset, ended, config, engine)?;
    /// train_into(&folder, &mut trainer, &mut Silent)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Another capture, or photos that have changed; more Gaussians than the cap; state that the configuration needs and
    /// splats do not hold; see [`Trainer::new`] for the others.
    pub fn continue_run(
        dataset: &Dataset,
        ended: Checkpoint,
        mut config: TrainConfig,
        mut engine: BoxedEngine,
    ) -> Result<Self> {
        config.validate()?;
        let mut ended = ended.with_moments()?;
        let now = CaptureIdentity::from_dataset(dataset);
        let joined = joined_photos(&now, &ended, &config)?;
        config.data.joined = config.data.joined.with(joined.clone());
        ended.capture = now;
        let has_state = !ended.state.first_moments.is_empty();
        if !has_state {
            refuse_without_state(&ended.config)?;
            config.amendments.forget_moments(ended.step);
            ended.state = OptimizerState::untrained(&ended.splats, ViewState::default());
        }
        if ended.config.sky == SkyMode::On && (ended.state.frozen > 0 || ended.state.sky == 0) {
            // Frozen Gaussians are in any order.
            ended.state.sky = sky::put_last(&mut ended.splats, Some(&mut ended.state));
        }
        ended.state.frozen = 0;
        let chosen = Chosen::new(dataset, &config)?;
        focus::settle(&mut config, dataset, &chosen.train, Some(&ended.splats))?;
        let count = ended.splats.len();
        if count > config.gaussian_budget() {
            return Err(Error::input(format!(
                "the run has {count} Gaussians, more than max_gaussians = {}",
                config.max_gaussians
            ))
            .hint("set a larger --max-gaussians"));
        }
        let fit = fitting_gaussians(&config, engine.as_ref());
        let budget = settle_budget(&mut config, dataset, &chosen.train, Some(count), fit)?;
        ended.history.budget = budget.or(ended.history.budget);
        if config.densify.strategy == Strategy::Mcmc && config.densify.add == 0.0 {
            config.densify.add = strategy::growth(&config, count as u64);
        }
        if config.near == 0.0 {
            config.near = ended.config.near;
        }
        fit_state(&mut ended, &config, dataset, (&chosen, has_state))?;
        let touched = match joined.is_empty() {
            true => Touched::default(),
            false => {
                let capture = (dataset, &chosen);
                joined::join(
                    capture,
                    &mut ended,
                    &mut config,
                    &mut engine,
                    joined.clone(),
                )?
            }
        };
        let changes = ended.config.changes(&config)?.into_iter();
        let changes = changes.map(|(key, before, now)| SettingChange { key, before, now });
        ended.history.continuations.push(Continuation {
            after: ended.step,
            steps: config.last_step(),
            gaussians: ended.splats.len() as u64,
            has_state,
            changes: changes.collect(),
            new_photos: joined.new.len(),
            changed_photos: joined.changed.len(),
            removed_photos: joined.removed.len(),
            frozen: touched.frozen as u64,
            added: touched.added as u64,
        });
        ended.config = config;
        ended.loss_before_check = None;
        Self::resume(dataset, ended, engine)
    }
}

impl Checkpoint {
    /// Checks that no photo joins, changes or leaves if the run continues with this dataset and configuration.
    /// [`Trainer::continue_run`] trains such photos.
    ///
    /// # Errors
    /// Another capture, or other photos; the message names the first that differs.
    pub fn check_photos(&self, dataset: &Dataset, config: &TrainConfig) -> Result<()> {
        if self.capture == CaptureIdentity::default() {
            return Ok(());
        }
        let now = CaptureIdentity::from_dataset(dataset);
        self.capture.check_content(&now, &self.config, config)
    }
}

/// Returns the photos that joined the capture since the part before.
fn joined_photos(
    now: &CaptureIdentity,
    ended: &Checkpoint,
    config: &TrainConfig,
) -> Result<Joined> {
    let none = Joined {
        after: ended.step,
        ..Joined::default()
    };
    if ended.capture == CaptureIdentity::default() {
        return Ok(none);
    }
    let joined = ended.capture.joined(now, &ended.config, config);
    let joined = joined.map_err(|e| {
        e.hint(
            "give the capture of the run, or one with most of its photos: `dapple train CAPTURE --continue RUN`; --from \
             starts a run with another capture",
        )
    })?;
    Ok(Joined {
        after: ended.step,
        ..joined
    })
}

/// Refuses to continue a run from its splats only, if it has learned what the splats do not hold.
fn refuse_without_state(before: &TrainConfig) -> Result<()> {
    let lacks = match (before.poses.refine, before.antialias) {
        (true, _) => "refined poses",
        (_, true) => "3D filters of the Gaussians",
        _ => return Ok(()),
    };
    Err(Error::input(format!(
        "the run has no state.safetensors, which holds the {lacks} that it continues with"
    ))
    .hint("start another run from its splats: `dapple train CAPTURE --from RUN -o OUT`"))
}

/// Fits the state to the configuration of the next part: harmonics, statistics of another strategy, and appearance.
fn fit_state(
    ended: &mut Checkpoint,
    config: &TrainConfig,
    dataset: &Dataset,
    (chosen, has_state): (&Chosen, bool),
) -> Result<()> {
    let degree = config.sh_degree;
    let state = &mut ended.state;
    for splats in [
        &mut ended.splats,
        &mut state.first_moments,
        &mut state.second_moments,
    ] {
        *splats = std::mem::replace(splats, Splats::empty(degree)).with_sh_degree(degree);
    }
    if ended.config.densify.strategy != config.densify.strategy {
        state.gradient_sums.fill(0.0);
        state.visible_counts.fill(0.0);
    }
    let (old, new) = (&ended.config.appearance, &config.appearance);
    let is_other = old.model != new.model || old.grid != new.grid;
    if is_other || !has_state {
        state.views = ViewState {
            poses: std::mem::take(&mut state.views.poses),
            ..first_views(&ended.splats, config, dataset, chosen)?
        };
        if is_other {
            // The best splats so far have another appearance.
            ended.watched.clear();
            ended.best = None;
        }
    }
    if let Some(best) = ended.best.take() {
        ended.best = Some(Arc::new(Best {
            splats: best.splats.clone().with_sh_degree(degree),
            views: best.views.clone(),
        }));
    }
    Ok(())
}
