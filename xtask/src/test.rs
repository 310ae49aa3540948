//! `cargo xtask test`: every check, in the order in which a mistake is cheapest to find.
//!
//! 1. Print what is here and what is missing (captures, optional tools), loudly.
//! 2. Run the chosen steps; stop at the first that fails unless told to keep going.
//! 3. Print a table of steps with their times, and the totals, as the last lines.

use crate::page::chromium;
use crate::totals::Totals;
use crate::{captures, shell, splat_transform};
use clap::{Args, ValueEnum};
use std::process::Command;
use std::time::{Duration, Instant};

/// Options of `cargo xtask test`.
#[derive(Args)]
pub struct TestArgs {
    /// Runs these steps alone, for example `--only fmt,clippy`
    #[arg(long, value_delimiter = ',', value_name = "STEPS")]
    only: Vec<Step>,
    /// Leaves these steps out
    #[arg(long, value_delimiter = ',', value_name = "STEPS")]
    skip: Vec<Step>,
    /// Runs the later steps although one has failed
    #[arg(long)]
    keep_going: bool,
}

/// A part of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// `cargo fmt --check`
    Fmt,
    /// Clippy, warnings as errors
    Clippy,
    /// Spelling, if `typos` is installed
    Typos,
    /// Types of the viewer's page, if TypeScript's `tsc` is installed or `DAPPLE_TSC` names it
    Types,
    /// Dependencies that nothing uses, if `cargo-shear` is installed
    Shear,
    /// Licences and advisories, if `cargo-deny` is installed
    Deny,
    /// Unit and integration tests, with nextest if it is installed
    Tests,
    /// The examples in the documentation
    Doctests,
    /// The API documentation, warnings as errors
    Docs,
    /// The library's examples, run to their end
    Examples,
    /// The command line in release: real captures trained to a bar
    Captures,
}

/// How a step ended.
pub enum Outcome {
    /// Well, with so many tests.
    Passed(Totals),
    /// It could not be run here, and why.
    Skipped(String),
    /// Badly: why, and the tests that were run.
    Failed(String, Totals),
}

/// Runs the checks.
///
/// # Errors
/// If a step failed.
pub fn run(args: &TestArgs) -> Result<(), String> {
    print_surroundings();
    let mut results = Vec::new();
    for &step in Step::value_variants() {
        let chosen = args.only.is_empty() || args.only.contains(&step);
        if !chosen || args.skip.contains(&step) {
            continue;
        }
        println!("\n=== {} ===", name(step));
        let start = Instant::now();
        let outcome = step.run();
        let elapsed = start.elapsed();
        let failed = matches!(outcome, Outcome::Failed(..));
        if let Outcome::Skipped(why) = &outcome {
            println!("SKIPPED: {why}");
        }
        if let Outcome::Failed(why, _) = &outcome {
            println!("FAILED: {why}");
        }
        println!("=== {}: {:.1} s ===", name(step), elapsed.as_secs_f64());
        results.push((step, outcome, elapsed));
        if failed && !args.keep_going {
            break;
        }
    }
    summarise(&results)
}

fn print_surroundings() {
    let yes_no = |found: bool| if found { "found" } else { "MISSING" };
    println!("What this machine has:");
    println!(
        "  cargo-nextest    {}  (else cargo test: slower)",
        yes_no(has_nextest())
    );
    println!(
        "  typos            {}  (spelling)",
        yes_no(shell::works("typos", &["--version"]))
    );
    println!(
        "  cargo-shear      {}  (unused dependencies)",
        yes_no(shell::works("cargo", &["shear", "--version"]))
    );
    println!(
        "  cargo-deny       {}  (licences, advisories)",
        yes_no(shell::works("cargo", &["deny", "--version"]))
    );
    println!(
        "  splat-transform  {}  (do our PLY files open elsewhere?)",
        yes_no(splat_transform::find().is_some())
    );
    println!(
        "  Chromium         {}  (is report.html drawn? DAPPLE_CHROMIUM names it)",
        yes_no(matches!(chromium::find(), Ok(Some(_))))
    );
    println!(
        "  GPU for tests    {}",
        std::env::var("DAPPLE_TEST_GPU")
            .unwrap_or_else(|_| "the first that answers; none: skipped".to_owned())
    );
    println!(
        "  real captures    {}  (../shared/data or DAPPLE_DATA)",
        yes_no(captures::folder().is_some())
    );
}

fn has_nextest() -> bool {
    shell::works("cargo", &["nextest", "--version"])
}

fn name(step: Step) -> String {
    step.to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Step {
    fn run(self) -> Outcome {
        match self {
            Self::Fmt => cargo(&["fmt", "--all", "--check"]),
            Self::Clippy => cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ]),
            Self::Typos => {
                if !shell::works("typos", &["--version"]) {
                    return Outcome::Skipped(
                        "typos is not installed (cargo install typos-cli)".into(),
                    );
                }
                finished(shell::attempt(
                    Command::new("typos").current_dir(shell::root()),
                ))
            }
            Self::Types => {
                let named = std::env::var("DAPPLE_TSC").ok();
                let tsc = named.as_deref().unwrap_or("tsc");
                if !shell::works(tsc, &["--version"]) {
                    return Outcome::Skipped(
                        "tsc is not installed (npm install -g typescript)".into(),
                    );
                }
                let mut check = Command::new(tsc);
                check.args(["-p", "crates/viewer/src/page/jsconfig.json"]);
                finished(shell::attempt(check.current_dir(shell::root())))
            }
            Self::Shear => {
                if !shell::works("cargo", &["shear", "--version"]) {
                    return Outcome::Skipped(
                        "cargo-shear is not installed (cargo install cargo-shear)".into(),
                    );
                }
                cargo(&["shear", "--deny-warnings"])
            }
            Self::Deny => {
                if !shell::works("cargo", &["deny", "--version"]) {
                    return Outcome::Skipped(
                        "cargo-deny is not installed (cargo install cargo-deny)".into(),
                    );
                }
                cargo(&["deny", "check"])
            }
            Self::Tests if has_nextest() => {
                cargo(&["nextest", "run", "--workspace", "--no-fail-fast"])
            }
            Self::Tests => cargo(&["test", "--workspace", "--all-targets", "--no-fail-fast"]),
            Self::Doctests => cargo(&["test", "--workspace", "--doc"]),
            Self::Docs => finished(shell::attempt(&mut shell::documentation())),
            Self::Examples => examples(),
            Self::Captures => captures::run(),
        }
    }
}

fn cargo(args: &[&str]) -> Outcome {
    finished(shell::attempt(&mut shell::cargo(args)))
}

fn finished((output, ended): (shell::Output, Result<(), String>)) -> Outcome {
    let mut totals = Totals::of(&output.stdout);
    totals += Totals::of(&output.stderr);
    match ended {
        Ok(()) => Outcome::Passed(totals),
        Err(why) => Outcome::Failed(why, totals),
    }
}

/// Crates with examples.
const WITH_EXAMPLES: [&str; 3] = ["dapple", "runtime", "viewer"];

/// Runs every example to its end. They are built as the tests are, which have compiled all that they link.
fn examples() -> Outcome {
    let mut totals = Totals::default();
    match run_examples(&mut totals) {
        Ok(()) => Outcome::Passed(totals),
        Err(why) => Outcome::Failed(why, totals),
    }
}

fn run_examples(totals: &mut Totals) -> Result<(), String> {
    shell::run(&mut shell::cargo(&["build", "--workspace", "--examples"]))?;
    let built = shell::target_folder().join("debug/examples");
    for krate in WITH_EXAMPLES {
        for example in examples_of(krate)? {
            let program = built.join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
            if let Err(why) = shell::run(Command::new(program).current_dir(shell::root())) {
                totals.failed += 1;
                return Err(why);
            }
            totals.passed += 1;
        }
    }
    Ok(())
}

/// The names of a crate's examples.
fn examples_of(krate: &str) -> Result<Vec<String>, String> {
    let folder = shell::root().join("crates").join(krate).join("examples");
    let entries = std::fs::read_dir(&folder)
        .map_err(|why| format!("no examples in {}: {why}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

fn summarise(results: &[(Step, Outcome, Duration)]) -> Result<(), String> {
    println!("\n=== summary ===");
    let mut totals = Totals::default();
    let mut failed = Vec::new();
    for (step, outcome, elapsed) in results {
        let (word, detail) = match outcome {
            Outcome::Passed(t) => {
                totals += *t;
                (
                    "ok",
                    if t.passed > 0 {
                        format!("{} passed", t.passed)
                    } else {
                        String::new()
                    },
                )
            }
            Outcome::Skipped(why) => ("SKIPPED", why.clone()),
            Outcome::Failed(why, t) => {
                totals += *t;
                failed.push(name(*step));
                ("FAILED", why.clone())
            }
        };
        let seconds = elapsed.as_secs_f64();
        println!("{:<10} {word:<8} {seconds:>7.1} s  {detail}", name(*step));
    }
    println!(
        "{} passed, {} failed, {} skipped in {:.1} min",
        totals.passed,
        totals.failed,
        totals.skipped,
        results.iter().map(|r| r.2).sum::<Duration>().as_secs_f64() / 60.0
    );
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("failed: {}", failed.join(", ")))
    }
}
