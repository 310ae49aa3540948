//! Appearance MLP: applies one photo's appearance to the Gaussians' colours, with its backward pass. The model, its
//! terms and the order of its numbers: [`mod@dapple_engine::appearance_mlp`].
//!
//! 1. `e(x, f)`: with `y = (x - centre) / size`, contracted to `y (2 - 1 / |y|) / |y|` where `|y| > 1`: one, `y`, and
//!    for each octave k of four sines, then cosines, of `2^k pi y / 2`; then the Gaussian's own features.
//! 2. `h = max(0, W1 e + b)`, `(gains, offsets) = W2 (s h)`; `s` and `b` are the halves of the photo's embedding.
//! 3. A colour `0.5 + sum_k Y_k c_k` becomes `(1 + gain) colour + offset`: all coefficients are multiplied by
//!    `1 + gain`, and `(0.5 gain + offset) / Y_0` is added to the first.
//!
//! Centres are constants: no derivative by them goes through the network.

use crate::oracle::Gaussian;
use dapple_engine::Gradients;
use dapple_engine::appearance_mlp::{
    EMBEDDING, ENCODED, FEATURES, HIDDEN, NETWORK, OUTPUTS, WAVES,
};
use glam::DVec3;

/// Returns SH basis function 0.
fn y0() -> f64 {
    0.5 / std::f64::consts::PI.sqrt()
}

/// Network and a photo's embedding in `f64`.
#[derive(Debug, Clone)]
pub struct AppearanceMlpReference {
    /// Middle of the scene, and one over its size.
    pub frame: [f64; 4],
    /// Weights: `W1` `[HIDDEN, ENCODED]`, then `W2` `[OUTPUTS, HIDDEN]`.
    pub network: Vec<f64>,
    /// Embedding: `s`, then `b`.
    pub code: Vec<f64>,
    /// Features, `[gaussians, FEATURES]`.
    pub features: Vec<f64>,
}

/// Derivatives by the fields of [`AppearanceMlpReference`].
#[derive(Debug, Clone)]
pub struct AppearanceMlpGradient {
    /// Derivative by [`AppearanceMlpReference::network`].
    pub network: Vec<f64>,
    /// Derivative by [`AppearanceMlpReference::code`].
    pub code: Vec<f64>,
    /// Derivative by [`AppearanceMlpReference::features`].
    pub features: Vec<f64>,
}

impl AppearanceMlpReference {
    /// Converts an engine's network and the embedding of a view.
    pub fn new(mlp: &dapple_engine::AppearanceMlp, view: usize) -> Self {
        let wide = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect();
        Self {
            frame: std::array::from_fn(|i| mlp.frame[i].into()),
            network: wide(&mlp.network),
            code: wide(&mlp.embedding(view)),
            features: wide(&mlp.features),
        }
    }

    /// Returns a Gaussian's features.
    pub fn features_of(&self, gaussian: usize) -> &[f64] {
        &self.features[gaussian * FEATURES..(gaussian + 1) * FEATURES]
    }

    /// Computes step 1.
    pub fn encode(&self, mean: DVec3, features: &[f64]) -> [f64; ENCODED] {
        let [x, y, z, scale] = self.frame;
        let mut at = (mean - DVec3::new(x, y, z)) * scale;
        let length = at.length();
        if length > 1.0 {
            at *= (2.0 - 1.0 / length) / length;
        }
        let mut out = [0.0; ENCODED];
        out[WAVES..].copy_from_slice(features);
        out[0] = 1.0;
        for axis in 0..3 {
            out[1 + axis] = at[axis];
            for octave in 0..4 {
                let angle = f64::from(1 << octave) * std::f64::consts::FRAC_PI_2 * at[axis];
                out[4 + 6 * octave + axis] = angle.sin();
                out[7 + 6 * octave + axis] = angle.cos();
            }
        }
        out
    }

    fn hidden(&self, encoded: &[f64; ENCODED]) -> [f64; HIDDEN] {
        std::array::from_fn(|k| {
            let row = &self.network[k * ENCODED..(k + 1) * ENCODED];
            let sum: f64 = row.iter().zip(encoded).map(|(w, e)| w * e).sum();
            (sum + self.code[HIDDEN + k]).max(0.0)
        })
    }

    fn second(&self, output: usize, unit: usize) -> f64 {
        self.network[HIDDEN * ENCODED + output * HIDDEN + unit]
    }

    /// Returns gains and offsets for a centre and features.
    pub fn affine(&self, mean: DVec3, features: &[f64]) -> [f64; OUTPUTS] {
        let h = self.hidden(&self.encode(mean, features));
        std::array::from_fn(|o| {
            (0..HIDDEN)
                .map(|k| self.second(o, k) * self.code[k] * h[k])
                .sum()
        })
    }

    /// Computes step 3: the Gaussians with the photo's appearance.
    pub fn looked(&self, gaussians: &[Gaussian]) -> Vec<Gaussian> {
        let mut out = gaussians.to_vec();
        for (i, gaussian) in out.iter_mut().enumerate() {
            let affine = self.affine(gaussian.mean, self.features_of(i));
            let gain = DVec3::new(affine[0], affine[1], affine[2]);
            let offset = DVec3::new(affine[3], affine[4], affine[5]);
            for coefficient in &mut gaussian.sh {
                *coefficient *= DVec3::ONE + gain;
            }
            gaussian.sh[0] += (0.5 * gain + offset) / y0();
        }
        out
    }

    /// Converts the gradients by the result of [`Self::looked`] to those by its argument and by the fields.
    pub fn backward(
        &self,
        gaussians: &[Gaussian],
        mut by_looked: Gradients<f64>,
    ) -> (Gradients<f64>, AppearanceMlpGradient) {
        let mut network = vec![0.0; NETWORK];
        let mut code = vec![0.0; EMBEDDING];
        let mut features = vec![0.0; gaussians.len() * FEATURES];
        let stride = by_looked.sh_rest.len() / gaussians.len().max(1);
        for (i, gaussian) in gaussians.iter().enumerate() {
            let encoded = self.encode(gaussian.mean, self.features_of(i));
            let affine = self.affine(gaussian.mean, self.features_of(i));
            let mut by_affine = [0.0; OUTPUTS];
            for c in 0..3 {
                let first = by_looked.sh0[i][c];
                by_affine[3 + c] = first / y0();
                by_affine[c] = first * (gaussian.sh[0][c] + 0.5 / y0());
                by_looked.sh0[i][c] *= 1.0 + affine[c];
                for k in 0..stride / 3 {
                    let value = &mut by_looked.sh_rest[i * stride + 3 * k + c];
                    by_affine[c] += *value * gaussian.sh[1 + k][c];
                    *value *= 1.0 + affine[c];
                }
            }
            let h = self.hidden(&encoded);
            for k in 0..HIDDEN {
                let mut by_unit = 0.0;
                for (o, by) in by_affine.iter().enumerate() {
                    let w = self.second(o, k);
                    network[HIDDEN * ENCODED + o * HIDDEN + k] += by * self.code[k] * h[k];
                    code[k] += by * w * h[k];
                    by_unit += by * w * self.code[k];
                }
                if h[k] > 0.0 {
                    for (j, e) in encoded.iter().enumerate() {
                        network[k * ENCODED + j] += by_unit * e;
                    }
                    for f in 0..FEATURES {
                        features[i * FEATURES + f] +=
                            by_unit * self.network[k * ENCODED + WAVES + f];
                    }
                    code[HIDDEN + k] += by_unit;
                }
            }
        }
        let by_look = AppearanceMlpGradient {
            network,
            code,
            features,
        };
        (by_looked, by_look)
    }
}
