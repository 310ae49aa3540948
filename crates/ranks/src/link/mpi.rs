//! [`Link`] over MPI, whose launcher (`mpirun`, `srun`) starts the processes. Only bytes travel.

use super::{Link, failed, heard, is_of_another};
use dapple_engine::Shipment;
use dapple_scene::{Error, ErrorKind, Result};
use mpi::Threading;
use mpi::environment::Universe;
use mpi::request::WaitGuard;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};

/// Most bytes of one operation: MPI counts in 31 bits.
const MOST_BYTES: usize = 1 << 30;

/// Bit of a message's size: the message is a fault.
const FAILED: u64 = 1 << 63;

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

    /// Sends bytes to each rank, and returns what arrives. With `failed`, the bytes are why this rank failed.
    fn all_to_all(&mut self, out: &[&[u8]], failed: bool) -> Result<Vec<Vec<u8>>> {
        let mark = if failed { FAILED } else { 0 };
        let sizes: Vec<u64> = out.iter().map(|bytes| bytes.len() as u64 | mark).collect();
        let mut coming = vec![0u64; out.len()];
        self.world.all_to_all_into(&sizes, &mut coming);
        let size = |coming: &u64| {
            usize::try_from(coming & !FAILED)
                .map_err(|_| Error::internal("a message between ranks is too long"))
        };
        let received = coming.iter().map(|coming| Ok(vec![0; size(coming)?]));
        let mut received = received.collect::<Result<Vec<Vec<u8>>>>()?;
        self.transfer(out, &mut received);
        let mut failures = coming.iter().zip(&received);
        match failures.find(|(coming, _)| *coming & FAILED != 0) {
            Some((_, why)) => Err(heard(String::from_utf8_lossy(why).into_owned())),
            None => Ok(received),
        }
    }

    /// Sends bytes to each rank while the bytes of all arrive in `received`, whose lengths are right.
    fn transfer(&self, out: &[&[u8]], received: &mut [Vec<u8>]) {
        let me = self.number();
        mpi::request::scope(|scope| {
            let mut requests = Vec::new();
            for (rank, bytes) in received.iter_mut().enumerate() {
                if rank == me {
                    bytes.copy_from_slice(out[me]);
                    continue;
                }
                let other = self.world.process_at_rank(rank as i32);
                for piece in bytes.chunks_mut(MOST_BYTES) {
                    let request = other.immediate_receive_into(scope, piece);
                    requests.push(WaitGuard::from(request));
                }
            }
            let mut sent = Vec::new();
            for (rank, bytes) in out.iter().enumerate().filter(|(rank, _)| *rank != me) {
                let other = self.world.process_at_rank(rank as i32);
                for piece in bytes.chunks(MOST_BYTES) {
                    sent.push(WaitGuard::from(other.immediate_send(scope, piece)));
                }
            }
        });
    }
}

impl<S: Shipment> Link<S> for MpiLink {
    fn rank(&self) -> usize {
        self.number()
    }

    fn ranks(&self) -> usize {
        self.world.size() as usize
    }

    fn exchange(&mut self, out: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        self.all_to_all(out, false)
    }

    fn ship(&mut self, mut out: Vec<S>) -> Result<Vec<S>> {
        // A rank's own shipment stays where it is.
        let me = self.number();
        let own = out.get_mut(me).map(std::mem::take).unwrap_or_default();
        let bytes = out.iter().map(Shipment::to_bytes);
        let bytes = bytes.collect::<Result<Vec<_>>>()?;
        let out: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let received = Link::<S>::exchange(self, &out)?;
        let mut received: Vec<S> = received.into_iter().map(S::from_bytes).collect();
        if let Some(mine) = received.get_mut(me) {
            *mine = own;
        }
        Ok(received)
    }

    fn fail(&mut self, error: &Error) {
        if is_of_another(error) {
            // All ranks heard of it in the same exchange.
            return;
        }
        let what = failed(self.number(), error);
        let out = vec![what.as_bytes(); self.world.size() as usize];
        // The others wait in an exchange. Their messages are of no use any more.
        let _ = self.all_to_all(&out, true);
    }
}
