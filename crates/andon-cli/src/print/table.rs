//! Tables that fit the terminal.

use anstyle::Style;
use unicode_width::UnicodeWidthChar;

use super::{Style as Looks, plain_line};

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A text in a style.
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: plain_line(&text.into()), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// A table, whose last column takes the remaining width.
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

/// The gap between two columns.
const GAP: usize = 2;
/// In a terminal, every column but the last may be this wide, or a quarter of the table if that is more.
const NAME: usize = 20;
/// The least width of the last column.
const NARROWEST: usize = 12;

impl Table {
    pub(crate) fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|head| Cell::styled(*head, Looks::DIM)).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The table as text. Without a width, nothing is cut.
    pub(crate) fn fit(&self, width: Option<usize>) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let natural = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| columns_of(&cell.text)).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..columns).map(natural).collect();
        if let (Some(width), Some((last, others))) = (width, widths.split_last_mut()) {
            others.iter_mut().for_each(|column| *column = (*column).min(NAME.max(width / 4)));
            let used = others.iter().map(|column| column + GAP).sum::<usize>();
            *last = (*last).min(width.saturating_sub(used).max(NARROWEST));
        }
        self.rows.iter().map(|row| line(row, &widths)).collect()
    }
}

fn line(row: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    let last = row.len().saturating_sub(1);
    for (place, (cell, width)) in row.iter().zip(widths).enumerate() {
        let text = cut(&cell.text, *width);
        let style = cell.style;
        line.push_str(&format!("{style}{text}{style:#}"));
        if place < last {
            line.push_str(&" ".repeat(width.saturating_sub(columns_of(&text)) + GAP));
        }
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

/// How many columns a text takes in a terminal.
fn columns_of(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// A text cut to this many columns.
fn cut(text: &str, width: usize) -> String {
    if columns_of(text) <= width {
        return text.to_owned();
    }
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used < width
    };
    let mut short: String = text.chars().take_while(fits).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: Option<usize>) -> Vec<String> {
        let mut table = Table::new(&["NAME", "SAID"]);
        table.row(vec!["otter".into(), "tell me a long story about the sea".into()]);
        table.row(vec!["海の底".into(), "\u{1b}[31mred".into()]);
        let text = table.fit(width);
        anstream::adapter::strip_str(&text).to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_last_column_is_cut_to_the_width_and_the_others_are_aligned() {
        assert_eq!(shown(Some(28)), ["NAME    SAID", "otter   tell me a long stor…", "海の底  \u{fffd}[31mred"]);
    }

    #[test]
    fn nothing_is_cut_without_a_terminal() {
        assert_eq!(shown(None)[1], "otter   tell me a long story about the sea");
    }
}
