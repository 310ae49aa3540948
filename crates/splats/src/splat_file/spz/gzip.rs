//! One gzip member, compressed by all cores.
//!
//! 1. Each attribute is cut into pieces of a fixed size, so that the bytes do not depend on the number of threads.
//!    Every piece is deflated separately; all but the last end with an empty stored block, at a whole byte.
//! 2. Blocks of deflate may follow one another: together they are one stream. The checksums of the pieces are combined.

use crate::splat_file::watch::Watch;
use crate::{Error, Result};
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use rayon::prelude::*;

/// Piece size: large compared with deflate's window of 32 KiB, so that little is lost at the borders.
const PIECE_BYTES: usize = 1 << 20;

/// Header of a member without name and time, for no particular operating system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// Compresses `parts`, one after the other, each with its level, 1 to 9.
pub(super) fn pack<'a>(parts: &[(&'a [u8], u32)], watch: &Watch<'_>) -> Result<Vec<u8>> {
    let of_part = |&(part, level): &(&'a [u8], u32)| {
        part.chunks(PIECE_BYTES).map(move |piece| (piece, level))
    };
    let pieces: Vec<(&'a [u8], u32)> = parts.iter().flat_map(of_part).collect();
    let last = pieces.len().saturating_sub(1);
    let packed: Vec<(Vec<u8>, Crc)> = pieces
        .par_iter()
        .enumerate()
        .map(|(i, &(piece, level))| {
            watch.check()?;
            let mut crc = Crc::new();
            crc.update(piece);
            let packed = deflate(piece, level, i == last)?;
            watch.advance(piece.len());
            Ok((packed, crc))
        })
        .collect::<Result<_>>()?;
    let mut crc = Crc::new();
    let mut bytes = HEAD.to_vec();
    for (piece, sum) in &packed {
        bytes.extend_from_slice(piece);
        crc.combine(sum);
    }
    bytes.extend(crc.sum().to_le_bytes());
    bytes.extend(crc.amount().to_le_bytes());
    Ok(bytes)
}

fn deflate(piece: &[u8], level: u32, is_last: bool) -> Result<Vec<u8>> {
    let mut compress = Compress::new(Compression::new(level), false);
    let flush = match is_last {
        true => FlushCompress::Finish,
        false => FlushCompress::Sync,
    };
    let failed = |what: String| Error::internal(format!("bytes cannot be deflated: {what}"));
    let mut out = Vec::with_capacity(piece.len() + piece.len() / 64 + 64);
    loop {
        let read = compress.total_in() as usize;
        let status = compress
            .compress_vec(&piece[read..], &mut out, flush)
            .map_err(|e| failed(e.to_string()))?;
        let all_read = compress.total_in() as usize == piece.len();
        match status {
            Status::StreamEnd => return Ok(out),
            // If the output has capacity left, the flush is complete.
            Status::Ok if !is_last && all_read && out.len() < out.capacity() => return Ok(out),
            Status::BufError if out.len() < out.capacity() => match is_last {
                true => return Err(failed("no progress".to_owned())),
                false => return Ok(out),
            },
            _ => out.reserve(out.capacity() / 4 + 1024),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::Read;

    #[test]
    fn pieces_are_one_member_whatever_is_in_them() {
        let noise: Vec<u8> = (0..3_000_000u64)
            .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
            .collect();
        let even = vec![7u8; 2 * PIECE_BYTES + 1];
        for parts in [
            vec![&noise[..], &even[..], &[1, 2, 3][..]],
            vec![&even[..]],
            vec![&noise[..16], &[][..]],
        ] {
            let of_levels: Vec<(&[u8], u32)> = parts.iter().copied().zip([6, 1, 9]).collect();
            let packed = pack(&of_levels, &Watch::start(&crate::NoProgress, "", 0, 1)).unwrap();
            let mut back = Vec::new();
            let mut decoder = flate2::bufread::GzDecoder::new(&packed[..]);
            decoder.read_to_end(&mut back).unwrap();
            assert!(decoder.into_inner().is_empty());
            assert!(back == parts.concat());
        }
    }
}
