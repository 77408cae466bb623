//! Loaded modules and their functions.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use crate::handles::{Handles, Kind};
use crate::ptx::{Entry, Ptx};

/// Shared memory, static and dynamic, that a kernel may have without asking: 48 KiB, on every device.
pub(crate) const SHARED_DEFAULT: u32 = 48 << 10;

/// A kernel of a loaded module.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) entry: Entry,
    /// `cuFuncGetName` gives a pointer to it.
    pub(crate) name: CString,
    pub(crate) module: u64,
}

/// A function and what changes about it.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) function: Arc<Function>,
    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`; as long as it is not set, what static shared memory leaves.
    pub(crate) shared_max: u32,
    /// Whether its code is on the device; a lazy driver loads it at the first launch.
    pub(crate) is_resident: bool,
}

/// All modules.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// Functions of each module by symbol.
    modules: HashMap<u64, HashMap<String, u64>>,
    functions: HashMap<u64, Loaded>,
}

impl Modules {
    pub(crate) fn load(&mut self, ptx: Ptx, is_eager: bool, handles: &mut Handles) -> u64 {
        let module = handles.next(Kind::Module);
        let mut symbols = HashMap::new();
        for entry in ptx.entries {
            let handle = handles.next(Kind::Function);
            symbols.insert(entry.symbol.clone(), handle);
            let name = CString::new(entry.symbol.as_str()).unwrap_or_default();
            let shared_max = SHARED_DEFAULT.saturating_sub(entry.static_shared_bytes);
            let function = Arc::new(Function { entry, name, module });
            self.functions.insert(handle, Loaded { function, shared_max, is_resident: is_eager });
        }
        self.modules.insert(module, symbols);
        module
    }

    pub(crate) fn unload(&mut self, module: u64) {
        self.functions.retain(|_, loaded| loaded.function.module != module);
        self.modules.remove(&module);
    }

    pub(crate) fn is_loaded(&self, module: u64) -> bool {
        self.modules.contains_key(&module)
    }

    /// The function of a module that has this name.
    pub(crate) fn symbol(&self, module: u64, name: &str) -> Option<u64> {
        self.modules.get(&module)?.get(name).copied()
    }

    pub(crate) fn function(&mut self, handle: u64) -> Option<&mut Loaded> {
        self.functions.get_mut(&handle)
    }

    pub(crate) fn count(&self) -> usize {
        self.modules.len()
    }
}
