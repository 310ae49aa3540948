//! Ranges of all numbers of a configuration. The comments of the printed file state the same ranges; a test compares
//! both.
//!
//! Training cannot succeed beyond these ranges. They are wide enough for experiments, and narrow enough that a typing
//! error (`1e38`) is refused before training.

use super::{Background, TrainConfig};
use dapple_scene::{Error, Result};

/// Longer runs than this are a typing error.
pub(super) const MOST_STEPS: u32 = 100_000_000;

/// Upper limit of Gaussians in any engine: they have 236 GB of parameters.
const MOST_GAUSSIANS: usize = 1_000_000_000;

/// No capture has more photos.
const MOST_PHOTOS: usize = 1_000_000_000;

/// Range of a number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    least: f64,
    /// True if `least` itself is excluded.
    open_below: bool,
    most: f64,
    /// True if `most` itself is excluded.
    open_above: bool,
}

impl Range {
    const fn closed(least: f64, most: f64) -> Self {
        Self {
            least,
            open_below: false,
            most,
            open_above: false,
        }
    }

    const fn above(least: f64, most: f64) -> Self {
        Self {
            open_below: true,
            ..Self::closed(least, most)
        }
    }

    const fn below(least: f64, most: f64) -> Self {
        Self {
            open_above: true,
            ..Self::closed(least, most)
        }
    }

    const fn between(least: f64, most: f64) -> Self {
        Self {
            open_above: true,
            ..Self::above(least, most)
        }
    }

    /// Returns true if `value` is in the range. NaN is in no range.
    fn holds(self, value: f64) -> bool {
        let from = match self.open_below {
            true => value > self.least,
            false => value >= self.least,
        };
        let to = match self.open_above {
            true => value < self.most,
            false => value <= self.most,
        };
        from && to
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let from = match self.open_below {
            true => "larger than",
            false => "at least",
        };
        let to = match self.open_above {
            true => "below",
            false => "at most",
        };
        let told = |v: f64| match v {
            1e-6..1e7 | 0.0 => format!("{v}"),
            _ => format!("{v:e}"),
        };
        write!(
            f,
            "{from} {} and {to} {}",
            told(self.least),
            told(self.most)
        )
    }
}

/// A number of a configuration: key, value, range and a further remark for the error.
pub(crate) type Entry = (&'static str, f64, Range, &'static str);

impl TrainConfig {
    /// Returns every number that is not a count, with its range.
    pub(crate) fn numbers(&self) -> Vec<Entry> {
        let (rates, densify) = (&self.learning_rates, &self.densify);
        let (appearance, depth, poses) = (&self.appearance, &self.depth, &self.poses);
        let rate = Range::closed(0.0, 10.0);
        let share = Range::above(0.0, 1.0);
        let keeps = ": 1 keeps it as it is";
        let off = ": depth.from = none turns depths off";
        let turns = ": beyond, a step turns a camera by degrees";
        let mut numbers = vec![
            (
                "initial_opacity",
                self.initial_opacity,
                Range::between(0.0, 1.0),
                "",
            ),
            (
                "initial_scale",
                self.initial_scale,
                Range::above(0.0, 1e3),
                "",
            ),
            ("near", self.near, Range::closed(0.0, 1e12), ""),
            ("ssim_weight", self.ssim_weight, Range::closed(0.0, 1.0), ""),
            (
                "perceptual_weight",
                self.perceptual_weight,
                Range::closed(0.0, 1e3),
                "",
            ),
            (
                "checkpoint_minutes",
                self.checkpoint_minutes,
                Range::closed(0.0, 1e6),
                "",
            ),
            (
                "densify.grow_gradient",
                densify.grow_gradient,
                Range::closed(0.0, 1e9),
                "",
            ),
            (
                "densify.split_scale",
                densify.split_scale,
                Range::closed(0.0, 1e9),
                "",
            ),
            (
                "densify.prune_opacity",
                densify.prune_opacity,
                Range::closed(0.0, 1.0),
                "",
            ),
            (
                "densify.prune_scale",
                densify.prune_scale,
                Range::closed(0.0, 1e9),
                "",
            ),
            (
                "densify.add",
                densify.add,
                Range::closed(0.0, 1.0),
                ": a round can double the Gaussians",
            ),
            ("dropout", self.dropout, Range::closed(0.0, 0.5), ""),
            ("densify.noise", densify.noise, Range::closed(0.0, 1e9), ""),
            (
                "densify.opacity_reg",
                densify.opacity_reg,
                Range::closed(0.0, 1e3),
                "",
            ),
            (
                "densify.scale_reg",
                densify.scale_reg,
                Range::closed(0.0, 1e3),
                "",
            ),
            (
                "densify.flat_reg",
                densify.flat_reg,
                Range::closed(0.0, 1e3),
                "",
            ),
            ("appearance.rate", appearance.rate, rate, ""),
            ("appearance.rate_final", appearance.rate_final, rate, ""),
            (
                "appearance.smoothness",
                appearance.smoothness,
                Range::closed(0.0, 1e6),
                "",
            ),
            (
                "appearance.identity",
                appearance.identity,
                Range::closed(0.0, 1e6),
                "",
            ),
            ("depth.weight", depth.weight, Range::above(0.0, 1e3), off),
            ("depth.decay", depth.decay, share, keeps),
            ("depth.unit", depth.unit, Range::above(0.0, 1e6), ""),
            ("learning_rates.means", rates.means, rate, ""),
            ("learning_rates.means_final", rates.means_final, rate, ""),
            ("learning_rates.scales", rates.scales, rate, ""),
            ("learning_rates.quats", rates.quats, rate, ""),
            ("learning_rates.opacities", rates.opacities, rate, ""),
            ("learning_rates.sh0", rates.sh0, rate, ""),
            ("learning_rates.sh_rest", rates.sh_rest, rate, ""),
            (
                "learning_rates.early",
                rates.early,
                Range::closed(1.0, 1e3),
                ": 1 keeps the rates as they are",
            ),
            (
                "data.coarse_until",
                self.data.coarse_until,
                Range::closed(0.0, 1.0),
                "",
            ),
            (
                "learning_rates.decay",
                rates.decay,
                share,
                ": 1 keeps the rates as they are",
            ),
            ("adam.beta1", self.adam.beta1, Range::below(0.0, 1.0), ""),
            ("adam.beta2", self.adam.beta2, Range::below(0.0, 1.0), ""),
            // A smaller value is zero on CPUs that flush subnormals, and 0 / 0 is NaN.
            (
                "adam.epsilon",
                self.adam.epsilon,
                Range::closed(1e-30, 1.0),
                "",
            ),
            ("poses.rate", poses.rate, Range::above(0.0, 0.1), turns),
            (
                "poses.decay",
                poses.decay,
                share,
                ": 1 keeps the rate as it is",
            ),
            ("poses.start", poses.start, Range::below(0.0, 1.0), ""),
        ];
        if let Background::Colour([red, green, blue]) = self.background {
            let unit = Range::closed(0.0, 1.0);
            numbers.extend([
                ("background (red)", red, unit, ""),
                ("background (green)", green, unit, ""),
                ("background (blue)", blue, unit, ""),
            ]);
        }
        numbers
    }

    /// Returns every count, with its least and largest value.
    fn counts(&self) -> Vec<(&'static str, u64, [u64; 2])> {
        let (data, densify) = (&self.data, &self.densify);
        let gaussians = [0, MOST_GAUSSIANS as u64];
        let photos = [0, MOST_PHOTOS as u64];
        // A step beyond the end of a run means never.
        let steps = [0, u64::from(u32::MAX)];
        let often = [1, u64::from(u32::MAX)];
        let wide = |n: u32| u64::from(n);
        let many = |n: usize| n as u64;
        let mut counts = vec![
            ("steps", wide(self.steps), [1, u64::from(MOST_STEPS)]),
            // TOML has no larger numbers.
            ("seed", self.seed, [0, i64::MAX as u64]),
            (
                "sh_degree",
                self.sh_degree.into(),
                [0, dapple_scene::MAX_SH_DEGREE.into()],
            ),
            ("sh_every", wide(self.sh_every), often),
            ("initial_gaussians", many(self.initial_gaussians), gaussians),
            ("max_gaussians", many(self.max_gaussians), gaussians),
            ("extensions", wide(self.extensions), [0, 8]),
            ("dropout_after", wide(self.dropout_after), steps),
            ("perceptual_crop", wide(self.perceptual_crop), [16, 4096]),
            ("log_every", wide(self.log_every), often),
            ("checkpoint_every", wide(self.checkpoint_every), steps),
            ("data.eval_every", many(data.eval_every), photos),
            ("data.downscale", wide(data.downscale), [1, 1024]),
            ("data.max_train_views", many(data.max_train_views), photos),
            ("data.max_eval_views", many(data.max_eval_views), photos),
            ("data.watch_every", many(data.watch_every), photos),
            ("densify.start", wide(densify.start), steps),
            ("densify.stop", wide(densify.stop), steps),
            ("densify.every", wide(densify.every), often),
            ("densify.reset_every", wide(densify.reset_every), steps),
            ("appearance.start", wide(self.appearance.start), steps),
            ("eval.every", wide(self.eval.every), steps),
        ];
        let scored = self.eval.steps.iter();
        counts.extend(scored.map(|&step| ("eval.steps", wide(step), often)));
        counts
    }

    /// Refuses the first number outside its range.
    pub(super) fn validate_ranges(&self) -> Result<()> {
        for (key, value, [least, most]) in self.counts() {
            if !(least..=most).contains(&value) {
                let size = if value < least { "small" } else { "large" };
                return Err(Error::input(format!("{key} = {value} is too {size}"))
                    .hint(format!("{key} must be at least {least} and at most {most}")));
            }
        }
        for (key, value, range, more) in self.numbers() {
            if !range.holds(value) {
                return Err(out_of_range(key, value, &format!("{range}{more}")));
            }
        }
        Ok(())
    }
}

pub(super) fn out_of_range(key: &str, value: f64, range: &str) -> Error {
    // 1e38, not a one with 38 zeros.
    let value = match value.abs() {
        1e-6..1e7 | 0.0 => format!("{value}"),
        _ => format!("{value:e}"),
    };
    Error::input(format!("{key} = {value} cannot be used")).hint(format!("{key} must be {range}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_its_ends_as_it_says() {
        let range = Range::above(0.0, 1.0);
        assert_eq!(range.to_string(), "larger than 0 and at most 1");
        assert!(!range.holds(0.0) && range.holds(1.0) && !range.holds(f64::NAN));
        let range = Range::below(0.0, 1.0);
        assert_eq!(range.to_string(), "at least 0 and below 1");
        assert!(range.holds(0.0) && !range.holds(1.0));
    }

    #[test]
    fn no_number_is_without_a_range() {
        let config = TrainConfig::default();
        let known: Vec<&str> = config
            .numbers()
            .iter()
            .map(|(key, ..)| *key)
            .chain(config.counts().iter().map(|(key, ..)| *key))
            .collect();
        // Bounded by the length of the run, by the size of photos, and by validate.rs.
        let others = [
            "schedule_steps",
            "stop_after",
            "max_gaussians_per_tile",
            "data.max_resolution",
        ];
        let text = config.to_toml().unwrap();
        let mut table = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('[') {
                table = format!("{}.", name.trim_end_matches(']'));
            }
            let Some((key, value)) = line.split_once(" = ") else {
                continue;
            };
            let key = format!("{table}{key}");
            if !line.starts_with('#') && value.parse::<f64>().is_ok() {
                assert!(
                    known.contains(&key.as_str()) || others.contains(&key.as_str()),
                    "{key} has no range"
                );
            }
        }
    }
}
