//! Reads Dapple's files with another program, `@playcanvas/splat-transform` from npm.

use crate::shell;
use std::path::Path;
use std::process::Command;

/// Variable with the tool's command line, if the tool is not on the `PATH`.
const VARIABLE: &str = "DAPPLE_SPLAT_TRANSFORM";

/// Returns the command of the tool, if it is installed.
pub fn find() -> Option<String> {
    let named = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
    let candidate = named.unwrap_or_else(|| "splat-transform".to_owned());
    shell::works(&candidate, &["--version"]).then_some(candidate)
}

/// Makes the tool read `ply` and write it again, and counts the Gaussians in the written file.
pub fn check(tool: &str, ply: &Path, expected: u64) -> Result<(), String> {
    let copy = ply.with_extension("checked.ply");
    shell::run(Command::new(tool).arg("--overwrite").arg(ply).arg(&copy))?;
    let bytes = std::fs::read(&copy).map_err(|e| format!("{}: {e}", copy.display()))?;
    let header = String::from_utf8_lossy(&bytes[..bytes.len().min(1 << 14)]).into_owned();
    let count = header
        .lines()
        .find_map(|line| line.strip_prefix("element vertex "))
        .and_then(|n| n.trim().parse::<u64>().ok());
    let _ = std::fs::remove_file(&copy);
    if count == Some(expected) {
        println!(
            "splat-transform reads all {expected} Gaussians of {}",
            ply.display()
        );
        return Ok(());
    }
    Err(format!(
        "splat-transform found {count:?} Gaussians in {}, we wrote {expected}",
        ply.display()
    ))
}
