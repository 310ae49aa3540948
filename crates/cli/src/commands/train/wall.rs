//! Where the wall time of the command went.
//!
//! 1. What comes before the trainer is measured here, by [`Wall`], and told to it; the trainer measures
//!    steps, scoring and checkpoints itself.
//! 2. Reading the capture is all that is before the first step and nothing else; writing is all that comes
//!    with the last step or later and nothing else. So the parts add up to the whole.
//! 3. A run that goes on has the seconds of earlier commands in its history: the line is of this one.

use dapple::train::{Seconds, Trainer};
use std::time::Instant;

/// Counts from the command's beginning.
#[derive(Debug, Clone, Copy)]
pub struct Wall {
    started: Instant,
    /// What was measured here.
    seconds: Seconds,
    /// What the run took before this command.
    earlier: Seconds,
}

impl Wall {
    /// The command begins.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            seconds: Seconds::default(),
            earlier: Seconds::default(),
        }
    }

    /// The run took so much before this command.
    pub fn goes_on(&mut self, earlier: Seconds) {
        self.earlier = earlier;
    }

    /// Opens the device.
    pub fn device<T>(&mut self, open: impl FnOnce() -> T) -> T {
        timed(&mut self.seconds.device, open)
    }

    /// Times steps.
    pub fn calibration<T>(&mut self, calibrate: impl FnOnce() -> T) -> T {
        timed(&mut self.seconds.calibration, calibrate)
    }

    /// Does what is not of the run.
    pub fn aside<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        self.started += begun.elapsed();
        done
    }

    /// Training begins: tells the trainer what came before.
    pub fn training_begins(&mut self, trainer: &mut Trainer) {
        let counted = trainer.history().seconds.without(&self.earlier);
        let counted = counted.and(&self.seconds).total();
        self.seconds.load = (self.started.elapsed().as_secs_f64() - counted).max(0.0);
        trainer.add_seconds(&self.seconds);
    }

    /// The command ends: the run's seconds with what was not counted yet, and those of this command.
    pub fn end(&self, of_run: Seconds) -> (Seconds, Seconds) {
        let counted = of_run.without(&self.earlier).total();
        let rest = Seconds {
            write: (self.started.elapsed().as_secs_f64() - counted).max(0.0),
            ..Seconds::default()
        };
        let all = of_run.and(&rest);
        (all, all.without(&self.earlier))
    }
}

fn timed<T>(seconds: &mut f64, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let done = work();
    *seconds += started.elapsed().as_secs_f64();
    done
}

/// The line for people.
pub fn line(seconds: &Seconds) -> String {
    let parts = [
        (seconds.device, "opening the device"),
        (seconds.calibration, "calibrating"),
        (seconds.load + seconds.setup, "loading"),
        (seconds.train, "training"),
        (seconds.eval, "scoring"),
        (seconds.checkpoints + seconds.write, "writing"),
        (seconds.view, "for the viewer"),
    ];
    // Only a run with a budget of time is calibrated, and few are looked at.
    let rare = ["calibrating", "for the viewer"];
    let shown = parts
        .iter()
        .filter(|(seconds, what)| !rare.contains(what) || *seconds > 0.0);
    let shown: Vec<String> = shown
        .map(|(seconds, what)| format!("{seconds:.1} s {what}"))
        .collect();
    format!(
        "time      {}, {:.1} s in all",
        shown.join(", "),
        seconds.total()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_each_part_and_their_sum() {
        let mut seconds = Seconds {
            device: 0.61,
            load: 2.0,
            setup: 0.1,
            train: 10.4,
            eval: 0.6,
            checkpoints: 0.1,
            write: 0.2,
            ..Seconds::default()
        };
        assert_eq!(
            line(&seconds),
            "time      0.6 s opening the device, 2.1 s loading, 10.4 s training, 0.6 s scoring, 0.3 s \
             writing, 14.0 s in all"
        );
        seconds.calibration = 3.0;
        assert!(line(&seconds).contains("device, 3.0 s calibrating, 2.1 s loading"));
    }

    #[test]
    fn what_is_not_counted_is_writing_and_earlier_commands_stay_out() {
        let earlier = Seconds {
            train: 100.0,
            load: 3.0,
            ..Seconds::default()
        };
        let mut wall = Wall::start();
        wall.goes_on(earlier);
        let of_run = earlier.and(&Seconds {
            eval: 1e-9,
            ..Seconds::default()
        });
        let (all, here) = wall.end(of_run);
        assert_eq!((all.train, all.load), (100.0, 3.0));
        assert!(here.train == 0.0 && here.write > 0.0, "{here:?}");
        assert!(here.total() < 60.0, "{here:?}");
    }
}
