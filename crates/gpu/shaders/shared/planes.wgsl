// Parameters are a structure of arrays: plane p of Gaussian i is at [p * capacity + i], so that
// neighbouring invocations read neighbouring words. Same layout as `layout::plane`.

const PLANE_MEAN: u32 = 0u;
const PLANE_SCALE: u32 = 3u;
const PLANE_QUAT: u32 = 6u;
const PLANE_OPACITY: u32 = 10u;
const PLANE_SH0: u32 = 11u;
// Planes of `geometry`. `geometry_moments` holds the same number of first moments, then second
// moments.
const GEOMETRY_PLANES: u32 = 14u;
// Buffers sh_rest, sh_first, sh_second: plane 3 * (k - 1) + c of coefficient k, channel c.
