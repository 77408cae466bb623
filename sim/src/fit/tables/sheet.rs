//! A table of comma-separated values with names in its first line: strict, with the line and the column in every message.

use calibrate::spelling::closest;
use calibrate::stderr::printable;
use csv::{ReaderBuilder, StringRecord, Trim};

use crate::fit::{FitError, Source};

/// Characters of a first line that a message repeats.
const SHOWN: usize = 80;

/// A table.
#[derive(Clone, Debug)]
pub struct Sheet {
    file: String,
    columns: Vec<String>,
    rows: Vec<(u64, StringRecord)>,
}

/// A column of a table, by its place.
#[derive(Clone, Debug)]
pub struct Column {
    place: usize,
    name: String,
}

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    sheet: &'a Sheet,
    /// Its line, from 1.
    pub line: u64,
    cells: &'a StringRecord,
}

impl Sheet {
    /// Reads a table. Blanks around cells, empty lines, a byte-order mark and line ends of Windows make no difference.
    ///
    /// # Errors
    /// No row, or a row of another number of cells than the first line has.
    pub fn read(source: &Source) -> Result<Self, FitError> {
        let file = source.file.clone();
        let text = source.text.trim_start_matches('\u{feff}');
        let mut reader = ReaderBuilder::new().flexible(true).trim(Trim::All).from_reader(text.as_bytes());
        let unreadable = |error: &csv::Error| {
            let line = error.position().map_or(1, csv::Position::line);
            FitError::line(&file, line, format!("no comma-separated values: {error}"), "give the table as it was made")
        };
        let header = reader.headers().map_err(|error| unreadable(&error))?;
        let columns: Vec<String> = header.iter().map(str::to_owned).collect();
        let mut rows = Vec::new();
        let mut lines = LineCount { text: text.as_bytes(), at: 0, line: 1 };
        for record in reader.records() {
            let record = record.map_err(|error| unreadable(&error))?;
            let line = lines.of_row(record.position().map_or(0, |position| position.byte() as usize));
            if record.len() != columns.len() {
                let problem = format!("{} cells under {} names of columns", record.len(), columns.len());
                let help = "the file may be cut off, or two tables be put together: give it whole, as it was made";
                return Err(FitError::line(&file, line, problem, help));
            }
            rows.push((line, record));
        }
        if rows.is_empty() {
            return Err(FitError::file(&file, "no row below the names of the columns", "give the table whole"));
        }
        Ok(Self { file, columns, rows })
    }

    /// The file, as it was named.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Whether there is a column of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column == name)
    }

    /// The column of this name, if there is one.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Column> {
        let place = self.columns.iter().position(|column| column == name)?;
        Some(Column { place, name: name.to_owned() })
    }

    /// The column of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn column(&self, name: &str) -> Result<Column, FitError> {
        self.find(name).ok_or_else(|| {
            let names: Vec<&str> = self.columns.iter().map(String::as_str).collect();
            let help = match closest(name, &names) {
                Some(near) => format!("is it the column {near}?"),
                None => format!("the columns are {}", shown(&names.join(", "))),
            };
            FitError::line(&self.file, 1, format!("no column {name}"), help)
        })
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row; of a table that was read there is one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows, in the order of the file.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, cells)| Row { sheet: self, line: *line, cells })
    }
}

impl<'a> Row<'a> {
    /// What stands in a column.
    #[must_use]
    pub fn text(&self, column: &Column) -> &'a str {
        self.cells.get(column.place).unwrap_or_default()
    }

    /// A time or another quantity: zero or more, finite.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn quantity(&self, column: &Column) -> Result<f64, FitError> {
        let text = self.text(column);
        let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| self.wrong(column, "a number, zero or more"))
    }

    /// The same where the cell may be empty.
    ///
    /// # Errors
    /// As of [`Row::quantity`].
    pub fn optional_quantity(&self, column: &Column) -> Result<Option<f64>, FitError> {
        if self.text(column).is_empty() { Ok(None) } else { self.quantity(column).map(Some) }
    }

    /// A time that something took: more than zero.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn time(&self, column: &Column) -> Result<f64, FitError> {
        let time = self.quantity(column)?;
        if time > 0.0 { Ok(time) } else { Err(self.wrong(column, "a time, more than zero")) }
    }

    /// A count.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn count(&self, column: &Column) -> Result<u32, FitError> {
        let number = self.quantity(column).map_err(|_| self.wrong(column, "a whole number"))?;
        let is_count = number.fract() == 0.0 && number <= f64::from(u32::MAX);
        if is_count { Ok(number as u32) } else { Err(self.wrong(column, "a whole number")) }
    }

    /// A fault of this row.
    #[must_use]
    pub fn fault(&self, problem: impl Into<String>, help: impl Into<String>) -> FitError {
        FitError::line(&self.sheet.file, self.line, problem, help)
    }

    fn wrong(&self, column: &Column, expected: &str) -> FitError {
        let found = match self.text(column) {
            "" => "nothing".to_owned(),
            text => format!("`{}`", shown(text)),
        };
        let help = "correct the cell, or leave the row out; the file may also be cut off there";
        self.fault(format!("column {}: {found}: expected {expected}", column.name), help)
    }
}

/// Counts lines up to the rows of a table, one after the other.
struct LineCount<'a> {
    text: &'a [u8],
    at: usize,
    line: u64,
}

impl LineCount<'_> {
    /// The line of the row before which the reader stood there: line ends and empty lines come first.
    fn of_row(&mut self, before: usize) -> u64 {
        let rest = self.text.get(before..).unwrap_or_default();
        let start = before + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let passed = self.text.get(self.at..start).unwrap_or_default();
        self.line += passed.split(|&byte| byte == b'\n').count() as u64 - 1;
        self.at = start;
        self.line
    }
}

/// A text of a file, short and without what could command a terminal.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push('\u{2026}');
    }
    printable(&short)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(text: &str) -> Result<Sheet, FitError> {
        Sheet::read(&Source { file: "t.csv".to_owned(), text: text.to_owned(), sha256: String::new() })
    }

    #[test]
    fn cells_are_read_by_the_names_of_their_columns() {
        let sheet = sheet("\u{feff}rows,us, mode\r\n8, 1.5 ,FULL\r\n\r\n16,2,NONE\r\n").expect("a table");
        let (rows, us, mode) =
            (sheet.column("rows").unwrap(), sheet.column("us").unwrap(), sheet.column("mode").unwrap());
        let read: Vec<_> = sheet
            .rows()
            .map(|row| (row.line, row.count(&rows).unwrap(), row.time(&us).unwrap(), row.text(&mode)))
            .collect();
        assert_eq!(read, [(2, 8, 1.5, "FULL"), (4, 16, 2.0, "NONE")]);
        assert!(sheet.has("us") && !sheet.has("ms"));
    }

    #[test]
    fn what_is_wrong_is_named_with_line_and_column() {
        let message = |text: &str| {
            let sheet = match sheet(text) {
                Ok(sheet) => sheet,
                Err(error) => return error.to_string(),
            };
            let (rows, us) = match (sheet.column("rows"), sheet.column("us")) {
                (Ok(rows), Ok(us)) => (rows, us),
                (Err(error), _) | (_, Err(error)) => return error.to_string(),
            };
            let read = sheet.rows().try_for_each(|row| row.count(&rows).and(row.time(&us)).map(|_| ()));
            read.expect_err("something is wrong").to_string()
        };
        for (text, expected) in [
            ("rows,us\n", "t.csv: no row below the names of the columns"),
            ("", "t.csv: no row below the names of the columns"),
            ("rows,ms\n1,2\n", "t.csv:1: no column us"),
            ("rows,us\n1,2\n3\n", "t.csv:3: 1 cells under 2 names of columns"),
            ("rows,us\n1,NaN\n", "t.csv:2: column us: `NaN`: expected a number, zero or more"),
            ("rows,us\n1,-4\n", "t.csv:2: column us: `-4`: expected a number, zero or more"),
            ("rows,us\n1,inf\n", "t.csv:2: column us: `inf`: expected a number, zero or more"),
            ("rows,us\n1,0\n", "t.csv:2: column us: `0`: expected a time, more than zero"),
            ("rows,us\n1,\n", "t.csv:2: column us: nothing: expected a number, zero or more"),
            ("rows,us\n1.5,2\n", "t.csv:2: column rows: `1.5`: expected a whole number"),
        ] {
            assert_eq!(message(text), expected, "{text:?}");
        }
    }
}
