//! `shared/blocks`: the blocks of a tile that an ellipse reaches.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_engine::constants::ALPHA_MIN;
use dapple_gpu::catalogue;
use dapple_reference::scenes::Random;
use dapple_reference::{PixelRect, Projected, ellipse_touches_rect};
use dapple_runtime::{CommandList, Groups, Kernel, ShaderSet};
use glam::{DVec2, DVec3};
use support::context;

const PROBE: &str = "
#import shared/splat2d
#import shared/blocks
@group(0) @binding(0) var<storage, read> splats: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> touched: array<u32>;
@compute @workgroup_size(64)
fn probe(@builtin(global_invocation_id) id: vec3u) {
    if id.x < arrayLength(&touched) {
        let s0 = splats[3u * id.x];
        let s1 = splats[3u * id.x + 1u];
        let s2 = splats[3u * id.x + 2u];
        touched[id.x] =
            touched_blocks(s0.xy, vec3f(s0.zw, s1.x), s1.y, s2.zw, vec2f(CORNER_X, CORNER_Y));
    }
}
";

const CORNER: [f32; 2] = [1008.0, 512.0];

/// Returns a random ellipse, of any size, shape and distance from the tile.
fn ellipse(random: &mut Random) -> Projected {
    let long = random.uniform(-3.0, 9.0).exp();
    let short = long * random.uniform(-8.0, 0.0).exp();
    let axis = DVec2::from_angle(random.uniform(0.0, std::f64::consts::PI));
    let (u, v) = (long * long, short * short);
    let xx = 0.3 + u * axis.x * axis.x + v * axis.y * axis.y;
    let yy = 0.3 + u * axis.y * axis.y + v * axis.x * axis.x;
    let xy = (u - v) * axis.x * axis.y;
    let determinant = 0.09 + 0.3 * (u + v) + u * v;
    // Mostly across the needle, so that it still comes near the tile.
    let along = random.uniform(-2.5, 2.5) * long;
    let across = random.uniform(-2.5, 2.5) * short + random.uniform(-12.0, 12.0);
    let centre = DVec2::new(f64::from(CORNER[0]), f64::from(CORNER[1]))
        + DVec2::splat(8.0)
        + along * axis
        + across * axis.perp();
    Projected {
        index: 0,
        centre,
        depth: 1.0,
        period: 0.0,
        covariance: [xx, xy, yy],
        conic: [yy, -xy, xx].map(|v| v / determinant),
        opacity: random.uniform(0.0, f64::from(ALPHA_MIN).ln()).exp(),
        colour: DVec3::ONE,
    }
}

fn splat(p: &Projected) -> [f32; 12] {
    let form = -0.5 * std::f64::consts::LOG2_E;
    let level = 2.0 * (p.opacity / f64::from(ALPHA_MIN)).ln();
    let sizes = |variance: f64| (level * variance).sqrt();
    let [xx, xy, yy] = p.conic;
    let [a, b, c] = [form * xx, 2.0 * form * xy, form * yy];
    let [width, height] = [sizes(p.covariance[0]), sizes(p.covariance[2])];
    [
        p.centre.x,
        p.centre.y,
        a,
        b,
        c,
        p.opacity.log2(),
        1.0,
        1.0,
        1.0,
        1.0,
        width,
        height,
    ]
    .map(|v| v as f32)
}

/// Returns true if `blend` blends the ellipse in a pixel: its arithmetic, bit for bit.
fn is_seen(s: &[f32; 12], x: f32, y: f32) -> bool {
    let (dx, dy) = (x - s[0], y - s[1]);
    let constant = (s[2] * dx).mul_add(dx, s[5]);
    let exponent = s[4].mul_add(dy, s[3] * dx).mul_add(dy, constant);
    exponent >= -(-ALPHA_MIN.log2())
}

#[test]
fn no_block_is_missed_and_few_are_taken_in_vain() {
    require_gpu!();
    let context = context();
    let set = ShaderSet::new(&[
        ("probe", PROBE),
        (
            "shared/splat2d",
            include_str!("../../shaders/shared/splat2d.wgsl"),
        ),
        (
            "shared/blocks",
            include_str!("../../shaders/shared/blocks.wgsl"),
        ),
    ]);
    let defines = catalogue::defines()
        .f32("CORNER_X", CORNER[0])
        .f32("CORNER_Y", CORNER[1]);
    let kernel = Kernel::new(&context.gpu, &set, "probe", "probe", &defines).unwrap();

    let random = &mut Random::new(31);
    let ellipses: Vec<Projected> = (0..40_000).map(|_| ellipse(random)).collect();
    let splats: Vec<[f32; 12]> = ellipses.iter().map(splat).collect();
    let input = context.gpu.upload("splats", splats.as_flattened()).unwrap();
    let output = context
        .gpu
        .upload("touched", &vec![0u32; splats.len()])
        .unwrap();
    let bound = kernel
        .bind(&context.gpu, &[("splats", &input), ("touched", &output)])
        .unwrap();
    let mut recording = CommandList::new();
    recording.dispatch(
        bound,
        Groups::Direct([splats.len().div_ceil(64) as u32, 1, 1]),
    );
    recording.submit(&context.gpu, &[]);
    let touched: Vec<u32> = context.gpu.read(&output, splats.len()).unwrap();

    let (mut exact, mut seen, mut in_vain) = (0, 0, 0);
    for ((ellipse, splat), touched) in ellipses.iter().zip(&splats).zip(touched) {
        for block in 0..8 {
            let [x, y] = [
                CORNER[0] + (block % 2 * 8) as f32,
                CORNER[1] + (block / 2 * 4) as f32,
            ];
            let is_touched = touched >> block & 1 == 1;
            let mut pixels = (0..32).map(|l| [x + (l % 8) as f32 + 0.5, y + (l / 8) as f32 + 0.5]);
            let is_seen = pixels.any(|[x, y]| is_seen(splat, x, y));
            assert!(is_touched || !is_seen, "block {block} of {ellipse:?}");
            let corner = DVec2::new(f64::from(x), f64::from(y));
            let rect = PixelRect {
                min: corner + 0.5,
                max: corner + DVec2::new(7.5, 3.5),
            };
            let should = ellipse_touches_rect(ellipse, rect);
            exact += usize::from(should);
            seen += usize::from(is_seen);
            in_vain += usize::from(is_touched && !should);
        }
    }
    println!("{exact} blocks reached, {seen} of them in a pixel; {in_vain} taken in vain");
    assert!(
        exact > 20_000 && in_vain * 100 < exact,
        "{in_vain} of {exact}"
    );
}
