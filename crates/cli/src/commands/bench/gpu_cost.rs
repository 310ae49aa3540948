//! What a step on a GPU costs at least: bytes of each stage, which its passes tell
//! ([`dapple::gpu::passes::bytes`]). Operations are those of the CPU engine's model
//! ([`dapple::cpu::cost`]): the mathematics is the same.

use dapple::contract::Stage;
use dapple::cpu::cost::{self, Cost, Work};
use dapple::gpu::Precision;
use dapple::gpu::passes::{self, Load};

/// Least cost of a stage. `Appearance`, which few runs ask for, and `Densify`, which is not part of a
/// step, are not counted.
pub fn cost(stage: Stage, work: &Work, precision: Precision) -> Cost {
    Cost {
        flops: cost::cost(stage, work).flops,
        bytes: bytes(stage, work, precision),
    }
}

fn bytes(stage: Stage, work: &Work, precision: Precision) -> u64 {
    let load = Load {
        gaussians: work.gaussians,
        visible: work.visible,
        instances: work.instances,
        pixels: work.pixels,
        tiles: work.tiles,
        sh_degree: work.sh_degree,
        ssim: work.ssim,
    };
    passes::bytes(stage.name(), &load, precision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple::gpu::Storage;
    use dapple::gpu::layout::BUCKET;

    /// Four buckets, the last with four instances.
    const INSTANCES: u64 = 3 * BUCKET as u64 + 4;
    const SMALL: Work = Work {
        gaussians: 10,
        visible: 4,
        instances: INSTANCES,
        row_visits: 40,
        pixels: 1000,
        tiles: 2,
        sh_degree: 0,
        ssim: true,
    };

    #[test]
    fn a_small_step_costs_what_it_does_by_hand() {
        let bytes = |stage| bytes(stage, &SMALL, Precision::default());
        assert_eq!(bytes(Stage::Project), 10 * 48 + 4 * (12 + 48 + 8));
        assert_eq!(bytes(Stage::Order), 40 + 4 * (4 + 8 + 80));
        assert_eq!(bytes(Stage::Sort), 36 * INSTANCES);
        // Two tiles: of four buckets two have checkpoints.
        let ends = 2 * (1024 + 32);
        assert_eq!(
            bytes(Stage::Blend),
            4 * INSTANCES + 4 * 48 + 16 + 16_000 + 2 * 4096 + ends
        );
        assert_eq!(bytes(Stage::Loss), 1000 * (2 * 20 + 16 + 72));
        let lists = 8 * INSTANCES + 4 * 48 + 16 + 16;
        assert_eq!(
            bytes(Stage::BlendBackward),
            lists + 32_000 + 2 * 4096 + ends + 36 * INSTANCES
        );
        assert_eq!(
            bytes(Stage::Update),
            36 * INSTANCES + 10 * (4 + 2 * 3 * 14 * 4) + 4 * (8 + 72 + 16 + 16)
        );
    }

    #[test]
    fn halves_take_half_and_more_work_never_less() {
        let full = Work {
            sh_degree: 3,
            ..SMALL
        };
        let half = Precision {
            sh: Storage::Bf16,
            moments: Storage::Bf16,
        };
        let of = |work: &Work, precision| bytes(Stage::Update, work, precision);
        let saved = of(&full, Precision::default()) - of(&full, half);
        // 45 coefficients in 23 words; 14 and 45 moments, twice, in 7 and 23; in and out.
        assert_eq!(saved, 10 * 2 * 4 * ((45 - 23) + 2 * ((14 - 7) + (45 - 23))));
        for grow in [
            (|w: &mut Work| w.gaussians += 9) as fn(&mut Work),
            |w| w.visible += 9,
            |w| w.instances += 900,
            |w| w.pixels += 9,
            |w| w.sh_degree = 1,
        ] {
            let mut more = SMALL;
            grow(&mut more);
            for stage in Stage::ALL {
                let of = |work: &Work| bytes(stage, work, Precision::default());
                assert!(of(&more) >= of(&SMALL), "{stage}");
            }
        }
    }
}
