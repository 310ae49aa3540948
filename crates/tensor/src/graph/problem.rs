//! [`Problem`]: a mistake in the construction of a graph. The tensor carries it, so that chains of calls need no `?`;
//! compiling or reading reports the first.

use dapple_base::Error;
use std::sync::Arc;

/// A mistake in the making of a node.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    what: String,
    hint: String,
}

impl Problem {
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            what: what.into(),
            hint: hint.into(),
        })
    }

    pub fn error(&self) -> Error {
        Error::input(self.what.clone()).hint(self.hint.clone())
    }
}
