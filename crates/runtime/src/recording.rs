//! [`Recording`]: dispatches, listed once and replayed every step.
//!
//! wgpu has no command buffers that can be submitted twice, so a replay encodes the list anew: about
//! a microsecond of host time a dispatch, nothing allocated by us. What changes from replay to
//! replay travels in the immediates, and what is more than they hold in a block of parameters ([`Values`]).

use crate::Gpu;
use crate::kernel::Bound;
use crate::parameters::{Ring, Values};
use serde::Serialize;

/// How many workgroups to run.
#[derive(Debug, Clone)]
pub enum Groups {
    /// Known to the host.
    Direct([u32; 3]),
    /// Written by the GPU: three `u32` at an offset in bytes.
    Indirect(wgpu::Buffer, u64),
}

impl Groups {
    /// At least `count` workgroups, in two dimensions where one does not hold them. Kernels take
    /// `x + y * num_workgroups.x` and return beyond their own count.
    pub fn flat(count: u32) -> Self {
        let x = count.clamp(1, 32_768);
        Self::Direct([x, count.div_ceil(x), 1])
    }
}

/// One dispatch.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// Kernel and buffers.
    pub bound: Bound,
    /// How many workgroups.
    pub groups: Groups,
}

/// What one replay of a recording does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Named spans.
    pub spans: usize,
    /// Dispatches in all of them.
    pub dispatches: usize,
    /// Those whose workgroups the device counted itself.
    pub indirect: usize,
    /// Dispatches that take immediates: all that a replay writes from the host, and it travels with
    /// the commands.
    pub host_writes: usize,
}

/// How finely a recording is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Each span.
    Spans,
    /// Each dispatch: more passes, which disturb more.
    Dispatches,
}

/// Dispatches in named spans, in order.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    spans: Vec<(&'static str, Vec<Dispatch>)>,
}

impl Recording {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a span: the dispatches that follow are timed together under `name`.
    pub fn span(&mut self, name: &'static str) {
        self.spans.push((name, Vec::new()));
    }

    /// Appends a dispatch to the last span.
    pub fn dispatch(&mut self, bound: Bound, groups: Groups) {
        if self.spans.is_empty() {
            self.span("");
        }
        if let Some((_, list)) = self.spans.last_mut() {
            list.push(Dispatch { bound, groups });
        }
    }

    /// Appends another recording.
    pub fn append(&mut self, other: Self) {
        self.spans.extend(other.spans);
    }

    /// Each dispatch's span and kernel, in order.
    pub fn dispatch_names(&self) -> impl Iterator<Item = (&'static str, &str)> + '_ {
        self.spans
            .iter()
            .flat_map(|(name, list)| list.iter().map(|d| (*name, d.bound.label())))
    }

    /// Each span's name and number of dispatches, in order.
    pub fn span_sizes(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        self.spans.iter().map(|(name, list)| (*name, list.len()))
    }

    /// Dispatches in all spans.
    pub fn len(&self) -> usize {
        self.spans.iter().map(|(_, list)| list.len()).sum()
    }

    /// Whether there is nothing to dispatch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What one replay does.
    pub fn work(&self) -> Work {
        let all = || self.spans.iter().flat_map(|(_, list)| list);
        Work {
            spans: self.spans.len(),
            dispatches: all().count(),
            indirect: all()
                .filter(|d| matches!(d.groups, Groups::Indirect(..)))
                .count(),
            host_writes: all().filter(|d| d.bound.has_immediates()).count(),
        }
    }

    /// Encodes all of it into one pass.
    pub fn encode(&self, encoder: &mut wgpu::CommandEncoder, immediates: &[u8]) {
        self.encode_with(encoder, Values::immediates(immediates));
    }

    /// [`Self::encode`], with parameters too. At most [`BLOCKS`](crate::BLOCKS) replays that take some may be
    /// encoded before the first of them is submitted.
    pub fn encode_with(&self, encoder: &mut wgpu::CommandEncoder, values: Values<'_>) {
        let block = self.write(values);
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for (_, list) in &self.spans {
            encode_list(&mut pass, list, values, block);
        }
    }

    /// Writes parameters where one of the kernels takes them; where they are.
    fn write(&self, values: Values<'_>) -> u32 {
        let mut all = self.spans.iter().flat_map(|(_, list)| list);
        let ring = all.find_map(|dispatch| dispatch.bound.ring());
        ring.map_or(0, |ring: &Ring| ring.write(values))
    }

    /// Encodes each span, or each dispatch, into a pass of its own, between two timestamps: `2 * i`
    /// and `2 * i + 1` of `queries`.
    pub fn encode_timed(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        immediates: &[u8],
        queries: &wgpu::QuerySet,
        detail: Detail,
    ) {
        self.encode_timed_with(encoder, Values::immediates(immediates), queries, detail);
    }

    /// [`Self::encode_timed`], with parameters too.
    pub fn encode_timed_with(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        values: Values<'_>,
        queries: &wgpu::QuerySet,
        detail: Detail,
    ) {
        let block = self.write(values);
        let passes = self.spans.iter().flat_map(|(name, list)| {
            let longest = match detail {
                Detail::Spans => list.len(),
                Detail::Dispatches => 1,
            };
            list.chunks(longest.max(1)).map(move |part| (name, part))
        });
        for (index, (name, list)) in (0..).step_by(2).zip(passes) {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: Some(name),
                timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                    query_set: queries,
                    beginning_of_pass_write_index: Some(index),
                    end_of_pass_write_index: Some(index + 1),
                }),
            });
            encode_list(&mut pass, list, values, block);
        }
    }

    /// Submits all of it at once.
    pub fn submit(&self, gpu: &Gpu, immediates: &[u8]) {
        self.submit_with(gpu, Values::immediates(immediates));
    }

    /// [`Self::submit`], with parameters too.
    pub fn submit_with(&self, gpu: &Gpu, values: Values<'_>) {
        let mut encoder = gpu.encoder();
        self.encode_with(&mut encoder, values);
        gpu.submit(encoder);
    }
}

fn encode_list(
    pass: &mut wgpu::ComputePass<'_>,
    list: &[Dispatch],
    values: Values<'_>,
    block: u32,
) {
    if let Some(first) = list.first() {
        first.bound.tally.dispatched(list.len());
    }
    for Dispatch { bound, groups } in list {
        bound.set(pass, values, block);
        match groups {
            Groups::Direct([x, y, z]) => pass.dispatch_workgroups(*x, *y, *z),
            Groups::Indirect(buffer, offset) => pass.dispatch_workgroups_indirect(buffer, *offset),
        }
    }
}
