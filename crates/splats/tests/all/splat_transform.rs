//! SuperSplat's `splat-transform`, run by tests.
#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Path of the tool, if it is installed; else prints a message.
pub fn tool() -> Option<PathBuf> {
    let tool = std::env::var_os("DAPPLE_SPLAT_TRANSFORM").map(PathBuf::from);
    if tool.is_none() {
        dapple_base::test_requirements::skipped(
            "node",
            "set DAPPLE_SPLAT_TRANSFORM to bin/cli.mjs of @playcanvas/splat-transform",
        );
    }
    tool
}

/// Runs it on `input` with `actions`, writing `output`; `options` come first.
pub fn convert(tool: &Path, options: &[&str], input: &Path, actions: &[&str], output: &Path) {
    let mut command = if tool.extension().is_some_and(|e| e == "mjs" || e == "js") {
        let mut node = Command::new("node");
        node.arg(tool);
        node
    } else {
        Command::new(tool)
    };
    command
        .args(["--quiet", "--overwrite"])
        .args(options)
        .arg(input)
        .args(actions)
        .arg(output);
    let result = command
        .output()
        .expect("the tool (or node) cannot be started");
    assert!(
        result.status.success() && output.exists(),
        "{command:?}: {}",
        String::from_utf8_lossy(&result.stderr)
    );
}
