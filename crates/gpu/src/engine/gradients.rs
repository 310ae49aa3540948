//! Reads back gradients that the GPU has written.

use super::GpuEngine;
use crate::layout::{WORKGROUP, plane, sh_planes};
use crate::params;
use crate::stages::gradients::{GEOMETRY, MEANS2D, POSE, SH};
use dapple_engine::Gradients;
use dapple_scene::Result;

impl GpuEngine {
    /// Works like [`Self::read_gradients`], with [`Gradients::absolute2d`].
    pub(super) fn read_all_gradients(&self, n: usize) -> Result<Gradients<f32>> {
        let capacity = self.capacity.gaussians as usize;
        let offset = (2 * capacity * size_of::<f32>()) as u64;
        let buffer = self.buffers.get(MEANS2D)?;
        let planes: Vec<f32> = self.context.gpu.read_at(buffer, offset, 2 * capacity)?;
        Ok(Gradients {
            absolute2d: (0..n).map(|i| [planes[i], planes[capacity + i]]).collect(),
            ..self.read_gradients(n)?
        })
    }

    /// Waits, and reads the gradients of the first `n` Gaussians, which must be all of them.
    pub(super) fn read_gradients(&self, n: usize) -> Result<Gradients<f32>> {
        let capacity = self.capacity.gaussians as usize;
        let read = |name: &str, floats: usize| {
            let buffer = self.buffers.get(name)?;
            self.context.gpu.read::<f32>(buffer, floats)
        };
        let geometry = read(GEOMETRY, plane::GEOMETRY * capacity)?;
        let sh = read(SH, sh_planes(self.sh_degree) as usize * capacity)?;
        let means2d = read(MEANS2D, 2 * capacity)?;
        let pose = read(POSE, 6 * n.div_ceil(WORKGROUP as usize))?;
        let planes = params::splats_of(&geometry, &sh, n, capacity, self.sh_degree);
        let mut total = [0.0f64; 6];
        for part in pose.chunks_exact(6) {
            for (sum, &value) in total.iter_mut().zip(part) {
                *sum += f64::from(value);
            }
        }
        Ok(Gradients {
            means: planes.means,
            scales: planes.scales,
            quats: planes.quats,
            opacities: planes.opacities,
            sh0: planes.sh0,
            sh_rest: planes.sh_rest,
            means2d: (0..n)
                .map(|i| [means2d[i], means2d[capacity + i]])
                .collect(),
            pose: total,
            absolute2d: Vec::new(),
        })
    }

    /// Waits, and reads the gradients by opacities and `sh0` of the first `n` Gaussians; the others are empty.
    pub(super) fn read_blend_gradients(&self, n: usize) -> Result<Gradients<f32>> {
        let capacity = self.capacity.gaussians as usize;
        let buffer = self.buffers.get(GEOMETRY)?;
        // These planes are neighbours, and the last.
        let offset = (plane::OPACITY * capacity * size_of::<f32>()) as u64;
        let floats = (plane::GEOMETRY - plane::OPACITY) * capacity;
        let planes: Vec<f32> = self.context.gpu.read_at(buffer, offset, floats)?;
        let at = |p: usize, i: usize| planes[(p - plane::OPACITY) * capacity + i];
        Ok(Gradients {
            opacities: planes[..n].to_vec(),
            sh0: (0..n)
                .map(|i| [0, 1, 2].map(|k| at(plane::SH0 + k, i)))
                .collect(),
            ..Gradients::default()
        })
    }
}
