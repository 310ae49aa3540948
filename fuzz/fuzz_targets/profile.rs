//! `profile.json`, and the comparison of parsed profiles.
#![no_main]

use dapple_profile::{compare, comparison_text, from_json, profile_text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(profile) = from_json(text, "profile.json") {
        drop(profile_text(&profile));
        drop(comparison_text(&compare(&profile, &profile)));
    }
});
