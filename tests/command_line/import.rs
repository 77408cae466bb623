//! `sim import`: from what a server printed to a scenario that the other commands take.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::{Answer, command_in, names, root, sim_in};

/// The made-up logs, in the exact shapes that the engines print.
fn fixture(name: &str) -> String {
    let path = root().join("tests/command_line/import").join(name);
    fs::read_to_string(path).expect("a fixture")
}

/// A folder with these files in it.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, content) in files {
        fs::write(folder.path().join(name), content).expect("writable");
    }
    folder
}

/// The same lines, each changed.
fn each_line(log: &str, change: impl Fn(&str) -> String) -> String {
    log.lines().map(|line| change(line) + "\n").collect()
}

fn import(folder: &Path, arguments: &[&str]) -> Answer {
    sim_in(folder, &[&["import"], arguments].concat())
}

/// The scenario without its comments at the top, which name hashes.
fn scenario(text: &str) -> &str {
    &text[text.find("schema = 1").expect("a scenario")..]
}

/// What a file made of these bytes comes to on standard output, if anything.
fn imported(content: &[u8]) -> Answer {
    let folder = folder(&[("server.log", content)]);
    import(folder.path(), &["server.log"])
}

#[test]
fn a_log_of_each_engine_becomes_a_scenario() {
    let logs = [
        "vllm.log",
        "vllm_iterations.log",
        "vllm_batchsize_stats.log",
        "vllm_statistics.log",
        "sglang.log",
        "sglang_old.log",
    ];
    for name in logs {
        let folder = folder(&[(name, fixture(name).as_bytes())]);
        let answer = import(folder.path(), &[name, "--out", "mine.toml"]);
        let text = fs::read_to_string(folder.path().join("mine.toml")).expect("written");
        let out = answer.stdout.clone();
        insta::assert_snapshot!(format!("import_{name}"), format!("{}\n{out}\n{text}", answer.stderr));
        answer.done();
        sim_in(folder.path(), &["check", "mine.toml"]).done();
        sim_in(folder.path(), &["price", "mine.toml"]).done();
        assert_eq!(names(folder.path()), ["mine.toml", name]);
    }
}

#[test]
fn from_a_log_to_flags() {
    let folder = folder(&[("server.log", fixture("vllm.log").as_bytes())]);
    import(folder.path(), &["server.log", "--out", "mine.toml", "--profile", "h200-llama-3.1-8b"]).done();
    let text = fs::read_to_string(folder.path().join("mine.toml")).expect("written");
    let pool = "num_gpu_blocks_override = 26827  # server.log:13: 429232 tokens in blocks of 16\n";
    assert!(text.contains(pool), "{text}");
    let flags = sim_in(folder.path(), &["propose", "mine.toml"]).done();
    assert!(flags.contains("--compilation-config"), "{flags}");
}

/// The profile that stands in has less room than the server.
#[test]
fn a_context_too_long_for_the_nearest_profile_does_not_stop_a_proposal() {
    let log = fixture("vllm.log").replace("8192", "131072");
    let folder = folder(&[("server.log", log.as_bytes())]);
    let answer = import(folder.path(), &["server.log", "--out", "mine.toml"]);
    assert!(answer.stderr.contains("the KV cache of 429232 tokens (server.log:13) is left out"), "{}", answer.stderr);
    sim_in(folder.path(), &["propose", "mine.toml"]).done();
}

/// A record with the line in it.
fn json(key: &str, line: &str) -> String {
    serde_json::json!({ key: line, "stream": "stdout", "time": "2026-04-16T16:58:41Z" }).to_string()
}

/// A line as a node's log holds it where it is split behind every seventh byte, among parts of another stream.
fn in_parts(line: &str) -> String {
    let bytes: Vec<&[u8]> = line.as_bytes().chunks(7).collect();
    let text: Vec<&str> = bytes.iter().map(|part| std::str::from_utf8(part).expect("ASCII")).collect();
    let (last, first) = text.split_last().unwrap_or((&"", &[]));
    let first: String = first.iter().map(|part| part_of("stdout P", part) + &part_of("stderr P", ".")).collect();
    first + &part_of("stdout F", last) + &part_of("stderr F", "")
}

/// A line of a node's log.
fn part_of(stream_and_tag: &str, text: &str) -> String {
    format!("2026-04-16T16:58:41.123456789Z {stream_and_tag} {text}\n")
}

#[test]
fn decoration_changes_nothing() {
    let log = fixture("vllm.log");
    let plain = imported(log.as_bytes()).done();
    let dressed: Vec<(&str, String)> = vec![
        ("CR LF", log.replace('\n', "\r\n")),
        ("colours", log.replace("INFO", "\u{1b}[32mINFO\u{1b}[0m")),
        ("compose", each_line(&log, |line| format!("vllm-1  | {line}"))),
        ("kubectl", each_line(&log, |line| format!("2026-04-16T16:58:41.123456789Z {line}"))),
        ("shown as Markdown", log.replace("**", "").replace("Mode: FULL_AND", "Mode: CUDAGraphMode.FULL_AND")),
        ("journal", each_line(&log, |line| format!("Apr 16 16:58:41 host vllm[123]: {line}"))),
        ("precise journal", each_line(&log, |line| format!("Apr 16 16:58:41.123456 host vllm[123]: {line}"))),
        ("journal in ISO", each_line(&log, |line| format!("2026-04-16T16:58:41+0100 host vllm[123]: {line}"))),
        ("a node's log", each_line(&log, |line| format!("2026-04-16T16:58:41.123456789Z stdout F {line}"))),
        (
            "a node's log of records",
            each_line(&log, |line| format!("2026-04-16T16:58:41.1Z stdout F {}", json("textPayload", line))),
        ),
        ("kubectl --prefix", each_line(&log, |line| format!("[pod/vllm-0/vllm] {line}"))),
        ("swarm", each_line(&log, |line| format!("stack_vllm.1.abc123@node1    | {line}"))),
        ("compose with times", each_line(&log, |line| format!("vllm-1  | 2026-04-16T16:58:41.123456789Z {line}"))),
        ("srun --label", each_line(&log, |line| format!("0: {line}"))),
        ("torchrun", each_line(&log, |line| format!("[rank0]: {line}"))),
        ("a time in brackets", each_line(&log, |line| format!("[2026-04-16 16:58:41] {line}"))),
        ("a container's log", each_line(&log, |line| json("log", &format!("{line}\n")))),
        ("a cloud's log", each_line(&log, |line| json("textPayload", line))),
    ];
    for (what, log) in dressed {
        assert_eq!(scenario(&imported(log.as_bytes()).done()), scenario(&plain), "{what}");
    }
}

/// The counts of the steps of a scenario.
fn counts(text: &str) -> Vec<u64> {
    let rows = text.lines().filter(|line| line.trim_start().starts_with("{ tokens"));
    let count = |row: &str| row.split("count = ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    rows.map(|row| count(row).expect("a count")).collect()
}

/// Lines of other processes between the lines of a table, and two servers that print at once.
#[test]
fn interleaved_processes_are_told_apart() {
    let table = fixture("vllm_cudagraph_metrics.log");
    let other = table.replace("APIServer pid=3606348", "APIServer pid=7");
    let words = "(EngineCore_DP0 pid=1) INFO 12-02 16:51:04 [core.py:1] words";
    let between = each_line(&table, |line| format!("{line}\n{words}"));
    let both: Vec<&str> = table.lines().zip(other.lines()).flat_map(|(line, other)| [line, other]).collect();
    let both = both.join("\n");
    let plain = counts(&imported(table.as_bytes()).done());
    assert_eq!(plain, [305, 412, 12, 3]);
    assert_eq!(counts(&imported(between.as_bytes()).done()), plain);
    let doubled: Vec<u64> = plain.iter().map(|count| 2 * count).collect();
    assert_eq!(counts(&imported(both.as_bytes()).done()), doubled);
    // Without prefixes nobody can tell whose line is whose: rows that stand out of place are counted, not guessed.
    let bare = each_line(&both, |line| line.rsplit("] ").next().unwrap_or_default().to_owned());
    let mixed = imported(bare.as_bytes());
    assert!(mixed.stderr.contains("could not be read"), "{}", mixed.stderr);
}

/// Two services of one host: their processes have the same names and numbers.
#[test]
fn services_of_one_host_are_told_apart() {
    let table = fixture("vllm_cudagraph_metrics.log");
    let plain = counts(&imported(table.as_bytes()).done());
    let doubled: Vec<u64> = plain.iter().map(|count| 2 * count).collect();
    let both = each_line(&table, |line| format!("vllm-a-1  | {line}\nvllm-b-1  | {line}"));
    assert_eq!(counts(&imported(both.as_bytes()).done()), doubled);
    let sizes = |service: &str, count: u64| {
        format!(
            "{service}  | (EngineCore_DP0 pid=273) INFO 11-29 16:40:01 [forward_context.py:388] Batchsize forward time stats \
             (batchsize, count, median_time(ms)): [(8, {count}, 6.91)]\n"
        )
    };
    let log: Vec<String> = (1..=10).flat_map(|n| [sizes("vllm-a-1", 100 * n), sizes("vllm-b-1", 90 * n)]).collect();
    assert_eq!(counts(&imported(log.concat().as_bytes()).done()), [1900]);
}

/// Whoever keeps logs in several files cuts them anywhere.
#[test]
fn a_log_in_two_files_is_one_log() {
    let log = fixture("vllm.log");
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let whole = counts(&imported(log.as_bytes()).done());
    for cut in 1..lines.len() {
        let (older, newer) = lines.split_at(cut);
        let folder = folder(&[("old.log", older.concat().as_bytes()), ("new.log", newer.concat().as_bytes())]);
        let answer = import(folder.path(), &["old.log", "new.log"]);
        assert_eq!(counts(&answer.done()), whole, "cut behind line {cut}");
    }
    let row = lines.iter().rposition(|line| line.contains("] | ")).expect("a row of a table");
    let (older, newer) = lines.split_at(row);
    let folder = folder(&[("old.log", older.concat().as_bytes()), ("new.log", newer.concat().as_bytes())]);
    let reversed = import(folder.path(), &["new.log", "old.log"]);
    assert!(reversed.stderr.contains("are the files in order of time?"), "{}", reversed.stderr);
}

#[test]
fn lines_in_parts_are_read_as_they_were_printed() {
    let log = fixture("vllm.log");
    // Whatever names no place: lines have other numbers in parts.
    let placeless = |text: &str| {
        let lines = scenario(text).lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split("  # ").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let parts = each_line(&log, in_parts);
    let read = imported(parts.as_bytes()).done();
    assert_eq!(placeless(&read), placeless(&imported(log.as_bytes()).done()));
    // A line is where it begins.
    let before: usize = log.lines().take(2).map(|line| (in_parts(line) + "\n").lines().count()).sum();
    let limit = format!("max_num_seqs = 64  # server.log:{}\n", before + 1);
    assert!(read.contains(&limit), "{limit}{read}");
}

/// A node cuts its logs where it likes, also inside a line.
#[test]
fn a_line_in_parts_that_does_not_end_is_not_read() {
    let log = fixture("vllm_cudagraph_metrics.log");
    let whole = counts(&imported(log.as_bytes()).done());
    let parts = each_line(&log, in_parts);
    let lines: Vec<&str> = parts.lines().collect();
    let middle = lines.iter().rposition(|line| line.contains("stdout P")).expect("a part");
    let (older, newer) = lines.split_at(middle);
    let (older, newer) = (older.join("\n"), newer.join("\n"));
    let files = folder(&[("0.log", older.as_bytes()), ("1.log", newer.as_bytes())]);
    assert_eq!(counts(&import(files.path(), &["0.log", "1.log"]).done()), whole);
    let cut = import(files.path(), &["0.log"]);
    let said = "the end of a line in parts (`P`) is missing";
    assert!(cut.stderr.replace("\n  ", " ").contains(said), "{}", cut.stderr);
    let long = part_of("stdout P", &"9".repeat(1 << 14)).repeat(65) + &part_of("stdout F", "9") + &parts;
    let long = imported(long.as_bytes());
    let said = "1 line could not be read, the first at server.log:1: a line in parts (`P`) is longer than 1 MiB in all";
    assert!(long.stderr.replace("\n  ", " ").contains(said), "{}", long.stderr);
    assert_eq!(counts(&long.done()), whole);
}

/// Parts whose ends are not in the log at all, or of some lines only.
#[test]
fn missing_ends_of_lines_are_named_where_nothing_else_is_left() {
    let log = fixture("vllm_cudagraph_metrics.log");
    let endless =
        imported(each_line(&log, |line| part_of("stdout P", line)).replace("\n\n", "\n").as_bytes()).refused(3);
    let said =
        format!("{} lines that came in parts (`P`) never ended (`F`), the first at server.log:1", log.lines().count());
    let words = |text: &str| text.replace("│", " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&endless).contains(&said), "{endless}");
    assert!(!endless.contains("--cudagraph-metrics"), "{endless}");
    // The last row of the table alone: the rest is read.
    let whole = counts(&imported(log.as_bytes()).done());
    let last_row = log.lines().rfind(|line| line.contains("] | ")).expect("a row");
    let tag = |line: &str| if line == last_row { "stdout P" } else { "stdout F" };
    let mut parts: String = log.lines().map(|line| part_of(tag(line), line)).collect();
    parts += &part_of("stdout F", "(APIServer pid=3606348) INFO 12-02 16:51:05 [a.py:1] words");
    let answer = imported(parts.as_bytes());
    assert!(answer.stderr.contains("1 line could not be read"), "{}", answer.stderr);
    assert_eq!(counts(&answer.done()), whole[..whole.len() - 1]);
}

/// A scenario with at most so many steps, or a refusal.
#[track_caller]
fn answers(answer: Answer, most: u64, what: &str) {
    match answer.code {
        Some(0) => assert!(counts(&answer.done()).iter().sum::<u64>() <= most, "{what}"),
        _ => assert!(answer.refused(3).contains("  ×"), "{what}"),
    }
}

#[test]
fn every_beginning_and_every_order_of_a_log_is_an_answer() {
    for name in ["vllm.log", "sglang.log"] {
        let log = fixture(name);
        let whole: u64 = counts(&imported(log.as_bytes()).done()).iter().sum();
        let mut lines: Vec<&str> = log.split_inclusive('\n').collect();
        for end in 0..lines.len() {
            answers(imported(lines[..end].concat().as_bytes()), whole, &format!("{name}, {end} lines"));
        }
        for end in (0..log.len()).step_by(97).filter(|&end| log.is_char_boundary(end)) {
            answers(imported(&log.as_bytes()[..end]), whole, &format!("{name}, {end} bytes"));
        }
        lines.reverse();
        answers(imported(lines.concat().as_bytes()), u64::MAX, name);
    }
}

#[test]
fn packed_logs_and_standard_input() {
    let log = fixture("vllm.log");
    let plain = imported(log.as_bytes()).done();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(log.as_bytes()).expect("memory");
    let gzip = packed.finish().expect("memory");
    let zstd = ruzstd::encoding::compress_to_vec(log.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    for packed in [&gzip, &zstd] {
        assert_eq!(scenario(&imported(packed).done()), scenario(&plain));
    }
    let cut = imported(&gzip[..gzip.len() - 200]);
    assert!(cut.stderr.contains("reading ended early"), "{}", cut.stderr);
    let mut child = command_in(&root(), &["import", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    child.stdin.take().expect("a pipe").write_all(log.as_bytes()).expect("read");
    let piped: Answer = child.wait_with_output().expect("ends").into();
    let named = |text: &str| scenario(text).replace("standard input", "server.log");
    assert_eq!(named(&piped.done()), scenario(&plain));
}

#[test]
fn refusals() {
    let log = fixture("vllm.log");
    let startup = log.split("(APIServer pid=3606348) INFO 12-02 16:51:14").next().expect("a beginning");
    let decodes = "[2025-07-29 18:14:22 TP0] server_args=ServerArgs(model_path='m', context_length=4096)\n";
    let files: &[(&str, &[u8])] = &[
        ("empty.log", b""),
        ("foreign.csv", b"a,b\n1,2\n3,4\n5,6\n"),
        ("binary.bin", &[0, 1, 2, 0xff, 0xfe, b'\n', 27, b'[', b'2', b'J']),
        ("utf16.log", b"\xff\xfeI\0N\0F\0O\0"),
        ("startup.log", startup.as_bytes()),
        ("idle.log", decodes.as_bytes()),
        ("there.toml", b"kept"),
        ("server.log", &[]),
    ];
    let folder = folder(files);
    fs::write(folder.path().join("server.log"), fixture("vllm.log")).expect("writable");
    let mut said = Vec::new();
    for (code, arguments) in [
        (3, vec!["empty.log"]),
        (3, vec!["foreign.csv"]),
        (3, vec!["binary.bin"]),
        (3, vec!["utf16.log"]),
        (3, vec!["startup.log"]),
        (3, vec!["idle.log"]),
        (3, vec!["missing.log"]),
        (3, vec!["."]),
        (2, vec!["-", "-"]),
        (3, vec!["server.log", "./server.log"]),
        (2, vec!["server.log", "--out", "nowhere/mine.toml"]),
        (2, vec!["server.log", "--out", "there.toml"]),
        (2, vec!["server.log", "--out", "server.log", "--force"]),
        (3, vec!["server.log", "--profile", "nobody"]),
        (2, vec!["server.log", "--force"]),
        (2, vec!["server.log", "--from", "novel"]),
    ] {
        let message = import(folder.path(), &arguments).refused(code);
        said.push(format!("sim import {}\n{message}", arguments.join(" ")));
    }
    insta::assert_snapshot!("import_refusals", said.join("\n"));
    assert_eq!(fs::read(folder.path().join("there.toml")).expect("there"), b"kept");
    import(folder.path(), &["server.log", "--out", "there.toml", "--force"]).done();
}

/// A statistics line.
fn statistics(prompts: f64, outputs: f64, running: u32) -> String {
    format!(
        "(APIServer pid=1) INFO 11-30 09:02:10 [loggers.py:257] Engine 000: Avg prompt throughput: {prompts} tokens/s, Avg \
         generation throughput: {outputs} tokens/s, Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 4.9%\n"
    )
}

#[test]
fn statistics_lines_are_tokens_of_ten_seconds_and_requests_of_a_moment() {
    let steady = statistics(0.0, 5200.0, 40).repeat(3);
    let drained = imported((steady.clone() + &statistics(0.0, 4200.0, 1)).as_bytes());
    assert_eq!(counts(&drained.done()), [2000, 3900], "21 and 40 requests");
    let bursts = steady + &statistics(0.0, 0.0, 0) + &statistics(3000.0, 4000.0, 0) + &statistics(3.0, 4000.0, 3);
    let said = imported(bursts.as_bytes());
    assert!(said.stderr.contains("2 of 5 statistics lines with tokens are left out"), "{}", said.stderr);
    assert_eq!(counts(&said.done()), [3900]);
    let nothing = imported(statistics(3000.0, 4000.0, 0).as_bytes()).refused(3);
    assert!(nothing.contains("its statistics lines"), "{nothing}");
}

#[test]
fn drafts_are_accepted_as_the_log_says() {
    let arguments = "(APIServer pid=1) INFO 11-30 09:00:00 [utils.py:233] non-default args: {'model': 'm', 'max_num_seqs': 128, \
                     'speculative_config': {'method': 'eagle3', 'num_speculative_tokens': 3}}\n";
    let drafts = "(APIServer pid=1) INFO 11-30 09:02:10 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: 2.50, \
                  Accepted throughput: 3000.00 tokens/s, Drafted throughput: 6000.00 tokens/s, Accepted: 30000 tokens, Drafted: \
                  60000 tokens, Per-position acceptance rate: 0.700, 0.500, 0.300, Avg Draft acceptance rate: 50.0%\n";
    let log = arguments.to_owned() + &(statistics(0.0, 5000.0, 40) + drafts).repeat(6);
    assert_eq!(
        counts(&imported(log.as_bytes()).done()),
        [3000],
        "60 s of 5000 tokens/s over 40 requests of 2.5 tokens"
    );
    let folder = folder(&[("bench.json", fixture("bench_vllm.json").as_bytes()), ("server.log", log.as_bytes())]);
    import(folder.path(), &["bench.json", "server.log", "--out", "mine.toml"]).done();
    let text = fs::read_to_string(folder.path().join("mine.toml")).expect("written");
    assert!(text.contains("acceptance.rates = [0.7, 0.5, 0.3]  # from the lines about drafts"), "{text}");
    sim_in(folder.path(), &["run", "mine.toml"]).done();
}

#[test]
fn releases_before_graph_modes_run_what_they_ran() {
    let log = |version: &str, switches: &str| {
        format!(
            "INFO 07-11 08:00:00 [api_server.py:1395] vLLM API server version {version}\nINFO 07-11 08:00:08 [core.py:69] \
             Initializing a V1 LLM engine (v{version}) with config: model='m', max_seq_len=8192, pipeline_parallel_size=2, \
             compilation_config={{\"level\":3,{switches}\"cudagraph_capture_sizes\":[8,4,2,1]}}\n"
        ) + &statistics(0.0, 1000.0, 8)
    };
    for (version, switches, mode) in [
        (
            "0.9.2",
            "\"use_cudagraph\":true,\"full_cuda_graph\":false,",
            "\"PIECEWISE\"  # full_cuda_graph at server.log:2",
        ),
        ("0.9.2", "\"full_cuda_graph\":true,", "\"FULL\"  # full_cuda_graph at server.log:2"),
        ("0.9.2", "\"use_cudagraph\":false,", "\"NONE\"  # use_cudagraph at server.log:2"),
        ("0.8.5", "", "\"PIECEWISE\"  # assumed"),
        ("0.6.3", "", "\"FULL_DECODE_ONLY\"  # assumed"),
    ] {
        let answer = imported(log(version, switches).as_bytes());
        assert!(answer.stderr.contains("one device stands for the 2 pipeline stages"), "{}", answer.stderr);
        let text = answer.done();
        assert!(text.contains(&format!("cudagraph_mode = {mode}\n")), "{version} {switches}\n{text}");
        assert!(text.contains("async_scheduling = false  # assumed"), "{text}");
    }
    let v0 = "INFO 10-11 08:00:00 api_server.py:528] vLLM API server version 0.6.3\nINFO 10-11 08:00:00 api_server.py:529] args: \
              Namespace(host=None, model='m', max_model_len=8192, max_num_seqs=64)\nINFO 10-11 08:00:05 llm_engine.py:237] \
              Initializing an LLM engine (v0.6.3) with config: model='m', max_seq_len=8192, chunked_prefill_enabled=False, \
              use_cached_outputs=False\nINFO 10-11 08:01:00 metrics.py:345] Avg prompt throughput: 819.2 tokens/s, Avg \
              generation throughput: 800.0 tokens/s, Running: 20 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: \
              4.0%, CPU KV cache usage: 0.0%.\n";
    let v0 = imported(v0.as_bytes()).done();
    assert!(v0.contains("max_num_batched_tokens = 8192  # assumed") && v0.contains("FULL_DECODE_ONLY"), "{v0}");
    assert_eq!(counts(&v0)[0], 400);
    let newer = imported(log("0.14.0", "").as_bytes()).done();
    assert!(!newer.contains("async_scheduling") && !newer.contains("cudagraph_mode = \"PIECEWISE"), "{newer}");
}

#[test]
fn an_older_file_beside_a_scenario_stays_where_the_new_one_fails() {
    let no_tokens =
        "INFO 11-30 09:00:01 [scheduler.py:239] Chunked prefill is enabled with max_num_batched_tokens=0.\n";
    let folder = folder(&[
        ("bench.json", fixture("bench_vllm.json").as_bytes()),
        ("server.log", no_tokens.as_bytes()),
        ("mine.toml", b"old"),
        ("mine.requests.csv", b"old"),
    ]);
    let files = names(folder.path());
    let answer = import(folder.path(), &["bench.json", "server.log", "--out", "mine.toml", "--force"]);
    let message = answer.refused(3);
    assert!(message.contains("max_num_batched_tokens"), "{message}");
    assert_eq!(names(folder.path()), files, "nothing is left behind");
    for name in ["mine.toml", "mine.requests.csv"] {
        assert_eq!(fs::read(folder.path().join(name)).expect("there"), b"old", "{name}");
    }
    import(folder.path(), &["bench.json", "--out", "mine.toml", "--force"]).done();
    assert_ne!(fs::read(folder.path().join("mine.requests.csv")).expect("there"), b"old");
}

/// A pipe gives its bytes once.
#[test]
fn a_trace_from_a_pipe_is_copied_whole() {
    let row = |second: u32| format!("{second},100,{}\n", second % 50 + 1);
    let rows: String = (0..20_000).map(row).collect();
    let trace = format!("arrived_at,num_prefill_tokens,num_decode_tokens\n{rows}");
    let folder = folder(&[]);
    let mut child = command_in(folder.path(), &["import", "/dev/stdin", "--out", "mine.toml"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    child.stdin.take().expect("a pipe").write_all(trace.as_bytes()).expect("read");
    let answer: Answer = child.wait_with_output().expect("ends").into();
    answer.done();
    let copied = fs::read_to_string(folder.path().join("mine.requests.csv")).expect("written");
    assert_eq!(copied.lines().count(), 20_001);
    sim_in(folder.path(), &["check", "mine.toml"]).done();
}

#[test]
fn absurd_numbers_are_answers() {
    let line = |text: &str| format!("(APIServer pid=1) INFO 11-30 09:02:10 [a.py:1] {text}\n");
    let most = u64::MAX;
    let throughput = |running: u64| {
        line(&format!(
            "Engine 000: Avg prompt throughput: 1e300 tokens/s, Avg generation throughput: 1e300 tokens/s, Running: {running} \
             reqs, Waiting: 0 reqs"
        ))
    };
    let row = |tokens: u64| line(&format!("| {tokens} | {tokens} | 0 | FULL | {most} |"));
    let table = ["**CUDAGraph Config Settings:**", "- Mode: FULL", "- Capture sizes: [4294967295]"].map(line).concat()
        + &line("| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |")
        + &row(8)
        + &row(4)
        + &row(4_294_967_295);
    let sizes = |count: u64| {
        line(&format!("Batchsize forward time stats (batchsize, count, median_time(ms)): [(4294967295, {count}, 6.9)]"))
    };
    let step = |tokens: u64| {
        line(&format!(
            "Iteration({most}): {tokens} context requests, {tokens} context tokens, {tokens} generation requests, {tokens} \
             generation tokens, iteration elapsed time: 1e308 ms"
        ))
    };
    let arguments = format!(
        "[2025-07-29 18:14:22] server_args=ServerArgs(model_path='m', cuda_graph_max_bs=4294967295, max_running_requests={most}, \
         chunked_prefill_size={most}, decode_log_interval={most}, context_length={most})\n"
    );
    let decode = "[2025-07-29 18:14:22] Decode batch, #running-req: 4294967295, cuda graph: True\n";
    let prefill =
        "[2025-07-29 18:14:22] Prefill batch, #new-seq: 4294967295, #new-token: 4294967295, #running-req: 4294967295\n";
    let passes = "sglang:cuda_graph_passes_total{mode=\"decode_none\",a=\"1\"} 1e300\n";
    let logs = [
        throughput(most),
        throughput(4_294_967_295) + &throughput(1024) + &throughput(1),
        table,
        sizes(most) + &sizes(5) + &sizes(3),
        step(most) + &step(4_294_967_295) + &step(2_147_483_648),
        arguments.clone() + decode + &decode.replace("4294967295", "3").repeat(2) + prefill,
        arguments + passes,
        passes.to_owned() + &passes.replace("a=\"1\"", "a=\"2\""),
    ];
    for log in logs {
        let answer = imported(log.as_bytes());
        assert!(matches!(answer.code, Some(0 | 3)), "{:?} {log}\n{}", answer.code, answer.stderr);
    }
}

#[test]
fn many_shapes_go_into_a_file_beside_the_scenario() {
    let line = |number: u64| {
        let (context, generation) = (number % 200 + 1, number / 200 + 1);
        format!(
            "(EngineCore_DP0 pid=1) INFO 04-16 16:58:41 [core.py:1] Iteration({number}): 1 context requests, {context} context \
             tokens, {generation} generation requests, {generation} generation tokens, iteration elapsed time: 7.00 ms\n"
        )
    };
    let log: String = (0..6_000).map(line).collect();
    let folder = folder(&[("server.log", log.as_bytes())]);
    let message = import(folder.path(), &["server.log"]).refused(2);
    assert!(message.contains("give --out FILE"), "{message}");
    import(folder.path(), &["server.log", "--out", "mine.toml"]).done();
    assert_eq!(names(folder.path()), ["mine.steps.csv", "mine.toml", "server.log"]);
    sim_in(folder.path(), &["check", "mine.toml"]).done();
    let csv = fs::read_to_string(folder.path().join("mine.steps.csv")).expect("written");
    assert_eq!(csv.lines().count(), 6_001);
}

#[test]
fn a_profile_of_ones_own_is_named_from_the_scenarios_folder() {
    let folder = folder(&[("server.log", fixture("vllm.log").as_bytes())]);
    fs::create_dir(folder.path().join("inside")).expect("writable");
    let profile = PathBuf::from("inside/mine.toml");
    fs::copy(root().join("scenarios/profiles/losing-replay.toml"), folder.path().join(&profile)).expect("copied");
    import(folder.path(), &["server.log", "--profile", "inside/mine.toml", "--out", "inside/scenario.toml"]).done();
    let text = fs::read_to_string(folder.path().join("inside/scenario.toml")).expect("written");
    assert!(text.contains("[profile]\nfile = \"mine.toml\"\n"), "{text}");
    sim_in(folder.path(), &["check", "inside/scenario.toml"]).done();
}

/// Every other source, on its fixture: the scenario, the file beside it, and whether the other commands take it.
#[test]
fn metrics_benches_and_traces_become_scenarios() {
    let cases: [(&str, &[&str], &str); 17] = [
        ("vllm_metrics", &["vllm_prometheus.txt"], "price"),
        ("vllm_metrics_upper", &["vllm_prometheus.txt", "--buckets", "upper"], "price"),
        ("sglang_metrics", &["sglang_prometheus.txt", "sglang_start.log"], "price"),
        ("bench_vllm", &["bench_vllm.json"], "run"),
        ("bench_sglang", &["bench_sglang.jsonl", "--engine", "sglang"], "run"),
        ("burstgpt", &["burstgpt.csv"], "run"),
        ("burstgpt_3", &["burstgpt_3.csv"], "run"),
        ("azure_2023", &["azure_2023.csv"], "run"),
        ("azure_2024", &["azure_2024.csv"], "run"),
        ("azure_lmm", &["azure_lmm.csv"], "run"),
        ("mooncake", &["mooncake.jsonl"], "run"),
        ("vidur", &["vidur.csv"], "run"),
        ("vidur_lengths", &["vidur_lengths.csv"], "run"),
        ("llmservingsim", &["llmservingsim.csv"], "run"),
        ("vllm_requests", &["vllm_requests.jsonl"], "run"),
        ("servegen", &["servegen_trace.csv", "servegen_dataset.json", "--seed", "7"], "run"),
        ("trace_and_log", &["vllm.log", "azure_2023.csv"], "run"),
    ];
    for (what, arguments, next) in cases {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in arguments.iter().filter(|name| name.contains('.')) {
            let content = match *name {
                // The start of the server without its steps: those count in the metrics.
                "sglang_start.log" => each_line(&fixture("sglang.log"), |line| line.replace(" batch, ", " ")),
                name => fixture(name),
            };
            fs::write(folder.path().join(name), content).expect("writable");
        }
        let answer = import(folder.path(), &[arguments, &["--out", "mine.toml"]].concat());
        assert_eq!(answer.code, Some(0), "{what}: {}", answer.stderr);
        let text = fs::read_to_string(folder.path().join("mine.toml")).expect("written");
        let beside = fs::read_to_string(folder.path().join("mine.requests.csv")).unwrap_or_default();
        let beside: String = beside.lines().take(5).collect::<Vec<_>>().join("\n");
        let shown = format!("{}\n{}\n{text}\n{beside}", answer.stderr, answer.stdout);
        insta::assert_snapshot!(format!("import_{what}"), shown);
        sim_in(folder.path(), &["check", "mine.toml"]).done();
        sim_in(folder.path(), &[next, "mine.toml"]).done();
    }
}

#[test]
fn packed_traces_and_those_of_standard_input_are_copied_beside_the_scenario() {
    let trace = fixture("azure_2023.csv");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(trace.as_bytes()).expect("memory");
    let folder = folder(&[("trace.csv.gz", &packed.finish().expect("memory")), ("trace.csv", trace.as_bytes())]);
    let refused = import(folder.path(), &["trace.csv.gz"]).refused(2);
    assert!(refused.contains("give --out FILE"), "{refused}");
    import(folder.path(), &["trace.csv.gz", "--out", "packed.toml"]).done();
    import(folder.path(), &["trace.csv", "--out", "plain.toml"]).done();
    assert_eq!(names(folder.path()), ["packed.requests.csv", "packed.toml", "plain.toml", "trace.csv", "trace.csv.gz"]);
    let figures = |scenario: &str| {
        let csv = sim_in(folder.path(), &["run", scenario, "--format", "csv"]).done();
        csv.lines().map(|line| line.split_once(',').expect("columns").1.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(figures("packed.toml"), figures("plain.toml"));
    let again = import(folder.path(), &["trace.csv.gz", "--out", "packed.toml"]).refused(2);
    assert!(again.contains("exists already"), "{again}");
    fs::remove_file(folder.path().join("packed.toml")).expect("there");
    let again = import(folder.path(), &["trace.csv.gz", "--out", "packed.toml"]).refused(2);
    assert!(again.contains("packed.requests.csv exists already"), "{again}");
    import(folder.path(), &["trace.csv.gz", "--out", "packed.toml", "--force"]).done();
}

/// Every source cut off anywhere, with its lines in another order, and read as what it is not.
#[test]
fn every_source_cut_off_reordered_or_mistaken_is_an_answer() {
    let sources: [(&str, &str); 11] = [
        ("vllm_prometheus.txt", "prometheus"),
        ("bench_vllm.json", "bench"),
        ("bench_sglang.jsonl", "bench"),
        ("burstgpt.csv", "burstgpt"),
        ("azure_2024.csv", "azure"),
        ("mooncake.jsonl", "mooncake"),
        ("vidur.csv", "vidur"),
        ("llmservingsim.csv", "llmservingsim"),
        ("vllm_requests.jsonl", "vllm-requests"),
        ("servegen_trace.csv", "servegen-trace"),
        ("servegen_dataset.json", "servegen-dataset"),
    ];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let attempt = |content: &[u8], more: &[&str], what: &str| {
        fs::write(folder.path().join("source"), content).expect("writable");
        let answer = import(folder.path(), &[&["source", "--out", "mine.toml", "--force"], more].concat());
        match answer.code {
            Some(0) => drop(answer.done()),
            _ => assert!(answer.refused(3).contains("  ×"), "{what}"),
        }
    };
    for (name, kind) in sources {
        let text = fixture(name);
        let step = (text.len() / 12).max(1);
        for end in (0..text.len()).step_by(step).filter(|&end| text.is_char_boundary(end)) {
            attempt(&text.as_bytes()[..end], &["--from", kind], &format!("{name}, {end} bytes"));
        }
        let mut lines: Vec<&str> = text.lines().collect();
        lines.reverse();
        attempt(lines.join("\n").as_bytes(), &["--from", kind], &format!("{name} reversed"));
        attempt(b"\xff\xfe\0\0{\"a\": [1, 2\n\n|||,,,\n", &["--from", kind], &format!("{kind} of nothing"));
        for other in ["log", "prometheus", "bench", "azure", "vllm-requests", "servegen-dataset", "steps"] {
            attempt(text.as_bytes(), &["--from", other], &format!("{name} as {other}"));
        }
    }
}

#[test]
fn what_is_no_traffic_or_only_half_of_it_is_said() {
    let folder = folder(&[
        ("forward.json", fixture("vllm_bench_forward.json").as_bytes()),
        ("windows.csv", fixture("servegen_trace.csv").as_bytes()),
        ("lengths.json", fixture("servegen_dataset.json").as_bytes()),
        ("metrics.txt", fixture("sglang_prometheus.txt").as_bytes()),
        ("bench.json", br#"{"num_prompts": 3, "completed": 0}"#),
        ("failed.csv", b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,m,5,0,5,x\n"),
    ]);
    let mut said = Vec::new();
    for name in ["forward.json", "windows.csv", "lengths.json", "metrics.txt", "bench.json", "failed.csv"] {
        let message = import(folder.path(), &[name, "--out", "mine.toml"]).refused(3);
        said.push(format!("sim import {name}\n{message}"));
    }
    insta::assert_snapshot!("import_no_traffic", said.join("\n"));
    assert_eq!(names(folder.path()).len(), 6, "nothing was written");
}

/// Metrics that no one server can have run between two scrapes, and what is said of them.
#[test]
fn scrapes_of_several_servers_in_the_wrong_order_or_without_steps_are_refused() {
    let first = fixture("vllm_prometheus.txt");
    let start = "process_start_time_seconds 1.7e+09\n";
    let later = [("80", "90"), ("560", "700"), ("850", "1040"), ("1000", "1200")];
    let later = later
        .iter()
        .fold(first.clone(), |text, (before, after)| text.replace(&format!("}} {before}.0"), &format!("}} {after}.0")));
    let other_model = later.replace("model_name=\"m\"", "model_name=\"other/m\"");
    let other_order = each_line(&later, |line| match line.split_once("engine=\"0\",") {
        Some((name, rest)) => {
            format!("{name}{}", rest.replace("\"m\"}", "\"m\",engine=\"0\"}").replace(".0\",", "\","))
        }
        None => line.to_owned(),
    });
    let hosts: String =
        (0..6).map(|host| first.replace("engine=", &format!("instance=\"h{host}:8000\",engine="))).collect();
    let ranks = later.clone() + &later.replace("engine=\"0\"", "engine=\"1\"");
    let files = folder(&[
        ("first.prom", first.as_bytes()),
        ("same.prom", (first.clone() + "# scraped again\n").as_bytes()),
        ("copy.prom", first.as_bytes()),
        ("old.prom", (start.to_owned() + &first).as_bytes()),
        ("new.prom", (start.to_owned() + &later).as_bytes()),
        ("models.prom", (first.clone() + &other_model).as_bytes()),
        ("hosts.prom", hosts.as_bytes()),
        ("ranks.prom", ranks.as_bytes()),
        ("rankless.prom", later.replace("engine=\"0\",", "").as_bytes()),
        ("other_order.prom", other_order.as_bytes()),
        ("falling.prom", first.replace("} 560.0", "} 56.0").as_bytes()),
        ("inf.prom", first.replace("\"+Inf\",model_name=\"m\"} 1000.0", "\"+Inf\",model_name=\"m\"} 900.0").as_bytes()),
        ("negative.prom", first.replace("} 80.0", "} -80.0").as_bytes()),
        ("fell_back.prom", later.replace("} 1040.0", "} 860.0").as_bytes()),
        ("anew.prom", (start.replace("1.7e+09", "1.8e+09") + &later).as_bytes()),
        ("idle.prom", (first.clone() + "vllm:kv_cache_usage_perc{engine=\"0\"} NaN\n").as_bytes()),
    ]);
    let mut said = Vec::new();
    for names in [
        vec!["first.prom", "copy.prom"],
        vec!["first.prom", "same.prom"],
        vec!["new.prom", "old.prom"],
        vec!["models.prom"],
        vec!["hosts.prom"],
        vec!["first.prom", "rankless.prom"],
        vec!["falling.prom"],
        vec!["inf.prom"],
        vec!["negative.prom"],
        vec!["first.prom", "fell_back.prom"],
    ] {
        said.push(format!("sim import {}\n{}", names.join(" "), import(files.path(), &names).refused(3)));
    }
    insta::assert_snapshot!("import_scrapes_refused", said.join("\n"));
    assert_eq!(counts(&import(files.path(), &["old.prom", "new.prom"]).done()).iter().sum::<u64>(), 200);
    assert_eq!(counts(&import(files.path(), &["first.prom", "other_order.prom"]).done()).iter().sum::<u64>(), 200);
    // It counts more than the one before ever did.
    let anew = import(files.path(), &["old.prom", "anew.prom"]);
    let said = "The server began anew between two scrapes, and what it ran before is left out.";
    assert!(anew.stderr.replace("\n  ", " ").contains(said), "{}", anew.stderr);
    assert_eq!(counts(&anew.done()).iter().sum::<u64>(), 1200);
    let idle = import(files.path(), &["idle.prom"]);
    assert!(!idle.stderr.contains("could not be read"), "{}", idle.stderr);
    assert_eq!(counts(&idle.done()).iter().sum::<u64>(), 1000);
    let ranks = import(files.path(), &["ranks.prom"]);
    let added = "several data-parallel ranks of one server, and their steps are added up: engine 0, 1.";
    assert!(ranks.stderr.replace("\n  ", " ").contains(added), "{}", ranks.stderr);
    assert_eq!(counts(&ranks.done()).iter().sum::<u64>(), 2400);
    // What is advised for several servers works.
    let mut kept = first + &other_model;
    kept = kept.split_inclusive('\n').filter(|line| line.contains("model_name=\"m\"")).collect();
    assert_eq!(counts(&imported(kept.as_bytes()).done()).iter().sum::<u64>(), 1000);
}

/// What the steps rest on is said by every command that takes them, also to programs.
#[test]
fn a_caution_of_the_import_stands_beside_every_answer() {
    let names = ["vllm_statistics.log", "vllm_batchsize_stats.log", "vllm.log"];
    let table = b"tokens,requests,query_len,count\n8,8,1,900\n".as_slice();
    let logs = names.map(fixture);
    let mut files = vec![("steps.csv", table)];
    files.extend(names.into_iter().zip(logs.iter().map(String::as_bytes)));
    let folder = folder(&files);
    for (name, caution) in names.into_iter().zip([
        Some("the steps are guessed from statistics lines of the log"),
        Some("the steps are from batch size lines of the log"),
        None,
    ]) {
        import(folder.path(), &[name, "--out", "mine.toml", "--force"]).done();
        for arguments in
            [vec!["propose", "mine.toml", "--format", "json"], vec!["price", "mine.toml", "--format", "json"]]
        {
            let answer = sim_in(folder.path(), &arguments);
            let report: serde_json::Value = serde_json::from_str(&answer.stdout).expect("JSON");
            let warnings = report["warnings"].as_array().expect("a list");
            let said = warnings.iter().find(|warning| warning["code"] == "traffic_caution");
            let said = said.map(|warning| warning["message"].as_str().expect("words"));
            match caution {
                Some(caution) => assert!(said.is_some_and(|said| said.starts_with(caution)), "{name}: {warnings:?}"),
                None => assert_eq!(said, None, "{name}"),
            }
            assert_eq!(answer.stderr.contains("warning[traffic_caution]"), caution.is_some(), "{name}");
        }
        let of_others = sim_in(folder.path(), &["propose", "mine.toml", "--from", "steps.csv"]);
        assert!(!of_others.stderr.contains("traffic_caution"), "{}", of_others.stderr);
    }
    fs::write(folder.path().join("bench.json"), fixture("bench_vllm.json")).expect("writable");
    import(folder.path(), &["bench.json", "--out", "mine.toml", "--force"]).done();
    let text = fs::read_to_string(folder.path().join("mine.toml")).expect("written");
    let text = text.replace("[traffic]\n", "[traffic]\ncaution = \"half of the day is missing\"\n");
    fs::write(folder.path().join("mine.toml"), text).expect("writable");
    let run = sim_in(folder.path(), &["run", "mine.toml"]);
    assert!(run.stderr.contains("warning[traffic_caution]: half of the day is missing"), "{}", run.stderr);
    run.done();
}

#[test]
fn the_report_as_json_holds_the_scenario_and_what_was_said_of_it() {
    let folder = folder(&[
        ("server.log", fixture("vllm_statistics.log").as_bytes()),
        ("bench.json", fixture("bench_vllm.json").as_bytes()),
    ]);
    let read = |arguments: &[&str]| -> reports::ImportReport {
        let answer = import(folder.path(), &[arguments, &["--format", "json"]].concat());
        let warned = answer.stderr.matches("warning[").count();
        let report: reports::ImportReport = serde_json::from_str(&answer.done()).expect("the record");
        assert_eq!(report.warnings.len(), warned);
        report
    };
    let steps = read(&["server.log"]);
    assert_eq!(steps.scenario, import(folder.path(), &["server.log"]).done());
    assert_eq!((steps.written.as_deref(), steps.beside.as_deref(), &*steps.engine), (None, None, "vllm"));
    let traffic = &steps.traffic;
    assert_eq!((&*traffic.unit, &*traffic.from, traffic.count), ("steps", "statistics lines", 2380));
    assert_eq!((traffic.shapes, traffic.assumed, traffic.caution.is_some()), (Some(5), Some(2380), true));
    assert_eq!((&*steps.sources[0].file, steps.sources[0].lines), ("server.log", 23));
    let statistics = steps.lines.iter().find(|lines| lines.kind == "statistics lines");
    assert_eq!(statistics.map(|lines| lines.count), Some(4));
    let requests = read(&["bench.json", "--out", "mine.toml"]);
    assert_eq!(requests.scenario, fs::read_to_string(folder.path().join("mine.toml")).expect("written"));
    assert_eq!(requests.written.as_deref(), Some("mine.toml"));
    assert_eq!(requests.beside.as_deref(), Some("mine.requests.csv"));
    assert_eq!((&*requests.traffic.unit, requests.traffic.shapes), ("requests", None));
}
