//! Implementation of [`Sharded`] for [`CpuEngine`].
//!
//! Projected Gaussians travel as [`Splat2d`], tile lists and spans. Sums travel as [`Slot`] and, for absolute density
//! statistics, [`AbsoluteSlot`]. `update` reads them as if each shown Gaussian had one instance.

use super::{CpuEngine, on_pool};
use crate::context::{Clock, KernelSlots, UpdateContext};
use crate::features::antialias;
use crate::features::noise::kernels::NoiseStep;
use crate::features::regularise::kernels::Regularisers;
use crate::frame::{
    AbsoluteSlot, CameraF32, Frame, PROJECT_CHUNK, Slot, Span, Splat2d, TileSpans, add_up, grow,
    grow_cells,
};
use crate::simd::ROW;
use crate::stages::blend::BlendExtra;
use crate::stages::blend_backward::Mode;
use crate::stages::{blend_backward, finite, loss, project, update};
use crate::step::Projected;
use bytemuck::{Pod, Zeroable};
use dapple_engine::sharded::{check_settings, oldest};
use dapple_engine::{
    ComparedView, DensifyPlan, Dropout, HostShipment, LossTerm, NonFiniteReport, Part,
    RenderSettings, Rendered, Sharded, Shipment, ShownPart, Stage, StepReport, StepSettings,
    ViewId, ViewStep,
};
use dapple_scene::{Camera, Error, Result};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

/// Projected Gaussian for another engine, with its index in the model. Its spans follow those of the Gaussians before
/// it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct ShownSplat {
    splat: Splat2d,
    index: u32,
    row: u16,
    rows: u16,
    tiles: u32,
}

/// Results that were not returned yet, by call.
#[derive(Debug, Default)]
pub(super) struct Begun {
    shown: VecDeque<Vec<ShownPart<HostShipment>>>,
    compared: VecDeque<Vec<ComparedView<HostShipment>>>,
    added: VecDeque<Vec<Option<NonFiniteReport>>>,
}

impl Sharded for CpuEngine {
    type Shipment = HostShipment;

    fn set_part(&mut self, part: Part) -> Result<()> {
        self.model.part = Some(part);
        Ok(())
    }

    fn begin_projections(&mut self, steps: &[ViewStep]) -> Result<()> {
        let steps = steps.iter();
        let shown = steps.map(|(view, settings)| self.project_view(*view, settings));
        let shown = shown.collect::<Result<_>>()?;
        self.begun.shown.push_back(shown);
        Ok(())
    }

    fn finish_projections(&mut self) -> Result<Vec<ShownPart<HostShipment>>> {
        oldest(&mut self.begun.shown)
    }

    fn project_camera(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<ShownPart<HostShipment>> {
        let camera = CameraF32::new(camera)?.with(settings);
        Ok(on_pool(self, |engine| {
            engine.project(&camera, settings, &KernelSlots::default())
        }))
    }

    fn render_parts(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        parts: &[HostShipment],
    ) -> Result<Rendered> {
        let camera = CameraF32::new(camera)?.with(settings);
        let gaussians = receive(parts, &mut self.frame)?.len();
        on_pool(self, |engine| {
            let projected = Projected {
                gaussians,
                camera: &camera,
                settings,
                tiles: None,
                extra: BlendExtra::depths(settings.depth),
            };
            projected.run(&mut engine.frame, &mut Clock::start());
        });
        self.frame.counts.gaussians = self.model.part().total as u64;
        Ok(self.image(&camera, settings.depth))
    }

    fn begin_views(&mut self, steps: &[ViewStep], parts: Vec<Vec<HostShipment>>) -> Result<()> {
        let steps = steps.iter().zip(parts);
        let compared = steps.map(|((view, settings), parts)| self.compare(*view, settings, &parts));
        let compared = compared.collect::<Result<_>>()?;
        self.begun.compared.push_back(compared);
        Ok(())
    }

    fn finish_views(&mut self) -> Result<Vec<ComparedView<HostShipment>>> {
        oldest(&mut self.begun.compared)
    }

    fn begin_gradients(
        &mut self,
        steps: &[ViewStep],
        shown: &[ShownPart<HostShipment>],
        sums: &[HostShipment],
    ) -> Result<()> {
        let all = steps.iter().zip(shown.iter().zip(sums));
        let added = all
            .map(|((view, settings), (shown, sums))| self.add_view(*view, settings, shown, sums));
        let added = added.collect::<Result<_>>()?;
        self.begun.added.push_back(added);
        Ok(())
    }

    fn finish_gradients(&mut self) -> Result<Vec<Option<NonFiniteReport>>> {
        oldest(&mut self.begun.added)
    }

    fn weigh(&mut self, plan: &DensifyPlan) -> Result<Vec<u32>> {
        self.weights(plan)
    }

    fn grow_part(&mut self, part: Part) -> Result<()> {
        self.enlarge(part)
    }

    fn take_copies(&mut self, from: &[Vec<u32>]) -> Result<Vec<HostShipment>> {
        Ok(self.copies_of(from))
    }

    fn put_copies(&mut self, to: &[Vec<u32>], copies: &[HostShipment]) -> Result<()> {
        self.take_places(to, copies)
    }

    fn share(&mut self, plan: &DensifyPlan, shared: &[[u32; 2]]) -> Result<()> {
        self.share_places(plan, shared)
    }
}

impl CpuEngine {
    /// Takes a step on this part.
    fn add_view(
        &mut self,
        view: ViewId,
        settings: &StepSettings,
        shown: &ShownPart<HostShipment>,
        sums: &HostShipment,
    ) -> Result<Option<NonFiniteReport>> {
        let camera = self.views.camera(view)?.with(&settings.render);
        self.batch.step(settings.batch)?;
        let mode = Mode::of_step(settings);
        let blocks = self.model.params.count() * ROW;
        put_sums(&mut self.frame, blocks, &shown.indices, &sums.0, mode)?;
        let part = self.model.part();
        let mut slots = KernelSlots {
            gradient: Regularisers::new(settings, part.total),
            after_adam: NoiseStep::new(settings, part, part.len()),
            ..KernelSlots::default()
        };
        self.model.fit_filters(settings.render.antialias);
        let sh_degree = settings.render.sh_degree.min(self.model.sh_degree);
        on_pool(self, |engine| {
            update::run(UpdateContext {
                settings,
                camera: &camera,
                sh_degree,
                mode,
                model: &mut engine.model,
                frame: &engine.frame,
                slots: &mut slots,
            });
            let checks = settings.checks_numbers();
            Ok(checks.then(|| finite::run(&engine.model.params)).flatten())
        })
    }

    /// Projects the Gaussians for a step on a view.
    fn project_view(
        &mut self,
        view: ViewId,
        settings: &StepSettings,
    ) -> Result<ShownPart<HostShipment>> {
        check_settings(settings)?;
        let camera = self.views.camera(view)?.with(&settings.render);
        on_pool(self, |engine| {
            antialias::refresh(settings, &mut engine.model, &engine.views);
        });
        let slots = KernelSlots {
            part: self.model.part(),
            opacity: Dropout::new(settings.features.dropout, settings.seed, settings.step),
            ..KernelSlots::default()
        };
        Ok(on_pool(self, |engine| {
            engine.project(&camera, &settings.render, &slots)
        }))
    }

    /// Renders and compares a view.
    fn compare(
        &mut self,
        view: ViewId,
        settings: &StepSettings,
        parts: &[HostShipment],
    ) -> Result<ComparedView<HostShipment>> {
        let photo = self.views.photo(view)?;
        let camera = self.views.camera(view)?.with(&settings.render);
        let mut clock = Clock::start();
        let origins = receive(parts, &mut self.frame)?;
        let (render, mode) = (&settings.render, Mode::of_step(settings));
        let loss = on_pool(self, |engine| {
            let frame = &mut engine.frame;
            let projected = Projected {
                gaussians: origins.len(),
                camera: &camera,
                settings: render,
                tiles: None,
                extra: BlendExtra::Nothing,
            };
            projected.run(frame, &mut clock);
            let ssim = settings.losses[LossTerm::Ssim];
            let loss = loss::run(&camera, &photo, render.background, ssim, frame);
            clock.lap(Stage::Loss);
            blend_backward::run(&camera, render.max_gaussians_per_tile, mode, frame);
            clock.lap(Stage::BlendBackward);
            loss
        });
        let mut counts = self.frame.counts;
        counts.gaussians = self.model.part().total as u64;
        let mut places = vec![Vec::new(); parts.len()];
        for (place, &part) in origins.iter().enumerate() {
            places[part].push(place);
        }
        let sums = places.iter().map(|places| {
            let sums = self.pool.install(|| sums_of(&self.frame, places, mode));
            HostShipment::from_bytes(sums)
        });
        Ok(ComparedView {
            sums: sums.collect(),
            report: StepReport {
                step: settings.step,
                loss,
                counts,
                stages: clock.stages,
                not_finite: None,
            },
        })
    }

    /// Projects the engine's Gaussians, and returns those that the camera shows.
    fn project(
        &mut self,
        camera: &CameraF32,
        settings: &RenderSettings,
        slots: &KernelSlots,
    ) -> ShownPart<HostShipment> {
        self.model.fit_filters(settings.antialias);
        let sh_degree = settings.sh_degree.min(self.model.sh_degree);
        let filter_3d = self.model.filters(settings.antialias);
        let params = &self.model.params;
        project::run(params, filter_3d, camera, sh_degree, slots, &mut self.frame);
        send(&self.frame, self.model.part(), params.len)
    }
}

/// Returns the visible Gaussians among the first `gaussians` of a frame: their number, the Gaussians, and their spans.
fn send(frame: &Frame, part: Part, gaussians: usize) -> ShownPart<HostShipment> {
    let lists = frame.spans_of[..gaussians].iter().enumerate();
    let visible = lists.filter(|(_, list)| list.tiles > 0);
    let indices: Vec<u32> = visible.map(|(i, _)| i as u32).collect();
    let mut bytes = (indices.len() as u64).to_le_bytes().to_vec();
    for &i in &indices {
        let i = i as usize;
        let TileSpans {
            row, rows, tiles, ..
        } = frame.spans_of[i];
        let splat = frame.splats2d[i];
        bytes.extend_from_slice(bytemuck::bytes_of(&ShownSplat {
            splat,
            index: part.index(i) as u32,
            row,
            rows,
            tiles,
        }));
    }
    for &i in &indices {
        let list = frame.spans_of[i as usize];
        let spans = &frame.spans[i as usize / PROJECT_CHUNK];
        let own = &spans[list.start as usize..][..usize::from(list.rows)];
        bytes.extend_from_slice(bytemuck::cast_slice(own));
    }
    ShownPart {
        indices,
        shipment: HostShipment::from_bytes(bytes),
    }
}

/// Returns the number of Gaussians in the bytes of a part.
fn shown_in(part: &[u8]) -> usize {
    let number = part
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes));
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Fills `splats2d`, `spans_of` and `spans` like `project`, with the Gaussians of all parts in the order of the model.
/// Returns the part of each.
fn receive(parts: &[HostShipment], frame: &mut Frame) -> Result<Vec<usize>> {
    let mut shown = Vec::new();
    for (part, shipment) in parts.iter().enumerate() {
        let n = shown_in(&shipment.0);
        let (splats, mut spans) = shipment
            .0
            .get(size_of::<u64>()..)
            .and_then(|rest| rest.split_at_checked(n.checked_mul(size_of::<ShownSplat>())?))
            .ok_or_else(foreign)?;
        for bytes in splats.chunks_exact(size_of::<ShownSplat>()) {
            let one: ShownSplat = bytemuck::pod_read_unaligned(bytes);
            let taken = usize::from(one.rows) * size_of::<Span>();
            let (mine, others) = spans.split_at_checked(taken).ok_or_else(foreign)?;
            shown.push((one, mine, part));
            spans = others;
        }
    }
    shown.sort_unstable_by_key(|(one, ..)| one.index);
    let total = shown.len();
    grow(&mut frame.splats2d, total, Splat2d::default());
    grow(&mut frame.spans_of, total, TileSpans::default());
    let chunks = total.div_ceil(PROJECT_CHUNK);
    frame.spans.resize_with(chunks, Vec::new);
    frame.spans.iter_mut().for_each(Vec::clear);
    for (place, (one, spans, _)) in shown.iter().enumerate() {
        let own = &mut frame.spans[place / PROJECT_CHUNK];
        frame.splats2d[place] = one.splat;
        frame.spans_of[place] = TileSpans {
            start: own.len() as u32,
            row: one.row,
            rows: one.rows,
            tiles: one.tiles,
        };
        let spans = spans.chunks_exact(size_of::<Span>());
        own.extend(spans.map(bytemuck::pod_read_unaligned::<Span>));
    }
    Ok(shown.iter().map(|(.., part)| *part).collect())
}

fn foreign() -> Error {
    Error::internal("projected Gaussians came from another kind of engine")
}

/// Returns the sums of the slots of Gaussians.
fn sums_of(frame: &Frame, places: &[usize], mode: Mode) -> Vec<u8> {
    let instances = |gaussian: usize| {
        let tiles = frame.spans_of[gaussian].tiles as usize;
        let at = frame.first_instance[gaussian].load(Relaxed) as usize;
        &frame.instance_slot[at..at + tiles]
    };
    let own = places.par_iter();
    let sums = own.clone().map(|&i| add_up(instances(i), &frame.slots));
    let mut bytes = bytemuck::cast_slice(&sums.collect::<Vec<Slot>>()).to_vec();
    if mode.absolute {
        let sums = own.map(|&i| add_up(instances(i), &frame.absolute_slots));
        bytes.extend_from_slice(bytemuck::cast_slice(&sums.collect::<Vec<AbsoluteSlot>>()));
    }
    bytes
}

/// Puts the sums of the shown Gaussians where `update` reads the slots of `gaussians` Gaussians: one instance for each.
fn put_sums(
    frame: &mut Frame,
    gaussians: usize,
    indices: &[u32],
    sums: &[u8],
    mode: Mode,
) -> Result<()> {
    let n = indices.len();
    let (slots, absolute) = sums
        .split_at_checked(n * size_of::<Slot>())
        .filter(|(_, rest)| {
            rest.len() == usize::from(mode.absolute) * n * size_of::<AbsoluteSlot>()
        })
        .ok_or_else(|| Error::internal("sums came for another number of Gaussians"))?;
    frame.slots.clear();
    frame.slots.extend(
        slots
            .chunks_exact(size_of::<Slot>())
            .map(bytemuck::pod_read_unaligned::<Slot>),
    );
    frame.absolute_slots.clear();
    frame.absolute_slots.extend(
        absolute
            .chunks_exact(size_of::<AbsoluteSlot>())
            .map(bytemuck::pod_read_unaligned::<AbsoluteSlot>),
    );
    grow(&mut frame.spans_of, gaussians, TileSpans::default());
    frame.spans_of[..gaussians].fill(TileSpans::default());
    grow_cells(&mut frame.first_instance, gaussians);
    grow(&mut frame.instance_slot, n, 0);
    for (k, &i) in indices.iter().enumerate() {
        let list = frame.spans_of.get_mut(i as usize);
        let list =
            list.ok_or_else(|| Error::internal("sums came for a Gaussian of another part"))?;
        list.tiles = 1;
        frame.first_instance[i as usize].store(k as u32, Relaxed);
        frame.instance_slot[k] = k as u32;
    }
    Ok(())
}
