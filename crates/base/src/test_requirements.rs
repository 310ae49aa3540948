//! Requirements of tests that not every machine meets: a GPU driver, real captures, a browser.

use std::path::{Path, PathBuf};

/// Returns a file or folder of the real captures: in the folder `DAPPLE_DATA`, or in `shared/data` next to a folder
/// above `from`, the path of a crate. If it is missing, the test is [`skipped`], and the result is `None`.
///
/// # Panics
/// See [`skipped`].
pub fn capture(from: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("DAPPLE_DATA").map(PathBuf::from);
    let beside = Path::new(from)
        .ancestors()
        .map(|folder| folder.join("shared/data"));
    let mut paths = named.into_iter().chain(beside).map(|data| data.join(name));
    let found = paths.find(|path| path.exists());
    if found.is_none() {
        let why = format!("{name} is missing; set DAPPLE_DATA to the folder of real captures");
        skipped("captures", &why);
    }
    found
}

/// Prints that a test is skipped because `what` is missing. `why` is the reason, or how to get it. `what` is one of
/// `gpu`, `captures`, `chromium`, `node`.
///
/// # Panics
/// If `DAPPLE_REQUIRE` contains `what` (`gpu,captures,chromium,node`, as CI sets it), or `DAPPLE_TEST_GPU` names a GPU:
/// such tests must not be skipped.
pub fn skipped(what: &str, why: &str) {
    assert!(
        !requires(what),
        "DAPPLE_REQUIRE or DAPPLE_TEST_GPU requires {what}, which is missing: {why}"
    );
    eprintln!("SKIPPED: {why}");
}

/// Returns the GPU for tests: that of `DAPPLE_TEST_GPU` (`gpu`, `gpu:1`, `gpu:llvmpipe`), else the first. Mesa's
/// lavapipe (package mesa-vulkan-drivers) needs no hardware.
pub fn test_gpu() -> String {
    std::env::var("DAPPLE_TEST_GPU").unwrap_or_else(|_| "gpu:0".to_owned())
}

/// Returns true if `DAPPLE_REQUIRE` contains the requirement, or if it is the GPU and `DAPPLE_TEST_GPU` is set.
pub fn requires(what: &str) -> bool {
    let names_gpu = what == "gpu" && std::env::var_os("DAPPLE_TEST_GPU").is_some();
    names_gpu || is_named(&std::env::var("DAPPLE_REQUIRE").unwrap_or_default(), what)
}

/// Returns true if a comma-separated list contains the name.
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
