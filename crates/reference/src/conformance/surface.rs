//! Surface depths and normals against the f64 reference.

use super::decided::decided;
use super::engines::Make;
use crate as reference;
use crate::features::depth::conformance::antialiased;
use crate::scenes;
use crate::{Gaussian, SurfacePoint};
use dapple_engine::RenderSettings;
use glam::{DVec3, Vec3};

/// Margin of decisions, in units of ln alpha: nearer to a threshold, `f32` may decide otherwise.
const MARGIN: f64 = 1e-4;

/// Relative error of a depth in addition to that by rounding of the transmittance.
const DEPTH_TOLERANCE: f64 = 2e-5;

/// Distance of a normal in addition to that by rounding of the transmittance.
const NORMAL_TOLERANCE: f64 = 2e-3;

/// Checks every test scene, some of them anti-aliased too. In decided pixels, depths and normals are those of the
/// reference. The image is bit-identical to a render without a surface.
pub fn surfaces_match_the_reference(make: Make<'_>) {
    let mut failures = Vec::new();
    let mut engine = make();
    let mut compared = 0;
    for scene in scenes::all().into_iter().chain(antialiased()) {
        let (splats, camera) = (&scene.splats, &scene.camera);
        let settings = RenderSettings {
            surface: true,
            ..scene.settings
        };
        engine.upload(splats, None).unwrap();
        let plain = engine.render(camera, &scene.settings).unwrap();
        assert!(plain.surface.is_none(), "{}: not requested", scene.name);
        let actual = engine.render(camera, &settings).unwrap();
        assert_eq!(actual.rgb, plain.rgb, "{}: another image", scene.name);
        assert_eq!(actual.alpha, plain.alpha, "{}: another alpha", scene.name);
        let again = engine.render(camera, &settings).unwrap();
        assert_eq!(again, actual, "{}: another surface", scene.name);
        let actual = actual.surface.unwrap();
        let expected = reference::surface(splats, camera, &settings).unwrap();
        assert_eq!(actual.depth.len(), expected.points.len());
        let all = Gaussian::all(splats);
        let sure = decided(scene.name, &all, camera, &settings, MARGIN);
        let rows = actual.depth.iter().zip(&actual.normal);
        let rows = rows.zip(&expected.points).zip(&sure).enumerate();
        for (pixel, (((&depth, &normal), point), _)) in rows.filter(|(_, (_, sure))| **sure) {
            compared += usize::from(point.depth > 0.0);
            if let Some(fault) = fault(depth, normal, point) {
                failures.push(format!("{} pixel {pixel}: {fault}", scene.name));
            }
        }
    }
    assert!(compared > 10_000, "only {compared} pixels have a surface");
    let count = failures.len();
    failures.truncate(20);
    assert!(failures.is_empty(), "{count} pixels: {failures:#?}");
}

/// Returns the difference of a pixel, if it is too large.
fn fault(depth: f32, normal: [f32; 3], point: &SurfacePoint) -> Option<String> {
    if point.margin < reference::ROUNDING {
        return None;
    }
    let actual = f64::from(depth);
    let slack = DEPTH_TOLERANCE * point.depth;
    let [near, far] = point.depths;
    let is_near = actual >= near - slack && actual <= far + slack;
    let off = Vec3::from(normal).as_dvec3().distance(point.normal);
    let turned = off > NORMAL_TOLERANCE + 2.0 * point.turn;
    let is_unit = point.normal == DVec3::ZERO || (Vec3::from(normal).length() - 1.0).abs() < 1e-5;
    (!is_near || turned || !is_unit || !actual.is_finite()).then(|| {
        format!(
            "depth {actual}, not {near} to {far}; normal {normal:?}, not {} within {:.1e}",
            point.normal, point.turn
        )
    })
}
