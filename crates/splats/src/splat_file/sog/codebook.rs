//! Codebook of 256 values for many: an optimal quantiser in one dimension.
//!
//! 1. Sort the values and put them into bins along a blend of rank and value: by rank where they are dense, by value so
//!    that the rare ends have bins too.
//! 2. A bin weighs the square root of its count, so that the ends, which are large or bright Gaussians, get entries.
//! 3. Choose 256 runs of bins with the least weighted squared error: dynamic programming. The best beginning of a run
//!    moves to the right with its end, so that each layer takes n log n.

use rayon::prelude::*;

/// Number of entries.
pub(super) const ENTRIES: usize = 256;

const BINS: usize = 2048;

/// Entries, ascending; [`ENTRIES`] of them.
pub(super) struct Codebook(pub Vec<f32>);

impl Codebook {
    /// Computes the codebook of these values. Only non-finite values are ignored.
    pub(super) fn from_values(mut values: Vec<f32>) -> Self {
        values.retain(|v| v.is_finite());
        values.par_sort_unstable_by(f32::total_cmp);
        let bins = bins(&values);
        let mut centres = match bins.len() <= ENTRIES {
            true => bins.iter().map(|bin| bin.mean).collect(),
            false => runs(&bins),
        };
        let last = centres.last().copied().unwrap_or(0.0);
        centres.resize(ENTRIES, last);
        Self(centres.into_iter().map(|c| c as f32).collect())
    }

    /// Returns the index of the nearest entry.
    pub(super) fn nearest(&self, value: f32) -> u8 {
        let after = self.0.partition_point(|&c| c < value).min(ENTRIES - 1);
        let before = after.saturating_sub(1);
        let nearer = match (value - self.0[before]).abs() <= (self.0[after] - value).abs() {
            true => before,
            false => after,
        };
        nearer as u8
    }
}

struct Bin {
    mean: f64,
    weight: f64,
}

fn bins(sorted: &[f32]) -> Vec<Bin> {
    let (Some(&low), Some(&high)) = (sorted.first(), sorted.last()) else {
        return Vec::new();
    };
    let (low, range) = (f64::from(low), f64::from(high) - f64::from(low));
    let at = |share: f64| f64::from(sorted[(share * (sorted.len() - 1) as f64) as usize]);
    // The narrower the middle half compared with the whole, the more the rank counts.
    let narrow = 1.0 - (at(0.75) - at(0.25)) / range.max(f64::MIN_POSITIVE);
    let by_rank = narrow.clamp(0.5, 0.999);
    let mut bins: Vec<Bin> = Vec::new();
    let mut current = usize::MAX;
    for (i, &value) in sorted.iter().enumerate() {
        let value = f64::from(value);
        let rank = i as f64 / sorted.len() as f64;
        let share = by_rank * rank + (1.0 - by_rank) * (value - low) / range.max(f64::MIN_POSITIVE);
        let bin = (share * BINS as f64) as usize;
        if bin != current {
            bins.push(Bin {
                mean: 0.0,
                weight: 0.0,
            });
            current = bin;
        }
        if let Some(bin) = bins.last_mut() {
            bin.mean += value;
            bin.weight += 1.0;
        }
    }
    for bin in &mut bins {
        bin.mean /= bin.weight;
        bin.weight = bin.weight.sqrt();
    }
    bins
}

/// Prefix sums over the bins: of weights, of weighted means, of weighted squares.
struct Sums(Vec<[f64; 3]>);

impl Sums {
    /// Computes the squared error of one centre for bins `from..to`.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let (a, b) = (self.0[from], self.0[to]);
        let [weight, first, second] = [b[0] - a[0], b[1] - a[1], b[2] - a[2]];
        (second - first * first / weight).max(0.0)
    }
}

/// Returns the centres of the best [`ENTRIES`] runs.
fn runs(bins: &[Bin]) -> Vec<f64> {
    let n = bins.len();
    let mut sums = Sums(vec![[0.0; 3]; n + 1]);
    for (i, bin) in bins.iter().enumerate() {
        let [w, f, s] = sums.0[i];
        let first = bin.weight * bin.mean;
        sums.0[i + 1] = [w + bin.weight, f + first, s + first * bin.mean];
    }
    // best[to]: the least error of the bins before `to`, in the number of runs of this layer.
    let mut best: Vec<f64> = (0..=n)
        .map(|to| if to == 0 { 0.0 } else { sums.cost(0, to) })
        .collect();
    let mut starts = vec![vec![0u16; n + 1]];
    for layer in 1..ENTRIES {
        let mut next = vec![f64::INFINITY; n + 1];
        let mut start = vec![0u16; n + 1];
        // Remaining ends, with the range of their possible beginnings.
        let mut todo = vec![(layer + 1, n + 1, layer, n)];
        while let Some((low, high, first, last)) = todo.pop() {
            if low >= high {
                continue;
            }
            let end = (low + high) / 2;
            let mut found = (f64::INFINITY, first);
            let runs = best.iter().enumerate().skip(first);
            for (from, before) in runs.take((last.min(end - 1) + 1).saturating_sub(first)) {
                let cost = before + sums.cost(from, end);
                if cost < found.0 {
                    found = (cost, from);
                }
            }
            next[end] = found.0;
            start[end] = found.1 as u16;
            todo.push((low, end, first, found.1));
            todo.push((end + 1, high, found.1, last));
        }
        best = next;
        starts.push(start);
    }
    let mut centres = Vec::with_capacity(ENTRIES);
    let mut to = n;
    for start in starts.iter().rev() {
        let from = usize::from(start[to]);
        let (a, b) = (sums.0[from], sums.0[to]);
        centres.push((b[1] - a[1]) / (b[0] - a[0]));
        to = from;
    }
    centres.reverse();
    centres
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_themselves_and_many_are_near() {
        let few = Codebook::from_values((0..256).map(|i| (i * i) as f32).collect());
        assert!((0..256).all(|i| few.0[i] == (i * i) as f32), "{:?}", few.0);
        let values: Vec<f32> = (0..100_000)
            .map(|i| ((i as f32 * 0.618).fract() * 2.0 - 1.0).powi(3) * 7.0)
            .collect();
        let book = Codebook::from_values(values.clone());
        assert!(book.0.is_sorted());
        let error: f32 = values
            .iter()
            .map(|&v| (v - book.0[usize::from(book.nearest(v))]).powi(2))
            .sum::<f32>()
            / values.len() as f32;
        // Equal steps over the range would have an error of (14 / 256)^2 / 12.
        assert!(error < 0.5 * (14.0f32 / 256.0).powi(2) / 12.0, "{error}");
        let brute = |v: f32| {
            (0..256)
                .map(|i| (book.0[i] - v).abs())
                .fold(f32::MAX, f32::min)
        };
        for v in [-8.0, -0.3, 0.0, 0.001, 9.0] {
            assert_eq!((book.0[usize::from(book.nearest(v))] - v).abs(), brute(v));
        }
        assert_eq!(Codebook::from_values(Vec::new()).0, vec![0.0; 256]);
    }
}
