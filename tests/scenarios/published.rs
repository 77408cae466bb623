//! What users and maintainers of real servers have published about capture sizes, beside the answer of this program.
//!
//! `cargo test --test scenarios published -- --nocapture` prints the table. Figures that follow from the engine's rules
//! are equal; figures that hang on costs stand side by side.

use std::ffi::OsStr;

use calibrate::profile::Profile;
use serde_json::Value;

use super::binary::json;

/// One published figure and ours.
struct Row {
    report: &'static str,
    question: &'static str,
    published: String,
    ours: String,
}

/// `sim ladder` with these flags: the only candidate.
fn ladder(flags: &str) -> Value {
    let answer = json(["ladder"].into_iter().chain(flags.split_whitespace()));
    answer["candidates"][0].clone()
}

fn sizes(ladder: &Value) -> Vec<u64> {
    ladder["capture_sizes"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect()
}

/// Descriptors of one mode, by tokens, ascending.
fn captured(ladder: &Value, mode: &str) -> Vec<u64> {
    let descriptors = ladder["descriptors"].as_array().expect("a list");
    let of_mode = descriptors.iter().filter(|graph| graph["mode"] == mode);
    let mut tokens: Vec<u64> = of_mode.filter_map(|graph| graph["tokens"].as_u64()).collect();
    tokens.sort_unstable();
    tokens
}

/// What a step with these flags runs: mode and rows.
fn ran(flags: &str) -> (String, u64) {
    let answer = json(["explain"].into_iter().chain(flags.split_whitespace()));
    let chosen = &answer["chosen"];
    let rows = chosen["real_rows"].as_u64().expect("rows") + chosen["padded_rows"].as_u64().expect("rows");
    (chosen["mode"].as_str().expect("a mode").to_owned(), rows)
}

/// <https://github.com/vllm-project/vllm/pull/12920>: nine at once on DeepSeek-R1, 55 ms padded to 16, 44 ms with small rungs.
fn bucket_nine() -> Row {
    let usual = ran("--decodes 9 --max-num-seqs 16 --cudagraph-capture-sizes 1,2,4,8,16");
    let small = ran("--decodes 9 --max-num-seqs 16 --cudagraph-capture-sizes 1,2,3,4,5,6,7,8,9,10,11,16");
    assert_eq!((usual.1, small.1), (16, 9));
    let row_ms = (55.0 - 44.0) / (usual.1 - small.1) as f64;
    Row {
        report: "vllm#12920",
        question: "batch 9, rungs 8 and 16, then 1 to 11",
        published: "55 ms, then 44 ms".to_owned(),
        ours: format!(
            "{} rows, then {}; at the report's own {row_ms:.2} ms a row that is its difference",
            usual.1, small.1
        ),
    }
}

/// <https://github.com/vllm-project/vllm/pull/37865>: six requests of seven tokens under a ceiling of 42.
fn forty_two() -> Row {
    let flags =
        "--max-num-seqs 6 --num-speculative-tokens 6 --max-num-batched-tokens 2048 --max-cudagraph-capture-size 42";
    let ladder = ladder(flags);
    assert_eq!(sizes(&ladder), [1, 2, 4, 8, 16, 24, 32, 40]);
    let full = captured(&ladder, "FULL");
    assert_eq!(full, [7, 14, 21, 28, 35]);
    assert_eq!(ran(&format!("--decodes 6 {flags}")).0, "NONE");
    assert_eq!(ran(&format!("--decodes 5 {flags}")), ("FULL".to_owned(), 35));
    let listed =
        format!("{} --cudagraph-capture-sizes 7,14,21,28,35,42", flags.replace("--max-cudagraph-capture-size 42", ""));
    assert_eq!(ran(&format!("--decodes 6 {listed}")), ("FULL".to_owned(), 42));
    Row {
        report: "vllm#37865",
        question: "widest verification step with a graph",
        published: "42 cut to 40: five requests, six run eager".to_owned(),
        ours: format!("ladder to 40, full graphs {full:?}; six run NONE; 42 listed: six run FULL"),
    }
}

/// <https://github.com/vllm-project/vllm/pull/57355>: 100 sequences.
fn top_rung() -> Row {
    let ladder = ladder("--max-num-seqs 100 --max-num-batched-tokens 8192");
    let with = sizes(&ladder);
    let without = with.iter().filter(|size| **size != 100).map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mode = |decodes: u32, more: &str| {
        ran(&format!("--decodes {decodes} --max-num-seqs 100 --max-num-batched-tokens 8192 {more}")).0
    };
    let before = format!("--cudagraph-capture-sizes {without}");
    assert_eq!((with.len(), with.contains(&100)), (29, true));
    assert_eq!([95, 96, 97, 100].map(|n| mode(n, &before)), ["FULL", "FULL", "PIECEWISE", "PIECEWISE"]);
    assert_eq!([95, 97, 100].map(|n| mode(n, "")), ["FULL"; 3]);
    Row {
        report: "vllm#57355",
        question: "97 to 100 of 100 sequences",
        published: "PIECEWISE; rung 100 added: 28 sizes become 29".to_owned(),
        ours: format!("PIECEWISE on {} sizes, FULL on {}", with.len() - 1, with.len()),
    }
}

/// <https://github.com/vllm-project/vllm/pull/36370>: eight adapters, counts specialised, one sequence.
fn adapter_counts() -> Row {
    let ladder = ladder("--max-num-seqs 1 --max-num-batched-tokens 2048 --max-loras 8 --specialize-active-lora");
    let descriptors = ladder["counts"]["descriptors"].as_u64().expect("a count");
    let is_possible = |graph: &&Value| graph["loras"].as_u64().is_some_and(|loras| loras <= 1);
    let possible = ladder["descriptors"].as_array().expect("a list").iter().filter(is_possible).count();
    assert_eq!((descriptors, possible), (18, 6));
    Row {
        report: "vllm#36370",
        question: "counts of adapters above max_num_seqs = 1",
        published: "94 s with them, 29 s without: 3.2 times".to_owned(),
        ours: format!("{descriptors} descriptors with them, {possible} without: 3.0 times"),
    }
}

/// <https://github.com/vllm-project/vllm/pull/25914>: a second set of graphs, for steps without adapters.
fn second_set() -> Row {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("adapters.toml");
    let text = "schema = 1\nname = \"adapters\"\n[server.vllm]\nrunner = \"v1\"\nmax_num_seqs = 64\n\
                max_num_batched_tokens = 2048\nmax_loras = 4\nattention_support = \"ALWAYS\"\n[profile]\n\
                builtin = \"textbook\"\n[traffic]\nsteps = [{ tokens = 1, requests = 1, count = 1 }]\n\
                [[candidate]]\nname = \"both\"\n[[candidate]]\nname = \"one\"\ncudagraph_specialize_lora = false\n";
    std::fs::write(&file, text).expect("writable");
    let answer = json([OsStr::new("ladder"), file.as_os_str()]);
    let count = |candidate: usize| answer["candidates"][candidate]["counts"]["descriptors"].as_u64().expect("a count");
    let (both, one) = (count(0), count(1));
    assert_eq!(both, 2 * one);
    Row {
        report: "vllm#25914",
        question: "graphs for steps without adapters",
        published: "1.62 GiB become 2.38: 1.47 times".to_owned(),
        ours: format!("{one} descriptors become {both}: executables double, the pool stays"),
    }
}

/// <https://github.com/SemiAnalysisAI/InferenceX/issues/117>: ceilings 512 and 992.
fn ceiling_992() -> Row {
    let count = |ceiling: u32| {
        let flags = format!("--max-num-seqs 256 --max-num-batched-tokens 8192 --max-cudagraph-capture-size {ceiling}");
        sizes(&ladder(&flags)).len()
    };
    assert_eq!((count(512), count(992)), (51, 81));
    assert_eq!(3 + (8..=512).step_by(8).count(), 67, "the ladder of that time, in steps of 8 all the way");
    Row {
        report: "InferenceX#117",
        question: "sizes up to 512 and up to 992",
        published: "67 (in steps of 8), 81".to_owned(),
        ours: "51 (in steps of 16 from 256), 81".to_owned(),
    }
}

/// <https://github.com/novitalabs/pegaflow/issues/124>: what PIECEWISE costs beside FULL.
fn piecewise_per_layer() -> Row {
    let profile = Profile::builtin("a100-llama-3-8b").expect("built in");
    let (machine, engine) = (&profile.machine, &profile.engine);
    let layer_us = |dispatch_us: f64| machine.replay.figures.fixed_us + machine.launch.figures.launch_us + dispatch_us;
    let dispatch = &engine.dispatch.figures;
    let range = dispatch.compiled_us_range.expect("a planning range");
    let (low, declared, high) = (layer_us(range.low), layer_us(dispatch.compiled_us), layer_us(range.high));
    assert!(low < 20.0 && high > 6.0, "the planning range meets what was seen");
    Row {
        report: "pegaflow#124",
        question: "PIECEWISE beside FULL, us a layer",
        published: "6 to 20".to_owned(),
        ours: format!("{declared:.0} as declared for the A100, {low:.0} to {high:.0} over its planning range"),
    }
}

#[test]
fn published_reports_beside_our_answers() {
    let rows =
        [bucket_nine(), forty_two(), top_rung(), adapter_counts(), second_set(), ceiling_992(), piecewise_per_layer()];
    for Row { report, question, published, ours } in rows {
        println!("{report:15} {question:42} published: {published:46} here: {ours}");
    }
}
