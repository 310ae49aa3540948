//! Input of the tests of density control and the Morton order: Gaussians in buffers like an
//! engine's.

#![allow(clippy::unwrap_used, dead_code, reason = "tests; each uses some of it")]

use crate::support::{context, context_without_subgroups};
use dapple_engine::DensifyPlan;
use dapple_engine::OptimizerState;
use dapple_gpu::layout::{SLOT_FLOATS, State, plane};
use dapple_gpu::passes::{Bits, BufferSizes, Capacity, Pass};
use dapple_gpu::stages::{densify, morton};
use dapple_gpu::{Buffers, Context, Precision, Recorder};
use dapple_reference::scenes::Random;
use dapple_runtime::wgpu;
use dapple_scene::Splats;

/// Degree of the tests' splats: an odd number of planes of SH rest.
pub const DEGREE: u8 = 1;
pub const SH_PLANES: usize = 9;

/// Returns the planes of 32-bit words of each buffer, as the passes declare them.
pub fn planes(precision: Precision) -> Vec<(&'static str, u32)> {
    let geometry = plane::GEOMETRY as u32;
    let sh = SH_PLANES as u32;
    vec![
        ("geometry", geometry),
        ("sh_rest", precision.sh.words(sh)),
        ("geometry_moments", 2 * precision.moments.words(geometry)),
        ("sh_first", precision.moments.words(sh)),
        ("sh_second", precision.moments.words(sh)),
        ("stats", 2),
    ]
}

/// A device, and the storage formats on it.
pub struct Device {
    pub context: Context,
    pub precision: Precision,
}

impl Device {
    pub fn new(mut context: Context, precision: Precision) -> Self {
        context.defines = precision.define(context.defines);
        Self { context, precision }
    }

    pub fn with_subgroups() -> Self {
        Self::new(context(), Precision::default())
    }

    pub fn without_subgroups() -> Self {
        Self::new(context_without_subgroups(), Precision::default())
    }
}

/// Buffers of an engine with the capacity for `capacity` Gaussians; the caller fills the planes.
pub struct World<'a> {
    pub device: &'a Device,
    pub context: &'a Context,
    pub precision: Precision,
    pub buffers: Buffers,
    pub sizes: BufferSizes,
    pub capacity: usize,
}

impl<'a> World<'a> {
    pub fn new(device: &'a Device, capacity: usize) -> Self {
        let Device {
            context, precision, ..
        } = device;
        let precision = *precision;
        let gpu = &context.gpu;
        let mut buffers = Buffers::default();
        let sizes = BufferSizes {
            capacity: Capacity {
                gaussians: capacity as u32,
                ..Capacity::default()
            },
            precision,
            sh_degree: DEGREE,
            ..BufferSizes::default()
        };
        buffers.fit(context, &sizes, Bits::NONE, None).unwrap();
        let scratch = [
            ("instance_tile", 1),
            ("instance_tile_alt", 1),
            ("instance_slot_alt", 1),
            ("instance_gaussian", 1),
            ("sorted_gaussian", 1),
            ("sorted_slot", 1),
            ("slots", SLOT_FLOATS as usize),
        ];
        for (name, words) in scratch {
            // Possible data of an earlier step.
            let left = vec![0x5a5a_5a5a_u32; words * (capacity + 1)];
            buffers.set(name, gpu.upload(name, &left).unwrap());
        }
        for (name, words) in planes(precision) {
            let bytes = words as usize * capacity * 4;
            assert_eq!(buffers.get(name).unwrap().size(), bytes as u64, "{name}");
        }
        Self {
            device,
            context,
            precision,
            buffers,
            sizes,
            capacity,
        }
    }

    pub fn buffer(&self, name: &str) -> &wgpu::Buffer {
        self.buffers.get(name).unwrap()
    }

    pub fn set_state(&self, state: State) {
        self.context.gpu.write(self.buffer("state"), 0, &[state]);
    }

    pub fn state(&self) -> State {
        self.context.gpu.read(self.buffer("state"), 1).unwrap()[0]
    }

    pub fn write(&self, name: &str, first_plane: usize, words: &[u32]) {
        let offset = 4 * first_plane * self.capacity;
        self.context
            .gpu
            .write(self.buffer(name), offset as u64, words);
    }

    /// Returns all words of a buffer.
    pub fn words(&self, name: &str) -> Vec<u32> {
        let (_, count) = planes(self.precision)
            .into_iter()
            .find(|p| p.0 == name)
            .unwrap();
        self.context
            .gpu
            .read(self.buffer(name), count as usize * self.capacity)
            .unwrap()
    }

    pub fn everything(&self) -> Vec<Vec<u32>> {
        planes(self.precision)
            .iter()
            .map(|(name, _)| self.words(name))
            .collect()
    }

    pub fn upload(&self, splats: &Splats, state: &OptimizerState) {
        self.set_state(State {
            gaussians: splats.len() as u32,
            capacity: self.capacity as u32,
            instance_capacity: self.capacity as u32 + 1,
            ..State::default()
        });
        let second = plane::GEOMETRY;
        for (splats, geometry, first, sh) in [
            (splats, "geometry", 0, "sh_rest"),
            (&state.first_moments, "geometry_moments", 0, "sh_first"),
            (
                &state.second_moments,
                "geometry_moments",
                second,
                "sh_second",
            ),
        ] {
            let rows = rows(splats);
            let split = |range: std::ops::Range<usize>| -> Vec<u32> {
                range
                    .flat_map(|p| self.plane_of(rows.iter().map(move |row| row[p])))
                    .collect()
            };
            self.write(geometry, first, &split(0..plane::GEOMETRY));
            self.write(sh, 0, &split(plane::GEOMETRY..plane::GEOMETRY + SH_PLANES));
        }
        for (p, values) in [&state.gradient_sums, &state.visible_counts]
            .into_iter()
            .enumerate()
        {
            self.write("stats", p, &self.plane_of(values.iter().copied()));
        }
    }

    /// Returns the words of a plane; the end holds values that no kernel may read.
    pub fn plane_of(&self, values: impl Iterator<Item = f32>) -> Vec<u32> {
        let mut words: Vec<u32> = values.map(f32::to_bits).collect();
        words.resize(self.capacity, f32::NAN.to_bits());
        words
    }

    /// Returns `[N]` of numbers per Gaussian: of a buffer's planes `first..first + count`.
    pub fn rows(&self, name: &str, first: usize, count: usize) -> Vec<Vec<f32>> {
        let words = self.words(name);
        let n = self.state().gaussians as usize;
        let value = |p: usize, i: usize| f32::from_bits(words[(first + p) * self.capacity + i]);
        (0..n)
            .map(|i| (0..count).map(|p| value(p, i)).collect())
            .collect()
    }

    pub fn densify(&self, plan: &DensifyPlan) {
        densify::set_plan(self.context, &self.buffers, plan).unwrap();
        self.run(&densify::PASS, Bits::NONE);
    }

    pub fn morton(&self) {
        self.run(&morton::PASS, Bits::REORDER);
    }

    fn run(&self, pass: &Pass, bits: Bits) {
        let recorder = Recorder::new(self.context, &self.buffers, bits);
        let mut recorder = recorder.over(&self.sizes, 0);
        recorder.pass(pass).unwrap();
        recorder.finish().submit(&self.context.gpu, &[]);
        self.context.gpu.wait().unwrap();
    }
}

/// Returns the numbers per Gaussian: geometry's planes, then those of SH rest.
pub fn rows(splats: &Splats) -> Vec<Vec<f32>> {
    let stride = splats.sh_rest_stride();
    (0..splats.len())
        .map(|i| {
            let mut row = Vec::new();
            row.extend(splats.means[i]);
            row.extend(splats.scales[i]);
            row.extend(splats.quats[i]);
            row.push(splats.opacities[i]);
            row.extend(splats.sh0[i]);
            row.extend(&splats.sh_rest[i * stride..(i + 1) * stride]);
            row
        })
        .collect()
}

/// Returns splats with logarithms of scales in -6..-1 and logits in -6..4, with optimizer state.
pub fn random(n: usize, seed: u64) -> (Splats, OptimizerState) {
    let mut random = Random::new(seed);
    let mut numbers = |low: f64, high: f64| random.uniform(low, high) as f32;
    let mut splats = || Splats {
        means: (0..n).map(|_| [0; 3].map(|_| numbers(-2.0, 2.0))).collect(),
        scales: (0..n)
            .map(|_| [0; 3].map(|_| numbers(-6.0, -1.0)))
            .collect(),
        quats: (0..n).map(|_| [0; 4].map(|_| numbers(-1.0, 1.0))).collect(),
        opacities: (0..n).map(|_| numbers(-6.0, 4.0)).collect(),
        sh0: (0..n).map(|_| [0; 3].map(|_| numbers(-1.0, 1.0))).collect(),
        sh_rest: (0..n * SH_PLANES).map(|_| numbers(-1.0, 1.0)).collect(),
        sh_degree: DEGREE,
    };
    let (params, first_moments, second_moments) = (splats(), splats(), splats());
    let state = OptimizerState {
        first_moments,
        second_moments,
        gradient_sums: (0..n).map(|_| numbers(0.0, 1.0).powi(3)).collect(),
        visible_counts: (0..n).map(|_| numbers(0.0, 6.0).floor()).collect(),
        ..OptimizerState::default()
    };
    (params, state)
}

impl World<'_> {
    /// Uploads only geometry and statistics.
    pub fn upload_geometry(&self, splats: &Splats, state: &OptimizerState) {
        self.set_state(State {
            gaussians: splats.len() as u32,
            capacity: self.capacity as u32,
            instance_capacity: self.capacity as u32 + 1,
            ..State::default()
        });
        let rows = rows(splats);
        for p in 0..plane::GEOMETRY {
            self.write("geometry", p, &self.plane_of(rows.iter().map(|row| row[p])));
        }
        for (p, values) in [&state.gradient_sums, &state.visible_counts]
            .into_iter()
            .enumerate()
        {
            self.write("stats", p, &self.plane_of(values.iter().copied()));
        }
    }
}
