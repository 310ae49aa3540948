//! Reads back gradients that the GPU has written.

use super::GpuEngine;
use crate::layout::{WORKGROUP, plane};
use crate::params;
use crate::room::sh_planes;
use crate::stages::gradients::{GEOMETRY, MEANS2D, POSE, SH};
use dapple_engine::Gradients;
use dapple_scene::Result;

impl GpuEngine {
    /// Waits, and reads the gradients of the first `n` Gaussians, which must be all of them.
    pub(super) fn read_gradients(&self, n: usize) -> Result<Gradients<f32>> {
        let capacity = self.room.gaussians as usize;
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
        })
    }
}
