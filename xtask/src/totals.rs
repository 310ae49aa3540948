//! Counts tests in the output of nextest and cargo.

use std::ops::AddAssign;

/// Numbers of tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// Skipped.
    pub skipped: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl Totals {
    /// Adds the summary lines in a program's output: nextest's
    /// `Summary [1.2s] 10 tests run: 9 passed, 1 failed, 2 skipped` and libtest's
    /// `test result: ok. 9 passed; 0 failed; 2 ignored; ...`.
    pub fn from_output(output: &str) -> Self {
        let mut totals = Self::default();
        for line in output.lines().map(without_colours) {
            if line.contains("Summary [") || line.starts_with("test result:") {
                totals += Self {
                    passed: number_before(&line, "passed"),
                    failed: number_before(&line, "failed"),
                    skipped: number_before(&line, "skipped") + number_before(&line, "ignored"),
                };
            }
        }
        totals
    }
}

/// Returns the number before the first occurrence of `word`; 0 without one.
fn number_before(line: &str, word: &str) -> u64 {
    let mut words = line.split_whitespace().peekable();
    while let Some(candidate) = words.next() {
        let next = words.peek().map(|w| w.trim_end_matches([',', ';']));
        if next == Some(word) {
            return candidate.parse().unwrap_or(0);
        }
    }
    0
}

/// Returns the line without terminal escapes (`ESC [ ... letter`).
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..start]);
        let escape = &rest[start + 2..];
        rest = escape
            .find(|c: char| c.is_ascii_alphabetic())
            .map_or("", |end| &escape[end + 1..]);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_summary_are_counted() {
        let output = "     Summary [   0.8s] 12 tests run: 11 passed (1 slow), 1 failed, 3 skipped\n\
            \u{1b}[32;1m     Summary\u{1b}[0m [   0.8s] \u{1b}[1m2\u{1b}[0m tests run: \u{1b}[1m2\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, 0 skipped\n\
            test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            test scene::passed ... ok\n";
        let totals = Totals::from_output(output);
        assert_eq!(totals.passed, 17);
        assert_eq!(totals.failed, 1);
        assert_eq!(totals.skipped, 4);
    }
}
