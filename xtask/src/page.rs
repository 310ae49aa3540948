//! `cargo xtask page FILE...`: opens reports and checks that they draw all parts.
//!
//! The tests of the crate `dapple-profile` use the same checks.

#[path = "../../crates/profile/tests/all/support/chromium.rs"]
pub mod chromium;

use crate::shell;
use clap::Args;
use std::path::PathBuf;

/// Options of `cargo xtask page`.
#[derive(Args)]
pub struct PageArgs {
    /// Pages that `dapple profile` wrote
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Fails also if a section has no data
    #[arg(long)]
    full: bool,
}

/// Opens pages and checks them.
///
/// # Errors
/// There is no Chromium; a page has faults. The message lists all faults of all pages.
pub fn run(args: &PageArgs) -> Result<(), String> {
    let browser = chromium::find()?.ok_or_else(|| {
        format!(
            "there is no Chromium\nhint: install `chromium`, or name it in {}",
            chromium::VARIABLE
        )
    })?;
    let mut wrong = Vec::new();
    for file in &args.files {
        let scratch = shell::target_folder().join(format!("page-{}", std::process::id()));
        let checked = chromium::check(&browser, file, &scratch);
        let _ = std::fs::remove_dir_all(&scratch);
        match checked {
            Ok(absent) if absent.is_empty() => {
                println!("{}: every section is drawn", file.display())
            }
            Ok(absent) => {
                let said = format!("{}: no data for {}", file.display(), absent.join(", "));
                if args.full {
                    wrong.push(said);
                } else {
                    println!("{said}; all others are drawn");
                }
            }
            Err(why) => wrong.push(why),
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}
