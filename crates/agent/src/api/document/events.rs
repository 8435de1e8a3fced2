//! Unions of server-sent events in the document.
//!
//! `OpenAPI` 3.1 has no words for a stream of events, so each stream is described by a named union of
//! its events, as objects of their `event`, `id` and `data` lines, told apart by `event`. The union is
//! the schema of the `text/event-stream` answer. Each object has the form that `OpenAPI` 3.2 gives events:
//! `data` is text whose content has a schema.
//!
//! A surface with a stream of its own says so beside its routes:
//!
//! ```text
//! event_union! {
//!     /// Events of the walk.
//!     pub(super) WalkEvents: "step" => StepEvent, "end" => EndEvent;
//! }
//! … (status = 200, description = "…", content((WalkEvents = "text/event-stream", example = json!({
//!       "event": "step", "id": "1", "data": r#"{"length": 3}"#}))))
//! ```

use std::borrow::Cow;

use utoipa::ToSchema;
use utoipa::openapi::schema::{Discriminator, SchemaType, Type};
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, Ref, RefOr, Schema};

/// One event of a union: its name and the schema of its data, with all that leads to.
pub(in crate::api) struct EventSchema {
    name: &'static str,
    data: Cow<'static, str>,
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl EventSchema {
    pub(in crate::api) fn of<T: ToSchema>(name: &'static str) -> Self {
        let mut schemas = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut schemas);
        Self {
            name,
            data: T::name(),
            schemas,
        }
    }

    #[cfg(test)]
    pub(in crate::api) fn name(&self) -> &'static str {
        self.name
    }

    /// `ExitEvent` of `OutputEvents` is `OutputEventsExit`.
    fn schema_name(&self, union: &str) -> String {
        let parts = self.name.split('_').map(|part| {
            let (first, rest) = part.split_at(part.len().min(1));
            first.to_uppercase() + rest
        });
        union.to_owned() + &parts.collect::<String>()
    }

    fn schema(&self) -> RefOr<Schema> {
        let name = ObjectBuilder::new()
            .schema_type(SchemaType::new(Type::String))
            .enum_values(Some([self.name]))
            .description(Some("The `event:` line."));
        let id = ObjectBuilder::new()
            .schema_type(SchemaType::new(Type::String))
            .description(Some(
                "The `id:` line, where there is one: what `Last-Event-ID` takes.",
            ));
        let data = ObjectBuilder::new()
            .schema_type(SchemaType::new(Type::String))
            .content_media_type("application/json")
            .content_schema(Some(Ref::from_schema_name(self.data.as_ref())))
            .description(Some("The `data:` line."));
        let object = ObjectBuilder::new()
            .property("event", name)
            .property("id", id)
            .property("data", data)
            .required("event")
            .required("data")
            .description(Some(format!(
                "`event: {}`; its data is JSON in one line.",
                self.name
            )));
        RefOr::T(Schema::Object(object.build()))
    }
}

/// The union of some events.
pub(in crate::api) fn union(name: &str, doc: &str, events: &[EventSchema]) -> RefOr<Schema> {
    let mut discriminator = Discriminator::new("event");
    let mut union = OneOfBuilder::new().description(Some(doc.trim()));
    for event in events {
        let reference = Ref::from_schema_name(event.schema_name(name));
        discriminator
            .mapping
            .insert(event.name.to_owned(), reference.ref_location.clone());
        union = union.item(reference);
    }
    RefOr::T(Schema::OneOf(
        union.discriminator(Some(discriminator)).build(),
    ))
}

/// All schemas a union leads to.
pub(in crate::api) fn schemas(
    name: &str,
    events: Vec<EventSchema>,
    all: &mut Vec<(String, RefOr<Schema>)>,
) {
    for event in events {
        all.push((event.schema_name(name), event.schema()));
        all.extend(event.schemas);
    }
}

/// Names the events of a stream, for the document.
macro_rules! event_union {
    ($(#[doc = $doc:literal])* $visibility:vis $name:ident: $($event:literal => $data:ty),+;) => {
        $(#[doc = $doc])*
        $visibility struct $name;

        impl $name {
            fn events() -> Vec<$crate::api::document::events::EventSchema> {
                vec![$($crate::api::document::events::EventSchema::of::<$data>($event)),+]
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $crate::api::document::events::union(
                    stringify!($name), concat!($($doc),*), &Self::events(),
                )
            }
        }

        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn schemas(
                all: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>,
            ) {
                $crate::api::document::events::schemas(stringify!($name), Self::events(), all);
            }
        }
    };
}
pub(in crate::api) use event_union;
