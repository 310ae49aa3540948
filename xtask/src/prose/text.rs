//! Prose of source files: Markdown, comments, shader comments, and string literals that are sentences.
//!
//! Consecutive comment lines form one block, so that a phrase is found across a line break. Code in backticks and in
//! fences is no prose.

use regex::Regex;
use std::path::Path;

/// One run of prose in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Path from the root of the repository.
    pub file: String,
    /// Lines joined by spaces, code replaced by `x`.
    pub text: String,
    /// Where lines begin in `text`: offset and line number, from 1.
    starts: Vec<(usize, usize)>,
    /// Numbers of the lines that carry [`ALLOWED`].
    allowed: Vec<usize>,
}

/// Marks a line whose words are meant. A reason follows.
pub const ALLOWED: &str = "style: allow";

impl Block {
    /// Number of the line at an offset of the text.
    pub fn line_at(&self, offset: usize) -> usize {
        let after = self.starts.partition_point(|(start, _)| *start <= offset);
        self.starts[after.saturating_sub(1)].1
    }

    /// Returns true if a line between two offsets of the text is marked as meant.
    pub fn is_allowed(&self, from: usize, to: usize) -> bool {
        let lines = self.line_at(from)..=self.line_at(to.saturating_sub(1).max(from));
        self.allowed.iter().any(|line| lines.contains(line))
    }
}

/// Extracts prose.
pub struct Extractor {
    code: Regex,
    quoted: Regex,
    between_tags: Regex,
    is_code: Regex,
    has_word: Regex,
}

/// Where a line of prose goes.
struct Blocks {
    file: String,
    blocks: Vec<Block>,
}

impl Extractor {
    /// Compiles the patterns.
    ///
    /// # Errors
    /// A pattern that the `regex` crate refuses.
    pub fn new() -> Result<Self, regex::Error> {
        Ok(Self {
            code: Regex::new("`[^`]*`")?,
            quoted: Regex::new(r#""((?:[^"\\]|\\.)*)""#)?,
            between_tags: Regex::new(">([^<>]+)<")?,
            is_code: Regex::new(r"[;{]\s*(\\n|$)|= |\{\{")?,
            has_word: Regex::new("[a-z]{3}")?,
        })
    }

    /// All prose of a file, or nothing for a file of another kind.
    pub fn blocks(&self, file: &str, content: &str) -> Vec<Block> {
        let mut out = Blocks {
            file: file.to_owned(),
            blocks: Vec::new(),
        };
        let extension = Path::new(file).extension().and_then(|e| e.to_str());
        match extension {
            Some("md") => self.markdown(content, &mut out),
            Some("rs") => self.rust(content, &mut out),
            Some("wgsl") => self.line_comments(content, "//", &mut out),
            Some("js" | "html" | "css") => self.page(content, &mut out),
            Some("toml") => self.line_comments(content, "#", &mut out),
            _ => {}
        }
        out.blocks
    }

    /// The text of a program's help: indented lines continue a paragraph.
    pub fn help(&self, name: &str, content: &str) -> Vec<Block> {
        let mut out = Blocks {
            file: name.to_owned(),
            blocks: Vec::new(),
        };
        for (n, line) in content.lines().enumerate() {
            self.add(&mut out, n + 1, line, true);
        }
        out.blocks
    }

    fn add(&self, out: &mut Blocks, line: usize, text: &str, continues: bool) {
        let prose = self.code.replace_all(text, "`x`");
        let prose = prose.trim();
        if prose.is_empty() {
            return;
        }
        let continued = out
            .blocks
            .last_mut()
            .filter(|last| continues && last.starts.last().is_some_and(|(_, n)| n + 1 == line));
        let block = match continued {
            Some(block) => block,
            None => {
                out.blocks.push(Block {
                    file: out.file.clone(),
                    text: String::new(),
                    starts: Vec::new(),
                    allowed: Vec::new(),
                });
                let last = out.blocks.len() - 1;
                &mut out.blocks[last]
            }
        };
        block.starts.push((block.text.len(), line));
        block.text.push_str(prose);
        block.text.push(' ');
        if text.contains(ALLOWED) {
            block.allowed.push(line);
        }
    }

    fn markdown(&self, content: &str, out: &mut Blocks) {
        let mut in_fence = false;
        for (n, line) in content.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_fence = !in_fence;
            } else if !in_fence {
                self.add(out, n + 1, line, true);
            }
        }
    }

    fn rust(&self, content: &str, out: &mut Blocks) {
        let is_test = out.file.contains("/tests/") || out.file.ends_with("tests.rs");
        let mut in_fence = false;
        for (n, line) in content.lines().enumerate() {
            if let Some(comment) = line.trim_start().strip_prefix("//") {
                let comment = comment.trim_start_matches(['/', '!']);
                if comment.trim_start().starts_with("```") {
                    in_fence = !in_fence;
                } else if !in_fence {
                    self.add(out, n + 1, comment, true);
                }
                continue;
            }
            in_fence = false;
            let (code, comment) = split_comment(line);
            if let Some(comment) = comment {
                self.add(out, n + 1, comment, false);
            }
            if !is_test {
                self.sentences(code, line, n + 1, out);
            }
        }
    }

    /// String literals of a line of code that are sentences. `line` is the whole line, with its mark if it has one.
    fn sentences(&self, code: &str, line: &str, n: usize, out: &mut Blocks) {
        for found in self.quoted.captures_iter(code) {
            self.sentence(&found[1], line, n, out);
        }
    }

    fn sentence(&self, text: &str, line: &str, n: usize, out: &mut Blocks) {
        let is_sentence = text.trim().contains(' ')
            && self.has_word.is_match(text)
            && !self.is_code.is_match(text);
        if is_sentence {
            self.add(out, n, text, false);
            if let (true, Some(last)) = (line.contains(ALLOWED), out.blocks.last_mut()) {
                last.allowed.push(n);
            }
        }
    }

    fn line_comments(&self, content: &str, mark: &str, out: &mut Blocks) {
        for (n, line) in content.lines().enumerate() {
            if let Some((_, comment)) = line.split_once(mark) {
                self.add(out, n + 1, comment, true);
            }
        }
    }

    fn page(&self, content: &str, out: &mut Blocks) {
        for (n, line) in content.lines().enumerate() {
            let start = line.trim_start();
            let comment = ["<!--", "//", "/**", "/*", "*"]
                .iter()
                .find_map(|mark| start.strip_prefix(mark));
            if let Some(comment) = comment {
                self.add(out, n + 1, comment, true);
                continue;
            }
            self.sentences(line, line, n + 1, out);
            for found in self.between_tags.captures_iter(line) {
                self.sentence(&found[1], line, n + 1, out);
            }
        }
    }
}

/// Code and trailing comment of a line of Rust. A `//` within a string, or in an address, starts no comment.
fn split_comment(line: &str) -> (&str, Option<&str>) {
    let starts = line.match_indices("// ").map(|(at, _)| at);
    for at in starts {
        let before = &line[..at];
        if !before.ends_with(':') && before.matches('"').count().is_multiple_of(2) {
            return (before, Some(&line[at + 3..]));
        }
    }
    (line, None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    fn texts(file: &str, content: &str) -> Vec<(usize, String)> {
        let blocks = Extractor::new().unwrap().blocks(file, content);
        blocks
            .iter()
            .map(|b| (b.line_at(0), b.text.trim_end().to_owned()))
            .collect()
    }

    #[test]
    fn consecutive_comments_are_one_block_and_code_is_none() {
        let source =
            "/// First `let x` line\n/// second\nfn f() {\n    g(\"a b c d\"); // after\n}\n";
        assert_eq!(
            texts("crates/a/src/lib.rs", source),
            [
                (1, "First `x` line second".to_owned()),
                (4, "after".to_owned())
            ]
        );
        let message = "    Err(\"the file is damaged\")\n";
        assert_eq!(
            texts("a/src/lib.rs", message),
            [(1, "the file is damaged".to_owned())]
        );
        assert_eq!(texts("a/tests/all/x.rs", message), []);
        assert_eq!(
            texts("a/src/lib.rs", "let s = \"see https://x y\";\n").len(),
            1
        );
    }

    #[test]
    fn fences_shaders_and_pages() {
        assert_eq!(texts("a.md", "one\n```\ncode\n```\ntwo\n").len(), 2);
        assert_eq!(
            texts("a.wgsl", "let x = 1; // what\n"),
            [(1, "what".to_owned())]
        );
        assert_eq!(
            texts("a.html", "<p>Some words here</p>\n"),
            [(1, "Some words here".to_owned())]
        );
        assert_eq!(texts("a.png", "one two"), []);
    }

    #[test]
    fn a_mark_allows_its_line_alone() {
        let source = "// one\n// two style: allow: a name\n// three\n";
        let blocks = Extractor::new().unwrap().blocks("a.rs", source);
        let at = |word: &str| blocks[0].text.find(word).unwrap();
        assert!(!blocks[0].is_allowed(at("one"), at("one") + 3));
        assert!(blocks[0].is_allowed(at("two"), at("two") + 3));
        assert!(!blocks[0].is_allowed(at("three"), at("three") + 3));
        assert_eq!(blocks[0].line_at(at("three")), 3);
    }
}
