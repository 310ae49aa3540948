//! Structs that host and shaders share have the same size and the same fields on both sides.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_gpu::layout;
use dapple_runtime::wgpu::naga;

fn struct_bytes(module: &naga::Module, name: &str) -> u32 {
    let found = module
        .types
        .iter()
        .find(|(_, ty)| ty.name.as_deref() == Some(name));
    match found.map(|(_, ty)| &ty.inner) {
        Some(naga::TypeInner::Struct { span, .. }) => *span,
        _ => panic!("no struct {name}"),
    }
}

#[test]
fn structs_have_the_same_size_on_both_sides() {
    let wgsl = layout::shaders()
        .compose("shared/step", &layout::defines())
        .unwrap();
    let module = naga::front::wgsl::parse_str(&wgsl).unwrap();
    let step = size_of::<layout::Step>() as u32;
    // WGSL rounds a struct up to its alignment, 16.
    assert_eq!(struct_bytes(&module, "Step"), step.next_multiple_of(16));
    assert_eq!(
        struct_bytes(&module, "State"),
        size_of::<layout::State>() as u32
    );
    assert_eq!(
        struct_bytes(&module, "View"),
        size_of::<layout::View>() as u32
    );
}

#[test]
fn lenses_have_the_same_size_on_both_sides() {
    let wgsl = layout::shaders()
        .compose("shared/lens_form", &layout::defines())
        .unwrap();
    let module = naga::front::wgsl::parse_str(&wgsl).unwrap();
    let bytes = size_of::<layout::Lens>() as u32;
    assert_eq!(struct_bytes(&module, "Lens"), bytes);
}

#[test]
fn reports_have_the_same_size_on_both_sides() {
    let wgsl = layout::shaders()
        .compose("shared/report", &layout::defines())
        .unwrap();
    let module = naga::front::wgsl::parse_str(&wgsl).unwrap();
    let bytes = size_of::<layout::Report>() as u32;
    assert_eq!(bytes, 24 * 4);
    assert_eq!(struct_bytes(&module, "Report"), bytes);
}
