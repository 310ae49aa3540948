//! Wall time of the command, by activity.
//!
//! 1. [`Wall`] measures the time before the trainer starts and passes it to the trainer, which measures steps,
//!    scoring and checkpoints.
//! 2. Loading is the rest of the time before the first step; writing is the rest of the time from the last step on.
//!    So the parts add up to the total.
//! 3. The history of a resumed run has the seconds of earlier commands; the printed line is of this command.

use dapple::train::{Seconds, Trainer};
use std::time::Instant;

/// Timer from the start of the command.
#[derive(Debug, Clone, Copy)]
pub struct Wall {
    started: Instant,
    /// Times measured in this command.
    seconds: Seconds,
    /// Times of the run before this command.
    earlier: Seconds,
}

impl Wall {
    /// Starts the timer, at the start of the command.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            seconds: Seconds::default(),
            earlier: Seconds::default(),
        }
    }

    /// Sets the times of the run before this command.
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

    /// Runs work that does not count towards the run.
    pub fn aside<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        self.started += begun.elapsed();
        done
    }

    /// Passes the times before training to the trainer.
    pub fn training_begins(&mut self, trainer: &mut Trainer) {
        let counted = trainer.history().seconds.without(&self.earlier);
        let counted = counted.and(&self.seconds).total();
        self.seconds.load = (self.started.elapsed().as_secs_f64() - counted).max(0.0);
        trainer.add_seconds(&self.seconds);
    }

    /// Returns the run's total times and the times of this command, at the end of the command.
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

/// Returns the printed line.
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
    // Only runs with a time budget are calibrated, and few runs are viewed.
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
