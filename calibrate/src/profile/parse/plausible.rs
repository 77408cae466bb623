//! Whether the parts of a profile belong together: each number may be a good one, and the whole no measurement all the same.

mod figures;
mod run;

use super::super::{Kind, Profile};
use super::{Origin, Parsed};

impl Origin<'_> {
    /// That figures which count as measured bring their measurement, and that it fits the model and the device.
    pub(super) fn plausible(self, profile: &Profile) -> Parsed<()> {
        for group in profile.each_group() {
            self.plausible_figures(group)?;
            self.measured_group(profile, group)?;
        }
        self.one_origin(profile)?;
        self.operations(profile)?;
        if let Some(run) = &profile.measurement {
            self.fits_device(profile, run)?;
            self.fits_model(profile, run)?;
            self.fits_rungs(profile, run)?;
            self.fits_steps(profile, run)?;
        }
        Ok(())
    }

    /// A run is on a device or on the driver double: figures of the double are not to pass for measured ones because some
    /// groups say so.
    fn one_origin(self, profile: &Profile) -> Parsed<()> {
        let of = |kind: Kind| {
            profile.each_group().into_iter().find(|group| group.provenance.kind == kind).map(|group| group.name)
        };
        let (Some(measured), Some(double)) = (of(Kind::Measured), of(Kind::Double)) else { return Ok(()) };
        let problem = format!("measured, and {double} is of the driver double: expected both of one run");
        let help = "measure both on the device; what was made on the double stays `double`";
        self.wrong(&format!("{measured}.provenance.kind"), problem, help)
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
