//! Runs with non-finite parameters: the splats that are saved, and the error message.
//!
//! 1. Engines check regularly whether parameters are finite. Code that copies splats to the host checks them too.
//! 2. A few non-finite Gaussians do not end a run: renders skip them, density control removes them, and files omit
//!    them. More than one in [`TOLERATED`] end the run, and so does a non-finite loss.
//! 3. The run ends with the last finite copy of its splats: from the first step, a scoring, or a checkpoint.
//! 4. The error names the tensors and the setting that differs most from its default.

use crate::{Ending, TrainConfig};
use dapple_base::settings::{Number, numbers};
use dapple_engine::NonFiniteReport;
use dapple_scene::Error;

/// One of this many Gaussians may be non-finite. A rare division by zero breaks single Gaussians; a fault of the run
/// breaks all Gaussians that a photo shows.
const TOLERATED: u64 = 1000;

/// Returns true if the share of non-finite Gaussians ends the run.
pub(crate) fn is_lost(found: Option<NonFiniteReport>, gaussians: u64) -> bool {
    found.is_some_and(|found| found.gaussians.saturating_mul(TOLERATED) > gaussians)
}

/// Returns the error of a run that ended for `ending`. `found` is the engine's report on its parameters, if it made
/// one.
pub(crate) fn error(ending: Ending, found: Option<NonFiniteReport>, config: &TrainConfig) -> Error {
    let (step, what) = match ending {
        Ending::NonFiniteLoss(step) => (step, "the loss".to_owned()),
        Ending::NonFinite(step) => (step, told(found)),
        other => {
            return other
                .error()
                .unwrap_or_else(|| Error::internal("a run that ended well has no error"));
        }
    };
    let error = Error::input(format!(
        "{what} became NaN or infinite by step {step}: training cannot continue"
    ));
    error.hint(match suspect(found, config) {
        Some((key, value, default)) => format!(
            "{key} = {value} is furthest from its default, {default}: begin again with one closer to it"
        ),
        None => "no setting is far from its default: look for broken photos, poses and depths with \
                 `dapple info --check`, and report it if they are sound"
            .to_owned(),
    })
}

fn told(found: Option<NonFiniteReport>) -> String {
    let Some(found) = found else {
        return "parameters".to_owned();
    };
    let names: Vec<&str> = found.names().collect();
    match found.gaussians {
        1 => format!("the {} of one Gaussian", names.join(", ")),
        n => format!("the {} of {n} Gaussians", names.join(", ")),
    }
}

/// A setting is suspect only if its ratio to the default is above this factor or below its inverse.
const FAR: f64 = 5.0;

/// Returns the setting that differs most from its default, by ratio: key, value, default. If `found` names tensors,
/// only the learning rates of these tensors count.
fn suspect(found: Option<NonFiniteReport>, config: &TrainConfig) -> Option<(String, f64, f64)> {
    let usual = config.unchanged();
    let counts = |key: &str| match (key.strip_prefix("learning_rates."), found) {
        (Some("decay"), _) => false,
        (Some(rate), Some(found)) => {
            let tensor = rate.trim_end_matches("_final");
            found.names().any(|name| name == tensor)
        }
        (Some(_), None) => true,
        (None, _) => match key.split_once('.') {
            Some(("depth", _)) => config.depth.from != crate::DepthSource::None,
            Some(("appearance", _)) => config.appearance.is_on(),
            Some(("poses", _)) => config.poses.refine,
            Some(("densify", name)) => {
                ["noise", "opacity_reg", "scale_reg", "flat_reg"].contains(&name)
            }
            Some(("adam", _)) => true,
            _ => ["initial_scale", "near"].contains(&key),
        },
    };
    let distance = |value: f64, default: f64| match (value > 0.0, default > 0.0) {
        (true, true) => (value / default).ln().abs(),
        // A weight that is off by default: 1 is a large one.
        (true, false) if default == 0.0 => value.ln_1p() + FAR.ln(),
        _ => 0.0,
    };
    let reals = |config: &TrainConfig| {
        let reals = numbers(config)
            .into_iter()
            .filter_map(|entry| match entry.number {
                Number::Real(value) => Some((entry.name(), value)),
                Number::Count(_) => None,
            });
        reals.collect::<Vec<_>>()
    };
    let pairs = reals(config).into_iter().zip(reals(&usual));
    pairs
        .filter(|((key, _), (other, _))| key == other && counts(key))
        // The near plane has no default before the capture is known.
        .filter(|((key, _), _)| *key != "near")
        .map(|((key, value), (_, default))| (distance(value, default), key, value, default))
        .filter(|(distance, ..)| *distance >= FAR.ln())
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, key, value, default)| (key, value, default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_gaussians_are_no_lost_run() {
        let found = |n| NonFiniteReport::new(n, 1);
        assert!(!is_lost(None, 0));
        assert!(!is_lost(found(1), 1000));
        assert!(is_lost(found(2), 1000));
        assert!(is_lost(found(1), 20));
    }

    #[test]
    fn the_setting_furthest_from_its_default_is_named() {
        let mut config = TrainConfig::for_steps(30_000);
        let scales = NonFiniteReport::new(9, 0b10);
        let hint = |config: &TrainConfig, found| {
            let error = error(Ending::NonFinite(50), found, config);
            assert!(error.what().contains("step 50"), "{error}");
            error.to_string()
        };
        let text = hint(&config, scales);
        assert!(text.contains("the scales of 9 Gaussians"), "{text}");
        assert!(text.contains("no setting is far"), "{text}");
        config.learning_rates.scales = 9.0;
        config.learning_rates.means = 9.0;
        let text = hint(&config, scales);
        assert!(text.contains("learning_rates.scales = 9"), "{text}");
        // The tensor is unknown for a non-finite loss: the rate of the centres is 56 000 times its default.
        let text = hint(&config, None);
        assert!(text.contains("learning_rates.means = 9"), "{text}");
        // A weight without effect is not suspect.
        config.depth.weight = 1000.0;
        assert!(!hint(&config, None).contains("depth"));
        config.depth.from = crate::DepthSource::Points;
        config.learning_rates = TrainConfig::for_steps(30_000).learning_rates;
        assert!(hint(&config, None).contains("depth.weight = 1000"));
    }
}
