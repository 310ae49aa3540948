//! Structs that host and shaders share have the same members at the same places on both sides.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_gpu::catalogue;
use dapple_gpu::features::depth::Sample;
use dapple_gpu::layout::{Lens, Parameters, Report, State, Step, View};
use dapple_gpu::shared_struct::{Shared, members};
use dapple_runtime::wgpu::naga;

/// Name, offset and bytes of a member.
type Member = (String, u32, u32);

/// Returns the members of a shader's struct in naga's layout, and its bytes.
fn of_shader(file: &str, name: &str) -> (Vec<Member>, u32) {
    let wgsl = catalogue::shaders()
        .compose(file, &catalogue::defines())
        .unwrap();
    let module = naga::front::wgsl::parse_str(&wgsl).unwrap();
    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx()).unwrap();
    let is_it = |ty: &naga::Type| ty.name.as_deref() == Some(name);
    let found = module
        .types
        .iter()
        .find(|(_, ty)| is_it(ty))
        .map(|(_, ty)| &ty.inner);
    let Some(naga::TypeInner::Struct { members, span }) = found else {
        panic!("no struct {name} in {file}");
    };
    let member = |m: &naga::StructMember| (m.name.clone().unwrap(), m.offset, layouter[m.ty].size);
    let members = members.iter().map(member);
    (members.collect(), *span)
}

/// Checks that a struct has the same members at the same places on both sides, and returns its bytes on both.
fn compare<T: Shared>(file: &str, name: &str) -> (u32, u32) {
    let ours = members::<T>().into_iter();
    let ours: Vec<Member> = ours
        .map(|m| (m.name.to_owned(), m.offset as u32, m.bytes as u32))
        .collect();
    let (theirs, bytes) = of_shader(file, name);
    assert_eq!(ours, theirs, "{name}");
    (size_of::<T>() as u32, bytes)
}

#[test]
fn numbers_of_a_step_are_the_same_on_both_sides() {
    // WGSL rounds a struct up to its alignment, 16.
    for (ours, theirs) in [
        compare::<Step>("shared/step", "Step"),
        compare::<Parameters>("shared/parameters", "Parameters"),
    ] {
        assert_eq!(ours.next_multiple_of(16), theirs);
    }
}

#[test]
fn items_of_buffers_are_the_same_on_both_sides() {
    for (ours, theirs) in [
        compare::<State>("shared/step", "State"),
        compare::<View>("shared/step", "View"),
        compare::<Lens>("shared/lens_form", "Lens"),
        compare::<Report>("shared/report", "Report"),
        compare::<Sample>("depth_loss", "DepthSample"),
    ] {
        assert_eq!(ours, theirs);
    }
}
