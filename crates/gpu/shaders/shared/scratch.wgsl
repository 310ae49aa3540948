// Whether there is room for what density control and the Morton order borrow from the buffers of
// instances: a word a Gaussian of each, and as many planes of `slots` as those have. The host keeps it
// so; otherwise this halts. Called by one invocation; nothing may be done where it is false.
#import shared/halt

fn has_scratch() -> bool {
    if state.halted == 0u && state.instance_capacity <= state.capacity {
        halt(HALT_INSTANCES, state.capacity + 1u);
    }
    return state.halted == 0u;
}
