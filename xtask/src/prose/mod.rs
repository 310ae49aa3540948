//! The step `prose`: words and phrases that Dapple's prose does not use, in pages, comments, messages and help.
//!
//! `docs/words.tsv` lists them: a regular expression, the words to use instead, and a note. `except=/REGEX/` in the
//! note allows a hit inside a match of REGEX. A line with `style: allow: REASON` is not checked. Not checked either:
//! `docs/experiments` (notes of the time), the glossary, and the list itself.
//!
//! The README has at most [`README_WORDS`] words and no paragraph over [`README_LINES`] lines of [`LINE`] characters.

mod text;

use crate::shell;
use regex::{Regex, RegexBuilder};
use std::process::Command;
use text::{Block, Extractor};

const LIST: &str = "docs/words.tsv";

/// Paths that are not checked.
const UNCHECKED: [&str; 2] = ["docs/experiments/", "docs/GLOSSARY.md"];

/// Most words of the README.
const README_WORDS: usize = 900;

/// Most lines of a paragraph of the README.
const README_LINES: usize = 5;

/// Characters of such a line.
const LINE: usize = 120;

/// Findings that are printed.
const SHOWN: usize = 60;

/// One line of the list.
struct Row {
    pattern: Regex,
    instead: String,
    except: Option<Regex>,
}

/// Checks all prose. Help is checked if the program was built.
///
/// # Errors
/// The findings, or a list that cannot be read.
pub fn run() -> Result<(), String> {
    let root = shell::root();
    let list = std::fs::read_to_string(root.join(LIST)).map_err(|e| format!("{LIST}: {e}"))?;
    let rows = rows(&list)?;
    let extractor = Extractor::new().map_err(|e| e.to_string())?;
    let mut findings = Vec::new();
    for file in files()? {
        if UNCHECKED.iter().any(|start| file.starts_with(start)) {
            continue;
        }
        // A file that is no text has no prose.
        let Ok(content) = std::fs::read_to_string(root.join(&file)) else {
            continue;
        };
        for block in extractor.blocks(&file, &content) {
            findings.extend(findings_of(&block, &rows));
        }
        if file == "README.md" {
            findings.extend(too_long(&content));
        }
    }
    for (name, help) in helps()? {
        for block in extractor.help(&name, &help) {
            findings.extend(findings_of(&block, &rows));
        }
    }
    for finding in findings.iter().take(SHOWN) {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        n => Err(format!("{n} findings; the words to use are in {LIST}")),
    }
}

fn rows(list: &str) -> Result<Vec<Row>, String> {
    let except = Regex::new(r"except=/(.*?)/(?:\s|$)").map_err(|e| e.to_string())?;
    let compile = |pattern: &str| {
        let built = RegexBuilder::new(pattern).case_insensitive(true).build();
        built.map_err(|e| format!("{LIST}: {e}"))
    };
    let mut rows = Vec::new();
    for line in list
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        let mut parts = line.split('\t');
        let (pattern, instead) = (parts.next().unwrap_or_default(), parts.next());
        let Some(instead) = instead else {
            return Err(format!("{LIST}: {line:?} has no words to use instead"));
        };
        let note = parts.next().unwrap_or_default();
        let allowed = except.captures(note).map(|found| compile(&found[1]));
        rows.push(Row {
            pattern: compile(pattern)?,
            instead: instead.to_owned(),
            except: allowed.transpose()?,
        });
    }
    Ok(rows)
}

/// One line for each hit in a block.
fn findings_of(block: &Block, rows: &[Row]) -> Vec<String> {
    let mut findings = Vec::new();
    for row in rows {
        for hit in row.pattern.find_iter(&block.text) {
            let is_exception = row.except.as_ref().is_some_and(|except| {
                let mut allowed = except.find_iter(&block.text);
                allowed.any(|a| a.start() <= hit.start() && hit.end() <= a.end())
            });
            if !is_exception && !block.is_allowed(hit.start(), hit.end()) {
                findings.push(format!(
                    "{}:{}: \"{}\", rather: {}",
                    block.file,
                    block.line_at(hit.start()),
                    hit.as_str().trim(),
                    row.instead
                ));
            }
        }
    }
    findings
}

/// Files of the repository.
fn files() -> Result<Vec<String>, String> {
    let listed = Command::new("git")
        .args(["ls-files"])
        .current_dir(shell::root())
        .output()
        .map_err(|e| format!("git ls-files: {e}"))?;
    if !listed.status.success() {
        return Err("git ls-files failed: the step needs a clone".to_owned());
    }
    let names = String::from_utf8_lossy(&listed.stdout);
    Ok(names.lines().map(str::to_owned).collect())
}

/// Help of the program and of each verb, if the program was built.
fn helps() -> Result<Vec<(String, String)>, String> {
    let name = format!("debug/dapple{}", std::env::consts::EXE_SUFFIX);
    let program = shell::target_folder().join(name);
    if !program.is_file() {
        println!("the program is not built: its help is checked in its source only");
        return Ok(Vec::new());
    }
    let help = |verb: &[&str]| -> Result<String, String> {
        let run = Command::new(&program).args(verb).arg("--help").output();
        let output = run.map_err(|e| format!("{}: {e}", program.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let first = help(&[])?;
    let verbs: Vec<String> = first
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .filter(|verb| verb != "help")
        .collect();
    let mut helps = vec![("dapple --help".to_owned(), first)];
    for verb in verbs {
        let text = help(&[&verb])?;
        helps.push((format!("dapple {verb} --help"), text));
    }
    Ok(helps)
}

/// Limits of the README that it exceeds.
fn too_long(content: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let words = content.split_whitespace().count();
    if words > README_WORDS {
        findings.push(format!("README.md: {words} words, at most {README_WORDS}"));
    }
    let mut in_fence = false;
    let (mut start, mut length) = (1, 0_usize);
    for (n, line) in content.lines().chain([""]).enumerate() {
        in_fence ^= line.starts_with("```");
        let is_prose =
            !in_fence && line.starts_with(|c: char| c.is_alphanumeric() || "[*`(_".contains(c));
        if !is_prose {
            let lines = length.div_ceil(LINE);
            if lines > README_LINES {
                findings.push(format!(
                    "README.md:{start}: a paragraph of {lines} lines, at most {README_LINES}"
                ));
            }
            (start, length) = (n + 2, 0);
        } else {
            length += line.chars().count() + 1;
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    const LIST: &str = "# a list\n\\btwins?\\b\tCPU version\n\\bstand\\b\tis\texcept=/stand for/\n";

    fn found(source: &str) -> Vec<String> {
        let blocks = Extractor::new().unwrap().blocks("a.rs", source);
        let rows = rows(LIST).unwrap();
        blocks
            .iter()
            .flat_map(|block| findings_of(block, &rows))
            .collect()
    }

    #[test]
    fn hits_name_the_line_and_the_words_to_use() {
        assert_eq!(
            found("// First.\n// A Twin of it.\n"), // style: allow: a test of the step
            ["a.rs:2: \"Twin\", rather: CPU version"]  // style: allow: a test of the step
        );
        assert_eq!(found("// They stand\n// here.\n").len(), 1); // style: allow: a test of the step
    }

    #[test]
    fn exceptions_are_in_the_list_or_on_the_line() {
        assert_eq!(
            found("// letters that stand for a word\n"),
            Vec::<String>::new()
        );
        assert_eq!(
            found("// twins style: allow: of a test\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_row_without_words_to_use_is_refused() {
        assert!(rows("\\btwins?\\b\n").is_err());
        assert!(rows("(\tx\n").is_err());
    }

    #[test]
    fn a_long_readme_is_found() {
        assert_eq!(too_long("# A\n\nshort\n"), Vec::<String>::new());
        assert_eq!(too_long(&"word ".repeat(901)).len(), 2);
        let paragraph = format!("{}\n\nb\n", "0123456789\n".repeat(56));
        assert_eq!(
            too_long(&paragraph),
            ["README.md:1: a paragraph of 6 lines, at most 5"]
        );
    }
}
