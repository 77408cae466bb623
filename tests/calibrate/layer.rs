//! What the device layer promises beside what the commands show: each test runs once more, in a process of its own whose
//! driver is the double.

use std::borrow::Cow;
use std::process::Command;
use std::rc::Rc;

use calibrate::device::{Arena, Card, DeviceError, Executable, Image, Images, Library, Session};
use kernels::launch::{Address, Copy, Launch, Module};

use crate::double::Double;

/// Set in that process.
const INSIDE: &str = "RUNGWISE_TEST_INSIDE";

/// Bytes of every buffer.
const BYTES: u64 = 64;

/// Whether this is the process with the double. Where it is not, it is started, must pass, and must not break a rule or
/// leak.
fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().expect("a test knows its file"));
    command.args([&format!("layer::{test}"), "--exact", "--test-threads=1"]);
    let run = Double::driver().run(command, &[(INSIDE, "1"), ("CUDA_MODULE_LOADING", "EAGER")]);
    assert_eq!(run.code(), Some(0), "{}{}", run.stdout(), run.stderr());
    assert!(run.stdout().contains("1 passed"), "{}", run.stdout());
    assert_eq!(run.complaints(), [""; 0]);
    false
}

fn card() -> Card {
    let library = Library::open().expect("the double is there");
    assert!(library.double_version().is_some(), "this is no double");
    Card::at(library, 0).expect("the double shows a device")
}

fn session() -> Session {
    Session::open(card(), |module| Images::Embedded.of(module)).expect("the double takes the kernels")
}

/// A copy inside an arena of its own.
fn copy(session: &Session) -> (Rc<Arena>, Launch) {
    let memory = session.arena();
    let [to, from]: [Address; 2] = [(), ()].map(|()| memory.allocate(BYTES).expect("there is room"));
    (memory, Copy { to, from, vectors: BYTES / 16 }.by(1).expect("a copy of four vectors"))
}

/// A graph of one copy, executable; the graph and the arena are gone.
fn executable(session: &mut Session) -> Executable {
    let (memory, launch) = copy(session);
    let mut capture = session.capture([memory]).expect("nothing captures");
    capture.launch(&launch).expect("a launch can be captured");
    let (session, graph) = capture.end();
    session.instantiate(&graph.expect("nothing spoilt it")).expect("it is one kernel")
}

#[test]
fn what_is_dropped_during_a_capture_is_given_back_behind_it() {
    if !is_inside("what_is_dropped_during_a_capture_is_given_back_behind_it") {
        return;
    }
    let mut session = session();
    let (memory, launch) = copy(&session);
    let (dropped, event, word) = (copy(&session).0, session.event().unwrap(), session.mapped_word().unwrap());
    let executable = executable(&mut session);
    let mut capture = session.capture([memory]).unwrap();
    capture.launch(&launch).unwrap();
    drop((dropped, event, word, executable));
    capture.launch(&launch).unwrap();
    let (_, graph) = capture.end();
    assert_eq!(graph.unwrap().nodes(), 2);
    session.close().unwrap();
}

#[test]
fn a_capture_that_is_given_up_is_ended_and_its_graph_goes() {
    if !is_inside("a_capture_that_is_given_up_is_ended_and_its_graph_goes") {
        return;
    }
    let mut session = session();
    let (memory, launch) = copy(&session);
    let mut capture = session.capture([Rc::clone(&memory)]).unwrap();
    capture.launch(&launch).unwrap();
    drop(capture);
    // All of it is illegal while the stream captures.
    session.launch(&launch).unwrap();
    session.synchronize().unwrap();
    drop(executable(&mut session));
    drop(memory);
    session.close().unwrap();
}

#[test]
fn an_executable_holds_the_memory_that_it_replays() {
    if !is_inside("an_executable_holds_the_memory_that_it_replays") {
        return;
    }
    let mut session = session();
    let mut executable = executable(&mut session);
    session.replay(&executable).unwrap();
    session.synchronize().unwrap();
    // The same after it has taken over another graph, of other memory.
    let (memory, launch) = copy(&session);
    let mut capture = session.capture([memory]).unwrap();
    capture.launch(&launch).unwrap();
    let graph = capture.end().1.unwrap();
    session.update(&mut executable, &graph).unwrap();
    drop(graph);
    session.replay(&executable).unwrap();
    session.synchronize().unwrap();
    drop(executable);
    session.close().unwrap();
}

/// Parameters of a kernel in the module that are not those of the table.
#[test]
fn a_module_with_other_parameters_is_refused() {
    if !is_inside("a_module_with_other_parameters_is_refused") {
        return;
    }
    let refused = |from: &str, to: &str| {
        let image = |module: Module| {
            assert!(module != Module::Decoder || module.ptx().contains(from), "the text has changed");
            let text =
                if module == Module::Decoder { module.ptx().replacen(from, to, 1) } else { module.ptx().to_owned() };
            Image::Ptx(Cow::Owned(text))
        };
        match Session::open(card(), image) {
            Err(error @ DeviceError::Parameter { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let last = ".param .u32 embed_bf16_param_4\n";
    insta::assert_snapshot!(
        refused(".param .u32 embed_bf16_param_3", ".param .u64 embed_bf16_param_3"),
        @"kernel embed_bf16: parameter 3 (hidden) has 8 bytes at 24 in the module: expected 4 at 24"
    );
    insta::assert_snapshot!(
        refused(&format!(".param .u32 embed_bf16_param_3,\n\t{last}"), ".param .u32 embed_bf16_param_3\n"),
        @"kernel embed_bf16: parameter 4 (table_rows) is missing in the module"
    );
    insta::assert_snapshot!(
        refused(last, &format!("{},\n\t.param .u32 embed_bf16_param_5\n", last.trim_end())),
        @"kernel embed_bf16: parameter 5 is in the module, and calibrate knows 5 parameters"
    );
}
