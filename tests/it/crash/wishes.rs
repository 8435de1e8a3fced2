//! What is asked for next: chosen by chance, and possible.

use sandshell_client::types::{SandboxId, SandboxState, SessionRequest};

use super::in_time;
use super::model::{self, Model, Wish};
use super::points::Kind;
use super::steps::session;
use super::world::World;

/// The ids that are chosen from.
const NAMES: &[&str] = &["a", "b", "c"];

impl World {
    /// Something that can be asked of this hub.
    pub(super) fn any_kind(&mut self) -> Kind {
        let can = |kind: &Kind| self.user.is_none() || !kind.needs_groups();
        let kinds: Vec<Kind> = Kind::asked().filter(can).collect();
        kinds[self.random.below(kinds.len())]
    }

    /// What can be asked for of this kind; steps that make it possible are taken first.
    pub(super) async fn wish(&mut self, kind: Kind) -> Wish {
        match kind {
            Kind::CreateFresh | Kind::CreateWarm => {
                let id = self.free_name().await;
                let number = self.model.number();
                let warm = kind == Kind::CreateWarm;
                Wish::Create(Box::new(model::spec(Some(id), number, warm)))
            }
            Kind::CreateNameless => {
                if self.model.live.len() > NAMES.len() {
                    let id = self.any(Kind::Delete).await;
                    self.step(&Wish::Delete(id)).await;
                }
                let number = self.model.number();
                Wish::Create(Box::new(model::spec(None, number, true)))
            }
            Kind::CreateAgain => Wish::Again(self.any(kind).await),
            Kind::Label => {
                let value = self.model.number().to_string();
                Wish::Label(self.any(kind).await, value)
            }
            Kind::Limit => {
                let pids = 500 + u64::from(self.model.number());
                Wish::Limit(self.any(kind).await, pids)
            }
            Kind::Pause => Wish::Pause(self.any(kind).await),
            Kind::Resume => Wish::Resume(self.any(kind).await),
            Kind::Sleep => Wish::Sleep(self.any(kind).await),
            Kind::KeepAlive => Wish::KeepAlive(self.any(kind).await),
            Kind::MakeToken => {
                let name = format!("t{}", self.model.number());
                Wish::MakeToken(self.any(kind).await, name)
            }
            Kind::RevokeToken => {
                let valid = |model: &Model| {
                    let mut valid = model.tokens.iter().filter(|token| !token.revoked);
                    valid.next().map(|token| token.id.clone())
                };
                if valid(&self.model).is_none() {
                    let name = format!("t{}", self.model.number());
                    let id = self.any(Kind::MakeToken).await;
                    self.step(&Wish::MakeToken(id, name)).await;
                }
                Wish::RevokeToken(valid(&self.model).expect("one was made"))
            }
            Kind::Exec | Kind::Wake => Wish::Exec(self.any(kind).await),
            Kind::Process => {
                let id = format!("p{}", self.model.number());
                Wish::Process(self.any(kind).await, id.parse().unwrap())
            }
            Kind::Command => {
                let id = self.any(kind).await;
                if self.model.of(&id).counted.is_none() {
                    let request = SessionRequest {
                        id: Some(session()),
                        ..SessionRequest::default()
                    };
                    let inside = self.client.sandbox(&id);
                    in_time(inside.create_session(&request)).await.unwrap();
                    self.model.of(&id).counted = Some(0);
                }
                Wish::Command(id)
            }
            Kind::Delete => Wish::Delete(self.any(kind).await),
            Kind::Expire => Wish::Expire(self.any(kind).await),
            Kind::List | Kind::Start | Kind::Stop | Kind::FirstStart => Wish::List,
        }
    }

    /// A name that nobody has.
    async fn free_name(&mut self) -> SandboxId {
        let names = NAMES.iter().map(|name| name.parse::<SandboxId>().unwrap());
        let free: Vec<SandboxId> = names
            .filter(|id| !self.model.live.contains_key(id))
            .collect();
        if !free.is_empty() {
            return free[self.random.below(free.len())].clone();
        }
        let id: SandboxId = NAMES[self.random.below(NAMES.len())].parse().unwrap();
        self.step(&Wish::Delete(id.clone())).await;
        id
    }

    /// One of the living that this can be asked of.
    async fn any(&mut self, kind: Kind) -> SandboxId {
        let fitting: Vec<SandboxId> = self
            .model
            .live
            .iter()
            .filter(|(_, one)| model::fits(kind, one))
            .map(|(id, _)| id.clone())
            .collect();
        if !fitting.is_empty() {
            return fitting[self.random.below(fitting.len())].clone();
        }
        // None is as it must be, so one is made so.
        let first = self.model.live.iter().next();
        let first = first.map(|(id, one)| (id.clone(), one.state));
        let (id, wish) = match (kind, first) {
            (Kind::Resume, _) => {
                let id = Box::pin(self.any(Kind::Pause)).await;
                (id.clone(), Wish::Pause(id))
            }
            (Kind::Wake, _) => {
                let id = Box::pin(self.any(Kind::Sleep)).await;
                (id.clone(), Wish::Sleep(id))
            }
            (_, Some((id, SandboxState::Paused))) => (id.clone(), Wish::Resume(id)),
            (_, Some((id, _))) => (id.clone(), Wish::Exec(id)),
            (_, None) => {
                let id: SandboxId = NAMES[0].parse().unwrap();
                let spec = model::spec(Some(id.clone()), self.model.number(), true);
                (id, Wish::Create(Box::new(spec)))
            }
        };
        self.step(&wish).await;
        id
    }

    /// A few steps of any kind.
    pub(super) async fn wander(&mut self) {
        for _ in 0..self.random.below(3) {
            let kind = self.any_kind();
            let wish = self.wish(kind).await;
            self.step(&wish).await;
        }
    }
}
