//! What changes from replay to replay, beside immediates: a ring of uniform blocks.
//!
//! 1. A kernel that declares `@group(1) @binding(0) var<uniform>` finds there what its replay was given
//!    ([`Values::new`]): up to [`PARAMETER_BYTES`], in browsers too, where immediates are few or none.
//! 2. A device has one buffer of [`BLOCKS`] blocks. A replay writes the next one and binds it by its offset:
//!    nothing is made and nothing waited for, and recordings stay as they are. A replay none of whose kernels
//!    looks writes nothing.
//! 3. What is written takes effect in the queue's order, before the next submission. So a block that was
//!    submitted can be written again at once; of replays that are encoded and not yet submitted there may be
//!    as many as blocks.
//! 4. On a device without immediates the second half of a block takes their place: `var<immediate>` becomes
//!    `@group(1) @binding(1) var<uniform>`.

use crate::adapter::IMMEDIATE_BYTES;
use crate::counters::Tally;
use dapple_base::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes of a replay's parameters.
pub const PARAMETER_BYTES: usize = 256;

/// Blocks of the ring.
pub const BLOCKS: u64 = 256;

/// Where in a block immediates begin: a whole alignment of uniforms after the parameters.
const IMMEDIATES_AT: usize = PARAMETER_BYTES;

/// Bytes of a block.
const BLOCK: usize = 2 * PARAMETER_BYTES;

const _: () = assert!(IMMEDIATE_BYTES as usize <= BLOCK - IMMEDIATES_AT);

/// What a replay is given.
#[derive(Debug, Clone, Copy, Default)]
pub struct Values<'a> {
    pub(crate) immediates: &'a [u8],
    pub(crate) parameters: &'a [u8],
}

impl<'a> Values<'a> {
    /// Immediates, which travel with the commands, and parameters, which travel through the ring.
    ///
    /// # Errors
    /// More than fits: 128 bytes of immediates, [`PARAMETER_BYTES`] of parameters.
    pub fn new(immediates: &'a [u8], parameters: &'a [u8]) -> Result<Self> {
        for (what, bytes, most) in [
            ("immediates", immediates.len(), IMMEDIATE_BYTES as usize),
            ("parameters", parameters.len(), PARAMETER_BYTES),
        ] {
            if bytes > most {
                let what = format!("{bytes} bytes of {what}, and a replay has {most}");
                return Err(Error::internal(what));
            }
        }
        Ok(Self {
            immediates,
            parameters,
        })
    }

    /// Immediates alone.
    pub(crate) fn immediates(immediates: &'a [u8]) -> Self {
        Self {
            immediates,
            parameters: &[],
        }
    }
}

/// A device's ring.
#[derive(Debug)]
pub(crate) struct Ring {
    buffer: wgpu::Buffer,
    layout: wgpu::BindGroupLayout,
    group: wgpu::BindGroup,
    queue: wgpu::Queue,
    /// Whether immediates travel through it too.
    has_immediates: bool,
    next: AtomicU64,
    tally: Arc<Tally>,
}

impl Ring {
    pub(crate) fn new(
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        tally: &Arc<Tally>,
        has_immediates: bool,
    ) -> Self {
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("parameters"),
            size: BLOCKS * BLOCK as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let entry = |binding| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Uniform,
                has_dynamic_offset: true,
                min_binding_size: None,
            },
            count: None,
        };
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("parameters"),
            entries: &[entry(0), entry(1)],
        });
        let part = |binding, offset| wgpu::BindGroupEntry {
            binding,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: &buffer,
                offset,
                size: wgpu::BufferSize::new(PARAMETER_BYTES as u64),
            }),
        };
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("parameters"),
            layout: &layout,
            entries: &[part(0, 0), part(1, IMMEDIATES_AT as u64)],
        });
        Self {
            layout,
            group,
            queue: queue.clone(),
            has_immediates,
            next: AtomicU64::new(0),
            tally: Arc::clone(tally),
            buffer,
        }
    }

    pub(crate) fn layout(&self) -> &wgpu::BindGroupLayout {
        &self.layout
    }

    pub(crate) fn group(&self) -> &wgpu::BindGroup {
        &self.group
    }

    /// Writes the next block; where it begins.
    pub(crate) fn write(&self, values: Values<'_>) -> u32 {
        let block = self.next.fetch_add(1, Ordering::Relaxed) % BLOCKS;
        let offset = block * BLOCK as u64;
        let mut bytes = [0u8; BLOCK];
        bytes[..values.parameters.len()].copy_from_slice(values.parameters);
        let written = match self.has_immediates {
            true => {
                let end = IMMEDIATES_AT + values.immediates.len();
                bytes[IMMEDIATES_AT..end].copy_from_slice(values.immediates);
                BLOCK
            }
            false => PARAMETER_BYTES,
        };
        self.tally.wrote(written as u64);
        self.queue
            .write_buffer(&self.buffer, offset, &bytes[..written]);
        offset as u32
    }
}

/// WGSL whose immediates are a uniform block, binding 1 of group 1, as for devices that have none.
pub fn without_immediates(wgsl: &str) -> String {
    wgsl.replace("var<immediate>", "@group(1) @binding(1) var<uniform>")
}
