//! The tests of the Python package, run by the interpreter: see `test_*.py` beside this file.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of compiled files: this program is in its folder `deps`.
fn built() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(2).unwrap().to_owned()
}

#[test]
fn library_is_there() {
    println!("{:?}", built());
    assert!(built().join("libdapple_gs_native.so").exists());
}

fn main2(_: &Path, _: Command) {}
