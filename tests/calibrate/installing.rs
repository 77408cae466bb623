//! `calibrate completions` and `manual`, and the guide's page of all commands.

use std::fs;
use std::path::Path;

use super::{calibrate, generated, help, text};

#[test]
fn the_guide_has_the_help_of_every_command() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/guide/calibrate.md");
    let head = "What `--help` says of each. This page is generated; a test compares it with the program.";
    generated::is_current(&page, &generated::command_page("calibrate", head, help));
}

#[test]
fn completions_offer_commands_and_options_but_no_hidden_ones() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = calibrate(&["completions", shell]);
        assert_eq!((script.status.code(), text(&script.stderr)), (Some(0), ""), "{shell}");
        let script = text(&script.stdout);
        for offered in ["device", "tp-shard", "show", "replay"] {
            assert!(script.contains(offered), "{shell}: {offered}");
        }
        assert!(!script.contains("misuse"), "{shell}");
    }
    assert_eq!(calibrate(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let man1 = folder.path().join("man/man1");
    let done = calibrate(&["manual", "--out", man1.to_str().expect("the path is text")]);
    assert_eq!((done.status.code(), text(&done.stderr)), (Some(0), ""));
    let whole = help(&[]);
    let expected = generated::commands(&whole);
    assert_eq!(fs::read_dir(&man1).expect("the folder was made").count(), expected.len() + 1);
    let page = |name: &str| fs::read_to_string(man1.join(name)).expect("a page");
    assert!(page("calibrate.1").contains(".SH \"EXIT CODES\"\n.nf\n  0  everything asked for was done\n"));
    for command in expected {
        let page = page(&format!("calibrate-{command}.1"));
        assert!(page.contains(&format!("\n.TH calibrate-{command} 1 ")), "{page}");
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH OPTIONS"), "{page}");
    }
    let taken = folder.path().join("taken");
    fs::write(&taken, "a file").expect("writable");
    let refused = calibrate(&["manual", "--out", taken.to_str().expect("the path is text")]);
    assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(1), ""));
    assert!(text(&refused.stderr).starts_with("error: cannot write "), "{}", text(&refused.stderr));
}
