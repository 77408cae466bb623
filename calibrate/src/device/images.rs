//! Where the kernels' code comes from: the embedded PTX, or a compilation for the device at hand.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use kernels::launch::Module;

use super::module::Image;
use super::nvrtc::{Nvrtc, NvrtcError};

/// The code of every module, and where it comes from. Displays as what a report says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Images {
    /// The PTX that is part of this program: the driver compiles it.
    Embedded,
    /// What NVRTC made for the device.
    Compiled {
        /// NVRTC's file.
        file: PathBuf,
        /// Its version, major and minor.
        version: (i32, i32),
        /// One image a module, in the order of [`Module::ALL`].
        images: Vec<Image<'static>>,
    },
}

impl Images {
    /// Compiles every module for a device of this compute capability.
    ///
    /// # Errors
    /// NVRTC does not compile one of them, or nothing for this device.
    pub fn compile(nvrtc: &Nvrtc, capability: (u32, u32)) -> Result<Self, NvrtcError> {
        let images = Module::ALL.into_iter().map(|module| nvrtc.compile(module, capability));
        let images = images.collect::<Result<_, _>>()?;
        Ok(Self::Compiled { file: nvrtc.file().to_path_buf(), version: nvrtc.version(), images })
    }

    /// The code of one module.
    pub fn of(&self, module: Module) -> Image<'_> {
        let place = Module::ALL.iter().position(|other| *other == module).unwrap_or_default();
        match self {
            Self::Embedded => Image::Ptx(Cow::Borrowed(module.ptx())),
            Self::Compiled { images, .. } => match &images[place] {
                Image::Ptx(text) => Image::Ptx(Cow::Borrowed(text)),
                Image::Cubin(code) => Image::Cubin(Cow::Borrowed(code)),
            },
        }
    }
}

impl fmt::Display for Images {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("embedded PTX"),
            Self::Compiled { file, version: (major, minor), images } => {
                let is_code = images.iter().all(|image| matches!(image, Image::Cubin(_)));
                let compiler = format!("NVRTC {major}.{minor} ({})", file.display());
                if is_code {
                    write!(f, "code for this GPU, by {compiler}")
                } else {
                    write!(f, "PTX, for {compiler} does not know this GPU")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_has_its_own_image() {
        let code = |module: Module| Image::Cubin(Cow::Owned(module.name().as_bytes().to_vec()));
        let images = Module::ALL.map(code).to_vec();
        let compiled = Images::Compiled { file: "libnvrtc.so.12".into(), version: (12, 9), images };
        for module in Module::ALL {
            assert_eq!(compiled.of(module), code(module));
            assert_eq!(Images::Embedded.of(module), Image::Ptx(Cow::Borrowed(module.ptx())));
        }
        assert_eq!(compiled.to_string(), "code for this GPU, by NVRTC 12.9 (libnvrtc.so.12)");
        assert_eq!(Images::Embedded.to_string(), "embedded PTX");
        let older = Module::ALL.map(|module| Image::Ptx(Cow::Borrowed(module.ptx()))).to_vec();
        let older = Images::Compiled { file: "libnvrtc.so.12".into(), version: (12, 0), images: older };
        assert_eq!(older.to_string(), "PTX, for NVRTC 12.0 (libnvrtc.so.12) does not know this GPU");
    }
}
