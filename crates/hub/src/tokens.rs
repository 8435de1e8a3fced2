//! Tokens: who asks, and what they may.
//!
//! Owns the tokens there are, as hashes, and the rules of their scopes. Does not own the making of the
//! admin's token file (`sandshell_agent::Token`).
//!
//! | scope | may |
//! |---|---|
//! | `admin` | everything |
//! | `create` | make sandboxes, and everything with those it made |
//! | `sandbox:ID` | use that one: every route below it, pause, resume, keepalive |
//!
//! What a token may not know of does not exist for it: 404, the same as for an id nobody has.
//!
//! The end of a token, by word or by time, is the end of what it has open: each has a
//! [`CancellationToken`] for that, and one task ([`Tokens::watch`]) sees to those whose time comes.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::{HeaderMap, header};
use sandshell_agent::Token as Secret;
use sandshell_agent::parts::ApiError;
use sandshell_types::{
    ErrorCode, SandboxId, SandboxRecord, Scope, Timestamp, TokenCreated, TokenRecord, TokenRequest,
};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::audit;
use crate::error::HubError;
use crate::rate::Bucket;
use crate::sandbox::By;
use crate::store::{Change, Store, StoredToken};

/// The id of the token in the token file.
pub(crate) const ADMIN: &str = "tok_admin";

/// Tokens that may be kept at a time.
const MOST: usize = 10_000;

/// A token that was shown, and its right to ask at this rate.
#[derive(Debug)]
pub(crate) struct Token {
    record: TokenRecord,
    hash: [u8; 32],
    bucket: Arc<Bucket>,
    ended: CancellationToken,
}

impl Token {
    fn new(stored: StoredToken, rate: u32) -> Arc<Self> {
        Arc::new(Self {
            record: stored.record,
            hash: stored.hash,
            bucket: Arc::new(Bucket::new(rate)),
            ended: CancellationToken::new(),
        })
    }

    /// The right to use one sandbox, for a ticket that was made for it; it ends with the token that made
    /// the ticket.
    pub(crate) fn for_sandbox(id: SandboxId, ended: CancellationToken) -> Arc<Self> {
        Self::only_for(id, Arc::new(Bucket::new(0)), ended)
    }

    /// The right to use one sandbox that this token made: it ends with this one and counts against it.
    pub(crate) fn lent_for(&self, id: SandboxId) -> Arc<Self> {
        Self::only_for(id, Arc::clone(&self.bucket), self.ended.clone())
    }

    fn only_for(id: SandboxId, bucket: Arc<Bucket>, ended: CancellationToken) -> Arc<Self> {
        let record = TokenRecord {
            scopes: vec![Scope::Sandbox(id)],
            ..record("ticket", None, Vec::new())
        };
        Arc::new(Self {
            record,
            hash: [0; 32],
            bucket,
            ended,
        })
    }

    /// Counts a request against its rate.
    pub(crate) fn count(&self) -> Result<(), ApiError> {
        if self.bucket.take() {
            return Ok(());
        }
        let detail = format!("this token may ask {} times a second", self.bucket.rate());
        let refused = ApiError::new(ErrorCode::LimitReached, detail);
        Err(refused.hint("Wait as long as `retry-after` says."))
    }

    /// Told when it opens nothing any more.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    pub(crate) fn id(&self) -> &str {
        &self.record.id
    }

    pub(crate) fn max_sandboxes(&self) -> Option<usize> {
        self.record.max_sandboxes.map(|most| most as usize)
    }

    fn has(&self, wanted: &Scope) -> bool {
        self.record.scopes.contains(wanted)
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.has(&Scope::Admin)
    }

    pub(crate) fn may_create(&self) -> bool {
        self.is_admin() || self.has(&Scope::Create)
    }

    /// Whether it is good for nothing but this sandbox.
    pub(crate) fn is_only_for(&self, sandbox: &SandboxId) -> bool {
        let mut scopes = self.record.scopes.iter();
        scopes.all(|scope| matches!(scope, Scope::Sandbox(named) if named == sandbox))
    }

    /// Whether it may use a sandbox. One that is named in it must have been there when it was made: an id
    /// can be used again, by somebody else.
    pub(crate) fn may_use(&self, sandbox: &SandboxRecord) -> bool {
        let named = |scope: &Scope| matches!(scope, Scope::Sandbox(named) if *named == sandbox.id);
        self.may_manage(&sandbox.owner)
            || (sandbox.created_at <= self.record.created_at
                && self.record.scopes.iter().any(named))
    }

    /// Whether it may change or end a sandbox with this owner.
    pub(crate) fn may_manage(&self, owner: &str) -> bool {
        self.is_admin() || self.record.id == owner
    }

    fn is_valid(&self) -> bool {
        let expired = |at: Timestamp| at <= Timestamp::now();
        self.record.revoked_at.is_none() && !self.record.expires_at.is_some_and(expired)
    }
}

/// All tokens of the hub.
pub(crate) struct Tokens {
    store: Store,
    by_hash: RwLock<HashMap<[u8; 32], Arc<Token>>>,
    /// Who asks without a token; nobody, but on a Unix socket without a token file.
    anyone: Option<Arc<Token>>,
    /// Requests a second for each.
    rate: u32,
    /// One was made, which may end before all others.
    made: Notify,
}

impl Tokens {
    pub(crate) fn new(store: Store, stored: Vec<StoredToken>, open: bool, rate: u32) -> Self {
        let by_hash = stored
            .into_iter()
            .map(|token| (token.hash, Token::new(token, rate)))
            .collect();
        let anyone = open.then(|| {
            let record = record(ADMIN, Some("anyone on the socket"), vec![Scope::Admin]);
            let hash = [0; 32];
            Token::new(StoredToken { record, hash }, rate)
        });
        Self {
            store,
            by_hash: RwLock::new(by_hash),
            anyone,
            rate,
            made: Notify::new(),
        }
    }

    /// Ends what tokens have open when their time comes, for as long as the hub lives.
    pub(crate) async fn watch(&self, shutdown: CancellationToken) {
        loop {
            let made = self.made.notified();
            let next = self.end_expired();
            let due = async {
                match next {
                    Some(at) => {
                        let left = at.duration_since(Timestamp::now());
                        tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = made => {}
                () = due => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Ends those whose time is over; tells when the next one's is.
    fn end_expired(&self) -> Option<Timestamp> {
        let now = Timestamp::now();
        self.read(|all| {
            let going = all.values().filter(|token| !token.ended.is_cancelled());
            let mut next = None;
            for token in going {
                match token.record.expires_at {
                    Some(at) if at <= now => token.ended.cancel(),
                    Some(at) => next = Some(next.map_or(at, |next: Timestamp| next.min(at))),
                    None => {}
                }
            }
            next
        })
    }

    /// Makes the admin's token the only one with the admin's id.
    pub(crate) async fn set_admin(&self, secret: &Secret) -> Result<(), HubError> {
        let hash = digest(secret.reveal());
        let known = self.get(&hash);
        if known.is_some_and(|token| token.id() == ADMIN) {
            return Ok(());
        }
        let token = StoredToken {
            record: record(ADMIN, Some("admin"), vec![Scope::Admin]),
            hash,
        };
        let entry = audit::entry("token.create", &By::default(), ADMIN);
        let changes = vec![
            Change::ForgetToken(ADMIN.to_owned()),
            Change::PutToken(token.clone()),
            Change::Audit(entry),
        ];
        self.store.apply(changes).await?;
        let mut by_hash = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        by_hash.retain(|_, token| token.id() != ADMIN);
        by_hash.insert(hash, Token::new(token, self.rate));
        Ok(())
    }

    /// Whose request this is; `None` when it shows no token that opens anything.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Option<Arc<Token>> {
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return self.anyone.clone();
        };
        let (scheme, given) = value.as_bytes().split_at_checked(7)?;
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return None;
        }
        let hash = digest(given.trim_ascii());
        // Found by its hash, which whoever guesses cannot steer; compared in constant time all the same.
        let token = self.get(&hash)?;
        let right = bool::from(token.hash.ct_eq(&hash));
        Some(token).filter(|token| right && token.is_valid())
    }

    /// The token with an id, while it opens anything.
    pub(crate) fn valid(&self, id: &str) -> Option<Arc<Token>> {
        let kept = self.read(|all| {
            let mut with_id = all.values().filter(|token| token.id() == id);
            with_id.find(|token| token.is_valid()).cloned()
        });
        kept.or_else(|| self.anyone.clone().filter(|anyone| anyone.id() == id))
    }

    /// Makes a token; the secret is in the answer and nowhere else.
    pub(crate) async fn create(
        &self,
        request: TokenRequest,
        by: &By,
    ) -> Result<TokenCreated, HubError> {
        check(&request)?;
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random).map_err(HubError::Random)?;
        let secret = Secret::generate().map_err(|error| match error {
            sandshell_agent::TokenError::Random(error) => HubError::Random(error),
            other => HubError::invalid("", other.to_string()),
        })?;
        let mut changes = self.make_room()?;
        let id = format!("tok_{}", crate::hex(&random));
        let made = StoredToken {
            record: TokenRecord {
                name: request.name,
                expires_at: request.expires_at,
                max_sandboxes: request.max_sandboxes,
                ..record(&id, None, request.scopes)
            },
            hash: digest(secret.reveal()),
        };
        let entry = audit::entry("token.create", by, &id);
        changes.extend([Change::PutToken(made.clone()), Change::Audit(entry)]);
        self.store.apply(changes).await?;
        let created = TokenCreated {
            record: made.record.clone(),
            token: secret.reveal().to_owned(),
        };
        self.put(made);
        self.made.notify_one();
        Ok(created)
    }

    /// Takes a token's right away. The record stays, so that the audit log can be understood.
    pub(crate) async fn revoke(&self, id: &str, by: &By) -> Result<TokenRecord, HubError> {
        let found = self.read(|all| all.values().find(|token| token.id() == id).cloned());
        let token = found.ok_or_else(|| HubError::TokenNotFound(id.to_owned()))?;
        if id == ADMIN {
            return Err(HubError::Forbidden(
                "the admin's token is that of the token file; change the file and restart the hub",
            ));
        }
        let mut record = token.record.clone();
        if record.revoked_at.is_some() {
            return Ok(record);
        }
        record.revoked_at = Some(Timestamp::now());
        let stored = StoredToken {
            record: record.clone(),
            hash: token.hash,
        };
        let entry = audit::entry("token.revoke", by, id);
        let changes = vec![Change::PutToken(stored.clone()), Change::Audit(entry)];
        self.store.apply(changes).await?;
        self.put(stored);
        token.ended.cancel();
        Ok(record)
    }

    pub(crate) fn get_record(&self, id: &str) -> Result<TokenRecord, HubError> {
        let found = self.read(|all| all.values().find(|token| token.id() == id).cloned());
        found
            .map(|token| token.record.clone())
            .ok_or_else(|| HubError::TokenNotFound(id.to_owned()))
    }

    /// All of them, oldest first.
    pub(crate) fn records(&self) -> Vec<TokenRecord> {
        let mut records: Vec<TokenRecord> =
            self.read(|all| all.values().map(|token| token.record.clone()).collect());
        records.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        records
    }

    /// Forgets the oldest of those that open nothing any more when there are too many.
    fn make_room(&self) -> Result<Vec<Change>, HubError> {
        let mut by_hash = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        if by_hash.len() < MOST {
            return Ok(Vec::new());
        }
        let over = by_hash.values().filter(|token| !token.is_valid());
        let oldest = over.min_by_key(|token| token.record.created_at).cloned();
        let oldest = oldest.ok_or_else(|| HubError::Quota {
            detail: format!("there are {MOST} tokens already"),
        })?;
        by_hash.remove(&oldest.hash);
        Ok(vec![Change::ForgetToken(oldest.id().to_owned())])
    }

    fn get(&self, hash: &[u8; 32]) -> Option<Arc<Token>> {
        self.read(|all| all.get(hash).cloned())
    }

    fn put(&self, token: StoredToken) {
        let mut by_hash = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        by_hash.insert(token.hash, Token::new(token, self.rate));
    }

    fn read<T>(&self, look: impl FnOnce(&HashMap<[u8; 32], Arc<Token>>) -> T) -> T {
        look(&self.by_hash.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn check(request: &TokenRequest) -> Result<(), HubError> {
    if request.scopes.is_empty() {
        return Err(
            HubError::invalid("/scopes", "a token needs at least one scope")
                .hint("Scopes are `admin`, `create` and `sandbox:ID`."),
        );
    }
    if request.scopes.len() > 100 {
        return Err(HubError::invalid(
            "/scopes",
            "a token has at most 100 scopes",
        ));
    }
    if request.name.as_ref().is_some_and(|name| name.len() > 200) {
        return Err(HubError::invalid("/name", "a name has at most 200 bytes"));
    }
    if request.expires_at.is_some_and(|at| at <= Timestamp::now()) {
        return Err(HubError::invalid("/expires_at", "that time is over"));
    }
    Ok(())
}

fn record(id: &str, name: Option<&str>, scopes: Vec<Scope>) -> TokenRecord {
    TokenRecord {
        id: id.to_owned(),
        name: name.map(str::to_owned),
        scopes,
        created_at: Timestamp::now(),
        expires_at: None,
        revoked_at: None,
        max_sandboxes: None,
    }
}

fn digest(secret: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(secret).into()
}
