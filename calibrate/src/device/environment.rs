//! What the driver reads from the environment, and when.

/// Leaves functions to be loaded at their first launch, as drivers do by default: only to see what a driver then does.
///
/// Call it where [`load_modules_eagerly`] may be called.
pub(crate) fn load_modules_lazily() {
    // SAFETY: as for `load_modules_eagerly`.
    unsafe { std::env::set_var("CUDA_MODULE_LOADING", "LAZY") };
}

/// Has the driver load every function of a module with the module, not at its first launch: that first launch may be inside a
/// capture, where loading is illegal (GPU specification section 1).
///
/// Call it before the driver is loaded, from the main thread, before any other thread is started.
pub(crate) fn load_modules_eagerly() {
    // SAFETY: no other thread runs yet that could read the environment meanwhile; the binary calls this first.
    unsafe { std::env::set_var("CUDA_MODULE_LOADING", "EAGER") };
}
