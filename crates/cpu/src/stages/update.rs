//! `update`: computes new parameters from gradient slots, without a gradient buffer.
//!
//! For each block of 16 Gaussians:
//! 1. Add up each Gaussian's slots, in the order of `emit`.
//! 2. Turn moments into gradients of centre, conic, opacity and colour on the screen.
//! 3. Apply the chain rule through projection and SH, with recomputed forward values.
//! 4. Take Adam's step and update the statistics of density control; or, for [`run_gradients`], write the
//!    gradients out.
//! 5. If the step requests them, add regularisers before Adam (`features/regularise`) and noise after
//!    (`features/noise`).
//!
//! In a batch of several steps ([`dapple_engine::Batch`]), each step adds its gradients to sums, and only the last takes
//! the steps from 4 on, with the mean.

mod backward;
mod batch;
mod export;
mod sky;

pub use export::{pose_gradient_of_all, run_gradients};

use crate::blocks::{Blocks, MAX_COMPONENTS, component};
use crate::cameras::{CameraV, Pinhole, Projector, for_model};
use crate::context::UpdateContext;
use crate::features::appearance_mlp::kernels::MlpColourBlocks;
use crate::features::regularise::kernels::Regularisers;
use crate::model::Model;
use crate::simd::{ROW, Row, Splat, V, each, parts};
use backward::{Context, backward};
use batch::BatchSums;
use dapple_engine::GaussianUpdate;
use pulp::Simd;
use rayon::prelude::*;
use sky::Sky;
use std::marker::PhantomData;

/// Blocks of one task.
const CHUNK_BLOCKS: usize = 64;

/// Threshold below which moments become zero. Decay into denormals would cost a hundred cycles per
/// operation, and steps of size sqrt(v) vanish long before.
const FLUSH: f32 = 1e-30;

/// Adam's coefficients for one step, with the bias correction.
#[derive(Clone, Copy)]
pub struct AdamStep {
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    inverse_correction2: f32,
    /// One per component of the geometry, then SH 0, then SH rest.
    rates: [f32; component::SH + 2],
}

impl AdamStep {
    /// Computes the coefficients of an update.
    pub fn new(update: &GaussianUpdate) -> Self {
        let (adam, rates) = (&update.adam, &update.learning_rates);
        let (c1, c2) = (update.correction(adam.beta1), update.correction(adam.beta2));
        let rate = |c: usize| match c {
            0..component::SCALE => rates.means,
            component::SCALE..component::QUAT => rates.scales,
            component::QUAT..component::OPACITY => rates.quats,
            component::OPACITY => rates.opacities,
            component::SH => rates.sh0,
            _ => rates.sh_rest,
        };
        Self {
            beta1: adam.beta1,
            beta2: adam.beta2,
            epsilon: adam.epsilon,
            inverse_correction2: (1.0 / c2) as f32,
            rates: std::array::from_fn(|c| (f64::from(rate(c)) / c1) as f32),
        }
    }

    fn rate(&self, c: usize) -> f32 {
        match c {
            0..component::SH => self.rates[c],
            _ if c < component::SH + 3 => self.rates[component::SH],
            _ => self.rates[component::SH + 1],
        }
    }
}

/// Executes one training step with the gradients in the frame.
pub fn run(step: UpdateContext<'_>) {
    let settings = step.settings;
    let update = GaussianUpdate::of(settings);
    let (adam, moves) = (&AdamStep::new(&update), settings.batch.is_last());
    let (camera, mode, slots) = (step.camera, step.mode, step.slots);
    let (trained, sky) = (step.model.trained(), Sky::new(step.model.active()));
    let Model {
        params,
        first,
        second,
        stats,
        filter_3d,
        batch_sums,
        ..
    } = &mut *step.model;
    batch::begin(settings.batch, params.rows.len(), batch_sums);
    let frozen = Frozen::new(trained, [params, first, second]);
    let moved = trained.div_ceil(ROW) * params.components;
    let filter_3d = settings.render.antialias.then_some(filter_3d.as_slice());
    let context = Context::new(camera, filter_3d, step.sh_degree, mode, step.frame);
    let regularisers = slots.gradient.as_ref();
    let noise = slots.after_adam.as_ref().filter(|_| moves);
    let components = params.components;
    let rows = CHUNK_BLOCKS * components;
    let gaussians = CHUNK_BLOCKS * ROW;
    let tasks = moved.div_ceil(rows.max(1));
    let looked = slots.mlp.as_mut();
    let looked = by_task(tasks, looked.map(|looked| looked.chunks(CHUNK_BLOCKS)));
    let share = moves.then_some(update.share);
    let sums = by_task(tasks, batch::chunks(batch_sums, rows, share));
    let chunks = params.rows[..moved]
        .par_chunks_mut(rows)
        .zip(first.rows[..moved].par_chunks_mut(rows))
        .zip(second.rows[..moved].par_chunks_mut(rows))
        .zip(looked.into_par_iter().zip(sums))
        .enumerate();
    let task = |chunk: usize, params: &mut [Row], first, second, (looked, batch), stats| {
        let step = Step::<Pinhole, false> {
            model: PhantomData,
            context,
            adam,
            absolute: mode.absolute,
            regularisers,
            sky,
            components,
            first_block: chunk * CHUNK_BLOCKS,
            params: &mut *params,
            first,
            second,
            looked,
            batch,
            stats,
        };
        for_model!(camera, filter_3d.is_some(), |C, ANTIALIAS| {
            pulp::Arch::new().dispatch(step.on::<C, ANTIALIAS>());
        });
        if let Some(noise) = noise {
            noise.perturb(chunk * gaussians, components, params);
        }
    };
    match settings.accumulate_density {
        true => chunks
            .zip(stats.gradient_sums.par_chunks_mut(gaussians))
            .zip(stats.visible_counts.par_chunks_mut(gaussians))
            .for_each(|(((chunk, (((p, m), v), l)), sums), counts)| {
                task(chunk, p, m, v, l, Some((sums, counts)));
            }),
        false => chunks.for_each(|(chunk, (((p, m), v), l))| task(chunk, p, m, v, l, None)),
    }
    frozen.restore([params, first, second]);
}

/// Copy of the block that has both trained and frozen Gaussians. Blocks of frozen ones are not visited.
struct Frozen {
    block: usize,
    /// First lane of a frozen Gaussian; 0 if no block has both.
    lane: usize,
    rows: [Vec<Row>; 3],
}

impl Frozen {
    fn new(trained: usize, tensors: [&Blocks; 3]) -> Self {
        let (block, lane) = (trained / ROW, trained % ROW);
        let is_mixed = lane > 0 && trained < tensors[0].len;
        let rows = |of: &Blocks| match is_mixed {
            true => of.rows[block * of.components..][..of.components].to_vec(),
            false => Vec::new(),
        };
        Self {
            block,
            lane,
            rows: tensors.map(rows),
        }
    }

    fn restore(&self, tensors: [&mut Blocks; 3]) {
        for (of, kept) in tensors.into_iter().zip(&self.rows) {
            let rows = of.rows.iter_mut().skip(self.block * of.components);
            for (row, kept) in rows.zip(kept) {
                row.0[self.lane..].copy_from_slice(&kept.0[self.lane..]);
            }
        }
    }
}

/// Returns what each task takes of an optional input; `None` for all without the input.
fn by_task<T>(tasks: usize, parts: Option<impl Iterator<Item = T>>) -> Vec<Option<T>> {
    match parts {
        Some(parts) => parts.map(Some).collect(),
        None => (0..tasks).map(|_| None).collect(),
    }
}

/// Task of a step. `C`: the camera's model. `ANTIALIAS`: with the anti-aliasing filters.
struct Step<'a, C: Projector, const ANTIALIAS: bool> {
    model: PhantomData<C>,
    context: Context<'a>,
    adam: &'a AdamStep,
    /// True if the statistics are of absolute gradients.
    absolute: bool,
    regularisers: Option<&'a Regularisers>,
    sky: Sky,
    components: usize,
    first_block: usize,
    params: &'a mut [Row],
    first: &'a mut [Row],
    second: &'a mut [Row],
    /// Gaussians with a photo's appearance.
    looked: Option<MlpColourBlocks<'a>>,
    /// Sums of a batch of several steps.
    batch: Option<BatchSums<'a>>,
    stats: Option<(&'a mut [f32], &'a mut [f32])>,
}

impl<'a> Step<'a, Pinhole, false> {
    fn on<C: Projector, const ANTIALIAS: bool>(self) -> Step<'a, C, ANTIALIAS> {
        Step {
            model: PhantomData,
            context: self.context,
            adam: self.adam,
            absolute: self.absolute,
            regularisers: self.regularisers,
            sky: self.sky,
            components: self.components,
            first_block: self.first_block,
            params: self.params,
            first: self.first,
            second: self.second,
            looked: self.looked,
            batch: self.batch,
            stats: self.stats,
        }
    }
}

impl<C: Projector, const ANTIALIAS: bool> pulp::WithSimd for Step<'_, C, ANTIALIAS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, s: S) {
        let camera = CameraV::<S, C>::new(s, self.context.camera);
        let n = self.components;
        let active = component::SH + 3 * dapple_scene::sh_coefficient_count(self.context.sh_degree);
        let blocks = self.params.chunks_exact_mut(n);
        let moments = self
            .first
            .chunks_exact_mut(n)
            .zip(self.second.chunks_exact_mut(n));
        for (i, (block, (first, second))) in blocks.zip(moments).enumerate() {
            let sums = self.context.sums_of(self.first_block + i);
            for part in 0..parts::<S>() {
                let (block, first, second) = (
                    &mut block[..active],
                    &mut first[..active],
                    &mut second[..active],
                );
                let Some(sums) = &sums else {
                    let mut zeros = [V::splat(s, 0.0); MAX_COMPONENTS];
                    if BatchSums::take(&mut self.batch, s, i * n, part, &mut zeros[..active]) {
                        let terms = (self.regularisers, self.sky.lanes(self.first_block + i));
                        sky::finish(s, terms, (block, first), part, &mut zeros);
                        adam_part(s, self.adam, part, block, first, second, &zeros);
                    }
                    continue;
                };
                let degree = self.context.sh_degree;
                let seen = match &self.looked {
                    Some(looked) => looked.block(i),
                    None => block,
                };
                let mut g = backward::<S, C, ANTIALIAS>(s, seen, part, &camera, degree, sums);
                if let Some(looked) = &mut self.looked {
                    looked.backward(s, (i, block), part, &mut g.components);
                }
                let own = &mut g.components[..active];
                if BatchSums::take(&mut self.batch, s, i * n, part, own) {
                    let terms = (self.regularisers, self.sky.lanes(self.first_block + i));
                    sky::finish(s, terms, (block, first), part, &mut g.components);
                    adam_part(s, self.adam, part, block, first, second, &g.components);
                }
                if let Some((sum, count)) = &mut self.stats {
                    // Normalised pixels: half the image is 1.
                    let size = self.context.camera.size;
                    let half = each!(2, |a| s.k(size[a] as f32 * 0.5));
                    let scaled = [g.mean2d[0] * half[0], g.mean2d[1] * half[1]];
                    let norm = (scaled[0] * scaled[0] + scaled[1] * scaled[1]).sqrt();
                    let mut row = Row::ZERO;
                    norm.store(&mut row, part);
                    for lane in part * S::F32_LANES..(part + 1) * S::F32_LANES {
                        let gaussian = i * ROW + lane;
                        let tiles =
                            self.context.spans_of[(self.first_block + i) * ROW + lane].tiles;
                        if gaussian < sum.len() && tiles > 0 {
                            if self.absolute {
                                let index = (self.first_block + i) * ROW + lane;
                                let [x, y] = self.context.sum_absolute(index);
                                let [x, y] = [x * size[0] as f32 * 0.5, y * size[1] as f32 * 0.5];
                                row.0[lane] = (x * x + y * y).sqrt();
                            }
                            sum[gaussian] += row.0[lane];
                            count[gaussian] += 1.0;
                        }
                    }
                }
            }
        }
    }
}

/// Computes step 4: Adam for every component of a vector of Gaussians.
#[inline(always)]
fn adam_part<S: Simd>(
    s: S,
    adam: &AdamStep,
    part: usize,
    params: &mut [Row],
    first: &mut [Row],
    second: &mut [Row],
    gradient: &[V<S>; MAX_COMPONENTS],
) {
    let (beta1, beta2) = (s.k(adam.beta1), s.k(adam.beta2));
    let (rest1, rest2) = (s.k(1.0 - adam.beta1), s.k(1.0 - adam.beta2));
    let epsilon = s.k(adam.epsilon);
    let correction = s.k(adam.inverse_correction2);
    let (flush, zero) = (s.k(FLUSH), s.k(0.0));
    let n = params.len();
    let (first, second, gradient) = (&mut first[..n], &mut second[..n], &gradient[..n]);
    for c in 0..n {
        let g = gradient[c];
        let m = V::load(s, &first[c], part).mul_add(beta1, g * rest1);
        let v = V::load(s, &second[c], part).mul_add(beta2, g * g * rest2);
        let m = m.abs().lt(flush).select(zero, m);
        let v = v.lt(flush).select(zero, v);
        m.store(&mut first[c], part);
        v.store(&mut second[c], part);
        let step = m / ((v * correction).sqrt() + epsilon);
        let moved = step.neg_mul_add(s.k(adam.rate(c)), V::load(s, &params[c], part));
        moved.store(&mut params[c], part);
    }
}
