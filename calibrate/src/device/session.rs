//! One device in use: context, modules and the stream, and everything that may be asked of them.

use std::rc::Rc;

use kernels::launch::{Address, Kernel, Launch, Module};
use kernels::machine::Machine;
use kernels::units::Bytes;

use super::card::Card;
use super::clock::HostClock;
use super::context::Context;
use super::error::DeviceError;
use super::event::Event;
use super::executable::Executable;
use super::graph::Graph;
use super::launch::launch;
use super::memory::{Arena, MappedWord};
use super::module::{Image, Modules, Usage};
use super::stream::Stream;

/// A device in use, on one thread and one stream.
///
/// What would be illegal while the stream captures takes the session mutably, and [`Capture`](super::Capture) holds it: the
/// compiler refuses such calls.
#[derive(Debug)]
pub struct Session {
    // In the order of release.
    modules: Rc<Modules>,
    stream: Stream,
    context: Rc<Context>,
}

impl Session {
    /// Opens a device and loads the kernels' modules.
    ///
    /// # Errors
    /// The device cannot be taken, or a module cannot be loaded there.
    pub fn open<'a>(card: Card, image: impl Fn(Module) -> Image<'a>) -> Result<Self, DeviceError> {
        let context = Context::open(card)?;
        let stream = Stream::new(&context)?;
        let modules = Modules::load(&context, image)?;
        Ok(Self { modules, stream, context })
    }

    /// The device.
    pub fn card(&self) -> &Card {
        self.context.card()
    }

    /// Where host times are read.
    pub fn host_clock(&self) -> HostClock {
        self.card().library().host_clock()
    }

    /// What the driver says about a kernel's code.
    ///
    /// # Errors
    /// It refuses to tell.
    pub fn usage(&self, kernel: Kernel) -> Result<Usage, DeviceError> {
        self.modules.usage(kernel)
    }

    /// An arena of its own, whose memory is given back before the session ends.
    pub fn arena(&self) -> Rc<Arena> {
        Arena::new(&self.context)
    }

    /// A word of host memory that the device sees.
    ///
    /// # Errors
    /// The driver has none.
    pub fn mapped_word(&mut self) -> Result<MappedWord, DeviceError> {
        MappedWord::new(&self.context)
    }

    /// Free and total memory of the device, as the driver sees it: other processes move the first.
    ///
    /// # Errors
    /// The driver refuses to tell.
    pub fn memory(&mut self) -> Result<(Bytes, Bytes), DeviceError> {
        self.context.memory()
    }

    /// Waits for everything launched so far.
    ///
    /// # Errors
    /// Something launched failed.
    pub fn synchronize(&mut self) -> Result<(), DeviceError> {
        self.stream.synchronize()
    }

    /// A machine whose memory is given back with it.
    pub fn scratch(&mut self) -> Scratch<'_> {
        let arena = self.arena();
        Scratch { session: self, arena }
    }

    /// Launches a kernel after everything launched so far.
    ///
    /// # Errors
    /// The driver refuses it.
    pub fn launch(&mut self, given: &Launch) -> Result<(), DeviceError> {
        launch(&self.modules, &self.stream, given)
    }

    /// Copies to the device, after everything launched so far, and waits.
    ///
    /// # Errors
    /// A failure of the copy or of anything launched before it.
    pub fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        self.stream.write(to, bytes)
    }

    /// Copies from the device, after everything launched so far, and waits.
    ///
    /// # Errors
    /// A failure of the copy or of anything launched before it.
    pub fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.stream.read(from, bytes)
    }

    /// Fills memory with one byte, after everything launched so far.
    ///
    /// # Errors
    /// The range is not the caller's.
    pub fn fill(&mut self, to: Address, value: u8, bytes: u64) -> Result<(), DeviceError> {
        self.stream.fill(to, value, bytes)
    }

    /// An event, not recorded yet.
    ///
    /// # Errors
    /// The driver has none.
    pub fn event(&mut self) -> Result<Event, DeviceError> {
        Event::new(&self.context)
    }

    /// Records an event after everything launched so far.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn record(&mut self, event: &Event) -> Result<(), DeviceError> {
        event.record(&self.stream)
    }

    /// Device time between two recorded events, in microseconds; waits for the second.
    ///
    /// # Errors
    /// One was not recorded, or something before it failed.
    pub fn elapsed_us(&mut self, start: &Event, end: &Event) -> Result<f64, DeviceError> {
        end.wait()?;
        end.us_since(start)
    }

    /// Makes a graph executable.
    ///
    /// # Errors
    /// The driver refuses, and says why; or its memory is full.
    pub fn instantiate(&mut self, graph: &Graph) -> Result<Executable, DeviceError> {
        Executable::new(&self.context, graph)
    }

    /// Uploads an executable to the device, so that the first replay does not.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn upload(&mut self, executable: &Executable) -> Result<(), DeviceError> {
        executable.upload(&self.stream)
    }

    /// Replays an executable after everything launched so far.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn replay(&mut self, executable: &Executable) -> Result<(), DeviceError> {
        executable.launch(&self.stream)
    }

    /// Lets an executable take over another graph of the same topology.
    ///
    /// # Errors
    /// The graphs differ in more than parameters.
    pub fn update(&mut self, executable: &mut Executable, graph: &Graph) -> Result<(), DeviceError> {
        executable.update(graph)
    }

    /// Ends the session, and says whether everything was well to the end.
    ///
    /// # Errors
    /// Something launched failed, or something was not given back.
    pub fn close(self) -> Result<(), DeviceError> {
        self.context.synchronize()?;
        let context = Rc::clone(&self.context);
        drop(self);
        context.failed_release().map_or(Ok(()), |status| Err(status.into()))
    }

    pub(super) fn context(&self) -> &Rc<Context> {
        &self.context
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) fn modules(&self) -> &Rc<Modules> {
        &self.modules
    }
}

/// A session and memory that is given back with this value: a machine for what is tried and forgotten.
#[derive(Debug)]
pub struct Scratch<'session> {
    session: &'session mut Session,
    arena: Rc<Arena>,
}

impl Machine for Scratch<'_> {
    type Error = DeviceError;

    fn allocate(&mut self, bytes: u64) -> Result<Address, DeviceError> {
        self.arena.allocate(bytes)
    }

    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        self.session.write(to, bytes)
    }

    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.session.read(from, bytes)
    }

    fn launch(&mut self, given: &Launch) -> Result<(), DeviceError> {
        self.session.launch(given)
    }
}
