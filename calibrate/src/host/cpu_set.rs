//! Sets of CPUs, as the kernel writes them: `0-15,32-47`.

use std::collections::BTreeSet;
use std::fmt;

use crate::reading::{NotAvailable, Reading};

/// No machine has more; a larger number is a mistake and would fill memory.
const CPU_MAX: u32 = 65_535;

/// Some CPUs. Displays as the kernel writes lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each CPU, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The CPUs of both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for cpu in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        let shown =
            |(first, last): (u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
        f.pad(&ranges.into_iter().map(shown).collect::<Vec<_>>().join(","))
    }
}

/// Reads a list as the kernel writes it. An empty list is an empty set.
pub(super) fn parse(list: &str) -> Reading<CpuSet> {
    let mut cpus = BTreeSet::new();
    for range in list.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bounds = first.trim().parse::<u32>().ok().zip(last.trim().parse::<u32>().ok());
        let bounds = bounds.filter(|(first, last)| first <= last && *last <= CPU_MAX);
        let (first, last) = bounds.ok_or_else(|| NotAvailable(format!("{list:?} is no list of CPUs")))?;
        cpus.extend(first..=last);
    }
    Ok(CpuSet(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for list in ["", "0", "0-3", "0-15,32-47", "1,3,5-6"] {
            assert_eq!(parse(list).unwrap().to_string(), list);
        }
        assert_eq!(parse("0-1,2,3\n").unwrap().to_string(), "0-3");
        assert_eq!(parse("0-3").unwrap().and(&parse("2-9").unwrap()).to_string(), "2-3");
        for bad in ["x", "3-1", "0-99999999", "1-2-3", "-1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
