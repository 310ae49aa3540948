//! Engines for given splats: one, or several ranks if one engine does not hold the splats.

use super::{DeviceOptions, placed_at};
use crate::console::Console;
use crate::training_display::gaussians;
use dapple::contract::{RenderSettings, StepSettings};
use dapple::scene::{Result, Splats};
use dapple::{BoxedEngine, Opened, RanksNeeded, device_of_one, devices_of, ranks_needed};

/// Number and SH degree of splats.
#[derive(Debug, Clone, Copy)]
pub struct SplatsSize {
    gaussians: usize,
    sh_degree: u8,
}

impl SplatsSize {
    /// Returns the size that holds any of these splats.
    pub fn of_all<'a>(splats: impl IntoIterator<Item = &'a Splats>) -> Self {
        let none = Self {
            gaussians: 0,
            sh_degree: 0,
        };
        splats.into_iter().fold(none, |size, splats| Self {
            gaussians: size.gaussians.max(splats.len()),
            sh_degree: size.sh_degree.max(splats.sh_degree),
        })
    }
}

impl From<&Splats> for SplatsSize {
    fn from(splats: &Splats) -> Self {
        Self::of_all([splats])
    }
}

impl DeviceOptions {
    /// Opens the engine like [`Self::engine`], for splats of this size: with several ranks if one engine does not hold
    /// them.
    pub fn engine_holding(
        &self,
        size: impl Into<SplatsSize>,
        console: &Console,
    ) -> Result<BoxedEngine> {
        self.holding(self.open_quietly(false)?, size, console)
    }

    /// Opens the engine like [`Self::engine_holding`], without a note.
    pub fn engine_holding_quietly(&self, size: impl Into<SplatsSize>) -> Result<BoxedEngine> {
        let mut opened = self.open_quietly(false)?;
        let needed = self.ranks_for(&mut opened, size.into())?;
        match needed.ranks {
            0 | 1 => Ok(opened.engine.into_engine()),
            _ => Ok(self.ranks_instead(opened, needed)?.0),
        }
    }

    /// Returns this engine for splats of this size, or ranks instead of it, and prints what it is.
    pub fn holding(
        &self,
        mut opened: Opened,
        size: impl Into<SplatsSize>,
        console: &Console,
    ) -> Result<BoxedEngine> {
        let size = size.into();
        let needed = self.ranks_for(&mut opened, size)?;
        if needed.ranks <= 1 {
            return Ok(self.announced(opened, console).into_engine());
        }
        console.note(&format!(
            "note: {} do not fit {} of {}: {} engines share them",
            gaussians(size.gaussians as u64),
            match needed.by_memory {
                true => "the memory",
                false => "one buffer",
            },
            opened.engine.as_engine().description(),
            needed.ranks,
        ));
        let (engine, why) = self.ranks_instead(opened, needed)?;
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        console.note(&format!("device: {}{why}", engine.description()));
        Ok(engine)
    }

    fn ranks_for(&self, opened: &mut Opened, size: SplatsSize) -> Result<RanksNeeded> {
        let render = RenderSettings {
            sh_degree: size.sh_degree,
            ..RenderSettings::default()
        };
        let plan = opened
            .engine
            .as_engine()
            .memory_plan(&StepSettings::new(1, render));
        let Some(plan) = plan else {
            return Ok(RanksNeeded::ONE);
        };
        let device = self.device.clone().unwrap_or_default();
        ranks_needed(&plan, size.gaussians, devices_of(&device))
            .map_err(|error| placed_at(error, "the splats"))
    }

    /// Opens ranks instead of an engine: on its device, or if memory is the limit on all devices that are selected.
    fn ranks_instead(
        &self,
        opened: Opened,
        needed: RanksNeeded,
    ) -> Result<(BoxedEngine, Option<String>)> {
        // An open engine takes memory of the device.
        drop(opened);
        let (device, options) = self.of_rank()?;
        let device = match needed.by_memory {
            true => device,
            false => device_of_one(&device),
        };
        let (ranks, why) = dapple::open_ranks(&device, &options, needed.ranks)?;
        Ok((ranks.into_engine(), why))
    }
}
