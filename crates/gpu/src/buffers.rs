//! [`Buffers`]: the engine's buffers by the names that shaders give them, and since when each is there.
//!
//! 1. Whatever is put here has a *generation* from one count: a buffer that replaces another has a new one.
//!    Recordings note the generations of what they are bound to, and hold while these are the present ones
//!    ([`Uses`]); nobody says that recordings are to be made anew.
//! 2. [`Buffers::fit`] makes what the passes declare, as large as there is to be room for: all of it, or,
//!    where the device has no memory for one, nothing.
//! 3. What changes with the view, photos and samples of depth, has a place for each of the photos' slots.

use crate::passes::{self, Axis, Bits, Extent, Tensor, Use, WORD};
use crate::{Context, layout};
use dapple_runtime::{Gpu, Pooled, wgpu};
use dapple_scene::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Clone)]
struct Held {
    buffer: Arc<Pooled>,
    since: u64,
}

/// Buffers by name.
#[derive(Debug, Clone, Default)]
pub struct Buffers {
    by_name: BTreeMap<&'static str, Held>,
    by_slot: BTreeMap<(&'static str, usize), Held>,
    /// What is no buffer, and yet recordings depend on.
    marks: BTreeMap<&'static str, u64>,
    /// The last generation that was given.
    now: u64,
}

/// What something was made of: names, slots, and their generations; 0 = it was not there.
#[derive(Debug, Clone, Default)]
pub struct Uses(BTreeMap<(&'static str, Option<usize>), u64>);

impl Uses {
    /// Takes in what a part was made of.
    pub fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    /// Whether all of it is as it was.
    pub fn are_current(&self, buffers: &Buffers) -> bool {
        let mut all = self.0.iter();
        all.all(|((name, slot), since)| buffers.since(name, *slot) == *since)
    }
}

/// State of Gaussians to carry over where planes grow.
#[derive(Debug, Clone, Copy)]
pub struct Carry {
    /// The first so many Gaussians.
    pub gaussians: u32,
    /// Stride of the planes that they are in.
    pub stride: u32,
}

impl Buffers {
    /// Adds or replaces a buffer.
    pub fn set(&mut self, name: &'static str, buffer: Arc<Pooled>) {
        let since = self.next();
        self.by_name.insert(name, Held { buffer, since });
    }

    /// The same for one of the photos' slots; nothing happens if it is that buffer already.
    pub fn set_in_slot(&mut self, name: &'static str, slot: usize, buffer: &Arc<Pooled>) {
        let held = self.by_slot.get(&(name, slot));
        if held.is_none_or(|held| !Arc::ptr_eq(&held.buffer, buffer)) {
            let since = self.next();
            let buffer = Arc::clone(buffer);
            self.by_slot.insert((name, slot), Held { buffer, since });
        }
    }

    /// Takes all buffers of slots away.
    pub fn clear_slots(&mut self) {
        self.by_slot.clear();
        self.next();
    }

    /// Takes a buffer away.
    pub fn remove(&mut self, name: &'static str) {
        if self.by_name.remove(name).is_some() {
            self.next();
        }
    }

    /// Something that is no buffer has changed.
    pub fn touch(&mut self, name: &'static str) {
        let since = self.next();
        self.marks.insert(name, since);
    }

    fn next(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// The last generation: as long as it stays, nothing has changed.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Whether there is such a buffer.
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// A buffer that must be there.
    ///
    /// # Errors
    /// It is not: a mistake of ours.
    pub fn get(&self, name: &str) -> Result<&wgpu::Buffer> {
        let held = self.by_name.get(name).ok_or_else(|| missing(name))?;
        Ok(&held.buffer)
    }

    /// The buffer that shaders of a recording for this slot find by that name, whose use is noted.
    ///
    /// # Errors
    /// It is not there: a mistake of ours.
    pub fn find(&self, name: &'static str, slot: usize, uses: &mut Uses) -> Result<&wgpu::Buffer> {
        let in_slot = self
            .by_slot
            .get(&(name, slot))
            .map(|held| (Some(slot), held));
        let found = in_slot.or_else(|| self.by_name.get(name).map(|held| (None, held)));
        let (slot, held) = found.ok_or_else(|| missing(name))?;
        uses.0.insert((name, slot), held.since);
        Ok(&held.buffer)
    }

    /// Notes the use of something by its name, which may be no buffer, or may not be there.
    pub fn note(&self, name: &'static str, uses: &mut Uses) {
        uses.0.insert((name, None), self.since(name, None));
    }

    fn since(&self, name: &'static str, slot: Option<usize>) -> u64 {
        let held = match slot {
            Some(slot) => self.by_slot.get(&(name, slot)),
            None => self.by_name.get(name),
        };
        let mark = self.marks.get(name).copied();
        held.map(|held| held.since).or(mark).unwrap_or(0)
    }

    /// Bytes of all buffers, those of slots apart.
    pub fn bytes(&self) -> u64 {
        self.by_name.values().map(|held| held.buffer.size()).sum()
    }

    /// Names and buffers, those of slots apart.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &wgpu::Buffer)> {
        self.by_name
            .iter()
            .map(|(name, held)| (*name, &**held.buffer))
    }

    /// Makes what every step has, what there was before, and what a command with `bits` asks for, as large
    /// as `extent` says. What has its size already stays; state of Gaussians is carried over, all else that
    /// is new holds zeros.
    ///
    /// # Errors
    /// No memory, or more than a binding takes; then nothing has changed.
    pub fn fit(
        &mut self,
        context: &Context,
        extent: &Extent,
        bits: Bits,
        carry: Option<Carry>,
    ) -> Result<()> {
        let mut made = Vec::new();
        for tensor in passes::tensors() {
            if !tensor.is_asked(bits) && !self.has(tensor.name) {
                continue;
            }
            let Some(bytes) = tensor.bytes(extent) else {
                continue;
            };
            let before = self.by_name.get(tensor.name).map(|held| &held.buffer);
            let size = before.map(|buffer| buffer.size());
            if size == Some(context.gpu.size_of_buffer(bytes)) {
                continue;
            }
            let after = make(&context.gpu, tensor, bytes)?;
            if let (true, Some(before), Some(carry)) = (tensor.is_state(), before, carry) {
                let planes = tensor.words(extent);
                carry_over(&context.gpu, (before, &after), carry, extent, planes);
            }
            made.push((tensor.name, after));
        }
        for (name, buffer) in made {
            self.set(name, buffer);
        }
        Ok(())
    }

    /// State of Gaussians that is there, with its planes.
    pub fn state(&self, extent: &Extent) -> Vec<(&'static Tensor, u32)> {
        let there = passes::tensors().filter(|tensor| tensor.is_state() && self.has(tensor.name));
        there.map(|tensor| (tensor, tensor.words(extent))).collect()
    }
}

fn missing(name: &str) -> Error {
    Error::internal(format!("there is no buffer \"{name}\""))
}

fn make(gpu: &Gpu, tensor: &Tensor, bytes: u64) -> Result<Arc<Pooled>> {
    let copied = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    // Where kernels may bind few storage buffers, structs are bound as uniform blocks.
    let binds_few = gpu.granted().storage_buffers < layout::STORAGE_BUFFERS;
    let usage = match tensor.usage {
        Use::Storage if binds_few && tensor.axis == Axis::One => {
            wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::UNIFORM
        }
        Use::Storage => wgpu::BufferUsages::STORAGE,
        Use::Indirect => wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::INDIRECT,
        Use::Uniform => wgpu::BufferUsages::UNIFORM,
    };
    gpu.buffer_with(tensor.name, bytes, usage | copied)
}

/// Copies the first Gaussians of every plane.
fn carry_over(
    gpu: &Gpu,
    (before, after): (&wgpu::Buffer, &wgpu::Buffer),
    carry: Carry,
    extent: &Extent,
    planes: u32,
) {
    if carry.gaussians == 0 {
        return;
    }
    let bytes = |gaussians: u32, plane: u32| u64::from(plane) * u64::from(gaussians) * WORD;
    let mut encoder = gpu.encoder();
    for plane in 0..planes {
        encoder.copy_buffer_to_buffer(
            before,
            bytes(carry.stride, plane),
            after,
            bytes(extent.room.gaussians, plane),
            Some(bytes(carry.gaussians, 1)),
        );
    }
    gpu.submit(encoder);
}
