//! Weights of LPIPS.
#![no_main]

use dapple_train::evaluate::Lpips;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(Lpips::parse(data));
});
