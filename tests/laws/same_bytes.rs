//! Law 6.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use sim::scenario::Scenario;

use crate::house::{for_all, require};

/// Everything that one call of the binary left: standard output and the files of `--out`.
type Left = BTreeMap<String, Vec<u8>>;

/// Runs `sim run --out` on the scenario in `folder`.
pub(crate) fn run_binary(folder: &Path, arguments: &[&str], threads: &str) -> Result<Left, String> {
    let out = folder.join("out");
    if out.exists() {
        fs::remove_dir_all(&out).map_err(|error| error.to_string())?;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_sim"))
        .current_dir(folder)
        .env("RAYON_NUM_THREADS", threads)
        .args(["run", "scenario.toml", "--profile", "profile.toml", "--format", "json", "--out", "out", "--steps"])
        .args(arguments)
        .output()
        .map_err(|error| error.to_string())?;
    require(output.status.success(), || format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)))?;
    let mut left = Left::from([("standard output".to_owned(), output.stdout)]);
    for name in ["run.json", "requests.csv", "figures.csv", "history.json", "profile.toml", "steps.jsonl"] {
        left.insert(name.to_owned(), fs::read(out.join(name)).map_err(|error| format!("{name}: {error}"))?);
    }
    Ok(left)
}

/// The same seed gives the same bytes: called twice, and with one thread as with four.
#[test]
fn law_6_the_same_seed_gives_the_same_bytes() {
    for_all("law 6", 12, &["bytes"], |case, seen| {
        let folder = case.folder_with_profile()?;
        let scenario = Scenario::load(&folder.path().join("scenario.toml")).map_err(|error| error.to_string())?;
        let seeds: &[&str] = if scenario.traffic.draws() { &["--seeds", "2"] } else { &[] };
        let first = run_binary(folder.path(), seeds, "4")?;
        for threads in ["4", "1"] {
            let again = run_binary(folder.path(), seeds, threads)?;
            for (name, bytes) in &first {
                require(again[name] == *bytes, || format!("{name} differs with {threads} threads"))?;
            }
        }
        require(first["run.json"] == first["standard output"], || "run.json is not what was printed".to_owned())?;
        seen.add("bytes", first.values().map(|bytes| bytes.len() as u64).sum());
        Ok(())
    });
}

/// The seed matters: another one gives other bytes wherever anything is random.
#[test]
fn another_seed_gives_other_requests() {
    let text = "schema = 1\nname = \"seeds\"\n[profile]\nbuiltin = \"textbook\"\n[server.vllm]\nmax_model_len = 512\n\
                max_num_seqs = 8\nmax_num_batched_tokens = 512\n[traffic]\nrequests = 20\n\
                [traffic.arrivals.poisson]\nrate = 9\n[traffic.lengths.uniform]\nprompt = [1, 90]\noutput = [1, 9]\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("scenario.toml"), text).expect("writes");
    let profile = calibrate::profile::Profile::builtin("textbook").expect("a built-in profile");
    profile.save(&folder.path().join("profile.toml")).expect("writes");
    let of_seed = |seed| run_binary(folder.path(), &["--seed", seed], "1").expect("runs");
    assert_ne!(of_seed("1")["requests.csv"], of_seed("2")["requests.csv"]);
}
