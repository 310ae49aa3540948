//! Tests of the Python package, by the interpreter that `DAPPLE_PYTHON` names.

use crate::shell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the package that the interpreter reads.
const SOURCES: [&str; 3] = ["py", "pyi", "typed"];

/// Returns the interpreter with numpy.
///
/// # Errors
/// There is none; holds the reason.
pub fn interpreter() -> Result<String, String> {
    let named = std::env::var("DAPPLE_PYTHON")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "python3".to_owned());
    if shell::works(&named, &["-c", "import numpy"]) {
        return Ok(named);
    }
    Err(format!(
        "{named} has no numpy (python3 -m pip install numpy; DAPPLE_PYTHON names a Python)"
    ))
}

/// Builds the extension and the program, and returns the command that runs the tests.
///
/// # Errors
/// The build fails; a file cannot be copied.
pub fn tests(interpreter: &str) -> Result<Command, String> {
    shell::run(&mut shell::build(&[
        "build", "--lib", "--bins",
        // The features of the tests, so that nothing is compiled again.
        "--tests",
    ]))?;
    let built = shell::target_folder().join("debug");
    let package = package(&built).map_err(|why| format!("cannot make the package: {why}"))?;
    let mut command = Command::new(interpreter);
    command
        .args(["-m", "tests"])
        .current_dir(shell::root().join("crates/python"))
        .env("PYTHONPATH", package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("DAPPLE_BUILT", &built)
        .env(
            "DAPPLE_PROGRAM",
            built.join(format!("dapple{}", std::env::consts::EXE_SUFFIX)),
        );
    Ok(command)
}

/// Copies the package's files and the extension into a folder of the build, and returns it.
fn package(built: &Path) -> std::io::Result<PathBuf> {
    let target = shell::target_folder().join("python");
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    copy(&shell::root().join("crates/python/python"), &target)?;
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let extension = match std::env::consts::OS {
        "windows" => "_native.pyd",
        _ => "_native.abi3.so",
    };
    fs::copy(
        built.join(format!("{prefix}dapple_gs_native{suffix}")),
        target.join("dapple_gs").join(extension),
    )?;
    Ok(target)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let Some(name) = path.file_name() else {
            continue;
        };
        let is_source = path
            .extension()
            .and_then(|ending| ending.to_str())
            .is_some_and(|ending| SOURCES.contains(&ending));
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else if is_source {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
