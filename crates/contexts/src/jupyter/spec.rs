//! Which Jupyter kernels are installed in the sandbox.
//!
//! Looked for as Jupyter does: `JUPYTER_PATH`, the user's data directory, and `share/jupyter` beside
//! each `bin` of the `PATH`, which finds virtual environments too. Everything is read through the
//! inside, with the rights of the context's user.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, OFlags};
use sandshell_exec::Executor;
use sandshell_exec::inside::{Follow, Root};
use sandshell_types::{ContextRequest, Language};
use serde::Deserialize;

use crate::ContextError;

/// Largest kernel.json.
const SPEC_MAX: u64 = 64 * 1024;

/// An installed kernel.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct KernelSpec {
    pub(crate) argv: Vec<String>,
    #[serde(default)]
    language: String,
    #[serde(default)]
    interrupt_mode: String,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) display_name: String,
}

impl KernelSpec {
    /// The first one for the language of a context.
    pub(crate) async fn find(
        executor: &Executor,
        spec: &ContextRequest,
    ) -> Result<Option<Self>, ContextError> {
        let who = executor.who(spec.user.as_deref())?;
        let mut environment = executor.command_environment();
        for (name, value) in &spec.env {
            match value {
                Some(value) => environment.insert(name.clone(), value.clone()),
                None => environment.remove(name),
            };
        }
        let directories = directories(&environment);
        let language = spec.language.as_str();
        let found = executor
            .inside()
            .run(&who, move |root| {
                directories
                    .iter()
                    .find_map(|directory| search(root, directory, language))
            })
            .await;
        found.map_err(|error| ContextError::start(error.to_string()))
    }

    /// Whether it is interrupted by a message; else by a signal.
    pub(crate) fn interrupts_by_message(&self) -> bool {
        self.interrupt_mode == "message"
    }

    pub(crate) fn missing(language: Language) -> ContextError {
        let how = match language {
            Language::Python => "`pip install ipykernel`",
            Language::Javascript => "`npm install -g ijavascript && ijsinstall`",
            Language::Typescript => "`npm install -g tslab && tslab install`",
            Language::Bash => "`pip install bash_kernel && python3 -m bash_kernel.install`",
        };
        ContextError::InterpreterNotFound {
            what: format!("a Jupyter kernel for {}", language.as_str()),
            hint: format!("Install one in the sandbox: {how}; or leave `kernel` out."),
        }
    }
}

/// Where kernels may be, the nearest first.
fn directories(environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let variable = |name: &str| environment.get(name).map(String::as_str);
    let mut bases: Vec<PathBuf> = Vec::new();
    let listed = |text: Option<&str>| -> Vec<PathBuf> {
        text.unwrap_or_default()
            .split(':')
            .filter(|part| part.starts_with('/'))
            .map(PathBuf::from)
            .collect()
    };
    bases.extend(listed(variable("JUPYTER_PATH")));
    match (variable("JUPYTER_DATA_DIR"), variable("HOME")) {
        (Some(data), _) => bases.push(PathBuf::from(data)),
        (None, Some(home)) => bases.push(Path::new(home).join(".local/share/jupyter")),
        (None, None) => {}
    }
    for bin in listed(variable("PATH")) {
        if bin.file_name().is_some_and(|name| name == "bin")
            && let Some(prefix) = bin.parent()
        {
            bases.push(prefix.join("share/jupyter"));
        }
    }
    let mut found = Vec::new();
    for base in bases {
        let directory = base.join("kernels");
        if directory.is_absolute() && !found.contains(&directory) {
            found.push(directory);
        }
    }
    found
}

fn search(root: &Root, directory: &Path, language: &str) -> Option<KernelSpec> {
    let found = root.find(directory, Follow::Yes).ok()?;
    let opened = root.open(&found, OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
    let mut names: Vec<String> = Dir::new(opened)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str().ok()?.to_owned()))
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names.iter().find_map(|name| {
        let mut spec = read(root, &directory.join(name).join("kernel.json"))?;
        if !spec.language.eq_ignore_ascii_case(language) {
            return None;
        }
        beside(root, directory, &mut spec)?;
        Some(spec)
    })
}

fn read(root: &Root, path: &Path) -> Option<KernelSpec> {
    let found = root.find(path, Follow::Yes).ok()?;
    let opened = root.open(&found, OFlags::RDONLY).ok()?;
    let mut text = Vec::new();
    std::fs::File::from(opened)
        .take(SPEC_MAX)
        .read_to_end(&mut text)
        .ok()?;
    serde_json::from_slice(&text).ok()
}

/// A kernel that is started by a mere name runs with the program beside it, if there is one: in a
/// virtual environment `python` is that environment's.
fn beside(root: &Root, directory: &Path, spec: &mut KernelSpec) -> Option<()> {
    let program = spec.argv.first_mut()?;
    let prefix = directory.ancestors().nth(3)?;
    let near = prefix.join("bin").join(&*program);
    if !program.contains('/') && root.find(&near, Follow::Yes).is_ok() {
        *program = near.to_string_lossy().into_owned();
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_looked_for_where_jupyter_looks() {
        let environment = [
            ("PATH", "/venv/bin:/usr/local/bin:/usr/bin:relative/bin"),
            ("HOME", "/home/u"),
            ("JUPYTER_PATH", "/extra"),
        ];
        let environment = environment
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let expected = [
            "/extra/kernels",
            "/home/u/.local/share/jupyter/kernels",
            "/venv/share/jupyter/kernels",
            "/usr/local/share/jupyter/kernels",
            "/usr/share/jupyter/kernels",
        ];
        assert_eq!(directories(&environment), expected.map(PathBuf::from));
    }
}
