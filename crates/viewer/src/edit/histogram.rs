//! Histogram of a property over Gaussians.
//!
//! 1. The bins reach from the 200th part of the values to the 200th from above. Values beyond are few and far; the
//!    first and the last bin count them.
//! 2. Non-finite values are in no bin.

use dapple_scene::Splats;
use dapple_scene::edit::Property;
use rayon::prelude::*;
use serde::Serialize;

/// Number of bins.
pub const BINS: usize = 64;

/// Part of the values below the first bin's end, and above the last's.
const BEYOND: f64 = 0.005;

/// Counts of values in bins of equal width.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Histogram {
    /// The property's name.
    pub property: String,
    /// Start of the first bin, which also counts smaller values.
    pub low: f64,
    /// End of the last bin, which also counts larger values.
    pub high: f64,
    /// Gaussians by bin, [`BINS`] of them.
    pub all: Vec<u64>,
    /// Selected Gaussians per bin.
    pub selected: Vec<u64>,
}

/// Computes the histogram of a property over all Gaussians that are not hidden. `hidden` and `selected` are `[N]`, or
/// empty if no Gaussian is.
pub fn histogram(
    splats: &Splats,
    property: Property,
    hidden: &[bool],
    selected: &[bool],
) -> Histogram {
    let is = |marks: &[bool], i: usize| marks.get(i).copied().unwrap_or(false);
    let values: Vec<(f64, bool)> = (0..splats.len())
        .into_par_iter()
        .filter(|&i| !is(hidden, i))
        .map(|i| (property.of(splats, &[], i), is(selected, i)))
        .filter(|(value, _)| value.is_finite())
        .collect();
    let mut sorted: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
    sorted.par_sort_unstable_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let at = |part: f64| sorted.get((part * last as f64).round() as usize).copied();
    let low = at(BEYOND).unwrap_or(0.0);
    let high = at(1.0 - BEYOND).unwrap_or(low).max(low);
    let mut counts = [vec![0; BINS], vec![0; BINS]];
    for (value, is_selected) in values {
        let part = if high > low {
            (value - low) / (high - low)
        } else {
            0.0
        };
        let bin = ((part * BINS as f64) as usize).min(BINS - 1);
        counts[0][bin] += 1;
        counts[1][bin] += u64::from(is_selected);
    }
    let [all, selected] = counts;
    Histogram {
        property: property.to_string(),
        low,
        high,
        all,
        selected,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]
mod tests {
    use super::*;

    fn splats(xs: &[f32]) -> Splats {
        let mut splats = Splats::empty(0);
        for &x in xs {
            splats.means.push([x, 0.0, 0.0]);
            splats.scales.push([-2.0; 3]);
            splats.quats.push([1.0, 0.0, 0.0, 0.0]);
            splats.opacities.push(0.0);
            splats.sh0.push([0.0; 3]);
        }
        splats
    }

    #[test]
    fn every_value_is_counted_once_and_strays_at_the_ends() {
        let mut xs: Vec<f32> = (0..=640).map(|i| i as f32 / 10.0).collect();
        xs.extend([-1e9, 1e9, f32::NAN, f32::INFINITY]);
        let mut hidden = vec![false; xs.len()];
        hidden[3] = true;
        let mut selected = vec![false; xs.len()];
        selected[100..200].fill(true);
        let x = Property::of_name("x").unwrap();
        let found = histogram(&splats(&xs), x, &hidden, &selected);
        assert_eq!(found.property, "x");
        assert!((0.0..0.5).contains(&found.low) && (63.5..=64.0).contains(&found.high));
        assert_eq!(found.all.iter().sum::<u64>(), 641 + 2 - 1);
        assert_eq!(found.selected.iter().sum::<u64>(), 100);
        // 10 to 20 in bins as wide as 1, and a little less.
        assert!(found.selected[..9].iter().all(|n| *n == 0), "{found:?}");
        assert!(found.selected[21..].iter().all(|n| *n == 0), "{found:?}");
        assert!(
            found.all[20..40].iter().all(|n| (9..=11).contains(n)),
            "{found:?}"
        );
    }

    #[test]
    fn equal_values_and_none_have_a_histogram_too() {
        let y = Property::of_name("y").unwrap();
        let equal = histogram(&splats(&[1.0, 2.0, 3.0]), y, &[], &[]);
        assert_eq!((equal.low, equal.high, equal.all[0]), (0.0, 0.0, 3));
        let none = histogram(&splats(&[]), y, &[], &[]);
        assert_eq!(none.all.iter().sum::<u64>(), 0);
    }
}
