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
    /// The service, pod, unit or task whose output it is, as what carried the line names it; empty where it names none.
    pub carrier: Cow<'a, str>,
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
                let LogLine { style, carrier, origin, text } = LogLine::split(&line);
                let [carrier, origin, text] = [carrier, origin, text].map(|part| Cow::Owned(part.into_owned()));
                Self { style, carrier, origin, text }
            }
        }
    }

    fn split(line: &'a str) -> Self {
        let mut carrier = "";
        let (style, (origin, text)) = printed(line).unwrap_or_else(|| {
            let (name, bare) = without_carrier(line);
            carrier = name;
            printed(bare).unwrap_or((None, ("", bare)))
        });
        Self { style, carrier: Cow::Borrowed(carrier), origin: Cow::Borrowed(origin), text: Cow::Borrowed(text) }
    }

    /// Who speaks: two services of one host have processes of the same names.
    #[must_use]
    pub fn speaker(&self) -> String {
        let Self { carrier, origin, .. } = self;
        if carrier.is_empty() { origin.to_string() } else { format!("{carrier} | {origin}") }
    }
}

/// A line that begins as one of an engine: whose, its process or rank, and its text.
fn printed(line: &str) -> Option<(Option<Style>, (&str, &str))> {
    if let Some(parts) = vllm(line) {
        return Some((Some(Style::Vllm), parts));
    }
    let parts = sglang(line)?;
    // Some collectors put a time in brackets before lines of vLLM.
    let inside = vllm(parts.1).filter(|_| parts.0.is_empty() && LEVELS.iter().any(|level| parts.1.contains(level)));
    Some(inside.map_or((Some(Style::Sglang), parts), |parts| (Some(Style::Vllm), parts)))
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

/// A line without what carried it put before it, and the name in that:
///
/// | carrier | before the line |
/// |---|---|
/// | `docker compose`, `docker service` | `vllm-1  | `, `stack_vllm.1.abc@node1    | ` |
/// | `kubectl --prefix` | `[pod/vllm-0/vllm] ` |
/// | `--timestamps`, other collectors | `2026-04-19T15:31:11.368Z `, `2026-04-19 17:31:11.368 | ` |
/// | a node's container log | `2026-04-19T15:31:11.368Z stdout F `; lines in parts are put together before |
/// | the system journal | `Apr 16 16:58:41 host vllm[123]: `, `2026-04-16T16:58:41+0100 host vllm[123]: ` |
/// | `srun --label`, `torchrun` | `0: `, `[rank0]: ` |
fn without_carrier(line: &str) -> (&str, &str) {
    let (mut name, mut rest) = ("", line);
    let mut is_timed = false;
    for _ in 0..4 {
        let named = service(rest).or_else(|| pod(rest)).or_else(|| journal(rest, is_timed)).or_else(|| task(rest));
        if let Some((inside_name, inside)) = named {
            name = if name.is_empty() { inside_name } else { name };
            rest = inside;
        } else if let Some(inside) = timestamp(rest) {
            is_timed = true;
            rest = inside;
        } else {
            break;
        }
    }
    (name, rest)
}

fn service(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once('|')?;
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte));
    (!name.trim_end().is_empty() && name.ends_with(' ') && is_name(name.trim_end()))
        .then(|| (name.trim_end(), &rest[usize::from(rest.starts_with(' '))..]))
}

fn pod(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("[pod/")?.split_once("] ")?;
    (!name.contains(' ')).then_some((name, rest))
}

fn task(line: &str) -> Option<(&str, &str)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let rank = line.strip_prefix("[rank").and_then(|rest| rest.split_once("]: "));
    rank.or_else(|| line.split_once(": ")).filter(|(number, _)| is_number(number))
}

fn timestamp(line: &str) -> Option<&str> {
    let (day, rest) = line.split_at_checked(10)?;
    if day.matches('-').count() != 2 || !is_digits_and(day, '-') {
        return None;
    }
    let (clock, rest) = rest.strip_prefix(['T', ' '])?.split_once(' ')?;
    let (hours, _) = clock.split_once(':')?;
    let is_clock = hours.len() == 2 && clock.bytes().all(|byte| byte.is_ascii_digit() || b":.,+-Z".contains(&byte));
    let before = ["| ", "stdout F ", "stderr F "];
    is_clock.then(|| before.iter().find_map(|before| rest.strip_prefix(before)).unwrap_or(rest))
}

/// Host and unit; behind a time of another form these are all.
fn journal(line: &str, is_timed: bool) -> Option<(&str, &str)> {
    let (head, rest) = line.split_once("]: ")?;
    let (before, process) = head.rsplit_once('[')?;
    let is_process = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    let words: Vec<&str> = before.split_whitespace().take(6).collect();
    let is_clock = |clock: &str| is_digits_and(&clock.replace('.', ":"), ':');
    let is_head = match words.as_slice() {
        [month, _, clock, _, _] => month.len() == 3 && is_clock(clock),
        [_, _] => is_timed,
        _ => false,
    };
    // With the number: each process of a unit has its own.
    let name = words.iter().rev().nth(1).and_then(|host| head.find(host).map(|at| &head[at..]));
    (is_process && is_head).then(|| (name.unwrap_or(head), rest))
}

/// Whether a line begins as vLLM's do, with a level and a time.
#[must_use]
pub fn begins_timed(line: &str) -> bool {
    let bare = line.strip_prefix('(').and_then(|inside| inside.split_once(") ")).map_or(line, |(_, rest)| rest);
    let mut words = bare.split(' ');
    let [level, day, clock] = [(); 3].map(|()| words.next().unwrap_or_default());
    let is_time = |word: &str, form: &str, between: char| word.len() == form.len() && is_digits_and(word, between);
    LEVELS.contains(&level) && is_time(day, "00-00", '-') && is_time(clock, "00:00:00", ':')
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
            ("2026-11-30T09:00:00.12Z stdout F INFO 11-30 09:00:00 [a.py:6] words", "", "words"),
            ("0: (EngineCore pid=7) INFO 11-30 09:00:00 [a.py:6] words", "EngineCore pid=7", "words"),
            ("[rank0]: INFO 11-30 09:00:00 [a.py:6] words", "", "words"),
            (
                "[2026-11-30 09:00:00] (EngineCore pid=7) INFO 11-30 09:00:00 [a.py:6] words",
                "EngineCore pid=7",
                "words",
            ),
            ("12:30: late", "", "12:30: late"),
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
    fn what_carried_a_line_tells_services_of_one_host_apart() {
        let line = "(EngineCore pid=7) INFO 11-30 09:00:00 [a.py:6] words";
        for (before, carrier) in [
            ("vllm-a-1  | ", "vllm-a-1"),
            ("vllm-a-1  | 2026-11-30T09:00:00.123Z ", "vllm-a-1"),
            ("stack_vllm.1.abc123@node1    | ", "stack_vllm.1.abc123@node1"),
            ("[pod/vllm-0/vllm] ", "vllm-0/vllm"),
            ("Nov 30 09:00:00 host vllm[12]: ", "host vllm[12"),
            ("Nov 30 09:00:00.123456 host vllm[12]: ", "host vllm[12"),
            ("2026-11-30T09:00:00+0100 host vllm[12]: ", "host vllm[12"),
            ("3: ", "3"),
            ("[rank3]: ", "3"),
            ("2026-11-30T09:00:00Z ", ""),
            ("", ""),
        ] {
            let raw = format!("{before}{line}");
            let read = LogLine::of(&raw);
            assert_eq!((&*read.carrier, &*read.text, read.style), (carrier, "words", Some(Style::Vllm)), "{before}");
            let speaker = if carrier.is_empty() { String::new() } else { format!("{carrier} | ") } + "EngineCore pid=7";
            assert_eq!(read.speaker(), speaker);
        }
        let sglang = LogLine::of("[2026-11-30 09:00:00 TP0] (a) INFO b");
        assert_eq!((&*sglang.origin, sglang.style), ("TP0", Some(Style::Sglang)));
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
