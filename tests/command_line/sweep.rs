//! `sim sweep` and `sim merge`: grids, what is refused before anything runs, kills, shards.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Answer, command_in, folder_with, names, root, scenario, sim_in};

const CANDIDATES: &str = "[[candidate]]\nname = \"default\"\n[[candidate]]\nname = \"few sizes\"\n\
                          cudagraph_capture_sizes = [1, 8, 64]\n";

/// Six points, two candidates.
const SIX: [&str; 4] = ["--vary", "rate=2,50,400", "--vary", "max_num_seqs=4,64"];

fn sweep(folder: &Path, arguments: &[&str]) -> Answer {
    sim_in(folder, &[&["sweep", "scenario.toml"], arguments].concat())
}

fn merge(folder: &Path, arguments: &[&str]) -> Answer {
    sim_in(folder, &[&["merge"], arguments].concat())
}

fn start(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
    command_in(folder, arguments)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built")
}

fn end(child: Child) -> Answer {
    child.wait_with_output().expect("it ends").into()
}

/// Every file of a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| (name.clone(), fs::read(folder.join(name)).expect("a readable file"));
    names(folder).into_iter().map(read).collect()
}

fn lines(path: PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("written");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn the_best_points_and_every_point() {
    let folder = folder_with(&scenario("", CANDIDATES));
    insta::assert_snapshot!("sweep_one_seed", sweep(folder.path(), &SIX).done());
    insta::assert_snapshot!("sweep_three_seeds", sweep(folder.path(), &[&SIX[..], &["--seeds", "3"]].concat()).done());
}

/// The report of a point is what `sim run` says of the scenario with its values written into it.
#[test]
fn a_point_is_a_run_of_the_scenario_with_its_values() {
    let text = scenario("", CANDIDATES);
    let folder = folder_with(&text);
    let vary =
        ["--vary", "rate=2.0,50.0", "--vary", "candidate.default.cudagraph_mode=FULL,NONE", "--vary", "slo.ttft=1s"];
    sweep(folder.path(), &[&vary[..], &["--seeds", "3", "--out", "out"]].concat()).done();
    let points = lines(folder.path().join("out/reports.jsonl"));
    assert_eq!(points.len(), 4);
    let point = &points[3];
    assert_eq!(point["settings"][1]["key"], "candidate.default.cudagraph_mode");
    let edited = text
        .replace("rate = 5.0", "rate = 50.0")
        .replace("ttft = \"500ms\"", "ttft = \"1s\"")
        .replace("name = \"default\"\n", "name = \"default\"\ncudagraph_mode = \"NONE\"\n");
    assert_ne!(edited, text);
    fs::write(folder.path().join("edited.toml"), edited).expect("writable");
    let run = sim_in(folder.path(), &["run", "edited.toml", "--seeds", "3", "--format", "json"]).done();
    let mut run: Value = serde_json::from_str(&run).expect("JSON");
    run.as_object_mut().expect("an object").remove("command");
    run["scenario"]["sha256"] = point["report"]["scenario"]["sha256"].clone();
    assert_eq!(point["report"], run);
}

/// Points share their seeds, so a key on which the traffic does not depend leaves it as it is.
#[test]
fn all_points_have_the_same_traffic() {
    let folder = folder_with(&scenario("", CANDIDATES));
    let vary = ["--vary", "max_num_seqs=4,64", "--vary", "traffic.requests=15,20"];
    sweep(folder.path(), &[&vary[..], &["--seeds", "2", "--seed", "3", "--out", "out"]].concat()).done();
    let rates: Vec<String> = lines(folder.path().join("out/reports.jsonl"))
        .iter()
        .map(|point| point["report"]["candidates"][1]["request_rate"].to_string())
        .collect();
    assert_eq!((&rates[0], &rates[1]), (&rates[2], &rates[3]), "by the number of requests, not by max_num_seqs");
    let manifest: Value = serde_json::from_slice(&files(&folder.path().join("out"))["manifest.json"]).expect("JSON");
    assert_eq!(manifest["seeds"], serde_json::json!([3, 4]));
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let folder = folder_with(&scenario("", CANDIDATES));
    let arguments = [&SIX[..], &["--seeds", "3"]].concat();
    let first = sweep(folder.path(), &[&arguments[..], &["--out", "first"]].concat()).done();
    for threads in ["1", "2", "5"] {
        let given = sweep(folder.path(), &[&arguments[..], &["--out", threads, "--threads", threads]].concat()).done();
        assert_eq!(given, first, "--threads {threads}");
        assert_eq!(files(&folder.path().join(threads)), files(&folder.path().join("first")), "--threads {threads}");
        let by_variable = command_in(folder.path(), &[&["sweep", "scenario.toml"], &arguments[..]].concat())
            .env("RAYON_NUM_THREADS", threads)
            .output();
        assert_eq!(Answer::from(by_variable.expect("built")).done(), first, "RAYON_NUM_THREADS={threads}");
    }
    assert_eq!(names(&folder.path().join("first")), ["figures.csv", "manifest.json", "reports.jsonl"]);
}

#[test]
fn every_format_with_and_without_a_folder() {
    let folder = folder_with(&scenario("", CANDIDATES));
    for format in ["text", "json", "csv"] {
        let plain = sweep(folder.path(), &[&SIX[..], &["--format", format]].concat()).done();
        let kept = sweep(folder.path(), &[&SIX[..], &["--format", format, "--out", "out"]].concat()).done();
        assert_eq!(kept, plain, "{format}");
        if format == "csv" {
            assert_eq!(files(&folder.path().join("out"))["figures.csv"], plain.as_bytes());
        }
    }
    let csv_text = sweep(folder.path(), &[&SIX[..], &["--format", "csv"]].concat()).done();
    let mut reader = csv::Reader::from_reader(csv_text.as_bytes());
    let header = reader.headers().expect("a header").clone();
    assert_eq!(
        &header.iter().take(4).collect::<Vec<_>>()[..],
        ["point", "traffic.arrivals.poisson.rate", "server.vllm.max_num_seqs", "name"]
    );
    assert_eq!(reader.records().flatten().count(), 12);
}

#[test]
fn a_sample_runs_some_points_of_the_grid() {
    let folder = folder_with(&scenario("", CANDIDATES));
    let drawn = [&SIX[..], &["--sample", "3", "--sample-seed", "5", "--out", "drawn"]].concat();
    sweep(folder.path(), &drawn).done();
    sweep(folder.path(), &[&SIX[..], &["--out", "all"]].concat()).done();
    let all = lines(folder.path().join("all/reports.jsonl"));
    let drawn = lines(folder.path().join("drawn/reports.jsonl"));
    assert_eq!(drawn.len(), 3);
    for (number, point) in drawn.iter().enumerate() {
        assert_eq!(point["point"], number);
        let same = all.iter().find(|other| other["settings"] == point["settings"]).expect("a point of the grid");
        assert_eq!(same["report"], point["report"]);
    }
}

#[test]
fn an_sglang_server_and_a_profile_can_be_varied() {
    let text = scenario("", "")
        .replace("[server.vllm]\nmax_num_seqs = 64\nmax_num_batched_tokens = 2048\nmax_model_len = 4096\nenable_prefix_caching = false\n", "[server.sglang]\ncontext_length = 4096\n")
        .replace("textbook", "a100-llama-3-8b");
    let folder = folder_with(&text);
    let vary = ["--vary", "cuda_graph_max_bs_decode=8,64", "--vary", "profile=a100-llama-3-8b,mine.toml"];
    let mine = root().join("scenarios/profiles/h100-llama-2-7b.toml");
    fs::copy(mine, folder.path().join("mine.toml")).expect("a copy");
    sweep(folder.path(), &[&vary[..], &["--out", "out"]].concat()).done();
    let profiles: Vec<String> = lines(folder.path().join("out/reports.jsonl"))
        .iter()
        .map(|point| point["report"]["profile"]["name"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(profiles, ["a100-llama-3-8b", "mine.toml", "a100-llama-3-8b", "mine.toml"]);
    // Another file under the same name is another sweep.
    let older = root().join("scenarios/profiles/rtx4090-llama-3.1-8b.toml");
    fs::copy(older, folder.path().join("mine.toml")).expect("a copy");
    let message = sweep(folder.path(), &[&vary[..], &["--out", "out"]].concat()).refused(3);
    assert!(message.contains("out holds another sweep") && message.contains("profiles: "), "{message}");
}

#[test]
fn what_cannot_be_varied_is_refused_before_anything_runs() {
    let folder = folder_with(&scenario("", CANDIDATES));
    let usage = [
        &[][..],
        &["--vary", "rate"],
        &["--vary", "rate=1,,2"],
        &["--vary", "rate=1,1"],
        &["--vary", "ratte=1"],
        &["--vary", "lengths.output=1"],
        &["--vary", "colour=1"],
        &["--vary", "traffic.seed=1,2"],
        &["--vary", "candidate.default.name=\"a\",\"b\""],
        &["--vary", "rate=1", "--vary", "traffic.arrivals.poisson.rate=2"],
        &["--vary", "rate=1", "--sample", "2"],
        &["--vary", "rate=1", "--sample", "0"],
        &["--vary", "rate=1", "--sample-seed", "2"],
        &["--vary", "rate=1", "--threads", "0"],
        &["--vary", "rate=1", "--shard", "0/2"],
        &["--vary", "rate=1", "--shard", "2/2", "--out", "out"],
        &["--vary", "rate=1", "--shard", "auto", "--out", "out"],
        &["--vary", "rate=1", "--candidate", "texbook"],
    ];
    let bad_points = [
        &["--vary", "rate=1,-1"][..],
        &["--vary", "rate=1,fast"],
        &["--vary", "traffic.arrivals.poisson.ratte=1"],
        &["--vary", "traffic.arrivals.gamma.rate=1"],
        &["--vary", "max_num_seqs=64,4096"],
        &["--vary", "server.vllm.max_num_seqs.x=1"],
        &["--vary", "traffic.arrivals.poisson.rate.x=1"],
        &["--vary", "candidate.few.cudagraph_mode=FULL"],
        &["--vary", "cudagraph_mode=FULL,HALF"],
        &["--vary", "profile=textbook,textbok"],
        &["--vary", "num_gpu_blocks_override=1000,3"],
    ];
    let said = |code: i32, all: &[&[&str]]| {
        let said: Vec<String> = all
            .iter()
            .map(|arguments| {
                format!(
                    "$ sim sweep scenario.toml {}\n{}",
                    arguments.join(" "),
                    sweep(folder.path(), arguments).refused(code)
                )
            })
            .collect();
        said.join("\n")
    };
    insta::assert_snapshot!("sweep_wrong_use", said(2, &usage));
    insta::assert_snapshot!("sweep_bad_points", said(3, &bad_points));
    let message = sweep(folder.path(), &["--vary", "profile=textbook,mine.toml"]).refused(3);
    assert!(message.contains("point 1 (profile = \"mine.toml\"): cannot read the profile"), "{message}");
    let out = [&SIX[..], &["--vary", "slo.ttft=500ms,0ms", "--out", "out"]].concat();
    sweep(folder.path(), &out).refused(3);
    assert_eq!(names(folder.path()), ["scenario.toml"], "nothing was made for it");
}

/// What is wrong with the file itself is shown at its line, as by every command.
#[test]
fn a_fault_of_the_file_is_shown_there() {
    let folder = folder_with(&scenario("watermark = 7.0", CANDIDATES));
    let message = sweep(folder.path(), &SIX).refused(3);
    assert_eq!(message, sim_in(folder.path(), &["check", "scenario.toml"]).refused(3));
    let folder = folder_with("schema = ");
    assert_eq!(sweep(folder.path(), &SIX).refused(3), sim_in(folder.path(), &["check", "scenario.toml"]).refused(3));
    sim_in(folder.path(), &["sweep", "no/such.toml", "--vary", "rate=1"]).refused(3);
}

#[test]
fn seeds_over_points_whose_traffic_draws_nothing() {
    let folder = folder_with(&scenario("", ""));
    let vary = ["--vary", "traffic.arrivals={ poisson = { rate = 5 } },{ constant = { rate = 5 } }"];
    insta::assert_snapshot!(sweep(folder.path(), &[&vary[..], &["--seeds", "3"]].concat()).refused(3), @r"
    × point 1 (traffic.arrivals = { constant = { rate = 5 } }): --seeds 3: the traffic draws nothing
    │ at random, so every seed gives the same run
    help: leave --seeds out
    ");
    sweep(folder.path(), &vary).done();
}

/// Long enough to be killed in the middle: 24 points of two candidates.
fn long_sweep() -> (tempfile::TempDir, Vec<&'static str>) {
    let text = scenario("", CANDIDATES).replace("requests = 20", "requests = 4000");
    let arguments = ["sweep", "scenario.toml", "--vary", "rate=1,2,4,8,16,32,64,128", "--vary", "max_num_seqs=4,16,64"];
    (folder_with(&text), [&arguments[..], &["--threads", "2", "--seeds", "2", "--out"]].concat())
}

fn kept(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder.join("points")) else { return 0 };
    entries.flatten().filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count()
}

#[test]
fn a_sweep_that_is_killed_goes_on_and_ends_with_the_same_bytes() {
    let (folder, arguments) = long_sweep();
    let undisturbed = sim_in(folder.path(), &[&arguments[..], &["undisturbed"]].concat()).done();
    let out = folder.path().join("killed");
    let arguments = [&arguments[..], &["killed"]].concat();
    let mut kills = 0;
    loop {
        let before = kept(&out);
        let mut child = start(folder.path(), &arguments, &[]);
        let begun = Instant::now();
        while kept(&out) < before + 3 && child.try_wait().expect("ours").is_none() {
            assert!(begun.elapsed() < Duration::from_mins(2), "no point in two minutes");
            std::thread::sleep(Duration::from_millis(1));
        }
        if out.join("reports.jsonl").exists() || child.try_wait().expect("ours").is_some() {
            child.wait().expect("it ends");
            break;
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("it ends");
        kills += 1;
        assert!(kept(&out) >= before + 3 || out.join("reports.jsonl").exists(), "finished points stay");
        if kept(&out) > 18 {
            break;
        }
    }
    assert!(kills >= 2, "killed {kills} times: the sweep is too short for this test");
    let there = kept(&out);
    let resumed = sim_in(folder.path(), &arguments);
    assert!(
        there == 0 || resumed.stderr.contains(&format!("sweep: {there} of 24 points were there already\n")),
        "{}",
        resumed.stderr
    );
    assert_eq!(resumed.done(), undisturbed);
    assert_eq!(files(&out), files(&folder.path().join("undisturbed")));
    let again = sim_in(folder.path(), &arguments);
    assert!(!again.stderr.contains("sweep: "), "nothing is left to run: {}", again.stderr);
    assert_eq!(again.done(), undisturbed);
    assert_eq!(files(&out), files(&folder.path().join("undisturbed")));
}

#[test]
fn a_folder_of_another_sweep_or_of_a_process_at_work_is_left_alone() {
    let folder = folder_with(&scenario("", CANDIDATES));
    let six = [&SIX[..], &["--out", "out"]].concat();
    sweep(folder.path(), &six).done();
    let before = files(&folder.path().join("out"));
    insta::assert_snapshot!(sweep(folder.path(), &["--vary", "rate=2,50", "--seeds", "2", "--out", "out"]).refused(3), @r#"
    × out holds another sweep:
    │   axes: [{"key":"traffic.arrivals.poisson.rate","values":[2,50,400]},{"key":"server.vllm.max_n
    │ um_seqs","values":[4,64]}] there, [{"key":"traffic.arrivals.poisson.rate","values":[2,50]}]
    │ now
    │   points: 6 there, 2 now
    │   seeds: [7] there, [7,8] now
    help: choose another --out, or remove that folder
    "#);
    assert_eq!(files(&folder.path().join("out")), before);

    fs::create_dir(folder.path().join("strange")).expect("writable");
    fs::write(folder.path().join("strange/figures.csv"), "mine").expect("writable");
    insta::assert_snapshot!(sweep(folder.path(), &["--vary", "rate=2", "--out", "strange"]).refused(3), @r"
    × strange holds figures.csv, but no manifest.json that says what it belongs to
    help: choose another --out, or remove that folder
    ");

    fs::create_dir(folder.path().join("busy")).expect("writable");
    let lock = fs::File::create(folder.path().join("busy/.lock")).expect("writable");
    lock.lock().expect("nobody else has it");
    insta::assert_snapshot!(sweep(folder.path(), &["--vary", "rate=2", "--out", "busy"]).refused(3), @r"
    × another process is working in busy
    help: wait until it has ended, or choose another --out; each shard needs a folder of its own
    ");
    drop(lock);
    sweep(folder.path(), &["--vary", "rate=2", "--out", "busy"]).done();
    fs::write(folder.path().join("in_the_way"), "a file").expect("writable");
    let message = sweep(folder.path(), &["--vary", "rate=2", "--out", "in_the_way"]).refused(1);
    assert!(message.contains("cannot create in_the_way"), "{message}");
}

/// A kept point that somebody changed is not believed.
#[test]
fn a_damaged_point_is_named() {
    let folder = folder_with(&scenario("", CANDIDATES));
    let six = [&SIX[..], &["--out", "out"]].concat();
    sweep(folder.path(), &six).done();
    let out = folder.path().join("out");
    fs::create_dir(out.join("points")).expect("writable");
    fs::remove_file(out.join("reports.jsonl")).expect("ours");
    fs::write(out.join("points/000004.json"), "{\"point\":4").expect("writable");
    let message = sweep(folder.path(), &six).refused(3);
    assert!(message.contains("out/points/000004.json: EOF") && message.contains("remove the file"), "{message}");
    fs::remove_file(out.join("points/000004.json")).expect("ours");
    fs::write(out.join("points/.000005.json.AbCdEf"), "{").expect("what a kill leaves");
    sweep(folder.path(), &six).done();
    assert_eq!(names(&out), ["figures.csv", "manifest.json", "reports.jsonl"]);
}

/// Shards run side by side as processes of their own, by command line, Slurm and Kubernetes; merged they are the whole.
#[test]
fn merged_shards_are_the_sweep_in_one_piece() {
    let folder = folder_with(&scenario("", CANDIDATES));
    let arguments = [&["sweep", "scenario.toml"], &SIX[..], &["--seeds", "2"]].concat();
    let whole = sim_in(folder.path(), &[&arguments[..], &["--out", "whole"]].concat()).done();
    for of in [1_usize, 2, 4, 7] {
        for scheduler in ["none", "slurm", "kubernetes"] {
            let (last, of_text) = ((of - 1).to_string(), of.to_string());
            let parts: Vec<String> = (0..of).map(|index| format!("{scheduler}-{of}-{index}")).collect();
            let children: Vec<Child> = (0..of)
                .map(|index| {
                    let text = index.to_string();
                    let (shard, variables) = match scheduler {
                        "none" => (format!("{index}/{of}"), vec![("SLURM_ARRAY_TASK_ID", "99")]),
                        "slurm" => (
                            "auto".to_owned(),
                            vec![
                                ("SLURM_ARRAY_TASK_ID", text.as_str()),
                                ("SLURM_ARRAY_TASK_MIN", "0"),
                                ("SLURM_ARRAY_TASK_MAX", last.as_str()),
                                ("SLURM_ARRAY_TASK_COUNT", of_text.as_str()),
                            ],
                        ),
                        _ => (format!("auto/{of}"), vec![("JOB_COMPLETION_INDEX", text.as_str())]),
                    };
                    start(
                        folder.path(),
                        &[&arguments[..], &["--shard", &shard, "--out", &parts[index]]].concat(),
                        &variables,
                    )
                })
                .collect();
            for child in children {
                end(child).done();
            }
            // In any order.
            let given: Vec<&str> = parts.iter().rev().map(String::as_str).collect();
            let out = format!("merged-{scheduler}-{of}");
            assert_eq!(
                merge(folder.path(), &[&given[..], &["--out", &out]].concat()).done(),
                whole,
                "{scheduler}, {of}"
            );
            assert_eq!(files(&folder.path().join(&out)), files(&folder.path().join("whole")), "{scheduler}, {of}");
            let csv_text = merge(folder.path(), &[&given[..], &["--format", "csv"]].concat()).done();
            assert_eq!(csv_text.as_bytes(), files(&folder.path().join("whole"))["figures.csv"]);
        }
    }
}

#[test]
fn shards_that_do_not_make_a_whole_are_refused() {
    let folder = folder_with(&scenario("", CANDIDATES));
    let path = folder.path();
    let shard = |shard: &str, out: &str| sweep(path, &[&SIX[..], &["--shard", shard, "--out", out]].concat()).done();
    for (index, out) in ["a", "b", "c"].into_iter().enumerate() {
        shard(&format!("{index}/3"), out);
    }
    shard("0/2", "half");
    sweep(path, &[&SIX[..], &["--out", "whole"]].concat()).done();
    sweep(path, &[&SIX[..], &["--seed", "8", "--shard", "1/3", "--out", "other_seed"]].concat()).done();
    let copy = |from: &str, to: &str| {
        fs::create_dir(path.join(to)).expect("writable");
        for (name, content) in files(&path.join(from)) {
            fs::write(path.join(to).join(name), content).expect("writable");
        }
    };
    let edit = |folder: &str, file: &str, from: &str, to: &str| {
        copy("b", folder);
        let place = path.join(folder).join(file);
        let text = fs::read_to_string(&place).expect("written");
        assert!(text.contains(from), "{text}");
        fs::write(place, text.replacen(from, to, 1)).expect("writable");
    };
    edit("version", "manifest.json", env!("CARGO_PKG_VERSION"), "0.0.9");
    edit("scenario", "manifest.json", "\"sha256\": \"", "\"sha256\": \"0");
    edit("cut", "reports.jsonl", "{\"point\":1,", "{\"point\":4,");
    copy("b", "unfinished");
    fs::remove_file(path.join("unfinished/reports.jsonl")).expect("ours");
    copy("b", "short");
    let text = fs::read_to_string(path.join("short/reports.jsonl")).expect("written");
    let first = text.split_inclusive('\n').next().expect("a line");
    fs::write(path.join("short/reports.jsonl"), first).expect("writable");
    fs::create_dir(path.join("empty")).expect("writable");
    let refusals: Vec<String> = [
        &["a", "c"][..],
        &["b"],
        &["a", "b", "c", "b"],
        &["a", "b", "half"],
        &["a", "version", "c"],
        &["a", "scenario", "c"],
        &["a", "other_seed", "c"],
        &["a", "cut", "c"],
        &["a", "short", "c"],
        &["a", "unfinished", "c"],
        &["a", "empty", "c"],
        &["a", "none", "c"],
        &["whole"],
    ]
    .iter()
    .map(|folders| {
        let said = merge(path, &[folders, &["--out", "merged"][..]].concat()).refused(3);
        let said = hashes_hidden(&said);
        format!("$ sim merge {} --out merged\n{said}", folders.join(" "))
    })
    .collect();
    insta::assert_snapshot!("merge_refusals", refusals.join("\n"));
    assert!(!path.join("merged").exists());
    merge(path, &[]).refused(2);
}

/// The scenario's hash would change with every change of the test's own text.
fn hashes_hidden(text: &str) -> String {
    let mut shown = String::new();
    let mut digits = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_hexdigit() {
            digits.push(c);
            continue;
        }
        shown.push_str(if digits.len() >= 40 { "[hash]" } else { &digits });
        digits.clear();
        shown.push(c);
    }
    shown.trim_end().to_owned() + "\n"
}

/// The scripts of `sim/CLUSTER.md`, each task as a process of its own with the variables that its scheduler sets.
#[cfg(unix)]
#[test]
fn the_scripts_for_clusters_run_every_shard() {
    let text = scenario("", CANDIDATES);
    let folder = folder_with(&text);
    let path = folder.path();
    let script = fs::read_to_string(root().join("sim/cluster/slurm.sh")).expect("there");
    let job = fs::read_to_string(root().join("sim/cluster/kubernetes.yaml")).expect("there");
    let command: Vec<String> = job
        .lines()
        .find_map(|line| line.trim().strip_prefix("command: "))
        .map(|list| serde_json::from_str(list).expect("a list of words"))
        .expect("the container has a command");
    let is_argument = |line: &str| line.trim_start().strip_prefix("- --").map(|rest| format!("--{rest}"));
    let arguments: Vec<String> = command[1..].iter().cloned().chain(job.lines().filter_map(is_argument)).collect();
    assert!(script.contains("#SBATCH --array=0-15\n") && job.contains("  completions: 16\n"));

    let whole: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with("--shard") && !word.starts_with("--out"))
        .collect();
    let printed = sim_in(path, &[&whole[..], &["--out", "whole"]].concat()).done();
    let binary = Path::new(env!("CARGO_BIN_EXE_sim")).parent().expect("a folder");
    let search = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    for index in 0..16 {
        let task = index.to_string();
        let slurm = std::process::Command::new("bash")
            .arg(root().join("sim/cluster/slurm.sh").canonicalize().expect("there"))
            .current_dir(path)
            .env("PATH", &search)
            .env("SLURM_ARRAY_TASK_ID", &task)
            .output();
        Answer::from(slurm.expect("a shell")).done();
        let filled: Vec<String> =
            arguments.iter().map(|word| word.replace("$(JOB_COMPLETION_INDEX)", &format!("pod{task}"))).collect();
        let filled: Vec<&str> = filled.iter().map(String::as_str).collect();
        end(start(path, &filled, &[("JOB_COMPLETION_INDEX", &task)])).done();
    }
    for prefix in ["shards/", "shards/pod"] {
        let parts: Vec<String> = (0..16).map(|index| format!("{prefix}{index}")).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let out = prefix.replace('/', "-");
        assert_eq!(merge(path, &[&parts[..], &["--out", &out]].concat()).done(), printed, "{prefix}");
        assert_eq!(files(&path.join(&out)), files(&path.join("whole")), "{prefix}");
    }
}

/// As in `sim sweep … | true`: the reader had enough, and what was computed is kept.
#[test]
fn a_closed_stdout_keeps_the_results() {
    let folder = folder_with(&scenario("", CANDIDATES));
    let mut child = start(folder.path(), &[&["sweep", "scenario.toml"], &SIX[..], &["--out", "out"]].concat(), &[]);
    drop(child.stdout.take());
    assert_eq!(end(child).code, Some(0));
    assert_eq!(names(&folder.path().join("out")), ["figures.csv", "manifest.json", "reports.jsonl"]);
}
