//! What a kernel is called with: typed values, packed as the device reads them.

/// A device address. Zero is no address: an optional operand that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

impl Address {
    /// No address.
    pub const NONE: Self = Self(0);

    /// The address `bytes` further on.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// Type of one kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParameterType {
    /// `T*` into device memory, or into mapped host memory.
    Pointer,
    /// `int`.
    Int,
    /// `float`.
    Float,
    /// `unsigned long long`.
    Long,
}

impl ParameterType {
    /// Size, and also alignment, in the parameter buffer.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Pointer | Self::Long => 8,
            Self::Int | Self::Float => 4,
        }
    }
}

/// One parameter of a kernel: its name in the CUDA source, and its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// Name in the CUDA source.
    pub name: &'static str,
    /// Type in the CUDA source.
    pub parameter_type: ParameterType,
}

/// Values that a kernel takes: which [`ParameterType`] they are passed as, and their bytes.
pub trait Value: Copy {
    /// The type on the device's side.
    const PARAMETER_TYPE: ParameterType;
    /// Appends the value in the device's byte order (little endian).
    fn append(self, bytes: &mut Vec<u8>);
}

macro_rules! values {
    ($($value:ty => $parameter_type:ident, |$it:ident| $number:expr;)*) => {$(
        impl Value for $value {
            const PARAMETER_TYPE: ParameterType = ParameterType::$parameter_type;
            fn append(self, bytes: &mut Vec<u8>) {
                let $it = self;
                bytes.extend_from_slice(&$number.to_le_bytes());
            }
        }
    )*};
}

values! {
    Address => Pointer, |it| it.0;
    i32 => Int, |it| it;
    f32 => Float, |it| it;
    u64 => Long, |it| it;
}

/// The parameter buffer of one launch: every argument at its natural alignment, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arguments {
    bytes: Vec<u8>,
    offsets: Vec<usize>,
}

impl Arguments {
    /// The same arguments and one more.
    #[must_use]
    pub fn with<V: Value>(mut self, value: V) -> Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(V::PARAMETER_TYPE.bytes()), 0);
        self.offsets.push(self.bytes.len());
        value.append(&mut self.bytes);
        self
    }

    /// The packed buffer.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where each argument starts in [`Arguments::bytes`].
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_lie_at_their_natural_alignment() {
        let arguments =
            Arguments::default().with(7_i32).with(Address(0x0102_0304_0506_0708)).with(1.0_f32).with(-1_i32);
        assert_eq!(arguments.offsets(), [0, 8, 16, 20]);
        assert_eq!(arguments.bytes()[..8], [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(arguments.bytes()[8..16], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(arguments.bytes()[16..], [0, 0, 0x80, 0x3f, 0xff, 0xff, 0xff, 0xff]);
    }
}
