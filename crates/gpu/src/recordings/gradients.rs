//! Gradients that are written out and read back, in place of an update.

use super::{Recordings, Stages, front_index};
use crate::layout::{WORKGROUP, plane};
use crate::optics::Optics;
use crate::stages::blend_backward::BlendBackward;
use crate::stages::update::{self, Mode};
use crate::{Buffers, Context, frame, params};
use dapple_engine::Gradients;
use dapple_runtime::Recording;
use dapple_scene::Result;

/// How Gaussians lie in the planes, and what their gradients are of.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// How many there are.
    pub gaussians: usize,
    /// Stride of a plane.
    pub capacity: usize,
    /// Degree that SH rest is stored for.
    pub sh_degree: u8,
    /// How Gaussians come onto the image.
    pub optics: Optics,
    /// Whether depths have a gradient too.
    pub depth: bool,
}

impl Recordings {
    /// Runs `blend_backward` and the chain rule over what `front` left and the image gradient that
    /// was written, waits, and reads the gradients.
    ///
    /// # Errors
    /// No memory, a lost device.
    pub fn gradients(
        &mut self,
        context: &Context,
        stages: &mut Stages,
        buffers: &mut Buffers,
        immediates: &[u8],
        shape: Shape,
    ) -> Result<Gradients<f32>> {
        let gpu = &context.gpu;
        let Shape {
            gaussians: n,
            capacity,
            sh_degree,
            optics,
            depth,
        } = shape;
        let sh_planes = frame::sh_planes(sh_degree) as usize;
        let workgroups = capacity.div_ceil(WORKGROUP as usize);
        let outputs = [
            ("gradient_geometry", plane::GEOMETRY * capacity),
            ("gradient_sh", sh_planes * capacity),
            ("gradient_means2d", 2 * capacity),
            ("gradient_pose", 6 * workgroups),
        ];
        let which = front_index(optics, depth);
        let mode = Mode::of_gradients(depth, optics);
        if self.gradients[which].is_none() {
            if stages.gradients[which].is_none() {
                stages.gradients[which] = Some(update::Gradients::new(context, mode)?);
            }
            // All write the same buffers: those that others were recorded with must stay.
            let made = self.gradients.iter().any(Option::is_some);
            for (name, floats) in outputs.into_iter().filter(|_| !made) {
                buffers.set(name, gpu.buffer(name, 4 * floats as u64)?);
            }
            let mut recording = Recording::new();
            match depth {
                true => {
                    BlendBackward::new(context, mode)?.record(context, buffers, &mut recording)?
                }
                false => stages
                    .blend_backward
                    .record(context, buffers, &mut recording)?,
            }
            if let Some(kernel) = &stages.gradients[which] {
                kernel.record(context, buffers, &mut recording)?;
            }
            self.gradients[which] = Some(recording);
        }
        if let Some(recording) = &self.gradients[which] {
            recording.submit(gpu, immediates);
        }
        let mut read = outputs.map(|(name, floats)| gpu.read::<f32>(buffers.get(name)?, floats));
        let mut take = |i: usize| std::mem::replace(&mut read[i], Ok(Vec::new()));
        let (geometry, sh, means2d, pose) = (take(0)?, take(1)?, take(2)?, take(3)?);
        let planes = params::splats_of(&geometry, &sh, n, capacity, sh_degree);
        let mut total = [0.0f64; 6];
        for part in pose.chunks_exact(6).take(n.div_ceil(WORKGROUP as usize)) {
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
