//! [`CommandList`]: a command list of dispatches, recorded once and replayed every step.
//!
//! wgpu has no command buffers that can be submitted twice, so a replay encodes the list again: about a microsecond of
//! host time per dispatch, without allocations in Dapple. Values that change from replay to replay travel in the
//! immediates, and larger ones in a block of parameters ([`Values`]).

use crate::buffer::ByteSlice;
use crate::commands::{self, Command, Download, Replay};
use crate::kernel::Bound;
use crate::parameters::{RingBuffer, Values};
use crate::{Gpu, Pooled, Slice};
use bytemuck::Pod;
use dapple_base::Result;
use serde::Serialize;
use std::marker::PhantomData;
use std::sync::Arc;

pub use crate::commands::{Dispatch, Groups};

/// Number of operations in one replay of a command list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Named spans.
    pub spans: usize,
    /// Dispatches in all of them.
    pub dispatches: usize,
    /// Dispatches whose workgroups the device counted itself.
    pub indirect: usize,
    /// Dispatches that take immediates. A replay writes nothing else from the host, and immediates travel with the
    /// commands.
    pub host_writes: usize,
}

/// Granularity of the timing of a command list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// One time per span.
    Spans,
    /// One time per dispatch: more passes, which disturb more.
    Dispatches,
}

/// Commands that another command list includes between its own, with their input and output buffers.
#[derive(Debug, Clone)]
pub struct Routine {
    /// The commands; they take nothing from the host.
    pub recording: CommandList,
    /// Buffers to fill before.
    pub inputs: Vec<Arc<Pooled>>,
    /// Buffers that hold the results after.
    pub outputs: Vec<Arc<Pooled>>,
}

/// Command list: dispatches and other commands in named spans, in order. It keeps the buffers that it is bound to.
#[derive(Debug, Clone, Default)]
pub struct CommandList {
    commands: Vec<Command>,
    /// Names, and the index of the first command of each.
    spans: Vec<(&'static str, usize)>,
    downloads: usize,
    /// Other buffers that the list keeps.
    kept: Vec<Arc<Pooled>>,
}

impl CommandList {
    /// Creates an empty command list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a span: the dispatches that follow are timed together under `name`.
    pub fn span(&mut self, name: &'static str) {
        self.spans.push((name, self.commands.len()));
    }

    /// Appends a dispatch to the last span.
    pub fn dispatch(&mut self, bound: Bound, groups: Groups) {
        self.push(Command::Dispatch(Dispatch { bound, groups }));
    }

    /// Keeps a buffer that one of the dispatches is bound to and that has no other owner.
    pub fn keep(&mut self, buffer: Arc<Pooled>) {
        self.kept.push(buffer);
    }

    fn push(&mut self, command: Command) {
        if self.spans.is_empty() {
            self.span("");
        }
        self.commands.push(command);
    }

    /// Iterates over each span's name and commands, in order.
    fn lists(&self) -> impl Iterator<Item = (&'static str, &[Command])> + '_ {
        let ends = self.spans.iter().skip(1).map(|(_, first)| *first);
        let ends = ends.chain([self.commands.len()]);
        let spans = self.spans.iter().zip(ends);
        spans.map(|((name, first), end)| (*name, &self.commands[*first..end]))
    }

    /// Appends a command that sets bytes to 0.
    ///
    /// # Errors
    /// A range that is not whole words.
    pub fn clear(&mut self, part: impl Into<ByteSlice>) -> Result<()> {
        let part = part.into();
        commands::whole_words(&part)?;
        self.push(Command::Clear(part));
        Ok(())
    }

    /// Appends a copy.
    ///
    /// # Errors
    /// Lengths that differ, ranges that are not whole words, or two ranges of one buffer.
    pub fn copy(&mut self, from: impl Into<ByteSlice>, to: impl Into<ByteSlice>) -> Result<()> {
        let (from, to) = (from.into(), to.into());
        commands::check_copy(&from, &to)?;
        self.push(Command::Copy { from, to });
        Ok(())
    }

    /// Appends a command that copies `data` into `to` in every replay. The data are sent to the device once, in this
    /// call.
    ///
    /// # Errors
    /// See [`Self::copy`] for the errors; also no memory.
    pub fn upload<T: Pod>(&mut self, gpu: &Gpu, data: &[T], to: &Slice<T>) -> Result<()> {
        let to = ByteSlice::from(to);
        commands::whole_words(&to)?;
        self.copy(commands::staged(gpu, data)?, to)
    }

    /// Appends a copy to the host: a [`Self::replay`] returns it, in the order of the commands around it.
    ///
    /// # Errors
    /// A range that is not whole words.
    pub fn download<T: Pod>(&mut self, from: &Slice<T>) -> Result<Download<T>> {
        let from = ByteSlice::from(from);
        commands::whole_words(&from)?;
        let number = self.downloads;
        self.downloads += 1;
        self.push(Command::Download(number, from));
        Ok(Download {
            number,
            values: PhantomData,
        })
    }

    /// Appends another command list without its downloads, which no caller can request.
    pub fn append(&mut self, other: Self) {
        for (name, list) in other.lists() {
            self.span(name);
            let list = list
                .iter()
                .filter(|command| !matches!(command, Command::Download(..)));
            self.commands.extend(list.cloned());
        }
        self.kept.extend(other.kept);
    }

    /// Appends the commands of another command list to the last span, without its spans and downloads.
    pub fn absorb(&mut self, other: Self) {
        let list = other.commands.into_iter();
        let list = list.filter(|command| !matches!(command, Command::Download(..)));
        list.for_each(|command| self.push(command));
        self.kept.extend(other.kept);
    }

    fn dispatches(&self) -> impl Iterator<Item = (&'static str, &Dispatch)> + '_ {
        self.lists().flat_map(|(name, list)| {
            let list = list.iter().filter_map(Command::dispatch);
            list.map(move |dispatch| (name, dispatch))
        })
    }

    /// Iterates over each dispatch's span and kernel, in order.
    pub fn dispatch_names(&self) -> impl Iterator<Item = (&'static str, &str)> + '_ {
        let all = self.dispatches();
        all.map(|(name, dispatch)| (name, dispatch.bound.label()))
    }

    /// Iterates over each span's name and number of dispatches, in order.
    pub fn span_sizes(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        self.lists().map(|(name, list)| {
            let dispatches = list.iter().filter_map(Command::dispatch);
            (name, dispatches.count())
        })
    }

    /// Returns the number of dispatches in all spans.
    pub fn len(&self) -> usize {
        self.dispatches().count()
    }

    /// Returns true if the list has no commands.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Returns the number of operations in one replay.
    pub fn work(&self) -> Work {
        let all = || self.dispatches().map(|(_, dispatch)| dispatch);
        Work {
            spans: self.spans.len(),
            dispatches: all().count(),
            indirect: all()
                .filter(|d| matches!(d.groups, Groups::Indirect(..)))
                .count(),
            host_writes: all().filter(|d| d.bound.has_immediates()).count(),
        }
    }

    /// Returns true if the commands depend on values that the host writes for a replay.
    pub(crate) fn takes_parameters(&self) -> bool {
        let mut all = self.dispatches().map(|(_, dispatch)| &dispatch.bound);
        all.any(|bound| bound.has_immediates() || bound.ring().is_some())
    }

    /// Encodes all commands except downloads; consecutive dispatches are one pass.
    pub fn encode(&self, encoder: &mut wgpu::CommandEncoder, immediates: &[u8]) {
        self.encode_with(encoder, Values::immediates(immediates));
    }

    /// [`Self::encode`], with parameters too. At most [`BLOCKS`](crate::BLOCKS) replays with parameters may be encoded
    /// before the first of them is submitted.
    pub fn encode_with(&self, encoder: &mut wgpu::CommandEncoder, values: Values<'_>) {
        let block = self.write(values);
        for run in runs(&self.commands) {
            encode_run(encoder, run, (values, block), (None, None));
        }
    }

    /// [`Self::encode`] of a list that takes nothing from the host, into a pass that remains open.
    pub(crate) fn encode_onto(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        pass: &mut Option<wgpu::ComputePass<'static>>,
    ) {
        for run in runs(&self.commands) {
            if is_dispatches(run) {
                let descriptor = wgpu::ComputePassDescriptor::default();
                let pass = pass.get_or_insert_with(|| {
                    encoder.begin_compute_pass(&descriptor).forget_lifetime()
                });
                encode_dispatches(pass, run, (Values::default(), 0));
            } else {
                *pass = None;
                run.iter().for_each(|command| command.encode(encoder));
            }
        }
    }

    /// Writes parameters if one of the kernels takes them, and returns their offset.
    fn write(&self, values: Values<'_>) -> u32 {
        let mut all = self.dispatches();
        let ring = all.find_map(|(_, dispatch)| dispatch.bound.ring());
        ring.map_or(0, |ring: &RingBuffer| ring.write(values))
    }

    /// Encodes each span, or each dispatch, between two timestamps: `2 * i` and `2 * i + 1` of `queries`. A span
    /// without dispatches is not timed.
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
        let values = (values, self.write(values));
        let mut next = 0;
        for (name, list) in self.lists() {
            let is_dispatch = |run: &&[Command]| run.iter().any(|one| one.dispatch().is_some());
            let runs: Vec<&[Command]> = match detail {
                Detail::Spans => runs(list).collect(),
                Detail::Dispatches => list.chunks(1).collect(),
            };
            let timed = runs.iter().filter(|run| is_dispatch(run)).count();
            let mut seen = 0;
            for run in runs {
                let mut at = (None, None);
                if is_dispatch(&run) {
                    seen += 1;
                    let each = detail == Detail::Dispatches;
                    at.0 = (each || seen == 1).then_some(next);
                    at.1 = (each || seen == timed).then_some(next + 1);
                    next += if at.1.is_some() { 2 } else { 0 };
                }
                let writes = wgpu::ComputePassTimestampWrites {
                    query_set: queries,
                    beginning_of_pass_write_index: at.0,
                    end_of_pass_write_index: at.1,
                };
                let writes = (at != (None, None)).then_some(writes);
                encode_run(encoder, run, values, (Some(name), writes));
            }
        }
    }

    /// Submits all commands except downloads, in a batch with the command lists before and after, if that saves time.
    /// For command lists that take the device less time than a submission takes the host. All other calls to the device
    /// through [`Gpu`] come after it. The last lists of a sequence may remain pending until then: [`Gpu::flush`]
    /// submits them.
    pub fn submit_batched(&self, gpu: &Gpu) {
        // Parameters and immediates are written ahead of later submissions.
        if gpu.shares_submissions() && !self.takes_parameters() {
            gpu.link()
                .submit_batched(|encoder, pass| self.encode_onto(encoder, pass));
        } else {
            self.submit(gpu, &[]);
        }
    }

    /// Submits all commands except downloads at once.
    pub fn submit(&self, gpu: &Gpu, immediates: &[u8]) {
        self.submit_with(gpu, Values::immediates(immediates));
    }

    /// [`Self::submit`], with parameters too.
    pub fn submit_with(&self, gpu: &Gpu, values: Values<'_>) {
        let mut encoder = gpu.encoder();
        self.encode_with(&mut encoder, values);
        gpu.submit(encoder);
    }

    /// Submits all commands at once, with the downloads.
    ///
    /// # Errors
    /// No memory for the copies, a lost device.
    pub fn replay(&self, gpu: &Gpu, values: Values<'_>) -> Result<Replay> {
        let mut encoder = gpu.encoder();
        let block = self.write(values);
        let mut arriving: Vec<Option<_>> = (0..self.downloads).map(|_| None).collect();
        for run in runs(&self.commands) {
            if let [Command::Download(number, from)] = run {
                let count = from.bytes as usize;
                let read = gpu.begin_read(&mut encoder, &from.buffer, from.offset, count)?;
                arriving[*number] = Some(read);
            }
            encode_run(&mut encoder, run, (values, block), (None, None));
        }
        let submission = gpu.submit(encoder);
        for readback in arriving.iter_mut().flatten() {
            readback.submitted(submission.clone());
        }
        Ok(Replay {
            submission,
            arriving,
        })
    }
}

/// Splits commands into runs of consecutive dispatches, and single other commands.
fn runs(all: &[Command]) -> impl Iterator<Item = &[Command]> {
    all.chunk_by(|a, b| a.dispatch().is_some() && b.dispatch().is_some())
}

/// Encodes dispatches into a pass of this name and timestamps, or another command.
fn encode_run(
    encoder: &mut wgpu::CommandEncoder,
    run: &[Command],
    (values, block): (Values<'_>, u32),
    (label, timestamp_writes): (Option<&str>, Option<wgpu::ComputePassTimestampWrites<'_>>),
) {
    if !is_dispatches(run) {
        run.iter().for_each(|command| command.encode(encoder));
        return;
    }
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
        label,
        timestamp_writes,
    });
    encode_dispatches(&mut pass, run, (values, block));
}

/// Returns true if the commands of a run are dispatches: either all of them are, or none.
fn is_dispatches(run: &[Command]) -> bool {
    run.first()
        .is_some_and(|command| command.dispatch().is_some())
}

fn encode_dispatches(
    pass: &mut wgpu::ComputePass<'_>,
    run: &[Command],
    (values, block): (Values<'_>, u32),
) {
    for (number, Dispatch { bound, groups }) in run.iter().filter_map(Command::dispatch).enumerate()
    {
        if number == 0 {
            bound.tally.dispatched(run.len());
        }
        bound.set(pass, values, block);
        match groups {
            Groups::Direct([x, y, z]) => pass.dispatch_workgroups(*x, *y, *z),
            Groups::Indirect(buffer, offset) => pass.dispatch_workgroups_indirect(buffer, *offset),
        }
    }
}
