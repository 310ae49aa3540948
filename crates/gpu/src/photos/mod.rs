//! Photos on the GPU.
//!
//! 1. A photo is in a *photo slot*, a buffer that can hold it. If all photos fit the budget, each view has its own
//!    slot, created when its photo is first uploaded, and the photo stays.
//! 2. Otherwise there is a ring of as many slots as fit, each large enough for the largest photo. A step's command list
//!    binds a slot, not a view. Once every slot exists and was used by a step, uploading a photo costs only its copy.
//! 3. A thread packs the photo into memory that the device copies from ([`packer`]). Packing begins when the photo is
//!    announced, some steps ahead, or else with the step itself, which then waits.
//! 4. A slot is filled again in the queue's order, after the commands submitted before. The least recently used photo
//!    is replaced, but never a photo that an unreported command needs. So a command that has to be submitted again
//!    finds its photo, though the host may not hold it any more.

mod pack;
mod packer;

use crate::views::{counted, no_view};
use dapple_engine::{PosedCamera, check_photo};
use dapple_runtime::{Gpu, Pooled};
use dapple_scene::{Error, Photo, Result};
pub use pack::{pack, packed_bytes};
use packer::{Arriving, Packer};
use std::sync::Arc;

/// Most photos in flight before their steps; never more than half of a ring.
pub const AHEAD: usize = 3;

/// If this number of commands follows an announcement, the announced step will not come.
const STALE: u64 = 16;

/// A view's photo on the host.
#[derive(Debug)]
struct OfView {
    camera: PosedCamera,
    /// The photo, if the host holds it. A photo that is passed for each step is dropped when it is on the GPU.
    photo: Option<Arc<Photo>>,
    comes_each_step: bool,
    /// `None` until the photo was read.
    is_masked: Option<bool>,
    /// Pixels and windows of the photo that count, until they are reported; and true if they are known.
    counted: Option<(u32, u32)>,
    is_counted: bool,
    /// Slot on the GPU of the photo, uploaded or in flight.
    slot: Option<usize>,
}

impl OfView {
    /// Returns the most bytes that the photo can take on the GPU.
    fn most_bytes(&self) -> u64 {
        let pixels = self.camera.pixel_count() as u64;
        packed_bytes(pixels, self.is_masked.unwrap_or(true))
    }

    /// Waits until the photo is packed. Commands that are submitted from now on find it in its slot.
    fn receive(&mut self, arriving: Arriving) -> Result<()> {
        let packed = arriving.wait().inspect_err(|_| self.slot = None)?;
        packed.upload.finish();
        if let Some(counted) = packed.counted {
            self.counted = Some(counted);
            self.is_counted = true;
        }
        Ok(())
    }
}

/// A buffer for a photo.
#[derive(Debug)]
struct Slot {
    buffer: Arc<Pooled>,
    /// View of the photo in the slot.
    view: usize,
    /// The photo, if it is still being packed, and the number of the next command when packing began.
    coming: Option<(Arriving, u64)>,
    /// The last command that used the slot.
    last_used: u64,
}

/// A photo that a step can use.
#[derive(Debug)]
pub struct Arrived {
    /// Number of its slot.
    pub slot: usize,
    /// Buffer of its slot.
    pub buffer: Arc<Pooled>,
    /// True if the photo has a mask.
    pub is_masked: bool,
    /// Pixels and windows that count in the loss, if they were not known before.
    pub counted: Option<(u32, u32)>,
}

/// All photos and their slots.
#[derive(Debug)]
pub struct Photos {
    views: Vec<OfView>,
    budget_bytes: u64,
    slots: Vec<Option<Slot>>,
    /// Bytes of a slot of the ring; `None`: each view has its own.
    ring_bytes: Option<u64>,
    packer: Packer,
    /// Photos that were copied to the GPU.
    pub uploads: u64,
}

impl Photos {
    /// Creates the state without photos; they may take `budget_bytes` on the GPU.
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            views: Vec::new(),
            budget_bytes,
            slots: Vec::new(),
            ring_bytes: None,
            packer: Packer::default(),
            uploads: 0,
        }
    }

    /// Adds a view. Without a photo, the photo is passed for each step. With a photo, returns the pixels and windows of
    /// it that count.
    ///
    /// # Errors
    /// A photo of another size.
    pub fn add(
        &mut self,
        camera: &PosedCamera,
        photo: Option<Arc<Photo>>,
    ) -> Result<Option<(u32, u32)>> {
        if let Some(photo) = &photo {
            check_photo(camera, photo)?;
        }
        let known = photo.as_deref().map(|photo| counted(camera, Some(photo)));
        self.views.push(OfView {
            camera: *camera,
            comes_each_step: photo.is_none(),
            is_masked: photo.as_ref().map(|photo| photo.mask.is_some()),
            counted: None,
            is_counted: photo.is_some(),
            photo,
            slot: None,
        });
        Ok(known)
    }

    /// Chooses between a ring and a slot for each view, after views were added and with no command in flight. Returns
    /// the number of slots of the ring, if there is one.
    pub fn fit(&mut self) -> Option<u64> {
        let bytes = self.views.iter().map(OfView::most_bytes);
        let is_tight = bytes.clone().sum::<u64>() > self.budget_bytes;
        let largest = bytes.max().unwrap_or(0).max(1);
        // A photo larger than the budget gets the only slot.
        let count = match is_tight {
            true => (self.budget_bytes / largest).max(1),
            false => self.views.len() as u64,
        };
        let ring_bytes = is_tight.then_some(largest);
        let stays = ring_bytes == self.ring_bytes
            && (ring_bytes.is_none() || count == self.slots.len() as u64);
        if !stays {
            self.slots.clear();
            self.views.iter_mut().for_each(|view| view.slot = None);
            self.ring_bytes = ring_bytes;
        }
        self.slots.resize_with(count as usize, || None);
        is_tight.then_some(count)
    }

    /// Returns true if slots change their photos.
    pub fn is_ring(&self) -> bool {
        self.ring_bytes.is_some()
    }

    /// Returns the slot of a view's photo, if it has one now.
    pub fn slot_of(&self, view: usize) -> Option<usize> {
        self.views.get(view)?.slot
    }

    /// Stores the photo of a view's next step.
    ///
    /// # Errors
    /// There is no such view; a photo of another size.
    pub fn put(&mut self, view: usize, photo: Arc<Photo>) -> Result<()> {
        let held = self.views.get_mut(view).ok_or_else(|| no_view(view))?;
        check_photo(&held.camera, &photo)?;
        held.photo = Some(photo);
        Ok(())
    }

    /// Begins to upload the photo of a coming step, if a slot is free. Commands from `pending` on are not done, and
    /// `next` is the number of the next command.
    ///
    /// # Errors
    /// There is no such view; a photo of another size; no memory.
    pub fn announce(
        &mut self,
        gpu: &Gpu,
        view: usize,
        photo: Option<Arc<Photo>>,
        (pending, next): (u64, u64),
    ) -> Result<()> {
        let held = self.views.get(view).ok_or_else(|| no_view(view))?;
        if held.slot.is_some() {
            return Ok(());
        }
        let Some(photo) = photo.or_else(|| held.photo.clone()) else {
            return Ok(());
        };
        check_photo(&held.camera, &photo)?;
        self.settle_stale(next)?;
        let ahead = self.slots.iter().flatten();
        let ahead = ahead.filter(|slot| slot.coming.is_some()).count();
        // The other slots are for steps that were not announced.
        let most = match self.is_ring() {
            true => AHEAD.min((self.slots.len() - 1) / 2),
            false => AHEAD,
        };
        if ahead >= most {
            return Ok(());
        }
        match self.free_slot(view, pending) {
            Some(slot) => self.send(gpu, slot, (view, photo), next),
            None => Ok(()),
        }
    }

    /// Assigns a slot to a view's photo, for the command `next`. Returns false if no slot is free yet: commands from
    /// `pending` on are not done, and their photos stay.
    ///
    /// # Errors
    /// There is no such view; its photo was not passed; no memory.
    pub fn begin(&mut self, gpu: &Gpu, view: usize, (pending, next): (u64, u64)) -> Result<bool> {
        let held = self.views.get(view).ok_or_else(|| no_view(view))?;
        if held.slot.is_some() {
            return Ok(true);
        }
        let photo = held.photo.clone().ok_or_else(|| not_come(view))?;
        let Some(slot) = self.free_slot(view, pending) else {
            return Ok(false);
        };
        self.send(gpu, slot, (view, photo), next)?;
        Ok(true)
    }

    /// Returns a view's photo on the GPU, for the command of this number, after [`Self::begin`].
    ///
    /// # Errors
    /// The photo was not uploaded.
    pub fn arrive(&mut self, view: usize, command: u64) -> Result<Arrived> {
        let held = self.views.get_mut(view).ok_or_else(|| no_view(view))?;
        let number = held.slot.ok_or_else(|| not_come(view))?;
        let slot = self.slots.get_mut(number).and_then(Option::as_mut);
        let slot = slot.ok_or_else(|| not_come(view))?;
        if let Some((arriving, _)) = slot.coming.take() {
            held.receive(arriving)?;
            self.uploads += 1;
        }
        slot.last_used = command;
        if held.comes_each_step {
            held.photo = None;
        }
        Ok(Arrived {
            slot: number,
            buffer: slot.buffer.clone(),
            is_masked: held.is_masked.unwrap_or(false),
            counted: held.counted.take(),
        })
    }

    /// Returns the bytes of photos on the GPU.
    pub fn resident_bytes(&self) -> u64 {
        let slots = self.slots.iter().flatten();
        slots.map(|slot| slot.buffer.size()).sum()
    }

    /// Returns a slot that `view` may have: one that was not created yet, or the least recently used slot whose
    /// commands are all done.
    fn free_slot(&self, view: usize, pending: u64) -> Option<usize> {
        if !self.is_ring() {
            return Some(view);
        }
        if let Some(new) = self.slots.iter().position(Option::is_none) {
            return Some(new);
        }
        let slots = (0..).zip(self.slots.iter().flatten());
        let idle = slots.filter(|(_, slot)| slot.coming.is_none() && slot.last_used < pending);
        let oldest = idle.min_by_key(|(_, slot)| slot.last_used);
        oldest.map(|(number, _)| number)
    }

    /// Starts packing a photo for a slot, and removes the slot's photo.
    fn send(
        &mut self,
        gpu: &Gpu,
        number: usize,
        (view, photo): (usize, Arc<Photo>),
        next: u64,
    ) -> Result<()> {
        let bytes = packed_bytes(photo.pixel_count() as u64, photo.mask.is_some());
        let (buffer, before) = match &self.slots[number] {
            Some(slot) => (slot.buffer.clone(), Some(slot.view)),
            None => (gpu.buffer("photo", self.ring_bytes.unwrap_or(bytes))?, None),
        };
        let upload = gpu.begin_upload(&buffer, 0, bytes)?;
        let held = &self.views[view];
        let camera = (!held.is_counted).then_some(held.camera);
        let is_masked = photo.mask.is_some();
        let arriving = self.packer.pack(photo, upload, camera)?;
        if let Some(before) = before {
            self.views[before].slot = None;
        }
        self.views[view].is_masked = Some(is_masked);
        self.views[view].slot = Some(number);
        self.slots[number] = Some(Slot {
            buffer,
            view,
            coming: Some((arriving, next)),
            last_used: 0,
        });
        Ok(())
    }

    /// Completes the uploads of announced steps that have not come, so that their slots can be reused.
    fn settle_stale(&mut self, next: u64) -> Result<()> {
        for slot in self.slots.iter_mut().flatten() {
            if let Some((arriving, _)) = slot.coming.take_if(|(_, since)| *since + STALE < next) {
                self.views[slot.view].receive(arriving)?;
                self.uploads += 1;
            }
        }
        Ok(())
    }
}

fn not_come(view: usize) -> Error {
    Error::internal(format!(
        "the photo of view {view} was not uploaded before the step"
    ))
}
