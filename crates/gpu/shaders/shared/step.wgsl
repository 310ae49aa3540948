// Numbers that every step needs and that change from step to step, the GPU's own counts, and cameras. shared/parameters
// has the numbers that only some steps need. The structs are `layout::{Step, State, View}`.

#import shared/struct_step
#import shared/struct_state
#import shared/struct_view

// Add screen-space gradients to the density statistics.
const FLAG_DENSITY: u32 = 1u;
// The photo has masked pixels (bits after its pixels).
const FLAG_MASK: u32 = 2u;
// `gradients` adds to the gradients of the step or call before.
const FLAG_ADD_GRADIENTS: u32 = 4u;
// `contributors` finds those after the ones of the call before.
const FLAG_MORE: u32 = 8u;
// Regularisers act only on Gaussians that a photo has moved.
const FLAG_MOVED_ONLY: u32 = 16u;

var<immediate> step: Step;

// In a render of several views, the one that an invocation works for; else 0.
var<private> frame: u32;

fn view_number() -> u32 {
    return step.view + frame;
}

// Returns the number of views that are rendered. They have the same size.
fn frame_count() -> u32 {
    return max(step.frames, 1u);
}

const HALT_INSTANCES: u32 = 1u;
const HALT_BUCKETS: u32 = 2u;
const HALT_GAUSSIANS: u32 = 4u;
const HALT_VISIBLE: u32 = 8u;
