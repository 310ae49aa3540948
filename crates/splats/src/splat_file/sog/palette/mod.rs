//! A palette of vectors: k-means for a million vectors and 65 536 entries on a few cores, or on a GPU.
//!
//! 1. Divide: vectors are assigned to cells around the means of a sample. Cells that need many entries are divided
//!    again, until a cell has a few hundred. The number of a cell's entries follows the geometric mean of its weight
//!    and of its error.
//! 2. Within all cells together: Lloyd's rounds ([`cells`]). An entry that is nearest to no vector moves to the vector
//!    with the largest error.
//! 3. Across cells, for some rounds: each vector is assigned to its nearest entry among its cell and the neighbouring
//!    cells, and entries move to their mean.
//! 4. The search compares whole numbers on a cell's [`grid`]; see [`NearestCentres`]. Sums are in the order of the
//!    vectors. So the result does not depend on the number of threads or on the device.

mod cells;
mod grid;
mod vectors;

pub(super) use vectors::Vectors;

use crate::splat_file::nearest::NearestCentres;
use crate::splat_file::watch::Watch;
use crate::{Progress, Result};
use cells::{Cells, lloyd};
use rayon::prelude::*;

/// A cell of fewer entries is not divided.
const LEAF_ENTRIES: usize = 512;

/// Target number of entries per cell after dividing.
const CELL_ENTRIES: usize = 256;

/// Number of vectors from which the division is computed.
const SAMPLE: usize = 1 << 15;

/// Rounds of dividing, and rounds across cells after the ones within.
const DIVIDING_ROUNDS: u32 = 6;
const ACROSS_ROUNDS: u32 = 3;

/// Number of cells in which a vector searches its entry.
const NEIGHBOURS: usize = 8;

/// Maximum depth of the division, for vectors that are all equal.
const DEEPEST: u32 = 6;

/// Entries, their cells and the cells' neighbours.
pub(super) struct Palette<'a> {
    vectors: Vectors<'a>,
    /// `[entries, dim]`.
    pub entries: Vec<f32>,
    cells: Cells<'a>,
    /// Ranges of the entries of each cell.
    own: Vec<std::ops::Range<usize>>,
    /// Nearest cells of each cell, itself first.
    next_to: Vec<Vec<usize>>,
}

impl<'a> Palette<'a> {
    /// Work of finding a palette: vectors compared with entries over all rounds, and the labels after it.
    pub(super) fn work(vectors: usize, rounds: u32) -> usize {
        (rounds.max(1) + ACROSS_ROUNDS.min(rounds) + 1) as usize * vectors
    }

    /// Finds at most `entries` entries for these vectors. If `watch` requests a stop, the method stops and the result
    /// is not a palette.
    ///
    /// # Errors
    /// Errors of the nearest-entry search.
    pub(super) fn fit(
        vectors: Vectors<'a>,
        entries: usize,
        rounds: u32,
        by: &'a dyn NearestCentres,
        watch: &Watch<'_>,
    ) -> Result<Self> {
        let (rows, shares): (Vec<Vec<u32>>, Vec<usize>) =
            divide(vectors, entries, by, &Quietly(watch))?
                .into_iter()
                .map(|part| (part.rows, part.entries))
                .unzip();
        let mut cells = Cells::load(vectors, rows, by)?;
        let of_cells = lloyd(&mut cells, &shares, rounds, watch)?;
        let (mut entries, mut own) = (Vec::new(), Vec::with_capacity(of_cells.len()));
        for found in of_cells {
            let first = entries.len() / vectors.dim;
            entries.extend(found);
            own.push(first..entries.len() / vectors.dim);
        }
        let mut palette = Self {
            vectors,
            entries,
            cells,
            own,
            next_to: Vec::new(),
        };
        palette.find_neighbours();
        for _ in 0..ACROSS_ROUNDS.min(rounds) {
            let labels = palette.labels(watch)?;
            move_to_means(vectors, &labels, &mut palette.entries);
        }
        Ok(palette)
    }

    fn find_neighbours(&mut self) {
        let dim = self.vectors.dim;
        let mut centres = Vec::with_capacity(self.own.len() * dim);
        for range in &self.own {
            let own = &self.entries[range.start * dim..range.end * dim];
            let many = range.len().max(1) as f32;
            centres.extend((0..dim).map(|k| own.iter().skip(k).step_by(dim).sum::<f32>() / many));
        }
        let distance = |a: usize, b: usize| -> f32 {
            let pairs = centres[a * dim..][..dim]
                .iter()
                .zip(&centres[b * dim..][..dim]);
            pairs.map(|(x, y)| (x - y) * (x - y)).sum()
        };
        self.next_to = (0..self.own.len())
            .into_par_iter()
            .map(|cell| {
                let mut others: Vec<(f32, usize)> = (0..self.own.len())
                    .map(|other| (distance(cell, other), other))
                    .collect();
                others.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                let mut near: Vec<usize> = others.into_iter().map(|(_, other)| other).collect();
                near.retain(|&other| other != cell);
                near.insert(0, cell);
                near.truncate(NEIGHBOURS);
                near
            })
            .collect();
    }

    /// Returns the entry of each vector, for the current entries.
    ///
    /// # Errors
    /// See [`Self::of`].
    pub(super) fn labels(&mut self, watch: &Watch<'_>) -> Result<Vec<u32>> {
        let Self {
            vectors,
            entries,
            cells,
            own,
            next_to,
        } = self;
        let dim = vectors.dim;
        let near = |cell: usize| next_to[cell].iter().map(|&other| own[other].clone());
        let candidates = |cell: usize| -> Vec<f32> {
            near(cell)
                .flat_map(|range| &entries[range.start * dim..range.end * dim])
                .copied()
                .collect()
        };
        let found = cells.nearest(&candidates, watch)?;
        let mut labels = vec![0u32; vectors.weights.len()];
        for cell in 0..cells.rows.len() {
            let names: Vec<u32> = near(cell).flatten().map(|entry| entry as u32).collect();
            for (row, place) in cells.with_labels(cell, &found) {
                labels[row as usize] = names[place];
            }
        }
        Ok(labels)
    }
}

/// Forwards requests to stop, and reports no progress.
struct Quietly<'a>(&'a Watch<'a>);

impl Progress for Quietly<'_> {
    fn start(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn finish(&self) {}
    fn should_stop(&self) -> bool {
        self.0.should_stop()
    }
}

/// A cell, and its number of entries.
struct Part {
    rows: Vec<u32>,
    entries: usize,
}

/// Divides vectors into cells with their numbers of entries; neighbours follow one another.
fn divide(
    vectors: Vectors<'_>,
    entries: usize,
    by: &dyn NearestCentres,
    progress: &dyn Progress,
) -> Result<Vec<Part>> {
    let count = vectors.weights.len();
    let mut parts = vec![Part {
        rows: (0..count as u32).collect(),
        entries: entries.min(count),
    }];
    for _ in 0..DEEPEST {
        let is_large = |part: &Part| part.entries > LEAF_ENTRIES;
        if !parts.iter().any(is_large) || progress.should_stop() {
            break;
        }
        let (large, small): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .enumerate()
            .partition(|(_, part)| is_large(part));
        let places: Vec<usize> = large.iter().map(|(place, _)| *place).collect();
        let large = large.into_iter().map(|(_, part)| part).collect();
        let divided = places.into_iter().zip(split(vectors, large, by, progress)?);
        // At the positions of the divided cells.
        let mut all: Vec<(usize, Vec<Part>)> = divided.collect();
        all.extend(small.into_iter().map(|(place, part)| (place, vec![part])));
        all.sort_by_key(|(place, _)| *place);
        parts = all.into_iter().flat_map(|(_, parts)| parts).collect();
    }
    Ok(parts)
}

/// Splits each of these cells.
fn split(
    vectors: Vectors<'_>,
    large: Vec<Part>,
    by: &dyn NearestCentres,
    progress: &dyn Progress,
) -> Result<Vec<Vec<Part>>> {
    let dim = vectors.dim;
    let sample = |part: &Part| -> Vec<u32> {
        let step = part.rows.len().div_ceil(SAMPLE);
        part.rows.iter().step_by(step).copied().collect()
    };
    let samples = large.iter().map(sample).collect();
    let into = large
        .iter()
        .map(|part| {
            (part.entries / CELL_ENTRIES)
                .next_power_of_two()
                .clamp(2, 256)
        })
        .collect::<Vec<_>>();
    let mut sampled = Cells::load(vectors, samples, by)?;
    let centres = lloyd(&mut sampled, &into, DIVIDING_ROUNDS, progress)?;
    drop(sampled);
    let (rows, entries): (Vec<_>, Vec<_>) = large
        .into_iter()
        .map(|part| (part.rows, part.entries))
        .unzip();
    let mut cells = Cells::load(vectors, rows, by)?;
    let labels = cells.nearest(&|cell| centres[cell].clone(), progress)?;
    let inner = |cell: usize| {
        let (centres, own) = (&centres[cell], cells.with_labels(cell, &labels));
        // Vectors, weight and error.
        let mut cells: Vec<(Vec<u32>, f64, f64)> =
            vec![(Vec::new(), 0.0, 0.0); centres.len() / dim];
        for (row, label) in own {
            let weight = f64::from(vectors.weights[row as usize]);
            let error = vectors.distance(row, &centres[label * dim..][..dim]);
            let cell = &mut cells[label];
            cell.0.push(row);
            cell.1 += weight;
            cell.2 += weight * f64::from(error);
        }
        cells.retain(|cell| !cell.0.is_empty());
        let sizes: Vec<usize> = cells.iter().map(|cell| cell.0.len()).collect();
        let deserts = cells
            .iter()
            .map(|(_, weight, error)| (weight * error).sqrt());
        let shares = share_out(&sizes, &deserts.collect::<Vec<_>>(), entries[cell]);
        let parts = cells.into_iter().zip(shares);
        parts
            .map(|((rows, ..), entries)| Part { rows, entries })
            .collect()
    };
    Ok((0..entries.len()).into_par_iter().map(inner).collect())
}

/// Distributes entries over cells: at least one, at most as many as the cell has vectors, in proportion to `deserts`.
/// Never more than `entries` in total, which is at least the number of cells.
fn share_out(sizes: &[usize], deserts: &[f64], entries: usize) -> Vec<usize> {
    let mut shares = vec![1usize; sizes.len()];
    let mut left = entries.saturating_sub(sizes.len());
    let mut open: Vec<usize> = (0..sizes.len()).filter(|&i| sizes[i] > 1).collect();
    while left > 0 && !open.is_empty() {
        let all: f64 = open.iter().map(|&i| deserts[i]).sum();
        let pool = left;
        for &i in &open {
            let wish = match all > 0.0 {
                true => (pool as f64 * deserts[i] / all) as usize,
                false => pool / open.len(),
            };
            let more = wish.min(sizes[i] - shares[i]).min(left);
            shares[i] += more;
            left -= more;
        }
        let before = open.len();
        open.retain(|&i| shares[i] < sizes[i]);
        // Only small remainders are left: one entry each.
        if left > 0 && (open.len() == before || left < before) {
            for &i in open.iter().take(left) {
                shares[i] += 1;
            }
            left -= open.len().min(left);
            if left < before {
                break;
            }
            open.retain(|&i| shares[i] < sizes[i]);
        }
    }
    shares
}

/// Moves every entry to the mean of its vectors.
fn move_to_means(vectors: Vectors<'_>, labels: &[u32], entries: &mut [f32]) {
    let dim = vectors.dim;
    let count = entries.len() / dim;
    // Vectors by entry, in their order: a counting sort.
    let mut starts = vec![0usize; count + 1];
    labels
        .iter()
        .for_each(|&label| starts[label as usize + 1] += 1);
    for k in 0..count {
        starts[k + 1] += starts[k];
    }
    let mut rows = vec![0u32; labels.len()];
    let mut next = starts.clone();
    for (row, &label) in labels.iter().enumerate() {
        rows[next[label as usize]] = row as u32;
        next[label as usize] += 1;
    }
    entries
        .par_chunks_mut(dim)
        .enumerate()
        .for_each(|(k, entry)| {
            let own = &rows[starts[k]..starts[k + 1]];
            let mut sum = vec![0.0f64; dim];
            let mut mass = 0.0;
            for &row in own {
                let weight = f64::from(vectors.weights[row as usize]);
                mass += weight;
                let point = &vectors.values[row as usize * dim..][..dim];
                for (sum, &value) in sum.iter_mut().zip(point) {
                    *sum += weight * f64::from(value);
                }
            }
            if mass > 0.0 {
                for (value, sum) in entry.iter_mut().zip(sum) {
                    *value = (sum / mass) as f32;
                }
            }
        });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::NoProgress;
    use crate::splat_file::nearest::OnCpu;

    fn unwatched() -> Watch<'static> {
        Watch::start(&NoProgress, "", 0, 1)
    }

    fn noise(count: usize) -> Vec<f32> {
        let mut state = 1u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    fn error(palette: &mut Palette<'_>) -> f32 {
        let vectors = palette.vectors;
        let labels = palette.labels(&unwatched()).unwrap();
        let near = vectors.values.chunks_exact(vectors.dim).zip(labels);
        near.map(|(v, label)| {
            let entry = &palette.entries[label as usize * vectors.dim..][..vectors.dim];
            v.iter()
                .zip(entry)
                .map(|(a, b)| (a - b) * (a - b))
                .sum::<f32>()
        })
        .sum::<f32>()
            / vectors.weights.len() as f32
    }

    #[test]
    fn as_many_entries_as_vectors_are_the_vectors() {
        let values = noise(9 * 300);
        let vectors = Vectors {
            values: &values,
            dim: 9,
            weights: &[1.0; 300],
        };
        let mut palette = Palette::fit(vectors, 300, 4, &OnCpu, &unwatched()).unwrap();
        assert_eq!(palette.entries, values);
        assert_eq!(
            palette.labels(&unwatched()).unwrap(),
            (0..300).collect::<Vec<u32>>()
        );
    }

    #[test]
    fn clusters_are_found_and_entries_used_on_any_number_of_threads() {
        // 2000 places, 10 vectors around each.
        let (places, count) = (noise(9 * 2000), 20_000);
        let offsets = noise(9 * count);
        let values: Vec<f32> = (0..9 * count)
            .map(|i| places[i % (9 * 2000)] + 0.01 * (offsets[i] - 0.5))
            .collect();
        let weights = vec![1.0; count];
        let vectors = Vectors {
            values: &values,
            dim: 9,
            weights: &weights,
        };
        let of = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.map(|pool| {
                pool.install(|| Palette::fit(vectors, 4096, 10, &OnCpu, &unwatched()).unwrap())
            })
            .ok()
        };
        let (one, three) = (of(1), of(3));
        let (Some(mut one), Some(mut three)) = (one, three) else {
            panic!("no threads");
        };
        assert!(
            one.entries == three.entries
                && one.labels(&unwatched()).unwrap() == three.labels(&unwatched()).unwrap()
        );
        assert!(one.entries.len() <= 4096 * 9);
        // Noise of 0.01 on nine axes has a variance of 9 * 0.01^2 / 12 = 7.5e-5; places are 0.5 apart.
        let error = error(&mut one);
        assert!(error < 1.2e-4, "{error}");
    }

    #[test]
    fn vectors_that_are_alike_share_an_entry() {
        let mut values = vec![0.5f32; 9 * 40_000];
        values[9 * 777..][..9].fill(-1.0);
        let vectors = Vectors {
            values: &values,
            dim: 9,
            weights: &[1.0; 40_000],
        };
        let mut palette = Palette::fit(vectors, 5000, 10, &OnCpu, &unwatched()).unwrap();
        assert!(palette.entries.len() <= 9 * 64, "{}", palette.entries.len());
        assert_eq!(error(&mut palette), 0.0);
    }
}
