//! The nearest centres on a GPU, for palettes of splat files: [`NearestCentres`] with labels that are bit-identical to
//! the CPU's. The kernel is `shaders/nearest.wgsl`.
//!
//! 1. Rows are loaded once, in parts of at most 64 MiB; labels stay next to them.
//! 2. Centres come in batches of some groups. While the device compares a batch, the next one's are gathered.
//! 3. A block is 64 rows of one group. Blocks go in dispatches of at most 2^32 products, each a submission of its own:
//!    no device takes long over one, and none of them is refused.

use bytemuck::{Pod, Zeroable};
use dapple_runtime::{
    Buffer, CommandList, Defines, Gpu, Groups, Kernel, ShaderSet, primitives, wgpu,
};
use dapple_scene::splat_file::nearest::{CentresOf, LoadedRows, NearestCentres, Rows};
use dapple_scene::{Error, Progress, Result};
use rayon::prelude::*;
use std::ops::Range;

/// Bytes of rows, and of centres, in one binding: half of what every device binds.
const MOST_BYTES: usize = 64 << 20;

/// Products of a dispatch: under half a second where a device does some ten billion a second, and enough workgroups for
/// the largest.
const MOST_PRODUCTS: u64 = 1 << 32;

/// Groups whose centres are gathered at a time.
const GROUPS_A_BATCH: usize = 64;

/// Rows of a workgroup; columns that it has memory for.
const BLOCK: usize = 64;
const MOST_COLUMNS: usize = 48;

/// A GPU that finds the nearest of many centres.
#[derive(Debug)]
pub struct Nearest {
    gpu: Gpu,
    kernel: Kernel,
}

impl Nearest {
    /// On this device.
    ///
    /// # Errors
    /// A driver that refuses the kernel.
    pub fn new(gpu: &Gpu) -> Result<Self> {
        let kernel = Kernel::new(gpu, &shaders(), "nearest", "nearest", &Defines::new())?;
        Ok(Self {
            gpu: gpu.clone(),
            kernel,
        })
    }
}

/// Returns the WGSL of the search, and nothing of the training engine.
pub fn shaders() -> ShaderSet {
    let own = ShaderSet::new(&[("nearest", include_str!("../shaders/nearest.wgsl"))]);
    own.with(&primitives::PIECES)
}

impl NearestCentres for Nearest {
    fn load(&self, rows: Rows) -> Result<Box<dyn LoadedRows + '_>> {
        let stride = rows.stride();
        if stride > MOST_COLUMNS {
            return Err(Error::internal(format!(
                "rows of {} columns are more than a workgroup has memory for",
                rows.dim
            )));
        }
        let most = MOST_BYTES / (2 * stride);
        let mut parts = Vec::new();
        let mut first = 0;
        while first < rows.len() {
            let end = rows.len().min(first + most);
            let values = &rows.values[first * stride..end * stride];
            parts.push(Part {
                values: self.gpu.buffer_of("rows", values)?,
                labels: self.gpu.zeros("labels", end - first)?,
                rows: first..end,
            });
            first = end;
        }
        Ok(Box::new(Loaded {
            on: self,
            parts,
            groups: rows.groups,
            dim: rows.dim,
            stride,
        }))
    }
}

/// Rows that one buffer holds.
struct Part {
    values: Buffer<i16>,
    labels: Buffer<u32>,
    rows: Range<usize>,
}

struct Loaded<'a> {
    on: &'a Nearest,
    parts: Vec<Part>,
    groups: Vec<Range<usize>>,
    dim: usize,
    stride: usize,
}

/// Block that a workgroup compares, as the shader reads it.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    /// In the part.
    first_row: u32,
    rows: u32,
    /// In the batch.
    first_centre: u32,
    centres: u32,
}

/// Groups of rows with their centres, for one upload.
#[derive(Default)]
struct Batch {
    centres: Vec<i16>,
    norms: Vec<f32>,
    blocks: Vec<Block>,
    rows: usize,
}

impl Batch {
    /// Adds the rows of a group, counted from the part's first.
    fn add(&mut self, rows: Range<usize>, centres: &[i16], stride: usize) {
        let first_centre = self.norms.len() as u32;
        self.centres.extend_from_slice(centres);
        let norm = |c: &[i16]| c.iter().map(|&v| f32::from(v) * f32::from(v)).sum::<f32>();
        self.norms.extend(centres.chunks_exact(stride).map(norm));
        self.rows += rows.len();
        let block = |first: usize| Block {
            first_row: first as u32,
            rows: BLOCK.min(rows.end - first) as u32,
            first_centre,
            centres: (centres.len() / stride) as u32,
        };
        self.blocks.extend(rows.clone().step_by(BLOCK).map(block));
    }
}

impl LoadedRows for Loaded<'_> {
    fn nearest(&mut self, centres: CentresOf<'_>, progress: &dyn Progress) -> Result<Vec<u32>> {
        let gpu = &self.on.gpu;
        let mut labels = Vec::new();
        for part in &self.parts {
            let own =
                |rows: &Range<usize>| rows.start.max(part.rows.start)..rows.end.min(part.rows.end);
            let groups: Vec<usize> = (0..self.groups.len())
                .filter(|&group| !own(&self.groups[group]).is_empty())
                .collect();
            // The batch before this one, which the device may still be at.
            let mut before = None;
            for groups in groups.chunks(GROUPS_A_BATCH) {
                if progress.should_stop() {
                    break;
                }
                let of_groups: Vec<Vec<i16>> = groups.par_iter().map(|&g| centres(g)).collect();
                let mut batch = Batch::default();
                for (&group, centres) in groups.iter().zip(&of_groups) {
                    if !batch.centres.is_empty()
                        && 2 * (batch.centres.len() + centres.len()) > MOST_BYTES
                    {
                        self.run(part, std::mem::take(&mut batch), &mut before, progress)?;
                    }
                    let rows = own(&self.groups[group]);
                    let rows = rows.start - part.rows.start..rows.end - part.rows.start;
                    batch.add(rows, centres, self.stride);
                }
                self.run(part, batch, &mut before, progress)?;
            }
            if let Some((_, rows)) = before {
                progress.advance(rows as u64);
            }
            // Waits for all batches.
            labels.extend(gpu.read_slice(&part.labels.all())?);
            gpu.check()?;
        }
        Ok(labels)
    }
}

impl Loaded<'_> {
    /// Submits a batch, and waits for the one before.
    fn run(
        &self,
        part: &Part,
        batch: Batch,
        before: &mut Option<(wgpu::SubmissionIndex, usize)>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let gpu = &self.on.gpu;
        let blocks = gpu.buffer_of("blocks", &batch.blocks)?;
        // Bindings are never empty, where no group has centres.
        let centres = match batch.centres.is_empty() {
            true => gpu.zeros("centres", self.stride)?,
            false => gpu.buffer_of("centres", &batch.centres)?,
        };
        let norms = match batch.norms.is_empty() {
            true => gpu.zeros("norms", 1)?,
            false => gpu.buffer_of("norms", &batch.norms)?,
        };
        let mut last = None;
        let mut first = 0;
        while first < batch.blocks.len() {
            let end = first + self.blocks_at_once(&batch.blocks[first..]);
            let words = (self.stride / 2) as u32;
            let span = gpu.uniform("span", [first as u32, end as u32, words, 0])?;
            let bound = self.on.kernel.bind(
                gpu,
                &[
                    ("span", &span),
                    ("blocks", blocks.raw()),
                    ("rows", part.values.raw()),
                    ("centres", centres.raw()),
                    ("norms", norms.raw()),
                    ("labels", part.labels.raw()),
                ],
            )?;
            let mut recording = CommandList::new();
            recording.dispatch(bound, Groups::flat((end - first) as u32));
            let mut encoder = gpu.encoder();
            recording.encode(&mut encoder, &[]);
            last = Some(gpu.submit(encoder));
            first = end;
        }
        let Some(last) = last else {
            return Ok(());
        };
        if let Some((submission, rows)) = before.replace((last, batch.rows)) {
            gpu.wait_for(submission)?;
            progress.advance(rows as u64);
        }
        Ok(())
    }

    /// How many of these are one dispatch: at least one.
    fn blocks_at_once(&self, blocks: &[Block]) -> usize {
        let mut products = 0;
        let fits = |block: &&Block| {
            products += (BLOCK * self.dim) as u64 * u64::from(block.centres);
            products <= MOST_PRODUCTS
        };
        blocks.iter().take_while(fits).count().max(1)
    }
}
