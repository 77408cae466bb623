//! `sim run --watch` and `sim watch` in a real terminal: a pseudo-terminal with a size, a parser of what is written to it, and
//! keys that are sent to it.
//!
//! Nothing here sleeps and hopes: every check waits for the text that it is about.

use std::fs;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command as PtyCommand, Pty};
use sim::watch::terminal::Screen;

use super::{command_in, folder_with, names, scenario, sim_in};

/// A busy machine may take long for anything.
const PATIENCE: Duration = Duration::from_mins(2);
/// What has lost its terminal has nothing to wait for.
const LOST_PATIENCE: Duration = Duration::from_secs(20);

/// A process in a terminal of its own.
struct Session {
    pty: Arc<Pty>,
    child: Child,
    parser: vt100::Parser,
    written: Receiver<Vec<u8>>,
    /// As a terminal that does not know what that is.
    without_alternate_screen: bool,
}

impl Session {
    /// Starts a command in a terminal of 120 columns and 40 lines.
    fn start(folder: &Path, program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let (pty, pts) = pty_process::blocking::open().expect("a pseudo-terminal");
        pty.resize(Size::new(40, 120)).expect("it takes a size");
        let mut command = PtyCommand::new(program)
            .args(arguments)
            .current_dir(folder)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .env_remove("RUST_BACKTRACE");
        for (name, value) in environment {
            command = command.env(name, value);
        }
        let child = command.spawn(pts).expect("it starts");
        let pty = Arc::new(pty);
        let (sender, written) = channel();
        let reader = pty.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of a terminal is an error.
            while let Ok(read @ 1..) = (&*reader).read(&mut bytes) {
                if sender.send(bytes[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { pty, child, parser: parser(40, 120), written, without_alternate_screen: false }
    }

    fn sim(folder: &Path, arguments: &[&str]) -> Self {
        Self::start(folder, env!("CARGO_BIN_EXE_sim"), arguments, &[])
    }

    /// Takes what was written.
    fn process(&mut self, bytes: &[u8]) {
        if self.without_alternate_screen {
            let text = String::from_utf8_lossy(bytes).replace("\x1b[?1049h", "").replace("\x1b[?1049l", "");
            self.parser.process(text.as_bytes());
        } else {
            self.parser.process(bytes);
        }
    }

    fn text(&self) -> String {
        self.parser.screen().contents()
    }

    /// Waits until the screen is as wanted.
    #[track_caller]
    fn wait(&mut self, what: &str, is_wanted: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_wanted(&self.text()) {
            match self.written.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.process(&bytes),
                Err(RecvTimeoutError::Timeout) => panic!("waited too long for {what}; the screen:\n{}", self.text()),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended before {what}; the screen:\n{}", self.text()),
            }
        }
    }

    #[track_caller]
    fn wait_for(&mut self, wanted: &str) {
        self.wait(wanted, |text| text.contains(wanted));
    }

    fn keys(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).expect("it listens");
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        // What was written for the old size belongs to it.
        self.parser = parser(rows, columns);
        self.pty.resize(Size::new(rows, columns)).expect("it takes a size");
    }

    /// Waits for the end; the terminal must be as before: no alternate screen, and a cursor. Gives the exit code and what
    /// stands on the screen.
    #[track_caller]
    fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + PATIENCE;
        let code = loop {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                break status.code();
            }
            assert!(Instant::now() < deadline, "it does not end; the screen:\n{}", self.text());
            while let Ok(bytes) = self.written.recv_timeout(Duration::from_millis(20)) {
                self.process(&bytes);
            }
        };
        while let Ok(bytes) = self.written.recv_timeout(PATIENCE) {
            self.process(&bytes);
        }
        let screen = self.parser.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is left: {}", self.text());
        assert!(!screen.hide_cursor(), "the cursor is shown: {}", self.text());
        (code, self.text())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A failed test leaves no process behind.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn parser(rows: u16, columns: u16) -> vt100::Parser {
    let positive = |value| NonZeroU16::new(value).expect("a size");
    vt100::Parser::new(positive(rows), positive(columns), 0)
}

fn two_candidates() -> String {
    scenario("", "[[candidate]]\nname = \"default\"\n[[candidate]]\nname = \"none\"\ncudagraph_mode = \"NONE\"\n")
}

/// A run from the first step to its report: keys, a resize, the end. The report is the one of a run without a view, and the
/// terminal has the modes that it had before.
#[test]
fn a_run_is_watched_to_its_end_and_reported() {
    let folder = folder_with(&two_candidates());
    let plain = sim_in(folder.path(), &["run", "scenario.toml"]).done();
    let script = format!(
        "stty -g > before; '{}' run scenario.toml --watch --paused > report 2> errors; echo $? > code; stty -g > after",
        env!("CARGO_BIN_EXE_sim")
    );
    let mut session = Session::start(folder.path(), "sh", &["-c", &script], &[]);
    session.wait_for("0.000 s  held");
    session.wait_for("no step yet");
    assert!(session.parser.screen().alternate_screen() && session.parser.screen().hide_cursor());
    let text = session.text();
    assert!(text.contains("▶ default") && text.contains("│  none"), "side by side:\n{text}");

    session.keys(".");
    session.wait_for(" → ");
    session.keys("?");
    session.wait_for("on to the next preemption");
    session.keys("?");
    session.wait("the help to go", |text| !text.contains("on to the next preemption"));
    session.keys("\t");
    session.wait_for("▶ none");
    session.keys("f");
    session.wait_for("no graph (graphs_off)");
    session.keys("\t");
    session.wait_for("▶ default");

    session.resize(10, 40);
    session.wait("one candidate in 40 columns", |text| text.contains("▶ default") && !text.contains("none"));
    assert!(session.text().lines().all(|line| line.chars().count() <= 40));
    session.resize(1, 1);
    session.resize(24, 80);
    session.wait("two candidates in 80 columns", |text| text.contains("▶ default") && text.contains("│  none"));

    session.keys("p");
    session.wait_for("no further preemption: default has ended");
    session.keys("e");
    session.wait_for("the run has ended");
    session.keys("\x1b[A");
    session.wait_for("rows asked for, and steps");
    // Escape closes the traffic of the rung.
    session.keys("\x1b");
    session.wait("the timeline to come back", |text| !text.contains("rows asked for, and steps"));
    session.keys("q");
    session.end();

    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("written");
    assert_eq!(read("code").trim(), "0", "{}", read("errors"));
    assert_eq!(read("report"), plain, "the same bytes as without a view");
    assert_eq!(read("before"), read("after"), "the modes of the terminal");
}

#[test]
fn several_seeds_are_reported_whatever_was_watched() {
    let folder = folder_with(&two_candidates());
    let plain = sim_in(folder.path(), &["run", "scenario.toml", "--seeds", "3", "--out", "plain"]).done();
    let script = format!(
        "'{}' run scenario.toml --seeds 3 --watch --speed full --out watched > report 2> errors; echo $? > code",
        env!("CARGO_BIN_EXE_sim")
    );
    let mut session = Session::start(folder.path(), "sh", &["-c", &script], &[]);
    session.wait_for("the run has ended");
    assert!(session.text().contains("seed 7, the first of 3"), "{}", session.text());
    session.keys("q");
    session.end();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("written");
    assert_eq!((read("code").trim(), read("report")), ("0", plain));
    for name in names(&folder.path().join("plain")) {
        assert_eq!(read(&format!("watched/{name}")), read(&format!("plain/{name}")), "{name}");
    }
}

/// Where there is no alternate screen, the view begins and ends with an empty one.
#[test]
fn a_terminal_without_an_alternate_screen_is_cleared() {
    let folder = folder_with(&two_candidates());
    let script = format!("seq 39; '{}' run scenario.toml --watch --paused", env!("CARGO_BIN_EXE_sim"));
    let mut session = Session::start(folder.path(), "sh", &["-c", &script], &[]);
    session.without_alternate_screen = true;
    session.wait_for("no step yet");
    session.wait_for("? keys");
    let stays = |text: &str| text.lines().any(|line| line.trim().parse::<u32>().is_ok());
    assert!(!stays(&session.text()), "{}", session.text());
    session.keys("q");
    let (_, screen) = session.end();
    assert!(screen.trim_start().starts_with("× interrupted"), "{screen}");
    assert!(!screen.contains("no step yet"), "{screen}");
}

/// Whoever had the terminal while the view was stopped leaves other modes and other text.
#[test]
fn a_view_that_was_stopped_takes_the_terminal_again() {
    let folder = folder_with(&two_candidates());
    let mut session = Session::sim(folder.path(), &["run", "scenario.toml", "--watch", "--paused"]);
    session.wait_for("? keys");
    let pid = session.child.id().to_string();
    let done = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().expect("there is one");
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let terminal = fs::read_link(format!("/proc/{pid}/fd/0")).expect("a terminal").display().to_string();
    let modes = || done("stty", &["-a", "-F", &terminal]);
    done("kill", &["-s", "STOP", &pid]);
    done("stty", &["-F", &terminal, "sane"]);
    assert!(!modes().contains("-icanon"), "{}", modes());
    session.parser = parser(40, 120);
    done("kill", &["-s", "CONT", &pid]);
    session.wait_for("no step yet");
    session.wait_for("? keys");
    assert!(session.parser.screen().alternate_screen() && session.parser.screen().hide_cursor());
    assert!(modes().contains("-icanon") && modes().contains("-echo "), "{}", modes());
    session.keys("q");
    assert_eq!(session.end().0, Some(130));
}

/// Leaving early is the end of the run: 130, and nothing written, by key or by signal.
#[test]
fn a_run_that_is_left_early_leaves_nothing() {
    let folder = folder_with(&two_candidates());
    let arguments = ["run", "scenario.toml", "--watch", "--paused", "--out", "results", "--steps"];
    for way in ["q", "\x03", "TERM", "INT"] {
        let mut session = Session::sim(folder.path(), &arguments);
        session.wait_for("no step yet");
        if way.len() > 1 {
            let pid = session.child.id().to_string();
            let sent = Command::new("kill").args(["-s", way, &pid]).status().expect("there is a kill");
            assert!(sent.success());
        } else {
            session.keys(way);
        }
        let (code, screen) = session.end();
        assert_eq!(code, Some(130), "{way:?}: {screen}");
        assert!(screen.contains("the view was closed before the run had ended"), "{way:?}: {screen}");
        assert_eq!(names(folder.path()), ["scenario.toml"], "{way:?}");
    }
}

#[test]
fn a_recorded_run_is_watched() {
    let folder = folder_with(&two_candidates());
    sim_in(folder.path(), &["run", "scenario.toml", "--out", "results", "--steps"]).done();
    let mut session = Session::sim(folder.path(), &["watch", "results", "--paused", "--speed", "1"]);
    session.wait_for("0.000 s  held");
    session.wait_for("A sound scenario");
    session.keys(" ");
    session.wait_for("▶ 1 s/s");
    session.keys("---");
    session.wait_for("▶ 0.03 s/s");
    session.keys("m");
    session.wait_for("the run has ended");
    session.wait_for("20 done");
    session.keys("r");
    session.wait_for("no further rung change: default has ended");
    session.keys("q");
    let (code, screen) = session.end();
    assert_eq!((code, screen.trim()), (Some(0), ""));

    // One of two, without colours, ended by Ctrl-C.
    let colourless = ["watch", "results/steps.jsonl", "--candidate", "none", "--speed", "full"];
    let mut session = Session::start(folder.path(), env!("CARGO_BIN_EXE_sim"), &colourless, &[("NO_COLOR", "1")]);
    session.wait_for("the run has ended");
    let screen = session.parser.screen();
    let cells = (0..40).flat_map(|row| (0..120).map(move |column| (row, column)));
    let coloured = cells
        .filter_map(|(row, column)| screen.cell(row, column))
        .filter(|cell| cell.fgcolor() != vt100::Color::Default);
    assert_eq!(coloured.count(), 0);
    session.keys("\x03");
    let (code, screen) = session.end();
    assert_eq!(code, Some(130), "{screen}");
}

/// A terminal that goes away, as a window that is closed, ends the view and the run in it; so does a shell in it that goes with
/// it, although standard error goes away as well.
#[test]
fn a_terminal_that_is_lost_ends_the_view() {
    let folder = folder_with(&two_candidates());
    sim_in(folder.path(), &["run", "scenario.toml", "--out", "results", "--steps"]).done();
    let sim = env!("CARGO_BIN_EXE_sim");
    let live = ["run", "scenario.toml", "--watch", "--paused", "--out", "more"];
    for arguments in [&["watch", "results", "--speed", "0.001"][..], &live] {
        for in_a_shell in [false, true] {
            let (mut pty, pts) = pty_process::blocking::open().expect("a pseudo-terminal");
            pty.resize(Size::new(40, 120)).expect("it takes a size");
            let script = format!("trap '' HUP; '{sim}' {}; echo $? > code", arguments.join(" "));
            let (program, arguments) =
                if in_a_shell { ("sh", vec!["-c", &*script]) } else { (sim, arguments.to_vec()) };
            let command =
                PtyCommand::new(program).args(arguments).current_dir(folder.path()).env("TERM", "xterm-256color");
            let mut child = command.spawn(pts).expect("it starts");
            let (mut parser, mut bytes) = (parser(40, 120), [0; 4096]);
            while !parser.screen().contents().contains("? keys") {
                let read = pty.read(&mut bytes).expect("it draws");
                parser.process(&bytes[..read]);
            }
            drop(pty);

            let lost = Instant::now();
            let status = loop {
                if let Some(status) = child.try_wait().expect("it is a child") {
                    break status;
                }
                if lost.elapsed() > LOST_PATIENCE {
                    let _ = child.kill();
                    panic!("it goes on without a terminal: {script}");
                }
                thread::sleep(Duration::from_millis(10));
            };
            if in_a_shell {
                let code = fs::read_to_string(folder.path().join("code")).expect("written");
                assert_eq!(code.trim(), "130", "{script}");
                fs::remove_file(folder.path().join("code")).expect("it was there");
            } else {
                assert_eq!(status.code(), Some(130), "{script}");
            }
            assert_eq!(names(folder.path()), ["results", "scenario.toml"], "{script}");
        }
    }
}

/// Files of different runs beside each other, and a log that ends before its run: what is wrong is said, and requests that may
/// be of another run are not shown.
#[test]
fn neighbours_of_another_run_are_not_believed() {
    let folder = folder_with(&two_candidates());
    let run = |out: &str, more: &[&str]| {
        sim_in(folder.path(), &[&["run", "scenario.toml", "--out", out, "--steps"], more].concat()).done();
    };
    run("results", &[]);
    run("fewer", &["--requests", "10"]);
    run("seeds", &["--seeds", "3"]);
    let path = |name: &str| folder.path().join(name);
    let copied = |from: &str, to: &str| {
        fs::copy(path(from), path(to)).expect("writable");
    };
    let caution = |name: &str| {
        let found = sim::watch::recording::Recording::open(&path(name)).expect("a recording").caution;
        found.map(|caution| caution.replace(&folder.path().display().to_string(), "DIR"))
    };
    for whole in ["results", "fewer", "seeds"] {
        assert_eq!(caution(whole), None, "{whole}");
    }
    let other =
        Some("run.json beside DIR/results/steps.jsonl is of another run: its requests are not shown".to_owned());
    copied("results/run.json", "run.json");
    copied("fewer/run.json", "results/run.json");
    assert_eq!(caution("results"), other, "more steps than the run had");
    copied("seeds/run.json", "results/run.json");
    assert!(caution("results").expect("two seeds are missing").starts_with("run.json has 2 candidates, "));
    copied("run.json", "results/run.json");
    copied("results/requests.csv", "requests.csv");
    copied("fewer/requests.csv", "results/requests.csv");
    let rows = "requests.csv has 10 requests of default, run.json 20: requests are not shown";
    assert_eq!(caution("results").as_deref(), Some(rows));
    copied("requests.csv", "results/requests.csv");

    let log = fs::read_to_string(path("results/steps.jsonl")).expect("written");
    let all = log.lines().filter(|line| line.starts_with("{\"step\"")).count();
    let cut: String = log.split_inclusive('\n').take(6).collect();
    fs::write(path("results/steps.jsonl"), cut).expect("writable");
    let said = format!(
        "run.json has 2 candidates, {all} steps, the log 1 candidate, 5 steps: \
                        the log ends before, or is of another run; requests are not shown"
    );
    assert_eq!(caution("results"), Some(said.clone()));
    let mut session = Session::sim(folder.path(), &["watch", "results", "--paused"]);
    session.wait_for("run.json has 2 candidates");
    session.wait_for("requests: not in the log");
    session.keys("q");
    assert_eq!(session.end().0, Some(0));
}

/// The view counts the warm-up, and says that the report does not.
#[test]
fn a_warm_up_is_counted_and_said() {
    let folder = folder_with(&format!("{}\n[warm_up]\nrequests = 5\n", two_candidates()));
    sim_in(folder.path(), &["run", "scenario.toml", "--out", "results", "--steps"]).done();
    for (arguments, said) in [
        (["run", "scenario.toml", "--watch"], "warm-up included; the report leaves out the first 5 requests"),
        (["watch", "results", "--paused"], "warm-up included; the report leaves out 5 requests, sent before "),
    ] {
        let mut session = Session::sim(folder.path(), &arguments);
        session.wait_for(said);
        session.keys("e");
        session.wait_for("the run has ended");
        session.wait_for("20 done");
        session.keys("q");
        assert_eq!(session.end().0, Some(0));
    }
}

/// A log that turns out to be broken while it is shown: the terminal first, then the message.
#[test]
fn a_broken_line_ends_the_view_with_a_message() {
    let folder = folder_with(&two_candidates());
    sim_in(folder.path(), &["run", "scenario.toml", "--out", "results", "--steps"]).done();
    let path = folder.path().join("results/steps.jsonl");
    let text = fs::read_to_string(&path).expect("written");
    let lines: Vec<&str> = text.lines().collect();
    let broken = [&lines[..40], &["{\"step\":{\"step\":38}}"], &lines[41..]].concat().join("\n");
    fs::write(&path, broken + "\n").expect("writable");
    let session = Session::sim(folder.path(), &["watch", "results", "--speed", "full"]);
    let (code, screen) = session.end();
    assert_eq!(code, Some(3), "{screen}");
    assert!(screen.contains("results/steps.jsonl, line 41: expected"), "{screen}");
    assert!(screen.contains("`start_ns`"), "what is missing: {screen}");
}

/// Not a test by itself: takes the terminal over and panics, in a process that the next test looks at.
#[test]
#[ignore = "panics on purpose"]
fn panics_in_a_view() {
    let screen = Screen::open().expect("it has a terminal");
    println!("{}", screen.colour());
    panic!("a planted panic");
}

#[test]
fn a_panic_is_read_on_a_clean_terminal() {
    let this = std::env::current_exe().expect("this test");
    let this = this.to_str().expect("text");
    let only = ["--exact", "watch::panics_in_a_view", "--ignored", "--nocapture", "--test-threads=1"];
    let session = Session::start(&super::root(), this, &only, &[]);
    let (code, screen) = session.end();
    assert_eq!(code, Some(101), "{screen}");
    assert!(screen.contains("a planted panic"), "{screen}");
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let folder = folder_with(&two_candidates());
    sim_in(folder.path(), &["run", "scenario.toml", "--out", "results", "--steps"]).done();
    let watch_run = ["run", "scenario.toml", "--watch"];
    for arguments in [&watch_run[..], &["watch", "results"]] {
        // A session without a terminal: whoever runs the tests may have one.
        let mut detached = Command::new("setsid");
        detached.arg("--wait").arg(env!("CARGO_BIN_EXE_sim")).args(arguments).current_dir(folder.path());
        let refused = super::Answer::from(detached.output().expect("there is a setsid")).refused(2);
        let message = refused.lines().skip_while(|line| !line.contains('×')).collect::<Vec<_>>().join("\n");
        insta::allow_duplicates! {
            insta::assert_snapshot!(message, @r"
            × a view needs a terminal, and this process has none
            help: run it in a terminal (`ssh -t`, `docker run -it`), or look at a run without one: `sim run`
                  prints its report
            ");
        }
        let mut dumb = command_in(folder.path(), arguments);
        let refused = super::Answer::from(dumb.env("TERM", "dumb").output().expect("it was built")).refused(2);
        let message = refused.lines().skip_while(|line| !line.contains('×')).collect::<Vec<_>>().join("\n");
        insta::allow_duplicates! {
            insta::assert_snapshot!(message, @r"
            × a view needs a terminal that can move its cursor, and TERM says `dumb`
            help: set TERM to what your terminal is (`TERM=xterm`), or look at a run without a view: `sim
                  run` prints its report
            ");
        }
    }
    insta::assert_snapshot!(sim_in(folder.path(), &["run", "scenario.toml", "--paused"]).refused(2), @r"
    × --speed and --paused are for a view, and there is none
    help: add --watch, or leave them out
    ");
    insta::assert_snapshot!(sim_in(folder.path(), &["run", "scenario.toml", "--watch", "--speed", "0"]).refused(2), @r"
    error: invalid value '0' for '--speed <RATE>': expected a number from 0.001 to 1000 (simulated seconds a second) or full

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(sim_in(folder.path(), &["watch", "results", "--candidate", "other"]).refused(3), @r"
    × results/steps.jsonl has no steps of candidate `other` with seed 7
    help: its candidates are `default`, `none`
    ");
    insta::assert_snapshot!(sim_in(folder.path(), &["watch", "scenario.toml"]).refused(3), @r#"
    × scenario.toml, line 1: expected {"header": …} or {"step": …} with all fields: expected value
    │ at column 1
    help: give the steps.jsonl that `sim run SCENARIO --out DIR --steps` writes, whole and unchanged
    "#);
    insta::assert_snapshot!(sim_in(folder.path(), &["watch", "nowhere"]).refused(3), @r"
    × cannot read nowhere
    ╰─▶ No such file or directory (os error 2)
    help: check the path and its permissions
    ");
}
