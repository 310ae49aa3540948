//! `cargo xtask test`: every check, the cheapest first.
//!
//! 1. Print the captures and optional tools that this machine has and lacks.
//! 2. Run the chosen steps; stop at the first failure unless an option requests to continue.
//! 3. Print the slowest tests, a table of steps with their times, and the totals, as the last lines; write all times to
//!    `target/test-times.json`.

use crate::page::chromium;
use crate::programs::{self, LONGEST_TEST, TestRun};
use crate::totals::Totals;
use crate::{captures, circles, prose, python, shell, splat_transform};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::process::Command;
use std::time::{Duration, Instant};

/// Options of `cargo xtask test`.
#[derive(Args)]
pub struct TestArgs {
    /// Runs only these steps, for example `--only fmt,clippy`
    #[arg(long, value_delimiter = ',', value_name = "STEPS")]
    only: Vec<Step>,
    /// Skips these steps
    #[arg(long, value_delimiter = ',', value_name = "STEPS")]
    skip: Vec<Step>,
    /// Runs the later steps although one has failed
    #[arg(long)]
    keep_going: bool,
    /// Omits slow steps and the tests in `xtask/slow_tests.txt`; takes a few minutes once everything is compiled
    #[arg(long)]
    quick: bool,
}

/// Number of slowest tests in the summary.
const SLOWEST_SHOWN: usize = 10;

/// A step of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// `cargo fmt --check`
    Fmt,
    /// Import circles between the files of a crate
    Circles,
    /// Clippy, warnings as errors
    Clippy,
    /// Spelling, if `typos` is installed
    Typos,
    /// Types of the viewer's page, if TypeScript's `tsc` is installed or `DAPPLE_TSC` names it
    Types,
    /// Unused dependencies, if `cargo-shear` is installed
    Shear,
    /// Licences and advisories, if `cargo-deny` is installed
    Deny,
    /// Unit and integration tests
    Tests,
    /// The Python package, if there is a Python with numpy
    Python,
    /// Words and phrases of pages, comments, messages and help
    Prose,
    /// The examples in the documentation
    Doctests,
    /// The API documentation, warnings as errors
    Docs,
    /// The library's examples, run to their end
    Examples,
    /// The command line: real captures trained to a bar
    Captures,
}

/// Result of a step.
pub enum Outcome {
    /// The step passed, with these tests.
    Passed(Totals),
    /// The step could not run here; holds the reason.
    Skipped(String),
    /// The step failed; holds the reason and the tests that ran.
    Failed(String, Totals),
}

/// Runs the checks.
///
/// # Errors
/// A step failed.
pub fn run(args: &TestArgs) -> Result<(), String> {
    print_surroundings();
    let mut results = Vec::new();
    let mut tests = TestRun::default();
    for &step in Step::value_variants() {
        let chosen = args.only.is_empty() || args.only.contains(&step);
        if !chosen || args.skip.contains(&step) || (args.quick && step.is_slow()) {
            continue;
        }
        println!("\n=== {} ===", name(step));
        let start = Instant::now();
        let outcome = step.run(args.quick, &mut tests);
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
    print_slowest(&tests);
    if args.quick {
        print_omitted();
    }
    write_times(&results, &tests);
    summarise(&results)
}

fn print_slowest(tests: &TestRun) {
    if tests.tests.is_empty() {
        return;
    }
    println!("\n=== the slowest tests ===");
    for test in tests.slowest(SLOWEST_SHOWN) {
        let remark = if test.time > LONGEST_TEST {
            "  too long: 120 s at most on two cores"
        } else {
            ""
        };
        println!("{:>7.1} s  {}{remark}", test.time.as_secs_f64(), test.name);
    }
}

fn print_omitted() {
    let steps: Vec<String> = Step::value_variants()
        .iter()
        .filter(|step| step.is_slow())
        .map(|step| name(*step))
        .collect();
    println!(
        "\n--quick omitted the steps {} and {} lines of xtask/slow_tests.txt",
        steps.join(", "),
        programs::omitted()
    );
}

/// Writes the time of each step, program and test, so that runs can be compared.
fn write_times(results: &[(Step, Outcome, Duration)], tests: &TestRun) {
    let step = |(step, _, elapsed): &(Step, Outcome, Duration)| json!({"name": name(*step), "seconds": elapsed.as_secs_f64()});
    let mut times = tests.to_json();
    times["steps"] = results.iter().map(step).collect();
    let path = shell::target_folder().join("test-times.json");
    match std::fs::write(&path, format!("{times:#}\n")) {
        Ok(()) => println!("\ntimes of all steps and tests: {}", path.display()),
        Err(e) => println!("\nwarning: {} cannot be written: {e}", path.display()),
    }
}

fn print_surroundings() {
    let yes_no = |found: bool| if found { "found" } else { "MISSING" };
    println!("Tools and captures of this machine:");
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
        "  MPI              {}  (runs on several processes: mpirun, mpicc, libclang)",
        yes_no(shell::has_mpi())
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

fn name(step: Step) -> String {
    step.to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Step {
    /// Returns true if `--quick` omits the step.
    fn is_slow(self) -> bool {
        matches!(
            self,
            Self::Deny | Self::Doctests | Self::Docs | Self::Examples | Self::Captures
        )
    }

    fn run(self, quick: bool, tests: &mut TestRun) -> Outcome {
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
            Self::Tests => run_tests(quick, tests),
            Self::Python => match python::interpreter() {
                Ok(interpreter) => match python::tests(&interpreter) {
                    Ok(mut command) => finished(shell::attempt(&mut command)),
                    Err(why) => Outcome::Failed(why, Totals::default()),
                },
                Err(why) => without("python", &why),
            },
            Self::Circles => checked(circles::run()),
            Self::Prose => checked(prose::run()),
            Self::Doctests => finished(shell::attempt(&mut shell::build(&["test", "--doc"]))),
            Self::Docs => finished(shell::attempt(&mut shell::documentation())),
            Self::Examples => examples(),
            Self::Captures => captures::run(),
        }
    }
}

/// Returns the outcome of a step that lacks something: a failure if `DAPPLE_REQUIRE` names it.
fn without(what: &str, why: &str) -> Outcome {
    match is_required(what) {
        true => Outcome::Failed(why.to_owned(), Totals::default()),
        false => Outcome::Skipped(why.to_owned()),
    }
}

/// Returns true if `DAPPLE_REQUIRE` names what a step needs.
fn is_required(what: &str) -> bool {
    let required = std::env::var("DAPPLE_REQUIRE").unwrap_or_default();
    required.split(',').any(|name| name == what)
}

fn run_tests(quick: bool, tests: &mut TestRun) -> Outcome {
    if !quick && !shell::has_mpi() {
        match without("mpi", "mpirun, mpicc and libclang are not all installed") {
            Outcome::Skipped(why) => println!("SKIPPED: runs on several processes: {why}"),
            failed => return failed,
        }
    }
    match programs::run(quick) {
        Ok(run) => {
            *tests = run;
            if tests.failures.is_empty() {
                Outcome::Passed(tests.totals)
            } else {
                Outcome::Failed(tests.failures.join("; "), tests.totals)
            }
        }
        Err(why) => Outcome::Failed(why, Totals::default()),
    }
}

fn cargo(args: &[&str]) -> Outcome {
    finished(shell::attempt(&mut shell::cargo(args)))
}

fn checked(result: Result<(), String>) -> Outcome {
    match result {
        Ok(()) => Outcome::Passed(Totals::default()),
        Err(why) => Outcome::Failed(why, Totals::default()),
    }
}

fn finished((output, ended): (shell::Output, Result<(), String>)) -> Outcome {
    let mut totals = Totals::from_output(&output.stdout);
    totals += Totals::from_output(&output.stderr);
    match ended {
        Ok(()) => Outcome::Passed(totals),
        Err(why) => Outcome::Failed(why, totals),
    }
}

/// Crates with examples.
const WITH_EXAMPLES: [&str; 3] = ["dapple", "runtime", "viewer"];

/// Runs every example to its end. Examples are built with the profile of tests, which has compiled all dependencies.
fn examples() -> Outcome {
    let mut totals = Totals::default();
    match run_examples(&mut totals) {
        Ok(()) => Outcome::Passed(totals),
        Err(why) => Outcome::Failed(why, totals),
    }
}

fn run_examples(totals: &mut Totals) -> Result<(), String> {
    shell::run(&mut shell::build(&["build", "--examples"]))?;
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

/// Returns the names of a crate's examples.
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
