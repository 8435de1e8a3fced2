//! What a command of `sandshell run` may reach and use, as flags.

use std::time::Duration;

use clap::{Args, ValueEnum};
use sandshell_client::types::{
    Cpus, Layer, NetworkMode, NetworkSpec, Protection, ProtectionStatus, SecretSpec,
};
use sandshell_hub::egress::Policy;
use sandshell_isolate::limits::{self, LimitError, SandboxLimits, USUAL_MEMORY, USUAL_PIDS};

use crate::failure::{Failure, with_flags};
use crate::values;

#[derive(Debug, Default, Args)]
pub(crate) struct Bounds {
    /// Host that it may reach, `example.com`, `*.example.com` or `example.com:8443`; may be given again.
    #[arg(long, value_name = "HOST")]
    allow: Vec<String>,

    /// What it may reach: nothing, the hosts of `--allow`, or all public ones
    /// [default: allow with a host, else none].
    #[arg(long, value_name = "MODE")]
    network: Option<Network>,

    /// Header that requests to a host get on their way out, with the value of a variable of ours, which
    /// the sandbox does not see; may be given again.
    #[arg(long = "secret", value_name = "HOST:HEADER=VARIABLE", value_parser = secret)]
    secrets: Vec<Secret>,

    /// Most memory, such as 512m [default: 2g].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,

    /// Most processors, such as 0.5 [default: all].
    #[arg(long, value_name = "COUNT", value_parser = processors)]
    cpus: Option<Cpus>,

    /// Most processes and threads at a time [default: 1024].
    #[arg(long, value_name = "COUNT")]
    pids: Option<u64>,

    /// Most bytes of files it may write [default: 1g].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    disk: Option<u64>,

    /// Time after which it is killed, such as 30s, 5m or 500ms; the exit code is 124 then.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "tty")]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Network {
    None,
    Allow,
    Full,
}

/// A secret whose value is still where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Secret {
    host: String,
    header: String,
    variable: String,
}

impl Bounds {
    /// What it may reach; `None` for nothing.
    pub(crate) fn policy(&self) -> Result<Option<Policy>, Failure> {
        let mode = match self.network {
            Some(Network::None) => NetworkMode::None,
            Some(Network::Full) => NetworkMode::Full,
            None if self.allow.is_empty() => NetworkMode::None,
            Some(Network::Allow) | None => NetworkMode::Allow,
        };
        let network = NetworkSpec {
            mode,
            allow: self.allow.clone(),
        };
        let secrets = self.secrets.iter().map(Secret::read);
        let secrets: Vec<SecretSpec> = secrets.collect::<Result<_, _>>()?;
        match Policy::parse(&network, &secrets) {
            Ok(policy) => Ok(Some(policy).filter(|_| mode != NetworkMode::None)),
            Err(error) => {
                let failure = Failure::usage(error.to_string());
                Err(match error.hint {
                    Some(hint) => failure.hint(with_flags(hint)),
                    None => failure,
                })
            }
        }
    }

    /// What it may use of memory, processors and processes.
    pub(crate) fn limits(&self) -> Result<SandboxLimits, Failure> {
        let all = u32::try_from(limits::processors()).unwrap_or(u32::MAX);
        let all = Cpus::new(f64::from(all));
        let limits = SandboxLimits {
            memory_bytes: Some(self.memory.unwrap_or(USUAL_MEMORY)),
            cpus: self.cpus.or(all),
            pids: Some(self.pids.unwrap_or(USUAL_PIDS)),
        };
        let wrong = |error: LimitError| Failure::usage(error.to_string());
        limits.check().map_err(wrong)?;
        Ok(limits)
    }

    /// Bytes that can be written.
    pub(crate) fn disk(&self) -> Result<u64, Failure> {
        let memory = self.memory.unwrap_or(USUAL_MEMORY);
        limits::disk_in_memory(self.disk, memory).map_err(|error| {
            let failure = Failure::usage(error.to_string());
            match error {
                LimitError::BeyondMemory { .. } => failure.hint("give more with --memory"),
                _ => failure,
            }
        })
    }

    /// Refuses to go on without a limit that was asked for. Those that nobody asked for are named.
    pub(crate) fn check_kept(&self, protections: &[Protection]) -> Result<(), Failure> {
        for (asked, flag, layer) in [
            (self.memory.is_some(), "--memory", Layer::MemoryLimit),
            (self.cpus.is_some(), "--cpus", Layer::CpuLimit),
            (self.pids.is_some(), "--pids", Layer::PidsLimit),
            (self.disk.is_some(), "--disk", Layer::DiskLimit),
        ] {
            let off = |one: &&Protection| one.name == layer && one.status == ProtectionStatus::Off;
            if asked && let Some(off) = protections.iter().find(off) {
                let reason = off.reason.as_deref().unwrap_or("no reason is known");
                let error = std::io::Error::other(format!("{flag} cannot be kept here: {reason}"));
                return Err(Failure::ours(&error).hint(format!("leave {flag} out")));
            }
        }
        Ok(())
    }
}

impl Secret {
    fn read(&self) -> Result<SecretSpec, Failure> {
        let value = std::env::var(&self.variable).map_err(|_| {
            Failure::usage(format!("the variable {} is not set", self.variable))
                .hint("--secret takes the name of a variable, so that no one sees the value")
        })?;
        Ok(SecretSpec {
            host: self.host.clone(),
            header: self.header.clone(),
            value: Some(value),
        })
    }
}

fn secret(text: &str) -> Result<Secret, String> {
    let parts = text.rsplit_once('=').and_then(|(rest, variable)| {
        let (host, header) = rest.rsplit_once(':')?;
        (!host.is_empty() && !header.is_empty() && !variable.is_empty())
            .then_some((host, header, variable))
    });
    let (host, header, variable) =
        parts.ok_or("expected HOST:HEADER=VARIABLE, such as api.example.com:X-Key=API_KEY")?;
    Ok(Secret {
        host: host.to_owned(),
        header: header.to_owned(),
        variable: variable.to_owned(),
    })
}

fn size(text: &str) -> Result<u64, String> {
    match values::bytes(text)? {
        0 => Err("expected a size above 0, such as 512m or 2g".to_owned()),
        bytes => Ok(bytes),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        0 => Err("expected a time above 0, such as 30s, 5m or 500ms".to_owned()),
        millis => Ok(Duration::from_millis(millis)),
    }
}

fn processors(text: &str) -> Result<Cpus, String> {
    let count = text.parse().ok().and_then(Cpus::new);
    count.ok_or_else(|| "expected a number of processors from 0.01 on, such as 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units() {
        for (text, bytes) in [
            ("8192", 8192),
            ("64K", 64 << 10),
            ("512m", 512 << 20),
            ("1.5G", 3 << 29),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "-1", "M", "1X", "1 M", "99999999999T"] {
            assert!(size(text).is_err(), "{text}");
        }
        for (text, millis) in [
            ("30s", 30_000),
            ("2", 2000),
            ("500ms", 500),
            ("5m", 300_000),
        ] {
            assert_eq!(time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "0", "0s", "s", "-1s", "99999999999999999h"] {
            assert!(time(text).is_err(), "{text}");
        }
        for text in ["0", "-1", "x", "nan", "inf", ""] {
            assert!(processors(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_secret_names_host_header_and_variable() {
        let read = secret("api.example.com:8443:X-Key=API_KEY").unwrap();
        assert_eq!(
            (&*read.host, &*read.header, &*read.variable),
            ("api.example.com:8443", "X-Key", "API_KEY")
        );
        for text in ["", "a", "a:b", "a:b=", "a=b", ":b=C", "a:=C"] {
            assert!(secret(text).is_err(), "{text}");
        }
    }
}
