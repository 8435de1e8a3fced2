//! Embeds the `OpenAPI` document of the hub.

#[path = "../agent/build/document.rs"]
mod document;

fn main() -> std::io::Result<()> {
    document::embed("hub-v1.json")
}
