//! Every fault of `tests/invalid`, with the whole message.

use super::{Answer, root, sim};

/// `sim check` refuses what the scenario says; only what is inside a trace is left to `sim run`.
#[test]
fn each_invalid_file_is_refused_with_its_message() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../invalid/snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        insta::glob!("../invalid", "*.toml", |path| {
            let file = format!("tests/invalid/{}", path.file_name().expect("a file").to_string_lossy());
            let (command, answer) = first_refusal(&file);
            let message = answer.refused(3);
            assert!(!message.contains('\u{1b}'), "no colours, and no escape sequence out of a file: {message}");
            assert!(!message.contains(&*root().to_string_lossy()), "the paths are those given: {message}");
            insta::assert_snapshot!("message", format!("$ sim {command} {file}\n{message}"));
        });
    });
}

fn first_refusal(file: &str) -> (&'static str, Answer) {
    match sim(&["check", file]) {
        Answer { code: Some(0), .. } => ("run", sim(&["run", file])),
        refused => ("check", refused),
    }
}

/// Where no event loop is needed either, the other commands say the same.
#[test]
fn every_command_refuses_alike() {
    let file = "tests/invalid/unknown_key.toml";
    let message = sim(&["check", file]).refused(3);
    for command in ["run", "price", "ladder", "startup"] {
        assert_eq!(sim(&[command, file]).refused(3), message, "{command}");
    }
    assert_eq!(sim(&["explain", "--decodes", "1", "--scenario", file]).refused(3), message);
}
