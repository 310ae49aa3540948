//! What a GPU does at most, thing by thing, measured as engines use it: through wgpu.
//!
//! One file a group: `memory` (bandwidth, and caches by working set), `arithmetic`,
//! `latency`, `transfer` (host to device and back), `atomics` (and sums over subgroups);
//! `timing` is how all of them are timed:
//!
//! 1. Commands are recorded first. Then the clock runs from submitting them until the device has
//!    finished them: what was not waited for is not counted.
//! 2. Dispatches are repeated within a submission until it takes long enough that submitting it is
//!    lost in the noise.
//! 3. Goes, their median and their spread are those of [`dapple_profile::ceilings`].
//!
//! Software renderers get smaller sizes: they share the processor's caches, and are slow.

pub(crate) mod arithmetic;
mod atomics;
mod latency;
pub(crate) mod memory;
mod timing;
mod transfer;

use crate::{AdapterReport, Gpu, Kernel};
use dapple_base::{Progress, Result};
use dapple_profile::ceilings::{self, Group, Unit};
pub use dapple_profile::ceilings::{DeviceKey, Limits, Measured};

/// How the cache of ceilings knows a device.
pub fn key(adapter: &AdapterReport) -> DeviceKey {
    DeviceKey {
        name: format!("{} ({})", adapter.name, adapter.backend),
        driver: adapter.driver.clone(),
    }
}

/// Measures everything that the device can do; takes some ten seconds, and waits for it.
///
/// # Errors
/// No memory for what is measured, a lost device; `progress` asks to stop.
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

/// A kernel as engines compile theirs: without runtime checks, which would be measured too.
fn kernel(gpu: &Gpu, label: &str, wgsl: &str, entry: &str) -> Result<Kernel> {
    // SAFETY: those of this folder index by numbers that are masked by their buffers' lengths or bounded by
    // them, and their loops have fixed ends; tests run them with checks.
    unsafe { Kernel::from_wgsl_unchecked(gpu, label, wgsl, entry) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::GpuOptions;
    use naga::valid::{Capabilities, ValidationFlags, Validator};

    /// A device that checks everything.
    pub(super) fn gpu() -> Gpu {
        Gpu::open(&GpuOptions {
            choice: dapple_base::lacking::test_gpu().parse().unwrap(),
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
        // Half precision is granted by what `translate` knows nothing of.
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
