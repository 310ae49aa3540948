//! `profile.json`: written whole or not at all, and read only if it is a profile.
//!
//! 1. Writing goes to a new file next to the target, which is then renamed to the target.
//! 2. Reading checks `schema` and `version` first. The error for a file of another tool or version
//!    then names that, and not the first missing field.

use crate::profile::{Profile, SCHEMA, VERSION};
use crate::{Error, Result};
use dapple_base::atomic::write_atomically;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// Most bytes of a profile: a thousand times the profile of a long run.
const MOST_BYTES: u64 = 256 << 20;

/// Returns a profile as JSON.
///
/// # Errors
/// None that a profile of [`analyse`](crate::analyse) can cause.
pub fn to_json(profile: &Profile) -> Result<String> {
    serde_json::to_string_pretty(profile)
        .map(|text| text + "\n")
        .map_err(|error| Error::input(format!("the profile cannot be written as JSON: {error}")))
}

/// Returns a profile from JSON; errors name `place`.
///
/// # Errors
/// Not JSON, cut short, of another tool, of another version, with a field missing or wrong.
pub fn from_json(text: &str, place: &str) -> Result<Profile> {
    let value: Value = serde_json::from_str(text).map_err(|error| invalid(text, place, &error))?;
    let (schema, version) = (value.get("schema"), value.get("version"));
    if schema.and_then(Value::as_str) != Some(SCHEMA) {
        let found = schema.map_or("no \"schema\"".into(), |found| format!("schema {found}"));
        return Err(
            Error::input(format!("not a profile: it has {found}, not \"{SCHEMA}\""))
                .at(place)
                .hint("give the profile.json that a profiled run wrote"),
        );
    }
    if version.and_then(Value::as_u64) != Some(u64::from(VERSION)) {
        let found = version.map_or("none".into(), Value::to_string);
        return Err(Error::input(format!(
            "a profile of version {found}; this build reads version {VERSION}"
        ))
        .at(place)
        .hint("profile again with this build, or compare with the build that wrote it"));
    }
    serde_json::from_str(text).map_err(|error| invalid(text, place, &error))
}

/// Reads `profile.json`.
///
/// # Errors
/// See [`from_json`]; also errors of the file system.
pub fn read_profile(path: &Path) -> Result<Profile> {
    let failed = |error| Error::io("cannot read the profile", path, error);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let place = path.display().to_string();
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Error::input(format!(
            "not a profile: it holds more than {} MiB",
            MOST_BYTES >> 20
        ))
        .at(place)
        .hint("give the profile.json that a profiled run wrote"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        Error::input("not a profile: it is not text")
            .at(format!("{place}, byte {offset}"))
            .hint("give the profile.json that a profiled run wrote")
    })?;
    from_json(&text, &place)
}

/// Writes `profile.json`, whole or not at all.
///
/// # Errors
/// Errors of the file system.
pub fn write_profile(path: &Path, profile: &Profile) -> Result<()> {
    let text = to_json(profile)?;
    write_atomically(path, |file| file.write_all(text.as_bytes()))
}

fn invalid(text: &str, place: &str, error: &serde_json::Error) -> Error {
    let before: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    let at = format!(
        "{place}, byte {}",
        before + error.column().saturating_sub(1)
    );
    let (what, hint) = if error.is_eof() {
        (
            "the profile ends in the middle".to_owned(),
            "copy the file again: it was cut short",
        )
    } else if error.is_data() {
        (
            format!("the profile has a field that is wrong: {error}"),
            "profile again with this build: the file was changed or written by another build",
        )
    } else {
        (
            format!("not JSON: {error}"),
            "give the profile.json that a profiled run wrote",
        )
    };
    Error::input(what).at(at).hint(hint)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::planted::{plain_step, profile, setup};

    fn refused(text: &str, says: &[&str]) {
        let error = from_json(text, "old.json").unwrap_err();
        let error = error.to_string();
        for what in says.iter().chain(&["old.json", "hint:"]) {
            assert!(error.contains(what), "{error}\nlacks {what}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let (mut written, _) = profile(plain_step, &setup());
        written.steps[3].counters[0] = f64::NAN;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        for _ in 0..2 {
            write_profile(&path, &written).unwrap();
        }
        let mut read = read_profile(&path).unwrap();
        assert!(read.steps[3].counters[0].is_nan());
        read.steps[3].counters[0] = 103.0;
        written.steps[3].counters[0] = 103.0;
        assert_eq!(read, written);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_profile_of_this_version_is_refused() {
        let text = to_json(&profile(plain_step, &setup()).0).unwrap();
        refused("", &["ends in the middle"]);
        refused(&text[..text.len() / 2], &["ends in the middle", "byte"]);
        refused("[1, 2]", &["no \"schema\""]);
        refused("{\n \"a\": x}", &["not JSON", "byte 8"]);
        refused("{}", &["no \"schema\""]);
        refused(r#"{"schema": "chrome", "version": 1}"#, &["\"chrome\""]);
        let newer = text.replacen("\"version\": 1", "\"version\": 7", 1);
        refused(&newer, &["version 7", "reads version 1"]);
        let unversioned = text.replacen("\"version\": 1,", "", 1);
        refused(&unversioned, &["version none"]);
        let strange = text.replacen("\"device_timestamps\": true", "\"device_timestamps\": 3", 1);
        refused(&strange, &["field that is wrong", "byte"]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let (profile, _) = profile(plain_step, &setup());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("absent").join("profile.json");
        let error = write_profile(&path, &profile).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Io);
        assert!(error.to_string().contains("absent"), "{error}");
        let error = read_profile(&path).unwrap_err();
        assert!(error.hint_text().unwrap().contains("nothing is there"));
        let binary = folder.path().join("binary");
        std::fs::write(&binary, [b'{', 0xff]).unwrap();
        let error = read_profile(&binary).unwrap_err();
        assert!(error.place().unwrap().ends_with("byte 1"), "{error}");
    }
}
