//! The loader, against what this machine has.

use super::*;
use crate::device::search::{first, load};

/// The library that the environment names: half a gigabyte is not loaded because it happens to be there.
fn named() -> Option<(PathBuf, HostTree)> {
    let tree = HostTree::of_this_machine();
    let named = tree.variable(WANTED.variable).filter(|name| *name != "none").map(PathBuf::from);
    if named.is_none() {
        eprintln!("skipped: no cuBLASLt (RUNGWISE_CUBLASLT names one)");
    }
    named.map(|named| (named, tree))
}

#[test]
fn a_library_that_cannot_make_a_handle_is_passed_over_with_its_reason() {
    let Some((named, tree)) = named() else { return };
    match first(&WANTED, Some(&named), &tree, |file| Opened::load(file).map_err(|error| error.to_string())) {
        Err(tried) => {
            // Without a GPU the library loads, and refuses a handle.
            assert!(tried[0].why.starts_with("cublasLtCreate: 1, CUBLAS_STATUS_NOT_INITIALIZED"), "{}", tried[0]);
        }
        Ok(opened) => {
            // SAFETY: the handle was created by this library, and is not used again.
            unsafe { opened.functions.destroy(opened.handle) }.expect("its own handle");
        }
    }
}

#[test]
fn the_librarys_own_checks_take_every_attribute() {
    let Some((named, tree)) = named() else { return };
    // Descriptions need no GPU; setting an attribute checks its number and its size.
    let functions = first(&WANTED, Some(&named), &tree, |file| {
        let library = load(file)?;
        let functions = Functions::resolve(&library)?;
        std::mem::forget(library);
        Ok(functions)
    });
    let functions = functions.unwrap_or_else(|tried| panic!("{}", tried[0]));
    plan::tests::describe_and_drop(functions);
    assert!(functions.version_text().starts_with('1'), "{}", functions.version_text());
}
