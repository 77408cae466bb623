//! `--shard`: which part of the points runs here, given on the command line or by the scheduler of a cluster.

use super::error::VaryError;
use crate::limits::SHARDS_MAX;

/// One of several parts of a sweep: the points whose number leaves `index` when divided by `of`. Neighbours in the grid go
/// to different shards, so that a costly corner of it is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 0.
    pub index: u64,
    /// How many there are.
    pub of: u64,
}

/// The variables that schedulers set, as far as they say which of several tasks this is.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `SLURM_ARRAY_TASK_ID`.
    pub slurm_id: Option<String>,
    /// `SLURM_ARRAY_TASK_MIN`.
    pub slurm_min: Option<String>,
    /// `SLURM_ARRAY_TASK_MAX`.
    pub slurm_max: Option<String>,
    /// `SLURM_ARRAY_TASK_COUNT`.
    pub slurm_count: Option<String>,
    /// `JOB_COMPLETION_INDEX`, of an indexed Job of Kubernetes.
    pub kubernetes_index: Option<String>,
}

const HELP: &str = "write --shard I/N for part I of N, counted from 0, or --shard auto/N under Slurm or Kubernetes";

impl Environment {
    /// That of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let variable = |name| std::env::var(name).ok();
        Self {
            slurm_id: variable("SLURM_ARRAY_TASK_ID"),
            slurm_min: variable("SLURM_ARRAY_TASK_MIN"),
            slurm_max: variable("SLURM_ARRAY_TASK_MAX"),
            slurm_count: variable("SLURM_ARRAY_TASK_COUNT"),
            kubernetes_index: variable("JOB_COMPLETION_INDEX"),
        }
    }

    /// The variable that says which task this is, and its number: Slurm's before that of Kubernetes.
    fn index(&self) -> Result<(&'static str, u64), VaryError> {
        let given = [("SLURM_ARRAY_TASK_ID", &self.slurm_id), ("JOB_COMPLETION_INDEX", &self.kubernetes_index)];
        let Some((name, text)) = given.into_iter().find_map(|(name, text)| Some((name, text.as_ref()?))) else {
            let message = "--shard auto: neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set";
            return Err(VaryError::new(message, HELP));
        };
        let index =
            text.parse().map_err(|_| VaryError::new(format!("--shard auto: {name} is `{text}`, no number"), HELP))?;
        Ok((name, index))
    }

    /// How many tasks there are, where that is certain: an array of Slurm that counts from 0 without gaps.
    fn count(&self) -> Result<u64, VaryError> {
        let number = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<u64>().ok());
        if self.slurm_id.is_none() {
            let message = "--shard auto: Kubernetes does not say how many indexes the Job has";
            return Err(VaryError::new(message, "give its completions: --shard auto/N"));
        }
        match (number(&self.slurm_min), number(&self.slurm_max), number(&self.slurm_count)) {
            (Some(0), Some(max), Some(count)) if max + 1 == count => Ok(count),
            _ => {
                let message = "--shard auto: the Slurm array does not count from 0 without gaps, so it does not say how many \
                               shards there are";
                Err(VaryError::new(message, "give their number, --shard auto/N, or submit with --array=0-M"))
            }
        }
    }
}

impl Shard {
    /// Reads `I/N`, `auto/N` or `auto`. `auto` takes the index, and without N the count, from the environment.
    ///
    /// # Errors
    /// Text that is none of these, an index that is not below the count, or an environment that does not say.
    pub fn read(text: &str, environment: &Environment) -> Result<Self, VaryError> {
        let refuse = |problem: &str| VaryError::new(format!("--shard {text}: {problem}"), HELP);
        let count = |text: &str| match text.parse() {
            Ok(of) if (1..=SHARDS_MAX).contains(&of) => Ok(of),
            _ => Err(refuse(&format!("expected 1 to {SHARDS_MAX} shards"))),
        };
        let (index, of, source) = match text.split_once('/') {
            Some(("auto", of)) => {
                let (name, index) = environment.index()?;
                (index, count(of)?, Some(name))
            }
            Some((index, of)) => (index.parse().map_err(|_| refuse("expected two numbers"))?, count(of)?, None),
            None if text == "auto" => {
                let (name, index) = environment.index()?;
                (index, environment.count()?, Some(name))
            }
            None => return Err(refuse("expected two numbers")),
        };
        if index >= of {
            let source = source.map_or(String::new(), |name| format!(" ({name} is {index})"));
            return Err(refuse(&format!("shards count from 0, so the last is {}/{of}{source}", of - 1)));
        }
        Ok(Self { index, of })
    }

    /// The part that is everything.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// The points of this part, of so many in all, ascending.
    #[must_use]
    pub fn points(self, points: u64) -> Vec<u64> {
        (self.index..points).step_by(self.of as usize).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, environment: &Environment) -> Result<(u64, u64), String> {
        Shard::read(text, environment).map(|shard| (shard.index, shard.of)).map_err(|error| error.to_string())
    }

    fn slurm(id: &str, min: &str, max: &str, count: &str) -> Environment {
        let [slurm_id, slurm_min, slurm_max, slurm_count] = [id, min, max, count].map(|text| Some(text.to_owned()));
        Environment { slurm_id, slurm_min, slurm_max, slurm_count, kubernetes_index: None }
    }

    #[test]
    fn every_point_is_in_exactly_one_shard() {
        for of in 1..=9 {
            for points in 0..30 {
                let mut all: Vec<u64> = (0..of).flat_map(|index| Shard { index, of }.points(points)).collect();
                all.sort_unstable();
                assert_eq!(all, (0..points).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_command_line_goes_before_slurm_and_slurm_before_kubernetes() {
        let kubernetes = Environment { kubernetes_index: Some("2".to_owned()), ..Environment::default() };
        let both = Environment { kubernetes_index: Some("2".to_owned()), ..slurm("3", "0", "7", "8") };
        assert_eq!(read("1/4", &both), Ok((1, 4)));
        assert_eq!(read("auto/4", &both), Ok((3, 4)));
        assert_eq!(read("auto", &both), Ok((3, 8)));
        assert_eq!(read("auto/4", &kubernetes), Ok((2, 4)));
    }

    #[test]
    fn what_the_environment_does_not_say_is_not_guessed() {
        let none = Environment::default();
        let kubernetes = Environment { kubernetes_index: Some("2".to_owned()), ..Environment::default() };
        let gaps = "--shard auto: the Slurm array does not count from 0 without gaps, so it does not say how many shards there \
                    are";
        for (text, environment, problem) in [
            ("auto", &none, "--shard auto: neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set"),
            ("auto", &kubernetes, "--shard auto: Kubernetes does not say how many indexes the Job has"),
            ("auto", &slurm("1", "1", "4", "4"), gaps),
            ("auto", &slurm("3", "0", "3", "2"), gaps),
            ("auto/4", &slurm("x", "0", "3", "4"), "--shard auto: SLURM_ARRAY_TASK_ID is `x`, no number"),
            (
                "auto/2",
                &kubernetes,
                "--shard auto/2: shards count from 0, so the last is 1/2 (JOB_COMPLETION_INDEX is 2)",
            ),
            ("4/4", &none, "--shard 4/4: shards count from 0, so the last is 3/4"),
            ("0/0", &none, "--shard 0/0: expected 1 to 1000 shards"),
            ("1", &none, "--shard 1: expected two numbers"),
            ("-1/3", &none, "--shard -1/3: expected two numbers"),
        ] {
            assert_eq!(read(text, environment), Err(problem.to_owned()));
        }
        // A few failed tasks submitted again are still those of the whole array.
        assert_eq!(read("auto/16", &slurm("7", "3", "7", "2")), Ok((7, 16)));
    }
}
