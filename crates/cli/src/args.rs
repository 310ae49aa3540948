//! Command line: commands and their shared options.

use crate::commands::{
    bench, convert, demo, doctor, edit, eval, export, info, photos, profile, render, synth, train,
    view,
};
use crate::console::Console;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use dapple::scene;

const AFTER_HELP: &str = "\
Examples:
  dapple demo                              run every step on a small synthetic capture
  dapple photos DCIM/bird -o captures/bird make a capture from photos
  dapple train captures/bird               train your own capture into out/bird
  dapple eval captures/bird out/bird/splats.ply
  dapple train --help                      help of a command

Data goes to stdout, progress and notes to stderr.

Exit codes:
  0    done
  1    a defect of dapple itself
  2    a mistake on the command line
  3    input that cannot be used (a damaged file, a contradiction in a configuration), or a run whose
       numbers became non-finite
  4    the operating system refused (no such file, no permission, disk full)
  5    understood, but not possible with this build, device or format
  130  interrupted; what was finished has been saved";

/// Trains 3D Gaussian splats from photos with camera poses
#[derive(Debug, Parser)]
#[command(name = "dapple", version, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    /// Print errors only: no progress, no notes
    #[arg(short, long, global = true, display_order = 900)]
    pub quiet: bool,

    /// Print details: densification rounds, timings, sources of settings
    #[arg(
        short,
        long,
        global = true,
        display_order = 900,
        conflicts_with = "quiet"
    )]
    pub verbose: bool,

    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Demo(demo::Args),
    Synth(synth::Args),
    Photos(Box<photos::Args>),
    Train(Box<train::Args>),
    Eval(Box<eval::Args>),
    Render(render::Args),
    View(view::Args),
    Info(info::Args),
    Convert(convert::Args),
    Export(export::Args),
    Edit(Box<edit::Args>),
    Profile(Box<profile::Args>),
    Bench(bench::Args),
    Doctor(doctor::Args),
}

impl Command {
    /// Runs the command.
    pub fn run(self, console: &Console) -> scene::Result<()> {
        match self {
            Self::Demo(args) => demo::run(&args, console),
            Self::Synth(args) => synth::run(&args, console),
            Self::Photos(args) => photos::run(&args, console),
            Self::Train(args) => train::run(&args, console),
            Self::Eval(args) => eval::run(&args, console),
            Self::Render(args) => render::run(&args, console),
            Self::View(args) => view::run(&args, console),
            Self::Info(args) => info::run(&args, console),
            Self::Convert(args) => convert::run(&args, console),
            Self::Export(args) => export::run(&args, console),
            Self::Edit(args) => edit::run(&args, console),
            Self::Profile(args) => profile::run(&args, console),
            Self::Bench(args) => bench::run(&args, console),
            Self::Doctor(args) => doctor::run(&args, console),
        }
    }
}

/// Reads the command line.
///
/// # Errors
/// Command lines that the parser rejects, and requests for help or version.
pub fn parse() -> Result<Cli, clap::Error> {
    let matches = described().try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

/// Returns the command line parser. In all commands, `-1` after an option is its value, so that the error names the
/// allowed range and not an unknown option.
fn described() -> clap::Command {
    let takes_numbers = |arg: Arg| match arg.get_action().takes_values() && !arg.is_positional() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    Cli::command().mut_subcommands(|verb| {
        let verb = verb.mut_args(takes_numbers);
        verb.mut_subcommands(|verb| verb.mut_args(takes_numbers))
    })
}

/// Commands and their options, as typed.
pub fn options() -> Vec<(String, Vec<String>)> {
    let verbs = described();
    let row = |verb: &clap::Command| {
        let options = verb.get_arguments().filter_map(Arg::get_long);
        let options = options.map(|long| format!("--{long}")).collect();
        (verb.get_name().to_owned(), options)
    };
    verbs.get_subcommands().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        described().debug_assert();
    }
}
