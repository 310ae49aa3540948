// How a stage stops the step when a buffer is too small: it says what it wanted, and no later stage
// runs, this step or the next, until the host has grown the buffer.
//
// The importing shader declares `state` and `groups` for writing. Called by one invocation.

#import shared/step
#import shared/groups

// No dispatch of a step's stages runs.
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
