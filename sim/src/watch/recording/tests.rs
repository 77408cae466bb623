use std::fs::{self, File};
use std::io::Write;

use miette::Diagnostic;
use reports::{RequestLog, StepLog};
use tempfile::TempDir;

use super::*;
use crate::watch::samples::{header, request, step};

/// A log of two candidates, three steps each.
fn log() -> Vec<u8> {
    let mut log = StepLog::new(Vec::new());
    for name in ["engine default", "textbook"] {
        log.header(&header(name, &[8, 16])).expect("writes");
        for number in 0..3 {
            log.step(&step(number, number * 1_000_000_000, 7, Some(8))).expect("writes");
        }
    }
    log.finish().expect("writes")
}

/// Two requests of the first candidate, that end at 2.25 and 2.5 s.
fn requests() -> Vec<u8> {
    let mut log = RequestLog::new(Vec::new()).expect("writes");
    for (id, arrival_s) in [(0, 0.25), (1, 0.5)] {
        log.request(&request(id, arrival_s, true)).expect("writes");
    }
    log.finish().expect("writes")
}

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("writable");
    }
    folder
}

/// What a folder's log is refused with, when it is opened or when it is read.
fn refusal(files: &[(&str, &[u8])]) -> String {
    let folder = folder(files);
    let error = Recording::open(folder.path())
        .and_then(|recording| recording.choose(&Choice::default()))
        .and_then(|chosen| chosen.sources.into_iter().try_for_each(|source| all(source).map(drop)))
        .expect_err("it is refused");
    let message = error.to_string().replace(&folder.path().display().to_string(), "DIR");
    format!("{message}\nhelp: {}", error.help().map(|help| help.to_string()).unwrap_or_default())
}

fn all(mut source: RecordedSource) -> Result<(Vec<Fact>, End), RecordingError> {
    let mut facts = Vec::new();
    loop {
        match source.next(Duration::ZERO)? {
            Next::Fact(fact) => facts.push(fact),
            Next::NotYet => panic!("a file has its next line or none"),
            Next::End(end) => return Ok((facts, end)),
        }
    }
}

/// A log with one line replaced by `change`, which is told the line.
fn changed(line: usize, change: impl Fn(&str) -> String) -> Vec<u8> {
    let text = String::from_utf8(log()).expect("text");
    let lines =
        text.lines().enumerate().map(|(number, text)| if number + 1 == line { change(text) } else { text.to_owned() });
    lines.map(|line| line + "\n").collect::<String>().into_bytes()
}

#[test]
fn steps_and_requests_come_in_order_of_time() {
    let folder = folder(&[("steps.jsonl", &log()), ("requests.csv", &requests())]);
    for path in [folder.path().to_owned(), folder.path().join("steps.jsonl")] {
        let chosen = Recording::open(&path).and_then(|log| log.choose(&Choice::default())).expect("a recording");
        assert_eq!(chosen.title, "Chunked prefill against a 512-token ceiling · seed 7");
        let names: Vec<(&str, bool)> = chosen.lanes.iter().map(|lane| (&*lane.name, lane.knows_requests)).collect();
        assert_eq!(names, [("engine default", true), ("textbook", false)]);
        let mut sources = chosen.sources.into_iter();
        let (facts, end) = all(sources.next().expect("two")).expect("sound");
        let told: Vec<(u64, bool)> =
            facts.iter().map(|fact| (fact.at_ns() / 1_000_000, matches!(fact, Fact::Step(_)))).collect();
        assert_eq!(told, [(20, true), (1_020, true), (2_020, true), (2_250, false), (2_500, false)]);
        assert_eq!(end, End::default());
        let (facts, _) = all(sources.next().expect("two")).expect("sound");
        assert_eq!(facts.len(), 3);
    }
}

#[test]
fn a_log_that_breaks_off_is_shown_up_to_there() {
    let whole = log();
    let last_line = whole[..whole.len() - 1].iter().rposition(|&byte| byte == b'\n').expect("many lines") + 1;
    for kept in [last_line + 1, last_line + 90, whole.len() - 2] {
        let folder = folder(&[("steps.jsonl", &whole[..kept])]);
        let chosen = Recording::open(folder.path()).and_then(|log| log.choose(&Choice::default())).expect("most of it");
        let ends: Vec<(usize, End)> = chosen
            .sources
            .into_iter()
            .map(|source| all(source).map(|(facts, end)| (facts.len(), end)).expect("what is there is sound"))
            .collect();
        let missing = Some("the log breaks off in line 8: what follows is missing".to_owned());
        assert_eq!(ends, [(3, End::default()), (2, End { missing })]);
    }
    // Without its last line break the log is whole.
    let folder = folder(&[("steps.jsonl", &whole[..whole.len() - 1])]);
    let chosen = Recording::open(folder.path()).and_then(|log| log.choose(&Choice::default())).expect("a recording");
    let (facts, end) = all(chosen.sources.into_iter().next_back().expect("two")).expect("sound");
    assert_eq!((facts.len(), end), (3, End::default()));
}

#[test]
fn lines_that_are_not_what_they_must_be_are_refused_with_their_number() {
    let refused = |log: &[u8]| refusal(&[("steps.jsonl", log)]);
    let replaced = |line, from: &'static str, to: &'static str| {
        changed(line, move |text| {
            assert!(text.contains(from), "{text}");
            text.replace(from, to)
        })
    };
    let cases = [
        ("empty", Vec::new()),
        ("no JSON", b"steps\n".to_vec()),
        ("a blank line", changed(3, |_| String::new())),
        ("another object", changed(3, |_| "{\"steps\":{}}".to_owned())),
        (
            "a step first",
            changed(1, |_| String::from_utf8(log()).expect("text").lines().nth(1).expect("a step").to_owned()),
        ),
        ("a later schema", replaced(5, "\"schema\":1", "\"schema\":2")),
        ("a later schema with other fields", changed(1, |_| "{\"header\":{\"schema\":3,\"what\":1}}".to_owned())),
        ("schema zero", replaced(1, "\"schema\":1", "\"schema\":0")),
        ("a field is missing", replaced(2, "\"real_rows\":7,", "")),
        ("a field is of another kind", replaced(2, "\"real_rows\":7", "\"real_rows\":-7")),
        ("cut in the middle", changed(3, |text| text[..50].to_owned())),
        ("time falls", replaced(3, "\"end_ns\":1020000000", "\"end_ns\":1")),
        ("a graph with a fallback", replaced(4, "\"fallback\":null", "\"fallback\":\"no_key\"")),
        ("more KV than there is", replaced(4, "\"kv_total_blocks\":27664", "\"kv_total_blocks\":3")),
        ("one candidate twice", replaced(5, "\"textbook\"", "\"engine default\"")),
        ("sizes that do not rise", replaced(1, "\"capture_sizes\":[8,16]", "\"capture_sizes\":[16,8]")),
        ("no text", [b"\xff\xfe\0".to_vec(), log()].concat()),
    ];
    let messages: Vec<String> = cases.iter().map(|(name, log)| format!("{name}:\n{}\n", refused(log))).collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn requests_that_are_not_what_they_must_be_are_refused_with_their_line() {
    let refused = |requests: &str| refusal(&[("steps.jsonl", &log()), ("requests.csv", requests.as_bytes())]);
    let text = String::from_utf8(requests()).expect("text");
    let second = text.lines().nth(2).expect("two rows");
    let cases = [
        ("other columns", "a,b\n1,2\n".to_owned()),
        ("too few fields", text.replace(second, "engine default,7,1")),
        ("no number", text.replace("0.5,1000", "half,1000")),
        ("a seed that is none", text.replace("engine default,7,1", "engine default,seven,1")),
        ("a time before zero", text.replace("0.5,1000", "-0.5,1000")),
        ("no time", text.replace("0.5,1000", "NaN,1000")),
        ("neither good nor not", text.replace(second, &second.replace("true", "maybe"))),
        ("scattered rows", format!("{text}{}\n{second}\n", second.replace("engine default", "textbook"))),
    ];
    let messages: Vec<String> =
        cases.iter().map(|(name, requests)| format!("{name}:\n{}\n", refused(requests))).collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn what_is_not_there_is_said() {
    let refused = |path: &Path| {
        let error = Recording::open(path).expect_err("it is refused");
        (error.to_string(), error.help().expect("what to do").to_string())
    };
    let empty = folder(&[]);
    let (message, help) = refused(empty.path());
    assert_eq!(message, format!("{} holds no steps.jsonl", empty.path().display()));
    assert!(help.contains("--steps"), "{help}");
    assert!(refused(&empty.path().join("missing")).0.starts_with("cannot read "));
    assert!(refused(Path::new("/dev/null")).0.ends_with("is no regular file"));

    let folder = folder(&[("steps.jsonl", &log())]);
    let recording = Recording::open(folder.path()).expect("a recording");
    let missing = |candidates: &[&str], seed| {
        let choice = Choice { candidates: candidates.iter().map(|&name| name.to_owned()).collect(), seed };
        let error = recording.choose(&choice).expect_err("it is not there");
        format!(
            "{} ({})",
            error.to_string().rsplit('/').next().unwrap_or_default(),
            error.help().expect("what is there")
        )
    };
    assert_eq!(missing(&[], Some(8)), "steps.jsonl has no steps of seed 8 (its seeds are 7)");
    assert_eq!(
        missing(&["textbook", "other"], None),
        "steps.jsonl has no steps of candidate `other` with seed 7 (its candidates are `engine default`, `textbook`)"
    );
    let choice = Choice { candidates: vec!["textbook".to_owned()], seed: Some(7) };
    assert_eq!(recording.choose(&choice).expect("it is there").lanes.len(), 1);
}

#[test]
fn a_report_that_is_none_is_refused() {
    let refused = refusal(&[("steps.jsonl", &log()), ("run.json", b"{\n \"version\": 3\n}")]);
    assert!(refused.starts_with("DIR/run.json, line 2: expected the report of a run: "), "{refused}");
    let refused = refusal(&[("steps.jsonl", &log()), ("run.json", b"[]")]);
    assert!(refused.starts_with("DIR/run.json, line 1: expected the report of a run: a JSON object\n"), "{refused}");
    let refused = refusal(&[("steps.jsonl", &log()), ("run.json", b"{\"scenario\": []}")]);
    let expected = "DIR/run.json, line 1: expected the report of a run: found an array, expected an object at line 1";
    assert!(refused.starts_with(expected), "{refused}");
}

/// A pipe would be waited for.
#[test]
fn neighbours_that_are_no_files_are_refused() {
    for name in ["run.json", "requests.csv"] {
        let folder = folder(&[("steps.jsonl", &log())]);
        fs::create_dir(folder.path().join(name)).expect("writable");
        let error = Recording::open(folder.path()).expect_err("it is refused");
        assert!(error.to_string().ends_with(&format!("{name} is no regular file")), "{error}");
    }
}

/// The lines of a long log are read as they are wanted.
#[test]
fn a_long_log_is_not_held() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("steps.jsonl");
    let mut file = std::io::BufWriter::new(File::create(&path).expect("writable"));
    file.write_all(&log()).expect("writable");
    // A last candidate whose third step is broken, behind many sound ones of the others.
    let mut more = StepLog::new(Vec::new());
    more.header(&header("third", &[8])).expect("writes");
    (0..2).for_each(|number| more.step(&step(number, number, 8, Some(8))).expect("writes"));
    file.write_all(&more.finish().expect("writes")).expect("writable");
    file.write_all(b"{\"step\":{}}\n").expect("writable");
    file.into_inner().expect("writable");
    let chosen = Recording::open(&path).and_then(|log| log.choose(&Choice::default())).expect("headers are sound");
    let mut sources = chosen.sources.into_iter();
    assert_eq!(all(sources.next().expect("three")).expect("sound").0.len(), 3);
    let mut third = sources.nth(1).expect("three");
    assert!(matches!(third.next(Duration::ZERO), Ok(Next::Fact(_))));
    assert!(matches!(third.next(Duration::ZERO), Ok(Next::Fact(_))));
    let error = third.next(Duration::ZERO).expect_err("only now is it read");
    assert!(error.to_string().contains("line 12: expected {\"header\""), "{error}");
}
