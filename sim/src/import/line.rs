//! One line of a log: who printed it, and what, without prefix, colours and carriage returns.

use std::borrow::Cow;

/// A line without its decoration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
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
                let LogLine { origin, text } = LogLine::split(&line);
                Self { origin: Cow::Owned(origin.into_owned()), text: Cow::Owned(text.into_owned()) }
            }
        }
    }

    fn split(line: &'a str) -> Self {
        let (origin, text) = vllm(line).or_else(|| sglang(line)).unwrap_or(("", line));
        Self { origin: Cow::Borrowed(origin), text: Cow::Borrowed(text) }
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

/// A line of vLLM: its process and its text.
fn vllm(line: &str) -> Option<(&str, &str)> {
    let (process, rest) = match line.strip_prefix('(') {
        Some(inside) => inside.split_once(") ")?,
        None => ("", line),
    };
    let mut words = rest.splitn(4, ' ');
    let level = words.next()?;
    let levels = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
    // A process that forwards the output of another puts only its name before it.
    if !levels.contains(&level) {
        return (!process.is_empty()).then_some((process, rest));
    }
    let (day, clock, rest) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    if !is_digits_and(day, '-') || !is_digits_and(clock, ':') {
        return None;
    }
    let text = rest.strip_prefix('[').and_then(|place| place.split_once(']')).map_or(rest, |(_, text)| text);
    Some((process, text.strip_prefix(' ').unwrap_or(text)))
}

/// A line of SGLang: its rank and its text.
fn sglang(line: &str) -> Option<(&str, &str)> {
    let (inside, text) = line.strip_prefix('[')?.split_once("] ")?;
    let mut words = inside.splitn(3, ' ');
    let (day, clock) = (words.next()?, words.next()?);
    let is_clock = is_digits_and(&clock.replace('.', ":"), ':');
    (is_digits_and(day, '-') && is_clock).then(|| (words.next().unwrap_or_default(), text))
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
        let LogLine { origin, text } = LogLine::of(raw);
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
            ("[2025-07-29 18:14:22 TP0] Decode batch", "TP0", "Decode batch"),
            ("[2025-07-29 18:14:22.123 DP2 TP2 EP2] Decode batch", "DP2 TP2 EP2", "Decode batch"),
            ("[2025-07-29 18:14:22] Decode batch", "", "Decode batch"),
            ("(Worker pid=7) Capturing CUDA graphs", "Worker pid=7", "Capturing CUDA graphs"),
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
