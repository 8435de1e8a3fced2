//! Users: who a command runs as, and the environment that goes with it.
//!
//! Reads /etc/passwd and /etc/group as files; no NSS, which would load libraries into the agent.

use std::collections::BTreeMap;
use std::fs;

use sandshell_sys::spawn::Identity;

use crate::ExecError;

/// A user as found in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) home: String,
}

impl Account {
    /// The user this process runs as.
    pub(crate) fn own() -> Self {
        let uid = rustix::process::getuid().as_raw();
        lookup(&uid.to_string()).unwrap_or_else(|| Self {
            name: uid.to_string(),
            uid,
            gid: rustix::process::getgid().as_raw(),
            groups: Vec::new(),
            home: "/".to_owned(),
        })
    }

    /// The user with this name or number. Only root may choose another than itself.
    pub(crate) fn find(wanted: &str) -> Result<Self, ExecError> {
        let account = lookup(wanted).ok_or_else(|| ExecError::UserNotFound {
            user: wanted.to_owned(),
        })?;
        let own = rustix::process::getuid();
        if !own.is_root() && own.as_raw() != account.uid {
            return Err(ExecError::Forbidden {
                detail: format!(
                    "the agent runs as uid {} and cannot start commands as {wanted:?}",
                    own.as_raw()
                ),
            });
        }
        Ok(account)
    }

    /// What the child must take on; `None` when it is us already.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let own = rustix::process::getuid();
        (own.is_root() && own.as_raw() != self.uid).then(|| Identity {
            uid: self.uid,
            gid: self.gid,
            groups: self.groups.clone(),
        })
    }

    /// The variables every command starts with.
    pub(crate) fn base_environment(&self, shell: &str) -> BTreeMap<String, String> {
        const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        [
            ("PATH", PATH),
            ("HOME", &self.home),
            ("USER", &self.name),
            ("LOGNAME", &self.name),
            ("SHELL", shell),
            ("LANG", "C.UTF-8"),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
    }
}

/// Finds a user by name, by number, or by a number that has no name.
fn lookup(wanted: &str) -> Option<Account> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let number: Option<u32> = wanted.parse().ok();
    let found = passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, ..] = fields.as_slice() else {
            return None;
        };
        let uid: u32 = uid.parse().ok()?;
        (*name == wanted || number == Some(uid)).then(|| {
            Some(Account {
                name: (*name).to_owned(),
                uid,
                gid: gid.parse().ok()?,
                groups: Vec::new(),
                home: (*home).to_owned(),
            })
        })?
    });
    let mut account = found.or_else(|| {
        number.map(|uid| Account {
            name: uid.to_string(),
            uid,
            gid: uid,
            groups: Vec::new(),
            home: "/".to_owned(),
        })
    })?;
    account.groups = groups_of(&account);
    Some(account)
}

fn groups_of(account: &Account) -> Vec<u32> {
    let group = fs::read_to_string("/etc/group").unwrap_or_default();
    let mut groups = vec![account.gid];
    groups.extend(group.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, gid, members, ..] = fields.as_slice() else {
            return None;
        };
        let gid: u32 = gid.parse().ok()?;
        (gid != account.gid && members.split(',').any(|m| m == account.name)).then_some(gid)
    }));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_by_name_and_number() {
        let by_name = lookup("root");
        assert_eq!(by_name, lookup("0"));
        assert_eq!(by_name.map(|a| a.uid), Some(0));
        assert_eq!(lookup("no-such-user-here"), None);
        assert_eq!(
            lookup("54321").map(|a| (a.uid, a.gid)),
            Some((54321, 54321))
        );
    }
}
