//! Renders of chosen tiles in buffers of the caller: a backward pass uses a kept render of the same tiles only.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_device::{BackwardAsks, DeviceBuffers};
use dapple_engine::constants::TILE_SIZE;
use dapple_engine::{Engine, EngineExt, TileMask};
use dapple_gpu::{GpuEngine, GpuEngineOptions};
use dapple_reference::scenes::{self, TestScene};
use dapple_runtime::Pooled;
use std::sync::Arc;

/// More masks than an engine remembers renders of.
const MANY: u32 = 70;

/// Engine with a scene, an image and its derivative.
struct Rendering {
    engine: GpuEngine,
    scene: TestScene,
    image: Arc<Pooled>,
    derivative: Arc<Pooled>,
}

impl Rendering {
    fn new(scene: TestScene) -> Self {
        let mut engine = support::engine_on(GpuEngineOptions {
            gpu: support::options(false),
            ..GpuEngineOptions::default()
        });
        engine.upload(&scene.splats, None).unwrap();
        let pixels = scene.camera.width as usize * scene.camera.height as usize;
        let wave: Vec<f32> = (0..4 * pixels).map(|i| (i as f32 * 0.7).sin()).collect();
        let gpu = engine.gpu();
        Self {
            image: gpu.buffer("image", 16 * pixels as u64).unwrap(),
            derivative: gpu.upload("derivative", &wave).unwrap(),
            engine,
            scene,
        }
    }

    /// Returns a mask in which tile `i` is chosen if bit `i % 20` of `bits` is 1.
    fn mask(&self, bits: u32) -> TileMask {
        let camera = &self.scene.camera;
        let size = [camera.width, camera.height].map(|side| side.div_ceil(TILE_SIZE));
        let tiles = (0..size[0] * size[1]).map(|tile| bits >> (tile % 20) & 1 == 1);
        TileMask::new(size, &tiles.collect::<Vec<_>>()).unwrap()
    }

    /// Renders, and returns the image.
    fn forward(&mut self, tiles: Option<&TileMask>, keeps: bool) -> Vec<f32> {
        let (scene, image) = (&self.scene, &self.image);
        self.engine
            .with_tiles(tiles, |engine| {
                engine.forward_to(&scene.camera, &scene.settings, image, keeps)
            })
            .unwrap();
        let values = image.size() / 4;
        self.engine.gpu().read(image, values as usize).unwrap()
    }

    /// Returns the waits of a backward pass, and the gradients by opacities.
    fn backward(&mut self, tiles: Option<&TileMask>) -> (u64, Vec<f32>) {
        let (scene, derivative) = (&self.scene, &self.derivative);
        let before = self.engine.counters().waits;
        self.engine
            .with_tiles(tiles, |engine| {
                let asks = BackwardAsks::default();
                engine.backward_to(&scene.camera, &scene.settings, derivative, asks)
            })
            .unwrap();
        let waits = self.engine.counters().waits - before;
        let there = self.engine.gradient_buffers().unwrap();
        let (buffer, at) = (there.geometry, (10 * there.stride * 4) as u64);
        let by = self
            .engine
            .gpu()
            .read_at(buffer, at, self.scene.splats.len());
        (waits, by.unwrap())
    }

    /// Returns the gradients by opacities, with copies from and to the host.
    fn expected(&mut self, tiles: Option<&TileMask>) -> Vec<f32> {
        let (scene, derivative) = (&self.scene, &self.derivative);
        let found = self.engine.with_tiles(tiles, |engine| {
            engine.backward_from(&scene.camera, &scene.settings, derivative)
        });
        found.unwrap().opacities
    }
}

#[test]
fn a_backward_pass_uses_a_kept_render_of_its_tiles_only() {
    require_gpu!();
    let mut rendering = Rendering::new(scenes::named("random_sh3"));
    let masks = [0b1011_0010_0110, 0b0110_1101_0011].map(|bits| rendering.mask(bits));
    let [one, other] = [Some(&masks[0]), Some(&masks[1])];
    let [by_one, by_other, by_all] = [one, other, None].map(|tiles| rendering.expected(tiles));
    assert!(by_one != by_other && by_one != by_all && by_other != by_all);
    rendering.forward(one, true);
    assert!(rendering.backward(one) == (0, by_one.clone()), "kept");
    assert!(rendering.backward(one) == (0, by_one.clone()), "used up");
    rendering.forward(one, true);
    assert!(rendering.backward(other) == (1, by_other), "other tiles");
    rendering.forward(one, true);
    assert!(rendering.backward(None) == (1, by_all.clone()), "all tiles");
    rendering.forward(None, true);
    assert!(rendering.backward(one) == (0, by_one), "tiles of all");
    assert!(rendering.backward(None) == (0, by_all), "all tiles again");
}

#[test]
fn an_engine_remembers_some_masks() {
    require_gpu!();
    let mut rendering = Rendering::new(scenes::named("random_sh0"));
    let whole = rendering.forward(None, false);
    let masks: Vec<TileMask> = (1..=MANY).map(|bits| rendering.mask(bits)).collect();
    for tiles in &masks {
        let image = rendering.forward(Some(tiles), false);
        assert!(image != whole);
    }
    let (first, last) = (Some(&masks[0]), masks.last());
    let [by_first, by_last, by_all] = [first, last, None].map(|tiles| rendering.expected(tiles));
    assert!(rendering.backward(last) == (0, by_last), "the last mask");
    assert!(rendering.backward(None) == (0, by_all), "no mask");
    assert!(rendering.backward(first) == (1, by_first), "the first mask");
}
