// Returns true if `value` is finite. Tests bits, because compilers may assume that comparisons meet
// numbers only.
fn is_number(value: f32) -> bool {
    return (bitcast<u32>(value) & 0x7f800000u) != 0x7f800000u;
}
