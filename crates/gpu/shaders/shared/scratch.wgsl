// Returns true if the buffers of instances can hold the scratch data of density control and the Morton order: a word
// per Gaussian in each buffer, and the same number of planes of `slots`. The host sizes the buffers so; otherwise this
// function halts the step. Called by one invocation. The caller does nothing if the result is false.
#import shared/halt

fn has_scratch() -> bool {
    if state.halted == 0u && state.instance_capacity <= state.capacity {
        halt(HALT_INSTANCES, state.capacity + 1u);
    }
    return state.halted == 0u;
}
