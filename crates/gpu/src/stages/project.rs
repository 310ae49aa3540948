//! `project`: from Gaussians to ellipses, colours and counts of tiles. See `shaders/project.wgsl`. Before it, `begin`
//! clears a step's counts and sizes its first dispatches.

use super::{SPLAT, WORD, shaders};
use crate::layout::{Lens, MOST_ENTRIES, MOST_FRAMES, State, View, plane, sh_planes};
use crate::passes::{Axis, Bits, Code, ENTRY_BYTES, Entry, Pass, Tensor, Use};
use crate::recorder::{Recorder, Size};
use dapple_scene::Result;

/// Gaussians / 256.
pub const GAUSSIANS: Entry = Entry("GROUPS_GAUSSIANS");
/// Gaussians / [`crate::layout::UPDATE_THREADS`].
pub const UPDATE: Entry = Entry("GROUPS_UPDATE");
/// Tiles.
pub const PIXELS: Entry = Entry("GROUPS_PIXELS");
/// Tiles / [`crate::layout::DISPATCH_PARTS`].
pub const PIXELS_PART: Entry = Entry("GROUPS_PIXELS_PART");

const BEGIN: Code = Code::new("begin", "begin");
const PROJECT: Code = Code::new("project", "project").by(OPTICS
    .with(Bits::MLP)
    .with(Bits::CHOSEN_TILES)
    .with(Bits::FRAMES));

/// Words of a dispatch entry.
const ENTRY_WORDS: u32 = (ENTRY_BYTES / WORD) as u32;

/// Number of chosen tiles before each tile, and their total.
pub const TILES_BEFORE: &str = "tiles_before";

/// Bits that change the projection of Gaussians to the image.
pub const OPTICS: Bits = Bits::CAMERA.with(Bits::ANTIALIAS);

/// Depths of visible Gaussians by place, from here to `order`, and the tensor that they are in: the sort by depth has
/// not begun to use it.
pub(super) const DEPTH_BITS: (&str, &str) = ("depth_bits", "depth_keys_alt");

/// Visible Gaussians of each workgroup in a render of several views.
pub(super) const FRAME_VISIBLE: (&str, &str) = ("group_visible", "frame_visible");

/// The stage.
pub static PASS: Pass = Pass {
    shaders: shaders!["begin", "project"],
    kernels: &[BEGIN, PROJECT],
    tensors: &[
        Tensor::new(Axis::View, "views", 0),
        Tensor::new(Axis::View, "lenses", 0),
        Tensor::new(Axis::One, "state", (size_of::<State>() / 4) as u32),
        Tensor::new(Axis::One, "groups", MOST_ENTRIES * ENTRY_WORDS).used(Use::Indirect),
        // The counter of visible Gaussians.
        Tensor::new(Axis::One, "visible_placed", 1),
        Tensor::new(Axis::Gaussian, "visible_rank", 1),
        Tensor::new(Axis::GaussianGroup, "group_visible", 1).and_one(),
        Tensor::new(Axis::Visible, "splats2d", 12).and_one(),
        Tensor::new(Axis::Visible, "tiles_touched", 1).and_one(),
        Tensor::new(Axis::Tile, TILES_BEFORE, 1)
            .when(Bits::CHOSEN_TILES)
            .and_one(),
    ],
    borrows: &[DEPTH_BITS],
    entries: &[GAUSSIANS, UPDATE, PIXELS, PIXELS_PART],
    first: &[Bits::NONE],
    // Means, scales, rotations and opacities of all in, colours of the visible Gaussians; their splats, numbers of
    // tiles and depths, and the place of every Gaussian out.
    bytes: |load, precision| {
        let sh0 = (plane::GEOMETRY - plane::SH0) as u64 * WORD;
        let rest = u64::from(precision.sh.words(sh_planes(load.sh_degree))) * WORD;
        load.gaussians * (plane::SH0 as u64 * WORD + WORD)
            + load.visible * (sh0 + rest + SPLAT + 2 * WORD)
    },
    unless: Bits::FRAMES,
    ..Pass::new("project", record)
};

/// Cameras of a render of several views. The other stages read only the size of an image, from the entry of `views` for
/// renders.
pub const FRAME_VIEWS: &str = "frame_views";
/// Their lenses.
pub const FRAME_LENSES: &str = "frame_lenses";

const fn frame_words<T>() -> u32 {
    MOST_FRAMES * (size_of::<T>() / WORD as usize) as u32
}

/// The stage in a render of several views.
pub static FRAMES: Pass = Pass {
    kernels: &[BEGIN, PROJECT],
    needs: Bits::FRAMES,
    tensors: &[
        Tensor::new(Axis::FrameGroup, FRAME_VISIBLE.1, 1)
            .and_one()
            .when(Bits::FRAMES),
        Tensor::new(Axis::FrameGroup, "frame_places", 1).when(Bits::FRAMES),
        Tensor::new(Axis::One, FRAME_VIEWS, frame_words::<View>()).when(Bits::FRAMES),
        Tensor::new(Axis::One, FRAME_LENSES, frame_words::<Lens>()).when(Bits::FRAMES),
    ],
    borrows: &[
        DEPTH_BITS,
        FRAME_VISIBLE,
        ("views", FRAME_VIEWS),
        ("lenses", FRAME_LENSES),
    ],
    ..Pass::new("project", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&BEGIN, Size::ONE)?;
    r.run(&PROJECT, GAUSSIANS)
}
