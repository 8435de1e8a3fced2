//! Users: who a command runs as, and the environment that goes with it.
//!
//! Reads the sandbox's /etc/passwd and /etc/group as files; no NSS, which would load libraries into
//! the agent.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::thread::CapabilitySet;
use sandshell_isolate::plan::{AGENT_UID, LAST_UID};
use sandshell_sys::spawn::Identity;

use crate::ExecError;
use crate::inside::Inside;

/// A user as found in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) home: String,
    /// Whether it is another than this process.
    taken_on: bool,
}

/// The users of the sandbox, and which of them commands can be.
#[derive(Debug)]
pub(crate) struct Accounts {
    inside: Inside,
    /// Who this process is.
    own: u32,
    /// Whether it may start commands as somebody else.
    may_switch: bool,
    /// The last number of a user or group. Those behind it are nobody's, or in a sandbox the agent's, which has
    /// other rights than what it starts.
    last: u32,
}

impl Accounts {
    pub(crate) fn new(inside: Inside) -> Self {
        let held = rustix::thread::capabilities(None).map(|sets| sets.permitted);
        let may_switch = held.is_ok_and(|held| held.contains(CapabilitySet::SETUID));
        let own = rustix::process::getuid().as_raw();
        let is_apart = may_switch && own == AGENT_UID;
        Self {
            inside,
            own,
            may_switch,
            last: if is_apart { LAST_UID } else { u32::MAX - 1 },
        }
    }

    /// The user this process runs as.
    pub(crate) fn own(&self) -> Account {
        self.lookup(&self.own.to_string())
            .unwrap_or_else(|| Account {
                name: self.own.to_string(),
                uid: self.own,
                gid: rustix::process::getgid().as_raw(),
                groups: Vec::new(),
                home: "/".to_owned(),
                taken_on: false,
            })
    }

    /// The user with this name or number. Without the right to change, only ourselves.
    pub(crate) fn find(&self, wanted: &str) -> Result<Account, ExecError> {
        let account = self.lookup(wanted).ok_or_else(|| ExecError::UserNotFound {
            user: wanted.to_owned(),
        })?;
        if !self.may_switch && self.own != account.uid {
            return Err(ExecError::Forbidden {
                detail: format!(
                    "the agent runs as uid {} and cannot start commands as {wanted:?}",
                    self.own
                ),
            });
        }
        Ok(account)
    }

    /// Finds a user by name, by number, or by a number that has no name; `:GROUP` behind it is the group
    /// to have instead of its own.
    fn lookup(&self, wanted: &str) -> Option<Account> {
        let table = |path: &str| {
            let text = self.inside.own_root().read_table(Path::new(path));
            text.unwrap_or_default()
        };
        let (wanted, group) = match wanted.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (wanted, None),
        };
        let groups = table("/etc/group");
        let mut account = find_in(&table("/etc/passwd"), wanted)?;
        if let Some(group) = group {
            account.gid = group_in(&groups, group)?;
        }
        if account.uid.max(account.gid) > self.last {
            return None;
        }
        account.groups = groups_of(&account, &groups);
        account.groups.retain(|gid| *gid <= self.last);
        account.taken_on = self.may_switch && self.own != account.uid;
        Some(account)
    }
}

impl Account {
    /// What the child must take on; `None` when it is us already.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.taken_on.then(|| Identity {
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

fn find_in(passwd: &str, wanted: &str) -> Option<Account> {
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
                taken_on: false,
            })
        })?
    });
    found.or_else(|| {
        number.map(|uid| Account {
            name: uid.to_string(),
            uid,
            gid: uid,
            groups: Vec::new(),
            home: "/".to_owned(),
            taken_on: false,
        })
    })
}

/// A group by name or number.
fn group_in(groups: &str, wanted: &str) -> Option<u32> {
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == wanted).then(|| fields.nth(1)?.parse().ok())?
    });
    named.or_else(|| wanted.parse().ok())
}

fn groups_of(account: &Account, group: &str) -> Vec<u32> {
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
        let passwd = "root:x:0:0:root:/root:/bin/bash\nmary:x:1000:1001::/home/mary:/bin/sh\nbad\n";
        let by_name = find_in(passwd, "mary");
        assert_eq!(by_name, find_in(passwd, "1000"));
        let mary = by_name.as_ref().map(|a| (a.uid, a.gid, a.home.as_str()));
        assert_eq!(mary, Some((1000, 1001, "/home/mary")));
        assert_eq!(find_in(passwd, "no-such-user-here"), None);
        assert_eq!(
            find_in(passwd, "54321").map(|a| (a.uid, a.gid)),
            Some((54321, 54321))
        );
        let group = "adm:x:4:mary,x\nusers:x:1001:\nother:x:9:y\n";
        assert_eq!(group_in(group, "users"), Some(1001));
        assert_eq!(group_in(group, "77"), Some(77));
        assert_eq!(group_in(group, "nobody-here"), None);
        let groups = by_name.map(|mary| groups_of(&mary, group));
        assert_eq!(groups, Some(vec![1001, 4]));
    }
}
