//! Disturbances that are about as long as one part, wherever in a run they fall: what they met is measured once more, or no
//! profile is there, or it says what happened. None is in a figure without a word.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use toml::Value;

use crate::double::{Double, Run};
use crate::measure::{Bench, check};

/// A figure that differs by more than this share is disturbed: the double is as exact as its clock here.
const SHARE: f64 = 0.05;

/// Figures of a profile by their place, those of the method left out.
fn figures(profile: &Value) -> BTreeMap<String, f64> {
    fn walk(value: &Value, place: &str, found: &mut BTreeMap<String, f64>) {
        match value {
            Value::Table(table) => {
                let of_figure = |key: &str| !["provenance", "measured", "valid_rows", "precision"].contains(&key);
                for (key, value) in table.iter().filter(|(key, _)| of_figure(key)) {
                    walk(value, &format!("{place}.{key}"), found);
                }
            }
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    walk(value, &format!("{place}[{index}]"), found);
                }
            }
            Value::Float(figure) => drop(found.insert(place.to_owned(), *figure)),
            Value::Integer(figure) => drop(found.insert(place.to_owned(), *figure as f64)),
            _ => {}
        }
    }
    let mut found = BTreeMap::new();
    walk(&profile["machine"], "machine", &mut found);
    for mode in ["full", "piecewise"] {
        walk(&profile["measurement"][mode], mode, &mut found);
    }
    found
}

fn codes(profile: &Value) -> Vec<&str> {
    let warnings = profile["measurement"].get("warning").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    warnings.iter().filter_map(|warning| warning["code"].as_str()).collect()
}

/// Places of figures that a disturbance has changed.
fn changed<'a>(calm: &'a BTreeMap<String, f64>, other: &BTreeMap<String, f64>) -> Vec<&'a str> {
    assert!(calm.keys().eq(other.keys()), "the same figures");
    let is_other = |(figure, then): (&f64, &f64)| (figure - then).abs() > SHARE * then.abs() + 1e-9;
    calm.iter().filter(|(place, then)| is_other((&other[*place], *then))).map(|(place, _)| place.as_str()).collect()
}

#[test]
fn no_disturbance_as_long_as_a_part_is_in_a_figure_without_a_word() {
    let bench = Bench::new(Double::driver_and_nvml());
    let run = |name: &str, variables: &[(&str, &str)]| bench.run(&["--out", name, "--no-progress"], variables);
    assert_eq!(run("calm.toml", &[]).code(), Some(0));
    let calm = figures(&bench.profile("calm.toml"));
    assert!(calm.len() > 100, "{}", calm.len());
    // Parts take 60 to 200 ms here, after 300 ms for context and modules.
    let starts_ms = (0..12).map(|start| 330 + 115 * start);
    let spans = starts_ms.flat_map(|start_ms| {
        let of = |permille: u32| format!("{start_ms}000000:60000000:{permille}");
        // The last is below what is refused.
        [("DIP", of(400)), ("NEIGHBOUR", of(400)), ("HOST_DIP", of(400)), ("HOST_DIP", of(140))]
    });
    let spans: Vec<(&str, String)> = spans.collect();
    let (next, noticed) = (AtomicUsize::new(0), Mutex::new(BTreeMap::<&str, u32>::new()));
    let work = || {
        while let Some((kind, span)) = spans.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (name, variable) =
                (format!("{kind}-{}.toml", span.replace(':', "-")), format!("RUNGWISE_DOUBLE_{kind}"));
            let run = run(&name, &[(&variable, span)]);
            let is_noticed = ["measured once more: ", " × "].iter().any(|sign| run.stderr().contains(sign));
            *noticed.lock().expect("no other failed").entry(*kind).or_default() += u32::from(is_noticed);
            if run.code() == Some(6) {
                assert!(!bench.path(&name).exists(), "{kind} {span}");
                continue;
            }
            assert_eq!(run.code(), Some(0), "{kind} {span}: {}", run.stderr());
            let profile = bench.profile(&name);
            let (changed, codes) = (changed(&calm, &figures(&profile)), codes(&profile));
            let is_said = codes.contains(&"moved_pace") || codes.contains(&"noise_floor");
            assert!(changed.is_empty() || is_said, "{kind} {span}: {changed:?} {}", run.stderr());
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let noticed = noticed.into_inner().expect("none failed");
    println!("noticed of 12, of 24 on the host: {noticed:?}");
    assert!(noticed.values().all(|&count| count >= 6), "{noticed:?}");
}

/// Others who take and give back less than what ends a run, but many executables' worth.
#[test]
fn memory_that_others_move_a_little_widens_what_executables_take_and_is_said() {
    let bench = Bench::new(Double::driver_and_nvml());
    let run =
        bench.run(&["--out", "moved.toml", "--no-progress"], &[("RUNGWISE_DOUBLE_OTHERS_MOVE", "7000000:20971520")]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    let profile = bench.profile("moved.toml");
    assert!(codes(&profile).contains(&"noise_floor"), "{}", run.stderr());
}

/// What slows the host from before the first look until all is measured that the host has a part in: it shows in the end.
#[test]
fn a_host_that_recovers_behind_its_parts_has_been_another_one() {
    let bench = Bench::new(Double::driver_and_nvml());
    let run = |name: &str, permille: u32| {
        let dip = format!("0:1100000000:{permille}");
        bench.run(&["--out", name, "--no-progress"], &[("RUNGWISE_DOUBLE_HOST_DIP", &dip)])
    };
    let slow = run("slow.toml", 400);
    assert_eq!(slow.code(), Some(6), "{}", slow.stderr());
    assert!(slow.stderr().contains("on the host took -"), "{}", slow.stderr());
    assert!(!bench.path("slow.toml").exists());
    let slower = run("slower.toml", 120);
    assert_eq!(slower.code(), Some(0), "{}", slower.stderr());
    assert!(codes(&bench.profile("slower.toml")).contains(&"drift"), "{}", slower.stderr());
}

/// Where memory is just enough a run ends well; with less it refuses before anything is measured, and says what it needs.
#[test]
fn memory_that_the_plan_takes_for_enough_is_enough() {
    let bench = Bench::new(Double::driver_and_nvml());
    let run = |limit: &str| bench.run(&["--memory-limit", limit, "--out", "mine.toml", "--no-progress"], &[]);
    let refused = run("1MiB");
    assert_eq!(refused.code(), Some(3), "{}", refused.stderr());
    let said = refused.stderr().split_whitespace().collect::<Vec<_>>().join(" ");
    let needs = said.split("measuring this model takes ").nth(1).and_then(|rest| rest.split(' ').next());
    let needs_mib: f64 = needs.and_then(|mib| mib.parse().ok()).expect("it says what it needs");
    // What the card has beside the context of 500 MiB.
    let on_card = |free_mib: f64| {
        let bytes = ((free_mib + 500.0) * f64::from(1 << 20)).ceil().to_string();
        bench.run(&["--out", "mine.toml", "--no-progress"], &[("RUNGWISE_DOUBLE_MEMORY_BYTES", &bytes)])
    };
    let short = on_card(needs_mib - 8.0);
    assert_eq!(short.code(), Some(3), "{}", short.stderr());
    assert!(short.stderr().contains("measuring this model takes "), "{}", short.stderr());
    assert!(!bench.path("mine.toml.partial").exists(), "nothing was measured");
    for more_mib in [8.0, 60.0, 200.0, 400.0] {
        let enough = on_card(needs_mib + more_mib);
        assert_eq!(enough.code(), Some(0), "{more_mib} MiB more: {}", enough.stderr());
        check(&bench, "mine.toml");
    }
}

/// From some moment on to the end, which may be the whole of a campaign.
#[test]
fn a_disturbance_that_fills_a_replay_is_noticed_too() {
    let double = Double::driver_and_nvml();
    let steps = concat!(env!("CARGO_MANIFEST_DIR"), "/steps.jsonl");
    let arguments = ["replay", steps, "--device", "0", "--model", "llama-3.2-1b", "--limit", "4", "--time-limit", "1s"];
    let run = |variables: &[(&str, &str)]| -> Run {
        let output = double.command(&arguments, variables).output().expect("the binary was built");
        Run { output, report: String::new() }
    };
    assert_eq!(run(&[]).code(), Some(0));
    let mut named = 0;
    // Its steps are timed from about 0.35 to 0.6 s.
    for start_ms in [380, 420, 460, 500, 540, 580] {
        let dip = format!("{start_ms}000000:100000000000:400");
        let disturbed = run(&[("RUNGWISE_DOUBLE_DIP", &dip)]);
        named += u32::from(disturbed.code() == Some(6) && disturbed.stderr().contains("clock dip: "));
    }
    println!("named: {named} of 6");
    assert!(named >= 2, "{named}");
}
