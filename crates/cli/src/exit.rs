//! Prints an error as three lines on stderr and returns the exit code.

use crate::console::Console;
use crate::interrupt::INTERRUPTED;
use crate::other_names;
use dapple::scene::{Error, ErrorKind};
use std::io::Write;
use std::process::ExitCode;

/// Exit code of a mistake on the command line.
const USAGE: u8 = 2;

/// Returns the exit code of an error.
fn code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Internal => 1,
        ErrorKind::Input => 3,
        ErrorKind::Io => 4,
        ErrorKind::Unsupported => 5,
        ErrorKind::Interrupted => INTERRUPTED,
    }
}

/// Prints an error and returns its exit code.
pub fn report(console: &Console, error: &Error) -> ExitCode {
    let word = match error.kind() {
        ErrorKind::Interrupted => "interrupted",
        _ => "error",
    };
    console.always(&shortened(&format!("{word}: {error}")));
    ExitCode::from(code(error.kind()))
}

/// Prints the error of the command line, or the help.
pub fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Help or version. A closed stdout is not an error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let text = match other_name(error).or_else(|| other_verb(error)) {
        Some(hint) => with_hint(&text, &hint),
        None => text,
    };
    let verbs = crate::args::options();
    let verb = std::env::args()
        .nth(1)
        .filter(|given| verbs.iter().any(|(verb, _)| verb == given));
    let text = shortened(&in_house_style(&text, verb.as_deref()));
    let _ = std::io::stderr().write_all(text.as_bytes());
    ExitCode::from(USAGE)
}

/// Characters of a line of a message that are printed, from its start and from its end.
const SHOWN: [usize; 2] = [600, 300];

/// Lines for a long value of an option, with an ellipsis in the middle.
fn shortened(text: &str) -> String {
    let [first, last] = SHOWN;
    let cut = |line: &str| {
        let count = line.chars().count();
        if count <= first + last {
            return line.to_owned();
        }
        let begin: String = line.chars().take(first).collect();
        let end: String = line.chars().skip(count - last).collect();
        format!("{begin} ... {end}")
    };
    text.split('\n').map(cut).collect::<Vec<_>>().join("\n")
}

/// Returns a hint for an option that has another name in other programs.
fn other_name(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    if error.kind() != clap::error::ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let verb = std::env::args().nth(1).unwrap_or_default();
    let all = crate::args::options();
    let has = |verb: &str, option: &str| {
        let mut rows = all.iter();
        rows.any(|(name, options)| name == verb && options.iter().any(|o| o == option))
    };
    let elsewhere = |option: &str| {
        let found = all.iter().find(|(name, _)| has(name, option));
        found.map(|(name, _)| name.clone())
    };
    other_names::hint(given, |option| has(&verb, option), elsewhere)
}

/// Returns a hint for a command that is an option here, or that has another name in other programs.
fn other_verb(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    if error.kind() != clap::error::ErrorKind::InvalidSubcommand {
        return None;
    }
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(given)) => other_names::verb_hint(given),
        _ => None,
    }
}

/// Returns the message with this hint instead of the parser's tips, which compare only letters.
fn with_hint(text: &str, hint: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    format!("{first}\n\n  hint: {hint}\n\nFor more information, try '--help'.\n")
}

/// Returns the parser's message with its tips as hints.
fn in_house_style(text: &str, verb: Option<&str>) -> String {
    let help = match verb {
        Some(verb) => format!("  hint: `dapple {verb} --help` explains every option"),
        None => "  hint: `dapple --help` lists the commands".to_owned(),
    };
    text.replace("  tip: ", "  hint: ")
        .replace("For more information, try '--help'.", &help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_in_the_middle_and_what_is_wrong_with_it_is_shown() {
        let usual = "error: a usual message\n  at: some/file.ply\n";
        assert_eq!(shortened(usual), usual);
        let long = "ä".repeat(100_000);
        let text = format!("error: invalid value '{long}' for '--steps <N>': no number\n\nUsage");
        let short = shortened(&text);
        assert!(short.len() < 3000, "{}", short.len());
        assert!(short.starts_with("error: invalid value 'ä"));
        assert!(short.ends_with("' for '--steps <N>': no number\n\nUsage"));
        assert!(short.contains("ä ... ä"));
    }
}
