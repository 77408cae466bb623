//! `sim report`: pages of runs and profiles, comparisons with their exit codes, and folders that are not as they were written.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Answer, folder_with, names, scenario, sim_in};

const CANDIDATES: &str = "[[candidate]]\nname = \"default\"\n[[candidate]]\nname = \"<b>none</b>\"\n\
                          cudagraph_mode = \"NONE\"\n";

/// A folder with a scenario, and its runs in folders of these names with these options.
fn runs(runs: &[(&str, &[&str])]) -> tempfile::TempDir {
    let folder = folder_with(&scenario("", CANDIDATES));
    for (name, options) in runs {
        sim_in(folder.path(), &[&["run", "scenario.toml", "--out", name], *options].concat()).done();
    }
    folder
}

fn report(folder: &Path, arguments: &[&str]) -> Answer {
    sim_in(folder, &[&["report"], arguments].concat())
}

/// A message without the breaks of its lines.
fn one_line(message: &str) -> String {
    message.split_whitespace().filter(|word| *word != "\u{2502}").collect::<Vec<_>>().join(" ")
}

#[test]
fn a_run_is_a_page_and_a_short_form() {
    let folder = runs(&[("results", &["--seeds", "3"])]);
    let page = report(folder.path(), &["results"]).done();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(!page.contains("<script") && page.contains("&lt;b&gt;none&lt;/b&gt;") && !page.contains("<b>none"));
    for heading in ["Candidates side by side", "Batch sizes over the padding staircase", "Latency", "Reproduce it"] {
        assert!(page.contains(&format!(">{heading}</h2>")), "{heading}");
    }
    assert!(page.contains("sim run scenario.toml --seed 7 --seeds 3"));
    assert!(!page.contains("Not shown"), "nothing is missing");
    assert_eq!(report(folder.path(), &["results"]).done(), page, "the same bytes");

    assert_eq!(report(folder.path(), &["results", "--out", "page.html"]).done(), "");
    assert_eq!(fs::read_to_string(folder.path().join("page.html")).expect("written"), page);

    let short = report(folder.path(), &["results", "--markdown"]).done();
    assert!(short.starts_with("## A sound scenario\n\n**Verdict:** Over 3 seeds "), "{short}");
    assert!(short.contains("| B &lt;b&gt;none&lt;/b&gt; |") && !short.contains("<svg"));
}

#[test]
fn a_profile_is_a_page() {
    let folder = runs(&[("results", &[])]);
    let double = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/calibrate/double.toml");
    let page = report(folder.path(), &[double]).done();
    assert!(page.contains("Made by the test double of the driver: no figure here is a measurement."));
    for part in ["the padding staircase", "FULL rungs.", "Launches, replays and updates", "Where the figures come from"]
    {
        assert!(page.contains(part), "{part}");
    }
    let both = report(folder.path(), &["results", "results/profile.toml"]).done();
    assert!(both.contains("<h1>2 results</h1>") && both.contains("Cost profile textbook"));
}

#[test]
fn a_proposal_is_a_page() {
    let folder = folder_with(&scenario("", CANDIDATES));
    let answer = sim_in(folder.path(), &["propose", "scenario.toml", "--format", "json"]).done();
    fs::write(folder.path().join("answer.json"), answer).expect("writable");
    let page = report(folder.path(), &["answer.json"]).done();
    assert!(page.contains("<h1>Proposal for A sound scenario</h1>") && page.contains("What each rung is worth"));
}

#[test]
fn what_is_missing_is_said_on_the_page() {
    let folder = runs(&[("results", &[])]);
    for name in ["history.json", "requests.csv", "profile.toml"] {
        fs::remove_file(folder.path().join("results").join(name)).expect("there");
    }
    let page = report(folder.path(), &["results"]).done();
    for name in ["history.json", "requests.csv", "profile.toml"] {
        assert!(page.contains(&format!("{name} is not in the folder; `sim run --out DIR` writes it")), "{name}");
    }
}

/// Whatever is wrong with a folder, it is said with file and line, and no page is left behind.
#[test]
fn broken_files_are_refused() {
    let folder = runs(&[("results", &[])]);
    let path = folder.path().join("results");
    let texts: Vec<(String, String)> = names(&path)
        .into_iter()
        .map(|name| (name.clone(), fs::read_to_string(path.join(name)).expect("text")))
        .collect();
    let mut refusals = String::new();
    for (name, text) in &texts {
        if name == "figures.csv" {
            continue;
        }
        let half = &text[..text.floor_char_boundary(text.len() / 2)];
        fs::write(path.join(name), half).expect("writable");
        let message = report(folder.path(), &["results", "--out", "page.html"]).refused(3);
        refusals.extend([name, " cut off:\n", &message, "\n"]);
        assert!(message.contains(&format!("results/{name}")), "{message}");
        fs::write(path.join(name), text).expect("writable");
        assert!(!folder.path().join("page.html").exists());
    }
    let edit = |name: &str, from: &str, to: &str| {
        let text = &texts.iter().find(|(found, _)| found == name).expect("a file of a run").1;
        assert!(text.contains(from), "{name} has {from}");
        fs::write(path.join(name), text.replace(from, to)).expect("writable");
        let message = report(folder.path(), &["results"]).refused(3);
        fs::write(path.join(name), text).expect("writable");
        message
    };
    refusals += &edit("requests.csv", "default,7,0,", "nobody,7,0,");
    refusals += &edit("requests.csv", "finished", "finished,");
    refusals += &edit("requests.csv", "default,7,19,", "<b>none</b>,7,19,");
    refusals += &edit("history.json", "\"candidate\":\"default\"", "\"candidate\":\"nobody\"");
    refusals += &edit("profile.toml", "source = \"", "source = \"edited ");
    refusals += &edit("run.json", "\"seed\": 7", "\"seed\": \"seven\"");
    insta::with_settings!({filters => vec![(r"[0-9a-f]{64}", "[hash]")]}, {
        insta::assert_snapshot!("report_broken_files", refusals);
    });
    report(folder.path(), &["results"]).done();
}

#[test]
fn other_inputs_are_refused() {
    let folder = runs(&[("results", &[])]);
    let root = folder.path();
    fs::create_dir(root.join("empty")).expect("writable");
    fs::write(root.join("notes.txt"), "no result").expect("writable");
    fs::write(root.join("other.json"), "{\n\"a\": 1}").expect("writable");
    sim_in(root, &["sweep", "scenario.toml", "--vary", "rate=2,3", "--out", "sweep"]).done();
    let mut refusals = String::new();
    for (arguments, code) in [
        (&["missing"][..], 3),
        (&["empty"], 3),
        (&["sweep"], 3),
        (&["notes.txt"], 3),
        (&["other.json"], 3),
        (&["scenario.toml"], 3),
        (&["results/run.json"], 3),
        (&["results", "--format", "text"], 2),
        (&["results", "--format", "json"], 2),
        (&["results", "--compare"], 2),
        (&["results", "--fail-if", "request_goodput=1%"], 2),
        (&["--compare", "results", "results", "--fail-if", "goodput=1%"], 2),
        (&["--compare", "results", "results", "--fail-if", "steps=1"], 2),
        (&["--compare", "results", "results", "--candidate", "nobody"], 3),
        (&["--compare", "results", "results", "--fail-if", "slo_attainment.tpot=1%"], 3),
        (&["results", "--out", "missing/page.html"], 1),
    ] {
        let message = report(root, arguments).refused(code);
        refusals.extend(["$ sim report ", &arguments.join(" "), "\n", &message, "\n"]);
    }
    insta::assert_snapshot!("report_refused", refusals);
}

#[test]
fn two_runs_are_compared_seed_by_seed() {
    let folder = runs(&[("before", &["--seeds", "3"]), ("after", &["--seeds", "4"])]);
    let compare = |arguments: &[&str]| report(folder.path(), &[&["--compare", "before", "after"], arguments].concat());
    let same = compare(&[]);
    assert!(same.stderr.contains("warning[other_seeds]"), "{}", same.stderr);
    assert!(same.done().contains("equal"));

    let pair = ["--candidate", "default=<b>none</b>"];
    insta::assert_snapshot!("report_compare", compare(&pair).done());
    let json: Value =
        serde_json::from_str(&compare(&[&pair[..], &["--format", "json"]].concat()).done()).expect("JSON");
    assert_eq!(json["seeds"], serde_json::json!([7, 8, 9]));
    assert_eq!(json["pairs"][0]["candidate"], "<b>none</b>");
    assert!(compare(&[&pair[..], &["--markdown"]].concat()).done().contains("&lt;b&gt;none&lt;/b&gt; minus default"));
    assert!(compare(&[&pair[..], &["--format", "html"]].concat()).done().starts_with("<!DOCTYPE html>"));
}

/// The exit code of a regression is 7, and the comparison is written nevertheless.
#[test]
fn regressions_end_with_their_own_code() {
    let folder = runs(&[("before", &["--seeds", "3"]), ("after", &["--seeds", "3"])]);
    let compare = |candidate: &str, thresholds: &[&str]| {
        let mut arguments = vec!["--compare", "before", "after", "--candidate", candidate];
        arguments.extend(thresholds.iter().flat_map(|threshold| ["--fail-if", threshold]));
        report(folder.path(), &arguments)
    };
    // The exercise's launches add to every step without a graph.
    let slower = "default=<b>none</b>";
    let failed = compare(slower, &["mean_tpot_ms=1%", "request_throughput=50%"]);
    assert_eq!(failed.code, Some(7), "{}", failed.stderr);
    assert!(failed.stdout.contains("REGRESSED") && failed.stdout.contains("kept"), "{}", failed.stdout);
    assert!(failed.stderr.contains("regression: mean_tpot_ms of `<b>none</b>` (mean_tpot_ms=1%)"), "{}", failed.stderr);
    compare(slower, &["mean_tpot_ms=10000%"]).done();
    compare("<b>none</b>=default", &["mean_tpot_ms=0%"]).done();
    compare("default", &["mean_tpot_ms=0%", "startup_s=0", "graph_memory_bytes=0"]).done();
}

#[test]
fn other_traffic_is_refused_or_pointed_out() {
    let folder = runs(&[("before", &[]), ("seed", &["--seed", "8"]), ("fewer", &["--requests", "10"])]);
    let text =
        fs::read_to_string(folder.path().join("scenario.toml")).expect("there").replace("rate = 5.0", "rate = 6.0");
    fs::write(folder.path().join("scenario.toml"), text).expect("writable");
    let options = ["run", "scenario.toml", "--out", "rate", "--profile", "a100-llama-3-8b"];
    sim_in(folder.path(), &options).done();
    let compare = |other: &str| report(folder.path(), &["--compare", "before", other]);
    assert!(compare("seed").refused(3).contains("no seed is common to both"));
    assert!(compare("fewer").refused(3).contains("not of the same traffic"));
    let other = compare("rate");
    for code in ["other_scenario", "other_profile", "other_traffic"] {
        assert!(other.stderr.contains(&format!("warning[{code}]")), "{}", other.stderr);
    }
    assert!(other.done().contains("have no interval"));

    let edited = |from: &str, to: &str, out: &str| {
        let text = scenario("", CANDIDATES).replace(from, to);
        fs::write(folder.path().join("edited.toml"), text).expect("writable");
        sim_in(folder.path(), &["run", "edited.toml", "--out", out]).done();
        compare(out)
    };
    let prompts = edited("prompt = 100", "prompt = 101", "prompts").refused(3);
    assert!(prompts.contains("before and prompts were sent other prompts"), "{prompts}");
    let server = edited("max_num_seqs = 64", "max_num_seqs = 32", "server");
    assert!(server.stderr.contains("other_scenario") && !server.stderr.contains("other_traffic"), "{}", server.stderr);
    server.done();
}

/// Requests are told by seed and number: where fewer run at once, they finish in another order, and are the same traffic.
#[test]
fn the_order_of_completion_is_not_traffic() {
    let (fixed, uniform) = ("fixed]\nprompt = 100\noutput = 20", "uniform]\nprompt = [50, 150]\noutput = [2, 200]");
    let text = scenario("", CANDIDATES).replace(fixed, uniform);
    let folder = folder_with(&text);
    let run = |text: &str, out: &str| {
        fs::write(folder.path().join("scenario.toml"), text).expect("writable");
        sim_in(folder.path(), &["run", "scenario.toml", "--out", out]).done();
        let rows = fs::read_to_string(folder.path().join(out).join("requests.csv")).expect("written");
        rows.lines().filter_map(|row| row.split(',').nth(2).map(str::to_owned)).collect::<Vec<_>>()
    };
    let (before, after) = (run(&text, "before"), run(&text.replace("max_num_seqs = 64", "max_num_seqs = 1"), "after"));
    assert_ne!(before, after, "the orders differ");
    let compared = report(folder.path(), &["--compare", "before", "after"]);
    assert!(!compared.stderr.contains("traffic"), "{}", compared.stderr);
    compared.done();
}

/// The same scenario file is not yet the same traffic, and every pair counts.
#[test]
fn traffic_is_checked_for_every_pair_whatever_the_scenario() {
    let folder = runs(&[("before", &[]), ("after", &[])]);
    let path = folder.path().join("after/requests.csv");
    let rows = fs::read_to_string(&path).expect("written");
    let edited = |column: usize, value: &str| {
        let mut lines: Vec<String> = rows.lines().map(str::to_owned).collect();
        let last = lines.last_mut().expect("rows");
        let mut cells: Vec<&str> = last.split(',').collect();
        cells[column] = value;
        *last = cells.join(",");
        fs::write(&path, lines.join("\n") + "\n").expect("writable");
        report(folder.path(), &["--compare", "before", "after"])
    };
    let prompts = one_line(&edited(4, "77").refused(3));
    assert!(prompts.contains("were sent other prompts (candidates `<b>none</b>` and `<b>none</b>`)"), "{prompts}");
    let arrivals = edited(3, "0.001");
    assert!(arrivals.stderr.contains("warning[other_traffic]: the prompts are the same, the arrivals are not"));
    arrivals.done();
    fs::remove_file(&path).expect("there");
    let unchecked = report(folder.path(), &["--compare", "before", "after"]);
    assert!(unchecked.stderr.contains("warning[unchecked_traffic]"), "{}", unchecked.stderr);
}

/// A candidate that is gone is not one that is no worse.
#[test]
fn limits_are_not_passed_by_leaving_a_candidate_out() {
    let folder = runs(&[("before", &[]), ("after", &["--candidate", "default"])]);
    let compare = |arguments: &[&str]| report(folder.path(), &[&["--compare", "before", "after"], arguments].concat());
    let warned = compare(&[]);
    assert!(warned.stderr.contains("warning[not_compared]"), "{}", warned.stderr);
    warned.done();
    let limit = ["--fail-if", "mean_tpot_ms=1%"];
    assert!(one_line(&compare(&limit).refused(3)).contains("no limit of --fail-if can be judged"));
    compare(&[&limit[..], &["--candidate", "default"]].concat()).done();
}

/// A scenario or a candidate that is named like an option is none.
#[test]
fn the_command_to_repeat_a_run_can_be_typed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = scenario("", "[[candidate]]\nname = \"-default\"\n");
    fs::write(folder.path().join("-dash.toml"), text).expect("writable");
    sim_in(folder.path(), &["run", "--out", "results", "--candidate=-default", "--", "-dash.toml"]).done();
    let run: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("results/run.json")).expect("written"))
            .expect("JSON");
    let words: Vec<&str> = run["command"].as_array().expect("words").iter().filter_map(Value::as_str).collect();
    assert_eq!(words, ["sim", "run", "./-dash.toml", "--seed", "7", "--candidate=-default"]);
    sim_in(folder.path(), &words[1..]).done();
}

/// Files of a run with the same candidates are told from those of another one by their seeds, counts and means.
#[test]
fn files_of_two_runs_are_told_apart() {
    let folder =
        runs(&[("one", &["--seeds", "2"]), ("seed", &["--seed", "9", "--seeds", "2"]), ("two", &["--seeds", "2"])]);
    let text = scenario("", CANDIDATES).replace("output = 20", "output = 30");
    fs::write(folder.path().join("scenario.toml"), text).expect("writable");
    sim_in(folder.path(), &["run", "scenario.toml", "--seeds", "2", "--out", "longer"]).done();
    let at = |run: &str, name: &str| folder.path().join(run).join(name);
    for other in ["seed", "longer"] {
        for name in ["history.json", "requests.csv", "figures.csv"] {
            fs::copy(at(other, name), at("two", name)).expect("copied");
            let arguments: &[&str] = if name == "figures.csv" { &["--compare", "one", "two"] } else { &["two"] };
            let message = report(folder.path(), arguments).refused(3);
            assert!(message.contains(&format!("two/{name}")), "{other}: {message}");
            assert!(one_line(&message).contains("files of two runs are mixed"), "{other}, {name}: {message}");
            fs::copy(at("one", name), at("two", name)).expect("copied");
        }
    }
    report(folder.path(), &["two"]).done();
    report(folder.path(), &["--compare", "one", "two"]).done();

    let history = fs::read_to_string(at("two", "history.json")).expect("written");
    let (head, rest) = history.split_once("\"padded_rows\":").expect("batches");
    let digits = rest.find(|c: char| !c.is_ascii_digit()).expect("it goes on");
    let huge = format!("{head}\"padded_rows\":{}{}", u64::MAX, &rest[digits..])
        .replace("\"preempted\":0", "\"preempted\":9223372036854775808");
    fs::write(at("two", "history.json"), huge).expect("writable");
    assert!(one_line(&report(folder.path(), &["two"]).refused(3)).contains("larger than any run's"));
}
