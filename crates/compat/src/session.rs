//! Sessions of ours that are made when they are first named, as some services do.

use sandshell_client::types::{ErrorCode, SessionId, SessionRecord, SessionRequest, SessionState};
use sandshell_client::{Client, ClientError};

/// Whether a call failed only for want of its session, which has been made: then it is to be tried again.
pub(crate) async fn made(
    sandbox: &Client,
    id: &SessionId,
    failure: Option<&ClientError>,
) -> Result<bool, ClientError> {
    if !failure.is_some_and(is_missing) {
        return Ok(false);
    }
    if !is_free(sandbox, id).await? {
        // Somebody else made it meanwhile.
        return Ok(true);
    }
    let request = SessionRequest {
        id: Some(id.clone()),
        ..SessionRequest::default()
    };
    match sandbox.create_session(&request).await {
        Ok(_) => Ok(true),
        // So here, but in another form.
        Err(error) if error.code() == Some(ErrorCode::IdConflict) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Whether no session has this id. One that has ended is forgotten, as it is in the way of the next; of
/// several that see this, one makes the next and the others find it.
pub(crate) async fn is_free(sandbox: &Client, id: &SessionId) -> Result<bool, ClientError> {
    let missing = |error: &ClientError| error.code() == Some(ErrorCode::SessionNotFound);
    match sandbox.session(id).await {
        Ok(there) if there.state != SessionState::Ended => return Ok(false),
        Ok(_) => {}
        Err(error) if missing(&error) => return Ok(true),
        Err(error) => return Err(error),
    }
    match sandbox.delete_session(id).await {
        Err(error) if !missing(&error) => Err(error),
        _ => Ok(true),
    }
}

/// The record of a session, which is made if it is not there.
pub(crate) async fn record(sandbox: &Client, id: &SessionId) -> Result<SessionRecord, ClientError> {
    let record = sandbox.session(id).await;
    if made(sandbox, id, record.as_ref().err()).await? {
        return sandbox.session(id).await;
    }
    record
}

pub(crate) fn is_missing(error: &ClientError) -> bool {
    matches!(
        error.code(),
        Some(ErrorCode::SessionNotFound | ErrorCode::SessionEnded)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::scripted::{Scripted, problem, refusal};

    fn record(state: SessionState) -> (u16, Value) {
        let record = json!({
            "id": "s", "state": state, "cwd": "/", "shell": "/bin/bash", "pid": 7,
            "created_at": "2026-01-01T00:00:00Z", "queue_length": 0, "restores": 0,
        });
        (200, record)
    }

    async fn made_after_its_end(server: &Scripted) -> bool {
        let ended = ClientError::Problem(Box::new(problem(ErrorCode::SessionEnded)));
        let id = "s".parse().unwrap();
        made(&server.client, &id, Some(&ended)).await.unwrap()
    }

    #[tokio::test]
    async fn one_that_somebody_else_made_stays() {
        let mut server = Scripted::new([record(SessionState::Idle)]);
        assert!(made_after_its_end(&server).await);
        assert_eq!(server.methods(), ["GET"]);
    }

    #[tokio::test]
    async fn what_somebody_else_did_is_done() {
        let mut server = Scripted::new([
            record(SessionState::Ended),
            refusal(ErrorCode::SessionNotFound),
            refusal(ErrorCode::IdConflict),
        ]);
        assert!(made_after_its_end(&server).await);
        assert_eq!(server.methods(), ["GET", "DELETE", "POST"]);
    }
}
