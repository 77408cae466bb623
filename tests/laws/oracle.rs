//! A second, plain computation of the metrics, from every single request and step.

use std::collections::BTreeMap;
use std::io::Read;

use reports::{
    CandidateHistory, CandidateReport, Figure, HistoryReport, RequestRecord, RunReport, StepLine, StepRecord, Timeline,
    TimelineBin,
};
use sim::metrics::Spread;
use sim::observe::Event;
use sim::scenario::WarmUp;
use sim::time::SimTime;

use crate::house::{Law, Outcome, Watched, for_all, require};
use crate::same_bytes::run_binary;
use crate::sums::close;

/// Mean, median and 99th percentile in milliseconds, as numpy computes them from a sorted array.
fn plain_spread(mut values_ms: Vec<f64>) -> [Option<f64>; 3] {
    values_ms.sort_by(f64::total_cmp);
    let last = values_ms.len().checked_sub(1);
    let percentile = |share: f64| {
        let rank = share * last? as f64;
        let (low, high) = (values_ms[rank.floor() as usize], values_ms[rank.ceil() as usize]);
        Some(low + (high - low) * (rank - rank.floor()))
    };
    let mean = last.map(|_| values_ms.iter().sum::<f64>() / values_ms.len() as f64);
    [mean, percentile(0.5), percentile(0.99)]
}

/// The delivery times and tokens of every request, in order of arrival.
#[derive(Default)]
struct Deliveries {
    arrivals: Vec<SimTime>,
    times: Vec<Vec<SimTime>>,
    tokens: Vec<u32>,
}

impl Law for Deliveries {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::RequestArrived { at, .. } | Event::RequestRefused { at, .. } => {
                self.arrivals.push(*at);
                self.times.push(Vec::new());
                self.tokens.push(0);
            }
            Event::StepApplied { at, outcome, .. } => {
                for delivered in &outcome.delivered {
                    self.times[delivered.id.0 as usize].push(*at);
                    self.tokens[delivered.id.0 as usize] += delivered.tokens;
                }
            }
            Event::RequestPreempted { .. } | Event::DummyStepRun { .. } | Event::StepScheduled(_) => {}
        }
        Ok(())
    }
}

impl Deliveries {
    fn check(&self, outcome: &Outcome, warm_up: WarmUp) -> Result<(), String> {
        let cut = match warm_up {
            WarmUp::None => Some(SimTime::ZERO),
            WarmUp::Time(span) => Some(SimTime::ZERO + span),
            WarmUp::Requests(count) => self.arrivals.get(count as usize).copied(),
        };
        let first = match warm_up {
            WarmUp::Requests(count) => count as usize,
            WarmUp::None | WarmUp::Time(_) => {
                self.arrivals.iter().position(|&arrival| cut.is_some_and(|cut| arrival >= cut)).unwrap_or(usize::MAX)
            }
        };
        let kept: Vec<(SimTime, &[SimTime], u32)> = (self.arrivals.iter().zip(&self.times).zip(&self.tokens))
            .skip(first)
            .filter(|((_, times), _)| !times.is_empty())
            .map(|((&arrival, times), &tokens)| (arrival, times.as_slice(), tokens))
            .collect();
        let ms = |to: SimTime, from: SimTime| to.since(from).as_ms();
        let last = |times: &[SimTime]| times[times.len() - 1];
        let latency = &outcome.summary.latency;
        let of =
            |spread: Option<Spread>| [spread.map(|s| s.mean_ms), spread.map(|s| s.median_ms), spread.map(|s| s.p99_ms)];
        let tpot = |times: &[SimTime], tokens: u32| {
            // The definition rounds to a nanosecond.
            (last(times).since(times[0]).0 as f64 / f64::from(tokens - 1)).round() / 1e6
        };
        let several = || kept.iter().filter(|(.., tokens)| *tokens > 1);
        let gaps = kept.iter().flat_map(|(_, times, _)| times.windows(2)).map(|pair| ms(pair[1], pair[0])).collect();
        let plain = [
            ("ttft", of(latency.ttft), kept.iter().map(|(arrival, times, _)| ms(times[0], *arrival)).collect()),
            ("tpot", of(latency.tpot), several().map(|(_, times, tokens)| tpot(times, *tokens)).collect()),
            ("itl", of(latency.itl), gaps),
            ("e2el", of(latency.e2el), kept.iter().map(|(arrival, times, _)| ms(last(times), *arrival)).collect()),
        ];
        for (name, found, values) in plain {
            for (found, expected) in found.into_iter().zip(plain_spread(values)) {
                close(found, expected).map_err(|fault| format!("{name}: {fault}"))?;
            }
        }
        let tokens: u64 = kept.iter().map(|(.., tokens)| u64::from(*tokens)).sum();
        require(latency.output_tokens == tokens, || format!("{} of {tokens} tokens", latency.output_tokens))?;
        let end = kept.iter().map(|(_, times, _)| last(times)).max();
        let span_s = end.zip(cut).map_or(0.0, |(end, cut)| end.since(cut.min(end)).as_s());
        close(Some(latency.duration_s), Some(span_s))
    }
}

/// All four latencies, their percentiles, tokens and duration agree with plain lists of delivery times.
#[test]
fn latencies_agree_with_plain_lists() {
    for_all("oracle, latencies", 128, &["requests", "steps before a cut"], |case, seen| {
        let house = case.open()?;
        for candidate in 0..house.setups.len() {
            let mut deliveries = Watched(Deliveries::default());
            let outcome = house.serve(candidate, &mut deliveries)?;
            deliveries.0.check(&outcome, house.scenario.warm_up)?;
            seen.add_run(&outcome);
            seen.add("steps before a cut", outcome.summary.steps_before_cut.steps);
        }
        Ok(())
    });
}

/// What the files of one `sim run --out` say about one candidate.
struct Files {
    requests: Vec<RequestRecord>,
    steps: Vec<StepRecord>,
    from_s: f64,
    first_id: u64,
}

impl Files {
    fn check_requests(&self, report: &CandidateReport, run: &RunReport) -> Result<(), String> {
        let kept = || self.requests.iter().filter(|row| row.id >= self.first_id);
        let finished: Vec<&RequestRecord> = kept().filter(|row| row.outcome == "finished").collect();
        let count = finished.len() as f64;
        let column = |pick: fn(&RequestRecord) -> Option<f64>| finished.iter().filter_map(|row| pick(row)).collect();
        let ttft = [report.mean_ttft_ms, report.median_ttft_ms, report.p99_ttft_ms];
        let tpot = [report.mean_tpot_ms, report.median_tpot_ms, report.p99_tpot_ms];
        let e2el = [report.mean_e2el_ms, report.median_e2el_ms, report.p99_e2el_ms];
        all_close("ttft", ttft, plain_spread(column(|row| row.ttft_ms)))?;
        all_close("tpot", tpot, plain_spread(column(|row| row.tpot_ms)))?;
        all_close("e2el", e2el, plain_spread(column(|row| row.e2el_ms)))?;
        if self.from_s == 0.0 {
            let preemptions: u32 = self.requests.iter().map(|row| row.preemptions).sum();
            is("preemptions", report.preemptions, Some(preemptions.into()))?;
        }
        let gap_ms: f64 = finished.iter().filter_map(|row| Some(row.e2el_ms? - row.ttft_ms?)).sum();
        let gaps: u32 = finished.iter().map(|row| row.output_tokens - 1).sum();
        // With drafts a delivery holds several tokens, and a row of the file does not say how many deliveries there were.
        if report.spec_decode.num_drafts == Figure::Undefined {
            is("mean itl", report.mean_itl_ms, (gaps > 0).then(|| gap_ms / f64::from(gaps)))?;
        }
        let end_s = finished.iter().filter_map(|row| Some(row.arrival_s + row.e2el_ms? / 1e3)).fold(0.0, f64::max);
        let duration_s = (end_s - self.from_s).max(0.0);
        is("duration", report.duration_s, Some(duration_s))?;
        let rate = |amount: f64| (duration_s > 0.0).then(|| amount / duration_s);
        let tokens: u32 = finished.iter().map(|row| row.output_tokens).sum();
        is("completed", report.completed, Some(count))?;
        is("throughput", report.request_throughput, rate(count))?;
        is("output", report.output_throughput, rate(f64::from(tokens)))?;
        let Some(slo) = run.scenario.slo else { return is("goodput", report.request_goodput, None) };
        let within = |value: Option<f64>, limit: Option<f64>| limit.is_none_or(|limit| value.unwrap_or(0.0) <= limit);
        let is_good = |row: &RequestRecord| within(row.ttft_ms, slo.ttft_ms) && within(row.tpot_ms, slo.tpot_ms);
        let good = finished.iter().filter(|row| is_good(row)).count() as f64;
        require(self.requests.iter().all(|row| row.good == Some(row.outcome == "finished" && is_good(row))), || {
            "a row of requests.csv judges its request differently".to_owned()
        })?;
        is("goodput", report.request_goodput, rate(good))?;
        let in_time = finished.iter().filter(|row| within(row.ttft_ms, slo.ttft_ms)).count() as f64;
        is("attainment", report.slo_attainment.ttft, (count > 0.0).then(|| in_time / count))
    }

    fn check_steps(&self, report: &CandidateReport) -> Result<(), String> {
        let from_ns = (self.from_s * 1e9).round() as u64;
        let kept: Vec<&StepRecord> = self.steps.iter().filter(|step| step.start_ns >= from_ns).collect();
        let count = kept.len() as f64;
        let mean = |total: f64| (count > 0.0).then(|| total / count);
        let sum = |pick: fn(&StepRecord) -> u64| kept.iter().map(|step| pick(step)).sum::<u64>() as f64;
        is("steps", report.steps, Some(count))?;
        is("rows", report.mean_batch_rows, mean(sum(|step| step.real_rows.into())))?;
        let durations = std::iter::once(0).chain(self.steps.iter().map(|step| step.end_ns)).zip(&self.steps);
        let duration_ns: u64 = durations
            .filter(|(_, step)| step.start_ns >= from_ns)
            .map(|(before, step)| step.end_ns - before.max(step.start_ns))
            .sum();
        is("step time", report.mean_step_ms, mean(duration_ns as f64 / 1e6))?;
        if self.from_s == 0.0 && report.spec_decode.num_drafts != Figure::Undefined {
            is("accepted", report.spec_decode.accepted_tokens, Some(sum(|step| step.accepted.into())))?;
        }
        is("drafting", report.cost.drafting_ms, mean(sum(|step| step.cost.drafting_ns) / 1e6))?;
        is("gap", report.cost.gap_ms, mean(sum(|step| step.cost.gap_ns) / 1e6))?;
        is("dense", report.cost.dense_ms, mean(sum(|step| step.cost.dense_ns) / 1e6))?;
        is("head", report.cost.head_ms, mean(sum(|step| step.cost.head_ns) / 1e6))?;
        is("attention", report.cost.attention_ms, mean(sum(|step| step.cost.attention_ns) / 1e6))?;
        is("host", report.host_ms_per_step, mean(sum(|step| step.cost.host_ns) / 1e6))?;
        is("launch", report.cost.launch_ms, mean(sum(|step| step.cost.launch_ns) / 1e6))?;
        let graph = |pick: fn(&StepRecord) -> u32| {
            kept.iter().filter(|step| step.descriptor.is_some()).map(|step| f64::from(pick(step))).sum::<f64>()
        };
        let (graphs, real, padded) = (graph(|_| 1), graph(|step| step.real_rows), graph(|step| step.padded_rows));
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        is("exact", report.exact_hit_rate, ratio(graph(|step| u32::from(step.padded_rows == 0)), graphs))?;
        is("padding", report.padding_ratio, ratio(padded, real))?;
        is("waste", report.waste_share, ratio(padded, real + padded))?;
        is("fallbacks", report.fallback_rate, ratio(count - graphs, count))?;
        let saved_ns = kept.iter().filter_map(|step| step.saved_ns).sum::<i64>();
        is("saved", report.saved_ms, Some(saved_ns as f64 / 1e6))?;
        require(kept.iter().all(|step| step.saved_ns.is_some() == step.descriptor.is_some()), || {
            "a step without a graph saved something, or one with a graph nothing is known of".to_owned()
        })?;
        if self.from_s == 0.0 {
            is("preemptions", report.preemptions, Some(sum(|step| step.preempted.into())))?;
        }
        is("relaxed", report.relaxed_steps, Some(sum(|step| step.relaxed.into())))?;
        is("outside", report.steps_outside_range, Some(sum(|step| step.outside_range.into())))?;
        let derived = |step: &StepRecord| u64::from(step.derived && !step.outside_range);
        is("derived", report.steps_from_derived, Some(sum(derived)))?;
        let usage = kept.iter().map(|step| step.kv_used_blocks as f64 / step.kv_total_blocks as f64);
        is(
            "peak KV",
            report.peak_kv_usage,
            usage.fold(None, |most: Option<f64>, share| Some(most.unwrap_or(0.0).max(share))),
        )
    }
}

/// What charts draw, from the steps one by one.
impl Files {
    fn check_history(&self, history: &CandidateHistory) -> Result<(), String> {
        let from_ns = (self.from_s * 1e9).round() as u64;
        let mut batches: BTreeMap<Batch, [i64; 3]> = BTreeMap::new();
        for step in self.steps.iter().filter(|step| step.start_ns >= from_ns) {
            let rung = step.descriptor.as_ref().map(|key| key.tokens);
            let fallback = step.fallback.as_ref().map(ToString::to_string);
            let tally = batches.entry((step.real_rows, step.mode.to_string(), rung, fallback)).or_default();
            let padded_rows = i64::from(step.padded_rows);
            let one = [1, padded_rows, step.saved_ns.unwrap_or_default()];
            tally.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
        }
        let mut found: BTreeMap<Batch, [i64; 3]> = BTreeMap::new();
        for batch in &history.batches {
            let fallback = batch.fallback.as_ref().map(ToString::to_string);
            let tally = found.entry((batch.rows, batch.mode.to_string(), batch.rung, fallback)).or_default();
            let one = [batch.steps.cast_signed(), batch.padded_rows.cast_signed(), batch.saved_ns];
            tally.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
        }
        require(found == batches, || format!("history.json has {found:?}, the steps come to {batches:?}"))?;
        self.check_timeline(&history.timeline)
    }

    fn check_timeline(&self, timeline: &Timeline) -> Result<(), String> {
        let bin_ns = (timeline.bin_s * 1e9).round() as u64;
        for (index, bin) in (0_u64..).zip(&timeline.bins) {
            let inside = || self.steps.iter().filter(|step| step.start_ns / bin_ns == index);
            let count = inside().count() as u64;
            let rows: u64 = inside().map(|step| u64::from(step.real_rows)).sum();
            let plain = TimelineBin {
                start_s: index as f64 * timeline.bin_s,
                steps: count,
                mean_rows: (count > 0).then(|| rows as f64 / count as f64),
                max_rows: inside().map(|step| step.real_rows).max().unwrap_or_default(),
                no_graph: inside().filter(|step| step.descriptor.is_none()).count() as u64,
                above_ceiling: inside().filter(|step| step.fallback.as_deref() == Some("above_ceiling")).count() as u64,
                max_running: inside().map(|step| step.running).max().unwrap_or_default(),
                max_waiting: inside().map(|step| step.waiting).max().unwrap_or_default(),
                max_kv_share: inside()
                    .map(|step| step.kv_used_blocks as f64 / step.kv_total_blocks as f64)
                    .fold(0.0, f64::max),
                preempted: bin.preempted,
            };
            require(*bin == plain, || format!("bin {index} is {bin:?}, its steps come to {plain:?}"))?;
        }
        let [steps, preempted] = [|bin: &TimelineBin| bin.steps, |bin: &TimelineBin| bin.preempted]
            .map(|pick| timeline.bins.iter().map(pick).sum::<u64>());
        let logged: u64 = self.steps.iter().map(|step| u64::from(step.preempted)).sum();
        require(steps == self.steps.len() as u64, || format!("{steps} steps in bins, {} logged", self.steps.len()))?;
        require(preempted == logged, || format!("{preempted} preempted in bins, {logged} logged"))
    }
}

/// Real rows, mode, rung and fallback cause.
type Batch = (u32, String, Option<u32>, Option<String>);

fn is(what: &str, found: Figure, expected: Option<f64>) -> Result<(), String> {
    close(found.mean(), expected).map_err(|fault| format!("{what}: {fault}"))
}

fn all_close(what: &str, found: [Figure; 3], expected: [Option<f64>; 3]) -> Result<(), String> {
    found.into_iter().zip(expected).try_for_each(|(found, expected)| is(what, found, expected))
}

/// The files that a run writes, by candidate.
fn read_files(left: &BTreeMap<String, Vec<u8>>, run: &RunReport) -> Result<BTreeMap<String, Files>, String> {
    let mut files: BTreeMap<String, Files> = BTreeMap::new();
    for candidate in &run.candidates {
        let cut = &candidate.cold_start;
        let (from_s, first) = cut.until_s.mean().zip(cut.requests.mean()).ok_or("the cut is not stated")?;
        let none = Files { requests: Vec::new(), steps: Vec::new(), from_s, first_id: first as u64 };
        files.insert(candidate.name.clone(), none);
    }
    for row in csv::Reader::from_reader(left["requests.csv"].as_slice().by_ref()).deserialize() {
        let row: RequestRecord = row.map_err(|error| error.to_string())?;
        files.get_mut(&row.candidate).ok_or("an unknown candidate")?.requests.push(row);
    }
    let mut section = None;
    for line in String::from_utf8_lossy(&left["steps.jsonl"]).lines() {
        match serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))? {
            StepLine::Header(header) => section = Some(header.candidate),
            StepLine::Step(step) => {
                let candidate = section.as_ref().and_then(|name| files.get_mut(name)).ok_or("a step of nobody")?;
                candidate.steps.push(step);
            }
        }
    }
    Ok(files)
}

/// The report of the binary agrees with what its own requests.csv and steps.jsonl come to.
#[test]
fn the_report_agrees_with_its_own_files() {
    for_all("oracle, files", 24, &["rows", "step lines"], |case, seen| {
        let folder = case.folder_with_profile()?;
        let left = run_binary(folder.path(), &[], "2")?;
        let run: RunReport = serde_json::from_slice(&left["run.json"]).map_err(|error| error.to_string())?;
        let files = read_files(&left, &run)?;
        let history: HistoryReport =
            serde_json::from_slice(&left["history.json"]).map_err(|error| error.to_string())?;
        require(history.candidates.len() == run.candidates.len(), || "a candidate has no history".to_owned())?;
        for (report, history) in run.candidates.iter().zip(&history.candidates) {
            let files = &files[&report.name];
            let stated = |fault: String| format!("candidate {}: {fault}", report.name);
            files.check_requests(report, &run).map_err(stated)?;
            files.check_steps(report).map_err(stated)?;
            files.check_history(history).map_err(stated)?;
            require(run.scenario.requests == Some(files.requests.len() as u64), || "rows are missing".to_owned())?;
            seen.add("rows", files.requests.len() as u64);
            seen.add("step lines", files.steps.len() as u64);
        }
        Ok(())
    });
}
