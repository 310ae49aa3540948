// Exclusive prefix sum over the invocations of a workgroup. The importing shader defines the type of the values and the
// number of invocations:
//   alias ScanValue = u32;      (or a vector of u32)
//   const SCAN_WIDTH: u32 = 256u;   (invocations in the workgroup)
//
// With subgroups: (1) scan within each subgroup; (2) the last lane writes the sum of the subgroup to shared memory; (3)
// every invocation adds the sums of the subgroups before its own. Without: Hillis & Steele ("Data Parallel Algorithms",
// CACM 1986), log2(SCAN_WIDTH) sweeps over two copies.

// Invocation numbers: parameters of an entry point, after its workgroup number.
#if SUBGROUPS
struct Invocation {
    @builtin(subgroup_id) group: u32,
    @builtin(subgroup_invocation_id) lane: u32,
}

fn group_of(at: Invocation) -> u32 {
    return at.group;
}

fn lane_of(at: Invocation) -> u32 {
    return at.lane;
}
#else
struct Invocation {
    @builtin(local_invocation_index) index: u32,
}

fn group_of(at: Invocation) -> u32 {
    return at.index / SUBGROUP_SIZE;
}

fn lane_of(at: Invocation) -> u32 {
    return at.index % SUBGROUP_SIZE;
}
#endif

// Returns the number of an invocation in its workgroup.
fn index_of(at: Invocation) -> u32 {
    return group_of(at) * SUBGROUP_SIZE + lane_of(at);
}

struct Scanned {
    // Sum over the invocations before this one, and over all.
    before: ScanValue,
    total: ScanValue,
}

#if SUBGROUPS
var<workgroup> scan_parts: array<ScanValue, SCAN_WIDTH / SUBGROUP_SIZE>;

// The order of invocations is that of `group * SUBGROUP_SIZE + lane`. Uniform control flow only.
fn workgroup_scan(value: ScanValue, group: u32, lane: u32) -> Scanned {
    let before = subgroupExclusiveAdd(value);
    // All invocations have read the parts of an earlier scan.
    workgroupBarrier();
    if lane == SUBGROUP_SIZE - 1u {
        scan_parts[group] = before + value;
    }
    workgroupBarrier();
    var scanned = Scanned(before, ScanValue());
    for (var g = 0u; g < SCAN_WIDTH / SUBGROUP_SIZE; g++) {
        if g < group {
            scanned.before += scan_parts[g];
        }
        scanned.total += scan_parts[g];
    }
    return scanned;
}
#else
var<workgroup> scan_parts: array<ScanValue, 2u * SCAN_WIDTH>;

// The order of invocations is that of `group * SUBGROUP_SIZE + lane`. Uniform control flow only.
fn workgroup_scan(value: ScanValue, group: u32, lane: u32) -> Scanned {
    let t = group * SUBGROUP_SIZE + lane;
    var sum = value;
    var copy = 0u;
    workgroupBarrier();
    scan_parts[t] = sum;
    for (var reach = 1u; reach < SCAN_WIDTH; reach *= 2u) {
        workgroupBarrier();
        if t >= reach {
            sum += scan_parts[copy + t - reach];
        }
        copy = SCAN_WIDTH - copy;
        scan_parts[copy + t] = sum;
    }
    workgroupBarrier();
    return Scanned(sum - value, scan_parts[copy + SCAN_WIDTH - 1u]);
}
#endif

fn scan_of(value: ScanValue, at: Invocation) -> Scanned {
    return workgroup_scan(value, group_of(at), lane_of(at));
}
