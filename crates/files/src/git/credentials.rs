//! Credentials for one run of git, and URLs.
//!
//! They are written into a pipe whose reading end git inherits under the number [`FD`]; the writing
//! end is closed at once, so whoever reads first gets them and everybody after that reads an end of
//! file. The reader is a credential helper set for this run only, in place of all configured ones,
//! so that none of those is given them to store. It answers only for the host they are meant for:
//! a redirect elsewhere gets nothing.

use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};
use sandshell_exec::ExecError;
use sandshell_types::GitAuth;

use super::GitError;

/// The number of the pipe there. One digit: some shells know no others.
pub(super) const FD: i32 = 9;

/// Most bytes of credentials; far less than a pipe takes without a reader.
const MAX_BYTES: usize = 16 << 10;

/// What a run needs to authenticate.
pub(super) struct Credentials {
    pub(super) pipe: OwnedFd,
    /// Words before git's own; no secret in them.
    pub(super) config: Vec<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// The parts of an HTTP URL that matter here.
struct HttpUrl<'a> {
    origin: String,
    username: Option<&'a str>,
}

impl Credentials {
    /// Prepares them for the host of this URL.
    pub(super) fn new(auth: &GitAuth, url: &str) -> Result<Self, GitError> {
        let ((Some(secret), None) | (None, Some(secret))) = (&auth.password, &auth.token) else {
            return Err(GitError::invalid(
                "/auth",
                "exactly one of `password` and `token` is needed",
            ));
        };
        let url = http_url(url).ok_or_else(|| GitError::Invalid {
            pointer: "/auth".to_owned(),
            detail: "credentials can be given for http and https URLs only".to_owned(),
            hint: Some("for ssh, put a key into the sandbox's ~/.ssh".to_owned()),
        })?;
        let username = auth.username.as_deref().or(url.username);
        let username = username.unwrap_or("x-access-token");
        for (pointer, text) in [("/auth/username", username), ("/auth", secret.as_str())] {
            if text.is_empty() || text.contains(['\n', '\r', '\0']) {
                return Err(GitError::invalid(
                    pointer,
                    "credentials are not empty and have neither line breaks nor NUL bytes",
                ));
            }
        }
        let text = format!("username={username}\npassword={secret}\n");
        if text.len() > MAX_BYTES {
            return Err(GitError::invalid(
                "/auth",
                "credentials have at most 16 KiB",
            ));
        }
        let failed = |errno: rustix::io::Errno| {
            GitError::Exec(ExecError::Unavailable {
                detail: format!("cannot pass credentials: {errno}"),
            })
        };
        let (pipe, write) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let n = rustix::io::write(&write, rest).map_err(failed)?;
            rest = rest.get(n..).unwrap_or_default();
        }
        Ok(Self {
            pipe,
            config: vec![
                "-c".to_owned(),
                // Forgets the helpers configured before.
                "credential.helper=".to_owned(),
                "-c".to_owned(),
                format!("credential.helper={}", helper(&url.origin)),
            ],
        })
    }
}

fn helper(origin: &str) -> String {
    format!(
        "!f() {{ test \"$1\" = get || exit 0; while IFS= read -r l && test -n \"$l\"; do \
         case $l in protocol=*) p=${{l#*=}};; host=*) h=${{l#*=}};; esac; done; \
         test \"$p://$h\" = '{origin}' && cat <&{FD}; }}; f"
    )
}

fn http_url(url: &str) -> Option<HttpUrl<'_>> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    if scheme != "http" && scheme != "https" {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let (username, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let fine = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    (!host.is_empty() && host.chars().all(fine)).then(|| HttpUrl {
        origin: format!("{scheme}://{host}"),
        username: username.filter(|user| !user.is_empty() && !user.contains('%')),
    })
}

/// Refuses URLs that git could take for something else, or that hold a secret.
pub(crate) fn check_url(url: &str) -> Result<(), GitError> {
    let refuse = |detail: &str, hint: Option<&str>| {
        Err(GitError::Invalid {
            pointer: "/url".to_owned(),
            detail: detail.to_owned(),
            hint: hint.map(str::to_owned),
        })
    };
    if url.is_empty() || url.starts_with('-') || url.contains(|c: char| c.is_control()) {
        return refuse(
            "a URL is not empty, does not begin with '-' and has no control characters",
            None,
        );
    }
    let word = |text: &str| {
        let fine = |c: char| c.is_ascii_alphanumeric() || "+.-_".contains(c);
        !text.is_empty() && text.chars().all(fine)
    };
    let hint = Some("http, https, ssh, git and file URLs, host:path, and paths can be used");
    if url.split_once("::").is_some_and(|(helper, _)| word(helper)) {
        return refuse(
            "helpers such as ext:: are not used, as they run commands",
            hint,
        );
    }
    if let Some((scheme, rest)) = url.split_once("://")
        && word(scheme)
    {
        let known = ["http", "https", "ssh", "git", "file"];
        if !known.contains(&scheme.to_ascii_lowercase().as_str()) {
            return refuse("this protocol is not used", hint);
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority
            .rsplit_once('@')
            .is_some_and(|(user, _)| user.contains(':'))
        {
            return refuse(
                "a password in the URL would be stored in the clone's configuration",
                Some("give it as `auth`"),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_what_they_seem() {
        for fine in [
            "https://a.b/c.git",
            "HTTP://u@a:8080/c",
            "git@host:path/x",
            "/srv/repo",
            "../x",
            "file:///x",
            "ssh://git@h/x",
        ] {
            assert!(check_url(fine).is_ok(), "{fine}");
        }
        for wrong in [
            "",
            "-upload-pack=x",
            "ext::sh -c x",
            "fd::17",
            "ftp://h/x",
            "https://u:p@h/x",
            "a\nb",
        ] {
            assert!(check_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn credentials_are_for_one_host() {
        let auth = GitAuth {
            token: Some("s3cret".to_owned()),
            ..GitAuth::default()
        };
        let made = Credentials::new(&auth, "https://u@h:1/x");
        assert!(made.is_ok_and(|made| {
            let words = made.config.join(" ");
            words.contains("'https://h:1'") && !words.contains("s3cret")
        }));
        assert!(Credentials::new(&auth, "git@h:x").is_err());
        assert!(Credentials::new(&auth, "https://h'$(x)/x").is_err());
        assert!(Credentials::new(&GitAuth::default(), "https://h/x").is_err());
    }
}
