//! Structs that host and shaders share have the same members at the same places on both sides.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_gpu::catalogue;
use dapple_gpu::layout::{Lens, Parameters, Report, State, Step, View};
use dapple_runtime::wgpu::naga;
use std::mem::offset_of;

/// Name, offset and bytes of a member.
type Member = (String, u32, u32);

/// Lists all members of a host's struct: the pattern does not compile without one of them. Padding has no counterpart
/// in WGSL; an array may be several members there.
macro_rules! members {
    ($ty:ident { $($field:ident $(as [$($part:ident),+])?),+ $(,)? }) => {{
        let $ty { $($field),+ } = $ty::default();
        let mut all: Vec<Member> = Vec::new();
        $({
            let (at, bytes) = (offset_of!($ty, $field) as u32, size_of_val(&$field) as u32);
            let parts: &[&str] = &[$($(stringify!($part)),+)?];
            let name = stringify!($field);
            let each = bytes / parts.len().max(1) as u32;
            match parts {
                [] if name.starts_with("pad") => {}
                [] => all.push((name.to_owned(), at, bytes)),
                parts => {
                    let places = (at..).step_by(each as usize);
                    all.extend(parts.iter().zip(places).map(|(p, at)| (p.to_string(), at, each)));
                }
            }
        })+
        all
    }};
}

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
    (
        members
            .filter(|(name, ..)| !name.starts_with("pad"))
            .collect(),
        *span,
    )
}

#[test]
fn steps_are_the_same_on_both_sides() {
    let ours = members!(Step {
        view, number, flags, sh_degree, background, near,
        rates as [rate_means, rate_scales, rate_quats, rate_opacities, rate_sh0, rate_sh_rest],
        beta1, beta2, epsilon, inverse_correction2, ssim_weight, cap, report, appearance_rate, seed, noise,
        rate_turn, rate_shift, dropout,
    });
    let (theirs, bytes) = of_shader("shared/step", "Step");
    assert_eq!(ours, theirs);
    // WGSL rounds a struct up to its alignment, 16.
    assert_eq!(bytes, (size_of::<Step>() as u32).next_multiple_of(16));
}

#[test]
fn parameters_are_the_same_on_both_sides() {
    let ours = members!(Parameters {
        losses,
        depth_samples,
        mlp_network_rate,
        mlp_code_rate,
        mlp_neutral,
        mlp_feature_rate,
        crop_side,
        crop,
        photometric_rate,
        photometric_prior,
        pad,
    });
    let (theirs, bytes) = of_shader("shared/parameters", "Parameters");
    assert_eq!((ours, size_of::<Parameters>() as u32), (theirs, bytes));
}

#[test]
fn counts_are_the_same_on_both_sides() {
    let ours = members!(State {
        gaussians,
        capacity,
        visible,
        instances,
        buckets,
        visible_capacity,
        instance_capacity,
        bucket_capacity,
        halted,
        wanted,
        max_per_tile,
        cut_instances,
        lost_transmittance,
        cloned,
        split,
        pruned,
        refused,
        relocated,
        added,
    });
    assert_eq!(
        (ours, size_of::<State>() as u32),
        of_shader("shared/step", "State")
    );
}

#[test]
fn views_are_the_same_on_both_sides() {
    let ours = members!(View {
        rows as [row0, row1, row2],
        centre, focal, principal, jacobian_min, jacobian_max, size, tiles, counted_pixels,
        counted_windows, is_panorama, pad,
    });
    assert_eq!(
        (ours, size_of::<View>() as u32),
        of_shader("shared/step", "View")
    );
}

#[test]
fn lenses_are_the_same_on_both_sides() {
    let ours = members!(Lens {
        bend, reach, decentres_distorted, pad,
        numerator as [numerator_low, numerator_high],
        denominator, prism, tangential, root,
    });
    assert_eq!(
        (ours, size_of::<Lens>() as u32),
        of_shader("shared/lens_form", "Lens")
    );
}

#[test]
fn reports_are_the_same_on_both_sides() {
    let ours = members!(Report {
        kind,
        number,
        view,
        loss,
        gaussians,
        visible,
        instances,
        buckets,
        tiles,
        max_per_tile,
        cut_instances,
        lost_transmittance,
        halted,
        wanted,
        cloned,
        split,
        pruned,
        refused,
        relocated,
        added,
        broken,
        broken_tensors,
        pad,
    });
    assert_eq!(
        (ours, size_of::<Report>() as u32),
        of_shader("shared/report", "Report")
    );
}
