//! CUDA versions, and the oldest that will do.

use std::fmt;

/// A CUDA version, as a driver counts: 12.0 is 12000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub i32);

impl Version {
    /// Its first number: code made for another one is not taken.
    pub fn major(self) -> i32 {
        self.0 / 1000
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// The oldest driver that will do: PTX 8.0 and `cuGraphInstantiateWithParams` came with CUDA 12.0.
pub(super) const FLOOR: Version = Version(12_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_people_write_them() {
        assert_eq!([12_000, 12_040, 13_010].map(|it| Version(it).to_string()), ["12.0", "12.4", "13.1"]);
        assert!(Version(11_080) < FLOOR && Version(12_000) >= FLOOR && Version(13_000) >= FLOOR);
    }
}
