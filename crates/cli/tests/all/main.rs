//! Integration tests of this crate as one program, because each further program costs mostly its
//! linking.

#![allow(clippy::too_many_lines, reason = "a test is one scenario")]

mod bad_input;
mod batches;
mod bench;
mod budgets;
mod ceilings;
#[path = "../../../profile/tests/all/support/chromium.rs"]
mod chromium;
mod common;
mod continued;
mod depth;
mod devices;
mod edit;
mod eval;
mod export;
mod flamegraph;
mod focus;
mod folders;
mod from_splats;
mod hostile;
mod interrupt;
mod joined;
mod large;
mod layouts;
mod lenses;
mod levels;
mod lost;
mod mesh;
mod moved;
mod newcomers;
mod ops;
mod page;
mod photos;
mod pictures;
mod poses;
mod profile;
mod profile_truth;
mod ranks;
mod resume;
mod sky;
mod snapshots;
mod surprises;
mod train_on;
mod verbs;
mod verify;
mod viewer;
mod viewer_edits;
mod viewer_mesh;
mod viewer_page;
mod viewer_pictures;
