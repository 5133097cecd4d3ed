//! The configuration as a whole: layers, messages, relations, and that no secret gets out.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::ExposeSecret;
use tempfile::TempDir;

use super::*;

mod executors;
mod layering;
mod problems;
mod secrets;

/// A configuration in the making: a folder with files, variables, flags.
struct Given {
    folder: TempDir,
    inputs: Inputs,
    variables: Vec<(String, String)>,
}

fn given() -> Given {
    let folder = tempfile::tempdir().unwrap();
    let inputs = Inputs {
        purpose: Purpose::Serving,
        environment: Environment::default(),
        config: None,
        default_file: folder.path().join("roundsman.toml"),
        flags: Flags::default(),
    };
    Given { folder, inputs, variables: Vec::new() }
}

impl Given {
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn file(self, text: &str) -> Given {
        self.write("roundsman.toml", text);
        self
    }

    fn env(mut self, name: &str, value: &str) -> Given {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn secret_file(self, name: &str, text: &str) -> Given {
        let path = self.write(name, text);
        self.env(name, path.to_str().unwrap())
    }

    fn flags(mut self, flags: Flags) -> Given {
        self.inputs.flags = flags;
        self
    }

    fn purpose(mut self, purpose: Purpose) -> Given {
        self.inputs.purpose = purpose;
        self
    }

    fn load(mut self) -> Result<Loaded, Problems> {
        self.inputs.environment = Environment::from_pairs(self.variables.clone());
        load(&self.inputs)
    }

    /// What is wrong, with the test's folder cut out of it.
    fn problems(self) -> Vec<String> {
        let folder = format!("{}/", self.folder.path().display());
        let problems = self.load().expect_err("the configuration was accepted");
        problems.messages().iter().map(|message| message.replace(&folder, "")).collect()
    }

    /// The one thing that is wrong.
    fn problem(self) -> String {
        let mut problems = self.problems();
        assert_eq!(problems.len(), 1, "{problems:#?}");
        problems.remove(0)
    }
}

fn listen(address: &str) -> Flags {
    Flags { listen: Some(address.to_owned()), ..Flags::default() }
}
