//! bf16: the upper half of an f32. Conversions as the device does them, to nearest, ties to even.

/// One bf16 number, by its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bf16(pub u16);

impl Bf16 {
    /// The NaN that conversions give.
    pub const NAN: Self = Self(0x7fff);

    /// The nearest bf16, the even one of two equally near; beyond the largest, infinity. Every NaN gives
    /// [`Bf16::NAN`], as PTX's `cvt.rn.bf16` does (PTX ISA, "Data Movement and Conversion Instructions: cvt").
    pub fn from_f32(value: f32) -> Self {
        if value.is_nan() {
            return Self::NAN;
        }
        let bits = value.to_bits();
        let even = (bits >> 16) & 1;
        // The carry out of the fraction raises the exponent, up to infinity.
        Self(((bits + 0x7fff + even) >> 16) as u16)
    }

    /// The nearest bf16, as [`Bf16::from_f32`], rounded once.
    pub fn from_f64(value: f64) -> Self {
        let nearest = value as f32;
        // Rounding to f32 first could make a tie of what is none: round to odd instead, which no second rounding sees.
        let off_by = f64::from(nearest).abs() - value.abs();
        if off_by > 0.0 && nearest.is_finite() {
            return Self::from_f32(f32::from_bits((nearest.to_bits() - 1) | 1));
        }
        if off_by < 0.0 {
            return Self::from_f32(f32::from_bits(nearest.to_bits() | 1));
        }
        Self::from_f32(nearest)
    }

    /// The same number.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// The same number.
    pub fn to_f64(self) -> f64 {
        self.to_f32().into()
    }
}

/// The numbers in the device's byte order.
pub fn to_bytes(values: &[Bf16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.0.to_le_bytes()).collect()
}

/// The numbers that lie in `bytes`; an odd byte at the end is left out.
pub fn from_bytes(bytes: &[u8]) -> Vec<Bf16> {
    bytes.chunks_exact(2).map(|pair| Bf16(u16::from_le_bytes([pair[0], pair[1]]))).collect()
}

/// The numbers as f64.
pub fn to_f64s(values: &[Bf16]) -> Vec<f64> {
    values.iter().map(|value| value.to_f64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bf16_survives_the_way_there_and_back() {
        for bits in 0..=u16::MAX {
            let value = Bf16(bits);
            let back = Bf16::from_f32(value.to_f32());
            let wide = Bf16::from_f64(value.to_f64());
            if value.to_f32().is_nan() {
                assert_eq!((back, wide), (Bf16::NAN, Bf16::NAN));
            } else {
                assert_eq!((back, wide), (value, value));
            }
        }
    }

    #[test]
    fn ties_go_to_even_and_everything_else_to_the_nearest() {
        // 1 + 2^-8 lies halfway between 1 (even) and 1 + 2^-7; 1 + 3 * 2^-8 halfway between 1 + 2^-7 (odd) and 1 + 2^-6.
        assert_eq!(Bf16::from_f32(1.0 + 1.0 / 256.0), Bf16(0x3f80));
        assert_eq!(Bf16::from_f32(1.0 + 3.0 / 256.0), Bf16(0x3f82));
        assert_eq!(Bf16::from_f32(1.0 + 1.001 / 256.0), Bf16(0x3f81));
        assert_eq!(Bf16::from_f32(-(1.0 + 1.0 / 256.0)), Bf16(0xbf80));
        assert_eq!(Bf16::from_f32(f32::MAX), Bf16(0x7f80));
        assert_eq!(Bf16::from_f32(-f32::MAX), Bf16(0xff80));
        assert_eq!(Bf16::from_f32(f32::from_bits(0x0001_8000)), Bf16(0x0002));
    }

    #[test]
    fn an_f64_is_rounded_once() {
        // A hair above a tie: f32 would call it a tie and round down to even.
        let above = 1.0 + 1.0 / 256.0 + 1e-12;
        assert_eq!(Bf16::from_f32(above as f32), Bf16(0x3f80));
        assert_eq!(Bf16::from_f64(above), Bf16(0x3f81));
        assert_eq!(Bf16::from_f64(-above), Bf16(0xbf81));
        let below = 1.0 + 3.0 / 256.0 - 1e-12;
        assert_eq!(Bf16::from_f32(below as f32), Bf16(0x3f82));
        assert_eq!(Bf16::from_f64(below), Bf16(0x3f81));
        assert_eq!(Bf16::from_f64(1e300), Bf16(0x7f80));
        assert_eq!(Bf16::from_f64(1e-300), Bf16(0));
        assert_eq!(Bf16::from_f64(f64::NAN), Bf16::NAN);
    }

    #[test]
    fn bytes_are_little_endian() {
        let values = [Bf16(0x3f80), Bf16(0x0102)];
        assert_eq!(to_bytes(&values), [0x80, 0x3f, 0x02, 0x01]);
        assert_eq!(from_bytes(&to_bytes(&values)), values);
    }
}
