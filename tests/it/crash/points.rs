//! Where a hub can be killed: while it does one kind of thing, before or after the n-th call of a name.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Things a hub does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    FirstStart,
    Start,
    Stop,
    CreateFresh,
    CreateWarm,
    CreateNameless,
    CreateAgain,
    Label,
    Limit,
    Pause,
    Resume,
    Sleep,
    Wake,
    KeepAlive,
    MakeToken,
    RevokeToken,
    Exec,
    Process,
    Command,
    Delete,
    Expire,
    List,
}

impl Kind {
    pub(super) const ALL: &[(Self, &str)] = &[
        (Self::FirstStart, "first-start"),
        (Self::Start, "start"),
        (Self::Stop, "stop"),
        (Self::CreateFresh, "create-fresh"),
        (Self::CreateWarm, "create-warm"),
        (Self::CreateNameless, "create-nameless"),
        (Self::CreateAgain, "create-again"),
        (Self::Label, "label"),
        (Self::Limit, "limit"),
        (Self::Pause, "pause"),
        (Self::Resume, "resume"),
        (Self::Sleep, "sleep"),
        (Self::Wake, "wake"),
        (Self::KeepAlive, "keep-alive"),
        (Self::MakeToken, "make-token"),
        (Self::RevokeToken, "revoke-token"),
        (Self::Exec, "exec"),
        (Self::Process, "process"),
        (Self::Command, "command"),
        (Self::Delete, "delete"),
        (Self::Expire, "expire"),
        (Self::List, "list"),
    ];

    /// Those that a client asks for.
    pub(super) fn asked() -> impl Iterator<Item = Self> {
        let own = [Self::FirstStart, Self::Start, Self::Stop];
        let all = Self::ALL.iter().map(|(kind, _)| *kind);
        all.filter(move |kind| !own.contains(kind))
    }

    pub(super) fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(kind, _)| *kind == self);
        found.map_or("", |(_, name)| name)
    }

    /// Whether it cannot be done without control groups, which an ordinary user may not have.
    pub(super) fn needs_groups(self) -> bool {
        matches!(
            self,
            Self::Limit | Self::Pause | Self::Resume | Self::Sleep | Self::Wake
        )
    }

    /// Whether the launcher has a part in it.
    pub(super) fn launches(self) -> bool {
        matches!(
            self,
            Self::CreateFresh
                | Self::CreateWarm
                | Self::CreateNameless
                | Self::Limit
                | Self::Pause
                | Self::Resume
                | Self::Sleep
                | Self::Wake
                | Self::Delete
                | Self::Expire
        )
    }
}

/// Stands for whatever call comes.
pub(super) const ANY: &str = "*";

/// On which side of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Moment {
    Before,
    After,
}

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Victim {
    /// The hub; the launcher ends by itself as soon as it has done what it does.
    Hub,
    /// The hub, and the launcher stands still from before the call and for a while after, so that it does
    /// what it was told later.
    HubFirst,
    /// The launcher; the hub goes on.
    Launcher,
}

/// What the tracer waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Trap {
    pub(super) call: String,
    pub(super) nth: u32,
    pub(super) moment: Moment,
    pub(super) victim: Victim,
}

/// A crash point.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Point {
    pub(super) during: Kind,
    pub(super) trap: Trap,
}

/// `pause before 2 hub: pwrite64 s/hub.db-wal`.
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trap {
            call,
            nth,
            moment,
            victim,
        } = &self.trap;
        let moment = match moment {
            Moment::Before => "before",
            Moment::After => "after",
        };
        let victim = match victim {
            Victim::Hub => "hub",
            Victim::HubFirst => "hub-first",
            Victim::Launcher => "launcher",
        };
        write!(f, "{} {moment} {nth} {victim}: {call}", self.during.name())
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("no crash point: {text:?}");
        let (head, call) = text.trim().split_once(": ").ok_or_else(wrong)?;
        let words: Vec<&str> = head.split(' ').collect();
        let [kind, moment, nth, victim] = words[..] else {
            return Err(wrong());
        };
        let kind = Kind::ALL.iter().find(|(_, name)| *name == kind);
        Ok(Self {
            during: kind.ok_or_else(wrong)?.0,
            trap: Trap {
                call: call.to_owned(),
                nth: nth.parse().map_err(|_| wrong())?,
                moment: match moment {
                    "before" => Moment::Before,
                    "after" => Moment::After,
                    _ => return Err(wrong()),
                },
                victim: match victim {
                    "hub" => Victim::Hub,
                    "hub-first" => Victim::HubFirst,
                    "launcher" => Victim::Launcher,
                    _ => return Err(wrong()),
                },
            },
        })
    }
}

/// All points of these calls, of which the number says how often each is made.
pub(super) fn of_calls(heard: &BTreeMap<Kind, BTreeMap<String, u32>>) -> Vec<Point> {
    let mut points = Vec::new();
    for (kind, calls) in heard {
        for (call, count) in calls.iter().filter(|(call, _)| *call != ANY) {
            for nth in 1..=*count {
                for moment in [Moment::Before, Moment::After] {
                    let mut add = |victim| {
                        points.push(Point {
                            during: *kind,
                            trap: Trap {
                                call: call.clone(),
                                nth,
                                moment,
                                victim,
                            },
                        });
                    };
                    // Files are copied one after the other: after one is before the next.
                    if call.contains("s/etc/N/") && moment == Moment::After {
                        continue;
                    }
                    add(Victim::Hub);
                    // Where the launcher is asked for something, it may be late or die as well.
                    let told = call.starts_with("sendmsg") || call.contains("hub.db");
                    if kind.launches() && told {
                        add(Victim::HubFirst);
                    }
                    if kind.launches() && (told || call.starts_with("recvmsg")) {
                        add(Victim::Launcher);
                    }
                }
            }
        }
    }
    points
}
