//! The GPU engine as an instrument: timings of the GPU's own clock, what the host asked of it, and what a
//! stage costs at least, by formula from the counts of a view and the layout of the engine's buffers.
//!
//! Bytes: what a stage's kernels read and write, each array once per kernel, as if caches were
//! perfect within a kernel and empty between kernels. Left out: tables of counts that prefix sums
//! and sorts keep by the block (a hundredth of what they sort), reports. Where counts do not tell,
//! it is what would be without early ends: pixels that are finished before the last instance of
//! their tile leave fewer checkpoints, and a stage may then stay below its floor.

use super::GpuEngine;
use crate::layout::{BLOCKS_PER_TILE, BUCKET, SLOT_FLOATS, plane};
use crate::{Precision, bytes_per_gaussian};
use dapple_engine::instruments::{
    Cost, Counters, Detail, DeviceClock, Fact, Instrumented, SpanTime, StageRun, StepTimings, Work,
    is_counted, operations,
};
use dapple_engine::{Stage, ViewId};
use dapple_runtime::ceilings::{DeviceKey, Limits, Measured};
use dapple_runtime::{Detail as Spans, Timing};
use dapple_runtime::{ceilings, measure_limits};
use dapple_scene::{Progress, Result};

impl Instrumented for GpuEngine {
    fn has_queue(&self) -> bool {
        true
    }

    fn wait(&self) -> Result<()> {
        self.gpu().wait()
    }

    fn workers(&self) -> Option<usize> {
        None
    }

    fn device(&self) -> Vec<Fact> {
        let report = self.gpu().report();
        let subgroups = match self.gpu().subgroup_size() {
            Some(size) => format!("of {size}"),
            None => "not used".to_owned(),
        };
        vec![
            Fact::text("adapter", &report.name),
            Fact::text("backend", report.backend.to_string()),
            Fact::text("driver", &report.driver),
            Fact::text("subgroups", subgroups),
        ]
    }

    fn memory(&self, work: &Work) -> Vec<Fact> {
        let pool = self.gpu().pool().stats();
        let one = bytes_per_gaussian(self.options.precision, work.sh_degree);
        vec![
            Fact::bytes("engine's buffers, photos included", self.memory_bytes()),
            Fact::few_bytes("a Gaussian", one),
            Fact::count("pool: buffers made", pool.allocations),
            Fact::count("pool: requests served by a used buffer", pool.reuses),
            Fact::bytes("pool: handed out", pool.live_bytes),
            Fact::bytes("pool: kept free", pool.pooled_bytes),
            Fact::bytes("pool: most at one time", pool.peak_bytes),
        ]
    }

    fn set_detail(&mut self, detail: Option<Detail>) -> Result<bool> {
        let spans = detail.map(|detail| match detail {
            Detail::Stages => Spans::Spans,
            Detail::Kernels => Spans::Dispatches,
        });
        let can = self.set_timing(spans)?;
        if let (Some(_), Some(clock)) = (detail, self.clock()) {
            clock.calibrate()?;
        }
        self.take_timings();
        Ok(can)
    }

    fn timings(&mut self) -> Vec<StepTimings> {
        let timed = self.take_timings().into_iter();
        timed
            .map(|timed| StepTimings {
                step: timed.step,
                is_densify: timed.is_densify,
                whole_ns: timed.timing.whole.map(|(_, duration_ns)| duration_ns),
                spans: spans(timed.timing),
            })
            .collect()
    }

    fn device_clock(&mut self) -> Option<DeviceClock> {
        self.clock().map(|clock| DeviceClock {
            origin: clock.origin(),
            uncertainty_ns: clock.calibration().uncertainty_ns,
        })
    }

    fn counters(&self) -> Counters {
        let counted = GpuEngine::counters(self);
        Counters {
            submissions: counted.submissions,
            dispatches: counted.dispatches,
            waits: counted.waits,
            copies: counted.copies,
            bytes_written: counted.bytes_written,
            bytes_read: counted.bytes_read,
            buffers_created: counted.buffers_created,
        }
    }

    fn stages(&self, view: ViewId) -> Vec<StageRun> {
        let dispatches = self.dispatches(view).into_iter();
        dispatches
            .map(|(name, count)| StageRun {
                name,
                dispatches: Some(count),
            })
            .collect()
    }

    fn cost(&self, stage: Stage, work: &Work) -> Option<Cost> {
        is_counted(stage).then(|| Cost {
            flops: operations(stage, work),
            bytes: bytes(stage, work, self.options.precision),
        })
    }

    fn ceilings_key(&self, _processor: &str) -> DeviceKey {
        ceilings::key(self.gpu().report())
    }

    fn measure_ceilings(&self, _processor: &str, progress: &dyn Progress) -> Result<Measured> {
        ceilings::measure(self.gpu(), progress)
    }

    fn measure_limits(&self) -> Result<Limits> {
        measure_limits(self.gpu())
    }
}

/// The spans of a step, in the contract's words.
fn spans(timing: Timing) -> Vec<SpanTime> {
    let spans = timing.spans.into_iter();
    spans
        .map(|span| SpanTime {
            stage: span.name,
            kernel: span.kernel,
            start_ns: span.start_ns,
            duration_ns: span.duration_ns,
        })
        .collect()
}

/// A float, an index, a key.
const WORD: u64 = 4;
/// A float or index for red, green, blue and transmittance.
const PIXEL: u64 = 4 * WORD;
/// A projected Gaussian in `splats2d`.
const SPLAT: u64 = 12 * WORD;
/// One of its three vectors.
const SPLAT_PART: u64 = 4 * WORD;
const SLOT: u64 = SLOT_FLOATS as u64 * WORD;
/// Pixels of a tile.
const TILE_PIXELS: u64 = 256;
/// What a tile's pixels leave for `blend_backward` at the start of a bucket.
const CHECKPOINTS: u64 = TILE_PIXELS * PIXEL;
/// A pass of the radix sort on a pair: its keys are counted, then pairs are read and written.
const SORT_PASS: u64 = 5 * WORD;
/// Passes of the sort by depth: 32 bits.
const DEPTH_PASSES: u64 = 4;
/// Passes of the sort by tile: up to 16 bits. The first numbers the instances instead of reading
/// their numbers.
const TILE_SORT: u64 = 2 * SORT_PASS - WORD;
/// Three maps of three channels that SSIM leaves for its gradient.
const SSIM_MAPS: u64 = 9 * WORD;

fn bytes(stage: Stage, w: &Work, precision: Precision) -> u64 {
    let (n, v, i, p, t) = (w.gaussians, w.visible, w.instances, w.pixels, w.tiles);
    let buckets = i.div_ceil(u64::from(BUCKET));
    // The first bucket of a tile needs none.
    let checkpoints = buckets.saturating_sub(t) * CHECKPOINTS;
    // Of each pixel and each block, where it ends.
    let ends = t * (TILE_PIXELS + u64::from(BLOCKS_PER_TILE)) * WORD;
    let harmonics = (dapple_scene::sh_coefficient_count(w.sh_degree) as u32 - 1) * 3;
    match stage {
        // Means, scales, rotations and opacities of all in, colours of the visible; their splats,
        // numbers of tiles and depths, and everybody's place among them out.
        Stage::Project => {
            let sh0 = (plane::GEOMETRY - plane::SH0) as u64 * WORD;
            let rest = u64::from(precision.sh.words(harmonics)) * WORD;
            n * (plane::SH0 as u64 * WORD + WORD) + v * (sh0 + rest + SPLAT + 2 * WORD)
        }
        // Places and depths in, pairs out; the sort.
        Stage::Order => n * WORD + v * (WORD + 2 * WORD + DEPTH_PASSES * SORT_PASS),
        // By rank: twice the place and its number of tiles; its first instance out and in; place and
        // splat in. By instance: tile and place out.
        Stage::Emit => v * (2 * 2 * WORD + 2 * WORD + WORD + SPLAT) + i * 2 * WORD,
        Stage::Sort => i * TILE_SORT,
        // Tiles, slots, Gaussians in, Gaussians out; by tile: starts out, in, buckets out, in.
        Stage::Ranges => i * 4 * WORD + t * 4 * WORD + buckets * WORD,
        Stage::Blend => i * WORD + v * SPLAT + t * 2 * WORD + p * PIXEL + checkpoints + ends,
        // Image and photo in, once per kernel; gradient out; maps out and in.
        Stage::Loss => {
            let kernels = 1 + u64::from(w.ssim);
            let maps = u64::from(w.ssim) * 2 * SSIM_MAPS;
            p * (kernels * (PIXEL + WORD) + PIXEL + maps)
        }
        // Gaussians, slots, splats, tiles of buckets, image, its gradient and what blend left in;
        // slots out.
        Stage::BlendBackward => {
            let lists = i * 2 * WORD + v * SPLAT + t * 2 * WORD + buckets * WORD;
            lists + p * 2 * PIXEL + checkpoints + ends + i * SLOT
        }
        // Slots in, and where they begin and whose they are; their sums out and in, and the colour's
        // clamp; places in; parameters and moments in and out; statistics of the visible in and out.
        Stage::Update => {
            let state = 2 * precision.bytes_per_gaussian(w.sh_degree);
            i * SLOT + n * (WORD + state) + v * (2 * WORD + 2 * SLOT + SPLAT_PART + 2 * 2 * WORD)
        }
        Stage::Appearance | Stage::Densify => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Storage;

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
