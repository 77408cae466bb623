//! Every file of `scenarios/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sim::scenario::Scenario;
use sim::traffic::TrafficKind;

use super::binary::{json, sim};
use super::expectations;

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios")
}

/// Every scenario, in the order of their paths.
pub(crate) fn scenarios() -> Vec<PathBuf> {
    let all = |folder: PathBuf| fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = all(folder()).chain(all(folder().join("field"))).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml") && !path.ends_with("cases.toml"));
    paths.sort();
    assert!(paths.len() >= 6, "{paths:?}");
    paths
}

/// The path below `scenarios/`.
pub(crate) fn name(path: &Path) -> String {
    path.strip_prefix(folder()).expect("a scenario of the folder").display().to_string()
}

#[test]
fn the_readme_has_one_line_for_each() {
    let readme = fs::read_to_string(folder().join("README.md")).expect("a README");
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| [`")?.split_once('`'));
    let listed: Vec<&str> = rows.map(|(file, _)| file).collect();
    assert_eq!(listed.len(), listed.iter().collect::<BTreeSet<_>>().len(), "one line each: {listed:?}");
    let files: BTreeSet<String> = scenarios().iter().map(|path| name(path)).collect();
    assert_eq!(listed.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), files);
}

#[test]
fn each_says_what_it_asks_and_is_valid() {
    for path in scenarios() {
        let text = fs::read_to_string(&path).expect("a readable file");
        let header = text.lines().take_while(|line| line.starts_with('#'));
        assert!(header.count() >= 4, "{}: a header tells the question and where the numbers come from", name(&path));
        let output = sim(["check".as_ref(), path.as_os_str()]);
        assert!(output.status.success(), "{}: {}", name(&path), String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn each_runs_and_serves_all_candidates() {
    for path in scenarios() {
        let scenario = Scenario::load(&path).expect("a valid scenario");
        let priced = matches!(scenario.traffic.kind, TrafficKind::Steps(_));
        let answer = json([if priced { "price" } else { "run" }.as_ref(), path.as_os_str()]);
        let candidates = answer["candidates"].as_array().expect("a list");
        let names: Vec<&str> = candidates.iter().filter_map(|candidate| candidate["name"].as_str()).collect();
        assert!(names.iter().eq(scenario.candidates.iter().map(|candidate| &candidate.name)), "{}", name(&path));
        if !priced {
            let served = |candidate: &Value| candidate["refused"] == 0 && candidate["completed"].as_u64() > Some(0);
            assert!(candidates.iter().all(served), "{}", name(&path));
        }
    }
}

#[test]
fn every_expectation_holds() {
    let mut faults = Vec::new();
    for path in scenarios() {
        let (expectations, found) = expectations::check(&path);
        println!("{}: {}/{expectations} expectations", name(&path), expectations - found.len());
        faults.extend(found);
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
