//! Output streams: data to stdout, messages to stderr.
//!
//! Neither stream may end the program. A closed stdout (`dapple info | head`) ends the output, and a closed stderr
//! loses messages, not work. Control characters in file names are not sent to a terminal.

use crate::interrupt::{self, Grace};
use ::console::Term;
use dapple::scene::{Error, Progress, Result, printable_lines};
use dapple_base::numbers::grouped;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;

/// Terminal, with the level of detail of messages.
#[derive(Debug, Clone)]
pub struct Console {
    quiet: bool,
    verbose: bool,
    interactive: bool,
    /// True if stdout was a terminal at the start. A closed terminal gives other errors than a closed pipe.
    shows_data: bool,
    bars: MultiProgress,
}

impl Console {
    /// Creates a console. `quiet`: errors only. `verbose`: details too.
    pub fn new(quiet: bool, verbose: bool) -> Self {
        let interactive = io::stderr().is_terminal() && !quiet;
        let target = if interactive {
            ProgressDrawTarget::term_like(Box::new(Lossy(Term::stderr())))
        } else {
            ProgressDrawTarget::hidden()
        };
        Self {
            quiet,
            verbose,
            interactive,
            shows_data: io::stdout().is_terminal(),
            bars: MultiProgress::with_draw_target(target),
        }
    }

    /// Returns true if progress bars are drawn.
    pub fn interactive(&self) -> bool {
        self.interactive
    }

    /// Returns true if details are printed.
    pub fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Prints data and a newline on stdout.
    pub fn data(&self, text: &str) -> Result<()> {
        let written = self.bars.suspend(|| {
            let mut stdout = io::stdout().lock();
            writeln!(stdout, "{}", printable_lines(text)).and_then(|()| stdout.flush())
        });
        match written {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe && !self.shows_data => {
                Err(Error::io("cannot print the result", "standard output", e))
            }
            _ => Ok(()),
        }
    }

    /// Prints the result of a command on stdout, unless `--quiet`.
    pub fn outcome(&self, text: &str) -> Result<()> {
        match self.quiet {
            true => Ok(()),
            false => self.data(text),
        }
    }

    /// Prints a value as JSON on stdout.
    pub fn json(&self, value: &impl serde::Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|e| Error::internal(format!("a result cannot be written as JSON: {e}")))?;
        self.data(&text)
    }

    /// Prints a note, unless `--quiet`.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.always(text);
        }
    }

    /// Prints a detail, with `--verbose` only.
    pub fn detail(&self, text: &str) {
        if self.verbose {
            self.always(text);
        }
    }

    /// Prints a message, even with `--quiet`.
    pub fn always(&self, text: &str) {
        self.bars.suspend(|| {
            let _ = writeln!(io::stderr(), "{}", printable_lines(text));
        });
    }

    /// Returns a new bar below the existing bars; hidden if stderr is not a terminal.
    pub fn bar(&self, total: u64, template: &str) -> ProgressBar {
        let bar = self.bars.add(ProgressBar::new(total));
        // Templates are constants of this program; an invalid one falls back to the default.
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> ");
        bar.set_style(style);
        bar
    }

    /// Returns the progress display for loading and generating.
    pub fn progress(&self) -> ConsoleProgress<'_> {
        ConsoleProgress {
            console: self,
            bar: Mutex::new(None),
        }
    }
}

/// Terminal that loses output once it is closed. Bars panic at errors of a terminal.
#[derive(Debug)]
struct Lossy(Term);

impl TermLike for Lossy {
    fn width(&self) -> u16 {
        self.0.size().1
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n).or(Ok(()))
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n).or(Ok(()))
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n).or(Ok(()))
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n).or(Ok(()))
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.0.write_line(line).or(Ok(()))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text).or(Ok(()))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line().or(Ok(()))
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush().or(Ok(()))
    }
}

/// Progress as a bar, or as a line if stderr is not a terminal.
#[derive(Debug)]
pub struct ConsoleProgress<'a> {
    console: &'a Console,
    bar: Mutex<Option<ProgressBar>>,
}

impl ConsoleProgress<'_> {
    fn with_bar(&self, act: impl FnOnce(&mut Option<ProgressBar>)) {
        if let Ok(mut bar) = self.bar.lock() {
            act(&mut bar);
        }
    }
}

impl Progress for ConsoleProgress<'_> {
    fn start(&self, what: &str, total: u64) {
        if !self.console.interactive {
            self.console.note(&match total {
                0 => what.to_owned(),
                _ => format!("{what}, {} in all", grouped(total)),
            });
        }
        let template = match total {
            0 => "{msg} {pos}",
            _ => "{msg} [{bar:30}] {pos}/{len} {eta}",
        };
        let bar = self.console.bar(total, template);
        bar.set_message(what.to_owned());
        self.with_bar(|slot| *slot = Some(bar));
    }

    fn advance(&self, n: u64) {
        self.with_bar(|slot| {
            if let Some(bar) = slot {
                bar.inc(n);
            }
        });
    }

    fn finish(&self) {
        self.with_bar(|slot| {
            if let Some(bar) = slot.take() {
                bar.finish_and_clear();
            }
        });
    }

    fn should_stop(&self) -> bool {
        interrupt::requested()
    }
}

/// Progress of profiled steps, as a bar; no output if stderr is not a terminal.
#[derive(Debug)]
pub struct ProfileProgress<'a> {
    progress: ConsoleProgress<'a>,
    grace: &'a Grace,
}

impl<'a> ProfileProgress<'a> {
    /// Stops after Ctrl-C.
    pub fn new(console: &'a Console, grace: &'a Grace) -> Self {
        Self {
            progress: console.progress(),
            grace,
        }
    }
}

impl Progress for ProfileProgress<'_> {
    fn start(&self, what: &str, total: u64) {
        let template = format!("{what} {{wide_bar}} {{pos}}/{{len}} steps  {{msg}}");
        let bar = self.progress.console.bar(total, &template);
        self.progress.with_bar(|slot| *slot = Some(bar));
    }

    fn advance(&self, n: u64) {
        self.progress.with_bar(|slot| {
            if let Some(bar) = slot {
                // Fast steps are sampled for longer than first announced.
                if bar.length().is_some_and(|length| bar.position() >= length) {
                    bar.inc_length(n);
                }
                bar.inc(n);
            }
        });
    }

    fn finish(&self) {
        self.progress.finish();
    }

    fn should_stop(&self) -> bool {
        self.grace.requested()
    }
}
