//! `--parquet`: tables in a build that has them, a refusal at once in one that has not. What is in them: `tests/readers/`.

use super::{folder_with, names, scenario, sim_in};

#[test]
fn parquet_needs_a_folder() {
    let folder = folder_with(&scenario("", ""));
    let refused = sim_in(folder.path(), &["run", "scenario.toml", "--parquet"]).refused(2);
    assert!(refused.contains("--out <DIR>"), "{refused}");
}

#[cfg(not(feature = "frames"))]
#[test]
fn a_build_without_tables_says_so_before_it_reads_anything() {
    let folder = folder_with("no scenario");
    let refused = |command: &[&str]| sim_in(folder.path(), command).refused(2);
    let run = refused(&["run", "scenario.toml", "--out", "new", "--parquet"]);
    insta::assert_snapshot!(run, @"
    × --parquet: this sim was built without Parquet tables
    help: build one with them, `cargo build --release -p sim --features frames`, or leave --parquet
          out: the CSV and JSON files hold the same
    ");
    assert_eq!(refused(&["sweep", "missing.toml", "--vary", "rate=1", "--out", "new", "--parquet"]), run);
    assert_eq!(refused(&["merge", "missing", "--out", "new", "--parquet"]), run);
    assert_eq!(names(folder.path()), ["scenario.toml"], "and before it makes anything");
}

#[cfg(feature = "frames")]
mod with_tables {
    use std::fs;
    use std::path::Path;

    use super::super::command_in;
    use super::*;

    const OUT: [&str; 4] = ["run", "scenario.toml", "--out", "results"];
    const CANDIDATES: &str = "[[candidate]]\nname = \"default\"\n[[candidate]]\nname = \"few sizes\"\n\
                              cudagraph_capture_sizes = [1, 8]\n";
    const TABLES: [&str; 3] = ["figures.parquet", "requests.parquet", "rungs.parquet"];

    fn tables(folder: &Path) -> Vec<String> {
        names(folder).into_iter().filter(|name| name.ends_with(".parquet")).collect()
    }

    #[test]
    fn tables_are_beside_the_other_files_and_the_same_on_any_number_of_threads() {
        let folder = folder_with(&scenario("", CANDIDATES));
        let results = folder.path().join("results");
        sim_in(folder.path(), &[&OUT[..], &["--parquet"]].concat()).done();
        assert_eq!(tables(&results), TABLES);
        let all = [&OUT[..], &["--parquet", "--steps", "--seeds", "4"]].concat();
        let bytes = |threads: &str| {
            let output = command_in(folder.path(), &all).env("RAYON_NUM_THREADS", threads).output();
            assert!(output.expect("the binary was built").status.success());
            tables(&results).into_iter().map(|name| fs::read(results.join(name)).expect("written")).collect::<Vec<_>>()
        };
        let one = bytes("1");
        assert_eq!(one.len(), 4, "steps, too");
        assert!(one == bytes("4"), "the same bytes");
    }

    #[test]
    fn tables_that_a_run_leaves_in_place_are_told() {
        let folder = folder_with(&scenario("", ""));
        sim_in(folder.path(), &[&OUT[..], &["--parquet", "--steps"]].concat()).done();
        let told = |options: &[&str]| {
            let answer = sim_in(folder.path(), &[&OUT[..], options].concat());
            let names = ["figures.parquet", "requests.parquet", "rungs.parquet", "steps.jsonl", "steps.parquet"];
            names
                .into_iter()
                .filter(|name| answer.stderr.contains(&format!("results/{name} is of")))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&[]), ["figures.parquet", "requests.parquet", "rungs.parquet", "steps.jsonl", "steps.parquet"]);
        assert_eq!(told(&["--parquet"]), ["steps.jsonl", "steps.parquet"]);
        assert!(told(&["--parquet", "--steps"]).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_full_disk_leaves_the_older_tables_as_they_were() {
        let folder = folder_with(&scenario("", CANDIDATES));
        let results = folder.path().join("results");
        let all = [&OUT[..], &["--parquet", "--steps"]].concat();
        sim_in(folder.path(), &all).done();
        let before = fs::read(results.join("steps.parquet")).expect("written");
        let limited =
            format!("trap '' XFSZ; ulimit -f 4; exec '{}' {} --seed 8", env!("CARGO_BIN_EXE_sim"), all.join(" "));
        let output = std::process::Command::new("sh").args(["-c", &limited]).current_dir(folder.path()).output();
        assert_eq!(output.expect("a shell").status.code(), Some(1));
        assert!(fs::read(results.join("steps.parquet")).expect("still there") == before);
        assert!(names(&results).iter().all(|name| !name.starts_with('.')), "no temporary file is left");
    }

    /// A finished sweep is not run again for its tables; those of its shards together are the same bytes.
    #[test]
    fn a_sweep_and_its_shards_have_the_same_tables() {
        let folder = folder_with(&scenario("", CANDIDATES));
        let sweep = |options: &[&str]| {
            let vary = ["sweep", "scenario.toml", "--vary", "rate=2,50,400", "--seeds", "2", "--out"];
            sim_in(folder.path(), &[&vary[..], options].concat()).done()
        };
        let plain = sweep(&["whole"]);
        assert!(tables(&folder.path().join("whole")).is_empty());
        assert_eq!(sweep(&["whole", "--parquet"]), plain, "the answer is the same");
        assert_eq!(tables(&folder.path().join("whole")), ["figures.parquet", "rungs.parquet"]);
        sweep(&["part0", "--shard", "0/2"]);
        sweep(&["part1", "--shard", "1/2", "--parquet"]);
        sim_in(folder.path(), &["merge", "part0", "part1", "--out", "merged", "--parquet"]).done();
        for name in ["figures.parquet", "rungs.parquet"] {
            let read = |place: &str| fs::read(folder.path().join(place).join(name)).expect("written");
            assert!(read("merged") == read("whole"), "{name}");
        }
    }
}
