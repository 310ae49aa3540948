//! Integration tests of this crate as one program, because each further program costs mostly its
//! linking.

mod bad_input;
mod bench;
mod budgets;
mod ceilings;
#[path = "../../../profile/tests/all/support/chromium.rs"]
mod chromium;
mod common;
mod depth;
mod devices;
mod edit;
mod eval;
mod export;
mod flamegraph;
mod folders;
mod interrupt;
mod layouts;
mod lenses;
mod lost;
mod mesh;
mod moved;
mod newcomers;
mod ops;
mod page;
mod pictures;
mod poses;
mod profile;
mod profile_truth;
mod resume;
mod snapshots;
mod surprises;
mod verbs;
mod viewer;
mod viewer_edits;
mod viewer_page;
mod viewer_pictures;
