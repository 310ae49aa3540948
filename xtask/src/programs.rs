//! Builds the test programs of the workspace and runs them one after the other.
//!
//! 1. `cargo test --no-run` builds every program; its messages name the path of each.
//! 2. Each program runs in the folder of its crate, as `cargo test` would run it, and prints the time of each test.
//! 3. The times are collected: the summary shows the slowest, and a JSON file lists all.
//!
//! libtest measures tests only as an unstable option, so the programs (but not the compiler) get `RUSTC_BOOTSTRAP=1`.

use crate::shell;
use crate::totals::Totals;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest time of a test on a slow machine with two cores.
pub const LONGEST_TEST: Duration = Duration::from_secs(120);

/// A program that prints nothing for this time hangs.
const SILENCE: Duration = Duration::from_secs(600);

/// Tests that `--quick` omits: `CRATE::MODULE` or a longer beginning of a test's name.
const SLOW: &str = include_str!("../slow_tests.txt");

/// One test program.
struct TestProgram {
    /// Name of the crate, with `::bin` for the unit tests of a program, `::lib` for those of a library, and the name of
    /// a program of integration tests that is not called `all`.
    name: String,
    executable: PathBuf,
    folder: PathBuf,
}

/// A test and its time.
#[derive(Debug, Clone)]
pub struct TimedTest {
    /// `CRATE::MODULE::TEST`.
    pub name: String,
    pub time: Duration,
    pub passed: bool,
}

/// Results of all programs.
#[derive(Debug, Default)]
pub struct TestRun {
    pub totals: Totals,
    pub tests: Vec<TimedTest>,
    /// Time of compiling and linking.
    pub build: Duration,
    /// Name and wall time of each program.
    pub programs: Vec<(String, Duration)>,
    /// One message for each program that failed.
    pub failures: Vec<String>,
}

impl TestRun {
    /// Returns the `count` slowest tests, the slowest first.
    pub fn slowest(&self, count: usize) -> Vec<&TimedTest> {
        let mut tests: Vec<&TimedTest> = self.tests.iter().collect();
        tests.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
        tests.truncate(count);
        tests
    }

    /// Returns the times as JSON: seconds of the build, of each program and of each test.
    pub fn to_json(&self) -> Value {
        let program = |(name, time): &(String, Duration)| json!({"name": name, "seconds": time.as_secs_f64()});
        let test = |test: &&TimedTest| json!({"name": test.name, "seconds": test.time.as_secs_f64(), "passed": test.passed});
        json!({
            "build_seconds": self.build.as_secs_f64(),
            "programs": self.programs.iter().map(program).collect::<Vec<_>>(),
            "tests": self.slowest(usize::MAX).iter().map(test).collect::<Vec<_>>(),
        })
    }
}

/// Builds and runs all test programs. `quick` omits the tests listed in `xtask/slow_tests.txt`.
///
/// # Errors
/// The build fails. Failed tests are in [`TestRun::failures`].
pub fn run(quick: bool) -> Result<TestRun, String> {
    let start = Instant::now();
    let programs = build()?;
    let mut run = TestRun {
        build: start.elapsed(),
        ..TestRun::default()
    };
    println!(
        "{} test programs, built in {:.1} s",
        programs.len(),
        run.build.as_secs_f64()
    );
    for program in &programs {
        run_program(program, quick, &mut run);
    }
    Ok(run)
}

fn build() -> Result<Vec<TestProgram>, String> {
    let mut command = shell::build(&[
        "test",
        // Without `--all-targets`, which builds examples a second time, as test programs without tests.
        "--lib",
        "--bins",
        "--tests",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    let output = shell::run_quietly(&mut command)?;
    let mut programs: Vec<TestProgram> = output.stdout.lines().filter_map(program_of).collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// Returns the test program that a message of cargo announces.
fn program_of(line: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let krate = folder.file_name()?.to_string_lossy();
    // Integration tests are programs in `tests/`; unit tests belong to a library or a program.
    let target = &message["target"];
    let kind = match (target["kind"][0].as_str()?, target["name"].as_str()?) {
        ("test", "all") => String::new(),
        ("test", name) => format!("::{name}"),
        ("bin", _) => "::bin".to_owned(),
        _ => "::lib".to_owned(),
    };
    Some(TestProgram {
        name: format!("{krate}{kind}"),
        executable,
        folder: folder.to_owned(),
    })
}

fn run_program(program: &TestProgram, quick: bool, run: &mut TestRun) {
    println!("\n--- {}", program.name);
    let mut command = Command::new(&program.executable);
    command
        .args(["-Zunstable-options", "--report-time"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .current_dir(&program.folder);
    if quick {
        for slow in slow_tests(&program.name) {
            command.args(["--skip", slow]);
        }
    }
    let start = Instant::now();
    let (output, ended) = shell::attempt_unless_silent(&mut command, SILENCE);
    run.programs.push((program.name.clone(), start.elapsed()));
    run.totals += Totals::from_output(&output.stdout);
    run.tests.extend(
        output
            .stdout
            .lines()
            .filter_map(|line| timed_test(&program.name, line)),
    );
    if let Err(why) = ended {
        run.failures.push(format!("{}: {why}", program.name));
    }
}

/// Returns the tests of a program that `--quick` omits, by their libtest names.
fn slow_tests(program: &str) -> impl Iterator<Item = &'static str> {
    let prefix = format!("{program}::");
    SLOW.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(move |line| line.strip_prefix(&prefix))
}

/// Returns the number of lines in `xtask/slow_tests.txt`, for the summary of `--quick`.
pub fn omitted() -> usize {
    SLOW.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .count()
}

/// Parses libtest's `test NAME ... ok <1.234s>`.
fn timed_test(program: &str, line: &str) -> Option<TimedTest> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (result, time) = rest.trim_end().strip_suffix("s>")?.split_once(" <")?;
    Some(TimedTest {
        name: format!("{program}::{name}"),
        time: Duration::try_from_secs_f64(time.parse().ok()?).ok()?,
        passed: result == "ok",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_what_libtest_prints() {
        let test = timed_test("gpu", "test conformance::poses ... ok <95.250s>").unwrap();
        assert_eq!(test.name, "gpu::conformance::poses");
        assert_eq!(test.time, Duration::from_millis(95_250));
        assert!(test.passed);
        let failed = timed_test("gpu", "test blend::far ... FAILED <0.001s>").unwrap();
        assert!(!failed.passed);
        for line in [
            "test blend::far ... ignored",
            "running 3 tests",
            "test blend::far has been running for over 60 seconds",
        ] {
            assert!(timed_test("gpu", line).is_none(), "{line}");
        }
    }

    #[test]
    fn the_slowest_come_first() {
        let test = |name: &str, seconds| TimedTest {
            name: name.to_owned(),
            time: Duration::from_secs(seconds),
            passed: true,
        };
        let run = TestRun {
            tests: vec![test("a", 1), test("b", 3), test("c", 2)],
            ..TestRun::default()
        };
        let names: Vec<&str> = run.slowest(2).iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(run.to_json()["tests"][0]["name"], "b");
    }
}
