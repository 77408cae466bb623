//! A column: its name, and what its cells hold.

use std::borrow::Cow;
use std::fmt;

use polars::prelude::DataType;

/// One column of a table. Every cell may be null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, a path with dots where it is nested in the JSON.
    pub name: Cow<'static, str>,
    /// What its cells hold.
    pub kind: Kind,
}

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A count of 32 bits.
    Count32,
    /// A count of 64 bits.
    Count64,
    /// A whole number, negative ones too.
    Whole,
    /// A number.
    Number,
    /// Yes or no.
    Flag,
    /// Text.
    Text,
    /// Counts of 32 bits.
    Counts32,
}

impl Column {
    /// A column of that name.
    pub fn new(name: impl Into<Cow<'static, str>>, kind: Kind) -> Self {
        Self { name: name.into(), kind }
    }
}

impl Kind {
    /// The type of the column in memory and in the file.
    pub(super) fn data_type(self) -> DataType {
        match self {
            Self::Count32 => DataType::UInt32,
            Self::Count64 => DataType::UInt64,
            Self::Whole => DataType::Int64,
            Self::Number => DataType::Float64,
            Self::Flag => DataType::Boolean,
            Self::Text => DataType::String,
            Self::Counts32 => DataType::List(Box::new(DataType::UInt32)),
        }
    }

    /// What marks a cell of this kind in the bytes of a row.
    pub(super) fn tag(self) -> u8 {
        self as u8 + 1
    }
}

/// The name that `SCHEMA.md` gives the type, which is Arrow's.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count32 => "uint32",
            Self::Count64 => "uint64",
            Self::Whole => "int64",
            Self::Number => "double",
            Self::Flag => "bool",
            Self::Text => "string",
            Self::Counts32 => "list of uint32",
        })
    }
}
