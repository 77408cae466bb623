//! Every case of `kernels::check`, in several orders of threads and blocks.

use std::collections::BTreeMap;
use std::time::Instant;

use kernels::check::{Case, Margin, Size, cases};

use crate::compiler;
use crate::executor::{Executor, Library};

/// Orders of threads and blocks: ascending, descending, two shuffles. Bugs in barriers may show in one of them only.
pub(crate) const ORDERS: [u32; 4] = [0, 1, 2, 3];

/// The cases that the CPU can run.
pub(crate) fn quick() -> Vec<Case> {
    cases().into_iter().filter(|case| case.size == Size::Quick).collect()
}

/// Runs `cases` in one order; gives what failed, and the margins of the rest.
fn run(library: &Library, cases: &[Case], order: u32) -> (Vec<String>, BTreeMap<&'static str, (usize, Margin)>) {
    let (mut failed, mut margins) = (Vec::new(), BTreeMap::new());
    for case in cases {
        match case.run(&mut Executor::new(library, order)) {
            Ok(margin) => {
                let (count, worst): &mut (usize, Margin) = margins.entry(case.kernels[0].symbol()).or_default();
                (*count, *worst) = (*count + 1, worst.worse(margin));
            }
            Err(error) => failed.push(format!("order {order}, {}: {error}", case.name)),
        }
    }
    (failed, margins)
}

#[test]
fn every_case_holds_in_every_order() {
    let libraries: Vec<Library> = ORDERS.iter().map_while(|_| compiler::executor()).collect();
    if libraries.is_empty() {
        return;
    }
    let cases = quick();
    let began = Instant::now();
    let results: Vec<_> = std::thread::scope(|scope| {
        let cases = &cases;
        let start = |(order, library)| scope.spawn(move || run(library, cases, order));
        let threads: Vec<_> = ORDERS.into_iter().zip(&libraries).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut worst: BTreeMap<&str, (usize, Margin)> = BTreeMap::new();
    for (symbol, (count, margin)) in results.iter().flat_map(|(_, margins)| margins) {
        let (known, so_far) = worst.entry(symbol).or_default();
        (*known, *so_far) = ((*known).max(*count), so_far.worse(*margin));
    }
    println!("{} cases in {} orders, {:.1} s", cases.len(), ORDERS.len(), began.elapsed().as_secs_f64());
    println!("{:<30} {:>6} {:>14} {:>14}", "kernel", "cases", "relative norm", "worst element");
    for (symbol, (count, Margin { relative_norm, element })) in worst {
        println!("{symbol:<30} {count:>6} {relative_norm:>14.2e} {element:>14.2e}");
    }
    let failed: Vec<_> = results.into_iter().flat_map(|(failed, _)| failed).collect();
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// Minutes: for whoever changes these cases, which otherwise run on a GPU only.
#[test]
#[ignore = "minutes on the CPU; run it with --release"]
fn every_full_case_holds() {
    let Some(library) = compiler::executor() else { return };
    for case in cases().into_iter().filter(|case| case.size == Size::Full) {
        let began = Instant::now();
        let margin = case.run(&mut Executor::new(&library, 2)).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        println!("{:<100} {:.1} s {margin:?}", case.name, began.elapsed().as_secs_f64());
    }
}
