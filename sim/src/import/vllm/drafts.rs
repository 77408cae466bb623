//! The line about drafts beside the statistics line: how many of those of the last ten seconds were accepted.

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftsLine {
    /// Tokens of a request that a verification yields on average: its accepted drafts and one more.
    pub accepted_len: f64,
    /// Drafts that were verified.
    pub drafted: f64,
    /// The share of verifications that accepted the draft at each position.
    pub rates: Vec<f64>,
}

impl DraftsLine {
    /// Reads a line without its prefix; `None` if it is about something else or cut off.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let rest = text.trim().strip_prefix("SpecDecoding metrics: ")?;
        let behind = |name: &str| rest.split_once(name).map(|(_, rest)| rest);
        let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        let accepted_len =
            behind("Mean acceptance length: ")?.split_once(", ").and_then(|(length, _)| number(length))?;
        let drafted = behind(" Drafted: ")?.split_once(" tokens").and_then(|(tokens, _)| number(tokens))?;
        let (rates, _) = behind("Per-position acceptance rate: ")?.split_once(", Avg")?;
        let rates: Option<Vec<f64>> = rates.split(',').map(number).collect();
        let rates = rates.filter(|rates| rates.iter().all(|rate| *rate <= 1.0))?;
        (accepted_len >= 1.0).then_some(Self { accepted_len, drafted, rates })
    }
}

/// All lines, each by its verifications.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drafts {
    verifications: f64,
    accepted_len: f64,
    rates: Vec<f64>,
}

impl Drafts {
    /// Adds a line.
    pub fn add(&mut self, line: &DraftsLine) {
        let verifications = line.drafted / line.rates.len().max(1) as f64;
        self.verifications += verifications;
        self.accepted_len += verifications * line.accepted_len;
        self.rates.resize(self.rates.len().max(line.rates.len()), 0.0);
        for (sum, rate) in self.rates.iter_mut().zip(&line.rates) {
            *sum += verifications * rate;
        }
    }

    /// The mean of the tokens that a verification yields; `None` if none is known.
    #[must_use]
    pub fn accepted_len(&self) -> Option<f64> {
        (self.verifications > 0.0).then(|| self.accepted_len / self.verifications).filter(|length| length.is_finite())
    }

    /// The share of verifications that accepted at least so many drafts, for each number from one; never rising.
    #[must_use]
    pub fn rates(&self) -> Option<Vec<f64>> {
        self.accepted_len()?;
        let mut before: f64 = 1.0;
        let rates = self.rates.iter().map(|sum| {
            // Lines are rounded.
            before = (sum / self.verifications).min(before);
            before
        });
        Some(rates.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 3000.00 tokens/s, Drafted \
                        throughput: 6000.00 tokens/s, Accepted: 30000 tokens, Drafted: 60000 tokens, Per-position acceptance \
                        rate: 0.700, 0.500, 0.300, Avg Draft acceptance rate: 50.0%";

    #[test]
    fn a_line_is_read_whole_or_not_at_all() {
        let line = DraftsLine { accepted_len: 2.5, drafted: 60_000.0, rates: vec![0.7, 0.5, 0.3] };
        assert_eq!(DraftsLine::read(LINE), Some(line));
        let end = LINE.find(", Avg").expect("there");
        for length in 0..end {
            assert_eq!(DraftsLine::read(&LINE[..length]), None, "{}", &LINE[..length]);
        }
        for (from, to) in [("2.50", "0.5"), ("0.700", "1.7"), ("60000", "NaN"), ("0.300", "x")] {
            assert_eq!(DraftsLine::read(&LINE.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn lines_count_by_their_verifications() {
        let mut drafts = Drafts::default();
        assert_eq!((drafts.accepted_len(), drafts.rates()), (None, None));
        drafts.add(&DraftsLine { accepted_len: 9.0, drafted: 0.0, rates: vec![1.0, 1.0] });
        assert_eq!(drafts.rates(), None, "nothing was drafted");
        drafts.add(&DraftsLine { accepted_len: 2.0, drafted: 300.0, rates: vec![0.75, 0.25] });
        drafts.add(&DraftsLine { accepted_len: 1.0, drafted: 100.0, rates: vec![0.0, 0.0] });
        assert_eq!(drafts.accepted_len(), Some(1.75));
        assert_eq!(drafts.rates(), Some(vec![0.5625, 0.1875]));
    }
}
