//! Numbers in the text of actions.

use crate::{Error, Result};

/// Numbers between commas.
///
/// # Errors
/// One that is no finite number.
pub fn numbers(text: &str) -> Result<Vec<f64>> {
    let number = |part: &str| {
        let number = part.trim().parse::<f64>().ok().filter(|v| v.is_finite());
        number.ok_or_else(|| {
            Error::input(format!("\"{}\" is no finite number", part.trim()))
                .at(text)
                .hint("numbers are separated by commas, without spaces: 0,1.5,-2")
        })
    };
    text.split(',').map(number).collect()
}
