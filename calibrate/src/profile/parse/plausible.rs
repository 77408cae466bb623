//! Whether the parts of a profile belong together: each number may be a good one, and the whole no measurement all the same.

mod figures;
mod run;

use super::super::Profile;
use super::{Origin, Parsed};

impl Origin<'_> {
    /// That figures which count as measured bring their measurement, and that it fits the model and the device.
    pub(super) fn plausible(self, profile: &Profile) -> Parsed<()> {
        for group in profile.each_group() {
            self.plausible_figures(group)?;
            self.measured_group(profile, group)?;
        }
        self.operations(profile)?;
        if let Some(run) = &profile.measurement {
            self.fits_device(profile, run)?;
            self.fits_model(profile, run)?;
            self.fits_rungs(profile, run)?;
        }
        Ok(())
    }

    /// Attention that pieces leave out is part of what would be launched one by one.
    fn operations(self, profile: &Profile) -> Parsed<()> {
        let ops = profile.engine.ops.figures;
        if ops.attention_launches <= ops.compiled {
            return Ok(());
        }
        let problem = format!(
            "{}: expected at most compiled = {}, of which they are a part",
            ops.attention_launches, ops.compiled
        );
        self.wrong("engine.ops.attention_launches", problem, "correct the numbers under [engine.ops]")
    }

    /// A fault at the value of a key, which the file has.
    fn wrong(self, key: &str, problem: String, help: &str) -> Parsed<()> {
        Err(self.fault(key, self.place(key).unwrap_or_default(), problem, help))
    }
}
