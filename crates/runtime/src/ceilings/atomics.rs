//! Operations between invocations: atomic additions to integers in memory, each to its own address (`atomics_spread`)
//! or all to one (`atomics_contended`), and sums over a subgroup.

use super::arithmetic::subgroup_add;
use super::timing::{kernel, rate};
use super::{Measured, Unit};
use crate::Gpu;
use dapple_base::Result;
use dapple_profile::ceilings::Rated;

/// Addresses of the spread additions: 4 MiB.
const PLACES: u32 = 1 << 20;
const WORKGROUP: u32 = 256;
const GROUPS: u32 = 1024;
const SOFTWARE_GROUPS: u32 = 16;
/// Additions per invocation.
const ROUNDS: u32 = 16;

/// Numbers: rounds, and the last address, a power of two less one. Drivers may first add within a subgroup if all
/// additions go to one address; the measured rate then includes this.
pub(crate) const ATOMICS: &str = "
@group(0) @binding(0) var<storage, read> numbers: array<u32>;
@group(0) @binding(1) var<storage, read_write> places: array<atomic<u32>>;

@compute @workgroup_size(256)
fn atomics(
    @builtin(global_invocation_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
) {
    let rounds = numbers[0];
    let last = numbers[1];
    var i = id.x;
    for (var k = 0u; k < rounds; k++) {
        atomicAdd(&places[i & last], 1u);
        i += dispatched.x * 256u;
    }
}
";

pub(super) fn measure(gpu: &Gpu, measured: &mut Measured) -> Result<()> {
    for (name, places) in [("atomics_spread", PLACES), ("atomics_contended", 1)] {
        measured.rate(name, Unit::PerSecond, additions(gpu, places)?);
    }
    if gpu.device().features().contains(wgpu::Features::SUBGROUP) {
        measured.rate("subgroup_add", Unit::PerSecond, subgroup_add(gpu)?);
    }
    Ok(())
}

fn additions(gpu: &Gpu, places: u32) -> Result<Rated> {
    let groups = if gpu.report().is_software {
        SOFTWARE_GROUPS
    } else {
        GROUPS
    };
    let numbers = gpu.upload("numbers", &[ROUNDS, places - 1])?;
    let memory = gpu.buffer("places", u64::from(PLACES) * 4)?;
    let kernel = kernel(gpu, "ceilings.atomics", ATOMICS, "atomics")?;
    let bound = kernel.bind(gpu, &[("numbers", &numbers), ("places", &memory)])?;
    let additions = f64::from(groups) * f64::from(WORKGROUP) * f64::from(ROUNDS);
    rate(gpu, &bound, groups, additions)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::tests::gpu;
    use super::super::timing::run;
    use super::*;
    use crate::Kernel;

    #[test]
    fn every_addition_arrives_where_it_should() {
        let gpu = gpu();
        for (places, each) in [(1_u32, 2 * 256 * 16_u32), (1024, 8)] {
            let numbers = gpu.upload("numbers", &[ROUNDS, places - 1]).unwrap();
            let memory = gpu.buffer("places", 1024 * 4).unwrap();
            let kernel = Kernel::from_wgsl(&gpu, "ceilings.atomics", ATOMICS, "atomics").unwrap();
            let bound = kernel
                .bind(&gpu, &[("numbers", &numbers), ("places", &memory)])
                .unwrap();
            run(&gpu, &bound, 2, 1).unwrap();
            let found = gpu.read::<u32>(&memory, places as usize).unwrap();
            assert!(found.iter().all(|&n| n == each), "{places}: {found:?}");
        }
    }
}
