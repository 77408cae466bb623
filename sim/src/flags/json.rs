//! JSON on one line with a blank behind every comma and colon, so that a long list can be read.

use std::io::{self, Write};

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// `value` on one line.
pub(super) fn line(value: &Value) -> String {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Spaced)).expect("a value in memory can be written");
    String::from_utf8(text).expect("JSON is UTF-8")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_the_same_value() {
        let value = json!({"sizes": [1, 2, 4], "none": [], "nested": {"word": "it's \"quoted\""}, "on": true});
        assert_eq!(
            line(&value),
            r#"{"nested": {"word": "it's \"quoted\""}, "none": [], "on": true, "sizes": [1, 2, 4]}"#
        );
        assert_eq!(serde_json::from_str::<Value>(&line(&value)).expect("it is JSON"), value);
    }
}
