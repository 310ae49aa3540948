//! Renders for display: bytes of colours, and the Gaussians that a pixel blends.

use super::decided::decided;
use super::engines::Make;
use crate as reference;
use crate::Gaussian;
use crate::scenes::{self, TestScene};
use dapple_engine::shown::NO_CONTRIBUTOR;
use dapple_engine::{EngineExt, RenderedBytes};
use glam::DVec2;
use std::collections::HashMap;

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

/// Checks on every test scene that each decided pixel blends as many Gaussians as in the reference; at least 99
/// of 100 pixels are decided.
pub fn blend_counts_match_the_reference(make: Make<'_>) {
    let scenes = scenes::all();
    let mut most = 0;
    // One engine for all scenes: creating one takes seconds with a driver on the CPU.
    let mut engine = make();
    for scene in &scenes {
        engine.upload(&scene.splats, None).unwrap();
        let counts = engine.blend_counts(&scene.camera, &scene.settings).unwrap();
        let expected = counted(scene);
        assert_eq!(counts.blended.len(), expected.len(), "{}", scene.name);
        let all = Gaussian::all(&scene.splats);
        let sure = decided(scene.name, &all, &scene.camera, &scene.settings, MARGIN);
        let rows = counts.blended.iter().zip(&expected).zip(&sure).enumerate();
        for (pixel, ((&actual, &expected), &is_sure)) in rows {
            assert!(
                actual == expected || !is_sure,
                "{}, pixel {pixel}: {actual} Gaussians, not {expected}",
                scene.name
            );
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

/// Contributors that the check asks for: an engine may find them in several passes.
const MOST: usize = 6;

/// Error of a weight in `f32`.
const WEIGHT_ERROR: f64 = 2e-5;

/// Checks on every test scene that each decided pixel names the Gaussians of its largest weights in the reference, with these
/// weights, largest first.
pub fn contributors_match_the_reference(make: Make<'_>) {
    let mut engine = make();
    let mut full = 0;
    for scene in &scenes::all() {
        engine.upload(&scene.splats, None).unwrap();
        let (camera, settings) = (&scene.camera, &scene.settings);
        let found = engine.contributors(camera, settings, MOST).unwrap();
        let all = Gaussian::all(&scene.splats);
        let sure = decided(scene.name, &all, camera, settings, MARGIN);
        let expected = weights(scene);
        assert_eq!(
            found.gaussians.len(),
            MOST * expected.len(),
            "{}",
            scene.name
        );
        assert_eq!(found.weights.len(), found.gaussians.len(), "{}", scene.name);
        for (pixel, expected) in expected.iter().enumerate().filter(|&(i, _)| sure[i]) {
            let rows = MOST * pixel..MOST * (pixel + 1);
            let (gaussians, weights) = (&found.gaussians[rows.clone()], &found.weights[rows]);
            let mut sorted: Vec<f64> = expected.values().copied().collect();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let place = format!("{}, pixel {pixel}", scene.name);
            for (k, (&gaussian, &weight)) in gaussians.iter().zip(weights).enumerate() {
                let Some(largest) = sorted.get(k) else {
                    assert_eq!((gaussian, weight), (NO_CONTRIBUTOR, 0.0), "{place}, {k}");
                    continue;
                };
                let own = expected.get(&gaussian).unwrap_or(&f64::NAN);
                for expected in [largest, own] {
                    let error = (f64::from(weight) - expected).abs();
                    assert!(
                        error < WEIGHT_ERROR,
                        "{place}, {k}: {weight}, not {expected}"
                    );
                }
                assert!(
                    !gaussians[..k].contains(&gaussian),
                    "{place}: {gaussians:?}"
                );
            }
            assert!(weights.is_sorted_by(|a, b| a >= b), "{place}: {weights:?}");
            full += usize::from(sorted.len() > MOST);
        }
        assert_eq!(found.counts.gaussians, scene.splats.len() as u64);
        // As many as a pass finds are the first of more.
        let few = engine.contributors(camera, settings, 2).unwrap();
        let first = found
            .gaussians
            .chunks_exact(MOST)
            .flat_map(|pixel| &pixel[..2]);
        assert!(few.gaussians.iter().eq(first), "{}", scene.name);
        assert!(engine.contributors(camera, settings, 0).is_err());
        assert!(engine.contributors(camera, settings, 65).is_err());
    }
    assert!(full > 20, "no scene has pixels of many Gaussians: {full}");
}

/// Returns the weights of the reference, by Gaussian, for each pixel.
fn weights(scene: &TestScene) -> Vec<HashMap<u32, f64>> {
    each_pixel(scene, |visible, blended| {
        let weight = |c: &reference::Contribution| {
            let gaussian = visible[c.position].index as u32;
            (gaussian, c.alpha * c.transmittance)
        };
        blended.iter().map(weight).collect()
    })
}

/// Returns the counts of the reference.
fn counted(scene: &TestScene) -> Vec<u32> {
    each_pixel(scene, |_, blended| blended.len() as u32)
}

/// Calls a function with the visible Gaussians and the contributions of each pixel, row by row.
fn each_pixel<T>(
    scene: &TestScene,
    of: impl Fn(&[reference::Projected], &[reference::Contribution]) -> T,
) -> Vec<T> {
    let (camera, settings) = (&scene.camera, &scene.settings);
    let all = Gaussian::all(&scene.splats);
    let visible = reference::visible(&all, camera, settings).unwrap();
    let lists = reference::ranges(&visible, camera, settings.max_gaussians_per_tile);
    let pixels = (0..camera.height).flat_map(|y| (0..camera.width).map(move |x| (x, y)));
    let found = |(x, y): (u32, u32)| {
        let centre = DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5);
        let (blended, _) = reference::contributions(&visible, lists.at(x, y), centre);
        of(&visible, &blended)
    };
    pixels.map(found).collect()
}
