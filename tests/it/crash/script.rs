//! What happens in a world, as a text that can be played again, and which points go into which world.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use sandshell_testkit::UnprivilegedUser;

use super::points::{Kind, Point};
use super::world::Random;
use crate::calls::skipped;

/// Crash points of one world: enough that they meet each other's traces, few enough to be understood.
const IN_ONE_WORLD: usize = 8;

/// What happens in one world.
#[derive(Debug, Clone, Default)]
pub(super) struct Script {
    pub(super) seed: u64,
    /// Who runs the hub; absent, whoever runs the test.
    pub(super) user: Option<UnprivilegedUser>,
    pub(super) points: Vec<Point>,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.user.is_some() { " ordinary" } else { "" };
        write!(f, "seed {}{who}", self.seed)?;
        self.points
            .iter()
            .try_for_each(|point| write!(f, "\n{point}"))
    }
}

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        let words: Vec<&str> = head.split(' ').collect();
        let (seed, ordinary) = match words[..] {
            ["seed", seed] => (seed, false),
            ["seed", seed, "ordinary"] => (seed, true),
            _ => return Err(format!("it begins with `seed N`, not {head:?}")),
        };
        Ok(Self {
            seed: seed.parse().map_err(|_| format!("no number: {seed:?}"))?,
            user: UnprivilegedUser::get().filter(|_| ordinary),
            points: lines.map(str::parse).collect::<Result<_, _>>()?,
        })
    }
}

/// Some of the points, as many of each kind as can be, in an order that mixes them.
pub(super) fn sample(points: Vec<Point>, wanted: usize, random: &mut Random) -> Vec<Point> {
    let mut kinds: BTreeMap<Kind, Vec<Point>> = BTreeMap::new();
    for point in points {
        kinds.entry(point.during).or_default().push(point);
    }
    let mut chosen = Vec::new();
    while chosen.len() < wanted && kinds.values().any(|left| !left.is_empty()) {
        for left in kinds.values_mut().filter(|left| !left.is_empty()) {
            chosen.push(left.swap_remove(random.below(left.len())));
        }
    }
    chosen.truncate(wanted);
    for at in (1..chosen.len()).rev() {
        chosen.swap(at, random.below(at + 1));
    }
    chosen
}

/// Worlds of these points. Those of a first start stand at the beginning of one each, and every third
/// world is an ordinary user's, whose hub has no control groups to kill by.
pub(super) fn scripts(points: Vec<Point>, seed: u64) -> Vec<Script> {
    let (mut firsts, others): (Vec<Point>, Vec<Point>) = points
        .into_iter()
        .partition(|point| point.during == Kind::FirstStart);
    let user = UnprivilegedUser::get();
    if user.is_none() {
        skipped(
            "only root can become an ordinary user, so NO hub without control groups is killed",
        );
    }
    let mut open: [Vec<Point>; 2] = Default::default();
    let mut scripts: Vec<Script> = Vec::new();
    let mut close = |points: Vec<Point>, ordinary: bool| {
        let at = scripts.len() as u64;
        scripts.push(Script {
            seed: seed + at,
            user: user.filter(|_| ordinary),
            points: firsts.pop().into_iter().chain(points).collect(),
        });
    };
    for (at, point) in others.into_iter().enumerate() {
        let ordinary = at % 3 == 2 && !point.during.needs_groups();
        let world = &mut open[usize::from(ordinary)];
        world.push(point);
        if world.len() == IN_ONE_WORLD {
            close(std::mem::take(world), ordinary);
        }
    }
    let [ours, ordinary] = open;
    close(ours, false);
    close(ordinary, true);
    while !firsts.is_empty() {
        let first = firsts.split_off(firsts.len() - 1);
        let at = scripts.len() as u64;
        scripts.push(Script {
            seed: seed + at,
            user: None,
            points: first,
        });
    }
    scripts
}
