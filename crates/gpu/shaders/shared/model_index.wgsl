// Returns the index in the model of a Gaussian of this engine (dapple_engine::Part): blocks of the model belong to its
// engines in turn. The importing shader declares `state`.
fn model_index(i: u32) -> u32 {
    return i + i / max(state.block, 1u) * state.skipped + state.first;
}
