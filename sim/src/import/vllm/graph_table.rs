//! The table of `--cudagraph-metrics`: how often each number of tokens ran on which graph.
//!
//! One table an interval (10 s by default), of all steps since the one before, and none for an interval without a step.

use std::collections::HashMap;
use std::fmt::Write as _;

use thiserror::Error;

/// The heading that a table begins with.
pub const BEGIN: &str = "**CUDAGraph Config Settings:**";

/// Whether a line is that heading. Where logs are shown as Markdown, its asterisks are lost.
#[must_use]
pub fn begins(text: &str) -> bool {
    is_heading(text.trim(), BEGIN)
}

/// Whether a line is a row with steps.
#[must_use]
pub fn is_row(text: &str) -> bool {
    let text = text.trim();
    text.starts_with('|') && cells(text).is_some_and(|cells| row(cells).is_some())
}

fn is_heading(text: &str, heading: &str) -> bool {
    text == heading || text == heading.trim_matches('*')
}

const COLUMNS: [&str; 5] = ["Unpadded Tokens", "Padded Tokens", "Num Paddings", "Runtime Mode", "Count"];

/// Steps of one size that ran the same graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphRow {
    /// Scheduled tokens.
    pub unpadded_tokens: u32,
    /// Tokens that ran.
    pub padded_tokens: u32,
    /// The difference, as printed.
    pub paddings: u32,
    /// `FULL`, `PIECEWISE` or `NONE`.
    pub mode: String,
    /// How many steps.
    pub count: u64,
}

/// One interval's table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphTable {
    /// The configured mode, before the worker resolves it.
    pub mode: String,
    /// The configured ladder, before the worker resolves it; empty where the engine made none.
    pub capture_sizes: Vec<u32>,
    /// The rows, most frequent first.
    pub rows: Vec<GraphRow>,
}

/// A line that does not belong where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected {expected}, found `{found}`")]
pub struct TableFault {
    /// What the table goes on with there.
    pub expected: &'static str,
    /// The line.
    pub found: String,
}

/// Reads one table from its lines as they come.
#[derive(Clone, Debug, Default)]
pub struct GraphTableReader {
    table: GraphTable,
    /// The lines of the table's head that were seen.
    has_mode: bool,
    has_sizes: bool,
    has_columns: bool,
}

/// What a line did to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableStep {
    /// It belongs to the table.
    Taken,
    /// It does not; the table before it is whole.
    Over(GraphTable),
}

impl GraphTableReader {
    /// Takes the next line of the process that began the table, without its prefix.
    ///
    /// # Errors
    /// A line that cannot be read, and one that ends the table before its column names.
    pub fn take(&mut self, text: &str) -> Result<TableStep, TableFault> {
        let text = text.trim();
        let fault = |expected| TableFault { expected, found: text.to_owned() };
        if text.is_empty() || (begins(text) && !self.has_mode) || is_heading(text, "**CUDAGraph Stats:**") {
            return Ok(TableStep::Taken);
        }
        if let Some(mode) = text.strip_prefix("- Mode: ").filter(|_| !self.has_mode) {
            mode.clone_into(&mut self.table.mode);
            self.has_mode = true;
        } else if let Some(sizes) = text.strip_prefix("- Capture sizes: ").filter(|_| !self.has_sizes) {
            self.table.capture_sizes = list(sizes).ok_or_else(|| fault("a list of sizes such as [1, 2, 4]"))?;
            self.has_sizes = true;
        } else if !self.has_columns {
            if cells(text).is_none_or(|cells| cells != COLUMNS) {
                return Err(fault("the mode, the capture sizes, or the names of the five columns"));
            }
            self.has_columns = true;
        } else if text.starts_with("|-") {
        } else if let Some(cells) = cells(text) {
            self.table.rows.push(row(cells).ok_or_else(|| fault("three numbers of tokens, a mode and a count"))?);
        } else {
            return Ok(TableStep::Over(std::mem::take(self).table));
        }
        Ok(TableStep::Taken)
    }

    /// The rows so far, once there are as many: a table without an end must not fill the memory.
    pub fn take_rows(&mut self, many: usize) -> Vec<GraphRow> {
        if self.table.rows.len() < many { Vec::new() } else { std::mem::take(&mut self.table.rows) }
    }

    /// What was read of a table before a line that does not belong there.
    #[must_use]
    pub fn interrupted(self) -> GraphTable {
        self.table
    }

    /// The table that the input ends with.
    ///
    /// # Errors
    /// If it ends before the column names.
    pub fn finish(self) -> Result<GraphTable, TableFault> {
        let found = "the end of the log".to_owned();
        if self.has_columns { Ok(self.table) } else { Err(TableFault { expected: "a table of steps", found }) }
    }
}

impl GraphTable {
    /// The table of an interval with these steps, in order.
    #[must_use]
    pub fn of(mode: &str, capture_sizes: &[u32], steps: impl IntoIterator<Item = (u32, u32, u32, String)>) -> Self {
        let mut places: HashMap<(u32, u32, u32, String), usize> = HashMap::new();
        let mut rows: Vec<GraphRow> = Vec::new();
        for step in steps {
            let (unpadded_tokens, padded_tokens, paddings, mode) = step.clone();
            let place = *places.entry(step).or_insert(rows.len());
            if place == rows.len() {
                rows.push(GraphRow { unpadded_tokens, padded_tokens, paddings, mode, count: 0 });
            }
            rows[place].count += 1;
        }
        // Stable: rows of the same count stay as first seen.
        rows.sort_by_key(|row| std::cmp::Reverse(row.count));
        Self { mode: mode.to_owned(), capture_sizes: capture_sizes.to_vec(), rows }
    }

    /// The table as vLLM prints it: columns as wide as their widest cell.
    #[must_use]
    pub fn text(&self) -> String {
        let rows: Vec<[String; 5]> = self
            .rows
            .iter()
            .map(|row| {
                let GraphRow { unpadded_tokens, padded_tokens, paddings, mode, count } = row;
                let numbers = [unpadded_tokens, padded_tokens, paddings].map(ToString::to_string);
                let [unpadded, padded, paddings] = numbers;
                [unpadded, padded, paddings, mode.clone(), count.to_string()]
            })
            .collect();
        let widths: Vec<usize> = (0..COLUMNS.len())
            .map(|column| rows.iter().map(|row| row[column].len()).fold(COLUMNS[column].len(), usize::max))
            .collect();
        let line = |cells: [&str; 5]| {
            let mut line = String::from("|");
            for (cell, width) in cells.iter().zip(&widths) {
                write!(line, " {cell:<width$} |").expect("writing to a string cannot fail");
            }
            line + "\n"
        };
        let rule: String = widths.iter().map(|width| "-".repeat(width + 2) + "|").collect();
        let sizes: Vec<String> = self.capture_sizes.iter().map(ToString::to_string).collect();
        let sizes = sizes.join(", ");
        let mut text = format!("{BEGIN}\n\n- Mode: {}\n- Capture sizes: [{sizes}]\n\n", self.mode);
        text += "**CUDAGraph Stats:**\n\n";
        text += &line(COLUMNS);
        writeln!(text, "|{rule}").expect("writing to a string cannot fail");
        for row in &rows {
            text += &line(row.each_ref().map(String::as_str));
        }
        text
    }
}

/// A list as Python prints it.
pub(crate) fn list(text: &str) -> Option<Vec<u32>> {
    let inside = text.trim().strip_prefix('[')?.strip_suffix(']')?.trim();
    if inside.is_empty() {
        return Some(Vec::new());
    }
    inside.split(',').map(|size| size.trim().parse().ok()).collect()
}

fn cells(text: &str) -> Option<Vec<&str>> {
    let inside = text.strip_prefix('|')?.strip_suffix('|')?;
    Some(inside.split('|').map(str::trim).collect())
}

fn row(cells: Vec<&str>) -> Option<GraphRow> {
    let [unpadded, padded, paddings, mode, count] = <[&str; 5]>::try_from(cells).ok()?;
    let row = GraphRow {
        unpadded_tokens: unpadded.parse().ok()?,
        padded_tokens: padded.parse().ok()?,
        paddings: paddings.parse().ok()?,
        mode: ["FULL", "PIECEWISE", "NONE"].into_iter().find(|known| *known == mode)?.to_owned(),
        count: count.parse().ok().filter(|count| *count > 0)?,
    };
    (row.padded_tokens.checked_sub(row.unpadded_tokens) == Some(row.paddings)).then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<GraphTable, TableFault> {
        let mut reader = GraphTableReader::default();
        for line in text.lines() {
            if let TableStep::Over(table) = reader.take(line)? {
                return Ok(table);
            }
        }
        reader.finish()
    }

    fn table() -> GraphTable {
        let step = |unpadded, padded, mode: &str| (unpadded, padded, padded - unpadded, mode.to_owned());
        GraphTable::of(
            "FULL_AND_PIECEWISE",
            &[1, 8, 16],
            [step(9, 16, "FULL"), step(700, 700, "NONE"), step(8, 8, "FULL"), step(8, 8, "FULL")],
        )
    }

    #[test]
    fn a_table_reads_back() {
        let table = table();
        assert_eq!(table.rows.iter().map(|row| row.count).collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(read(&table.text()), Ok(table.clone()));
        let followed = table.text() + "Engine 000: Avg prompt throughput\n";
        assert_eq!(read(&followed), Ok(table.clone()));
        assert_eq!(read(&(table.text() + &table.text())), Ok(table.clone()), "a second table ends the first");
        assert_eq!(table.text().lines().filter(|line| is_row(line)).count(), table.rows.len());
    }

    #[test]
    fn a_table_that_is_cut_off_or_made_up_is_refused() {
        let text = table().text();
        let (head, _) = text.split_once("| Unpadded").expect("column names");
        assert!(read(head).is_err());
        for (from, to) in [("| 9  ", "| x  "), ("16        ", "17        "), ("| NONE ", "| SOME "), ("[1, 8", "[1; 8")]
        {
            let made_up = text.replacen(from, to, 1);
            assert_ne!(made_up, text, "{from}");
            assert!(read(&made_up).is_err(), "{made_up}");
        }
    }
}
