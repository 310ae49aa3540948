//! Normal consistency: a second blend of normals and distances, its loss, and its backward pass, after the slots of
//! colours are summed. See `shaders/normal_loss.wgsl`.
//!
//! The kernels are `blend`, `blend_backward` and `slot_sums`, with other tensors: `INSTEAD`. Slots, checkpoints and the
//! gradient of the image are used again: nothing reads those of colours any more.

use super::point::{Feature, Point};
use crate::layout::SLOT_FLOATS;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::Recorder;
use crate::stages::blend::{self, BLEND};
use crate::stages::blend_backward::{self, BACKWARD};
use crate::stages::order::VISIBLE;
use crate::stages::project::{GAUSSIANS, PIXELS};
use crate::stages::shaders;
use crate::stages::update::{self, SLOTS};
use dapple_engine::constants::TILE_SIZE;
use dapple_engine::features::normals::{LEAST_ALPHA, LEAST_COSINE, MOST_STEP};
use dapple_engine::{LossTerm, StepSettings, ViewId};
use dapple_runtime::Defines;
use dapple_scene::Result;

const SPLATS: Code = Code::new("normal_splats", "normal_splats_of");
const POINTS: Code = Code::new("normal_loss", "normal_points_of").by(Bits::CAMERA);
const LOSS: Code = Code::new("normal_loss", "normal_loss").by(Bits::CAMERA);
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

/// Holds nothing between steps.
#[derive(Debug, Default)]
pub struct Held;

impl Feature for Held {
    type State = ();
    type Immediates = ();
    type Parameters = ();
    const PASSES: &'static [(Point, &'static Pass)] = &[
        (Point::Gradients, &FORTH),
        (Point::Gradients, &COMPARE),
        (Point::Gradients, &BACK),
        (Point::Gradients, &ADD),
    ];

    fn define(defines: Defines) -> Defines {
        defines
            .f32("LEAST_ALPHA", LEAST_ALPHA)
            .f32("LEAST_COSINE", LEAST_COSINE)
            .f32("MOST_STEP", MOST_STEP)
    }

    fn bits(&self, _view: ViewId, settings: &StepSettings) -> Bits {
        Bits::when(settings.losses[LossTerm::Normals] > 0.0, Bits::NORMALS)
    }
}
