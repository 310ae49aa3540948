// One workgroup's exclusive prefix sum over a list longer than itself, a stretch at a time: for lists
// of some thousand entries quicker than the three dispatches of scan.wgsl.
//
// The importing shader has what shared/workgroup_scan asks for, and two functions:
//   fn long_scan_item(i: u32) -> ScanValue          the i-th entry
//   fn long_scan_put(i: u32, before: ScanValue)     takes the sum of those before it

#import shared/workgroup_scan

// Consecutive entries that an invocation takes at a time: a sector of memory, all loads under way
// together.
const LONG_SCAN_EACH: u32 = 8u;

// The sum of all. Uniform control flow only, `count` the same in all invocations.
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
