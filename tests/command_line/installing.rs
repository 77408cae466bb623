//! `sim completions` and `sim manual`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{generated, sim};

/// What a program makes of a text on its standard input; `None` where the machine does not have it.
fn through(program: &str, arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped: no {program}");
        return None;
    };
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads all");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Some((output.status.success(), text))
}

#[test]
fn completions_offer_commands_options_and_values() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = sim(&["completions", shell]).done();
        for offered in ["propose", "graph-memory", "seeds"] {
            assert!(script.contains(offered), "{shell}: {offered}");
        }
        // Whether the shell itself can read it; PowerShell and Elvish would run it.
        let check = match shell {
            "bash" | "zsh" => through(shell, &["-n"], &script),
            "fish" => through(shell, &["--no-execute"], &script),
            _ => None,
        };
        if let Some(found) = check {
            assert_eq!(found, (true, String::new()), "{shell}");
        }
    }
    assert!(sim(&["completions", "tcsh"]).refused(2).contains("possible values: bash, elvish, fish"));
}

/// What bash offers behind the words of a line.
#[test]
fn bash_completes_with_the_script() {
    let script = sim(&["completions", "bash"]).done();
    let ask = r#"COMP_WORDS=(sim ladder --prof); COMP_CWORD=2; _sim sim --prof ladder; echo "${COMPREPLY[@]}"
                 COMP_WORDS=(sim run --format ""); COMP_CWORD=3; _sim sim "" --format; echo "${COMPREPLY[@]}""#;
    if let Some(found) = through("bash", &[], &format!("{script}\n{ask}\n")) {
        assert_eq!(found, (true, "--profile\ntext json csv\n".to_owned()));
    }
}

#[test]
fn manual_pages_are_written_and_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let man1 = folder.path().join("man/man1");
    let named = man1.to_str().expect("the path is text");
    let whole = sim(&["--help"]).done();
    let commands = generated::commands(&whole);
    assert!(commands.contains(&"run") && commands.contains(&"manual"), "{commands:?}");
    let said = format!("{} pages in {named}\n", commands.len() + 1);
    for _ in ["new", "over the old ones"] {
        assert_eq!(sim(&["manual", "--out", named]).done(), said);
    }
    let pages: Vec<String> =
        commands.iter().map(|command| format!("sim-{command}.1")).chain(["sim.1".to_owned()]).collect();
    assert_eq!(fs::read_dir(&man1).expect("the folder was made").count(), pages.len());
    for page in &pages {
        let text = fs::read_to_string(man1.join(page)).expect("a page for every command");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
            assert!(text.contains(&format!(".SH {section}\n")), "{page}: no {section}");
        }
        // As `man` shows it: no warning, and examples in lines of their own.
        if let Some((is_read, shown)) = through("groff", &["-man", "-Tutf8", "-ww", "-P-cbou"], &text) {
            assert!(is_read && !shown.contains("troff:"), "{page}: {shown}");
        }
    }
    let run = fs::read_to_string(man1.join("sim-run.1")).expect("the page of sim run");
    assert!(run.contains(".SH EXAMPLES\n.nf\n  sim run scenarios/chunked.toml\n"), "{run}");
}

#[test]
fn a_manual_without_a_place_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let taken = folder.path().join("taken");
    fs::write(&taken, "a file").expect("writable");
    let path = |path: &Path| path.to_str().expect("the path is text").to_owned();
    assert!(sim(&["manual", "--out", &path(&taken)]).refused(1).contains("cannot create "));
    assert!(sim(&["manual", "--out", &path(&taken.join("below"))]).refused(1).contains("cannot create "));
    assert_eq!(fs::read_to_string(&taken).expect("still there"), "a file");
    assert!(sim(&["manual"]).refused(2).contains("--out <DIR>"));
}
