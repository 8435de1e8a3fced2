//! One step of a sequence, and how sequences are made.
//!
//! A step names what it acts on by a number that is looked up when its turn comes ([`At`]): so each
//! subsequence of a sequence is one, too, and a failing sequence can be made shorter.

use proptest::prelude::*;

use super::script::{Block, FUNCTIONS, Output, Text, VARIABLES, Writing};

/// What a step acts on: mostly something that is alive; at times a name, whatever it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At(pub(super) u8);

/// What a process does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Program {
    Write(Writing),
    /// Copies its standard input.
    Echo,
    Sleep,
    /// Children in its group, in sessions of their own, and with another parent.
    Tree,
    /// Only SIGKILL ends it.
    Deaf,
    /// Ends by itself, and says so, when it is asked to.
    Polite,
    /// Ends at once and leaves a child behind.
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Hup,
    Int,
    Usr1,
    Term,
    Kill,
    Stop,
    Cont,
}

/// A stateless exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Exec {
    /// A text that a waiting shell can take.
    Text(Writing),
    /// The same in a fresh one, with variable and directory.
    Fresh(Writing, Vec<u8>),
    /// More output than the result takes.
    Cut {
        lines: u32,
        max: u64,
        tail: bool,
    },
    Stdin(Vec<u8>),
    Leave {
        own_session: bool,
    },
    TimesOut,
    Signalled,
    NoProgram,
    NoDirectory,
    /// The same id twice: the second is told what the first did; another text is refused.
    Again(Writing),
    /// The client goes away in the middle.
    Abandoned {
        kill: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Exec(Exec),
    CreateSession {
        at: At,
        cwd: bool,
        env: Option<Vec<u8>>,
    },
    /// Runs a command, or queues it behind the one that runs.
    Run {
        at: At,
        text: Text,
        streamed: bool,
    },
    /// Begins a command that does not end by itself.
    Begin {
        at: At,
        block: Block,
        change: Text,
        kill: bool,
    },
    /// A command that its timeout ends.
    TimeOut(At),
    /// A command with a variable and a directory of its own.
    RunWith {
        at: At,
        value: Vec<u8>,
        nowhere: bool,
    },
    Interrupt(At),
    OpenGate(At),
    /// The client of the command that runs, or of the last that waits, goes away.
    Disconnect {
        at: At,
        waiting: bool,
    },
    KillShell(At),
    Fork {
        from: At,
        to: At,
    },
    Patch {
        at: At,
        name: u8,
        value: Option<Vec<u8>>,
    },
    LookAtSession(At),
    History(At),
    /// Reads the output of an earlier command from somewhere on.
    Reread {
        at: At,
        command: u8,
        cut: u8,
        events: bool,
    },
    DeleteSession(At),
    StartProcess {
        at: At,
        program: Program,
    },
    StartFromSession {
        at: At,
        session: At,
    },
    Write {
        at: At,
        bytes: Vec<u8>,
        again: bool,
    },
    WriteTooFar(At),
    CloseStdin(At),
    Signal {
        at: At,
        signal: Signal,
        tree: bool,
    },
    Kill {
        at: At,
        grace: bool,
    },
    DeleteProcess(At),
    /// Deletes it and starts it again, perhaps while its output is still being read.
    StartAnew {
        at: At,
        read: bool,
    },
    Wait(At),
    LookAtProcess(At),
    ReadProcess {
        at: At,
        cut: u8,
        events: bool,
    },
    CreateTerminal(At),
    Type {
        at: At,
        line: String,
    },
    EndInput {
        at: At,
        interrupt: bool,
    },
    Resize {
        at: At,
        cols: u16,
        rows: u16,
    },
    WatchTerminal {
        at: At,
        cut: u8,
    },
    Attach(At),
    Detach(At),
    DeleteTerminal(At),
    LookAtTerminal(At),
    List,
}

fn at() -> impl Strategy<Value = At> {
    any::<u8>().prop_map(At)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(1..=255_u8, 0..12),
        1 => Just("a \u{fc}\u{20ac}\u{1f41a}'\"$`\\!\n\n".as_bytes().to_vec()),
        1 => Just((0..600_u32).map(|n| (n % 255 + 1) as u8).collect()),
    ]
}

fn output() -> impl Strategy<Value = Output> {
    prop_oneof![
        4 => Just(Output::Bytes(Vec::new())),
        6 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Output::Bytes),
        2 => (0..3000_u32).prop_map(Output::Lines),
        1 => prop_oneof![
            Just(1_u32), Just(4095), Just(4096), Just(4097), Just(65_535), Just(65_536), Just(65_537), 100_000..400_000_u32
        ]
        .prop_map(Output::Zeros),
    ]
}

fn writing() -> impl Strategy<Value = Writing> {
    let code = prop_oneof![3 => Just(0), 1 => any::<u8>()];
    (output(), output(), code).prop_map(|(stdout, stderr, code)| Writing {
        stdout,
        stderr,
        code,
    })
}

fn change() -> impl Strategy<Value = Text> {
    prop_oneof![
        4 => (0..VARIABLES, bytes(), any::<bool>())
            .prop_map(|(name, value, export)| Text::Set { name, value, export }),
        1 => (0..VARIABLES).prop_map(Text::Unset),
        2 => any::<u8>().prop_map(Text::Enter),
        2 => (0..FUNCTIONS, 0..5_u8).prop_map(|(name, status)| Text::Define { name, status }),
    ]
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![
        8 => change(),
        6 => Just(Text::Show),
        2 => (0..FUNCTIONS).prop_map(Text::Call),
        4 => writing().prop_map(Text::Write),
        1 => Just(Text::EnterNothing),
        1 => Just(Text::Subshell),
        1 => bytes().prop_map(Text::Copy),
        1 => Just(Text::Unfinished),
        2 => (0..VARIABLES, any::<u8>()).prop_map(|(name, code)| Text::Exit { name, code }),
        1 => (0..VARIABLES).prop_map(Text::KillShell),
        1 => Just(Text::Replace),
        2 => (any::<bool>(), any::<bool>())
            .prop_map(|(held, own_session)| Text::Leave { held, own_session }),
        1 => Just(Text::LeaveWriter),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        4 => Just(Block::Program),
        2 => Just(Block::Builtin),
        2 => Just(Block::Loop),
        1 => Just(Block::Substitution),
        1 => Just(Block::Pipeline),
        1 => Just(Block::Spin),
        1 => Just(Block::Deaf),
        6 => Just(Block::Gate),
    ]
}

fn exec() -> impl Strategy<Value = Exec> {
    prop_oneof![
        8 => writing().prop_map(Exec::Text),
        3 => (writing(), bytes()).prop_map(|(writing, value)| Exec::Fresh(writing, value)),
        2 => (0..4000_u32, 0..9000_u64, any::<bool>())
            .prop_map(|(lines, max, tail)| Exec::Cut { lines, max, tail }),
        2 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Exec::Stdin),
        2 => any::<bool>().prop_map(|own_session| Exec::Leave { own_session }),
        1 => Just(Exec::TimesOut),
        1 => Just(Exec::Signalled),
        1 => Just(Exec::NoProgram),
        1 => Just(Exec::NoDirectory),
        2 => writing().prop_map(Exec::Again),
        1 => any::<bool>().prop_map(|kill| Exec::Abandoned { kill }),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    prop_oneof![
        3 => writing().prop_map(Program::Write),
        4 => Just(Program::Echo),
        2 => Just(Program::Sleep),
        3 => Just(Program::Tree),
        1 => Just(Program::Deaf),
        2 => Just(Program::Polite),
        2 => Just(Program::Leave),
    ]
}

fn signal() -> impl Strategy<Value = Signal> {
    prop_oneof![
        1 => Just(Signal::Hup),
        1 => Just(Signal::Int),
        1 => Just(Signal::Usr1),
        2 => Just(Signal::Term),
        2 => Just(Signal::Kill),
        1 => Just(Signal::Stop),
        1 => Just(Signal::Cont),
    ]
}

fn in_session() -> impl Strategy<Value = Step> {
    prop_oneof![
        24 => (at(), text(), any::<bool>()).prop_map(|(at, text, streamed)| Step::Run { at, text, streamed }),
        8 => (at(), block(), change(), any::<bool>())
            .prop_map(|(at, block, change, kill)| Step::Begin { at, block, change, kill }),
        1 => at().prop_map(Step::TimeOut),
        2 => (at(), bytes(), prop::bool::weighted(0.2))
            .prop_map(|(at, value, nowhere)| Step::RunWith { at, value, nowhere }),
        5 => at().prop_map(Step::Interrupt),
        6 => at().prop_map(Step::OpenGate),
        3 => (at(), any::<bool>()).prop_map(|(at, waiting)| Step::Disconnect { at, waiting }),
        2 => at().prop_map(Step::KillShell),
        3 => (at(), at()).prop_map(|(from, to)| Step::Fork { from, to }),
        2 => (at(), 0..VARIABLES, prop::option::of(bytes()))
            .prop_map(|(at, name, value)| Step::Patch { at, name, value }),
        3 => at().prop_map(Step::LookAtSession),
        2 => at().prop_map(Step::History),
        4 => (at(), any::<u8>(), any::<u8>(), any::<bool>())
            .prop_map(|(at, command, cut, events)| Step::Reread { at, command, cut, events }),
    ]
}

fn with_process() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (at(), at()).prop_map(|(at, session)| Step::StartFromSession { at, session }),
        6 => (at(), bytes(), any::<bool>()).prop_map(|(at, bytes, again)| Step::Write { at, bytes, again }),
        1 => at().prop_map(Step::WriteTooFar),
        2 => at().prop_map(Step::CloseStdin),
        5 => (at(), signal(), any::<bool>())
            .prop_map(|(at, signal, tree)| Step::Signal { at, signal, tree }),
        4 => (at(), any::<bool>()).prop_map(|(at, grace)| Step::Kill { at, grace }),
        3 => at().prop_map(Step::DeleteProcess),
        3 => (at(), any::<bool>()).prop_map(|(at, read)| Step::StartAnew { at, read }),
        2 => at().prop_map(Step::Wait),
        2 => at().prop_map(Step::LookAtProcess),
        4 => (at(), any::<u8>(), any::<bool>())
            .prop_map(|(at, cut, events)| Step::ReadProcess { at, cut, events }),
    ]
}

fn at_terminal() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (at(), "[a-z ]{0,9}").prop_map(|(at, line)| Step::Type { at, line }),
        1 => (at(), any::<bool>()).prop_map(|(at, interrupt)| Step::EndInput { at, interrupt }),
        1 => (at(), 1..200_u16, 1..100_u16).prop_map(|(at, cols, rows)| Step::Resize { at, cols, rows }),
        2 => (at(), any::<u8>()).prop_map(|(at, cut)| Step::WatchTerminal { at, cut }),
        2 => at().prop_map(Step::Attach),
        1 => at().prop_map(Step::Detach),
        1 => at().prop_map(Step::DeleteTerminal),
        1 => at().prop_map(Step::LookAtTerminal),
    ]
}

fn create() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (at(), any::<bool>(), prop::option::weighted(0.3, bytes()))
            .prop_map(|(at, cwd, env)| Step::CreateSession { at, cwd, env }),
        3 => (at(), program()).prop_map(|(at, program)| Step::StartProcess { at, program }),
        1 => at().prop_map(Step::CreateTerminal),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => create(),
        5 => exec().prop_map(Step::Exec),
        16 => in_session(),
        2 => at().prop_map(Step::DeleteSession),
        7 => with_process(),
        3 => at_terminal(),
        1 => Just(Step::List),
    ]
}

/// A sequence: something is made first, so that the rest has something to act on.
pub(super) fn sequence() -> impl Strategy<Value = Vec<Step>> {
    (
        prop::collection::vec(create(), 0..4),
        prop::collection::vec(step(), 0..20),
    )
        .prop_map(|(mut first, rest)| {
            first.extend(rest);
            first
        })
}
