// Words of the sums of a Gaussian in shipments between engines that hold parts of a model: see parts.wgsl.
#if EXTRA_SLOTS
#import shared/extra_slots
const SUM_WORDS: u32 = SLOT_FLOATS + EXTRA_FLOATS;
#else
const SUM_WORDS: u32 = SLOT_FLOATS;
#endif
