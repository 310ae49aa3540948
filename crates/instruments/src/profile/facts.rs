//! Adds facts to a profile that the recording does not contain: device, settings, cost of stages, tables.

use super::on_ranks;
use super::probe::phase_of;
use super::remedies;
use super::tiles::Tiles;
use super::windows::Windows;
use crate::Instrumented;
use crate::machine::{self, human_bytes};
use dapple::contract::instruments::{self, Amount, Counters, StageRun, Work};
use dapple::contract::{Stage, ViewId};
use dapple_base::numbers::grouped;
use dapple_profile::profile::{Ceilings, Fact, Method, Overhead, Program, Table};
use dapple_profile::{Counts, Imbalance, Recorder, Setup};

/// Creates a fact from a name and a value.
pub fn fact(name: &str, value: impl Into<String>) -> Fact {
    Fact {
        name: name.to_owned(),
        value: value.into(),
    }
}

/// Returns facts about the engine's device, and about its machine.
pub fn device(engine: &dyn Instrumented) -> Vec<Fact> {
    let mut facts = vec![fact("engine", engine.description())];
    facts.extend(engine.device().into_iter().map(shown));
    let processor = machine::processor();
    facts.push(fact("processor", processor.as_deref().unwrap_or("unknown")));
    if let Some(bytes) = machine::memory_bytes() {
        facts.push(fact("memory", human_bytes(bytes)));
    }
    facts.push(fact("operating system", machine::operating_system()));
    facts
}

/// Formats a fact of an engine in words.
fn shown(said: instruments::Fact) -> Fact {
    let value = match said.value {
        Amount::Text(text) => text,
        Amount::Count(count) => count.to_string(),
        Amount::Bytes(bytes) => human_bytes(bytes),
        Amount::FewBytes(bytes) => format!("{bytes} B"),
    };
    fact(said.name, value)
}

/// Inputs of [`dapple_profile::analyse`].
pub struct About<'a> {
    pub program: Program,
    pub device: Vec<Fact>,
    pub settings: Vec<Fact>,
    pub ceilings: Ceilings,
    pub warm_up: u32,
    pub steps: u32,
    pub windows: &'a Windows,
    pub tiles: Option<&'a Tiles>,
    pub engine: &'a dyn Instrumented,
    pub views: usize,
    /// Photos of a step.
    pub photos: u32,
}

impl About<'_> {
    pub fn setup(self) -> Setup {
        let work = self.work();
        let stages = self.stages(&work);
        let on_gpu = self.engine.has_queue();
        Setup {
            program: self.program.clone(),
            method: self.method(on_gpu),
            stages,
            kernels: self.windows.kernels.clone(),
            tables: self.tables(&work),
            counts: (on_gpu || self.has_device()).then(|| self.counts()),
            control: Some(self.windows.control.clone()),
            imbalances: self.imbalances(),
            ranks: on_ranks::loads(&self.windows.ranks, self.steps),
            whole_step_ns: self.windows.clock_check.map(|[_, whole]| whole),
            device: self.device,
            settings: self.settings,
            ceilings: Some(self.ceilings),
        }
    }

    /// Returns the mean counts of a step. If the engine does not count visited rows, they are those of the CPU engine
    /// on one view.
    fn work(&self) -> Work {
        let mut work = self.windows.sums.mean();
        if let (None, Some(tiles)) = (self.engine.counted(), self.tiles) {
            work.row_visits = (tiles.rows_per_instance * work.instances as f64) as u64;
        }
        work
    }

    /// Returns true if the host called a device in the steps. Ranks on GPUs have no queue: they wait for their devices.
    fn has_device(&self) -> bool {
        self.windows.asked != Counters::default()
    }

    fn stages(&self, work: &Work) -> Vec<dapple_profile::Stage> {
        let on_cpu = !self.engine.has_queue() && !self.has_device();
        let of_view = (0..self.views).map(|view| self.engine.stages(ViewId(view)));
        let ran = of_view.into_iter().find(|stages| !stages.is_empty());
        let ran = ran.unwrap_or_else(|| {
            let every = Stage::ALL.iter().map(|stage| StageRun {
                name: stage.name(),
                dispatches: None,
            });
            every.collect()
        });
        let stages = ran.into_iter().map(|StageRun { name, dispatches }| {
            let mut row = dapple_profile::Stage::new(name, phase_of(name));
            if let Some(remedy) = on_cpu.then(|| remedies::on_cpu(name)).flatten() {
                row = row.remedy(remedy);
            }
            if let Some(count) = dispatches {
                row = row.dispatches(count as f64 * f64::from(self.photos));
            }
            let stage = Stage::ALL.into_iter().find(|stage| stage.name() == name);
            // `update` moves the Gaussians once for all photos, which its formula does not count.
            let counted = stage.filter(|&stage| self.photos == 1 || stage != Stage::Update);
            if let Some(cost) = counted.and_then(|stage| self.engine.cost(stage, work)) {
                let photos = f64::from(self.photos);
                row = row.cost(cost.bytes as f64 * photos, cost.flops as f64 * photos);
            }
            row
        });
        stages.collect()
    }

    fn method(&self, on_gpu: bool) -> Method {
        let w = self.windows;
        let clock = match (on_gpu, w.device_clock) {
            (false, _) => "the host's monotonic clock, read between stages",
            (true, true) => {
                "timestamps of the device at the beginning and end of each stage's pass, placed on \
                 the host's clock by a calibration right before the window"
            }
            (true, false) => {
                "this device has no timestamps: the host's monotonic clock, with every step waited for"
            }
        };
        let synchronisation = if w.waited_for_steps {
            "the host waited for the device after every step of the window"
        } else if on_gpu {
            "the window opened and closed when the device had nothing left to do; inside it nobody waited \
             but for what the table counts"
        } else {
            "a step is done when the engine returns"
        };
        let mut notes = vec![
            "bytes and operations are counted by formula from the counts of a step, each array read or \
             written once per kernel; they are not measured"
                .to_owned(),
            "ratios between programs or versions count when taken on one machine, alternately".to_owned(),
        ];
        if on_gpu && w.device_clock {
            notes.push(
                "timing a stage ends a pass there: the device pays a few microseconds a stage for it, which \
                 the step with the profiler off does not"
                    .to_owned(),
            );
            notes
                .push("kernels were timed one dispatch a pass in a window of their own".to_owned());
        }
        if !w.ranks.is_empty() {
            notes.push(
                "ranks work at the same time: the budget has means over ranks; spans of a rank in the trace are sums of \
                 a call, not in the order of the work"
                    .to_owned(),
            );
        }
        if self.photos > 1 {
            notes.push(format!(
                "a step has {} photos; its loss and its counts are those of the last one",
                self.photos
            ));
        }
        if let Err(why) = &w.flamegraph {
            notes.push(format!("there is no flamegraph: {why}"));
        }
        Method {
            clock: clock.to_owned(),
            synchronisation: synchronisation.to_owned(),
            warm_up_steps: u64::from(self.warm_up),
            measured_steps: u64::from(self.steps),
            device_timestamps: w.device_clock,
            calibration_error_ns: w.calibration_error_ns,
            overhead: w.off_ns.map(|off_ns| Overhead {
                off_ns,
                on_ns: w.on_ns,
                recording_ns: Recorder::measure_cost() * w.recording.records_per_step(),
            }),
            cautions: Vec::new(),
            notes,
        }
    }

    fn counts(&self) -> Counts {
        let asked = self.windows.asked;
        let each = |count: u64| count as f64 / f64::from(self.steps);
        Counts {
            submissions: each(asked.submissions),
            syncs: each(asked.waits),
            bytes_written: each(asked.bytes_written),
            bytes_read: each(asked.bytes_read),
            allocations: each(asked.buffers_created),
        }
    }

    fn imbalances(&self) -> Vec<Imbalance> {
        // The driver does not report how many tiles a GPU has in flight; its `blend_backward` splits a tile's
        // instances.
        // A view is on one rank.
        let ranks = self.windows.ranks.len().max(1) as f64;
        let at_once = self.engine.workers().map(|workers| workers as f64 / ranks);
        let stages = match at_once {
            Some(_) => &["blend", "blend_backward"][..],
            None => &["blend"][..],
        };
        let one = |tiles: &Tiles| Imbalance {
            name: "instances a tile".to_owned(),
            stages: stages.iter().map(|&stage| stage.to_owned()).collect(),
            units: tiles.sorted.len() as f64,
            at_once,
            mean: tiles.mean(),
            p99: tiles.percentile(0.99),
            max: tiles.percentile(1.0),
        };
        self.tiles.map(one).into_iter().collect()
    }

    fn tables(&self, work: &Work) -> Vec<Table> {
        let mut tables = vec![self.scene_table(work)];
        if !self.windows.ranks.is_empty() {
            tables.push(on_ranks::table(&self.windows.ranks));
        }
        tables.push(Table {
            title: "Memory".to_owned(),
            facts: self.memory(work),
        });
        tables
    }

    fn scene_table(&self, work: &Work) -> Table {
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let sums = &self.windows.sums;
        let mut facts = vec![
            fact("Gaussians, mean of the steps", grouped(work.gaussians)),
            fact(
                "visible",
                format!(
                    "{} ({:.1} %)",
                    grouped(work.visible),
                    share(work.visible, work.gaussians)
                ),
            ),
            fact("instances (Gaussian and tile)", grouped(work.instances)),
            fact(
                "tiles a visible Gaussian",
                format!("{:.2}", work.instances as f64 / work.visible.max(1) as f64),
            ),
            fact("pixels", grouped(work.pixels)),
            fact("SH degree", work.sh_degree.to_string()),
            fact("rounds of density control", sums.rounds.to_string()),
            fact("instances cut by the cap", grouped(sums.cut_instances)),
            fact(
                "largest transmittance lost to the cap",
                format!("{:.4}", sums.lost_transmittance),
            ),
        ];
        if let Some(tiles) = self.tiles {
            facts.extend([
                fact("view looked at", tiles.heat.title.clone()),
                fact(
                    "tiles",
                    format!(
                        "{} ({} x {} of 16x16 pixels)",
                        tiles.sorted.len(),
                        tiles.grid[0],
                        tiles.grid[1]
                    ),
                ),
                fact(
                    "instances a tile: mean, p50, p99, most",
                    format!(
                        "{:.0}, {:.0}, {:.0}, {:.0}",
                        tiles.mean(),
                        tiles.percentile(0.5),
                        tiles.percentile(0.99),
                        tiles.percentile(1.0)
                    ),
                ),
                fact(
                    "pixels that stop early",
                    format!("{:.1} % (of one in 16)", 100.0 * tiles.early_pixels),
                ),
                fact(
                    "of a tile's instances, what a pixel walks",
                    format!("{:.1} %", 100.0 * tiles.walked),
                ),
            ]);
        }
        Table {
            title: "Scene".to_owned(),
            facts,
        }
    }

    fn memory(&self, work: &Work) -> Vec<Fact> {
        let said = self.engine.memory(work).into_iter();
        let mut facts: Vec<Fact> = said.map(shown).collect();
        if let Some(bytes) = machine::peak_memory_bytes() {
            facts.push(fact("the process, at most", human_bytes(bytes)));
        }
        facts
    }
}
