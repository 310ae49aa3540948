//! Runs commands: forwards their output to the terminal and captures it for counting.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Returns the build folder of cargo.
pub fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns a command for the cargo that runs this program, in the root of the repository.
pub fn cargo(args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    // Cargo disables colours if its output is a pipe.
    if std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    // These variables describe the package xtask; with them, cargo would rebuild other crates.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
        command.env_remove(name);
    }
    command
}

/// Returns the command `cargo ARGS --workspace` for what tests run. Where there is an MPI, the programs have it. All
/// steps use this command: with other features, cargo would compile most crates again.
pub fn build(args: &[&str]) -> Command {
    let mut command = cargo(args);
    command.arg("--workspace");
    if has_mpi() {
        command.args(["--features", "dapple-cli/mpi"]);
    }
    command
}

/// Folders of libclang, which the bindings of MPI need: Debian's, other systems', Apple's.
const LIBCLANG_FOLDERS: [&str; 5] = [
    "/usr/lib/llvm-*/lib",
    "/usr/lib/*-linux-gnu",
    "/usr/lib64",
    "/Library/Developer/CommandLineTools/usr/lib",
    "/opt/homebrew/opt/llvm/lib",
];

/// Returns true if programs with MPI can be compiled and started here.
pub fn has_mpi() -> bool {
    let libclang = || {
        std::env::var_os("LIBCLANG_PATH").is_some()
            || LIBCLANG_FOLDERS
                .iter()
                .any(|folder| works("sh", &["-c", &format!("ls {folder}/libclang[.-]*")]))
    };
    works("mpirun", &["--version"]) && works("mpicc", &["--version"]) && libclang()
}

/// Returns the command `cargo doc` for Dapple's crates, warnings as errors.
pub fn documentation() -> Command {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--exclude", "xtask"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

/// Returns true if `program ARGS` runs and succeeds.
pub fn works(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .current_dir(root())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Output of a command.
#[derive(Debug, Default)]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs a command to its end; forwards and captures its output.
///
/// # Errors
/// The command cannot be started, or its exit code is not 0.
pub fn run(command: &mut Command) -> Result<Output, String> {
    let (output, ended) = attempt(command);
    ended.map(|()| output)
}

/// Like [`run`], but standard output is captured and not forwarded, for output that a program reads.
///
/// # Errors
/// The command cannot be started, or its exit code is not 0.
pub fn run_quietly(command: &mut Command) -> Result<Output, String> {
    let (output, ended) = attempt_with(command, &mut std::io::sink(), None);
    ended.map(|()| output)
}

/// Like [`run`], but also returns the output of a failed command.
pub fn attempt(command: &mut Command) -> (Output, Result<(), String>) {
    attempt_with(command, &mut std::io::stdout(), None)
}

/// Like [`attempt`]; ends a command that has printed nothing for `silence`.
pub fn attempt_unless_silent(
    command: &mut Command,
    silence: Duration,
) -> (Output, Result<(), String>) {
    attempt_with(command, &mut std::io::stdout(), Some(silence))
}

fn attempt_with(
    command: &mut Command,
    stdout: &mut (impl Write + Send),
    silence: Option<Duration>,
) -> (Output, Result<(), String>) {
    let shown = show(command);
    println!("$ {shown}");
    let started = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(e) => {
            return (
                Output::default(),
                Err(format!("cannot start `{shown}`: {e}")),
            );
        }
    };
    let mut output = Output::default();
    let printed = Mutex::new(Instant::now());
    let ended = std::thread::scope(|scope| {
        if let Some(pipe) = child.stdout.take() {
            let (kept, printed) = (&mut output.stdout, &printed);
            scope.spawn(move || tee(pipe, stdout, kept, printed));
        }
        if let Some(pipe) = child.stderr.take() {
            let (kept, printed) = (&mut output.stderr, &printed);
            scope.spawn(move || tee(pipe, &mut std::io::stderr(), kept, printed));
        }
        wait(&mut child, &printed, silence)
    });
    let ended = match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` failed: {status}")),
        Err(why) => Err(format!("`{shown}`: {why}")),
    };
    (output, ended)
}

/// Waits for a command; ends it if it prints nothing for `silence`.
fn wait(
    child: &mut Child,
    printed: &Mutex<Instant>,
    silence: Option<Duration>,
) -> Result<ExitStatus, String> {
    let cannot_wait = |e| format!("cannot wait for it: {e}");
    let Some(silence) = silence else {
        return child.wait().map_err(cannot_wait);
    };
    loop {
        if let Some(status) = child.try_wait().map_err(cannot_wait)? {
            return Ok(status);
        }
        let last = *printed.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() > silence {
            // The command may have ended just now.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!(
                "printed nothing for {} s and was ended",
                silence.as_secs()
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn tee(from: impl Read, to: &mut impl Write, kept: &mut String, printed: &Mutex<Instant>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        // A closed terminal must not stop the tests.
        let _ = to.write_all(&line).and_then(|()| to.flush());
        kept.push_str(&String::from_utf8_lossy(&line));
        line.clear();
        *printed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}
