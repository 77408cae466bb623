//! What a histogram makes of encoder graphs and of the graphs of replay layers: counted, not priced, for no profile has
//! figures for them.

use std::collections::BTreeMap;

use crate::engine::shape::Descriptor;
use crate::engine::vllm::decoder_replay::{DecoderReplay, ReplayOff, ReplayRun};
use crate::engine::vllm::encoder::{EncoderGraphs, VisionItem};
use crate::traffic::StepRow;

/// Runs of one graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchSum {
    /// Runs.
    pub batches: u128,
    /// Images in them; 0 for replay layers.
    pub images: u128,
    /// Tokens that were asked for.
    pub real_tokens: u128,
    /// Tokens that the graph ran beyond them.
    pub padded_tokens: u128,
}

/// Images of all steps, each row weighted by its count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncoderSum {
    /// Images.
    pub images: u128,
    /// Images that no graph holds, or for which none is captured.
    pub images_without_graph: u128,
    /// Per budget in tokens, those that never run included.
    pub budgets: BTreeMap<u32, BatchSum>,
}

/// Replay batches of all steps, each row weighted by its count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplaySum {
    /// Why no size is captured.
    pub off: Option<ReplayOff>,
    /// Steps whose FULL graph holds the replay layers.
    pub full_graph_steps: u128,
    /// Replay batches that run no graph of their own.
    pub batches_without_graph: u128,
    /// Steps whose row leaves open how long the trimmed batch is.
    pub unsettled_steps: u128,
    /// Steps whose replay batch is trimmed.
    pub trimmed_steps: u128,
    /// Tokens that trimming leaves out of the replay layers.
    pub trimmed_tokens: u128,
    /// Per size in tokens, those that never run included.
    pub sizes: BTreeMap<u32, BatchSum>,
}

impl BatchSum {
    fn add(&mut self, count: u128, images: usize, real_tokens: u64, graph_tokens: u32) {
        self.batches += count;
        self.images += count * images as u128;
        self.real_tokens += count * u128::from(real_tokens);
        self.padded_tokens += count * u128::from(u64::from(graph_tokens) - real_tokens);
    }

    /// The runs of all graphs together.
    #[must_use]
    pub fn of_all(sums: &BTreeMap<u32, Self>) -> Self {
        sums.values().fold(Self::default(), |all, sum| Self {
            batches: all.batches + sum.batches,
            images: all.images + sum.images,
            real_tokens: all.real_tokens + sum.real_tokens,
            padded_tokens: all.padded_tokens + sum.padded_tokens,
        })
    }

    /// Padded tokens over tokens run; `None` if nothing ran.
    #[must_use]
    pub fn waste_share(&self) -> Option<f64> {
        let run = self.real_tokens + self.padded_tokens;
        (run > 0).then(|| self.padded_tokens as f64 / run as f64)
    }
}

impl EncoderSum {
    pub(super) fn new(graphs: Option<&EncoderGraphs>) -> Self {
        let budgets = graphs.map(EncoderGraphs::budgets).unwrap_or_default();
        Self { budgets: budgets.iter().map(|&budget| (budget, BatchSum::default())).collect(), ..Self::default() }
    }

    pub(super) fn add(&mut self, row: &StepRow, graphs: Option<&EncoderGraphs>) {
        let (count, images) = (u128::from(row.count), row.images.len() as u128);
        self.images += count * images;
        let Some(graphs) = graphs else {
            self.images_without_graph += count * images;
            return;
        };
        let items: Vec<VisionItem> = row.images.iter().map(|&tokens| VisionItem::image(tokens)).collect();
        for batch in graphs.pack(&items) {
            match batch.budget {
                Some(budget) => {
                    let sum = self.budgets.entry(budget).or_default();
                    sum.add(count, batch.items.len(), batch.tokens(), budget);
                }
                None => self.images_without_graph += count * batch.items.len() as u128,
            }
        }
    }
}

impl ReplaySum {
    pub(super) fn new(replay: &DecoderReplay) -> Self {
        let sizes = replay.sizes().iter().map(|&size| (size, BatchSum::default())).collect();
        Self { off: replay.off(), sizes, ..Self::default() }
    }

    /// Adds the replay batches of a row whose steps run `graph`.
    pub(super) fn add(&mut self, row: &StepRow, graph: &Descriptor, replay: &DecoderReplay, decode_tokens: u32) {
        let count = u128::from(row.count);
        let trims = replay.trims(graph.mode, graph.tokens);
        let (real, batch) = if trims {
            let Some(kept) = kept_tokens(row, replay.sliding_window(), decode_tokens) else {
                self.unsettled_steps += count;
                return;
            };
            (kept, kept as u32)
        } else {
            (u64::from(row.tokens), graph.tokens)
        };
        if trims {
            self.trimmed_steps += count;
            self.trimmed_tokens += count * u128::from(u64::from(row.tokens) - real);
        }
        match replay.run(graph.mode, batch) {
            ReplayRun::InFullGraph => self.full_graph_steps += count,
            ReplayRun::NoGraph => self.batches_without_graph += count,
            ReplayRun::Graph(size) => self.sizes.entry(size).or_default().add(count, 0, real, size),
        }
    }
}

/// Tokens of a trimmed replay batch: all of a decoding request, the last window of a prefill. A row names only its longest
/// query: `None` if the others may be split into queries that keep one number or another. They decode where their tokens
/// are just what decoding takes.
fn kept_tokens(row: &StepRow, window: u32, decode_tokens: u32) -> Option<u64> {
    let [tokens, requests, longest] = [row.tokens, row.requests, row.query_len].map(u64::from);
    let [window, decode_tokens] = [window, decode_tokens].map(u64::from);
    if longest <= window.max(decode_tokens) {
        return Some(tokens);
    }
    let (others, rest) = (requests - 1, tokens - longest);
    if rest == others * decode_tokens {
        return Some(window + rest);
    }
    // Even queries keep most, and as many of the longest as there can be keep least.
    let most = rest.min(others * window);
    let (long, left) = ((rest - others) / (longest - 1), (rest - others) % (longest - 1));
    let shorter = others - long;
    let fewest = long * window + if shorter > 0 { (1 + left).min(window) + shorter - 1 } else { 0 };
    (fewest == most).then_some(window + most)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::engine::shape::RuntimeMode;
    use crate::engine::vllm::decoder_replay::{ReplayOptions, ReplayServer};
    use crate::engine::vllm::encoder::{EncoderModel, EncoderOptions};

    fn row(tokens: u64, requests: u64, query_len: u64, count: u64) -> StepRow {
        StepRow::new(tokens, requests, Some(query_len), count).expect("a shape")
    }

    fn graph(mode: RuntimeMode, tokens: u32) -> Descriptor {
        Descriptor {
            mode,
            tokens,
            requests: None,
            uniform: None,
            max_query: None,
            loras: 0,
            ubatches: 1,
            prefix_chunks: None,
        }
    }

    fn replay() -> DecoderReplay {
        let server = ReplayServer {
            sliding_window: 128,
            max_cudagraph_capture_size: 512,
            max_num_seqs: 8,
            max_num_batched_tokens: 2048,
            breakable_piecewise: true,
            lora: false,
            prompt_embeds: false,
            first_pipeline_rank: true,
        };
        DecoderReplay::new(&ReplayOptions::default(), &server).expect("valid")
    }

    #[test]
    fn images_are_counted_by_budget() {
        let options = EncoderOptions { cudagraph_mm_encoder: true, ..EncoderOptions::default() };
        let model = EncoderModel { min_budget: 64, max_budget: 1024, max_frames_per_video: 0 };
        let graphs = EncoderGraphs::new(&options, model).expect("valid");
        let row = row(900, 1, 900, 10).with_images(vec![500, 200, 500, 1200]);
        let mut sum = EncoderSum::new(Some(&graphs));
        sum.add(&row, Some(&graphs));
        assert_eq!((sum.images, sum.images_without_graph), (40, 10));
        let wide = BatchSum { batches: 10, images: 20, real_tokens: 7000, padded_tokens: 3240 };
        assert_eq!((sum.budgets[&1024], sum.budgets[&512].padded_tokens, sum.budgets[&64].batches), (wide, 120, 0));
        assert_eq!(BatchSum::of_all(&sum.budgets).waste_share(), Some(3360.0 / 15_360.0));
        let mut off = EncoderSum::new(None);
        off.add(&row, None);
        assert_eq!((off.images_without_graph, off.budgets.len()), (40, 0));
    }

    #[test]
    fn replay_batches_are_counted_by_size() {
        let replay = replay();
        let mut sum = ReplaySum::new(&replay);
        let mut add = |row: &StepRow, graph: &Descriptor| sum.add(row, graph, &replay, 1);
        add(&row(8, 8, 1, 50), &graph(RuntimeMode::Full, 8));
        // A prefill of 900 keeps 128 beside eight decodes.
        add(&row(908, 9, 900, 3), &graph(RuntimeMode::Piecewise, 1024));
        // Below the threshold the padded batch goes on as it is.
        add(&row(300, 3, 298, 2), &graph(RuntimeMode::Piecewise, 320));
        add(&row(700, 3, 698, 4), &graph(RuntimeMode::Piecewise, 704));
        // Two long prefills, or one and middling ones?
        add(&row(3000, 4, 1500, 5), &graph(RuntimeMode::None, 3000));
        assert_eq!((sum.full_graph_steps, sum.unsettled_steps, sum.batches_without_graph), (50, 5, 4));
        assert_eq!((sum.trimmed_steps, sum.trimmed_tokens), (3, 3 * 772));
        let small = BatchSum { batches: 3, images: 0, real_tokens: 3 * 136, padded_tokens: 3 * 120 };
        let wide = BatchSum { batches: 2, images: 0, real_tokens: 600, padded_tokens: 168 };
        assert_eq!((sum.sizes[&256], sum.sizes[&384], sum.sizes[&512]), (small, wide, BatchSum::default()));
    }

    /// What the other requests may keep, over all ways to split their tokens.
    fn splits(requests: u64, tokens: u64, longest: u64, window: u64) -> BTreeSet<u64> {
        if requests == 0 {
            return if tokens == 0 { BTreeSet::from([0]) } else { BTreeSet::new() };
        }
        let first = 1..=longest.min(tokens);
        first
            .flat_map(|query| {
                let below = splits(requests - 1, tokens - query, longest, window);
                below.into_iter().map(move |kept| kept + query.min(window))
            })
            .collect()
    }

    proptest! {
        #[test]
        fn a_trimmed_batch_is_told_where_every_split_agrees(
            others in 0_u64..5,
            longest in 2_u64..9,
            window in 1_u64..9,
            share in 0.0..1.0_f64,
        ) {
            let rest = others + (share * (others * (longest - 1) + 1) as f64) as u64;
            let row = row(longest + rest, others + 1, longest, 1);
            let kept: Vec<u64> = splits(others, rest, longest, window).into_iter().collect();
            let expected = match kept[..] {
                [one] => Some(longest.min(window) + one),
                _ => None,
            };
            prop_assert_eq!(kept_tokens(&row, window as u32, 1), expected);
        }
    }
}
