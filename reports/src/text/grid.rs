//! One table style for every report: a rule under the header, no other lines, two blanks between columns.

use std::io::{self, Write};

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Row, Table, TableStyle, Width,
};

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// Blanks between two columns.
pub(super) const GAP: usize = 2;

/// Where a column puts its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table in the making.
pub(super) struct Grid {
    table: Table,
    alignment: Vec<Align>,
    widths: Vec<Option<usize>>,
}

impl Grid {
    /// An empty table with these columns.
    pub(super) fn new(columns: &[(&str, Align)]) -> Self {
        let alignment: Vec<Align> = columns.iter().map(|(_, align)| *align).collect();
        let mut table = Table::new();
        table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(cells(columns.iter().map(|(name, _)| (*name).to_owned()), &alignment));
        let widths = vec![None; columns.len()];
        Self { table, alignment, widths }
    }

    /// Wraps one column at `width` characters.
    pub(super) fn wrap(mut self, column: usize, width: usize) -> Self {
        self.table.set_content_arrangement(ContentArrangement::Dynamic);
        self.widths[column] = Some(width);
        self
    }

    /// Adds a row; missing cells at its end stay blank.
    pub(super) fn row(&mut self, row: impl IntoIterator<Item = String>) {
        self.table.add_row(cells(row, &self.alignment));
    }

    /// Writes the table without blanks at line ends.
    pub(super) fn write(mut self, sink: &mut impl Write) -> io::Result<()> {
        for (index, width) in self.widths.iter().enumerate() {
            let Some(column) = self.table.column_mut(index) else { continue };
            column.set_padding((0, if index + 1 < self.widths.len() { GAP as u16 } else { 0 }));
            if let Some(width) = width {
                // Constraints count the padding in.
                let padded = (*width + usize::from(column.padding_width())) as u16;
                column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(padded)));
            }
        }
        for line in self.table.lines() {
            writeln!(sink, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn cells(row: impl IntoIterator<Item = String>, alignment: &[Align]) -> Row {
    row.into_iter()
        .zip(alignment)
        .map(|(text, align)| {
            Cell::new_owned(text).set_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            })
        })
        .collect::<Vec<Cell>>()
        .into()
}
