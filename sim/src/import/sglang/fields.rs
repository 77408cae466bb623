//! `name: value, name: value` behind the words that a line begins with.

use std::str::FromStr;

/// The fields of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Fields<'a> {
    /// Splits at commas outside brackets; a part without a colon belongs to none.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        let mut fields = Vec::new();
        let (mut depth, mut start) = (0_u32, 0);
        for (at, letter) in text.char_indices().chain([(text.len(), ',')]) {
            match letter {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                ',' if depth == 0 || at == text.len() => {
                    fields.extend(
                        text[start..at].split_once([':', '=']).map(|(name, value)| (name.trim(), value.trim())),
                    );
                    start = (at + 1).min(text.len());
                }
                _ => {}
            }
        }
        Self { fields }
    }

    /// The value of a field, if the line has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
    }

    /// A value of a kind: `Ok(None)` without the field.
    ///
    /// # Errors
    /// The field's name and value, where it is not of that kind.
    pub fn read<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, (&'static str, &'a str)> {
        self.get(name).map(|value| value.parse().map_err(|_| (name, value))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_brackets_do_not_part_fields() {
        let fields = Fields::of("backend=full, bs=[1, 2, 4], avail mem=7.10 GB, word");
        assert_eq!(fields.get("bs"), Some("[1, 2, 4]"));
        assert_eq!(fields.get("avail mem"), Some("7.10 GB"));
        assert_eq!(fields.get("word"), None);
        assert_eq!(fields.read::<u32>("backend"), Err(("backend", "full")));
        for odd in ["", ",", ":", "[", "]]", "a: [1, 2", "é: ü,"] {
            let _ = Fields::of(odd);
        }
    }
}
