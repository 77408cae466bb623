//! The order of a step's parts and the life of its activations, by hand; what they compute is checked on machines.

use std::collections::BTreeMap;

use super::*;
use crate::geometry::ModelShape;
use crate::launch::{Arguments, Kernel, Launch};

#[test]
fn presets_have_constants_of_their_own() {
    use crate::geometry::PRESETS;
    let bases = PRESETS.map(|name| Constants::preset(name).unwrap().rotary_base);
    let [ten, half, one] = [10_000, 500_000, 1_000_000];
    assert_eq!(bases.map(|base| base as u32), [ten, ten, ten, half, half, half, half, half, one, one, one]);
    assert_eq!(Constants::preset("gpt-17"), None);
}

/// Writes down what comes; memory is never used twice, so that an address names one activation.
#[derive(Default)]
struct Notes {
    parts: Vec<StepPart>,
    live: BTreeMap<Address, u64>,
    live_bytes: u64,
    peak_bytes: u64,
    next: u64,
}

impl Activations for Notes {
    type Error = ShapeError;
    fn allocate(&mut self, bytes: u64) -> Result<Address, ShapeError> {
        self.next += 1 << 20;
        self.live.insert(Address(self.next), bytes);
        self.live_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
        Ok(Address(self.next))
    }
    fn free(&mut self, activation: Address) -> Result<(), ShapeError> {
        self.live_bytes -= self.live.remove(&activation).expect("only what lives is freed, and once");
        Ok(())
    }
}

impl StepRunner for Notes {
    fn perform(&mut self, part: StepPart) -> Result<(), ShapeError> {
        self.parts.push(part);
        Ok(())
    }
}

fn geometry(change: impl Fn(&mut ModelShape)) -> ModelGeometry {
    let mut shape = ModelShape {
        layers: 2,
        hidden: 128,
        intermediate: 320,
        query_heads: 4,
        kv_heads: 2,
        head_size: 64,
        vocabulary: 500,
        weight_bits: 16,
        kv_bits: 16,
        tied_embeddings: false,
        qkv_bias: false,
        qk_norm: false,
    };
    change(&mut shape);
    ModelGeometry::new(shape).unwrap()
}

fn weights(layers: usize) -> ModelWeights {
    let at = Address(0x1_0000_0000);
    let layer = LayerWeights {
        input_norm: at,
        qkv: at,
        qkv_bias: at.offset(0x100),
        query_norm: at,
        key_norm: at,
        out_projection: at,
        post_norm: at,
        gate_up: at,
        down: at,
    };
    ModelWeights { embedding: at, layers: vec![layer; layers], final_norm: at, head: at }
}

fn buffers(layers: usize) -> StaticBuffers {
    let at = Address(0x2_0000_0000);
    StaticBuffers {
        ids: at,
        positions: at,
        slots: at,
        block_table: at,
        context_lens: at,
        query_starts: at,
        sampled_rows: at,
        tokens: at,
        caches: vec![at; layers],
    }
}

const DECODE: StepShape = StepShape {
    rows: Rows(8),
    attention: AttentionShape::Decode { splits: DecodeSplits::WHOLE },
    sampled: Rows(8),
    block_size: 16,
    blocks_per_request: 4,
};

const MIXED: StepShape = StepShape {
    attention: AttentionShape::Mixed { requests: Requests(3), longest_chunk: Rows(6) },
    sampled: Rows(3),
    ..DECODE
};

const SEPARATE: StepShape = StepShape {
    attention: AttentionShape::Separate {
        decodes: Requests(3),
        splits: DecodeSplits::WHOLE,
        prefills: Requests(2),
        longest_chunk: Rows(4),
    },
    sampled: Rows(5),
    ..DECODE
};

fn run(model: &ModelGeometry, shape: StepShape, output: Output) -> (Notes, u32) {
    let (weights, buffers) = (weights(model.layers as usize), buffers(model.layers as usize));
    let step = Step::new(model, Constants::default(), &weights, &buffers, shape).unwrap();
    let mut notes = Notes::default();
    step.run(&mut notes, output).unwrap();
    (notes, step.launches())
}

/// One letter per part: lower case launches, P products, | before attention, / behind it, # before the head.
fn spelled(parts: &[StepPart]) -> String {
    let letter = |part: &StepPart| match part {
        StepPart::Enter(Place::Piece(0)) => None,
        StepPart::Enter(Place::Piece(_)) => Some('/'),
        StepPart::Enter(Place::Attention(_)) => Some('|'),
        StepPart::Enter(Place::Head) => Some('#'),
        StepPart::Product(_) => Some('P'),
        StepPart::Launch(launch) => Some(match launch.kernel {
            Kernel::Embed => 'e',
            Kernel::RmsNorm => 'n',
            Kernel::HeadNorm => 'h',
            Kernel::Rotary => 'r',
            Kernel::KvWrite => 'w',
            Kernel::DecodeAttention => 'd',
            Kernel::DecodeAttentionMerge => 'm',
            Kernel::PrefillAttention => 'p',
            Kernel::SiluMul => 's',
            Kernel::Argmax => 'a',
            other => panic!("{other:?} has no place in a step"),
        }),
    };
    parts.iter().filter_map(letter).collect()
}

#[test]
fn parts_come_in_order() {
    let plain = geometry(|_| {});
    let spell = |model: &ModelGeometry, shape| spelled(&run(model, shape, Output::HeldThroughHead).0.parts);
    assert_eq!(spell(&plain, DECODE), "enPr|wd/PnPsPnPr|wd/PnPsPn#ePa");
    assert_eq!(spell(&plain, MIXED), "enPr|wp/PnPsPnPr|wp/PnPsPn#ePa");
    assert_eq!(spell(&plain, SEPARATE), "enPr|wdp/PnPsPnPr|wdp/PnPsPn#ePa");
    let split = StepShape { attention: AttentionShape::Decode { splits: DecodeSplits::exactly(2) }, ..DECODE };
    assert_eq!(spell(&plain, split), "enPr|wdm/PnPsPnPr|wdm/PnPsPn#ePa");
    let normed = geometry(|shape| (shape.qk_norm, shape.layers) = (true, 1));
    assert_eq!(spell(&normed, DECODE), "enPhr|wd/PnPsPn#ePa");
}

#[test]
fn launches_are_the_operations_the_row_choice_and_what_attention_has_more() {
    let split = StepShape { attention: AttentionShape::Decode { splits: DecodeSplits::exactly(2) }, ..DECODE };
    for model in [geometry(|_| {}), geometry(|shape| (shape.qk_norm, shape.layers) = (true, 5))] {
        for (shape, joins) in [(DECODE, 0), (MIXED, 0), (split, model.layers), (SEPARATE, model.layers)] {
            let (notes, launches) = run(&model, shape, Output::HeldThroughHead);
            let counted = notes.parts.iter().filter(|part| !matches!(part, StepPart::Enter(_))).count();
            assert_eq!(counted, launches as usize);
            assert_eq!(launches, step_operations(&model) + 1 + joins);
        }
    }
}

#[test]
fn chunks_behind_decodes_find_their_requests() {
    let (notes, _) = run(&geometry(|shape| shape.layers = 1), SEPARATE, Output::HeldThroughHead);
    let launched = |kernel| {
        let of_kernel = |part: &StepPart| match part {
            StepPart::Launch(launch) if launch.kernel == kernel => Some(launch.clone()),
            _ => None,
        };
        notes.parts.iter().find_map(of_kernel).unwrap()
    };
    // Pointers come first, those of decodes with one more; the buffers begin at 2^33.
    let pointers = |launch: &Launch, first: usize| -> Vec<u64> {
        let words = launch.arguments.bytes().chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        words.take(6).skip(first).map(|word| word - 0x2_0000_0000).collect()
    };
    let (decode, prefill) = (launched(Kernel::DecodeAttention), launched(Kernel::PrefillAttention));
    assert_eq!((decode.grid, prefill.grid), ([3, 2, 1], [1, 4, 2]));
    // Cache, block table, context lengths; and three requests further on (4 blocks each), their first rows between.
    assert_eq!(pointers(&decode, 3), [0, 0, 0]);
    assert_eq!(pointers(&prefill, 2), [0, 3 * 4 * 4, 3 * 4, 3 * 4]);
}

#[test]
fn pieces_are_one_more_than_attentions() {
    let model = geometry(|shape| shape.layers = 5);
    let (notes, _) = run(&model, DECODE, Output::HeldThroughHead);
    let places: Vec<Place> = notes
        .parts
        .iter()
        .filter_map(|part| if let StepPart::Enter(place) = part { Some(*place) } else { None })
        .collect();
    let mut want = vec![Place::Piece(0)];
    for layer in 0..5 {
        want.extend([Place::Attention(layer), Place::Piece(layer + 1)]);
    }
    want.push(Place::Head);
    assert_eq!(places, want);
}

#[test]
fn every_activation_is_freed_once_and_the_peak_is_known() {
    let model = geometry(|_| {});
    for output in [Output::HeldThroughHead, Output::HeldWeakly] {
        let (notes, _) = run(&model, DECODE, output);
        assert!(notes.live.is_empty(), "{:?}", notes.live);
        // 8 rows of bf16: residual 128, gate and up 640, their product 320.
        assert_eq!(notes.peak_bytes, 8 * 2 * (128 + 640 + 320));
    }
}

/// What the model's configuration says reaches every kernel that needs it: an epsilon of another size, for instance, would
/// hardly show in a result.
#[test]
fn constants_reach_the_kernels() {
    let model = geometry(|shape| shape.qk_norm = true);
    let scale = 1.0 / 64.0_f32.sqrt();
    for (shape, attention) in [(DECODE, Kernel::DecodeAttention), (MIXED, Kernel::PrefillAttention)] {
        let constants = Constants { epsilon: 3e-6, rotary_base: 1e6 };
        let (weights, buffers) = (weights(2), buffers(2));
        let mut notes = Notes::default();
        let step = Step::new(&model, constants, &weights, &buffers, shape).unwrap();
        step.run(&mut notes, Output::HeldThroughHead).unwrap();
        let given = |kernel: Kernel, name: &str| -> Vec<f32> {
            let place = kernel.parameters().iter().position(|parameter| parameter.name == name).unwrap();
            let launches = notes.parts.iter().filter_map(|part| match part {
                StepPart::Launch(launch) if launch.kernel == kernel => Some(&launch.arguments),
                _ => None,
            });
            let value = |arguments: &Arguments| arguments.bytes()[arguments.offsets()[place]..][..4].try_into();
            launches.map(|arguments| f32::from_le_bytes(value(arguments).unwrap())).collect()
        };
        assert_eq!(given(Kernel::RmsNorm, "epsilon"), [3e-6; 5]);
        assert_eq!(given(Kernel::HeadNorm, "epsilon"), [3e-6; 2]);
        assert_eq!(given(Kernel::Rotary, "log2_theta"), [1e6_f32.log2(); 2]);
        assert_eq!(given(attention, "scale"), [scale; 2]);
    }
}

#[test]
fn a_bias_is_passed_only_if_the_model_has_one() {
    for has_bias in [false, true] {
        let (notes, _) = run(&geometry(|shape| shape.qkv_bias = has_bias), DECODE, Output::HeldThroughHead);
        let biased = |part: &&StepPart| matches!(part, StepPart::Product(product) if product.bias != Address::NONE);
        assert_eq!(notes.parts.iter().filter(biased).count(), if has_bias { 2 } else { 0 });
    }
}

#[test]
fn what_cannot_be_run_is_refused_by_name() {
    let refused = |change: fn(&mut ModelShape), shape: StepShape, layers| {
        let model = geometry(change);
        let (weights, buffers) = (weights(layers), buffers(2));
        let step = Step::new(&model, Constants::default(), &weights, &buffers, shape);
        step.and_then(|step| step.run(&mut Notes::default(), Output::HeldThroughHead)).unwrap_err().to_string()
    };
    assert_eq!(
        refused(|shape| shape.weight_bits = 8, DECODE, 2),
        "decoder step: weight_bits = 8: expected 16: the kernels compute in bf16"
    );
    assert_eq!(
        refused(|_| {}, DECODE, 3),
        "decoder step: layers of weights = 3: expected one for each of the model's 2 layers"
    );
    assert_eq!(
        refused(|_| {}, StepShape { rows: Rows(0), ..DECODE }, 2),
        "decoder step: rows = 0: expected at least 1"
    );
    let mixed = AttentionShape::Mixed { requests: Requests(3), longest_chunk: Rows(9) };
    assert_eq!(
        refused(|_| {}, StepShape { attention: mixed, ..DECODE }, 2),
        "decoder step: longest_chunk = 9: expected at most rows = 8"
    );
    assert_eq!(
        refused(|_| {}, StepShape { sampled: Rows(0), ..DECODE }, 2),
        "decoder step: sampled = 0: expected at least 1"
    );
    assert_eq!(refused(|shape| shape.head_size = 80, DECODE, 2), "rotary_bf16: head_size = 80: expected 64 or 128");
    assert_eq!(refused(|shape| shape.hidden = 100, DECODE, 2), "embed_bf16: hidden = 100: expected a multiple of 8");
}
