//! Memory sizes within what a scenario may hold.

use kernels::units::Bytes;

use crate::limits::MEMORY_BYTES_MAX;

/// Reads a size such as `"2GiB"`.
///
/// # Errors
/// One sentence on what was expected.
pub fn parse_size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error: kernels::units::BytesError| error.to_string())?;
    match size.0 {
        0 => Err("expected more than zero bytes".to_owned()),
        bytes if bytes > MEMORY_BYTES_MAX => Err(format!("expected at most {}", Bytes(MEMORY_BYTES_MAX))),
        _ => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit_and_bounds() {
        assert_eq!(parse_size("1.5GiB"), Ok(Bytes(3 << 29)));
        for wrong in ["2", "0B", "-1GiB", "2000TiB", "2 GiBs", ""] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
