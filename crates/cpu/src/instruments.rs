//! Measurements of the CPU engine: the host's clock times its stages, and [`cost`] counts its bytes.

use crate::{CpuEngine, ceilings, cost, level_name};
use dapple_engine::instruments::{Cost, Fact, Instrumented, StageRun, Work, is_counted};
use dapple_engine::{Stage, ViewId};
use dapple_profile::ceilings::{DeviceKey, Limits, Measured};
use dapple_scene::{Progress, Result, sh_coefficient_count};

/// Copies of a Gaussian's numbers: parameters, first and second moments.
const COPIES: u64 = 3;

impl Instrumented for CpuEngine {
    fn has_queue(&self) -> bool {
        false
    }

    fn wait(&self) -> Result<()> {
        Ok(())
    }

    fn workers(&self) -> Option<usize> {
        Some(self.threads())
    }

    fn device(&self) -> Vec<Fact> {
        vec![
            Fact::text("threads", self.threads().to_string()),
            Fact::text("vectors", level_name()),
        ]
    }

    fn memory(&self, work: &Work) -> Vec<Fact> {
        let floats = 11 + 3 * sh_coefficient_count(work.sh_degree) as u64;
        let bytes = COPIES * floats * 4 * work.gaussians;
        vec![Fact::bytes("parameters and moments", bytes)]
    }

    fn counted(&self) -> Option<Work> {
        Some(self.work())
    }

    fn stages(&self, _view: ViewId) -> Vec<StageRun> {
        let mut names = Stage::ALL.map(Stage::name);
        // Ranges run before the sort in this engine.
        let place = |stage: Stage| names.iter().position(|name| *name == stage.name());
        if let (Some(sort), Some(ranges)) = (place(Stage::Sort), place(Stage::Ranges)) {
            names.swap(sort, ranges);
        }
        names
            .map(|name| StageRun {
                name,
                dispatches: None,
            })
            .into()
    }

    fn cost(&self, stage: Stage, work: &Work) -> Option<Cost> {
        is_counted(stage).then(|| cost::cost(stage, work))
    }

    fn ceilings_key(&self, processor: &str) -> DeviceKey {
        ceilings::key(processor, self.threads())
    }

    fn measure_ceilings(&self, processor: &str, progress: &dyn Progress) -> Result<Measured> {
        CpuEngine::measure_ceilings(self, processor, progress)
    }

    fn measure_limits(&self) -> Result<Limits> {
        Ok(CpuEngine::measure_limits(self))
    }
}
