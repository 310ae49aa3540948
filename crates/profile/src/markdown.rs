//! Signatures first.
use crate::compare::Comparison;
use crate::profile::Profile;

/// `PROFILE.md`: everything that a profile says.
pub fn profile_markdown(profile: &Profile) -> String {
    profile.program.name.clone()
}

/// A comparison as Markdown.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    comparison.new.clone()
}
