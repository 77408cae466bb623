//! A view of which rungs fire: live beside a simulation, or of a run that was recorded.
//!
//! ```text
//! simulation ─► live ─────┐                        ┌─► view ─► terminal
//!                         ├─► player ─► state ─────┤
//! steps.jsonl ► recording ┘      ▲                 └─ keys ─► action ─┐
//!                                └────────── update ◄─────────────────┘
//! ```
//!
//! [`fact`] is what both sources tell; [`player`] merges candidates by time and moves the clock; [`state`] is everything that
//! is shown and knows no terminal; [`view`] draws it and changes nothing; [`session`] runs it all, a thread for the player
//! and one for the display.

pub mod action;
pub mod fact;
pub mod live;
pub mod player;
pub mod recording;
pub mod session;
pub mod source;
pub mod speed;
pub mod state;
pub mod terminal;
pub mod view;

#[cfg(test)]
mod samples;
