//! [`Inputs`]: values that a kernel reads.

use crate::context::Values;
use crate::graph::tensor::DType;
use std::sync::RwLockReadGuard;

/// Inputs of a kernel, by buffer.
pub(crate) struct Inputs<'a>(pub &'a [(usize, RwLockReadGuard<'a, Values>)]);

impl Inputs<'_> {
    pub fn get(&self, buffer: usize) -> &Values {
        static NOTHING: Values = Values::F32(Vec::new());
        self.0
            .iter()
            .find(|pair| pair.0 == buffer)
            .map_or(&NOTHING, |pair| &pair.1)
    }
}

/// Returns the element type of a stored value.
pub(crate) fn dtype_of(values: &Values) -> DType {
    match values {
        Values::F32(_) => DType::F32,
        Values::F16(_) => DType::F16,
        Values::U32(_) => DType::U32,
    }
}
