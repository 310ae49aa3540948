//! Gradients: derivatives of a scalar by all optimised parameters.

/// Gradients of a loss, with the shapes of [`dapple_scene::Splats`], by the stored parameters:
/// logarithms of scales, logits of opacities, quaternions without normalisation. `T` is `f32` for
/// engines, `f64` for the reference.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gradients<T> {
    /// Gradient by the centres, `[N, 3]`.
    pub means: Vec<[T; 3]>,
    /// Gradient by the logarithms of the scales, `[N, 3]`.
    pub scales: Vec<[T; 3]>,
    /// Gradient by the quaternions, `[N, 4]`, `[w, x, y, z]`.
    pub quats: Vec<[T; 4]>,
    /// Gradient by the opacity logits, `[N]`.
    pub opacities: Vec<T>,
    /// Gradient by SH coefficient 0, `[N, 3]`.
    pub sh0: Vec<[T; 3]>,
    /// Gradient by the other SH coefficients, `[N, K - 1, 3]`; K is that of the splats' degree. Zero
    /// beyond the active degree.
    pub sh_rest: Vec<T>,
    /// Gradient by the projected centres, pixels, `[N, 2]`; the input of adaptive density control.
    pub means2d: Vec<[T; 2]>,
    /// Sums over the pixels of the absolute values of their parts of [`Self::means2d`], by axis, `[N, 2]` (AbsGS, Ye et
    /// al. 2024, arXiv:2404.10484). Empty, unless [`GradientParts::AllAndAbsolute`] was requested.
    pub absolute2d: Vec<[T; 2]>,
    /// Gradient by a small motion of the camera: `camera_from_world` is preceded by
    /// `p -> p + omega x p + t`, in camera coordinates; `[omega_x, omega_y, omega_z, t_x, t_y, t_z]`.
    pub pose: [f64; 6],
}

impl<T: Copy + Default> Gradients<T> {
    /// Creates gradients of zero for `n` Gaussians with `sh_rest_stride` floats of `sh_rest` each.
    pub fn zeros(n: usize, sh_rest_stride: usize) -> Self {
        let zero = T::default();
        Self {
            means: vec![[zero; 3]; n],
            scales: vec![[zero; 3]; n],
            quats: vec![[zero; 4]; n],
            opacities: vec![zero; n],
            sh0: vec![[zero; 3]; n],
            sh_rest: vec![zero; n * sh_rest_stride],
            means2d: vec![[zero; 2]; n],
            absolute2d: Vec::new(),
            pose: [0.0; 6],
        }
    }
}

impl<T: Copy + Into<f64>> Gradients<T> {
    /// Returns the per-Gaussian tensors, flattened and converted to `f64`, with their names, for
    /// comparing engines.
    pub fn tensors(&self) -> [(&'static str, Vec<f64>); 7] {
        fn flat<T: Copy + Into<f64>, const K: usize>(rows: &[[T; K]]) -> Vec<f64> {
            rows.iter().flatten().map(|&v| v.into()).collect()
        }
        [
            ("means", flat(&self.means)),
            ("scales", flat(&self.scales)),
            ("quats", flat(&self.quats)),
            (
                "opacities",
                self.opacities.iter().map(|&v| v.into()).collect(),
            ),
            ("sh0", flat(&self.sh0)),
            ("sh_rest", self.sh_rest.iter().map(|&v| v.into()).collect()),
            ("means2d", flat(&self.means2d)),
        ]
    }
}

/// Parts of [`Gradients`] to copy to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GradientParts {
    /// All gradients without [`Gradients::absolute2d`].
    All,
    /// All gradients. The backward pass takes longer.
    AllAndAbsolute,
    /// [`Gradients::opacities`] and [`Gradients::sh0`], which are the fastest to read back.
    Blend,
}

/// Gradients of a scalar by the opacities and the first SH coefficients alone, which are the fastest to read back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlendGradients {
    /// Gradient by the opacity logits, `[N]`.
    pub opacities: Vec<f32>,
    /// Gradient by SH coefficient 0, `[N, 3]`.
    pub sh0: Vec<[f32; 3]>,
}

impl From<Gradients<f32>> for BlendGradients {
    fn from(gradients: Gradients<f32>) -> Self {
        Self {
            opacities: gradients.opacities,
            sh0: gradients.sh0,
        }
    }
}
