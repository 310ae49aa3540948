//! [`Buffers`]: the engine's buffers by their names in shaders, with the generation of each.
//!
//! 1. Each buffer has a *generation* from one counter. A buffer that replaces another has a new generation. Command
//!    lists note the generations of the buffers that they bind, and are valid while these are current ([`Uses`]).
//!    Callers do not have to invalidate command lists.
//! 2. [`Buffers::fit`] allocates the buffers that the passes declare, for the given capacities: all of them, or none if
//!    the device has no memory for one.
//! 3. Data that changes with the view (photos and samples of depth) has one buffer for each photo slot.

use crate::passes::{Axis, Bits, BufferSizes, Declared, Tensor, Use, WORD};
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
    /// Dependencies of command lists that are not buffers.
    marks: BTreeMap<&'static str, u64>,
    /// Last generation that was assigned.
    now: u64,
}

/// Dependencies of a command list: names, photo slots, and their generations; 0 = the buffer did not exist.
#[derive(Debug, Clone, Default)]
pub struct Uses(BTreeMap<(&'static str, Option<usize>), u64>);

impl Uses {
    /// Adds the dependencies of a part.
    pub fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    /// Returns true if every dependency has its noted generation.
    pub fn are_current(&self, buffers: &Buffers) -> bool {
        let mut all = self.0.iter();
        all.all(|((name, slot), since)| buffers.since(name, *slot) == *since)
    }
}

/// State of Gaussians to carry over where planes grow.
#[derive(Debug, Clone, Copy)]
pub struct Carry {
    /// Number of Gaussians to carry over, from the first.
    pub gaussians: u32,
    /// Stride of the old planes.
    pub stride: u32,
}

impl Buffers {
    /// Adds or replaces a buffer.
    pub fn set(&mut self, name: &'static str, buffer: Arc<Pooled>) {
        let since = self.next();
        self.by_name.insert(name, Held { buffer, since });
    }

    /// Adds or replaces the buffer of a photo slot. Does nothing if the slot has this buffer already.
    pub fn set_in_slot(&mut self, name: &'static str, slot: usize, buffer: &Arc<Pooled>) {
        let held = self.by_slot.get(&(name, slot));
        if held.is_none_or(|held| !Arc::ptr_eq(&held.buffer, buffer)) {
            let since = self.next();
            let buffer = Arc::clone(buffer);
            self.by_slot.insert((name, slot), Held { buffer, since });
        }
    }

    /// Removes the buffers of all photo slots.
    pub fn clear_slots(&mut self) {
        self.by_slot.clear();
        self.next();
    }

    /// Removes a buffer.
    pub fn remove(&mut self, name: &'static str) {
        if self.by_name.remove(name).is_some() {
            self.next();
        }
    }

    /// Notes the change of a dependency that is not a buffer.
    pub fn touch(&mut self, name: &'static str) {
        let since = self.next();
        self.marks.insert(name, since);
    }

    fn next(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Returns the last generation: while it stays the same, nothing has changed.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns true if a buffer of this name exists.
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns a buffer that must exist.
    ///
    /// # Errors
    /// The buffer does not exist: a bug of this crate.
    pub fn get(&self, name: &str) -> Result<&wgpu::Buffer> {
        let held = self.by_name.get(name).ok_or_else(|| missing(name))?;
        Ok(&held.buffer)
    }

    /// Returns the buffer that shaders of a command list for this photo slot bind by that name, and notes its use.
    ///
    /// # Errors
    /// The buffer does not exist: a bug of this crate.
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

    /// Notes a use by name. The name may be that of no buffer, or of a buffer that does not exist.
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

    /// Returns the bytes of all buffers, without those of photo slots.
    pub fn bytes(&self) -> u64 {
        self.by_name.values().map(|held| held.buffer.size()).sum()
    }

    /// Returns names and buffers, without those of photo slots.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &wgpu::Buffer)> {
        self.by_name
            .iter()
            .map(|(name, held)| (*name, &**held.buffer))
    }

    /// Allocates the buffers of every step, the buffers that existed before, and the buffers of a command with `bits`,
    /// in the sizes of `sizes`. A buffer of the right size stays. State of Gaussians is carried over; all other new
    /// buffers hold zeros.
    ///
    /// # Errors
    /// No memory, or more than a binding can hold; then nothing has changed.
    pub fn fit(
        &mut self,
        context: &Context,
        sizes: &BufferSizes,
        bits: Bits,
        carry: Option<Carry>,
    ) -> Result<()> {
        let mut made = Vec::new();
        for &tensor in &context.declared.tensors {
            if !tensor.is_asked(bits) && !self.has(tensor.name) {
                continue;
            }
            let Some(bytes) = tensor.bytes(sizes) else {
                continue;
            };
            let before = self.by_name.get(tensor.name).map(|held| &held.buffer);
            let size = before.map(|buffer| buffer.size());
            if size == Some(context.gpu.size_of_buffer(bytes)) {
                continue;
            }
            let after = make(&context.gpu, tensor, bytes)?;
            if let (true, Some(before), Some(carry)) = (tensor.is_state(), before, carry) {
                let planes = tensor.words(sizes);
                carry_over(&context.gpu, (before, &after), carry, sizes, planes);
            }
            made.push((tensor.name, after));
        }
        for (name, buffer) in made {
            self.set(name, buffer);
        }
        Ok(())
    }

    /// Returns the existing buffers of Gaussians' state, with their planes.
    pub fn state(&self, declared: &Declared, sizes: &BufferSizes) -> Vec<(&'static Tensor, u32)> {
        let there = declared.state().filter(|tensor| self.has(tensor.name));
        there.map(|tensor| (tensor, tensor.words(sizes))).collect()
    }
}

/// Returns the error of `[wanted, most]` items of which only `most` fit into buffers of at most `most_bytes` bytes.
pub(crate) fn too_large(gpu: &Gpu, most_bytes: u64, what: &str, [wanted, most]: [u32; 2]) -> Error {
    Error::unsupported(format!(
        "there are {wanted} {what}, and {most} fit: {} takes {:.2} MB in one buffer",
        gpu.device_name(),
        most_bytes as f64 * 1e-6
    ))
}

fn missing(name: &str) -> Error {
    Error::internal(format!("there is no buffer \"{name}\""))
}

fn make(gpu: &Gpu, tensor: &Tensor, bytes: u64) -> Result<Arc<Pooled>> {
    let copied = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    // On devices whose kernels bind few storage buffers, structs are bound as uniform blocks.
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
    sizes: &BufferSizes,
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
            bytes(sizes.capacity.gaussians, plane),
            Some(bytes(carry.gaussians, 1)),
        );
    }
    gpu.submit(encoder);
}
