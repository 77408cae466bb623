//! What the user types, read on a thread of its own.
//!
//! Whoever reads a terminal that is gone may never come back: there is always nothing to read at once, and crossterm tries
//! again. So nobody waits for this thread, and the display looks at its signals whatever becomes of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};

/// How often the thread looks whether it is still wanted: what is typed later is not for the view.
const WAKE: Duration = Duration::from_millis(50);

/// The events of the terminal until this is dropped.
#[derive(Debug)]
pub(super) struct Keyboard {
    events: Receiver<io::Result<Event>>,
    closed: Arc<AtomicBool>,
}

impl Keyboard {
    /// Starts to listen.
    ///
    /// # Errors
    /// If there can be no further thread.
    pub(super) fn open() -> io::Result<Self> {
        let (sender, events) = channel();
        let closed = Arc::new(AtomicBool::new(false));
        let until = closed.clone();
        thread::Builder::new().name("keyboard".to_owned()).spawn(move || listen(&sender, &until))?;
        Ok(Self { events, closed })
    }

    /// The next event; waits for it no longer than `patience`.
    ///
    /// # Errors
    /// If the terminal cannot be read.
    pub(super) fn next(&self, patience: Duration) -> io::Result<Option<Event>> {
        match self.events.recv_timeout(patience) {
            Ok(event) => event.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("nobody listens to the keyboard any more")),
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

/// Sends what is typed, until nobody wants it or there is a failure, which is sent too.
fn listen(events: &Sender<io::Result<Event>>, closed: &AtomicBool) {
    while !closed.load(Ordering::SeqCst) {
        let event = match event::poll(WAKE) {
            Ok(true) => event::read(),
            Ok(false) => continue,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = event.is_err();
        if events.send(event).is_err() || failed {
            return;
        }
    }
}
