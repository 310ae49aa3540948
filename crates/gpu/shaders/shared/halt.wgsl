// Stops the step when a buffer is too small. The stage records the size that it needs, and no later
// stage runs, in this step or the next, until the host has grown the buffer.
//
// The importing shader declares `state` and `groups` for writing. Called by one invocation.

#import shared/step
#import shared/groups

// Sets all dispatches of a step's stages to zero workgroups.
fn clear_groups() {
    for (var entry = 0u; entry < STEP_ENTRIES; entry++) {
        groups[entry] = vec4u();
    }
}

fn halt(why: u32, wanted: u32) {
    state.halted |= why;
    state.wanted = wanted;
    clear_groups();
}
