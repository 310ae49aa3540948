// An entry of the ring buffer `reports`, which the host reads later. The struct is
// `layout::Report`.
#import shared/struct_report

// A training step; a densification round.
const REPORT_STEP: u32 = 0u;
const REPORT_DENSIFY: u32 = 1u;
