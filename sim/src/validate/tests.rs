use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::outcome::{RequestTimes, Tick, percentile};
use super::step_times::{by_running, saturated_and_drain, unpriced};
use super::*;

const TABLES: &str = "rtx4090_llama8b_tp1";

/// Kernel tables of a made-up card: straight lines, with decodes beside a prefill a little cheaper than the sum of both.
fn tables() -> [(&'static str, String); 3] {
    let mut dense = "layer,tokens,time_us\n".to_owned();
    for (operation, us, per_row) in [
        ("layernorm", 2.0, 0.01),
        ("qkv_proj", 50.0, 0.3),
        ("rotary_emb", 2.0, 0.01),
        ("o_proj", 40.0, 0.2),
        ("gate_up_proj", 250.0, 1.4),
        ("act_fn", 3.0, 0.08),
        ("down_proj", 130.0, 0.7),
        ("embedding", 3.0, 0.01),
        ("final_layernorm", 2.0, 0.01),
    ] {
        for tokens in [1, 16, 64, 256, 2048] {
            writeln!(dense, "{operation},{tokens},{}", us + per_row * f64::from(tokens)).expect("a string");
        }
    }
    let mut head = "layer,sequences,time_us\n".to_owned();
    for (operation, us) in [("lm_head", 1100.0), ("sampler", 25.0)] {
        for sequences in [1, 64, 256] {
            writeln!(head, "{operation},{sequences},{}", us + 0.2 * f64::from(sequences)).expect("a string");
        }
    }
    let mut attention = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n".to_owned();
    let decode_us = |requests: u32, context: u32| 9.0 + 0.0002 * f64::from(requests * context);
    let prefill_us = |chunk: u32, context: u32| 10.0 + 1e-5 * f64::from(chunk) * f64::from(context + chunk);
    let mut row = |chunk, context, requests, decode_context, us: f64| {
        writeln!(attention, "{chunk},{context},{requests},{decode_context},{us}").expect("a string");
    };
    let (requests, contexts, chunks) = ([1, 16, 256], [16, 1024, 16384], [16, 512, 2048]);
    for requests in requests {
        for context in contexts {
            row(0, 0, requests, context, decode_us(requests, context));
        }
    }
    for chunk in chunks {
        for context in [0, 4096] {
            row(chunk, context, 0, 0, prefill_us(chunk, context));
            for requests in requests {
                for decode_context in contexts {
                    let us = prefill_us(chunk, context) + decode_us(requests, decode_context) - 5.0;
                    row(chunk, context, requests, decode_context, us);
                }
            }
        }
    }
    [("dense", dense), ("per_sequence", head), ("attention", attention)]
}

fn meta(blocks: Option<u32>) -> String {
    let kv_cache = blocks.map_or_else(
        || "null".to_owned(),
        |blocks| format!("{{\"num_gpu_blocks\": {blocks}, \"block_size\": 16, \"enable_prefix_caching\": true}}"),
    );
    format!(
        "{{\"model\": \"meta-llama/Llama-3.1-8B\", \"vllm_version\": \"0.19.0\", \"num_requests\": 40, \"engine_kwargs\": \
         {{\"max_num_seqs\": 16, \"max_num_batched_tokens\": 2048, \"max_model_len\": null}}, \"kv_cache\": {kv_cache}}}"
    )
}

/// A folder with the tables of one card and the `meta.json` of a run.
fn folder(run: &str, meta: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (part, table) in tables() {
        fs::write(folder.path().join(format!("kernels_{TABLES}_{part}.csv")), table).expect("writes");
    }
    fs::write(folder.path().join(format!("vllm_run_{run}_meta.json")), meta).expect("writes");
    folder
}

/// Forty requests that come faster than they are served. Lengths and gaps differ.
fn requests() -> Vec<MeasuredRequest> {
    let request = |number: u32| MeasuredRequest {
        number,
        prompt_tokens: 100 + number * 37 % 700,
        output_tokens: 20 + number * 53 % 90,
        queued_s: 100.0 + f64::from(number) * 0.05,
        first_token_s: 0.0,
        last_token_s: 0.0,
    };
    (0..40).map(request).collect()
}

/// The results that the simulated server itself would write down, its times stretched by `slower`.
fn results(folder: &Path, run: &str, heads: &SharedHeads, slower: f64) -> (String, String) {
    let text = Text::read(&folder.join(format!("vllm_run_{run}_meta.json"))).expect("reads");
    let meta = Meta::read(&text).expect("a meta.json");
    let requests = requests();
    let server = Server::of(&text.file, &meta, costs::capability(run, &meta), &requests).expect("a server");
    let costs = Costs::of_tables(folder, run, &meta, None, Carry::DataSheet).expect("tables").expect("they are there");
    let predicted = simulate(run, &server.options, &costs.profile, offered(&requests, heads), 0.25).expect("it runs");
    let mut jsonl = String::new();
    for (request, times) in requests.iter().zip(&predicted.outcome.requests) {
        let at = |seconds: f64| 100.0 + seconds;
        writeln!(
            jsonl,
            "{{\"request_id\": \"bench-{}\", \"input_toks\": {}, \"output_toks\": {}, \"queued_ts\": {}, \"first_token_ts\": \
             {}, \"last_token_ts\": {}, \"arrival_time\": 1.7e9}}",
            request.number,
            request.prompt_tokens,
            request.output_tokens,
            at(times.queued_s),
            at(times.queued_s + (times.first_token_s - times.queued_s) * slower),
            at(times.queued_s + (times.last_token_s - times.queued_s) * slower),
        )
        .expect("a string");
    }
    let mut csv = "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\n".to_owned();
    for (place, tick) in (1..).zip(&predicted.outcome.ticks) {
        let rate = |tokens: f64| tokens / tick.seconds;
        let (prompts, outputs) = (rate(tick.prompt_tokens), rate(tick.output_tokens));
        writeln!(csv, "{},{prompts},{outputs},{},{},0", f64::from(place) * 0.25, tick.running, tick.waiting)
            .expect("a string");
    }
    (jsonl, csv)
}

fn write_results(folder: &Path, run: &str, (requests, series): &(String, String)) {
    fs::write(folder.join(format!("vllm_run_{run}_requests.jsonl")), requests).expect("writes");
    fs::write(folder.join(format!("vllm_run_{run}_timeseries.csv")), series).expect("writes");
}

/// The first answer about a run.
fn validate_in(folder: &Path, run: &str, settings: &Settings) -> Result<RunValidation, ValidateError> {
    answers_in(folder, run, settings).map(|mut answers| answers.remove(0))
}

fn answers_in(folder: &Path, run: &str, settings: &Settings) -> Result<Vec<RunValidation>, ValidateError> {
    let runs = RunFiles::find(folder)?;
    let files = runs.iter().find(|files| files.name == run).expect("the run is there");
    validate(folder, files, settings)
}

#[test]
fn a_run_of_the_simulated_server_itself_is_predicted_exactly() {
    // A pool that fills up, and one that never does.
    for blocks in [Some(200), None] {
        let folder = folder(TABLES, &meta(blocks));
        let made = results(folder.path(), TABLES, &SharedHeads::default(), 1.0);
        write_results(folder.path(), TABLES, &made);
        let run = validate_in(folder.path(), TABLES, &Settings::default()).expect("it is compared");
        assert_eq!(run.missed(), Vec::<&str>::new());
        assert!(run.figures.iter().all(|figure| figure.difference.abs() < 1e-6), "{:#?}", run.figures);
        assert!(run.decode_errors.expect("compared").most_absolute < 1e-6);
        assert!(run.step_times.iter().all(|row| row.difference.is_none_or(|difference| difference.abs() < 1e-6)));
        let predicted = run.predicted.expect("simulated");
        assert_eq!(predicted.preemptions > 0, blocks.is_some(), "only a small pool preempts");
        assert_eq!((run.requests, predicted.outside_steps), (40, 0));
    }
}

/// Results with all times later by so many seconds.
fn dated((requests, series): &(String, String), later_s: f64) -> (String, String) {
    let mut jsonl = String::new();
    for line in requests.lines() {
        let mut request: serde_json::Value = serde_json::from_str(line).expect("JSON");
        for key in ["queued_ts", "first_token_ts", "last_token_ts"] {
            request[key] = (request[key].as_f64().expect("a time") + later_s).into();
        }
        writeln!(jsonl, "{request}").expect("a string");
    }
    let mut csv = String::new();
    for line in series.lines() {
        let (at, cells) = line.split_once(',').expect("cells");
        let at = at.parse::<f64>().map_or(at.to_owned(), |at_s| (at_s + later_s).to_string());
        writeln!(csv, "{at},{cells}").expect("a string");
    }
    (jsonl, csv)
}

#[test]
fn times_since_1970_are_times_since_the_beginning() {
    let folder = folder(TABLES, &meta(Some(200)));
    let made = results(folder.path(), TABLES, &SharedHeads::default(), 1.0);
    write_results(folder.path(), TABLES, &made);
    let plain = validate_in(folder.path(), TABLES, &Settings::default()).expect("it is compared");
    write_results(folder.path(), TABLES, &dated(&made, 1_796_000_000.0));
    let later = validate_in(folder.path(), TABLES, &Settings::default()).expect("it is compared");
    assert!(!later.figures.is_empty() && later.missed().is_empty());
    for (plain, later) in plain.figures.iter().zip(&later.figures) {
        let off = (later.measured - plain.measured).abs();
        assert!(off <= 1e-5 * plain.measured.abs(), "{}: {} and {}", plain.figure, plain.measured, later.measured);
    }
}

#[test]
fn a_slower_run_misses_its_targets() {
    let folder = folder(TABLES, &meta(None));
    write_results(folder.path(), TABLES, &results(folder.path(), TABLES, &SharedHeads::default(), 1.06));
    let run = validate_in(folder.path(), TABLES, &Settings::default()).expect("it is compared");
    let missed = run.missed();
    assert!(missed.contains(&"wall") && missed.contains(&"decode time of single requests"), "{missed:?}");
    assert!(!missed.contains(&"running, most"), "{missed:?}");
}

#[test]
fn heads_that_prompts_share_are_looked_up_by_number() {
    let folder = folder(TABLES, &meta(None));
    let text =
        Text { file: "heads.csv".to_owned(), text: "request,begins_as,tokens\n5,2,150\n9,2,150\n9,5,200\n".to_owned() };
    let heads = SharedHeads::read(&text).expect("a table");
    write_results(folder.path(), TABLES, &results(folder.path(), TABLES, &heads, 1.0));
    let with = Settings { heads: Some(heads), ..Settings::default() };
    let run = validate_in(folder.path(), TABLES, &with).expect("it is compared");
    let hits = run.predicted.expect("simulated").prompt_hit_tokens;
    // Whole blocks of 16 tokens: 144 of the 150, and 192 of the 200.
    assert_eq!((run.missed(), hits), (vec![], 144 + 192));
    let without = validate_in(folder.path(), TABLES, &Settings { no_heads: true, ..Settings::default() });
    let without = without.expect("it is compared");
    assert_eq!(without.predicted.expect("simulated").prompt_hit_tokens, 0);
    let wall = |run: &RunValidation| run.figures[0].predicted;
    assert!((wall(&without) - wall(&run)).abs() > 1e-3, "{} {}", wall(&without), wall(&run));
}

#[test]
fn a_card_without_its_own_attention_table_borrows_by_bandwidth() {
    let run = "rtxpro6000_llama8b_tp1";
    let folder = folder(run, &meta(None));
    let [(_, dense), ..] = tables();
    let absent = validate_in(folder.path(), run, &Settings::default()).expect("it is named");
    assert!(absent.reason.expect("there is one").contains("no result files"));
    fs::write(folder.path().join(format!("kernels_{run}_dense.csv")), dense).expect("writes");
    write_results(folder.path(), run, &results(folder.path(), run, &SharedHeads::default(), 1.0));
    let [compared, achieved] = answers_in(folder.path(), run, &Settings::default())
        .expect("it is compared")
        .try_into()
        .expect("by the data sheets, and by what is achieved");
    assert_eq!(compared.missed(), Vec::<&str>::new());
    // Both dense tables are the same, so that both cards achieve the same.
    assert!(
        achieved.costs[1].from.contains("the ratio of bandwidths 1.0000") && !achieved.missed().is_empty(),
        "{achieved:#?}"
    );
    assert_eq!(compared.carried_by.as_deref(), Some("the bandwidths of both data sheets"));
    let from = |part: usize| compared.costs[part].from.as_str();
    assert!(
        from(0).starts_with("its own table") && from(1).contains("times the ratio of bandwidths 0.5625"),
        "{}",
        from(1)
    );
    let meta = Meta::read(&Text { file: String::new(), text: meta(None) }).expect("a meta.json");
    let borrowed =
        Costs::of_tables(folder.path(), run, &meta, None, Carry::DataSheet).expect("tables").expect("there").profile;
    let own =
        Costs::of_tables(folder.path(), TABLES, &meta, None, Carry::DataSheet).expect("tables").expect("there").profile;
    let decode = |profile: &calibrate::profile::Profile| {
        profile.attention().expect("there is some").figures.decode.at(16.0, 1024.0).value
    };
    assert!((decode(&borrowed) / decode(&own) - 1008.0 / 1792.0).abs() < 1e-12);
}

#[test]
fn a_card_of_unknown_bandwidth_asks_for_the_ratio() {
    let run = "gb300_llama8b_tp1";
    let folder = folder(run, &meta(None));
    let [(_, dense), ..] = tables();
    fs::write(folder.path().join(format!("kernels_{run}_dense.csv")), dense).expect("writes");
    let meta = Meta::read(&Text { file: String::new(), text: meta(None) }).expect("a meta.json");
    let error =
        Costs::of_tables(folder.path(), run, &meta, None, Carry::DataSheet).expect_err("the bandwidth is not known");
    assert!(error.to_string().contains("gb300 is not known"), "{error}");
    let given = Costs::of_tables(folder.path(), run, &meta, None, Carry::Given(0.25)).expect("tables").expect("there");
    assert!(given.parts[1].1.contains("0.2500"), "{:?}", given.parts);
}

#[test]
fn without_tables_the_queue_alone_is_judged() {
    let folder = folder(TABLES, &meta(None));
    let made = results(folder.path(), TABLES, &SharedHeads::default(), 1.0);
    let run = "h100_other_tp2";
    fs::write(folder.path().join(format!("vllm_run_{run}_meta.json")), meta(None)).expect("writes");
    write_results(folder.path(), run, &made);
    let fitted = validate_in(folder.path(), run, &Settings::default()).expect("it is compared");
    assert!(fitted.is_fitted && fitted.decode_errors.is_none() && fitted.step_times.is_empty());
    let judged: Vec<&str> =
        fitted.figures.iter().filter(|figure| figure.met.is_some()).map(|figure| figure.figure.as_ref()).collect();
    assert_eq!((judged, fitted.missed()), (vec!["running, most"], vec![]));
}

/// Every reader on what it should refuse.
#[test]
fn bad_files_are_refused_with_file_and_line() {
    let folder = folder(TABLES, &meta(None));
    let good = results(folder.path(), TABLES, &SharedHeads::default(), 1.0);
    let (requests, series) = &good;
    let cut = |text: &str| text[..text.len() - 9].to_owned();
    let first = requests.lines().next().expect("a line");
    let mut messages = String::new();
    let mut refused = |what: &str, requests: String, series: String| {
        write_results(folder.path(), TABLES, &(requests, series));
        let error = validate_in(folder.path(), TABLES, &Settings::default()).expect_err(what).to_string();
        let folder = folder.path().display().to_string();
        writeln!(messages, "{what}: {}", error.replace(&folder, "")).expect("a string");
    };
    refused("empty requests", String::new(), series.clone());
    refused("truncated requests", cut(requests), series.clone());
    refused(
        "too few requests",
        requests.lines().skip(1).fold(String::new(), |text, line| text + line + "\n"),
        series.clone(),
    );
    refused("a foreign file", "TIMESTAMP,ContextTokens\n1,2\n".to_owned(), series.clone());
    refused("a request twice", format!("{first}\n{requests}"), series.clone());
    refused("no key", requests.replacen("queued_ts", "queued", 1), series.clone());
    refused("a negative time", requests.replacen("\"queued_ts\": 100", "\"queued_ts\": -100", 1), series.clone());
    refused(
        "a token before the request",
        requests.replacen("\"queued_ts\": 100", "\"queued_ts\": 900", 1),
        series.clone(),
    );
    let (since_1970, dated_series) = dated(&good, 1_796_000_000.0);
    let one_of_it =
        format!("{}\n{}", since_1970.lines().next().expect("a line"), &requests[first.len()..].trim_start());
    refused("one request by another clock", one_of_it, series.clone());
    refused("milliseconds since 1970", dated(&good, 1_796_000_000_000.0).0, series.clone());
    refused("no time", requests.replacen("\"queued_ts\": 100", "\"queued_ts\": NaN", 1), series.clone());
    refused("ticks by two clocks", requests.clone(), series.replacen("\n0.5,", "\n1796000000.5,", 1));
    let only_tick: Vec<&str> = dated_series.lines().take(2).collect();
    refused("one tick since 1970", requests.clone(), only_tick.join("\n"));
    refused("no tokens", requests.replacen("\"output_toks\": 20", "\"output_toks\": 0", 1), series.clone());
    refused("empty series", requests.clone(), String::new());
    refused("header only", requests.clone(), "t,prompt_throughput,gen_throughput,running,waiting\n".to_owned());
    refused("no column", requests.clone(), series.replacen("waiting", "queued", 1));
    refused("truncated series", requests.clone(), series[..series.len() / 2].trim_end_matches(|c| c != ',').to_owned());
    refused("time that stands still", requests.clone(), series.replacen("0.5,", "0.25,", 1));
    refused("not a number", requests.clone(), series.replacen("0.25,", "0.25,NaN", 1));
    write_results(folder.path(), TABLES, &good);
    let mut refused_meta = |what: &str, meta: String| {
        fs::write(folder.path().join(format!("vllm_run_{TABLES}_meta.json")), meta).expect("writes");
        let error = validate_in(folder.path(), TABLES, &Settings::default()).expect_err(what).to_string();
        let folder = folder.path().display().to_string();
        writeln!(messages, "{what}: {}", error.replace(&folder, "")).expect("a string");
    };
    let meta = meta(Some(200));
    refused_meta("truncated meta", cut(&meta));
    refused_meta("meta without a key", meta.replacen("max_num_seqs", "max_seqs", 1));
    refused_meta("no sequences", meta.replacen("\"max_num_seqs\": 16", "\"max_num_seqs\": 0", 1));
    refused_meta("a pool too small", meta.replacen("200", "20", 1));
    refused_meta("an unknown model", meta.replacen("Llama-3.1-8B", "Llama-9", 1));
    refused_meta("several engines", meta.replacen("{\"max_num", "{\"data_parallel_size\": 4, \"max_num", 1));
    insta::assert_snapshot!(messages);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is cut out of or put into a file of a run, there is an answer or a refusal.
    #[test]
    fn damaged_files_are_an_answer_or_a_refusal(
        file in 0_usize..4, at in 0.0..1.0_f64, cut in 0_usize..40, put in prop::collection::vec(any::<u8>(), 0..6),
    ) {
        let folder = folder(TABLES, &meta(Some(200)));
        write_results(folder.path(), TABLES, &results(folder.path(), TABLES, &SharedHeads::default(), 1.0));
        let name = ["vllm_run_{}_meta.json", "vllm_run_{}_requests.jsonl", "vllm_run_{}_timeseries.csv", "kernels_{}_attention.csv"];
        let path = folder.path().join(name[file].replace("{}", TABLES));
        let mut bytes = fs::read(&path).expect("reads");
        let begin = ((bytes.len() as f64) * at) as usize;
        let end = (begin + cut).min(bytes.len());
        bytes.splice(begin..end, put);
        fs::write(&path, bytes).expect("writes");
        if let Ok(run) = validate_in(folder.path(), TABLES, &Settings::default()) {
            prop_assert_eq!(run.requests, 40);
        }
    }
}

#[test]
fn folders_without_a_whole_run_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let message = |folder: &Path| RunFiles::find(folder).expect_err("nothing to validate").to_string();
    assert!(message(folder.path()).ends_with("no run in this folder"));
    assert!(message(&folder.path().join("none")).starts_with("cannot read"));
    fs::write(folder.path().join("vllm_run_a_requests.jsonl"), "").expect("writes");
    let refused = || validate_in(folder.path(), "a", &Settings::default()).expect_err("not whole").to_string();
    assert!(refused().ends_with("vllm_run_a_meta.json: results without the meta.json that says what ran"));
    fs::write(folder.path().join("vllm_run_a_meta.json"), meta(None)).expect("writes");
    let found = RunFiles::find(folder.path()).expect("a run");
    assert_eq!((found.len(), found[0].name.as_str(), found[0].series.clone()), (1, "a", None));
    assert!(refused().ends_with("vllm_run_a_timeseries.csv: not there, but the requests of this run are"));
}

#[test]
fn tables_of_heads_are_read_strictly() {
    let read = |text: &str| SharedHeads::read(&Text { file: "heads.csv".to_owned(), text: text.to_owned() });
    let refused = |text: &str| read(text).expect_err("refused").to_string();
    assert_eq!(read("request,begins_as,tokens\r\n\r\n7, 3 ,32\r\n").expect("a table").len(), 1);
    assert!(read("request,begins_as,tokens\n").expect("a table").is_empty());
    assert_eq!(refused("a,b,c\n1,2,3\n"), "heads.csv:1: the columns are `a,b,c`");
    assert_eq!(refused("request,begins_as,tokens\n1,2\n"), "heads.csv:2: `1,2`, expected three whole numbers");
    assert_eq!(refused("request,begins_as,tokens\n1,-2,3\n"), "heads.csv:2: `1,-2,3`, expected three whole numbers");
    assert!(refused("request,begins_as,tokens\n4,4,16\n").contains("expected two requests"));
    assert!(refused("request,begins_as,tokens\n4,5,16\n5,4,16\n").contains("are on an earlier line too"));
    let impossible = refused("request,begins_as,tokens\n1,0,32\n2,0,48\n");
    assert_eq!(impossible, "heads.csv: requests 0, 1 and 2 cannot begin with these numbers of tokens in common");
}

#[test]
fn built_in_tables_of_heads_are_tables() {
    for hash in [
        "05e48b32da530d4a3dd77f3d47c6fe694ac8308d611aa088e38bb10fba2b3b3a",
        "4af54eb2f7ac12b0856a1668e367fc8a330acd37c4f6c3e336ae02229e21a8bb",
    ] {
        let heads = SharedHeads::of_workload(hash).expect("known");
        assert!(heads.len() > 30 && heads.requests().all(|request| request < 300));
    }
    assert_eq!(SharedHeads::of_workload(&"0".repeat(64)), None);
}

/// In how many tokens two prompts agree, by the segments of their heads: the last one that both hold.
fn shared_tokens(heads: &SharedHeads, [a, b]: [usize; 2], prompts: &[Vec<u8>]) -> u32 {
    let [a, b] = [a, b].map(|request| heads.of(request as u32, prompts[request].len() as u32));
    let same = a.segments().iter().filter(|segment| b.segments().contains(segment));
    same.map(|segment| segment.end_tokens).max().unwrap_or(0)
}

proptest! {
    /// The tokens of two letters, so that many prompts begin alike; the oracle compares them token by token.
    #[test]
    fn segments_say_what_tokens_say(prompts in prop::collection::vec(prop::collection::vec(0_u8..2, 1..12), 1..9)) {
        let agree = |a: &[u8], b: &[u8]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let mut table = "request,begins_as,tokens\n".to_owned();
        for b in 0..prompts.len() {
            for a in 0..b {
                let tokens = agree(&prompts[a], &prompts[b]);
                if tokens > 0 {
                    writeln!(table, "{b},{a},{tokens}").expect("a string");
                }
            }
        }
        let heads = SharedHeads::read(&Text { file: String::new(), text: table }).expect("tokens do not contradict");
        for b in 0..prompts.len() {
            for a in 0..b {
                let tokens = agree(&prompts[a], &prompts[b]) as u32;
                prop_assert_eq!(shared_tokens(&heads, [a, b], &prompts), tokens, "{} {}", a, b);
            }
        }
    }
}

proptest! {
    /// Heads found by sorting are those found by comparing every two prompts.
    #[test]
    fn heads_of_prompts_are_what_every_two_share(
        prompts in prop::collection::vec((0_usize..4, prop::collection::vec(0_u32..2, 0..3), 0_usize..24), 0..12),
    ) {
        // Long heads that differ early or late, then a few tokens of their own.
        let prompts: Vec<Vec<u32>> = prompts
            .into_iter()
            .map(|(kind, own, length)| (0..length).map(|at| u32::from(at / 8 == kind)).chain(own).collect())
            .collect();
        let lines = prompts.iter().map(|prompt| format!("{{\"input_tok_ids\": {prompt:?}, \"output_toks\": 1}}\n"));
        let heads = SharedHeads::of_prompts(&Text { file: String::new(), text: lines.collect() }).expect("a workload");
        let mut table = "request,begins_as,tokens\n".to_owned();
        for b in 0..prompts.len() {
            for a in 0..b {
                let tokens = prompts[a].iter().zip(&prompts[b]).take_while(|(a, b)| a == b).count();
                if tokens >= 16 {
                    writeln!(table, "{b},{a},{tokens}").expect("a string");
                }
            }
        }
        prop_assert_eq!(heads.table(), table);
    }
}

#[test]
fn a_workload_is_read_strictly() {
    let read = |text: &str| SharedHeads::of_prompts(&Text { file: "w.jsonl".to_owned(), text: text.to_owned() });
    let error = read("{\"input_tok_ids\": [1, 2]}\n{\"input_toks\": 3}\n").expect_err("no tokens").to_string();
    assert_eq!(error, "w.jsonl:2: no request with input_tok_ids: missing field `input_tok_ids`, column 17");
    assert!(read("{\"input_tok_ids\": [1, -2]}").is_err());
}

/// The built-in tables against the workload files, where `RUNGWISE_WORKLOADS` names a folder that holds them.
#[test]
fn built_in_tables_are_those_of_their_workloads() {
    let Some(folder) = std::env::var_os("RUNGWISE_WORKLOADS").map(PathBuf::from) else {
        println!("skipped: no RUNGWISE_WORKLOADS");
        return;
    };
    for name in ["sharegpt-llama-3.1-8b-300-sps10", "sharegpt-qwen3-32b-300-sps10"] {
        let text = Text::read(&folder.join(format!("{name}.jsonl"))).expect("reads");
        let built_in = SharedHeads::of_workload(&record::sha256(text.text.as_bytes())).expect("known");
        assert_eq!(SharedHeads::of_prompts(&text).expect("a workload").table(), built_in.table(), "{name}");
    }
}

#[test]
fn percentiles_are_those_of_numpy() {
    let values = [4.0, 1.0, 3.0, 2.0];
    assert_eq!((percentile(&values, 0.5), percentile(&values, 1.0)), (Some(2.5), Some(4.0)));
    assert!((percentile(&values, 0.99).expect("some") - 3.97).abs() < 1e-12);
    assert_eq!((percentile(&[7.0], 0.99), percentile(&[], 0.5)), (Some(7.0), None));
}

#[test]
fn step_times_come_from_quiet_ticks_alone() {
    let tick = |prompt_tokens, output_tokens, running, waiting| Tick {
        seconds: 1.0,
        prompt_tokens,
        output_tokens,
        running,
        waiting,
        kv_share: None,
    };
    let ticks = vec![
        tick(500.0, 90.0, 10.0, 5.0),
        // A first token came in the tick before.
        tick(0.0, 300.0, 10.0, 5.0),
        tick(0.0, 400.0, 10.0, 5.0),
        // Somebody came back who had been preempted.
        tick(0.0, 100.0, 12.0, 3.0),
        tick(0.0, 550.0, 10.0, 0.0),
        tick(0.0, 100.0, 0.0, 0.0),
    ];
    let outcome = Outcome { requests: Vec::new(), ticks };
    let bins = by_running(&outcome, 8, &|tick| Some(2.0 * tick.running));
    assert_eq!((bins.len(), bins[0].ms(), bins[1].ticks()), (2, None, 2));
    // 400 / 10 and 550 / 11 steps in a second each.
    assert!((bins[1].ms().expect("two ticks") - 22.5).abs() < 1e-9);
    // Batches of 10 and 11 priced at 20 and 22 ms.
    let (price, difference) = bins[1].priced().expect("priced");
    assert!((price - 21.0).abs() < 1e-9 && (difference - 0.95 + 1.0).abs() < 1e-9);
    let [saturated, drain] = saturated_and_drain(&outcome, &unpriced);
    assert_eq!(drain.priced(), None);
    assert!((saturated.ms().expect("a tick") - 25.0).abs() < 1e-9 && (drain.ms().expect("a tick") - 20.0).abs() < 1e-9);
    assert!((outcome.queue_empty_s() - 4.0).abs() < 1e-12);
    assert!(by_running(&Outcome::default(), 8, &unpriced).is_empty());
}

/// The simulated server refused the first of three requests: the others are still compared with themselves.
#[test]
fn requests_are_compared_by_their_place() {
    let request = |place: u64| RequestTimes {
        place,
        prompt_tokens: 1,
        output_tokens: 11,
        queued_s: 0.0,
        first_token_s: 1.0,
        last_token_s: 2.0 + place as f64,
    };
    let outcome = |places: std::ops::Range<u64>| Outcome { requests: places.map(request).collect(), ticks: Vec::new() };
    let errors = compare::decode_errors(&outcome(0..3), &outcome(1..3)).expect("two are compared");
    assert_eq!((errors.requests, errors.most_absolute), (2, 0.0));
    assert!(compare::decode_errors(&outcome(0..1), &outcome(1..3)).is_none());
}

#[test]
fn single_tokens_have_no_decode_time() {
    let request = |output_tokens| RequestTimes {
        place: 0,
        prompt_tokens: 1,
        output_tokens,
        queued_s: 0.0,
        first_token_s: 1.0,
        last_token_s: 2.0,
    };
    assert_eq!((request(1).tpot_ms(), request(0).tpot_ms(), request(5).tpot_ms()), (None, None, Some(250.0)));
}

/// The folder of public runs, where this machine has it.
fn shared_traces() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let shared = std::env::var_os("RUNGWISE_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let folder = shared.join("traces");
    if folder.join("vllm_run_rtx4090_llama8b_tp1_requests.jsonl").is_file() {
        return Some(folder);
    }
    println!("skipped: no {}", folder.display());
    None
}

#[test]
fn the_measured_run_on_an_rtx_4090_meets_every_target() {
    let Some(folder) = shared_traces() else { return };
    let run = validate_in(&folder, "rtx4090_llama8b_tp1", &Settings::default()).expect("it is compared");
    assert_eq!(run.missed(), Vec::<&str>::new(), "{:#?} {:#?}", run.figures, run.decode_errors);
    let judged = run.figures.iter().filter(|figure| figure.met.is_some()).count();
    assert_eq!((judged, run.requests), (7, 300));
    let errors = run.decode_errors.expect("compared");
    assert!(errors.mean_absolute < 0.02, "{errors:?}");
    let predicted = run.predicted.expect("simulated");
    assert_eq!((predicted.largest_full, predicted.outside_steps), (Some(56), 0), "FULL graphs above 56 never fire");
}

/// What the prompts were matters to single requests, not to the sums.
#[test]
fn without_the_heads_only_single_requests_are_missed() {
    let Some(folder) = shared_traces() else { return };
    let settings = Settings { no_heads: true, ..Settings::default() };
    let run = validate_in(&folder, "rtx4090_llama8b_tp1", &settings).expect("it is compared");
    assert_eq!(run.missed(), ["decode time of single requests"], "{:#?} {:#?}", run.figures, run.decode_errors);
    assert!(run.decode_errors.expect("compared").mean_absolute < 0.055);
}

#[test]
fn the_measured_run_without_kernel_tables_keeps_its_queue() {
    let Some(folder) = shared_traces() else { return };
    let run = validate_in(&folder, "rtxpro6000_qwen3-32b_tp2", &Settings::default()).expect("it is compared");
    assert!(run.is_fitted && run.missed().is_empty(), "{:#?}", run.figures);
    let waiting = run.figures.iter().find(|figure| figure.figure == "waiting, most").expect("compared");
    assert!(waiting.difference.abs() < 0.02, "{waiting:?}");
}
