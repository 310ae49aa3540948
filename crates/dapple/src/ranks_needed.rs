//! Number of ranks that hold given splats: see [`ranks_needed`].

use crate::device::{Device, best};
use crate::ranks::{MOST_RANKS, is_for_ranks};
use dapple_engine::MemoryPlan;
use dapple_runtime::{Choice, adapters};
use dapple_scene::{Error, Result};

/// Ranks for splats that are rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RanksNeeded {
    /// Number of ranks; 1 = one engine holds the splats.
    pub ranks: usize,
    /// True if the memory of one device is too small, so that ranks must be on several devices. Otherwise a buffer is.
    pub by_memory: bool,
}

impl RanksNeeded {
    /// One engine.
    pub const ONE: Self = Self {
        ranks: 1,
        by_memory: false,
    };
}

/// Computes how many ranks hold `gaussians` for renders. `plan`: that of one engine, for the SH degree of the splats;
/// `devices`: number of devices that ranks are on ([`devices_of`]).
///
/// Memory counts only with several devices: ranks on one device share its memory.
///
/// # Errors
/// More than [`MOST_RANKS`].
pub fn ranks_needed(plan: &MemoryPlan, gaussians: usize, devices: usize) -> Result<RanksNeeded> {
    let by_buffer = plan.engines_holding(gaussians);
    let by_buffer = by_buffer
        .filter(|&ranks| ranks <= MOST_RANKS)
        .ok_or_else(|| {
            Error::unsupported(format!(
                "{gaussians} Gaussians do not fit {MOST_RANKS} engines, each with at most {}",
                plan.held
            ))
            .hint("use --device cpu, or fewer Gaussians")
        })?;
    // The plan has half of the memory.
    let memory = plan
        .bytes
        .map_or(u64::MAX, |bytes| bytes.saturating_mul(2).max(1));
    let bytes = plan.bytes_held.saturating_mul(gaussians as u64);
    let by_memory = usize::try_from(bytes.div_ceil(memory)).unwrap_or(usize::MAX);
    let by_memory = by_memory.min(devices);
    Ok(RanksNeeded {
        ranks: by_buffer.max(by_memory),
        by_memory: by_memory > 1,
    })
}

/// Returns the number of devices that ranks of [`open_ranks`](crate::open_ranks) are on.
pub fn devices_of(device: &Device) -> usize {
    match device {
        Device::Auto | Device::Gpu(Choice::Auto) => {
            let found = adapters();
            match best(&found) {
                Ok(_) => found.iter().filter(|gpu| is_for_ranks(gpu)).count(),
                Err(_) => 1,
            }
        }
        _ => 1,
    }
}

/// Returns the device that [`open`](crate::open) takes for this one, so that ranks are on one device.
pub fn device_of_one(device: &Device) -> Device {
    match device {
        Device::Auto | Device::Gpu(Choice::Auto) => match best(&adapters()) {
            Ok(adapter) => Device::Gpu(Choice::Index(adapter.index)),
            Err(_) => device.clone(),
        },
        named => named.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use dapple_engine::Part;

    /// 11 930 464 Gaussians of degree 3 in a buffer of 2 GiB, on a device of 24 GB.
    fn plan() -> MemoryPlan {
        MemoryPlan {
            gaussians: 7_000_000,
            bytes_each: 1600,
            bytes: Some(12_000_000_000),
            by_buffer: false,
            engines: 1,
            held: 11_930_464,
            bytes_held: 830,
            smaller: None,
        }
    }

    fn by_buffer(ranks: usize) -> RanksNeeded {
        RanksNeeded {
            ranks,
            by_memory: false,
        }
    }

    #[test]
    fn splats_that_one_engine_holds_need_no_ranks() {
        let of = |gaussians, devices| ranks_needed(&plan(), gaussians, devices).unwrap();
        // Also beyond the number that trains on the device.
        for gaussians in [0, 1, 7_000_001, 11_930_464] {
            assert_eq!(of(gaussians, 1), by_buffer(1), "{gaussians}");
            assert_eq!(of(gaussians, 4), by_buffer(1), "{gaussians}");
        }
        assert_eq!(of(11_930_465, 1), by_buffer(2));
    }

    #[test]
    fn the_rank_with_most_blocks_holds_its_part() {
        let plan = MemoryPlan {
            held: 1000,
            bytes: None,
            ..plan()
        };
        for gaussians in [1001, 2001, 2999, 3000, 12_345] {
            let ranks = ranks_needed(&plan, gaussians, 1).unwrap().ranks;
            let largest = |ranks| {
                let parts = (0..ranks).map(|rank| Part::new(rank, ranks, gaussians).len());
                parts.max().unwrap()
            };
            assert!(largest(ranks) <= 1000, "{gaussians}: {ranks}");
            assert!(largest(ranks - 1) > 1000, "{gaussians}: {ranks}");
        }
        // A third of the blocks is more than a third of the Gaussians.
        assert_eq!(ranks_needed(&plan, 3000, 1).unwrap(), by_buffer(4));
        let error = ranks_needed(&plan, 100_000, 1).unwrap_err();
        assert!(error.what().contains("100000 Gaussians do not fit 64"));
    }

    #[test]
    fn memory_counts_with_several_devices_only() {
        // 41.5 GB of 24.
        let plan = MemoryPlan {
            held: usize::MAX,
            ..plan()
        };
        let of = |devices| ranks_needed(&plan, 50_000_000, devices).unwrap();
        let by_memory = RanksNeeded {
            ranks: 2,
            by_memory: true,
        };
        assert_eq!(of(1), by_buffer(1));
        assert_eq!(of(2), by_memory);
        assert_eq!(of(8), by_memory);
        assert_eq!(devices_of(&Device::Cpu), 1);
    }
}
