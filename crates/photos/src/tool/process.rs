//! Runs the tool: its output goes into a log, its progress to the caller.
//!
//! 1. The tool runs in its own process group, so that Ctrl-C of the terminal reaches Dapple only.
//! 2. Each line of its output is appended to the log, and a counter reads the progress from it.
//! 3. If the caller stops the work, the tool is killed.
//! 4. If the tool fails, the error quotes the line of the log that explains the failure.

use dapple_base::{Error, ErrorKind, Progress, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lines at the end of the log in which the reason of a failure is searched.
const LAST_LINES: usize = 40;

/// A run of the tool.
pub struct Job<'a> {
    /// Description of the stage, for the progress display: "finding features".
    pub what: &'a str,
    /// Name of the tool with its version.
    pub tool: &'a str,
    /// File for the tool's output.
    pub log: &'a Path,
    /// Number of units of the stage.
    pub total: u64,
    /// Reads the number of finished units from a line and the number before.
    pub count: fn(&str, u64) -> Option<u64>,
}

impl Job<'_> {
    /// Runs the command to its end.
    ///
    /// # Errors
    /// A missing program, a failure of the program, a stop by the caller, an error of the log.
    pub fn run(&self, command: &mut Command, progress: &dyn Progress) -> Result<()> {
        let log = File::create(self.log)
            .map_err(|e| Error::io("cannot write the log of the tool", self.log, e))?;
        own_group(command);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = command.get_program().to_owned();
        let mut child = command
            .spawn()
            .map_err(|e| Error::io("cannot run the tool", &program, e))?;
        progress.start(self.what, self.total);
        let ended = self.follow(&mut child, log, progress);
        progress.finish();
        let status = ended?;
        match status.success() {
            true => Ok(()),
            false => Err(self.failed(status)),
        }
    }

    /// Follows the output until the program ends.
    fn follow(&self, child: &mut Child, log: File, progress: &dyn Progress) -> Result<ExitStatus> {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (log, done) = (Mutex::new(log), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let read = |stream: Option<Box<dyn Read + Send>>| {
                let Some(stream) = stream else { return };
                self.read_lines(stream, &log, &done);
            };
            let out: Option<Box<dyn Read + Send>> = stdout.map(|s| Box::new(s) as _);
            let err: Option<Box<dyn Read + Send>> = stderr.map(|s| Box::new(s) as _);
            scope.spawn(move || read(out));
            scope.spawn(move || read(err));
            let mut shown = 0;
            loop {
                let now = done.load(Ordering::Relaxed).min(self.total.max(1));
                if now > shown {
                    progress.advance(now - shown);
                    shown = now;
                }
                if progress.should_stop() {
                    kill_group(child);
                    return Err(Error::new(
                        ErrorKind::Interrupted,
                        format!("stopped while {}", self.what),
                    )
                    .hint("the same command continues: finished stages are stored"));
                }
                match child.try_wait() {
                    Ok(Some(status)) => return Ok(status),
                    Ok(None) => std::thread::sleep(Duration::from_millis(40)),
                    Err(e) => return Err(Error::io("cannot wait for the tool", self.log, e)),
                }
            }
        })
    }

    fn read_lines(&self, stream: Box<dyn Read + Send>, log: &Mutex<File>, done: &AtomicU64) {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        // An invalid byte of a file name must not end the log.
        while matches!(stream.read_until(b'\n', &mut line), Ok(1..)) {
            if let Ok(mut log) = log.lock() {
                // The tool's result counts, not its log.
                let _ = log.write_all(&line);
                let text = String::from_utf8_lossy(&line);
                let before = done.load(Ordering::Relaxed);
                if let Some(now) = (self.count)(text.trim_end(), before) {
                    done.fetch_max(now, Ordering::Relaxed);
                }
            }
            line.clear();
        }
    }

    /// Describes a failure by the tool's log.
    fn failed(&self, status: ExitStatus) -> Error {
        let bytes = std::fs::read(self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lower = text.to_lowercase();
        let tool = self.tool;
        let is_full = ["no space left on device", "disk is full", "sqlite_full"];
        if is_full.iter().any(|sign| lower.contains(sign)) {
            let what = format!(
                "{tool} could not write while {}: the disk is full",
                self.what
            );
            return Error::new(ErrorKind::Io, what)
                .at_path(self.log)
                .hint("free disk space, then run the same command again: it continues");
        }
        let is_out_of_memory = ["bad_alloc", "out of memory", "cannot allocate memory"];
        if is_out_of_memory.iter().any(|sign| lower.contains(sign)) || signal_of(status) == Some(9)
        {
            let what = format!("{tool} ran out of memory while {}", self.what);
            return Error::new(ErrorKind::Io, what)
                .at_path(self.log)
                .hint("close other programs, or reduce --photo-size and --features, then run the same command again");
        }
        let end = match signal_of(status) {
            Some(signal) => format!("signal {signal}"),
            None => format!("exit code {}", status.code().unwrap_or(-1)),
        };
        let reason = reason(&text).map_or(String::new(), |line| format!(": {line}"));
        let what = format!("{tool} failed while {} ({end}){reason}", self.what);
        Error::unsupported(what).at_path(self.log).hint(
            "read the log above; run the same command again, it continues. If it fails again, install the newest \
             pycolmap: `python3 -m pip install -U pycolmap`",
        )
    }
}

/// Returns the line of the log that explains the failure.
fn reason(text: &str) -> Option<String> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    let signs = [
        "error",
        "failed",
        "exception",
        "unrecognised",
        "cannot",
        "invalid",
    ];
    let explains = |line: &&&str| {
        let lower = line.to_lowercase();
        signs.iter().any(|sign| lower.contains(sign))
    };
    let found = last.iter().rev().find(explains).or(last.last())?;
    let short: String = found.chars().take(200).collect();
    Some(short)
}

/// Returns the log's line of a failed check, without a running tool, for messages.
#[cfg(unix)]
fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

#[cfg(unix)]
fn own_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn own_group(_: &mut Command) {}

/// Kills the tool with the programs that it started.
fn kill_group(child: &mut Child) {
    #[cfg(unix)]
    {
        let group = format!("-{}", child.id());
        let mut kill = Command::new("kill");
        kill.args(["-KILL", "--", &group]);
        let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_explains_a_failure_is_found() {
        let log = "I0101 Processed file [1/2]\nF0101 Check failed: width > 0\n*** Aborted at 17\n    @ 0x1\n";
        assert_eq!(
            reason(log).as_deref(),
            Some("F0101 Check failed: width > 0")
        );
        assert_eq!(reason("one\ntwo\n\n").as_deref(), Some("two"));
        assert_eq!(reason(""), None);
    }
}
