//! Rows as bytes, on their way from the record to the table.
//!
//! A cell is a tag (0 for null, else its kind) and its value: whole numbers in groups of seven bits, the lowest first; numbers
//! as their eight bytes; texts and lists after their length. The bytes live no longer than the process that wrote them.

use super::column::Kind;

const NULL: u8 = 0;
/// 64 bits in groups of seven.
const VARINT_BYTES_MAX: usize = 10;

/// The cells of one row, given in the order of the columns.
#[derive(Debug)]
pub struct Row<'a> {
    bytes: &'a mut Vec<u8>,
}

impl<'a> Row<'a> {
    /// A row at the end of `bytes`.
    pub(super) fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self { bytes }
    }

    /// A count of 32 bits, or null.
    pub fn count32(&mut self, value: impl Into<Option<u32>>) -> &mut Self {
        self.cell(Kind::Count32, value.into(), |bytes, value| varint(bytes, value.into()))
    }

    /// A count of 64 bits, or null.
    pub fn count64(&mut self, value: impl Into<Option<u64>>) -> &mut Self {
        self.cell(Kind::Count64, value.into(), varint)
    }

    /// A whole number, or null.
    pub fn whole(&mut self, value: impl Into<Option<i64>>) -> &mut Self {
        // Zigzag: small negative numbers are short too.
        self.cell(Kind::Whole, value.into(), |bytes, value| varint(bytes, ((value << 1) ^ (value >> 63)) as u64))
    }

    /// A number, or null; also null if it is not finite.
    pub fn number(&mut self, value: impl Into<Option<f64>>) -> &mut Self {
        let value = value.into().filter(|value| value.is_finite());
        self.cell(Kind::Number, value, |bytes, value| bytes.extend(value.to_le_bytes()))
    }

    /// Yes, no or null.
    pub fn flag(&mut self, value: impl Into<Option<bool>>) -> &mut Self {
        self.cell(Kind::Flag, value.into(), |bytes, value| bytes.push(value.into()))
    }

    /// A text, or null.
    pub fn text<'t>(&mut self, value: impl Into<Option<&'t str>>) -> &mut Self {
        self.cell(Kind::Text, value.into(), |bytes, text| {
            varint(bytes, text.len() as u64);
            bytes.extend(text.as_bytes());
        })
    }

    /// Counts of 32 bits; none is an empty list, not null.
    pub fn counts32(&mut self, values: impl ExactSizeIterator<Item = u32>) -> &mut Self {
        self.cell(Kind::Counts32, Some(values), |bytes, values| {
            varint(bytes, values.len() as u64);
            values.for_each(|value| varint(bytes, value.into()));
        })
    }

    fn cell<T>(&mut self, kind: Kind, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) -> &mut Self {
        match value {
            Some(value) => {
                self.bytes.push(kind.tag());
                write(self.bytes, value);
            }
            None => self.bytes.push(NULL),
        }
        self
    }
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Cells read back from bytes; `None` wherever the bytes are not those of such a cell.
#[derive(Debug)]
pub(super) struct Cells<'a> {
    bytes: &'a [u8],
}

impl<'a> Cells<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether all cells were read.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Begins a cell: whether it holds a value of that kind, or null.
    #[inline]
    pub(super) fn holds(&mut self, kind: Kind) -> Option<bool> {
        match self.byte()? {
            NULL => Some(false),
            tag if tag == kind.tag() => Some(true),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for (place, byte) in self.bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                self.bytes = &self.bytes[place + 1..];
                return Some(value);
            }
        }
        None
    }

    pub(super) fn varint32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    pub(super) fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(super) fn number(&mut self) -> Option<f64> {
        let (bytes, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(f64::from_le_bytes(*bytes))
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (text, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        std::str::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back() {
        let wholes = [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN];
        let counts = [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX];
        let mut bytes = Vec::new();
        let mut row = Row::new(&mut bytes);
        for whole in wholes {
            row.whole(whole);
        }
        for count in counts {
            row.count64(count);
        }
        row.count32(u32::MAX).number(-0.1).flag(true).text("ligne é").counts32([7, 300].into_iter()).text(None);
        let mut cells = Cells::new(&bytes);
        for whole in wholes {
            assert_eq!((cells.holds(Kind::Whole), cells.zigzag()), (Some(true), Some(whole)));
        }
        for count in counts {
            assert_eq!((cells.holds(Kind::Count64), cells.varint()), (Some(true), Some(count)));
        }
        assert_eq!((cells.holds(Kind::Count32), cells.varint32()), (Some(true), Some(u32::MAX)));
        assert_eq!((cells.holds(Kind::Number), cells.number()), (Some(true), Some(-0.1)));
        assert_eq!((cells.holds(Kind::Flag), cells.byte()), (Some(true), Some(1)));
        assert_eq!((cells.holds(Kind::Text), cells.text()), (Some(true), Some("ligne é")));
        assert_eq!(cells.holds(Kind::Counts32), Some(true));
        assert_eq!([cells.varint(), cells.varint(), cells.varint()], [Some(2), Some(7), Some(300)]);
        assert_eq!(cells.holds(Kind::Text), Some(false));
        assert!(cells.is_empty());
    }

    #[test]
    fn bytes_of_something_else_are_refused() {
        let mut bytes = Vec::new();
        Row::new(&mut bytes).count64(300).text("abc");
        assert_eq!(Cells::new(&bytes).holds(Kind::Count32), None, "another kind");
        assert_eq!(Cells::new(&[0xff; 11]).varint(), None, "no end");
        assert_eq!(Cells::new(&[5, b'a']).text(), None, "cut short");
        assert_eq!(Cells::new(&[]).byte(), None, "nothing");
        let mut number = Vec::new();
        Row::new(&mut number).number(f64::NAN);
        assert_eq!(Cells::new(&number).holds(Kind::Number), Some(false), "what is not finite is null");
    }
}
