//! `--vary key=v1,v2,…`: a key and its values, as text.

use std::str::FromStr;

use toml::{Table, Value};

use super::error::VaryError;

/// One key as written, and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The parts of the key as written: a whole path, or the last parts of one.
    pub key: Vec<String>,
    /// Its values, none twice, at least one.
    pub values: Vec<Value>,
}

impl FromStr for Axis {
    type Err = VaryError;

    /// Reads `key=v1,v2,…`. The key is one of TOML, with quotes around parts that hold blanks or dots. A value is one of
    /// TOML; a word that is none, such as `FULL`, `40ms` or `0.33.0`, is a string.
    ///
    /// # Errors
    /// No key, no value, a value that is neither, or a value twice.
    fn from_str(text: &str) -> Result<Self, VaryError> {
        const HELP: &str = "write --vary key=v1,v2 with values as in the scenario, such as --vary rate=4,8 or \
                            --vary 'cudagraph_capture_sizes=[1,2,4],[1,2,4,8]'";
        let refuse = |problem: String| VaryError::new(format!("--vary {text}: {problem}"), HELP);
        if text.chars().any(char::is_control) {
            return Err(VaryError::new("--vary: expected one line without control characters", HELP));
        }
        let (key, values) = split_outside_quotes(text, '=', 2)
            .filter(|parts| parts.len() == 2)
            .map(|parts| (parts[0], parts[1]))
            .ok_or_else(|| refuse("expected a key, = and values".to_owned()))?;
        let key = parts(key).ok_or_else(|| refuse(format!("`{}` is no key", key.trim())))?;
        let pieces = split_outside_quotes(values, ',', usize::MAX)
            .ok_or_else(|| refuse("a quote or a bracket is not closed".to_owned()))?;
        let mut found: Vec<Value> = Vec::new();
        for piece in pieces {
            let value = value(piece.trim()).ok_or_else(|| refuse(format!("`{}` is no value", piece.trim())))?;
            if found.contains(&value) {
                return Err(refuse(format!("the value {} stands there twice", piece.trim())));
            }
            found.push(value);
        }
        Ok(Self { key, values: found })
    }
}

/// The parts of a dotted key of TOML.
fn parts(key: &str) -> Option<Vec<String>> {
    let mut table: Table = toml::from_str(&format!("{key} = true")).ok()?;
    let mut parts = Vec::new();
    loop {
        let (part, value) = table.into_iter().next()?;
        parts.push(part);
        match value {
            Value::Table(inner) => table = inner,
            Value::Boolean(true) => return Some(parts),
            _ => return None,
        }
    }
}

/// A value of TOML, else a word.
fn value(piece: &str) -> Option<Value> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "._-+:/~".contains(c);
    let word = || (!piece.is_empty() && piece.chars().all(is_word)).then(|| Value::String(piece.to_owned()));
    match toml::from_str::<Table>(&format!("value = {piece}")) {
        Ok(table) if table.len() == 1 => match table.into_iter().next()?.1 {
            // A scenario holds no dates, but names that look like one.
            Value::Datetime(_) => word(),
            value => Some(value),
        },
        _ => word(),
    }
}

/// Cuts at `separator` where no quote and no bracket is open, into at most `most` parts; `None` if one stays open.
fn split_outside_quotes(text: &str, separator: char, most: usize) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let mut quote = None;
    let mut escaped = false;
    for (place, c) in text.char_indices() {
        match quote {
            Some('"') if escaped => escaped = false,
            Some('"') if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            None if parts.len() + 1 == most => break,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == '[' || c == '{' => depth += 1,
            None if c == ']' || c == '}' => depth = depth.checked_sub(1)?,
            None if c == separator && depth == 0 => {
                parts.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (quote.is_none() && depth == 0).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(text: &str) -> (String, String) {
        let Axis { key, values } = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        (key.join("|"), values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ; "))
    }

    #[test]
    fn values_are_toml_or_words() {
        for (text, key, values) in [
            ("rate=4,8.5", "rate", "4 ; 8.5"),
            ("a.b = 1, -2 ", "a|b", "1 ; -2"),
            ("slo.ttft=40ms,1.5s", "slo|ttft", r#""40ms" ; "1.5s""#),
            ("version=0.31.0,main", "version", r#""0.31.0" ; "main""#),
            ("x=true,\"true\"", "x", r#"true ; "true""#),
            ("sizes=[1,2],[],[4]", "sizes", "[1, 2] ; [] ; [4]"),
            ("p={ p50 = 1, p99 = 2 },{ mean = 3 }", "p", "{ p50 = 1, p99 = 2 } ; { mean = 3 }"),
            ("candidate.\"a.b = c\".mode='x,\"y',\"]\\\"\"", "candidate|a.b = c|mode", r#"'x,"y' ; ']"'"#),
            (
                "profile=a100-llama-3-8b,../my/gpu.toml,2026-11-30",
                "profile",
                r#""a100-llama-3-8b" ; "../my/gpu.toml" ; "2026-11-30""#,
            ),
        ] {
            assert_eq!(axis(text), (key.to_owned(), values.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_axis_is_refused_with_the_reason() {
        for (text, problem) in [
            ("rate", "expected a key, = and values"),
            ("=4", "`` is no key"),
            ("a b=4", "`a b` is no key"),
            ("rate=", "`` is no value"),
            ("rate=4,,8", "`` is no value"),
            ("rate=4 5", "`4 5` is no value"),
            ("sizes=[1,2", "a quote or a bracket is not closed"),
            ("sizes=1]", "a quote or a bracket is not closed"),
            ("x=\"a", "a quote or a bracket is not closed"),
            ("rate=4,8,4", "the value 4 stands there twice"),
        ] {
            let error = text.parse::<Axis>().expect_err(text).to_string();
            assert_eq!(error, format!("--vary {text}: {problem}"));
        }
        assert!("rate=4\nseed = 5".parse::<Axis>().is_err(), "one value cannot bring another key");
    }
}
