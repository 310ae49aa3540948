//! Share of a program's time that rendered frames may take.

use std::time::{Duration, Instant};

/// Bounds the share of time that frames take. A frame that took `t` is paid for by `t / share` of the time, counted
/// from when the previous frame was paid for. A program that checks only between two steps therefore loses none of its
/// share by being late. Of time without a request, at most one frame's worth counts.
#[derive(Debug)]
pub struct Share {
    share: f64,
    ready_at: Option<Instant>,
}

impl Share {
    /// Creates a bound with `share` of the time. Values outside 0.01 to 1 are clamped, and NaN becomes 0.2.
    pub fn new(share: f64) -> Self {
        Self {
            share: if share.is_nan() {
                0.2
            } else {
                share.clamp(0.01, 1.0)
            },
            ready_at: None,
        }
    }

    /// Returns true if a frame may be rendered now.
    pub fn is_ready(&self, now: Instant) -> bool {
        self.ready_at.is_none_or(|at| now >= at)
    }

    /// Records a frame that took this long, up to `now`.
    pub fn spent(&mut self, took: Duration, now: Instant) {
        let price = took.mul_f64(1.0 / self.share);
        let begun = now.checked_sub(took).unwrap_or(now);
        let earliest = begun.checked_sub(price).unwrap_or(begun);
        // No time is saved up at the start.
        let paid = self.ready_at.map_or(begun, |at| at.max(earliest));
        self.ready_at = paid.checked_add(price);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renders frames of `picture`, requested between steps of `step`, for a minute; returns their part of the time.
    fn part(share: &mut Share, start: Instant, picture: Duration, step: Duration) -> f64 {
        let (mut now, mut spent) = (start, Duration::ZERO);
        while now < start + Duration::from_secs(60) {
            if share.is_ready(now) {
                now += picture;
                spent += picture;
                share.spent(picture, now);
            }
            now += step;
        }
        spent.as_secs_f64() / (now - start).as_secs_f64()
    }

    #[test]
    fn pictures_take_their_share_and_no_more() {
        let millis = Duration::from_millis;
        for (picture, step) in [(30, 7), (30, 100), (13, 47)] {
            let mut share = Share::new(0.2);
            let part = part(&mut share, Instant::now(), millis(picture), millis(step));
            assert!((0.19..=0.2005).contains(&part), "{picture}, {step}: {part}");
        }
        // Steps longer than the time that pays for a frame: one frame between two steps.
        let part = part(&mut Share::new(0.2), Instant::now(), millis(10), millis(90));
        assert!((0.09..=0.11).contains(&part), "{part}");
    }

    #[test]
    fn time_in_which_nobody_asks_is_not_saved_up() {
        let mut share = Share::new(0.2);
        let (mut now, picture) = (Instant::now(), Duration::from_millis(10));
        share.spent(picture, now);
        now += Duration::from_secs(3600);
        let mut burst = 0;
        while share.is_ready(now) {
            now += picture;
            share.spent(picture, now);
            burst += 1;
        }
        assert!(burst <= 2, "{burst}");
    }
}
