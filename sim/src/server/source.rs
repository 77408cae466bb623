//! Who sends the next request.

use std::collections::VecDeque;

use super::error::ServerError;
use crate::time::SimTime;
use crate::traffic::{Request, RequestStream};

/// Who comes next: the next request of an open stream, or the clients of a closed loop.
pub(super) struct Source {
    pub(super) stream: RequestStream,
    next: Option<Request>,
    /// Closed loop: clients that will send their next request, in order of time.
    clients: Option<VecDeque<SimTime>>,
}

impl Source {
    pub(super) fn open(stream: RequestStream) -> Result<Self, ServerError> {
        let clients = stream.concurrency().map(|clients| VecDeque::from(vec![SimTime::ZERO; clients as usize]));
        let mut source = Self { stream, next: None, clients };
        source.refill()?;
        Ok(source)
    }

    /// Makes sure that `next` holds the next request, if there is one.
    fn refill(&mut self) -> Result<(), ServerError> {
        if self.next.is_some() {
            return Ok(());
        }
        match &mut self.clients {
            None => self.next = self.stream.next().transpose()?,
            Some(clients) => {
                if let Some(arrival) = clients.pop_front() {
                    self.next = self.stream.next_at(arrival).transpose()?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn next_arrival(&self) -> Option<SimTime> {
        self.next.as_ref().map(|request| request.arrival)
    }

    pub(super) fn take_due(&mut self, now: SimTime) -> Result<Option<Request>, ServerError> {
        if self.next.as_ref().is_none_or(|request| request.arrival > now) {
            return Ok(None);
        }
        let due = self.next.take();
        self.refill()?;
        Ok(due)
    }

    /// Whether somebody sends the next request when one leaves the server.
    pub(super) fn awaits_requests(&self) -> bool {
        self.clients.is_some()
    }

    /// A request left the server: its closed-loop client sends the next one at once.
    pub(super) fn request_done(&mut self, at: SimTime) -> Result<(), ServerError> {
        if let Some(clients) = &mut self.clients {
            clients.push_back(at);
            self.refill()?;
        }
        Ok(())
    }
}
