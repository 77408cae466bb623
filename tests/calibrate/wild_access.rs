//! Kernels that leave their memory: the double says which, and the process does not go on.

use std::fs;

use crate::double::{Double, compiled};

/// An executor whose every kernel writes on and on from its first argument.
const RUNAWAY: &str = r#"
#include <cstddef>
#include <cstring>
extern "C" int rungwise_cpu_launch(const char *, const unsigned *, const unsigned *, unsigned, const unsigned char *arguments,
                                   size_t argument_bytes, unsigned, char *, size_t) {
    volatile char *at = nullptr;
    if (argument_bytes < sizeof at) return 0;
    std::memcpy(&at, arguments, sizeof at);
    for (;;) *at++ = 1;
}
"#;

#[test]
fn a_kernel_that_leaves_its_memory_is_named() {
    let double = Double::driver();
    let source = double.folder().join("runaway.cpp");
    fs::write(&source, RUNAWAY).expect("the folder can be written");
    let Some((_folder, executor)) = compiled(&source, double.folder()) else { return };
    let executor = executor.to_str().expect("the path is text");
    let run = double.calibrate(&["--self-check"], &[("RUNGWISE_DOUBLE_KERNELS", executor)]);
    assert_eq!(run.code(), None, "a signal ends it");
    let told = "embed_bf16: the kernel touched memory outside every allocation";
    assert_eq!(run.stderr(), format!("driver double: {told}\n"));
    assert_eq!(run.complaints(), [format!("violation: {told}")]);
}
