//! Filters of system calls: from rules to the kernel's little programs, and their installation.
//!
//! A filter knows each call by number, and may look at the low 32 bits of its arguments: every
//! argument we judge is an `int` or `unsigned int` to the kernel, which ignores the rest too. The
//! program first refuses foreign ABIs, then finds the number by halving ranges of equal treatment,
//! so that it stays short and its cost even. Where the answer depends on the number alone the kernel
//! remembers it and does not run the program at all.
//!
//! ```text
//! arch? ──other──► kill        number ──► range ──► verdict
//!                                           └─────► arms: arguments equal? ──► verdict, else the next
//! ```

use std::collections::BTreeMap;
use std::ffi::c_long;

use rustix::io::Errno;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is made.
    Allow,
    /// It is not made, and answers this.
    Fail(Errno),
    /// The process is killed.
    Kill,
}

/// How one call is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Always the same.
    Always(Verdict),
    /// By its arguments: the first arm whose conditions all hold, else the verdict.
    ByArguments(&'static [Arm], Verdict),
}

/// Conditions, and what becomes of a call that meets all of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Arm(pub &'static [Condition], pub Verdict);

/// Holds when the low 32 bits of the argument, after the mask, are the value.
#[derive(Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which argument, from 0.
    pub argument: u8,
    /// Bits that count.
    pub mask: u32,
    /// What they must be.
    pub value: u32,
}

/// A compiled filter. It can be installed any number of times, also by a child between clone and exec.
#[derive(Debug, Clone)]
pub struct Filter {
    program: Vec<libc::sock_filter>,
}

/// Offsets in the kernel's `seccomp_data`: number, architecture, instruction pointer, arguments.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xC000_00B7;

/// On `x86_64`, numbers with this bit are calls of the x32 ABI.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

impl Filter {
    /// Compiles rules by number; `otherwise` is for all others.
    pub fn compile(rules: &BTreeMap<u32, Rule>, otherwise: Verdict) -> Self {
        let mut program = vec![
            load(ARCHITECTURE),
            jump_if(libc::BPF_JEQ, NATIVE, 1, 0),
            answer(Verdict::Kill),
            load(NUMBER),
        ];
        program.extend(search(&ranges(rules, otherwise)));
        Self { program }
    }

    /// One verdict for one number, to be stacked on a filter that refuses foreign ABIs: of several
    /// verdicts the kernel takes the hardest. As short as can be, because it is installed often.
    pub fn stacked(number: u32, verdict: Verdict) -> Self {
        let program = vec![
            load(NUMBER),
            jump_if(libc::BPF_JEQ, number, 0, 1),
            answer(verdict),
            answer(Verdict::Allow),
        ];
        Self { program }
    }

    /// The program as the kernel takes it, for others who install filters.
    #[cfg(feature = "knock")]
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = |i: &libc::sock_filter| {
            let [low, high] = i.code.to_ne_bytes();
            let [a, b, c, d] = i.k.to_ne_bytes();
            [low, high, i.jt, i.jf, a, b, c, d]
        };
        self.program.iter().flat_map(bytes).collect()
    }

    /// How many instructions it has.
    pub fn len(&self) -> usize {
        self.program.len()
    }

    /// Whether it has none, which no filter does.
    pub fn is_empty(&self) -> bool {
        self.program.is_empty()
    }

    /// Puts the filter on this thread and all it will start. Needs `no_new_privs`.
    pub fn install(&self) -> Result<(), Errno> {
        if self.install_raw() < 0 {
            return Err(crate::spawn::last_errno());
        }
        Ok(())
    }

    /// As `install`, but only one bare system call; negative when it failed.
    #[allow(unsafe_code, reason = "the call takes a pointer to the program")]
    pub(crate) fn install_raw(&self) -> c_long {
        let program = libc::sock_fprog {
            len: self.program.len() as u16,
            filter: self.program.as_ptr().cast_mut(),
        };
        // SAFETY: the kernel copies the program, of the length given, and writes nothing.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                &raw const program,
            )
        }
    }
}

/// Numbers from here to the next range are treated alike.
type Range = (u32, Rule);

/// The whole space of numbers, in as few ranges as it takes.
fn ranges(rules: &BTreeMap<u32, Rule>, otherwise: Verdict) -> Vec<Range> {
    let otherwise = Rule::Always(otherwise);
    let mut ranges: Vec<Range> = Vec::new();
    let mut add = |start: u32, rule: Rule| {
        if ranges.last().is_none_or(|last| last.1 != rule) {
            ranges.push((start, rule));
        }
    };
    let mut next = 0;
    for (&number, &rule) in rules {
        if number > next {
            add(next, otherwise);
        }
        add(number, rule);
        next = number + 1;
    }
    add(next, otherwise);
    #[cfg(target_arch = "x86_64")]
    {
        add(X32, Rule::Always(Verdict::Kill));
        // No call at all: what a tracer asks for, and how some programs ask for ENOSYS.
        add(u32::MAX, otherwise);
    }
    ranges
}

/// Finds the range of the number in the accumulator, by halves.
fn search(ranges: &[Range]) -> Vec<libc::sock_filter> {
    let (left, right) = ranges.split_at(ranges.len() / 2);
    match (left, right) {
        (_, []) => Vec::new(),
        ([], [(_, rule), ..]) => treat(*rule),
        (_, [(start, _), ..]) => {
            let left = search(left);
            // A conditional jump reaches 255 instructions, an unconditional one any number.
            let mut program = match u8::try_from(left.len()) {
                Ok(reach) => vec![jump_if(libc::BPF_JGE, *start, reach, 0)],
                Err(_) => vec![
                    jump_if(libc::BPF_JGE, *start, 0, 1),
                    statement(libc::BPF_JMP | libc::BPF_JA, left.len() as u32),
                ],
            };
            program.extend(left);
            program.extend(search(right));
            program
        }
    }
}

fn treat(rule: Rule) -> Vec<libc::sock_filter> {
    match rule {
        Rule::Always(verdict) => vec![answer(verdict)],
        Rule::ByArguments(arms, otherwise) => {
            let mut program = Vec::new();
            for Arm(conditions, verdict) in arms {
                // Three instructions for each condition, then the answer.
                let mut left = conditions.len() as u8 * 3 + 1;
                for condition in *conditions {
                    left -= 3;
                    program.push(load(ARGUMENTS + 8 * u32::from(condition.argument)));
                    program.push(statement(
                        libc::BPF_ALU | libc::BPF_AND | libc::BPF_K,
                        condition.mask,
                    ));
                    program.push(jump_if(libc::BPF_JEQ, condition.value, 0, left));
                }
                program.push(answer(*verdict));
            }
            program.push(answer(otherwise));
            program
        }
    }
}

/// Both architectures are little-endian: the low half of a value comes first.
fn load(offset: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn jump_if(test: u32, value: u32, then: u8, otherwise: u8) -> libc::sock_filter {
    libc::sock_filter {
        jt: then,
        jf: otherwise,
        ..statement(libc::BPF_JMP | test | libc::BPF_K, value)
    }
}

fn answer(verdict: Verdict) -> libc::sock_filter {
    let value = match verdict {
        Verdict::Allow => libc::SECCOMP_RET_ALLOW,
        Verdict::Fail(errno) => {
            libc::SECCOMP_RET_ERRNO | (errno.raw_os_error().cast_unsigned() & 0xFFFF)
        }
        Verdict::Kill => libc::SECCOMP_RET_KILL_PROCESS,
    };
    statement(libc::BPF_RET | libc::BPF_K, value)
}

fn statement(code: u32, value: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k: value,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests {
    use super::*;

    /// What the kernel would do: the same instructions, interpreted.
    fn run(filter: &Filter, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(number.to_le_bytes());
        data.extend(architecture.to_le_bytes());
        data.extend(0_u64.to_le_bytes());
        for argument in arguments {
            data.extend(argument.to_le_bytes());
        }
        let (mut at, mut accumulator) = (0, 0_u32);
        loop {
            let instruction = filter.program[at];
            at += 1;
            let k = instruction.k;
            let holds = match u32::from(instruction.code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    let bytes = data[k as usize..][..4].try_into().unwrap();
                    accumulator = u32::from_le_bytes(bytes);
                    continue;
                }
                code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => {
                    accumulator &= k;
                    continue;
                }
                code if code == libc::BPF_JMP | libc::BPF_JA => {
                    at += k as usize;
                    continue;
                }
                code if code == libc::BPF_RET | libc::BPF_K => return k,
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => accumulator == k,
                code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => accumulator >= k,
                code => panic!("unknown instruction {code:#x}"),
            };
            at += usize::from(if holds {
                instruction.jt
            } else {
                instruction.jf
            });
        }
    }

    const BY_ARGUMENTS: Rule = Rule::ByArguments(
        &[
            Arm(
                &[
                    Condition {
                        argument: 0,
                        mask: !0,
                        value: 2,
                    },
                    Condition {
                        argument: 1,
                        mask: 0xF,
                        value: 3,
                    },
                ],
                Verdict::Allow,
            ),
            Arm(
                &[Condition {
                    argument: 5,
                    mask: !0,
                    value: 7,
                }],
                Verdict::Kill,
            ),
        ],
        Verdict::Fail(Errno::PERM),
    );

    #[test]
    fn every_number_gets_its_verdict() {
        let mut rules = BTreeMap::new();
        // Enough of them that the longest jumps are needed too.
        for number in (0..2000).filter(|n| n % 7 != 3) {
            rules.insert(number, Rule::Always(Verdict::Allow));
        }
        for number in [1, 50, 4000] {
            rules.insert(number, Rule::Always(Verdict::Fail(Errno::PERM)));
        }
        let filter = Filter::compile(&rules, Verdict::Fail(Errno::NOSYS));
        for number in (0..5000).chain([0x3FFF_FFFF, 0xFFFF_FFFF]) {
            let rule = rules.get(&number).copied();
            let wanted = rule.unwrap_or(Rule::Always(Verdict::Fail(Errno::NOSYS)));
            let got = run(&filter, NATIVE, number, [0; 6]);
            assert_eq!(
                vec![got],
                treat(wanted).iter().map(|i| i.k).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn a_stacked_filter_judges_one_call() {
        let filter = Filter::stacked(435, Verdict::Fail(Errno::NOSYS));
        for number in [0, 434, 436, u32::MAX] {
            assert_eq!(
                run(&filter, NATIVE, number, [0; 6]),
                libc::SECCOMP_RET_ALLOW
            );
        }
        let refused = answer(Verdict::Fail(Errno::NOSYS)).k;
        assert_eq!(run(&filter, NATIVE, 435, [0; 6]), refused);
    }

    #[test]
    fn foreign_calls_are_killed() {
        let filter = Filter::compile(&BTreeMap::new(), Verdict::Allow);
        assert_eq!(run(&filter, NATIVE, 1, [0; 6]), libc::SECCOMP_RET_ALLOW);
        let kill = libc::SECCOMP_RET_KILL_PROCESS;
        assert_eq!(run(&filter, 0x4000_0003, 1, [0; 6]), kill);
        #[cfg(target_arch = "x86_64")]
        for number in [X32, X32 + 1, X32 + 512, u32::MAX - 1] {
            assert_eq!(run(&filter, NATIVE, number, [0; 6]), kill, "{number:#x}");
        }
    }

    #[test]
    fn arguments_are_compared_on_32_bits() {
        let filter = Filter::compile(&BTreeMap::from([(9, BY_ARGUMENTS)]), Verdict::Allow);
        let run = |arguments| run(&filter, NATIVE, 9, arguments);
        let refused = answer(Verdict::Fail(Errno::PERM)).k;
        let garbage = 0xDEAD_BEEF_0000_0000_u64;
        assert_eq!(run([2, 3, 0, 0, 0, 0]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(
            run([garbage | 2, garbage | 0xF3, 0, 0, 0, 0]),
            libc::SECCOMP_RET_ALLOW
        );
        assert_eq!(run([2, 4, 0, 0, 0, 0]), refused);
        assert_eq!(run([3, 3, 0, 0, 0, 0]), refused);
        assert_eq!(run([3, 3, 0, 0, 0, 7]), libc::SECCOMP_RET_KILL_PROCESS);
        assert_eq!(
            run([2, 4, 0, 0, 0, garbage | 7]),
            libc::SECCOMP_RET_KILL_PROCESS
        );
    }
}
