//! Flags before they are written down, and their forms.

use serde_json::{Map, Value};

use super::{Advice, ConfigFile, Rebuilt, Target, json, shell};

/// The flags of one server, in the order in which they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    pub(super) environment: Vec<(String, String)>,
    flags: Vec<(&'static str, Form)>,
    pub(super) file: Option<ConfigFile>,
}

/// How the value of a flag is written.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// Its presence says it all.
    Switch,
    /// One word.
    Word(Value),
    /// A word for each number.
    List(Vec<u32>),
    /// One word of JSON.
    Json(Map<String, Value>),
}

impl Settings {
    pub(super) fn variable(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    pub(super) fn switch(&mut self, name: &'static str, on: bool) {
        if on {
            self.flags.push((name, Form::Switch));
        }
    }

    pub(super) fn word(&mut self, name: &'static str, value: Option<impl Into<Value>>) {
        self.flags.extend(value.map(|value| (name, Form::Word(value.into()))));
    }

    pub(super) fn list(&mut self, name: &'static str, sizes: Option<&[u32]>) {
        self.flags.extend(sizes.map(|sizes| (name, Form::List(sizes.to_vec()))));
    }

    /// An object, unless it is empty.
    pub(super) fn object(&mut self, name: &'static str, object: Map<String, Value>) {
        if !object.is_empty() {
            self.flags.push((name, Form::Json(object)));
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.flags.iter().any(|(given, _)| *given == name)
    }

    /// Whether the object of this name has the key.
    pub(super) fn object_has(&self, name: &str, key: &str) -> bool {
        let is_there = |form: &Form| matches!(form, Form::Json(object) if object.contains_key(key));
        self.flags.iter().any(|(given, form)| *given == name && is_there(form))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flags.is_empty() && self.environment.is_empty()
    }

    /// As arguments.
    pub(super) fn command(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (name, form) in &self.flags {
            words.push(format!("--{}", name.replace('_', "-")));
            match form {
                Form::Switch => {}
                Form::Word(Value::String(word)) => words.push(word.clone()),
                Form::Word(value) => words.push(value.to_string()),
                Form::List(sizes) => words.extend(sizes.iter().map(u32::to_string)),
                Form::Json(object) => words.push(json::line(&Value::Object(object.clone()))),
            }
        }
        words
    }

    /// As an object.
    pub(super) fn json(&self) -> Value {
        let value = |form: &Form| match form {
            Form::Switch => Value::Bool(true),
            Form::Word(value) => value.clone(),
            Form::List(sizes) => Value::from(sizes.clone()),
            Form::Json(object) => Value::Object(object.clone()),
        };
        self.flags.iter().map(|(name, form)| ((*name).to_owned(), value(form))).collect::<Map<_, _>>().into()
    }

    /// All forms, with what was found out about them.
    pub(super) fn into_advice(self, target: Target, notes: Vec<String>, checked: Rebuilt) -> Advice {
        let command = self.command();
        let (shell, json) = (shell::line(&command), self.json());
        let Self { environment, file, .. } = self;
        Advice { target, environment, command, shell, json, file, notes, checked }
    }
}
