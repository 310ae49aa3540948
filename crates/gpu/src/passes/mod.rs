//! What a stage of this engine declares, and what follows from it.
//!
//! 1. A [`Pass`] says what it is called, its shaders, its kernels and the [`Bits`] that each understands,
//!    the [`Tensor`]s that come with it, the [`Entry`]s of indirect dispatches that it counts, which bytes it
//!    moves, and how it is recorded. What its kernels read and write, their WGSL says: bindings have the
//!    names of tensors, or of what the pass [borrows](Pass::borrows).
//! 2. A [`Plan`] is a list of passes: what is submitted for one purpose. Its order is the order they run in.
//! 3. From these lists follow the shaders and which kernels are compiled first, which buffers there are and
//!    how they grow ([`crate::Buffers::fit`]), the numbers of entries for host and shaders
//!    ([`entries_wgsl`]), what a permutation shares with others, what recordings depend on
//!    ([`crate::Recorder`]), and the bytes that a profiler expects.
//!
//! To add a stage: a file under `stages/` with its `PASS`, its shader, and its line in one list below.

mod bits;
mod tensor;

pub use bits::Bits;
pub use tensor::{Axis, Extent, Kind, Room, Tensor, Use, WORD, Words};

use crate::Context;
use crate::precision::Precision;
use crate::recorder::Recorder;
use crate::stages::{
    appearance, blend, blend_backward, bytes, crops, densify, depth, emit, finite, gradients, look,
    loss, morton, order, poses, project, ranges, relocate, report, score, smoothing, sort, update,
};
use dapple_scene::Result;
use rayon::prelude::*;
use std::sync::LazyLock;

/// A kernel: an entry point of a shader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code {
    /// The shader.
    pub shader: &'static str,
    /// Its entry point.
    pub entry: &'static str,
    /// Permutation bits that it understands.
    pub bits: Bits,
    /// Whose settings are constants of it: see [`crate::Context::set_constants`].
    pub constants: Option<&'static str>,
    /// Whether it runs in parts on devices that kill long dispatches.
    pub in_parts: bool,
}

impl Code {
    /// One that is the same in all permutations.
    pub const fn new(shader: &'static str, entry: &'static str) -> Self {
        Self {
            shader,
            entry,
            bits: Bits::NONE,
            constants: None,
            in_parts: false,
        }
    }

    /// Of which there is one for each combination of `bits`.
    #[must_use]
    pub const fn by(self, bits: Bits) -> Self {
        Self { bits, ..self }
    }

    /// That takes the constants of this name.
    #[must_use]
    pub const fn with_constants(self, name: &'static str) -> Self {
        Self {
            constants: Some(name),
            ..self
        }
    }

    /// That runs in parts on devices that kill long dispatches.
    #[must_use]
    pub const fn in_parts(self) -> Self {
        Self {
            in_parts: true,
            ..self
        }
    }
}

/// An entry of the buffer `groups`: the workgroups of an indirect dispatch, which the GPU counts. Its name is
/// that of its number in WGSL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry(pub &'static str);

/// Bytes of an entry: three counts, and a word that is free.
pub const ENTRY_BYTES: u64 = 16;

/// The entries of a step, which a halt clears, come first; then those of density control and the Morton
/// order.
static ENTRIES: LazyLock<(Vec<Entry>, usize)> = LazyLock::new(|| {
    let of = |is_round: bool| {
        let passes = all().filter(move |pass| pass.is_of_rounds() == is_round);
        passes.flat_map(|pass| pass.entries.iter().copied())
    };
    let steps: Vec<Entry> = of(false).collect();
    let count = steps.len();
    (steps.into_iter().chain(of(true)).collect(), count)
});

impl Entry {
    /// Its number.
    pub fn number(self) -> u64 {
        let found = ENTRIES.0.iter().position(|entry| *entry == self);
        debug_assert!(found.is_some(), "no pass counts {}", self.0);
        found.unwrap_or(0) as u64
    }

    /// Where it begins in `groups`, bytes.
    pub fn offset(self) -> u64 {
        self.number() * ENTRY_BYTES
    }
}

/// How many entries there are.
pub fn entry_count() -> u64 {
    ENTRIES.0.len() as u64
}

/// The numbers of all entries for shaders: the piece `shared/entries`.
pub fn entries_wgsl() -> &'static str {
    static WGSL: LazyLock<String> = LazyLock::new(|| {
        let (entries, steps) = &*ENTRIES;
        let numbered = entries.iter().enumerate();
        let mut wgsl: String = numbered
            .map(|(number, entry)| format!("const {}: u32 = {number}u;\n", entry.0))
            .collect();
        wgsl += &format!("const STEP_ENTRIES: u32 = {steps}u;\n");
        wgsl += &format!("const ALL_ENTRIES: u32 = {}u;\n", entries.len());
        wgsl
    });
    &WGSL
}

/// What the bytes of a stage follow from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Gaussians.
    pub gaussians: u64,
    /// Visible ones.
    pub visible: u64,
    /// Pairs of a Gaussian and a tile.
    pub instances: u64,
    /// Pixels.
    pub pixels: u64,
    /// Tiles.
    pub tiles: u64,
    /// Degree of the harmonics in use.
    pub sh_degree: u8,
    /// Whether the loss has a part of SSIM.
    pub ssim: bool,
}

/// A stage, or the part of one that stands at one place of a plan.
pub struct Pass {
    /// The stage: the name of its span, under which it is timed.
    pub name: &'static str,
    /// Its shaders, by name.
    pub shaders: &'static [(&'static str, &'static str)],
    /// Its kernels.
    pub kernels: &'static [Code],
    /// Where a command has to have one of these, for the pass to run; none = always.
    pub needs: Bits,
    /// Where a command has one of these, it does not run.
    pub unless: Bits,
    /// The tensors that come with it: it is the first that fills them, or it owns them as state.
    pub tensors: &'static [Tensor],
    /// What its shaders call otherwise than the tensor is called: a binding's name, and the tensor.
    pub borrows: &'static [(&'static str, &'static str)],
    /// The entries that it counts.
    pub entries: &'static [Entry],
    /// The sorts that it asks for: bits of the keys, and whether values are places.
    pub sorts: &'static [(u32, bool)],
    /// Permutations in which its kernels and sorts are compiled when an engine opens; all others are when
    /// they are first recorded.
    pub first: &'static [Bits],
    /// The bytes that it moves at least: see [`bytes()`].
    pub bytes: fn(&Load, Precision) -> u64,
    /// Appends its dispatches.
    pub record: fn(&mut Recorder<'_>) -> Result<()>,
}

impl Pass {
    /// One that declares nothing but its name and its dispatches.
    pub const fn new(name: &'static str, record: fn(&mut Recorder<'_>) -> Result<()>) -> Self {
        Self {
            name,
            shaders: &[],
            kernels: &[],
            needs: Bits::NONE,
            unless: Bits::NONE,
            tensors: &[],
            borrows: &[],
            entries: &[],
            sorts: &[],
            first: &[],
            bytes: |_, _| 0,
            record,
        }
    }

    /// Whether it runs for a command with these bits.
    pub fn is_part_of(&self, bits: Bits) -> bool {
        (self.needs == Bits::NONE || bits.meets(self.needs)) && !bits.meets(self.unless)
    }

    /// The bits that make a difference to it.
    pub fn understands(&self) -> Bits {
        let kernels = self.kernels.iter().map(|code| code.bits);
        kernels.fold(self.needs | self.unless, |all, bits| all | bits)
    }

    fn is_of_rounds(&self) -> bool {
        Plan::Round
            .passes()
            .iter()
            .any(|other| std::ptr::eq(*other, self))
    }
}

/// The passes of each plan, in order. A new stage is listed here.
static FRONT: &[&Pass] = &[
    &project::PASS,
    &order::PASS,
    &emit::PASS,
    &sort::PASS,
    &ranges::PASS,
    &blend::PASS,
];
static LOSS: &[&Pass] = &[
    &appearance::FORTH,
    &loss::PASS,
    &crops::PASS,
    &appearance::BACK,
    &depth::PASS,
];
static BACK: &[&Pass] = &[
    &blend_backward::PASS,
    &update::SUMS,
    &update::EXTRA_SUMS,
    &poses::SUMS,
    &look::PASS,
    &update::PASS,
    &poses::PASS,
    &report::PASS,
];
static GRADIENTS: &[&Pass] = &[
    &blend_backward::PASS,
    &update::SUMS,
    &update::EXTRA_SUMS,
    &gradients::PASS,
];
static SCORE: &[&Pass] = &[&score::PASS];
static SHOWN: &[&Pass] = &[&bytes::PASS];
static SMOOTHING: &[&Pass] = &[&smoothing::PASS];
static FINITE: &[&Pass] = &[&finite::PASS];
static ROUND: &[&Pass] = &[
    &densify::PASS,
    &relocate::PASS,
    &morton::PASS,
    &report::ROUND,
];

/// What is submitted at once, or recorded at once as a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plan {
    /// A render.
    Front,
    /// From the image to its gradient.
    Loss,
    /// From the image's gradient to new parameters, and the report.
    Back,
    /// A step: the three above.
    Step,
    /// From the image's gradient to gradients that are written out.
    Gradients,
    /// From a render to its scores.
    Score,
    /// From a render to what is shown of it.
    Shown,
    /// 3D filters, before a step.
    Smoothing,
    /// Looks for what is not finite, after a report.
    Finite,
    /// A round of density control, with the Morton order, and its report.
    Round,
}

impl Plan {
    /// Every plan.
    pub const ALL: [Self; 10] = [
        Self::Front,
        Self::Loss,
        Self::Back,
        Self::Step,
        Self::Gradients,
        Self::Score,
        Self::Shown,
        Self::Smoothing,
        Self::Finite,
        Self::Round,
    ];

    /// What it consists of where it is put together from others.
    pub fn parts(self) -> &'static [Self] {
        match self {
            Self::Step => &[Self::Front, Self::Loss, Self::Back],
            _ => &[],
        }
    }

    /// Its passes, in order; those of its parts apart.
    pub fn passes(self) -> &'static [&'static Pass] {
        match self {
            Self::Front => FRONT,
            Self::Loss => LOSS,
            Self::Back => BACK,
            // Its parts have them.
            Self::Step => &[],
            Self::Gradients => GRADIENTS,
            Self::Score => SCORE,
            Self::Shown => SHOWN,
            Self::Smoothing => SMOOTHING,
            Self::Finite => FINITE,
            Self::Round => ROUND,
        }
    }

    /// The bits that make a difference to it.
    pub fn understands(self) -> Bits {
        let own = self.passes().iter().map(|pass| pass.understands());
        let parts = self.parts().iter().map(|part| part.understands());
        own.chain(parts).fold(Bits::NONE, |all, bits| all | bits)
    }

    /// Whether it is recorded for each of the photos' slots.
    pub fn has_photo(self) -> bool {
        matches!(self, Self::Loss | Self::Step)
    }
}

/// Every pass, once.
pub fn all() -> impl Iterator<Item = &'static Pass> {
    let listed = || {
        Plan::ALL
            .iter()
            .flat_map(|plan| plan.passes().iter().copied())
    };
    listed().enumerate().filter_map(move |(index, pass)| {
        let is_new = !listed()
            .take(index)
            .any(|before| std::ptr::eq(before, pass));
        is_new.then_some(pass)
    })
}

/// Compiles what passes say is compiled first, on all cores: a driver that has not kept kernels from before
/// takes seconds for all.
///
/// # Errors
/// The driver refuses one: the first in order.
pub fn compile_first(context: &Context) -> Result<()> {
    enum Job {
        Kernel(Code, Bits),
        Sort(u32, bool),
    }
    let of_pass = |pass: &'static Pass| {
        let kernels = pass.first.iter().flat_map(|&bits| {
            let kernels = pass.kernels.iter();
            kernels.map(move |&code| Job::Kernel(code, bits))
        });
        let sorts = pass.sorts.iter();
        kernels.chain(sorts.map(|&(bits, numbered)| Job::Sort(bits, numbered)))
    };
    let jobs: Vec<Job> = all().flat_map(of_pass).collect();
    let made = jobs.par_iter().map(|job| match job {
        // What binds too much is compiled when it is known how much there is to be joined.
        Job::Kernel(code, bits) => match context.beyond(code, *bits)? {
            Some(_) => Ok(()),
            None => context.kernels(code, *bits).map(drop),
        },
        Job::Sort(bits, numbered) => context.radix_sort(*bits, *numbered).map(drop),
    });
    let made: Vec<Result<()>> = made.collect();
    made.into_iter().collect()
}

/// Every tensor.
pub fn tensors() -> impl Iterator<Item = &'static Tensor> {
    all().flat_map(|pass| pass.tensors.iter())
}

/// The bytes that the stage of this name reads and writes in a step at least, by formula.
///
/// What its kernels read and write, each array once per kernel, as if caches were perfect within a kernel
/// and empty between kernels. Left out: tables of counts that prefix sums and sorts keep by the block (a
/// hundredth of what they sort), reports. Where counts do not tell, it is what would be without early ends:
/// pixels that are finished before the last instance of their tile leave fewer checkpoints, and a stage may
/// then stay below its floor.
pub fn bytes(stage: &str, load: &Load, precision: Precision) -> u64 {
    let passes = all().filter(|pass| pass.name == stage);
    passes.map(|pass| (pass.bytes)(load, precision)).sum()
}
