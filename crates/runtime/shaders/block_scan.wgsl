// Exclusive prefix sum over a list, by blocks of SCAN_WIDTH items, in kernels of the importing shader. Their workgroups
// have SCAN_WIDTH invocations.
// 1. `sum_block`, a workgroup per block: stores the sum of the block.
// 2. `scan_blocks`, one workgroup: replaces the sum of each block by the sum of the blocks before it.
// 3. A workgroup per block: the sum before an item is that of its block, plus `scan_of(value, at).before`.
// Sums are integers, so that the order of additions does not matter.
//
// The importing shader defines the names that shared/long_scan needs; entry i is the sum of block i.

#import shared/flat_groups
#import shared/long_scan

fn blocks_of(count: u32) -> u32 {
    return (count + SCAN_WIDTH - 1u) / SCAN_WIDTH;
}

// Returns the item of an invocation.
fn item_of(block: u32, at: Invocation) -> u32 {
    return block * SCAN_WIDTH + index_of(at);
}

// Stores the sum of a block of a list of `count` items. A block behind the list has none. Uniform control flow only.
fn sum_block(block: u32, count: u32, value: ScanValue, at: Invocation) {
    let total = scan_of(value, at).total;
    if index_of(at) == 0u && block * SCAN_WIDTH < count {
        long_scan_put(block, total);
    }
}

var<workgroup> block_count: u32;

// Returns the sum of a list of `count` items: of the first invocation's `count`. Uniform control flow only.
fn scan_blocks(count: u32, at: Invocation) -> ScanValue {
    if index_of(at) == 0u {
        block_count = blocks_of(count);
    }
    return long_scan(workgroupUniformLoad(&block_count), group_of(at), lane_of(at));
}
