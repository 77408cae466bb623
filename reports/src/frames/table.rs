//! One Parquet file, row group by row group.

use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;

use polars::prelude::{
    BooleanChunkedBuilder, ChunkedBuilder, Column as FrameColumn, DataFrame, DataType, Float64Type, Int64Type,
    IntoColumn, IntoSeries, ListBuilderTrait, ListPrimitiveChunkedBuilder, PlSmallStr, PolarsError,
    PrimitiveChunkedBuilder, Schema, StringChunkedBuilder, UInt32Type, UInt64Type,
};
use polars_io::prelude::{BatchedWriter, KeyValueMetadata, ParquetCompression, ParquetWriter};

use super::column::{Column, Kind};
use super::row::{Cells, Row};

/// Rows of a row group: enough for columns to compress and few enough that one stays small in memory.
const GROUP_ROWS: usize = 1 << 16;

/// What a file belongs to. Every entry is in the file's key-value metadata as `rungwise.NAME`.
pub type About<'a> = [(&'static str, &'a str)];

/// Writes the rows of one table as Parquet. It holds one row group and no more.
///
/// Pages are compressed with LZ4 (raw), which costs next to nothing beside the encoding of the columns; every column has
/// minimum, maximum and null count for each row group.
pub struct Table<'a, W: Write> {
    writer: BatchedWriter<Sink<'a, W>>,
    failure: Failure,
    columns: Vec<Column>,
    group: Vec<Builder>,
    rows: usize,
    row: Vec<u8>,
}

impl<'a, W: Write> Table<'a, W> {
    /// A table into `sink`.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged; or two columns of one name.
    pub fn new(sink: &'a mut W, columns: Vec<Column>, about: &About<'_>) -> io::Result<Self> {
        let fields = columns.iter().map(|column| (PlSmallStr::from_str(&column.name), column.kind.data_type()));
        let schema: Schema = fields.collect();
        if schema.len() != columns.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "two columns have the same name"));
        }
        let metadata = about.iter().map(|(name, value)| (format!("rungwise.{name}"), (*value).to_owned())).collect();
        let failure = Failure::default();
        let writer = ParquetWriter::new(Sink { sink, failure: failure.clone() })
            .with_compression(ParquetCompression::Lz4Raw)
            .with_key_value_metadata(Some(KeyValueMetadata::from_static(metadata)))
            // Runs on the other cores end at the same time; and the threads of a pool of its own would outlive the table.
            .set_parallel(false)
            .batched(&schema)
            .map_err(|error| failure.of(&error))?;
        let group = builders(&columns, 0);
        Ok(Self { writer, failure, columns, group, rows: 0, row: Vec::new() })
    }

    /// Adds whole rows, as a [`RowLog`](super::RowLog) wrote them.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged; or bytes that are no rows of these columns.
    pub fn append(&mut self, rows: &[u8]) -> io::Result<()> {
        let mut cells = Cells::new(rows);
        while !cells.is_empty() {
            for builder in &mut self.group {
                builder
                    .take(&mut cells)
                    .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no rows of this table"))?;
            }
            self.rows += 1;
            if self.rows == GROUP_ROWS {
                self.write_group()?;
            }
        }
        Ok(())
    }

    /// Adds one row; `fill` gives its cells in the order of the columns.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged; or cells that do not fit the columns.
    pub fn row(&mut self, fill: impl FnOnce(&mut Row<'_>)) -> io::Result<()> {
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        fill(&mut Row::new(&mut row));
        let added = self.append(&row);
        self.row = row;
        added
    }

    /// Writes what is left and the footer.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn finish(mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.writer.finish().map_err(|error| self.failure.of(&error))?;
        Ok(())
    }

    fn write_group(&mut self) -> io::Result<()> {
        let group = std::mem::replace(&mut self.group, builders(&self.columns, self.rows));
        let columns = group.into_iter().map(Builder::finish).collect();
        let frame = DataFrame::new(self.rows, columns).map_err(|error| self.failure.of(&error))?;
        self.rows = 0;
        self.writer.write_batch(&frame).map_err(|error| self.failure.of(&error))
    }
}

/// The cells of one column of a row group.
enum Builder {
    Count32(PrimitiveChunkedBuilder<UInt32Type>),
    Count64(PrimitiveChunkedBuilder<UInt64Type>),
    Whole(PrimitiveChunkedBuilder<Int64Type>),
    Number(PrimitiveChunkedBuilder<Float64Type>),
    Flag(BooleanChunkedBuilder),
    Text(StringChunkedBuilder),
    Counts32(ListPrimitiveChunkedBuilder<UInt32Type>, Vec<u32>),
}

fn builders(columns: &[Column], rows: usize) -> Vec<Builder> {
    columns.iter().map(|column| Builder::new(column, rows)).collect()
}

impl Builder {
    /// An empty one with room for so many rows.
    fn new(column: &Column, rows: usize) -> Self {
        let name = PlSmallStr::from_str(&column.name);
        match column.kind {
            Kind::Count32 => Self::Count32(PrimitiveChunkedBuilder::new(name, rows)),
            Kind::Count64 => Self::Count64(PrimitiveChunkedBuilder::new(name, rows)),
            Kind::Whole => Self::Whole(PrimitiveChunkedBuilder::new(name, rows)),
            Kind::Number => Self::Number(PrimitiveChunkedBuilder::new(name, rows)),
            Kind::Flag => Self::Flag(BooleanChunkedBuilder::new(name, rows)),
            Kind::Text => Self::Text(StringChunkedBuilder::new(name, rows)),
            Kind::Counts32 => {
                Self::Counts32(ListPrimitiveChunkedBuilder::new(name, rows, 0, DataType::UInt32), Vec::new())
            }
        }
    }

    /// Takes the next cell; `None` if it is none of this column.
    #[inline]
    fn take(&mut self, cells: &mut Cells<'_>) -> Option<()> {
        /// A value, or null.
        macro_rules! take {
            ($kind:ident, $builder:ident, $value:expr) => {
                if cells.holds(Kind::$kind)? { $builder.append_value($value) } else { $builder.append_null() }
            };
        }
        match self {
            Self::Count32(builder) => take!(Count32, builder, cells.varint32()?),
            Self::Count64(builder) => take!(Count64, builder, cells.varint()?),
            Self::Whole(builder) => take!(Whole, builder, cells.zigzag()?),
            Self::Number(builder) => take!(Number, builder, cells.number()?),
            Self::Flag(builder) => take!(Flag, builder, cells.byte()? == 1),
            Self::Text(builder) => take!(Text, builder, cells.text()?),
            Self::Counts32(builder, values) => {
                if cells.holds(Kind::Counts32)? {
                    values.clear();
                    for _ in 0..cells.varint()? {
                        values.push(cells.varint32()?);
                    }
                    builder.append_slice(values);
                } else {
                    builder.append_null();
                }
            }
        }
        Some(())
    }

    fn finish(self) -> FrameColumn {
        match self {
            Self::Count32(builder) => builder.finish().into_series(),
            Self::Count64(builder) => builder.finish().into_series(),
            Self::Whole(builder) => builder.finish().into_series(),
            Self::Number(builder) => builder.finish().into_series(),
            Self::Flag(builder) => builder.finish().into_series(),
            Self::Text(builder) => builder.finish().into_series(),
            Self::Counts32(mut builder, _) => builder.finish().into_series(),
        }
        .into_column()
    }
}

/// The I/O error that the sink gave: what comes back from the Parquet writer is only its text.
#[derive(Clone, Default)]
struct Failure(Rc<Cell<Option<io::Error>>>);

impl Failure {
    /// The sink's own error, if it was the sink that failed.
    fn of(&self, error: &PolarsError) -> io::Error {
        self.0.take().unwrap_or_else(|| io::Error::other(error.to_string()))
    }
}

/// A sink that keeps its error.
struct Sink<'a, W> {
    sink: &'a mut W,
    failure: Failure,
}

impl<W: Write> Sink<'_, W> {
    fn kept<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            self.failure.0.set(Some(error));
            kind.into()
        })
    }
}

impl<W: Write> Write for Sink<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes);
        self.kept(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.sink.flush();
        self.kept(flushed)
    }
}
