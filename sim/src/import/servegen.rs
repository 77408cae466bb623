//! ServeGen: a client as windows of arrivals and, every six hours, distributions of lengths; requests are drawn from both.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Gamma, Weibull};
use serde::Deserialize;

use crate::limits::REQUEST_TOKENS_MAX;
use crate::traffic::Streams;

/// Arrivals of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// When it begins, s.
    pub start_s: f64,
    /// Requests per second; zero for none.
    pub rate: f64,
    /// The law of the gaps, scaled so that their mean is `1 / rate`.
    pub gaps: Gaps,
}

/// A law of gaps, by its shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gaps {
    /// Gamma.
    Gamma(f64),
    /// Weibull.
    Weibull(f64),
    /// Exponential: the file names no law.
    Exponential,
}

/// Shapes beyond these make gaps that are all zero, or all alike.
const SHAPE: std::ops::RangeInclusive<f64> = 0.01..=1e6;

/// Most requests per second of one client.
const RATE_MAX: f64 = 1e6;

impl Window {
    /// Reads a row: start, rate, coefficient of variation, law, shape, scale.
    ///
    /// # Errors
    /// What was expected.
    pub fn read(row: &str) -> Result<Self, &'static str> {
        let fields: Vec<&str> = row.trim().split(',').map(str::trim).collect();
        let [start, rate, _, law, shape, _] = fields.as_slice() else {
            return Err("expected six fields: start, rate, CV, law, shape, scale");
        };
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let start_s = number(start).filter(|start| *start < 1e9).ok_or("expected the start of a window in seconds")?;
        let rate = number(rate).filter(|rate| *rate <= RATE_MAX).ok_or("expected a rate in requests per second")?;
        let shape = number(shape).ok_or("expected the shape of the law")?;
        let gaps = match *law {
            "Gamma" if SHAPE.contains(&shape) => Gaps::Gamma(shape),
            "Weibull" if SHAPE.contains(&shape) => Gaps::Weibull(shape),
            "" => Gaps::Exponential,
            "Gamma" | "Weibull" => return Err("expected a shape from 0.01 to 1000000"),
            _ => return Err("expected Gamma, Weibull or nothing as the law"),
        };
        Ok(Self { start_s, rate, gaps })
    }
}

/// Lengths with how often each occurs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lengths {
    tokens: Vec<u32>,
    /// Shares, each with all before it added.
    up_to: Vec<f64>,
}

impl Lengths {
    /// Reads `{103: 0.25, 104: 0.75}`.
    fn read(text: &str) -> Option<Self> {
        let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
        let mut lengths = Self::default();
        let mut sum = 0.0;
        for pair in inside.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (tokens, share) = pair.split_once(':')?;
            let tokens: f64 = tokens.trim().trim_matches(['\'', '"']).parse().ok()?;
            let share: f64 = share.trim().parse().ok()?;
            if !(0.0..=f64::from(REQUEST_TOKENS_MAX)).contains(&tokens) || !share.is_finite() || share < 0.0 {
                return None;
            }
            sum += share;
            lengths.tokens.push((tokens.round() as u32).max(1));
            lengths.up_to.push(sum);
        }
        Some(lengths)
    }

    fn is_empty(&self) -> bool {
        self.up_to.last().is_none_or(|sum| *sum <= 0.0)
    }

    fn draw(&self, random: &mut Xoshiro256PlusPlus) -> u32 {
        let all = self.up_to.last().copied().unwrap_or_default();
        let at = random.random::<f64>() * all;
        let place = self.up_to.partition_point(|sum| *sum <= at).min(self.tokens.len() - 1);
        self.tokens[place]
    }

    fn longest(&self) -> u32 {
        self.tokens.iter().copied().max().unwrap_or_default()
    }
}

/// Distributions of lengths by the start of their window, s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dataset(BTreeMap<u64, (Lengths, Lengths)>);

#[derive(Deserialize)]
struct WindowFile {
    input_tokens: String,
    output_tokens: String,
}

impl Dataset {
    /// Reads a dataset file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let windows: BTreeMap<String, WindowFile> =
            serde_json::from_str(text).map_err(|error| format!("it is no dataset of ServeGen: {error}"))?;
        let mut dataset = BTreeMap::new();
        for (start, window) in windows {
            let start_s: u64 = start.parse().map_err(|_| format!("`{start}` is no start of a window in seconds"))?;
            let read = |text: &str| {
                let head: String = text.chars().take(40).collect();
                Lengths::read(text)
                    .ok_or_else(|| format!("the lengths of window {start}, `{head}`, are no shares of lengths"))
            };
            let (prompts, outputs) = (read(&window.input_tokens)?, read(&window.output_tokens)?);
            if !prompts.is_empty() && !outputs.is_empty() {
                dataset.insert(start_s, (prompts, outputs));
            }
        }
        if dataset.is_empty() { Err("none of its windows has lengths".to_owned()) } else { Ok(Self(dataset)) }
    }

    /// The distributions at a time: those of its window, else of the last one before it that has any, else of the first.
    fn at(&self, second: f64) -> &(Lengths, Lengths) {
        let before = self.0.range(..=second as u64).next_back();
        before.or_else(|| self.0.iter().next()).expect("never empty").1
    }

    /// The most tokens of a request, prompt and output.
    #[must_use]
    pub fn longest_request(&self) -> u32 {
        let sum = |(prompts, outputs): &(Lengths, Lengths)| prompts.longest().saturating_add(outputs.longest());
        self.0.values().map(sum).max().unwrap_or_default()
    }
}

/// Draws the requests of a client: arrival in s from the first window, prompt and output in tokens, in order of time.
///
/// # Errors
/// Whatever `each` gives back.
pub fn draw<E>(
    windows: &[Window],
    dataset: &Dataset,
    seed: u64,
    mut each: impl FnMut(f64, u32, u32) -> Result<(), E>,
) -> Result<(), E> {
    let streams = Streams::new(seed);
    let mut gaps = streams.stream("import.servegen.arrivals");
    let mut lengths = streams.stream("import.servegen.lengths");
    let origin = windows.first().map_or(0.0, |window| window.start_s);
    for (window, next) in windows.iter().zip(ends(windows)) {
        if window.rate <= 0.0 {
            continue;
        }
        let Some(law) = Law::of(window) else { continue };
        let mut now = window.start_s;
        loop {
            now += law.draw(&mut gaps);
            if now >= next {
                break;
            }
            let (prompts, outputs) = dataset.at(now);
            let (prompt, output) = (prompts.draw(&mut lengths), outputs.draw(&mut lengths));
            each(now - origin, prompt, output)?;
        }
    }
    Ok(())
}

/// When each window ends: where the next begins; the last is as long as the one before it.
fn ends(windows: &[Window]) -> impl Iterator<Item = f64> {
    let starts: Vec<f64> = windows.iter().map(|window| window.start_s).collect();
    let last = match starts.as_slice() {
        [.., before, last] => last + (last - before),
        [only] => only + WINDOW_S,
        [] => 0.0,
    };
    starts.into_iter().skip(1).chain([last])
}

/// Seconds of a window in ServeGen's files.
const WINDOW_S: f64 = 600.0;

enum Law {
    Gamma(Gamma<f64>),
    Weibull(Weibull<f64>),
}

impl Law {
    /// The law with a mean gap of `1 / rate`.
    fn of(window: &Window) -> Option<Self> {
        let mean = 1.0 / window.rate;
        match window.gaps {
            Gaps::Gamma(shape) => Gamma::new(shape, mean / shape).ok().map(Self::Gamma),
            Gaps::Weibull(shape) => Weibull::new(mean / gamma(1.0 + 1.0 / shape), shape).ok().map(Self::Weibull),
            Gaps::Exponential => Gamma::new(1.0, mean).ok().map(Self::Gamma),
        }
    }

    fn draw(&self, random: &mut Xoshiro256PlusPlus) -> f64 {
        match self {
            Self::Gamma(law) => law.sample(random),
            Self::Weibull(law) => law.sample(random),
        }
    }
}

/// The gamma function for arguments from 1 on: Stirling's series for its logarithm, after shifting the argument beyond 10
/// (Abramowitz and Stegun, 6.1.41).
fn gamma(x: f64) -> f64 {
    let (mut shifted, mut product) = (x, 1.0);
    while shifted < 10.0 {
        product *= shifted;
        shifted += 1.0;
    }
    let inverse = 1.0 / shifted;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    let logarithm = (shifted - 0.5) * shifted.ln() - shifted + 0.5 * (2.0 * std::f64::consts::PI).ln() + series;
    logarithm.exp() / product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_is_the_factorial() {
        for (x, expected) in [(1.0, 1.0), (2.0, 1.0), (5.0, 24.0), (11.0, 3_628_800.0), (1.5, 0.886_226_925_452_758)] {
            assert!((gamma(x) / expected - 1.0).abs() < 1e-9, "{x}: {}", gamma(x));
        }
    }

    #[test]
    fn rows_are_windows() {
        let row = Window::read("600,0.5,3.2,Weibull,0.4,0.39\r\n").expect("a window");
        assert_eq!(row, Window { start_s: 600.0, rate: 0.5, gaps: Gaps::Weibull(0.4) });
        assert_eq!(Window::read("0,0,0,,0,0").expect("no traffic").gaps, Gaps::Exponential);
        for wrong in [
            "",
            "0,1,1,Gamma,1",
            "a,1,1,Gamma,1,1",
            "0,-1,1,Gamma,1,1",
            "0,1,1,Cauchy,1,1",
            "0,1,1,Gamma,0,1",
            "0,inf,1,Gamma,1,1",
        ] {
            assert!(Window::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn requests_come_at_the_rate_of_their_window_with_lengths_of_theirs() {
        let dataset = Dataset::read(
            r#"{"0": {"input_tokens": "{}", "output_tokens": "{}"},
                "600": {"input_tokens": "{100: 0.5, 300: 0.5}", "output_tokens": "{7: 1.0}", "reason_ratio": "{}"}}"#,
        )
        .expect("a dataset");
        assert_eq!(dataset.longest_request(), 307);
        for (law, tolerance) in [("Gamma,0.5", 0.06), ("Weibull,0.6", 0.06), (",0", 0.04)] {
            let rows = [format!("0,0,0,{law},0"), format!("600,10,1,{law},0"), format!("1200,0,0,{law},0")];
            let windows: Vec<Window> = rows.iter().map(|row| Window::read(row).expect("a window")).collect();
            let (mut count, mut prompts, mut previous) = (0_u32, 0_u32, 0.0);
            let drawn: Result<(), ()> = draw(&windows, &dataset, 7, |at, prompt, output| {
                assert!((600.0..1200.0).contains(&at) && at >= previous && output == 7);
                previous = at;
                prompts += prompt;
                count += 1;
                Ok(())
            });
            assert_eq!(drawn, Ok(()));
            assert!((f64::from(count) / 6000.0 - 1.0).abs() < tolerance, "{law}: {count}");
            assert!((f64::from(prompts) / f64::from(count) - 200.0).abs() < 10.0, "{law}");
        }
    }

    #[test]
    fn what_is_no_dataset_is_refused() {
        for wrong in [
            "",
            "{}",
            "[]",
            r#"{"a": {"input_tokens": "{}", "output_tokens": "{}"}}"#,
            r#"{"0": {"input_tokens": "{1: x}", "output_tokens": "{}"}}"#,
        ] {
            assert!(Dataset::read(wrong).is_err(), "{wrong}");
        }
    }
}
