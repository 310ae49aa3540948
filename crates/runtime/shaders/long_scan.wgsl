// Exclusive prefix sum by one workgroup over a list longer than the workgroup, one stretch at a time. For lists of some
// thousand entries it is faster than the three dispatches of scan.wgsl.
//
// The importing shader defines the names that shared/workgroup_scan needs, and two functions:
//   fn long_scan_item(i: u32) -> ScanValue          the i-th entry
//   fn long_scan_put(i: u32, before: ScanValue)     receives the sum of the entries before the i-th

#import shared/workgroup_scan

// Consecutive entries that an invocation reads at a time: one sector of memory, all loads in flight together.
const LONG_SCAN_EACH: u32 = 8u;

// Returns the sum of all entries. Uniform control flow only, `count` equal in all invocations.
fn long_scan(count: u32, group: u32, lane: u32) -> ScanValue {
    let t = group * SUBGROUP_SIZE + lane;
    var start = ScanValue();
    for (var first = 0u; first < count; first += SCAN_WIDTH * LONG_SCAN_EACH) {
        var items: array<ScanValue, LONG_SCAN_EACH>;
        var sum = ScanValue();
        for (var k = 0u; k < LONG_SCAN_EACH; k++) {
            let i = first + t * LONG_SCAN_EACH + k;
            items[k] = ScanValue();
            if i < count {
                items[k] = long_scan_item(i);
            }
            sum += items[k];
        }
        let scanned = workgroup_scan(sum, group, lane);
        var before = start + scanned.before;
        for (var k = 0u; k < LONG_SCAN_EACH; k++) {
            let i = first + t * LONG_SCAN_EACH + k;
            if i < count {
                long_scan_put(i, before);
            }
            before += items[k];
        }
        start += scanned.total;
    }
    return start;
}
