//! Work folder of a capture: database, logs, and markers of finished stages.
//!
//! A marker holds a checksum of the settings of its stage and of all stages before. The next command with the same
//! settings skips the stage; other settings repeat it and all later stages.

use dapple_base::atomic::write_atomically;
use dapple_base::{Error, Result};
use std::path::{Path, PathBuf};

/// Name of the folder in the capture.
pub const FOLDER: &str = "photos-work";

/// Work folder.
#[derive(Debug, Clone)]
pub struct Work {
    folder: PathBuf,
    /// Checksum of all settings so far.
    key: u32,
    /// True while every stage so far was finished before.
    is_current: bool,
}

impl Work {
    /// Opens or creates the folder in a capture.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn open(capture: &Path) -> Result<Self> {
        let folder = capture.join(FOLDER);
        std::fs::create_dir_all(&folder)
            .map_err(|e| Error::io("cannot create the work folder", &folder, e))?;
        // The tool runs in another process and gets whole paths.
        let folder = folder
            .canonicalize()
            .map_err(|e| Error::io("cannot open the work folder", &folder, e))?;
        if folder.to_str().is_none() {
            return Err(Error::input("the path of the capture is not UTF-8")
                .at_path(&folder)
                .hint(
                    "name a capture whose path has other letters: the tool reads paths as UTF-8",
                ));
        }
        Ok(Self {
            folder,
            key: 0,
            is_current: true,
        })
    }

    /// Returns the path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs a stage unless it was finished before with the same settings. `clear` removes its earlier results.
    ///
    /// # Errors
    /// The error of the stage; a marker that cannot be written.
    pub fn stage(
        &mut self,
        name: &str,
        settings: &str,
        clear: impl FnOnce(&Self) -> Result<()>,
        run: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        self.key = crc32fast::hash(format!("{:08x} {name} {settings}", self.key).as_bytes());
        let (done, begun) = (
            self.path(&format!("{name}.done")),
            self.path(&format!("{name}.begun")),
        );
        let marked = |path: &Path| std::fs::read_to_string(path).ok();
        let key = format!("{:08x}", self.key);
        if self.is_current && marked(&done).as_deref() == Some(&key) {
            return Ok(());
        }
        self.is_current = false;
        if marked(&begun).as_deref() != Some(&key) {
            clear(self)?;
        }
        let _ = std::fs::remove_file(&done);
        let write = |path: &Path| write_atomically(path, |out| out.write_all(key.as_bytes()));
        write(&begun)?;
        run(self)?;
        write(&done)
    }
}

/// Removes a file or a folder; a missing one is no error.
///
/// # Errors
/// Errors of the operating system.
pub fn remove(path: &Path) -> Result<()> {
    let removed = match path.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    };
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("cannot remove", path, e))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn finished_stages_are_skipped_until_a_setting_before_them_changes() {
        let capture = tempfile::tempdir().unwrap();
        let ran = RefCell::new(Vec::new());
        let attempt = |first: &str, second: &str, fails: bool| {
            let mut work = Work::open(capture.path()).unwrap();
            let run = |name: &'static str, fails: bool| {
                ran.borrow_mut().push(name);
                if fails {
                    Err(Error::input("no"))
                } else {
                    Ok(())
                }
            };
            let cleared = |name: &'static str| {
                ran.borrow_mut().push(name);
                Ok(())
            };
            let result = work
                .stage("a", first, |_| cleared("clear a"), |_| run("a", false))
                .and_then(|()| {
                    work.stage("b", second, |_| cleared("clear b"), |_| run("b", fails))
                });
            (result.is_ok(), ran.take())
        };
        assert_eq!(
            attempt("1", "1", true),
            (false, vec!["clear a", "a", "clear b", "b"])
        );
        // Continues b where it stopped.
        assert_eq!(attempt("1", "1", false), (true, vec!["b"]));
        assert_eq!(attempt("1", "1", false), (true, vec![]));
        assert_eq!(attempt("1", "2", false), (true, vec!["clear b", "b"]));
        assert_eq!(
            attempt("2", "2", false),
            (true, vec!["clear a", "a", "clear b", "b"])
        );
    }
}
