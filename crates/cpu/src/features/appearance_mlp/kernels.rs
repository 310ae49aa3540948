//! Appearance MLP: applies one photo's appearance to the Gaussians, and trains the network, the embedding and the
//! features. Reference: `dapple_reference::appearance_mlp`.
//!
//! 1. Before `project`, [`run`] copies the Gaussians with the colours of the photo's appearance. These colours are SH
//!    too, so `project` and the backward pass need no change.
//! 2. `update` runs the backward pass through the copy. It scales the derivatives by the colours with the gains, and
//!    writes the derivatives by gains and offsets: [`MlpColourBlocks`].
//! 3. After `update`, [`step`] sums the Gaussians' contributions to the network's gradient, chunk by chunk in order,
//!    and takes Adam's step. The features of visible Gaussians take their steps too.

use crate::blocks::{Blocks, component};
use crate::model::Model;
use crate::simd::{ROW, Row, Splat, V, each};
use dapple_engine::appearance_mlp::{self, ENCODED, FEATURES, FeatureStep, OUTPUTS, Sums};
use dapple_engine::{Adam, AppearanceMlp, AppearanceMlpSettings};
use pulp::Simd;
use rayon::prelude::*;

pub use dapple_engine::appearance_mlp::Prepared;

/// Blocks of one task of [`run`] and [`step`]. Fixed, so that sums do not depend on the number of threads.
const CHUNK_BLOCKS: usize = 256;

/// Gaussians with the appearance of one photo.
#[derive(Debug, Default)]
pub struct MlpColours {
    /// Gaussians with the colours of the photo's appearance.
    pub params: Blocks,
    /// Encoded centres before the step, `[N rounded up to blocks]`: `update` moves the centres.
    encoded: Vec<[f32; ENCODED]>,
    /// Gains and offsets, `[blocks, OUTPUTS]`.
    affine: Vec<Row>,
    /// Derivatives by gains and offsets, `[blocks, OUTPUTS]`.
    by_affine: Vec<Row>,
}

/// Part of [`MlpColours`] for one task of `update`.
pub struct MlpColourBlocks<'a> {
    /// Part of [`Blocks::rows`].
    params: &'a [Row],
    affine: &'a [Row],
    by_affine: &'a mut [Row],
    components: usize,
}

/// Computes step 1.
pub fn run(prepared: &Prepared, params: &Blocks, looked: &mut MlpColours) {
    let n = params.components;
    let blocks = params.count();
    (looked.params.components, looked.params.features) = (n, params.features);
    looked.params.len = params.len;
    looked.params.rows.resize(params.rows.len(), Row::ZERO);
    looked.encoded.resize(blocks * ROW, [0.0; ENCODED]);
    looked.affine.resize(blocks * OUTPUTS, Row::ZERO);
    looked.by_affine.resize(blocks * OUTPUTS, Row::ZERO);
    looked.by_affine.fill(Row::ZERO);
    let outputs = looked
        .params
        .rows
        .par_chunks_mut(n)
        .zip(looked.encoded.par_chunks_mut(ROW))
        .zip(looked.affine.par_chunks_mut(OUTPUTS))
        .with_min_len(CHUNK_BLOCKS);
    let blocks = params.rows.par_chunks(n).zip(outputs);
    blocks.for_each(|(block, ((out, encoded), affine))| {
        // Compiled for the vectors of this CPU.
        pulp::Arch::new().dispatch(|| look_at(prepared, block, out, encoded, affine));
    });
}

/// Computes step 1 for a block.
#[inline(always)]
fn look_at(
    prepared: &Prepared,
    block: &[Row],
    out: &mut [Row],
    encoded: &mut [[f32; ENCODED]],
    affine: &mut [Row],
) {
    for (lane, encoded) in encoded.iter_mut().enumerate() {
        let mean = [0, 1, 2].map(|i| block[component::MEAN + i].0[lane]);
        let features = block.len() - FEATURES;
        let own = std::array::from_fn(|f| block[features + f].0[lane]);
        *encoded = prepared.encode(mean, own);
        let own = prepared.affine(&prepared.hidden(encoded));
        for (row, value) in affine.iter_mut().zip(own) {
            row.0[lane] = value;
        }
    }
    out[..component::SH].copy_from_slice(&block[..component::SH]);
    let features = out.len() - FEATURES;
    let harmonics = out[component::SH..features].iter_mut();
    for (k, (row, from)) in harmonics.zip(&block[component::SH..]).enumerate() {
        let (gain, offset) = (&affine[k % 3], &affine[3 + k % 3]);
        for lane in 0..ROW {
            let added = match k {
                0..3 => appearance_mlp::added(gain.0[lane], offset.0[lane]),
                _ => 0.0,
            };
            row.0[lane] = (1.0 + gain.0[lane]).mul_add(from.0[lane], added);
        }
    }
}

impl MlpColours {
    /// Splits into parts of `blocks` blocks, one for each task.
    pub fn chunks(&mut self, blocks: usize) -> impl Iterator<Item = MlpColourBlocks<'_>> {
        let components = self.params.components;
        let params = self.params.rows.chunks(blocks * components);
        let affine = self.affine.chunks(blocks * OUTPUTS);
        let by_affine = self.by_affine.chunks_mut(blocks * OUTPUTS);
        params
            .zip(affine)
            .zip(by_affine)
            .map(move |((params, affine), by_affine)| MlpColourBlocks {
                params,
                affine,
                by_affine,
                components,
            })
    }
}

impl MlpColourBlocks<'_> {
    /// Returns block `block` of the task, with the photo's appearance.
    #[inline(always)]
    pub fn block(&self, block: usize) -> &[Row] {
        &self.params[block * self.components..(block + 1) * self.components]
    }

    /// Computes step 2: converts the gradient by the adapted `block` to that by its own colours, and writes the
    /// derivatives by gains and offsets.
    #[inline(always)]
    pub fn backward<S: Simd>(
        &mut self,
        s: S,
        (index, block): (usize, &[Row]),
        part: usize,
        gradient: &mut [V<S>],
    ) {
        let affine = &self.affine[index * OUTPUTS..(index + 1) * OUTPUTS];
        let by_affine = &mut self.by_affine[index * OUTPUTS..(index + 1) * OUTPUTS];
        let by_colour = each!(3, |c| gradient[component::SH + c]
            * s.k(appearance_mlp::by_colour(1.0)));
        let mut by_gain = each!(3, |c| by_colour[c] * s.k(0.5));
        let one = s.k(1.0);
        let gains = each!(3, |c| V::load(s, &affine[c], part) + one);
        for i in component::SH..block.len() {
            let c = (i - component::SH) % 3;
            by_gain[c] = gradient[i].mul_add(V::load(s, &block[i], part), by_gain[c]);
            gradient[i] = gradient[i] * gains[c];
        }
        for c in 0..3 {
            by_gain[c].store(&mut by_affine[c], part);
            by_colour[c].store(&mut by_affine[3 + c], part);
        }
    }
}

/// Computes step 3.
pub fn step(
    prepared: &Prepared,
    looked: &MlpColours,
    model: &mut Model,
    (held, view): (&mut AppearanceMlp, usize),
    settings: &AppearanceMlpSettings,
    adam: &Adam,
) {
    let own = FeatureStep::next(held, settings, adam);
    let components = model.params.components;
    let rows = CHUNK_BLOCKS * components;
    let moved = model
        .params
        .rows
        .par_chunks_mut(rows)
        .zip(model.first.rows.par_chunks_mut(rows))
        .zip(model.second.rows.par_chunks_mut(rows));
    let chunks = looked
        .by_affine
        .par_chunks(CHUNK_BLOCKS * OUTPUTS)
        .zip(looked.encoded.par_chunks(CHUNK_BLOCKS * ROW))
        .zip(moved);
    let sums: Vec<Sums> = chunks
        .map(|((by_affine, encoded), ((params, first), second))| {
            let mut rows = Rows {
                step: &own,
                components,
                of: [params, first, second],
            };
            pulp::Arch::new().dispatch(|| sums_of(prepared, by_affine, encoded, &mut rows))
        })
        .collect();
    let mut total = Sums::ZERO;
    sums.iter().for_each(|each| total.add(each));
    let (network, code) = prepared.gradient(&total);
    appearance_mlp::step(held, view, (&network, &code), settings, adam);
}

/// Parameters, first and second moments of a chunk of Gaussians.
struct Rows<'a> {
    step: &'a FeatureStep,
    components: usize,
    of: [&'a mut [Row]; 3],
}

impl Rows<'_> {
    /// Moves the features of one Gaussian.
    #[inline(always)]
    fn advance(&mut self, block: usize, lane: usize, derivative: &[f32; FEATURES]) {
        let begin = (block + 1) * self.components - FEATURES;
        let own = |rows: &[Row]| std::array::from_fn(|f| rows[begin + f].0[lane]);
        let [mut features, mut first, mut second] = [0, 1, 2].map(|k| own(self.of[k]));
        let moments = (&mut first, &mut second);
        self.step
            .advance(&mut features, moments.0, moments.1, derivative);
        for (rows, values) in self.of.iter_mut().zip([features, first, second]) {
            for (f, value) in values.into_iter().enumerate() {
                rows[begin + f].0[lane] = value;
            }
        }
    }
}

/// Returns the contributions of a chunk of Gaussians, and moves their features.
#[inline(always)]
fn sums_of(
    prepared: &Prepared,
    by_affine: &[Row],
    encoded: &[[f32; ENCODED]],
    features: &mut Rows<'_>,
) -> Sums {
    let mut sums = Sums::ZERO;
    let blocks = by_affine
        .chunks_exact(OUTPUTS)
        .zip(encoded.chunks_exact(ROW));
    for (block, (rows, encoded)) in blocks.enumerate() {
        for (lane, encoded) in encoded.iter().enumerate() {
            let own: [f32; OUTPUTS] = std::array::from_fn(|k| rows[k].0[lane]);
            // Invisible and non-finite Gaussians contribute nothing.
            let size: f32 = own.iter().map(|v| v.abs()).sum();
            if size > 0.0 && size.is_finite() {
                let by_features = prepared.accumulate(encoded, &own, &mut sums);
                features.advance(block, lane, &by_features);
            }
        }
    }
    sums
}
