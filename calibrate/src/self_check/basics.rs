//! Driver functions, the kernels' code, and what of the driver a step does not use but measuring does: mapped memory, events,
//! updates of executables.

use kernels::launch::{Address, Clocks, Copy, Gate, Kernel, Null, ShapeError};
use kernels::units::Bytes;

use super::Stopped;
use super::finding::{Cause, Finding, Report};
use crate::device::{DeviceError, Library, Session, symbols};

/// Which functions the driver has, and what is lost without those that it has not.
pub(super) fn functions(library: &Library) -> Finding {
    let (count, missing) = (symbols().count(), library.missing());
    let lost = missing
        .iter()
        .map(|symbol| format!("\n{} is missing: {}", symbol.name, symbol.lost.unwrap_or("calibrate needs it")));
    let figure = format!("{} of {count}{}", count - missing.len(), lost.collect::<String>());
    Finding::ok("driver functions", figure)
}

/// What the driver made of the kernels' code.
pub(super) fn code(session: &Session) -> Finding {
    const NAME: &str = "kernels load";
    let mut registers = 0;
    let mut spilling = Vec::new();
    for &kernel in Kernel::ALL {
        match session.usage(kernel) {
            Err(error) => return Finding::failed(NAME, &error),
            Ok(usage) => {
                registers = usage.registers.max(registers);
                if usage.local_bytes > 0 {
                    spilling.push(format!(
                        "\n{} has {} bytes of local memory a thread",
                        kernel.symbol(),
                        usage.local_bytes
                    ));
                }
            }
        }
    }
    let count = Kernel::ALL.len();
    Finding::ok(NAME, format!("{count} kernels, at most {registers} registers a thread{}", spilling.concat()))
}

/// Why a basic check failed.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Shape(#[from] ShapeError),
    #[error("{what} is {got}: expected {want}")]
    Unequal { what: &'static str, got: String, want: String },
    #[error("free memory moves, from {} to {}: another process computes here", .0[0], .0[1])]
    Moving([Bytes; 2]),
}

impl Cause for Failed {
    fn device(&self) -> Option<&DeviceError> {
        match self {
            Self::Device(error) => Some(error),
            _ => None,
        }
    }
}

fn equal<T: PartialEq + std::fmt::Display>(what: &'static str, got: &T, want: &T) -> Result<(), Failed> {
    if got == want {
        return Ok(());
    }
    Err(Failed::Unequal { what, got: got.to_string(), want: want.to_string() })
}

/// Runs the checks; true if the context is lost.
pub(super) fn run(session: &mut Session, report: &mut Report<'_>) -> Result<bool, Stopped> {
    type Check = fn(&mut Session) -> Result<String, Failed>;
    let checks: [(&str, Check); 6] = [
        ("free memory falls by what is allocated", memory),
        ("mapped memory opens a gate", gate),
        ("work queues up behind a gate", queue),
        ("events around a kernel", events),
        ("cycles and timer of the device agree", clocks),
        ("an executable takes over another graph", update),
    ];
    for (name, check) in checks {
        let result = check(session);
        if let Err(error @ Failed::Moving(_)) = &result {
            report.add(Finding::not_available(name, error.to_string()))?;
        } else if report.conclude(name, result)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Free memory falls by what is allocated: what the growth of a pool is measured by.
fn memory(session: &mut Session) -> Result<String, Failed> {
    const ASKED: Bytes = Bytes(64 << 20);
    // Drivers round up, as a rule to 2 MiB; no driver has confirmed it yet.
    const ROUNDING: Bytes = Bytes(32 << 20);
    session.synchronize()?;
    let before = session.memory()?.0;
    let is_still = |session: &mut Session| match session.memory()?.0 {
        again if again == before => Ok(()),
        again => Err(Failed::Moving([before, again])),
    };
    for _ in 0..4 {
        is_still(session)?;
    }
    let arena = session.arena();
    arena.allocate(ASKED.0)?;
    let taken = Bytes(before.0.saturating_sub(session.memory()?.0.0));
    drop(arena);
    if !(ASKED..=Bytes(ASKED.0 + ROUNDING.0)).contains(&taken) {
        is_still(session)?;
        return Err(Failed::Unequal {
            what: "what free memory fell by",
            got: taken.to_string(),
            want: ASKED.to_string(),
        });
    }
    Ok(format!("{ASKED} allocated, {taken} less free"))
}

/// The device sees what the host wrote into mapped memory.
fn gate(session: &mut Session) -> Result<String, Failed> {
    let flag = session.mapped_word()?;
    flag.set(1);
    let memory = session.arena();
    let outcome = memory.allocate(4)?;
    session.fill(outcome, 0, 4)?;
    session.launch(&Gate { flag: flag.address(), outcome, timeout_ns: 100_000_000 }.alone()?)?;
    let mut word = [0; 4];
    session.read(outcome, &mut word)?;
    equal("the gate's outcome", &u32::from_le_bytes(word), &1)?;
    Ok("released by the host".into())
}

/// The host never waits for a place while as much is queued up as is timed at once: it could not open the gate.
fn queue(session: &mut Session) -> Result<String, Failed> {
    /// Of some 1,000 launches that a queue holds (GPU specification section 4).
    const LAUNCHES: u32 = 480;
    const REPLAYS: u32 = 32;
    let null = Null {}.alone()?;
    let mut capture = session.capture([])?;
    for _ in 0..LAUNCHES {
        capture.launch(&null)?;
    }
    let (session, graph) = capture.end();
    let executable = session.instantiate(&graph?)?;
    session.upload(&executable)?;
    let (flag, outcome) = (session.mapped_word()?, session.mapped_word()?);
    let gate = Gate { flag: flag.address(), outcome: outcome.address(), timeout_ns: 500_000_000 }.alone()?;
    let mut behind_gate = |what, work: &dyn Fn(&mut Session) -> Result<(), DeviceError>| {
        flag.set(0);
        outcome.set(0);
        session.launch(&gate)?;
        let queued = work(session);
        flag.set(1);
        queued?;
        session.synchronize()?;
        let got = match outcome.get() {
            1 => return Ok(()),
            2 => "by its time-out: the host waited for a place in the queue".to_owned(),
            other => format!("with outcome {other}"),
        };
        Err(Failed::Unequal { what, got, want: "by the host".into() })
    };
    behind_gate("how a gate before launches opened", &|session| (0..LAUNCHES).try_for_each(|_| session.launch(&null)))?;
    behind_gate("how a gate before replays opened", &|session| {
        (0..REPLAYS).try_for_each(|_| session.replay(&executable))
    })?;
    Ok(format!("{LAUNCHES} launches; {REPLAYS} replays of {LAUNCHES} kernels"))
}

/// Time between events goes forward.
fn events(session: &mut Session) -> Result<String, Failed> {
    let (start, end) = (session.event()?, session.event()?);
    let null = Null {}.alone()?;
    session.launch(&null)?;
    session.record(&start)?;
    session.launch(&null)?;
    session.record(&end)?;
    let us = session.elapsed_us(&start, &end)?;
    // Somebody else's work may come between, but not a second of it.
    if us > 0.0 && us < 1e6 {
        return Ok(format!("{us:.1} us"));
    }
    let (got, want) = (format!("{us} us"), "more than 0, less than 1 s".into());
    Err(Failed::Unequal { what: "the time between the events", got, want })
}

/// Cycles of a multiprocessor per time of the device's timer are a clock that a GPU can have. Long enough that the steps of
/// a coarse timer do not count.
fn clocks(session: &mut Session) -> Result<String, Failed> {
    const CYCLES: u64 = 20_000_000;
    let memory = session.arena();
    let out = memory.allocate(32)?;
    session.launch(&Clocks { out, cycles: CYCLES }.alone()?)?;
    let mut bytes = [0; 32];
    session.read(out, &mut bytes)?;
    let reading = |index: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[index * size_of::<u64>() + byte]));
    // Cycles and nanoseconds before, cycles and nanoseconds after.
    let [cycles, ns] = [0, 1].map(|clock| reading(2 + clock).saturating_sub(reading(clock)));
    let mhz = cycles as f64 / ns as f64 * 1e3;
    if (100.0..=10_000.0).contains(&mhz) {
        return Ok(format!("{mhz:.0} MHz"));
    }
    let (got, want) = (format!("{cycles} cycles in {ns} ns"), "100 to 10,000 MHz".into());
    Err(Failed::Unequal { what: "the clock", got, want })
}

/// An executable whose graph is replaced by one with other parameters does what the other does.
fn update(session: &mut Session) -> Result<String, Failed> {
    const BYTES: usize = 64;
    let memory = session.arena();
    let sources = [memory.allocate(BYTES as u64)?, memory.allocate(BYTES as u64)?];
    let to = memory.allocate(BYTES as u64)?;
    for (&source, value) in sources.iter().zip([0x11, 0x22]) {
        session.write(source, &[value; BYTES])?;
    }
    let copy = |from: Address| Copy { to, from, vectors: BYTES as u64 / 16 }.by(1);
    session.launch(&copy(sources[0])?)?;
    let mut graphs = Vec::new();
    for source in sources {
        let launch = copy(source)?;
        let mut capture = session.capture([memory.clone()])?;
        capture.launch(&launch)?;
        graphs.push(capture.end().1?);
    }
    equal("the number of the graph's nodes", &graphs[0].nodes(), &1)?;
    equal("the number of its edges", &graphs[0].edges()?.unwrap_or(0), &0)?;
    if let Some(kernels) = graphs[0].kernels()? {
        let named: Vec<String> = kernels.iter().map(|(name, count)| format!("{count} of {name}")).collect();
        equal("the kernels of the graph", &named.join(", "), &format!("1 of {}", Kernel::Copy.symbol()))?;
    }
    let mut executable = session.instantiate(&graphs[0])?;
    let mut result = [0; BYTES];
    for (graph, value) in graphs.iter().zip([0x11, 0x22]) {
        session.update(&mut executable, graph)?;
        session.upload(&executable)?;
        session.replay(&executable)?;
        session.read(to, &mut result)?;
        equal("the last byte that the updated graph copied", &result[BYTES - 1], &value)?;
    }
    Ok("other parameters, same kernels".into())
}
