//! Five rungs and the distribution: padding, hits, step times, losses.

use std::ffi::OsStr;
use std::fs;

use serde_json::{Value, json};

use super::sheet::Sheet;
use super::tally::Tally;
use super::{PROFILES, RUNGS, distribution, graph_ms};
use crate::binary;
use crate::files::folder;

/// `scenarios/practice.toml`, its first candidate.
fn five_rungs(profile: &str) -> Value {
    let path = folder().join("practice.toml");
    let arguments: [&OsStr; 4] = ["price".as_ref(), path.as_os_str(), "--profile".as_ref(), profile.as_ref()];
    let answer = binary::json(arguments);
    assert_eq!(answer["candidates"][0]["capture_sizes"], json!(RUNGS));
    answer["candidates"][0].clone()
}

#[test]
fn the_scenario_holds_the_distribution() {
    let same = Sheet::decodes(&distribution()).ladder(&RUNGS).price(PROFILES[0]);
    let mut priced = five_rungs(PROFILES[0]);
    priced["name"] = same[0]["name"].clone();
    assert_eq!(priced, same[0]);
}

#[test]
fn padding_in_four_weightings() {
    let mut tally = Tally::new("distribution");
    for profile in PROFILES {
        let priced = five_rungs(profile);
        for (figure, expected) in [
            ("mean_batch_rows", 9.905),
            ("mean_rung_rows", 12.68),
            ("mean_padded_rows", 2.775),
            ("padding_ratio", 0.280_162),
            ("waste_share", 0.218_849),
            ("mean_padding_over_batch", 0.306_756),
            ("mean_padding_over_rung", 0.199_219),
            ("exact_hit_rate", 0.259_792),
        ] {
            tally.number(figure, priced[figure].clone(), expected);
        }
    }
    tally.finish();
}

#[test]
fn each_rungs_part() {
    let mut tally = Tally::new("rungs");
    let priced = five_rungs(PROFILES[0]);
    for (place, (size, figures)) in [
        (1, [0.08, 0.0, 1.0, 0.0, 0.08]),
        (4, [0.17, 1.0, 0.333_333, 0.17, 0.51]),
        (8, [0.31, 1.5, 0.25, 0.465, 2.015]),
        (16, [0.29, 3.5, 0.125, 1.015, 3.625]),
        (32, [0.15, 7.5, 0.062_5, 1.125, 3.675]),
    ]
    .into_iter()
    .enumerate()
    {
        let rung = &priced["rungs"][place];
        tally.equal("rung", rung["size"].clone(), size);
        let names = ["share_of_steps", "mean_padded_rows", "exact_share", "padded_rows", "real_rows"];
        for (name, expected) in names.into_iter().zip(figures) {
            tally.number(&format!("rung {size}: {name}"), rung[name].clone(), expected);
        }
    }
    tally.finish();
}

/// What differs between the two profiles.
struct Times {
    break_even: f64,
    eager: f64,
    graph: f64,
    saving: [f64; 2],
    best: [f64; 2],
    losing_share: f64,
    losing_batches: Value,
    by_rung: [f64; 5],
}

#[test]
fn step_times_and_savings() {
    let mut tally = Tally::new("step times");
    let times = [
        Times {
            break_even: 3.125,
            eager: 5.557_2,
            graph: 5.473_2,
            saving: [0.084, 1.511_553],
            best: [5.218_425, 0.338_775],
            losing_share: 0.257_5,
            losing_batches: json!([[9, 12], [17, 28]]),
            by_rung: [0.75, 0.51, 0.39, -0.09, -1.05],
        },
        Times {
            break_even: 37.5,
            eager: 5.138_1,
            graph: 4.443_6,
            saving: [0.694_5, 13.516_67],
            best: [4.443_6, 0.694_5],
            losing_share: 0.0,
            losing_batches: json!([]),
            by_rung: [0.75, 0.73, 0.72, 0.68, 0.60],
        },
    ];
    for (profile, times) in PROFILES.into_iter().zip(times) {
        let priced = five_rungs(profile);
        let step_ms = &priced["step_ms"];
        tally.number("break-even", priced["break_even_padded_rows"].clone(), times.break_even);
        tally.number("eager", step_ms["eager"].clone(), times.eager);
        tally.number("compiled eager, declared equal", step_ms["compiled_eager"].clone(), times.eager);
        tally.number("graph", step_ms["graph"].clone(), times.graph);
        tally.number("saving", priced["saving_graph"]["ms"].clone(), times.saving[0]);
        tally.number("saving, %", priced["saving_graph"]["percent"].clone(), times.saving[1]);
        tally.number("best of both", step_ms["best_of_both"].clone(), times.best[0]);
        tally.number("best of both, saving", priced["saving_best_of_both"]["ms"].clone(), times.best[1]);
        tally.number("losing share", priced["losing_share"].clone(), times.losing_share);
        tally.equal("losing batches", priced["losing_batches"].clone(), times.losing_batches);
        for (place, expected) in times.by_rung.into_iter().enumerate() {
            let saving = priced["rungs"][place]["mean_saving_ms"].clone();
            tally.number(&format!("{profile}: saving of rung {}", RUNGS[place]), saving, expected);
        }
    }
    tally.finish();
}

#[test]
fn single_batches() {
    let mut tally = Tally::new("single batches");
    let steep: &[(u32, f64, f64)] = &[
        (1, 3.42, 2.67),
        (2, 3.66, 3.39),
        (4, 4.14, 3.39),
        (5, 4.38, 4.35),
        (8, 5.10, 4.35),
        (9, 5.34, 6.27),
        (16, 7.02, 6.27),
        (17, 7.26, 10.11),
        (32, 10.86, 10.11),
    ];
    let flat: &[(u32, f64, f64)] =
        &[(1, 4.96, 4.21), (2, 4.98, 4.27), (5, 5.04, 4.35), (9, 5.12, 4.51), (17, 5.28, 4.83), (32, 5.58, 4.83)];
    for (profile, spots) in PROFILES.into_iter().zip([steep, flat]) {
        for &(batch, eager, graph) in spots {
            let priced = &Sheet::decodes(&[(batch, 1)]).ladder(&RUNGS).price(profile)[0];
            tally.number(&format!("{profile}: eager at {batch}"), priced["step_ms"]["eager"].clone(), eager);
            tally.number(&format!("{profile}: graph at {batch}"), graph_ms(priced), graph);
        }
    }
    tally.finish();
}

#[test]
fn batch_nine_and_seventeen() {
    let mut tally = Tally::new("batches 9 and 17");
    for (profile, padding, net) in [(PROFILES[0], 1.68, 0.93), (PROFILES[1], 0.14, -0.61)] {
        let priced = Sheet::decodes(&[(9, 1)]).ladder(&RUNGS).ladder(&[1, 4, 8, 9, 16, 32]).price(profile);
        tally.number("cost of padding", graph_ms(&priced[0]) - graph_ms(&priced[1]), padding);
        tally.number("net", -priced[0]["saving_graph"]["ms"].as_f64().expect("a number"), net);
    }
    let seventeen = &Sheet::decodes(&[(17, 1)]).ladder(&RUNGS).price(PROFILES[0])[0];
    tally.number("17 on rung 32", 100.0 * seventeen["padding_ratio"].as_f64().expect("a number"), 88.235_294);
    tally.finish();
}

#[test]
fn the_losing_replay() {
    let mut tally = Tally::new("losing replay");
    let path = folder().join("losing_replay.toml");
    let answer = binary::json(["price".as_ref(), path.as_os_str()]);
    let [padded, exact] = [&answer["candidates"][0], &answer["candidates"][1]];
    tally.number("eager", padded["step_ms"]["eager"].clone(), 6.1);
    tally.number("graph", graph_ms(padded), 6.6);
    tally.number("net", -padded["saving_graph"]["ms"].as_f64().expect("a number"), 0.5);
    tally.number("cost of a padded row", (graph_ms(padded) - graph_ms(exact)) / 5.0, 0.24);
    tally.number("break-even", padded["break_even_padded_rows"].clone(), 2.916_667);
    tally.finish();
}

#[test]
fn captures_and_pool() {
    let mut tally = Tally::new("start-up and memory");
    let ladder = |rungs: &str, adapters: &[&str]| {
        let fixed = ["ladder", "--max-num-seqs=32", "--cudagraph-mode=FULL_DECODE_ONLY", "--profile=textbook", rungs];
        let answer = binary::json(fixed.iter().chain(adapters));
        answer["candidates"][0].clone()
    };
    // Two adapters: graphs for none, one and two of them, and one for more.
    let adapters = ["--max-loras=2", "--specialize-active-lora"];
    for (rungs, adapters, graphs, seconds) in [
        ("--cudagraph-capture-sizes=1,4,8,16,32", &[][..], 5, 3.5),
        ("--cudagraph-capture-sizes=1,4,8,16,32", &adapters, 20, 14.0),
        ("--cudagraph-capture-sizes=1,4,8,16,24,32", &adapters, 24, 16.8),
    ] {
        let found = ladder(rungs, adapters);
        tally.equal(&format!("graphs of {rungs}"), found["counts"]["descriptors"].clone(), graphs);
        tally.number(&format!("seconds of {rungs}"), found["capture_s"].clone(), seconds);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("one_request.toml");
    let text = format!(
        "schema = 1\nname = \"one request\"\n[server.vllm]\nmax_num_seqs = 32\nmax_num_batched_tokens = 8192\n\
         max_model_len = 1024\nenable_prefix_caching = false\ncudagraph_mode = \"FULL_DECODE_ONLY\"\n\
         cudagraph_capture_sizes = {RUNGS:?}\n[profile]\nbuiltin = \"textbook\"\n[traffic]\nrequests = 1\n\
         [traffic.arrivals.constant]\nrate = 1\n[traffic.lengths.fixed]\nprompt = 1\noutput = 2\n"
    );
    fs::write(&path, text).expect("written");
    let answer = binary::json(["run".as_ref(), path.as_os_str()]);
    let server = &answer["candidates"][0];
    tally.equal("shared pool", server["graph_memory_bytes"].clone(), 2_u64 << 30);
    tally.number("start-up", server["startup_s"].clone(), 3.5);
    tally.finish();
}
