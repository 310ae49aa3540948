//! Tells the program which commit it was built from, where there is a repository to ask.

use std::path::Path;
use std::process::Command;

fn main() {
    let head = Path::new("../../.git/logs/HEAD");
    if head.exists() {
        println!("cargo::rerun-if-changed={}", head.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let commit = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()
        .filter(|out| out.status.success())
        .and_then(|out| String::from_utf8(out.stdout).ok());
    if let Some(commit) = commit {
        println!("cargo::rustc-env=DAPPLE_COMMIT={}", commit.trim());
    }
}
