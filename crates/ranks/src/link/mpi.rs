//! [`Link`] over MPI, whose launcher (`mpirun`, `srun`) starts the processes. Only bytes travel.

use super::{Link, failed, heard, is_of_another};
use dapple_engine::Shipment;
use dapple_scene::{Error, ErrorKind, Result};
use mpi::Threading;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};

/// Most bytes that a rank sends in one operation: MPI counts in 31 bits.
const MOST_BYTES: usize = 1 << 30;

/// First byte of a message: further bytes are a fault.
const FAILED: u8 = 1;

/// Connection between processes that an MPI launcher has started.
pub struct MpiLink {
    world: SimpleCommunicator,
    /// Ends MPI when it is dropped, after all ranks.
    _universe: Universe,
}

// SAFETY: MPI is initialised with `Threading::Serialized`, so that any thread may call it, and `Link` takes `&mut self`:
// one call at a time. There is one link in a process.
unsafe impl Send for MpiLink {}

impl MpiLink {
    /// Joins the processes of this launch. Called once in a process.
    ///
    /// # Errors
    /// An MPI that allows no calls from several threads, or a second call.
    pub fn join() -> Result<Self> {
        let fault = |what: &str| Error::new(ErrorKind::Unsupported, what).at("MPI");
        let (universe, threading) = mpi::initialize_with_threading(Threading::Serialized)
            .ok_or_else(|| fault("MPI was started before in this process"))?;
        if threading < Threading::Serialized {
            return Err(fault("this MPI allows calls from one thread only"));
        }
        Ok(Self {
            world: universe.world(),
            _universe: universe,
        })
    }

    /// Returns the number of this rank, from 0.
    pub fn number(&self) -> usize {
        self.world.rank() as usize
    }

    /// Sends `out`, whose first bytes are marks, and returns what arrives.
    fn all_to_all(&mut self, out: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let ranks = out.len();
        let sizes: Vec<u64> = out.iter().map(|bytes| bytes.len() as u64).collect();
        let mut coming = vec![0u64; ranks];
        self.world.all_to_all_into(&sizes, &mut coming);
        let mut received: Vec<Vec<u8>> = Vec::with_capacity(ranks);
        for size in &coming {
            let size = usize::try_from(*size)
                .map_err(|_| Error::internal("a message between ranks is too long"))?;
            received.push(vec![0; size]);
        }
        // All ranks need the same number of rounds: that of the longest message.
        let longest = self.longest(sizes.iter().max().copied().unwrap_or(0));
        let piece = (MOST_BYTES / ranks).max(1);
        let rounds = longest.div_ceil(piece as u64);
        for round in 0..rounds as usize {
            let part = |size: usize| {
                let first = (round * piece).min(size);
                first..(first + piece).min(size)
            };
            let (mut data, mut counts) = (Vec::new(), Vec::new());
            for bytes in out {
                let own = part(bytes.len());
                counts.push(own.len() as i32);
                data.extend_from_slice(&bytes[own]);
            }
            let taken: Vec<i32> = received
                .iter()
                .map(|bytes| part(bytes.len()).len() as i32)
                .collect();
            let mut buffer = vec![0u8; taken.iter().map(|&n| n as usize).sum()];
            {
                let send = Partition::new(&data[..], &counts[..], places(&counts));
                let mut receive = PartitionMut::new(&mut buffer[..], &taken[..], places(&taken));
                self.world.all_to_all_varcount_into(&send, &mut receive);
            }
            let mut rest = buffer.as_slice();
            for bytes in &mut received {
                let own = part(bytes.len());
                let (mine, others) = rest.split_at(own.len());
                bytes[own].copy_from_slice(mine);
                rest = others;
            }
        }
        Ok(received)
    }

    /// Returns the largest number of all ranks.
    fn longest(&mut self, own: u64) -> u64 {
        let mut most = 0;
        let largest = mpi::collective::SystemOperation::max();
        self.world.all_reduce_into(&own, &mut most, largest);
        most
    }
}

/// Returns the place of each part.
fn places(counts: &[i32]) -> Vec<i32> {
    let places = counts.iter().scan(0, |next, &count| {
        *next += count;
        Some(*next - count)
    });
    places.collect()
}

impl<S: Shipment> Link<S> for MpiLink {
    fn rank(&self) -> usize {
        self.number()
    }

    fn ranks(&self) -> usize {
        self.world.size() as usize
    }

    fn exchange(&mut self, out: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let marked = out.iter().map(|bytes| [&[0], *bytes].concat());
        let received = self.all_to_all(&marked.collect::<Vec<_>>())?;
        received
            .into_iter()
            .map(|mut bytes| match bytes.first() {
                Some(&FAILED) => Err(heard(String::from_utf8_lossy(&bytes[1..]).into_owned())),
                _ => Ok(bytes.split_off(1.min(bytes.len()))),
            })
            .collect()
    }

    fn ship(&mut self, out: Vec<S>) -> Result<Vec<S>> {
        let bytes = out.iter().map(Shipment::to_bytes);
        let bytes = bytes.collect::<Result<Vec<_>>>()?;
        let out: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let received = Link::<S>::exchange(self, &out)?;
        Ok(received.into_iter().map(S::from_bytes).collect())
    }

    fn fail(&mut self, error: &Error) {
        if is_of_another(error) {
            // All ranks heard of it in the same exchange.
            return;
        }
        let what = failed(self.number(), error);
        let message = [&[FAILED], what.as_bytes()].concat();
        let out = vec![message; self.world.size() as usize];
        // The others wait in an exchange. Their messages are of no use any more.
        let _ = self.all_to_all(&out);
    }
}
