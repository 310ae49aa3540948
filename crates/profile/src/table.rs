//! Tables of text, as Markdown or as aligned columns.

use std::fmt::Write as _;

/// Most characters of a cell in aligned columns: names can have any length.
const WIDEST: usize = 30;

/// Rows under titles. The first column is left-aligned, others are right-aligned unless they hold
/// text.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    titles: Vec<&'static str>,
    /// Columns, in addition to the first, that are left-aligned.
    text: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub fn new(titles: &[&'static str]) -> Self {
        Self {
            titles: titles.to_vec(),
            ..Self::default()
        }
    }

    /// Sets the columns that hold text.
    pub fn text(mut self, columns: &[usize]) -> Self {
        self.text = columns.to_vec();
        self
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn is_left(&self, column: usize) -> bool {
        column == 0 || self.text.contains(&column)
    }

    pub fn markdown(&self) -> String {
        let mut out = format!("| {} |\n|", self.titles.join(" | "));
        for column in 0..self.titles.len() {
            out += if self.is_left(column) {
                "---|"
            } else {
                "---:|"
            };
        }
        out.push('\n');
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(|cell| escape(cell)).collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        out
    }

    /// Returns aligned columns, each line after `indent` spaces.
    pub fn plain(&self, indent: usize) -> String {
        let titles: Vec<String> = self.titles.iter().map(|title| (*title).into()).collect();
        let lines: Vec<Vec<String>> = std::iter::once(&titles)
            .chain(&self.rows)
            .map(|row| row.iter().map(|cell| clip(cell)).collect())
            .collect();
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..titles.len()).map(width).collect();
        let mut out = String::new();
        for line in &lines {
            let mut text = " ".repeat(indent);
            for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
                let _ = if self.is_left(column) {
                    write!(text, "{cell:<width$}  ")
                } else {
                    write!(text, "{cell:>width$}  ")
                };
            }
            out += text.trim_end();
            out.push('\n');
        }
        out
    }
}

/// Escapes text that Markdown would read as markup of a table or of a page.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' => out += "\\|",
            '<' => out += "&lt;",
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn clip(cell: &str) -> String {
    let one_line = cell.replace(['\n', '\r'], " ");
    if one_line.chars().count() <= WIDEST {
        return one_line;
    }
    let kept: String = one_line.chars().take(WIDEST - 3).collect();
    kept + "..."
}

/// Returns words in lines of at most `width` characters, each after `indent` spaces; longer words
/// stay whole.
pub(crate) fn wrap(text: &str, indent: usize, width: usize) -> String {
    let mut out = String::new();
    let mut line = String::new();
    let room = width.saturating_sub(indent);
    for word in text.split_whitespace() {
        let long = line.chars().count() + 1 + word.chars().count() > room;
        if long && !line.is_empty() {
            let _ = writeln!(out, "{}{line}", " ".repeat(indent));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    if !line.is_empty() {
        let _ = writeln!(out, "{}{line}", " ".repeat(indent));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_stays_text() {
        let mut grid = Grid::new(&["name", "ms"]);
        grid.row(vec!["a|<b>\nc".into(), "1".into()]);
        assert_eq!(
            grid.markdown(),
            "| name | ms |\n|---|---:|\n| a\\|&lt;b> c | 1 |\n"
        );
    }

    #[test]
    fn columns_align() {
        let mut grid = Grid::new(&["name", "ms", "why"]).text(&[2]);
        grid.row(vec!["a".into(), "10".into(), "x".into()]);
        grid.row(vec!["long".into(), "9".into(), "yy".into()]);
        assert_eq!(
            grid.plain(1),
            " name  ms  why\n a     10  x\n long   9  yy\n"
        );
    }

    #[test]
    fn lines_keep_their_width() {
        assert_eq!(wrap("one two three", 2, 9), "  one two\n  three\n");
        assert_eq!(wrap("unbreakable", 0, 4), "unbreakable\n");
    }
}
