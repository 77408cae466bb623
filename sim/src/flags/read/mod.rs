//! From flags back to options: the reading half of the check, which knows nothing of how flags are written.
//!
//! Only graph flags are read. What a flag means is the engine's own reading of it; a flag that an engine does not take is
//! refused as it would be there.

pub mod sglang;
pub mod vllm;

use serde_json::{Map, Value};
use thiserror::Error;

/// Flags that are not understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadFault {
    /// A quote is not closed.
    #[error("a quote is not closed")]
    OpenQuote,
    /// A word that belongs to no flag.
    #[error("`{word}` belongs to no flag")]
    Stray {
        /// The word.
        word: String,
    },
    /// A flag, key or variable that is no graph option of the engine.
    #[error("`{name}` is no graph option of this engine")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// A value of the wrong kind.
    #[error("`{name}` wants {wanted}, and has {found}")]
    Value {
        /// The flag or key.
        name: String,
        /// What it wants.
        wanted: &'static str,
        /// What it has.
        found: String,
    },
}

/// How the words behind a flag are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// There are none.
    Switch,
    /// One, as it is.
    Word,
    /// One number.
    Number,
    /// A number each.
    Numbers,
    /// One object in JSON.
    Object,
}

/// The arguments as an object of values under their names with underscores. `kind` says how each flag is read; a flag
/// given twice counts once, the last time.
fn arguments(words: &[String], kind: impl Fn(&str) -> Option<Kind>) -> Result<Map<String, Value>, ReadFault> {
    let mut given = Map::new();
    let mut rest = words;
    while let Some((flag, behind)) = rest.split_first() {
        let Some(name) = flag.strip_prefix("--") else { return Err(ReadFault::Stray { word: flag.clone() }) };
        let name = name.replace('-', "_");
        let kind = kind(&name).ok_or_else(|| ReadFault::Unknown { name: flag.clone() })?;
        let count = match kind {
            Kind::Switch => 0,
            Kind::Word | Kind::Number | Kind::Object => 1,
            Kind::Numbers => behind.iter().take_while(|word| !word.starts_with("--")).count(),
        };
        let wrong = |wanted| ReadFault::Value { name: flag.clone(), wanted, found: behind.join(" ") };
        if behind.len() < count || (kind == Kind::Numbers && count == 0) {
            return Err(wrong("a value"));
        }
        let (own, next) = behind.split_at(count);
        let number = |word: &String| word.parse::<u32>().map(Value::from).map_err(|_| wrong("whole numbers"));
        let value = match kind {
            Kind::Switch => Value::Bool(true),
            Kind::Word => Value::from(own[0].clone()),
            Kind::Number => number(&own[0])?,
            Kind::Numbers => own.iter().map(number).collect::<Result<Value, _>>()?,
            Kind::Object => {
                let object = serde_json::from_str(&own[0]).ok().filter(Value::is_object);
                object.ok_or_else(|| wrong("an object in JSON"))?
            }
        };
        given.insert(name, value);
        rest = next;
    }
    Ok(given)
}

fn wrong(name: &str, wanted: &'static str, found: &Value) -> ReadFault {
    ReadFault::Value { name: name.to_owned(), wanted, found: found.to_string() }
}

fn number(name: &str, value: &Value) -> Result<u32, ReadFault> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| wrong(name, "a whole number", value))
}

fn numbers(name: &str, value: &Value) -> Result<Vec<u32>, ReadFault> {
    let list = value.as_array().ok_or_else(|| wrong(name, "a list of whole numbers", value))?;
    list.iter().map(|entry| number(name, entry)).collect()
}

fn switch(name: &str, value: &Value) -> Result<bool, ReadFault> {
    value.as_bool().ok_or_else(|| wrong(name, "true or false", value))
}

fn object<'a>(name: &str, value: &'a Value) -> Result<&'a Map<String, Value>, ReadFault> {
    value.as_object().ok_or_else(|| wrong(name, "an object", value))
}

/// A word of an engine's own, by the names that serde knows for it.
fn word<T: serde::de::DeserializeOwned>(name: &str, wanted: &'static str, value: &Value) -> Result<T, ReadFault> {
    T::deserialize(value).map_err(|_| wrong(name, wanted, value))
}
