//! Memory sizes: `"2GiB"`, `"512 MiB"`, `"1.5GiB"`.

use kernels::units::Bytes;

use super::limits::MEMORY_BYTES_MAX;

/// Reads a size with a binary unit.
///
/// # Errors
/// One sentence on what was expected.
pub(super) fn parse_size(text: &str) -> Result<Bytes, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..unit_at].trim_end(), &text[unit_at..]);
    let factor = match unit {
        "B" => 1_u64,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "" => return Err(format!("expected a size with its unit, such as \"2GiB\", found \"{text}\"")),
        "KB" | "kB" | "MB" | "GB" | "TB" => {
            return Err(format!("expected a binary unit: B, KiB, MiB, GiB or TiB, found \"{unit}\""));
        }
        _ => return Err(format!("unknown unit \"{unit}\": expected B, KiB, MiB, GiB or TiB")),
    };
    let is_plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = Some(number)
        .filter(|_| is_plain)
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("expected a positive number before the unit, found \"{number}\""))?;
    // Exact below 2^53, and sizes end at 2^50.
    let bytes = (value * factor as f64).round();
    if bytes < 1.0 {
        return Err("expected more than zero bytes".to_owned());
    }
    if bytes > MEMORY_BYTES_MAX as f64 {
        return Err("expected at most 1024TiB".to_owned());
    }
    Ok(Bytes(bytes as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("2GiB", 2 << 30),
            ("512 MiB", 512 << 20),
            (" 1.5GiB ", 3 << 29),
            ("0.5KiB", 512),
            ("7B", 7),
            ("1024TiB", 1 << 50),
        ] {
            assert_eq!(parse_size(text), Ok(Bytes(bytes)), "{text}");
        }
        for text in [
            "", "2", "GiB", "2GB", "2 gib", "-1GiB", "+1GiB", "0GiB", "1.2.3GiB", "nan B", "inf", "1e3MiB", "1025TiB",
            "2GiBs", "٣GiB",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
