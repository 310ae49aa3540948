//! Splats for benchmarks: the statistics that measurements depend on.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dapple_scene::{Camera, Splats};
use dapple_synth as synth;
use glam::{DMat2, DMat3, DQuat, DVec2, DVec3};

/// Counts the Gaussians in the frustum and the 16 x 16 tiles touched by the ellipses where alpha is 1/255, exactly.
fn count_instances(splats: &Splats, camera: &Camera) -> (usize, usize) {
    let (columns, rows) = (camera.width.div_ceil(16), camera.height.div_ceil(16));
    let (mut visible, mut instances) = (0, 0);
    let rotation = camera.camera_from_world.rotation_matrix();
    for i in 0..splats.len() {
        let p = camera
            .camera_from_world
            .transform(DVec3::from(splats.means[i].map(f64::from)));
        let opacity = 1.0 / (1.0 + (-f64::from(splats.opacities[i])).exp());
        // x^T conic x = 2 ln(255 opacity) where alpha is 1/255.
        let reach = 2.0 * (255.0 * opacity).ln();
        if p.z < 0.01 || reach <= 0.0 {
            continue;
        }
        let [w, x, y, z] = splats.quats[i].map(f64::from);
        let axes = rotation * DMat3::from_quat(DQuat::from_xyzw(x, y, z, w).normalize());
        let sigmas = DVec3::from(splats.scales[i].map(|s| f64::from(s).exp()));
        let half = axes * DMat3::from_diagonal(sigmas);
        // The engines evaluate the Jacobian at most 30 % outside the image. Without that limit, Gaussians next to the
        // camera would be counted in every tile.
        let slope = |position: f64, size: u32, focal: f64| {
            let limit = 1.3 * 0.5 * f64::from(size) / focal;
            (position / p.z).clamp(-limit, limit)
        };
        let u = slope(p.x, camera.width, camera.fx);
        let v = slope(p.y, camera.height, camera.fy);
        let jacobian_x = DVec3::new(camera.fx / p.z, 0.0, -camera.fx * u / p.z);
        let jacobian_y = DVec3::new(0.0, camera.fy / p.z, -camera.fy * v / p.z);
        let (u, v) = (half.transpose() * jacobian_x, half.transpose() * jacobian_y);
        let covariance =
            DMat2::from_cols_array(&[u.dot(u) + 0.3, u.dot(v), u.dot(v), v.dot(v) + 0.3]);
        let conic = covariance.inverse();
        let Some(centre) = camera.project_pinhole(p) else {
            continue;
        };
        let extent =
            DVec2::new(covariance.x_axis.x.sqrt(), covariance.y_axis.y.sqrt()) * reach.sqrt();
        let tiles = |low: f64, high: f64, count: u32| {
            let first = (low / 16.0).floor().max(0.0) as u32;
            first..((high / 16.0).floor() + 1.0).clamp(0.0, f64::from(count)) as u32
        };
        let before = instances;
        for row in tiles(centre.y - extent.y, centre.y + extent.y, rows) {
            for column in tiles(centre.x - extent.x, centre.x + extent.x, columns) {
                let low = DVec2::new(f64::from(column), f64::from(row)) * 16.0 - centre;
                // From a tile's first pixel centre to its last.
                if nearest(conic, low + 0.5, low + 15.5) <= reach {
                    instances += 1;
                }
            }
        }
        visible += usize::from(instances > before);
    }
    (visible, instances)
}

/// Returns the least value of the form over a rectangle: 0 with the centre inside, else on one of its edges.
fn nearest(conic: DMat2, low: DVec2, high: DVec2) -> f64 {
    if low.cmple(DVec2::ZERO).all() && high.cmpge(DVec2::ZERO).all() {
        return 0.0;
    }
    let (a, b, c) = (conic.x_axis.x, conic.x_axis.y, conic.y_axis.y);
    let form = |x: f64, y: f64| a * x * x + 2.0 * b * x * y + c * y * y;
    let on_column = |x: f64| form(x, (-b * x / c).clamp(low.y, high.y));
    let on_row = |y: f64| form((-b * y / a).clamp(low.x, high.x), y);
    on_column(low.x)
        .min(on_column(high.x))
        .min(on_row(low.y))
        .min(on_row(high.y))
}

#[test]
fn the_standard_scene_touches_the_tiles_it_promises() {
    let splats = synth::splats(165_000, 0);
    let camera = synth::bench_camera(516, 344);
    let (visible, instances) = count_instances(&splats, &camera);
    eprintln!("{visible} visible, {instances} instances");
    assert!((100_000..155_000).contains(&visible), "{visible}");
    assert!((540_000..610_000).contains(&instances), "{instances}");
}

#[test]
fn fewer_gaussians_are_larger_and_cover_as_much() {
    let camera = synth::bench_camera(516, 344);
    let (_, few) = count_instances(&synth::splats(10_000, 0), &camera);
    let (_, more) = count_instances(&synth::splats(40_000, 0), &camera);
    eprintln!("{few} at 10 k, {more} at 40 k");
    assert!(few > 60_000 && more > few && more < 4 * few, "{few} {more}");
}

#[test]
fn every_value_is_usable_and_depends_on_the_seed_alone() {
    let splats = synth::splats(3000, 7);
    assert_eq!((splats.len(), splats.sh_degree), (3000, 3));
    assert_eq!(splats.sh_rest.len(), 3000 * 45);
    let floats = splats
        .means
        .iter()
        .chain(&splats.scales)
        .chain(&splats.sh0)
        .flatten();
    let others = splats
        .quats
        .iter()
        .flatten()
        .chain(&splats.opacities)
        .chain(&splats.sh_rest);
    assert!(floats.chain(others).all(|v| v.is_finite()));
    // Two modes with few values between them.
    let share = |low: f32, high: f32| {
        let within = splats
            .opacities
            .iter()
            .filter(|&&o| (low..high).contains(&o));
        within.count() as f64 / 3000.0
    };
    assert!(share(-9.0, -1.0) > 0.35 && share(1.0, 9.0) > 0.3 && share(-1.0, 1.0) < 0.25);
    // Needles and flakes: the longest axis is usually several times the shortest.
    let stretched = splats.scales.iter().filter(|s| {
        let longest = s.iter().fold(f32::MIN, |a, &b| a.max(b));
        let shortest = s.iter().fold(f32::MAX, |a, &b| a.min(b));
        longest - shortest > 3f32.ln()
    });
    assert!(stretched.count() > 2400);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    assert_eq!(pool.install(|| synth::splats(3000, 7)), splats);
    assert_ne!(synth::splats(3000, 8), splats);
    assert!(synth::splats(0, 0).is_empty());
}
