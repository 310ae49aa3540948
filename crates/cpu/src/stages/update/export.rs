//! Gradients that are written out instead of used for a step: for [`run_gradients`], and of the
//! camera's motion for pose refinement.

use super::backward::{Context, backward};
use crate::blocks::{Blocks, MAX_COMPONENTS, component};
use crate::cameras::{CameraV, Pinhole, Projector, for_model};
use crate::frame::{CameraF32, Frame};
use crate::simd::{ROW, Row, parts};
use crate::stages::blend_backward::Mode;
use dapple_engine::Gradients;
use pulp::Simd;
use rayon::prelude::*;
use std::marker::PhantomData;

/// Writes out the gradients in `frame` instead of taking a step.
pub fn run_gradients(
    params: &Blocks,
    filter_3d: Option<&[Row]>,
    camera: &CameraF32,
    sh_degree: u8,
    mode: Mode,
    frame: &Frame,
) -> Gradients<f32> {
    let context = Context::new(camera, filter_3d, sh_degree, mode, frame);
    let blocks: Vec<ExportedBlock> = (0..params.count())
        .into_par_iter()
        .map(|block| export_block(params, block, context))
        .collect();
    let stride = params.components - params.features - component::SH - 3;
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
    if mode.absolute {
        out.absolute2d = (0..params.len)
            .into_par_iter()
            .map(|i| match context.spans_of[i].tiles {
                0 => [0.0; 2],
                _ => context.sum_absolute(i),
            })
            .collect();
    }
    for (total, component) in out.pose.iter_mut().zip(0..6) {
        *total = blocks.iter().map(|b| b.pose[component]).sum();
    }
    out
}

/// Returns the derivative by the camera's motion, see `Gradients::pose`: the blocks' sums, added in
/// order.
pub fn pose_gradient_of_all(
    params: &Blocks,
    filter_3d: Option<&[Row]>,
    camera: &CameraF32,
    sh_degree: u8,
    mode: Mode,
    frame: &Frame,
) -> [f64; 6] {
    let context = Context::new(camera, filter_3d, sh_degree, mode, frame);
    let blocks: Vec<[f64; 6]> = (0..params.count())
        .into_par_iter()
        .map(|block| export_block(params, block, context).pose)
        .collect();
    std::array::from_fn(|k| blocks.iter().map(|block| block[k]).sum())
}

fn export_block(params: &Blocks, block: usize, context: Context<'_>) -> ExportedBlock {
    let rows = &params.rows[block * params.components..(block + 1) * params.components];
    let export = Export::<Pinhole, false> {
        model: PhantomData,
        context,
        block,
        rows,
    };
    for_model!(
        context.camera,
        context.filter_3d.is_some(),
        |C, ANTIALIAS| { pulp::Arch::new().dispatch(export.on::<C, ANTIALIAS>()) }
    )
}

struct ExportedBlock {
    components: [Row; MAX_COMPONENTS],
    mean2d: [Row; 2],
    pose: [f64; 6],
}

/// Task of an export. `C`: the camera's model. `ANTIALIAS`: with the anti-aliasing filters.
struct Export<'a, C: Projector, const ANTIALIAS: bool> {
    model: PhantomData<C>,
    context: Context<'a>,
    block: usize,
    rows: &'a [Row],
}

impl<'a> Export<'a, Pinhole, false> {
    fn on<C: Projector, const ANTIALIAS: bool>(self) -> Export<'a, C, ANTIALIAS> {
        Export {
            model: PhantomData,
            context: self.context,
            block: self.block,
            rows: self.rows,
        }
    }
}

impl<C: Projector, const ANTIALIAS: bool> pulp::WithSimd for Export<'_, C, ANTIALIAS> {
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
        let camera = CameraV::<S, C>::new(s, self.context.camera);
        let degree = self.context.sh_degree;
        for part in 0..parts::<S>() {
            let g = backward::<S, C, ANTIALIAS>(s, self.rows, part, &camera, degree, &sums);
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
