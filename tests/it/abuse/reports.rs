//! The protections report at each level of privilege, held against a golden one.
//!
//! What depends on the control groups of the machine is left out: limits, and how a tree is killed.
//! The report of a container without privileges is in `container`.

use std::collections::BTreeMap;

use sandshell_client::types::{
    IsolationPolicy, IsolationSpec, Layer, ProtectionStatus, SandboxSpec,
};
use sandshell_testkit::{Hub, UnprivilegedUser};

use crate::calls::{in_time, skipped};

/// Proved from inside, or sure wherever a sandbox can be made at all.
const SURE: &[Layer] = &[
    Layer::UidSeparation,
    Layer::CapabilityDrop,
    Layer::NoNewPrivs,
    Layer::PidNs,
    Layer::MountNs,
    Layer::NetNs,
    Layer::IpcNs,
    Layer::UtsNs,
    Layer::CgroupNs,
    Layer::PivotRoot,
    Layer::LandlockFs,
    Layer::LandlockScope,
    Layer::Seccomp,
    Layer::PidsLimit,
    Layer::DiskLimit,
    Layer::InodeLimit,
    Layer::EgressPolicy,
];

/// All of them are enforced but these.
async fn enforced_but(hub: &Hub, partial: &[Layer]) {
    let spec = SandboxSpec {
        isolation: Some(IsolationSpec {
            policy: IsolationPolicy::BestEffort,
            ..IsolationSpec::default()
        }),
        ..SandboxSpec::default()
    };
    let client = hub.client();
    let made = in_time(client.create_sandbox(&spec)).await.unwrap();
    let report = made.protections;
    let names: Vec<Layer> = report.iter().map(|protection| protection.name).collect();
    assert_eq!(names, Layer::ALL, "each layer once, in order");
    for protection in &report {
        let silent = protection.reason.is_none();
        let enforced = protection.status == ProtectionStatus::Enforced;
        assert_eq!(silent, enforced, "{protection:?}");
    }
    let golden: BTreeMap<Layer, ProtectionStatus> = SURE
        .iter()
        .map(|layer| {
            let status = if partial.contains(layer) {
                ProtectionStatus::Partial
            } else {
                ProtectionStatus::Enforced
            };
            (*layer, status)
        })
        .collect();
    let found: BTreeMap<Layer, ProtectionStatus> = report
        .iter()
        .filter(|protection| SURE.contains(&protection.name))
        .map(|protection| (protection.name, protection.status))
        .collect();
    assert_eq!(found, golden, "{report:#?}");
}

#[tokio::test]
async fn below_root_every_layer_is_enforced() {
    if UnprivilegedUser::get().is_none() {
        return skipped("the test does not run as root");
    }
    enforced_but(&Hub::start(), &[]).await;
}

#[tokio::test]
async fn below_an_ordinary_user_only_the_ids_are_shared() {
    let hub = UnprivilegedUser::get().map_or_else(Hub::start, Hub::of);
    enforced_but(&hub, &[Layer::UidSeparation]).await;
}
