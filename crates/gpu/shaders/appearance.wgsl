// `appearance`, the part that runs per pixel. One invocation per pixel, one workgroup per tile.
//
// `apply`, before `loss`: the map of a pixel is the trilinear mean of the eight maps around it. The loss compares the
// mapped colour with the photo.
// `chain`, after `loss`: turns dL/d(mapped colour) into dL/d(rendered colour). The rendered colour changes the result
// directly and also through its luminance, which is the coordinate on the grid's third axis.
//
// appearance: rows of maps, by view, see shared/appearance. image: the render. corrected: the result. image_gradient:
// in and out. Reference: dapple_reference::appearance. CPU version: cpu/src/features/appearance/kernels.rs.

#import shared/step
#import shared/groups
#import shared/appearance
#import shared/tile_pixel

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> image: array<vec4f>;
@group(0) @binding(2) var<storage, read> appearance: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> corrected: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> image_gradient: array<vec4f>;

struct Map {
    red: vec4f,
    green: vec4f,
    blue: vec4f,
}

fn row_of(column: u32, l: u32) -> u32 {
    // View 0 is for renders.
    return (step.view - 1u) * GRID_ROWS + 3u * (column * GRID_L + l);
}

// Returns the map at cell `l` of the luminance, mixed along x and y.
fn map_at(l: u32, x: Place, y: Place) -> Map {
    let a = row_of(y.first * GRID_X + x.first, l);
    let b = row_of(y.first * GRID_X + x.next, l);
    let c = row_of(y.next * GRID_X + x.first, l);
    let d = row_of(y.next * GRID_X + x.next, l);
    return Map(
        mix(mix(appearance[a], appearance[b], x.part), mix(appearance[c], appearance[d], x.part), y.part),
        mix(
            mix(appearance[a + 1u], appearance[b + 1u], x.part),
            mix(appearance[c + 1u], appearance[d + 1u], x.part),
            y.part,
        ),
        mix(
            mix(appearance[a + 2u], appearance[b + 2u], x.part),
            mix(appearance[c + 2u], appearance[d + 2u], x.part),
            y.part,
        ),
    );
}

// The maps on both sides of a luminance, and the distance of the luminance from the dark one.
struct Pair {
    dark: Map,
    light: Map,
    part: f32,
}

struct Pixel {
    inside: bool,
    index: u32,
    x: Place,
    y: Place,
}

fn pixel_of(group: vec3u, groups: vec3u, lane: u32) -> Pixel {
    let own = tile_pixel(group, groups, lane);
    let size = views[step.view].size;
    return Pixel(
        own.inside,
        own.index,
        place(along_image(own.at.x, size.x, GRID_X), GRID_X),
        place(along_image(own.at.y, size.y, GRID_Y), GRID_Y),
    );
}

fn pair_at(pixel: Pixel, luminance: f32) -> Pair {
    let l = place_of_luminance(luminance);
    return Pair(map_at(l.first, pixel.x, pixel.y), map_at(l.next, pixel.x, pixel.y), l.part);
}

fn mixed(pair: Pair) -> Map {
    return Map(
        mix(pair.dark.red, pair.light.red, pair.part),
        mix(pair.dark.green, pair.light.green, pair.part),
        mix(pair.dark.blue, pair.light.blue, pair.part),
    );
}

@compute @workgroup_size(TILE_SIZE * TILE_SIZE)
fn apply(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let pixel = pixel_of(group, groups, lane);
    if !pixel.inside {
        return;
    }
    let render = image[pixel.index];
    let map = mixed(pair_at(pixel, dot(LUMA, render.rgb)));
    let input = vec4f(render.rgb, 1.0);
    corrected[pixel.index] = vec4f(
        dot(map.red, input),
        dot(map.green, input),
        dot(map.blue, input),
        render.a,
    );
}

@compute @workgroup_size(TILE_SIZE * TILE_SIZE)
fn chain(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let pixel = pixel_of(group, groups, lane);
    if !pixel.inside {
        return;
    }
    let render = image[pixel.index].rgb;
    let by = image_gradient[pixel.index];
    let luminance = dot(LUMA, render);
    let pair = pair_at(pixel, luminance);
    let map = mixed(pair);
    let direct = by.r * map.red.rgb + by.g * map.green.rgb + by.b * map.blue.rgb;
    let input = vec4f(render, 1.0);
    let by_place = by.r * dot(pair.light.red - pair.dark.red, input)
        + by.g * dot(pair.light.green - pair.dark.green, input)
        + by.b * dot(pair.light.blue - pair.dark.blue, input);
    // Beyond the ends the grid is constant.
    let moves = luminance > 0.0 && luminance < 1.0;
    let slope = select(0.0, f32(GRID_L - 1u), moves);
    image_gradient[pixel.index] = vec4f(direct + slope * by_place * LUMA, by.a);
}
