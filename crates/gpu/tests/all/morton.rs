//! The Morton order is correct, and all data of a Gaussian moves.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support::world;

use world::{Device, World, planes, random};

/// Returns the Morton code of the cube that contains a centre: the definition, in `f64`.
fn morton_code(mean: [f32; 3], least: [f32; 3], longest: f64) -> u32 {
    let cells = 2f64.powi(9 - longest.log2().floor() as i32);
    let mut code = 0;
    for k in 0..3 {
        let cell = ((f64::from(mean[k]) - f64::from(least[k])) * cells) as u32;
        for bit in 0..10 {
            code |= (cell >> bit & 1) << (3 * bit + k as u32);
        }
    }
    code
}

/// Returns the Gaussians in Morton order, those with non-finite centres last.
fn morton_order(means: &[[f32; 3]]) -> Vec<usize> {
    let finite: Vec<[f32; 3]> = means
        .iter()
        .copied()
        .filter(|m| m.iter().all(|v| v.is_finite()))
        .collect();
    let fold = |f: fn(f32, f32) -> f32, from: f32| -> [f32; 3] {
        [0, 1, 2].map(|k| finite.iter().map(|m| m[k]).fold(from, f))
    };
    let least = fold(f32::min, f32::INFINITY);
    let most = fold(f32::max, f32::NEG_INFINITY);
    let longest = (0..3)
        .map(|k| f64::from(most[k]) - f64::from(least[k]))
        .fold(0.0, f64::max);
    let code = |mean: [f32; 3]| match mean.iter().all(|v| v.is_finite()) {
        true if longest > 0.0 => morton_code(mean, least, longest),
        true => 0,
        false => 1 << 30,
    };
    let mut order: Vec<usize> = (0..means.len()).collect();
    order.sort_by_key(|&i| code(means[i]));
    order
}

#[test]
fn morton_order_is_one_and_moves_everything() {
    require_gpu!();
    type Change = fn(usize, &mut [f32; 3]);
    let cases: [(&str, usize, Change); 8] = [
        ("none", 0, |_, _| {}),
        ("one", 1, |_, _| {}),
        ("many", 5000, |_, _| {}),
        ("all in one place", 300, |_, m| *m = [3.0, -1.0, 0.5]),
        ("on a grid", 2000, |i, m| {
            *m = [(i % 13) as f32, (i / 13 % 11) as f32, (i / 143) as f32]
        }),
        ("far apart", 600, |i, m| {
            *m = m.map(|v| if i % 2 == 0 { v * 1e38 } else { v })
        }),
        ("close together", 600, |_, m| *m = m.map(|v| v * 1e-20)),
        ("some nowhere", 700, |i, m| match i % 7 {
            2 => m[1] = f32::NAN,
            5 => m[2] = f32::NEG_INFINITY,
            _ => {}
        }),
    ];
    let devices = [Device::with_subgroups(), Device::without_subgroups()];
    for (what, n, change) in cases {
        let (mut splats, state) = random(n, 41);
        for (i, mean) in splats.means.iter_mut().enumerate() {
            change(i, mean);
        }
        for device in &devices[..if n == 5000 { 2 } else { 1 }] {
            let world = World::new(device, n + 9);
            world.upload(&splats, &state);
            let before = world.everything();
            world.morton();
            let after = world.everything();
            let order = morton_order(&splats.means);
            for ((name, count), (before, after)) in planes(world.precision)
                .into_iter()
                .zip(before.iter().zip(&after))
            {
                for p in 0..count as usize {
                    let at = p * world.capacity;
                    let expected: Vec<u32> = order.iter().map(|&i| before[at + i]).collect();
                    assert!(after[at..at + n] == expected, "{what}, {name}, plane {p}");
                }
            }
            assert_eq!(world.state().gaussians, n as u32);
        }
    }
}
