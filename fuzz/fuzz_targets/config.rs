//! Configurations: parsed, resolved and checked.
#![no_main]

use dapple_train::{ConfigPatch, TrainConfig};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    drop(ConfigPatch::parse(text, "config.toml"));
    drop(TrainConfig::parse(text, "config.toml"));
});
