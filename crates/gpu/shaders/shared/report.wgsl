// An entry of the ring buffer `reports`, which the host reads later. Same layout as
// `layout::Report`.

struct Report {
    // REPORT_*.
    kind: u32,
    // As in the immediates.
    number: u32,
    view: u32,
    loss: f32,
    // As in State.
    gaussians: u32,
    visible: u32,
    instances: u32,
    buckets: u32,
    // Tiles of the view.
    tiles: u32,
    // As in State from here on.
    max_per_tile: u32,
    cut_instances: u32,
    lost_transmittance: f32,
    halted: u32,
    wanted: u32,
    cloned: u32,
    split: u32,
    pruned: u32,
    refused: u32,
    relocated: u32,
    added: u32,
    // finite.wgsl adds to these counts, which begin at 0.
    broken: u32,
    broken_tensors: u32,
    pad: array<u32, 2>,
}

// A training step; a densification round.
const REPORT_STEP: u32 = 0u;
const REPORT_DENSIFY: u32 = 1u;
