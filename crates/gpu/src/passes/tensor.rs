//! [`Tensor`]: a buffer that a pass declares. Its axis and the capacities give its size.

use super::Bits;
use crate::layout::{MOST_FRAMES, WORKGROUP};
use crate::precision::Precision;
use dapple_engine::constants::TILE_SIZE;

/// Capacities of the buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Gaussians: the stride of a plane.
    pub gaussians: u32,
    /// Visible Gaussians.
    pub visible: u32,
    /// Instances.
    pub instances: u32,
    /// Buckets.
    pub buckets: u32,
    /// Pixels.
    pub pixels: u32,
    /// Tiles.
    pub tiles: u32,
}

/// Inputs of buffer sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BufferSizes {
    /// Capacities.
    pub capacity: Capacity,
    /// Storage formats of parameters and moments.
    pub precision: Precision,
    /// Degree that harmonics are stored for.
    pub sh_degree: u8,
    /// All bits that steps and gradients have requested so far.
    pub asked: Bits,
}

/// The axis along which a tensor has items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// A single item.
    One,
    /// Each Gaussian.
    Gaussian,
    /// Every [`WORKGROUP`] Gaussians; visible ones too, of which an engine that holds a part of a model may render more
    /// than it holds.
    GaussianGroup,
    /// Every [`WORKGROUP`] Gaussians in each view of a render of several.
    FrameGroup,
    /// Each visible Gaussian.
    Visible,
    /// Each pair of a Gaussian and a tile.
    Instance,
    /// Each bucket of instances.
    Bucket,
    /// Each pixel.
    Pixel,
    /// Each tile.
    Tile,
    /// Each pixel of whole tiles.
    TilePixel,
    /// Each view; the upload creates the buffer.
    View,
    /// Each photo slot; the upload creates the buffer.
    Photo,
    /// A buffer that the caller provides.
    Given,
}

impl Axis {
    /// Returns the capacity in items; `None` if other code creates the buffer.
    fn items(self, capacity: &Capacity) -> Option<u64> {
        Some(match self {
            Self::One => 1,
            Self::Gaussian => capacity.gaussians.into(),
            Self::GaussianGroup => {
                let most = capacity.gaussians.max(capacity.visible);
                most.div_ceil(WORKGROUP).into()
            }
            Self::FrameGroup => {
                u64::from(capacity.gaussians.div_ceil(WORKGROUP)) * u64::from(MOST_FRAMES)
            }
            Self::Visible => capacity.visible.into(),
            Self::Instance => capacity.instances.into(),
            Self::Bucket => capacity.buckets.into(),
            Self::Pixel => capacity.pixels.into(),
            Self::Tile => capacity.tiles.into(),
            Self::TilePixel => u64::from(capacity.tiles) * u64::from(TILE_SIZE * TILE_SIZE),
            Self::View | Self::Photo | Self::Given => return None,
        })
    }
}

/// Words of an item.
#[derive(Debug, Clone, Copy)]
pub enum Words {
    /// A fixed number.
    Each(u32),
    /// A number that depends on the storage formats.
    Of(fn(&BufferSizes) -> u32),
}

/// Lifetime of a tensor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Numbers of one step; every step overwrites them.
    Passing,
    /// State of a Gaussian, in planes: growing, density control and the Morton order carry it along.
    State,
    /// State of a Gaussian that is zero for new Gaussians.
    Moments,
}

/// Use of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// As storage.
    Storage,
    /// As storage and as source of indirect dispatches.
    Indirect,
    /// As a uniform block.
    Uniform,
}

/// A buffer as a pass declares it.
#[derive(Debug, Clone, Copy)]
pub struct Tensor {
    /// Name of the buffer in shaders.
    pub name: &'static str,
    /// Axis of its items.
    pub axis: Axis,
    /// 32-bit words of an item.
    pub words: Words,
    /// Items in addition to those of the axis.
    pub spare: u64,
    /// The buffer is created when a command has one of these bits; none = always.
    pub needs: Bits,
    /// A command with one of these bits does not create the buffer.
    pub unless: Bits,
    /// Lifetime of its numbers.
    pub kind: Kind,
    /// Use of the buffer.
    pub usage: Use,
}

/// Bytes of a word.
pub const WORD: u64 = 4;

impl Tensor {
    /// Creates a tensor with a fixed number of words for each item.
    pub const fn new(axis: Axis, name: &'static str, words: u32) -> Self {
        Self {
            name,
            axis,
            words: Words::Each(words),
            spare: 0,
            needs: Bits::NONE,
            unless: Bits::NONE,
            kind: Kind::Passing,
            usage: Use::Storage,
        }
    }

    /// Creates a tensor whose words depend on the storage formats.
    pub const fn with_words(
        axis: Axis,
        name: &'static str,
        words: fn(&BufferSizes) -> u32,
    ) -> Self {
        Self {
            words: Words::Of(words),
            ..Self::new(axis, name, 0)
        }
    }

    /// Adds one item: prefix sums put their total behind the last.
    #[must_use]
    pub const fn and_one(self) -> Self {
        Self { spare: 1, ..self }
    }

    /// Restricts the tensor to commands with one of these bits.
    #[must_use]
    pub const fn when(self, needs: Bits) -> Self {
        Self { needs, ..self }
    }

    /// Excludes commands with one of these bits.
    #[must_use]
    pub const fn unless(self, unless: Bits) -> Self {
        Self { unless, ..self }
    }

    /// Sets the lifetime of the numbers.
    #[must_use]
    pub const fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// Sets the use of the buffer.
    #[must_use]
    pub const fn used(self, usage: Use) -> Self {
        Self { usage, ..self }
    }

    /// Returns true if the tensor is state of Gaussians.
    pub fn is_state(&self) -> bool {
        self.kind != Kind::Passing
    }

    /// Returns true if every training step has the tensor.
    pub fn is_always(&self) -> bool {
        self.needs == Bits::NONE
    }

    /// Returns true if a command with these bits needs the tensor.
    pub fn is_asked(&self, bits: Bits) -> bool {
        (self.is_always() || bits.meets(self.needs)) && !bits.meets(self.unless)
    }

    /// Returns the words of an item.
    pub fn words(&self, sizes: &BufferSizes) -> u32 {
        match self.words {
            Words::Each(words) => words,
            Words::Of(words) => words(sizes),
        }
    }

    /// Returns its bytes; `None` if the capacity is zero, or other code creates the buffer.
    pub fn bytes(&self, sizes: &BufferSizes) -> Option<u64> {
        let items = self
            .axis
            .items(&sizes.capacity)
            .filter(|items| *items > 0)?;
        Some((items + self.spare) * u64::from(self.words(sizes)) * WORD)
    }
}
