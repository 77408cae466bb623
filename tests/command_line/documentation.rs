//! Every `console` block of every page: its commands run, and its output is the real one.
//!
//! A page's commands run one after the other in bash, in a copy of what a clone has, with a home of their own.
//! - `sim` and `calibrate` are the binaries; `cargo run … -p sim -- X` and `sim X` both mean `sim X`. Other commands of cargo
//!   and git are for `.ci/run`.
//! - A command ends with 0, unless the next one is `echo $?` and shows another code.
//! - Lines below a command are what it prints on standard output, all of them; `...` stands for lines left out.
//! - `console gpu` needs a GPU and `console terminal` somebody who watches: those of `calibrate` are only parsed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use super::root;

/// One command of a page with what the page shows below it.
#[derive(Debug)]
struct Shown {
    /// Its line in the page, from 1.
    line: usize,
    command: String,
    /// The first word of the block's info string behind `console`.
    mark: String,
    output: Vec<String>,
}

/// All pages of the repository, by their paths below its top.
fn pages() -> Vec<PathBuf> {
    let (mut pages, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a readable folder") {
            let entry = entry.expect("readable");
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = folder.join(&name);
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if entry.file_type().expect("readable").is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// The fenced blocks of a page: the line of the fence, its info string, and the text, less what the fence is indented by.
fn blocks(page: &str) -> Vec<(usize, String, Vec<String>)> {
    let mut blocks: Vec<(usize, String, Vec<String>)> = Vec::new();
    let mut indented_by = None;
    for (index, line) in page.lines().enumerate() {
        let unindented = line.trim_start();
        match (indented_by, unindented.strip_prefix("```")) {
            (None, Some(info)) => {
                indented_by = Some(line.len() - unindented.len());
                blocks.push((index + 1, info.trim().to_owned(), Vec::new()));
            }
            (Some(_), Some("")) => indented_by = None,
            (Some(width), _) => {
                let (_, _, lines) = blocks.last_mut().expect("inside a block");
                lines.push(line.get(width..).unwrap_or_default().to_owned());
            }
            (None, None) => {}
        }
    }
    assert_eq!(indented_by, None, "a block without an end");
    blocks
}

/// The commands of a page's `console` blocks. A backslash at its end joins a line with the next.
fn commands(page: &str) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    for (fence, info, lines) in blocks(page) {
        let Some(mark) = info.strip_prefix("console") else { continue };
        let mut goes_on = false;
        let first = commands.len();
        for (index, line) in lines.iter().enumerate() {
            if goes_on {
                let shown = commands.last_mut().expect("a command that goes on");
                shown.command.truncate(shown.command.len() - 1);
                shown.command += line.trim_start().trim_start_matches("> ").trim_start();
                goes_on = line.ends_with('\\');
            } else if let Some(command) = line.strip_prefix("$ ") {
                goes_on = command.ends_with('\\');
                let (line, mark) = (fence + 1 + index, mark.trim().to_owned());
                commands.push(Shown { line, command: command.to_owned(), mark, output: Vec::new() });
            } else if let Some(shown) = commands[first..].last_mut() {
                shown.output.push(line.clone());
            }
        }
    }
    for shown in &mut commands {
        while shown.output.last().is_some_and(String::is_empty) {
            shown.output.pop();
        }
    }
    commands
}

/// Whether `printed` is what a page shows, with `...` for any number of lines.
fn matches(shown: &[String], printed: &[&str]) -> bool {
    let Some((first, rest)) = shown.split_first() else { return printed.is_empty() };
    if first == "..." {
        return (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..]));
    }
    printed.split_first().is_some_and(|(line, others)| line.trim_end() == first.trim_end() && matches(rest, others))
}

/// A folder with what commands of pages name: a copy, so that they can write beside it.
fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for below in ["calibrate", "bin", "home"] {
        fs::create_dir_all(folder.path().join(below)).expect("writable");
    }
    for copied in ["scenarios", "sim/guide", "tests/command_line/import"] {
        copy(&root().join(copied), &folder.path().join(copied));
    }
    let sim = Path::new(env!("CARGO_BIN_EXE_sim"));
    let calibrate = sim.with_file_name("calibrate");
    for (binary, name) in [(sim, "sim"), (&calibrate, "calibrate")] {
        if binary.exists() {
            std::os::unix::fs::symlink(binary, folder.path().join("bin").join(name)).expect("writable");
        }
    }
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("writable");
    for entry in fs::read_dir(from).expect("a readable folder") {
        let entry = entry.expect("readable");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("readable").is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("writable");
        }
    }
}

/// What bash makes of a command in the scratch folder: its exit code and standard output, and standard error for messages.
fn answer(command: &str, scratch: &Path) -> (i32, String, String) {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-o", "pipefail", "-c", command])
        .current_dir(scratch)
        .env("PATH", format!("{}:{path}", scratch.join("bin").display()))
        .env("HOME", scratch.join("home"))
        // No command of a page measures a GPU that happens to be there.
        .env("CUDA_VISIBLE_DEVICES", "")
        .env_remove("NO_COLOR")
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .expect("bash is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// The command that is run for one that a page shows; `None` for those of others.
fn run_as(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[0] {
        "cargo" if words[1] == "run" => {
            let package = words.iter().position(|word| *word == "-p").expect("a package to run") + 1;
            let rest = words.iter().position(|word| *word == "--").expect("-- before the program's own") + 1;
            Some(format!("{} {}", words[package], words[rest..].join(" ")))
        }
        "cargo" | "git" => None,
        _ => Some(command.to_owned()),
    }
}

/// Runs all commands of a page; says what is wrong with them, and how long each took.
fn check(page: &Path, commands: &[Shown]) -> (Vec<String>, f64) {
    let (scratch, begun, mut wrong) = (scratch(), std::time::Instant::now(), Vec::new());
    let has_calibrate = scratch.path().join("bin/calibrate").exists();
    for (index, shown) in commands.iter().enumerate() {
        let place = format!("{}:{}: {}", page.display(), shown.line, shown.command);
        let Some(command) = run_as(&shown.command).filter(|command| command != "echo $?") else { continue };
        if command.contains("calibrate ") && !has_calibrate {
            println!("skipped: no calibrate beside sim (cargo build -p calibrate): {place}");
            continue;
        }
        let is_run = shown.mark.is_empty();
        if !is_run && !command.starts_with("calibrate ") {
            continue;
        }
        let (code, stdout, stderr) = answer(&command, scratch.path());
        if !is_run {
            if code == 2 {
                wrong.push(format!("{place}\nis refused as wrong use:\n{stderr}"));
            }
            continue;
        }
        let next = commands.get(index + 1).filter(|next| next.command == "echo $?");
        let expected = next.map_or("0", |next| next.output.first().map_or("", String::as_str));
        if code.to_string() != expected {
            wrong.push(format!("{place}\nends with {code}, not {expected}:\n{stderr}"));
        }
        let printed: Vec<&str> = stdout.lines().collect();
        if !shown.output.is_empty() && !matches(&shown.output, &printed) {
            wrong.push(format!("{place}\nprints something else:\n{stdout}"));
        }
    }
    (wrong, begun.elapsed().as_secs_f64())
}

#[test]
fn every_command_runs_and_prints_what_its_page_shows() {
    let pages = pages();
    let commands: BTreeMap<&PathBuf, Vec<Shown>> = pages
        .iter()
        .map(|page| (page, commands(&fs::read_to_string(root().join(page)).expect("a readable page"))))
        .filter(|(_, commands)| !commands.is_empty())
        .collect();
    let of_readme = commands.iter().find(|(page, _)| page.as_path() == Path::new("README.md"));
    assert!(of_readme.is_some_and(|(_, commands)| commands.len() >= 5), "the README's commands are found");
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for (page, commands) in &commands {
            let wrong = &wrong;
            threads.spawn(move || {
                let (found, seconds) = check(page, commands);
                println!("{}: {} commands, {seconds:.1} s", page.display(), commands.len());
                wrong.lock().expect("no thread failed").extend(found);
            });
        }
    });
    let wrong = wrong.into_inner().expect("no thread failed");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// A block that is not `console` would not be run.
#[test]
fn commands_stand_in_blocks_that_are_run() {
    for page in pages() {
        for (line, info, lines) in blocks(&fs::read_to_string(root().join(&page)).expect("a readable page")) {
            let place = format!("{}:{line}", page.display());
            if let Some(mark) = info.strip_prefix("console") {
                assert!(["", " gpu", " terminal"].contains(&mark), "{place}: unknown mark{mark}");
                continue;
            }
            if ["text", "toml", "csv", "json", "jsonl"].iter().any(|kind| info.starts_with(kind)) {
                continue;
            }
            let command = lines.iter().find(|line| line.starts_with("sim ") || line.starts_with("calibrate "));
            assert_eq!(command, None, "{place}: a command in a block `{info}`; write it as console, behind `$ `");
        }
    }
}

/// Every link of a page to another one, or to a file, leads somewhere.
#[test]
fn links_lead_somewhere() {
    let mut links = 0;
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).expect("a readable page");
        let folder = page.parent().expect("a page is in a folder");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target) {
            if target.starts_with("http") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let linked = if file.is_empty() { page.clone() } else { folder.join(file) };
            let there = root().join(&linked);
            assert!(there.exists(), "{}: no {target}", page.display());
            if !heading.is_empty() {
                let headings = anchors(&fs::read_to_string(there).expect("a readable page"));
                assert!(headings.iter().any(|known| known == heading), "{}: no {target}", page.display());
            }
            links += 1;
        }
    }
    assert!(links > 20, "{links} links");
}

/// What headings are called in links: lower case, words joined by hyphens, without punctuation.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let kept =
            heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
        kept.replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn shown_output_is_compared_line_by_line() {
    let page = "```console\n$ first \\\n>   and more\none\n...\nthree\n\n$ second\n```\n\n  ```console gpu\n  $ third\n  ```\n";
    let found = commands(page);
    let told: Vec<_> = found.iter().map(|shown| (shown.line, &*shown.command, &*shown.mark)).collect();
    assert_eq!(told, [(2, "first and more", ""), (8, "second", ""), (12, "third", "gpu")]);
    let shown = &found[0].output;
    assert_eq!(shown, &["one", "...", "three"]);
    for (printed, expected) in [
        (&["one", "three"][..], true),
        (&["one", "two", "2", "three "], true),
        (&["one", "three", "four"], false),
        (&["zero", "one", "three"], false),
        (&["one", "two"], false),
        (&[], false),
    ] {
        assert_eq!(matches(shown, printed), expected, "{printed:?}");
    }
    assert_eq!(run_as("cargo run --release -p calibrate -- list").as_deref(), Some("calibrate list"));
    assert_eq!(run_as("cargo install --path sim"), None);
}
