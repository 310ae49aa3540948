//! How much of a program's time pictures may take.

use std::time::{Duration, Instant};

/// Bounds the share of time that pictures take: after one that took `t`, the next waits until it is at most
/// `share` of the time since.
#[derive(Debug)]
pub struct Share {
    share: f64,
    ready_at: Option<Instant>,
}

impl Share {
    /// `share` of the time, 0 to 1 (both are moved inside).
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

    /// Whether a picture may be rendered now.
    pub fn is_ready(&self, now: Instant) -> bool {
        self.ready_at.is_none_or(|at| now >= at)
    }

    /// A picture took this long, up to `now`.
    pub fn spent(&mut self, took: Duration, now: Instant) {
        self.ready_at = now.checked_add(took.mul_f64(1.0 / self.share - 1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_take_their_share_and_no_more() {
        let mut share = Share::new(0.2);
        let (start, picture, step) = (
            Instant::now(),
            Duration::from_millis(30),
            Duration::from_millis(7),
        );
        let (mut now, mut spent) = (start, Duration::ZERO);
        while now < start + Duration::from_secs(60) {
            if share.is_ready(now) {
                now += picture;
                spent += picture;
                share.spent(picture, now);
            }
            now += step;
        }
        let part = spent.as_secs_f64() / (now - start).as_secs_f64();
        assert!((0.17..=0.2).contains(&part), "{part}");
    }
}
