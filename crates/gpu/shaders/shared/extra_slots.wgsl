// What an instance's slot holds beside its SLOT_FLOATS numbers, in a buffer of its own, `extra_slots`: in
// permutation ABSOLUTE the sums of |s d(exponent)/dx| and |s d(exponent)/dy|; in permutation DEPTH, as
// the last, the sum of w dL/d(blended depth). Added up by Gaussian in `extra_gradients`: number k of the
// visible Gaussian at place c lies at [k * visible_capacity + c].
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
