//! The `calibrate` binary.
fn main() -> std::process::ExitCode {
    calibrate::run(std::env::args_os()).into()
}
