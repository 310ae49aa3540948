//! Renders of chosen tiles against renders of all tiles.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use dapple_engine::constants::TILE_SIZE;
use dapple_engine::{ImageDerivative, TileMask};
use dapple_reference as reference;
use dapple_reference::scenes::{self, Random};

fn derivative([rgb, alpha, depth]: &[Vec<f64>; 3]) -> ImageDerivative<'_, f64> {
    ImageDerivative {
        rgb,
        alpha: Some(alpha),
        depth: Some(depth),
    }
}

#[test]
fn other_tiles_have_the_background_and_no_gradient() {
    let mut hidden = 0;
    for mut scene in scenes::all() {
        scene.settings.background = [0.25, 0.5, 0.75];
        let (splats, camera, settings) = (&scene.splats, &scene.camera, &scene.settings);
        let size = [camera.width, camera.height].map(|side| side.div_ceil(TILE_SIZE));
        let chosen: Vec<bool> = (0..size[0] * size[1]).map(|tile| tile % 3 == 0).collect();
        let tiles = TileMask::new(size, &chosen).unwrap();
        let whole = reference::render(splats, camera, settings).unwrap();
        let image = reference::render_tiles(splats, camera, settings, &tiles).unwrap();
        let mut random = Random::new(3);
        let pixels = (camera.width * camera.height) as usize;
        let mut values =
            |count| -> Vec<f64> { (0..count).map(|_| random.uniform(-1.0, 1.0)).collect() };
        let planes = [3 * pixels, pixels, pixels].map(&mut values);
        let mut inside = planes.clone();
        for i in 0..pixels {
            let [x, y] = [i as u32 % camera.width, i as u32 / camera.width];
            let rgb = 3 * i..3 * i + 3;
            if chosen[(y / TILE_SIZE * size[0] + x / TILE_SIZE) as usize] {
                assert_eq!(image.rgb[rgb.clone()], whole.rgb[rgb]);
                assert_eq!(image.alpha[i], whole.alpha[i]);
                assert_eq!(image.depth[i], whole.depth[i]);
                assert_eq!(image.median_depth[i], whole.median_depth[i]);
                continue;
            }
            hidden += 1;
            assert_eq!(image.rgb[rgb.clone()], [0.25, 0.5, 0.75]);
            let others = [image.alpha[i], image.depth[i], image.median_depth[i]];
            assert_eq!(others, [0.0; 3]);
            inside[0][rgb].fill(0.0);
            inside[1][i] = 0.0;
            inside[2][i] = 0.0;
        }
        let derivative_inside = derivative(&inside);
        let expected =
            reference::differentiate(splats, camera, settings, &derivative_inside).unwrap();
        let derivative = derivative(&planes);
        let actual =
            reference::differentiate_tiles(splats, camera, settings, &derivative, &tiles).unwrap();
        assert!(actual == expected, "{}", scene.name);
    }
    assert!(hidden > 10_000, "only {hidden} pixels are hidden");
}
