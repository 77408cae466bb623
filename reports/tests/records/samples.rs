//! Records with plausible figures, no two alike, so that a mixed-up column shows.

use reports::{
    Alternative, ArtifactReport, BatchCount, Better, BudgetCounts, CandidateHistory, CandidateReport, CaptureReport,
    Choice, ComparisonReport, CostTerms, DescriptorRecord, Difference, EncoderCounts, EngineReport, ExplainReport,
    FIGURES, Figure, FlagsFile, FlagsReport, GroupReport, HistoryReport, LadderCandidate, LadderChoice, LadderCounts,
    LadderReport, LadderSizes, PaddedSpan, PairReport, PhaseReport, PriceCandidate, PriceReport, PriceRung,
    ProfileReport, ProposeQuestion, ProposeReport, ProposeVerdict, ReplayCounts, ReplaySizeCounts, RequestRecord,
    RuleCheck, RunBySeed, RunReport, RungReport, RungWorth, STEP_SCHEMA, SWEEP_SCHEMA, Saving, Scale, ScenarioReport,
    SearchReport, SeedFigures, Sensitivity, SensitivityPoint, SingleChange, SloReport, StartMemory, StartupCandidate,
    StartupReport, StepHeader, StepRecord, StepShapeReport, StepTimes, SweepAxis, SweepCollector, SweepManifest,
    SweepPoint, SweepReport, SweepSetting, SweptFile, Timeline, TimelineBin, Verdict, Warning,
};
use serde_json::json;

pub(crate) fn engine() -> EngineReport {
    EngineReport {
        name: "vllm".into(),
        version: "0.33.0".into(),
        runner: Some("v2".into()),
        max_num_seqs: 256,
        max_num_batched_tokens: 8192,
        max_model_len: Some(16_384),
        attention_support: Some("ALWAYS".into()),
        async_scheduling: Some(true),
    }
}

/// The ladders of an engine whose steps all pad to the same sizes.
fn ladders(sizes: &[u32]) -> Vec<LadderSizes> {
    vec![LadderSizes { phase: "all".into(), unit: "tokens".into(), sizes: sizes.to_vec() }]
}

pub(crate) fn scenario() -> ScenarioReport {
    ScenarioReport {
        name: "Chunked prefill against a 512-token ceiling".into(),
        sha256: "5f".repeat(32),
        requests: Some(20_000),
        slo: Some(SloReport { ttft_ms: Some(500.0), tpot_ms: Some(40.0), e2el_ms: None }),
    }
}

pub(crate) fn profile() -> ProfileReport {
    let group = |group: &str, kind: &'static str, source: &str| GroupReport {
        group: group.into(),
        kind: kind.into(),
        source: source.into(),
        licence: None,
        valid_range: None,
        method: None,
        stated_error: None,
    };
    ProfileReport {
        name: "a100-llama-3-8b".into(),
        sha256: "a1".repeat(32),
        device: Some("NVIDIA A100-SXM4-80GB".into()),
        model: Some("Llama-3-8B".into()),
        overlap: "pipelined".into(),
        groups: vec![
            GroupReport {
                licence: Some("MIT".into()),
                valid_range: Some("1 to 32,768 rows".into()),
                method: Some("medians per size, summed over the layers of the model".into()),
                stated_error: Some(
                    "within 0.6 % (95 %), sizes left out of its table 0.4 % off in the median, 4.7 % at most, at 65"
                        .into(),
                ),
                ..group("machine.dense", "derived", "Vidur profiling data")
            },
            group("machine.launch", "declared", "planning figure, 3 to 8 µs"),
        ],
    }
}

pub(crate) fn warnings() -> Vec<Warning> {
    vec![
        Warning::general("prefix_cache_off", "the engine has its prefix cache on by default; here it is off."),
        Warning::about(
            "textbook",
            "ceiling_inside_load",
            "41 % of steps are larger than the top rung 32 and run without a graph: raise the ceiling to 256.",
        ),
    ]
}

pub(crate) fn descriptor(mode: &'static str, tokens: u32, uniform: Option<u32>) -> DescriptorRecord {
    DescriptorRecord {
        mode: mode.into(),
        tokens,
        requests: uniform.map(|uniform| tokens / uniform),
        uniform,
        max_query: None,
        loras: 0,
        ubatches: 1,
        prefix_chunks: None,
    }
}

fn rung(mode: &'static str, size: u32, steps: u64, padded_rows: u64, saved_ms: f64) -> RungReport {
    RungReport {
        mode: mode.into(),
        phase: None,
        size,
        steps: steps.into(),
        exact_steps: (steps / 3).into(),
        real_rows: (steps * u64::from(size) - padded_rows).into(),
        padded_rows: padded_rows.into(),
        saved_ms: saved_ms.into(),
    }
}

fn artifact(descriptor: Option<DescriptorRecord>, steps: u64) -> ArtifactReport {
    ArtifactReport {
        artifact: descriptor.as_ref().map_or_else(|| "compiled eager".to_owned(), ToString::to_string),
        descriptor,
        steps: steps.into(),
        first_use_s: Figure::from((steps > 0).then_some(steps as f64 / 1_000.0)),
    }
}

/// A candidate with all figures set: figure k is `scale` times a number that grows with k.
fn filled(name: &str, scale: f64) -> CandidateReport {
    let mut candidate = CandidateReport { name: name.into(), ..CandidateReport::default() };
    for (index, spec) in FIGURES.iter().enumerate() {
        *(spec.get_mut)(&mut candidate) = match (spec.unit, spec.scale) {
            (_, Scale::Percent) => Figure::from(scale * (index + 1) as f64 / 200.0),
            ("bytes", _) => Figure::from((scale * 1e9) as u64 + index as u64),
            ("steps" | "requests" | "tokens" | "blocks" | "preemptions" | "descriptors" | "graphs", _) => {
                Figure::from((scale * 1_000.0) as u64 + index as u64)
            }
            _ => Figure::from(scale * (index as f64 + 0.25)),
        };
    }
    candidate
}

pub(crate) fn with_graphs(scale: f64) -> CandidateReport {
    let mut candidate = filled("engine default", scale);
    candidate.capture_sizes = vec![1, 2, 4, 8, 16];
    candidate.ladders = ladders(&[1, 2, 4, 8, 16]);
    candidate.cudagraph_mode = "FULL_AND_PIECEWISE".into();
    let count = |steps: f64| (steps * scale) as u64;
    candidate.rungs = vec![
        rung("PIECEWISE", 1, 0, 0, 0.0),
        rung("PIECEWISE", 2, 0, 0, 0.0),
        rung("PIECEWISE", 8, count(90.0), 31, -12.5 * scale),
        rung("FULL", 1, count(12.0), 0, 9.0),
        rung("FULL", 8, count(600.0), 451, 312.25 * scale),
        rung("FULL", 16, 0, 0, 0.0),
    ];
    candidate.per_position_acceptance_rates = vec![Figure::from(0.75), Figure::from(0.5)];
    candidate.artifacts = vec![
        artifact(Some(descriptor("FULL", 8, Some(1))), count(600.0)),
        artifact(Some(descriptor("PIECEWISE", 8, None)), count(90.0)),
        artifact(Some(descriptor("FULL", 16, Some(1))), 0),
        artifact(None, count(40.0)),
    ];
    candidate
}

pub(crate) fn without_graphs(scale: f64) -> CandidateReport {
    let mut candidate = filled("no graphs", scale * 1.1);
    candidate.cudagraph_mode = "NONE".into();
    candidate.exact_hit_rate = Figure::Undefined;
    candidate.padding_ratio = Figure::Undefined;
    candidate.waste_share = Figure::Undefined;
    candidate.saved_ms = Figure::from(0.0);
    candidate.cost.bookkeeping_ms = Figure::from(0.0);
    candidate.artifacts = vec![artifact(None, 700)];
    candidate
}

pub(crate) fn run() -> RunReport {
    let mut third = with_graphs(1.25);
    third.name = "ceiling 8192 with a long name".into();
    RunReport {
        version: "0.1.0".into(),
        command: ["sim", "run", "scenarios/chunked.toml", "--seed", "7"].map(str::to_owned).into(),
        scenario: scenario(),
        seed: 7,
        seeds: None,
        engine: engine(),
        profile: profile(),
        warnings: warnings(),
        candidates: vec![with_graphs(1.0), without_graphs(1.0), third],
        pairs: None,
    }
}

/// Three seeds: a candidate that is always slower by about a tenth.
pub(crate) fn run_over_seeds() -> RunReport {
    let baseline: Vec<CandidateReport> = [1.0, 1.01, 0.99].map(with_graphs).into();
    let candidate: Vec<CandidateReport> = [1.0, 1.012, 0.991].map(without_graphs).into();
    RunReport {
        seeds: Some(vec![7, 8, 9]),
        candidates: [&baseline, &candidate]
            .map(|runs| CandidateReport::over_seeds(runs).expect("one candidate"))
            .into(),
        pairs: Some(vec![PairReport::between(&baseline, &candidate)]),
        ..run()
    }
}

/// A sweep over two keys: the manifest, and each point with its report.
pub(crate) fn sweep_points(seeds: &[u64]) -> (SweepManifest, Vec<SweepPoint>) {
    let file = |name: &str| SweptFile { name: name.into(), sha256: "5f".repeat(32) };
    let axes = [
        ("traffic.arrivals.gamma.rate", vec![json!(4.0), json!(8)]),
        (
            "server.vllm.cudagraph_capture_sizes",
            vec![json!([1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72]), json!([1, 32])],
        ),
    ]
    .map(|(key, values)| SweepAxis { key: key.into(), values });
    let manifest = SweepManifest {
        schema: SWEEP_SCHEMA,
        version: "0.1.0".into(),
        scenario: file("Chunked prefill against a 512-token ceiling"),
        profiles: vec![file("a100-llama-3-8b")],
        traces: vec![file("traces/conversation.csv")],
        axes: axes.to_vec(),
        sample: None,
        points: 4,
        candidates: vec!["engine default".into(), "no graphs".into()],
        seeds: seeds.to_vec(),
        shard: None,
    };
    let points = (0..4_u64).map(|point| {
        let settings = [&axes[0].values[point as usize / 2], &axes[1].values[point as usize % 2]];
        let settings = axes.iter().zip(settings);
        let settings = settings.map(|(axis, value)| SweepSetting { key: axis.key.clone(), value: value.clone() });
        let scale = 1.0 + point as f64 / 100.0;
        let of_seeds = |runs: fn(f64) -> CandidateReport, slower: f64| -> Vec<CandidateReport> {
            seeds.iter().map(|seed| runs(scale * (1.0 + slower * (*seed % 3) as f64))).collect()
        };
        let runs = [of_seeds(with_graphs, 0.01), of_seeds(without_graphs, 0.012)];
        let mut report = if seeds.len() > 1 { run_over_seeds() } else { run() };
        report.candidates = runs.iter().map(|runs| CandidateReport::over_seeds(runs).expect("one candidate")).collect();
        SweepPoint::new(point, settings.collect(), report, &runs)
    });
    (manifest, points.collect())
}

/// What those points come to.
pub(crate) fn sweep(seeds: &[u64]) -> SweepReport {
    let (manifest, points) = sweep_points(seeds);
    let mut collector = SweepCollector::new(manifest);
    for point in &points {
        collector.add(point);
    }
    collector.finish()
}

/// Ladders of their own for decode and prefill, over three seeds; `scale` is what they do to every figure.
fn choice(decode: &[u32], prefill: &[u32], scale: f64, current: Option<&[CandidateReport]>) -> LadderChoice {
    let list = |phase: &'static str, unit: &'static str, sizes: &[u32]| LadderSizes {
        phase: phase.into(),
        unit: unit.into(),
        sizes: sizes.to_vec(),
    };
    let lists = vec![list("decode", "requests", decode), list("prefill", "tokens", prefill)];
    LadderChoice::over_seeds(lists.clone(), vec![], &choice_runs(&lists, scale), current).expect("one candidate")
}

fn choice_runs(lists: &[LadderSizes], scale: f64) -> Vec<CandidateReport> {
    let runs = [1.0, 1.01, 0.99].map(|seed| {
        let mut run = with_graphs(scale * seed);
        run.ladders = lists.to_vec();
        run.capture_sizes = lists.iter().flat_map(|list| list.sizes.iter().copied()).collect();
        run.capture_sizes.sort_unstable();
        run.capture_sizes.dedup();
        // What a ladder takes does not depend on the seed, and its goodput is no matter of scale alone.
        run.graph_memory_bytes = Figure::from((scale * 1e9) as u64);
        run.descriptors_captured = Figure::from(run.capture_sizes.len());
        run.fallbacks.mode_excluded = Figure::from(0_u64);
        run.fallbacks.encoder_inputs = Figure::from(0_u64);
        run.fallbacks.other_rank = Figure::from(0_u64);
        run.fallbacks.graphs_off = Figure::from(0_u64);
        run.request_goodput = Figure::from(12.0 + seed + (scale - 1.0) * (seed - 0.995) * 40.0);
        run
    });
    runs.into()
}

/// A difference of which only the verdict was chosen first.
pub(crate) fn difference(mean: f64, half: f64, verdict: Verdict) -> Difference {
    Difference { mean, low: mean - half, high: mean + half, verdict }
}

/// A proposal with every part: lists for decode and prefill, a long front, rungs of every worth, two targets.
pub(crate) fn propose() -> ProposeReport {
    let decode: Vec<u32> = [1, 2, 4].into_iter().chain((8..=256).step_by(8)).chain((272..=512).step_by(16)).collect();
    let current = choice(&decode, &[64, 128, 256, 512], 1.0, None);
    let current_runs = choice_runs(&current.lists, 1.0);
    let other = |decode: &[u32], prefill: &[u32], scale: f64| choice(decode, prefill, scale, Some(&current_runs));
    let mut proposal = other(&[8, 16, 24, 40, 96], &[320, 2048], 0.9);
    proposal.settings = vec!["max_num_seqs = 96".into()];
    // An engine that rounds what it is given.
    proposal.figures.ladders[1].sizes = vec![384, 2048];
    let mut front: Vec<LadderChoice> = (0..8_u32)
        .map(|index| other(&(1..=index).map(|rung| 32 * rung).collect::<Vec<_>>(), &[], 0.5 + 0.05 * f64::from(index)))
        .collect();
    front.push(proposal.clone());
    ProposeReport {
        scenario: scenario(),
        engine: engine(),
        profile: profile(),
        warnings: warnings(),
        asked: ProposeQuestion {
            objective: "goodput".into(),
            graph_memory_bytes: Some(3 << 29),
            startup_s: Some(60.0),
            descriptors: Some(48),
            also: vec!["max_num_seqs=64,96,128".into()],
        },
        search: SearchReport {
            seeds: vec![1, 2, 3],
            check_seeds: vec![101, 102, 103],
            ladders: 212,
            runs: 640,
            rounds: 4,
            interrupted: true,
        },
        verdict: ProposeVerdict {
            kind: "change".into(),
            sentence:
                "Change the ladders: 7 sizes instead of 55 take 0.10 GiB less, and p99 TPOT falls by 1.73 ms (10 %)."
                    .into(),
        },
        rungs: worths(),
        one_change: Some(SingleChange {
            kind: "shift".into(),
            phase: "prefill".into(),
            from: Some(512),
            to: Some(2048),
            choice: other(&decode, &[64, 128, 256, 2048], 0.97),
        }),
        sensitivity: sensitivity(),
        flags: flags(),
        current,
        proposal,
        front,
    }
}

/// Rungs of every worth.
fn worths() -> Vec<RungWorth> {
    use Verdict::{Better, Equal, NotDistinguishable, Worse};
    let rung = |phase: &'static str, size: u32, share_of_steps: f64, rows: Option<[u32; 2]>| RungWorth {
        phase: phase.into(),
        size,
        share_of_steps,
        rows,
        decode_share: rows.map(|_| if phase == "decode" { 1.0 } else { 0.125 }),
        request_goodput: Some(difference(0.0, 0.0, Equal)),
        p99_tpot_ms: Some(difference(0.0, 0.0, Equal)),
        step_ms_per_request: Some(difference(0.0, 0.0, Equal)),
        mean_step_ms: Some(difference(0.0, 0.0, Equal)),
        memory_bytes: 24 << 20,
        startup_s: 0.25,
    };
    vec![
        RungWorth {
            request_goodput: Some(difference(0.75, 0.125, Better)),
            p99_tpot_ms: Some(difference(-1.25, 0.5, Better)),
            step_ms_per_request: Some(difference(-12.5, 1.25, Better)),
            ..rung("decode", 8, 0.5, Some([1, 8]))
        },
        RungWorth {
            request_goodput: Some(difference(0.125, 0.25, NotDistinguishable)),
            p99_tpot_ms: Some(difference(0.0625, 0.125, NotDistinguishable)),
            step_ms_per_request: Some(difference(-0.5, 1.5, NotDistinguishable)),
            ..rung("decode", 16, 0.25, Some([9, 16]))
        },
        RungWorth {
            request_goodput: Some(difference(0.125, 0.25, NotDistinguishable)),
            p99_tpot_ms: Some(difference(0.5, 0.25, Worse)),
            ..rung("decode", 24, 0.125, Some([17, 24]))
        },
        rung("decode", 40, 0.0, None),
        RungWorth { request_goodput: None, ..rung("decode", 96, 0.0, None) },
        RungWorth {
            step_ms_per_request: Some(difference(-3.0, 1.5, Better)),
            memory_bytes: 96 << 20,
            ..rung("prefill", 384, 0.0625, Some([25, 384]))
        },
        RungWorth {
            request_goodput: Some(difference(-0.125, 0.5, NotDistinguishable)),
            memory_bytes: -(4 << 20),
            ..rung("prefill", 2048, 0.03125, Some([385, 2048]))
        },
    ]
}

fn sensitivity() -> Vec<Sensitivity> {
    let point =
        |factor: f64, verdict: &'static str, regret: f64| SensitivityPoint { factor, verdict: verdict.into(), regret };
    vec![
        Sensitivity {
            what: "rate".into(),
            points: vec![
                point(0.5, "not_distinguishable", 0.0125),
                point(0.8, "better", 0.001),
                point(1.25, "better", 0.002),
                point(2.0, "worse", 0.0625),
            ],
            holds: [0.8, 1.25],
        },
        Sensitivity {
            what: "padding_cost".into(),
            points: vec![point(0.5, "better", 0.0), point(2.0, "better", 0.003)],
            holds: [0.5, 2.0],
        },
        Sensitivity { what: "lengths".into(), points: vec![point(2.0, "equal", 0.5)], holds: [1.0, 1.0] },
    ]
}

fn flags() -> Vec<FlagsReport> {
    let flags = |target: &str, shell: &str, exact: Option<bool>| FlagsReport {
        target: target.into(),
        environment: vec![],
        shell: shell.into(),
        file: None,
        json: json!({ "cudagraph_capture_sizes": [8, 16, 24, 40, 96, 384, 2048] }),
        notes: vec![],
        exact,
    };
    let config = r#"--compilation-config '{"cudagraph_capture_sizes":[8,16,24,40,96,384,2048]}'"#;
    let note =
        "this version has one list for both kinds of step: prefill pads to 8, 16, 24, 40 and 96 too, and decode to 384";
    vec![
        FlagsReport {
            environment: vec!["VLLM_USE_BREAKABLE_CUDAGRAPH=1".into()],
            notes: vec![note.into()],
            ..flags("vLLM 0.33.0", config, Some(false))
        },
        flags("vLLM main", "--max-num-seqs 96 --decode-capture-sizes 8 16 24 40 96", Some(true)),
        FlagsReport {
            file: Some(FlagsFile {
                name: "graphs.yaml".into(),
                text: "cuda_graph_config:\n  batch_sizes: [8, 16, 24, 40, 96]\n  enable_padding: true\n".into(),
            }),
            notes: vec!["graphs for steps that compute prompts are other options there".into()],
            ..flags("TensorRT-LLM", "--config graphs.yaml", None)
        },
        flags("SGLang 0.5.23", "", Some(true)),
    ]
}

/// A proposal of one run without an SLO: the current ladders stay, and whatever may be null is.
pub(crate) fn propose_nothing() -> ProposeReport {
    let run = CandidateReport { name: "current".into(), cudagraph_mode: "NONE".into(), ..CandidateReport::default() };
    let current = LadderChoice::over_seeds(vec![], vec![], &[run], None).expect("one run");
    let full = propose();
    let unknown = |rung: &RungWorth| RungWorth {
        phase: "all".into(),
        rows: None,
        decode_share: None,
        request_goodput: None,
        p99_tpot_ms: None,
        step_ms_per_request: None,
        mean_step_ms: None,
        ..rung.clone()
    };
    ProposeReport {
        scenario: ScenarioReport { slo: None, ..scenario() },
        asked: ProposeQuestion {
            objective: "device_time".into(),
            graph_memory_bytes: None,
            startup_s: None,
            descriptors: None,
            also: vec![],
        },
        search: SearchReport {
            seeds: vec![7],
            check_seeds: vec![7],
            ladders: 1,
            runs: 1,
            rounds: 1,
            interrupted: false,
        },
        verdict: ProposeVerdict {
            kind: "keep".into(),
            sentence: "Keep the current ladders: no other one gains.".into(),
        },
        rungs: full.rungs[..1].iter().map(unknown).collect(),
        proposal: current.clone(),
        current,
        front: vec![],
        one_change: None,
        sensitivity: vec![Sensitivity { what: "rate".into(), points: vec![], holds: [1.0, 1.0] }],
        flags: vec![],
        ..full
    }
}

/// A proposal for given steps without requests, compared exactly.
pub(crate) fn propose_for_steps() -> ProposeReport {
    let run = |mean_step_ms: f64, memory_bytes: u64| CandidateReport {
        cudagraph_mode: "FULL".into(),
        steps: 2_000_u64.into(),
        mean_step_ms: mean_step_ms.into(),
        waste_share: 0.218_849.into(),
        fallback_rate: 0.0.into(),
        descriptors_captured: 5_u64.into(),
        graph_memory_bytes: memory_bytes.into(),
        ..CandidateReport::default()
    };
    let list = |sizes: &[u32]| vec![LadderSizes { phase: "all".into(), unit: "tokens".into(), sizes: sizes.to_vec() }];
    let current = [run(5.473_2, 120 << 20)];
    let choice = |sizes: &[u32], run: CandidateReport, current: Option<&[CandidateReport]>| {
        LadderChoice::over_seeds(list(sizes), vec![], &[run], current).expect("one run")
    };
    let nothing = propose_nothing();
    let mean_step_ms = |with: f64, without: f64| Difference::exact(Better::Lower, without, with);
    let rung = |size: u32, without: f64| RungWorth {
        size,
        mean_step_ms: mean_step_ms(5.176_5, without),
        ..nothing.rungs[0].clone()
    };
    ProposeReport {
        scenario: ScenarioReport { requests: None, slo: None, ..scenario() },
        verdict: ProposeVerdict { kind: "change".into(), sentence: "Change the ladder: steps take 5.4 % less.".into() },
        proposal: choice(&[1, 4, 8, 12, 16], run(5.176_5, 96 << 20), Some(&current)),
        front: vec![choice(&[], run(5.557_2, 0), Some(&current))],
        rungs: vec![rung(12, 5.473_2), rung(16, 5.176_5)],
        current: choice(&[1, 4, 8, 16, 32], current[0].clone(), None),
        ..nothing
    }
}

/// The practice distribution of the textbook at 0.24 ms a padded row, with two of its rungs.
pub(crate) fn price() -> PriceReport {
    let rung = |size: u32, share: f64, mean: f64, exact: f64, padded: f64, real: f64, saving: f64| PriceRung {
        phase: None,
        mode: "FULL".into(),
        size,
        share_of_steps: share,
        mean_padded_rows: Some(mean),
        exact_share: Some(exact),
        padded_rows: padded,
        real_rows: real,
        mean_saving_ms: Some(saving),
    };
    let textbook = PriceCandidate {
        name: "textbook".into(),
        capture_sizes: vec![1, 4, 8, 16, 32],
        cudagraph_mode: "FULL".into(),
        step_ms: StepTimes { eager: Some(5.557_2), compiled_eager: None, graph: 5.473_2, best_of_both: 5.218_425 },
        saving_against: "eager".into(),
        saving_graph: Saving { ms: 0.084, percent: 1.511_553 },
        saving_best_of_both: Saving { ms: 0.338_775, percent: 6.096_145 },
        mean_batch_rows: 9.905,
        mean_rung_rows: Some(12.68),
        mean_padded_rows: 2.775,
        padding_ratio: Some(0.280_162),
        waste_share: Some(0.218_849),
        mean_padding_over_batch: Some(0.306_756),
        mean_padding_over_rung: Some(0.199_219),
        exact_hit_rate: Some(0.259_792),
        fallback_rate: 0.0,
        break_even_padded_rows: Some(3.125),
        losing_share: 0.2575,
        losing_batches: vec![[9, 12], [17, 28]],
        outside_range_share: 0.0,
        encoder: Some(encoder_counts()),
        decoder_replay: Some(replay_counts()),
        rungs: vec![
            rung(16, 0.29, 3.5, 0.125, 1.015, 3.625, -0.09),
            PriceRung {
                mean_padded_rows: None,
                exact_share: None,
                mean_saving_ms: None,
                ..rung(64, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
            },
        ],
    };
    let eager = PriceCandidate {
        name: "no graphs".into(),
        capture_sizes: vec![],
        cudagraph_mode: "NONE".into(),
        mean_rung_rows: None,
        padding_ratio: None,
        waste_share: None,
        mean_padding_over_batch: None,
        mean_padding_over_rung: None,
        exact_hit_rate: None,
        break_even_padded_rows: None,
        fallback_rate: 1.0,
        losing_share: 0.0,
        losing_batches: vec![],
        rungs: vec![],
        encoder: None,
        decoder_replay: None,
        ..textbook.clone()
    };
    PriceReport {
        scenario: ScenarioReport { requests: None, ..scenario() },
        engine: engine(),
        profile: ProfileReport { device: None, model: None, overlap: "additive".into(), ..profile() },
        warnings: warnings(),
        candidates: vec![textbook, eager],
    }
}

fn encoder_counts() -> EncoderCounts {
    let budget = |budget, batches, images, real_tokens, padded_tokens| BudgetCounts {
        budget,
        batches,
        images,
        real_tokens,
        padded_tokens,
    };
    EncoderCounts {
        images: 40,
        images_without_graph: 10,
        batches: 20,
        real_tokens: 12_000,
        padded_tokens: 3_360,
        waste_share: Some(0.218_75),
        budgets: vec![budget(64, 0, 0, 0, 0), budget(512, 10, 10, 5_000, 120), budget(1024, 10, 20, 7_000, 3_240)],
    }
}

fn replay_counts() -> ReplayCounts {
    let size =
        |size, batches, real_tokens, padded_tokens| ReplaySizeCounts { size, batches, real_tokens, padded_tokens };
    ReplayCounts {
        off: None,
        full_graph_steps: 50,
        batches: 5,
        batches_without_graph: 4,
        unsettled_steps: 5,
        trimmed_steps: 3,
        trimmed_tokens: 2_316,
        real_tokens: 1_008,
        padded_tokens: 528,
        waste_share: Some(0.343_75),
        sizes: vec![size(128, 0, 0, 0), size(256, 3, 408, 360), size(384, 2, 600, 168)],
    }
}

pub(crate) fn ladder() -> LadderReport {
    let padded = |size: u32| [1, 2, 4, 8].into_iter().find(|rung| *rung >= size).expect("sizes up to 8");
    let mut descriptors: Vec<DescriptorRecord> =
        [8, 4, 2, 1].iter().map(|tokens| descriptor("PIECEWISE", *tokens, None)).collect();
    descriptors.extend([8, 4].map(|tokens| DescriptorRecord { loras: 2, ..descriptor("FULL", tokens, Some(4)) }));
    LadderReport {
        engine: EngineReport { max_model_len: None, async_scheduling: None, ..engine() },
        warnings: warnings(),
        candidates: vec![
            LadderCandidate {
                name: "flags".into(),
                requested_mode: Some("FULL".into()),
                cudagraph_mode: "FULL_AND_PIECEWISE".into(),
                capture_sizes: vec![1, 2, 4, 8],
                ladders: ladders(&[1, 2, 4, 8]),
                ceiling: Some(8),
                padded: PaddedSpan::of_table((1..=8).map(|size| (size, padded(size)))),
                descriptors,
                compile_ranges: vec![[1, 8], [9, 2048]],
                compile_sizes: vec![4],
                encoder_budgets: vec![64, 128],
                decoder_replay_sizes: vec![128, 256],
                counts: LadderCounts { sizes: 4, descriptors: 6, full: 2, piecewise: 4, cuda_graphs: Some(134) },
                capture_s: Some(4.2),
            },
            LadderCandidate {
                name: "no graphs".into(),
                requested_mode: None,
                cudagraph_mode: "NONE".into(),
                capture_sizes: vec![],
                ladders: ladders(&[]),
                ceiling: None,
                padded: vec![],
                descriptors: vec![],
                compile_ranges: vec![],
                compile_sizes: vec![],
                encoder_budgets: vec![],
                decoder_replay_sizes: vec![],
                counts: LadderCounts::default(),
                capture_s: None,
            },
        ],
    }
}

pub(crate) fn startup() -> StartupReport {
    let phase = |phase: &'static str, at_s: f64, seconds: f64, count: u32, detail: &str| PhaseReport {
        phase: phase.into(),
        at_s,
        seconds,
        count,
        detail: detail.to_owned(),
    };
    let capture = |mode, tokens, at_s: f64, seconds: f64, pool_mib: u64| CaptureReport {
        descriptor: descriptor(mode, tokens, None),
        at_s,
        seconds,
        pool_bytes: pool_mib << 20,
        executables_bytes: 24 << 20,
    };
    let memory = StartMemory {
        device_bytes: 80 << 30,
        weights_bytes: 15 << 30,
        activation_bytes: 1 << 30,
        graph_estimate_bytes: Some(120 << 20),
        graph_set_aside_bytes: 120 << 20,
        graph_memory_bytes: 136 << 20,
        graph_pool_bytes: 64 << 20,
        graph_executables_bytes: 72 << 20,
        kv_bytes: 57 << 30,
        kv_blocks: 29_184,
        kv_blocks_without_graphs: Some(29_244),
        kv_blocks_less_estimate: Some(29_184),
        kv_blocks_less_actual: Some(29_176),
    };
    StartupReport {
        engine: EngineReport { max_model_len: None, async_scheduling: None, ..engine() },
        profile: profile(),
        warnings: warnings(),
        candidates: vec![
            StartupCandidate {
                name: "engine default".into(),
                cudagraph_mode: "FULL_AND_PIECEWISE".into(),
                startup_s: 24.5,
                phases: vec![
                    phase("memory_profiling", 0.0, 3.0, 1, "one step of 8192 tokens"),
                    phase("compilation", 3.0, 21.0, 1, "traced, then 1 range of sizes, cache cold"),
                    phase("capture_piecewise", 24.0, 0.44, 2, "2, largest first, one warm-up run before each"),
                    phase("capture_full", 24.44, 0.06, 1, "1, largest first, one warm-up run before each"),
                ],
                captures: vec![
                    capture("PIECEWISE", 8, 24.0, 0.37, 64),
                    capture("PIECEWISE", 4, 24.37, 0.07, 0),
                    capture("FULL", 4, 24.44, 0.06, 0),
                ],
                memory,
            },
            StartupCandidate {
                name: "no graphs".into(),
                cudagraph_mode: "NONE".into(),
                startup_s: 24.0,
                phases: vec![],
                captures: vec![],
                memory: StartMemory {
                    graph_estimate_bytes: None,
                    kv_blocks_without_graphs: None,
                    kv_blocks_less_estimate: None,
                    kv_blocks_less_actual: None,
                    ..memory
                },
            },
        ],
    }
}

pub(crate) fn cost(dense_ns: u64) -> CostTerms {
    let (head_ns, attention_ns, step_overhead_ns, request_overhead_ns) = (310_000, 450_250, 1_200_000, 36_000);
    let (launch_ns, bookkeeping_ns) = (96_125, 50_000);
    let (drafting_ns, gap_ns) = (42_000, 17_000);
    let device_ns = dense_ns + head_ns + attention_ns + drafting_ns + gap_ns;
    let host_ns = step_overhead_ns + request_overhead_ns + launch_ns + bookkeeping_ns;
    CostTerms {
        dense_ns,
        head_ns,
        attention_ns,
        drafting_ns,
        gap_ns,
        device_ns,
        step_overhead_ns,
        request_overhead_ns,
        launch_ns,
        update_ns: 0,
        bookkeeping_ns,
        host_ns,
        step_ns: device_ns.max(host_ns),
    }
}

pub(crate) fn explain() -> ExplainReport {
    let rule = |rule: &str, detail: &str, outcome: &str| RuleCheck {
        rule: rule.into(),
        detail: detail.into(),
        outcome: outcome.into(),
    };
    let alternative = |name: &'static str, mode: &'static str, rows: u32, dense_ns: u64| Alternative {
        name: name.into(),
        mode: mode.into(),
        rows,
        padded_rows: i64::from(rows) - 9,
        note: None,
        cost: Some(cost(dense_ns)),
        difference_ns: Some(dense_ns.cast_signed() - 16_770_000),
    };
    ExplainReport {
        engine: engine(),
        profile: Some(profile()),
        candidate: "textbook".into(),
        capture_sizes: vec![1, 4, 8, 16, 32],
        ladders: ladders(&[1, 4, 8, 16, 32]),
        cudagraph_mode: "FULL_AND_PIECEWISE".into(),
        step: Some(1_204),
        shape: StepShapeReport {
            requests: 3,
            tokens: 9,
            max_query: 7,
            uniform: None,
            active_loras: 0,
            prefills: vec![[7, 512]],
            decode_requests: 2,
            decode_context: 12_345,
        },
        rules: vec![
            rule("graphs are on", "cudagraph_mode FULL_AND_PIECEWISE", "pass"),
            rule("tokens within the ceiling", "9 <= 32", "pass"),
            rule("a FULL key fits a mixed batch", "mixed steps have PIECEWISE keys only", "no"),
            rule("smallest PIECEWISE size of 9 or more", "16", "runs"),
        ],
        chosen: Choice {
            mode: "PIECEWISE".into(),
            descriptor: Some(descriptor("PIECEWISE", 16, None)),
            artifact: "PIECEWISE 16".into(),
            fallback: None,
            relaxed: true,
            real_rows: 9,
            padded_rows: 7,
            cost: Some(cost(16_770_000)),
        },
        compiled_for: Some([9, 2048]),
        alternatives: vec![
            Alternative {
                note: Some("does not hold 9 tokens; priced as if it did not have to".into()),
                ..alternative("one rung lower", "PIECEWISE", 8, 16_100_000)
            },
            alternative("one rung higher", "PIECEWISE", 32, 17_000_500),
            Alternative { cost: None, difference_ns: None, ..alternative("eager", "NONE", 9, 0) },
        ],
        flags: vec!["attention of mixed steps is a sum of its parts: no mixed table in the profile".into()],
        warnings: warnings(),
    }
}

pub(crate) fn step_header() -> StepHeader {
    StepHeader {
        schema: STEP_SCHEMA,
        version: "0.1.0".into(),
        scenario: "chunked".into(),
        scenario_sha256: "5f".repeat(32),
        profile: "a100-llama-3-8b".into(),
        profile_sha256: "a1".repeat(32),
        seed: 7,
        engine: engine(),
        candidate: "engine default".into(),
        cudagraph_mode: "FULL_AND_PIECEWISE".into(),
        capture_sizes: vec![1, 2, 4, 8],
        ladders: vec![LadderSizes { phase: "all".into(), unit: "tokens".into(), sizes: vec![1, 2, 4, 8] }],
    }
}

pub(crate) fn step() -> StepRecord {
    StepRecord {
        step: 41,
        start_ns: 1_000_000_000,
        end_ns: 1_017_530_250,
        rank: 0,
        mode: "PIECEWISE".into(),
        descriptor: Some(descriptor("PIECEWISE", 16, None)),
        real_rows: 9,
        padded_rows: 7,
        prefills: vec![[7, 512]],
        decode_requests: 2,
        decode_context: 12_345,
        sampled: 2,
        drafts: 6,
        accepted: 3,
        active_loras: 1,
        running: 3,
        waiting: 1,
        preempted: 1,
        kv_used_blocks: 806,
        kv_total_blocks: 27_000,
        fallback: None,
        relaxed: true,
        artifact: "PIECEWISE 16".into(),
        saved_ns: Some(-120_000),
        cost: cost(16_770_000),
        outside_range: false,
        derived: true,
    }
}

pub(crate) fn request() -> RequestRecord {
    RequestRecord {
        candidate: "default, \"quoted\"".into(),
        seed: 7,
        id: 12,
        arrival_s: 0.1 + 0.2,
        prompt_tokens: 1_020,
        output_tokens: 129,
        outcome: "finished".into(),
        ttft_ms: Some(81.25),
        tpot_ms: Some(18.5),
        e2el_ms: Some(2_449.25),
        preemptions: 1,
        good: Some(true),
    }
}

pub(crate) fn history() -> HistoryReport {
    let batch = |rows, rung: Option<u32>, steps| BatchCount {
        rows,
        mode: rung.map_or("NONE", |_| "FULL").into(),
        phase: None,
        rung,
        fallback: rung.is_none().then(|| "above_ceiling".into()),
        steps,
        padded_rows: rung.map_or(0, |rung| u64::from(rung - rows) * steps),
        saved_ns: if rung.is_some() { -4_000 } else { 0 },
    };
    let bin = |start_s: f64, steps: u64| TimelineBin {
        start_s,
        steps,
        mean_rows: (steps > 0).then_some(7.5),
        max_rows: 600,
        no_graph: steps / 2,
        above_ceiling: steps / 2,
        max_running: 12,
        max_waiting: 3,
        max_kv_share: 0.25,
        preempted: 1,
    };
    HistoryReport {
        candidates: vec![CandidateHistory {
            candidate: "engine default".into(),
            seeds: 1,
            batches: vec![batch(7, Some(8), 100), batch(600, None, 4)],
            timeline: Timeline { seed: 7, bin_s: 0.002, bins: vec![bin(0.0, 104), bin(0.002, 0)] },
        }],
    }
}

/// The figures of a run's candidates seed by seed; seed k is `scales[k]` times the first.
pub(crate) fn seed_figures(run: &RunReport, scales: &[f64]) -> Vec<SeedFigures> {
    let seeds = run.seeds.clone().unwrap_or_else(|| vec![run.seed]);
    let row = |candidate: &CandidateReport, (seed, scale): (&u64, &f64)| SeedFigures {
        candidate: candidate.name.clone(),
        seed: *seed,
        figures: FIGURES.iter().map(|spec| (spec.get)(candidate).mean().map(|mean| mean * scale)).collect(),
    };
    let of_candidate = |candidate| seeds.iter().zip(scales).map(move |of_seed| row(candidate, of_seed));
    run.candidates.iter().flat_map(of_candidate).collect()
}

/// The run over seeds against itself with other figures.
pub(crate) fn comparison() -> ComparisonReport {
    let (baseline, mut changed) = (run_over_seeds(), run_over_seeds());
    changed.scenario.sha256 = "0".repeat(64);
    changed.candidates[1].name = "other <name>".into();
    let one =
        RunBySeed { folder: "before".into(), report: &baseline, figures: seed_figures(&baseline, &[1.0, 1.02, 0.97]) };
    let other =
        RunBySeed { folder: "after".into(), report: &changed, figures: seed_figures(&changed, &[1.05, 1.06, 1.03]) };
    let thresholds = ["request_goodput=2%", "p99_tpot_ms=2%", "p99_ttft_ms=50%"];
    let thresholds = thresholds.map(|text| text.parse().expect("a threshold"));
    ComparisonReport::between(&one, &other, &[], &thresholds).expect("they can be compared")
}
