//! [`Tensor`]: a buffer that a pass declares. How large it is follows from its axis and from what there is
//! room for.

use super::Bits;
use crate::layout::WORKGROUP;
use crate::precision::Precision;
use dapple_engine::constants::TILE_SIZE;

/// What the buffers have room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
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

/// All that sizes of buffers follow from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// How many there is room for.
    pub room: Room,
    /// How parameters and moments are stored.
    pub precision: Precision,
    /// Degree that harmonics are stored for.
    pub sh_degree: u8,
    /// All bits that steps and gradients have ever asked for.
    pub asked: Bits,
    /// Cells of a view's appearance; none where nothing is learnt.
    pub grid: [u32; 3],
}

/// What a tensor has items for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Itself.
    One,
    /// Each Gaussian.
    Gaussian,
    /// Every [`WORKGROUP`] Gaussians.
    GaussianGroup,
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
    /// Each view; made by what uploads it.
    View,
    /// Each slot of photos; made by what uploads it.
    Photo,
    /// What somebody else brings.
    Given,
}

impl Axis {
    /// How many items there is room for; `None` where somebody else makes the buffer.
    fn items(self, room: &Room) -> Option<u64> {
        Some(match self {
            Self::One => 1,
            Self::Gaussian => room.gaussians.into(),
            Self::GaussianGroup => room.gaussians.div_ceil(WORKGROUP).into(),
            Self::Visible => room.visible.into(),
            Self::Instance => room.instances.into(),
            Self::Bucket => room.buckets.into(),
            Self::Pixel => room.pixels.into(),
            Self::Tile => room.tiles.into(),
            Self::TilePixel => u64::from(room.tiles) * u64::from(TILE_SIZE * TILE_SIZE),
            Self::View | Self::Photo | Self::Given => return None,
        })
    }
}

/// Words of an item.
#[derive(Clone, Copy)]
pub enum Words {
    /// So many.
    Each(u32),
    /// By how things are stored.
    Of(fn(&Extent) -> u32),
}

/// What a tensor's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of a step, which writes them anew.
    Passing,
    /// State of a Gaussian, in planes: growing, density control and the Morton order carry it along.
    State,
    /// The same; new Gaussians begin with zeros.
    Moments,
}

/// How a buffer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// As storage.
    Storage,
    /// As storage, from which dispatches are taken.
    Indirect,
    /// As a uniform block.
    Uniform,
}

/// A buffer as a pass declares it.
#[derive(Clone, Copy)]
pub struct Tensor {
    /// The name that shaders give it.
    pub name: &'static str,
    /// What it has items for.
    pub axis: Axis,
    /// 32-bit words of an item.
    pub words: Words,
    /// Items more than there are.
    pub spare: u64,
    /// It is made when a command has one of these; none = always.
    pub needs: Bits,
    /// But not for a command that has one of these.
    pub unless: Bits,
    /// What its numbers are.
    pub kind: Kind,
    /// How it is used.
    pub usage: Use,
}

/// Bytes of a word.
pub const WORD: u64 = 4;

impl Tensor {
    /// So many words for each item.
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

    /// Words by how things are stored.
    pub const fn of(axis: Axis, name: &'static str, words: fn(&Extent) -> u32) -> Self {
        Self {
            words: Words::Of(words),
            ..Self::new(axis, name, 0)
        }
    }

    /// With one item more than there are: prefix sums put their total behind the last.
    #[must_use]
    pub const fn and_one(self) -> Self {
        Self { spare: 1, ..self }
    }

    /// For commands with one of these bits.
    #[must_use]
    pub const fn when(self, needs: Bits) -> Self {
        Self { needs, ..self }
    }

    /// But not for those.
    #[must_use]
    pub const fn unless(self, unless: Bits) -> Self {
        Self { unless, ..self }
    }

    /// Of this kind.
    #[must_use]
    pub const fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// Used so.
    #[must_use]
    pub const fn used(self, usage: Use) -> Self {
        Self { usage, ..self }
    }

    /// Whether it is state of Gaussians.
    pub fn is_state(&self) -> bool {
        self.kind != Kind::Passing
    }

    /// Whether every step has it.
    pub fn is_always(&self) -> bool {
        self.needs == Bits::NONE
    }

    /// Whether a command with these bits asks for it.
    pub fn is_asked(&self, bits: Bits) -> bool {
        self.is_always() || (bits.meets(self.needs) && !bits.meets(self.unless))
    }

    /// Words of an item.
    pub fn words(&self, extent: &Extent) -> u32 {
        match self.words {
            Words::Each(words) => words,
            Words::Of(words) => words(extent),
        }
    }

    /// Its bytes; `None` where there is nothing to have room for yet, or somebody else makes it.
    pub fn bytes(&self, extent: &Extent) -> Option<u64> {
        let items = self.axis.items(&extent.room).filter(|items| *items > 0)?;
        Some((items + self.spare) * u64::from(self.words(extent)) * WORD)
    }
}
