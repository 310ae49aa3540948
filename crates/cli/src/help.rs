//! Help pages: `-h` lists the options that matter, `--help` lists all under headings.
//!
//! 1. The first sentence of an option's text is its line in `-h`; `--help` has the whole text, and the values with
//!    their meaning.
//! 2. Options that only `--help` lists are marked by `hide_short_help`.
//! 3. `-h` ends with the first examples of the command.

use clap::{Arg, Command};
use std::fmt::Write as _;

/// Headings of options that several commands have.
const SHARED: [(&str, &[&str]); 3] = [
    ("Input", &["scene", "capture"]),
    (
        "Output",
        &["out", "output", "overwrite", "json", "markdown"],
    ),
    ("General", &["quiet", "verbose", "help", "version"]),
];

/// Examples at the end of `-h`.
const EXAMPLES: usize = 3;

/// Heading of the examples in the text after the options.
const HEADING: &str = "Examples:\n";

/// Returns the command with its help pages, and those of its subcommands.
pub fn with_pages(command: Command) -> Command {
    let is_general = command.get_name() == "dapple";
    let command = command
        .mut_args(move |arg| option(arg, is_general))
        .mut_subcommands(with_pages);
    let Some(after) = command.get_after_help().map(ToString::to_string) else {
        return command;
    };
    if is_general {
        return command;
    }
    let examples = after
        .split_once(HEADING)
        .map_or("", |(_, examples)| examples);
    let mut short = String::new();
    let whole = examples.lines().filter(|line| line.starts_with("  dapple"));
    for example in whole.filter(|line| !line.ends_with('\\')).take(EXAMPLES) {
        let _ = writeln!(short, "{example}");
    }
    command
        .after_long_help(after)
        .after_help(format!("{HEADING}{short}--help shows all options"))
}

/// Returns the option with its short and its long text.
fn option(arg: Arg, is_general: bool) -> Arg {
    let id = arg.get_id().as_str();
    let arg = match SHARED.iter().find(|(_, ids)| ids.contains(&id)) {
        // The program's own page lists these with the commands.
        Some(("General", _)) if !is_general => arg.help_heading("General").hide_short_help(true),
        Some(("General", _)) => return arg,
        Some((heading, _)) if arg.get_help_heading().is_none() => arg.help_heading(*heading),
        None if arg.is_positional() && arg.get_help_heading().is_none() => {
            arg.help_heading("Input")
        }
        _ => arg,
    };
    let whole = arg.get_long_help().or_else(|| arg.get_help());
    let mut whole = whole.map(ToString::to_string).unwrap_or_default();
    let summary = whole.split_once(". ").map_or(&*whole, |(first, _)| first);
    let summary = summary.to_owned();
    let values = match arg.get_action().takes_values() {
        true => arg.get_possible_values(),
        false => Vec::new(),
    };
    let shown = values.iter().filter(|value| !value.is_hide_set());
    for (i, value) in shown.enumerate() {
        let start = if i == 0 { "\n" } else { "" };
        let _ = match value.get_help() {
            Some(about) => write!(whole, "{start}\n- {}: {about}", value.get_name()),
            None => write!(whole, "{start}\n- {}", value.get_name()),
        };
    }
    let arg = match values.is_empty() {
        true => arg,
        false => arg.hide_possible_values(true),
    };
    arg.help(summary).long_help(whole)
}
