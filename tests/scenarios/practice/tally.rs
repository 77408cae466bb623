//! Figures found against figures worked by hand.

use serde_json::Value;

/// Half a unit of the sixth decimal, and the float's own rounding.
const WITHIN: f64 = 0.5e-6 + 1e-12;

/// A count of comparisons, with the ones that failed.
pub(super) struct Tally {
    part: &'static str,
    total: usize,
    faults: Vec<String>,
}

impl Tally {
    /// Nothing compared yet.
    pub(super) fn new(part: &'static str) -> Self {
        Self { part, total: 0, faults: Vec::new() }
    }

    /// Compares a number to six decimals; what is no number never matches.
    pub(super) fn number(&mut self, what: &str, found: impl Into<Value>, expected: f64) {
        let found = found.into();
        self.total += 1;
        if !found.as_f64().is_some_and(|found| (found - expected).abs() <= WITHIN) {
            self.faults.push(format!("{what}: expected {expected}, found {found}"));
        }
    }

    /// Compares anything exactly.
    pub(super) fn equal(&mut self, what: &str, found: impl Into<Value>, expected: impl Into<Value>) {
        let (found, expected) = (found.into(), expected.into());
        self.total += 1;
        if found != expected {
            self.faults.push(format!("{what}: expected {expected}, found {found}"));
        }
    }

    /// Prints `part: matched/total`.
    ///
    /// # Panics
    /// If anything differed; with all of it.
    pub(super) fn finish(self) {
        println!("{}: {}/{}", self.part, self.total - self.faults.len(), self.total);
        assert!(self.faults.is_empty(), "{}:\n{}", self.part, self.faults.join("\n"));
    }
}

#[test]
#[should_panic(
    expected = "part:\nseventh: expected 0.3, found 0.300001\nnothing: expected 0, found null\nword: expected 1, found 2"
)]
fn a_tally_shows_every_difference() {
    let mut tally = Tally::new("part");
    tally.number("sixth", 0.300_000_4, 0.3);
    tally.number("seventh", 0.300_001, 0.3);
    tally.number("nothing", Value::Null, 0.0);
    tally.equal("word", 2, 1);
    tally.finish();
}
