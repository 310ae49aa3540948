//! Help pages: `-h` lists the options that matter, `--help` lists all under headings.
//!
//! 1. The first sentence of an option's text, cut to a line, is in `-h`; `--help` has the whole text, and the values
//!    with their meaning.
//! 2. Options that only `--help` lists are marked by `hide_short_help`.
//! 3. `-h` ends with the first examples of the command.

use clap::{Arg, Command};
use std::fmt::Write as _;

/// Headings of options that several commands have.
const SHARED: [(&str, &[&str]); 2] = [
    ("Input", &["scene", "capture"]),
    (
        "Output",
        &["out", "output", "overwrite", "json", "markdown"],
    ),
];

/// Heading of the options that all commands have.
const GENERAL: &str = "General";

/// Examples at the end of `-h`.
const EXAMPLES: usize = 2;

/// Characters of the text of an option in `-h`.
const LINE: usize = 68;

/// Heading of the examples in the text after the options.
const HEADING: &str = "Examples:\n";

/// Returns the program with the help pages of its commands.
pub fn with_pages(program: Command) -> Command {
    // Commands have copies of the global options, since their short help does not list them.
    let general = |arg: &Arg| arg.clone().help_heading(GENERAL).hide_short_help(true);
    let globals = program.get_arguments().filter(|arg| arg.is_global_set());
    let globals: Vec<Arg> = globals.map(general).collect();
    program.mut_subcommands(|command| page(command, &globals))
}

/// Returns a command with its help pages, and those of its subcommands.
fn page(command: Command, globals: &[Arg]) -> Command {
    let command = command
        .args(globals)
        .mut_args(option)
        .mut_subcommands(|inner| page(inner, globals));
    let after = command.get_after_help().map(ToString::to_string);
    let after = after.unwrap_or_default();
    let (_, examples) = after.split_once(HEADING).unwrap_or_default();
    let mut short = String::new();
    let whole = examples
        .lines()
        .filter(|line| line.starts_with("  dapple") && !line.ends_with('\\'));
    for example in whole.take(EXAMPLES) {
        let _ = writeln!(short, "{example}");
    }
    let heading = if short.is_empty() { "" } else { HEADING };
    command
        .after_long_help(after)
        .after_help(format!("{heading}{short}--help shows all options"))
}

/// Returns the option with its short and its long text.
fn option(arg: Arg) -> Arg {
    let id = arg.get_id().as_str();
    let arg = match SHARED.iter().find(|(_, ids)| ids.contains(&id)) {
        _ if arg.get_help_heading().is_some() => arg,
        Some((heading, _)) => arg.help_heading(*heading),
        None if arg.is_positional() => arg.help_heading("Input"),
        None => arg,
    };
    let whole = arg.get_long_help().or_else(|| arg.get_help());
    let mut whole = whole.map(ToString::to_string).unwrap_or_default();
    let summary = summary(&whole).to_owned();
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

/// Returns the first sentence. Without its default, and its last clauses, if it is longer than a line.
fn summary(text: &str) -> &str {
    let (first, _) = text.split_once(". ").unwrap_or((text, ""));
    let count = |text: &str| text.chars().count();
    if count(first) <= LINE {
        return first;
    }
    let mut short = first.split(" [default").next().unwrap_or(first);
    while count(short) > LINE {
        let ends = [", ", "; ", ": "].map(|mark| short.rfind(mark));
        let Some(end) = ends.into_iter().flatten().max() else {
            break;
        };
        short = &short[..end];
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_one_line() {
        assert_eq!(
            summary("Seed [default: 0]. Any number"),
            "Seed [default: 0]"
        );
        let long =
            "Remove Gaussians inside a region; then more of the same, and more and more words";
        assert_eq!(
            summary(long),
            "Remove Gaussians inside a region; then more of the same"
        );
    }
}
