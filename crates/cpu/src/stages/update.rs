//! `update`: from slots to new parameters, without a gradient buffer.
//!
//! For each block of 16 Gaussians:
//! 1. Add up each Gaussian's slots, in the order they were emitted.
//! 2. Turn moments into gradients of centre, conic, opacity and colour on the screen.
//! 3. Chain rule through projection and SH, with the forward values computed afresh.
//! 4. Adam, and the statistics of density control; or, for [`run_gradients`], write them out.
//! 5. Where a density strategy asks for it, regularisers before Adam and noise after: [`extras`].
//!
//! [`extras`]: super::extras

use crate::blocks::{Blocks, component};
use crate::frame::{AbsoluteSlot, CameraF32, Frame, Slot, TileSpans};
use crate::projection::{self, CameraV, GeometryGradient, Projection, ScreenGradient, V3};
use crate::sh;
use crate::simd::{ROW, Row, Splat, V, each, parts};
use crate::stages::blend_backward::Mode;
use crate::stages::extras::ExtrasStep;
use crate::stages::project::view_direction;
use dapple_engine::{Adam, Gradients, LearningRates};
use pulp::Simd;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Most components a Gaussian can have.
pub(super) const MAX_COMPONENTS: usize = component::SH + 48;

/// Blocks of one task.
const CHUNK_BLOCKS: usize = 64;

/// Moments below this are flushed to zero: decaying on into denormals would cost a hundred cycles
/// an operation, and steps of size sqrt(v) vanish long before.
const FLUSH: f32 = 1e-30;

/// Screen-space gradient of each Gaussian since the last round of density control.
#[derive(Debug, Clone, Default)]
pub struct DensityStats {
    /// Sum of norms, `[N]`.
    pub gradient_sums: Vec<f32>,
    /// Steps in which it was visible, `[N]`.
    pub visible_counts: Vec<f32>,
}

/// Adam's coefficients for one step, bias correction folded in.
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
    /// For step `step`, counted from 1.
    pub fn new(adam: &Adam, rates: &LearningRates, step: u32) -> Self {
        let power = |beta: f32| 1.0 - f64::from(beta).powf(f64::from(step.max(1)));
        let (c1, c2) = (power(adam.beta1), power(adam.beta2));
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

/// What the blocks' tasks share.
#[derive(Clone, Copy)]
struct Context<'a> {
    camera: &'a CameraF32,
    sh_degree: u8,
    spans_of: &'a [TileSpans],
    first_instance: &'a [AtomicU32],
    instance_slot: &'a [u32],
    slots: &'a [Slot],
    absolute_slots: &'a [AbsoluteSlot],
    /// Where the loss looks at depths.
    depth_slots: Option<&'a [f32]>,
    /// 3D filters by block, where renders are anti-aliased.
    smoothing: Option<&'a [Row]>,
}

impl<'a> Context<'a> {
    fn new(
        camera: &'a CameraF32,
        smoothing: Option<&'a [Row]>,
        sh_degree: u8,
        depths: bool,
        frame: &'a Frame,
    ) -> Self {
        Self {
            camera,
            sh_degree,
            spans_of: &frame.spans_of,
            first_instance: &frame.first_instance,
            instance_slot: &frame.instance_slot,
            slots: &frame.slots,
            absolute_slots: &frame.absolute_slots,
            depth_slots: depths.then_some(&frame.depth.slots),
            smoothing,
        }
    }

    /// What a block goes backward from. `None` if all its Gaussians are invisible.
    #[inline(always)]
    fn sums_of(&self, block: usize) -> Option<Sums<'a>> {
        Some(Sums {
            slots: self.sum_slots(block)?,
            depths: self.sum_depths(block),
            smoothing: self.smoothing_of(block),
        })
    }

    /// A block's 3D filters.
    #[inline(always)]
    fn smoothing_of(&self, block: usize) -> &'a Row {
        self.smoothing.map_or(&Row::ZERO, |all| &all[block])
    }

    /// The sums of a visible Gaussian's absolute gradients by its centre.
    fn sum_absolute(&self, gaussian: usize) -> [f32; 2] {
        let tiles = self.spans_of[gaussian].tiles as usize;
        let first = self.first_instance[gaussian].load(Relaxed) as usize;
        let mut sum = [0.0f32; 2];
        for &slot in &self.instance_slot[first..first + tiles] {
            for (total, value) in sum.iter_mut().zip(self.absolute_slots[slot as usize]) {
                *total += value;
            }
        }
        // The exponent is in powers of two.
        sum.map(|v| v * std::f32::consts::LN_2)
    }

    /// The sums of the depth slots of a block's Gaussians, where there are some.
    fn sum_depths(&self, block: usize) -> Option<Row> {
        let slots = self.depth_slots?;
        let mut sums = Row::ZERO;
        for (lane, sum) in sums.0.iter_mut().enumerate() {
            let gaussian = block * ROW + lane;
            let tiles = self.spans_of[gaussian].tiles as usize;
            if tiles > 0 {
                let first = self.first_instance[gaussian].load(Relaxed) as usize;
                let own = &self.instance_slot[first..first + tiles];
                *sum = own.iter().map(|&slot| slots[slot as usize]).sum();
            }
        }
        Some(sums)
    }

    /// Step 1: the sums of the slots of a block's Gaussians. `None` if all are invisible.
    fn sum_slots(&self, block: usize) -> Option<[Row; 9]> {
        let mut sums = [Row::ZERO; 9];
        let mut any = false;
        for lane in 0..ROW {
            let gaussian = block * ROW + lane;
            let tiles = self.spans_of[gaussian].tiles as usize;
            if tiles == 0 {
                continue;
            }
            any = true;
            let first = self.first_instance[gaussian].load(Relaxed) as usize;
            let mut sum = [0.0f32; 9];
            for &slot in &self.instance_slot[first..first + tiles] {
                for (total, value) in sum.iter_mut().zip(&self.slots[slot as usize]) {
                    *total += value;
                }
            }
            for (row, value) in sums.iter_mut().zip(sum) {
                row.0[lane] = value;
            }
        }
        any.then_some(sums)
    }
}

/// What a block of Gaussians goes backward from.
struct Sums<'a> {
    /// Of the slots.
    slots: [Row; 9],
    /// Of the depth slots, where there are some.
    depths: Option<Row>,
    /// 3D filters.
    smoothing: &'a Row,
}

/// The gradients of one vector of Gaussians.
struct BlockGradient<S: Simd> {
    components: [V<S>; MAX_COMPONENTS],
    mean2d: [V<S>; 2],
    pose: [V<S>; 6],
}

/// Steps 2 and 3 for part `part` of a block.
#[inline(always)]
fn backward<S: Simd, const LENS: bool, const ANTIALIAS: bool>(
    s: S,
    block: &[Row],
    part: usize,
    camera: &CameraV<S, LENS>,
    sh_degree: u8,
    sums: &Sums<'_>,
) -> BlockGradient<S> {
    let [s0, sx, sy, sxx, sxy, syy] = each!(6, |i| V::load(s, &sums.slots[i], part));
    let p = projection::project::<S, LENS, ANTIALIAS>(s, block, part, camera, sums.smoothing);
    let [a, b, c] = p.conic;
    // alpha = opacity exp(-1/2 d^T conic d), d = pixel - centre.
    let screen = ScreenGradient {
        mean2d: [a * sx + b * sy, b * sx + c * sy],
        conic: [sxx * s.k(-0.5), -sxy, syy * s.k(-0.5)],
    };
    let mut g = projection::project_backward::<S, LENS, ANTIALIAS>(s, &p, camera, &screen, s0);
    if let Some(depths) = &sums.depths {
        // Depth is the camera's z.
        let by_depth = V::load(s, depths, part);
        g.point[2] += by_depth;
        for i in 0..3 {
            g.mean[i] = camera.rotation[2][i].mul_add(by_depth, g.mean[i]);
        }
    }
    let mut components = [s.k(0.0); MAX_COMPONENTS];
    let through_direction = colour_backward(
        s,
        block,
        part,
        sh_degree,
        view_direction(s, p.mean, camera.centre),
        each!(3, |c| V::load(s, &sums.slots[6 + c], part)),
        &mut components,
    );
    let pose = pose_gradient(&p, camera, &g, through_direction);
    for i in 0..3 {
        g.mean[i] += through_direction[i];
    }
    let zero = s.k(0.0);
    for i in 0..3 {
        components[component::MEAN + i] = p.valid.select(g.mean[i], zero);
        components[component::SCALE + i] = p.valid.select(g.scales[i], zero);
    }
    for i in 0..4 {
        components[component::QUAT + i] = p.valid.select(g.quat[i], zero);
    }
    // s = alpha dL/dalpha, and alpha is proportional to the opacity: d/dlogit = s (1 - opacity).
    let logit = V::load(s, &block[component::OPACITY], part);
    components[component::OPACITY] = p.valid.select(s0 * (-logit).sigmoid(), zero);
    let end = component::SH + 3 * dapple_scene::sh_coefficient_count(sh_degree);
    for i in component::SH..end {
        components[i] = p.valid.select(components[i], zero);
    }
    BlockGradient {
        components,
        mean2d: each!(2, |a| p.valid.select(screen.mean2d[a], zero)),
        pose: each!(6, |i| p.valid.select(pose[i], zero)),
    }
}

/// SH: writes the coefficients' gradients, returns the centre's through the viewing direction.
#[inline(always)]
fn colour_backward<S: Simd>(
    s: S,
    block: &[Row],
    part: usize,
    sh_degree: u8,
    (direction, inverse_distance): (V3<S>, V<S>),
    d_rgb: V3<S>,
    out: &mut [V<S>; MAX_COMPONENTS],
) -> V3<S> {
    let zero = V::splat(s, 0.0);
    let count = dapple_scene::sh_coefficient_count(sh_degree);
    let basis = sh::basis(s, sh_degree, direction);
    let mut rgb = [V::splat(s, 0.5); 3];
    for k in 0..count {
        for c in 0..3 {
            let coefficient = V::load(s, &block[component::SH + 3 * k + c], part);
            rgb[c] = basis[k].mul_add(coefficient, rgb[c]);
        }
    }
    // Where the colour is clamped at zero it does not move.
    let d_rgb = each!(3, |c| zero.lt(rgb[c]).select(d_rgb[c], zero));
    let mut weights = [zero; 16];
    for k in 0..count {
        for c in 0..3 {
            out[component::SH + 3 * k + c] = basis[k] * d_rgb[c];
            let coefficient = V::load(s, &block[component::SH + 3 * k + c], part);
            weights[k] = d_rgb[c].mul_add(coefficient, weights[k]);
        }
    }
    let d = sh::basis_backward(s, sh_degree, direction, &weights);
    let along = projection::dot(d, direction);
    // A colour that is not finite makes the Gaussian absent; zero times it is not zero.
    let finite = ((rgb[0] + rgb[1] + rgb[2]) * zero).ge(zero);
    each!(3, |i| {
        let tangential = along.neg_mul_add(direction[i], d[i]) * inverse_distance;
        finite.select(tangential, zero)
    })
}

/// The camera's small motion `p -> p + omega x p + t`, see `Gradients::pose`.
#[inline(always)]
fn pose_gradient<S: Simd, const LENS: bool>(
    p: &Projection<S>,
    camera: &CameraV<S, LENS>,
    g: &GeometryGradient<S>,
    through_direction: V3<S>,
) -> [V<S>; 6] {
    let [x, y, z] = p.point;
    let [dx, dy, dz] = g.point;
    let omega = [
        g.omega[0] + y * dz - z * dy,
        g.omega[1] + z * dx - x * dz,
        g.omega[2] + x * dy - y * dx,
    ];
    // The centre moves by -R^T t, and only t moves it; the direction sees the opposite motion.
    let shift = each!(3, |i| projection::dot(
        camera.rotation[i],
        through_direction
    ));
    [
        omega[0],
        omega[1],
        omega[2],
        dx + shift[0],
        dy + shift[1],
        dz + shift[2],
    ]
}

/// Takes one training step with the gradients in `frame`.
#[allow(
    clippy::too_many_arguments,
    reason = "one call site; a struct would only rename them"
)]
pub fn run(
    params: &mut Blocks,
    first: &mut Blocks,
    second: &mut Blocks,
    smoothing: Option<&[Row]>,
    camera: &CameraF32,
    sh_degree: u8,
    adam: &AdamStep,
    stats: Option<&mut DensityStats>,
    mode: Mode,
    extras: Option<&ExtrasStep>,
    frame: &Frame,
) {
    let context = Context::new(camera, smoothing, sh_degree, mode.depths, frame);
    let components = params.components;
    let rows = CHUNK_BLOCKS * components;
    let gaussians = CHUNK_BLOCKS * ROW;
    let chunks = params
        .rows
        .par_chunks_mut(rows)
        .zip(first.rows.par_chunks_mut(rows))
        .zip(second.rows.par_chunks_mut(rows))
        .enumerate();
    let step = |chunk: usize, params: &mut [Row], first, second, stats| {
        let step = Step::<false, false> {
            context,
            adam,
            absolute: mode.absolute,
            extras,
            components,
            first_block: chunk * CHUNK_BLOCKS,
            params: &mut *params,
            first,
            second,
            stats,
        };
        match (camera.lens.is_some(), smoothing.is_some()) {
            (false, false) => pulp::Arch::new().dispatch(step),
            (true, false) => pulp::Arch::new().dispatch(step.on::<true, false>()),
            (false, true) => pulp::Arch::new().dispatch(step.on::<false, true>()),
            (true, true) => pulp::Arch::new().dispatch(step.on::<true, true>()),
        }
        if let Some(extras) = extras {
            extras.perturb(chunk * gaussians, components, params);
        }
    };
    match stats {
        Some(stats) => chunks
            .zip(stats.gradient_sums.par_chunks_mut(gaussians))
            .zip(stats.visible_counts.par_chunks_mut(gaussians))
            .for_each(|(((chunk, ((p, m), v)), sums), counts)| {
                step(chunk, p, m, v, Some((sums, counts)));
            }),
        None => chunks.for_each(|(chunk, ((p, m), v))| step(chunk, p, m, v, None)),
    }
}

/// `LENS`: on a camera whose lens distorts; `ANTIALIAS`: through the filters against aliasing.
struct Step<'a, const LENS: bool, const ANTIALIAS: bool> {
    context: Context<'a>,
    adam: &'a AdamStep,
    /// Whether the statistics are of absolute gradients.
    absolute: bool,
    extras: Option<&'a ExtrasStep>,
    components: usize,
    first_block: usize,
    params: &'a mut [Row],
    first: &'a mut [Row],
    second: &'a mut [Row],
    stats: Option<(&'a mut [f32], &'a mut [f32])>,
}

impl<'a> Step<'a, false, false> {
    fn on<const LENS: bool, const ANTIALIAS: bool>(self) -> Step<'a, LENS, ANTIALIAS> {
        Step {
            context: self.context,
            adam: self.adam,
            absolute: self.absolute,
            extras: self.extras,
            components: self.components,
            first_block: self.first_block,
            params: self.params,
            first: self.first,
            second: self.second,
            stats: self.stats,
        }
    }
}

impl<const LENS: bool, const ANTIALIAS: bool> pulp::WithSimd for Step<'_, LENS, ANTIALIAS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, s: S) {
        let camera = CameraV::<S, LENS>::new(s, self.context.camera);
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
                    if let Some(extras) = self.extras {
                        extras.regularise(s, block, part, &mut zeros);
                    }
                    adam_part(s, self.adam, part, block, first, second, &zeros);
                    continue;
                };
                let degree = self.context.sh_degree;
                let mut g = backward::<S, LENS, ANTIALIAS>(s, block, part, &camera, degree, sums);
                if let Some(extras) = self.extras {
                    extras.regularise(s, block, part, &mut g.components);
                }
                adam_part(s, self.adam, part, block, first, second, &g.components);
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

/// Step 4: Adam for every component of a vector of Gaussians.
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

/// Writes the gradients in `frame` out instead of taking a step.
pub fn run_gradients(
    params: &Blocks,
    smoothing: Option<&[Row]>,
    camera: &CameraF32,
    sh_degree: u8,
    depths: bool,
    frame: &Frame,
) -> Gradients<f32> {
    let context = Context::new(camera, smoothing, sh_degree, depths, frame);
    let blocks: Vec<ExportedBlock> = (0..params.count())
        .into_par_iter()
        .map(|block| export_block(params, block, context))
        .collect();
    let stride = params.components - component::SH - 3;
    let mut out = Gradients::zeros(params.len, stride);
    for i in 0..params.len {
        let exported = &blocks[i / ROW];
        let at = |c: usize| exported.components[c].0[i % ROW];
        out.means[i] = [0, 1, 2].map(|k| at(component::MEAN + k));
        out.scales[i] = [0, 1, 2].map(|k| at(component::SCALE + k));
        out.quats[i] = [0, 1, 2, 3].map(|k| at(component::QUAT + k));
        out.opacities[i] = at(component::OPACITY);
        out.sh0[i] = [0, 1, 2].map(|k| at(component::SH + k));
        for k in 0..stride {
            out.sh_rest[i * stride + k] = at(component::SH + 3 + k);
        }
        out.means2d[i] = [0, 1].map(|k| exported.mean2d[k].0[i % ROW]);
    }
    for (total, component) in out.pose.iter_mut().zip(0..6) {
        *total = blocks.iter().map(|b| b.pose[component]).sum();
    }
    out
}

/// The derivative by the camera's motion, see `Gradients::pose`: the blocks' sums, added in order.
pub fn pose_gradient_of_all(
    params: &Blocks,
    smoothing: Option<&[Row]>,
    camera: &CameraF32,
    sh_degree: u8,
    depths: bool,
    frame: &Frame,
) -> [f64; 6] {
    let context = Context::new(camera, smoothing, sh_degree, depths, frame);
    let blocks: Vec<[f64; 6]> = (0..params.count())
        .into_par_iter()
        .map(|block| export_block(params, block, context).pose)
        .collect();
    std::array::from_fn(|k| blocks.iter().map(|block| block[k]).sum())
}

fn export_block(params: &Blocks, block: usize, context: Context<'_>) -> ExportedBlock {
    let rows = &params.rows[block * params.components..(block + 1) * params.components];
    let export = Export::<false, false> {
        context,
        block,
        rows,
    };
    match (context.camera.lens.is_some(), context.smoothing.is_some()) {
        (false, false) => pulp::Arch::new().dispatch(export),
        (true, false) => pulp::Arch::new().dispatch(export.on::<true, false>()),
        (false, true) => pulp::Arch::new().dispatch(export.on::<false, true>()),
        (true, true) => pulp::Arch::new().dispatch(export.on::<true, true>()),
    }
}

struct ExportedBlock {
    components: [Row; MAX_COMPONENTS],
    mean2d: [Row; 2],
    pose: [f64; 6],
}

/// `LENS`: from a camera whose lens distorts; `ANTIALIAS`: through the filters against aliasing.
struct Export<'a, const LENS: bool, const ANTIALIAS: bool> {
    context: Context<'a>,
    block: usize,
    rows: &'a [Row],
}

impl<'a> Export<'a, false, false> {
    fn on<const LENS: bool, const ANTIALIAS: bool>(self) -> Export<'a, LENS, ANTIALIAS> {
        Export {
            context: self.context,
            block: self.block,
            rows: self.rows,
        }
    }
}

impl<const LENS: bool, const ANTIALIAS: bool> pulp::WithSimd for Export<'_, LENS, ANTIALIAS> {
    type Output = ExportedBlock;

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> ExportedBlock {
        let mut out = ExportedBlock {
            components: [Row::ZERO; MAX_COMPONENTS],
            mean2d: [Row::ZERO; 2],
            pose: [0.0; 6],
        };
        let Some(sums) = self.context.sums_of(self.block) else {
            return out;
        };
        let camera = CameraV::<S, LENS>::new(s, self.context.camera);
        let degree = self.context.sh_degree;
        for part in 0..parts::<S>() {
            let g = backward::<S, LENS, ANTIALIAS>(s, self.rows, part, &camera, degree, &sums);
            for i in 0..MAX_COMPONENTS {
                g.components[i].store(&mut out.components[i], part);
            }
            for a in 0..2 {
                g.mean2d[a].store(&mut out.mean2d[a], part);
            }
            for i in 0..6 {
                out.pose[i] += f64::from(g.pose[i].sum());
            }
        }
        out
    }
}
