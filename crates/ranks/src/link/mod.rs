//! [`Link`]: bytes between ranks.

#[cfg(feature = "mpi")]
mod mpi;

#[cfg(feature = "mpi")]
pub use self::mpi::MpiLink;

use dapple_scene::{Error, ErrorKind, Result};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Connection of a rank with all ranks. All ranks make the same calls in the same order. `S` are the shipments of the
/// engines.
pub trait Link<S>: Send {
    /// Returns the number of this rank, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn ranks(&self) -> usize;

    /// Sends bytes to every rank, by number, and returns what every rank sent to this one. A rank sends to itself too.
    ///
    /// # Errors
    /// A rank that failed or ended.
    fn exchange(&mut self, out: &[&[u8]]) -> Result<Vec<Vec<u8>>>;

    /// Works like [`Self::exchange`] with shipments.
    ///
    /// # Errors
    /// A rank that failed or ended, a lost device.
    fn ship(&mut self, out: Vec<S>) -> Result<Vec<S>>;

    /// Informs all other ranks of an error of this rank, or of one that it heard of. Their next exchange returns an error.
    fn fail(&mut self, error: &Error);
}

/// Message of one rank to another.
enum Message<S> {
    Bytes(Vec<u8>),
    Shipment(S),
    /// Which rank failed, and why.
    Failed(String),
}

/// Connection between ranks that are threads of one process.
struct ThreadLink<S> {
    rank: usize,
    to: Vec<Sender<Message<S>>>,
    from: Vec<Receiver<Message<S>>>,
}

impl<S> ThreadLink<S> {
    /// Sends a message to each rank, and returns what `take` finds in that of each.
    fn trade<T>(
        &mut self,
        out: impl Iterator<Item = Message<S>>,
        take: impl Fn(Message<S>) -> Option<T>,
    ) -> Result<Vec<T>> {
        for (to, message) in self.to.iter().zip(out) {
            // A rank that has ended left word why, unless it vanished.
            let _ = to.send(message);
        }
        let from = self.from.iter().enumerate();
        from.map(|(rank, from)| match from.recv() {
            Ok(Message::Failed(what)) => Err(heard(what)),
            Ok(message) => {
                take(message).ok_or_else(|| Error::internal("ranks make different calls"))
            }
            Err(_) => Err(ended(rank)),
        })
        .collect()
    }
}

/// Creates the connections of `ranks` ranks in one process, by number.
pub fn threads<S: Send + 'static>(ranks: usize) -> Vec<Box<dyn Link<S>>> {
    let mut to: Vec<Vec<Sender<Message<S>>>> = (0..ranks).map(|_| Vec::new()).collect();
    let mut from: Vec<Vec<Receiver<Message<S>>>> = (0..ranks).map(|_| Vec::new()).collect();
    for sender in &mut to {
        for receiver in &mut from {
            let (send, receive) = channel();
            sender.push(send);
            receiver.push(receive);
        }
    }
    let ends = to.into_iter().zip(from).enumerate();
    ends.map(|(rank, (to, from))| Box::new(ThreadLink { rank, to, from }) as Box<dyn Link<S>>)
        .collect()
}

impl<S: Send> Link<S> for ThreadLink<S> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.to.len()
    }

    fn exchange(&mut self, out: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let out = out.iter().map(|bytes| Message::Bytes(bytes.to_vec()));
        self.trade(out, |message| match message {
            Message::Bytes(bytes) => Some(bytes),
            _ => None,
        })
    }

    fn ship(&mut self, out: Vec<S>) -> Result<Vec<S>> {
        self.trade(
            out.into_iter().map(Message::Shipment),
            |message| match message {
                Message::Shipment(shipment) => Some(shipment),
                _ => None,
            },
        )
    }

    fn fail(&mut self, error: &Error) {
        let what = match is_of_another(error) {
            true => error.what().to_owned(),
            false => failed(self.rank, error),
        };
        let others = self.to.iter().enumerate();
        for (_, to) in others.filter(|(rank, _)| *rank != self.rank) {
            // A rank that has ended needs no message.
            let _ = to.send(Message::Failed(what.clone()));
        }
    }
}

/// Place of errors about another rank.
const ANOTHER: &str = "the link between ranks";

/// Returns the message about an error of a rank.
fn failed(rank: usize, error: &Error) -> String {
    format!("rank {rank} failed: {}", error.what())
}

fn ended(rank: usize) -> Error {
    heard(format!("rank {rank} has ended"))
}

/// Returns an error about another rank.
fn heard(what: String) -> Error {
    Error::new(ErrorKind::Io, what).at(ANOTHER)
}

/// Returns true if an error is about a fault of another rank.
pub fn is_of_another(error: &Error) -> bool {
    error.place() == Some(ANOTHER)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn each_rank_receives_what_each_sent_to_it() {
        std::thread::scope(|scope| {
            for mut link in threads::<u8>(3) {
                scope.spawn(move || {
                    for round in 0..50u8 {
                        let me = link.rank() as u8;
                        let out: Vec<Vec<u8>> = (0..3).map(|to| vec![me, to, round]).collect();
                        let out: Vec<&[u8]> = out.iter().map(Vec::as_slice).collect();
                        let got = link.exchange(&out).unwrap();
                        for (from, bytes) in got.iter().enumerate() {
                            assert_eq!(*bytes, [from as u8, me, round]);
                        }
                        let shipped = link.ship(vec![me, me, me + round]).unwrap();
                        let last = if me == 2 { round } else { 0 };
                        assert_eq!(shipped, [last, 1 + last, 2 + last]);
                    }
                });
            }
        });
    }

    #[test]
    fn a_failed_rank_is_named_by_the_others() {
        let mut links = threads::<u8>(2);
        links[1].fail(&Error::input("the disk is full"));
        let error = links[0].exchange(&[&[], &[]]).unwrap_err();
        assert!(
            error.what().contains("rank 1 failed: the disk is full"),
            "{error}"
        );
        links.pop();
        let error = links[0].exchange(&[&[], &[]]).unwrap_err();
        assert!(error.what().contains("rank 1 has ended"), "{error}");
    }
}
