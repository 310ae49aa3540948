//! [`Recorder`]: records passes in a command list, and notes the dependencies of the list.

use crate::buffers::Uses;
use crate::passes::{Bits, BufferSizes, Code, Entry, Tensor};
use crate::{Buffers, Context};
use dapple_runtime::join::{JOINED_AT, Joins, StorageBinding};
use dapple_runtime::primitives::{Count, RadixSort, SortOn};
use dapple_runtime::{ByteSlice, CommandList, Groups, Pooled, wgpu};
use dapple_scene::Result;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of workgroups of a dispatch.
#[derive(Debug, Clone, Copy)]
pub enum Size {
    /// Known to the host.
    Workgroups([u32; 3]),
    /// Counted by the GPU.
    Counted(Entry),
    /// The first entry; the second for each part, if the kernel runs in parts.
    CountedOrParts(Entry, Entry),
}

impl Size {
    /// One workgroup.
    pub const ONE: Self = Self::Workgroups([1, 1, 1]);

    /// Returns the size for at least `count` workgroups.
    pub fn flat(count: u32) -> Self {
        Self::Workgroups(crate::layout::flat_groups(count))
    }
}

impl From<Entry> for Size {
    fn from(entry: Entry) -> Self {
        Self::Counted(entry)
    }
}

/// A sort of a pass, by the names of its tensors.
#[derive(Debug, Clone, Copy)]
pub struct Sort {
    /// Lowest bits of the keys that are sorted by.
    pub bits: u32,
    /// True if values are the pairs' places before the sort, which are not read.
    pub numbered: bool,
    /// Keys.
    pub keys: &'static str,
    /// Values.
    pub values: &'static str,
    /// As long as the keys; its contents are overwritten.
    pub keys_alt: &'static str,
    /// As long as the values; its contents are overwritten.
    pub values_alt: &'static str,
    /// Place of the number of pairs: a tensor, and its word.
    pub count: (&'static str, u32),
    /// At least a workgroup for each block of the sort.
    pub size: Entry,
}

/// Least bits of a tile's number in the sort: views of up to 4096 tiles (a megapixel) share their kernels.
pub const LEAST_TILE_BITS: u32 = 12;

/// Builder of a command list.
#[derive(Debug)]
pub struct Recorder<'a> {
    /// The device, and its kernels.
    pub context: &'a Context,
    /// Buffers that kernels bind.
    pub buffers: &'a Buffers,
    /// Bits of the command.
    pub bits: Bits,
    /// Inputs of the buffer sizes.
    pub sizes: BufferSizes,
    /// Photo slot.
    slot: usize,
    tile_bits: u32,
    borrows: &'static [(&'static str, &'static str)],
    recording: CommandList,
    uses: Uses,
}

impl<'a> Recorder<'a> {
    /// Creates a recorder for commands with these bits.
    pub fn new(context: &'a Context, buffers: &'a Buffers, bits: Bits) -> Self {
        Self {
            context,
            buffers,
            bits,
            sizes: BufferSizes::default(),
            slot: 0,
            tile_bits: LEAST_TILE_BITS,
            borrows: &[],
            recording: CommandList::new(),
            uses: Uses::default(),
        }
    }

    /// Sets the buffer sizes and the photo slot.
    #[must_use]
    pub fn over(self, sizes: &BufferSizes, slot: usize) -> Self {
        let tile_bits = sizes.capacity.tiles.max(1).ilog2() + 1;
        Self {
            sizes: *sizes,
            slot,
            tile_bits: tile_bits.max(LEAST_TILE_BITS),
            ..self
        }
    }

    /// Sets the bits of a tile's number.
    #[must_use]
    pub fn with_tile_bits(self, tile_bits: u32) -> Self {
        Self { tile_bits, ..self }
    }

    /// Returns the bits of a tile's number.
    pub fn tile_bits(&self) -> u32 {
        self.tile_bits
    }

    /// Begins a pass: a span of its name, and the tensors that it borrows.
    pub(crate) fn begin(
        &mut self,
        name: &'static str,
        borrows: &'static [(&'static str, &'static str)],
    ) {
        if self.recording.span_sizes().last().map(|(name, _)| name) != Some(name) {
            self.recording.span(name);
        }
        self.borrows = borrows;
    }

    /// Appends a dispatch, or all its parts if it runs in parts.
    ///
    /// # Errors
    /// See [`Self::pass`].
    pub fn run(&mut self, code: &Code, size: impl Into<Size>) -> Result<()> {
        self.run_with(code, size, &[], &[])
    }

    /// Calls `record` with other bits of the command.
    ///
    /// # Errors
    /// Those of `record`.
    pub fn with_bits(
        &mut self,
        of: fn(Bits) -> Bits,
        record: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let own = self.bits;
        self.bits = of(own);
        let recorded = record(self);
        self.bits = own;
        recorded
    }

    /// Works like [`Self::run`], with some bindings' tensors given by name, and with buffers that only this dispatch
    /// uses.
    ///
    /// # Errors
    /// See [`Self::pass`].
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

    /// Returns the buffer of a binding: the tensor that is given for it, that the pass borrows, or that has its name.
    fn buffer_of(
        &mut self,
        binding: &str,
        names: &[(&str, &'static str)],
        label: &str,
    ) -> Result<&'a wgpu::Buffer> {
        let mut given = names.iter().chain(self.borrows);
        let borrowed = given.find(|(name, _)| *name == binding);
        let tensor = borrowed.map(|(_, tensor)| *tensor);
        let known = || {
            self.context
                .declared
                .tensor(binding)
                .map(|tensor| tensor.name)
        };
        let tensor = tensor.or_else(known).ok_or_else(|| {
            let what = format!("no pass declares \"{binding}\"");
            dapple_scene::Error::internal(what).at(label)
        })?;
        self.buffers.find(tensor, self.slot, &mut self.uses)
    }

    /// Appends a dispatch that binds more storage buffers than the device allows. Some buffers are copied into one
    /// before, and the written ones are copied back after it. Bytes are copied, so no bit changes, whether the dispatch
    /// runs or the engine is halted.
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
        let offset = self.context.declared.entries.offset(entry)?;
        Ok(Groups::Indirect(buffer.clone(), offset))
    }

    /// Appends a caller's command list, of that name, to the pass's span. The result is valid until there is another
    /// list of that name.
    pub fn routine(&mut self, name: &'static str, work: CommandList) {
        self.buffers.note(name, &mut self.uses);
        self.recording.absorb(work);
    }

    /// Appends a sort.
    ///
    /// # Errors
    /// See [`Self::pass`].
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

    /// Keeps a buffer that only one dispatch uses.
    pub fn keep(&mut self, buffer: Arc<Pooled>) {
        self.recording.keep(buffer);
    }

    /// Returns the bytes of a tensor, for the size of a dispatch whose items are not counted.
    ///
    /// # Errors
    /// The tensor is missing.
    pub fn bytes_of(&mut self, tensor: &'static str) -> Result<u64> {
        let buffer = self.buffers.find(tensor, self.slot, &mut self.uses)?;
        Ok(buffer.size())
    }

    /// Returns the buffers of Gaussians' state that exist, with their planes. The command list is valid until such a
    /// buffer is added or removed.
    pub fn state(&mut self) -> Vec<(&'static Tensor, u32)> {
        let declared = self.context.declared;
        for tensor in declared.state() {
            self.buffers.note(tensor.name, &mut self.uses);
        }
        self.buffers.state(declared, &self.sizes)
    }

    /// Appends the command list of a part.
    pub fn append(&mut self, part: &CommandList, uses: &Uses) {
        self.recording.append(part.clone());
        self.uses.extend(uses);
    }

    /// Returns the command list.
    pub fn finish(self) -> CommandList {
        self.recording
    }

    /// Returns the command list and its dependencies.
    pub fn finish_with_uses(self) -> (CommandList, Uses) {
        (self.recording, self.uses)
    }
}
