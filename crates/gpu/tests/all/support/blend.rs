//! Test cases of blending: lists made on the host, the two stages, and the reference to compare
//! them with.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support::{context, groups, relative_l2};
use dapple_engine::constants::{ALPHA_MIN, TILE_SIZE};
use dapple_engine::{ImageDerivative, PosedCamera, RenderSettings};
use dapple_gpu::layout::{self, SLOT_FLOATS, State, Step, View};
use dapple_gpu::passes::Bits;
use dapple_gpu::stages::{blend, blend_backward};
use dapple_gpu::{Buffers, Context, Recorder};
use dapple_reference::scenes::{self, Random};
use dapple_reference::{self as reference, Projected, ProjectedGradient, TileLists};
use dapple_runtime::{Pooled, wgpu};
use dapple_scene::Camera;
use std::sync::Arc;

pub const FLOATS: usize = SLOT_FLOATS as usize;
pub const TILE_PIXELS: usize = (TILE_SIZE * TILE_SIZE) as usize;

/// Input of a test, and dL/d(colour, transmittance) of each pixel.
pub struct Case {
    pub visible: Vec<Projected>,
    pub camera: Camera,
    pub settings: RenderSettings,
    pub gradient: Vec<[f32; 4]>,
}

/// Output of the two stages.
#[derive(PartialEq)]
pub struct Output {
    pub image: Vec<[f32; 4]>,
    /// By tile, row of 16 pixels, column: the order of the reference, not that of blocks.
    pub pixel_end: Vec<u32>,
    pub block_end: Vec<u32>,
    pub slots: Vec<[f32; FLOATS]>,
    pub lost_transmittance: f32,
}

/// Lists like those of the stages before `blend`.
pub struct Lists {
    pub touching: TileLists,
    pub tile_start: Vec<u32>,
    pub bucket_start: Vec<u32>,
    pub bucket_tile: Vec<u32>,
    pub sorted_gaussian: Vec<u32>,
    pub sorted_slot: Vec<u32>,
}

impl Case {
    /// Adds a random dL/d(image).
    pub fn new(visible: Vec<Projected>, camera: Camera, settings: RenderSettings) -> Self {
        let random = &mut Random::new(7);
        let mut value = || random.uniform(-1.0, 1.0) as f32;
        let pixels = camera.width as usize * camera.height as usize;
        let gradient = (0..pixels)
            .map(|_| [value(), value(), value(), value()])
            .collect();
        Self {
            visible,
            camera,
            settings,
            gradient,
        }
    }

    pub fn of_scene(scene: scenes::TestScene) -> Self {
        let all = reference::Gaussian::all(&scene.splats);
        let visible = reference::visible(&all, &scene.camera, &scene.settings).unwrap();
        Self::new(visible, scene.camera, scene.settings)
    }

    /// Returns the buffer index of the Gaussian at a position of the depth order: not the position.
    pub fn gaussian(&self, position: usize) -> u32 {
        (self.visible.len() - 1 - position) as u32
    }

    pub fn cap(&self) -> usize {
        match self.settings.max_gaussians_per_tile {
            0 => usize::MAX,
            cap => cap as usize,
        }
    }

    pub fn splats2d(&self) -> Vec<[f32; 12]> {
        let form = -0.5 * std::f64::consts::LOG2_E;
        let level = |opacity: f64| (opacity / f64::from(ALPHA_MIN)).ln().max(0.0);
        let splat = |p: &Projected| {
            let [xx, xy, yy] = p.conic;
            let sizes = |variance: f64| (2.0 * level(p.opacity) * variance * 1.00001).sqrt();
            [
                p.centre.x,
                p.centre.y,
                form * xx,
                2.0 * form * xy,
                form * yy,
                p.opacity.log2(),
                p.colour.x,
                p.colour.y,
                p.colour.z,
                p.depth,
                sizes(p.covariance[0]),
                sizes(p.covariance[2]),
            ]
            .map(|v| v as f32)
        };
        self.visible.iter().rev().map(splat).collect()
    }

    pub fn lists(&self, bucket: usize) -> Lists {
        let touching = TileLists::touching(&self.visible, &self.camera);
        let mut lists = Lists {
            tile_start: vec![0],
            bucket_start: vec![0],
            bucket_tile: Vec::new(),
            sorted_gaussian: Vec::new(),
            sorted_slot: Vec::new(),
            touching,
        };
        for (tile, list) in lists.touching.lists.iter().enumerate() {
            lists
                .sorted_gaussian
                .extend(list.iter().map(|&position| self.gaussian(position)));
            let buckets = list.len().min(self.cap()).div_ceil(bucket);
            lists
                .bucket_tile
                .extend(std::iter::repeat_n(tile as u32, buckets));
            lists.tile_start.push(lists.sorted_gaussian.len() as u32);
            lists.bucket_start.push(lists.bucket_tile.len() as u32);
        }
        let instances = lists.sorted_gaussian.len();
        let slots = Random::new(8).permutation(instances);
        lists.sorted_slot = slots.into_iter().map(|slot| slot as u32).collect();
        lists
    }

    pub fn reference_image(&self) -> (Vec<f64>, Vec<f64>) {
        let lists = self.blended();
        let image = reference::blend(&self.visible, &lists, &self.camera, &self.settings);
        (image.rgb, image.alpha)
    }

    pub fn blended(&self) -> TileLists {
        let cap = self.settings.max_gaussians_per_tile;
        reference::ranges(&self.visible, &self.camera, cap)
    }

    pub fn reference_gradient(&self) -> Vec<ProjectedGradient> {
        let wide = |v: &f32| f64::from(*v);
        let rgb: Vec<f64> = self
            .gradient
            .iter()
            .flat_map(|g| &g[..3])
            .map(wide)
            .collect();
        // alpha is one minus transmittance.
        let alpha: Vec<f64> = self.gradient.iter().map(|g| -wide(&g[3])).collect();
        let lists = self.blended();
        let (visible, camera) = (&self.visible, &self.camera);
        let derivative = ImageDerivative {
            rgb: &rgb,
            alpha: Some(&alpha),
            depth: None,
        };
        reference::blend_backward(visible, &lists, camera, &self.settings, &derivative)
    }
}

/// Returns a buffer full of NaN: earlier contents must not matter.
pub fn dirty(context: &Context, name: &str, words: usize) -> Arc<Pooled> {
    context
        .gpu
        .upload(name, &vec![f32::NAN; words.max(1)])
        .unwrap()
}

/// Device and kernels.
pub struct Stages {
    pub context: Context,
    pub bucket: usize,
}

impl Stages {
    pub fn new(mut context: Context, bucket: u32) -> Self {
        context.defines = context.defines.u32("BUCKET", bucket);
        Self {
            bucket: bucket as usize,
            context,
        }
    }
}

impl Default for Stages {
    fn default() -> Self {
        Self::new(context(), layout::BUCKET)
    }
}

pub fn run(stages: &Stages, case: &Case) -> Output {
    let context = &stages.context;
    let lists = case.lists(stages.bucket);
    let camera = PosedCamera::new(&case.camera).unwrap();
    let gpu = &context.gpu;
    let (tiles, pixels) = (camera.tile_count(), camera.pixel_count());
    let view = View {
        size: camera.size,
        tiles: camera.tiles,
        ..View::default()
    };
    let state = State {
        buckets: lists.bucket_tile.len() as u32,
        instances: lists.sorted_gaussian.len() as u32,
        ..State::default()
    };
    let mut buffers = Buffers::default();
    let mut put = |name: &'static str, words: &[u32]| {
        // Never empty.
        let words = [words, &[0]].concat();
        buffers.set(name, gpu.upload(name, &words).unwrap());
    };
    put("views", bytemuck::cast_slice(&[View::default(), view]));
    put("splats2d", bytemuck::cast_slice(&case.splats2d()));
    put("state", bytemuck::cast_slice(&[state]));
    put("tile_start", &lists.tile_start);
    put("bucket_start", &lists.bucket_start);
    put("bucket_tile", &lists.bucket_tile);
    // Backwards: the image does not depend on the order.
    let order: Vec<u32> = (0..lists.tile_start.len() as u32 - 1).rev().collect();
    put("tile_order", &order);
    put("sorted_gaussian", &lists.sorted_gaussian);
    put("sorted_slot", &lists.sorted_slot);
    put("image_gradient", bytemuck::cast_slice(&case.gradient));
    let slots = lists.sorted_slot.len();
    for (name, words) in [
        ("image", 4 * pixels),
        ("pixel_end", tiles * TILE_PIXELS),
        ("block_end", tiles * 8),
        ("checkpoints", lists.bucket_tile.len() * TILE_PIXELS * 4),
        ("slots", slots * FLOATS),
    ] {
        buffers.set(name, dirty(context, name, words));
    }
    let usage =
        wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::INDIRECT | wgpu::BufferUsages::COPY_DST;
    let bytes = groups::count() * groups::BYTES;
    let entries = gpu.buffer_with("groups", bytes, usage).unwrap();
    // More workgroups than work, in two dimensions: the last ones must find nothing to do.
    let dispatch = |count: u32| [count.div_ceil(2), 3, 1, 0];
    gpu.write(
        &entries,
        groups::offset(groups::PIXELS),
        &dispatch(tiles as u32),
    );
    gpu.write(
        &entries,
        groups::offset(groups::BUCKETS),
        &dispatch(state.buckets),
    );
    buffers.set("groups", entries);

    let mut recorder = Recorder::new(context, &buffers, Bits::NONE);
    recorder.pass(&blend::PASS).unwrap();
    recorder.pass(&blend_backward::PASS).unwrap();
    let recording = recorder.finish();
    let step = Step {
        view: 1,
        background: case.settings.background,
        cap: case.settings.max_gaussians_per_tile,
        ..Step::default()
    };
    recording.submit(gpu, bytemuck::bytes_of(&step));

    let image = gpu.read(buffers.get("image").unwrap(), pixels).unwrap();
    let after: Vec<State> = gpu.read(buffers.get("state").unwrap(), 1).unwrap();
    let ends: Vec<u32> = gpu
        .read(buffers.get("pixel_end").unwrap(), tiles * TILE_PIXELS)
        .unwrap();
    let in_rows = |i: usize| {
        let (x, y) = (i % 16, i / 16 % 16);
        let block = x / 8 + y / 4 * 2;
        ends[i / TILE_PIXELS * TILE_PIXELS + block * 32 + y % 4 * 8 + x % 8]
    };
    image_only_is_the_same(stages, &mut buffers, &step, &image);
    let expected = State {
        lost_transmittance: after[0].lost_transmittance,
        ..state
    };
    assert_eq!(after[0], expected, "only this word of the state changes");
    Output {
        image,
        pixel_end: (0..ends.len()).map(in_rows).collect(),
        block_end: gpu
            .read(buffers.get("block_end").unwrap(), tiles * 8)
            .unwrap(),
        slots: gpu.read(buffers.get("slots").unwrap(), slots).unwrap(),
        lost_transmittance: f32::from_bits(after[0].lost_transmittance),
    }
}

pub fn image_only_is_the_same(
    stages: &Stages,
    buffers: &mut Buffers,
    step: &Step,
    image: &[[f32; 4]],
) {
    let context = &stages.context;
    buffers.set("image", dirty(context, "image", 4 * image.len()));
    let mut recorder = Recorder::new(context, buffers, Bits::IMAGE_ONLY);
    recorder.pass(&blend::PASS).unwrap();
    let recording = recorder.finish();
    recording.submit(&context.gpu, bytemuck::bytes_of(step));
    let again: Vec<[f32; 4]> = context
        .gpu
        .read(buffers.get("image").unwrap(), image.len())
        .unwrap();
    assert!(again == image, "images with and without checkpoints differ");
}

/// Adds up a Gaussian's slots and converts them to its derivatives on the screen, like `update`.
pub fn screen_gradients(case: &Case, lists: &Lists, output: &Output) -> Vec<[f64; 9]> {
    let mut sums = vec![[0.0; FLOATS]; case.visible.len()];
    for (position, &slot) in lists
        .touching
        .lists
        .iter()
        .flatten()
        .zip(&lists.sorted_slot)
    {
        for (sum, value) in sums[*position].iter_mut().zip(output.slots[slot as usize]) {
            *sum += f64::from(value);
        }
    }
    let turn = |(p, [s, sx, sy, sxx, sxy, syy, r, g, b]): (&Projected, [f64; FLOATS])| {
        let [a, h, c] = p.conic;
        [
            a * sx + h * sy,
            h * sx + c * sy,
            -0.5 * sxx,
            -sxy,
            -0.5 * syy,
            s / p.opacity,
            r,
            g,
            b,
        ]
    };
    case.visible.iter().zip(sums).map(turn).collect()
}

/// Returns distances of image, alpha, and the gradients of centre, conic, opacity and colour.
pub fn distances(stages: &Stages, case: &Case, output: &Output) -> [f64; 6] {
    let (rgb, alpha) = case.reference_image();
    let got: Vec<f32> = output.image.iter().flat_map(|p| &p[..3]).copied().collect();
    let got_alpha: Vec<f32> = output.image.iter().map(|p| 1.0 - p[3]).collect();
    let ours = screen_gradients(case, &case.lists(stages.bucket), output);
    let theirs = case.reference_gradient();
    let compare = |range: std::ops::Range<usize>, of: &dyn Fn(&ProjectedGradient) -> Vec<f64>| {
        let ours: Vec<f64> = ours
            .iter()
            .flat_map(|g| g[range.clone()].to_vec())
            .collect();
        let theirs: Vec<f64> = theirs.iter().flat_map(of).collect();
        dapple_reference::compare::relative_l2(&ours, &theirs)
    };
    [
        relative_l2(&got, &rgb),
        relative_l2(&got_alpha, &alpha),
        compare(0..2, &|g| g.centre.to_array().to_vec()),
        compare(2..5, &|g| g.conic.to_vec()),
        compare(5..6, &|g| vec![g.opacity]),
        compare(6..9, &|g| g.colour.to_array().to_vec()),
    ]
}

pub fn shown(distances: &[f64]) -> String {
    let all: Vec<String> = distances.iter().map(|d| format!("{d:.1e}")).collect();
    all.join(" ")
}
