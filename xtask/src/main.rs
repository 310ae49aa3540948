//! Commands for developers and CI: `cargo xtask test`, `cargo xtask bench`, `cargo xtask page`, `cargo xtask docs`.
//!
//! `test` runs all checks. It runs the steps of [`test::Step`] in order, prints a heading and a time for each, and ends
//! with a table and the totals.

mod captures;
mod circles;
mod page;
mod programs;
mod prose;
mod python;
mod shell;
mod splat_transform;
mod test;
mod totals;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Commands for developers of Dapple and CI"
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Formatting, lints, tests, documentation, examples, and real captures trained to a bar
    Test(test::TestArgs),
    /// Runs `dapple bench` in release; the arguments are passed on, for example `stages --device cpu`
    Bench {
        /// Arguments of `dapple bench`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Opens pages that `dapple profile` wrote in headless Chromium and checks that they draw all parts
    Page(page::PageArgs),
    /// Writes docs/SETTINGS.md, builds the API documentation with warnings as errors, and prints its path
    Docs {
        /// Opens the documentation in the browser
        #[arg(long)]
        open: bool,
    },
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Test(args) => test::run(&args),
        Command::Bench { args } => bench(&args),
        Command::Page(args) => page::run(&args),
        Command::Docs { open } => docs(open),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &[String]) -> Result<(), String> {
    let mut command = shell::cargo(&["run", "--release", "--package", "dapple-cli", "--", "bench"]);
    command.args(args);
    shell::run(&mut command).map(drop)
}

/// Page of all settings, from the root of the repository.
const SETTINGS_PAGE: &str = "docs/SETTINGS.md";

fn docs(open: bool) -> Result<(), String> {
    let mut example = shell::cargo(&["run", "--quiet", "--example", "settings_page"]);
    let page = shell::run_quietly(&mut example)?.stdout;
    let path = shell::root().join(SETTINGS_PAGE);
    std::fs::write(&path, page).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut command = shell::documentation();
    if open {
        command.arg("--open");
    }
    shell::run(&mut command)?;
    println!(
        "documentation: {}",
        shell::target_folder()
            .join("doc/dapple/index.html")
            .display()
    );
    Ok(())
}
