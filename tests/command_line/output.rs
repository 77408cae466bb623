//! `--out`, `--format` and what else `sim run` answers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Answer, folder_with, names, scenario, sim_in};

/// What `--out` always writes.
const FILES: [&str; 5] = ["figures.csv", "history.json", "profile.toml", "requests.csv", "run.json"];

fn two_candidates() -> String {
    scenario("", "[[candidate]]\nname = \"default\"\n[[candidate]]\nname = \"none\"\ncudagraph_mode = \"NONE\"\n")
}

fn run(folder: &Path, arguments: &[&str]) -> Answer {
    sim_in(folder, &[&["run", "scenario.toml"], arguments].concat())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn out_writes_whole_files_and_replaces_older_ones() {
    let folder = folder_with(&two_candidates());
    let read = |name: &str| fs::read_to_string(folder.path().join("deep/results").join(name)).expect("written");
    let stdout = run(folder.path(), &["--out", "deep/results", "--format", "json"]).done();
    assert_eq!(names(&folder.path().join("deep/results")), FILES);
    assert_eq!(read("run.json"), stdout, "the file is what is printed");
    assert_eq!(run(folder.path(), &["--format", "json"]).done(), stdout, "with and without --out");

    let other = run(folder.path(), &["--out", "deep/results", "--steps", "--seed", "8", "--format", "json"]).done();
    let with_steps: Vec<&str> = FILES.into_iter().chain(["steps.jsonl"]).collect();
    assert_eq!(names(&folder.path().join("deep/results")), with_steps);
    assert_ne!(stdout, other);
    assert_eq!(read("run.json"), other, "replaced");
    let text = run(folder.path(), &["--out", "deep/results", "--steps", "--seed", "8"]).done();
    assert_eq!(read("run.json"), other, "run.json is JSON whatever --format is");
    assert!(text.starts_with("A sound scenario\n"), "{text}");
}

#[test]
fn the_logs_hold_every_request_and_every_step_of_every_candidate() {
    let folder = folder_with(&two_candidates());
    let report = json(&run(folder.path(), &["--out", ".", "--steps", "--format", "json"]).done());
    let requests = fs::read(folder.path().join("requests.csv")).expect("written");
    let mut requests = csv::Reader::from_reader(&requests[..]);
    let columns: Vec<String> = requests.headers().expect("a header").iter().map(str::to_owned).collect();
    let candidate = columns.iter().position(|column| column == "candidate").expect("whose request it is");
    let of: Vec<String> =
        requests.records().map(|row| row.expect("as wide as the header")[candidate].to_owned()).collect();
    assert_eq!(of, [vec!["default"; 20], vec!["none"; 20]].concat());

    let steps = fs::read_to_string(folder.path().join("steps.jsonl")).expect("written");
    let headers = steps.lines().map(json).filter(|line| line.get("header").is_some()).count();
    assert_eq!(headers, 2, "one header a run");
    let logged = steps.lines().count() - headers;
    let counted: u64 = (0..2).map(|i| report["candidates"][i]["steps"].as_u64().expect("a count")).sum();
    assert_eq!(logged as u64, counted);
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_the_work() {
    let folder = folder_with(&two_candidates());
    fs::write(folder.path().join("in_the_way"), "a file").expect("writable");
    fs::create_dir_all(folder.path().join("taken/run.json")).expect("writable");
    let before = names(folder.path());
    insta::assert_snapshot!(run(folder.path(), &["--out", "in_the_way"]).refused(1), @r"
    × cannot create in_the_way: File exists (os error 17); check that its folder exists and that you
    │ may write there, or choose another place
    ");
    insta::assert_snapshot!(run(folder.path(), &["--out", "in_the_way/deeper"]).refused(1), @r"
    × cannot create in_the_way/deeper: Not a directory (os error 20); check that its folder exists
    │ and that you may write there, or choose another place
    ");
    insta::assert_snapshot!(run(folder.path(), &["--out", "taken"]).refused(1), @r"
    × cannot create taken/run.json: it is a folder; check that its folder exists and that you may
    │ write there, or choose another place
    ");
    assert_eq!(names(folder.path()), before, "nothing is left behind");
    assert_eq!(fs::read_to_string(folder.path().join("in_the_way")).expect("readable"), "a file");
    assert_eq!(names(&folder.path().join("taken")), ["run.json"]);
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder_with(&two_candidates());
    let locked = folder.path().join("locked");
    fs::create_dir(&locked).expect("writable");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).expect("ours");
    if fs::write(locked.join("probe"), "").is_ok() {
        println!("skipped: this user may write everywhere (root)");
        return;
    }
    let message = run(folder.path(), &["--out", "locked"]).refused(1);
    assert!(message.contains("cannot create locked/run.json"), "{message}");
}

/// A full disk, as a limit on the size of files: the one way that needs no rights.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_older_files_as_they_were() {
    let folder = folder_with(&two_candidates());
    run(folder.path(), &["--out", "results", "--steps"]).done();
    let contents = |names: &[&str]| -> Vec<Vec<u8>> {
        names.iter().map(|name| fs::read(folder.path().join("results").join(name)).expect("written")).collect()
    };
    let before = contents(&["requests.csv", "run.json", "steps.jsonl"]);
    for out in ["results", "fresh/results"] {
        let limited = format!(
            "trap '' XFSZ; ulimit -f 4; exec '{}' run scenario.toml --seed 8 --steps --out {out}",
            env!("CARGO_BIN_EXE_sim")
        );
        let output = std::process::Command::new("sh").args(["-c", &limited]).current_dir(folder.path()).output();
        let message = Answer::from(output.expect("a shell")).refused(1);
        assert!(message.contains("cannot write") && message.contains(out), "{message}");
    }
    assert_eq!(contents(&["requests.csv", "run.json", "steps.jsonl"]), before);
    assert_eq!(names(&folder.path().join("results")).len(), FILES.len() + 1, "no temporary file is left");
    assert_eq!(names(folder.path()), ["results", "scenario.toml"], "nor a folder made for nothing");
}

#[test]
fn a_run_that_fails_leaves_nothing_behind() {
    let text = two_candidates().replace(
        "[traffic.arrivals.poisson]\nrate = 5.0\n[traffic.lengths.fixed]\nprompt = 100\noutput = 20\n",
        "[traffic.arrivals.trace]\nfile = \"trace.csv\"\n",
    );
    let folder = folder_with(&text);
    let trace = "arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,2\n1,bad,2\n";
    fs::write(folder.path().join("trace.csv"), trace).expect("writable");
    run(folder.path(), &["--out", "new/results", "--steps"]).refused(3);
    assert_eq!(names(folder.path()), ["scenario.toml", "trace.csv"]);
}

#[test]
fn csv_has_a_row_a_candidate_under_the_names_of_the_json() {
    let folder = folder_with(&two_candidates());
    let text = run(folder.path(), &["--format", "csv"]).done();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("a header").clone();
    assert_eq!(header.len(), header.iter().collect::<BTreeSet<_>>().len(), "no column twice");
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("as wide as the header")).collect();
    assert_eq!(rows.len(), 2);
    let report = json(&run(folder.path(), &["--format", "json"]).done());
    let place = |column: &str| header.iter().position(|name| name == column).expect(column);
    for (row, candidate) in rows.iter().zip(report["candidates"].as_array().expect("a list")) {
        assert_eq!(row[place("name")], *candidate["name"].as_str().expect("a name"));
        for figure in ["steps", "completed", "mean_ttft_ms", "p99_tpot_ms", "request_goodput", "graph_memory_bytes"] {
            let cell: f64 = row[place(figure)].parse().expect("a number");
            assert_eq!(Some(cell), candidate[figure].as_f64(), "{figure}");
        }
    }
}

#[test]
fn several_seeds_give_intervals_and_pairs() {
    let folder = folder_with(&two_candidates());
    let report = json(&run(folder.path(), &["--seeds", "3", "--format", "json"]).done());
    assert_eq!(report["seeds"], serde_json::json!([7, 8, 9]));
    let figure = &report["candidates"][0]["mean_e2el_ms"];
    let at = |name: &str| figure[name].as_f64().expect("a number");
    assert!(at("low") < at("mean") && at("mean") < at("high"), "{figure}");
    let singles: Vec<f64> = ["7", "8", "9"]
        .iter()
        .map(|seed| {
            let single = json(&run(folder.path(), &["--seed", seed, "--format", "json"]).done());
            assert_eq!(single["seed"].to_string(), *seed);
            assert!(single.get("pairs").is_none_or(Value::is_null));
            single["candidates"][0]["mean_e2el_ms"].as_f64().expect("one seed, one number")
        })
        .collect();
    assert!((at("mean") - singles.iter().sum::<f64>() / 3.0).abs() < 1e-9 * at("mean"));
    let pairs = report["pairs"].as_array().expect("a list");
    assert_eq!(pairs.len(), 1, "every candidate against the first");
    for format in ["text", "csv"] {
        run(folder.path(), &["--seeds", "3", "--format", format]).done();
    }
}

#[test]
fn candidates_requests_seed_and_profile_can_be_chosen() {
    let folder = folder_with(&two_candidates());
    let one = json(&run(folder.path(), &["--candidate", "none", "--requests", "5", "--format", "json"]).done());
    let candidates = one["candidates"].as_array().expect("a list");
    assert_eq!(candidates.len(), 1);
    assert_eq!((&candidates[0]["name"], &candidates[0]["completed"]), (&"none".into(), &5.into()));
    let more = json(&run(folder.path(), &["--requests", "30", "--format", "json"]).done());
    assert_eq!(more["candidates"][0]["completed"], 30, "more than the scenario's own number");
    let order =
        json(&run(folder.path(), &["--candidate", "none", "--candidate", "default", "--format", "json"]).done());
    assert_eq!(order["candidates"][0]["name"], "default", "in the scenario's order");
    let textbook = json(&run(folder.path(), &["--profile", "textbook", "--format", "json"]).done());
    assert_eq!(textbook["profile"]["name"], "textbook");
}

#[test]
fn every_command_writes_every_format() {
    let text = two_candidates();
    let steps = text.split("[traffic]").next().expect("the server").to_owned()
        + "[[traffic.steps]]\ntokens = 9\nrequests = 9\ncount = 3\n";
    let folder = folder_with(&text);
    fs::write(folder.path().join("steps.toml"), steps).expect("writable");
    for command in [
        &["run", "scenario.toml"][..],
        &["price", "steps.toml"],
        &["ladder", "scenario.toml"],
        &["ladder"],
        &["startup", "scenario.toml"],
        &["explain", "--scenario", "scenario.toml", "--step", "3"],
        &["explain", "--decodes", "3", "--profile", "textbook"],
    ] {
        let written = |format: &str| sim_in(folder.path(), &[command, &["--format", format]].concat()).done();
        assert_eq!(written("text"), sim_in(folder.path(), command).done(), "text is the default");
        assert!(json(&written("json")).is_object(), "{command:?}");
        let csv_text = written("csv");
        let rows: Vec<csv::StringRecord> =
            csv::Reader::from_reader(csv_text.as_bytes()).records().map(|row| row.expect("even rows")).collect();
        assert!(!rows.is_empty(), "{command:?}");
    }
}

/// SGLang asks the runner of the step's kind: one prompt of 500 tokens is no decode step, though all its queries are alike.
#[test]
fn rows_of_an_sglang_server_run_the_graphs_of_their_kind() {
    let folder = folder_with(
        "schema = 1\nname = \"kinds\"\n[server.sglang]\ncontext_length = 8192\n[profile]\nbuiltin = \"a100-llama-3-8b\"\n\
         [traffic]\n[[traffic.steps]]\ntokens = 500\nrequests = 1\ncount = 10\n\
         [[traffic.steps]]\ntokens = 9\nrequests = 9\ncount = 7\n",
    );
    let answer = json(&sim_in(folder.path(), &["price", "scenario.toml", "--format", "json"]).done());
    let rungs = answer["candidates"][0]["rungs"].as_array().expect("a list");
    let ran = rungs.iter().filter(|rung| rung["share_of_steps"].as_f64() > Some(0.0));
    let mut ran: Vec<_> = ran.map(|rung| (rung["size"].as_u64(), rung["mode"].as_str())).collect();
    ran.sort_unstable();
    assert_eq!(ran, [(Some(12), Some("FULL")), (Some(512), Some("PIECEWISE"))]);
}

/// A step log of an earlier run is not taken for one of this run.
#[test]
fn an_older_step_log_is_pointed_out() {
    let folder = folder_with(&scenario("", ""));
    let steps = ["run", "scenario.toml", "--out", "results", "--steps"];
    assert!(!sim_in(folder.path(), &steps).stderr.contains("stale_steps"));
    let answer = sim_in(folder.path(), &steps[..4]);
    assert!(answer.stderr.contains("stale_steps"), "{}", answer.stderr);
    answer.done();
}

/// What is read is not written over: a scenario, a profile, a trace.
#[test]
fn no_result_takes_the_place_of_a_file_that_is_read() {
    let folder = folder_with(&two_candidates());
    let profile = calibrate::profile::Profile::builtin("textbook").expect("built in");
    fs::create_dir(folder.path().join("mine")).expect("writable");
    profile.save(&folder.path().join("mine/profile.toml")).expect("writable");
    for arguments in [
        &["--trace", "scenario.toml"][..],
        &["--trace", "./mine/../scenario.toml"],
        &["--profile", "mine/profile.toml", "--out", "mine"],
    ] {
        let message = run(folder.path(), arguments).refused(2);
        assert!(message.contains("is read, and the result would take its place"), "{message}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("scenario.toml")).expect("there"), two_candidates());
    assert_eq!(names(&folder.path().join("mine")), ["profile.toml"]);
}

/// A signal while results are written leaves no temporary file.
#[cfg(unix)]
#[test]
fn a_signal_leaves_no_temporary_file() {
    let folder = folder_with(&two_candidates());
    for signal in ["INT", "TERM", "HUP"] {
        for wait_ms in [0, 5, 10, 20, 40, 80, 160] {
            let script = format!(
                "'{}' run scenario.toml --requests 3000 --seeds 4 --steps --out out >/dev/null 2>&1 & \
                 sleep 0.{wait_ms:03}; kill -{signal} $! 2>/dev/null; wait $!",
                env!("CARGO_BIN_EXE_sim")
            );
            let status = std::process::Command::new("sh").args(["-c", &script]).current_dir(folder.path()).status();
            status.expect("a shell");
            let left = if folder.path().join("out").exists() { names(&folder.path().join("out")) } else { Vec::new() };
            assert!(left.iter().all(|name| !name.starts_with('.')), "{signal} after {wait_ms} ms left {left:?}");
        }
    }
}

/// What is started to outlive its terminal, as by `nohup`, does.
#[cfg(unix)]
#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let folder = folder_with(&two_candidates());
    let script = format!(
        "trap '' HUP; '{}' run scenario.toml --requests 3000 --seeds 4 --steps --out out >/dev/null 2>&1 & \
         for i in 1 2 3 4 5 6 7 8; do kill -HUP $! 2>/dev/null; sleep 0.03; done; wait $!",
        env!("CARGO_BIN_EXE_sim")
    );
    let status = std::process::Command::new("sh").args(["-c", &script]).current_dir(folder.path()).status();
    assert_eq!(status.expect("a shell").code(), Some(0));
    assert!(folder.path().join("out/run.json").exists());
}
