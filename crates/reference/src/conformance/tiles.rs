//! Renders and derivatives of chosen tiles.

use super::engines::Make;
use super::parity::{weights, widened};
use crate as reference;
use crate::compare::{self, TOLERANCE};
use crate::scenes::{self, TestScene};
use dapple_engine::constants::TILE_SIZE;
use dapple_engine::score::to_byte;
use dapple_engine::shown::NO_CONTRIBUTOR;
use dapple_engine::{
    Engine, EngineExt, GradientParts, Gradients, ImageDerivative, RenderSettings, Rendered,
    TileMask,
};

/// Scenes of the checks: many Gaussians, large ones, the per-tile limit, no Gaussian, a single tile, a lens and rings. The
/// reference is tested on all.
const SCENES: [&str; 9] = [
    "random_sh3",
    "crowd",
    "huge",
    "tile_cap",
    "empty",
    "tiny_image",
    "lens_fisheye",
    "panorama_seam",
    "cylinder_beyond",
];

/// Contributors of a pixel: a GPU finds them in more than one run.
const MOST: usize = 5;

/// Tiles of a scene: those that `is_chosen` names by their number.
struct Choice {
    mask: TileMask,
    /// True for pixels of chosen tiles.
    pixels: Vec<bool>,
}

impl Choice {
    fn new(scene: &TestScene, is_chosen: impl Fn(u32) -> bool) -> Self {
        let (width, height) = (scene.camera.width, scene.camera.height);
        let size = [width, height].map(|side| side.div_ceil(TILE_SIZE));
        let tiles: Vec<bool> = (0..size[0] * size[1]).map(is_chosen).collect();
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let pixels = pixels.map(|(x, y)| tiles[(y / TILE_SIZE * size[0] + x / TILE_SIZE) as usize]);
        Self {
            pixels: pixels.collect(),
            mask: TileMask::new(size, &tiles).unwrap(),
        }
    }

    /// Returns the values of chosen pixels, and `other` for the others, `N` values a pixel.
    fn of<T: Copy, const N: usize>(&self, values: &[T], other: [T; N]) -> Vec<T> {
        let values = values.as_chunks::<N>().0.iter().zip(&self.pixels);
        let values = values.map(|(&value, &chosen)| if chosen { value } else { other });
        values.flatten().collect()
    }
}

/// Checks on some test scenes, for some tiles, for all and for none:
///
/// - Chosen tiles have the bits of a render of all tiles; others have the background, no alpha, no depth, no surface and
///   no contributors.
/// - Gradients are those of a render of all tiles whose derivative is zero in other tiles.
/// - Both are within [`TOLERANCE`] of the reference: checked for some tiles.
/// - The next render has all tiles again.
pub fn chosen_tiles_match_the_reference(make: Make<'_>) {
    let mut engine = make();
    let mut hidden = 0;
    for mut scene in SCENES.map(scenes::named) {
        scene.settings = RenderSettings {
            background: [0.3, 0.2, 0.7],
            depth: true,
            surface: true,
            ..scene.settings
        };
        engine.upload(&scene.splats, None).unwrap();
        // Neighbours along rows and columns are chosen and not.
        let some = Choice::new(&scene, |tile| tile * 7 % 5 < 2);
        let (all, none) = (
            Choice::new(&scene, |_| true),
            Choice::new(&scene, |_| false),
        );
        let whole = engine.render(&scene.camera, &scene.settings).unwrap();
        hidden += some.pixels.iter().filter(|chosen| !**chosen).count();
        for choice in [&some, &all, &none] {
            images(engine.as_mut(), &scene, &whole, choice);
            gradients(engine.as_mut(), &scene, choice);
        }
        shown(engine.as_mut(), &scene, &some);
        let again = engine.render(&scene.camera, &scene.settings).unwrap();
        assert!(again == whole, "{}: the choice stays", scene.name);
        refuses(engine.as_mut(), &scene);
    }
    assert!(hidden > 5_000, "only {hidden} pixels are not rendered");
}

/// Checks the images of a render.
fn images(engine: &mut dyn Engine, scene: &TestScene, whole: &Rendered, choice: &Choice) {
    let (name, camera, settings) = (scene.name, &scene.camera, &scene.settings);
    let actual = engine
        .with_tiles(Some(&choice.mask), |engine| engine.render(camera, settings))
        .unwrap();
    assert_eq!((actual.width, actual.height), (whole.width, whole.height));
    let is_same = actual.rgb == choice.of(&whole.rgb, settings.background);
    assert!(is_same, "{name}: another image");
    assert_eq!(actual.alpha, choice.of(&whole.alpha, [0.0]), "{name}");
    let pairs = actual.depth.iter().zip(&whole.depth);
    for (actual, whole) in pairs {
        assert_eq!(actual.blended, choice.of(&whole.blended, [0.0]), "{name}");
        assert_eq!(actual.median, choice.of(&whole.median, [0.0]), "{name}");
    }
    let pairs = actual.surface.iter().zip(&whole.surface);
    for (actual, whole) in pairs {
        assert_eq!(actual.depth, choice.of(&whole.depth, [0.0]), "{name}");
        assert_eq!(
            actual.normal,
            choice.of(&whole.normal, [[0.0; 3]]),
            "{name}"
        );
    }
    assert!(actual.depth.is_some() && actual.surface.is_some(), "{name}");
    let chosen = choice.pixels.iter().filter(|chosen| **chosen).count();
    if chosen == choice.pixels.len() {
        assert_eq!(actual.counts, whole.counts, "{name}");
    }
    if chosen == 0 {
        let counts = actual.counts;
        assert_eq!((counts.visible, counts.instances), (0, 0), "{name}");
    }
    if chosen == 0 || chosen == choice.pixels.len() {
        return;
    }
    let expected = reference::render_tiles(&scene.splats, camera, settings, &choice.mask).unwrap();
    let mut errors = compare::compare_images(&actual, &expected);
    errors.push(("depth", compare::compare_depths(&actual, &expected)));
    for (what, error) in errors {
        assert!(error <= TOLERANCE, "{name} {what}: {error:.2e}");
    }
}

/// Checks the gradients of a render.
fn gradients(engine: &mut dyn Engine, scene: &TestScene, choice: &Choice) {
    let (name, camera, settings) = (scene.name, &scene.camera, &scene.settings);
    let pixels = choice.pixels.len();
    let [rgb, alpha, depth] = [3, 1, 1].map(|each| weights(each as u64, each * pixels));
    let derivative = ImageDerivative {
        rgb: &rgb,
        alpha: Some(&alpha),
        depth: Some(&depth),
    };
    let inside = (
        choice.of(&rgb, [0.0; 3]),
        choice.of(&alpha, [0.0]),
        choice.of(&depth, [0.0]),
    );
    let zero_outside = ImageDerivative {
        rgb: &inside.0,
        alpha: Some(&inside.1),
        depth: Some(&inside.2),
    };
    let parts = GradientParts::AllAndAbsolute;
    let whole = engine
        .differentiate(camera, settings, &zero_outside, parts)
        .unwrap();
    let actual = engine
        .with_tiles(Some(&choice.mask), |engine| {
            engine.differentiate(camera, settings, &derivative, parts)
        })
        .unwrap();
    close(
        name,
        "a render of all tiles",
        &actual,
        &wide_of(&whole),
        1e-6,
    );
    let absolute = compare::relative_l2(
        &widened(actual.absolute2d.as_flattened()),
        &widened(whole.absolute2d.as_flattened()),
    );
    assert!(absolute <= 1e-6, "{name}: absolute {absolute:.2e}");
    if choice.pixels.iter().all(|chosen| *chosen) {
        assert!(actual == whole, "{name}: gradients of all tiles");
    } else if choice.pixels.iter().any(|chosen| *chosen) {
        let expected = expected_gradients(scene, &derivative, choice);
        close(name, "the reference", &actual, &expected, TOLERANCE);
    } else {
        let largest = (actual.means.as_flattened().iter())
            .chain(actual.means2d.as_flattened())
            .chain(&actual.opacities)
            .fold(0.0, |most: f32, value| most.max(value.abs()));
        assert_eq!(largest, 0.0, "{name}: gradients without tiles");
    }
}

/// Returns the gradients of the reference.
fn expected_gradients(
    scene: &TestScene,
    derivative: &ImageDerivative<'_, f32>,
    choice: &Choice,
) -> Gradients<f64> {
    let (alpha, depth) = (derivative.alpha.map(widened), derivative.depth.map(widened));
    let derivative = ImageDerivative {
        rgb: &widened(derivative.rgb),
        alpha: alpha.as_deref(),
        depth: depth.as_deref(),
    };
    let (splats, camera, settings) = (&scene.splats, &scene.camera, &scene.settings);
    reference::differentiate_tiles(splats, camera, settings, &derivative, &choice.mask).unwrap()
}

/// Checks that the relative errors of all gradients are within `most`.
fn close(scene: &str, of: &str, actual: &Gradients<f32>, expected: &Gradients<f64>, most: f64) {
    let mut errors = compare::compare_gradients(actual, expected);
    errors.push(("pose", compare::compare_pose(actual, expected)));
    for (what, error) in errors {
        assert!(error <= most, "{scene} {what} against {of}: {error:.2e}");
    }
}

/// Returns gradients in `f64`.
fn wide_of(gradients: &Gradients<f32>) -> Gradients<f64> {
    fn rows<const N: usize>(values: &[[f32; N]]) -> Vec<[f64; N]> {
        values.iter().map(|row| row.map(f64::from)).collect()
    }
    Gradients {
        means: rows(&gradients.means),
        scales: rows(&gradients.scales),
        quats: rows(&gradients.quats),
        opacities: widened(&gradients.opacities),
        sh0: rows(&gradients.sh0),
        sh_rest: widened(&gradients.sh_rest),
        means2d: rows(&gradients.means2d),
        pose: gradients.pose,
        absolute2d: rows(&gradients.absolute2d),
    }
}

/// Checks bytes, counts and contributors of a render.
fn shown(engine: &mut dyn Engine, scene: &TestScene, choice: &Choice) {
    let (name, camera, settings) = (scene.name, &scene.camera, &scene.settings);
    let all = |engine: &mut dyn Engine| {
        Ok((
            engine.render_bytes(camera, settings)?,
            engine.blend_counts(camera, settings)?,
            engine.contributors(camera, settings, MOST)?,
        ))
    };
    let (bytes, counts, found) = all(engine).unwrap();
    let masked = engine.with_tiles(Some(&choice.mask), |engine| all(engine));
    let (masked_bytes, masked_counts, masked_found) = masked.unwrap();
    let [r, g, b] = settings.background.map(to_byte);
    assert_eq!(
        masked_bytes.rgba,
        choice.of(&bytes.rgba, [r, g, b, 0]),
        "{name}"
    );
    assert_eq!(
        masked_counts.blended,
        choice.of(&counts.blended, [0]),
        "{name}"
    );
    let none = choice.of(&found.gaussians, [NO_CONTRIBUTOR; MOST]);
    assert_eq!(masked_found.gaussians, none, "{name}");
    let none = choice.of(&found.weights, [0.0; MOST]);
    assert_eq!(masked_found.weights, none, "{name}");
}

/// Checks that masks of another size are refused by all calls, and that the engine renders afterwards.
fn refuses(engine: &mut dyn Engine, scene: &TestScene) {
    let (camera, settings) = (&scene.camera, &scene.settings);
    let rgb = vec![0.0; 3 * camera.width as usize * camera.height as usize];
    let [across, down] = [camera.width, camera.height].map(|side| side.div_ceil(TILE_SIZE));
    for size in [[across + 1, down], [across, down + 1]] {
        let tiles = vec![true; (size[0] * size[1]) as usize];
        let mask = TileMask::new(size, &tiles).unwrap();
        let refused = engine.with_tiles(Some(&mask), |engine| {
            let faults = [
                engine.render(camera, settings).map(drop),
                engine.gradients(camera, settings, &rgb, None).map(drop),
                engine.render_bytes(camera, settings).map(drop),
                engine.blend_counts(camera, settings).map(drop),
                engine.contributors(camera, settings, 1).map(drop),
            ];
            Ok(faults.map(|fault| fault.unwrap_err().to_string()))
        });
        for text in refused.unwrap() {
            let wanted = format!("the mask has {} x {} tiles", size[0], size[1]);
            assert!(text.contains(&wanted), "{}: {text}", scene.name);
        }
    }
    engine.render(camera, settings).unwrap();
}
