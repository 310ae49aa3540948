// Contents of an instance's gradient slot in addition to its SLOT_FLOATS numbers, in the separate buffer `extra_slots`.
// In permutation ABSOLUTE: the sums of |s d(exponent)/dx| and |s d(exponent)/dy|. In permutation DEPTH, as the last
// number: the sum of w dL/d(blended depth). `extra_gradients` holds the sums by Gaussian: number k of the visible
// Gaussian at place c is at [k * visible_capacity + c].
#if DEPTH
#if ABSOLUTE
const EXTRA_FLOATS: u32 = 3u;
#else
const EXTRA_FLOATS: u32 = 1u;
#endif
#else
const EXTRA_FLOATS: u32 = 2u;
#endif
const EXTRA_DEPTH: u32 = EXTRA_FLOATS - 1u;
