//! From the command line to a hub: who is asked, with which token, and about which sandbox.
//!
//! Owns the flags that every such command takes. Nothing is sent before the command itself has something
//! to ask.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;

use clap::Args;
use sandshell_client::types::{ErrorCode, List, NetworkMode, SandboxId};
use sandshell_client::{Client, ClientError, Page, SandboxFilter};

use crate::config::Settings;
use crate::failure::Failure;
use crate::names::{self, Place, Thing};
use crate::output::Output;
use crate::paint::{Paint, When};

/// How a command ends.
pub(crate) type Done = Result<ExitCode, Failure>;

/// Most that a hub gives at a time.
pub(crate) const PAGE: u32 = 1000;

/// The flags of every command that talks to a hub.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Hub and output")]
pub(crate) struct Remote {
    /// Hub to use, by its name in your configuration [env: `SANDSHELL_HUB`].
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "url")]
    pub(crate) hub: Option<String>,

    /// Address of the hub, `http://HOST:PORT` or `unix:/PATH` [env: `SANDSHELL_URL`].
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// File with the token [env: `SANDSHELL_TOKEN_FILE`, or the token itself in `SANDSHELL_TOKEN`].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Print the API's JSON; errors too, on stderr.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Print ids only, and no progress.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,

    /// When to colour.
    #[arg(long, global = true, value_name = "WHEN")]
    pub(crate) color: Option<When>,
}

/// A command and the hub it is for.
#[derive(Debug, Args)]
pub(crate) struct Asking<T: Args> {
    #[command(flatten)]
    pub(crate) own: T,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// What was to be named where a sandbox was.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// A path, for this command.
    Path(&'a str),
    /// This in a sandbox, and the command that lists all of them.
    Thing(&'a str, &'a str),
}

/// A hub to talk to.
pub(crate) struct Hub {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) out: Output,
}

/// One sandbox of it.
pub(crate) struct Sandbox {
    pub(crate) id: SandboxId,
    pub(crate) client: Client,
}

impl Remote {
    /// Reads the configuration and does the work on one thread.
    pub(crate) fn drive(self, work: impl AsyncFnOnce(&Hub) -> Done) -> Done {
        let json = self.json;
        self.driven(work).map_err(|failure| failure.in_json(json))
    }

    fn driven(self, work: impl AsyncFnOnce(&Hub) -> Done) -> Done {
        let hub = Hub::new(&self)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::ours(&error))?;
        // Boxed, so that what drives a command is compiled once and not for each of them.
        let work: Pin<Box<dyn Future<Output = Done> + '_>> = Box::pin(work(&hub));
        let done = runtime.block_on(work);
        // A read of our stdin may still go on; nobody waits for it.
        runtime.shutdown_background();
        done
    }

    /// How results are shown, once the configuration is known.
    pub(crate) fn output(&self, settings: &Settings) -> Output {
        Paint::choose(settings.color.value);
        let out = Output {
            json: self.json,
            quiet: self.quiet,
            paint: Paint::for_stdout(),
        };
        for warning in &settings.warnings {
            out.remark(&format!("warning: {warning}"));
        }
        out
    }
}

impl Hub {
    pub(crate) fn new(remote: &Remote) -> Result<Self, Failure> {
        let settings = Settings::read(remote)?;
        let out = remote.output(&settings);
        let token = settings.read_token()?;
        let client = Client::new(&settings.url.value, token.as_deref())
            .map_err(|error| Failure::from(error).hint(address_hint(&settings)))?;
        Ok(Self {
            client,
            settings,
            out,
        })
    }

    /// The sandbox that is meant: as typed, else as set, else the only one there is.
    pub(crate) async fn sandbox(&self, typed: Option<&str>) -> Result<Sandbox, Failure> {
        let set = self.settings.sandbox.as_ref();
        let typed = typed.or(set.map(|set| set.value.as_str()));
        let id = match typed {
            Some(typed) => self.sandbox_called(typed).await?,
            None => self.only_sandbox().await?,
        };
        Ok(Sandbox {
            client: self.client.sandbox(&id),
            id,
        })
    }

    /// The sandbox with the id that was typed or set, without asking whether there is one: a request that
    /// may turn out to be for nobody, instead of one more each time. `None` when nothing was.
    pub(crate) fn sandbox_unasked(&self, typed: Option<&str>) -> Option<Sandbox> {
        let set = self.settings.sandbox.as_ref();
        let id: SandboxId = typed.or(set.map(|set| set.value.as_str()))?.parse().ok()?;
        Some(Sandbox {
            client: self.client.sandbox(&id),
            id,
        })
    }

    async fn sandbox_called(&self, typed: &str) -> Result<SandboxId, Failure> {
        if let Some((sandbox, _)) = typed.split_once('/') {
            return Err(Failure::usage(format!(
                "{typed:?} names something in a sandbox, and a sandbox is wanted"
            ))
            .hint(format!(
                "the sandbox alone is {sandbox}; what is made in it gets its id with --name"
            )));
        }
        if let Ok(id) = typed.parse::<SandboxId>() {
            match self.client.get_sandbox(&id).await {
                Ok(_) => return Ok(id),
                Err(error) if error.code() == Some(ErrorCode::SandboxNotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let ids = self.sandbox_ids().await?;
        if ids.is_empty() {
            return Err(Failure::failed(format!("there is no sandbox {typed:?}"))
                .of_a_name()
                .like(ErrorCode::SandboxNotFound)
                .hint("there is none at all; `sandshell create` makes one"));
        }
        let picked = names::pick("sandbox", typed, &ids, "sandshell ls");
        parsed(&picked.map_err(|failure| failure.like(ErrorCode::SandboxNotFound))?)
    }

    /// What a sandbox may reach, as far as that can be asked.
    pub(crate) async fn network_of(&self, sandbox: &Sandbox) -> Option<NetworkMode> {
        let record = self.client.get_sandbox(&sandbox.id).await.ok()?;
        let network = record.spec.network;
        Some(network.map_or(NetworkMode::None, |network| network.mode))
    }

    /// A second path in this sandbox, which may be named again.
    pub(crate) async fn path_beside(
        &self,
        sandbox: &Sandbox,
        place: Place,
    ) -> Result<String, Failure> {
        if let Some(name) = &place.sandbox {
            let other = self.sandbox(Some(name)).await?.id;
            if other != sandbox.id {
                return Err(Failure::usage(format!(
                    "one path is in {}, the other in {other}",
                    sandbox.id
                ))
                .hint(format!(
                    "copy it here first, then to the other: `sandshell cp {}:PATH .`",
                    sandbox.id
                )));
            }
        }
        Ok(place.path)
    }

    /// A failure to find something by this name alone, told again if it is the name of a sandbox.
    pub(crate) async fn lone(&self, name: &str, failure: Failure, wanted: Wanted<'_>) -> Failure {
        let of_a_name = failure.is_of_a_name();
        let Some(id) = name.parse::<SandboxId>().ok().filter(|_| of_a_name) else {
            return failure;
        };
        if self.client.get_sandbox(&id).await.is_err() {
            return failure;
        }
        let (what, hint) = match wanted {
            Wanted::Path(command) => (
                "a path",
                format!("a path in it is {id}:PATH, as in `sandshell {command} {id}:.`"),
            ),
            Wanted::Thing(what, listing) => (
                what,
                format!("one in it is {id}/ID; `{listing} {id}` lists those there are"),
            ),
        };
        failure
            .reworded(format!("{name:?} is a sandbox, and {what} is wanted"))
            .hint(hint)
    }

    async fn only_sandbox(&self) -> Result<SandboxId, Failure> {
        let ids = self.sandbox_ids().await?;
        match ids.as_slice() {
            [one] => parsed(one),
            [] => Err(Failure::failed("there is no sandbox").hint("`sandshell create` makes one")),
            several => Err(Failure::usage(format!(
                "there are {} sandboxes, and none is named",
                several.len()
            ))
            .of_a_name()
            .hint("name one, or set SANDSHELL_SANDBOX; `sandshell ls` lists them")),
        }
    }

    async fn sandbox_ids(&self) -> Result<Vec<String>, Failure> {
        let all = self.all_sandboxes(SandboxFilter::default()).await?;
        Ok(all.into_iter().map(|record| record.id.into()).collect())
    }

    /// Every page of a list of sandboxes.
    pub(crate) async fn all_sandboxes(
        &self,
        mut filter: SandboxFilter,
    ) -> Result<Vec<sandshell_types::SandboxRecord>, Failure> {
        filter.page.limit = Some(PAGE);
        let mut all = Vec::new();
        loop {
            let page = self.client.sandboxes(&filter).await?;
            all.extend(page.items);
            match page.next_cursor {
                Some(cursor) => filter.page.cursor = Some(cursor),
                None => return Ok(all),
            }
        }
    }
}

fn parsed(id: &str) -> Result<SandboxId, Failure> {
    id.parse().map_err(|error| Failure::ours(&error))
}

fn address_hint(settings: &Settings) -> String {
    format!(
        "the address comes from {}; it is http://HOST:PORT or unix:/PATH",
        settings.url.origin
    )
}

/// All items of a list that comes in pages.
pub(crate) async fn every<T, F>(mut call: F) -> Result<List<T>, Failure>
where
    F: AsyncFnMut(Page) -> Result<List<T>, ClientError>,
{
    let mut items = Vec::new();
    let mut page = Page {
        limit: Some(PAGE),
        cursor: None,
    };
    loop {
        let list = call(page.clone()).await?;
        items.extend(list.items);
        match list.next_cursor {
            Some(cursor) => page.cursor = Some(cursor),
            None => {
                return Ok(List {
                    items,
                    next_cursor: None,
                });
            }
        }
    }
}

/// The one thing that was meant: by its whole id, else by the beginning of one.
pub(crate) async fn found<I, R, G, L>(
    what: &str,
    typed: &str,
    listing: &str,
    get: G,
    ids: L,
) -> Result<R, Failure>
where
    I: std::str::FromStr,
    G: AsyncFn(I) -> Result<R, ClientError>,
    L: AsyncFnOnce() -> Result<Vec<String>, Failure>,
{
    let mut told = ErrorCode::NotFound;
    if let Ok(id) = typed.parse::<I>() {
        match get(id).await {
            Ok(record) => return Ok(record),
            Err(error) if error.status() == Some(404) => told = error.code().unwrap_or(told),
            Err(error) => return Err(error.into()),
        }
    }
    let id =
        names::pick(what, typed, &ids().await?, listing).map_err(|failure| failure.like(told))?;
    match id.parse::<I>() {
        Ok(id) => Ok(get(id).await?),
        Err(_) => Err(Failure::failed(format!("{id:?} is not an id"))),
    }
}

/// The same for what is listed in pages, with its sandbox.
pub(crate) async fn one_of<I, R>(
    hub: &Hub,
    thing: &Thing,
    what: &str,
    get: impl AsyncFn(&Client, I) -> Result<R, ClientError>,
    list: impl AsyncFn(&Client, Page) -> Result<List<R>, ClientError>,
    id: impl Fn(R) -> String,
) -> Result<(Sandbox, R), Failure>
where
    I: std::str::FromStr,
{
    let listing = format!("sandshell {what} ls");
    in_sandbox(
        hub,
        thing,
        &format!("a {what}"),
        &listing,
        async |client, listing| {
            found(
                what,
                &thing.id,
                listing,
                async |id| get(client, id).await,
                async || {
                    let all = every(async |page| list(client, page).await).await?;
                    Ok(all.items.into_iter().map(&id).collect())
                },
            )
            .await
        },
    )
    .await
}

/// The sandbox of a thing, and what is found in it.
pub(crate) async fn in_sandbox<R>(
    hub: &Hub,
    thing: &Thing,
    what: &str,
    listing: &str,
    find: impl AsyncFnOnce(&Client, &str) -> Result<R, Failure>,
) -> Result<(Sandbox, R), Failure> {
    let looked = async {
        let sandbox = hub.sandbox(thing.sandbox.as_deref()).await?;
        let listing = match &thing.sandbox {
            Some(_) => format!("{listing} {}", sandbox.id),
            None => listing.to_owned(),
        };
        let found = find(&sandbox.client, &listing).await?;
        Ok((sandbox, found))
    };
    match looked.await {
        Err(failure) if thing.sandbox.is_none() => {
            let wanted = Wanted::Thing(what, listing);
            Err(hub.lone(&thing.id, failure, wanted).await)
        }
        done => done,
    }
}
