//! What tests do that need something which is not everywhere: a GPU driver, real captures, a browser.

/// Says loudly that a test does not run because `what` is not here, and why it matters or how to get it.
/// `what` is one of `gpu`, `captures`, `chromium`, `node`.
///
/// # Panics
/// Where `DAPPLE_REQUIRE` names `what` (`gpu,captures,chromium,node`, as CI does): there nothing may be
/// skipped.
pub fn skipped(what: &str, why: &str) {
    assert!(
        !requires(what),
        "DAPPLE_REQUIRE names {what}, and it is not here: {why}"
    );
    eprintln!("SKIPPED: {why}");
}

/// Whether `DAPPLE_REQUIRE` names something that must be here.
pub fn requires(what: &str) -> bool {
    is_named(&std::env::var("DAPPLE_REQUIRE").unwrap_or_default(), what)
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
