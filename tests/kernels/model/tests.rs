//! What holds for whole steps.

use kernels::bf16::{self, Bf16};
use kernels::geometry::ModelShape;
use kernels::launch::Address;
use kernels::machine::Machine;
use kernels::reference::{self, PagedCache, Precision};
use kernels::step::{ModelWeights, Output, StaticBuffers, Step};

use super::batch::{Batch, Request};
use super::runner::Runner;
use super::tiny::{CONSTANTS, Tiny, biased, normed, plain};
use crate::compiler;
use crate::executor::{Executor, Library};

/// Against the reference that also stores bf16: each of the step's roundings may fall the other way and is carried through
/// the layers. Two layers differ by a few units of 2^-9; a wrong operand by 1.
const STORED_TOLERANCE: f64 = 0.012;
/// Against the truth: the roundings themselves, of about a dozen stores a layer.
const EXACT_TOLERANCE: f64 = 0.025;

/// A tiny model on an executor.
struct Loaded<'l> {
    tiny: Tiny,
    executor: Executor<'l>,
    weights: ModelWeights,
    buffers: StaticBuffers,
}

/// What a step leaves of its real rows.
#[derive(Clone, Debug, PartialEq)]
struct Left {
    hidden: Vec<Bf16>,
    logits: Vec<Bf16>,
    tokens: Vec<i32>,
    caches: Vec<Vec<u8>>,
}

/// How a step is run.
#[derive(Clone, Copy, Default)]
struct How {
    poison: Option<u8>,
    too_early: Option<usize>,
}

impl<'l> Loaded<'l> {
    fn new(library: &'l Library, order: u32, shape: ModelShape) -> Self {
        let tiny = Tiny::new(shape);
        let mut executor = Executor::new(library, order);
        let (weights, buffers) = (tiny.load(&mut executor), tiny.buffers(&mut executor));
        Self { tiny, executor, weights, buffers }
    }

    fn read<T>(&mut self, from: Address, count: usize, read: impl Fn(&[u8]) -> T, bytes: usize) -> Vec<T> {
        let mut content = vec![0; count * bytes];
        self.executor.read(from, &mut content).unwrap();
        content.chunks_exact(bytes).map(read).collect()
    }

    /// Runs a step; gives what it left, and how many products had their output over their input.
    fn run(&mut self, batch: &Batch, how: How) -> (Left, usize) {
        batch.write(&mut self.executor, &self.buffers);
        let step = Step::new(&self.tiny.geometry, CONSTANTS, &self.weights, &self.buffers, batch.shape()).unwrap();
        let mut runner = Runner::new(&mut self.executor);
        runner.poison = how.poison.unwrap_or(0xff);
        runner.too_early = how.too_early;
        let outputs = step.run(&mut runner, Output::HeldThroughHead).unwrap();
        assert_eq!(runner.live(), 0);
        assert_eq!(runner.launches.len(), step.launches() as usize);
        let overlapping = runner.overlapping_products;
        (self.left(batch, outputs.hidden, outputs.logits), overlapping)
    }

    /// What lies where a step left it.
    fn left(&mut self, batch: &Batch, hidden: Address, logits: Address) -> Left {
        let (rows, requests) = (batch.real_rows().len(), batch.requests.len());
        let (width, vocabulary) = (self.tiny.geometry.hidden as usize, self.tiny.geometry.vocabulary as usize);
        let number = |pair: &[u8]| Bf16(u16::from_le_bytes([pair[0], pair[1]]));
        let word = |word: &[u8]| i32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let (cache_bytes, caches) = (self.tiny.cache_bytes(), self.buffers.caches.clone());
        Left {
            hidden: self.read(hidden, rows * width, number, 2),
            logits: self.read(logits, requests * vocabulary, number, 2),
            tokens: self.read(self.buffers.tokens, requests, word, 4),
            caches: caches.into_iter().map(|cache| self.read(cache, cache_bytes, |byte| byte[0], 1)).collect(),
        }
    }
}

/// Norm of the differences relative to the norm of `want`.
fn relative(got: &[Bf16], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let off_by: f64 = bf16::to_f64s(got).iter().zip(want).map(|(got, want)| (got - want).powi(2)).sum();
    let norm: f64 = want.iter().map(|want| want * want).sum();
    (off_by / norm).sqrt()
}

/// The reference's hidden states and logits of a batch.
fn expected(
    model: &reference::Model,
    batch: &Batch,
    caches: &mut [PagedCache<f64>],
    precision: Precision,
) -> (Vec<f64>, Vec<f64>) {
    let hidden = model.hidden(&batch.real_rows(), caches, precision);
    let width = model.geometry.hidden as usize;
    let sampled: Vec<f64> = batch.last_rows().iter().flat_map(|row| &hidden[row * width..][..width]).copied().collect();
    let logits = model.logits(&sampled, precision);
    (hidden, logits)
}

/// Steps of three requests: two prompts at once and one in two chunks, with decodes between them; then decodes only.
fn conversation() -> Vec<Batch> {
    let [first, second, third] = [&[5, 2][..], &[7], &[0, 1, 3]];
    let request = |name, context, chunk, blocks| Request::new(name, context, chunk, blocks);
    vec![
        Batch::mixed(&[request("a", 0, 5, first), request("b", 0, 14, second)], 24, 4),
        Batch::mixed(&[request("a", 5, 1, first), request("b", 14, 1, second), request("c", 0, 31, third)], 40, 4),
        Batch::mixed(&[request("c", 31, 8, third), request("a", 6, 1, first)], 9, 2),
        Batch::decode(&[request("a", 7, 1, first), request("b", 15, 1, second), request("c", 39, 1, third)], 8),
        Batch::decode(&[request("c", 40, 1, third), request("a", 8, 1, first)], 2),
        Batch { splits: 1, ..Batch::decode(&[request("a", 9, 1, first), request("c", 41, 1, third)], 20) },
    ]
}

#[test]
fn steps_agree_with_the_reference() {
    let Some(library) = compiler::executor() else { return };
    println!("{:<30} {:>5} {:>14} {:>14} {:>14}", "model", "order", "hidden, stored", "hidden, exact", "logits, exact");
    for (name, shape) in [("plain", plain()), ("bias, tied embeddings", biased()), ("QK-norm", normed())] {
        let (tiny, steps) = (Tiny::new(shape.clone()), conversation());
        let model = tiny.reference();
        let [stored, exact] = [Precision::Bf16, Precision::Exact].map(|precision| {
            let mut caches = tiny.caches();
            let step = |batch| expected(&model, batch, &mut caches, precision);
            steps.iter().map(step).collect::<Vec<_>>()
        });
        for order in [0, 1, 2] {
            let mut loaded = Loaded::new(&library, order, shape.clone());
            let mut worst = [0.0_f64; 3];
            for ((batch, (stored, _)), (exact, logits)) in steps.iter().zip(&stored).zip(&exact) {
                let (left, _) = loaded.run(batch, How::default());
                let off_by =
                    [relative(&left.hidden, stored), relative(&left.hidden, exact), relative(&left.logits, logits)];
                for (worst, off_by) in worst.iter_mut().zip(off_by) {
                    *worst = worst.max(off_by);
                }
                // Greedy sampling of the machine's own logits is exact.
                let vocabulary = model.geometry.vocabulary as usize;
                assert_eq!(left.tokens, reference::argmax(&bf16::to_f64s(&left.logits), vocabulary));
            }
            println!("{name:<30} {order:>5} {:>14.2e} {:>14.2e} {:>14.2e}", worst[0], worst[1], worst[2]);
            assert!(worst[0] < STORED_TOLERANCE && worst[1] < EXACT_TOLERANCE && worst[2] < EXACT_TOLERANCE);
        }
    }
}

/// A decode step behind prompts that fill the caches.
fn after_prompts(loaded: &mut Loaded) -> Vec<Request> {
    let requests = [("a", 5, &[5, 2][..]), ("b", 14, &[7]), ("c", 37, &[0, 1, 3])];
    let prompts = requests.map(|(name, context, blocks)| Request::new(name, 0, context, blocks));
    loaded.run(&Batch::mixed(&prompts, 56, 3), How::default());
    requests.map(|(name, context, blocks)| Request::new(name, context, 1, blocks)).to_vec()
}

#[test]
fn padded_rows_never_change_real_rows() {
    let Some(library) = compiler::executor() else { return };
    for shape in [plain(), biased(), normed()] {
        let mut loaded = Loaded::new(&library, 0, shape);
        let requests = after_prompts(&mut loaded);
        let unpadded = loaded.run(&Batch::decode(&requests, 3), How::default()).0;
        // Running a token again writes the same into the caches: all of this is one state.
        for rows in [3, 4, 8, 13, 16] {
            for (garbage, poison) in [(0, 0xff), (1, 0x00), (2, 0x41)] {
                let batch = Batch { garbage, ..Batch::decode(&requests, rows) };
                let padded = loaded.run(&batch, How { poison: Some(poison), ..How::default() }).0;
                // Up to 16 rows take the same tiles in the same ranges: bit for bit.
                assert!(padded == unpadded, "{rows} rows, garbage {garbage}, differ");
            }
        }
        // Other tiles add in another order.
        for rows in [17, 64, 80] {
            let padded = loaded.run(&Batch::decode(&requests, rows), How::default()).0;
            let again = Batch { garbage: 9, ..Batch::decode(&requests, rows) };
            assert!(loaded.run(&again, How { poison: Some(0x41), ..How::default() }).0 == padded);
            let off_by = relative(&padded.hidden, &bf16::to_f64s(&unpadded.hidden));
            assert!(off_by < STORED_TOLERANCE, "{rows} rows differ by {off_by}");
        }
    }
}

#[test]
fn padded_rows_of_mixed_steps_never_change_real_rows() {
    let Some(library) = compiler::executor() else { return };
    let mut loaded = Loaded::new(&library, 0, plain());
    let mut requests = after_prompts(&mut loaded);
    requests.insert(1, Request::new("d", 0, 6, &[4]));
    let unpadded = loaded.run(&Batch::mixed(&requests, 9, 4), How::default()).0;
    for (rows, padded_requests) in [(9, 4), (9, 7), (12, 4), (16, 9)] {
        for (garbage, poison) in [(0, 0xff), (1, 0x00), (2, 0x41)] {
            let batch = Batch { garbage, ..Batch::mixed(&requests, rows, padded_requests) };
            let padded = loaded.run(&batch, How { poison: Some(poison), ..How::default() }).0;
            assert!(padded == unpadded, "{rows} rows, {padded_requests} requests, garbage {garbage}, differ");
        }
    }
}

#[test]
fn the_same_launches_with_other_inputs_give_what_a_new_step_gives() {
    let Some(library) = compiler::executor() else { return };
    for order in [0, 1, 2] {
        let mut loaded = Loaded::new(&library, order, plain());
        let requests = after_prompts(&mut loaded);
        let batches = [&requests[..2], &requests[1..], &requests[..]].map(|requests| Batch::decode(requests, 8));
        // Once for all requests: running a token again writes the same into the caches, so all that follows is one state.
        loaded.run(&batches[2], How::default());
        let fresh = batches.each_ref().map(|batch| loaded.run(batch, How::default()).0);

        // What a graph holds: launches with their addresses. It is captured on padding alone.
        let padding = Batch::decode(&[], 8);
        padding.write(&mut loaded.executor, &loaded.buffers);
        let step = Step::new(&loaded.tiny.geometry, CONSTANTS, &loaded.weights, &loaded.buffers, padding.shape());
        let mut runner = Runner::new(&mut loaded.executor);
        let outputs = step.unwrap().run(&mut runner, Output::HeldThroughHead).unwrap();
        let launches = runner.launches;
        for (batch, fresh) in batches.iter().zip(&fresh) {
            batch.write(&mut loaded.executor, &loaded.buffers);
            for launch in &launches {
                loaded.executor.launch(launch).unwrap();
            }
            let replayed = loaded.left(batch, outputs.hidden, outputs.logits);
            assert!(replayed == *fresh, "order {order}: the replay differs");
        }
    }
}

#[test]
fn memory_given_back_too_early_is_noticed() {
    let Some(library) = compiler::executor() else { return };
    let mut loaded = Loaded::new(&library, 0, plain());
    let requests = after_prompts(&mut loaded);
    let batch = Batch::decode(&requests, 8);
    let good = loaded.run(&batch, How::default()).0;
    let (mut products, mut noticed) = (0, 0);
    // Allocations: the embedding; of two layers each two norms, four products, attention's output and its ranges, the
    // activation; the final norm, the chosen rows, the logits.
    for allocation in 0..1 + 2 * 9 + 3 {
        let (left, overlapping) = loaded.run(&batch, How { too_early: Some(allocation), ..How::default() });
        let off_by = relative(&left.hidden, &bf16::to_f64s(&good.hidden));
        let logits_off_by = relative(&left.logits, &bf16::to_f64s(&good.logits));
        products += overlapping;
        // NaN is far off, too.
        let near = off_by < EXACT_TOLERANCE && logits_off_by < EXACT_TOLERANCE;
        noticed += usize::from(overlapping > 0 && !near);
        // Caches are spoilt by a spoilt step: write them anew.
        after_prompts(&mut loaded);
    }
    println!("planted bug: memory given back too early under a product: {noticed} of {products} noticed");
    // Four products a layer, two layers, and the head.
    assert_eq!((products, noticed), (9, 9));
}
