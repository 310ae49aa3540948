//! Checks that a JPEG is complete (ITU T.81).
//!
//! 1. The check walks the markers from the first to the last, through every scan. The end of image must be at the
//!    position of a marker, not merely among the bytes.
//! 2. A progressive photo consists of scans that refine each other. Without the last scans, a photo decodes but is
//!    blurred. Each coefficient of each component must be refined to its last bit.
//! 3. Bytes that are missing inside a scan are visible only to a decoder: see [`with_longer_end`].

use crate::photo_faults::{CONVERT_HINT, ends_early};
use crate::{Error, Result};

/// Coefficients of a block of 8x8 pixels.
const COEFFICIENTS: usize = 64;

/// Marks a coefficient that no scan has sent.
const ABSENT: u8 = u8::MAX;

/// Frame header: SOF.
struct Frame {
    precision: u8,
    is_progressive: bool,
    /// Number of components in the header, and the numbers of the named components.
    count: usize,
    components: Vec<u8>,
    /// Lowest bit that scans have sent so far, by component and coefficient.
    lowest_bits: Vec<[u8; COEFFICIENTS]>,
}

impl Frame {
    /// Parses a segment without its length: precision(1) height(2) width(2) count(1), then number(1) sampling(1)
    /// tables(1) of each component.
    fn parse(marker: u8, segment: &[u8]) -> Option<Self> {
        let count = usize::from(*segment.get(5)?);
        let named = segment.get(6..)?.chunks(3).map(|c| c[0]);
        let components: Vec<u8> = named.take(count).collect();
        Some(Self {
            precision: segment[0],
            is_progressive: matches!(marker, 0xc2 | 0xc6 | 0xca | 0xce),
            count,
            lowest_bits: vec![[ABSENT; COEFFICIENTS]; components.len()],
            components,
        })
    }

    /// Records the content of a scan. Its header without the length: count(1), number(1) tables(1) of each component,
    /// first(1) and last(1) coefficient, bits(1): from which, to which.
    fn add_scan(&mut self, segment: &[u8]) -> Option<()> {
        let count = usize::from(*segment.first()?);
        let numbers = segment.get(1..1 + 2 * count)?.chunks(2).map(|pair| pair[0]);
        let &[first, last, bits] = segment.get(1 + 2 * count..)?.first_chunk()?;
        for number in numbers {
            let Some(at) = self.components.iter().position(|&c| c == number) else {
                continue;
            };
            let range = usize::from(first)..=usize::from(last);
            for bit in self.lowest_bits[at].get_mut(range)? {
                *bit = bits & 0x0f;
            }
        }
        Some(())
    }

    /// Returns true if a progressive photo lacks scans.
    fn lacks_scans(&self) -> bool {
        let lacks = |bits: &[u8; COEFFICIENTS]| bits.iter().any(|&bit| bit != 0);
        self.is_progressive && self.lowest_bits.iter().any(lacks)
    }

    fn check_kind(&self) -> Result<()> {
        if self.count == 4 {
            return Err(Error::unsupported(
                "the photo is a CMYK JPEG: its colours are meant for print",
            )
            .hint(CONVERT_HINT));
        }
        if self.precision != 8 {
            return Err(Error::unsupported(format!(
                "the photo is a JPEG of {} bits a channel",
                self.precision
            ))
            .hint(CONVERT_HINT));
        }
        Ok(())
    }
}

/// Refuses a JPEG that cannot be decoded to colours, and one that is truncated.
pub(crate) fn check(bytes: &[u8]) -> Result<()> {
    let mut at = 2;
    let mut frame: Option<Frame> = None;
    let mut has_scans = false;
    // A segment: FF, marker, then (for all but a few) a length that includes itself.
    loop {
        let [0xff, marker, rest @ ..] = bytes.get(at..).unwrap_or(&[]) else {
            // Between scans a decoder searches the next marker; before the first scan there is none.
            match has_scans.then(|| next_marker(bytes, at)).flatten() {
                Some(next) => {
                    at = next;
                    continue;
                }
                None => break,
            }
        };
        let segment = match *marker {
            // Fill bytes before a marker, and markers without a segment.
            0xff => {
                at += 1;
                continue;
            }
            0x00 | 0x01 | 0xd0..=0xd8 => {
                at += 2;
                continue;
            }
            0xd9 if has_scans => {
                return match frame.is_some_and(|frame| frame.lacks_scans()) {
                    true => Err(Error::input(
                        "the photo ends early: the last scans of its progressive JPEG are missing",
                    )
                    .hint("copy it again from where it came")),
                    false => Ok(()),
                };
            }
            _ => match rest {
                [high, low, ..] => {
                    let length = usize::from(u16::from_be_bytes([*high, *low])).max(2);
                    rest.get(2..length).unwrap_or(&rest[2..])
                }
                _ => break,
            },
        };
        match *marker {
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                frame = Frame::parse(*marker, segment).or(frame);
            }
            0xda => {
                if let Some(frame) = &mut frame {
                    frame.check_kind()?;
                    // The decoder refuses an invalid header.
                    let _ = frame.add_scan(segment);
                }
                has_scans = true;
            }
            _ => {}
        }
        at += 4 + segment.len();
    }
    if has_scans {
        return Err(ends_early());
    }
    Err(Error::input("the photo has no image data").hint("copy it again from where it came"))
}

/// Returns the position of the next marker: FF that is not followed by 00. FF 00 encodes a byte FF of a scan.
fn next_marker(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let found = rest
        .windows(2)
        .position(|pair| pair[0] == 0xff && pair[1] != 0);
    found.map(|offset| from + offset)
}

/// Bytes that no encoder writes at the end of a scan, without 0xff. A decoder that still needs bits decodes them as
/// pixels.
const FILLER: [u8; 24] = [
    0x9a, 0x35, 0xc6, 0x1b, 0x72, 0xed, 0x48, 0xa7, 0x53, 0x0e, 0xd1, 0x6c, 0xb8, 0x27, 0xf4, 0x8d,
    0x3e, 0x61, 0xda, 0x05, 0x96, 0x7b, 0xe2, 0x1d,
];

/// Returns a copy of the photo with bytes after its last scan. A decoder of an intact photo has all pixels at that
/// point and skips the bytes. If bytes are missing, it decodes the filler as pixels, so its result changes.
pub(crate) fn with_longer_end(bytes: &[u8]) -> Vec<u8> {
    let mut at = 2;
    let mut last = bytes.len();
    while let Some([0xff, marker, rest @ ..]) = bytes.get(at..) {
        at = match (marker, rest) {
            (0xff, _) => at + 1,
            (0x01 | 0xd0..=0xd9, _) => at + 2,
            (_, [high, low, ..]) => at + 2 + usize::from(u16::from_be_bytes([*high, *low])).max(2),
            _ => break,
        };
        if *marker == 0xda {
            at = scan_end(bytes, at);
            last = at;
        }
    }
    let (before, after) = bytes.split_at(last);
    [before, &FILLER, after].concat()
}

/// Returns the end of the pixels that begin here: the next marker that is not a restart.
fn scan_end(bytes: &[u8], mut from: usize) -> usize {
    while let Some(marker) = next_marker(bytes, from) {
        if !matches!(bytes[marker + 1], 0xd0..=0xd7) {
            return marker;
        }
        from = marker + 2;
    }
    bytes.len()
}
