//! Command line: commands and their shared options.

use crate::commands::{
    bench, convert, demo, doctor, edit, eval, export, info, mesh, photos, profile, render, synth,
    train, verify, view,
};
use crate::console::Console;
use crate::help;
use clap::parser::ValueSource;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use dapple::scene;

/// End of the short help.
const EXAMPLES: &str = "\
Examples:
  dapple demo                              run every step on a small synthetic capture
  dapple train captures/bird               train your own capture into out/bird
  dapple train -h                          the options of a command that matter; --help shows all";

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
  3    input that cannot be used (a damaged file, a contradiction in a configuration), a run whose
       numbers became non-finite, or a run that `dapple verify` cannot repeat
  4    the operating system refused (no such file, no permission, disk full)
  5    understood, but not possible with this build, device or format
  130  interrupted; what was finished has been saved";

/// Trains 3D Gaussian splats from photos with camera poses
#[derive(Debug, Parser)]
#[command(name = "dapple", version, after_help = EXAMPLES, after_long_help = AFTER_HELP, max_term_width = 100,
    disable_help_flag = true)]
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

    /// Print help; -h is shorter
    #[arg(short, long, global = true, display_order = 900, action = clap::ArgAction::Help)]
    help: Option<bool>,

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
    Verify(verify::Args),
    Render(render::Args),
    View(view::Args),
    Info(info::Args),
    Convert(convert::Args),
    Export(export::Args),
    Edit(Box<edit::Args>),
    Mesh(Box<mesh::Args>),
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
            Self::Verify(args) => verify::run(&args, console),
            Self::Render(args) => render::run(&args, console),
            Self::View(args) => view::run(&args, console),
            Self::Info(args) => info::run(&args, console),
            Self::Convert(args) => convert::run(&args, console),
            Self::Export(args) => export::run(&args, console),
            Self::Edit(args) => edit::run(&args, console),
            Self::Mesh(args) => mesh::run(&args, console),
            Self::Profile(args) => profile::run(&args, console),
            Self::Bench(args) => bench::run(&args, console),
            Self::Doctor(args) => doctor::run(&args, console),
        }
    }
}

/// Reads the command line. Also returns a note for each older option on it.
///
/// # Errors
/// Command lines that the parser rejects, and requests for help or version.
pub fn parse() -> Result<(Cli, Vec<String>), clap::Error> {
    let command = described();
    let notes = notes(
        &command,
        std::env::args_os().filter_map(|arg| arg.into_string().ok()),
    );
    let matches = command.try_get_matches()?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    if let (Command::Train(train), Some((_, own))) = (&mut cli.command, matches.subcommand()) {
        train.device.is_of_variable = own.value_source("device") == Some(ValueSource::EnvVariable);
    }
    Ok((cli, notes))
}

/// Returns a note for each older option, which the parser accepts as an alias.
fn notes(program: &clap::Command, line: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut command = program;
    let mut notes = Vec::new();
    for word in line.into_iter().skip(1) {
        let name = word.split('=').next().unwrap_or(&word);
        let Some(name) = name.strip_prefix("--") else {
            command = command.find_subcommand(name).unwrap_or(command);
            continue;
        };
        let renamed = command.get_arguments().find(|arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            aliases.contains(&name)
        });
        if let Some(new) = renamed.and_then(Arg::get_long) {
            notes.push(format!("note: --{name} is now --{new}"));
        }
    }
    notes
}

/// Returns the command line parser. In all commands, `-1` after an option is its value, so that the error names the
/// allowed range and not an unknown option.
fn described() -> clap::Command {
    let takes_numbers = |arg: Arg| {
        let takes_values = arg.get_action().takes_values()
            && arg.get_num_args().is_none_or(|count| count.takes_values());
        match takes_values && !arg.is_positional() {
            true => arg.allow_negative_numbers(true),
            false => arg,
        }
    };
    help::with_pages(Cli::command()).mut_subcommands(|verb| {
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

    #[test]
    fn older_options_are_accepted_with_a_note() {
        let line = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, note) in [
            (
                "dapple train c --watch-every 3",
                "note: --watch-every is now --validate-every",
            ),
            (
                "dapple train c --perceptual=0.1",
                "note: --perceptual is now --lpips-weight",
            ),
            (
                "dapple eval --scene c out",
                "note: --scene is now --capture",
            ),
            (
                "dapple edit a b --look x.jpg",
                "note: --look is now --bake-appearance",
            ),
        ] {
            assert!(
                described().try_get_matches_from(line(text)).is_ok(),
                "{text}"
            );
            assert_eq!(notes(&described(), line(text)), [note], "{text}");
        }
        assert_eq!(
            notes(&described(), line("dapple synth c --scene field")),
            Vec::<String>::new()
        );
    }

    /// Lines of the short help of a command at 100 columns.
    const SHORT: usize = 40;

    #[test]
    fn the_short_help_of_every_command_fits_a_page() {
        fn check(command: &mut clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let text = command.clone().term_width(100).render_help().to_string();
            let lines = text.trim_end().lines().count();
            assert!(lines <= SHORT, "{path} -h has {lines} lines:\n{text}");
            let is_program = path == " dapple";
            assert!(is_program || text.contains("--help shows all"), "{path}");
            let inner = command.get_subcommands_mut();
            for inner in inner.filter(|inner| inner.get_name() != "help") {
                check(inner, &path);
            }
        }
        let mut program = described();
        program.build();
        check(&mut program, "");
    }

    #[test]
    fn headings_of_train_are_in_their_order() {
        let mut program = described();
        program.build();
        let train = program.find_subcommand_mut("train");
        let text = train.map(|train| train.render_long_help().to_string());
        let text = text.unwrap_or_default();
        let place = |heading: &&str| text.find(&format!("\n{heading}:\n"));
        let places: Vec<Option<usize>> =
            dapple::train::config::HEADINGS.iter().map(place).collect();
        assert!(places.iter().all(Option::is_some), "{places:?}");
        assert!(places.is_sorted(), "{places:?}");
    }
}
