//! [`Hints`]: advice in errors of the device.

use std::borrow::Cow;

/// Advice for users when the device fails or runs out of memory. The advice depends on the program's options, so the
/// program supplies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hints {
    /// Advice if no memory is left, or a buffer is larger than the device permits.
    pub memory: Cow<'static, str>,
    /// Advice if the device does not open.
    pub open: Cow<'static, str>,
    /// Advice if the device was lost.
    pub lost: Cow<'static, str>,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            memory: "work on less at once, or end other programs that use the GPU".into(),
            open: "update the driver, or choose another device".into(),
            lost: "its driver stopped it: try again, or choose another device".into(),
        }
    }
}
