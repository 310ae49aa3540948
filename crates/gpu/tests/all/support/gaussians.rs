//! Buffers for `update` without the stages before it: slots are made on the host, from the reference's gradients of
//! projected Gaussians.

#![allow(clippy::unwrap_used, dead_code, reason = "tests; each uses some of it")]

use crate::support::groups;
use dapple_engine::{Gradients, ImageDerivative, PosedCamera};
use dapple_gpu::layout::{self, Step, plane};
use dapple_gpu::passes::{Bits, Pass};
use dapple_gpu::precision::{Precision, Values, pack, unpack};
use dapple_gpu::stages::{gradients, update};
use dapple_gpu::{Buffers, Context, Recorder};
use dapple_reference::scenes::{Random, TestScene};
use dapple_reference::{self as reference, Gaussian, Projected, ProjectedGradient};
use dapple_runtime::{CommandList, wgpu};
use dapple_scene::Splats;

/// Sums over pixels, in the order of a slot.
pub type Moments = [f64; 9];

/// Returns the sums of a Gaussian's slots for `gradient`.
pub fn moments(projected: &Projected, gradient: &ProjectedGradient) -> Moments {
    let [xx, xy, yy] = projected.covariance;
    let centre = gradient.centre;
    let [ca, cb, cc] = gradient.conic;
    [
        gradient.opacity * projected.opacity,
        xx * centre.x + xy * centre.y,
        xy * centre.x + yy * centre.y,
        -2.0 * ca,
        -cb,
        -2.0 * cc,
        gradient.colour.x,
        gradient.colour.y,
        gradient.colour.z,
    ]
}

/// Slots for a scene, equivalent to the output of `emit` and `blend_backward`.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    /// By Gaussian; 0 = invisible.
    pub counts: Vec<u32>,
    /// By Gaussian.
    pub starts: Vec<u32>,
    /// Nine floats each.
    pub values: Vec<f32>,
    /// By Gaussian, clamped at zero.
    pub colours: Vec<[f32; 3]>,
}

impl Slots {
    /// Splits the moments of visible Gaussians over `count(gaussian)` slots each, in depth order.
    pub fn new(
        n: usize,
        visible: &[(Projected, Moments)],
        count: impl Fn(usize) -> u32,
        seed: u64,
    ) -> Self {
        let mut out = Self {
            counts: vec![0; n],
            starts: vec![0; n],
            values: Vec::new(),
            colours: vec![[0.0; 3]; n],
        };
        let mut random = Random::new(seed);
        for (projected, moments) in visible {
            let i = projected.index;
            out.counts[i] = count(i);
            out.starts[i] = (out.values.len() / 9) as u32;
            out.colours[i] = projected.colour.as_vec3().to_array();
            let weights: Vec<f64> = (0..count(i)).map(|_| random.uniform(0.5, 1.5)).collect();
            let sum: f64 = weights.iter().sum();
            for weight in weights {
                out.values
                    .extend(moments.map(|m| (m * weight / sum) as f32));
            }
        }
        out
    }

    /// Creates slots for a scene and a random dL/dimage; also returns the reference's gradients.
    pub fn of_scene(scene: &TestScene, count: impl Fn(usize) -> u32) -> (Self, Gradients<f64>) {
        let TestScene {
            splats,
            camera,
            settings,
            ..
        } = scene;
        let pixels = camera.width as usize * camera.height as usize;
        let mut random = Random::new(7);
        let mut weights = |n: usize| -> Vec<f64> {
            // Like in training, where gradients are means over the image.
            (0..n)
                .map(|_| random.uniform(-1.0, 1.0) / pixels as f64)
                .collect()
        };
        let (d_rgb, d_alpha) = (weights(3 * pixels), weights(pixels));
        let visible = reference::visible(&Gaussian::all(splats), camera, settings).unwrap();
        let lists = reference::ranges(&visible, camera, settings.max_gaussians_per_tile);
        let derivative = ImageDerivative {
            rgb: &d_rgb,
            alpha: Some(&d_alpha),
            depth: None,
        };
        let gradients = reference::blend_backward(&visible, &lists, camera, settings, &derivative);
        let all: Vec<_> = visible
            .iter()
            .zip(&gradients)
            .map(|(p, g)| (*p, moments(p, g)))
            .collect();
        let expected =
            reference::gradients(splats, camera, settings, &d_rgb, Some(&d_alpha)).unwrap();
        (Self::new(splats.len(), &all, count, 11), expected)
    }
}

/// A device and the kernels of one precision.
#[derive(Clone)]
pub struct Stages {
    context: Context,
    precision: Precision,
}

impl Stages {
    pub fn new(mut context: Context, precision: Precision) -> Self {
        context.defines = precision.define(context.defines);
        Self { context, precision }
    }
}

/// Splats on the device, and all inputs of `update`.
pub struct Fixture {
    stages: Stages,
    pub buffers: Buffers,
    pub n: usize,
    pub visible: usize,
    pub capacity: usize,
    pub sh_degree: u8,
}

/// Returns the planes of SH rest.
pub fn sh_planes(degree: u8) -> usize {
    (dapple_scene::sh_coefficient_count(degree) - 1) * 3
}

/// Returns the planes of splats, geometry first.
pub fn planes_of(splats: &Splats, capacity: usize) -> [Vec<f32>; 2] {
    let stride = splats.sh_rest_stride();
    let mut geometry = vec![0.0; plane::GEOMETRY * capacity];
    let mut rest = vec![0.0; stride * capacity];
    for i in 0..splats.len() {
        let row = [
            splats.means[i].as_slice(),
            &splats.scales[i],
            &splats.quats[i],
            &[splats.opacities[i]],
            &splats.sh0[i],
        ];
        for (p, &value) in row.concat().iter().enumerate() {
            geometry[p * capacity + i] = value;
        }
        for p in 0..stride {
            rest[p * capacity + i] = splats.sh_rest[i * stride + p];
        }
    }
    [geometry, rest]
}

fn view(camera: &PosedCamera) -> layout::View {
    let row = |i: usize| {
        let [a, b, c] = camera.rotation[i];
        [a, b, c, camera.centre_rest[i]]
    };
    let [x, y, z] = camera.centre;
    layout::View {
        rows: [row(0), row(1), row(2)],
        centre: [x, y, z, 0.0],
        focal: camera.focal,
        principal: camera.principal,
        jacobian_min: camera.jacobian_min,
        jacobian_max: camera.jacobian_max,
        size: camera.size,
        tiles: camera.tiles,
        ..layout::View::default()
    }
}

impl Fixture {
    /// Uploads a scene with some capacity to spare, moments zero.
    pub fn new(stages: &Stages, scene: &TestScene, slots: &Slots) -> Self {
        let n = scene.splats.len();
        let precision = stages.precision;
        let mut fixture = Self {
            stages: stages.clone(),
            buffers: Buffers::default(),
            n,
            visible: slots.counts.iter().filter(|&&count| count > 0).count(),
            capacity: n + 5,
            sh_degree: scene.splats.sh_degree,
        };
        let capacity = fixture.capacity;
        let rest = sh_planes(fixture.sh_degree);
        let camera = PosedCamera::new(&scene.camera).unwrap();
        fixture.put("views", &[view(&camera)]);
        fixture.set_state(0);
        let n32 = n as u32;
        let usage = wgpu::BufferUsages::INDIRECT | wgpu::BufferUsages::COPY_DST;
        let buffer = fixture
            .stages
            .context
            .gpu
            .buffer_with("groups", groups::count() * groups::BYTES, usage)
            .unwrap();
        for (entry, count) in [
            (groups::GAUSSIANS, n32.div_ceil(256)),
            // More than the Gaussians need: the last workgroups must find nothing to do.
            (groups::VISIBLE, n32.div_ceil(256)),
            (groups::SLOT_SUMS, n32.div_ceil(layout::SLOT_SUMS_GAUSSIANS)),
            (groups::UPDATE, n32.div_ceil(layout::UPDATE_THREADS)),
        ] {
            let gpu = &fixture.stages.context.gpu;
            gpu.write(&buffer, groups::offset(entry), &[count, 1, 1, 0]);
        }
        fixture.buffers.set("groups", buffer);

        let [geometry, sh_rest] = planes_of(&scene.splats, capacity);
        fixture.put("geometry", &geometry);
        fixture.put(
            "sh_rest",
            &pack(precision.sh, Values::Parameters, &sh_rest, capacity),
        );
        let zeros = vec![0.0; plane::GEOMETRY.max(rest) * capacity];
        fixture.put_moments(&zeros[..14 * capacity], &zeros[..14 * capacity]);
        fixture.put_sh_moments(&zeros[..rest * capacity], &zeros[..rest * capacity]);
        fixture.put("stats", &vec![0.0f32; 2 * capacity]);
        fixture.put_slots(slots);

        fixture.put("gradient_geometry", &vec![7.0f32; 14 * capacity]);
        fixture.put("gradient_sh", &vec![7.0f32; rest * capacity]);
        fixture.put("gradient_means2d", &vec![7.0f32; 2 * capacity]);
        fixture.put("gradient_pose", &vec![7.0f32; 6 * n.div_ceil(256)]);
        fixture
    }

    pub fn put<T: bytemuck::Pod>(&mut self, name: &'static str, data: &[T]) {
        self.buffers
            .set(name, self.stages.context.gpu.upload(name, data).unwrap());
    }

    pub fn set_state(&mut self, halted: u32) {
        let state = layout::State {
            gaussians: self.n as u32,
            capacity: self.capacity as u32,
            visible: self.visible as u32,
            visible_capacity: self.capacity as u32,
            halted,
            ..layout::State::default()
        };
        self.put("state", &[state]);
    }

    pub fn put_slots(&mut self, slots: &Slots) {
        let mut ranks: Vec<usize> = (0..self.n).filter(|&i| slots.counts[i] > 0).collect();
        ranks.sort_by_key(|&i| slots.starts[i]);
        let (mut values, mut emit_starts) = (Vec::new(), vec![0]);
        for &i in &ranks {
            let (start, count) = (slots.starts[i] as usize, slots.counts[i] as usize);
            values.extend(&slots.values[9 * start..9 * (start + count)]);
            emit_starts.push((values.len() / 9) as u32);
        }
        // Any unique place works: neither the order of depth nor of index.
        let places = Random::new(19).permutation(ranks.len());
        let mut visible_rank = vec![0; self.n];
        visible_rank.resize(self.capacity, 99);
        let mut splats2d = vec![[0.0f32; 4]; 3 * self.capacity];
        for (&i, &place) in ranks.iter().zip(&places) {
            visible_rank[i] = place as u32 + 1;
            // A channel of zero is clamped; `project` marks it by -0.0.
            let [r, g, b] = slots.colours[i].map(|v| if v > 0.0 { v } else { -0.0 });
            splats2d[3 * place + 1] = [0.0, 0.0, r, g];
            splats2d[3 * place + 2] = [b, 0.0, 0.0, 0.0];
        }
        self.put("visible_rank", &visible_rank);
        self.put("splats2d", bytemuck::cast_slice::<_, f32>(&splats2d));
        let places: Vec<u32> = places.into_iter().map(|c| c as u32).chain([0]).collect();
        self.put("depth_values", &places);
        self.put("emit_starts", &emit_starts);
        // Never empty.
        values.push(f32::NAN);
        self.put("slots", &values);
        self.put("splat_gradients", &vec![f32::NAN; 9 * self.capacity]);
    }

    /// First and second moments of the geometry, `[14, capacity]` each.
    pub fn put_moments(&mut self, first: &[f32], second: &[f32]) {
        let storage = self.stages.precision.moments;
        let mut words = pack(storage, Values::First, first, self.capacity);
        words.extend(pack(storage, Values::Second, second, self.capacity));
        self.put("geometry_moments", &words);
    }

    /// First and second moments of SH rest, `[planes, capacity]` each.
    pub fn put_sh_moments(&mut self, first: &[f32], second: &[f32]) {
        let storage = self.stages.precision.moments;
        self.put(
            "sh_first",
            &pack(storage, Values::First, first, self.capacity),
        );
        self.put(
            "sh_second",
            &pack(storage, Values::Second, second, self.capacity),
        );
    }

    pub fn read<T: bytemuck::Pod>(&self, name: &str, count: usize) -> Vec<T> {
        self.stages
            .context
            .gpu
            .read(self.buffers.get(name).unwrap(), count)
            .unwrap()
    }

    /// Returns everything that training changes, as words.
    pub fn words(&self) -> Vec<u32> {
        let names = [
            "geometry",
            "sh_rest",
            "geometry_moments",
            "sh_first",
            "sh_second",
            "stats",
        ];
        let size = |name| self.buffers.get(name).unwrap().size() as usize / 4;
        names
            .iter()
            .flat_map(|name| self.read::<u32>(name, size(name)))
            .collect()
    }

    /// Returns parameters, first and second moments, `[14 + SH planes, n]` each.
    pub fn planes(&self) -> [Vec<f32>; 3] {
        let rest = sh_planes(self.sh_degree);
        let (sh, moments) = (self.stages.precision.sh, self.stages.precision.moments);
        let read = |name, storage: dapple_gpu::Storage, values, planes: usize, skip: usize| {
            let skip = skip * self.capacity;
            let words = storage.words(planes as u32) as usize * self.capacity;
            let all: Vec<u32> = self.read(name, skip + words);
            let values = unpack(storage, values, &all[skip..], planes, self.capacity);
            let rows = values.chunks_exact(self.capacity);
            rows.flat_map(|row| row[..self.n].to_vec())
                .collect::<Vec<f32>>()
        };
        let f32s = dapple_gpu::Storage::F32;
        let second = moments.words(14) as usize;
        [
            [
                read("geometry", f32s, Values::Parameters, 14, 0),
                read("sh_rest", sh, Values::Parameters, rest, 0),
            ]
            .concat(),
            [
                read("geometry_moments", moments, Values::First, 14, 0),
                read("sh_first", moments, Values::First, rest, 0),
            ]
            .concat(),
            [
                read("geometry_moments", moments, Values::Second, 14, second),
                read("sh_second", moments, Values::Second, rest, 0),
            ]
            .concat(),
        ]
    }

    fn record(&self, passes: &[&Pass]) -> CommandList {
        let mut recorder = Recorder::new(&self.stages.context, &self.buffers, Bits::NONE);
        for pass in passes {
            recorder.pass(pass).unwrap();
        }
        recorder.finish()
    }

    /// Runs `update`.
    pub fn update(&self, step: &Step) {
        let recording = self.record(&[&update::SUMS, &update::PASS]);
        recording.submit(&self.stages.context.gpu, bytemuck::bytes_of(step));
        self.stages.context.gpu.wait().unwrap();
    }

    /// Runs `gradients`.
    pub fn gradients(&self, step: &Step) -> Gradients<f32> {
        let recording = self.record(&[&update::SUMS, &gradients::PASS]);
        recording.submit(&self.stages.context.gpu, bytemuck::bytes_of(step));
        let (n, capacity) = (self.n, self.capacity);
        let geometry: Vec<f32> = self.read("gradient_geometry", 14 * capacity);
        let rest = sh_planes(self.sh_degree);
        let sh: Vec<f32> = self.read("gradient_sh", rest * capacity);
        let means2d: Vec<f32> = self.read("gradient_means2d", 2 * capacity);
        let at = |p: usize, i: usize| geometry[p * capacity + i];
        let mut out = Gradients::zeros(n, rest);
        for i in 0..n {
            out.means[i] = [0, 1, 2].map(|k| at(plane::MEAN + k, i));
            out.scales[i] = [0, 1, 2].map(|k| at(plane::SCALE + k, i));
            out.quats[i] = [0, 1, 2, 3].map(|k| at(plane::QUAT + k, i));
            out.opacities[i] = at(plane::OPACITY, i);
            out.sh0[i] = [0, 1, 2].map(|k| at(plane::SH0 + k, i));
            for k in 0..rest {
                out.sh_rest[i * rest + k] = sh[k * capacity + i];
            }
            out.means2d[i] = [0, 1].map(|k| means2d[k * capacity + i]);
        }
        let pose: Vec<f32> = self.read("gradient_pose", 6 * n.div_ceil(256));
        for part in pose.chunks_exact(6) {
            for (sum, &value) in out.pose.iter_mut().zip(part) {
                *sum += f64::from(value);
            }
        }
        out
    }
}

/// Returns gradients as planes, `[14 + SH planes, n]`, like [`Fixture::planes`].
pub fn gradient_planes(g: &Gradients<f32>) -> Vec<f32> {
    let n = g.means.len();
    let rest = g.sh_rest.len() / n.max(1);
    let mut out = Vec::new();
    for k in 0..3 {
        out.extend(g.means.iter().map(|v| v[k]));
    }
    for k in 0..3 {
        out.extend(g.scales.iter().map(|v| v[k]));
    }
    for k in 0..4 {
        out.extend(g.quats.iter().map(|v| v[k]));
    }
    out.extend(&g.opacities);
    for k in 0..3 {
        out.extend(g.sh0.iter().map(|v| v[k]));
    }
    for k in 0..rest {
        out.extend((0..n).map(|i| g.sh_rest[i * rest + k]));
    }
    out
}
