//! What a profile says beside what was recorded: device, settings, what stages cost, tables.

use super::probe::phase_of;
use super::tiles::Tiles;
use super::windows::Windows;
use crate::ceilings;
use crate::commands::bench::{self, gpu_cost};
use crate::console::Console;
use crate::machine::{self, human_bytes};
use crate::options::DeviceOptions;
use crate::training_display::grouped;
use dapple::AnyEngine;
use dapple::contract::{Stage, ViewId};
use dapple::cpu::cost::{self, Work};
use dapple::scene::Result;
use dapple_profile::profile::{Ceilings, Fact, Method, Overhead, Program, Table};
use dapple_profile::{Counts, Imbalance, Recorder, Setup};

/// Bytes of the Gaussians' numbers on the CPU: 59 floats, and as many of each moment, at degree 3.
const CPU_COPIES: usize = 3;

pub fn fact(name: &str, value: impl Into<String>) -> Fact {
    Fact {
        name: name.to_owned(),
        value: value.into(),
    }
}

/// The engine's device.
pub fn device(engine: &mut AnyEngine) -> Vec<Fact> {
    let mut facts = vec![fact("engine", engine.as_engine().description())];
    match engine {
        AnyEngine::Gpu(engine) => {
            let gpu = engine.gpu();
            let report = gpu.report();
            facts.push(fact("adapter", report.name.clone()));
            facts.push(fact("backend", report.backend.to_string()));
            facts.push(fact("driver", report.driver.clone()));
            let subgroups = gpu.subgroup_size();
            facts.push(fact(
                "subgroups",
                subgroups.map_or("not used".to_owned(), |size| format!("of {size}")),
            ));
        }
        AnyEngine::Cpu(engine) => {
            facts.push(fact("threads", engine.threads().to_string()));
            facts.push(fact("vectors", dapple::cpu::level_name()));
        }
        _ => {}
    }
    let processor = machine::processor();
    facts.push(fact("processor", processor.as_deref().unwrap_or("unknown")));
    if let Some(bytes) = machine::memory_bytes() {
        facts.push(fact("memory", human_bytes(bytes)));
    }
    facts.push(fact("operating system", machine::operating_system()));
    facts
}

/// This program.
pub fn program(started: String) -> Program {
    Program {
        name: "dapple".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("DAPPLE_COMMIT").map(str::to_owned),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        started,
    }
}

/// What the device was measured to reach: kept from `bench device`, else measured in short.
pub fn ceilings(engine: &AnyEngine, console: &Console) -> Result<Ceilings> {
    let key = match engine {
        AnyEngine::Gpu(engine) => dapple::runtime::ceilings::key(engine.gpu().report()),
        AnyEngine::Cpu(engine) => ceilings::processor_key(engine.threads()),
        _ => return Err(dapple::Error::internal("an engine of an unknown kind")),
    };
    if let Some(kept) = ceilings::cached(&key)
        && let (Some(bytes_per_second), Some(flops_per_second)) =
            (kept.bytes_per_second(), kept.flops_per_second())
    {
        return Ok(Ceilings {
            bytes_per_second,
            flops_per_second,
            dispatch_ns: kept.get("dispatch").map(|seconds| seconds * 1e9),
            source: format!("dapple bench device, {}", kept.date()),
        });
    }
    let limits = bench::limits(engine, console)?;
    Ok(Ceilings {
        bytes_per_second: limits.gb_per_s * 1e9,
        flops_per_second: limits.gflops * 1e9,
        dispatch_ns: None,
        source:
            "measured by this run (copies and multiply-adds; `dapple bench device` measures more)"
                .to_owned(),
    })
}

/// All that [`dapple_profile::analyse`] is told.
pub struct About<'a> {
    pub started: String,
    pub device: Vec<Fact>,
    pub settings: Vec<Fact>,
    pub options: &'a DeviceOptions,
    pub ceilings: Ceilings,
    pub warm_up: u32,
    pub steps: u32,
    pub windows: &'a Windows,
    pub tiles: Option<&'a Tiles>,
    pub engine: &'a mut AnyEngine,
    pub views: usize,
}

impl About<'_> {
    pub fn setup(self) -> Setup {
        let work = self.work();
        let stages = self.stages(&work);
        let on_gpu = matches!(self.engine, AnyEngine::Gpu(_));
        Setup {
            program: program(self.started.clone()),
            method: self.method(on_gpu),
            stages,
            kernels: self.windows.kernels.clone(),
            tables: self.tables(&work),
            counts: on_gpu.then(|| self.counts()),
            control: Some(self.windows.control.clone()),
            imbalances: self.imbalances(),
            whole_step_ns: self.windows.clock_check.map(|[_, whole]| whole),
            device: self.device,
            settings: self.settings,
            ceilings: Some(self.ceilings),
        }
    }

    /// Mean counts of a step. No GPU counts visited rows: the CPU engine did, on one view.
    fn work(&self) -> Work {
        let mut work = self.windows.sums.mean();
        if let (AnyEngine::Gpu(_), Some(tiles)) = (&*self.engine, self.tiles) {
            work.row_visits = (tiles.rows_per_instance * work.instances as f64) as u64;
        }
        work
    }

    fn stages(&self, work: &Work) -> Vec<dapple_profile::Stage> {
        let (dispatches, cost): (_, fn(Stage, &Work, &DeviceOptions) -> cost::Cost) =
            match &*self.engine {
                AnyEngine::Gpu(engine) => {
                    let of_view = (0..self.views).map(|view| engine.dispatches(ViewId(view)));
                    let known = of_view.into_iter().find(|list| !list.is_empty());
                    (known.unwrap_or_default(), |stage, work, options| {
                        gpu_cost::cost(stage, work, options.precision.unwrap_or_default())
                    })
                }
                _ => (Vec::new(), |stage, work, _| cost::cost(stage, work)),
            };
        // The order they run in: a GPU's recording tells, the CPU engine has ranges before sort.
        let mut names: Vec<&str> = dispatches.iter().map(|(name, _)| *name).collect();
        if names.is_empty() {
            names = Stage::ALL.iter().map(|stage| stage.name()).collect();
            names.swap(3, 4);
        }
        let stages = names.into_iter().map(|name| {
            let mut row = dapple_profile::Stage::new(name, phase_of(name));
            if let Some((_, count)) = dispatches.iter().find(|(other, _)| *other == name) {
                row = row.dispatches(*count as f64);
            }
            let stage = Stage::ALL.into_iter().find(|stage| stage.name() == name);
            if let Some(stage) = stage.filter(|stage| cost::is_counted(*stage)) {
                let cost = cost(stage, work, self.options);
                row = row.cost(cost.bytes as f64, cost.flops as f64);
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
            "ratios between programs or versions count when taken on one machine, in turns".to_owned(),
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
        // How many tiles a GPU has in flight, its driver does not tell; its `blend_backward` takes a
        // tile's instances in pieces.
        let (at_once, stages) = match &*self.engine {
            AnyEngine::Cpu(engine) => (
                Some(engine.threads() as f64),
                &["blend", "blend_backward"][..],
            ),
            _ => (None, &["blend"][..]),
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
        let mut facts = Vec::new();
        match &*self.engine {
            AnyEngine::Gpu(engine) => {
                let pool = engine.gpu().pool().stats();
                let precision = self.options.precision.unwrap_or_default();
                facts.extend([
                    fact(
                        "engine's buffers, photos included",
                        human_bytes(engine.memory_bytes()),
                    ),
                    fact(
                        "a Gaussian",
                        format!(
                            "{} B",
                            dapple::gpu::bytes_per_gaussian(precision, work.sh_degree)
                        ),
                    ),
                    fact("pool: buffers made", pool.allocations.to_string()),
                    fact(
                        "pool: requests served by a used buffer",
                        pool.reuses.to_string(),
                    ),
                    fact("pool: handed out", human_bytes(pool.live_bytes)),
                    fact("pool: kept free", human_bytes(pool.pooled_bytes)),
                    fact("pool: most at one time", human_bytes(pool.peak_bytes)),
                ]);
            }
            _ => {
                let floats = 11 + 3 * dapple::scene::sh_coefficient_count(work.sh_degree);
                let bytes = (CPU_COPIES * floats * 4) as u64 * work.gaussians;
                facts.push(fact("parameters and moments", human_bytes(bytes)));
            }
        }
        if let Some(bytes) = machine::peak_memory_bytes() {
            facts.push(fact("the process, at most", human_bytes(bytes)));
        }
        facts
    }
}
