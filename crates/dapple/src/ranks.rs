//! Engines of several ranks: see [`dapple_ranks`]. Ranks are in this process ([`open_ranks`]), or each in a process that a
//! launcher of MPI has started ([`Launch`]).

use crate::device::{AnyEngine, Device, EngineOptions, Opened, best, open};
use dapple_cpu::CpuEngine;
use dapple_device::BoxedEngine;
use dapple_engine::{Engine, Shipment};
use dapple_gpu::GpuEngine;
use dapple_ranks::{Link, RankTimes, RanksEngine};
use dapple_runtime::{AdapterReport, Choice, adapters};
use dapple_scene::{Error, Result};

/// Most ranks in one process.
pub const MOST_RANKS: usize = 64;

/// Ranks of this process, with a known kind of engine.
#[non_exhaustive]
pub enum AnyRanks {
    /// On the CPU.
    Cpu(RanksEngine<CpuEngine>),
    /// On GPUs.
    Gpu(RanksEngine<GpuEngine>),
}

impl AnyRanks {
    /// Returns the ranks as [`Engine`].
    pub fn as_engine(&mut self) -> &mut dyn Engine {
        match self {
            Self::Cpu(ranks) => ranks,
            Self::Gpu(ranks) => ranks,
        }
    }

    /// Returns the times of the ranks since the last call.
    pub fn take_times(&mut self) -> Vec<RankTimes> {
        match self {
            Self::Cpu(ranks) => ranks.take_times(),
            Self::Gpu(ranks) => ranks.take_times(),
        }
    }

    /// Converts to an engine without the kind.
    pub fn into_engine(self) -> BoxedEngine {
        match self {
            Self::Cpu(ranks) => BoxedEngine::host(ranks),
            Self::Gpu(ranks) => BoxedEngine::host(ranks),
        }
    }
}

/// Creates an engine without splats whose Gaussians are in parts on `ranks` ranks of this process.
///
/// - On the CPU, ranks share the cores or [`EngineOptions::threads`], at least one thread each.
/// - [`Device::Auto`], or [`Device::Gpu`] without a name: the first rank takes the best hardware GPU, the next rank the
///   next one, and so on from the first again. A named GPU has all ranks.
///
/// Returns the ranks, and the reason of [`Device::Auto`].
///
/// # Errors
/// A number of ranks that is 0 or above [`MOST_RANKS`]; see also [`open`].
pub fn open_ranks(
    device: &Device,
    options: &EngineOptions,
    ranks: usize,
) -> Result<(AnyRanks, Option<String>)> {
    if !(1..=MOST_RANKS).contains(&ranks) {
        return Err(Error::input(format!(
            "{ranks} ranks were requested, and a process has 1 to {MOST_RANKS}"
        )));
    }
    let found = adapters();
    let (devices, why) = match device {
        Device::Auto => match best(&found) {
            Ok(_) => (
                gpus(&found, ranks),
                Some("the hardware GPUs of this machine".to_owned()),
            ),
            Err(why) => (vec![Device::Cpu; ranks], Some(why)),
        },
        Device::Gpu(Choice::Auto) if best(&found).is_ok() => (gpus(&found, ranks), None),
        named => (vec![named.clone(); ranks], None),
    };
    let options = EngineOptions {
        threads: match devices.first() {
            Some(Device::Cpu) => Some(threads_of_each(options, ranks)),
            _ => options.threads,
        },
        // For copies from GPU to GPU.
        shares_memory: ranks > 1,
        ..*options
    };
    let opened = devices.iter().map(|device| open(device, &options));
    let opened = opened.collect::<Result<Vec<Opened>>>()?;
    let engine = join(opened.into_iter().map(|opened| opened.engine))?;
    Ok((engine, why))
}

/// Variables in which launchers of MPI give a process its number: Open MPI's, and those of PMIx and PMI.
const RANK_VARIABLES: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];
/// Variables with the number of processes.
#[cfg(not(feature = "mpi"))]
const SIZE_VARIABLES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
/// Variables with the number of a process on its machine.
const LOCAL_VARIABLES: [&str; 3] = [
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "SLURM_LOCALID",
];

/// Returns the first of these variables that is a number.
fn number_in(variables: &[&str]) -> Option<usize> {
    let values = variables.iter().filter_map(std::env::var_os);
    values
        .filter_map(|value| value.to_str()?.parse().ok())
        .next()
}

/// The processes of a launch by MPI, one of which this process is.
pub struct Launch {
    #[cfg(feature = "mpi")]
    link: dapple_ranks::MpiLink,
    /// Without MPI there are no launches.
    #[cfg(not(feature = "mpi"))]
    none: std::convert::Infallible,
}

impl Launch {
    /// Joins the launch that this process belongs to; `None` if a launcher of MPI did not start it. Called once.
    ///
    /// # Errors
    /// Several processes and a build without the feature `mpi`; a fault of MPI.
    pub fn join() -> Result<Option<Self>> {
        if number_in(&RANK_VARIABLES).is_none() {
            return Ok(None);
        }
        #[cfg(feature = "mpi")]
        let launch = dapple_ranks::MpiLink::join().map(|link| Some(Self { link }));
        #[cfg(not(feature = "mpi"))]
        let launch = match number_in(&SIZE_VARIABLES) {
            Some(processes) if processes > 1 => Err(Error::unsupported(format!(
                "a launcher of MPI started {processes} processes, and this build has no MPI"
            ))
            .at("the start of the program")
            .hint("build it with `--features mpi`, or use --ranks-in-process")),
            _ => Ok(None),
        };
        launch
    }

    /// Returns the number of this process in the launch, from 0.
    pub fn rank(&self) -> usize {
        #[cfg(feature = "mpi")]
        return self.link.number();
        #[cfg(not(feature = "mpi"))]
        match self.none {}
    }

    fn link<S: Shipment>(self) -> Box<dyn Link<S>> {
        #[cfg(feature = "mpi")]
        return Box::new(self.link);
        #[cfg(not(feature = "mpi"))]
        match self.none {}
    }

    /// Opens the engine of the first process, which trains and sends commands to the others.
    ///
    /// # Errors
    /// See [`open`]; also a rank that has failed or cannot train with this one.
    pub fn lead(self, device: &Device, options: &EngineOptions) -> Result<BoxedEngine> {
        Ok(match open_one(device, options)? {
            AnyEngine::Cpu(engine) => BoxedEngine::host(RanksEngine::lead(*engine, self.link())?),
            AnyEngine::Gpu(engine) => BoxedEngine::host(RanksEngine::lead(*engine, self.link())?),
        })
    }

    /// Opens the engine of another process, and executes the commands of the first process.
    ///
    /// # Errors
    /// See [`open`]; also a fault of a rank.
    pub fn serve(self, device: &Device, options: &EngineOptions) -> Result<()> {
        match open_one(device, options)? {
            AnyEngine::Cpu(engine) => dapple_ranks::serve(*engine, self.link()),
            AnyEngine::Gpu(engine) => dapple_ranks::serve(*engine, self.link()),
        }
    }
}

/// Opens the device of this process: the GPU of its number on this machine, unless one is named.
fn open_one(device: &Device, options: &EngineOptions) -> Result<AnyEngine> {
    let found = adapters();
    let local = number_in(&LOCAL_VARIABLES).or_else(|| number_in(&RANK_VARIABLES));
    let device = match device {
        Device::Auto | Device::Gpu(Choice::Auto) if best(&found).is_ok() => {
            gpus(&found, local.unwrap_or(0) + 1).pop()
        }
        named => Some(named.clone()),
    };
    Ok(open(&device.unwrap_or_default(), options)?.engine)
}

/// Returns true if ranks without a named device use this GPU.
pub(crate) fn is_for_ranks(adapter: &AdapterReport) -> bool {
    !adapter.is_software && adapter.unusable.is_none()
}

/// Returns the hardware GPUs for ranks, in turn.
fn gpus(found: &[AdapterReport], ranks: usize) -> Vec<Device> {
    let usable = found.iter().filter(|adapter| is_for_ranks(adapter));
    let usable: Vec<usize> = usable.map(|adapter| adapter.index).collect();
    let turns = usable.iter().cycle().take(ranks);
    turns
        .map(|&index| Device::Gpu(Choice::Index(index)))
        .collect()
}

/// Returns the threads of a rank on the CPU.
fn threads_of_each(options: &EngineOptions, ranks: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    (options.threads.unwrap_or_else(cores) / ranks).max(1)
}

/// Joins engines of one kind.
fn join(engines: impl Iterator<Item = AnyEngine>) -> Result<AnyRanks> {
    let (mut cpus, mut gpus): (Vec<CpuEngine>, Vec<GpuEngine>) = (Vec::new(), Vec::new());
    for engine in engines {
        match engine {
            AnyEngine::Cpu(engine) => cpus.push(*engine),
            AnyEngine::Gpu(engine) => gpus.push(*engine),
        }
    }
    match (cpus.is_empty(), gpus.is_empty()) {
        (false, true) => Ok(AnyRanks::Cpu(RanksEngine::new(cpus)?)),
        (true, false) => Ok(AnyRanks::Gpu(RanksEngine::new(gpus)?)),
        _ => Err(Error::unsupported("ranks need devices of one kind")),
    }
}
