//! [`BoxedEngine`]: an engine on the host or on a device.

use crate::DeviceBuffers;
use dapple_engine::{CallListener, Engine, Observed};
use dapple_runtime::Gpu;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Engine on the host or on a GPU. It has all methods of [`Engine`].
///
/// An engine on a GPU must be [`Self::Device`]: as [`Self::Host`] its device is unknown, so that tensors compute on the
/// CPU and a run cannot train with LPIPS.
pub enum BoxedEngine {
    /// Engine without a device that callers share.
    Host(Box<dyn Engine>),
    /// Engine on a GPU.
    Device(Box<dyn DeviceBuffers>),
}

impl BoxedEngine {
    /// Boxes an engine on the host.
    pub fn host(engine: impl Engine + 'static) -> Self {
        Self::Host(Box::new(engine))
    }

    /// Boxes an engine on a GPU.
    pub fn device(engine: impl DeviceBuffers + 'static) -> Self {
        Self::Device(Box::new(engine))
    }

    /// Returns the engine's GPU; `None` for an engine on the host.
    pub fn gpu(&self) -> Option<&Gpu> {
        match self {
            Self::Host(_) => None,
            Self::Device(engine) => Some(engine.gpu()),
        }
    }

    /// Returns the same engine, its calls through a listener.
    #[must_use]
    pub fn observed(self, listener: impl CallListener + 'static) -> Self {
        match self {
            Self::Host(engine) => Self::host(Observed::new(listener, engine)),
            Self::Device(engine) => Self::device(Observed::new(listener, engine)),
        }
    }
}

impl Deref for BoxedEngine {
    type Target = dyn Engine;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Host(engine) => engine.as_ref(),
            Self::Device(engine) => engine.as_ref(),
        }
    }
}

impl DerefMut for BoxedEngine {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Host(engine) => engine.as_mut(),
            Self::Device(engine) => engine.as_mut(),
        }
    }
}

impl AsRef<dyn Engine> for BoxedEngine {
    fn as_ref(&self) -> &(dyn Engine + 'static) {
        &**self
    }
}

impl AsMut<dyn Engine> for BoxedEngine {
    fn as_mut(&mut self) -> &mut (dyn Engine + 'static) {
        &mut **self
    }
}

impl fmt::Debug for BoxedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoxedEngine")
            .field(&self.description())
            .finish()
    }
}
