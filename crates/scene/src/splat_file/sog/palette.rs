//! A palette of vectors: k-means for a million vectors and 65 536 entries on a few cores.
//!
//! 1. Divide: vectors fall into cells around the means of a sample, cells that deserve many entries again, until a
//!    cell has a few hundred. A cell deserves by the geometric mean of its weight and of its error.
//! 2. Within a cell: Lloyd's rounds. An entry that nobody is nearest to moves to the vector that is worst off.
//! 3. Across cells: each vector looks for its nearest entry among its cell and those next to it, and entries move to
//!    their mean; some rounds.
//! 4. Distances come from matrix products, |c|^2 - 2 x.c, block by block; sums go in the order of the vectors. So
//!    nothing depends on the number of threads.

use crate::splat_file::watch::Watch;
use rayon::prelude::*;

/// A cell of fewer entries is not divided.
const LEAF_ENTRIES: usize = 512;

/// Entries that a cell is meant to have after dividing.
const CELL_ENTRIES: usize = 256;

/// Vectors that the division is found on.
const SAMPLE: usize = 1 << 15;

/// Rounds of dividing, and those across cells after the ones within.
const DIVIDING_ROUNDS: u32 = 6;
const ACROSS_ROUNDS: u32 = 3;

/// Cells in which a vector looks for its entry.
const NEIGHBOURS: usize = 8;

/// Vectors whose products are made at a time.
const BLOCK: usize = 128;

/// How deep cells are divided: a guard against vectors that are all alike.
const DEEPEST: u32 = 6;

/// Vectors, `[N, dim]`, and what each counts.
#[derive(Clone, Copy)]
pub(super) struct Vectors<'a> {
    pub values: &'a [f32],
    pub dim: usize,
    pub weights: &'a [f32],
}

impl Vectors<'_> {
    fn gather(&self, rows: &[u32]) -> Vec<f32> {
        let mut out = Vec::with_capacity(rows.len() * self.dim);
        for &row in rows {
            out.extend_from_slice(&self.values[row as usize * self.dim..][..self.dim]);
        }
        out
    }
}

/// Entries and who is near.
pub(super) struct Palette {
    dim: usize,
    /// `[entries, dim]`.
    pub entries: Vec<f32>,
    cells: Vec<Cell>,
    /// Of each cell, the nearest ones, itself first.
    next_to: Vec<Vec<usize>>,
}

struct Cell {
    rows: Vec<u32>,
    /// Which of the entries are its own.
    entries: std::ops::Range<usize>,
}

impl Palette {
    /// What finding one takes, in vectors that are compared with entries, and the labels after it.
    pub(super) fn work(vectors: usize, rounds: u32) -> usize {
        (rounds.max(1) + ACROSS_ROUNDS.min(rounds) + 1) as usize * vectors
    }

    /// At most `entries` for these vectors. On request it stops, and what it gives then is no palette.
    pub(super) fn of(vectors: Vectors<'_>, entries: usize, rounds: u32, watch: &Watch<'_>) -> Self {
        let count = vectors.weights.len();
        let rows = (0..count as u32).collect();
        let leaves = divide(vectors, rows, entries.min(count), (rounds, watch), 0);
        let mut palette = Self {
            dim: vectors.dim,
            entries: Vec::new(),
            cells: Vec::new(),
            next_to: Vec::new(),
        };
        for (rows, own) in leaves {
            let first = palette.entries.len() / vectors.dim;
            palette.entries.extend(own);
            palette.cells.push(Cell {
                rows,
                entries: first..palette.entries.len() / vectors.dim,
            });
        }
        palette.find_neighbours();
        for _ in 0..ACROSS_ROUNDS.min(rounds) {
            let labels = palette.labels(vectors, watch);
            move_to_means(vectors, &labels, &mut palette.entries);
        }
        palette
    }

    fn find_neighbours(&mut self) {
        let dim = self.dim;
        let mut centres = Vec::with_capacity(self.cells.len() * dim);
        for cell in &self.cells {
            let own = &self.entries[cell.entries.start * dim..cell.entries.end * dim];
            let many = cell.entries.len().max(1) as f32;
            centres.extend((0..dim).map(|k| own.iter().skip(k).step_by(dim).sum::<f32>() / many));
        }
        let distance = |a: usize, b: usize| -> f32 {
            let pairs = centres[a * dim..][..dim]
                .iter()
                .zip(&centres[b * dim..][..dim]);
            pairs.map(|(x, y)| (x - y) * (x - y)).sum()
        };
        self.next_to = (0..self.cells.len())
            .into_par_iter()
            .map(|cell| {
                let mut others: Vec<(f32, usize)> = (0..self.cells.len())
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

    /// The entry of each vector, as entries are now.
    pub(super) fn labels(&self, vectors: Vectors<'_>, watch: &Watch<'_>) -> Vec<u32> {
        let dim = self.dim;
        let of_cells: Vec<Vec<u32>> = self
            .cells
            .par_iter()
            .zip(&self.next_to)
            .map(|(cell, near)| {
                let mut candidates = Vec::new();
                let mut names = Vec::new();
                for &other in near {
                    let range = self.cells[other].entries.clone();
                    candidates.extend_from_slice(&self.entries[range.start * dim..range.end * dim]);
                    names.extend(range.map(|entry| entry as u32));
                }
                let found = nearest(&vectors.gather(&cell.rows), &candidates, dim);
                watch.advance(cell.rows.len());
                found
                    .into_iter()
                    .map(|(place, _)| names[place as usize])
                    .collect()
            })
            .collect();
        let mut labels = vec![0u32; vectors.weights.len()];
        for (cell, found) in self.cells.iter().zip(of_cells) {
            for (&row, label) in cell.rows.iter().zip(found) {
                labels[row as usize] = label;
            }
        }
        labels
    }
}

/// Cells with their vectors and entries.
type Leaves = Vec<(Vec<u32>, Vec<f32>)>;

fn divide(
    vectors: Vectors<'_>,
    rows: Vec<u32>,
    entries: usize,
    (rounds, watch): (u32, &Watch<'_>),
    depth: u32,
) -> Leaves {
    let dim = vectors.dim;
    if entries <= LEAF_ENTRIES || depth >= DEEPEST {
        let points = vectors.gather(&rows);
        let weights: Vec<f32> = rows
            .iter()
            .map(|&row| vectors.weights[row as usize])
            .collect();
        let own = match watch.should_stop() {
            true => points[..entries.min(rows.len()) * dim].to_vec(),
            false => lloyd(&points, &weights, dim, entries, rounds),
        };
        watch.advance(rows.len() * rounds.max(1) as usize);
        return vec![(rows, own)];
    }
    let parts = (entries / CELL_ENTRIES).next_power_of_two().clamp(2, 256);
    let step = rows.len().div_ceil(SAMPLE);
    let sample: Vec<u32> = rows.iter().step_by(step).copied().collect();
    let weights: Vec<f32> = sample
        .iter()
        .map(|&row| vectors.weights[row as usize])
        .collect();
    let centres = lloyd(
        &vectors.gather(&sample),
        &weights,
        dim,
        parts,
        DIVIDING_ROUNDS,
    );
    let mut cells: Vec<(Vec<u32>, f64, f64)> = vec![(Vec::new(), 0.0, 0.0); centres.len() / dim];
    for chunk in rows.chunks(1 << 16) {
        let found = nearest(&vectors.gather(chunk), &centres, dim);
        for (&row, (cell, error)) in chunk.iter().zip(found) {
            let weight = f64::from(vectors.weights[row as usize]);
            let cell = &mut cells[cell as usize];
            cell.0.push(row);
            cell.1 += weight;
            cell.2 += weight * f64::from(error.max(0.0));
        }
    }
    cells.retain(|cell| !cell.0.is_empty());
    let deserts: Vec<f64> = cells
        .iter()
        .map(|(_, weight, error)| (weight * error).sqrt())
        .collect();
    let shares = share_out(
        &cells.iter().map(|c| c.0.len()).collect::<Vec<_>>(),
        &deserts,
        entries,
    );
    let parts: Vec<Leaves> = cells
        .into_par_iter()
        .zip(shares)
        .map(|((rows, _, _), entries)| divide(vectors, rows, entries, (rounds, watch), depth + 1))
        .collect();
    parts.into_iter().flatten().collect()
}

/// Entries for each cell: at least one, at most as many as it has vectors, by what it deserves; never more than
/// `entries` together, which are at least as many as the cells.
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
        // Only crumbs are left: one each.
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

/// `entries` means of points, `[entries, dim]`.
fn lloyd(points: &[f32], weights: &[f32], dim: usize, entries: usize, rounds: u32) -> Vec<f32> {
    let count = weights.len();
    let entries = entries.clamp(1, count.max(1));
    if entries == count {
        return points.to_vec();
    }
    let mut centres = seeds(points, weights, dim, entries);
    for _ in 0..rounds.max(1) {
        let found = nearest(points, &centres, dim);
        let mut sums = vec![0.0f64; entries * dim];
        let mut mass = vec![0.0f64; entries];
        for (row, &(entry, _)) in found.iter().enumerate() {
            let weight = f64::from(weights[row]);
            let entry = entry as usize;
            mass[entry] += weight;
            let point = &points[row * dim..][..dim];
            for (sum, &value) in sums[entry * dim..][..dim].iter_mut().zip(point) {
                *sum += weight * f64::from(value);
            }
        }
        let idle: Vec<usize> = (0..entries).filter(|&k| mass[k] == 0.0).collect();
        let mut worst: Vec<(f32, usize)> = Vec::new();
        if !idle.is_empty() {
            let errors = found
                .iter()
                .zip(weights)
                .map(|(&(_, error), weight)| error * weight);
            worst = errors.zip(0..).collect();
            worst.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        for k in (0..entries).filter(|&k| mass[k] > 0.0) {
            for d in 0..dim {
                centres[k * dim + d] = (sums[k * dim + d] / mass[k]) as f32;
            }
        }
        for (k, (_, row)) in idle.into_iter().zip(worst) {
            centres[k * dim..][..dim].copy_from_slice(&points[row * dim..][..dim]);
        }
    }
    centres
}

/// Beginnings that lie apart (k-means++, Arthur and Vassilvitskii 2007): each next one is drawn by the squared
/// distance to those before, with numbers that are always the same.
fn seeds(points: &[f32], weights: &[f32], dim: usize, entries: usize) -> Vec<f32> {
    let mut errors: Vec<f32> = vec![f32::INFINITY; weights.len()];
    let mut centres = Vec::with_capacity(entries * dim);
    let mut row = weights.len() / 2;
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for _ in 0..entries {
        let seed = &points[row * dim..][..dim];
        centres.extend_from_slice(seed);
        let mut all = 0.0f64;
        for ((error, point), weight) in errors.iter_mut().zip(points.chunks_exact(dim)).zip(weights)
        {
            let distance: f32 = point.iter().zip(seed).map(|(a, b)| (a - b) * (a - b)).sum();
            *error = error.min(distance);
            all += f64::from(*error * weight);
        }
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mut left = (state >> 11) as f64 / (1u64 << 53) as f64 * all;
        let found = errors.iter().zip(weights).position(|(error, weight)| {
            left -= f64::from(*error * weight);
            left < 0.0
        });
        row = found.unwrap_or(weights.len() - 1);
    }
    centres
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

/// The nearest centre of each point and the squared distance, the first of equals.
fn nearest(points: &[f32], centres: &[f32], dim: usize) -> Vec<(u32, f32)> {
    let count = centres.len() / dim;
    let norms: Vec<f32> = centres
        .chunks_exact(dim)
        .map(|c| c.iter().map(|v| v * v).sum())
        .collect();
    let blocks: Vec<Vec<(u32, f32)>> = points
        .par_chunks(BLOCK * dim)
        .map(|block| {
            let rows = block.len() / dim;
            let mut products = vec![0.0f32; rows * count];
            // SAFETY: `block` is [rows, dim], `centres` [count, dim] read as its transpose, `products` [rows, count],
            // each with the strides that are given.
            unsafe {
                matrixmultiply::sgemm(
                    rows,
                    dim,
                    count,
                    -2.0,
                    block.as_ptr(),
                    dim as isize,
                    1,
                    centres.as_ptr(),
                    1,
                    dim as isize,
                    0.0,
                    products.as_mut_ptr(),
                    count as isize,
                    1,
                );
            }
            let rows = products.chunks_exact(count).zip(block.chunks_exact(dim));
            rows.map(|(products, point)| {
                let mut best = (0u32, f32::INFINITY);
                for (k, (product, norm)) in products.iter().zip(&norms).enumerate() {
                    let distance = product + norm;
                    if distance < best.1 {
                        best = (k as u32, distance);
                    }
                }
                let own: f32 = point.iter().map(|v| v * v).sum();
                (best.0, (best.1 + own).max(0.0))
            })
            .collect()
        })
        .collect();
    blocks.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoProgress;

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

    fn error(vectors: Vectors<'_>, palette: &Palette) -> f32 {
        let labels = palette.labels(vectors, &unwatched());
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
        let palette = Palette::of(vectors, 300, 4, &unwatched());
        assert_eq!(palette.entries, values);
        assert_eq!(
            palette.labels(vectors, &unwatched()),
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
            pool.map(|pool| pool.install(|| Palette::of(vectors, 4096, 10, &unwatched())))
                .ok()
        };
        let (one, three) = (of(1), of(3));
        let (Some(one), Some(three)) = (one, three) else {
            panic!("no threads");
        };
        assert!(
            one.entries == three.entries
                && one.labels(vectors, &unwatched()) == three.labels(vectors, &unwatched())
        );
        assert!(one.entries.len() <= 4096 * 9);
        // Noise of 0.01 on nine axes has a variance of 9 * 0.01^2 / 12 = 7.5e-5; places are 0.5 apart.
        let error = error(vectors, &one);
        assert!(error < 1.2e-4, "{error}");
    }
}
