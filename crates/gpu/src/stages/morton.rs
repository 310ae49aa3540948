//! `morton`: Gaussians in the order of a Z curve through their centres. See `shaders/morton.wgsl`.

use super::gather::{self, SORT_KEYS, SORT_VALUES, entry};
use super::shaders;
use crate::passes::{Bits, Code, Pass};
use crate::recorder::{Recorder, Size};
use dapple_scene::Result;

/// 30 bits of cells, and one for non-finite centres.
pub const CODE_BITS: u32 = 31;

const OPEN: Code = Code::new("morton", "open");
const BOUNDS: Code = Code::new("morton", "bounds");
const CODES: Code = Code::new("morton", "codes");

/// The stage: puts Gaussians, moments and statistics in order.
pub static PASS: Pass = Pass {
    shaders: shaders!["morton", "gather"],
    kernels: &[OPEN, BOUNDS, CODES, gather::GATHER, gather::PUT_BACK],
    needs: Bits::REORDER,
    borrows: &[
        ("groups_read", "groups"),
        ("box", "instance_gaussian"),
        SORT_KEYS,
    ],
    sorts: &[(CODE_BITS, true)],
    first: &[Bits::NONE],
    ..Pass::new("morton", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&OPEN, Size::ONE)?;
    r.run(&BOUNDS, entry::NEW)?;
    r.run(&CODES, entry::NEW)?;
    gather::record_sort(r, CODE_BITS, true)?;
    gather::record(r, SORT_VALUES.1)
}
