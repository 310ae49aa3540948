//! Backward pass for a vector of Gaussians, steps 1 to 3 of `update`: from gradient slots to the
//! gradients of their parameters and of the camera's motion.

use crate::blocks::{MAX_COMPONENTS, component};
use crate::cameras::{CameraV, Projector};
use crate::features::normals::kernels::{NormalSums, normal_backward};
use crate::frame::{AbsoluteSlot, CameraF32, Frame, NormalFrame, Slot, TileSpans, add_up};
use crate::projection::{self, GeometryGradient, Projection, ScreenGradient};
use crate::sh;
use crate::simd::{ROW, Row, Splat, V, V3, dot, each};
use crate::stages::blend_backward::Mode;
use crate::stages::project::view_direction;
use pulp::Simd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Inputs of all blocks' tasks.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) camera: &'a CameraF32,
    pub(super) sh_degree: u8,
    pub(super) spans_of: &'a [TileSpans],
    pub(super) first_instance: &'a [AtomicU32],
    pub(super) instance_slot: &'a [u32],
    pub(super) slots: &'a [Slot],
    pub(super) absolute_slots: &'a [AbsoluteSlot],
    /// Gradient slots of depths, if the loss depends on depths.
    pub(super) depth_slots: Option<&'a [f32]>,
    /// Gradient slots of normals, if the loss depends on them.
    pub(super) normals: Option<&'a NormalFrame>,
    /// 3D filters by block, where renders are anti-aliased.
    pub(super) filter_3d: Option<&'a [Row]>,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        camera: &'a CameraF32,
        filter_3d: Option<&'a [Row]>,
        sh_degree: u8,
        mode: Mode,
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
            depth_slots: mode.depths.then_some(&frame.depth.slots),
            normals: mode.normals.then_some(&frame.normals),
            filter_3d,
        }
    }

    /// Returns the sums for the backward pass of a block. `None` if all its Gaussians are invisible.
    #[inline(always)]
    pub(super) fn sums_of(&self, block: usize) -> Option<Sums<'a>> {
        Some(Sums {
            slots: self.sum_slots(block, self.slots)?,
            depths: self.depth_slots.map(|slots| self.sum_depths(block, slots)),
            normals: self.normals.and_then(|normals| {
                Some(NormalSums {
                    slots: self.sum_slots(block, &normals.slots)?,
                    distances: self.sum_depths(block, &normals.depth.slots),
                })
            }),
            filter_3d: self.filter_3d_of(block),
        })
    }

    /// A block's 3D filters.
    #[inline(always)]
    fn filter_3d_of(&self, block: usize) -> &'a Row {
        self.filter_3d.map_or(&Row::ZERO, |all| &all[block])
    }

    /// The sums of a visible Gaussian's absolute gradients by its centre.
    pub(super) fn sum_absolute(&self, gaussian: usize) -> [f32; 2] {
        let tiles = self.spans_of[gaussian].tiles as usize;
        let first = self.first_instance[gaussian].load(Relaxed) as usize;
        let own = &self.instance_slot[first..first + tiles];
        let sum = add_up(own, self.absolute_slots);
        // The exponent is in powers of two.
        sum.map(|v| v * std::f32::consts::LN_2)
    }

    /// The sums of the depth slots of a block's Gaussians.
    fn sum_depths(&self, block: usize, slots: &[f32]) -> Row {
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
        sums
    }

    /// Step 1: the sums of the slots of a block's Gaussians. `None` if all are invisible.
    #[inline(always)]
    fn sum_slots(&self, block: usize, slots: &[Slot]) -> Option<[Row; 9]> {
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
            let sum = add_up(&self.instance_slot[first..first + tiles], slots);
            for (row, value) in sums.iter_mut().zip(sum) {
                row.0[lane] = value;
            }
        }
        any.then_some(sums)
    }
}

/// Inputs of the backward pass of a block of Gaussians.
pub(super) struct Sums<'a> {
    /// Sums of the gradient slots.
    slots: [Row; 9],
    /// Sums of the depth slots, if there are any.
    depths: Option<Row>,
    /// Sums of the slots of normals, if there are any.
    normals: Option<NormalSums>,
    /// 3D filters.
    filter_3d: &'a Row,
}

/// The gradients of one vector of Gaussians.
pub(super) struct BlockGradient<S: Simd> {
    pub(super) components: [V<S>; MAX_COMPONENTS],
    pub(super) mean2d: [V<S>; 2],
    pub(super) pose: [V<S>; 6],
}

/// Steps 2 and 3 for part `part` of a block.
#[inline(always)]
pub(super) fn backward<S: Simd, C: Projector, const ANTIALIAS: bool>(
    s: S,
    block: &[Row],
    part: usize,
    camera: &CameraV<S, C>,
    sh_degree: u8,
    sums: &Sums<'_>,
) -> BlockGradient<S> {
    let of_image = each!(6, |i| V::load(s, &sums.slots[i], part));
    let [s0, sx, sy, sxx, sxy, syy] = match &sums.normals {
        Some(normals) => each!(6, |i| of_image[i] + V::load(s, &normals.slots[i], part)),
        None => of_image,
    };
    let p = projection::project::<S, C, ANTIALIAS>(s, block, part, camera, sums.filter_3d);
    let [a, b, c] = p.conic;
    // alpha = opacity exp(-1/2 d^T conic d), d = pixel - centre.
    let screen = ScreenGradient {
        mean2d: [a * sx + b * sy, b * sx + c * sy],
        conic: [sxx * s.k(-0.5), -sxy, syy * s.k(-0.5)],
    };
    let mut g = projection::project_backward::<S, C, ANTIALIAS>(s, &p, camera, &screen, s0);
    if let Some(depths) = &sums.depths {
        let by_depth = V::load(s, depths, part);
        C::add_depth(p.point, by_depth, &mut g.point);
        let row = C::depth_row(camera, p.point);
        for i in 0..3 {
            g.mean[i] = row[i].mul_add(by_depth, g.mean[i]);
        }
    }
    if let Some(normals) = &sums.normals {
        normal_backward(s, block, part, camera, &p, normals, &mut g);
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
    // Density control uses the gradients of the image only.
    let [_, sx, sy, ..] = of_image;
    let mean2d = [a * sx + b * sy, b * sx + c * sy];
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
        mean2d: each!(2, |a| p.valid.select(mean2d[a], zero)),
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
    // A channel below zero is clamped and passes no gradient; one at zero passes it, as in PyTorch's clamp.
    let d_rgb = each!(3, |c| rgb[c].ge(zero).select(d_rgb[c], zero));
    let mut weights = [zero; 16];
    for k in 0..count {
        for c in 0..3 {
            out[component::SH + 3 * k + c] = basis[k] * d_rgb[c];
            let coefficient = V::load(s, &block[component::SH + 3 * k + c], part);
            weights[k] = d_rgb[c].mul_add(coefficient, weights[k]);
        }
    }
    let d = sh::basis_backward(s, sh_degree, direction, &weights);
    let along = dot(d, direction);
    // A colour that is not finite makes the Gaussian absent; zero times it is not zero.
    let finite = ((rgb[0] + rgb[1] + rgb[2]) * zero).ge(zero);
    each!(3, |i| {
        let tangential = along.neg_mul_add(direction[i], d[i]) * inverse_distance;
        finite.select(tangential, zero)
    })
}

/// The camera's small motion `p -> p + omega x p + t`, see `Gradients::pose`.
#[inline(always)]
fn pose_gradient<S: Simd, C: Projector>(
    p: &Projection<S>,
    camera: &CameraV<S, C>,
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
    let shift = each!(3, |i| dot(camera.rotation[i], through_direction));
    [
        omega[0],
        omega[1],
        omega[2],
        dx + shift[0],
        dy + shift[1],
        dz + shift[2],
    ]
}
