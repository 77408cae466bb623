//! Counted quantities: newtypes, so that rows, tokens and requests cannot be swapped in a call.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! count {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

count!(
    /// Tokens of a request or a step.
    Tokens
);
count!(
    /// Rows that the model's matrix products run: tokens plus padding.
    Rows
);
count!(
    /// Requests of a step.
    Requests
);

/// A memory size in bytes. Displays in binary units, parses `"2GiB"`, `"512 MiB"`, `"1024"`-less suffixes excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);
