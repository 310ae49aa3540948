//! Display of a run on the terminal: a bar with its numbers, or a line every few seconds.

use crate::console::Console;
use crate::interrupt::Grace;
use dapple::contract::DensifyReport;
use dapple::live::LiveHook;
use dapple::scene::Result;
use dapple::train::{
    Amendment, Change, Continuation, EvalReport, Event, ExtensionCheck, ExtensionDecision,
    MOST_SNAPSHOT_BYTES, Next, PausedRun, RunHook, Snapshots, StepProgress, Taken,
};
pub use dapple_base::numbers::grouped;
use indicatif::ProgressBar;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Time between two lines if stderr is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Displays a run, and passes Ctrl-C to it.
#[derive(Debug)]
pub struct TrainingDisplay<'a> {
    console: &'a Console,
    grace: &'a Grace,
    bar: ProgressBar,
    last_line: Instant,
    psnr: Option<f64>,
    /// Text on the extension check that has amended the run.
    check: Option<String>,
    unsaved: Unsaved,
    /// Live viewer, if the run is shown in a browser.
    live: Option<LiveHook<'static>>,
    snapshots: Snapshots,
    /// Message about snapshots that could not be written.
    unwritten: Option<String>,
}

/// Displays of a run, and its snapshots.
#[derive(Debug)]
pub struct Shown {
    /// Live viewer.
    pub live: Option<LiveHook<'static>>,
    /// Snapshots on disk.
    pub snapshots: Snapshots,
}

/// Failed checkpoints: the first failure is printed, later ones are counted, since all fail on a full disk.
#[derive(Debug, Default)]
struct Unsaved {
    /// Failures in total.
    count: u32,
    /// Failures since the last saved checkpoint.
    in_a_row: u32,
    /// Messages that were printed.
    told: Vec<String>,
}

impl<'a> TrainingDisplay<'a> {
    /// Creates the display of a run of `steps` steps.
    pub fn new(console: &'a Console, grace: &'a Grace, steps: u32, shown: Shown) -> Self {
        Self {
            console,
            grace,
            bar: console.bar(u64::from(steps), "{pos}/{len} [{bar:24}] {msg}"),
            last_line: Instant::now(),
            psnr: None,
            check: None,
            unsaved: Unsaved::default(),
            live: shown.live,
            snapshots: shown.snapshots,
            unwritten: None,
        }
    }

    /// Returns the live viewer after the end of the run.
    pub fn into_live(self) -> Option<LiveHook<'static>> {
        self.live
    }

    /// Removes the bar, and sends the end of the run to the pages.
    pub fn finish(&mut self, ended: &str) {
        if let Some(live) = &mut self.live {
            live.end(ended);
        }
        self.bar.finish_and_clear();
        if self.unsaved.count > 1 {
            self.console.note(&format!(
                "warning: {} checkpoints could not be saved",
                grouped(self.unsaved.count.into())
            ));
        }
    }

    /// Prints the result of a snapshot and shows it on the page.
    fn on_snapshot(&mut self, step: u32, taken: Result<Taken>) {
        match taken {
            Ok(taken) => {
                if !taken.is_new {
                    return;
                }
                self.console.detail(&format!("step {step}: snapshot"));
                if !taken.dropped.is_empty() {
                    self.console.note(&format!(
                        "note: the snapshots take more than {} GiB: every second one is dropped, {} in all",
                        MOST_SNAPSHOT_BYTES >> 30,
                        taken.dropped.len()
                    ));
                }
                if let Some(live) = &mut self.live {
                    live.on_snapshots();
                }
            }
            Err(error) => {
                let what = error.what().to_owned();
                if self.unwritten.as_ref() != Some(&what) {
                    self.console.note(&format!(
                        "warning: no snapshot after step {step}, and the run continues without: {error}"
                    ));
                    self.unwritten = Some(what);
                }
            }
        }
    }

    fn numbers(&self, at: &StepProgress) -> String {
        let mut text = format!(
            "loss {:.4}  {}  {:.1} it/s  ETA {}",
            at.smoothed_loss,
            gaussians(at.gaussians),
            at.steps_per_second,
            clock(at.eta_seconds),
        );
        if let Some(psnr) = self.psnr {
            text.push_str(&format!("  PSNR {psnr:.2}"));
        }
        text
    }
}

impl TrainingDisplay<'_> {
    fn on_extension_check(&mut self, check: &ExtensionCheck) {
        let [_, step] = check.steps;
        let gain = match 100.0 * check.gain() {
            gain if gain >= 0.0 => format!("fell by {gain:.0} %"),
            gain => format!("rose by {:.0} %", -gain),
        };
        let gain = format!(
            "step {}: the loss of the withheld photos {gain}",
            grouped(step.into())
        );
        match check.decision {
            ExtensionDecision::LittleGained => self.console.detail(&gain),
            _ => self.check = Some(gain),
        }
    }

    fn on_amendment(&mut self, amendment: &Amendment) {
        let gain = self.check.take();
        let gain = gain.unwrap_or_else(|| format!("step {}", grouped(amendment.after.into())));
        match amendment.change {
            Change::Extension {
                steps,
                max_gaussians,
            } => self.console.note(&format!(
                "{gain}: the run is extended to {} steps and up to {} (--steps sets the length)",
                grouped(steps.into()),
                gaussians(max_gaussians.into())
            )),
            Change::Dropout { rate } => self.console.note(&format!(
                "{gain}: the photos are overfitted, so each step from here on drops {} % of the Gaussians at \
                 random (--dropout sets the rate)",
                100.0 * rate
            )),
            _ => {}
        }
    }

    fn on_step(&mut self, progress: &StepProgress) {
        if self.console.interactive() {
            self.bar.set_length(u64::from(progress.steps));
            self.bar.set_position(u64::from(progress.step));
            self.bar.set_message(self.numbers(progress));
            return;
        }
        let last = progress.step == progress.steps;
        if last || progress.step == 1 || self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            let numbers = self.numbers(progress);
            self.console.note(&format!(
                "step {}/{}  {numbers}",
                progress.step, progress.steps
            ));
        }
    }

    fn on_densify(&mut self, report: &DensifyReport) {
        if report.relocated + report.added > 0 {
            self.console.detail(&format!(
                "step {}: {} relocated, {} added, {}",
                report.step,
                report.relocated,
                report.added,
                gaussians(report.total)
            ));
            return;
        }
        self.console.detail(&format!(
            "step {}: {} cloned, {} split, {} pruned, {} refused by the Gaussian cap, {}",
            report.step,
            report.cloned,
            report.split,
            report.pruned,
            report.refused,
            gaussians(report.total)
        ));
    }

    fn on_eval(&mut self, step: u32, report: &EvalReport) {
        self.psnr = Some(report.psnr);
        let lpips = report.lpips;
        let lpips = lpips.map_or(String::new(), |v| format!(", LPIPS {v:.4}"));
        self.console.note(&format!(
            "step {step}: PSNR {:.2} dB, SSIM {:.4}{lpips} on {} held-out photos",
            report.psnr,
            report.ssim,
            report.images.len()
        ));
        if let Some(focus) = &report.focus {
            self.console.note(&format!("step {step}: inside, {focus}"));
        }
        for note in &report.notes {
            self.console.note(&format!("note: {note}"));
        }
    }

    fn on_checkpoint(&mut self, step: u32, saved: &Result<()>) {
        match saved {
            Ok(()) => match std::mem::take(&mut self.unsaved.in_a_row) {
                0 => self.console.detail(&format!("step {step}: checkpoint")),
                missed => self.console.note(&format!(
                    "step {step}: checkpoints are saved again, {} are missing before it",
                    grouped(missed.into())
                )),
            },
            Err(error) => {
                self.unsaved.count += 1;
                self.unsaved.in_a_row += 1;
                let what = error.what().to_owned();
                if self.unsaved.told.contains(&what) {
                    return;
                }
                self.unsaved.told.push(what);
                self.console.note(&format!(
                    "warning: no checkpoint after step {step}, and the run continues without: {error}"
                ));
            }
        }
    }
}

impl RunHook for TrainingDisplay<'_> {
    fn name(&self) -> &'static str {
        "display"
    }

    fn on(&mut self, event: &Event<'_>) -> Result<()> {
        if let Some(live) = &mut self.live {
            live.on(event)?;
        }
        match event {
            Event::Step(progress) => self.on_step(progress),
            Event::Densify(report) => self.on_densify(report),
            Event::ExtensionCheck(check) => self.on_extension_check(check),
            Event::Amended(amendment) => self.on_amendment(amendment),
            Event::Eval(step, report) => self.on_eval(*step, report),
            Event::Saved(step, saved) => self.on_checkpoint(*step, saved),
            _ => {}
        }
        Ok(())
    }

    fn after_step(&mut self, run: &mut PausedRun<'_>) -> Result<Next> {
        // The run was not amended after the check.
        if let Some(check) = self.check.take() {
            self.console.detail(&check);
        }
        let taken = self.snapshots.between_steps(run)?;
        self.on_snapshot(run.step(), taken);
        match &mut self.live {
            Some(live) => live.after_step(run),
            None => Ok(Next::Continue),
        }
    }

    fn should_stop(&self) -> bool {
        self.grace.requested()
    }
}

/// Returns `1 Gaussian`, `1,234 Gaussians`.
pub fn gaussians(number: u64) -> String {
    match number {
        1 => "1 Gaussian".to_owned(),
        n => format!("{} Gaussians", grouped(n)),
    }
}

/// Returns `776 Gaussians, 388 before`, or for a part `194 of 388 Gaussians`.
pub fn written_of(written: usize, read: usize) -> String {
    match written > read {
        true => format!(
            "{}, {} before",
            gaussians(written as u64),
            grouped(read as u64)
        ),
        false => format!("{} of {}", grouped(written as u64), gaussians(read as u64)),
    }
}

/// Returns seconds as `4:05` or `1:02:03`.
pub fn clock(seconds: f64) -> String {
    // The cast saturates: a rate of zero gives a large number, not a panic.
    let seconds = seconds.max(0.0).round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// Describes the photos that joined before a part, and what it trains for them.
pub fn joined_photos(part: &Continuation) -> Option<String> {
    let counts = [
        (part.new_photos, "new"),
        (part.changed_photos, "changed"),
        (part.removed_photos, "removed"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if counts.is_empty() {
        return None;
    }
    let mut line = counts.join(", ");
    if part.added > 0 {
        let _ = write!(line, "; {} at new points", gaussians(part.added));
    }
    let _ = match part.frozen {
        0 => write!(line, "; all Gaussians are trained"),
        frozen => write!(
            line,
            "; {} out of their view keep their bytes",
            gaussians(frozen)
        ),
    };
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(gaussians(0), "0 Gaussians");
        assert_eq!(gaussians(1), "1 Gaussian");
        assert_eq!(gaussians(1000), "1,000 Gaussians");
        assert_eq!(written_of(194, 388), "194 of 388 Gaussians");
        assert_eq!(written_of(776, 388), "776 Gaussians, 388 before");
        assert_eq!(clock(65.4), "1:05");
        assert_eq!(clock(3723.0), "1:02:03");
        assert_eq!(clock(f64::NAN), "0:00");
    }
}
