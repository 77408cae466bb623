//! From the key on the command line to its place in the scenario.

use calibrate::spelling::closest;
use toml::{Table, Value};

use super::error::VaryError;
use crate::scenario;

/// A place in a scenario: its whole path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(Vec<String>);

/// Where the server's own keys are.
const ENGINES: [&str; 2] = ["vllm", "sglang"];

/// The tables that a candidate can hold.
const CANDIDATE_TABLES: [&str; 1] = ["what_if"];

impl Key {
    /// The place that `written` names: a whole path, or the end of exactly one path that the scenario has or its server may
    /// have. Candidates are named by whole paths only: `candidate.NAME.KEY`, or `candidate.KEY` for all of them.
    ///
    /// # Errors
    /// No such place, several, or one that may not be varied.
    pub fn resolve(written: &[String], scenario: &Table) -> Result<Self, VaryError> {
        let key = if scenario::TOP_LEVEL_KEYS.contains(&written[0].as_str()) {
            Self(written.to_vec())
        } else {
            Self::by_its_end(written, scenario)?
        };
        match key.fixed() {
            Some((reason, help)) => Err(VaryError::new(format!("--vary {}: {reason}", Self(written.to_vec())), help)),
            None => Ok(key),
        }
    }

    fn by_its_end(written: &[String], scenario: &Table) -> Result<Self, VaryError> {
        let paths = paths(scenario);
        let found: Vec<&Vec<String>> = paths.iter().filter(|path| path.ends_with(written)).collect();
        let shown = Self(written.to_vec());
        match found[..] {
            [path] => Ok(Self(path.clone())),
            [] => Err(VaryError::new(format!("--vary {shown}: the scenario has no such key"), way_to(written, &paths))),
            _ => {
                let found: Vec<String> = found.into_iter().map(|path| Self(path.clone()).to_string()).collect();
                let message = format!("--vary {shown}: the scenario has several such keys");
                Err(VaryError::new(message, format!("write one of them out: {}", found.join(", "))))
            }
        }
    }

    /// Why this key has one value for the whole sweep, and what to do instead.
    fn fixed(&self) -> Option<(&'static str, &'static str)> {
        let path: Vec<&str> = self.0.iter().map(String::as_str).collect();
        match path[..] {
            ["traffic"] | ["traffic", "seed"] => Some((
                "every point of a sweep has the same seeds, so that points can be compared",
                "use --seed N and --seeds K; below [traffic] every other key can be varied",
            )),
            ["candidate"] | ["candidate", "name"] | ["candidate", _, "name"] => Some((
                "every point of a sweep has the same candidates",
                "vary a flag of theirs, as in candidate.cudagraph_mode (all of them) or candidate.\"NAME\".cudagraph_mode",
            )),
            ["schema" | "name" | "expect", ..] => Some((
                "no figure depends on it",
                "vary a key of the server, the traffic, the profile or the candidates",
            )),
            _ => None,
        }
    }

    /// Whether one of both places holds the other.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0) || other.0.starts_with(&self.0)
    }

    /// Whether this is the profile as a whole, which may be named by one word.
    #[must_use]
    pub fn is_profile(&self) -> bool {
        self.0 == ["profile"]
    }

    /// Sets the value, making tables that are missing on the way.
    ///
    /// # Errors
    /// What on the way is no table, in words.
    pub fn set(&self, scenario: &mut Table, value: &Value) -> Result<(), String> {
        set(scenario, &self.0, value)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_bare =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        for (index, part) in self.0.iter().enumerate() {
            let dot = if index > 0 { "." } else { "" };
            if is_bare(part) { write!(f, "{dot}{part}")? } else { write!(f, "{dot}{part:?}")? }
        }
        Ok(())
    }
}

fn set(table: &mut Table, path: &[String], value: &Value) -> Result<(), String> {
    let (first, rest) = path.split_first().expect("a key has parts");
    if rest.is_empty() {
        table.insert(first.clone(), value.clone());
        return Ok(());
    }
    match table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => set(inner, rest, value),
        Value::Array(items) if first == "candidate" => set_candidates(items, rest, value),
        Value::Array(items) => set_item(items, first, rest, value),
        _ => Err(format!("`{first}` is a value and holds no `{}`", rest[0])),
    }
}

/// Of one candidate if its name comes next, else of all.
fn set_candidates(items: &mut [Value], path: &[String], value: &Value) -> Result<(), String> {
    let is_called = |item: &Value, name: &str| item.get("name").and_then(Value::as_str) == Some(name);
    let (path, name) = match path {
        [name, rest @ ..] if !rest.is_empty() && items.iter().any(|item| is_called(item, name)) => (rest, Some(name)),
        [name, _, ..] if !CANDIDATE_TABLES.contains(&name.as_str()) => {
            let names: Vec<String> =
                items.iter().filter_map(|item| Some(format!("`{}`", item.get("name")?.as_str()?))).collect();
            return Err(format!("no candidate is called `{name}`; there are {}", names.join(", ")));
        }
        _ => (path, None),
    };
    for item in items.iter_mut().filter(|item| name.is_none_or(|name| is_called(item, name))) {
        set(item.as_table_mut().ok_or("`candidate` is no list of tables")?, path, value)?;
    }
    Ok(())
}

/// Of the table that a number picks from a list, the first being 0.
fn set_item(items: &mut [Value], list: &str, path: &[String], value: &Value) -> Result<(), String> {
    let count = items.len();
    let item = path[0].parse().ok().and_then(|index: usize| items.get_mut(index));
    let item =
        item.ok_or_else(|| format!("`{list}` is a list of {count}: `{}` picks none of it, 0 is the first", path[0]))?;
    match (&path[1..], item) {
        ([], item) => *item = value.clone(),
        (rest, Value::Table(inner)) => set(inner, rest, value)?,
        (rest, _) => return Err(format!("`{list}` is a list of values, which hold no `{}`", rest[0])),
    }
    Ok(())
}

/// Every path that can be named by its end: those of the scenario, candidates and expectations aside, and those that its
/// server may have.
fn paths(scenario: &Table) -> Vec<Vec<String>> {
    fn below(prefix: &[String], table: &Table, found: &mut Vec<Vec<String>>) {
        for (key, value) in table {
            let path = [prefix, std::slice::from_ref(key)].concat();
            if let Value::Table(inner) = value {
                below(&path, inner, found);
            }
            found.push(path);
        }
    }
    let mut found = Vec::new();
    below(&[], scenario, &mut found);
    found.retain(|path| !["candidate", "expect"].contains(&path[0].as_str()));
    let server = scenario.get("server").and_then(Value::as_table);
    for engine in ENGINES.into_iter().filter(|engine| server.is_some_and(|server| server.contains_key(*engine))) {
        let keys = scenario::server_keys(engine).iter();
        found.extend(keys.map(|key| ["server", engine, key].map(str::to_owned).to_vec()));
    }
    found.sort();
    found.dedup();
    found
}

/// What a key that nothing is called was probably meant to be.
fn way_to(written: &[String], paths: &[Vec<String>]) -> String {
    let last = written.last().map(String::as_str).unwrap_or_default();
    let mut names: Vec<&str> = paths.iter().filter_map(|path| path.last()).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let Some(name) = closest(last, &names) else {
        return "write its whole path, such as traffic.arrivals.poisson.rate or candidate.cudagraph_mode; scenarios/KEYS.md \
                lists every key"
            .to_owned();
    };
    let meant = paths.iter().filter(|path| path.last().is_some_and(|last| last == name));
    let meant: Vec<String> = meant.map(|path| format!("`{}`", Key(path.clone()))).collect();
    format!("did you mean {}?", meant.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
schema = 1
name = "x"
[server.vllm]
max_num_seqs = 64
[profile]
builtin = "textbook"
[traffic.arrivals.poisson]
rate = 5.0
[[traffic.rank]]
requests = 3
[traffic.lengths.lognormal]
prompt = { p50 = 600, max = 8000 }
output = { p50 = 60, max = 800 }
[[candidate]]
name = "a"
[[candidate]]
name = "b c"
max_cudagraph_capture_size = 8
"#;

    fn resolve(key: &str) -> Result<String, String> {
        let written: Vec<String> = format!("{key}=1").parse::<super::super::Axis>().expect("an axis").key;
        let scenario = toml::from_str(SCENARIO).expect("TOML");
        Key::resolve(&written, &scenario).map(|key| key.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_is_named_by_its_path_or_by_the_end_of_one() {
        for (written, path) in [
            ("rate", "traffic.arrivals.poisson.rate"),
            ("poisson.rate", "traffic.arrivals.poisson.rate"),
            ("max_num_seqs", "server.vllm.max_num_seqs"),
            ("max_num_batched_tokens", "server.vllm.max_num_batched_tokens"),
            ("max_cudagraph_capture_size", "server.vllm.max_cudagraph_capture_size"),
            ("prompt.p50", "traffic.lengths.lognormal.prompt.p50"),
            ("profile", "profile"),
            ("slo.ttft", "slo.ttft"),
            ("candidate.\"b c\".cudagraph_mode", "candidate.\"b c\".cudagraph_mode"),
        ] {
            assert_eq!(resolve(written), Ok(path.to_owned()), "{written}");
        }
    }

    #[test]
    fn no_key_several_keys_and_fixed_keys_are_refused() {
        for (written, problem) in [
            ("p50", "--vary p50: the scenario has several such keys"),
            ("ratte", "--vary ratte: the scenario has no such key"),
            (
                "traffic.seed",
                "--vary traffic.seed: every point of a sweep has the same seeds, so that points can be compared",
            ),
            ("traffic", "--vary traffic: every point of a sweep has the same seeds, so that points can be compared"),
            ("candidate.a.name", "--vary candidate.a.name: every point of a sweep has the same candidates"),
            ("name", "--vary name: no figure depends on it"),
        ] {
            assert_eq!(resolve(written), Err(problem.to_owned()), "{written}");
        }
    }

    fn set_in(key: &[&str], value: i64) -> Result<Table, String> {
        let mut scenario: Table = toml::from_str(SCENARIO).expect("TOML");
        let key = Key(key.iter().map(|part| (*part).to_owned()).collect());
        key.set(&mut scenario, &Value::Integer(value)).map(|()| scenario)
    }

    #[test]
    fn values_are_set_where_the_key_says() {
        let at = |scenario: &Table, path: &str| {
            let top = Value::Table(scenario.clone());
            let below = |value: &'_ Value, part: &str| {
                let found = part.parse::<usize>().map_or_else(|_| value.get(part), |index| value.get(index));
                found.cloned()
            };
            path.split('.').try_fold(top, |value, part| below(&value, part)).and_then(|value| value.as_integer())
        };
        let one = set_in(&["candidate", "b c", "x"], 7).expect("set");
        assert_eq!((at(&one, "candidate.0.x"), at(&one, "candidate.1.x")), (None, Some(7)));
        let all = set_in(&["candidate", "what_if", "x"], 7).expect("set");
        assert_eq!((at(&all, "candidate.0.what_if.x"), at(&all, "candidate.1.what_if.x")), (Some(7), Some(7)));
        let item = set_in(&["traffic", "rank", "0", "requests"], 9).expect("set");
        assert_eq!(at(&item, "traffic.rank.0.requests"), Some(9));
        let missing = set_in(&["warm_up", "requests"], 9).expect("set");
        assert_eq!(at(&missing, "warm_up.requests"), Some(9));
        assert_eq!(
            set_in(&["candidate", "c", "x"], 9).expect_err("no such"),
            "no candidate is called `c`; there are `a`, `b c`"
        );
        assert_eq!(
            set_in(&["traffic", "rank", "1", "requests"], 9).expect_err("only one"),
            "`rank` is a list of 1: `1` picks none of it, 0 is the first"
        );
        assert_eq!(
            set_in(&["server", "vllm", "max_num_seqs", "x"], 9).expect_err("a number"),
            "`max_num_seqs` is a value and holds no `x`"
        );
    }
}
