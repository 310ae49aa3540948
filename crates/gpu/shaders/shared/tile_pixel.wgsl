// The pixel of an invocation, where a workgroup is a tile of the step's view. Needs shared/step, shared/groups and the
// binding `views`.

struct TilePixel {
    inside: bool,
    // Number of the tile.
    tile: u32,
    // Column and row.
    at: vec2u,
    // Index in the image.
    index: u32,
}

fn tile_pixel(group: vec3u, groups: vec3u, lane: u32) -> TilePixel {
    let number = group_number(group, groups);
    let tiles = views[step.view].tiles;
    let size = views[step.view].size;
    let local = vec2u(lane % TILE_SIZE, lane / TILE_SIZE);
    let at = vec2u(number % tiles.x, number / tiles.x) * TILE_SIZE + local;
    let inside = number < tiles.x * tiles.y && all(at < size);
    return TilePixel(inside, number, at, at.y * size.x + at.x);
}
