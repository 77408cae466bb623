//! PCI addresses: how a card is found again in CUDA, NVML and sysfs, which number cards differently.

use std::fmt;
use std::str::FromStr;

/// Where a card sits: PCI domain, bus, device and function. Displays as sysfs names it: `0000:3b:00.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain, also called segment. NVML prints it with 8 digits, sysfs with 4 or more.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device on the bus, below 32.
    pub device: u8,
    /// Function of the device, below 8.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        f.pad(&format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
    }
}

/// A PCI address as somebody typed it: the domain may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PciName {
    /// Domain, if it was given.
    pub domain: Option<u32>,
    /// Bus.
    pub bus: u8,
    /// Device on the bus.
    pub device: u8,
    /// Function; 0 if it was left out.
    pub function: u8,
}

impl PciName {
    /// Whether this names the card at `address`. Without a domain it names the card of every domain.
    pub fn names(self, address: PciAddress) -> bool {
        self.domain.is_none_or(|domain| domain == address.domain)
            && (self.bus, self.device, self.function) == (address.bus, address.device, address.function)
    }
}

impl fmt::Display for PciName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = *self;
        match domain {
            Some(domain) => PciAddress { domain, bus, device, function }.fmt(f),
            None => f.pad(&format!("{bus:02x}:{device:02x}.{function:x}")),
        }
    }
}

/// The text is no PCI address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a PCI address such as 0000:3b:00.0 or 3b:00.0: hexadecimal domain, bus, device, function")]
pub struct NoPciAddress;

impl FromStr for PciName {
    type Err = NoPciAddress;

    /// Reads `domain:bus:device.function`, `domain:bus:device` and `bus:device.function`, the forms that
    /// `cuDeviceGetByPCIBusId` takes (CUDA driver API documentation), with as many digits as NVML or lspci print.
    fn from_str(text: &str) -> Result<Self, NoPciAddress> {
        let (place, function) = match text.split_once('.') {
            Some((place, function)) => (place, Some(hexadecimal(function, 1, 7)?)),
            None => (text, None),
        };
        let (domain, bus, device) = match *place.split(':').collect::<Vec<_>>() {
            [domain, bus, device] => (Some(hexadecimal(domain, 8, u32::MAX)?), bus, device),
            [bus, device] if function.is_some() => (None, bus, device),
            _ => return Err(NoPciAddress),
        };
        Ok(Self {
            domain,
            bus: hexadecimal(bus, 2, 0xff)? as u8,
            device: hexadecimal(device, 2, 0x1f)? as u8,
            function: function.unwrap_or(0) as u8,
        })
    }
}

impl FromStr for PciAddress {
    type Err = NoPciAddress;

    /// Reads an address with its domain, as CUDA, NVML and sysfs print it.
    fn from_str(text: &str) -> Result<Self, NoPciAddress> {
        let PciName { domain, bus, device, function } = text.parse()?;
        domain.map(|domain| Self { domain, bus, device, function }).ok_or(NoPciAddress)
    }
}

/// At most `digits` hexadecimal digits that make at most `limit`.
fn hexadecimal(text: &str, digits: usize, limit: u32) -> Result<u32, NoPciAddress> {
    let is_number = (1..=digits).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_number.then(|| u32::from_str_radix(text, 16).ok()).flatten();
    number.filter(|number| *number <= limit).ok_or(NoPciAddress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_in_use_is_read() {
        let address = PciAddress { domain: 0, bus: 0x3b, device: 0, function: 0 };
        for text in ["0000:3b:00.0", "00000000:3B:00.0", "0:3b:0.0", "0000:3B:00"] {
            assert_eq!(text.parse(), Ok(address), "{text}");
        }
        for text in ["3b:00.0", "3B:0.0", "0000:3b:00.0"] {
            assert!(text.parse::<PciName>().unwrap().names(address), "{text}");
        }
        let other_domain = PciAddress { domain: 0x1_0009, ..address };
        assert_eq!(other_domain.to_string(), "10009:3b:00.0");
        assert!("3b:00.0".parse::<PciName>().unwrap().names(other_domain));
        assert!(!"0000:3b:00.0".parse::<PciName>().unwrap().names(other_domain));
        assert!(!"3b:00.1".parse::<PciName>().unwrap().names(address));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let bad =
            ["", ":", "3b", "3b:00", "3b:20.0", "3b:00.8", "100:00.0", "0000:3b:00.0.0", "3b:00.", "3b::0.0", "+3:0.0"];
        for text in bad {
            assert_eq!(text.parse::<PciName>(), Err(NoPciAddress), "{text}");
        }
        assert_eq!("3b:00.0".parse::<PciAddress>(), Err(NoPciAddress), "the domain is missing");
    }

    #[test]
    fn what_is_printed_is_read_back() {
        for domain in [0, 9, 0xffff, 0x1_0000] {
            for (bus, device, function) in [(0, 0, 0), (0xff, 0x1f, 7), (0x0a, 3, 1)] {
                let address = PciAddress { domain, bus, device, function };
                assert_eq!(address.to_string().parse(), Ok(address));
            }
        }
    }
}
