//! Composes WGSL from shader includes.
//!
//! A shader include is a file with a name. Three directives, each on a line of its own:
//! 1. `#import name` inserts the include `name` here, once per composed shader.
//! 2. `#if FLAG`, `#else`, `#endif` keep or drop lines depending on the flag; `#if !FLAG` is its negation.
//! 3. Constants of the host (`const TILE_SIZE: u32 = 16u;`) are inserted at the beginning.
//!
//! The result is plain WGSL: the text that a driver, naga and a reader of a bug report see.

use dapple_base::{Error, Result};
use std::collections::BTreeMap;

/// Flags and constants that make one permutation of a shader.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Defines {
    flags: Vec<&'static str>,
    constants: BTreeMap<&'static str, String>,
}

impl Defines {
    /// Creates a permutation without flags and constants.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a flag if `on`.
    #[must_use]
    pub fn flag(mut self, name: &'static str, on: bool) -> Self {
        if on {
            self.flags.push(name);
        }
        self
    }

    /// Adds a `u32` constant.
    #[must_use]
    pub fn u32(mut self, name: &'static str, value: u32) -> Self {
        self.constants.insert(name, format!("u32 = {value}u"));
        self
    }

    /// Adds an `f32` constant with exact bits.
    #[must_use]
    pub fn f32(mut self, name: &'static str, value: f32) -> Self {
        self.constants.insert(name, format!("f32 = {value:e}f"));
        self
    }

    /// Merges these and `more`, whose constants replace those of the same name.
    #[must_use]
    pub fn and(mut self, more: &Self) -> Self {
        let new = more.flags.iter().filter(|flag| !self.flags.contains(flag));
        let new: Vec<&'static str> = new.copied().collect();
        self.flags.extend(new);
        let constants = more.constants.iter();
        self.constants
            .extend(constants.map(|(name, value)| (*name, value.clone())));
        self
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// Returns a short name of this permutation, for labels.
    pub fn label(&self) -> String {
        self.flags.join("+")
    }
}

/// Named shader includes in WGSL.
#[derive(Debug, Clone, Default)]
pub struct ShaderSet {
    pieces: BTreeMap<&'static str, &'static str>,
    trusted: bool,
}

impl ShaderSet {
    /// Creates a set from `(name, text)` pairs.
    pub fn new(pieces: &[(&'static str, &'static str)]) -> Self {
        Self {
            pieces: pieces.iter().copied().collect(),
            trusted: false,
        }
    }

    /// Adds the shader includes of another set, which replace those of the same name. The result keeps its checks,
    /// because no author has vouched for the combination.
    #[must_use]
    pub fn with(mut self, pieces: &[(&'static str, &'static str)]) -> Self {
        self.pieces.extend(pieces.iter().copied());
        self.trusted = false;
        self
    }

    /// Marks the set: release builds compile its shaders without the runtime checks that wgpu adds.
    ///
    /// # Safety
    /// With any buffers and in any permutation, no shader may access memory outside of its buffers or its own arrays,
    /// and every loop ends.
    #[must_use]
    pub unsafe fn without_checks(self) -> Self {
        Self {
            trusted: true,
            ..self
        }
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Returns the names of all shader includes.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.pieces.keys().copied()
    }

    /// Returns the WGSL of include `name` in the permutation `defines`.
    ///
    /// # Errors
    /// An unknown include or an unbalanced directive: bugs in Dapple, so internal errors.
    pub fn compose(&self, name: &str, defines: &Defines) -> Result<String> {
        let mut out = String::new();
        for (constant, value) in &defines.constants {
            out.push_str(&format!("const {constant}: {value};\n"));
        }
        let mut seen = Vec::new();
        self.append(name, defines, &mut seen, &mut out)?;
        Ok(out)
    }

    fn append(
        &self,
        name: &str,
        defines: &Defines,
        seen: &mut Vec<String>,
        out: &mut String,
    ) -> Result<()> {
        if seen.iter().any(|s| s == name) {
            return Ok(());
        }
        seen.push(name.to_owned());
        let wrong = |what: String, line: usize| {
            Error::internal(format!("shader {what}")).at(format!("{name}.wgsl:{}", line + 1))
        };
        let text = self
            .pieces
            .get(name)
            .ok_or_else(|| Error::internal(format!("there is no shader piece \"{name}\"")))?;
        // For each open `#if`, true if the result includes its lines.
        let mut open: Vec<bool> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.trim().splitn(2, ' ');
            let (directive, argument) = (words.next(), words.next().unwrap_or("").trim());
            match directive {
                Some("#if") => open.push(match argument.strip_prefix('!') {
                    Some(flag) => !defines.has(flag),
                    None => defines.has(argument),
                }),
                Some("#else") => match open.last_mut() {
                    Some(keep) => *keep = !*keep,
                    None => return Err(wrong("has #else without #if".to_owned(), number)),
                },
                Some("#endif") => {
                    if open.pop().is_none() {
                        return Err(wrong("has #endif without #if".to_owned(), number));
                    }
                }
                _ if open.contains(&false) => {}
                Some("#import") => self.append(argument, defines, seen, out)?,
                Some(other) if other.starts_with('#') => {
                    return Err(wrong(format!("has an unknown directive {other}"), number));
                }
                _ => {
                    out.push_str(line);
                    out.push('\n');
                }
            }
        }
        if open.is_empty() {
            Ok(())
        } else {
            Err(wrong(
                "has #if without #endif".to_owned(),
                text.lines().count(),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn set() -> ShaderSet {
        ShaderSet::new(&[
            (
                "a",
                "#import b\n#import b\n#if X\nx\n#else\ny\n#endif\n#if !X\nz\n#endif",
            ),
            ("b", "b"),
            ("open", "#if X"),
            ("stray", "#endif"),
            ("lost", "#import nowhere"),
            ("odd", "#ifdef X"),
        ])
    }

    #[test]
    fn imports_once_and_keeps_by_flag() {
        let with = set()
            .compose("a", &Defines::new().flag("X", true).u32("N", 3))
            .unwrap();
        assert_eq!(with, "const N: u32 = 3u;\nb\nx\n");
        let without = set().compose("a", &Defines::new()).unwrap();
        assert_eq!(without, "b\ny\nz\n");
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        for name in ["open", "stray", "lost", "odd", "missing"] {
            assert!(set().compose(name, &Defines::new()).is_err(), "{name}");
        }
    }

    #[test]
    fn constants_keep_every_bit() {
        let text = Defines::new().f32("X", 1.0 / 255.0).constants["X"].clone();
        let number = text.trim_start_matches("f32 = ").trim_end_matches('f');
        assert_eq!(number.parse::<f32>().unwrap(), 1.0 / 255.0);
    }

    #[test]
    fn who_answers_for_a_set_has_not_answered_for_more() {
        let set = ShaderSet::new(&[("a", "")]);
        assert!(!set.is_trusted());
        // SAFETY: nothing is compiled.
        let trusted = unsafe { set.without_checks() };
        assert!(trusted.is_trusted());
        assert!(!trusted.with(&[("b", "")]).is_trusted());
    }
}
