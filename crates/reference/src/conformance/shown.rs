//! Renders for display: bytes of colours, and the Gaussians that a pixel blends.

use super::decided::decided;
use super::engines::Make;
use crate as reference;
use crate::Gaussian;
use crate::scenes::{self, TestScene};
use dapple_engine::shown::NO_CONTRIBUTOR;
use dapple_engine::{EngineExt, RenderedBytes};
use glam::DVec2;
use std::sync::LazyLock;

/// Margin of decisions, in units of ln alpha: nearer to a threshold, `f32` may decide otherwise.
const MARGIN: f64 = 1e-4;

/// Checks on every test scene that the bytes of an engine are exactly those that the host computes from its
/// render.
pub fn bytes_are_those_of_the_host(make: Make<'_>) {
    let mut engine = make();
    for mut scene in scenes::all() {
        // Colours on both sides of 0 and 1, and alphas that fill the range.
        scene.settings.background = [-0.1, 0.4, 1.1];
        engine.upload(&scene.splats, None).unwrap();
        let rendered = engine.render(&scene.camera, &scene.settings).unwrap();
        let expected = RenderedBytes::from(&rendered);
        let actual = engine.render_bytes(&scene.camera, &scene.settings).unwrap();
        assert_eq!(
            (actual.width, actual.height, actual.counts),
            (expected.width, expected.height, expected.counts),
            "{}",
            scene.name
        );
        let other = |(i, (a, b)): (usize, (&u8, &u8))| (a != b).then_some((i, *a, *b));
        let pairs = actual.rgba.iter().zip(&expected.rgba).enumerate();
        let others: Vec<_> = pairs.filter_map(other).collect();
        assert_eq!(actual.rgba.len(), expected.rgba.len(), "{}", scene.name);
        assert!(others.is_empty(), "{}: {others:?}", scene.name);
    }
}

/// Gaussians that pixels of a scene blend in the reference.
struct Blended {
    scene: TestScene,
    /// True for decided pixels.
    sure: Vec<bool>,
    /// Gaussians of each pixel with their weights, largest first.
    pixels: Vec<Vec<(u32, f64)>>,
}

/// Gaussians that pixels of all scenes blend: several checks of a process read it.
static BLENDED: LazyLock<Vec<Blended>> =
    LazyLock::new(|| scenes::all().into_iter().map(Blended::new).collect());

impl Blended {
    fn new(scene: TestScene) -> Self {
        let (camera, settings) = (&scene.camera, &scene.settings);
        let all = Gaussian::all(&scene.splats);
        let visible = reference::visible(&all, camera, settings).unwrap();
        let lists = reference::ranges(&visible, camera, settings.max_gaussians_per_tile);
        let pixels = (0..camera.height).flat_map(|y| (0..camera.width).map(move |x| (x, y)));
        let weights = |(x, y): (u32, u32)| {
            let centre = DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5);
            let (blended, _) = reference::contributions(&visible, lists.at(x, y), centre);
            let weight = |c: &reference::Contribution| {
                let gaussian = visible[c.position].index as u32;
                (gaussian, c.alpha * c.transmittance)
            };
            let mut weights: Vec<_> = blended.iter().map(weight).collect();
            weights.sort_by(|a, b| b.1.total_cmp(&a.1));
            weights
        };
        Self {
            pixels: pixels.map(weights).collect(),
            sure: decided(scene.name, &all, camera, settings, MARGIN),
            scene,
        }
    }

    /// Returns the decided pixels: number and Gaussians.
    fn decided(&self) -> impl Iterator<Item = (usize, &Vec<(u32, f64)>)> {
        self.pixels
            .iter()
            .enumerate()
            .filter(|&(i, _)| self.sure[i])
    }
}

/// Checks on every test scene that each decided pixel blends as many Gaussians as in the reference; at least 99
/// of 100 pixels are decided.
pub fn blend_counts_match_the_reference(make: Make<'_>) {
    let mut most = 0;
    // One engine for all scenes: creating one takes seconds with a driver on the CPU.
    let mut engine = make();
    for expected in BLENDED.iter() {
        let scene = &expected.scene;
        engine.upload(&scene.splats, None).unwrap();
        let counts = engine.blend_counts(&scene.camera, &scene.settings).unwrap();
        assert_eq!(
            counts.blended.len(),
            expected.pixels.len(),
            "{}",
            scene.name
        );
        for (pixel, expected) in expected.decided() {
            let (actual, expected) = (counts.blended[pixel] as usize, expected.len());
            assert_eq!(actual, expected, "{}, pixel {pixel}", scene.name);
        }
        most = most.max(counts.most());
        assert_eq!(counts.counts.gaussians, scene.splats.len() as u64);
        // A render between the counts, without counts.
        let before = engine.render(&scene.camera, &scene.settings).unwrap();
        let again = engine.blend_counts(&scene.camera, &scene.settings).unwrap();
        assert_eq!(again, counts, "{}", scene.name);
        let after = engine.render(&scene.camera, &scene.settings).unwrap();
        assert_eq!(after, before, "{}: another picture", scene.name);
    }
    assert!(most > 20, "no scene has a pixel of many Gaussians: {most}");
}

/// Contributors of a pixel in the check: an engine may find them in several passes.
const MOST: usize = 6;

/// Error of a weight in `f32`.
const WEIGHT_ERROR: f64 = 2e-5;

/// Checks on every test scene that each decided pixel names the Gaussians of its largest weights in the reference, with these
/// weights, largest first.
pub fn contributors_match_the_reference(make: Make<'_>) {
    let mut engine = make();
    let mut full = 0;
    for expected in BLENDED.iter() {
        let (scene, pixels) = (&expected.scene, expected.pixels.len());
        engine.upload(&scene.splats, None).unwrap();
        let (camera, settings) = (&scene.camera, &scene.settings);
        let found = engine.contributors(camera, settings, MOST).unwrap();
        assert_eq!(found.gaussians.len(), MOST * pixels, "{}", scene.name);
        assert_eq!(found.weights.len(), found.gaussians.len(), "{}", scene.name);
        for (pixel, expected) in expected.decided() {
            let rows = MOST * pixel..MOST * (pixel + 1);
            let place = format!("{}, pixel {pixel}", scene.name);
            check_pixel(
                &place,
                (&found.gaussians[rows.clone()], &found.weights[rows]),
                expected,
            );
            full += usize::from(expected.len() > MOST);
        }
        assert_eq!(found.counts.gaussians, scene.splats.len() as u64);
    }
    assert!(full > 20, "no scene has pixels of many Gaussians: {full}");
    // As many as a pass finds are the first of more.
    let Blended { scene, .. } = &BLENDED[0];
    engine.upload(&scene.splats, None).unwrap();
    let mut find = |most| engine.contributors(&scene.camera, &scene.settings, most);
    let (few, more) = (find(2).unwrap(), find(MOST).unwrap());
    let first = more.gaussians.chunks_exact(MOST);
    assert!(few.gaussians.iter().eq(first.flat_map(|pixel| &pixel[..2])));
    assert!(find(0).is_err() && find(65).is_err());
}

/// Checks the Gaussians and weights of a pixel.
fn check_pixel(place: &str, (gaussians, weights): (&[u32], &[f32]), expected: &[(u32, f64)]) {
    for (k, (&gaussian, &weight)) in gaussians.iter().zip(weights).enumerate() {
        let Some(&(_, largest)) = expected.get(k) else {
            assert_eq!((gaussian, weight), (NO_CONTRIBUTOR, 0.0), "{place}, {k}");
            continue;
        };
        let own = expected.iter().find(|(index, _)| *index == gaussian);
        let own = own.map_or(f64::NAN, |(_, weight)| *weight);
        for expected in [largest, own] {
            let error = (f64::from(weight) - expected).abs();
            assert!(
                error < WEIGHT_ERROR,
                "{place}, {k}: {weight}, not {expected}"
            );
        }
        let before = &gaussians[..k];
        assert!(!before.contains(&gaussian), "{place}: {gaussians:?}");
    }
    assert!(weights.is_sorted_by(|a, b| a >= b), "{place}: {weights:?}");
}
