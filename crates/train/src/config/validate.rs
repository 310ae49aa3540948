//! Refuses configurations that cannot work, before any photo is read.

use super::{Background, DepthSource, TrainConfig};
use crate::strategy::Strategy;
use dapple_scene::{Error, MAX_SH_DEGREE, Result};

/// Longer runs than this are a typing error.
const MOST_STEPS: u32 = 100_000_000;

impl TrainConfig {
    /// Checks every value and every contradiction between values.
    ///
    /// # Errors
    /// The first one found, named by its key.
    pub fn validate(&self) -> Result<()> {
        self.validate_run()?;
        self.validate_numbers()?;
        self.validate_poses()?;
        self.appearance.validate(self.steps)?;
        self.validate_depth()?;
        self.validate_densify()
    }

    fn validate_run(&self) -> Result<()> {
        if self.steps == 0 || self.steps > MOST_STEPS {
            return Err(
                Error::input(format!("steps = {} is not a length of a run", self.steps))
                    .hint(format!("choose between 1 and {MOST_STEPS}")),
            );
        }
        if self.stop_after > self.steps {
            return Err(Error::input(format!(
                "stop_after = {} lies beyond the last step, {}",
                self.stop_after, self.steps
            ))
            .hint("raise steps, or leave stop_after out to run all of them"));
        }
        if self.schedule_steps > self.steps {
            return Err(Error::input(format!(
                "schedule_steps = {} lies beyond the last step, {}",
                self.schedule_steps, self.steps
            ))
            .hint("raise steps, or lower schedule_steps; stop_after ends a run before its schedule does"));
        }
        self.validate_pace()?;
        if i64::try_from(self.seed).is_err() {
            return Err(
                Error::input(format!("seed = {} is too large", self.seed)).hint(format!(
                    "choose at most {}: TOML has no larger numbers",
                    i64::MAX
                )),
            );
        }
        if self.sh_degree > MAX_SH_DEGREE {
            return Err(Error::input(format!(
                "sh_degree = {} is higher than files can carry",
                self.sh_degree
            ))
            .hint("choose 0 (no view dependence) to 3"));
        }
        at_least_one("sh_every", self.sh_every)?;
        at_least_one("log_every", self.log_every)?;
        at_least_one("data.downscale", self.data.downscale)?;
        if self.data.eval_every == 1 {
            return Err(Error::input(
                "data.eval_every = 1 holds out every photo: none is left to train on",
            )
            .hint("8 holds out every eighth photo, 0 none"));
        }
        if self.data.watch_every == 1 {
            return Err(Error::input(
                "data.watch_every = 1 sets every photo aside: none is left to train on",
            )
            .hint("16 sets every sixteenth photo aside, 0 none"));
        }
        Ok(())
    }

    fn validate_pace(&self) -> Result<()> {
        let mut before = (0, self.steps);
        for &[after, last] in &self.pace {
            let (least, end) = before;
            if after < least || after >= end || last <= after || last > MOST_STEPS {
                return Err(Error::input(format!(
                    "pace = [[{after}, {last}], ...] cannot be: the run is between steps {least} and {end}"
                ))
                .hint("each entry is [after, last]: a step of the run, and the new last step after it"));
            }
            before = (after, last);
        }
        Ok(())
    }

    fn validate_numbers(&self) -> Result<()> {
        let rates = &self.learning_rates;
        for (key, value) in [
            ("learning_rates.means", rates.means),
            ("learning_rates.means_final", rates.means_final),
            ("learning_rates.scales", rates.scales),
            ("learning_rates.quats", rates.quats),
            ("learning_rates.opacities", rates.opacities),
            ("learning_rates.sh0", rates.sh0),
            ("learning_rates.sh_rest", rates.sh_rest),
            ("adam.epsilon", self.adam.epsilon),
            ("densify.grow_gradient", self.densify.grow_gradient),
            ("densify.split_scale", self.densify.split_scale),
            ("densify.prune_scale", self.densify.prune_scale),
            ("densify.add", self.densify.add),
            ("densify.noise", self.densify.noise),
            ("densify.opacity_reg", self.densify.opacity_reg),
            ("densify.scale_reg", self.densify.scale_reg),
            ("appearance.rate", self.appearance.rate),
            ("appearance.rate_final", self.appearance.rate_final),
            ("appearance.smoothness", self.appearance.smoothness),
            ("appearance.identity", self.appearance.identity),
            ("checkpoint_minutes", self.checkpoint_minutes),
        ] {
            // Engines compute in f32: a number beyond it is infinite there.
            if !(value >= 0.0 && (value as f32).is_finite()) {
                return Err(out_of_range(key, value, "a number, 0 or larger"));
            }
        }
        if (rates.means > 0.0) != (rates.means_final > 0.0) {
            return Err(Error::input(
                "learning_rates.means and means_final must both be 0 or both be larger",
            )
            .hint("the rate falls log-linearly from one to the other"));
        }
        if !(rates.decay > 0.0 && rates.decay <= 1.0) {
            let range = "larger than 0 and at most 1, which keeps the rates as they are";
            return Err(out_of_range("learning_rates.decay", rates.decay, range));
        }
        for (key, value) in [
            ("adam.beta1", self.adam.beta1),
            ("adam.beta2", self.adam.beta2),
        ] {
            if !(0.0..1.0).contains(&value) {
                return Err(out_of_range(key, value, "at least 0 and below 1"));
            }
        }
        if !(self.initial_opacity > 0.0 && self.initial_opacity < 1.0) {
            let range = "larger than 0 and below 1";
            return Err(out_of_range("initial_opacity", self.initial_opacity, range));
        }
        if !(self.initial_scale > 0.0 && (self.initial_scale as f32).is_finite()) {
            let range = "a number larger than 0";
            return Err(out_of_range("initial_scale", self.initial_scale, range));
        }
        if !(0.0..f64::from(f32::MAX)).contains(&self.near) {
            return Err(out_of_range("near", self.near, "at least 0"));
        }
        for (key, value) in [
            ("ssim_weight", self.ssim_weight),
            ("densify.prune_opacity", self.densify.prune_opacity),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(out_of_range(key, value, "between 0 and 1"));
            }
        }
        let Background::Colour([red, green, blue]) = self.background else {
            return Ok(());
        };
        for (key, value) in [
            ("background (red)", red),
            ("background (green)", green),
            ("background (blue)", blue),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(out_of_range(key, value, "between 0 and 1"));
            }
        }
        Ok(())
    }

    fn validate_depth(&self) -> Result<()> {
        let depth = &self.depth;
        let is_positive = |v: f64| v > 0.0 && (v as f32).is_finite();
        if !is_positive(depth.weight) {
            let range = "larger than 0; depth.from = none turns depths off";
            return Err(out_of_range("depth.weight", depth.weight, range));
        }
        if !(depth.decay > 0.0 && depth.decay <= 1.0) {
            let range = "larger than 0 and at most 1, which keeps the weight as it is";
            return Err(out_of_range("depth.decay", depth.decay, range));
        }
        if !is_positive(depth.unit) {
            return Err(out_of_range("depth.unit", depth.unit, "larger than 0"));
        }
        let of_images = [
            ("depth.folder", !depth.folder.as_os_str().is_empty()),
            ("depth.relative", depth.relative),
        ];
        for (key, is_set) in of_images {
            if is_set && depth.from != DepthSource::Images {
                return Err(Error::input(format!(
                    "{key} is set, but depth.from = {} looks at no depth images",
                    depth.from
                ))
                .hint("set depth.from = \"images\" (--depth-from images), or leave it out"));
            }
        }
        Ok(())
    }

    fn validate_poses(&self) -> Result<()> {
        let poses = &self.poses;
        if !(poses.rate > 0.0 && poses.rate <= 0.1) {
            let range = "larger than 0 and at most 0.1: beyond, a step turns a camera by degrees";
            return Err(out_of_range("poses.rate", poses.rate, range));
        }
        if !(poses.decay > 0.0 && poses.decay <= 1.0) {
            let range = "larger than 0 and at most 1, which keeps the rate as it is";
            return Err(out_of_range("poses.decay", poses.decay, range));
        }
        if !(0.0..1.0).contains(&poses.start) {
            let range = "at least 0 and below 1";
            return Err(out_of_range("poses.start", poses.start, range));
        }
        if poses.refine && self.data.watch_every > 0 {
            return Err(Error::input(format!(
                "poses.refine and data.watch_every = {} contradict each other",
                self.data.watch_every
            ))
            .hint(
                "photos that are set aside are not refined and would show the errors of their poses: \
                 leave --watch-every or --refine-poses out",
            ));
        }
        Ok(())
    }

    fn validate_densify(&self) -> Result<()> {
        let densify = &self.densify;
        at_least_one("densify.every", densify.every)?;
        if densify.enabled && densify.start > densify.stop {
            return Err(Error::input(format!(
                "densify.start = {} lies after densify.stop = {}",
                densify.start, densify.stop
            ))
            .hint("swap them, or set densify.enabled = false for a fixed number of Gaussians"));
        }
        if !densify.enabled && densify.strategy.has_budget() {
            return Err(Error::input(format!(
                "densify.strategy = {} has nothing to do while densify.enabled = false",
                densify.strategy
            ))
            .hint("choose a preset that densifies (m9, m10, quick, standard), or leave --strategy out"));
        }
        if densify.strategy == Strategy::Mcmc {
            return self.validate_mcmc();
        }
        if densify.enabled && densify.reset_every > 0 && densify.prune_opacity >= 0.5 {
            return Err(out_of_range(
                "densify.prune_opacity",
                densify.prune_opacity,
                "below 0.5 while opacities are reset to twice of it",
            ));
        }
        Ok(())
    }
}

impl TrainConfig {
    fn validate_mcmc(&self) -> Result<()> {
        let densify = &self.densify;
        if densify.reset_every > 0 {
            return Err(Error::input(format!(
                "densify.reset_every = {} and densify.strategy = mcmc contradict each other",
                densify.reset_every
            ))
            .hint("mcmc never resets opacities: leave reset_every out, or choose adc"));
        }
        if densify.absgrad {
            return Err(Error::input(
                "densify.absgrad and densify.strategy = mcmc contradict each other",
            )
            .hint("mcmc does not look at gradients: leave absgrad out, or choose adc"));
        }
        if densify.add > 1.0 {
            let range = "at most 1: a round can double the Gaussians";
            return Err(out_of_range("densify.add", densify.add, range));
        }
        if !(densify.prune_opacity > 0.0 && densify.prune_opacity < 0.5) {
            let range = "larger than 0 and below 0.5 for mcmc, which revives what lies below";
            return Err(out_of_range(
                "densify.prune_opacity",
                densify.prune_opacity,
                range,
            ));
        }
        Ok(())
    }
}

fn at_least_one(key: &str, value: u32) -> Result<()> {
    if value == 0 {
        return Err(Error::input(format!("{key} = 0 does not say how often"))
            .hint(format!("{key} must be 1 or larger")));
    }
    Ok(())
}

fn out_of_range(key: &str, value: f64, range: &str) -> Error {
    Error::input(format!("{key} = {value} cannot be used")).hint(format!("{key} must be {range}"))
}
