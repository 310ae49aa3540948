//! Least cost of a training step on this engine: floating-point operations and bytes of each stage, by
//! formula from the counts of a view ([`Work`]).
//!
//! Operations: [`dapple_engine::instruments::operations`].
//!
//! Bytes: compulsory traffic. Every input array is read once and every output array written once per pass,
//! as if caches were perfect within a pass and empty between passes. For numbers that are not among the
//! counts, the formulas take the least possible value.

use crate::blocks::component;
use crate::frame::{PLANES, Slot, Splat2d, TileSpans, rank_chunk};
use crate::simd::ROW;
use dapple_engine::Stage;
use dapple_engine::instruments::operations;
use dapple_scene::sh_coefficient_count;

pub use dapple_engine::instruments::{Cost, Work, is_counted};

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
const TILE: u64 = PLANES as u64 * (ROW * ROW) as u64 * WORD;

/// Returns the least cost of a stage; 0 for a stage that is not counted.
pub fn cost(stage: Stage, work: &Work) -> Cost {
    Cost {
        flops: operations(stage, work),
        bytes: bytes(stage, work),
    }
}

/// Returns the components of a Gaussian that are read and trained: 11 + 3 K.
fn components(work: &Work) -> u64 {
    component::SH as u64 + 3 * sh_coefficient_count(work.sh_degree) as u64
}

fn bytes(stage: Stage, w: &Work) -> u64 {
    let (n, v, i) = (w.gaussians, w.visible, w.instances);
    // Histograms of (chunk of visible Gaussians, tile).
    let chunks = v.div_ceil(rank_chunk(v as usize) as u64);
    let histograms = chunks * w.tiles * WORD;
    // Reads of both walks over the tiles: the list of instances, and each splat once.
    let walk = i * WORD + v * SPLAT + w.tiles * WORD;
    match stage {
        // Parameters in; splats and the places of their tile lists out.
        Stage::Project => n * (components(w) * WORD + SPLAT + SPANS),
        // Visibility, depths, keys out; every pass of the sort reads and writes the keys.
        Stage::Order => n * SPANS + v * (WORD + KEY) + ORDER_PASSES * 2 * v * KEY,
        // Keys and tile lists in; lists by depth, tiles and Gaussians of instances, first instances and histograms out.
        Stage::Emit => v * (KEY + 2 * SPANS) + 2 * i * WORD + v * WORD + histograms,
        // Histograms in and out, ranges out.
        Stage::Ranges => 2 * histograms + (w.tiles + 1) * WORD,
        // Tiles and Gaussians of instances in, places in and out; slots and their Gaussians out.
        Stage::Sort => 2 * i * WORD + 2 * histograms + 2 * i * WORD,
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
            i * (SLOT + WORD) + n * (SPANS + 6 * components(w) * WORD) + v * (WORD + 2 * 2 * WORD)
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
        // blend: alpha 17, layer 9, colours 6 per lane; at least 3 instances of 16 * 9; 6 per pixel.
        assert_eq!(
            cost(Stage::Blend, &SMALL),
            Cost {
                flops: 40 * 16 * 32 + 3 * 144 + 100 * 6,
                bytes: 5 * 4 + 4 * 48 + 4 + 4096,
            }
        );
        // blend_backward: 51 per lane; 144 + 183 per instance; 8 per pixel.
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
        // update: 14 components; 9 per instance; 263 + 249 + 14 + 18 + 78 per visible Gaussian.
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
