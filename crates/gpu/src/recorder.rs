//! [`Recorder`]: passes become a recording, and what it was made of is noted.

use crate::buffers::Uses;
use crate::passes::{self, Bits, Code, Entry, Extent, Pass, Plan, Tensor};
use crate::{Buffers, Context};
use dapple_runtime::join::{JOINED_AT, Joins, StorageBinding};
use dapple_runtime::primitives::{Count, RadixSort, SortOn};
use dapple_runtime::{ByteSlice, Groups, Pooled, Recording, wgpu};
use dapple_scene::Result;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many workgroups a dispatch has.
#[derive(Debug, Clone, Copy)]
pub enum Size {
    /// Known to the host.
    Workgroups([u32; 3]),
    /// Counted by the GPU.
    Counted(Entry),
    /// The first; the second for each part, where the kernel runs in parts.
    CountedOrParts(Entry, Entry),
}

impl Size {
    /// One workgroup.
    pub const ONE: Self = Self::Workgroups([1, 1, 1]);

    /// At least `count` workgroups.
    pub fn flat(count: u32) -> Self {
        Self::Workgroups(crate::layout::flat_groups(count))
    }
}

impl From<Entry> for Size {
    fn from(entry: Entry) -> Self {
        Self::Counted(entry)
    }
}

/// A sort that a pass asks for, by the names of its tensors.
#[derive(Debug, Clone, Copy)]
pub struct Sort {
    /// Lowest bits of the keys that are sorted by.
    pub bits: u32,
    /// Whether values are the pairs' places before, which are not read.
    pub numbered: bool,
    /// Keys.
    pub keys: &'static str,
    /// Values.
    pub values: &'static str,
    /// As long as the keys; what it holds is lost.
    pub keys_alt: &'static str,
    /// As long as the values; what it holds is lost.
    pub values_alt: &'static str,
    /// Where the number of pairs is: a tensor, and its word.
    pub count: (&'static str, u32),
    /// At least a workgroup for each block of the sort.
    pub size: Entry,
}

/// Bits of a tile's number that are sorted by at least: views of up to 4096 tiles (a megapixel)
/// share their kernels.
pub const LEAST_TILE_BITS: u32 = 12;

/// Dispatches as they are listed.
#[derive(Debug)]
pub struct Recorder<'a> {
    /// The device, and its kernels.
    pub context: &'a Context,
    /// What kernels are bound to.
    pub buffers: &'a Buffers,
    /// What the command asks for.
    pub bits: Bits,
    /// What there is room for.
    pub extent: Extent,
    /// The photo's slot.
    slot: usize,
    tile_bits: u32,
    borrows: &'static [(&'static str, &'static str)],
    recording: Recording,
    uses: Uses,
}

impl<'a> Recorder<'a> {
    /// For commands with these bits.
    pub fn new(context: &'a Context, buffers: &'a Buffers, bits: Bits) -> Self {
        Self {
            context,
            buffers,
            bits,
            extent: Extent::default(),
            slot: 0,
            tile_bits: LEAST_TILE_BITS,
            borrows: &[],
            recording: Recording::new(),
            uses: Uses::default(),
        }
    }

    /// For what there is room for, and the photo in this slot.
    #[must_use]
    pub fn over(self, extent: &Extent, slot: usize) -> Self {
        let tile_bits = extent.room.tiles.max(1).ilog2() + 1;
        Self {
            extent: *extent,
            slot,
            tile_bits: tile_bits.max(LEAST_TILE_BITS),
            ..self
        }
    }

    /// With tiles numbered in so many bits.
    #[must_use]
    pub fn with_tile_bits(self, tile_bits: u32) -> Self {
        Self { tile_bits, ..self }
    }

    /// Bits that tiles are numbered in.
    pub fn tile_bits(&self) -> u32 {
        self.tile_bits
    }

    /// Appends a plan's passes, those that these bits ask for.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub fn plan(&mut self, plan: Plan) -> Result<()> {
        plan.passes().iter().try_for_each(|pass| self.pass(pass))
    }

    /// Appends a pass, if these bits ask for it, in a span of its name.
    ///
    /// # Errors
    /// A tensor is missing; the driver refuses a kernel; no memory for scratch.
    pub fn pass(&mut self, pass: &Pass) -> Result<()> {
        if !pass.is_part_of(self.bits) {
            return Ok(());
        }
        if self.recording.span_sizes().last().map(|(name, _)| name) != Some(pass.name) {
            self.recording.span(pass.name);
        }
        self.borrows = pass.borrows;
        (pass.record)(self)
    }

    /// Appends a dispatch, or where it runs in parts all of them.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub fn run(&mut self, code: &Code, size: impl Into<Size>) -> Result<()> {
        self.run_with(code, size, &[], &[])
    }

    /// [`Self::run`], with some bindings' tensors given by name, and buffers that belong to this dispatch
    /// alone.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub fn run_with(
        &mut self,
        code: &Code,
        size: impl Into<Size>,
        names: &[(&str, &'static str)],
        own: &[(&str, &wgpu::Buffer)],
    ) -> Result<()> {
        if let Some(constants) = code.constants {
            self.buffers.note(constants, &mut self.uses);
        }
        if let Some(bindings) = self.context.beyond(code, self.bits)? {
            return self.run_joined(code, size.into(), names, &bindings);
        }
        let kernels = self.context.kernels(code, self.bits)?;
        let size = size.into();
        let is_whole = kernels.len() == 1;
        for kernel in &kernels {
            let mut list = own.to_vec();
            for binding in kernel.bindings() {
                if own.iter().any(|(name, _)| *name == binding) {
                    continue;
                }
                list.push((binding, self.buffer_of(binding, names, kernel.label())?));
            }
            let bound = kernel.bind(&self.context.gpu, &list)?;
            let groups = self.groups(size, is_whole)?;
            self.recording.dispatch(bound, groups);
        }
        Ok(())
    }

    /// What a binding is bound to: the tensor that is given for it, that the pass borrows, or of its name.
    fn buffer_of(
        &mut self,
        binding: &str,
        names: &[(&str, &'static str)],
        label: &str,
    ) -> Result<&'a wgpu::Buffer> {
        let mut given = names.iter().chain(self.borrows);
        let borrowed = given.find(|(name, _)| *name == binding);
        let tensor = borrowed.map(|(_, tensor)| *tensor);
        let tensor = tensor.or_else(|| known(binding)).ok_or_else(|| {
            let what = format!("no pass declares \"{binding}\"");
            dapple_scene::Error::internal(what).at(label)
        })?;
        self.buffers.find(tensor, self.slot, &mut self.uses)
    }

    /// Appends a dispatch that binds more storage buffers than the device does: some are put into one buffer
    /// before, and what was written is taken out of it after. Bytes are copied, so no bit changes, whether the
    /// dispatch runs or the engine is halted.
    fn run_joined(
        &mut self,
        code: &Code,
        size: Size,
        names: &[(&str, &'static str)],
        bindings: &[StorageBinding],
    ) -> Result<()> {
        let gpu = &self.context.gpu;
        let mut whole: BTreeMap<String, ByteSlice> = BTreeMap::new();
        for binding in bindings {
            let buffer = self.buffer_of(&binding.name, names, code.shader)?;
            whole.insert(binding.name.clone(), buffer.into());
        }
        let bytes_of = |name: &str| whole.get(name).map_or(0, ByteSlice::len);
        let most = gpu.granted().storage_buffers as usize;
        let joins = Joins::choose(bindings, bytes_of, most).map_err(|e| e.at(code.shader))?;
        let mut joined: Vec<(&str, ByteSlice)> = Vec::new();
        let mut back = Vec::new();
        for group in &joins.groups {
            let (members, bytes) = group.layout(bytes_of);
            let buffer: ByteSlice = (&gpu.zeros::<u8>(code.shader, bytes as usize)?).into();
            for member in members {
                let part = buffer.part(member.offset, member.bytes)?;
                let own = &whole[member.name];
                self.recording.copy(own.clone(), part.clone())?;
                if member.writes {
                    back.push((part, own.clone()));
                }
            }
            joined.push((&group.name, buffer));
        }
        let begins = joins.begins(bytes_of);
        if !begins.is_empty() {
            joined.push((JOINED_AT, (&gpu.uniform_of(JOINED_AT, &begins)?).into()));
        }
        let kernels = self.context.joined(code, self.bits, &joins)?;
        for kernel in &kernels {
            let mut list = Vec::new();
            for binding in kernel.bindings() {
                let found = joined.iter().find(|(name, _)| *name == binding);
                let slice = match found {
                    Some((_, slice)) => slice.clone(),
                    None => self.buffer_of(binding, names, kernel.label())?.into(),
                };
                list.push((binding, slice));
            }
            let bound = kernel.bind_slices(gpu, &list)?;
            let groups = self.groups(size, kernels.len() == 1)?;
            self.recording.dispatch(bound, groups);
        }
        let mut back = back.into_iter();
        back.try_for_each(|(part, own)| self.recording.copy(part, own))
    }

    fn groups(&mut self, size: Size, is_whole: bool) -> Result<Groups> {
        let entry = match size {
            Size::Workgroups(groups) => return Ok(Groups::Direct(groups)),
            Size::Counted(entry) => entry,
            Size::CountedOrParts(whole, _) if is_whole => whole,
            Size::CountedOrParts(_, part) => part,
        };
        let buffer = self.buffers.find("groups", self.slot, &mut self.uses)?;
        Ok(Groups::Indirect(buffer.clone(), entry.offset()))
    }

    /// Appends somebody else's work, of that name, to the pass's span; the recording holds until there is other work of
    /// that name.
    pub fn routine(&mut self, name: &'static str, work: Recording) {
        self.buffers.note(name, &mut self.uses);
        self.recording.absorb(work);
    }

    /// Appends a sort.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub fn sort(&mut self, sort: &Sort) -> Result<()> {
        let gpu = &self.context.gpu;
        let kernels = self.context.radix_sort(sort.bits, sort.numbered)?;
        let groups = self.groups(sort.size.into(), true)?;
        let mut find = |name| self.buffers.find(name, self.slot, &mut self.uses);
        let keys = find(sort.keys)?;
        let words = RadixSort::scratch_words(gpu, keys.size() / 4);
        let scratch = gpu.buffer("radix_scratch", words * 4)?;
        let on = SortOn {
            keys,
            values: find(sort.values)?,
            keys_alt: find(sort.keys_alt)?,
            values_alt: find(sort.values_alt)?,
            count: Count {
                buffer: find(sort.count.0)?,
                word: sort.count.1,
            },
            scratch: &scratch,
            groups,
        };
        kernels.record(gpu, &mut self.recording, on)?;
        self.recording.keep(scratch);
        Ok(())
    }

    /// Keeps a buffer that belongs to a dispatch alone.
    pub fn keep(&mut self, buffer: Arc<Pooled>) {
        self.recording.keep(buffer);
    }

    /// Bytes of a tensor, by which a dispatch is sized whose items nobody counts.
    ///
    /// # Errors
    /// It is missing.
    pub fn bytes_of(&mut self, tensor: &'static str) -> Result<u64> {
        let buffer = self.buffers.find(tensor, self.slot, &mut self.uses)?;
        Ok(buffer.size())
    }

    /// State of Gaussians that is there, with its planes: the recording holds until there is more of it, or
    /// less.
    pub fn state(&mut self) -> Vec<(&'static Tensor, u32)> {
        for tensor in passes::tensors().filter(|tensor| tensor.is_state()) {
            self.buffers.note(tensor.name, &mut self.uses);
        }
        self.buffers.state(&self.extent)
    }

    /// Appends what was recorded for a part.
    pub fn append(&mut self, part: &Recording, uses: &Uses) {
        self.recording.append(part.clone());
        self.uses.extend(uses);
    }

    /// What was listed.
    pub fn finish(self) -> Recording {
        self.recording
    }

    /// The same, with what it was made of.
    pub fn finish_with_uses(self) -> (Recording, Uses) {
        (self.recording, self.uses)
    }
}

/// The tensor of this name, with a name that stays.
fn known(binding: &str) -> Option<&'static str> {
    let mut all = passes::tensors();
    all.find(|tensor| tensor.name == binding)
        .map(|tensor| tensor.name)
}
