//! The `extras` of an `asset`, in the JSON of SOG and glTF: what Dapple records there.

use super::WriteOptions;
use crate::Similarity;
use serde_json::{Value, json};

/// The motion since training: [`Similarity::numbers`] in Dapple's axes, whatever the axes of the file.
const MOVED: &str = "dapple_moved";

/// The extras of a file that is written; `None` where there is nothing to record.
pub(super) fn extras(options: &WriteOptions) -> Option<Value> {
    let is_moved = options.moved != Similarity::IDENTITY;
    is_moved.then(|| json!({ MOVED: options.moved.numbers() }))
}

/// The motion that extras of any program record.
pub(super) fn moved(extras: &Value) -> Similarity {
    let numbers = extras.get(MOVED).cloned();
    let numbers = numbers.and_then(|value| serde_json::from_value(value).ok());
    numbers.and_then(Similarity::of_numbers).unwrap_or_default()
}
