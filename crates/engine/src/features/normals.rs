//! Normal consistency: Gaussians lie in the surface that they form together.
//!
//! A Gaussian stands for the plane through its centre, across its shortest axis. In camera coordinates `n_i` is the unit
//! normal of the plane, towards the camera, and `d_i = n_i . p_i` with the centre `p_i`. With the share `w_i` of a
//! Gaussian in a pixel (alpha times the transmittance in front):
//!
//! 1. The *blended normal* is `N = sum w_i n_i`, the *blended distance* is `D = sum w_i d_i`: four channels of a second
//!    blend, without a background. A pixel's point is where its ray `r` meets the blended plane, `X = r D / (N . r)`
//!    (Chen et al. 2024, "PGSR", arXiv:2406.06521). It has none with an alpha below [`LEAST_ALPHA`], or if the ray
//!    grazes the plane: `-N . r < LEAST_COSINE alpha |r|`.
//! 2. The normal of the surface is `M`, the unit vector of `(X_below - X_above) x (X_right - X_left)`. A pixel has none
//!    if one of the five points is missing, or a neighbour's factor `D / (N . r)` differs by more than [`MOST_STEP`] of
//!    its own: beyond an edge begins another surface. Pixels at the edge of the image have none.
//! 3. The loss is `1 / P sum_p (alpha - N . M)`, over the pixels with a normal; P is the number of all pixels. That is
//!    `sum w_i (1 - n_i . M)` (Huang et al. 2024, "2D Gaussian Splatting", arXiv:2403.17888, eq. 14). All of it is
//!    differentiated: Gaussians turn, and move.
//!
//! The gradients of this loss do not count for density control, which follows the photos.
//!
//! [`matching`] is a second loss of the same planes.
//!
//! Reference: `dapple_reference::normal_consistency`.

pub mod matching;

use serde::{Deserialize, Serialize};

/// Minimum alpha of a pixel that has a point.
pub const LEAST_ALPHA: f32 = 0.5;

/// Minimum cosine of the angle between a pixel's ray and the blended normal.
pub const LEAST_COSINE: f32 = 0.05;

/// Maximum step of depth between neighbours of one surface, as a fraction of the depth.
pub const MOST_STEP: f32 = 0.1;

/// Numbers of a step. The weights are those of [`LossTerm::Normals`](crate::LossTerm::Normals) and of
/// [`LossTerm::Matching`](crate::LossTerm::Matching).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Random words: for the neighbour ([`matching::compared`]), and for the place of the grid ([`matching::Pair`]).
    pub draw: [u32; 2],
}

/// Nothing of a view is learnt.
pub type State = ();
