//! Floating-point operations of each stage of a training step, by formula from the counts of a view. They
//! follow from the mathematics, are counted below from the kernels of the CPU engine, and are equal in all
//! engines.
//!
//! Operations: addition, multiplication, comparison, minimum, maximum, select, division and square root are
//! 1 each, whatever instructions implement them. A fused multiply-add is 2. `exp2`, `log2` and the sigmoid
//! cost their polynomials. Signs, absolute values, conversions and integers are free. Terms that appear
//! twice in one kernel are counted once. All 16 lanes of a row count, also those of finished or unreached
//! pixels, because they are computed.
//!
//! Some numbers are not among the counts: tiles listed by `project`, instances reached before a tile is
//! finished, padding lanes. For them the formulas take the least possible value, so that an achieved rate
//! computed from them is a lower bound.

use super::Work;
use crate::Stage;
use crate::constants::{SSIM_WINDOW, TILE_SIZE};
use dapple_scene::sh_coefficient_count;

/// Components of a Gaussian without SH: centre, scales, rotation, opacity.
const GEOMETRY: u64 = 3 + 3 + 4 + 1;
/// Numbers of a pixel: red, green, blue and transmittance.
const PLANES: u64 = 4;

/// `exp2`: clamps 2, round 3, polynomial of degree 5 as 5 FMA.
const EXP2: u64 = 2 + 3 + 5 * FMA;
/// `exp`: scale, `exp2`.
const EXP: u64 = 1 + EXP2;
/// `exp2_from_minus_8`: polynomial of degree 5 as a square and 5 FMA, three squares.
const EXP2_FROM_MINUS_8: u64 = 1 + 5 * FMA + 3;
/// `sigmoid`: `exp`, add, divide.
const SIGMOID: u64 = EXP + 2;
/// `log2`: exponent 1, quotient 3, square 1, 4 FMA, scale 1, final FMA.
const LOG2: u64 = 1 + 3 + 1 + 4 * FMA + 1 + FMA;
const FMA: u64 = 2;
/// Dot product of three components.
const DOT: u64 = 1 + 2 * FMA;
/// Lanes of a row: the edge of a tile.
const LANES: u64 = TILE_SIZE as u64;

/// `Layer::new` for one pixel, alpha: add, FMA, power of two. Values that are equal for all rows of an
/// instance (dx, a dx) count once, in the set-up.
const ALPHA: u64 = 1 + FMA + EXP2_FROM_MINUS_8;
/// `Layer::new` for one pixel, the rest: clamp, floor (compare, select), transmittance (FMA), end
/// (compare, two selects), weight.
const LAYER: u64 = 1 + 2 + FMA + 3 + 1;
/// Set-up of an instance, per lane: two centres and their offsets (2 + 2), `b dy`, `dy^2`, FMA, `a dx`. The
/// search for the rows that the instance reaches is not counted, because it only saves work.
const INSTANCE_SETUP: u64 = LANES * (4 + 2 + FMA + 1);
/// `blend` for one pixel: alpha, layer, FMA per colour.
const BLEND_PIXEL: u64 = ALPHA + LAYER + 3 * FMA;
/// `blend` at the end of a pixel: colour plus background, times transmittance.
const BLEND_END: u64 = 3 * 2;
/// `blend_backward` for one pixel: alpha, layer, colour weighted by the gradient (1 + 2 FMA), contribution
/// from behind (FMA), dL/dalpha (4), slope (compare, multiply, select), its moments over rows (1 + 2 FMA),
/// FMA per colour.
const BACKWARD_PIXEL: u64 = ALPHA + LAYER + (1 + 2 * FMA) + FMA + 4 + 3 + (1 + 2 * FMA) + 3 * FMA;
/// `blend_backward` at the end of an instance: moments over columns (3 products a lane), nine sums
/// over the lanes.
const BACKWARD_INSTANCE: u64 = LANES * 3 + 9 * (LANES - 1);
/// `blend_backward` at the start of a pixel: FMA per plane.
const BACKWARD_START: u64 = PLANES * FMA;

/// `projection::project` for one Gaussian and a pinhole. A lens with distortion adds several hundred
/// operations here and in [`PROJECTION_BACKWARD`], which are not counted.
const PROJECTION: u64 = (1 + 3 * FMA)       // |quat|^2
    + (1 + 10 * FMA + 1)                    // all finite?
    + 3 * (DOT + 1)                         // camera coordinates
    + (2 + 2 + 2 + 1 + 2 + 4 + 2 * FMA)     // valid, safe z and norm, 1/norm, 1/z, u v, clamp, mean2d
    + 4 + 3 * EXP                           // unit quaternion, scales
    + (9 + 9 + 12)                          // rotation matrix: products, diagonal, rest
    + 9 + 2 * (1 + 3 * (FMA + 1))           // M, T
    + 6 * DOT + 2 * DOT                     // U, diagonal of U U^T
    + 3 * (1 + FMA)                         // U0 x U1
    + (1 + FMA + DOT + 1 + 1)               // determinant, its inverse
    + 2 + (DOT + 1 + 2) + 1                 // variances, conic, overflow?
    + SIGMOID;
/// `view_direction`: offset, squared length, floor, root, division, three products.
const VIEW_DIRECTION: u64 = 3 + DOT + 3 + 3;
/// `sh::basis` up to each degree.
const SH_BASIS: [u64; 4] = [0, 3, 3 + 14, 3 + 14 + 21];
/// `sh::basis_backward` up to each degree; products of `basis` are not counted again.
const SH_BASIS_BACKWARD: [u64; 4] = [0, 3, 3 + 23, 3 + 23 + 47];
/// `project` without the parts above: floor of opacity, `log2`, level (3), radii (5), conic (3); clamp of
/// the colour and check that it is finite (3 + 4).
const PROJECT_REST: u64 = 1 + LOG2 + 3 + 5 + 3 + 7;

/// `projection::project_backward` for one Gaussian, without the camera's own gradient.
const PROJECTION_BACKWARD: u64 = 1 + 4 * 3 + 3 * 3   // dL/dcov2d
    + 6 * 4 + 9 * (1 + FMA) + 6 * DOT               // dU, dM, dT
    + 3 * (DOT + 1) + 9                             // scales, rotation matrix
    + (9 + 12 + 11 + 10) + 7 + 4 * (FMA + 1)        // quaternion
    + 2 + (2 * DOT + 2) + 2 * (DOT + 6) + 5 + 2     // u, v, z, clamps, point
    + 3 * DOT; // world coordinates
/// `backward` without projection and SH: screen gradients (8), clamp of the colour (6), direction (DOT, 4
/// and 3 x 4), centre (3), selects of invalid lanes (11 + 2), opacity, statistics (8).
const BACKWARD_REST: u64 = 8 + 6 + (DOT + 4 + 12) + 3 + 13 + (SIGMOID + 1) + 8;
/// Adam for one component: first moment (1 + FMA), second (2 + FMA), flush (4), step (4), FMA.
const ADAM: u64 = (1 + FMA) + (2 + FMA) + 4 + 4 + FMA;

/// SSIM's window along both axes: a product and 10 FMA along rows, 11 FMA along columns.
const WINDOW: u64 = (1 + (SSIM_WINDOW as u64 - 1) * FMA) + SSIM_WINDOW as u64 * FMA;
/// Pass 1 of `loss` for one value: load (3), squares and product (4), 4 windows, SSIM and its
/// derivatives: means 2, variance 4, covariance 2, a1 3, a2 2, 1/b1 5, 1/b2 2, their product 1,
/// SSIM 2, d/dmean 12, weights 1, maps 6, loss 3.
const SSIM_VALUE: u64 = 3 + 4 + 4 * WINDOW + (2 + 4 + 2 + 3 + 2 + 5 + 2 + 1 + 2 + 12 + 1 + 6 + 3);
/// Pass 2 for one value, SSIM's part: 3 windows, 5 to combine them.
const SSIM_GRADIENT: u64 = 3 * WINDOW + 5;
/// Pass 2 for one value, L1's part: load (3), difference, sum, sign (5), sum and mask (2).
const L1_VALUE: u64 = 3 + 2 + 5 + 2;

/// Returns the operations of a stage; 0 for a stage that only moves integers or whose costs are not counted
/// ([`super::is_counted`]).
pub fn operations(stage: Stage, work: &Work) -> u64 {
    match stage {
        Stage::Project => project(work),
        Stage::Blend => blend(work),
        Stage::Loss => loss(work),
        Stage::BlendBackward => blend_backward(work),
        Stage::Update => update(work),
        Stage::Order | Stage::Emit | Stage::Sort | Stage::Ranges => 0,
        Stage::Appearance | Stage::Densify => 0,
    }
}

/// Returns K, the SH coefficients evaluated per channel.
fn coefficients(work: &Work) -> u64 {
    sh_coefficient_count(work.sh_degree) as u64
}

/// Returns the trained components of a Gaussian: 11 + 3 K.
fn components(work: &Work) -> u64 {
    GEOMETRY + 3 * coefficients(work)
}

/// Returns N (projection + direction + basis + 6 K + rest), without the scalar work on tiles.
fn project(w: &Work) -> u64 {
    let basis = SH_BASIS[usize::from(w.sh_degree.min(3))];
    let colour = 3 * FMA * coefficients(w);
    w.gaussians * (PROJECTION + VIEW_DIRECTION + basis + colour + PROJECT_REST)
}

/// Returns the least number of reached instances: one instance visits at most 16 rows.
fn least_instances(w: &Work) -> u64 {
    w.row_visits.div_ceil(LANES).min(w.instances)
}

/// Returns 16 R per pixel, the instances' set-up, P at the end.
fn blend(w: &Work) -> u64 {
    w.row_visits * LANES * BLEND_PIXEL + least_instances(w) * INSTANCE_SETUP + w.pixels * BLEND_END
}

/// Returns 16 R per pixel, the instances' set-up and sums, P at the start.
fn blend_backward(w: &Work) -> u64 {
    w.row_visits * LANES * BACKWARD_PIXEL
        + least_instances(w) * (INSTANCE_SETUP + BACKWARD_INSTANCE)
        + w.pixels * BACKWARD_START
}

/// Returns 3 P values, in two passes with an SSIM part. Rows that two neighbouring tasks filter count once.
fn loss(w: &Work) -> u64 {
    let ssim = u64::from(w.ssim) * (SSIM_VALUE + SSIM_GRADIENT);
    3 * w.pixels * (L1_VALUE + ssim)
}

/// Returns I slots of 9 sums; for each visible Gaussian the projection again and its backward pass, SH (6 K
/// forward, 9 K backward, 3 K selects); Adam for every component of all N.
fn update(w: &Work) -> u64 {
    let degree = usize::from(w.sh_degree.min(3));
    let harmonics = SH_BASIS[degree] + SH_BASIS_BACKWARD[degree] + (6 + 9 + 3) * coefficients(w);
    let backward = PROJECTION + PROJECTION_BACKWARD + VIEW_DIRECTION + harmonics + BACKWARD_REST;
    w.instances * 9 + w.visible * backward + w.gaussians * components(w) * ADAM
}
