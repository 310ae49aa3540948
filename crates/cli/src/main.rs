//! `dapple`: posed photographs into 3D Gaussian splats.
//!
//! 1. Parse the command line ([`args`]); mistakes in it end with code 2.
//! 2. Run the verb: one file each under [`commands`].
//! 3. Turn its error into three lines on stderr and an exit code ([`exit`]).
//!
//! Data goes to stdout, everything said to people to stderr ([`console`]).

mod args;
mod cameras;
mod commands;
mod console;
mod exit;
mod interrupt;
mod machine;
mod options;
mod pictures;
mod training_display;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match args::Cli::try_parse() {
        Ok(args) => args,
        Err(error) => return exit::usage(&error),
    };
    let console = console::Console::new(args.quiet, args.verbose);
    let result = interrupt::listen().and_then(|()| args.command.run(&console));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&console, &error),
    }
}
