//! Connections of the web server: their largest number, and the time that a silent one stays open.
//!
//! 1. The number of connections is limited, well below the process's limit on descriptors: files of a run can always be
//!    opened.
//! 2. At the limit, the oldest connection that has shown no token is closed for a new one. A stranger who opens
//!    connections closes their own; those of pages stay.
//! 3. A connection ends if the headers of its next request take longer than the patience. A connection without a token
//!    always ends after the patience.
//! 4. A WebSocket holds its place until it ends: see the pings of [`crate::server`].

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Largest number of open connections. A browser opens up to six and one per page.
const MOST: usize = 64;

/// Part of the descriptors of the process that connections may take: one of this number.
const PART: usize = 4;

/// Descriptors assumed if the limit is unknown: the default of macOS.
const ASSUMED_DESCRIPTORS: usize = 256;

/// Time until the next attempt, after the system has refused a connection.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// Places of all connections.
#[derive(Debug)]
struct Places {
    most: usize,
    taken: Mutex<Taken>,
    /// Notified when a connection has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// Connections by age. The oldest has the smallest number.
    by_age: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    is_admitted: bool,
    is_closing: bool,
    close: Arc<Notify>,
}

/// Place of one connection, free again when the last copy is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    id: u64,
    close: Arc<Notify>,
}

impl Places {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            taken: Mutex::default(),
            ended: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns a place for a new connection, or `None` if connections with a token have all of them.
    async fn enter(self: &Arc<Self>) -> Option<Arc<Place>> {
        loop {
            {
                let mut taken = self.lock();
                if taken.by_age.len() < self.most {
                    let (id, close) = (taken.next, Arc::new(Notify::new()));
                    taken.next += 1;
                    let entry = Entry {
                        is_admitted: false,
                        is_closing: false,
                        close: close.clone(),
                    };
                    taken.by_age.insert(id, entry);
                    let places = self.clone();
                    return Some(Arc::new(Place { places, id, close }));
                }
                let is_closing = taken.by_age.values().any(|entry| entry.is_closing);
                let mut entries = taken.by_age.values_mut();
                if !is_closing {
                    let stranger = entries.find(|entry| !entry.is_admitted)?;
                    stranger.is_closing = true;
                    stranger.close.notify_one();
                }
            }
            self.ended.notified().await;
        }
    }
}

impl Place {
    /// Marks the connection as one that has shown the token or its cookie: it is not closed for others.
    pub(crate) fn admit(&self) {
        if let Some(entry) = self.places.lock().by_age.get_mut(&self.id) {
            entry.is_admitted = true;
        }
    }

    fn is_admitted(&self) -> bool {
        let taken = self.places.lock();
        let entry = taken.by_age.get(&self.id);
        entry.is_some_and(|entry| entry.is_admitted)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().by_age.remove(&self.id);
        self.places.ended.notify_one();
    }
}

/// Accepts connections and serves them, without end.
pub(crate) async fn serve(listener: TcpListener, router: Router, patience: Duration) {
    let places = Places::new(most(descriptors()));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // No descriptor is free, or the other side has closed already.
            Err(_) => {
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        if let Some(place) = places.enter().await {
            tokio::spawn(serve_one(stream, router.clone(), place, patience));
        }
    }
}

async fn serve_one(stream: TcpStream, router: Router, place: Arc<Place>, patience: Duration) {
    // The last bytes of a frame do not wait for the acknowledgement of those before.
    let _ = stream.set_nodelay(true);
    let router = router.layer(axum::Extension(place.clone()));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    let stranger = async {
        tokio::time::sleep(patience).await;
        if place.is_admitted() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = connection => {}
        () = place.close.notified() => {}
        () = stranger => {}
    }
}

/// Returns the largest number of connections of a process that may open this number of files.
fn most(descriptors: usize) -> usize {
    (descriptors / PART).clamp(1, MOST)
}

/// Returns the process's limit on open files.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    match line.and_then(|line| line.split_whitespace().next()) {
        Some("unlimited") => usize::MAX,
        Some(number) => number.parse().unwrap_or(ASSUMED_DESCRIPTORS),
        None => ASSUMED_DESCRIPTORS,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]
mod tests {
    use super::*;

    #[test]
    fn connections_take_a_part_of_the_descriptors() {
        for (descriptors, wanted) in [(usize::MAX, 64), (1024, 64), (256, 64), (40, 10), (0, 1)] {
            assert_eq!(most(descriptors), wanted);
        }
        assert!(descriptors() > 0);
    }

    #[test]
    fn a_new_connection_closes_the_oldest_without_a_token() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let places = Places::new(3);
            let page = places.enter().await.unwrap();
            page.admit();
            let (first, second) = (places.enter().await.unwrap(), places.enter().await.unwrap());
            let closed = async {
                first.close.notified().await;
                drop(first);
            };
            let (third, ()) = tokio::join!(places.enter(), closed);
            let third = third.unwrap();
            assert!(page.is_admitted() && !third.is_admitted());
            second.admit();
            third.admit();
            assert!(
                places.enter().await.is_none(),
                "all have shown the token: no place is free"
            );
        });
    }
}
