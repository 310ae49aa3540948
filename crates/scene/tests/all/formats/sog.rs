//! SOG: what its options change.

use crate::formats::support::crowd;
use dapple_scene::splat_file::{Format, WriteOptions, encode, parse};

#[test]
fn a_larger_palette_loses_less_and_takes_more_bytes() {
    let splats = crowd(3000, 3);
    let with = |sog_palette| {
        let options = WriteOptions {
            sog_palette,
            ..WriteOptions::default()
        };
        encode(&splats, Format::Sog, &options).unwrap()
    };
    let rest = |bytes: &[u8]| parse(bytes, Format::Sog).unwrap().0.sh_rest;
    // One for ten of them would be fewer than the least.
    assert!(with(None) == with(Some(1024)));
    // An entry for each, in the same order as the others.
    let whole = with(Some(usize::MAX));
    let apart = |bytes: &[u8]| {
        let pairs = rest(bytes).into_iter().zip(rest(&whole));
        pairs.map(|(a, b)| (a - b).powi(2)).sum::<f32>()
    };
    let (small, usual) = (with(Some(64)), with(None));
    assert!(small.len() < usual.len() && usual.len() < whole.len());
    assert!(apart(&small) > 1.2 * apart(&usual) && apart(&usual) > 0.0);
}
