//! The GPU engine as an instrument: timings of the GPU's own clock, counters of the host's calls, and the least cost of
//! a stage from the counts of a view. Operations follow the model of the contract, bytes the declarations of the
//! stage's passes.

use super::GpuEngine;
use crate::catalogue;
use crate::passes::Load;
use crate::{Precision, bytes_per_gaussian};
use dapple_engine::instruments::{
    Cost, Counters, Detail, DeviceClock, Fact, Instrumented, RenderTimes, SpanTime, StageRun,
    StepTimings, Work, is_counted, operations,
};
use dapple_engine::{RenderSettings, Stage, ViewId};
use dapple_runtime::ceilings::{DeviceKey, Limits, Measured};
use dapple_runtime::{Detail as Spans, Timing};
use dapple_runtime::{ceilings, measure_limits};
use dapple_scene::{Camera, Progress, Result};

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
            Fact::count("pool: buffers let go", pool.evicted),
            Fact::count("pool: buffers handed out", pool.live),
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

    fn time_renders(
        &mut self,
        cameras: &[Camera],
        settings: &RenderSettings,
        frames: u32,
    ) -> Result<RenderTimes> {
        self.renders_timed(cameras, settings, frames)
    }

    fn counters(&self) -> Counters {
        GpuEngine::counters(self)
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

/// Converts the spans of a step to the contract's types.
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

/// Returns the bytes that a stage's passes declare to move: [`crate::catalogue::bytes`].
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
    catalogue::bytes(stage.name(), &load, precision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Storage;
    use crate::layout::BUCKET;

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
