//! Capabilities: the parts of root's power, as sets of bits, for the calling thread.

use std::ffi::{c_int, c_long};

use rustix::io::Errno;

use crate::spawn::last_errno;

/// A set of capabilities, by the kernel's numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// None at all.
    pub const NONE: Self = Self(0);

    /// The set of these.
    pub const fn of(capabilities: &[Capability]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < capabilities.len() {
            #[allow(clippy::indexing_slicing, reason = "below the length, in a constant")]
            let capability = capabilities[at] as u64;
            bits |= 1 << capability;
            at += 1;
        }
        Self(bits)
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those of either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of this set that the other has not.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their numbers, ascending.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |number| self.0 >> number & 1 == 1)
    }
}

/// The capabilities we name; the kernel has more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "named as in capabilities(7)")]
pub enum Capability {
    Chown = 0,
    DacOverride = 1,
    Fowner = 3,
    Fsetid = 4,
    Kill = 5,
    Setgid = 6,
    Setuid = 7,
    Setpcap = 8,
    NetBindService = 10,
    SysChroot = 18,
    SysAdmin = 21,
    Setfcap = 31,
}

/// What a thread can use, what it can raise, and what its programs may inherit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sets {
    /// Used in every check.
    pub effective: Capabilities,
    /// Can be made effective.
    pub permitted: Capabilities,
    /// Kept by programs that ask for it.
    pub inheritable: Capabilities,
}

const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

impl Sets {
    /// Effective and permitted alike, nothing inheritable.
    pub const fn exactly(capabilities: Capabilities) -> Self {
        Self {
            effective: capabilities,
            permitted: capabilities,
            inheritable: Capabilities::NONE,
        }
    }

    /// Those of this thread.
    #[allow(unsafe_code, reason = "no wrapper reads the sets of one thread")]
    pub fn current() -> Result<Self, Errno> {
        let mut header = Header {
            version: VERSION_3,
            pid: 0,
        };
        let mut halves = [Half::default(); 2];
        // SAFETY: version 3 fills exactly two halves; both pointers are to live values.
        let result =
            unsafe { libc::syscall(libc::SYS_capget, &raw mut header, halves.as_mut_ptr()) };
        if result < 0 {
            return Err(last_errno());
        }
        let [low, high] = halves;
        let join = |low: u32, high: u32| Capabilities(u64::from(low) | (u64::from(high) << 32));
        Ok(Self {
            effective: join(low.effective, high.effective),
            permitted: join(low.permitted, high.permitted),
            inheritable: join(low.inheritable, high.inheritable),
        })
    }

    /// Gives this thread exactly these. What is no longer both permitted and inheritable leaves the
    /// ambient set too.
    pub fn apply(&self) -> Result<(), Errno> {
        if self.apply_raw() < 0 {
            return Err(last_errno());
        }
        Ok(())
    }

    /// As `apply`, but only one bare system call; negative when it failed.
    #[allow(unsafe_code, reason = "no wrapper sets the sets of one thread")]
    pub(crate) fn apply_raw(&self) -> c_long {
        let mut header = Header {
            version: VERSION_3,
            pid: 0,
        };
        let half = |shift: u32| Half {
            effective: (self.effective.0 >> shift) as u32,
            permitted: (self.permitted.0 >> shift) as u32,
            inheritable: (self.inheritable.0 >> shift) as u32,
        };
        let halves = [half(0), half(32)];
        // SAFETY: version 3 reads exactly two halves; both pointers are to live values.
        unsafe { libc::syscall(libc::SYS_capset, &raw mut header, halves.as_ptr()) }
    }
}

/// What programs of this thread can be given at most.
pub fn bounding() -> Capabilities {
    let bits = (0..u64::BITS)
        .map(|number| (number, prctl(libc::PR_CAPBSET_READ, u64::from(number))))
        // The kernel refuses the first number that it does not know.
        .take_while(|(_, answer)| *answer >= 0)
        .fold(0, |bits, (number, answer)| {
            bits | answer.cast_unsigned() << number
        });
    Capabilities(bits)
}

/// Takes these out of the bounding set, for good. Needs `SETPCAP`.
pub fn drop_from_bounding(capabilities: Capabilities) -> Result<(), Errno> {
    if drop_from_bounding_raw(capabilities) < 0 {
        return Err(last_errno());
    }
    Ok(())
}

/// As `drop_from_bounding`, but only bare system calls; negative when one failed.
pub(crate) fn drop_from_bounding_raw(capabilities: Capabilities) -> c_long {
    for number in capabilities.numbers() {
        let result = prctl(libc::PR_CAPBSET_DROP, u64::from(number));
        if result < 0 {
            return result;
        }
    }
    0
}

/// Makes root's capabilities follow its user id in the usual way, whatever was set before. Negative
/// when it failed.
pub(crate) fn usual_securebits_raw() -> c_long {
    match prctl(libc::PR_GET_SECUREBITS, 0) {
        0 => 0,
        _ => prctl(libc::PR_SET_SECUREBITS, 0),
    }
}

/// No program that is executed gives more rights, for ever. Negative when it failed.
pub(crate) fn no_new_privs_raw() -> c_long {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)
}

#[allow(unsafe_code, reason = "a bare system call for one thread")]
fn prctl(option: c_int, argument: u64) -> c_long {
    // SAFETY: none of the options used here takes a pointer.
    unsafe { libc::syscall(libc::SYS_prctl, option, argument, 0_u64, 0_u64, 0_u64) }
}
