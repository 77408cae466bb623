//! What a shell needs to complete a command line.

use clap::Command;
pub use clap_complete::Shell;

/// The script that completes `program` in `shell`. Commands and options that its help hides are not offered.
pub fn script(program: &'static str, command: &Command, shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(program, command), program, &mut script);
    script
}

/// The command line without hidden commands, which the generators would offer.
fn visible(program: &'static str, command: &Command) -> Command {
    Command::new(program)
        .version(env!("CARGO_PKG_VERSION"))
        .groups(command.get_groups().cloned())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgGroup, ValueEnum};

    use super::*;

    #[test]
    fn every_shell_is_offered_what_help_shows() {
        let command = Command::new("tool")
            .arg(Arg::new("device").long("device").conflicts_with("tasks"))
            .arg(Arg::new("list").long("list").group("tasks"))
            .group(ArgGroup::new("tasks"))
            .subcommand(Command::new("measure").arg(Arg::new("quick").long("quick")))
            .subcommand(Command::new("perform-misuse").hide(true));
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script("tool", &command, *shell)).expect("a script is text");
            for offered in ["tool", "device", "measure", "quick", "version"] {
                assert!(script.contains(offered), "{shell}: {offered}");
            }
            assert!(!script.contains("misuse"), "{shell}");
        }
    }
}
