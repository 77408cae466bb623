//! Steps as sources tell them, and the histogram that they make: what a source leaves open is decided here, by rules that
//! the scenario states.

use std::collections::BTreeMap;

use crate::limits::{HISTOGRAM_ROWS_MAX, STEP_TOKENS_MAX};

/// The shape of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Scheduled tokens.
    pub tokens: u32,
    /// Scheduled requests.
    pub requests: u32,
    /// The longest query, in tokens.
    pub query_len: u32,
}

/// What a source says of steps whose requests it does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenSteps {
    /// Fewest tokens that they can have had.
    pub least_tokens: u32,
    /// Most tokens.
    pub most_tokens: u32,
    /// Whether they can have been decode batches, in which every request has a query of the same length.
    pub may_decode: bool,
}

/// Which number of tokens stands for a range that a source does not resolve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Bucket {
    /// The most tokens that the steps can have had.
    Upper,
    /// The fewest.
    Lower,
    /// All numbers in between, as often each; of a wide range, sizes at even distances.
    #[default]
    Even,
}

/// Sizes that stand for one range under [`Bucket::Even`].
const SPREAD: u64 = 32;

/// Steps, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenSteps {
    known: BTreeMap<Shape, u64>,
    open: BTreeMap<OpenSteps, u64>,
    /// Steps left out because there were too many different ones, or because no step can be like that.
    pub left_out: u64,
}

/// How open steps become shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Most requests of a step.
    pub max_requests: u32,
    /// Tokens of each request in a decode step.
    pub decode_tokens: u32,
    /// Requests of a step with a prefill, where nothing else is known.
    pub typical_requests: u32,
    /// What stands for a range of tokens.
    pub bucket: Bucket,
}

/// How often a shape came, and for how many of these steps something was assumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All of them.
    pub all: u64,
    /// Those whose requests or tokens are assumed.
    pub assumed: u64,
}

/// A histogram made of seen steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Shapes in order of tokens, requests and query.
    pub rows: BTreeMap<Shape, Count>,
    /// Requests of all assumed steps at least, as chosen, and at most.
    pub assumed_requests: [u128; 3],
    /// Tokens of all steps at least, as chosen, and at most.
    pub tokens: [u128; 3],
}

impl Resolved {
    /// All steps, and those of which something is assumed.
    #[must_use]
    pub fn steps(&self) -> Count {
        self.rows.values().fold(Count::default(), |sum, count| Count {
            all: sum.all.saturating_add(count.all),
            assumed: sum.assumed.saturating_add(count.assumed),
        })
    }
}

impl SeenSteps {
    /// Adds steps of a known shape.
    pub fn add(&mut self, shape: Shape, count: u64) {
        let Shape { tokens, requests, query_len } = shape;
        let can_be = requests > 0
            && (requests..=STEP_TOKENS_MAX).contains(&tokens)
            && (tokens.div_ceil(requests)..=tokens - requests + 1).contains(&query_len);
        if !can_be || (self.different() >= HISTOGRAM_ROWS_MAX && !self.known.contains_key(&shape)) {
            self.left_out = self.left_out.saturating_add(count);
            return;
        }
        let sum = self.known.entry(shape).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Adds steps whose requests are not known.
    pub fn add_open(&mut self, steps: OpenSteps, count: u64) {
        let can_be = (1..=steps.most_tokens).contains(&steps.least_tokens) && steps.most_tokens <= STEP_TOKENS_MAX;
        if !can_be || (self.different() >= HISTOGRAM_ROWS_MAX && !self.open.contains_key(&steps)) {
            self.left_out = self.left_out.saturating_add(count);
            return;
        }
        let sum = self.open.entry(steps).or_default();
        *sum = sum.saturating_add(count);
    }

    fn different(&self) -> usize {
        self.known.len() + self.open.len()
    }

    /// Whether no step was seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.open.is_empty()
    }

    /// The most requests of a step that is known.
    #[must_use]
    pub fn most_requests(&self) -> u32 {
        self.known.keys().map(|shape| shape.requests).max().unwrap_or_default()
    }

    /// The most tokens of a step that were certainly there.
    #[must_use]
    pub fn most_tokens(&self) -> u32 {
        let known = self.known.keys().map(|shape| shape.tokens);
        known.chain(self.open.keys().map(|steps| steps.least_tokens)).max().unwrap_or_default()
    }

    /// The mean of the requests of known steps, each step counted once.
    #[must_use]
    pub fn mean_requests(&self) -> Option<f64> {
        let sums = self.known.iter().fold((0.0, 0.0), |(requests, steps), (shape, count)| {
            (requests + f64::from(shape.requests) * *count as f64, steps + *count as f64)
        });
        (sums.1 > 0.0).then(|| sums.0 / sums.1)
    }

    /// The histogram.
    ///
    /// An open step is a decode batch if it can be one: if it may decode, and its tokens divide evenly over at most
    /// `max_requests`. Any other has one prefill beside the decodes of a typical step, at least one token each.
    #[must_use]
    pub fn resolve(&self, choice: &Choice) -> Resolved {
        let mut resolved = Resolved::default();
        for (shape, count) in &self.known {
            resolved.rows.entry(*shape).or_default().all = *count;
            resolved.tokens = resolved.tokens.map(|sum| sum + u128::from(shape.tokens) * u128::from(*count));
        }
        for (steps, count) in &self.open {
            for (tokens, count) in spread(steps, *count, choice.bucket) {
                let shape = choice.shape(tokens, steps.may_decode);
                let row = resolved.rows.entry(shape).or_default();
                row.all = row.all.saturating_add(count);
                row.assumed = row.assumed.saturating_add(count);
                let most = tokens.min(choice.max_requests).max(shape.requests);
                let requests = [1.min(shape.requests), shape.requests, most];
                let tokens = [steps.least_tokens, tokens, steps.most_tokens];
                for ((sum, value), (all, of)) in
                    resolved.assumed_requests.iter_mut().zip(requests).zip(resolved.tokens.iter_mut().zip(tokens))
                {
                    *sum += u128::from(value) * u128::from(count);
                    *all += u128::from(of) * u128::from(count);
                }
            }
        }
        resolved
    }
}

impl Choice {
    /// The shape of an open step of so many tokens.
    fn shape(&self, tokens: u32, may_decode: bool) -> Shape {
        let query_len = self.decode_tokens.max(1);
        let requests = tokens / query_len;
        if may_decode && tokens.is_multiple_of(query_len) && requests <= self.max_requests {
            return Shape { tokens, requests, query_len };
        }
        // Tokens of the decodes beside the prefill, which has more than a decode's: else it would be one.
        let beside = self.typical_requests.saturating_sub(1).min(tokens.saturating_sub(query_len + 1) / query_len);
        let prefill = tokens - beside * query_len;
        Shape { tokens, requests: beside + 1, query_len: prefill.max(query_len.min(tokens)) }
    }
}

/// The sizes that stand for a range, with counts that add up.
fn spread(steps: &OpenSteps, count: u64, bucket: Bucket) -> Vec<(u32, u64)> {
    let OpenSteps { least_tokens, most_tokens, .. } = *steps;
    match bucket {
        Bucket::Upper => vec![(most_tokens, count)],
        Bucket::Lower => vec![(least_tokens, count)],
        Bucket::Even => {
            let width = u64::from(most_tokens - least_tokens) + 1;
            let sizes = width.min(SPREAD);
            // The middles of `sizes` equal parts of the range.
            let at = |part: u64| least_tokens + ((2 * part + 1) * width / (2 * sizes)) as u32;
            let up_to = |part: u64| (u128::from(count) * u128::from(part) / u128::from(sizes)) as u64;
            (0..sizes).map(|part| (at(part), up_to(part + 1) - up_to(part))).filter(|(_, count)| *count > 0).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHOICE: Choice = Choice { max_requests: 64, decode_tokens: 1, typical_requests: 8, bucket: Bucket::Even };

    fn open(least_tokens: u32, most_tokens: u32, may_decode: bool) -> OpenSteps {
        OpenSteps { least_tokens, most_tokens, may_decode }
    }

    fn rows(steps: &SeenSteps, choice: Choice) -> Vec<(u32, u32, u32, u64)> {
        let rows = steps.resolve(&choice).rows;
        rows.iter().map(|(shape, count)| (shape.tokens, shape.requests, shape.query_len, count.all)).collect()
    }

    #[test]
    fn open_steps_are_decodes_where_they_can_be_and_prefills_among_decodes_else() {
        let mut steps = SeenSteps::default();
        steps.add_open(open(16, 16, true), 5);
        steps.add_open(open(16, 16, false), 3);
        steps.add_open(open(200, 200, true), 2);
        steps.add_open(open(3, 3, false), 1);
        steps.add_open(open(1, 1, false), 1);
        assert_eq!(rows(&steps, CHOICE), [(1, 1, 1, 1), (3, 2, 2, 1), (16, 8, 9, 3), (16, 16, 1, 5), (200, 8, 193, 2)]);
        let resolved = steps.resolve(&CHOICE);
        assert_eq!(resolved.steps(), Count { all: 12, assumed: 12 });
        assert_eq!(resolved.assumed_requests, [12, 80 + 24 + 16 + 2 + 1, 80 + 48 + 128 + 3 + 1]);
    }

    #[test]
    fn drafts_lengthen_every_decode() {
        let mut steps = SeenSteps::default();
        steps.add_open(open(16, 16, true), 1);
        steps.add_open(open(18, 18, true), 1);
        let choice = Choice { decode_tokens: 4, typical_requests: 4, ..CHOICE };
        // 18 tokens are no decodes of four each: three of them and a prefill of six.
        assert_eq!(rows(&steps, choice), [(16, 4, 4, 1), (18, 4, 6, 1)]);
    }

    #[test]
    fn ranges_are_spread_and_no_step_is_lost() {
        let mut steps = SeenSteps::default();
        steps.add_open(open(9, 16, true), 20);
        steps.add_open(open(1025, 2048, true), 7);
        steps.add(Shape { tokens: 4, requests: 4, query_len: 1 }, 3);
        for bucket in [Bucket::Upper, Bucket::Lower, Bucket::Even] {
            let resolved = steps.resolve(&Choice { bucket, ..CHOICE });
            assert_eq!(resolved.steps(), Count { all: 30, assumed: 27 }, "{bucket:?}");
            assert!(resolved.tokens.is_sorted(), "{:?}", resolved.tokens);
        }
        let upper = rows(&steps, Choice { bucket: Bucket::Upper, ..CHOICE });
        assert_eq!(upper, [(4, 4, 1, 3), (16, 16, 1, 20), (2048, 8, 2041, 7)]);
        let even = rows(&steps, CHOICE);
        let small: Vec<_> = even.iter().filter(|row| row.0 <= 16).map(|row| (row.0, row.3)).collect();
        assert_eq!(small, [(4, 3), (9, 2), (10, 3), (11, 2), (12, 3), (13, 2), (14, 3), (15, 2), (16, 3)]);
    }

    #[test]
    fn every_size_becomes_a_row_that_a_histogram_takes() {
        use crate::traffic::StepRow;
        for tokens in 1..400 {
            for (decode_tokens, typical_requests) in [(1, 1), (1, 8), (1, 500), (4, 8), (9, 1), (500, 3)] {
                for may_decode in [true, false] {
                    let choice = Choice { decode_tokens, typical_requests, ..CHOICE };
                    let Shape { tokens, requests, query_len } = choice.shape(tokens, may_decode);
                    let row = StepRow::new(tokens.into(), requests.into(), Some(query_len.into()), 1);
                    let row = row.unwrap_or_else(|fault| panic!("{tokens} {choice:?}: {fault:?}"));
                    if !may_decode && tokens > decode_tokens {
                        assert!(!(row.is_uniform() && query_len == decode_tokens), "{tokens} {choice:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_no_step_can_be_is_left_out() {
        let mut steps = SeenSteps::default();
        steps.add(Shape { tokens: 3, requests: 4, query_len: 1 }, 2);
        steps.add(Shape { tokens: 0, requests: 0, query_len: 0 }, 1);
        steps.add(Shape { tokens: 8, requests: 4, query_len: 1 }, 1);
        steps.add_open(open(0, 4, true), 1);
        steps.add_open(open(5, 4, true), 1);
        steps.add_open(open(1, u32::MAX, true), 1);
        assert!(steps.is_empty());
        assert_eq!(steps.left_out, 7);
    }
}
