//! Checkpoints of runs.
#![no_main]

use dapple_train::Checkpoint;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(Checkpoint::parse(data));
});
