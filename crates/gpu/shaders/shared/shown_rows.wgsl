// Rows of shipments between engines that hold parts of a model: see parts.wgsl.
#if EXTRA_SLOTS
#import shared/extra_slots
const SUM_WORDS: u32 = SLOT_FLOATS + EXTRA_FLOATS;
#else
const SUM_WORDS: u32 = SLOT_FLOATS;
#endif

// Place of the numbers of splats2d in a row of `shown`.
const SPLAT_AT: u32 = 2u;

// Returns the first word of a row of `shown`: the index of the Gaussian in its part.
fn shown_row(c: u32) -> u32 {
    return SHOWN_HEAD + SHOWN_WORDS * c;
}
