//! Losses of the planes of Gaussians: a second blend of normals and distances, its losses, and its backward pass, after
//! the slots of colours are summed. See `shaders/normal_loss.wgsl` and `shaders/matching.wgsl`.
//!
//! The kernels are `blend`, `blend_backward` and `slot_sums`, with other tensors: `INSTEAD`. Slots, checkpoints and the
//! gradient of the image are used again: nothing reads those of colours any more.

use super::point::{Feature, FeatureContext, Point};
use crate::layout::SLOT_FLOATS;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::Recorder;
use crate::shared_struct::shared_struct;
use crate::stages::blend::{self, BLEND};
use crate::stages::blend_backward::{self, BACKWARD};
use crate::stages::order::VISIBLE;
use crate::stages::project::{GAUSSIANS, PIXELS};
use crate::stages::shaders;
use crate::stages::update::{self, SLOTS};
use crate::views::Views;
use dapple_engine::constants::TILE_SIZE;
use dapple_engine::features::normals::matching::{
    self, GRID, LEAST_MATCH, LEAST_VARIANCE, MatchedView, Pair, SIDE,
};
use dapple_engine::features::normals::{LEAST_ALPHA, LEAST_COSINE, MOST_STEP};
use dapple_engine::{FeatureInput, LossTerm, PosedCamera, StepSettings, ViewId};
use dapple_runtime::Defines;
use dapple_scene::Result;
use dapple_scene::grey::halvings;

const SPLATS: Code = Code::new("normal_splats", "normal_splats_of");
const POINTS: Code = Code::new("normal_loss", "normal_points_of").by(Bits::CAMERA);
const LOSS: Code = Code::new("normal_loss", "normal_loss").by(Bits::CAMERA);
const MATCHING: Code = Code::new("matching", "matching").by(Bits::CAMERA);
const SUMS: Code = Code::new("normal_sums", "normal_sums");

/// Tensors instead of those of colours, by the names of bindings.
const INSTEAD: &[(&str, &str)] = &[
    ("splats2d", "normal_splats"),
    ("image", "normal_image"),
    ("depth_pixels", "normal_depths"),
    ("depth_checkpoints", "normal_checkpoints"),
    ("extra_slots", "normal_slots"),
    ("splat_gradients", "normal_gradients"),
];

/// The second blend.
static FORTH: Pass = Pass {
    shaders: shaders!["normal_splats"],
    kernels: &[SPLATS, BLEND],
    needs: Bits::NORMALS,
    tensors: &[
        Tensor::new(Axis::Visible, "normal_splats", 12)
            .and_one()
            .when(Bits::NORMALS),
        Tensor::new(Axis::Pixel, "normal_image", 4).when(Bits::NORMALS),
        Tensor::new(Axis::Pixel, "normal_depths", 2).when(Bits::NORMALS),
        Tensor::new(Axis::Bucket, "normal_checkpoints", TILE_SIZE * TILE_SIZE).when(Bits::NORMALS),
    ],
    borrows: INSTEAD,
    ..Pass::new("blend", record_forth)
};

/// The loss, and its derivatives by the blended normals and distances.
static COMPARE: Pass = Pass {
    shaders: shaders!["normal_loss"],
    kernels: &[POINTS, LOSS],
    needs: Bits::NORMALS,
    tensors: &[Tensor::new(Axis::Pixel, "normal_points", 4).when(Bits::NORMALS)],
    ..Pass::new("loss", |r| {
        r.run(&POINTS, PIXELS)?;
        r.run(&LOSS, PIXELS)
    })
};

/// The shades of all photos that are compared, a byte a pixel.
const PHOTOS: &str = "matching_photos";

/// The loss of matching photos, and its derivatives by the blended normals and distances.
static MATCH: Pass = Pass {
    shaders: shaders!["matching"],
    kernels: &[MATCHING],
    needs: Bits::MATCHING,
    tensors: &[Tensor::new(Axis::Given, PHOTOS, 0)],
    ..Pass::new("loss", |r| r.run(&MATCHING, PIXELS))
};

/// The backward pass of the second blend.
static BACK: Pass = Pass {
    kernels: &[BACKWARD],
    needs: Bits::NORMALS,
    tensors: &[Tensor::new(Axis::Instance, "normal_slots", 1)
        .and_one()
        .when(Bits::NORMALS)],
    borrows: INSTEAD,
    ..Pass::new("blend_backward", |r| {
        r.with_bits(of_blend, blend_backward::PASS.record)
    })
};

/// Sums of the slots.
static ADD: Pass = Pass {
    shaders: shaders!["normal_sums"],
    kernels: &[SLOTS, SUMS],
    needs: Bits::NORMALS,
    tensors: &[
        Tensor::new(Axis::Visible, "normal_gradients", SLOT_FLOATS + 1)
            .and_one()
            .when(Bits::NORMALS),
    ],
    borrows: INSTEAD,
    ..Pass::new("update", |r| {
        (update::SUMS.record)(r)?;
        r.run(&SUMS, VISIBLE)
    })
};

fn record_forth(r: &mut Recorder<'_>) -> Result<()> {
    // The splats themselves are read from the tensor of colours.
    r.run_with(&SPLATS, GAUSSIANS, &[("splats2d", "splats2d")], &[])?;
    r.with_bits(of_blend, blend::PASS.record)
}

/// Returns the bits of the second blend: distances are its depths, and density control counts the first alone.
fn of_blend(step: Bits) -> Bits {
    step.without(Bits::ABSOLUTE).with(Bits::DEPTH)
}

/// The photos that steps compare.
#[derive(Debug, Default)]
pub struct Held {
    /// The views, without the shades of their photos.
    matched: Vec<MatchedView>,
    /// Number of the first byte of each photo.
    starts: Vec<u32>,
}

shared_struct! {
    /// Numbers of a step: see [`Pair`].
    pub struct Parameters {
        /// From the view's camera to the neighbour's; last the translation.
        rows as [match_row0, match_row1, match_row2]: [[f32; 4]; 3],
        /// Pixels of the photo for each pixel of the view.
        match_scale: [f32; 2],
        /// Pixels of the neighbour's photo for each unit of a place.
        match_focal: [f32; 2],
        /// Place of the neighbour's principal point.
        match_principal: [f32; 2],
        /// First pixel that is compared.
        match_first: [u32; 2],
        /// Size of the photo.
        match_own_size: [u32; 2],
        /// Size of the neighbour's photo.
        match_other_size: [u32; 2],
        /// First byte of the photo.
        match_own: u32,
        /// First byte of the neighbour's photo.
        match_other: u32,
        /// Entry of the neighbour in the buffer of lenses.
        match_view: u32,
        /// Alignment.
        match_pad: u32,
    }
}

fn camera_of(views: &Views, view: ViewId) -> Option<&PosedCamera> {
    views.get(view.0).map(|held| &held.camera)
}

impl Feature for Held {
    type State = ();
    type Immediates = ();
    type Parameters = Parameters;
    const PASSES: &'static [(Point, &'static Pass)] = &[
        (Point::Gradients, &FORTH),
        (Point::Gradients, &COMPARE),
        (Point::Gradients, &MATCH),
        (Point::Gradients, &BACK),
        (Point::Gradients, &ADD),
    ];

    fn define(defines: Defines) -> Defines {
        defines
            .f32("LEAST_ALPHA", LEAST_ALPHA)
            .f32("LEAST_COSINE", LEAST_COSINE)
            .f32("MOST_STEP", MOST_STEP)
            .u32("MATCH_GRID", GRID)
            .u32("MATCH_SIDE", SIDE)
            .f32("LEAST_VARIANCE", LEAST_VARIANCE)
            .f32("LEAST_MATCH", LEAST_MATCH)
    }

    fn parameters(
        &self,
        views: &Views,
        view: ViewId,
        settings: &StepSettings,
    ) -> Result<Parameters> {
        let camera = |view| camera_of(views, view);
        let Some(pair) = Pair::of(&self.matched, camera, view, settings) else {
            return Ok(Parameters::default());
        };
        let [own, other] = pair.views;
        Ok(Parameters {
            rows: pair.rows,
            match_scale: pair.scale,
            match_focal: pair.focal,
            match_principal: pair.principal,
            match_first: pair.first,
            match_own_size: self.matched[own].photo.size,
            match_other_size: self.matched[other].photo.size,
            match_own: self.starts[own],
            match_other: self.starts[other],
            // The first entry is for renders.
            match_view: self.matched[other].view.0 as u32 + 1,
            match_pad: 0,
        })
    }

    /// Replaces the photos that are compared.
    fn set_input(
        &mut self,
        at: &mut FeatureContext<'_>,
        input: FeatureInput,
    ) -> Result<Option<FeatureInput>> {
        let FeatureInput::Matching(mut matched) = input else {
            return Ok(Some(input));
        };
        matching::check(&matched, |view| camera_of(at.views, view))?;
        let sizes = matched.iter().map(|view| view.photo.size);
        for _ in 0..halvings(sizes, at.most_bytes) {
            for view in &mut matched {
                view.photo = view.photo.halved();
            }
        }
        let mut shades: Vec<u8> = Vec::new();
        self.starts.clear();
        for view in &mut matched {
            self.starts.push(shades.len() as u32);
            shades.append(&mut view.photo.shades);
        }
        let whole = shades.len().next_multiple_of(4).max(4);
        shades.resize(whole, 0);
        let buffer = at.context.gpu.upload(PHOTOS, &shades)?;
        at.buffers.set(PHOTOS, buffer);
        self.matched = matched;
        Ok(None)
    }

    fn bits(&self, view: ViewId, settings: &StepSettings) -> Bits {
        let matches = matching::compared(&self.matched, view, settings).is_some();
        let blends = matches || settings.losses[LossTerm::Normals] > 0.0;
        Bits::when(blends, Bits::NORMALS) | Bits::when(matches, Bits::MATCHING)
    }
}
