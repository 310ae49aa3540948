//! Signatures first.
use crate::compare::Comparison;
use crate::profile::Profile;

/// A profile's summary, at most 100 columns wide.
pub fn profile_text(profile: &Profile) -> String {
    profile.program.name.clone()
}

/// A comparison, at most 100 columns wide.
pub fn comparison_text(comparison: &Comparison) -> String {
    comparison.new.clone()
}
