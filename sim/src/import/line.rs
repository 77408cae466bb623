//! One line of a log: who printed it, and what, without prefix, colours and carriage returns.

use std::borrow::Cow;

/// Whose way to begin a line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// vLLM's.
    Vllm,
    /// SGLang's.
    Sglang,
}

/// A line without its decoration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// How it begins; `None` if neither way: progress bars, and whatever else writes into a log.
    pub style: Option<Style>,
    /// The process or rank that printed it, as its prefix names it: `EngineCore_DP0 pid=1`, `TP0`; empty where it names none.
    pub origin: Cow<'a, str>,
    /// What it says.
    pub text: Cow<'a, str>,
}

impl<'a> LogLine<'a> {
    /// Takes the decoration off a raw line.
    ///
    /// vLLM prefixes `(process) LEVEL MM-DD HH:MM:SS [file:line] `, the process being left out by a server of one process;
    /// SGLang `[YYYY-mm-dd HH:MM:SS rank] `, the rank being left out by one of one rank (SGLang specification section 8).
    #[must_use]
    pub fn of(raw: &'a str) -> Self {
        match plain(raw) {
            Cow::Borrowed(line) => Self::split(line),
            Cow::Owned(line) => {
                let LogLine { style, origin, text } = LogLine::split(&line);
                Self { style, origin: Cow::Owned(origin.into_owned()), text: Cow::Owned(text.into_owned()) }
            }
        }
    }

    fn split(line: &'a str) -> Self {
        let printed = |line| {
            let of_vllm = vllm(line).map(|parts| (Some(Style::Vllm), parts));
            of_vllm.or_else(|| sglang(line).map(|parts| (Some(Style::Sglang), parts)))
        };
        let bare = without_carrier(line);
        let (style, (origin, text)) = printed(line).or_else(|| printed(bare)).unwrap_or((None, ("", bare)));
        Self { style, origin: Cow::Borrowed(origin), text: Cow::Borrowed(text) }
    }
}

/// Without escape sequences and line ends. A progress bar writes over itself with carriage returns: the last state counts.
fn plain(raw: &str) -> Cow<'_, str> {
    let line = raw.trim_end_matches(['\r', '\n']);
    let line = line.rsplit_once('\r').map_or(line, |(_, last)| last);
    if !line.contains('\u{1b}') {
        return Cow::Borrowed(line);
    }
    let mut kept = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, escape)) = rest.split_once('\u{1b}') {
        kept.push_str(before);
        rest = after_escape(escape);
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// What follows an escape sequence whose first character was taken: `[`, parameters, and one letter; or a single character.
fn after_escape(sequence: &str) -> &str {
    let Some(parameters) = sequence.strip_prefix('[') else {
        let mut characters = sequence.chars();
        characters.next();
        return characters.as_str();
    };
    let end = parameters.find(|letter: char| ('@'..='~').contains(&letter));
    end.map_or("", |end| &parameters[end + 1..])
}

/// A line without what carried it put before it: `docker compose` the name of a service (`vllm-1  | `), `kubectl` and other
/// collectors a time (`2026-04-19T15:31:11.368Z `, `2026-04-19 17:31:11.368 | `), the system journal time, host and unit
/// (`Apr 16 16:58:41 host vllm[123]: `).
fn without_carrier(line: &str) -> &str {
    let mut rest = line;
    for _ in 0..3 {
        match service(rest).or_else(|| timestamp(rest)).or_else(|| journal(rest)) {
            Some(inside) => rest = inside,
            None => break,
        }
    }
    rest
}

fn service(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once('|')?;
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    (!name.trim_end().is_empty() && name.ends_with(' ') && is_name(name.trim_end()))
        .then(|| &rest[usize::from(rest.starts_with(' '))..])
}

fn timestamp(line: &str) -> Option<&str> {
    let (day, rest) = line.split_at_checked(10)?;
    if day.matches('-').count() != 2 || !is_digits_and(day, '-') {
        return None;
    }
    let (clock, rest) = rest.strip_prefix(['T', ' '])?.split_once(' ')?;
    let (hours, _) = clock.split_once(':')?;
    let is_clock = hours.len() == 2 && clock.bytes().all(|byte| byte.is_ascii_digit() || b":.,+-Z".contains(&byte));
    is_clock.then(|| rest.strip_prefix("| ").unwrap_or(rest))
}

fn journal(line: &str) -> Option<&str> {
    let (head, rest) = line.split_once("]: ")?;
    let (before, process) = head.rsplit_once('[')?;
    let is_process = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    let words: Vec<&str> = before.split_whitespace().collect();
    (is_process && words.len() == 5 && words[0].len() == 3 && is_digits_and(words[2], ':')).then_some(rest)
}

const LEVELS: [&str; 5] = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

/// A line of vLLM: its process and its text.
fn vllm(line: &str) -> Option<(&str, &str)> {
    let (process, rest) = match line.strip_prefix('(') {
        Some(inside) => inside.split_once(") ")?,
        None => ("", line),
    };
    let mut words = rest.splitn(4, ' ');
    let level = words.next()?;
    // A process that forwards the output of another puts only its name before it.
    if !LEVELS.contains(&level) {
        return (!process.is_empty()).then_some((process, rest));
    }
    let (day, clock, rest) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    if !is_digits_and(day, '-') || !is_digits_and(clock, ':') {
        return None;
    }
    // Releases before 0.8 have no bracket before the place.
    let bare = || rest.split_once("] ").filter(|(place, _)| place.contains(".py:") && !place.contains(' '));
    let bracketed = rest.strip_prefix('[').and_then(|place| place.split_once(']'));
    let text = bracketed.or_else(bare).map_or(rest, |(_, text)| text);
    Some((process, text.strip_prefix(' ').unwrap_or(text)))
}

/// A line of SGLang: its rank and its text.
fn sglang(line: &str) -> Option<(&str, &str)> {
    let (inside, text) = line.strip_prefix('[')?.split_once("] ")?;
    let mut words = inside.splitn(3, ' ');
    let (day, clock) = (words.next()?, words.next()?);
    let is_clock = is_digits_and(&clock.replace('.', ":"), ':');
    (is_digits_and(day, '-') && is_clock).then(|| (words.next().unwrap_or_default(), without_module(text)))
}

/// Without the level and module that some builds print: `INFO engine.py:177: `.
fn without_module(text: &str) -> &str {
    let module =
        text.split_once(' ').filter(|(level, _)| LEVELS.contains(level)).and_then(|(_, rest)| rest.split_once(": "));
    match module {
        Some((module, rest)) if module.contains(".py:") && !module.contains(' ') => rest,
        _ => text,
    }
}

/// Digits with `mark` between them: a date or a time.
fn is_digits_and(word: &str, mark: char) -> bool {
    word.contains(mark)
        && word.split(mark).all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(raw: &str) -> (String, String) {
        let LogLine { origin, text, .. } = LogLine::of(raw);
        (origin.into_owned(), text.into_owned())
    }

    #[test]
    fn prefixes_name_the_process_or_the_rank() {
        let cases = [
            (
                "(APIServer pid=36) INFO 12-02 16:51:04 [cuda_graph.py:117] - Mode: FULL\r\n",
                "APIServer pid=36",
                "- Mode: FULL",
            ),
            ("(EngineCore_DP0 pid=1) INFO 04-16 16:58:41 [a.py:6] ", "EngineCore_DP0 pid=1", ""),
            ("(EngineCore_DP0 pid=1) INFO 04-16 16:58:41 [a.py:6]", "EngineCore_DP0 pid=1", ""),
            ("INFO 11-29 16:40:40 [forward_context.py:388] Batchsize", "", "Batchsize"),
            ("INFO 10-11 08:00:00 metrics.py:345] Avg prompt", "", "Avg prompt"),
            ("[2025-07-29 18:14:22 TP0] Decode batch", "TP0", "Decode batch"),
            ("[2025-07-29 18:14:22.123 DP2 TP2 EP2] Decode batch", "DP2 TP2 EP2", "Decode batch"),
            ("[2025-07-29 18:14:22] Decode batch", "", "Decode batch"),
            ("(Worker pid=7) Capturing CUDA graphs", "Worker pid=7", "Capturing CUDA graphs"),
            ("[2026-03-21 03:31:56] INFO engine.py:177: server_args=x", "", "server_args=x"),
            ("vllm-1  | (EngineCore pid=7) INFO 04-16 16:58:41 [a.py:6] words", "EngineCore pid=7", "words"),
            ("vllm-1  | Capturing: 1", "", "Capturing: 1"),
            ("2026-04-19T15:31:11.368123Z INFO 04-16 16:58:41 [a.py:6] words", "", "words"),
            (
                "2026-04-19 17:31:11.368 | (APIServer pid=1) INFO 04-19 15:31:11 [m.py:1] words",
                "APIServer pid=1",
                "words",
            ),
            (
                "Aug 25 14:58:34 sys0 vllm[17578]: (EngineCore pid=7) INFO 08-25 14:58:34 [a.py:6] words",
                "EngineCore pid=7",
                "words",
            ),
            ("2025-07-29T18:14:22Z [2025-07-29 18:14:22 TP0] Decode batch", "TP0", "Decode batch"),
            ("| 3 | 4 |", "", "| 3 | 4 |"),
            ("plain words", "", "plain words"),
            ("[1, 2, 4] words", "", "[1, 2, 4] words"),
            ("INFO without a date", "", "INFO without a date"),
            ("", "", ""),
        ];
        for (raw, origin, text) in cases {
            assert_eq!(parts(raw), (origin.to_owned(), text.to_owned()), "{raw:?}");
        }
    }

    #[test]
    fn colours_and_overwritten_progress_vanish() {
        let coloured = "\u{1b}[0;36m(APIServer pid=1)\u{1b}[0;0m \u{1b}[32mINFO\u{1b}[0m 01-31 00:00:00 [x.py:1] | 3 |";
        assert_eq!(parts(coloured), ("APIServer pid=1".to_owned(), "| 3 |".to_owned()));
        assert_eq!(parts("Capturing:  50%\rCapturing: 100%").1, "Capturing: 100%");
        for cut in ["\u{1b}", "\u{1b}[", "\u{1b}[3", "a\u{1b}é", "\u{1b}[é1mx"] {
            parts(cut);
        }
    }
}
