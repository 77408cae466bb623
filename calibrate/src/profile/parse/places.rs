//! Where a key stands in the text, for checks that compare parts of a profile after all of it was read.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::Origin;

impl Origin<'_> {
    /// The bytes of the value of a dotted key, such as `machine.dense.table.us[3]`; `None` where there is none. Reads the text
    /// once more: for faults only.
    pub(super) fn place(self, key: &str) -> Option<Range<usize>> {
        let root = DeTable::parse(self.text).ok()?;
        let mut steps = key.split(['.', '[']).map(|step| step.trim_end_matches(']'));
        let mut found = root.get_ref().get(steps.next()?)?;
        for step in steps {
            found = match found.get_ref() {
                DeValue::Table(table) => table.get(step)?,
                DeValue::Array(values) => values.get(step.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(found.span())
    }

    /// The first of these keys that the text has, with its place; the last where it has none.
    pub(super) fn first_of<const N: usize>(self, keys: &[String; N]) -> (String, Range<usize>) {
        let found = keys.iter().find_map(|key| Some((key.clone(), self.place(key)?)));
        found.unwrap_or_else(|| (keys.last().cloned().unwrap_or_default(), 0..0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_where_their_values_stand() {
        let text = "a = 1\n[b.c]\nd = [10,\n 20]\ne = { low = 3 }\n[[b.w]]\nx = 'one'\n[[b.w]]\nx = 'two'\n";
        let origin = Origin { name: "text", text };
        let found = |key| origin.place(key).map(|span| &text[span]);
        assert_eq!(found("a"), Some("1"));
        assert_eq!((found("b.c.d[1]"), found("b.c.e.low"), found("b.w[1].x")), (Some("20"), Some("3"), Some("'two'")));
        assert_eq!((found("b.c.d[2]"), found("b.c.f"), found("a.b"), found("")), (None, None, None, None));
        let keys = ["b.x", "b.c.e.low"].map(str::to_owned);
        assert_eq!(origin.first_of(&keys).0, "b.c.e.low");
    }
}
