//! The messages of `process.Process` and `filesystem.Filesystem`, field by field, for those who send them
//! in binary.

/// What a field holds.
#[derive(Debug)]
pub(crate) enum Kind {
    Text,
    Bytes,
    Number,
    /// A number that is small also when it is negative.
    Signed,
    Flag,
    Enum(&'static [(u64, &'static str)]),
    Message(&'static [Field]),
    /// A map from text to text.
    Map,
    /// A time; in JSON it is RFC 3339.
    Time,
}

/// A field of a message, with its name in JSON.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) many: bool,
}

/// A message: its fields.
pub(crate) type Message = &'static [Field];

const fn one(number: u32, name: &'static str, kind: Kind) -> Field {
    Field {
        number,
        name,
        kind,
        many: false,
    }
}

const fn many(number: u32, name: &'static str, kind: Kind) -> Field {
    Field {
        number,
        name,
        kind,
        many: true,
    }
}

use Kind::{Bytes, Enum, Flag, Map, Number, Signed, Text, Time};

pub(crate) const EMPTY: Message = &[];

const SIZE: Message = &[one(1, "cols", Number), one(2, "rows", Number)];
const PTY: Message = &[one(1, "size", Kind::Message(SIZE))];
const CONFIG: Message = &[
    one(1, "cmd", Text),
    many(2, "args", Text),
    one(3, "envs", Map),
    one(4, "cwd", Text),
];
const SELECTOR: Message = &[one(1, "pid", Number), one(2, "tag", Text)];
const INPUT: Message = &[one(1, "stdin", Bytes), one(2, "pty", Bytes)];
const SIGNAL: Kind = Enum(&[
    (0, "SIGNAL_UNSPECIFIED"),
    (9, "SIGNAL_SIGKILL"),
    (15, "SIGNAL_SIGTERM"),
]);

pub(crate) const START: Message = &[
    one(1, "process", Kind::Message(CONFIG)),
    one(2, "pty", Kind::Message(PTY)),
    one(3, "tag", Text),
    one(4, "stdin", Flag),
];
/// Of all that name a process and nothing else.
pub(crate) const SELECTED: Message = &[one(1, "process", Kind::Message(SELECTOR))];
pub(crate) const UPDATE: Message = &[
    one(1, "process", Kind::Message(SELECTOR)),
    one(2, "pty", Kind::Message(PTY)),
];
pub(crate) const SEND_INPUT: Message = &[
    one(1, "process", Kind::Message(SELECTOR)),
    one(2, "input", Kind::Message(INPUT)),
];
pub(crate) const SEND_SIGNAL: Message = &[
    one(1, "process", Kind::Message(SELECTOR)),
    one(2, "signal", SIGNAL),
];
pub(crate) const STREAM_INPUT: Message = &[
    one(1, "start", Kind::Message(SELECTED)),
    one(
        2,
        "data",
        Kind::Message(&[one(2, "input", Kind::Message(INPUT))]),
    ),
    one(3, "keepalive", Kind::Message(EMPTY)),
];
pub(crate) const LISTED: Message = &[many(
    1,
    "processes",
    Kind::Message(&[
        one(1, "config", Kind::Message(CONFIG)),
        one(2, "pid", Number),
        one(3, "tag", Text),
    ]),
)];
pub(crate) const OUTPUT: Message = &[one(
    1,
    "event",
    Kind::Message(&[
        one(1, "start", Kind::Message(&[one(1, "pid", Number)])),
        one(
            2,
            "data",
            Kind::Message(&[
                one(1, "stdout", Bytes),
                one(2, "stderr", Bytes),
                one(3, "pty", Bytes),
            ]),
        ),
        one(
            3,
            "end",
            Kind::Message(&[
                one(1, "exitCode", Signed),
                one(2, "exited", Flag),
                one(3, "status", Text),
                one(4, "error", Text),
            ]),
        ),
        one(4, "keepalive", Kind::Message(EMPTY)),
    ]),
)];

const FILE_TYPE: Kind = Enum(&[
    (0, "FILE_TYPE_UNSPECIFIED"),
    (1, "FILE_TYPE_FILE"),
    (2, "FILE_TYPE_DIRECTORY"),
    (3, "FILE_TYPE_SYMLINK"),
]);
const EVENT_TYPE: Kind = Enum(&[
    (0, "EVENT_TYPE_UNSPECIFIED"),
    (1, "EVENT_TYPE_CREATE"),
    (2, "EVENT_TYPE_WRITE"),
    (3, "EVENT_TYPE_REMOVE"),
    (4, "EVENT_TYPE_RENAME"),
    (5, "EVENT_TYPE_CHMOD"),
]);
const ENTRY: Message = &[
    one(1, "name", Text),
    one(2, "type", FILE_TYPE),
    one(3, "path", Text),
    one(4, "size", Number),
    one(5, "mode", Number),
    one(6, "permissions", Text),
    one(7, "owner", Text),
    one(8, "group", Text),
    one(9, "modifiedTime", Time),
    one(10, "symlinkTarget", Text),
    one(11, "metadata", Map),
    one(12, "isSymlink", Flag),
];
const CHANGE: Message = &[
    one(1, "name", Text),
    one(2, "type", EVENT_TYPE),
    one(3, "entry", Kind::Message(ENTRY)),
];

/// Of all that name a path and nothing else.
pub(crate) const PATH: Message = &[one(1, "path", Text)];
pub(crate) const LIST_DIR: Message = &[one(1, "path", Text), one(2, "depth", Number)];
pub(crate) const MOVE: Message = &[one(1, "source", Text), one(2, "destination", Text)];
pub(crate) const FOUND: Message = &[one(1, "entry", Kind::Message(ENTRY))];
pub(crate) const FOUND_MANY: Message = &[many(1, "entries", Kind::Message(ENTRY))];
pub(crate) const WATCH: Message = &[
    one(1, "path", Text),
    one(2, "recursive", Flag),
    one(3, "includeEntry", Flag),
    one(4, "allowNetworkMounts", Flag),
];
pub(crate) const WATCHED: Message = &[
    one(1, "start", Kind::Message(EMPTY)),
    one(2, "filesystem", Kind::Message(CHANGE)),
    one(3, "keepalive", Kind::Message(EMPTY)),
];
pub(crate) const WATCHER: Message = &[one(1, "watcherId", Text)];
pub(crate) const CHANGES: Message = &[many(1, "events", Kind::Message(CHANGE))];
