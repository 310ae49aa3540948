//! What tests do that need something which is not everywhere: a GPU driver, real captures, a browser.

use std::path::{Path, PathBuf};

/// A file or folder of the real captures: in the folder that `DAPPLE_DATA` names, or in `shared/data` beside a
/// folder above `from`, a crate's own. Where it is not, the test that asks is [`skipped`], and this is `None`.
///
/// # Panics
/// As [`skipped`].
pub fn capture(from: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("DAPPLE_DATA").map(PathBuf::from);
    let beside = Path::new(from)
        .ancestors()
        .map(|folder| folder.join("shared/data"));
    let mut paths = named.into_iter().chain(beside).map(|data| data.join(name));
    let found = paths.find(|path| path.exists());
    if found.is_none() {
        let why = format!("{name} is not there; set DAPPLE_DATA to the folder of real captures");
        skipped("captures", &why);
    }
    found
}

/// Says loudly that a test does not run because `what` is not here, and why it matters or how to get it.
/// `what` is one of `gpu`, `captures`, `chromium`, `node`.
///
/// # Panics
/// Where `DAPPLE_REQUIRE` names `what` (`gpu,captures,chromium,node`, as CI does), or `DAPPLE_TEST_GPU` a GPU:
/// there nothing may be skipped.
pub fn skipped(what: &str, why: &str) {
    assert!(
        !requires(what),
        "DAPPLE_REQUIRE or DAPPLE_TEST_GPU asks for {what}, and it is not here: {why}"
    );
    eprintln!("SKIPPED: {why}");
}

/// The GPU that tests take: the one that `DAPPLE_TEST_GPU` names (`gpu`, `gpu:1`, `gpu:llvmpipe`), else the first. Mesa's
/// lavapipe (package mesa-vulkan-drivers) needs no hardware.
pub fn test_gpu() -> String {
    std::env::var("DAPPLE_TEST_GPU").unwrap_or_else(|_| "gpu:0".to_owned())
}

/// Whether something must be here: `DAPPLE_REQUIRE` names it, or it is the GPU that `DAPPLE_TEST_GPU` names.
pub fn requires(what: &str) -> bool {
    let names_gpu = what == "gpu" && std::env::var_os("DAPPLE_TEST_GPU").is_some();
    names_gpu || is_named(&std::env::var("DAPPLE_REQUIRE").unwrap_or_default(), what)
}

/// Whether a list of names, separated by commas, has this one.
fn is_named(list: &str, name: &str) -> bool {
    list.split(',').any(|entry| entry.trim() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_and_may_have_spaces_around() {
        assert!(is_named("gpu,captures", "gpu"));
        assert!(is_named("gpu, captures", "captures"));
        assert!(!is_named("gpus", "gpu"));
        assert!(!is_named("", "gpu"));
    }
}
