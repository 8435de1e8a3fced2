//! File systems that are the kernel's own: what lies in them is made up when it is looked at. Walks do
//! not go into them, and watches cannot: most of their files change without a report.

use std::os::fd::AsFd;

/// Magic numbers: proc, sysfs, cgroup, cgroup2, debugfs, tracefs, securityfs, devpts, bpf, nsfs.
const KERNELS_OWN: &[i64] = &[
    0x9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x1cd1,
    0xcafe_4a11_u32 as i64,
    0x6e73_6673,
];

/// Whether a file or directory lies in one of them.
pub fn is_kernels_own(found: impl AsFd) -> bool {
    rustix::fs::fstatfs(found).is_ok_and(|stat| KERNELS_OWN.contains(&stat.f_type))
}
