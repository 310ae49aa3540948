// Prefix sums over Gaussians in density control: shared/block_scan, with the sums of blocks in `block_sums`. Groups of
// Gaussians have 256 members, as everywhere.
//
// The importing shader declares `block_sums: array<vec4u>` and `geometry: array<u32>` for writing, `groups_read`,
// `state_read`, and imports shared/planes and shared/regroup.

alias ScanValue = vec4u;
const SCAN_WIDTH: u32 = 256u;
#import shared/block_scan

fn long_scan_item(i: u32) -> vec4u {
    return block_sums[i];
}

fn long_scan_put(i: u32, before: vec4u) {
    block_sums[i] = before;
}

// Writes a parameter of Gaussian i.
fn put(p: u32, i: u32, value: f32) {
    geometry[p * state_read.capacity + i] = bitcast<u32>(value);
}
