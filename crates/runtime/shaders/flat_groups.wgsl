// Workgroups in two dimensions if one dimension does not hold them. On the host: `Groups::flat`.

const GROUPS_WIDTH: u32 = 32768u;

// Dispatch that runs at least `count` workgroups; none for 0.
fn flat_groups(count: u32) -> vec4u {
    let x = min(count, GROUPS_WIDTH);
    return vec4u(x, select(0u, (count + x - 1u) / max(x, 1u), x > 0u), 1u, 0u);
}

fn groups_for(items: u32, each: u32) -> vec4u {
    return flat_groups((items + each - 1u) / each);
}

// Number of a workgroup in a flat dispatch. The number can exceed the count; the workgroup then returns.
fn group_number(id: vec3u, count: vec3u) -> u32 {
    return id.x + id.y * count.x;
}
