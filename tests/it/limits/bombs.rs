//! Bombs of memory, processes and processor time, each within its limit.

use std::time::Instant;

use sandshell_client::types::{Happening, KillRequest, LimitScope, SessionPatch, SessionRequest};
use sandshell_testkit::Agent;

use super::{
    Cage, MIB, about_a_limit, cpus, events, limited, limited_process, limiting_agent, memory, pids,
    run, session, takes,
};
use crate::calls::{exec, in_time, start, wait_for_exit};

#[tokio::test]
async fn memory_used_up_is_told_as_such() {
    let Some(agent) = limiting_agent().await else {
        return;
    };
    let client = agent.client();
    let mut stream = events(&client).await;
    let bomb = limited(&format!("exec {}", takes(200)), memory(32 * MIB));
    let result = in_time(client.exec(&bomb)).await.unwrap();
    assert_eq!((result.exit_code, result.oom), (137, true), "{result:?}");
    assert_eq!(result.signal.as_deref(), Some("SIGKILL"));
    assert_eq!(
        about_a_limit(&mut stream).await,
        Happening::Oom {
            killed: 1,
            scope: LimitScope::Process,
            process: Some(result.id),
            session: None,
        }
    );
    // The shell lives on, and the result still tells.
    let survives = limited(&format!("{}; echo $?", takes(200)), memory(32 * MIB));
    let result = in_time(client.exec(&survives)).await.unwrap();
    assert_eq!(result.stdout, "137\n");
    assert_eq!((result.exit_code, result.oom), (0, true));
    // Within the limit, and by another's SIGKILL.
    let within = limited(&format!("{}; kill -9 $$", takes(8)), memory(64 * MIB));
    let result = in_time(client.exec(&within)).await.unwrap();
    assert_eq!((result.exit_code, result.oom), (137, false));
    assert!(!exec(&client, "kill -9 $$").await.oom);
}

#[tokio::test]
async fn a_process_that_ran_out_of_memory_says_so() {
    let Some(agent) = limiting_agent().await else {
        return;
    };
    let client = agent.client();
    let bomb = limited_process(&format!("exec {}", takes(200)), memory(32 * MIB));
    let id = start(&client, &bomb).await;
    let ended = wait_for_exit(&client, &id).await.process;
    assert!(ended.oom, "{ended:?}");
    assert_eq!(ended.exit_code, Some(137));
}

#[tokio::test]
async fn a_fork_bomb_meets_its_limit_and_nobody_elses() {
    let Some(agent) = limiting_agent().await else {
        return;
    };
    let client = agent.client();
    let mut stream = events(&client).await;
    // Refused forks are tried again by bash itself, for a while.
    let bomb = "for i in {1..200}; do sleep 1000 & done 2>/dev/null; wait";
    let id = start(&client, &limited_process(bomb, pids(20))).await;
    let told = about_a_limit(&mut stream).await;
    let Happening::LimitReached {
        limit,
        scope,
        process,
        times,
        ..
    } = &told
    else {
        panic!("{told:?}");
    };
    assert_eq!((limit.as_str(), *scope), ("pids", LimitScope::Process));
    assert_eq!(process.as_ref(), Some(&id));
    assert!(*times >= 1);
    let neighbour = exec(
        &client,
        "for i in {1..30}; do sleep 0 & done; wait; echo ok",
    )
    .await;
    assert_eq!(
        (neighbour.stdout.as_str(), neighbour.exit_code),
        ("ok\n", 0)
    );
    let now = KillRequest::default();
    let gone = in_time(client.kill_process(&id, &now)).await.unwrap();
    assert_eq!(gone.survivors, []);
    assert!(gone.killed <= 20, "{gone:?}");
}

#[tokio::test]
async fn a_share_of_a_processor_is_kept() {
    let Some(agent) = limiting_agent().await else {
        return;
    };
    let client = agent.client();
    let spin = "timeout 2 bash -c 'while :; do :; done'; times";
    let mut seen = Vec::new();
    // A machine that stands still can count that as use: the best of three tells.
    for _ in 0..3 {
        let began = Instant::now();
        let result = in_time(client.exec(&limited(spin, cpus(0.2))))
            .await
            .unwrap();
        let wall = began.elapsed().as_secs_f64();
        // `0m0.385s 0m0.012s`: user and system time of the children.
        let last = result.stdout.lines().last().unwrap();
        let used: f64 = last
            .split_whitespace()
            .map(|word| {
                let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
                minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
            })
            .sum();
        if used > 0.05 && used <= 0.2 * wall + 0.15 {
            return;
        }
        seen.push((used, wall));
    }
    panic!("seconds of seconds: {seen:?}");
}

#[tokio::test]
async fn a_session_has_its_limits_for_all_its_commands_and_they_can_change() {
    let Some(agent) = limiting_agent().await else {
        return;
    };
    let client = agent.client();
    let mut stream = events(&client).await;
    let request = SessionRequest {
        limits: Some(memory(32 * MIB)),
        ..Default::default()
    };
    let id = session(&client, &request).await;
    assert_eq!(run(&client, &id, "kept=1").await.exit_code, 0);
    let hit = run(&client, &id, &takes(60)).await;
    assert_eq!((hit.exit_code, hit.oom), (137, true), "{hit:?}");
    assert_eq!(
        about_a_limit(&mut stream).await,
        Happening::Oom {
            killed: 1,
            scope: LimitScope::Session,
            process: None,
            session: Some(id.clone()),
        }
    );
    let after = run(&client, &id, "echo $kept").await;
    assert_eq!((after.stdout.as_str(), after.oom), ("1\n", false));

    let patch = |limits| SessionPatch {
        limits: Some(limits),
        ..Default::default()
    };
    let more = patch(memory(256 * MIB));
    let raised = in_time(client.patch_session(&id, &more)).await.unwrap();
    assert_eq!(raised.limits, Some(memory(256 * MIB)));
    let within = run(&client, &id, &takes(60)).await;
    assert_eq!((within.exit_code, within.oom), (0, false));
    // The shell that takes over has the limits too, as they are now.
    run(&client, &id, "exit").await;
    assert_eq!(run(&client, &id, &takes(60)).await.exit_code, 0);
    let hit = run(&client, &id, &takes(400)).await;
    assert_eq!((hit.exit_code, hit.oom), (137, true));
    in_time(client.patch_session(&id, &patch(pids(5))))
        .await
        .unwrap();
    let forks = "for i in 1 2 3 4 5 6 7 8; do sleep 2 & done; wait";
    let refused = run(&client, &id, forks).await;
    assert!(refused.stderr.contains("fork"), "{refused:?}");

    // Open files are each process's own: they can shrink while it runs.
    let mut fewer = memory(256 * MIB);
    fewer.open_files = Some(64);
    in_time(client.patch_session(&id, &patch(fewer)))
        .await
        .unwrap();
    assert_eq!(run(&client, &id, "ulimit -n").await.stdout, "64\n");
}

#[tokio::test]
async fn memory_used_up_by_the_sandbox_is_the_sandboxs() {
    let Some(cage) = Cage::new(300 * MIB) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::builder().binary(cage.binary(dir.path())).start();
    let client = agent.client();
    let mut stream = events(&client).await;
    let neighbour = exec(&client, "echo before").await;
    assert_eq!((neighbour.exit_code, neighbour.oom), (0, false));
    let result = exec(&client, &format!("exec {}", takes(600))).await;
    assert_eq!((result.exit_code, result.oom), (137, true), "{result:?}");
    assert_eq!(
        about_a_limit(&mut stream).await,
        Happening::Oom {
            killed: 1,
            scope: LimitScope::Sandbox,
            process: Some(result.id),
            session: None,
        }
    );
    assert!(!exec(&client, "kill -9 $$").await.oom);
    let stats = in_time(client.stats()).await.unwrap();
    assert_eq!(stats.memory.limit_bytes, Some(300 * MIB));
    agent.stop_gracefully();
}
