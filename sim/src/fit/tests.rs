//! Real tables, where they are at hand: what comes of them is what the built-in profiles have.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use calibrate::profile::{Attention, Curve, Kind, Profile};

use super::onto::finding::Finding;
use super::*;

/// A public table, or nothing where there are none.
fn table(name: &str, ranks: Option<u32>) -> Option<Read> {
    let shared = std::env::var_os("RUNGWISE_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let path = Path::new(&shared).join("traces/profiles_raw").join(name);
    if !path.is_file() {
        eprintln!("skipped: no {}", path.display());
        return None;
    }
    Some(Read::table(Source::read(&path).expect("readable"), None, ranks).expect("a table"))
}

fn fitted(read: &[Read], model: Option<&str>) -> Fitted {
    let request =
        Request { name: "fitted", device: Some("A100"), device_memory: None, model, ranks: Some(1), engine: "vllm" };
    of_tables(read, &request, "MIT").expect("a profile")
}

fn dense_points(profile: &Profile) -> Vec<(f64, f64)> {
    let Curve::Table(table) = &profile.machine.dense.figures else { panic!("a table") };
    let measured = table.measured_to().unwrap_or(f64::INFINITY);
    let points = table.x().iter().copied().zip(table.y().iter().copied());
    points.filter(|(rows, _)| *rows <= measured).collect()
}

#[test]
fn dense_tables_are_those_of_the_built_in_profiles() {
    let cases = [
        ("a100/meta-llama/Meta-Llama-3-8B/mlp.csv", "llama-3-8b", "a100-llama-3-8b"),
        ("h100/meta-llama/Llama-2-7b-hf/mlp.csv", "llama-2-7b", "h100-llama-2-7b"),
    ];
    for (file, model, builtin) in cases {
        let Some(read) = table(file, Some(1)) else { return };
        let found = dense_points(&fitted(&[read], Some(model)).profile);
        let expected = dense_points(&Profile::builtin(builtin).expect("built in"));
        assert_eq!(found.len(), expected.len(), "{builtin}");
        for ((rows, us), (expected_rows, expected_us)) in found.into_iter().zip(expected) {
            // The built-in file has one decimal.
            assert!(
                rows.to_bits() == expected_rows.to_bits() && (us - expected_us).abs() < 0.051,
                "{builtin} at {rows}"
            );
        }
    }
}

#[test]
fn attention_is_that_of_the_built_in_profile_made_of_the_same_table() {
    let Some(attention) = table("a800/meta-llama/Llama-2-7b-hf/attention.csv", None) else { return };
    let Some(linear) = table("a800/meta-llama/Llama-2-7b-hf/mlp.csv", None) else { return };
    // No model is named: one preset alone has the shape of the table.
    let fitted = fitted(&[attention, linear], None);
    assert_eq!(fitted.model.name, "llama-2-7b");
    let builtin = Profile::builtin("a100-llama-3-8b").expect("built in");
    let of = |profile: &Profile| -> Attention { profile.engine.attention.clone().expect("attention").figures };
    let (found, expected) = (of(&fitted.profile), of(&builtin));
    assert!(found.separate_kernels && expected.separate_kernels);
    // There a request of 8 KV heads is a quarter of one with 32, and a floor stands below short contexts. The table has whole
    // microseconds of a layer, and some sizes twice, chunks without context among them: here their median counts.
    let is_close = |found: f64, expected: f64| (found - expected).abs() < (0.01 * expected).max(1.6 * 32.0);
    for requests in [1.0, 2.0, 8.0, 32.0, 128.0] {
        for context in [128.0, 512.0, 1024.0, 4032.0] {
            let (found, expected) = (found.decode.at(requests, context), expected.decode.at(4.0 * requests, context));
            assert!(is_close(found.value, expected.value), "{requests} of {context}: {found:?} {expected:?}");
        }
    }
    for chunk in [64.0, 128.0, 512.0, 2048.0] {
        for context in [512.0, 1024.0, 2048.0] {
            let (found, expected) = (found.prefill.at(chunk, context), expected.prefill.at(chunk, context));
            assert!(is_close(found.value, expected.value), "{chunk} after {context}: {found:?} {expected:?}");
        }
    }
    assert!((found.padded_request_us / 4.0 / expected.padded_request_us - 1.0).abs() < 0.02);
}

#[test]
fn kernel_tables_are_those_of_the_built_in_profile() {
    let files = ["dense", "per_sequence", "attention"];
    let read = files.iter().filter_map(|part| table(&format!("../kernels_rtx4090_llama8b_tp1_{part}.csv"), None));
    let read: Vec<Read> = read.collect();
    if read.len() < files.len() {
        return;
    }
    let found = fitted(&read, Some("llama-3.1-8b")).profile;
    let expected = Profile::builtin("rtx4090-llama-3.1-8b").expect("built in");
    let is_close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-3;
    // Here embedding and final norm are in it.
    for ((rows, us), (expected_rows, expected_us)) in dense_points(&found).into_iter().zip(dense_points(&expected)) {
        assert!(
            rows.to_bits() == expected_rows.to_bits() && is_close(us, expected_us),
            "{us} for {expected_us} at {rows}"
        );
    }
    for sequences in [1.0, 8.0, 64.0, 256.0] {
        let [found, expected] = [&found, &expected].map(|profile| profile.machine.head.figures.at(sequences).value);
        assert!(is_close(found, expected), "{found} for {expected}");
    }
    let [found, expected] = [found, expected].map(|profile| profile.engine.attention.expect("attention").figures);
    for (requests, context) in [(1.0, 16.0), (8.0, 1024.0), (64.0, 512.0)] {
        assert!(is_close(found.decode.at(requests, context).value, expected.decode.at(requests, context).value));
    }
    assert!(is_close(found.prefill.at(512.0, 2048.0).value, expected.prefill.at(512.0, 2048.0).value));
    let [found, expected] = [&found, &expected].map(|attention| attention.mixed.as_ref().expect("mixed"));
    for at in [[16.0, 0.0, 1.0, 16.0], [256.0, 512.0, 32.0, 1024.0], [2048.0, 16_384.0, 128.0, 512.0]] {
        let [found, expected] = [found, expected].map(|mixed| mixed.at(at[0], at[1], at[2], at[3]).value);
        assert!(is_close(found, expected), "{found} for {expected} at {at:?}");
    }
}

#[test]
fn operations_timed_in_both_ways_bound_the_launch_gap() {
    let folder = "h800/llama2_7b_dense_example/";
    let files = ["linear_op.csv", "linear_op_kernel_only.csv", "attention_kernel_only.csv"];
    let read: Vec<Read> = files.iter().filter_map(|file| table(&format!("{folder}{file}"), Some(1))).collect();
    if read.len() < files.len() {
        return;
    }
    let fitted = fitted(&read, None);
    let gap = fitted.launch_gap.expect("both ways");
    // Profile-data specification: about 13 us per operation, flat over rows.
    assert!((13.0..14.0).contains(&gap.us_per_operation) && gap.range_us[1] - gap.range_us[0] < 1.0, "{gap:?}");
    let points = dense_points(&fitted.profile);
    assert!((points[0].1 / 5340.0 - 1.0).abs() < 0.01, "kernels alone: {:?}", points[0]);
    let folder = table(&format!("{folder}linear_op_kernel_only.csv"), Some(4)).expect("there");
    let Table::Linear(four) = &folder.table else { panic!("linear operations") };
    assert_eq!(four.from_one_rank, ["input_layernorm", "post_attention_layernorm"], "measured on one rank alone");
}

/// Steps as a table has them, and the profile that comes of them.
fn of_steps(csv: &str) -> Result<Fitted, FitError> {
    let text = format!("mode,rows,requests,context,milliseconds\n{csv}");
    let source = Source::of("steps.csv".to_owned(), text.into_bytes())?;
    let read = [Read::table(source, Some(TableKind::Steps), None)?];
    let request = Request {
        name: "fitted",
        device: Some("H200"),
        device_memory: None,
        model: Some("llama-3.1-8b"),
        ranks: None,
        engine: "vllm",
    };
    of_tables(&read, &request, "none")
}

const GRAPHS: &str =
    "FULL,8,8,500,4.6\nFULL,8,8,2500,4.9\nFULL,16,16,500,4.8\nFULL,32,32,500,5.1\nFULL,64,64,500,5.9\n";

#[test]
fn steps_without_a_graph_say_what_launches_take() {
    let fitted =
        of_steps(&format!("{GRAPHS}NONE,16,16,500,8.1\nNONE,32,32,500,8.0\nEAGER,32,32,500,16\n")).expect("a profile");
    // 324 compiled operations of 3 us of launch each, 356 eager ones.
    let dispatch = &fitted.profile.engine.dispatch;
    assert!((dispatch.figures.compiled_us - (8050.0 / 324.0 - 3.0)).abs() < 2e-3, "{dispatch:?}");
    assert!((dispatch.figures.eager_us - (16_000.0 / 356.0 - 3.0)).abs() < 2e-3, "{dispatch:?}");
    assert!(fitted.doubts.is_empty(), "{:?}", fitted.doubts);
    // Each size by the other: 8.1 ms for 8.0 and 8.0 for 8.1; a kind of one size has no judge.
    let errors = &fitted.launches.expect("steps").errors;
    let [after] = &errors.iter().map(|errors| errors.after.clone()).collect::<Vec<_>>()[..] else {
        panic!("{errors:?}")
    };
    assert!(after.iter().all(|error| (0.012..0.013).contains(error)), "{after:?}");
}

#[test]
fn launches_that_hide_behind_the_device_are_bounded() {
    let fitted = of_steps(&format!("{GRAPHS}NONE,16,16,500,4.85\nNONE,64,64,500,5.9\n")).expect("a profile");
    let dispatch = &fitted.profile.engine.dispatch;
    let bound_us = 4850.0 / 324.0 - 3.0;
    let launches = fitted.launches.expect("steps");
    assert!(
        matches!(launches.compiled_us, Finding::Bounded { most, .. } if (most - bound_us).abs() < 1e-6),
        "{launches:?}"
    );
    assert!(dispatch.figures.compiled_us <= bound_us, "{dispatch:?}");
    assert_eq!(dispatch.provenance.kind, Kind::Declared, "a bound makes no figure of a planned one");
}

#[test]
fn steps_that_no_graph_reaches_say_nothing() {
    let fitted = of_steps(&format!("{GRAPHS}NONE,128,128,500,20\nPIECEWISE,16,16,500,4.9\n")).expect("a profile");
    let launches = fitted.launches.expect("steps");
    assert!(matches!(launches.compiled_us, Finding::Silent { .. }), "{launches:?}");
    assert_eq!(fitted.profile.engine.dispatch, fitted.planned.engine.dispatch);
    assert_eq!(launches.errors.len(), 1, "PIECEWISE steps judge");
}

#[test]
fn steps_faster_without_a_graph_are_doubted() {
    let fitted = of_steps(&format!("{GRAPHS}NONE,16,16,500,4.0\n")).expect("a profile");
    let [doubt] = &fitted.doubts[..] else { panic!("{:?}", fitted.doubts) };
    assert!(doubt.contains("16 rows take 4.00 ms") && doubt.contains("interchanged"), "{doubt}");
    for steps in ["NONE,16,16,500,2.0", "PIECEWISE,16,16,500,2.0", "NONE,16,16,500,9000", "EAGER,16,16,500,0.4"] {
        let error = of_steps(&format!("{GRAPHS}{steps}\n")).expect_err(steps).to_string();
        assert!(error.starts_with("steps.csv: ") && error.contains("16 rows"), "{error}");
    }
    for none in ["NONE,8,8,500,4.6\nNONE,16,16,500,4.9\n", "EAGER,8,8,500,4.6\nEAGER,16,16,500,4.9\n"] {
        let error = of_steps(none).expect_err("no graphs").to_string();
        assert!(error.contains("no step with a graph"), "{error}");
    }
}

/// Rows that were read, used, and left out for a reason, in the words of the report.
fn counted(read: &Read) -> (u64, u64, Vec<u64>) {
    let source = crate::record::fit::table_source(read);
    (source.read, source.used, source.left_out.iter().map(|left_out| left_out.count).collect())
}

#[test]
fn every_row_that_is_read_is_used_or_left_out() {
    let tables = [
        ("a100/meta-llama/Meta-Llama-3-8B/mlp.csv", Some(1)),
        ("a100/meta-llama/Llama-2-7b-hf/mlp.csv", Some(2)),
        ("h100/meta-llama/Llama-2-70b-hf/mlp.csv", Some(4)),
        ("a800/meta-llama/Llama-2-7b-hf/mlp.csv", None),
        ("a800/meta-llama/Llama-2-7b-hf/attention.csv", None),
        ("h800/llama2_7b_dense_example/linear_op.csv", Some(1)),
        ("h800/llama2_7b_dense_example/linear_op_kernel_only.csv", Some(1)),
        ("h800/llama2_7b_dense_example/attention.csv", Some(1)),
        ("h800/llama2_7b_dense_example/attention_kernel_only.csv", Some(8)),
    ];
    for (file, ranks) in tables {
        let Some(read) = table(file, ranks) else { return };
        let lines = read.source.text.lines().count() as u64 - 1;
        let (found, used, left_out) = counted(&read);
        assert_eq!(found, lines, "{file}");
        assert_eq!(found, used + left_out.iter().sum::<u64>(), "{file}: {used} and {left_out:?}");
        eprintln!("{file}: {found} = {used} + {left_out:?}");
    }
}

/// Of Frontier's attention tables, whose batches of both kinds are prefills by one column and `mixed` by another.
#[test]
fn mixed_batches_are_left_out_whatever_else_they_are() {
    let mut text = "time_stats.attn_prefill.median,time_stats.attn_decode.median,n_embd,n_q_head,n_kv_head,\
                    num_tensor_parallel_workers,batch_size,prefill_chunk_size,kv_cache_size,is_prefill,mode,attention_backend\n"
        .to_owned();
    let rows = [
        (1, 1, 0, 64, "False", "even"),
        (1, 4, 0, 64, "False", "even"),
        (1, 1, 64, 0, "True", "even"),
        (1, 2, 64, 0, "True", "even"),
        (1, 5, 64, 64, "True", "true_mixed"),
        (1, 1, 64, 64, "True", "true_mixed"),
        (1, 4, 64, 64, "False", "true_mixed"),
        (2, 1, 0, 64, "False", "even"),
        (2, 5, 64, 64, "True", "true_mixed"),
    ];
    for (ranks, batch, chunk, kv, is_prefill, mode) in rows {
        writeln!(text, "0.01,0.02,4096,32,32,{ranks},{batch},{chunk},{kv},{is_prefill},{mode},FLASHINFER")
            .expect("text");
    }
    let source = |text: &str| Source::of("attention.csv".to_owned(), text.as_bytes().to_vec()).expect("text");
    let read = |ranks| Read::table(source(&text), None, Some(ranks)).expect("a table");
    assert_eq!(counted(&read(1)), (9, 3, vec![2, 4]));
    assert_eq!(counted(&read(2)), (9, 1, vec![7, 1]));
}

#[test]
fn launches_are_no_longer_than_the_fastest_step_and_prompts_do_not_count() {
    let csv = format!("{GRAPHS}NONE,8,8,500,8.0\nNONE,16,16,500,15\nNONE,32,32,500,15\n");
    let fitted = of_steps(&csv).expect("a profile");
    let us = fitted.profile.engine.dispatch.figures.compiled_us;
    assert!((us - (8000.0 / 324.0 - 3.0)).abs() < 2e-3, "{us}");
    assert!(fitted.doubts.iter().any(|doubt| doubt.contains("15.00 ms, of 8 rows 8.00 ms")), "{:?}", fitted.doubts);
    let source = |text: &str| Source::of("steps.csv".to_owned(), text.as_bytes().to_vec()).expect("text");
    let prompts =
        "mode,rows,requests,context,milliseconds,chunk\nFULL,8,8,500,4.6,0\nFULL,64,64,500,5.9,0\nNONE,64,0,0,60,64\n";
    let Table::Steps(steps) = Table::read(&source(prompts), None, None).expect("steps") else { panic!("steps") };
    let uses = whole_steps::Uses::of(&steps);
    assert_eq!(uses.of_step(&steps[2]), whole_steps::Use::Nothing);
}

#[test]
fn steps_that_the_host_holds_up_give_no_cost_of_context() {
    for more in ["3.0", "2.95"] {
        let csv = format!(
            "FULL,8,8,500,3.0\nFULL,8,8,2500,{more}\nFULL,32,32,500,3.0\nFULL,32,32,2500,{more}\nNONE,32,32,500,4.2\n"
        );
        let fitted = of_steps(&csv).expect("a profile");
        let attention = fitted.profile.engine.attention.as_ref().expect("attention");
        assert!(attention.figures.decode.at(32.0, 2500.0).value < 1.0, "{attention:?}");
        let dense = dense_points(&fitted.profile);
        assert!(dense.iter().all(|(_, us)| (2_900.0..3_100.0).contains(us)), "{dense:?}");
        assert!(fitted.doubts.iter().any(|doubt| doubt.contains("no longer with more context")), "{:?}", fitted.doubts);
    }
}

#[test]
fn a_memory_that_the_device_does_not_have_is_doubted() {
    // 16 GB of weights in 4.5 ms or less are 3.5 TB/s; twice as fast is beyond the H200's 4.8.
    assert!(of_steps(GRAPHS).expect("a profile").doubts.is_empty());
    let doubts = of_steps("FULL,8,8,500,2.3\nFULL,64,64,500,2.6\n").expect("a profile").doubts;
    assert!(doubts.iter().any(|doubt| doubt.contains("the device reads 4800 at most")), "{doubts:?}");
}

#[test]
fn every_kind_of_table_beside_steps_is_refused() {
    let source = |file: &str, text: String| Source::of(file.to_owned(), text.into_bytes()).expect("text");
    let steps = source("steps.csv", format!("mode,rows,requests,context,milliseconds\n{GRAPHS}"));
    let head = source(
        "head.csv",
        "layer,sequences,time_us\nlm_head,1,100\nlm_head,64,120\nsampler,1,10\nsampler,64,12\n".to_owned(),
    );
    let read = [steps, head].map(|source| Read::table(source, None, None).expect("a table"));
    let request = Request {
        name: "fitted",
        device: Some("H200"),
        device_memory: None,
        model: Some("llama-3.1-8b"),
        ranks: None,
        engine: "vllm",
    };
    let error = of_tables(&read, &request, "none").expect_err("two kinds").to_string();
    assert!(error.contains("whole steps beside another table"), "{error}");
}

#[test]
fn sizes_with_one_context_each_stay_level() {
    // The device reads keys and values faster than its smallest step streams weights.
    let steps = (1..200).map(|rows| format!("FULL,{rows},{rows},1000,{}\n", 4.5 + 0.02 * f64::from(rows)));
    let fitted = of_steps(&steps.collect::<String>()).expect("a profile");
    let dense = dense_points(&fitted.profile);
    assert!(dense.iter().all(|(_, us)| *us > 4_000.0), "{dense:?}");
    assert!(fitted.doubts.is_empty(), "{:?}", fitted.doubts);
}

#[test]
fn noise_of_many_single_steps_does_not_lower_the_launches() {
    let graphs = "FULL,1,1,500,4.5\nFULL,1,1,1500,4.5025\nFULL,400,400,500,6.0\nFULL,400,400,1500,7.0\n";
    // 8 ms, up to 4 % off to either side, and three of them a fifth too short.
    let spread = |rows: u32| 1.0 + 0.01 * (f64::from(rows * 7 % 9) - 4.0);
    let noisy = |rows: u32| 8.0 * if rows.is_multiple_of(33) { 0.8 } else { spread(rows) };
    let steps: Vec<String> = (1..100).map(|rows| format!("NONE,{rows},{rows},500,{}", noisy(rows))).collect();
    let us = of_steps(&format!("{graphs}{}\n", steps.join("\n")))
        .expect("a profile")
        .profile
        .engine
        .dispatch
        .figures
        .compiled_us;
    assert!((us / (8000.0 / 324.0 - 3.0) - 1.0).abs() < 0.02, "{us}");
}
