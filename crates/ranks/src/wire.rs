//! Messages between ranks in addition to those of engines.

use dapple_engine::{StageTime, StepCounts, StepReport};
use dapple_scene::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Report of a step from the rank of its view.
#[derive(Debug, Serialize, Deserialize)]
struct ReportMessage {
    step: u32,
    /// Bits, because JSON has no infinities.
    loss: u32,
    lost_transmittance: u32,
    counts: StepCounts,
    stages: Vec<StageTime>,
}

/// Returns a report as a message.
///
/// # Errors
/// Never: all numbers of the report can be written.
pub fn report_bytes(report: &StepReport) -> Result<Vec<u8>> {
    let message = ReportMessage {
        step: report.step,
        loss: report.loss.to_bits(),
        lost_transmittance: report.counts.lost_transmittance.to_bits(),
        counts: StepCounts {
            lost_transmittance: 0.0,
            ..report.counts
        },
        stages: report.stages.clone(),
    };
    with_head(&message)
}

/// Returns a head as the beginning of a message.
///
/// # Errors
/// A head that JSON cannot represent.
pub fn with_head(head: &impl Serialize) -> Result<Vec<u8>> {
    let head = serde_json::to_vec(head).map_err(|error| {
        Error::internal(format!("a message to a rank could not be written: {error}"))
    })?;
    let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&head);
    Ok(bytes)
}

/// Splits a message into its head and its other bytes.
///
/// # Errors
/// Bytes of another message.
pub fn head_of<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8])> {
    let wrong = || Error::internal("a message of another rank could not be read");
    let (length, rest) = bytes.split_first_chunk().ok_or_else(wrong)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| wrong())?;
    let (head, rest) = rest.split_at_checked(length).ok_or_else(wrong)?;
    let head = serde_json::from_slice(head).map_err(|_| wrong())?;
    Ok((head, rest))
}

/// Reads a message of [`report_bytes`].
///
/// # Errors
/// Bytes of another message.
pub fn report_of(bytes: &[u8]) -> Result<StepReport> {
    let (message, _): (ReportMessage, _) = head_of(bytes)?;
    Ok(StepReport {
        step: message.step,
        loss: f32::from_bits(message.loss),
        counts: StepCounts {
            lost_transmittance: f32::from_bits(message.lost_transmittance),
            ..message.counts
        },
        stages: message.stages,
        not_finite: None,
    })
}

/// Returns numbers of a message.
///
/// # Errors
/// Bytes that are no whole numbers.
pub fn floats(bytes: &[u8]) -> Result<Vec<f32>> {
    let (chunks, rest) = bytes.as_chunks();
    match rest {
        [] => Ok(chunks
            .iter()
            .map(|&bytes| f32::from_le_bytes(bytes))
            .collect()),
        _ => Err(Error::internal("numbers of another rank came in pieces")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use dapple_engine::Stage;

    #[test]
    fn reports_come_back_with_numbers_that_are_not_finite() {
        let report = StepReport {
            step: 7,
            loss: f32::NAN,
            counts: StepCounts {
                gaussians: 5,
                lost_transmittance: f32::INFINITY,
                ..StepCounts::default()
            },
            stages: vec![StageTime {
                stage: Stage::Blend,
                duration_ns: 12,
            }],
            not_finite: None,
        };
        let bytes = report_bytes(&report).unwrap();
        let read = report_of(&bytes).unwrap();
        assert_eq!(format!("{read:?}"), format!("{report:?}"));
        for end in 0..bytes.len() {
            assert!(report_of(&bytes[..end]).is_err(), "{end}");
        }
    }
}
