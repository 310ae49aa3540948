//! [`Cache`]: compiled kernels, stored on disk from one start to the next, on backends that support it (Vulkan; Metal
//! and DX12 keep caches of their own).
//!
//! 1. The file is named after the adapter, in `DAPPLE_CACHE_DIR` or the user's folder for caches.
//! 2. The file holds Dapple's header, a checksum, and the driver's data. wgpu passes the data to the driver without a
//!    checksum, and drivers trust the data, so the cache does not pass on data with a wrong checksum.
//! 3. wgpu itself drops data of another driver version.
//! 4. The file is written completely or not at all, and only after kernels were compiled that it lacks.
//!
//! The cache saves time and has no other effect. If the folder cannot be read or written, there is no cache.

use crate::link::Link;
use dapple_base::atomic::write_atomically;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Name of the format.
const MAGIC: &[u8; 8] = b"dapplePC";
/// Magic and checksum.
const HEADER_BYTES: usize = 16;
/// Size limit of a cache, in bytes. The cache never drops a kernel. A cache larger than this limit, ten times the size
/// of all kernels, is recreated.
const MOST_BYTES: usize = 64 << 20;

/// A pipeline cache and its file.
#[derive(Debug)]
pub(crate) struct Cache {
    pipelines: wgpu::PipelineCache,
    file: PathBuf,
    /// Checksum of the content of the file.
    stored: Mutex<Option<u64>>,
}

impl Cache {
    /// Loads the cache of a device, or creates one; `None` if the backend has none.
    pub(crate) fn open(link: &Link, folder: &Path) -> Option<Self> {
        if !link
            .device
            .features()
            .contains(wgpu::Features::PIPELINE_CACHE)
        {
            return None;
        }
        let key = wgpu::util::pipeline_cache_key(&link.device.adapter_info())?;
        let file = folder.join(format!("{key}.bin"));
        let read = std::fs::read(&file).unwrap_or_default();
        let data = opened(&read);
        // SAFETY: the checksum proves that `save` wrote `data`, and `save` writes what `get_data` returned.
        let pipelines = unsafe {
            link.device
                .create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                    label: Some("dapple"),
                    data,
                    fallback: true,
                })
        };
        link.check().ok()?;
        Some(Self {
            pipelines,
            file,
            stored: Mutex::new(data.map(checksum)),
        })
    }

    pub(crate) fn pipelines(&self) -> &wgpu::PipelineCache {
        &self.pipelines
    }

    /// Writes the data that the file lacks. Returns true if the file was written.
    pub(crate) fn save(&self) -> bool {
        let Some(data) = self.pipelines.get_data() else {
            return false;
        };
        let sum = checksum(&data);
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        if *stored == Some(sum) {
            return false;
        }
        let made = self.file.parent().map(std::fs::create_dir_all);
        let written = matches!(made, Some(Ok(())))
            && write_atomically(&self.file, |out| {
                out.write_all(MAGIC)?;
                out.write_all(&sum.to_le_bytes())?;
                out.write_all(&data)
            })
            .is_ok();
        if written {
            *stored = Some(sum);
        }
        written
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.save();
    }
}

/// Returns the driver's data from the bytes of a file, if they are complete.
fn opened(file: &[u8]) -> Option<&[u8]> {
    let (header, data) = file.split_at_checked(HEADER_BYTES)?;
    let whole = header[..8] == *MAGIC && header[8..] == checksum(data).to_le_bytes();
    (whole && data.len() <= MOST_BYTES).then_some(data)
}

/// FNV-1a of 64 bits: detects damage by a disk or a full file system, not malice. A file in the user's own folder needs
/// no more.
fn checksum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns the folder for caches on this system: `DAPPLE_CACHE_DIR`, else the user's folder for caches; `None` if there
/// is no folder.
pub fn folder() -> Option<PathBuf> {
    folder_from(|name| std::env::var_os(name))
}

fn folder_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(named) = variable("DAPPLE_CACHE_DIR") {
        return (!named.is_empty()).then(|| named.into());
    }
    // The XDG base directory specification requires that relative paths are ignored.
    let absolute = |name: &str| {
        variable(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let caches = if cfg!(windows) {
        absolute("LOCALAPPDATA")
    } else if cfg!(target_vendor = "apple") {
        absolute("HOME").map(|home| home.join("Library/Caches"))
    } else {
        absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
    };
    caches.map(|folder| folder.join("dapple"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(data: &[u8]) -> Vec<u8> {
        [MAGIC.as_slice(), &checksum(data).to_le_bytes(), data].concat()
    }

    #[test]
    fn only_whole_files_are_opened() {
        let file = file_of(b"kernels");
        assert_eq!(opened(&file), Some(b"kernels".as_slice()));
        assert_eq!(opened(&file_of(b"")), Some(b"".as_slice()));
        for cut in 0..file.len() {
            assert_eq!(opened(&file[..cut]), None, "cut at {cut}");
        }
        for byte in 0..file.len() {
            let mut wrong = file.clone();
            wrong[byte] ^= 1;
            assert_eq!(opened(&wrong), None, "byte {byte}");
        }
    }

    #[test]
    fn the_checksum_is_fnv() {
        // From the authors' list of test vectors.
        assert_eq!(checksum(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_folder_is_the_users() {
        let with = |set: &[(&str, &str)]| {
            let set: Vec<(String, OsString)> = set
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).into()))
                .collect();
            folder_from(move |name| set.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()))
        };
        assert_eq!(with(&[]), None);
        assert_eq!(
            with(&[("HOME", "/home/ada")]),
            Some("/home/ada/.cache/dapple".into())
        );
        let xdg = [("HOME", "/home/ada"), ("XDG_CACHE_HOME", "/fast")];
        assert_eq!(with(&xdg), Some("/fast/dapple".into()));
        let relative = [("HOME", "/home/ada"), ("XDG_CACHE_HOME", "fast")];
        assert_eq!(with(&relative), Some("/home/ada/.cache/dapple".into()));
        assert_eq!(
            with(&[("DAPPLE_CACHE_DIR", "here"), xdg[0]]),
            Some("here".into())
        );
        assert_eq!(with(&[("DAPPLE_CACHE_DIR", ""), xdg[0]]), None);
    }
}
