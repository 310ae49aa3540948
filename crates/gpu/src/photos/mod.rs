//! Photos on the GPU.
//!
//! 1. A photo lies in a *slot*, a buffer with room for it. If all photos fit the budget, each view has a
//!    slot of its own, made when its photo first comes, and the photo stays.
//! 2. If not, there is a ring of as many slots as fit, each with room for the largest photo. A step's
//!    recording is bound to a slot, not to a view, so once every slot is made and was stepped on, a photo
//!    that comes costs nothing but its copy.
//! 3. A thread packs the photo into memory that the device copies from ([`packer`]). That begins when the
//!    photo is announced, some steps ahead, or else with the step itself, which then waits.
//! 4. A slot is filled again in the queue's order, after what was submitted. The photo used longest ago
//!    gives way, but none that a command needs which has not reported: so a command that has to be
//!    submitted again finds its photo, though the host may not hold it any more.

mod pack;
mod packer;

use crate::views::{counted, no_view};
use dapple_engine::{PosedCamera, check_photo};
use dapple_runtime::{Gpu, Pooled};
use dapple_scene::{Error, Photo, Result};
pub use pack::{pack, packed_bytes};
use packer::{Arriving, Packer};
use std::sync::Arc;

/// Photos on their way before their steps, at most; never more than half of a ring.
pub const AHEAD: usize = 3;

/// An announced step that has not come after so many commands will not come.
const STALE: u64 = 16;

/// A view's photo on the host.
#[derive(Debug)]
struct OfView {
    camera: PosedCamera,
    /// The photo, where it is held; one that comes for each step goes when it is on the GPU.
    photo: Option<Arc<Photo>>,
    comes_each_step: bool,
    /// Known once the photo was seen.
    is_masked: Option<bool>,
    /// What of the photo counts, until it is told; and whether it is known.
    counted: Option<(u32, u32)>,
    is_counted: bool,
    /// Where it is on the GPU, or about to be.
    slot: Option<usize>,
}

impl OfView {
    /// The most bytes that the photo can take on the GPU.
    fn most_bytes(&self) -> u64 {
        let pixels = self.camera.pixel_count() as u64;
        packed_bytes(pixels, self.is_masked.unwrap_or(true))
    }

    /// Takes in the photo when it is packed: it is in its slot for what is submitted from now on.
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
    /// The view whose photo it holds.
    view: usize,
    /// The photo, if it is still being packed, and the command that was next when that began.
    coming: Option<(Arriving, u64)>,
    /// The last command that used it.
    last_used: u64,
}

/// A photo that a step can use.
#[derive(Debug)]
pub struct Arrived {
    /// The number of its slot.
    pub slot: usize,
    /// Where it lies.
    pub buffer: Arc<Pooled>,
    /// Whether the photo has a mask.
    pub is_masked: bool,
    /// Pixels and windows that count in the loss, if that was not known before.
    pub counted: Option<(u32, u32)>,
}

/// All photos, and where they are.
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
    /// No photos; they may take `budget_bytes` on the GPU.
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

    /// Takes a view in. Without a photo, one comes for each step; with one, tells what of it counts.
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

    /// Decides how photos lie, after views were added and with no command on its way. Tells how many
    /// slots the ring has, if there is one.
    pub fn fit(&mut self) -> Option<u64> {
        let bytes = self.views.iter().map(OfView::most_bytes);
        let is_tight = bytes.clone().sum::<u64>() > self.budget_bytes;
        let largest = bytes.max().unwrap_or(0).max(1);
        // A photo larger than the budget is alone.
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

    /// Whether slots change their photos.
    pub fn is_ring(&self) -> bool {
        self.ring_bytes.is_some()
    }

    /// The slot of a view's photo, if it has one now.
    pub fn slot_of(&self, view: usize) -> Option<usize> {
        self.views.get(view)?.slot
    }

    /// Takes in the photo of a view's next step.
    ///
    /// # Errors
    /// There is no such view; a photo of another size.
    pub fn put(&mut self, view: usize, photo: Arc<Photo>) -> Result<()> {
        let held = self.views.get_mut(view).ok_or_else(|| no_view(view))?;
        check_photo(&held.camera, &photo)?;
        held.photo = Some(photo);
        Ok(())
    }

    /// Begins to bring the photo of a coming step, where there is a slot for it by now. Commands from
    /// `pending` on are not done, and `next` is the one to come.
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
        // The others are for steps that were not announced.
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

    /// Sees to it that a view's photo has a slot, for the command `next`; false if none is free yet:
    /// commands from `pending` on are not done, and what they use stays.
    ///
    /// # Errors
    /// There is no such view; its photo has not come; no memory.
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

    /// A view's photo on the GPU, for the command of this number, after [`Self::begin`].
    ///
    /// # Errors
    /// It has not come.
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

    /// Bytes of photos on the GPU.
    pub fn resident_bytes(&self) -> u64 {
        let slots = self.slots.iter().flatten();
        slots.map(|slot| slot.buffer.size()).sum()
    }

    /// A slot that `view` may have: one that was not made yet, or the one used longest ago whose
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

    /// Has a photo packed for a slot, whose last one gives way.
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

    /// Lets slots go whose announced steps have not come.
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
    Error::internal(format!("the photo of view {view} has not come"))
}
