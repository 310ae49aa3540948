//! Appearance MLP: how the light of one photo differs from another's. The inputs are a Gaussian's place, learnt
//! features of the Gaussian, and an appearance embedding for each photo.
//!
//! 1. [`encode`]: a Gaussian's centre in units of the scene, contracted outside of the scene, as sines and cosines.
//!    Then its [`FEATURES`], learnt numbers that are zero at first: its orientation and what shades it, for example.
//! 2. Hidden units: `h = max(0, W1 e + b)`, where `b` is the second half of the photo's embedding. The first entry of
//!    `e` is 1, so its weights are the bias that all photos share.
//! 3. The affine map: `W2 (s h)`, where `s` is the first half of the photo's embedding. The result is three gains and
//!    three offsets.
//! 4. A Gaussian's colour, before it is clamped at zero, becomes `(1 + gain) colour + offset`.
//!
//! An embedding of zeros changes nothing, and splat files hold the colours of that embedding. The map is linear in `s`,
//! as light is in the power of its lamps, and `b` determines where light falls. A colour in SH stays a colour in SH, so
//! the appearance can be baked into splats: [`bake`]. Centres are constants to the network and get no gradient from it.
//! Features in addition to places: Kulhanek et al. 2024, "WildGaussians", arXiv:2407.08447, section 3.2.
//!
//! The formulas in `f64`, and their derivatives: `dapple_reference::appearance_mlp`.

mod step;

pub use step::{FeatureStep, step};

use super::tensors::{TensorRow, ViewTensors, tensor_row};
use dapple_scene::{Error, Result, Splats};
use serde::{Deserialize, Serialize};

/// Entries of an encoded centre: one, the three coordinates, sines and cosines of four octaves.
pub const WAVES: usize = 28;

/// Learnt features per Gaussian.
pub const FEATURES: usize = 8;

/// Inputs of the network: an encoded centre, then features.
pub const ENCODED: usize = WAVES + FEATURES;

/// Units of the hidden layer.
pub const HIDDEN: usize = 32;

/// Outputs of the network for a Gaussian: three gains, three offsets.
pub const OUTPUTS: usize = 6;

/// Numbers of a photo's embedding: a factor for each hidden unit (`s`), then a bias for each (`b`).
pub const EMBEDDING: usize = 2 * HIDDEN;

/// Numbers of the network: `W1` `[HIDDEN, ENCODED]`, then `W2` `[OUTPUTS, HIDDEN]`.
pub const NETWORK: usize = HIDDEN * ENCODED + OUTPUTS * HIDDEN;

/// Octaves of sines.
const OCTAVES: usize = 4;

/// SH basis function 0.
const SH0: f32 = 0.282_094_8;

/// Settings of a step for the appearance MLP.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AppearanceMlpSettings {
    /// Step size of Adam for the network; 0 = it does not change.
    pub network_rate: f32,
    /// Step size of Adam for the photo's embedding; 0 = it does not change.
    pub embedding_rate: f32,
    /// Step size of Adam for the features of the Gaussians that the photo shows; 0 = they do not change.
    pub feature_rate: f32,
    /// Weight, in the loss, of the mean square of the first half of the embedding. It keeps effects that all photos
    /// share in the splats.
    pub neutral: f32,
}

/// Appearance MLP with the embeddings of all views: part of the state that a run needs to continue. Empty if the run
/// learns none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AppearanceMlp {
    /// Unit of centres: the middle of the scene, and one over its size. Empty or `[4]`.
    pub frame: Vec<f32>,
    /// Weights of the network, [`NETWORK`] numbers.
    pub network: Vec<f32>,
    /// Adam's moments of the network, first, then second: `[2, NETWORK]`.
    pub network_moments: Vec<f32>,
    /// Embeddings, `[views, EMBEDDING]`.
    pub embeddings: Vec<f32>,
    /// Adam's moments of the embeddings: `[views, 2, EMBEDDING]`.
    pub embedding_moments: Vec<f32>,
    /// Steps taken on each view, `[views]`; the network has taken their sum.
    pub seen: Vec<u32>,
    /// Features of each Gaussian, `[gaussians, FEATURES]`, in the order of the splats.
    pub features: Vec<f32>,
    /// Adam's moments of the features: `[gaussians, 2, FEATURES]`.
    pub feature_moments: Vec<f32>,
}

/// Settings of the appearance MLP, if the view is rendered through it. The engine must hold an embedding for every view.
pub type Step = Option<AppearanceMlpSettings>;

/// The network, with embeddings of the views and features of the Gaussians.
pub type State = AppearanceMlp;

/// Sizes of the appearance MLP of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MlpSizes {
    /// Number of views with embeddings.
    pub views: usize,
    /// Number of Gaussians with features.
    pub gaussians: usize,
}

/// The network has one row for all views, and its features have one row for each Gaussian.
impl ViewTensors for State {
    type Sizes = MlpSizes;
    const TENSORS: &'static [TensorRow<Self>] = &[
        tensor_row!("look.frame", F32 frame, |sizes| vec![sizes.views.min(1), 4]),
        tensor_row!("look.network", F32 network, |sizes| {
            vec![sizes.views.min(1), NETWORK]
        }),
        tensor_row!("look.network_moments", F32 network_moments, |sizes| {
            vec![sizes.views.min(1), 2, NETWORK]
        }),
        tensor_row!("look.codes", F32 embeddings, |sizes| {
            vec![sizes.views, EMBEDDING]
        }),
        tensor_row!("look.code_moments", F32 embedding_moments, |sizes| {
            vec![sizes.views, 2, EMBEDDING]
        }),
        tensor_row!("look.seen", U32 seen, |sizes| vec![sizes.views]),
        tensor_row!("look.features", F32 features, |sizes| {
            vec![sizes.gaussians, FEATURES]
        }),
        tensor_row!("look.feature_moments", F32 feature_moments, |sizes| {
            vec![sizes.gaussians, 2, FEATURES]
        }),
    ];

    fn sizes(&self) -> MlpSizes {
        MlpSizes {
            views: self.views(),
            gaussians: self.gaussians(),
        }
    }

    fn check(&self) -> Result<()> {
        AppearanceMlp::check(self)
    }
}

impl AppearanceMlp {
    /// Creates a network of random numbers keyed by `seed`, with embeddings and features of zeros: it changes no colour
    /// yet.
    pub fn new(centre: [f32; 3], size: f32, views: usize, gaussians: usize, seed: u64) -> Self {
        let mut state = seed ^ 0x6c6f_6f6b;
        // SplitMix64; uniform in -1..1.
        let mut uniform = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            (z >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        let mut network = Vec::with_capacity(NETWORK);
        for _ in 0..HIDDEN {
            for i in 0..ENCODED {
                // Coarse octaves start with larger weights.
                let width = match i {
                    0..4 | WAVES.. => 0.5,
                    _ => 0.5 / (1 << ((i - 4) / 6)) as f32,
                };
                network.push(width * uniform());
            }
        }
        for _ in 0..OUTPUTS * HIDDEN {
            network.push(0.5 * uniform());
        }
        let [x, y, z] = centre;
        Self {
            frame: vec![x, y, z, 1.0 / size.max(f32::MIN_POSITIVE)],
            network,
            network_moments: vec![0.0; 2 * NETWORK],
            embeddings: vec![0.0; views * EMBEDDING],
            embedding_moments: vec![0.0; 2 * views * EMBEDDING],
            seen: vec![0; views],
            features: vec![0.0; gaussians * FEATURES],
            feature_moments: vec![0.0; 2 * gaussians * FEATURES],
        }
    }

    /// Returns the number of Gaussians with features.
    pub fn gaussians(&self) -> usize {
        self.features.len() / FEATURES
    }

    /// Returns the number of views with an embedding.
    pub fn views(&self) -> usize {
        self.seen.len()
    }

    /// Returns true if the run learns no appearance MLP.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Returns a view's embedding; zeros if there is no such view.
    pub fn embedding(&self, view: usize) -> [f32; EMBEDDING] {
        let code = self
            .embeddings
            .get(view * EMBEDDING..(view + 1) * EMBEDDING);
        code.and_then(|code| code.try_into().ok())
            .unwrap_or([0.0; EMBEDDING])
    }

    /// Returns the network and the features with new embeddings for `views` views. Embeddings and moments are zero.
    #[must_use]
    pub fn for_views(&self, views: usize) -> Self {
        Self {
            frame: self.frame.clone(),
            network: self.network.clone(),
            network_moments: vec![0.0; 2 * NETWORK],
            embeddings: vec![0.0; views * EMBEDDING],
            embedding_moments: vec![0.0; 2 * views * EMBEDDING],
            seen: vec![0; views],
            features: self.features.clone(),
            feature_moments: vec![0.0; 2 * self.features.len()],
        }
    }

    /// Returns the number of steps that the network has taken.
    pub fn steps(&self) -> u64 {
        self.seen.iter().map(|&n| u64::from(n)).sum()
    }

    /// Checks that the lengths of all arrays are consistent.
    ///
    /// # Errors
    /// Lengths that differ.
    pub fn check(&self) -> Result<()> {
        let views = self.views();
        let is_there = usize::from(views > 0);
        let found = [
            self.frame.len(),
            self.network.len(),
            self.network_moments.len(),
            self.embeddings.len(),
            self.embedding_moments.len(),
            self.features.len(),
            self.feature_moments.len(),
        ];
        let expected = [
            4 * is_there,
            NETWORK * is_there,
            2 * NETWORK * is_there,
            EMBEDDING * views,
            2 * EMBEDDING * views,
            FEATURES * self.gaussians() * is_there,
            2 * FEATURES * self.gaussians() * is_there,
        ];
        if found == expected {
            return Ok(());
        }
        Err(
            Error::input("the arrays of the appearance MLP have different lengths")
                .hint("a network, a frame and an embedding for each view belong together"),
        )
    }
}

/// Returns the error of a step that learns the appearance MLP if the engine has none for its view.
pub fn no_embedding() -> Error {
    Error::input("the step requests the appearance MLP, and the engine holds none")
        .hint("upload a state with an appearance embedding for each view")
}

/// Computes step 1. `frame` is [`AppearanceMlp::frame`].
#[inline(always)]
pub fn encode(frame: &[f32], mean: [f32; 3], features: [f32; FEATURES]) -> [f32; ENCODED] {
    let mut out = [0.0; ENCODED];
    out[WAVES..].copy_from_slice(&features);
    let Some(&[cx, cy, cz, scale]) = frame.first_chunk() else {
        return out;
    };
    let mut x = [
        (mean[0] - cx) * scale,
        (mean[1] - cy) * scale,
        (mean[2] - cz) * scale,
    ];
    let length2 = x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
    if length2 > 1.0 {
        let inverse = 1.0 / length2.sqrt();
        let drawn = (2.0 - inverse) * inverse;
        x = x.map(|v| v * drawn);
    }
    out[0] = 1.0;
    out[1..4].copy_from_slice(&x);
    for (axis, v) in x.into_iter().enumerate() {
        let (mut s, mut c) = half_turn(v);
        for octave in 0..OCTAVES {
            (s, c) = (2.0 * s * c, 1.0 - 2.0 * s * s);
            out[4 + 6 * octave + axis] = s;
            out[7 + 6 * octave + axis] = c;
        }
    }
    out
}

/// Returns sine and cosine of `x pi / 4` for -2..2, within 1e-6 and equal on every device.
#[inline(always)]
fn half_turn(x: f32) -> (f32, f32) {
    let a = x * std::f32::consts::FRAC_PI_4;
    let q = a * a;
    let s = a
        * (1.0
            + q * (-1.0 / 6.0
                + q * (1.0 / 120.0
                    + q * (-1.0 / 5040.0 + q * (1.0 / 362_880.0 - q / 39_916_800.0)))));
    let c = 1.0
        + q * (-0.5
            + q * (1.0 / 24.0 + q * (-1.0 / 720.0 + q * (1.0 / 40_320.0 - q / 3_628_800.0))));
    (s, c)
}

/// Appearance MLP for one photo: `W1` with the photo's biases, and `W2` with the photo's factors, transposed so that
/// units are contiguous.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// First layer, `[ENCODED, HIDDEN]`.
    first: [[f32; HIDDEN]; ENCODED],
    /// Second layer, `[OUTPUTS, HIDDEN]`.
    second: [[f32; HIDDEN]; OUTPUTS],
    /// Factor of each unit, `s`.
    scale: [f32; HIDDEN],
    frame: [f32; 4],
}

impl Prepared {
    /// Prepares a network for one photo's embedding; `None` if `mlp` holds no network.
    pub fn new(mlp: &AppearanceMlp, code: &[f32; EMBEDDING]) -> Option<Self> {
        let frame = *mlp.frame.first_chunk::<4>()?;
        let (w1, w2) = mlp.network.split_at_checked(HIDDEN * ENCODED)?;
        if w2.len() != OUTPUTS * HIDDEN {
            return None;
        }
        let mut first = [[0.0; HIDDEN]; ENCODED];
        for (k, row) in w1.chunks_exact(ENCODED).enumerate() {
            for (i, &w) in row.iter().enumerate() {
                first[i][k] = w;
            }
        }
        for k in 0..HIDDEN {
            first[0][k] += code[HIDDEN + k];
        }
        let mut second = [[0.0; HIDDEN]; OUTPUTS];
        for (out, row) in second.iter_mut().zip(w2.chunks_exact(HIDDEN)) {
            out.copy_from_slice(row);
        }
        let mut scale = [0.0; HIDDEN];
        scale.copy_from_slice(&code[..HIDDEN]);
        Some(Self {
            first,
            second,
            scale,
            frame,
        })
    }

    /// Computes step 1.
    #[inline(always)]
    pub fn encode(&self, mean: [f32; 3], features: [f32; FEATURES]) -> [f32; ENCODED] {
        encode(&self.frame, mean, features)
    }

    /// Computes step 2.
    #[inline(always)]
    pub fn hidden(&self, encoded: &[f32; ENCODED]) -> [f32; HIDDEN] {
        let mut h = [0.0f32; HIDDEN];
        for (row, &e) in self.first.iter().zip(encoded) {
            for (sum, w) in h.iter_mut().zip(row) {
                *sum += w * e;
            }
        }
        h.map(|v| v.max(0.0))
    }

    /// Computes step 3: gains, then offsets.
    #[inline(always)]
    pub fn affine(&self, hidden: &[f32; HIDDEN]) -> [f32; OUTPUTS] {
        self.second.map(|row| {
            let mut sum = 0.0;
            for k in 0..HIDDEN {
                sum += row[k] * self.scale[k] * hidden[k];
            }
            sum
        })
    }

    /// Computes steps 1 to 3.
    pub fn at(&self, mean: [f32; 3], features: [f32; FEATURES]) -> [f32; OUTPUTS] {
        self.affine(&self.hidden(&self.encode(mean, features)))
    }

    /// Adds the contribution of one Gaussian to the sums that [`Self::gradient`] reads. `derivative` is by its gains
    /// and offsets. Returns the derivative by its features.
    #[inline(always)]
    pub fn accumulate(
        &self,
        encoded: &[f32; ENCODED],
        derivative: &[f32; OUTPUTS],
        sums: &mut Sums,
    ) -> [f32; FEATURES] {
        let h = self.hidden(encoded);
        let mut back = [0.0f32; HIDDEN];
        for ((sum, row), &d) in sums.second.iter_mut().zip(&self.second).zip(derivative) {
            for k in 0..HIDDEN {
                sum[k] += d * h[k];
                back[k] += d * row[k];
            }
        }
        for k in 0..HIDDEN {
            back[k] = if h[k] > 0.0 {
                back[k] * self.scale[k]
            } else {
                0.0
            };
        }
        for (sum, &e) in sums.first.iter_mut().zip(encoded) {
            for k in 0..HIDDEN {
                sum[k] += back[k] * e;
            }
        }
        std::array::from_fn(|f| {
            let row = &self.first[WAVES + f];
            (0..HIDDEN).map(|k| back[k] * row[k]).sum()
        })
    }

    /// Returns the derivatives by the network and by the embedding.
    pub fn gradient(&self, sums: &Sums) -> (Vec<f32>, [f32; EMBEDDING]) {
        let mut network = Vec::with_capacity(NETWORK);
        for k in 0..HIDDEN {
            network.extend(sums.first.iter().map(|row| row[k]));
        }
        let mut code = [0.0; EMBEDDING];
        for (sum, row) in sums.second.iter().zip(&self.second) {
            for k in 0..HIDDEN {
                network.push(sum[k] * self.scale[k]);
                code[k] += sum[k] * row[k];
            }
        }
        code[HIDDEN..].copy_from_slice(&sums.first[0]);
        (network, code)
    }
}

/// Sums over Gaussians of their contributions to the gradient.
#[derive(Debug, Clone)]
pub struct Sums {
    first: [[f32; HIDDEN]; ENCODED],
    second: [[f32; HIDDEN]; OUTPUTS],
}

impl Sums {
    /// Sums over no Gaussian.
    pub const ZERO: Self = Self {
        first: [[0.0; HIDDEN]; ENCODED],
        second: [[0.0; HIDDEN]; OUTPUTS],
    };

    /// Adds the sums over other Gaussians.
    pub fn add(&mut self, other: &Self) {
        let own = self.first.iter_mut().chain(&mut self.second).flatten();
        let others = other.first.iter().chain(&other.second).flatten();
        for (sum, value) in own.zip(others) {
            *sum += value;
        }
    }
}

/// Returns the offset that the appearance adds to SH coefficient 0, after the gain: `(0.5 gain + offset) / Y0`, because
/// colours are `0.5 + Y0 c0 + ..`.
#[inline]
pub fn added(gain: f32, offset: f32) -> f32 {
    (0.5 * gain + offset) / SH0
}

/// Converts the derivative by SH coefficient 0 to the derivative by the colour.
#[inline]
pub fn by_colour(by_sh0: f32) -> f32 {
    by_sh0 / SH0
}

/// Bakes the appearance of an embedding into splats, so that any viewer shows the colours of that photo. The splats are
/// those of the run that learned `mlp`, in their order.
pub fn bake(splats: &mut Splats, mlp: &AppearanceMlp, code: &[f32; EMBEDDING]) {
    let Some(prepared) = Prepared::new(mlp, code) else {
        return;
    };
    let features = mlp.features.as_chunks::<FEATURES>().0;
    light(splats, |i, mean| {
        prepared.at(mean, features.get(i).copied().unwrap_or_default())
    });
}

/// Computes step 4 for all Gaussians. `affine` returns a Gaussian's gains and offsets from its index and centre.
pub fn light(splats: &mut Splats, affine: impl Fn(usize, [f32; 3]) -> [f32; OUTPUTS]) {
    let rest = splats.sh_rest.len() / splats.len().max(1);
    for (i, &mean) in splats.means.iter().enumerate() {
        let affine = affine(i, mean);
        for c in 0..3 {
            let sh0 = &mut splats.sh0[i][c];
            *sh0 = (1.0 + affine[c]) * *sh0 + added(affine[c], affine[3 + c]);
        }
        for (k, value) in splats.sh_rest[i * rest..(i + 1) * rest]
            .iter_mut()
            .enumerate()
        {
            *value *= 1.0 + affine[k % 3];
        }
    }
}
