//! Measures the ceilings of a GPU as engines use it, through wgpu.
//!
//! One file per group: `memory` (bandwidth, and caches by working set), `arithmetic`, `latency`, `transfer` (host to
//! device and back), `atomics` (and sums over subgroups); `timing` times all of them:
//!
//! 1. Commands are recorded first. The clock runs from their submission until the device has finished them; work that
//!    was not waited for is not counted.
//! 2. Dispatches are repeated within a submission until the cost of the submission is below the noise.
//! 3. Repetitions, their median and their spread are those of [`dapple_profile::ceilings`].
//!
//! Software renderers get smaller sizes: they share the caches of the CPU, and are slow.

pub(crate) mod arithmetic;
mod atomics;
mod latency;
pub(crate) mod memory;
mod timing;
mod transfer;

use crate::{AdapterReport, Gpu};
use dapple_base::{Progress, Result};
use dapple_profile::ceilings::{self, Group, Unit};
pub use dapple_profile::ceilings::{DeviceKey, Limits, Measured};

/// Returns the key of a device in the cache of ceilings.
pub fn key(adapter: &AdapterReport) -> DeviceKey {
    DeviceKey {
        name: format!("{} ({})", adapter.name, adapter.backend),
        driver: adapter.driver.clone(),
    }
}

/// Measures all ceilings of the device; takes some ten seconds, and waits for the device.
///
/// # Errors
/// No memory for the buffers, a lost device; `progress` requests a stop.
pub fn measure(gpu: &Gpu, progress: &dyn Progress) -> Result<Measured> {
    let groups: [fn(&Gpu, &mut Measured) -> Result<()>; 7] = [
        memory::measure,
        arithmetic::measure,
        latency::measure,
        atomics::measure,
        transfer::upload,
        transfer::download,
        memory::working_sets,
    ];
    let groups = groups.map(|group| Box::new(move |to: &mut Measured| group(gpu, to)) as Group<'_>);
    let title = "measuring what the GPU reaches";
    ceilings::measure(key(gpu.report()), title, groups.into(), progress)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::GpuOptions;
    use naga::valid::{Capabilities, ValidationFlags, Validator};

    /// Opens a device that checks everything.
    pub(super) fn gpu() -> Gpu {
        Gpu::open(&GpuOptions {
            choice: dapple_base::test_requirements::test_gpu().parse().unwrap(),
            validate: true,
            ..GpuOptions::default()
        })
        .unwrap()
    }

    #[test]
    fn every_shader_has_a_translation_for_every_backend() {
        let chains = [
            arithmetic::fma_f32(),
            arithmetic::exponentials(),
            arithmetic::subgroup_sums(),
        ];
        let fixed = [
            memory::COPY,
            memory::READ,
            memory::WRITE,
            latency::LITTLE,
            atomics::ATOMICS,
        ];
        for wgsl in chains.iter().map(String::as_str).chain(fixed) {
            crate::translate(wgsl).unwrap();
        }
        // Half precision is enabled by a feature outside of `translate`.
        let module = naga::front::wgsl::parse_str(&arithmetic::fma_f16()).unwrap();
        Validator::new(ValidationFlags::all(), Capabilities::SHADER_FLOAT16)
            .validate(&module)
            .unwrap();
    }

    #[test]
    fn all_is_measured_and_can_be() {
        let gpu = gpu();
        let measured = measure(&gpu, &dapple_base::NoProgress).unwrap();
        let mut expected = vec![
            "copy",
            "read",
            "write",
            "fma_f32",
            "exp2",
            "dispatch",
            "submission",
            "atomics_spread",
            "atomics_contended",
        ];
        let features = gpu.device().features();
        if features.contains(wgpu::Features::SUBGROUP) {
            expected.push("subgroup_add");
        }
        if features.contains(wgpu::Features::SHADER_F16) {
            expected.push("fma_f16");
        }
        for name in &expected {
            let value = measured.get(name).unwrap_or_default();
            assert!(value.is_finite() && value > 0.0, "{name}: {measured:?}");
        }
        assert_eq!(measured.rates.len(), expected.len());
        for name in ["working_set", "upload", "download"] {
            let curve = measured.curves.iter().find(|c| c.name == name).unwrap();
            assert!(curve.points.len() >= 5, "{name}");
            assert!(curve.points.is_sorted_by_key(|p| p.bytes), "{name}");
            assert!(curve.points.iter().all(|p| p.bytes_per_second > 0.0));
        }
        let folder = tempfile::tempdir().unwrap();
        ceilings::store(folder.path(), &measured).unwrap();
        let again = ceilings::cached(folder.path(), &key(gpu.report())).unwrap();
        assert_eq!(again.rates.len(), measured.rates.len());
    }
}
