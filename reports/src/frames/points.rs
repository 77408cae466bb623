//! The columns that say which point of a sweep a row is of.

use serde_json::Value;

use super::column::{Column, Kind};
use super::row::Row;
use crate::rows::value_cell;
use crate::{CandidateReport, SweepManifest, SweepPoint};

/// `point`, a column for each key that is varied, and `candidate`.
pub(super) struct PointColumns {
    axes: Vec<(String, Kind)>,
    intervals: bool,
}

impl PointColumns {
    /// Those of a sweep.
    pub(super) fn of(manifest: &SweepManifest) -> Self {
        let axes = manifest.axes.iter().map(|axis| (axis.key.clone(), kind_of(&axis.values)));
        Self { axes: axes.collect(), intervals: manifest.seeds.len() > 1 }
    }

    /// Whether figures are intervals over seeds.
    pub(super) fn intervals(&self) -> bool {
        self.intervals
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = Column> {
        let axes = self.axes.iter().map(|(key, kind)| Column::new(key.clone(), *kind));
        std::iter::once(Column::new("point", Kind::Count64)).chain(axes).chain([Column::new("candidate", Kind::Text)])
    }

    pub(super) fn fill(&self, row: &mut Row<'_>, point: &SweepPoint, report: &CandidateReport) {
        row.count64(point.point);
        for ((_, kind), setting) in self.axes.iter().zip(&point.settings) {
            match kind {
                Kind::Whole => row.whole(setting.value.as_i64()),
                Kind::Number => row.number(setting.value.as_f64()),
                Kind::Flag => row.flag(setting.value.as_bool()),
                _ => row.text(&*value_cell(&setting.value)),
            };
        }
        row.text(&*report.name);
    }
}

/// What holds all values of a key as they are: whole numbers, numbers, yes or no; else their text, as in the CSV.
fn kind_of(values: &[Value]) -> Kind {
    if values.iter().all(Value::is_i64) {
        Kind::Whole
    } else if values.iter().all(Value::is_number) {
        Kind::Number
    } else if values.iter().all(Value::is_boolean) {
        Kind::Flag
    } else {
        Kind::Text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_has_the_type_that_holds_all_its_values() {
        assert_eq!(kind_of(&[json!(4), json!(-5)]), Kind::Whole);
        assert_eq!(kind_of(&[json!(4), json!(5.5)]), Kind::Number);
        assert_eq!(kind_of(&[json!(true), json!(false)]), Kind::Flag);
        assert_eq!(kind_of(&[json!("1s"), json!("2s")]), Kind::Text);
        assert_eq!(kind_of(&[json!([1, 2]), json!([4])]), Kind::Text);
        assert_eq!(kind_of(&[json!(1), json!("auto")]), Kind::Text);
    }
}
