//! Graphs of a multimodal encoder in vLLM main: token budgets, and images packed into them.
//!
//! The documentation says that a budget is a fixed token capacity, that images are packed greedily into the smallest
//! budget that fits, and that unset budgets are powers of two from the model's smallest to its largest. Inferred from it:
//! images are packed in the order of their requests, one batch after another, each as long as the largest budget and the
//! item limit hold it; an image above the largest budget runs alone without a graph.

use thiserror::Error;

/// Options of encoder graphs, as the user gave them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncoderOptions {
    /// Encoder graphs are captured.
    pub cudagraph_mm_encoder: bool,
    /// Token budgets, in tokens; empty for the engine's own.
    pub encoder_cudagraph_token_budgets: Vec<u32>,
    /// Most images or videos of a batch; 0 for the engine's own figure.
    pub encoder_cudagraph_max_vision_items_per_batch: u32,
    /// Most video frames of a batch; `None` for the engine's own figure, 0 for images only.
    pub encoder_cudagraph_max_frames_per_batch: Option<u32>,
}

/// What the model says about its encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderModel {
    /// Smallest useful budget, in tokens.
    pub min_budget: u32,
    /// Largest useful budget, in tokens.
    pub max_budget: u32,
    /// Most frames of one video; 0 for a model without videos.
    pub max_frames_per_video: u32,
}

/// Options, or a model's range, from which the engine makes no graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EncoderError {
    /// A budget of zero tokens, at which the engine stops with a `ValueError`.
    #[error("encoder_cudagraph_token_budgets holds 0: give budgets of at least 1 token, or none for the engine's own")]
    ZeroBudget,
    /// Nothing is known of the model's encoder.
    #[error(
        "cudagraph_mm_encoder is on, but the model's range of encoder budgets is not known: give \
         encoder_budget_range = [smallest, largest] under [model], or --encoder-budget-range"
    )]
    NoRange,
    /// The model's range is empty.
    #[error("the encoder's budgets run from {min_budget} to {max_budget} tokens: give a range of at least 1 token")]
    EmptyRange {
        /// Smallest budget, in tokens.
        min_budget: u32,
        /// Largest budget, in tokens.
        max_budget: u32,
    },
}

/// One image or video to be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisionItem {
    /// Encoder tokens.
    pub tokens: u32,
    /// Frames: 1 for an image.
    pub frames: u32,
}

impl VisionItem {
    /// An image of so many encoder tokens.
    #[must_use]
    pub const fn image(tokens: u32) -> Self {
        Self { tokens, frames: 1 }
    }
}

/// One run of the encoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncoderBatch {
    /// Its items, in the order of arrival.
    pub items: Vec<VisionItem>,
    /// The budget whose graph runs, in tokens; `None` without a graph.
    pub budget: Option<u32>,
}

/// The encoder's graphs: one a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncoderGraphs {
    budgets: Vec<u32>,
    items_max: u32,
    frames_max: u32,
}

impl EncoderGraphs {
    /// The graphs for the options; none if they are off.
    ///
    /// # Errors
    /// [`EncoderError`].
    pub fn new(options: &EncoderOptions, model: EncoderModel) -> Result<Self, EncoderError> {
        let EncoderModel { min_budget, max_budget, max_frames_per_video } = model;
        if options.encoder_cudagraph_token_budgets.contains(&0) {
            return Err(EncoderError::ZeroBudget);
        }
        if min_budget == 0 || min_budget > max_budget {
            return Err(EncoderError::EmptyRange { min_budget, max_budget });
        }
        let mut budgets = options.encoder_cudagraph_token_budgets.clone();
        if budgets.is_empty() {
            budgets = powers_of_two(min_budget, max_budget);
        }
        budgets.sort_unstable();
        budgets.dedup();
        if !options.cudagraph_mm_encoder {
            budgets.clear();
        }
        let items_max = match options.encoder_cudagraph_max_vision_items_per_batch {
            0 => max_budget / min_budget,
            given => given,
        };
        let inferred_frames = items_max.saturating_mul(max_frames_per_video.max(1));
        let frames_max = match options.encoder_cudagraph_max_frames_per_batch {
            // Images only: an image is one frame.
            Some(0) => items_max,
            Some(given) => given,
            None => inferred_frames,
        };
        Ok(Self { budgets, items_max, frames_max })
    }

    /// Token budgets, ascending: the graphs captured.
    #[must_use]
    pub fn budgets(&self) -> &[u32] {
        &self.budgets
    }

    /// Most items of one graph.
    #[must_use]
    pub fn items_max(&self) -> u32 {
        self.items_max
    }

    /// Packs items into batches, in order: a batch takes the next item while the largest budget and the limits hold it, and
    /// runs the smallest budget that holds the batch. An item that no graph holds runs alone, without one.
    #[must_use]
    pub fn pack(&self, items: &[VisionItem]) -> Vec<EncoderBatch> {
        let mut batches = Vec::new();
        let mut open: Vec<VisionItem> = Vec::new();
        for &item in items {
            if !self.holds(&[item]) {
                self.close(&mut open, &mut batches);
                batches.push(EncoderBatch { items: vec![item], budget: None });
                continue;
            }
            open.push(item);
            if !self.holds(&open) {
                open.pop();
                self.close(&mut open, &mut batches);
                open.push(item);
            }
        }
        self.close(&mut open, &mut batches);
        batches
    }

    fn close(&self, open: &mut Vec<VisionItem>, batches: &mut Vec<EncoderBatch>) {
        if open.is_empty() {
            return;
        }
        let items = std::mem::take(open);
        let tokens = total(&items, |item| item.tokens);
        let budget = self.budgets.iter().copied().find(|&budget| u64::from(budget) >= tokens);
        batches.push(EncoderBatch { items, budget });
    }

    fn holds(&self, items: &[VisionItem]) -> bool {
        let largest = u64::from(self.budgets.last().copied().unwrap_or(0));
        total(items, |item| item.tokens) <= largest
            && items.len() as u64 <= u64::from(self.items_max)
            && total(items, |item| item.frames) <= u64::from(self.frames_max)
    }
}

impl EncoderBatch {
    /// Encoder tokens of its items.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        total(&self.items, |item| item.tokens)
    }

    /// Tokens that the graph runs and no item asked for; 0 without a graph.
    #[must_use]
    pub fn padded_tokens(&self) -> u64 {
        self.budget.map_or(0, |budget| u64::from(budget) - self.tokens())
    }
}

/// The powers of two from the smallest budget to the largest, which both belong to the list.
fn powers_of_two(min_budget: u32, max_budget: u32) -> Vec<u32> {
    let levels = std::iter::successors(Some(min_budget), |&level| level.checked_mul(2));
    levels.take_while(|&level| level < max_budget).chain([max_budget]).collect()
}

fn total(items: &[VisionItem], of: impl Fn(&VisionItem) -> u32) -> u64 {
    items.iter().map(|item| u64::from(of(item))).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MODEL: EncoderModel = EncoderModel { min_budget: 64, max_budget: 1000, max_frames_per_video: 4 };

    fn graphs(options: EncoderOptions) -> EncoderGraphs {
        EncoderGraphs::new(&EncoderOptions { cudagraph_mm_encoder: true, ..options }, MODEL).expect("valid options")
    }

    fn images(tokens: &[u32]) -> Vec<VisionItem> {
        tokens.iter().map(|&tokens| VisionItem::image(tokens)).collect()
    }

    fn packed(graphs: &EncoderGraphs, items: &[VisionItem]) -> Vec<(u64, Option<u32>)> {
        graphs.pack(items).iter().map(|batch| (batch.tokens(), batch.budget)).collect()
    }

    #[test]
    fn budgets_and_limits_follow_the_model() {
        let own = graphs(EncoderOptions::default());
        assert_eq!((own.budgets(), own.items_max()), (&[64, 128, 256, 512, 1000][..], 15));
        let listed =
            EncoderOptions { encoder_cudagraph_token_budgets: vec![4096, 2048, 2048], ..EncoderOptions::default() };
        assert_eq!(graphs(listed).budgets(), [2048, 4096]);
        assert!(EncoderGraphs::new(&EncoderOptions::default(), MODEL).expect("off").budgets().is_empty());
    }

    #[test]
    fn images_share_the_smallest_budget_that_fits() {
        let own = graphs(EncoderOptions::default());
        let expected = [(700, Some(1000)), (500, Some(512)), (1200, None), (40, Some(64))];
        assert_eq!(packed(&own, &images(&[500, 200, 500, 1200, 40])), expected);
        let two =
            graphs(EncoderOptions { encoder_cudagraph_max_vision_items_per_batch: 2, ..EncoderOptions::default() });
        assert_eq!(packed(&two, &images(&[50, 50, 50])), [(100, Some(128)), (50, Some(64))]);
        assert_eq!(two.pack(&images(&[50, 50]))[0].padded_tokens(), 28);
    }

    #[test]
    fn frames_are_limited_too() {
        let few =
            graphs(EncoderOptions { encoder_cudagraph_max_frames_per_batch: Some(5), ..EncoderOptions::default() });
        let video = VisionItem { tokens: 100, frames: 4 };
        assert_eq!(packed(&few, &[video, video]), [(100, Some(128)), (100, Some(128))]);
        let long = VisionItem { tokens: 100, frames: 6 };
        assert_eq!(packed(&few, &[long]), [(100, None)]);
    }

    #[test]
    fn nonsense_is_refused() {
        let zero = EncoderOptions { encoder_cudagraph_token_budgets: vec![64, 0], ..EncoderOptions::default() };
        assert_eq!(EncoderGraphs::new(&zero, MODEL), Err(EncoderError::ZeroBudget));
        let reversed = EncoderModel { min_budget: 9, max_budget: 8, ..MODEL };
        assert!(matches!(
            EncoderGraphs::new(&EncoderOptions::default(), reversed),
            Err(EncoderError::EmptyRange { .. })
        ));
    }

    /// The packing as the module's head words it, by trying every end of the next batch.
    fn reference(budgets: &[u32], items_max: usize, tokens: &[u32]) -> Vec<(u64, Option<u32>)> {
        let largest = u64::from(*budgets.last().expect("budgets"));
        let (mut batches, mut start) = (Vec::new(), 0);
        while start < tokens.len() {
            let sum = |end: usize| tokens[start..end].iter().map(|&tokens| u64::from(tokens)).sum::<u64>();
            let ends = (start + 1)..=tokens.len().min(start + items_max);
            match ends.rev().find(|&end| sum(end) <= largest) {
                None => {
                    batches.push((sum(start + 1), None));
                    start += 1;
                }
                Some(end) => {
                    let budget = budgets.iter().copied().find(|&budget| u64::from(budget) >= sum(end));
                    batches.push((sum(end), budget));
                    start = end;
                }
            }
        }
        batches
    }

    proptest! {
        #[test]
        fn packing_agrees_with_the_slow_search(
            tokens in prop::collection::vec(1_u32..1500, 0..20),
            budgets in prop::collection::btree_set(1_u32..1200, 1..6),
            items_max in 1_u32..6,
        ) {
            let budgets: Vec<u32> = budgets.into_iter().collect();
            let made = graphs(EncoderOptions {
                encoder_cudagraph_token_budgets: budgets.clone(),
                encoder_cudagraph_max_vision_items_per_batch: items_max,
                ..EncoderOptions::default()
            });
            prop_assert_eq!(packed(&made, &images(&tokens)), reference(&budgets, items_max as usize, &tokens));
        }
    }
}
