//! [`GpuEngine`]: the stages behind the engine contract.
//!
//! 1. A command (a step, a round of density control) is encoded and submitted at once; nothing is
//!    read back for it. Its report comes through the ring; see [`crate::ring`].
//! 2. Counts live on the GPU. Where a buffer turns out too small, the GPU sets `state.halted`: from
//!    then on no command changes anything. When the report of that is seen, the buffer is grown and
//!    every command since is submitted again, in order: nothing is lost, nothing is done twice, and
//!    the result is the same as with a large buffer from the start.
//! 3. Calls that return something (`download`, `render`, `gradients`) wait.

use crate::depths::Depths;
use crate::frame::{self, Asked, Room};
use crate::messages::{densify_report, render_immediates, step_immediates, step_report};
use crate::optics::Optics;
use crate::photos::Photos;
use crate::recordings::{Leaves, Recordings, Shape, Stages};
use crate::ring::{RING, Ring};
use crate::stages::appearance::{self, Grids};
use crate::stages::smoothing::SMOOTHING;
use crate::stages::update::Mode;
use crate::timing::{StepTiming, Times};
use crate::views::{GpuView, Views};
use crate::{Buffers, Context, Precision, layout, params};
use dapple_engine::{
    Appearance, DensifyPlan, DepthImage, DepthSample, Engine, Gradients, ImageDerivative,
    OptimizerState, PosedCamera, RefinedPose, RenderSettings, Rendered, Report, StepCounts,
    StepSettings, TrainView, ViewId, check_depths, check_image_gradient, check_poses, check_upload,
};
use dapple_runtime::{Counters, Detail, Gpu, GpuClock, GpuOptions};
use dapple_scene::{Camera, Error, Photo, Result, Splats};
use std::collections::VecDeque;
use std::sync::Arc;

/// How to run on a GPU.
#[derive(Debug, Clone)]
pub struct GpuEngineOptions {
    /// Which device, and how.
    pub gpu: GpuOptions,
    /// How parameters and optimizer state are stored.
    pub precision: Precision,
    /// Bytes of photos to keep on the GPU; beyond, they are streamed.
    pub photo_budget_bytes: u64,
    /// Keep each dispatch short; `None` = if the device is known to kill long ones.
    pub bounds_dispatches: Option<bool>,
    /// The cap on Gaussians per tile where settings have 0; `None` = none, or
    /// [`layout::WATCHDOG_CAP`] where dispatches are kept short.
    pub default_cap: Option<u32>,
    /// Time each stage with the GPU's clock. Costs a few microseconds a stage.
    pub time_stages: bool,
    /// Gaussians, visible ones and instances to make room for at first, for tests of growing; 0 = as
    /// usual.
    #[doc(hidden)]
    pub first_room: Room,
    /// Act as if the device took no larger binding, for tests.
    #[doc(hidden)]
    pub max_binding_bytes: u64,
}

impl Default for GpuEngineOptions {
    fn default() -> Self {
        Self {
            gpu: GpuOptions::default(),
            precision: Precision::default(),
            // wgpu does not tell how much memory a device has; this fits all that train at all.
            photo_budget_bytes: 4 << 30,
            bounds_dispatches: None,
            default_cap: None,
            time_stages: false,
            first_room: Room::default(),
            max_binding_bytes: u64::MAX,
        }
    }
}

/// The GPU engine.
pub struct GpuEngine {
    pub(crate) context: Context,
    pub(crate) buffers: Buffers,
    pub(crate) options: GpuEngineOptions,
    /// The cap on Gaussians per tile where settings have 0.
    pub(crate) default_cap: u32,
    pub(crate) room: Room,
    pub(crate) sh_degree: u8,
    /// The appearance of views, if a step has asked for it.
    pub(crate) grids: Option<Grids>,
    pub(crate) views: Views,
    pub(crate) photos: Photos,
    depths: Depths,
    /// What was ever asked for beside the default.
    pub(crate) asked: Asked,
    /// Cameras that the GPU does not know yet.
    pub(crate) views_changed: bool,
    pub(crate) stages: Stages,
    pub(crate) recordings: Option<Recordings>,
    pub(crate) ring: Ring,
    pending: VecDeque<(u64, Command)>,
    pub(crate) finished: Vec<Report>,
    times: Times,
}

/// What was enqueued and has not reported.
#[derive(Debug, Clone, Copy)]
enum Command {
    Step(ViewId, StepSettings),
    Densify(DensifyPlan),
}

impl GpuEngine {
    /// An engine without splats.
    ///
    /// # Errors
    /// No such device, or one that lacks what is needed.
    pub fn new(options: GpuEngineOptions) -> Result<Self> {
        let gpu = Gpu::open(&options.gpu)?;
        options.precision.check(gpu.report())?;
        let mut context = Context::new(gpu);
        context.defines = options.precision.define(context.defines);
        if let Some(bounds) = options.bounds_dispatches {
            context.bounds_dispatches = bounds;
        }
        let needed = if context.bounds_dispatches {
            layout::WATCHDOG_CAP
        } else {
            0
        };
        let default_cap = options.default_cap.unwrap_or(needed);
        let stages = Stages::new(&context)?;
        let mut buffers = Buffers::default();
        frame::allocate_fixed(&context, &mut buffers)?;
        let mut times = Times::default();
        if options.time_stages {
            times.set(&context.gpu, Some(Detail::Spans), RING as usize)?;
        }
        Ok(Self {
            views: Views::default(),
            photos: Photos::new(options.photo_budget_bytes),
            depths: Depths::default(),
            asked: Asked::default(),
            context,
            buffers,
            options,
            default_cap,
            room: Room::default(),
            sh_degree: 0,
            grids: None,
            views_changed: true,
            stages,
            recordings: None,
            ring: Ring::new(),
            pending: VecDeque::new(),
            finished: Vec::new(),
            times,
        })
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        &self.context.gpu
    }

    /// Times steps from now on, by stage or by dispatch, or no longer. False if the device has no
    /// timestamps. What is timed is kept for [`Self::take_timings`].
    ///
    /// # Errors
    /// A lost device, no memory.
    pub fn set_timing(&mut self, detail: Option<Detail>) -> Result<bool> {
        self.settle()?;
        self.times.keep();
        self.times.set(&self.context.gpu, detail, RING as usize)
    }

    /// What finished commands took, in order, since the last call; see [`Self::set_timing`].
    pub fn take_timings(&mut self) -> Vec<StepTiming> {
        self.times.take_kept()
    }

    /// The clock that timings are placed by, if anything is or was timed.
    pub fn clock(&mut self) -> Option<&mut GpuClock> {
        self.times.clock()
    }

    /// Each stage's number of dispatches in a step on a view that was stepped on; empty before, and when
    /// its photo has left the GPU.
    pub fn dispatches(&self, view: ViewId) -> Vec<(&'static str, usize)> {
        let slot = self.photos.slot_of(view.0);
        let recordings = self.recordings.as_ref().zip(slot);
        let recorded = recordings.and_then(|(made, slot)| made.recorded(slot));
        let mut sums: Vec<(&'static str, usize)> = Vec::new();
        for (name, count) in recorded.iter().flat_map(|step| step.span_sizes()) {
            // `appearance` has two spans: there and back.
            match sums.iter_mut().find(|(other, _)| *other == name) {
                Some((_, sum)) => *sum += count,
                None => sums.push((name, count)),
            }
        }
        sums
    }

    /// What the host did to the device so far.
    pub fn counters(&self) -> Counters {
        self.context.gpu.counters()
    }

    /// Bytes of the engine's buffers, photos included.
    pub fn memory_bytes(&self) -> u64 {
        self.buffers.bytes() + self.photos.resident_bytes() + self.depths.resident_bytes()
    }

    /// Photos copied to the GPU so far.
    pub fn photo_uploads(&self) -> u64 {
        self.photos.uploads
    }

    /// What there is room for.
    pub fn room(&self) -> Room {
        self.room
    }

    /// Takes a view in, with its photo unless that comes for each step.
    fn add_view(&mut self, camera: &Camera, photo: Option<Arc<Photo>>) -> Result<ViewId> {
        let camera = PosedCamera::new(camera)?;
        let counted = self.photos.add(&camera, photo)?;
        Ok(ViewId(self.views.add(GpuView { camera, counted })))
    }

    /// After views were added, all of them or those before one that is refused.
    fn fit_views(&mut self, ids: Result<Vec<ViewId>>) -> Result<Vec<ViewId>> {
        self.views_changed = true;
        if let Some(slots) = self.photos.fit() {
            self.ring.hold_back(slots);
        }
        self.depths.release();
        let ids = ids?;
        // The largest image at once: growing later would make the recordings anew.
        for id in &ids {
            if let Some(camera) = self.views.get(id.0).map(|v| v.camera) {
                self.fit_image(&camera)?;
            }
        }
        Ok(ids)
    }

    pub(crate) fn write_views(&mut self, render: Option<&PosedCamera>) -> Result<()> {
        let gpu = &self.context.gpu;
        if self.views_changed {
            let (entries, lenses) = (self.views.entries(render), self.views.lenses(render));
            self.buffers.set("views", gpu.upload("views", &entries)?);
            self.buffers.set("lenses", gpu.upload("lenses", &lenses)?);
            self.write_moments()?;
            self.views_changed = false;
            self.recordings = None;
        } else if let Some(camera) = render {
            let entry = crate::views::entry(camera, None);
            gpu.write(self.buffers.get("views")?, 0, &[entry]);
            let lens = crate::views::lens_entry(camera);
            gpu.write(self.buffers.get("lenses")?, 0, &[lens]);
        }
        Ok(())
    }

    /// Makes the recordings if buffers have changed since.
    pub(crate) fn record(&mut self) -> Result<()> {
        if self.recordings.is_none() {
            self.recordings = Some(Recordings::new(
                &self.context,
                &mut self.stages,
                &self.buffers,
                self.room.tiles,
                self.photos.slots(),
            )?);
        }
        Ok(())
    }

    fn ready(&self) -> Result<()> {
        if self.room.gaussians == 0 {
            return Err(Error::internal("the engine has no splats yet: upload some"));
        }
        Ok(())
    }

    /// Encodes and submits a command.
    fn enqueue(&mut self, command: Command) -> Result<()> {
        self.ready()?;
        self.write_views(None)?;
        // Before the command has its number: others may be submitted again meanwhile.
        if let Command::Step(view, settings) = &command {
            self.place_photo(*view)?;
            self.fit_appearance(settings.appearance.as_ref())?;
        }
        let sequence = self.ring.upcoming();
        match command {
            Command::Step(view, settings) => self.encode_step(view, &settings, sequence)?,
            Command::Densify(plan) => self.encode_densify(&plan, sequence)?,
        }
        self.ring.enqueued();
        self.pending.push_back((sequence, command));
        self.context.gpu.check()?;
        let reports = self.buffers.get("reports")?;
        self.ring.advance(&self.context.gpu, reports)?;
        while self.ring.is_full() {
            self.receive(true)?;
        }
        Ok(())
    }

    fn encode_step(&mut self, view: ViewId, settings: &StepSettings, sequence: u64) -> Result<()> {
        let lens = self
            .views
            .get(view.0)
            .is_some_and(|v| v.camera.lens.is_some());
        let photo = self.photos.arrive(view.0, sequence)?;
        if let Some(counted) = photo.counted {
            self.write_counted(view, counted)?;
        }
        let mode = Mode::of(settings, lens, self.depths.count(view.0) > 0);
        let place = (photo.slot, self.photos.is_ring());
        let samples = match mode.depth {
            true => self.depths.bring(&self.context.gpu, view.0, place)?,
            false => None,
        };
        let immediates = layout::Step {
            depth_samples: self.depths.count(view.0) as u32,
            ..step_immediates(
                view,
                settings,
                photo.is_masked,
                Ring::entry(sequence),
                self.sh_degree,
                self.default_cap,
            )
        };
        self.fit_extra(Asked {
            steps: mode,
            depth_images: false,
        })?;
        self.fit_smoothing(mode.optics.antialias)?;
        if mode.poses {
            self.fit_poses()?;
        }
        self.record()?;
        let Some(recordings) = &mut self.recordings else {
            return Err(not_recorded());
        };
        let bytes = bytemuck::bytes_of(&immediates);
        if mode.optics.antialias && settings.refresh_smoothing {
            let room = self.room.gaussians;
            recordings
                .smoothing(&self.context, &mut self.stages, &self.buffers, room)?
                .submit(&self.context.gpu, bytes);
        }
        let recording = recordings.step(
            &self.context,
            &mut self.stages,
            &self.buffers,
            (photo.slot, mode),
            &photo.buffer,
            samples.as_ref(),
        )?;
        let gpu = &self.context.gpu;
        self.times.submit(gpu, recording, bytes, sequence)
    }

    /// Commands from the first of these on are not done; the second comes next.
    fn pending_from(&self) -> (u64, u64) {
        let first = self.pending.front().map_or(u64::MAX, |(first, _)| *first);
        (first, self.ring.upcoming())
    }

    /// Gives a view's photo a place on the GPU. Waits if commands that have not reported use all that
    /// there are: chunks of reports are so small then that others are on their way.
    pub(crate) fn place_photo(&mut self, view: ViewId) -> Result<()> {
        loop {
            let pending = self.pending_from();
            if self.photos.begin(&self.context.gpu, view.0, pending)? {
                return Ok(());
            }
            let reports = self.buffers.get("reports")?;
            self.ring.send(&self.context.gpu, reports)?;
            self.receive(true)?;
        }
    }

    /// Tells the GPU what of a photo counts. Nothing on its way uses this entry, and no step has refined
    /// the view since the host last knew its pose: it is the view's first.
    fn write_counted(&mut self, view: ViewId, counted: (u32, u32)) -> Result<()> {
        self.views.set_counted(view.0, counted);
        if let Some(entry) = self.views.entry(view.0) {
            let offset = (1 + view.0) * size_of::<layout::View>();
            let buffer = self.buffers.get("views")?;
            self.context.gpu.write(buffer, offset as u64, &[entry]);
        }
        Ok(())
    }

    fn encode_densify(&mut self, plan: &DensifyPlan, sequence: u64) -> Result<()> {
        self.record()?;
        let planes = self.state_planes();
        let Some(recordings) = &mut self.recordings else {
            return Err(not_recorded());
        };
        let immediates = layout::Step {
            number: plan.step,
            report: Ring::entry(sequence),
            ..layout::Step::default()
        };
        let recording = recordings.densify(
            &self.context,
            &mut self.stages,
            &self.buffers,
            &planes,
            plan,
        )?;
        let bytes = bytemuck::bytes_of(&immediates);
        let gpu = &self.context.gpu;
        self.times.submit(gpu, recording, bytes, sequence)
    }

    /// Takes in the reports that have arrived; true if there were some.
    fn receive(&mut self, wait: bool) -> Result<bool> {
        let Some(reports) = self.ring.receive(&self.context.gpu, wait)? else {
            return Ok(false);
        };
        self.times.receive()?;
        for (sequence, report) in reports {
            if report.halted != 0 {
                self.recover(&report)?;
                break;
            }
            let Some((expected, command)) = self.pending.pop_front() else {
                return Err(Error::internal(
                    "a report came for a command that nobody gave",
                ));
            };
            if expected != sequence {
                return Err(Error::internal("the GPU's reports came out of order"));
            }
            self.finished.push(match command {
                Command::Step(_, settings) => {
                    let stages = self.times.finished(sequence, settings.step, false);
                    step_report(&settings, &report, stages)
                }
                Command::Densify(plan) => {
                    self.times.finished(sequence, plan.step, true);
                    densify_report(&plan, &report)
                }
            });
        }
        Ok(true)
    }

    /// Grows what was too small and submits every command that did nothing again.
    fn recover(&mut self, report: &layout::Report) -> Result<()> {
        self.context.gpu.wait()?;
        self.ring.clear();
        self.times.clear();
        if let Err(error) = self.grow_for(report.halted, report.wanted, report.gaussians) {
            // What is pending has not happened and cannot: the splats are those before it.
            self.pending.clear();
            self.write_room()?;
            return Err(error);
        }
        let commands: Vec<Command> = self.pending.drain(..).map(|(_, c)| c).collect();
        for command in commands {
            self.enqueue(command)?;
        }
        Ok(())
    }

    /// Waits until every command has reported.
    pub(crate) fn settle(&mut self) -> Result<()> {
        while !self.pending.is_empty() {
            let reports = self.buffers.get("reports")?;
            self.ring.send(&self.context.gpu, reports)?;
            self.receive(true)?;
        }
        Ok(())
    }

    /// The counts on the GPU; waits.
    pub(crate) fn state(&mut self) -> Result<layout::State> {
        let state: Vec<layout::State> = self.context.gpu.read(self.buffers.get("state")?, 1)?;
        state
            .first()
            .copied()
            .ok_or_else(|| Error::internal("the GPU's counts could not be read"))
    }

    /// Runs the stages up to `blend` for a camera until the buffers are large enough: for the image
    /// alone, or also for what `blend_backward` needs; with depths or without.
    fn forward(
        &mut self,
        camera: &PosedCamera,
        settings: &RenderSettings,
        image_only: bool,
        depth: bool,
    ) -> Result<layout::State> {
        self.settle()?;
        self.ready()?;
        self.fit_image(camera)?;
        self.fit_smoothing(settings.antialias)?;
        self.write_views(Some(camera))?;
        let optics = Optics {
            lens: camera.lens.is_some(),
            antialias: settings.antialias,
        };
        self.fit_extra(Asked {
            steps: Mode::of_gradients(depth && !image_only, optics),
            depth_images: depth,
        })?;
        let leaves = match image_only {
            true => Leaves::ImageAlone,
            false => Leaves::Checkpoints,
        };
        let immediates = render_immediates(settings, self.sh_degree, self.default_cap);
        loop {
            self.record()?;
            if let Some(recordings) = &mut self.recordings {
                let (context, stages) = (&self.context, &mut self.stages);
                let recording =
                    recordings.front(context, stages, &self.buffers, (optics, depth), leaves)?;
                recording.submit(&self.context.gpu, bytemuck::bytes_of(&immediates));
            }
            let state = self.state()?;
            if state.halted == 0 {
                return Ok(state);
            }
            self.grow_for(state.halted, state.wanted, state.gaussians)?;
        }
    }
}

fn not_recorded() -> Error {
    Error::internal("the GPU's commands were not recorded")
}

impl Engine for GpuEngine {
    fn description(&self) -> String {
        format!("gpu ({})", self.context.gpu.device_name())
    }

    fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()> {
        check_upload(splats, state)?;
        check_poses(state, self.views.len())?;
        self.settle()?;
        if self.room.tiles == 0 {
            // Stages bind the image's buffers also where nothing is rendered.
            self.fit_tiles(1, 1)?;
        }
        let n = u32::try_from(splats.len())
            .map_err(|_| Error::input("more Gaussians than 32 bits count"))?;
        let room = n.max(self.options.first_room.gaussians).max(1);
        // Where the state has filters, room is made for them.
        self.buffers.remove(SMOOTHING);
        let before = std::mem::replace(&mut self.sh_degree, splats.sh_degree);
        if let Err(error) = self.make_room(room) {
            self.sh_degree = before;
            return Err(error);
        }
        let is_smoothed = state.is_some_and(|state| !state.smoothing.is_empty());
        self.fit_smoothing(is_smoothed)?;
        params::upload(
            &self.context.gpu,
            &self.buffers,
            self.options.precision,
            self.room.gaussians as usize,
            splats,
            state,
        )?;
        let poses = state.map(|state| state.poses.clone()).unwrap_or_default();
        if self.views.poses.is_some() || !poses.is_empty() {
            self.views.poses = (!poses.is_empty()).then_some(poses);
            self.views_changed = true;
        }
        let gpu_state = layout::State {
            gaussians: n,
            capacity: self.room.gaussians,
            visible_capacity: self.room.visible,
            instance_capacity: self.room.instances,
            bucket_capacity: self.room.buckets,
            ..layout::State::default()
        };
        self.context
            .gpu
            .write(self.buffers.get("state")?, 0, &[gpu_state]);
        let grids = state.map(|state| &state.appearance);
        self.grids = match grids.filter(|grids| !grids.is_empty()) {
            Some(grids) => {
                self.check_grids(grids.cells, grids.views())?;
                Some(appearance::upload(&self.context, &mut self.buffers, grids)?)
            }
            None => None,
        };
        self.recordings = None;
        self.context.gpu.check()
    }

    fn appearance(&mut self) -> Result<Appearance> {
        self.settle()?;
        let grids = self.grids.as_ref();
        grids.map_or_else(
            || Ok(Appearance::default()),
            |grids| appearance::download(&self.context, &self.buffers, grids),
        )
    }

    fn download(&mut self) -> Result<(Splats, OptimizerState)> {
        self.settle()?;
        if self.room.gaussians == 0 {
            return Ok(<(Splats, OptimizerState)>::default());
        }
        let n = self.state()?.gaussians as usize;
        let (splats, mut state) = params::download(
            &self.context.gpu,
            &self.buffers,
            self.options.precision,
            self.room.gaussians as usize,
            n,
            self.sh_degree,
        )?;
        state.poses = self.poses()?;
        state.appearance = self.appearance()?;
        Ok((splats, state))
    }

    fn splats(&mut self) -> Result<Splats> {
        self.settle()?;
        if self.room.gaussians == 0 {
            return Ok(Splats::default());
        }
        let n = self.state()?.gaussians as usize;
        params::download_splats(
            &self.context.gpu,
            &self.buffers,
            self.options.precision,
            self.room.gaussians as usize,
            n,
            self.sh_degree,
        )
    }

    fn fused_splats(&mut self) -> Result<Splats> {
        let mut splats = self.splats()?;
        let gpu = &self.context.gpu;
        let smoothing = params::download_smoothing(gpu, &self.buffers, splats.len())?;
        dapple_engine::smoothing::fuse(&mut splats, &smoothing);
        Ok(splats)
    }

    fn poses(&mut self) -> Result<Vec<RefinedPose>> {
        self.settle()?;
        self.fetch_poses()?;
        Ok(self.views.poses.clone().unwrap_or_default())
    }

    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>> {
        self.settle()?;
        self.fetch_poses()?;
        let views = views.into_iter();
        let ids = views
            .map(|view| self.add_view(&view.camera, Some(view.photo)))
            .collect();
        self.fit_views(ids)
    }

    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>> {
        self.settle()?;
        self.fetch_poses()?;
        let cameras = cameras.iter();
        let ids = cameras.map(|camera| self.add_view(camera, None)).collect();
        self.fit_views(ids)
    }

    fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()> {
        self.photos.put(view.0, photo)
    }

    fn announce(&mut self, view: ViewId, photo: Option<Arc<Photo>>) -> Result<()> {
        let pending = self.pending_from();
        let gpu = &self.context.gpu;
        self.photos.announce(gpu, view.0, photo, pending)
    }

    fn supervise_depth(&mut self, view: ViewId, samples: Vec<DepthSample>) -> Result<()> {
        let Some(camera) = self.views.get(view.0).map(|v| v.camera) else {
            return Err(Error::internal(format!("there is no view {}", view.0)));
        };
        check_depths(&camera, &samples)?;
        // Steps that are on their way may have to be submitted again, with what they had.
        self.settle()?;
        self.depths.set(view.0, &samples);
        if let Some(recordings) = &mut self.recordings {
            recordings.forget_steps();
        }
        Ok(())
    }

    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered> {
        let camera = PosedCamera::new(camera)?;
        let state = self.forward(&camera, settings, true, settings.depth)?;
        let pixels: Vec<[f32; 4]> = self
            .context
            .gpu
            .read(self.buffers.get("image")?, camera.pixel_count())?;
        Ok(Rendered {
            width: camera.size[0],
            height: camera.size[1],
            rgb: pixels.iter().flat_map(|p| [p[0], p[1], p[2]]).collect(),
            alpha: pixels.iter().map(|p| 1.0 - p[3]).collect(),
            depth: settings
                .depth
                .then(|| self.depth_image(&camera))
                .transpose()?,
            counts: StepCounts {
                gaussians: state.gaussians.into(),
                visible: state.visible.into(),
                instances: state.instances.into(),
                tiles: camera.tile_count() as u64,
                max_instances_per_tile: state.max_per_tile.into(),
                cut_instances: state.cut_instances.into(),
                lost_transmittance: f32::from_bits(state.lost_transmittance),
            },
        })
    }

    fn finish(&mut self) -> Result<()> {
        self.settle()
    }

    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        self.enqueue(Command::Step(view, *settings))
    }

    fn densify(&mut self, plan: &DensifyPlan) -> Result<()> {
        self.enqueue(Command::Densify(*plan))
    }

    fn poll(&mut self) -> Result<Vec<Report>> {
        let reports = self.buffers.get("reports")?;
        self.ring.advance(&self.context.gpu, reports)?;
        while self.receive(false)? {}
        if self.pending.is_empty() {
            self.context.gpu.check()?;
        }
        Ok(std::mem::take(&mut self.finished))
    }

    fn differentiate(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &ImageDerivative<'_, f32>,
    ) -> Result<Gradients<f32>> {
        let camera = PosedCamera::new(camera)?;
        check_image_gradient(&camera, derivative)?;
        let state = self.forward(&camera, settings, false, derivative.depth.is_some())?;
        if let Some(by_depth) = derivative.depth {
            self.write_depth_gradient(&camera, by_depth)?;
        }
        // The fourth value is transmittance, one minus alpha.
        let gradient: Vec<[f32; 4]> = derivative
            .rgb
            .as_chunks::<3>()
            .0
            .iter()
            .enumerate()
            .map(|(i, &[r, g, b])| [r, g, b, derivative.alpha.map_or(0.0, |a| -a[i])])
            .collect();
        let gpu = &self.context.gpu;
        gpu.write(self.buffers.get("image_gradient")?, 0, &gradient);
        let immediates = render_immediates(settings, self.sh_degree, self.default_cap);
        let Some(recordings) = &mut self.recordings else {
            return Err(not_recorded());
        };
        recordings.gradients(
            &self.context,
            &mut self.stages,
            &mut self.buffers,
            bytemuck::bytes_of(&immediates),
            Shape {
                gaussians: state.gaussians as usize,
                capacity: self.room.gaussians as usize,
                sh_degree: self.sh_degree,
                optics: Optics {
                    lens: camera.lens.is_some(),
                    antialias: settings.antialias,
                },
                depth: derivative.depth.is_some(),
            },
        )
    }
}

impl GpuEngine {
    /// What `blend` left in `depth_pixels` of a render.
    fn depth_image(&self, camera: &PosedCamera) -> Result<DepthImage> {
        let buffer = self.buffers.get("depth_pixels")?;
        let pixels: Vec<[f32; 2]> = self.context.gpu.read(buffer, camera.pixel_count())?;
        Ok(DepthImage {
            blended: pixels.iter().map(|p| p[0]).collect(),
            median: pixels.iter().map(|p| p[1]).collect(),
        })
    }

    /// Puts dL/d(blended depth) beside what `blend` left in `depth_pixels`.
    fn write_depth_gradient(&self, camera: &PosedCamera, by_depth: &[f32]) -> Result<()> {
        let gpu = &self.context.gpu;
        let buffer = self.buffers.get("depth_pixels")?;
        let mut pixels: Vec<[f32; 2]> = gpu.read(buffer, camera.pixel_count())?;
        for (pixel, &value) in pixels.iter_mut().zip(by_depth) {
            pixel[1] = value;
        }
        gpu.write(buffer, 0, &pixels);
        Ok(())
    }
}

impl Drop for GpuEngine {
    fn drop(&mut self) {
        // What is in flight uses buffers that are about to go; a lost device cannot be waited for.
        let _ = self.context.gpu.wait();
    }
}
