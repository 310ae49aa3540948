// `appearance`, after `appearance_gather`: one step of Adam for the grid of the step's view. One invocation per row of
// a map.
//
// `gradient`: adds up the shares, in order, and the derivative of the regulariser (total variation, and the distance
// from the identity). It reads neighbouring cells, so no cell may change during it. It also counts the view's steps.
// `advance`: Adam, with the bias correction of that count. Between two steps on a view its moments do not change.
//
// appearance, appearance_first, appearance_second: rows of maps and moments, by view. appearance_seen: steps by view.
// Reference: dapple_reference::{appearance_regulariser, adam}.

#import shared/step
#import shared/rests
#import shared/groups
#import shared/appearance

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<storage, read_write> appearance: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> appearance_first: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> appearance_second: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> appearance_seen: array<u32>;
@group(0) @binding(5) var<storage, read_write> appearance_gradient: array<vec4f>;
@group(0) @binding(6) var<storage, read> appearance_partials: array<f32>;

fn shares(row: u32) -> vec4f {
    var sum = vec4f(0.0);
    for (var slice = 0u; slice < GRID_SLICES; slice += 1u) {
        let at = 4u * (slice * GRID_ROWS + row);
        sum += vec4f(
            appearance_partials[at],
            appearance_partials[at + 1u],
            appearance_partials[at + 2u],
            appearance_partials[at + 3u],
        );
    }
    return sum;
}

// Returns the derivative of the squared differences with both neighbours along one axis. The axis has `cells` cells,
// `stride` apart.
fn pull(row: u32, stride: u32, cells: u32, weight: f32) -> vec4f {
    let base = (step.view - 1u) * GRID_ROWS + row;
    let at = row / 3u / stride % cells;
    var out = vec4f(0.0);
    if at > 0u {
        out += weight * (appearance[base] - appearance[base - 3u * stride]);
    }
    if at + 1u < cells {
        out -= weight * (appearance[base + 3u * stride] - appearance[base]);
    }
    return out;
}

fn identity(row: u32) -> vec4f {
    let which = row % 3u;
    return vec4f(f32(which == 0u), f32(which == 1u), f32(which == 2u), 0.0);
}

@compute @workgroup_size(64)
fn gradient(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = group_number(group, groups) * 64u + lane;
    if row >= GRID_ROWS || state.halted != 0u {
        return;
    }
    var sum = shares(row);
    sum += pull(row, GRID_L, GRID_X, GRID_PULL_X);
    sum += pull(row, GRID_L * GRID_X, GRID_Y, GRID_PULL_Y);
    sum += pull(row, 1u, GRID_L, GRID_PULL_L);
    let base = (step.view - 1u) * GRID_ROWS;
    sum += GRID_PULL_IDENTITY * (appearance[base + row] - identity(row));
    appearance_gradient[row] = sum;
    if row == 0u {
        appearance_seen[step.view - 1u] += 1u;
    }
}

@compute @workgroup_size(64)
fn advance(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = group_number(group, groups) * 64u + lane;
    if row >= GRID_ROWS || state.halted != 0u {
        return;
    }
    let at = (step.view - 1u) * GRID_ROWS + row;
    let by = appearance_gradient[row];
    var m = step.beta1 * appearance_first[at] + (1.0 - step.beta1) * by;
    var v = step.beta2 * appearance_second[at] + (1.0 - step.beta2) * by * by;
    m = select(m, vec4f(0.0), abs(m) < vec4f(FLUSH));
    v = select(v, vec4f(0.0), v < vec4f(FLUSH));
    appearance_first[at] = m;
    appearance_second[at] = v;
    let seen = appearance_seen[step.view - 1u];
    let rate = step.appearance_rate / correction(step.beta1, seen);
    let root = sqrt(v / correction(step.beta2, seen));
    appearance[at] -= rate * m / (root + step.epsilon);
}
