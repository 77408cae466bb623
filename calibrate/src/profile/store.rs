//! Profiles on disk and built in.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{Profile, ProfileError};
use crate::whole_file;

/// The most bytes of a profile file that are read: the largest built-in one has about 50 kB.
const LIMIT: u64 = 64 << 20;

macro_rules! builtins {
    ($($name:literal),* $(,)?) => {
        /// Names of the built-in profiles, for [`Profile::builtin`].
        pub const BUILTIN: &[&str] = &[$($name),*];

        fn builtin_text(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("../../../scenarios/profiles/", $name, ".toml"))),)*
                _ => None,
            }
        }
    };
}

builtins![
    "textbook",
    "textbook-weight-bound",
    "a100-llama-3-8b",
    "h100-llama-2-7b",
    "h200-llama-3.1-8b",
    "rtx4090-llama-3.1-8b",
];

impl Profile {
    /// Reads a profile file.
    ///
    /// # Errors
    /// If the file cannot be read, or as [`Profile::from_toml`].
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let unreadable = |source| ProfileError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let read =
            File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_string(&mut text)).map_err(unreadable)?;
        if read as u64 > LIMIT {
            return Err(ProfileError::TooLarge { path: path.to_owned(), limit: LIMIT });
        }
        Self::from_toml(&text, &path.display().to_string())
    }

    /// One of the [`BUILTIN`] profiles.
    ///
    /// # Errors
    /// [`ProfileError::UnknownBuiltin`] if there is none of that name.
    pub fn builtin(name: &str) -> Result<Self, ProfileError> {
        let text = builtin_text(name).ok_or_else(|| ProfileError::UnknownBuiltin { name: name.to_owned() })?;
        Self::from_toml(text, &format!("built-in profile {name}"))
    }

    /// What a user names on a command line: a built-in profile, else a file.
    ///
    /// # Errors
    /// As [`Profile::load`]; a bare word that is no file either is [`ProfileError::UnknownBuiltin`].
    pub fn open(name_or_path: &OsStr) -> Result<Self, ProfileError> {
        let name = name_or_path.to_string_lossy();
        let path = Path::new(name_or_path);
        let bare_word = path.components().count() == 1 && path.extension().is_none_or(|end| end != "toml");
        if BUILTIN.contains(&&*name) || (bare_word && !path.exists()) {
            return Self::builtin(&name);
        }
        Self::load(path)
    }

    /// Writes the profile so that the path holds either the whole new file or what it held before. It is read back first: a
    /// file that nobody could read takes no other's place.
    ///
    /// # Errors
    /// [`ProfileError::Unreadable`] if it could not be read again; [`ProfileError::Write`] if the folder is missing or cannot
    /// be written. Nothing is left behind then.
    pub fn save(&self, path: &Path) -> Result<(), ProfileError> {
        let text = self.to_toml();
        if let Err(error) = Self::from_toml(&text, &path.display().to_string()) {
            return Err(ProfileError::Unreadable { path: path.to_owned(), problem: error.to_string() });
        }
        whole_file::write(path, &text).map_err(|source| ProfileError::Write { path: path.to_owned(), source })
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "figures of the files, given back as they are")]
mod tests {
    use std::fs;

    use super::*;
    use crate::profile::{Curve, Kind, Outside, Overlap, Reading};

    fn builtin(name: &str) -> Profile {
        Profile::builtin(name).unwrap()
    }

    fn dense_ms(profile: &Profile, rows: f64) -> f64 {
        let reading = profile.machine.dense.figures.at(rows);
        assert_eq!(reading.outside, None, "{rows} rows");
        reading.value / 1e3
    }

    fn close(value: f64, expected: f64, tolerance: f64) -> bool {
        (value - expected).abs() <= tolerance
    }

    #[test]
    fn builtins_are_in_canonical_form() {
        for name in BUILTIN {
            let text = builtin_text(name).unwrap();
            let body = text.strip_prefix("# Written by derive.py: change that, not this file.\n").unwrap();
            let profile = builtin(name);
            assert_eq!(&profile.name, name);
            assert_eq!(profile.to_toml(), body, "{name}");
        }
    }

    #[test]
    fn saving_and_loading_gives_the_same_profile_and_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("saved.toml");
        for name in BUILTIN {
            let profile = builtin(name);
            profile.save(&path).unwrap();
            let loaded = Profile::load(&path).unwrap();
            assert_eq!(loaded, profile);
            assert_eq!(loaded.to_toml(), fs::read_to_string(&path).unwrap());
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn what_could_not_be_read_again_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        fs::write(&path, "earlier").unwrap();
        let mut profile = builtin("textbook");
        profile.machine.memory.figures.total.0 = u64::MAX >> 1;
        let error = profile.save(&path).unwrap_err();
        assert!(
            error.to_string().contains("machine.memory.total_bytes: 9223372036854775807: expected bytes"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
        profile = builtin("textbook");
        profile.identity.host_cpu = Some("a \u{1b}[31mred\u{9b}\u{202e} CPU".into());
        profile.save(&path).unwrap();
        assert_eq!(Profile::load(&path).unwrap().identity.host_cpu.as_deref(), Some("a ?[31mred?? CPU"));
    }

    #[test]
    fn texts_with_quotes_and_newlines_survive() {
        let mut profile = builtin("textbook");
        profile.machine.launch.provenance.source = "a \"quoted\" \\ text\nof two lines".into();
        profile.identity.host_cpu = Some("AMD EPYC 9554 \u{2122}".into());
        profile.identity.driver = Some("580.65.06".into());
        assert_eq!(Profile::from_toml(&profile.to_toml(), "memory").unwrap(), profile);
    }

    #[cfg(unix)]
    #[test]
    fn a_failed_save_leaves_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("no/such/folder/profile.toml");
        let error = builtin("textbook").save(&missing).unwrap_err();
        assert!(error.to_string().starts_with("cannot write the profile "), "{error}");
        // A folder in the file's place: the rename fails, and the temporary file goes.
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        assert!(builtin("textbook").save(&taken).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn names_come_before_files_and_bare_words_are_names() {
        assert_eq!(Profile::open(OsStr::new("textbook")).unwrap().name, "textbook");
        let unknown = Profile::open(OsStr::new("a100")).unwrap_err();
        assert_eq!(unknown.to_string(), "no built-in profile is called `a100`");
        let list = BUILTIN.join(", ");
        assert_eq!(unknown.advice(), format!("did you mean a100-llama-3-8b? (the built-in profiles are {list})"));
        assert_eq!(Profile::builtin("b200").unwrap_err().advice(), format!("use one of {list}"));
        let missing = Profile::open(OsStr::new("a100.toml")).unwrap_err();
        assert_eq!(missing.to_string(), "cannot read the profile a100.toml");
    }

    #[test]
    fn every_group_of_every_builtin_says_where_it_comes_from() {
        for name in BUILTIN {
            let profile = builtin(name);
            let groups = profile.groups();
            assert!(groups.len() >= 14, "{name} has {} groups", groups.len());
            for (table, provenance) in groups {
                assert!(!matches!(provenance.kind, Kind::Measured | Kind::Double), "{name}: {table}");
            }
        }
    }

    #[test]
    fn textbook_figures_are_those_of_the_exercise() {
        for (name, slope) in [("textbook", 240.0), ("textbook-weight-bound", 20.0)] {
            let profile = builtin(name);
            let dense = &profile.machine.dense.figures;
            assert_eq!(dense.at(8.0), Reading::inside(4000.0));
            assert_eq!(dense.at(32.0), Reading::inside(4000.0 + 24.0 * slope));
            assert_eq!(dense.at(513.0).outside, Some(Outside::Above));
            assert_eq!(profile.overlap, Overlap::Additive);
            assert_eq!(profile.machine.launch.figures.launch_us, 1100.0);
            assert_eq!(profile.machine.replay.figures.fixed_us, 200.0);
            assert_eq!(profile.engine.host.figures.padding_bookkeeping_us, 150.0);
            assert_eq!(profile.machine.capture.figures.full_s, 0.7);
            assert_eq!(profile.machine.pool.figures.base.0, 2 << 30);
            assert_eq!(profile.machine.head.figures, Curve::Constant(0.0));
            assert_eq!(profile.attention().unwrap().figures.decode.at(32.0, 4096.0), Reading::inside(0.0));
        }
    }

    /// The published sums over operations, in milliseconds.
    #[test]
    fn dense_levels_are_the_published_ones() {
        let published: [(&str, &[(f64, f64)]); 3] = [
            (
                "a100-llama-3-8b",
                &[(1.0, 9.696), (64.0, 11.232), (72.0, 12.320), (128.0, 13.184), (136.0, 18.064), (192.0, 16.768)],
            ),
            ("h100-llama-2-7b", &[(1.0, 5.600), (72.0, 7.200), (128.0, 6.368), (136.0, 8.480), (512.0, 11.984)]),
            (
                "rtx4090-llama-3.1-8b",
                &[(1.0, 15.218), (16.0, 15.735), (64.0, 17.366), (256.0, 23.924), (272.0, 34.340), (512.0, 45.856)],
            ),
        ];
        for (name, points) in published {
            let profile = builtin(name);
            for &(rows, ms) in points {
                let found = dense_ms(&profile, rows);
                assert!(close(found, ms, 0.0006), "{name}: {found} ms at {rows} rows, published {ms}");
            }
        }
    }

    #[test]
    fn chunked_prefill_is_priced_inside_a_stated_range() {
        for name in ["a100-llama-3-8b", "h100-llama-2-7b", "h200-llama-3.1-8b", "rtx4090-llama-3.1-8b"] {
            let reading = builtin(name).machine.dense.figures.at(16_384.0);
            assert_eq!(reading.outside, None, "{name}");
            assert_eq!(reading.extended, name != "a100-llama-3-8b", "{name}: only the A100 was measured so far");
        }
    }

    #[test]
    fn h200_level_lies_between_its_bandwidth_and_the_h100() {
        let profile = builtin("h200-llama-3.1-8b");
        // 6.98 G weights of 2 bytes at 4.8 TB/s take 2.91 ms; the H100 needs 5.6 ms for 6.48 G at 3.35 TB/s.
        let floor_ms = dense_ms(&profile, 1.0);
        assert!((2.91..5.6).contains(&floor_ms), "{floor_ms}");
    }

    #[test]
    fn rtx_head_and_attention_are_the_published_ones() {
        let profile = builtin("rtx4090-llama-3.1-8b");
        let head = &profile.machine.head.figures;
        // LM head 1.097 and 1.671 ms, sampler 0.025 and 0.311 ms.
        assert!(close(head.at(1.0).value, 1121.9, 0.1) && close(head.at(256.0).value, 1982.1, 0.1));
        let attention = &profile.attention().unwrap().figures;
        for (requests, ms) in
            [(1.0, 0.454), (8.0, 1.779), (16.0, 3.176), (32.0, 5.805), (64.0, 10.665), (128.0, 19.398), (256.0, 37.854)]
        {
            let found = attention.decode.at(requests, 1024.0).value / 1e3;
            assert!(close(found, ms, 0.001), "{found} ms for {requests} requests, published {ms}");
        }
        assert!(attention.mixed.is_some() && !attention.separate_kernels);
    }

    /// Ticks of the measured RTX 4090 run without prompt tokens: 17.0 ms at 4 running, 20.41 at 16, 25.6 at 30, at 1 to
    /// 1.5 thousand tokens of context.
    #[test]
    fn rtx_decode_steps_come_out_as_measured_on_the_whole_engine() {
        let profile = builtin("rtx4090-llama-3.1-8b");
        for (running, rung, measured_ms) in [(4.0, 4.0, 17.00), (16.0, 16.0, 20.41), (30.0, 32.0, 25.60)] {
            let head = profile.machine.head.figures.at(running).value;
            let attention = &profile.attention().unwrap().figures;
            let step = |context| dense_ms(&profile, rung) + (head + attention.decode.at(running, context).value) / 1e3;
            let (low, high) = (step(1000.0), step(1500.0));
            let within = low * 0.93 <= measured_ms && measured_ms <= high * 1.07;
            assert!(within, "{low} to {high} ms for {running} running, measured {measured_ms}");
        }
    }

    /// Two roads to the A100's decode attention of a model with 8 KV heads: the A800's 32-head table by heads (the
    /// profile), and the RTX 4090's own 8-head table by bandwidth. They agree within a third where bandwidth decides.
    #[test]
    fn two_derivations_of_decode_attention_agree() {
        let (a100, rtx) = (builtin("a100-llama-3-8b"), builtin("rtx4090-llama-3.1-8b"));
        let at = |profile: &Profile, n, k| profile.attention().unwrap().figures.decode.at(n, k).value;
        for requests in [32.0, 64.0, 128.0, 256.0] {
            for context in [1024.0, 2048.0, 4032.0] {
                let ratio = at(&a100, requests, context) / (at(&rtx, requests, context) * 1008.0 / 2039.0);
                assert!((0.75..1.33).contains(&ratio), "{ratio} at {requests} requests of {context} tokens");
            }
        }
    }

    #[test]
    fn attention_of_every_derived_builtin_grows_with_work() {
        for name in &BUILTIN[2..] {
            let profile = builtin(name);
            let attention = &profile.attention().unwrap().figures;
            let decode = [(1.0, 100.0), (16.0, 1000.0), (64.0, 4000.0), (128.0, 16_000.0)];
            let prefill = [(64.0, 0.0), (512.0, 1000.0), (2048.0, 4000.0)];
            for (surface, points) in [(&attention.decode, &decode[..]), (&attention.prefill, &prefill[..])] {
                let costs: Vec<_> = points.iter().map(|&(x, y)| surface.at(x, y)).collect();
                assert!(costs.windows(2).all(|pair| pair[0].value < pair[1].value), "{name}: {costs:?}");
                assert!(costs.iter().all(|reading| reading.outside.is_none()), "{name}: {costs:?}");
            }
        }
    }
}
