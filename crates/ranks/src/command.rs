//! [`Command`]: calls that the first rank sends to the ranks of other processes. They execute commands by [`serve`].

use crate::link::Link;
use crate::parts::from_bytes;
use crate::rank::Rank;
use crate::wire::{head_of, with_head};
use dapple_engine::{DensifyPlan, DownloadParts, RenderSettings, Sharded, ViewStep};
use dapple_scene::{Camera, Error, Photo, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Rank that runs the training and sends commands to the others.
pub const LEADER: usize = 0;

/// Call of all ranks. Further bytes of the message depend on the command.
#[derive(Debug, Serialize, Deserialize)]
pub enum Command {
    /// Adds views. Their photos come with the steps.
    AddCameras(Vec<Camera>),
    /// Takes a part of a model with this number of Gaussians; the part follows.
    Upload(usize),
    /// Takes the part of this number of a model with that number of Gaussians; the part follows for the rank that takes it.
    TakePart(usize, usize),
    /// Takes steps. The photos of this rank's views follow.
    Steps(Vec<ViewStep>, Vec<PhotoHead>),
    /// Executes a round of density control.
    Densify(Box<DensifyPlan>),
    /// Renders.
    Render(Camera, RenderSettings),
    /// Sends parts of its state to the leader.
    Gather(DownloadParts),
    /// Sends the part of this number to the leader.
    GatherPart(usize),
    /// Ends.
    Stop,
}

/// Size of a photo, and which planes follow its colours.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct PhotoHead {
    size: [u32; 2],
    has_alpha: bool,
    has_mask: bool,
}

impl PhotoHead {
    /// Returns the head of a photo.
    pub fn of(photo: &Photo) -> Self {
        Self {
            size: [photo.width, photo.height],
            has_alpha: photo.alpha.is_some(),
            has_mask: photo.mask.is_some(),
        }
    }

    /// Appends the planes of a photo.
    pub fn push(photo: &Photo, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&photo.rgb);
        for plane in [&photo.alpha, &photo.mask].into_iter().flatten() {
            bytes.extend_from_slice(plane);
        }
    }

    /// Reads the planes of a photo. Returns the other bytes too.
    fn read(self, bytes: &[u8]) -> Result<(Photo, &[u8])> {
        let [width, height] = self.size;
        let pixels = width as usize * height as usize;
        let mut rest = bytes;
        let mut plane = |is_there: bool, channels: usize| {
            let bytes = usize::from(is_there) * channels * pixels;
            let (own, others) = rest
                .split_at_checked(bytes)
                .ok_or_else(|| Error::internal("a photo came in pieces"))?;
            rest = others;
            Ok::<_, Error>(is_there.then(|| own.to_vec()))
        };
        let photo = Photo {
            width,
            height,
            rgb: plane(true, 3)?.unwrap_or_default(),
            alpha: plane(self.has_alpha, 1)?,
            mask: plane(self.has_mask, 1)?,
        };
        Ok((photo, rest))
    }
}

/// First message of a rank to all ranks, before the first command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// Version of Dapple.
    version: String,
    /// Engine and device.
    pub description: String,
}

/// Greets all ranks, and returns their greetings.
///
/// # Errors
/// Another version of Dapple, another kind of engine, a rank that failed.
pub fn greet<S>(link: &mut dyn Link<S>, description: String) -> Result<Vec<Greeting>> {
    let own = Greeting {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        description,
    };
    let bytes = with_head(&own)?;
    let received = link.exchange(&vec![bytes.as_slice(); link.ranks()])?;
    let greetings = received
        .iter()
        .map(|bytes| Ok(head_of::<Greeting>(bytes)?.0))
        .collect::<Result<Vec<_>>>()?;
    for (rank, other) in greetings.iter().enumerate() {
        if other.version != own.version {
            return Err(Error::input(format!(
                "rank {rank} runs Dapple {}, and rank {} runs {}",
                other.version,
                link.rank(),
                own.version
            ))
            .hint("start the same program on all ranks"));
        }
        let kind = |name: &str| name.split(' ').next().map(str::to_owned);
        if kind(&other.description) != kind(&own.description) {
            return Err(Error::input(format!(
                "rank {rank} computes on {}, and rank {} on {}",
                other.description,
                link.rank(),
                own.description
            ))
            .hint("name one kind of device for all ranks with --device"));
        }
    }
    Ok(greetings)
}

/// Executes the commands of the leader until it ends.
///
/// # Errors
/// A fault of a rank.
pub fn serve<E: Sharded>(engine: E, mut link: Box<dyn Link<E::Shipment>>) -> Result<()> {
    greet(link.as_mut(), engine.description()).inspect_err(|error| link.fail(error))?;
    let mut rank = Rank::new(engine, link);
    while rank.run(Rank::obey)? {}
    Ok(())
}

impl<E: Sharded> Rank<E> {
    /// Executes the next command of the leader. Returns false if it was the last.
    fn obey(&mut self) -> Result<bool> {
        let message = self.hear()?;
        let (command, rest): (Command, _) = head_of(&message)?;
        match command {
            Command::AddCameras(cameras) => self.add_cameras(&cameras)?,
            Command::Upload(total) => {
                let (splats, state) = from_bytes(rest)?;
                self.take_part(&splats, Some(&state), total)?;
            }
            Command::Steps(views, photos) => {
                let own = views.iter().skip(self.number()).step_by(self.ranks());
                let mut rest = rest;
                for ((view, _), head) in own.zip(photos) {
                    let (photo, others) = head.read(rest)?;
                    self.put_photo(*view, Arc::new(photo))?;
                    rest = others;
                }
                self.steps(&views)?;
            }
            Command::Densify(plan) => {
                self.densify(&plan)?;
            }
            Command::Render(camera, settings) => {
                self.render(&camera, &settings)?;
            }
            Command::Gather(parts) => {
                self.gather(parts)?;
            }
            Command::TakePart(number, total) => self.take_told(number, total, rest)?,
            Command::GatherPart(number) => {
                self.gather_part(number)?;
            }
            Command::Stop => return Ok(false),
        }
        Ok(true)
    }
}
