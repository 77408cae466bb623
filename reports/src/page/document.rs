//! What a page says, before it is HTML or Markdown.

use super::chart::Svg;
use crate::Warning;

/// A whole page.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The one heading of first order.
    pub title: String,
    /// What the page is about, one part an input.
    pub parts: Vec<Part>,
}

/// One input of a page: a run, a profile, a proposal, a comparison.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Its heading; equal to the page's title where it is the only part.
    pub title: String,
    /// The answer in a sentence or two.
    pub verdict: String,
    /// What it is about, in lines of a name and a text.
    pub facts: Vec<(String, String)>,
    /// The rest, in order.
    pub sections: Vec<Section>,
}

/// A heading with what stands below it.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Whether it belongs into the short form for a pull request.
    pub brief: bool,
    /// What stands below.
    pub blocks: Vec<Block>,
}

/// What stands below a heading.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// Something that the page lacks, and what would make it.
    Missing(String),
    /// Warnings, each with its code; an empty list says that there is none.
    Warnings(Vec<Warning>),
    /// A table.
    Table(Table),
    /// A chart with the figures that it shows.
    Figure(Box<Figure>),
    /// Blocks that are folded away until asked for; printed nevertheless.
    Folded(String, Vec<Block>),
    /// Lines as they would be typed, or as a program wrote them.
    Lines(String),
}

/// A chart, named for those who cannot see it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its caption.
    pub caption: String,
    /// What can be seen in it, in words.
    pub description: String,
    /// The drawing.
    pub svg: Svg,
    /// The same figures.
    pub table: Table,
}

/// A table; its first column names the rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it holds.
    pub caption: String,
    /// Headings of the columns, the first included.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: Vec<Row>,
    /// Whether the cells are words rather than numbers.
    pub words: bool,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// The heading of the rows that follow.
    Group(String),
    /// The name of the row, then a cell for each other column.
    Cells(Vec<String>),
}

impl Section {
    /// A section of the long form only.
    pub(super) fn new(title: &str, blocks: Vec<Block>) -> Self {
        Self { title: title.to_owned(), brief: false, blocks }
    }

    /// A section of both forms.
    pub(super) fn brief(title: &str, blocks: Vec<Block>) -> Self {
        Self { title: title.to_owned(), brief: true, blocks }
    }
}

impl Table {
    /// An empty table of numbers.
    pub(super) fn new(caption: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { caption: caption.into(), columns, rows: Vec::new(), words: false }
    }

    /// The same with cells of words.
    pub(super) fn of_words(caption: impl Into<String>, columns: &[&str]) -> Self {
        Self { words: true, ..Self::new(caption, columns) }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(Row::Cells(cells.into_iter().collect()));
    }
}
