//! A machine half made of findings that are known.

use std::collections::BTreeMap;

use kernels::geometry::ModelGeometry;
use kernels::units::{Bytes, Requests, Rows};

use super::*;
use crate::graph_mode::Mode;
use crate::measure::{Campaign, Drift, Estimate, Range, StoppedBy};
use crate::probe::result as found;
use crate::profile::{AnyGroup, Curve, Group, Identity, Kind, Measurement, Overlap, Profile};

fn about(value: f64) -> Estimate {
    Estimate { value, low: value * 0.98, high: value * 1.01, samples: 12 }
}

fn line(fixed_us: f64, each_us: f64) -> found::LinearCost {
    found::LinearCost { fixed_us: about(fixed_us), each_us: about(each_us) }
}

/// The result of every probe, as planted.
struct Planted {
    launch: found::LaunchCosts,
    rungs: found::Rungs,
    executables: found::Executables,
    update: found::UpdateCosts,
    dense: found::DenseTable,
    head: found::HeadTable,
    decode: found::DecodeTable,
    prefill: found::PrefillTable,
    bandwidth: found::Bandwidth,
    campaigns: BTreeMap<String, Campaign>,
}

fn campaign(repeated: f64, stopped_by: StoppedBy) -> Campaign {
    Campaign {
        seed: 7,
        rounds: 12,
        warm_up_visits: 20,
        visits: 96,
        outliers: 2,
        unreadable: 0,
        drift: Drift { repeated, halves: 1.001 },
        stopped_by,
        seconds: 1.5,
        sm_clock_mhz: Some(Range { low: 1900.0 * repeated, median: 1950.0, high: 1980.0 }),
        free_bytes: None,
    }
}

fn rung(mode: Mode, rows: u32) -> found::RungCosts {
    let size = f64::from(rows);
    found::RungCosts {
        mode,
        rows: Rows(rows),
        graphs: if mode == Mode::Full { 1 } else { 3 },
        nodes: 324,
        launches: 44,
        first_capture_us: about(9_000.0),
        capture_us: about(5_000.0),
        instantiate_us: about(2_000.0),
        upload_us: about(500.0),
        first_replay_host_us: about(30.0),
        first_replay_us: about(900.0),
        replay_host_us: about(12.0),
        replay_device_us: about(300.0 + size),
        eager_host_us: about(110.0),
        eager_device_us: about(340.0 + size),
        gap_us: about(40.0),
        beyond_full_us: (mode == Mode::Piecewise).then(|| about(15.0)),
        pool_growth: Bytes(if rows == 8 { 10 << 20 } else { 0 }),
        driver_growth_bytes: 0,
        live_peak: Bytes(u64::from(rows) << 20),
    }
}

fn planted() -> Planted {
    let rungs = [Mode::Piecewise, Mode::Full].into_iter().flat_map(|mode| [8, 4, 1].map(|rows| rung(mode, rows)));
    let descriptor =
        |mode, bytes| found::DescriptorBytes { mode, rows: Rows(4), graphs: 1, nodes: 40, bytes: about(bytes) };
    let decode = [1, 8].into_iter().flat_map(|requests| {
        [128, 1024].map(|context| found::DecodePoint {
            requests: Requests(requests),
            context,
            shares_blocks: false,
            device_us: about(f64::from(10 + requests * context) / 8.0),
        })
    });
    let prefill = [16, 64].into_iter().flat_map(|chunk| {
        [0, 512].map(|context| found::PrefillPoint {
            chunk: Rows(chunk),
            context,
            device_us: about(f64::from(chunk * (context + 50))),
        })
    });
    let dense = |rows: u32, us| found::DensePoint { rows: Rows(rows), nodes: 30, device_us: about(us) };
    let head = |rows, us| found::HeadPoint { sequences: Rows(rows), device_us: about(us) };
    Planted {
        launch: found::LaunchCosts {
            eager_host: line(0.2, 2.25),
            eager_device: line(1.0, 1.5),
            graph_host: line(9.5, 0.125),
            graph_device: line(2.0, 1.25),
            ladder: Vec::new(),
        },
        rungs: found::Rungs { context: 128, rungs: rungs.collect(), pool: Bytes(10 << 20), ascending: None },
        executables: found::Executables {
            granule: Bytes(2 << 20),
            graph_bytes: about(1000.0),
            node_bytes: about(100.0),
            descriptors: vec![descriptor(Mode::Full, 5000.0), descriptor(Mode::Piecewise, 7000.0)],
        },
        update: found::UpdateCosts {
            update_host: line(10.0, 1.0),
            switch_host: line(18.0, 1.0),
            switches: [(40, 50.0), (10, 20.0), (20, 30.0)]
                .map(|(nodes, update_us)| found::Switch {
                    rows: [Rows(4), Rows(8)],
                    nodes,
                    update_us: about(update_us),
                    next_replay_host_us: about(20.0),
                    replay_host_us: about(12.0),
                })
                .into(),
        },
        dense: found::DenseTable {
            real_rows: Rows(1),
            points: vec![dense(1, 100.0), dense(4, 101.0), dense(8, 102.0), dense(9, 142.0)],
            padding: Some(found::Padding { row_us: about(0.25), to_rows: Rows(9) }),
        },
        head: found::HeadTable { points: vec![head(1, 20.0), head(8, 21.0)] },
        decode: found::DecodeTable {
            points: decode.collect(),
            padded_request_us: about(0.5),
            cache_writes_us: about(4.0),
        },
        prefill: found::PrefillTable { points: prefill.collect(), separate_kernels: true },
        bandwidth: found::Bandwidth { copy_gb_per_s: about(4300.0), copies: Vec::new() },
        campaigns: [("host", campaign(1.02, StoppedBy::Target)), ("device", campaign(0.99, StoppedBy::TimeLimit))]
            .map(|(name, campaign)| (name.to_owned(), campaign))
            .into(),
    }
}

impl Planted {
    fn of<'a, R>(&'a self, result: &'a R) -> Found<'a, R> {
        Found { result, campaigns: &self.campaigns }
    }

    fn findings(&self) -> Findings<'_> {
        Findings {
            memory: Bytes(140 << 30),
            attention_layers: 2,
            launch: self.of(&self.launch),
            rungs: self.of(&self.rungs),
            executables: Some(self.of(&self.executables)),
            update: Some(self.of(&self.update)),
            dense: self.of(&self.dense),
            head: self.of(&self.head),
            attention: Some((self.of(&self.decode), self.of(&self.prefill))),
            bandwidth: Some(self.of(&self.bandwidth)),
        }
    }
}

fn statement() -> Statement {
    Statement { kind: Kind::Measured, source: "a test".to_owned(), shapes_only: None }
}

fn profile(planted: &Planted, statement: &Statement) -> Profile {
    let model = ModelGeometry::preset("llama-3.1-8b").unwrap();
    Profile {
        name: "planted".to_owned(),
        identity: Identity {
            device: "a device".to_owned(),
            driver: None,
            host_cpu: None,
            engine: "vllm".to_owned(),
            engine_version: None,
            model_name: "a model".to_owned(),
            model: model.clone(),
        },
        measurement: Some(Measurement {
            date: "2026-01-31T09:30:00Z".to_owned(),
            calibrate_version: "0.1.0".to_owned(),
            options: "--device 0".to_owned(),
            took_s: 3.5,
            cuda_version: None,
            compute_capability: None,
            gemm_backend: "own kernel".to_owned(),
            tensor_parallel: 2,
            weight_layers: None,
            sm_clock_mhz: clock_range_mhz(planted.campaigns.values()),
            warnings: Vec::new(),
            not_measured: left_out(2, true),
            full: rungs(&planted.rungs, Mode::Full),
            piecewise: rungs(&planted.rungs, Mode::Piecewise),
        }),
        overlap: Overlap::Pipelined,
        machine: machine(&planted.findings(), statement).unwrap(),
        engine: declared_engine("vllm", &model).unwrap(),
    }
}

#[test]
#[expect(clippy::float_cmp, reason = "planted figures of few digits come back as they are")]
fn every_planted_cost_is_a_figure_of_the_machine() {
    let machine = machine(&planted().findings(), &statement()).unwrap();
    assert_eq!(machine.memory.figures.total, Bytes(140 << 30));
    assert_eq!(machine.launch.figures.launch_us, 2.25);
    assert_eq!((machine.replay.figures.fixed_us, machine.replay.figures.node_us), (9.5, 0.125));
    // The update, and what the replay behind it takes longer.
    let update = machine.update.figures;
    assert_eq!([update.update_us, update.node_us], [18.0, 1.0]);
    let pool = machine.pool.figures;
    // 1 MiB a row was alive, 10 MiB were taken for 8 rows: 2 MiB whatever the rung.
    assert_eq!((pool.base, pool.per_row), (Bytes(2 << 20), Bytes(1 << 20)));
    assert_eq!((pool.full_executable, pool.piecewise_executable), (Bytes(5000), Bytes(7000)));
    let capture = machine.capture.figures;
    assert_eq!((capture.full_s, capture.piecewise_s, capture.first_extra_s), (0.0075, 0.0075, 0.004));
    assert_eq!(machine.bandwidth.unwrap().figures.read_gb_per_s, 4300.0);
    let Curve::Table(dense) = &machine.dense.figures else { panic!("a table") };
    assert_eq!((dense.x(), dense.y()), (&[1.0, 4.0, 8.0, 9.0][..], &[100.0, 101.0, 102.0, 142.0][..]));
    assert_eq!(machine.head.figures.at(8.0).value, 21.0);
    let attention = machine.attention.unwrap().figures;
    assert_eq!(attention.decode.at(8.0, 128.0).value, f64::from(10 + 8 * 128) / 8.0);
    assert_eq!(attention.prefill.at(16.0, 512.0).value, f64::from(16 * 562));
    assert!(attention.separate_kernels && attention.padded_request_us == 0.5 && attention.shared_us == 4.0);
}

#[test]
fn intervals_samples_and_protocol_come_along() {
    let machine = machine(&planted().findings(), &statement()).unwrap();
    let measured = machine.launch.measured.unwrap();
    let [interval] = measured.of("launch_us") else { panic!("one") };
    assert!((interval.low - 2.205).abs() < 1e-9 && (interval.high - 2.2725).abs() < 1e-9, "{interval:?}");
    assert_eq!(interval.samples, 12);
    let protocol = measured.protocol.unwrap();
    assert_eq!((protocol.rounds, protocol.warm_up_visits, protocol.outliers), (12, 40, 4));
    assert!((protocol.drift_ratio - 1.02).abs() < 1e-12);
    assert_eq!(protocol.stopped_by, "every interval as narrow as asked for, no time for another round");
    let dense = machine.dense.measured.unwrap();
    assert_eq!(dense.of("us").len(), 4);
    let padding = dense.padding.unwrap();
    assert_eq!((padding.us_per_row, padding.samples, padding.to_rows), (0.25, 12, 9.0));
    assert!(padding.low < 0.25 && padding.high > 0.25, "{padding:?}");
    let held_out = dense.held_out.unwrap();
    // Of 4 rows alone, read on the line from 100 to 102 over 1 and 8 rows: 100.857 for 101. 8 and 9 rows show an edge.
    assert_eq!((held_out.sizes, held_out.worst_at), (1, 4.0));
    assert!((held_out.worst_percent - 0.14144).abs() < 1e-4, "{held_out:?}");
}

#[test]
fn a_profile_of_findings_reads_back_as_it_was() {
    let profile = profile(&planted(), &statement());
    let text = profile.to_toml();
    let back = Profile::from_toml(&text, "memory").unwrap();
    assert_eq!((&back, back.to_toml()), (&profile, text));
    let measured = |group: &AnyGroup<'_>| group.provenance.kind == Kind::Measured;
    for group in profile.each_group() {
        assert_eq!(measured(&group), group.name.starts_with("machine."), "{}", group.name);
    }
    let run = profile.measurement.unwrap();
    assert_eq!(run.sm_clock_mhz, Some([1881.0, 1980.0]));
    assert!(run.not_measured.iter().any(|left_out| left_out.what == "collectives"));
    let full = run.full.unwrap();
    assert_eq!((full.rows, full.capture_ms), (vec![1.0, 4.0, 8.0], vec![5.0; 3]));
}

#[test]
fn figures_at_or_below_zero_stay_usable() {
    let mut planted = planted();
    let below = Estimate { value: -0.01, low: -0.05, high: 0.02, samples: 12 };
    planted.launch.graph_host = found::LinearCost { fixed_us: below, each_us: below };
    planted.decode.padded_request_us = below;
    let profile = profile(&planted, &statement());
    let replay = &profile.machine.replay.figures;
    assert!(replay.node_us.abs() < 1e-12 && replay.fixed_us > 0.0, "{replay:?}");
    Profile::from_toml(&profile.to_toml(), "memory").unwrap();
}

#[test]
fn what_stands_in_for_the_models_kernels_is_declared() {
    let shapes = Statement { shapes_only: Some("its weights are FP8".to_owned()), ..statement() };
    let profile = profile(&planted(), &shapes);
    let declared: Vec<_> = profile
        .each_group()
        .into_iter()
        .filter(|group| group.name.starts_with("machine.") && group.provenance.kind == Kind::Declared)
        .map(|group| (group.name, group.measured.is_none()))
        .collect();
    let of_kernels =
        ["machine.dense", "machine.head", "machine.attention", "machine.eager_gap", "machine.piecewise_gap"];
    assert_eq!(declared, of_kernels.map(|group| (group, true)));
    assert!(profile.machine.dense.provenance.source.ends_with("its weights are FP8"));
    Profile::from_toml(&profile.to_toml(), "memory").unwrap();
    let double = Statement { kind: Kind::Double, ..shapes };
    let machine = machine(&planted().findings(), &double).unwrap();
    assert_eq!(machine.dense.provenance.kind, Kind::Double, "of the double, always");
}

/// Differences of whole steps, and where a mode is missing what lines over empty kernels say of as many launches.
#[test]
fn gaps_are_those_of_whole_steps_or_of_empty_kernels() {
    let gaps = |planted: &Planted| {
        let machine = machine(&planted.findings(), &statement()).unwrap();
        [machine.eager_gap, machine.piecewise_gap].map(|gap| gap.unwrap())
    };
    let both = gaps(&planted());
    for (gap, us) in both.iter().zip([40.0, 15.0]) {
        let Curve::Table(table) = &gap.figures else { panic!("{gap:?}") };
        assert_eq!((table.x(), table.y()), (&[1.0, 4.0, 8.0][..], &[us; 3][..]));
        assert_eq!(gap.measured.as_ref().unwrap().of("us").len(), 3);
    }
    let method = |gap: &Group<Curve>| gap.provenance.method.clone().unwrap();
    let costs = planted().launch;
    let line = |cost: found::LinearCost, count: f64| cost.fixed_us.value + count * cost.each_us.value;
    let mut one = planted();
    one.rungs.rungs.retain(|rung| rung.mode == Mode::Piecewise);
    for rung in &mut one.rungs.rungs {
        (rung.beyond_full_us, rung.nodes) = (None, 35);
    }
    let [eager, piecewise] = gaps(&one);
    // 44 launches with 3 of the head; 6 of the others lie between the pieces.
    let expected = line(costs.eager_device, 41.0) - line(costs.graph_device, 41.0);
    assert!((eager.figures.within(4.0) - expected.max(1e-6)).abs() < 1e-3 * expected.abs(), "{eager:?} {expected}");
    let each_us = costs.eager_device.each_us.value - costs.graph_device.each_us.value;
    let expected = 2.0 * costs.graph_device.fixed_us.value + 6.0 * each_us;
    assert!((piecewise.figures.within(4.0) - expected).abs() < 1e-3 * expected.abs(), "{piecewise:?} {expected}");
    assert!([&eager, &piecewise].iter().all(|gap| method(gap).contains("for FULL was not captured")));
    let mut other = planted();
    other.rungs.rungs.retain(|rung| rung.mode == Mode::Full && rung.rows.0 == 4);
    let [eager, piecewise] = gaps(&other);
    assert_eq!(eager.figures, Curve::Constant(40.0), "one rung is no table");
    assert!(method(&piecewise).contains("for PIECEWISE was not captured"), "{piecewise:?}");
}

#[test]
fn what_was_not_found_is_planned_or_left_out() {
    let planted = planted();
    let findings = Findings { executables: None, update: None, attention: None, bandwidth: None, ..planted.findings() };
    let machine = machine(&findings, &statement()).unwrap();
    assert_eq!(machine.update.provenance.kind, Kind::Declared);
    assert_eq!(machine.pool.provenance.kind, Kind::Declared);
    assert!(machine.attention.is_none() && machine.bandwidth.is_none());
}

#[test]
fn one_mode_alone_stands_for_both_and_states_no_interval_of_the_other() {
    let mut planted = planted();
    planted.rungs.rungs.retain(|rung| rung.mode == Mode::Full);
    planted.executables.descriptors.retain(|descriptor| descriptor.mode == Mode::Full);
    let machine = machine(&planted.findings(), &statement()).unwrap();
    assert!(machine.capture.measured.as_ref().unwrap().of("piecewise_s").is_empty());
    assert!(machine.capture.provenance.method.unwrap().ends_with("of one mode for both"));
    // One graph of all nodes, for want of a PIECEWISE rung.
    assert_eq!(machine.pool.figures.piecewise_executable, Bytes(1000 + 324 * 100));
    let stated = machine.pool.measured.as_ref().unwrap();
    assert!(stated.of("piecewise_executable_bytes").is_empty() && !stated.of("full_executable_bytes").is_empty());
    assert!(machine.pool.provenance.method.unwrap().ends_with("counts one graph and is too small"));
    assert!(rungs(&planted.rungs, Mode::Piecewise).is_none());
}

#[test]
fn full_is_one_graph_where_only_piecewise_was_captured() {
    let mut planted = planted();
    planted.rungs.rungs.retain(|rung| rung.mode == Mode::Piecewise);
    planted.executables.descriptors.retain(|descriptor| descriptor.mode == Mode::Piecewise);
    let nodes = planted.rungs.rungs.first().map_or(0, |rung| rung.nodes);
    let machine = machine(&planted.findings(), &statement()).unwrap();
    assert_eq!(machine.pool.figures.full_executable, Bytes(1000 + u64::from(nodes) * 100));
    assert!(machine.pool.measured.as_ref().unwrap().of("full_executable_bytes").is_empty());
}

#[test]
fn tables_that_are_none_are_refused_with_the_reason() {
    let refused = |spoil: fn(&mut Planted)| {
        let mut planted = planted();
        spoil(&mut planted);
        machine(&planted.findings(), &statement()).unwrap_err().to_string()
    };
    assert_eq!(
        refused(|planted| planted.dense.points.truncate(1)),
        "dense work over rows: measured at [1.0]: expected two or more different places, rising"
    );
    assert_eq!(
        refused(|planted| planted.decode.points.truncate(3)),
        "decode attention over requests and context: nothing at (8, 1024): expected every pair of the knots"
    );
    assert_eq!(
        refused(|planted| planted.rungs.rungs.clear()),
        "memory of rungs: no rung was captured: expected one at least"
    );
}

#[test]
fn the_engine_half_is_planned_for_the_geometry_and_says_so() {
    let llama = ModelGeometry::preset("llama-3.1-8b").unwrap();
    let engine = declared_engine("vllm", &llama).unwrap();
    // As in the built-in profile of the same geometry.
    let builtin = Profile::builtin("h200-llama-3.1-8b").unwrap().engine;
    assert_eq!((engine.ops.figures, engine.activation.figures), (builtin.ops.figures, builtin.activation.figures));
    assert_eq!(engine.dispatch.figures, builtin.dispatch.figures);
    assert!(engine.dispatch.figures.eager_us_range.is_some() && engine.attention.is_none());
    let source = &engine.dispatch.provenance.source;
    assert!(!source.contains("calibration run") && source.ends_with("fit it to the engine's own logs"), "{source}");
    let small = declared_engine("sglang", &ModelGeometry::preset("llama-3.2-1b").unwrap()).unwrap();
    assert_eq!((small.ops.figures.eager, small.ops.figures.compiled), (16 * 11 + 4, 16 * 10 + 4));
    assert_eq!(small.activation.figures.per_row, Bytes((3 * 8192 + 2 * 2048) * 2));
    assert!(small.startup.provenance.source.contains("most of them of vLLM"));
}

#[test]
fn what_kernels_achieve_is_said_and_slow_or_foreign_ones_are_warned_of() {
    let planted = planted();
    let model = ModelGeometry::preset("llama-3.1-8b").unwrap();
    let achieved = Achieved::of(&planted.dense, &planted.bandwidth, &model).unwrap();
    // 6,979,321,856 weights of the layers, two bytes each, and a multiply-add a row.
    let weights = f64::from(model.layers) * 218_103_808.0;
    assert!((achieved.bandwidth_share * 4300.0 * 1e3 * 100.0 / (2.0 * weights) - 1.0).abs() < 0.001, "{achieved:?}");
    assert!((achieved.tflop_per_s * 142.0 * 1e6 / (2.0 * weights * 9.0) - 1.0).abs() < 0.001, "{achieved:?}");
    let codes = |achieved: &Achieved, is_own| {
        achieved.warnings(is_own).into_iter().map(|warning| warning.code).collect::<Vec<_>>()
    };
    assert_eq!(codes(&achieved, false), [""; 0]);
    assert_eq!(codes(&achieved, true), ["own_gemm"]);
    let slow = Achieved { bandwidth_share: 0.49, ..achieved };
    assert_eq!(codes(&slow, true), ["own_gemm", "slow_weights"]);
    assert!(slow.warnings(false)[0].what.contains("49 % of the copy bandwidth"));
    assert_eq!(codes(&Achieved { bytes: 1e8, ..slow }, false), [""; 0], "a cache may hold so little");
}

#[test]
fn figures_that_no_card_has_are_warned_of_and_kept() {
    let mut planted = planted();
    assert_eq!(implausible(&planted.findings()), []);
    planted.launch.eager_host = line(0.2, 2_250.0);
    planted.bandwidth.copy_gb_per_s = about(4.3);
    let warnings = implausible(&planted.findings());
    let what: Vec<&str> = warnings.iter().map(|warning| warning.what.as_str()).collect();
    assert_eq!(
        what,
        [
            "a launch, host: 2250.000 us, where cards take 0.3 to 20",
            "copy bandwidth: 4.300 GB/s, where cards take 50 to 20000"
        ]
    );
    machine(&planted.findings(), &statement()).expect("a warning, never a failure");
}
