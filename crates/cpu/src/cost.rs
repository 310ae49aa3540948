//! What a training step costs at least: floating-point operations and bytes of each stage, by
//! formula from the counts of a view.
//!
//! 1. [`Work`] holds the counts: of them alone the cost depends.
//! 2. [`cost`] multiplies them by the operations of the kernels, counted below from their source.
//!
//! Operations: addition, multiplication, comparison, minimum, maximum, select, division and square
//! root are 1 each, whatever instructions they become; a fused multiply-add is 2; `exp2`, `log2`
//! and the sigmoid are what their polynomials take. Signs, absolute values, conversions and
//! integers are free. Terms that appear twice in one kernel are counted once. All 16 lanes of a
//! row count, also those over pixels that are finished or out of reach: they are computed.
//!
//! Bytes: compulsory traffic, every input array read once and every output array written once per
//! pass, as if caches were perfect within a pass and empty between passes.
//!
//! Where the counts do not tell (tiles listed by `project`, instances reached before a tile is
//! finished, padding lanes) the formulas take the least it can be: an achieved rate computed from
//! them is a lower bound.

use crate::blocks::component;
use crate::frame::{PLANES, Slot, Splat2d, TileSpans, rank_chunk};
use crate::simd::ROW;
use dapple_engine::Stage;
use dapple_engine::constants::SSIM_WINDOW;

/// Counts of one training step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Gaussians held.
    pub gaussians: u64,
    /// Gaussians that touch at least one tile.
    pub visible: u64,
    /// (Gaussian, tile) pairs.
    pub instances: u64,
    /// Rows of 16 pixels that `blend` visited, over all instances; `blend_backward` visits the same.
    pub row_visits: u64,
    /// Pixels of the image.
    pub pixels: u64,
    /// Tiles of the image.
    pub tiles: u64,
    /// Degree of spherical harmonics evaluated, 0 to 3.
    pub sh_degree: u8,
    /// Whether the loss has an SSIM part.
    pub ssim: bool,
}

/// Cost of one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Floating-point operations; 0 where a stage only moves integers.
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

impl Work {
    /// K: SH coefficients evaluated per channel.
    fn coefficients(&self) -> u64 {
        dapple_scene::sh_coefficient_count(self.sh_degree) as u64
    }

    /// Components of a Gaussian that are read and trained: 11 + 3 K.
    fn components(&self) -> u64 {
        component::SH as u64 + 3 * self.coefficients()
    }
}

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
/// Lanes of a row.
const LANES: u64 = ROW as u64;

/// `Layer::new` for one pixel, alpha: add, FMA, power of two. What a row does again though it is the
/// same for all rows of an instance (dx, a dx) counts once, in the set-up.
const ALPHA: u64 = 1 + FMA + EXP2_FROM_MINUS_8;
/// `Layer::new` for one pixel, the rest: clamp, floor (compare, select), transmittance (FMA), end
/// (compare, two selects), weight.
const LAYER: u64 = 1 + 2 + FMA + 3 + 1;
/// Set-up of an instance, per lane: two centres and their offsets (2 + 2), `b dy`, `dy^2`, FMA,
/// `a dx`. Finding the rows that it reaches is not counted: it is done to have less to do.
const INSTANCE_SETUP: u64 = LANES * (4 + 2 + FMA + 1);
/// `blend` for one pixel: alpha, layer, FMA per colour.
const BLEND_PIXEL: u64 = ALPHA + LAYER + 3 * FMA;
/// `blend` at the end of a pixel: colour plus background, times transmittance.
const BLEND_END: u64 = 3 * 2;
/// `blend_backward` for one pixel: alpha, layer, colour seen through the gradient (1 + 2 FMA), what
/// lies behind (FMA), dL/dalpha (4), slope (compare, multiply, select), its moments over rows
/// (1 + 2 FMA), FMA per colour.
const BACKWARD_PIXEL: u64 = ALPHA + LAYER + (1 + 2 * FMA) + FMA + 4 + 3 + (1 + 2 * FMA) + 3 * FMA;
/// `blend_backward` at the end of an instance: moments over columns (3 products a lane), nine sums
/// over the lanes.
const BACKWARD_INSTANCE: u64 = LANES * 3 + 9 * (LANES - 1);
/// `blend_backward` at the start of a pixel: FMA per plane.
const BACKWARD_START: u64 = PLANES as u64 * FMA;

/// `projection::project` for one Gaussian, seen by a pinhole. A lens that distorts adds several hundred
/// here and in [`PROJECTION_BACKWARD`], which are not counted.
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
/// `sh::basis_backward` up to each degree; products that `basis` has are not counted again.
const SH_BASIS_BACKWARD: [u64; 4] = [0, 3, 3 + 23, 3 + 23 + 47];
/// `project` beyond the above: floor of opacity, `log2`, level (3), radii (5), conic (3); colour
/// clamped and proved finite (3 + 4).
const PROJECT_REST: u64 = 1 + LOG2 + 3 + 5 + 3 + 7;

/// `projection::project_backward` for one Gaussian, without the camera's own gradient.
const PROJECTION_BACKWARD: u64 = 1 + 4 * 3 + 3 * 3   // dL/dcov2d
    + 6 * 4 + 9 * (1 + FMA) + 6 * DOT               // dU, dM, dT
    + 3 * (DOT + 1) + 9                             // scales, rotation matrix
    + (9 + 12 + 11 + 10) + 7 + 4 * (FMA + 1)        // quaternion
    + 2 + (2 * DOT + 2) + 2 * (DOT + 6) + 5 + 2     // u, v, z, clamps, point
    + 3 * DOT; // world coordinates
/// `backward` beyond projection and SH: screen gradients (8), colour's clamp (6), direction (DOT,
/// 4 and 3 x 4), centre (3), selects of invalid lanes (11 + 2), opacity, statistics (8).
const BACKWARD_REST: u64 = 8 + 6 + (DOT + 4 + 12) + 3 + 13 + (SIGMOID + 1) + 8;
/// Adam for one component: first moment (1 + FMA), second (2 + FMA), flush (4), step (4), FMA.
const ADAM: u64 = (1 + FMA) + (2 + FMA) + 4 + 4 + FMA;

/// SSIM's window along both axes: a product and 10 FMA along rows, 11 FMA along columns.
const WINDOW: u64 = (1 + (SSIM_WINDOW as u64 - 1) * FMA) + SSIM_WINDOW as u64 * FMA;
/// Pass 1 of `loss` for one value: load (3), squares and product (4), 4 windows, SSIM and its
/// derivatives: means 2, variance 4, covariance 2, a1 3, a2 2, 1/b1 5, 1/b2 2, their product 1,
/// SSIM 2, d/dmean 12, weights 1, maps 6, loss 3.
const SSIM_VALUE: u64 = 3 + 4 + 4 * WINDOW + (2 + 4 + 2 + 3 + 2 + 5 + 2 + 1 + 2 + 12 + 1 + 6 + 3);
/// Pass 2 for one value, SSIM's part: 3 windows, 5 to put them together.
const SSIM_GRADIENT: u64 = 3 * WINDOW + 5;
/// Pass 2 for one value, L1's part: load (3), difference, sum, sign (5), sum and mask (2).
const L1_VALUE: u64 = 3 + 2 + 5 + 2;

/// Bytes of a float, an index, a tile number.
const WORD: u64 = 4;
const SPLAT: u64 = size_of::<Splat2d>() as u64;
const SPANS: u64 = size_of::<TileSpans>() as u64;
const SLOT: u64 = size_of::<Slot>() as u64;
/// Depth and index of a visible Gaussian.
const KEY: u64 = 8;
/// Passes of the radix sort by depth.
const ORDER_PASSES: u64 = 3;
/// One tile of the image, all planes.
const TILE: u64 = PLANES as u64 * LANES * LANES * WORD;

/// Whether [`cost`] knows a stage.
pub fn is_counted(stage: Stage) -> bool {
    !matches!(stage, Stage::Appearance | Stage::Densify)
}

/// The least cost of a stage. `Appearance`, which few runs ask for, and `Densify`, which is not part of a
/// step, are not counted.
pub fn cost(stage: Stage, work: &Work) -> Cost {
    let flops = match stage {
        Stage::Project => project_flops(work),
        Stage::Blend => blend_flops(work),
        Stage::Loss => loss_flops(work),
        Stage::BlendBackward => blend_backward_flops(work),
        Stage::Update => update_flops(work),
        Stage::Order | Stage::Emit | Stage::Sort | Stage::Ranges => 0,
        // Not counted: few runs ask for the first, and the second is not part of a step.
        Stage::Appearance | Stage::Densify => 0,
    };
    let bytes = bytes(stage, work);
    Cost { flops, bytes }
}

/// N (projection + direction + basis + 6 K + rest); the scalar work on tiles is left out.
fn project_flops(w: &Work) -> u64 {
    let basis = SH_BASIS[usize::from(w.sh_degree.min(3))];
    let colour = 3 * FMA * w.coefficients();
    w.gaussians * (PROJECTION + VIEW_DIRECTION + basis + colour + PROJECT_REST)
}

/// Instances that were reached for certain: one visits at most 16 rows.
fn least_instances(w: &Work) -> u64 {
    w.row_visits.div_ceil(ROW as u64).min(w.instances)
}

/// 16 R per pixel, the instances' set-up, P at the end.
fn blend_flops(w: &Work) -> u64 {
    w.row_visits * LANES * BLEND_PIXEL + least_instances(w) * INSTANCE_SETUP + w.pixels * BLEND_END
}

/// 16 R per pixel, the instances' set-up and sums, P at the start.
fn blend_backward_flops(w: &Work) -> u64 {
    w.row_visits * LANES * BACKWARD_PIXEL
        + least_instances(w) * (INSTANCE_SETUP + BACKWARD_INSTANCE)
        + w.pixels * BACKWARD_START
}

/// 3 P values, in two passes if there is an SSIM part. Rows that neighbouring tasks filter twice
/// count once.
fn loss_flops(w: &Work) -> u64 {
    let ssim = u64::from(w.ssim) * (SSIM_VALUE + SSIM_GRADIENT);
    3 * w.pixels * (L1_VALUE + ssim)
}

/// I slots of 9 sums; for each visible Gaussian the projection once more and backward, SH (6 K
/// forward, 9 K backward, 3 K selects); Adam for every component of all N.
fn update_flops(w: &Work) -> u64 {
    let degree = usize::from(w.sh_degree.min(3));
    let harmonics = SH_BASIS[degree] + SH_BASIS_BACKWARD[degree] + (6 + 9 + 3) * w.coefficients();
    let backward = PROJECTION + PROJECTION_BACKWARD + VIEW_DIRECTION + harmonics + BACKWARD_REST;
    w.instances * 9 + w.visible * backward + w.gaussians * w.components() * ADAM
}

fn bytes(stage: Stage, w: &Work) -> u64 {
    let (n, v, i) = (w.gaussians, w.visible, w.instances);
    // Histograms of (chunk of visible Gaussians, tile).
    let chunks = v.div_ceil(rank_chunk(v as usize) as u64);
    let histograms = chunks * w.tiles * WORD;
    // What both walks over the tiles read: the list of instances, and each splat once.
    let walk = i * WORD + v * SPLAT + w.tiles * WORD;
    match stage {
        // Parameters in; splats and where their tiles are listed out.
        Stage::Project => n * (w.components() * WORD + SPLAT + SPANS),
        // Who is visible, depths, keys out; every pass of the sort reads and writes the keys.
        Stage::Order => n * SPANS + v * (WORD + KEY) + ORDER_PASSES * 2 * v * KEY,
        // Keys and spans in; tiles of instances, first instances and histograms out.
        Stage::Emit => v * (KEY + SPANS) + i * WORD + v * WORD + histograms,
        // Histograms in and out, ranges out.
        Stage::Ranges => 2 * histograms + (w.tiles + 1) * WORD,
        // Keys, spans, tiles and places in; slots and their Gaussians out.
        Stage::Sort => v * (KEY + SPANS) + i * WORD + 2 * histograms + 2 * i * WORD,
        Stage::Blend => walk + w.tiles * TILE,
        // Image (3 planes of floats) and photo (3 bytes) in, once per pass; gradient out; the three
        // maps of SSIM out and in.
        Stage::Loss => {
            let passes = 1 + u64::from(w.ssim);
            let maps = u64::from(w.ssim) * 2 * 3 * 3 * WORD;
            w.pixels * (passes * (3 * WORD + 3) + maps) + w.tiles * TILE
        }
        // Image and gradient in, slots out.
        Stage::BlendBackward => walk + 2 * w.tiles * TILE + i * SLOT,
        // Slots and their places in; parameters and two moments in and out; statistics of the
        // visible in and out.
        Stage::Update => {
            i * (SLOT + WORD) + n * (SPANS + 6 * w.components() * WORD) + v * (WORD + 2 * 2 * WORD)
        }
        Stage::Appearance | Stage::Densify => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Work = Work {
        gaussians: 10,
        visible: 4,
        instances: 5,
        row_visits: 40,
        pixels: 100,
        tiles: 1,
        sh_degree: 0,
        ssim: true,
    };

    fn step(work: &Work) -> [Cost; 10] {
        std::array::from_fn(|i| cost(Stage::ALL[i], work))
    }

    #[test]
    fn a_small_step_costs_what_it_does_by_hand() {
        // blend: alpha 17, layer 9, colours 6 a lane; 3 instances at least of 16 * 9; 6 a pixel.
        assert_eq!(
            cost(Stage::Blend, &SMALL),
            Cost {
                flops: 40 * 16 * 32 + 3 * 144 + 100 * 6,
                bytes: 5 * 4 + 4 * 48 + 4 + 4096,
            }
        );
        // blend_backward: 51 a lane; 144 + 183 an instance; 8 a pixel.
        assert_eq!(
            cost(Stage::BlendBackward, &SMALL),
            Cost {
                flops: 40 * 16 * 51 + 3 * 327 + 100 * 8,
                bytes: 5 * 4 + 4 * 48 + 4 + 2 * 4096 + 5 * 36,
            }
        );
        // loss: 12 for L1, 224 + 134 for SSIM, each of 300 values.
        assert_eq!(
            cost(Stage::Loss, &SMALL),
            Cost {
                flops: 300 * (12 + (3 + 4 + 4 * 43 + 45) + (3 * 43 + 5)),
                bytes: 100 * (2 * 15 + 72) + 4096,
            }
        );
        // update: 14 components; 9 an instance; 263 + 249 + 14 + 18 + 78 a visible Gaussian.
        assert_eq!(
            cost(Stage::Update, &SMALL),
            Cost {
                flops: 5 * 9 + 4 * (263 + 249 + 14 + 18 + 78) + 10 * 14 * 17,
                bytes: 5 * 40 + 10 * (12 + 6 * 14 * 4) + 4 * 20,
            }
        );
        assert_eq!(
            cost(Stage::Project, &SMALL),
            Cost {
                flops: 10 * (263 + 14 + 6 + 35),
                bytes: 10 * (14 * 4 + 48 + 12),
            }
        );
        assert_eq!(cost(Stage::Order, &SMALL).bytes, 120 + 48 + 192);
    }

    #[test]
    fn more_work_never_costs_less() {
        let more: [fn(&mut Work); 7] = [
            |w| w.gaussians += 1000,
            |w| w.visible += 1000,
            |w| w.instances += 1000,
            |w| w.row_visits += 1000,
            |w| w.pixels += 1000,
            |w| w.tiles += 1000,
            |w| w.sh_degree += 1,
        ];
        let before = step(&SMALL);
        for (i, grow) in more.iter().enumerate() {
            let mut work = SMALL;
            grow(&mut work);
            let after = step(&work);
            assert!(
                before
                    .iter()
                    .zip(&after)
                    .all(|(b, a)| a.flops >= b.flops && a.bytes >= b.bytes),
                "{i}"
            );
            assert!(before != after, "count {i} matters to no stage");
        }
    }

    #[test]
    fn a_loss_without_ssim_is_one_light_pass() {
        let plain = Work {
            ssim: false,
            ..SMALL
        };
        assert_eq!(cost(Stage::Loss, &plain).flops, 300 * 12);
        assert!(cost(Stage::Loss, &plain).bytes < cost(Stage::Loss, &SMALL).bytes);
    }
}
