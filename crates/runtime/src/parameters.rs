//! Values that change from replay to replay, in addition to immediates: a ring buffer of uniform blocks.
//!
//! 1. A kernel that declares `@group(1) @binding(0) var<uniform>` reads there the parameters of its replay
//!    ([`Values::new`]): up to [`PARAMETER_BYTES`], also in browsers, where immediates are few or missing.
//! 2. A device has one buffer of [`BLOCKS`] blocks. A replay writes the next one and binds it by its offset: nothing is
//!    allocated or waited for, and command lists remain unchanged. A replay whose kernels take no parameters writes
//!    nothing.
//! 3. A write takes effect in the queue's order, before the next submission. So a submitted block can be written again
//!    at once. At most [`BLOCKS`] replays may be encoded and not yet submitted.
//! 4. On a device without immediates the second half of a block replaces them: `var<immediate>` becomes `@group(1)
//!    @binding(1) var<uniform>`.

use crate::adapter::IMMEDIATE_BYTES;
use crate::counters::Tally;
use dapple_base::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum bytes of the parameters of a replay.
pub const PARAMETER_BYTES: usize = 256;

/// Blocks of the ring buffer.
pub const BLOCKS: u64 = 256;

/// Offset of the immediates in a block: a multiple of the alignment of uniforms, after the parameters.
const IMMEDIATES_AT: usize = PARAMETER_BYTES;

/// Bytes of a block.
const BLOCK: usize = 2 * PARAMETER_BYTES;

const _: () = assert!(IMMEDIATE_BYTES as usize <= BLOCK - IMMEDIATES_AT);

/// Values of a replay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Values<'a> {
    pub(crate) immediates: &'a [u8],
    pub(crate) parameters: &'a [u8],
}

impl<'a> Values<'a> {
    /// Combines immediates, which travel with the commands, and parameters, which travel through the ring buffer.
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

    /// Creates values with immediates only.
    pub(crate) fn immediates(immediates: &'a [u8]) -> Self {
        Self {
            immediates,
            parameters: &[],
        }
    }
}

/// Ring buffer of a device.
#[derive(Debug)]
pub(crate) struct RingBuffer {
    buffer: wgpu::Buffer,
    layout: wgpu::BindGroupLayout,
    group: wgpu::BindGroup,
    queue: wgpu::Queue,
    /// True if immediates travel through the ring buffer too.
    has_immediates: bool,
    next: AtomicU64,
    tally: Arc<Tally>,
}

impl RingBuffer {
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

    /// Writes the next block and returns its offset.
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

/// Rewrites WGSL so that immediates are a uniform block, binding 1 of group 1, for devices without immediates.
pub fn without_immediates(wgsl: &str) -> String {
    wgsl.replace("var<immediate>", "@group(1) @binding(1) var<uniform>")
}
