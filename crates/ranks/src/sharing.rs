//! [`Sharing`] of [`RanksEngine`]: one part of the model at a time passes through the first process.

use crate::command::Command;
use crate::engine::RanksEngine;
use crate::parts::{from_bytes, to_bytes};
use crate::rank::Rank;
use crate::wire::with_head;
use dapple_engine::{
    DownloadParts, Engine, EngineExt, OptimizerState, Part, ReadPart, Sharded, Sharing,
    check_upload,
};
use dapple_scene::{Error, Result, Splats};

impl<E: Sharded> Sharing for RanksEngine<E> {
    fn parts(&self) -> Vec<Part> {
        let first = self.first_part();
        let numbers = 0..first.engines;
        numbers.map(|number| first.of(number)).collect()
    }

    fn download_part(&mut self, number: usize) -> Result<(Splats, OptimizerState)> {
        self.finish()?;
        self.tell_all(&Command::GatherPart(number))?;
        let parts = match self.leads() {
            true => self.on_all(|rank| rank.gather_part(number))?,
            false => self.on_all(|rank| rank.own_part(number))?,
        };
        let mut parts = parts.into_iter().flatten();
        parts.next().ok_or_else(|| no_part(number))
    }

    fn upload_by_parts(&mut self, total: usize, read: &mut ReadPart<'_>) -> Result<()> {
        self.clear();
        let first = Part::new(0, self.count(), total);
        for number in 0..first.engines {
            let (splats, state) = read(first.of(number))?;
            check_upload(&splats, Some(&state))?;
            self.tell(|rank| {
                let mut message = with_head(&Command::TakePart(number, total))?;
                if rank == number {
                    message.extend(to_bytes(&splats, &state)?);
                }
                Ok(message)
            })?;
            self.on_all(|rank| match rank.number() == number {
                true => rank.take_part(&splats, Some(&state), total),
                false => Ok(()),
            })?;
        }
        Ok(())
    }
}

impl<E: Sharded> Rank<E> {
    /// Returns this rank's part if it has this number.
    pub(crate) fn own_part(&mut self, number: usize) -> Result<Option<(Splats, OptimizerState)>> {
        match self.number() == number {
            true => self.engine.download().map(Some),
            false => Ok(None),
        }
    }

    /// Sends a part to the leader, which returns it.
    pub(crate) fn gather_part(
        &mut self,
        number: usize,
    ) -> Result<Option<(Splats, OptimizerState)>> {
        let gathered = match self.number() == number {
            true => self.gather(DownloadParts::All)?,
            false => self.send_to_leader(&[])?,
        };
        Ok(gathered.into_iter().next())
    }

    /// Takes the part of a message for this rank.
    pub(crate) fn take_told(&mut self, number: usize, total: usize, bytes: &[u8]) -> Result<()> {
        if self.number() != number {
            return Ok(());
        }
        let (splats, state) = from_bytes(bytes)?;
        self.take_part(&splats, Some(&state), total)
    }
}

fn no_part(number: usize) -> Error {
    Error::internal(format!("no rank has part {number} of the model"))
}
