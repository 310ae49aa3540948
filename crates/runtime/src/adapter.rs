//! Lists the GPUs of the machine and picks one.
//!
//! 1. The list contains all adapters of the native backends, the best first. Usable adapters come before unusable ones,
//!    then discrete before integrated before virtual before software, then more memory first. Ties are ordered by name,
//!    bus and backend, so that numbers stay the same from call to call.
//! 2. `Auto` takes the first adapter, unless the adapter is a software renderer. Software renderers are taken only when
//!    asked for by number or name, because a native CPU engine is faster.
//! 3. The report lists each missing feature with the consequence of its absence.
//! 4. If the system kills dispatches that take too long, the report names the watchdog, and engines bound the work of a
//!    dispatch.

use crate::compile_lock::COMPILING;
use dapple_base::{Error, Result};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// Choice of the adapter to open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Choice {
    /// Best hardware adapter.
    #[default]
    Auto,
    /// Adapter with this number in [`adapters`].
    Index(usize),
    /// First adapter whose name contains this text, in upper or lower case.
    Name(String),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("gpu"),
            Self::Index(index) => write!(f, "gpu:{index}"),
            Self::Name(name) => write!(f, "gpu:{name}"),
        }
    }
}

impl FromStr for Choice {
    type Err = Error;

    /// Parses `gpu`, `gpu:N` or `gpu:name`.
    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            None if text == "gpu" => Ok(Self::Auto),
            Some(("gpu", which)) if !which.is_empty() => Ok(which
                .parse()
                .map_or_else(|_| Self::Name(which.to_owned()), Self::Index)),
            _ => Err(Error::input(format!("\"{text}\" names no GPU"))
                .hint("write gpu, gpu:N (its number in `dapple doctor`) or gpu:name")),
        }
    }
}

/// Properties and abilities of an adapter.
#[derive(Debug, Clone, Serialize)]
pub struct AdapterReport {
    /// Number, for [`Choice::Index`].
    pub index: usize,
    /// Name from the driver.
    pub name: String,
    /// `discrete`, `integrated`, `virtual`, `software` or `other`.
    pub device_type: &'static str,
    /// Vendor and device, hexadecimal, as PCI numbers them: `10de:2335`. `None` if the backend does not report them.
    pub pci_id: Option<String>,
    /// Address on the bus: `0000:01:00.0`.
    pub pci_bus: Option<String>,
    /// Vulkan, Metal, Dx12.
    pub backend: String,
    /// Driver and its version.
    pub driver: String,
    /// True for a software renderer.
    pub is_software: bool,
    /// Smallest and largest number of invocations in a subgroup; `None` without subgroups.
    pub subgroup_sizes: Option<[u32; 2]>,
    /// Most bytes in one storage binding.
    pub max_binding_bytes: u64,
    /// Most bytes in one buffer.
    pub max_buffer_bytes: u64,
    /// Bytes that a workgroup can share.
    pub workgroup_memory_bytes: u32,
    /// Memory of the device; for an integrated GPU, the part of the system's memory that it may use. Only Vulkan
    /// reports it.
    pub memory_bytes: Option<u64>,
    /// True if shaders can pack two `f16` into a word, which `f16` storage needs. Some drivers of Mesa cannot.
    pub packs_f16: bool,
    /// True if stages can be timed on the device's clock.
    pub timestamps: bool,
    /// True if Dapple can store compiled kernels from one start to the next.
    pub pipeline_cache: bool,
    /// True if the system may kill long dispatches, so that engines should bound their work. Sets the default of the
    /// per-tile limit.
    pub bounds_dispatches: bool,
    /// Watchdog that kills long dispatches; `None` if there is none.
    pub watchdog: Option<String>,
    /// Missing features with the consequences of their absence; empty if nothing is missing.
    pub missing: Vec<String>,
    /// Reason why the adapter cannot be used at all.
    pub unusable: Option<String>,
}

/// Bytes of immediates that every kernel may use.
pub const IMMEDIATE_BYTES: u32 = 128;

/// Storage buffers that one kernel may bind.
pub const STORAGE_BUFFERS: u32 = 16;

impl AdapterReport {
    pub(crate) fn new(adapter: &wgpu::Adapter) -> Self {
        let info = adapter.get_info();
        let features = adapter.features();
        let limits = adapter.limits();
        let has = |feature| features.contains(feature);
        let mut missing = Vec::new();
        if !has(wgpu::Features::SUBGROUP) {
            missing.push("subgroups: sorting ranks keys through shared memory, slower".to_owned());
        }
        if !has(wgpu::Features::TIMESTAMP_QUERY) {
            missing.push("timestamps: stages of a step cannot be timed".to_owned());
        }
        if !has(wgpu::Features::PIPELINE_CACHE) {
            missing.push("pipeline cache: kernels are compiled at every start".to_owned());
        }
        let downlevel = adapter.get_downlevel_capabilities().flags;
        let packs_f16 = downlevel.contains(wgpu::DownlevelFlags::SHADER_F16_IN_F32);
        if !packs_f16 {
            missing.push("f16 packing: storage can be f32 or bf16, not f16".to_owned());
        }
        let mut unusable = None;
        if !has(wgpu::Features::IMMEDIATES) || limits.max_immediate_size < IMMEDIATE_BYTES {
            unusable = Some(format!("it has no {IMMEDIATE_BYTES} bytes of immediates"));
        } else if limits.max_storage_buffers_per_shader_stage < STORAGE_BUFFERS {
            unusable = Some(format!(
                "it binds {} storage buffers at once, and {STORAGE_BUFFERS} are needed",
                limits.max_storage_buffers_per_shader_stage
            ));
        }
        let watchdog = watchdog(&info, cfg!(windows));
        // Numbers beyond 16 bits are assigned by Khronos to vendors without a PCI number.
        let is_pci = (1..=0xffff).contains(&info.vendor);
        let pci_id = is_pci.then(|| format!("{:04x}:{:04x}", info.vendor, info.device));
        Self {
            index: 0,
            name: info.name.clone(),
            device_type: kind(info.device_type).1,
            pci_id,
            pci_bus: Some(info.device_pci_bus_id).filter(|bus| !bus.is_empty()),
            backend: format!("{:?}", info.backend),
            driver: format!("{} {}", info.driver, info.driver_info)
                .trim()
                .to_owned(),
            is_software: info.device_type == wgpu::DeviceType::Cpu,
            subgroup_sizes: has(wgpu::Features::SUBGROUP)
                .then_some([info.subgroup_min_size, info.subgroup_max_size]),
            max_binding_bytes: limits.max_storage_buffer_binding_size,
            max_buffer_bytes: limits.max_buffer_size,
            workgroup_memory_bytes: limits.max_compute_workgroup_storage_size,
            memory_bytes: memory_bytes(adapter),
            packs_f16,
            timestamps: has(wgpu::Features::TIMESTAMP_QUERY),
            pipeline_cache: has(wgpu::Features::PIPELINE_CACHE),
            bounds_dispatches: watchdog.is_some(),
            watchdog,
            missing,
            unusable,
        }
    }
}

/// Returns the rank in the order of adapters, and name, of a type.
fn kind(device_type: wgpu::DeviceType) -> (u8, &'static str) {
    match device_type {
        wgpu::DeviceType::DiscreteGpu => (0, "discrete"),
        wgpu::DeviceType::IntegratedGpu => (1, "integrated"),
        wgpu::DeviceType::VirtualGpu => (2, "virtual"),
        wgpu::DeviceType::Other => (3, "other"),
        wgpu::DeviceType::Cpu => (4, "software"),
    }
}

/// PCI vendor number of Intel.
const INTEL: u32 = 0x8086;

/// Returns the watchdog that kills long dispatches on this adapter.
///
/// - Windows resets a GPU that is busy for 2 s (timeout detection and recovery), for every interface; DX12 exists only
///   on Windows.
/// - On Apple's M1 and M2 (GPU families 7 and 8; A14 to A16 are of the same families) a command buffer that blocks the
///   display is aborted. This was not observed on newer families.
/// - Linux's i915 resets an engine of an integrated Intel GPU that is not preemptible for seconds.
fn watchdog(info: &wgpu::AdapterInfo, windows: bool) -> Option<String> {
    if info.device_type == wgpu::DeviceType::Cpu {
        return None;
    }
    if windows || info.backend == wgpu::Backend::Dx12 {
        return Some("Windows resets a GPU that one dispatch keeps busy for 2 s".to_owned());
    }
    let chips = [
        "Apple M1",
        "Apple M2",
        "Apple A14",
        "Apple A15",
        "Apple A16",
    ];
    // Matches "Apple M1 Max", but not an "Apple M10".
    let is_chip = |chip| {
        let rest = info.name.strip_prefix(chip);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if chips.into_iter().any(is_chip) {
        return Some("macOS aborts long dispatches on Apple GPUs before the M3".to_owned());
    }
    let integrated = info.device_type == wgpu::DeviceType::IntegratedGpu;
    (integrated && info.vendor == INTEL)
        .then(|| "the driver resets integrated Intel GPUs after seconds of one dispatch".to_owned())
}

/// Size of the largest heap that Vulkan marks as device-local.
#[cfg(any(
    windows,
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd"
))]
fn memory_bytes(adapter: &wgpu::Adapter) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`.
    const DEVICE_LOCAL: u32 = 1;
    // SAFETY: the raw handles are only read for properties, while the guard keeps them alive.
    let memory = unsafe {
        let vulkan = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let instance = vulkan.shared_instance().raw_instance();
        instance.get_physical_device_memory_properties(vulkan.raw_physical_device())
    };
    let heaps = memory
        .memory_heaps
        .iter()
        .take(memory.memory_heap_count as usize);
    heaps
        .filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0)
        .map(|heap| heap.size)
        .max()
}

/// Metal does not report it through wgpu.
#[cfg(not(any(
    windows,
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd"
)))]
fn memory_bytes(_: &wgpu::Adapter) -> Option<u64> {
    None
}

/// Returns the wgpu instance, opened once and never closed. A driver that was unloaded and loaded again while its
/// threads still ran has crashed, and reported that there is no device.
fn instance(validate: bool) -> &'static wgpu::Instance {
    static INSTANCES: [OnceLock<wgpu::Instance>; 2] = [const { OnceLock::new() }; 2];
    INSTANCES[usize::from(validate)].get_or_init(|| {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
        descriptor.flags = if validate {
            wgpu::InstanceFlags::debugging()
        } else {
            // Checking indirect dispatches costs an extra dispatch for each of them; Dapple computes its own counts.
            wgpu::InstanceFlags::empty()
        };
        wgpu::Instance::new(descriptor)
    })
}

/// Returns all adapters with their reports, the best first.
pub(crate) fn listed(validate: bool) -> Vec<(wgpu::Adapter, AdapterReport)> {
    let found = instance(validate).enumerate_adapters(wgpu::Backends::all());
    let adapters = pollster::block_on(found);
    let mut all: Vec<_> = adapters
        .into_iter()
        .map(|adapter| {
            let report = AdapterReport::new(&adapter);
            (adapter, report)
        })
        .collect();
    all.sort_by_cached_key(|(adapter, report)| order(&adapter.get_info(), report));
    for (index, (_, report)) in all.iter_mut().enumerate() {
        report.index = index;
    }
    all
}

/// Returns the sort key: the smallest is the best. Vulkan comes before DX12, which lists the same device again and
/// reports less.
fn order(info: &wgpu::AdapterInfo, report: &AdapterReport) -> impl Ord + use<> {
    (
        report.unusable.is_some(),
        kind(info.device_type).0,
        std::cmp::Reverse(report.memory_bytes),
        report.name.clone(),
        report.pci_bus.clone(),
        info.backend as u8,
    )
}

/// Returns all adapters of this machine, the best first.
pub fn adapters() -> Vec<AdapterReport> {
    let _turn = COMPILING.take_alone();
    listed(false)
        .into_iter()
        .map(|(_, report)| report)
        .collect()
}

/// Picks an adapter.
pub(crate) fn pick(
    mut all: Vec<(wgpu::Adapter, AdapterReport)>,
    choice: &Choice,
) -> Result<(wgpu::Adapter, AdapterReport)> {
    let names: Vec<String> = all
        .iter()
        .map(|(_, r)| format!("gpu:{} {} ({})", r.index, r.name, r.backend))
        .collect();
    let listing = if names.is_empty() {
        "no GPU driver answers on this machine; --device cpu runs without one".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    let found = match choice {
        Choice::Auto => all
            .iter()
            .position(|(_, r)| !r.is_software && r.unusable.is_none()),
        Choice::Index(index) => (*index < all.len()).then_some(*index),
        Choice::Name(name) => {
            let name = name.to_lowercase();
            all.iter()
                .position(|(_, r)| r.name.to_lowercase().contains(&name))
        }
    };
    let Some(found) = found else {
        return Err(Error::unsupported(match choice {
            Choice::Auto => "no hardware GPU was found".to_owned(),
            _ => format!("there is no device {choice}"),
        })
        .hint(listing));
    };
    let (adapter, report) = all.swap_remove(found);
    match &report.unusable {
        Some(why) => Err(
            Error::unsupported(format!("{} cannot be used: {why}", report.name))
                .hint("update its driver, or use --device cpu"),
        ),
        None => Ok((adapter, report)),
    }
}

/// Returns true if subgroups multiply 16 by 16 matrices of 16-bit floats with 32-bit sums.
pub(crate) fn multiplies_halves(adapter: &wgpu::Adapter) -> bool {
    let all = adapter.cooperative_matrix_properties();
    all.iter().any(|matrices| {
        [matrices.m_size, matrices.n_size, matrices.k_size] == [16; 3]
            && matrices.ab_type == wgpu::CooperativeScalarType::F16
            && matrices.cr_type == wgpu::CooperativeScalarType::F32
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn choices_are_read_and_written() {
        for text in ["gpu", "gpu:1", "gpu:llvmpipe"] {
            assert_eq!(text.parse::<Choice>().unwrap().to_string(), text);
        }
        for text in ["", "gpu:", "cuda", "gpu1"] {
            assert!(text.parse::<Choice>().is_err(), "{text}");
        }
    }
    fn info(
        name: &str,
        device_type: wgpu::DeviceType,
        backend: wgpu::Backend,
    ) -> wgpu::AdapterInfo {
        let mut info = wgpu::AdapterInfo::new(device_type, backend);
        info.name = name.to_owned();
        info
    }

    #[test]
    fn watchdogs_are_known() {
        use wgpu::{Backend, DeviceType};
        let bounded = |name, device_type, backend, windows| {
            watchdog(&info(name, device_type, backend), windows).is_some()
        };
        let discrete = DeviceType::DiscreteGpu;
        assert!(!bounded("NVIDIA H200", discrete, Backend::Vulkan, false));
        assert!(bounded("NVIDIA H200", discrete, Backend::Vulkan, true));
        assert!(bounded("NVIDIA H200", discrete, Backend::Dx12, true));
        assert!(!bounded("WARP", DeviceType::Cpu, Backend::Dx12, true));
        let apple = |name| bounded(name, DeviceType::IntegratedGpu, Backend::Metal, false);
        assert!(apple("Apple M1") && apple("Apple M2 Ultra") && apple("Apple A14 Bionic"));
        assert!(!apple("Apple M3 Max") && !apple("Apple M4") && !apple("Apple M10"));
        let mut intel = info("Iris Xe", DeviceType::IntegratedGpu, Backend::Vulkan);
        intel.vendor = INTEL;
        assert!(watchdog(&intel, false).is_some());
        intel.device_type = discrete;
        assert!(watchdog(&intel, false).is_none());
    }

    #[test]
    fn the_best_comes_first_and_ties_are_stable() {
        let report = |name: &str, memory: Option<u64>, unusable: bool| AdapterReport {
            index: 0,
            name: name.to_owned(),
            device_type: "",
            pci_id: None,
            pci_bus: None,
            backend: String::new(),
            driver: String::new(),
            is_software: false,
            subgroup_sizes: None,
            max_binding_bytes: 0,
            max_buffer_bytes: 0,
            workgroup_memory_bytes: 0,
            memory_bytes: memory,
            packs_f16: false,
            timestamps: false,
            pipeline_cache: false,
            bounds_dispatches: false,
            watchdog: None,
            missing: Vec::new(),
            unusable: unusable.then(String::new),
        };
        use wgpu::{Backend, DeviceType};
        let (discrete, shared) = (DeviceType::DiscreteGpu, DeviceType::IntegratedGpu);
        let ranked = [
            ("large", discrete, Backend::Vulkan, Some(80), false),
            ("a small", discrete, Backend::Vulkan, Some(8), false),
            ("b small", discrete, Backend::Vulkan, Some(8), false),
            ("a small", discrete, Backend::Dx12, None, false),
            ("shared", shared, Backend::Vulkan, Some(500), false),
            (
                "llvmpipe",
                DeviceType::Cpu,
                Backend::Vulkan,
                Some(900),
                false,
            ),
            ("too old", discrete, Backend::Vulkan, Some(900), true),
        ];
        let sorted = ranked.map(|(name, device_type, backend, memory, unusable)| {
            order(
                &info(name, device_type, backend),
                &report(name, memory, unusable),
            )
        });
        assert!(sorted.is_sorted());
    }
}
