//! What a source says about a server's settings, each with the place where it says so.

use std::collections::BTreeMap;
use std::fmt;

use toml::Value;

/// Where something was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named.
    pub file: String,
    /// Line number, from 1.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Something that was read, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Known<T> {
    /// What.
    pub value: T,
    /// Where.
    pub place: Place,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A whole number.
    Whole(u64),
    /// A number.
    Real(f64),
    /// On or off.
    Switch(bool),
    /// A word.
    Word(String),
    /// Sizes, ascending.
    Sizes(Vec<u32>),
}

/// As a scenario writes it.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(f, "{number}"),
            Self::Real(number) => Value::Float(*number).fmt(f),
            Self::Switch(is_on) => write!(f, "{is_on}"),
            Self::Word(word) => Value::String(word.clone()).fmt(f),
            Self::Sizes(sizes) => write!(f, "{sizes:?}"),
        }
    }
}

/// Settings under the names that a scenario has for them; what is read later counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings(BTreeMap<&'static str, Known<Setting>>);

impl Settings {
    /// Keeps a setting.
    pub fn set(&mut self, key: &'static str, value: Setting, place: &Place) {
        self.0.insert(key, Known { value, place: place.clone() });
    }

    /// Takes what others say where these say nothing.
    pub fn fill_from(&mut self, others: &Self) {
        for (key, known) in &others.0 {
            self.0.entry(key).or_insert_with(|| known.clone());
        }
    }

    /// Forgets a setting.
    pub fn forget(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// A setting, if it was read.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Known<Setting>> {
        self.0.get(key)
    }

    /// A whole number, if it was read and is one.
    #[must_use]
    pub fn whole(&self, key: &str) -> Option<u64> {
        match self.get(key)?.value {
            Setting::Whole(number) => Some(number),
            _ => None,
        }
    }

    /// A switch, if it was read.
    #[must_use]
    pub fn is_on(&self, key: &str) -> Option<bool> {
        match self.get(key)?.value {
            Setting::Switch(is_on) => Some(is_on),
            _ => None,
        }
    }

    /// A word, if it was read.
    #[must_use]
    pub fn word(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.value {
            Setting::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Sizes, if they were read.
    #[must_use]
    pub fn sizes(&self, key: &str) -> Option<&[u32]> {
        match &self.get(key)?.value {
            Setting::Sizes(sizes) => Some(sizes),
            _ => None,
        }
    }

    /// Whether nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What kind of value a printed name has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Whole,
    Real,
    Switch,
    Word,
    Sizes,
}

impl Wants {
    /// The value, if the text is one of this kind; Python's `None` is none.
    pub(crate) fn read(self, text: &str) -> Option<Setting> {
        use super::python;
        match self {
            Self::Whole => python::whole_number(text).map(Setting::Whole),
            Self::Real => python::real(text).map(Setting::Real),
            Self::Switch => python::switch(text).map(Setting::Switch),
            Self::Word => (!text.is_empty() && text != "None").then(|| Setting::Word(text.to_owned())),
            Self::Sizes => python::sizes(text).map(Setting::Sizes),
        }
    }
}
