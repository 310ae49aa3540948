//! Runs the stages from `begin` to `ranges`, and reads back their results.

use crate::support::groups;
use dapple_engine::{PosedCamera, RenderSettings};
use dapple_gpu::layout::{self, State, Step, View};
use dapple_gpu::passes::{Bits, Pass};
use dapple_gpu::precision::{Values, pack};
use dapple_gpu::stages::{emit, order, project, ranges, sort};
use dapple_gpu::{Buffers, Context, Precision, Recorder, Storage};
use dapple_reference::scenes::Random;
use dapple_runtime::{CommandList, wgpu};
use dapple_scene::{Camera, Splats};
use std::ops::Range;

/// A device, and the constants with which the stages are compiled.
pub struct Front {
    context: Context,
    sh: Storage,
    tile_bits: u32,
}

/// First contents of buffers.
const RUBBISH: u32 = 0x2a2a_2a2a;

/// Capacities of the buffers. Buffers of visible Gaussians are longer, to detect writes beyond the capacity.
#[derive(Debug, Clone, Copy)]
pub struct Capacity {
    pub gaussians: u32,
    pub visible: u32,
    pub instances: u32,
    pub buckets: u32,
}

impl Capacity {
    pub fn for_splats(splats: &Splats) -> Self {
        Self {
            // A few more than the count, so that capacity and count differ.
            gaussians: splats.len() as u32 + 5,
            visible: splats.len() as u32 + 3,
            instances: 60_000,
            buckets: 6000,
        }
    }
}

/// Results, cut to their counts, with Gaussians by index wherever the buffers have their places among the visible
/// Gaussians. Splats and numbers of tiles of invisible Gaussians are 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub state: State,
    pub groups: Vec<[u32; 4]>,
    pub splats2d: Vec<[f32; 12]>,
    pub tiles_touched: Vec<u32>,
    pub depth_keys: Vec<u32>,
    pub depth_values: Vec<u32>,
    pub emit_starts: Vec<u32>,
    pub instance_gaussian: Vec<u32>,
    pub sorted_gaussian: Vec<u32>,
    pub sorted_slot: Vec<u32>,
    pub tile_start: Vec<u32>,
    pub bucket_start: Vec<u32>,
    pub tile_order: Vec<u32>,
    pub bucket_tile: Vec<u32>,
}

impl Outcome {
    /// Returns the places of a tile's instances.
    pub fn tile(&self, tile: usize) -> Range<usize> {
        self.tile_start[tile] as usize..self.tile_start[tile + 1] as usize
    }
}

/// Returns a camera in the form that shaders read.
pub fn view(camera: &Camera) -> View {
    let camera = PosedCamera::new(camera).unwrap();
    let row = |i: usize| {
        let [x, y, z] = camera.rotation[i];
        [x, y, z, camera.centre_rest[i]]
    };
    let [x, y, z] = camera.centre;
    View {
        rows: [row(0), row(1), row(2)],
        centre: [x, y, z, 0.0],
        focal: camera.focal,
        principal: camera.principal,
        jacobian_min: camera.jacobian_min,
        jacobian_max: camera.jacobian_max,
        size: camera.size,
        tiles: camera.tiles,
        ..View::default()
    }
}

/// Returns the planes of `geometry` and, as words, of `sh_rest`.
fn planes(storage: Storage, splats: &Splats, capacity: usize) -> (Vec<f32>, Vec<u32>) {
    let mut geometry = vec![0.0; layout::plane::GEOMETRY * capacity];
    for i in 0..splats.len() {
        let row = [
            &splats.means[i][..],
            &splats.scales[i],
            &splats.quats[i],
            &splats.opacities[i..=i],
            &splats.sh0[i],
        ]
        .concat();
        for (plane, value) in row.into_iter().enumerate() {
            geometry[plane * capacity + i] = value;
        }
    }
    let stride = splats.sh_rest_stride();
    let mut rest = vec![0.0; stride * capacity];
    for i in 0..splats.len() {
        for plane in 0..stride {
            rest[plane * capacity + i] = splats.sh_rest[i * stride + plane];
        }
    }
    let words = pack(storage, Values::Parameters, &rest, capacity);
    (geometry, words)
}

impl Front {
    /// Creates the stages for views of up to `2^tile_bits` tiles.
    pub fn new(context: Context, tile_bits: u32) -> Self {
        Self::with_storage(context, tile_bits, Storage::F32)
    }

    /// Creates the stages for harmonics in another storage format.
    pub fn with_storage(mut context: Context, tile_bits: u32, sh: Storage) -> Self {
        let precision = Precision {
            sh,
            ..Precision::default()
        };
        context.defines = precision.define(context.defines);
        Self {
            tile_bits,
            sh,
            context,
        }
    }

    /// Returns buffers that hold splats and a camera.
    pub fn buffers(&self, splats: &Splats, camera: &Camera, capacity: Capacity) -> Buffers {
        let gpu = &self.context.gpu;
        let view = view(camera);
        let tiles = u64::from(view.tiles[0] * view.tiles[1]);
        let state = State {
            gaussians: splats.len() as u32,
            capacity: capacity.gaussians,
            visible_capacity: capacity.visible,
            instance_capacity: capacity.instances,
            bucket_capacity: capacity.buckets,
            ..State::default()
        };
        let (geometry, sh_rest) = planes(self.sh, splats, capacity.gaussians as usize);
        let mut buffers = Buffers::default();
        buffers.set(
            "views",
            gpu.upload("views", &[View::default(), view]).unwrap(),
        );
        buffers.set("state", gpu.upload("state", &[state]).unwrap());
        buffers.set("geometry", gpu.upload("geometry", &geometry).unwrap());
        buffers.set("sh_rest", gpu.upload("sh_rest", &sh_rest).unwrap());
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::INDIRECT;
        let bytes = groups::count() * groups::BYTES;
        buffers.set("groups", gpu.buffer_with("groups", bytes, usage).unwrap());
        let gaussians = u64::from(capacity.gaussians);
        let instances = u64::from(capacity.instances);
        for (name, words) in [
            ("splats2d", 12 * gaussians),
            ("tiles_touched", gaussians),
            ("visible_rank", gaussians),
            ("visible_placed", 1),
            ("group_visible", gaussians / 256 + 1),
            ("depth_keys", gaussians),
            ("depth_values", gaussians),
            ("depth_keys_alt", gaussians),
            ("depth_values_alt", gaussians),
            ("emit_starts", gaussians + 1),
            ("instance_tile", instances),
            ("instance_tile_alt", instances),
            ("instance_slot_alt", instances),
            ("instance_gaussian", instances),
            ("sorted_gaussian", instances),
            ("sorted_slot", instances),
            ("tile_start", tiles + 1),
            ("bucket_start", tiles + 1),
            ("tile_order", tiles),
            ("bucket_tile", u64::from(capacity.buckets)),
        ] {
            // Possible data of an earlier step.
            let rubbish = vec![RUBBISH; words as usize];
            buffers.set(name, gpu.upload(name, &rubbish).unwrap());
        }
        buffers
    }

    /// Records the stages' dispatches.
    pub fn record(&self, buffers: &Buffers) -> CommandList {
        let mut recording = self.record_project(buffers);
        recording.append(self.record_rest(buffers));
        recording
    }

    fn record_project(&self, buffers: &Buffers) -> CommandList {
        self.record_passes(buffers, &[&project::PASS])
    }

    fn record_rest(&self, buffers: &Buffers) -> CommandList {
        let rest = [&order::PASS, &emit::PASS, &sort::PASS, &ranges::PASS];
        self.record_passes(buffers, &rest)
    }

    fn record_passes(&self, buffers: &Buffers, passes: &[&Pass]) -> CommandList {
        let recorder = Recorder::new(&self.context, buffers, Bits::NONE);
        let mut recorder = recorder.with_tile_bits(self.tile_bits);
        for pass in passes {
            recorder.pass(pass).unwrap();
        }
        recorder.finish()
    }

    /// Runs the stages once.
    pub fn run(
        &self,
        splats: &Splats,
        camera: &Camera,
        settings: &RenderSettings,
        capacity: Capacity,
    ) -> Outcome {
        let buffers = self.buffers(splats, camera, capacity);
        self.record(&buffers)
            .submit(&self.context.gpu, &immediates(settings));
        self.read(&buffers, splats.len(), camera)
    }

    /// Runs the stages once, and permutes the places of visible Gaussians after `project`.
    pub fn run_shuffled(
        &self,
        splats: &Splats,
        camera: &Camera,
        settings: &RenderSettings,
        capacity: Capacity,
    ) -> Outcome {
        let gpu = &self.context.gpu;
        let buffers = self.buffers(splats, camera, capacity);
        self.record_project(&buffers)
            .submit(gpu, &immediates(settings));
        let buffer = |name: &str| buffers.get(name).unwrap();
        let mut ranks: Vec<u32> = gpu.read(buffer("visible_rank"), splats.len()).unwrap();
        let visible = ranks.iter().filter(|&&rank| rank > 0).count();
        let to = Random::new(23).permutation(visible);
        for rank in ranks.iter_mut().filter(|rank| **rank > 0) {
            *rank = to[*rank as usize - 1] as u32 + 1;
        }
        gpu.write(buffer("visible_rank"), 0, &ranks);
        for (name, words) in [
            ("splats2d", 12),
            ("tiles_touched", 1),
            ("depth_keys_alt", 1),
        ] {
            let before: Vec<u32> = gpu.read(buffer(name), words * visible).unwrap();
            let mut after = before.clone();
            for (c, &place) in to.iter().enumerate() {
                after[words * place..words * (place + 1)]
                    .copy_from_slice(&before[words * c..words * (c + 1)]);
            }
            gpu.write(buffer(name), 0, &after);
        }
        self.record_rest(&buffers)
            .submit(gpu, &immediates(settings));
        self.read(&buffers, splats.len(), camera)
    }

    /// Runs the stages twice, and resets the visibility of Gaussians in between.
    pub fn run_halted(
        &self,
        splats: &Splats,
        camera: &Camera,
        settings: &RenderSettings,
        capacity: Capacity,
    ) -> Outcome {
        let gpu = &self.context.gpu;
        let buffers = self.buffers(splats, camera, capacity);
        let recording = self.record(&buffers);
        recording.submit(gpu, &immediates(settings));
        let zeros = vec![0u32; capacity.gaussians as usize];
        gpu.write(buffers.get("visible_rank").unwrap(), 0, &zeros);
        recording.submit(gpu, &immediates(settings));
        self.read(&buffers, splats.len(), camera)
    }

    fn read(&self, buffers: &Buffers, gaussians: usize, camera: &Camera) -> Outcome {
        let gpu = &self.context.gpu;
        let state: State = gpu.read(buffers.get("state").unwrap(), 1).unwrap()[0];
        let words = |name: &str, count: usize| -> Vec<u32> {
            gpu.read(buffers.get(name).unwrap(), count).unwrap()
        };
        let (visible, instances) = (state.visible as usize, state.instances as usize);
        let tiles = PosedCamera::new(camera).unwrap().tile_count();
        let groups = groups::count() as usize;
        let ranks = words("visible_rank", gaussians);
        let places: Vec<(usize, usize)> = (ranks.iter().enumerate())
            .filter(|(_, rank)| **rank > 0)
            .map(|(g, &rank)| (g, rank as usize - 1))
            .collect();
        // Every place has one owner, and there are no other owners.
        let mut owners = vec![None; places.len()];
        for &(g, place) in &places {
            assert_eq!(owners[place].replace(g as u32), None, "place {place}");
        }
        assert!(places.len() <= state.visible_capacity as usize);
        let owned = |places: Vec<u32>| -> Vec<u32> {
            let owner = |place: u32| owners[place as usize].unwrap();
            places.into_iter().map(owner).collect()
        };
        let mut splats2d = vec![[0.0; 12]; gaussians];
        let mut tiles_touched = vec![0; gaussians];
        let by_place: Vec<[f32; 12]> = gpu
            .read(buffers.get("splats2d").unwrap(), places.len())
            .unwrap();
        let tiles_by_place = words("tiles_touched", places.len());
        for &(g, place) in &places {
            (splats2d[g], tiles_touched[g]) = (by_place[place], tiles_by_place[place]);
        }
        for (name, each) in [("splats2d", 12), ("tiles_touched", 1)] {
            let buffer = buffers.get(name).unwrap();
            let all = words(name, (buffer.size() / 4) as usize);
            let beyond = &all[each * state.visible_capacity as usize..];
            assert!(beyond.iter().all(|&word| word == RUBBISH), "{name}");
        }
        Outcome {
            state,
            groups: gpu.read(buffers.get("groups").unwrap(), groups).unwrap(),
            splats2d,
            tiles_touched,
            depth_keys: words("depth_keys", visible),
            depth_values: owned(words("depth_values", visible)),
            emit_starts: words("emit_starts", visible + 1),
            instance_gaussian: owned(words("instance_gaussian", instances)),
            sorted_gaussian: owned(words("sorted_gaussian", instances)),
            sorted_slot: words("sorted_slot", instances),
            tile_start: words("tile_start", tiles + 1),
            bucket_start: words("bucket_start", tiles + 1),
            bucket_tile: words("bucket_tile", state.buckets as usize),
            tile_order: words("tile_order", tiles),
        }
    }
}

/// Returns the immediates of a forward pass over view 1.
pub fn immediates(settings: &RenderSettings) -> Vec<u8> {
    let step = Step {
        view: 1,
        sh_degree: settings.sh_degree.into(),
        near: settings.near,
        cap: settings.max_gaussians_per_tile,
        background: settings.background,
        ..Step::default()
    };
    bytemuck::bytes_of(&step).to_vec()
}
