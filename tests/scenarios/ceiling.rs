//! The second steady state of `scenarios/sglang_ceiling.toml` over twenty seeds: it must come out of the event loop, with
//! one set of costs for both candidates and both rates.

use std::fs;

use serde_json::Value;

use super::binary::json;
use super::files::folder;

const SEEDS: std::ops::RangeInclusive<u32> = 1..=20;

/// A batch between the two states: above the ceiling of 32 and below the 82 of Little's law without graphs.
const JUMPED: f64 = 48.0;

/// What one candidate did with every seed.
#[derive(Default)]
struct Runs {
    running_at_end: Vec<f64>,
    median_batch: Vec<f64>,
    largest_batch: Vec<f64>,
    itl_ms: Vec<f64>,
    warned: usize,
}

impl Runs {
    fn jumped(&self) -> usize {
        self.running_at_end.iter().filter(|&&running| running > JUMPED).count()
    }

    fn line(&self, rate: u32, ceiling: u32) {
        println!(
            "rate {rate}, ceiling {ceiling:>3}: {:>2} of {} runs end without graphs; running at the last arrival {}; \
             decode batch, median {:.0}, largest {:.0}; between tokens {:.2} ms",
            self.jumped(),
            self.running_at_end.len(),
            mean(&self.running_at_end).round(),
            mean(&self.median_batch),
            self.largest_batch.iter().copied().fold(0.0, f64::max),
            mean(&self.itl_ms),
        );
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Both candidates at a rate, ceilings 32 and 128.
fn runs(rate: u32) -> [Runs; 2] {
    let source = fs::read_to_string(folder().join("sglang_ceiling.toml")).expect("the scenario");
    let (from, to) = ("rate = 31\n", format!("rate = {rate}\n"));
    let profile = folder().join("profiles/l40-qwen2.5-0.5b.toml");
    assert!(source.contains(from) && source.contains("\"profiles/l40-qwen2.5-0.5b.toml\""), "the scenario changed");
    let source = source
        .replace(from, &to)
        .replace("\"profiles/l40-qwen2.5-0.5b.toml\"", &format!("{:?}", profile.display().to_string()));
    let temporary = tempfile::tempdir().expect("a folder");
    let path = temporary.path().join("rate.toml");
    fs::write(&path, source).expect("written");
    let mut both = [Runs::default(), Runs::default()];
    for seed in SEEDS {
        let answer = json(["run".as_ref(), path.as_os_str(), "--seed".as_ref(), seed.to_string().as_ref()]);
        for (runs, candidate) in both.iter_mut().zip(answer["candidates"].as_array().expect("a list")) {
            let figure = |name: &str| candidate[name].as_f64().unwrap_or(f64::NAN);
            runs.running_at_end.push(figure("running_at_last_sent"));
            runs.median_batch.push(figure("median_decode_rows"));
            runs.largest_batch.push(figure("max_decode_rows"));
            runs.itl_ms.push(figure("mean_itl_ms"));
            runs.warned += usize::from(warns(&answer, candidate));
        }
    }
    for (runs, ceiling) in both.iter().zip([32, 128]) {
        runs.line(rate, ceiling);
    }
    both
}

fn warns(answer: &Value, candidate: &Value) -> bool {
    let warnings = answer["warnings"].as_array().expect("a list");
    warnings.iter().any(|warning| warning["code"] == "second_steady_state" && warning["candidate"] == candidate["name"])
}

/// Report R05: 19 of 20 runs jump to a batch of 77 with the default ceiling, none of 9 with 128, none of 6 at rate 20.
#[test]
fn a_burst_makes_the_jump_at_rate_31_with_ceiling_32_alone() {
    let [low, high] = runs(31);
    assert!(low.jumped() >= 15, "{} of 20 runs end without graphs", low.jumped());
    let settled: Vec<f64> = low.running_at_end.iter().copied().filter(|&running| running > JUMPED).collect();
    assert!((77.0..=82.0).contains(&mean(&settled)), "{settled:?}");
    assert_eq!((high.jumped(), low.warned, high.warned), (0, 20, 0));
    assert!((19.0..=21.0).contains(&mean(&high.median_batch)), "{:?}", high.median_batch);
    for runs in runs(20) {
        assert_eq!(runs.jumped(), 0);
        assert!((10.0..=12.0).contains(&mean(&runs.median_batch)), "{:?}", runs.median_batch);
    }
}
