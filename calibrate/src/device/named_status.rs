//! What a call of the driver answered, in the driver's own words.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::sync::OnceLock;

use super::status::Status;
use super::symbols::Functions;

/// A status with the driver's own name for it, looked up when it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedStatus {
    /// The status.
    pub status: Status,
    /// The driver's name of the code, and its sentence about it; empty if it has none.
    pub name: String,
}

impl fmt::Display for NamedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { call, code } = self.status;
        if self.name.is_empty() { write!(f, "{call}: {code}") } else { write!(f, "{call}: {code}, {}", self.name) }
    }
}

/// The functions that know the names; none until a driver is loaded.
static NAMES: OnceLock<&'static Functions> = OnceLock::new();

/// From now on statuses get their names there; the first driver counts, for no second one is ever loaded.
pub(super) fn take_names_from(functions: &'static Functions) {
    NAMES.get_or_init(|| functions);
}

/// A status with the driver's name for it, if a driver is loaded.
pub(super) fn named(status: Status) -> NamedStatus {
    let Some(functions) = NAMES.get() else { return NamedStatus { status, name: String::new() } };
    let text = |look: &dyn Fn(*mut *const c_char) -> Result<(), Status>| {
        let mut text = std::ptr::null();
        let found = look(&raw mut text).is_ok() && !text.is_null();
        // SAFETY: on success the driver points to a string of its own that is never freed.
        found.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    // SAFETY: any code may be asked for, and the pointer is to a local that lives through the call.
    let name = text(&|out| unsafe { functions.error_name(status.code, out) });
    // SAFETY: as above.
    let sentence = text(&|out| unsafe { functions.error_string(status.code, out) });
    // A driver that knows no sentence repeats the name.
    let sentence = sentence.filter(|sentence| Some(sentence) != name.as_ref());
    NamedStatus { status, name: [name, sentence].into_iter().flatten().collect::<Vec<_>>().join(": ") }
}
