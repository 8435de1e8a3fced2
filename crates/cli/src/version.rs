//! `sandshell version`: ours, and that of the hub when it is asked for.

use std::process::ExitCode;

use clap::Args;
use sandshell_client::types::{API_VERSION, VersionInfo};

use crate::connection::{Done, Remote};
use crate::failure::Failure;
use crate::print;

#[derive(Debug, Args)]
pub(crate) struct VersionArguments {
    /// Ask the hub for its version too, and warn when the two do not fit.
    #[arg(long)]
    server: bool,
}

fn ours() -> VersionInfo {
    VersionInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api: API_VERSION.to_owned(),
    }
}

pub(crate) fn run(remote: Remote, own: &VersionArguments) -> Done {
    let client = ours();
    let shown =
        |name: &str, info: &VersionInfo| format!("{name} {} (API {})", info.version, info.api);
    if !own.server {
        return if remote.json {
            print(&serde_json::to_string(&client).map_err(|error| Failure::ours(&error))?)
        } else {
            print(&shown("sandshell", &client))
        };
    }
    remote.drive(async |hub| {
        let server = hub.client.version().await?;
        if hub.out.json {
            hub.out
                .object(&serde_json::json!({"client": client, "server": server}))?;
        } else {
            let url = &hub.settings.url.value;
            hub.out.line(&shown("sandshell", &client))?;
            hub.out
                .line(&format!("{} at {url}", shown("hub", &server)))?;
        }
        if let Some(skew) = skew(&client, &server) {
            hub.out.remark(&format!("warning: {skew}"));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// What does not fit: another API, or more than one minor version apart.
fn skew(client: &VersionInfo, server: &VersionInfo) -> Option<String> {
    if client.api != server.api {
        return Some(format!(
            "the hub speaks API {} and this program {}; use programs of one version",
            server.api, client.api
        ));
    }
    let (ours, theirs) = (minor(&client.version)?, minor(&server.version)?);
    let far = ours.0 != theirs.0 || ours.1.abs_diff(theirs.1) > 1;
    far.then(|| {
        format!(
            "the hub is {} and this program {}: more than one minor version apart",
            server.version, client.version
        )
    })
}

fn minor(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_fit() {
        let of = |version: &str| VersionInfo {
            version: version.to_owned(),
            api: "v1".to_owned(),
        };
        assert_eq!(skew(&of("0.1.0"), &of("0.2.9")), None);
        assert!(skew(&of("0.1.0"), &of("0.3.0")).is_some());
        assert!(skew(&of("1.0.0"), &of("0.9.0")).is_some());
        let other = VersionInfo {
            api: "v2".to_owned(),
            ..of("0.1.0")
        };
        assert!(skew(&of("0.1.0"), &other).is_some());
    }
}
