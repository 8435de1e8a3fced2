//! Which hub is talked to, with which token, and what else is set: flags, then the environment, then
//! `./sandshell.toml`, then the user's own file, then the defaults.
//!
//! Every value knows where it came from. The first layer that names a hub or an address decides both:
//!
//! ```text
//! --url | --hub   >   SANDSHELL_URL | SANDSHELL_HUB   >   ./sandshell.toml   >   config.toml   >   default
//! ```
//!
//! # A token goes only where its owner sends it
//!
//! A project file comes with code of others. It may name one of the user's own hubs, or the address of
//! one, and nothing else: with any other address a command that would send a token is refused. A token in
//! `[hubs.NAME]` goes to that hub's address alone, and the one that `sandshell serve` made goes to
//! this machine alone.

pub(crate) mod edit;
pub(crate) mod file;

use std::fmt;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;

use crate::connection::Remote;
use crate::failure::Failure;
use crate::names;
use crate::paint::When;
use file::{ProjectFile, UserFile};

/// Where `sandshell serve` listens.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:4020";
/// How a terminal is left without ending it.
pub(crate) const DEFAULT_DETACH_KEYS: &str = "ctrl-p,ctrl-q";
/// The project's file, in the working directory only.
pub(crate) const PROJECT_FILE: &str = "sandshell.toml";

/// What to do about a token file that is of no use.
const TOKEN_HINT: &str = "`sandshell login < FILE` keeps a token, SANDSHELL_TOKEN_FILE=FILE names one; \
     a hub that was not started yet makes its own then, and `sandshell serve` says in which file";

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(&'static str),
    Environment(&'static str),
    Project,
    User(PathBuf),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => f.write_str(name),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Project => write!(f, "./{PROJECT_FILE}"),
            Self::User(path) => path.display().fmt(f),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<T> Sourced<T> {
    fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}

/// Where the token is.
#[derive(Clone)]
pub(crate) enum TokenPlace {
    /// In the environment.
    Given(String),
    /// In a file; absent when it may be missing and is.
    File(PathBuf),
}

impl fmt::Debug for TokenPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Everything that is set.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) hub: Option<Sourced<String>>,
    pub(crate) url: Sourced<String>,
    pub(crate) token: Option<Sourced<TokenPlace>>,
    pub(crate) sandbox: Option<Sourced<String>>,
    pub(crate) color: Sourced<When>,
    pub(crate) detach_keys: Sourced<String>,
    pub(crate) user_file: UserFile,
    /// What is wrong with the files and does not stop us.
    pub(crate) warnings: Vec<String>,
}

/// What the process was started with; apart, so that tests need not change their own.
pub(crate) struct Surroundings {
    pub(crate) variable: fn(&str) -> Option<String>,
    pub(crate) directory: PathBuf,
}

impl Surroundings {
    pub(crate) fn real() -> Self {
        Self {
            variable: |name| std::env::var(name).ok().filter(|value| !value.is_empty()),
            directory: PathBuf::new(),
        }
    }
}

impl Settings {
    /// Reads the files and settles every value.
    pub(crate) fn read(remote: &Remote) -> Result<Self, Failure> {
        Self::read_in(remote, &Surroundings::real())
    }

    pub(crate) fn read_in(remote: &Remote, surroundings: &Surroundings) -> Result<Self, Failure> {
        let mut warnings = Vec::new();
        let user_path = user_file_path(surroundings.variable);
        let user = UserFile::read(user_path.as_deref(), &mut warnings)?;
        let project = ProjectFile::read(&surroundings.directory.join(PROJECT_FILE), &mut warnings)?;
        let of_user = || Origin::User(user_path.clone().unwrap_or_default());
        let variable = surroundings.variable;

        let (hub, url) = address(remote, variable, &project, &user, &of_user)?;
        let token = token(remote, variable, hub.as_ref(), &url, &user, &of_user)?;
        let sandbox = variable("SANDSHELL_SANDBOX")
            .map(|value| Sourced::new(value, Origin::Environment("SANDSHELL_SANDBOX")))
            .or_else(|| Some(Sourced::new(project.sandbox.clone()?, Origin::Project)))
            .or_else(|| Some(Sourced::new(user.sandbox.clone()?, of_user())));
        let color = match (remote.color, &user.color) {
            (Some(when), _) => Sourced::new(when, Origin::Flag("--color")),
            (None, Some(word)) => {
                let when = When::from_str(word, true).map_err(|_| {
                    Failure::usage(format!("color is auto, always or never, not {word:?}"))
                        .hint("`sandshell config set color auto` sets it right")
                })?;
                Sourced::new(when, of_user())
            }
            (None, None) => Sourced::new(When::Auto, Origin::Default),
        };
        let detach_keys = variable("SANDSHELL_DETACH_KEYS")
            .map(|keys| Sourced::new(keys, Origin::Environment("SANDSHELL_DETACH_KEYS")))
            .or_else(|| Some(Sourced::new(user.detach_keys.clone()?, of_user())))
            .unwrap_or_else(|| Sourced::new(DEFAULT_DETACH_KEYS.to_owned(), Origin::Default));
        Ok(Self {
            hub,
            url,
            token,
            sandbox,
            color,
            detach_keys,
            user_file: user,
            warnings,
        })
    }

    /// The token itself.
    pub(crate) fn read_token(&self) -> Result<Option<String>, Failure> {
        let Some(Sourced { value, origin }) = &self.token else {
            return Ok(None);
        };
        let path = match value {
            TokenPlace::Given(token) => return one_word(token, &origin.to_string()).map(Some),
            TokenPlace::File(path) => path,
        };
        match std::fs::read_to_string(path) {
            Ok(text) if text.trim().is_empty() => Err(Failure::usage(format!(
                "the token file {} is empty",
                path.display()
            ))
            .code(4)
            .hint(TOKEN_HINT)),
            Ok(text) => one_word(&text, &format!("{} ({origin})", path.display())).map(Some),
            // Nobody asked for that one.
            Err(_) if *origin == Origin::Default => Ok(None),
            Err(error) => Err(Failure::local(
                format!(
                    "the token file {} ({origin}) cannot be read",
                    path.display()
                ),
                &error,
            )
            .code(4)
            .hint(TOKEN_HINT)),
        }
    }
}

/// A token, which is sent in a header.
fn one_word(text: &str, place: &str) -> Result<String, Failure> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    let wrong = Failure::usage(format!("what is in {place} is no token"));
    Err(wrong
        .code(4)
        .hint(format!("a token is one word; {TOKEN_HINT}")))
}

type Address = (Option<Sourced<String>>, Sourced<String>);

/// The first layer that names a hub or an address decides.
fn address(
    remote: &Remote,
    variable: fn(&str) -> Option<String>,
    project: &ProjectFile,
    user: &UserFile,
    of_user: &dyn Fn() -> Origin,
) -> Result<Address, Failure> {
    let layers = [
        (
            remote.url.clone(),
            Origin::Flag("--url"),
            remote.hub.clone(),
            Origin::Flag("--hub"),
        ),
        (
            variable("SANDSHELL_URL"),
            Origin::Environment("SANDSHELL_URL"),
            variable("SANDSHELL_HUB"),
            Origin::Environment("SANDSHELL_HUB"),
        ),
        (
            project.url.clone(),
            Origin::Project,
            project.hub.clone(),
            Origin::Project,
        ),
        (None, Origin::Default, user.hub.clone(), of_user()),
    ];
    for (url, url_origin, name, name_origin) in layers {
        if let Some(url) = url {
            return Ok((None, Sourced::new(url, url_origin)));
        }
        let Some(name) = name else { continue };
        let Some(entry) = user.hubs.get(&name) else {
            let known: Vec<&str> = user.hubs.keys().map(String::as_str).collect();
            let meant = names::nearest(&name, known.iter().copied());
            let hint = meant.map_or_else(
                || format!("`sandshell login --name {name} --url URL` makes it known"),
                |meant| format!("did you mean {meant:?}? `sandshell config show` lists hubs"),
            );
            return Err(Failure::usage(format!(
                "there is no hub {name:?} in your configuration ({name_origin})"
            ))
            .hint(hint));
        };
        let Some(url) = &entry.url else {
            return Err(
                Failure::usage(format!("the hub {name:?} has no url")).hint(format!(
                    "`sandshell config set hubs.{name}.url URL` gives it one"
                )),
            );
        };
        let url = Sourced::new(url.clone(), of_user());
        return Ok((Some(Sourced::new(name, name_origin)), url));
    }
    let url = Sourced::new(DEFAULT_URL.to_owned(), Origin::Default);
    Ok((None, url))
}

fn token(
    remote: &Remote,
    variable: fn(&str) -> Option<String>,
    hub: Option<&Sourced<String>>,
    url: &Sourced<String>,
    user: &UserFile,
    of_user: &dyn Fn() -> Origin,
) -> Result<Option<Sourced<TokenPlace>>, Failure> {
    let of_entry = match hub {
        Some(hub) => user.hubs.get(&hub.value),
        None => user.hubs.values().find(|entry| {
            let known = entry.url.as_deref().map(normal);
            known.as_deref() == Some(&*normal(&url.value))
        }),
    };
    let is_default = normal(&url.value) == DEFAULT_URL;
    let explicit = remote
        .token_file
        .clone()
        .map(|path| Sourced::new(TokenPlace::File(path), Origin::Flag("--token-file")))
        .or_else(|| {
            let token = variable("SANDSHELL_TOKEN")?;
            let origin = Origin::Environment("SANDSHELL_TOKEN");
            Some(Sourced::new(TokenPlace::Given(token), origin))
        })
        .or_else(|| {
            let path = variable("SANDSHELL_TOKEN_FILE")?;
            let origin = Origin::Environment("SANDSHELL_TOKEN_FILE");
            Some(Sourced::new(TokenPlace::File(path.into()), origin))
        });
    let of_project = url.origin == Origin::Project;
    if of_project && !is_default && of_entry.is_none() {
        return match explicit {
            None => Ok(None),
            Some(token) => Err(Failure::usage(format!(
                "./{PROJECT_FILE} names {}, which is none of your hubs; your token ({}) is not sent there",
                url.value, token.origin
            ))
            .hint(format!(
                "if you trust it: `sandshell login --name NAME --url {}`, or --url for this once",
                url.value
            ))),
        };
    }
    if explicit.is_some() {
        return Ok(explicit);
    }
    if let Some(entry) = of_entry
        && let Some(path) = &entry.token_file
    {
        return Ok(Some(Sourced::new(
            TokenPlace::File(file::from_home(path, variable)),
            of_user(),
        )));
    }
    let of_this_machine = is_default || (!of_project && is_loopback(&url.value));
    Ok(of_this_machine.then(|| {
        let path = default_token_file(variable);
        Sourced::new(TokenPlace::File(path), Origin::Default)
    }))
}

/// An address in the one way we compare it.
fn normal(url: &str) -> String {
    url.trim_end_matches('/').to_ascii_lowercase()
}

/// Whether what is sent to an address stays on this machine.
fn is_loopback(url: &str) -> bool {
    let Some(authority) = url.strip_prefix("http://") else {
        return false;
    };
    let authority = authority.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return false;
    }
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// A directory of the user's, by the rules of XDG.
fn xdg(variable: fn(&str) -> Option<String>, name: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |path: String| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    variable(name)
        .and_then(absolute)
        .or_else(|| Some(variable("HOME").and_then(absolute)?.join(below_home)))
}

/// The user's own file; `None` for a user without a home.
pub(crate) fn user_file_path(variable: fn(&str) -> Option<String>) -> Option<PathBuf> {
    Some(user_directory(variable)?.join("config.toml"))
}

/// Where the user's own files are.
pub(crate) fn user_directory(variable: fn(&str) -> Option<String>) -> Option<PathBuf> {
    Some(xdg(variable, "XDG_CONFIG_HOME", ".config")?.join("sandshell"))
}

/// Where `sandshell serve` writes its token when it is told no place.
pub(crate) fn default_token_file(variable: fn(&str) -> Option<String>) -> PathBuf {
    if let Some(dir) = variable("SANDSHELL_STATE_DIR") {
        return Path::new(&dir).join("token");
    }
    xdg(variable, "XDG_STATE_HOME", ".local/state").map_or_else(
        || {
            let uid = rustix::process::getuid().as_raw();
            PathBuf::from(format!("/tmp/sandshell-hub-{uid}/token"))
        },
        |state| state.join("sandshell/hub/token"),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn none(_: &str) -> Option<String> {
        None
    }

    fn with_token(name: &str) -> Option<String> {
        (name == "SANDSHELL_TOKEN").then(|| "secret".to_owned())
    }

    fn settle(
        files: &[(&str, &str)],
        variable: fn(&str) -> Option<String>,
        remote: &Remote,
    ) -> Result<Settings, Failure> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let project = ProjectFile::read(&dir.path().join(PROJECT_FILE), &mut Vec::new()).unwrap();
        let user_path = dir.path().join("config.toml");
        let user = UserFile::read(Some(&user_path), &mut Vec::new()).unwrap();
        let of_user = || Origin::User("config.toml".into());
        let (hub, url) = address(remote, variable, &project, &user, &of_user)?;
        let token = token(remote, variable, hub.as_ref(), &url, &user, &of_user)?;
        Ok(Settings {
            hub,
            url,
            token,
            sandbox: None,
            color: Sourced::new(When::Auto, Origin::Default),
            detach_keys: Sourced::new(String::new(), Origin::Default),
            user_file: user,
            warnings: Vec::new(),
        })
    }

    const USER: &str =
        "hub = \"work\"\n[hubs.work]\nurl = \"http://hub.work:4020\"\ntoken_file = \"/t/work\"\n";

    #[test]
    fn the_first_layer_that_names_a_hub_decides() {
        let plain = Remote::default();
        let default = settle(&[], none, &plain).unwrap();
        assert_eq!(default.url.value, DEFAULT_URL);
        let user = settle(&[("config.toml", USER)], none, &plain).unwrap();
        assert_eq!(user.url.value, "http://hub.work:4020");
        assert!(
            matches!(user.token.unwrap().value, TokenPlace::File(p) if p == Path::new("/t/work"))
        );
        let flag = Remote {
            url: Some("http://127.0.0.1:1".to_owned()),
            ..Remote::default()
        };
        let flagged = settle(&[("config.toml", USER)], none, &flag).unwrap();
        assert_eq!(flagged.url.origin, Origin::Flag("--url"));
        assert_eq!(flagged.token.unwrap().origin, Origin::Default);
    }

    #[test]
    fn a_project_sends_no_token_to_a_stranger() {
        let stranger = "url = \"http://evil.example\"";
        let plain = Remote::default();
        let files = [("config.toml", USER), (PROJECT_FILE, stranger)];
        assert!(settle(&files, with_token, &plain).is_err());
        let without = settle(&files, none, &plain).unwrap();
        assert!(without.token.is_none(), "it is asked, without a token");
        let friend = "url = \"http://HUB.work:4020/\"";
        let files = [("config.toml", USER), (PROJECT_FILE, friend)];
        let known = settle(&files, none, &plain).unwrap();
        assert_eq!(
            known.token.unwrap().origin,
            Origin::User("config.toml".into())
        );
        let local = "url = \"http://127.0.0.1:9\"";
        let files = [(PROJECT_FILE, local)];
        assert!(settle(&files, none, &plain).unwrap().token.is_none());
        assert!(settle(&files, with_token, &plain).is_err());
        let named = "hub = \"work\"";
        let files = [("config.toml", USER), (PROJECT_FILE, named)];
        assert_eq!(
            settle(&files, none, &plain).unwrap().url.value,
            "http://hub.work:4020"
        );
    }

    #[test]
    fn only_this_machine_is_this_machine() {
        for url in ["http://127.0.0.1:4", "http://localhost", "http://[::1]:7/"] {
            assert!(is_loopback(url), "{url}");
        }
        for url in [
            "http://127.0.0.1.evil.example",
            "http://127.0.0.1@evil.example",
            "http://localhost.evil",
            "http://10.0.0.1",
            "unix:/s",
            "https://127.0.0.1",
        ] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
